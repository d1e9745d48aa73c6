//! What candidates leave behind: a line for each sample, in a file that outlives them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use tenure_core::FencingToken;
use tenure_core::clock::Moment;

/// Writes stamps. Each line at once: the process may be killed after any of them.
pub struct Stamper {
    file: File,
}

impl Stamper {
    pub fn open(path: &str) -> Self {
        Self { file: File::options().append(true).open(path).unwrap() }
    }

    /// The permission of a term was there at some instant between two moments.
    pub fn leads(&self, token: FencingToken, before: Moment, after: Moment) {
        self.line(&format!("leads {token} {} {}", before.boot().as_nanos(), after.boot().as_nanos()));
    }

    /// There was no permission.
    pub fn follows(&self, at: Moment) {
        self.line(&format!("follows {}", at.boot().as_nanos()));
    }

    /// The fence refused a write.
    pub fn refused(&self, token: FencingToken) {
        self.line(&format!("refused {token}"));
    }

    fn line(&self, line: &str) {
        (&self.file).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// One term as its stamps show it. Times are those of the boot clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub holder: String,
    pub token: FencingToken,
    /// It had permission at `from` or before: the moment after its first sample.
    pub from: Duration,
    /// It had permission at `to` or later: the moment before its last sample.
    pub to: Duration,
    pub samples: u64,
}

/// The stamps of one process, read as they come.
pub struct Track {
    holder: String,
    path: PathBuf,
    file: File,
    /// A line that is not whole yet.
    rest: String,
    terms: BTreeMap<FencingToken, Term>,
    /// The last stamp of any kind.
    last: Duration,
    refused: u64,
}

impl Track {
    /// Makes the file for a process that is started next.
    pub fn new(holder: String, path: PathBuf) -> Self {
        File::create_new(&path).unwrap();
        let file = File::open(&path).unwrap();
        let (rest, terms) = (String::new(), BTreeMap::new());
        Self { holder, path, file, rest, terms, last: Duration::ZERO, refused: 0 }
    }

    pub fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Reads what has come since the last look.
    pub fn look(&mut self) {
        self.file.read_to_string(&mut self.rest).unwrap();
        let Some(end) = self.rest.rfind('\n') else { return };
        let rest = self.rest.split_off(end + 1);
        for line in std::mem::replace(&mut self.rest, rest).lines() {
            self.take(line);
        }
    }

    fn take(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        let token = |text: &str| FencingToken(text.parse().unwrap());
        let time = |text: &str| Duration::from_nanos(text.parse().unwrap());
        match words.as_slice() {
            ["leads", of, before, after] => {
                let (token, before, after) = (token(of), time(before), time(after));
                let holder = || self.holder.clone();
                let first = || Term { holder: holder(), token, from: after, to: before, samples: 0 };
                let term = self.terms.entry(token).or_insert_with(first);
                term.to = before;
                term.samples += 1;
                self.last = after;
            }
            ["follows", at] => self.last = time(at),
            ["refused", _] => self.refused += 1,
            _ => panic!("not a stamp: {line:?}"),
        }
    }

    pub fn terms(&self) -> impl Iterator<Item = &Term> {
        self.terms.values()
    }

    pub fn last(&self) -> Duration {
        self.last
    }

    pub fn refused(&self) -> u64 {
        self.refused
    }
}
