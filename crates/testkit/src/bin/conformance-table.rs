//! Prints the store × property table of the last conformance runs, and holds it against the snapshot.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use tenure_testkit::conformance::table;

const USAGE: &str = "\
usage: conformance-table [--update] [--allow-missing]

Prints what the last conformance run of each store showed, and fails if it differs from the snapshot.
  --update          writes the snapshot anew
  --allow-missing   says nothing about stores of the snapshot that were not run
";

/// The snapshot in the crate's own folder; cargo says where that is, else it is sought from the workspace's root.
fn snapshot_file() -> PathBuf {
    let folder =
        env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("crates/testkit"), PathBuf::from);
    folder.join("conformance.snapshot")
}

fn main() -> ExitCode {
    let (mut update, mut allow_missing) = (false, false);
    for argument in env::args().skip(1) {
        match argument.as_str() {
            "--update" => update = true,
            "--allow-missing" => allow_missing = true,
            _ => {
                eprint!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    match run(update, allow_missing) {
        Ok(differences) if differences.is_empty() => ExitCode::SUCCESS,
        Ok(differences) => {
            for difference in differences {
                eprintln!("{difference}");
            }
            eprintln!("hint: look at each difference; if it is meant, run with --update");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            eprintln!("hint: run the conformance tests first");
            ExitCode::FAILURE
        }
    }
}

fn run(update: bool, allow_missing: bool) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let directory = table::report_directory().ok_or("there is no target directory with reports")?;
    let reports = table::read_reports(&directory)?;
    print!("{}", table::draw(&reports));
    let mut snapshot = fs::read_to_string(snapshot_file()).unwrap_or_default();
    if update {
        snapshot = table::snapshot(&reports, &snapshot);
        fs::write(snapshot_file(), &snapshot)?;
    }
    Ok(table::differences(&reports, &snapshot, allow_missing))
}
