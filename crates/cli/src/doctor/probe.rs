//! The store, tried out in an election of its own.

use std::cell::Cell;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{join_all, try_join};
use tenure::clock::{Clock, Moment};
use tenure::store::{
    Acquisition, Bid, Change, ErrorKind, Lease, LeaseRecord, LeaseStore, Next, Origin, RecordState, Release,
    Released, Renew, Renewal, StoreError, Wake,
};
use tenure::{
    Attempt, BidId, CandidateId, ClockExt, ElectionName, FencingToken, Random, StoreUrl, SystemClock,
};

use super::{Finding, Report, Verdict, fine};
use crate::args::DoctorArgs;
use crate::show::words;
use crate::{duration, talk};

/// Always the same one, so that there is never more than one record of it.
pub(super) const SCRATCH: &str = "tenure-doctor";

/// Terms that are begun and ended to measure.
const TERMS: usize = 20;

/// Rounds in which everybody bids at once …
const CONTESTS: usize = 10;
/// … through so many connections of their own …
const WAYS: usize = 4;
/// … with so many bids each.
const BIDS: usize = 2;

/// How often something happens that can be heard of.
const STIR: Duration = Duration::from_millis(100);

/// A renewal may be tried so often before it is too late (ttl / 3 / 2 for a call), and this much slower than the slowest
/// call that was seen, before a leader loses its term for that.
const ROOM: u32 = 60;

/// What people write.
const ROUND_TTLS: [u64; 10] = [2, 5, 10, 15, 30, 60, 120, 300, 600, 900];

/// What is used if nobody says otherwise.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// A store that is tried out.
struct Probe {
    store: Arc<dyn LeaseStore>,
    election: ElectionName,
    random: Random,
    limit: Duration,
    /// How long each call took.
    took: Vec<Duration>,
}

/// Why the trial ends here.
enum Halt {
    Failed(StoreError),
    /// The scratch election is not to be had.
    Refused(Box<LeaseRecord>),
    /// The store broke its word.
    Broken(&'static str, String),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

pub(super) async fn store(url: &StoreUrl, args: &DoctorArgs, report: &mut Report) {
    let opened = if args.read_only { url.open_to_read() } else { url.open() };
    let store = match opened {
        Ok(store) => store,
        Err(error) => return report.add(failed("store", &error)),
    };
    report.guarantees = Some(store.guarantees());
    let election = match ElectionName::new(SCRATCH) {
        Ok(election) => election,
        Err(error) => return report.add(Finding::new("store", Verdict::Bad, error.to_string())),
    };
    let (random, limit) = (Random::from_os(), args.read.call_timeout);
    let mut probe = Probe { store, election, random, limit, took: Vec::new() };
    match probe.read().await {
        Ok(_) => report.add(Finding::new("reach", Verdict::Good, format!("{url} answers"))),
        Err(error) => return report.add(failed("reach", &error)),
    }
    if args.read_only {
        let text = "not tried: --read-only makes no bid";
        return report.add(Finding::new("permission", Verdict::Noted, text));
    }
    let ways: Result<Vec<_>, _> = (0..WAYS).map(|_| url.open()).collect();
    let tried = match ways {
        Ok(ways) => probe.try_out(&ways, report).await,
        Err(error) => Err(error.into()),
    };
    if let Err(halt) = tried {
        report.add(probe.stopped(halt));
    }
    probe.judge_times(report);
}

/// Says what an error means, and what to do.
fn failed(check: &'static str, error: &StoreError) -> Finding {
    let finding = Finding::new(check, Verdict::Bad, talk::chain(error as &dyn Error));
    match error.kind() {
        ErrorKind::Denied => finding.hint("give this user the permissions that the store's page lists"),
        ErrorKind::Timeout | ErrorKind::Unavailable => {
            finding.hint("is the address right, and does the way there let these connections through?")
        }
        _ => finding,
    }
}

impl Probe {
    /// Tries everything; `ways` are other connections to the same store.
    async fn try_out(&mut self, ways: &[Arc<dyn LeaseStore>], report: &mut Report) -> Result<(), Halt> {
        self.permission(report).await?;
        self.atomic(ways, report).await?;
        self.notifications(&ways[0], report).await
    }

    /// A whole term, again and again: every verb is allowed and does what it says.
    async fn permission(&mut self, report: &mut Report) -> Result<(), Halt> {
        let mut last = FencingToken::ZERO;
        for _ in 0..TERMS {
            let lease = self.acquire(&Arc::clone(&self.store)).await?;
            if lease.token <= last {
                let text = format!("token {} came after {last}", lease.token);
                return Err(Halt::Broken("tokens", text));
            }
            last = lease.token;
            let lease = self.renew(lease).await?;
            self.release(lease).await?;
        }
        let text = "this user may bid, renew and release";
        report.add(Finding::new("permission", Verdict::Good, text));
        Ok(())
    }

    /// Of many bids at the same time one wins, and its token is above all before.
    async fn atomic(&mut self, ways: &[Arc<dyn LeaseStore>], report: &mut Report) -> Result<(), Halt> {
        let mut last = FencingToken::ZERO;
        let mut decided = 0;
        for _ in 0..CONTESTS {
            let bids: Vec<_> =
                ways.iter().flat_map(|way| (0..BIDS).map(|_| (Arc::clone(way), self.bid()))).collect();
            let contest = bids.iter().map(|(way, bid)| {
                let call = way.acquire(&self.election, bid);
                within(self.limit, way, "acquire", call)
            });
            let mut winners = Vec::new();
            for answer in join_all(contest).await {
                match answer {
                    Ok(Acquisition::Acquired(lease)) => winners.push(lease),
                    Ok(Acquisition::Refused(_)) => {}
                    // Whoever lost to so many others may hear that, too.
                    Err(error) if error.kind() == ErrorKind::Conflict => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let first = winners.pop();
            if !winners.is_empty() {
                let text = format!("{} of {} bids at the same time won", winners.len() + 1, bids.len());
                return Err(Halt::Broken("atomic", text));
            }
            let Some(lease) = first else { continue };
            if lease.token <= last {
                return Err(Halt::Broken("tokens", format!("token {} came after {last}", lease.token)));
            }
            (last, decided) = (lease.token, decided + 1);
            self.release(lease).await?;
        }
        let bids = WAYS * BIDS;
        let text =
            format!("{bids} bids at the same time, {decided} times: one won, with a higher token each time");
        report.add(Finding::new("atomic", Verdict::Good, text));
        Ok(())
    }

    /// Somebody who waits hears of a release.
    async fn notifications(
        &mut self,
        listener: &Arc<dyn LeaseStore>,
        report: &mut Report,
    ) -> Result<(), Halt> {
        if let Wake::Look(interval) = self.store.guarantees().wake {
            let text = format!("none: followers look every {}", duration::show(interval));
            report.add(Finding::new("notifications", Verdict::Noted, text));
            return Ok(());
        }
        let Some(mut changes) = listener.watch(std::slice::from_ref(&self.election)) else {
            let text = "none, although this store has them";
            report.add(Finding::new("notifications", Verdict::Doubtful, text));
            return Ok(());
        };
        let before = self.read().await?.map_or(FencingToken::ZERO, |record| record.token);
        let heard = async {
            while let Some(change) = changes.next().await {
                if matches!(change, Change::Record(record) if record.token > before) {
                    return true;
                }
            }
            false
        };
        // Nobody says when listening has begun: there is something to hear until then.
        let (limit, is_heard) = (self.limit, Cell::new(None));
        let listen = async {
            is_heard.set(Some(within_or_none(limit, heard).await == Some(true)));
            Ok(())
        };
        let stir = async {
            let store = Arc::clone(&self.store);
            while is_heard.get().is_none() {
                let lease = self.acquire(&store).await?;
                self.release(lease).await?;
                SystemClock.sleep(STIR).await;
            }
            Ok::<_, Halt>(())
        };
        try_join(listen, stir).await?;
        report.add(match is_heard.get() {
            Some(true) => Finding::new("notifications", Verdict::Good, "whoever waits hears of every change"),
            _ => Finding::new(
                "notifications",
                Verdict::Doubtful,
                format!("nothing was heard of within {}", duration::show(self.limit)),
            )
            .hint("followers still take over, by their timers; may this user subscribe?"),
        });
        Ok(())
    }

    /// What the calls took, and which ttl leaves enough room for that.
    fn judge_times(&mut self, report: &mut Report) {
        self.took.sort_unstable();
        let (Some(slowest), Some(half)) = (self.took.last(), self.took.get(self.took.len() / 2)) else {
            return;
        };
        let least = (*slowest * ROOM).max(self.store.guarantees().min_ttl);
        let ttl = ROUND_TTLS.iter().map(|secs| Duration::from_secs(*secs)).find(|ttl| *ttl >= least);
        let ttl = ttl.unwrap_or(least);
        let seen = format!("{}, the slowest of {} calls {}", fine(*half), self.took.len(), fine(*slowest));
        let shown = duration::show(ttl);
        report.add(if ttl <= DEFAULT_TTL {
            let text = format!("{seen}: a ttl of {shown} or more will do (the default is 30s)");
            Finding::new("round trip", Verdict::Good, text)
        } else {
            let text = format!("{seen}: the default ttl of 30s is short for that");
            Finding::new("round trip", Verdict::Doubtful, text).hint(format!("--ttl {shown}"))
        });
        (report.round_trip, report.recommended_ttl) = (Some(*half), Some(ttl));
    }

    /// Says why the trial ended early.
    fn stopped(&self, halt: Halt) -> Finding {
        let record = match halt {
            Halt::Failed(error) => return failed("permission", &error),
            Halt::Broken(check, text) => {
                return Finding::new(check, Verdict::Bad, text)
                    .hint("this store does not do what leases need: two could lead");
            }
            Halt::Refused(record) => record,
        };
        let time = duration::brief(record.opens_in.unwrap_or_default());
        let (text, hint) = match &record.state {
            RecordState::Recovering => (
                format!("nobody is elected here for another {time}: {}", words::RECOVERING),
                "ask again then",
            ),
            RecordState::Paused => {
                (format!("the election {SCRATCH:?} is paused for {time}"), "is that meant? ask again then")
            }
            _ => (
                format!("somebody else holds the election {SCRATCH:?}"),
                "another doctor is at work: ask again",
            ),
        };
        Finding::new("permission", Verdict::Doubtful, text).hint(hint)
    }

    fn bid(&self) -> Bid {
        let id = BidId::new(&self.random);
        Bid {
            id,
            attempt: Attempt::new(&self.random),
            open: Vec::new(),
            candidate: doctor(&self.random),
            identity: None,
            origin: Origin::default(),
            ttl: self.store.guarantees().min_ttl.max(Duration::from_secs(5)),
            metadata: [("purpose".to_owned(), "tenure doctor".to_owned())].into(),
            floor: FencingToken::ZERO,
            supersedes: None,
        }
    }

    async fn read(&mut self) -> Result<Option<LeaseRecord>, StoreError> {
        let store = Arc::clone(&self.store);
        within(self.limit, &store, "read", store.read(&self.election)).await
    }

    async fn acquire(&mut self, store: &Arc<dyn LeaseStore>) -> Result<Lease, Halt> {
        let bid = self.bid();
        let begin = SystemClock.now();
        let answer = within(self.limit, store, "acquire", store.acquire(&self.election, &bid)).await?;
        self.note(begin);
        match answer {
            Acquisition::Acquired(lease) => Ok(lease),
            Acquisition::Refused(record) => Err(Halt::Refused(record)),
        }
    }

    async fn renew(&mut self, lease: Lease) -> Result<Lease, Halt> {
        let renewal = Renew { lease, attempt: Attempt::new(&self.random), open: Vec::new(), answer: None };
        let store = Arc::clone(&self.store);
        let begin = SystemClock.now();
        let call = async { store.renew(std::slice::from_ref(&renewal)).await.pop().transpose() };
        let answer = within(self.limit, &store, "renew", call).await?;
        self.note(begin);
        match answer {
            Some(Renewal::Renewed(lease, _)) => Ok(lease),
            _ => Err(Halt::Broken("renewal", "a lease that was just granted was lost".into())),
        }
    }

    async fn release(&mut self, lease: Lease) -> Result<(), Halt> {
        let release = Release {
            lease,
            attempt: Attempt::new(&self.random),
            open: Vec::new(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
        };
        let store = Arc::clone(&self.store);
        let begin = SystemClock.now();
        let answer = within(self.limit, &store, "release", store.release(&release)).await?;
        self.note(begin);
        match answer {
            Released::Released => Ok(()),
            Released::NotHeld => Err(Halt::Broken("release", "a lease that was just held was gone".into())),
        }
    }

    fn note(&mut self, begin: Moment) {
        self.took.push(SystemClock.now().time_since(begin));
    }
}

/// A candidate that everybody recognises for what it is.
fn doctor(random: &Random) -> CandidateId {
    let name = format!("tenure-doctor_{}", BidId::new(random));
    CandidateId::new(&name).unwrap_or_else(|_| unreachable!("{name:?} is a name"))
}

async fn within<T>(
    limit: Duration,
    store: &Arc<dyn LeaseStore>,
    operation: &'static str,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    within_or_none(limit, call).await.unwrap_or_else(|| {
        let message = format!("no answer within {}", duration::show(limit));
        Err(StoreError::new(ErrorKind::Timeout, store.guarantees().store, operation, message))
    })
}

async fn within_or_none<T>(limit: Duration, call: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        answer = call => Some(answer),
        () = SystemClock.sleep(limit) => None,
    }
}

#[cfg(test)]
mod tests {
    use tenure::MemoryStore;

    use super::*;

    fn probe(store: Arc<dyn LeaseStore>) -> Probe {
        let election = ElectionName::new(SCRATCH).unwrap();
        let limit = Duration::from_secs(30);
        Probe { store, election, random: Random::from_os(), limit, took: Vec::new() }
    }

    #[tokio::test]
    async fn a_store_that_lets_several_win_is_found() {
        let (one, other): (Arc<dyn LeaseStore>, Arc<dyn LeaseStore>) =
            (Arc::new(MemoryStore::new()), Arc::new(MemoryStore::new()));
        let mut report = Report::default();
        let same = vec![Arc::clone(&one); WAYS];
        assert!(probe(Arc::clone(&one)).try_out(&same, &mut report).await.is_ok());
        assert!(report.is_healthy() && report.findings.len() == 3, "{report:?}");

        let split = [Arc::clone(&one), other];
        let mut probe = probe(one);
        let halt = probe.atomic(&split, &mut report).await.unwrap_err();
        let found = probe.stopped(halt);
        assert_eq!((found.check, found.verdict), ("atomic", Verdict::Bad), "{found:?}");
        assert!(found.text.contains("2 of 4 bids"), "{found:?}");
    }

    #[test]
    fn the_ttl_leaves_room_for_the_slowest_call() {
        for (slowest_ms, ttl_s, verdict) in [
            (1, 2, Verdict::Good),
            (100, 10, Verdict::Good),
            (900, 60, Verdict::Doubtful),
            (60_000, 3600, Verdict::Doubtful),
        ] {
            let mut probe = probe(Arc::new(MemoryStore::new()));
            probe.took = vec![Duration::from_millis(slowest_ms), Duration::from_millis(1)];
            let mut report = Report::default();
            probe.judge_times(&mut report);
            assert_eq!(report.recommended_ttl, Some(Duration::from_secs(ttl_s)));
            assert_eq!(report.findings[0].verdict, verdict);
        }
    }
}
