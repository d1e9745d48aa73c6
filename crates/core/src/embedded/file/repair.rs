//! Mending an election whose record cannot be understood.

use super::directory::Inner;
use super::failure::failure;
use super::layout::{number_name, numbers_in};
use super::records::{Stored, corrupt};
use crate::name::{Attempt, ElectionName};
use crate::store::record::Record;
use crate::store::versioned::Written;
use crate::store::{ErrorKind, StoreError};
use crate::token::FencingToken;

/// What a repair found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// The record can be understood, or there is none: nothing was changed.
    Sound,
    /// The election is free; its next token will be above this one.
    Mended(FencingToken),
}

impl Inner {
    pub(super) fn repair(&self, election: &ElectionName) -> Result<Repaired, StoreError> {
        self.life("repair")?;
        self.must_be_in_place("repair")?;
        let folder = self.layout.election(election);
        let Some((number, path, content)) = self.newest(&folder)? else {
            return Ok(Repaired::Sound);
        };
        if token_in(election, &content).is_some() {
            return Ok(Repaired::Sound);
        }
        // No token above the ceiling was ever granted. Should the ceiling have been removed, what can still be read of
        // the records is the next best.
        let mut token = self.ceilings.read(election)?;
        let numbers = numbers_in(&folder).map_err(|error| failure("repair", "look into", &folder, error))?;
        for number in numbers {
            let content = std::fs::read(folder.join(number_name(number)));
            token = token.max(content.ok().and_then(|content| token_in(election, &content)).unwrap_or(0));
        }
        let token = FencingToken(token);
        self.ceilings.cover(election, token)?;
        // By the ordinary way, as the next record: whoever mends at the same time or renews is first or second.
        let record = Record::vacant(election, token, Attempt::new(&self.random));
        let Some(next) = number.checked_add(1) else {
            let why = "its number is the last one there is: remove the file by hand";
            return Err(corrupt("repair", election, &path, why));
        };
        match self.commit(&folder, next, 0, record.encode())? {
            Written::Written(_) => Ok(Repaired::Mended(token)),
            Written::Conflict => Err(StoreError::new(
                ErrorKind::Conflict,
                super::failure::STORE,
                "repair",
                format!(
                    "somebody else wrote the record of election {:?} at the same time: look at it again",
                    election.as_str()
                ),
            )),
        }
    }
}

fn token_in(election: &ElectionName, content: &[u8]) -> Option<u64> {
    let stored = Stored::decode(content).ok()?;
    Some(Record::decode(election, &stored.bytes).ok()?.token().0)
}
