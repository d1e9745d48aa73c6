//! Benchmarks of Tenure: `tenure-bench -- core|redis|run [--check]`.

mod core;
mod figures;
mod machine;
mod many;
mod redis;
mod run;
mod worker;

use std::process::ExitCode;

use figures::Figures;

const USAGE: &str = "\
usage: tenure-bench -- core|redis|run [--check] [--json] [--only NAME]

  core      check(), memory and file store, handover and failover between processes, 100,000 elections
  redis     Redis against its bare client and rslock: verbs, handover, crash, requests, 100,000 elections
  run       `tenure run` against a bare spawn: start, takeover, wake-ups and memory of an idle wrapper
  --check   compare with crates/bench/limits.toml, exit 1 beyond a limit
  --json    print the figures as one JSON object
  --only    run the parts whose name begins with NAME: check, memory, file, many; many_10k, many_100k,
            verbs, handover, followers, crash, requests; start, takeover, idle
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words == ["command"] {
        run::command();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("tenure-bench: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    match words.split_first() {
        Some((&"worker", rest)) => runtime.block_on(worker::run(rest)),
        Some((&section @ ("core" | "redis" | "run"), options)) => match Options::parse(options) {
            Some(options) => runtime.block_on(bench(section, &options)),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

struct Options {
    check: bool,
    json: bool,
    only: String,
}

impl Options {
    fn parse(words: &[&str]) -> Option<Self> {
        let mut options = Self { check: false, json: false, only: String::new() };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--check" => options.check = true,
                "--json" => options.json = true,
                "--only" => options.only = (*words.next()?).to_owned(),
                _ => return None,
            }
        }
        Some(options)
    }
}

async fn bench(section: &str, options: &Options) -> ExitCode {
    let mut figures = Figures::default();
    let measured = match section {
        "redis" => redis::run(&mut figures, &options.only).await,
        "run" => run::run(&mut figures, &options.only).map_err(Into::into),
        _ => core::run(&mut figures, &options.only).await,
    };
    if let Err(error) = measured {
        eprintln!("tenure-bench: {error}");
        return ExitCode::FAILURE;
    }
    if options.json {
        println!("{}", figures.json());
    }
    if options.check && !figures.within_limits(section, options.only.is_empty()) {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
