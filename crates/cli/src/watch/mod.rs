//! `tenure watch`: every change, one line each.

mod event;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;
use tenure::store::{Change, Changes, ErrorKind, LeaseRecord, StoreError, Wake};
use tenure::{Clock, ElectionName, Moment};

use self::event::Event;
use crate::args::WatchArgs;
use crate::reading::{self, Failure, Output, Reader, Verdict};
use crate::show::{json, time};
use crate::{duration, talk};

/// How often to look for new elections, for readers that have gone, and at what nobody announces.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long after the predicted end of a lease it is looked at.
const AFTER: Duration = Duration::from_millis(1);

pub(crate) fn main(args: &WatchArgs) -> ExitCode {
    reading::answer(&args.read, &args.elections, async |reader, output| {
        let mut watching = Watching::begin(reader, args).await?;
        watching.first_lines(output).await?;
        loop {
            let rung = watching.wait().await;
            watching.act(rung, output).await?;
            if reader_is_gone(output) {
                return Ok(Verdict::Yes);
            }
        }
    })
}

/// Why it is time to look.
enum Rung {
    /// The store tells of this election.
    Changed(ElectionName),
    /// Changes may come unannounced.
    Gap,
    /// A lease or a pause should have ended.
    Due,
    /// An interval is over.
    Tick,
}

/// What was last seen of an election.
struct Seen {
    /// `None` while nobody has written a record.
    record: Option<LeaseRecord>,
    /// When it should change without anybody writing.
    due: Moment,
}

struct Watching<'a> {
    reader: &'a Reader,
    json: bool,
    /// New elections are watched, too.
    all: bool,
    seen: BTreeMap<ElectionName, Seen>,
    changes: Option<Changes>,
    /// Changes may come unannounced: everything is looked at each interval.
    looking: bool,
    said_looking: bool,
    interval: Duration,
    tick: Moment,
    /// What the store said last instead of an answer: of an election, or of all of them.
    troubles: BTreeMap<Option<ElectionName>, String>,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(serialize_with = "json::rfc_3339")]
    at: SystemTime,
    election: &'a ElectionName,
    #[serde(flatten)]
    event: &'a Event,
}

impl<'a> Watching<'a> {
    async fn begin(reader: &'a Reader, args: &WatchArgs) -> Result<Self, Failure> {
        let all = args.elections.is_empty();
        let names = if all { reader.list("").await? } else { args.elections.clone() };
        if all && names.is_empty() {
            reader.say_nothing("no elections; waiting for the first");
        }
        let interval = match reader.store.guarantees().wake {
            Wake::Push => INTERVAL,
            Wake::Look(interval) => interval,
        };
        let unseen = || Seen { record: None, due: Moment::FAR };
        let mut watching = Self {
            reader,
            json: args.read.json,
            all,
            seen: names.into_iter().map(|name| (name, unseen())).collect(),
            changes: None,
            looking: false,
            said_looking: false,
            interval,
            tick: reader.clock.now().plus(interval),
            troubles: BTreeMap::new(),
        };
        watching.watch_all();
        Ok(watching)
    }

    /// Begins to listen, before anything is looked at: what happens in between rings.
    fn watch_all(&mut self) {
        let names: Vec<_> = self.seen.keys().cloned().collect();
        self.changes = if names.is_empty() { None } else { self.reader.store.watch(&names) };
        self.looking = false;
        if self.changes.is_none() && !names.is_empty() {
            self.look_from_now_on();
        }
    }

    fn look_from_now_on(&mut self) {
        self.looking = true;
        if !self.said_looking {
            self.said_looking = true;
            let interval = duration::show(self.interval);
            talk::say(&format!("not every change is announced here: looking every {interval}"));
        }
    }

    /// Writes the present state of every election; a store that gives no answer now ends the command, a
    /// broken record does not.
    async fn first_lines(&mut self, output: &mut Output) -> Result<(), Failure> {
        let names: Vec<_> = self.seen.keys().cloned().collect();
        self.find_all(&names, output, |error| error.kind() == ErrorKind::Corrupt).await
    }

    async fn find_all(
        &mut self,
        names: &[ElectionName],
        output: &mut Output,
        bearable: impl Fn(&StoreError) -> bool,
    ) -> Result<(), Failure> {
        for (election, answer) in self.reader.read_all(names).await {
            match answer {
                Ok(record) => self.find(&election, record, output)?,
                Err(error) if bearable(&error) => self.tell_trouble(Some(election), &error),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn find(
        &mut self,
        election: &ElectionName,
        record: Option<LeaseRecord>,
        output: &mut Output,
    ) -> io::Result<()> {
        let found = event::found(record.as_ref());
        self.note(election, record);
        self.write(election, &[found], output)
    }

    fn note(&mut self, election: &ElectionName, record: Option<LeaseRecord>) {
        let ends = record.as_ref().and_then(|record| {
            let pause = record.pause.as_ref().map(|pause| pause.ends_in);
            record.time_left.into_iter().chain(pause).min()
        });
        let due = ends.map_or(Moment::FAR, |ends| self.reader.clock.now().plus(ends.saturating_add(AFTER)));
        self.seen.insert(election.clone(), Seen { record, due });
        self.troubles.remove(&Some(election.clone()));
    }

    async fn wait(&mut self) -> Rung {
        let due = self.seen.values().map(|seen| seen.due).fold(Moment::FAR, Moment::earlier_of);
        let clock = &self.reader.clock;
        tokio::select! {
            biased;
            change = next(self.changes.as_mut()) => match change {
                Some(Change::Record(record)) => Rung::Changed(record.election),
                Some(Change::Gap) => Rung::Gap,
                None => {
                    self.changes = None;
                    Rung::Gap
                }
            },
            () = clock.sleep_until(due) => Rung::Due,
            () = clock.sleep_until(self.tick) => Rung::Tick,
        }
    }

    async fn act(&mut self, rung: Rung, output: &mut Output) -> Result<(), Failure> {
        let now = self.reader.clock.now();
        match rung {
            // What came along may be older than what was seen since: one way of looking, one order.
            Rung::Changed(election) => self.look(&[election], output).await,
            Rung::Due => {
                let due = self.seen.iter().filter(|(_, seen)| seen.due.has_passed(now));
                let names: Vec<_> = due.map(|(name, _)| name.clone()).collect();
                self.look(&names, output).await
            }
            Rung::Gap => {
                self.look_from_now_on();
                self.look_at_all(output).await
            }
            Rung::Tick => {
                self.tick = now.plus(self.interval);
                if self.all {
                    self.look_for_new(output).await?;
                }
                if self.looking { self.look_at_all(output).await } else { Ok(()) }
            }
        }
    }

    async fn look_for_new(&mut self, output: &mut Output) -> Result<(), Failure> {
        let names = match self.reader.list("").await {
            Ok(names) => names,
            Err(Failure::Store(error)) => {
                self.tell_trouble(None, &error);
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        self.troubles.remove(&None);
        let new: Vec<_> = names.into_iter().filter(|name| !self.seen.contains_key(name)).collect();
        if new.is_empty() {
            return Ok(());
        }
        for election in &new {
            self.seen.insert(election.clone(), Seen { record: None, due: self.tick });
        }
        self.watch_all();
        self.find_all(&new, output, |_| true).await
    }

    async fn look_at_all(&mut self, output: &mut Output) -> Result<(), Failure> {
        let names: Vec<_> = self.seen.keys().cloned().collect();
        self.look(&names, output).await
    }

    async fn look(&mut self, elections: &[ElectionName], output: &mut Output) -> Result<(), Failure> {
        let mut first_record = false;
        for (election, answer) in self.reader.read_all(elections).await {
            let Some(before) = self.seen.get_mut(&election) else { continue };
            let now = match answer {
                Ok(now) => now,
                Err(error) => {
                    before.due = self.tick;
                    self.tell_trouble(Some(election), &error);
                    continue;
                }
            };
            let events = event::between(before.record.as_ref(), now.as_ref());
            first_record |= before.record.is_none() && now.is_some();
            self.note(&election, now);
            self.write(&election, &events, output)?;
        }
        if first_record && self.looking {
            // Now there is something to watch.
            self.watch_all();
        }
        Ok(())
    }

    /// Says once that there is no answer; what is not told now is seen when there is one.
    fn tell_trouble(&mut self, of: Option<ElectionName>, error: &StoreError) {
        let text = talk::chain(error);
        if !self.troubles.values().any(|said| *said == text) {
            talk::error(error);
            talk::hint("looking again until there is an answer");
        }
        self.troubles.insert(of, text);
    }

    fn write(&self, election: &ElectionName, events: &[Event], output: &mut Output) -> io::Result<()> {
        let at = self.reader.clock.wall();
        for event in events {
            if self.json {
                reading::write_json(output, &Line { at, election, event })?;
            } else {
                writeln!(output, "{} {election}: {event}", time::seconds(at))?;
            }
        }
        // Each line at once: somebody waits for it.
        if events.is_empty() { Ok(()) } else { output.flush() }
    }
}

async fn next(changes: Option<&mut Changes>) -> Option<Change> {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}

/// Tells whether nobody reads the output any more, also while there is nothing to write: `tenure watch | head -1`.
fn reader_is_gone(output: &Output) -> bool {
    let mut ends = [PollFd::new(output.get_ref(), PollFlags::empty())];
    let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = rustix::event::poll(&mut ends, Some(&at_once));
    polled.is_ok() && ends[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}
