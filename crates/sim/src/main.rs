//! The simulation as a command; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match tenure_sim::cli::main(&words) {
        Ok((text, code)) => {
            print!("{text}");
            ExitCode::from(code)
        }
        Err(message) => {
            eprintln!("tenure-sim: {message}\n{}", tenure_sim::cli::USAGE);
            ExitCode::from(2)
        }
    }
}
