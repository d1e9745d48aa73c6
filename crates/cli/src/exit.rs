//! Exit codes, as documented in the help.

use std::process::ExitCode;

use clap::error::ErrorKind;

/// Nobody leads, or not the one who was asked about.
pub(crate) const NO: u8 = 1;
/// Usage or configuration.
pub(crate) const USAGE: u8 = 2;
/// The store gives no answer.
pub(crate) const UNAVAILABLE: u8 = 3;
/// `run`: somebody else leads.
pub(crate) const REFUSED: u8 = 75;
/// `run`: leadership was lost.
pub(crate) const LOST: u8 = 124;
/// `run`: tool or store failure.
pub(crate) const FAILURE: u8 = 125;
/// `run`: the command is not executable.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// `run`: the command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// Prints what clap has to say, and tells with which code to exit.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // If nobody reads it there is nobody to tell.
    let _ = error.print();
    let is_run = std::env::args_os().nth(1).is_some_and(|verb| verb == "run");
    if is_run && error.kind() == ErrorKind::UnknownArgument && std::env::args_os().all(|word| word != "--") {
        crate::talk::hint("the command stands after --, as in: tenure run --election NAME -- COMMAND");
    }
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        // A wrapper's own failures must not look like those of the command.
        _ if is_run => ExitCode::from(FAILURE),
        _ => ExitCode::from(USAGE),
    }
}
