//! `tenure __record`: records a successful end for a wrapper that is gone.
//!
//! The guardian starts it when the command ended with success, everything is reaped, and nobody is left to tell the store.

use std::io::Read;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use tenure::store::{LeaseStore, Next, Release, Released};
use tenure::{Attempt, CandidateId, ElectionName, FencingToken, Random, StoreUrl};

use crate::exit;
use crate::talk;

/// Whose end is to be recorded, and where.
#[derive(Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) store: String,
    pub(crate) election: ElectionName,
    pub(crate) candidate: CandidateId,
    pub(crate) token: FencingToken,
}

pub(crate) fn main() -> ExitCode {
    let mut text = String::new();
    let recorded = std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_str::<Ended>(&text).map_err(|error| error.to_string()))
        .and_then(|ended| record(&ended));
    match recorded {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            talk::say(&format!(
                "tenure: the successful end could not be recorded, the command may run again: {error}"
            ));
            ExitCode::from(exit::FAILURE)
        }
    }
}

fn record(ended: &Ended) -> Result<(), String> {
    let store = ended.store.parse::<StoreUrl>().map_err(|error| error.to_string())?;
    let store = store.open().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(release(store.as_ref(), ended))
}

async fn release(store: &dyn LeaseStore, ended: &Ended) -> Result<(), String> {
    let record = store.read(&ended.election).await.map_err(|error| error.to_string())?;
    let lease = record.as_ref().and_then(|record| {
        let holder = record.leader()?;
        let ours = holder.candidate == ended.candidate && record.token == ended.token;
        ours.then(|| record.lease_of(holder.bid)).flatten()
    });
    let lease = lease.ok_or("its lease is gone")?;
    let release = Release {
        lease,
        attempt: Attempt::new(&Random::from_os()),
        open: Vec::new(),
        next: Next::Anybody,
        succeeded: true,
        answer: None,
    };
    match store.release(&release).await.map_err(|error| error.to_string())? {
        Released::Released => Ok(()),
        Released::NotHeld => Err("its lease is gone".into()),
    }
}
