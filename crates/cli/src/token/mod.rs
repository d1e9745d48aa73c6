//! `tenure token`: fencing tokens.

mod check;
mod floor;

use std::process::ExitCode;

use crate::control::args::{TokenArgs, TokenVerb};

pub(crate) fn main(args: &TokenArgs) -> ExitCode {
    match &args.verb {
        TokenVerb::Floor(args) => floor::main(args),
        TokenVerb::Check(args) => check::main(args),
    }
}
