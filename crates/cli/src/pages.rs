//! `tenure completions` and `tenure man`: the command's own description, for shells and for `man`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::{exit, talk};

pub(crate) fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tenure", &mut script);
    written(io::stdout().write_all(&script))
}

pub(crate) fn man(args: &ManArgs) -> ExitCode {
    let Some(folder) = &args.dir else {
        return written(Man::new(Cli::command()).render(&mut io::stdout()));
    };
    written(write_all(folder).map_err(|error| {
        let folder = folder.display();
        io::Error::new(error.kind(), format!("cannot write the pages to {folder}: {error}"))
    }))
}

/// Writes a page for the command and one for each verb.
fn write_all(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut command = Cli::command();
    command.build();
    page(&command, "tenure", folder)?;
    for verb in command.get_subcommands() {
        let name = format!("tenure-{}", verb.get_name());
        page(&verb.clone().name(name.clone()), &name, folder)?;
    }
    Ok(())
}

fn page(command: &Command, name: &str, folder: &Path) -> io::Result<()> {
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    fs::write(folder.join(format!("{name}.1")), text)
}

fn written(result: io::Result<()>) -> ExitCode {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            talk::error(&error);
            ExitCode::from(exit::USAGE)
        }
        _ => ExitCode::SUCCESS,
    }
}
