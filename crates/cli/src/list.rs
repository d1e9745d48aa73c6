//! `tenure list`: the elections of a store.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use tenure::ElectionName;

use crate::args::ListArgs;
use crate::reading::{self, Verdict};

#[derive(Serialize)]
struct List {
    elections: Vec<ElectionName>,
}

pub(crate) fn main(args: &ListArgs) -> ExitCode {
    reading::answer(&args.read, &[], async |reader, output| {
        let elections = reader.list(&args.prefix).await?;
        if elections.is_empty() && args.prefix.is_empty() {
            reader.say_nothing("no elections");
        } else if elections.is_empty() {
            reader.say_nothing(&format!("no election begins with {:?}", args.prefix));
        }
        if args.read.json {
            reading::write_json(output, &List { elections })?;
            return Ok(Verdict::Yes);
        }
        for election in elections {
            writeln!(output, "{election}")?;
        }
        Ok(Verdict::Yes)
    })
}
