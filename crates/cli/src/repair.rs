//! `tenure repair`: an election is mended whose record cannot be understood.

use std::io::Write;
use std::process::ExitCode;
use std::slice::from_ref;

use serde::Serialize;
use tenure::embedded::Repaired;
use tenure::store::ErrorKind;
use tenure::{ElectionName, FencingToken, FileStore, StoreUrl};

use crate::control::args::RepairArgs;
use crate::reading::{self, Failure, For, Reader, Verdict};
use crate::talk;

#[derive(Serialize)]
struct Told<'a> {
    election: &'a ElectionName,
    repaired: bool,
    token: Option<FencingToken>,
}

pub(crate) fn main(args: &RepairArgs) -> ExitCode {
    let open = || Ok((Reader::open(For::Reading, &args.read, from_ref(&args.election))?, directory(args)?));
    reading::conclude(open, async |(reader, url), output| {
        let election = &args.election;
        let mut told = Told { election, repaired: false, token: None };
        match reader.read(election).await {
            Ok(None) => {
                reader.say_unknown(election);
                if args.read.json {
                    reading::write_json(output, &told)?;
                }
                return Ok(Verdict::No);
            }
            Ok(Some(record)) => told.token = Some(record.token),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let store = open_file(url.clone()).await?;
                if let Repaired::Mended(token) = reader.within("repair", store.repair(election)).await? {
                    told = Told { election, repaired: true, token: Some(token) };
                }
            }
            Err(error) => return Err(error.into()),
        }
        if told.repaired {
            talk::say(
                "whoever led by the broken record may act until its next renewal: only a fence protects what it writes to",
            );
        }
        if args.read.json {
            reading::write_json(output, &told)?;
            return Ok(Verdict::Yes);
        }
        let name = election.as_str();
        match (told.repaired, told.token) {
            (true, Some(token)) => {
                writeln!(
                    output,
                    "mended: election {name:?} is free, and every later token is above {token}"
                )?;
            }
            _ => writeln!(output, "nothing to mend: the record of election {name:?} can be understood")?,
        }
        Ok(Verdict::Yes)
    })
}

/// Returns the URL if it names a directory.
fn directory(args: &RepairArgs) -> Result<StoreUrl, Failure> {
    let url = args.read.store.url(from_ref(&args.election))?;
    if matches!(url, StoreUrl::File { .. }) {
        return Ok(url);
    }
    Err(Failure::Usage {
        message: format!("store {url} is no directory, and this command mends no other"),
        hint: "`tenure status NAME` says what cannot be understood: stop the candidates, mend or remove that with the \
               store's own tools, then give the highest token that you know to `tenure token floor NAME N`",
    })
}

/// Opens the directory on a thread of its own: it does its file work at once.
async fn open_file(url: StoreUrl) -> Result<FileStore, Failure> {
    let opened = tokio::task::spawn_blocking(move || url.open_file()).await;
    match opened {
        Ok(Some(store)) => Ok(store?),
        // A directory was asked for, and opening it does not panic.
        Ok(None) | Err(_) => Err(Failure::Unavailable("the directory could not be opened".into())),
    }
}
