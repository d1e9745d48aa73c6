//! The command `tenure`: any command, on exactly one machine at a time.

mod args;
mod candidates;
mod config;
mod control;
mod demo;
mod doctor;
mod duration;
mod exit;
mod guardian;
mod handoff;
mod history;
mod leader;
mod list;
mod pages;
mod pause;
mod reading;
#[cfg(test)]
mod reference;
mod release;
mod repair;
mod resign;
mod resume;
mod run;
mod show;
mod status;
mod talk;
mod token;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Verb};

fn main() -> ExitCode {
    // The guardian's processes are this program again. They are looked for first: they must stay small.
    if let Some(code) = guardian::main() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error),
    };
    match cli.verb {
        Verb::Run(args) => run::main(&args),
        Verb::Config(args) => config::main(&args),
        Verb::Status(args) => status::main(&args),
        Verb::Watch(args) => watch::main(&args),
        Verb::List(args) => list::main(&args),
        Verb::Leader(args) => leader::main(&args),
        Verb::History(args) => history::main(&args),
        Verb::Doctor(args) => doctor::main(&args),
        Verb::Completions(args) => pages::completions(&args),
        Verb::Man(args) => pages::man(&args),
        Verb::Demo(args) => demo::main(&args),
        Verb::Candidates(args) => candidates::main(&args),
        Verb::Resign(args) => resign::main(&args),
        Verb::Handoff(args) => handoff::main(&args),
        Verb::Pause(args) => pause::main(&args),
        Verb::Resume(args) => resume::main(&args),
        Verb::Release(args) => release::main(&args),
        Verb::Repair(args) => repair::main(&args),
        Verb::Token(args) => token::main(&args),
    }
}
