use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use futures_util::StreamExt;
use tempfile::TempDir;

use super::*;
use crate::clock::ManualClock;
use crate::name::{Attempt, BidId, CandidateId};
use crate::store::{Change, ErrorKind, Lease, Next, Origin, RecordState, TokenOrder};
use crate::token::FencingToken;

const TTL: Duration = Duration::from_secs(30);

fn name(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

fn bid(candidate: &str) -> Bid {
    let random = Random::from_os();
    Bid {
        id: BidId::new(&random),
        attempt: Attempt::new(&random),
        open: Vec::new(),
        candidate: CandidateId::new(candidate).unwrap(),
        identity: None,
        origin: Origin::default(),
        ttl: TTL,
        metadata: BTreeMap::new(),
        floor: FencingToken::ZERO,
        supersedes: None,
    }
}

async fn lead(store: &FileStore, election: &ElectionName, candidate: &str) -> Lease {
    match store.acquire(election, &bid(candidate)).await.unwrap() {
        Acquisition::Acquired(lease) => lease,
        Acquisition::Refused(record) => panic!("refused: {record:?}"),
    }
}

async fn renew(store: &FileStore, lease: &Lease) -> Result<Renewal, StoreError> {
    let renewal = Renew {
        lease: lease.clone(),
        attempt: Attempt::new(&Random::from_os()),
        open: Vec::new(),
        answer: None,
    };
    store.renew(&[renewal]).await.remove(0)
}

async fn renewed(store: &FileStore, lease: &Lease) -> Lease {
    match renew(store, lease).await.unwrap() {
        Renewal::Renewed(lease, _) => lease,
        Renewal::Lost(record) => panic!("lost: {record:?}"),
    }
}

async fn release(store: &FileStore, lease: &Lease) -> Released {
    let release = Release {
        lease: lease.clone(),
        attempt: Attempt::new(&Random::from_os()),
        open: Vec::new(),
        next: Next::Anybody,
        succeeded: false,
        answer: None,
    };
    store.release(&release).await.unwrap()
}

struct World {
    top: TempDir,
    clock: ManualClock,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1000));
        Self { top: tempfile::tempdir().unwrap(), clock }
    }

    fn path(&self) -> PathBuf {
        self.top.path().join("store")
    }

    fn builder(&self) -> FileStoreBuilder {
        FileStore::at(self.path()).clock(Arc::new(self.clock.clone()))
    }

    fn open(&self) -> FileStore {
        self.builder().open().unwrap()
    }
}

fn newest(store: &FileStore, election: &ElectionName) -> PathBuf {
    let inner = &store.leases.inner().inner;
    let folder = inner.layout.election(election);
    inner.newest(&folder).unwrap().unwrap().1
}

#[tokio::test]
async fn a_lease_is_taken_renewed_given_back_and_taken_again_by_another_store_on_the_directory() {
    let world = World::new();
    let (a, b, election) = (world.open(), world.open(), name("größe/ü:*{}"));
    assert!(a.read(&election).await.unwrap().is_none());
    let lease = lead(&a, &election, "a").await;
    assert_eq!(lease.token, FencingToken(1));
    let Acquisition::Refused(record) = b.acquire(&election, &bid("b")).await.unwrap() else {
        panic!("two leaders");
    };
    assert_eq!(record.leader().unwrap().candidate.as_str(), "a");

    world.clock.advance(TTL / 2);
    let lease = renewed(&a, &lease).await;
    assert_eq!(b.read(&election).await.unwrap().unwrap().time_left, Some(TTL));
    assert_eq!(release(&a, &lease).await, Released::Released);
    let next = lead(&b, &election, "b").await;
    assert_eq!(next.token, FencingToken(2));
    assert_eq!(next.previous.as_ref().unwrap().token, FencingToken(1));
    assert_eq!(release(&a, &lease).await, Released::NotHeld);
    assert!(matches!(renew(&a, &lease).await.unwrap(), Renewal::Lost(Some(_))));
}

#[tokio::test]
async fn a_lease_ends_by_the_boot_clock_and_not_before() {
    let world = World::new();
    let (a, b, election) = (world.open(), world.open(), name("a"));
    let lease = lead(&a, &election, "a").await;
    world.clock.advance(TTL - Duration::from_nanos(1));
    assert!(matches!(b.acquire(&election, &bid("b")).await.unwrap(), Acquisition::Refused(_)));
    world.clock.advance(Duration::from_nanos(1));
    assert_eq!(lead(&b, &election, "b").await.token, FencingToken(2));
    assert!(matches!(renew(&a, &lease).await.unwrap(), Renewal::Lost(Some(_))));
}

#[tokio::test]
async fn whoever_is_gone_leads_no_more_and_whoever_lives_is_not_taken_for_dead() {
    let world = World::new();
    let (a, b, election) = (world.open(), world.open(), name("a"));
    lead(&a, &election, "a").await;
    assert!(matches!(b.acquire(&election, &bid("b")).await.unwrap(), Acquisition::Refused(_)));
    let heir = a.life_file().unwrap();
    drop(a);
    assert!(matches!(b.acquire(&election, &bid("b")).await.unwrap(), Acquisition::Refused(_)));
    drop(heir);
    // Whoever opens the store now sweeps the dead away, and their death must not be forgotten with that.
    let c = world.open();
    assert_eq!(b.read(&election).await.unwrap().unwrap().state, RecordState::Free);
    assert_eq!(lead(&c, &election, "c").await.token, FencingToken(2));
}

#[tokio::test]
async fn a_reboot_frees_everything_and_tokens_go_on() {
    let world = World::new();
    let election = name("a");
    let a = world.builder().boot_id("first").open().unwrap();
    let token = lead(&a, &election, "a").await.token;
    let refused = world.builder().boot_id("second").open().unwrap_err();
    assert!(refused.to_string().contains("two boot ids on one directory"), "{refused}");
    renewed(&a, &lead(&a, &name("b"), "a").await).await;

    drop(a);
    let b = world.builder().boot_id("second").open().unwrap();
    assert!(b.read(&election).await.unwrap().is_none());
    let lease = lead(&b, &election, "b").await;
    assert!(lease.token > token, "{lease:?}");
    assert_eq!(lease.previous, None, "nobody can tell who led before");
    drop(b);

    // Nor does a pause, which makes a record without a term, begin the tokens anew.
    let c = world.builder().boot_id("third").open().unwrap();
    let pause = crate::store::Pause { by: "me".into(), ends_in: TTL };
    let operator = c.operator().unwrap();
    operator.pause(&election, Attempt::new(&Random::from_os()), pause).await.unwrap();
    operator.resume(&election, Attempt::new(&Random::from_os())).await.unwrap();
    assert!(lead(&c, &election, "c").await.token > lease.token);
}

#[tokio::test]
async fn every_way_of_losing_the_directory_is_a_loss_and_nobody_begins_anew_in_another() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 5] = [
        ("removed", |path| fs::remove_dir_all(path).unwrap()),
        ("moved", |path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
        }),
        ("replaced", |path| {
            fs::rename(path, path.with_extension("moved")).unwrap();
            drop(FileStore::open(path).unwrap());
        }),
        ("copied over", |path| {
            let copied = std::process::Command::new("cp")
                .args(["-a".as_ref(), path.as_os_str(), path.with_extension("copy").as_os_str()])
                .status();
            assert!(copied.unwrap().success());
            fs::rename(path, path.with_extension("moved")).unwrap();
            fs::rename(path.with_extension("copy"), path).unwrap();
        }),
        ("boot folder removed", |path| {
            fs::remove_dir_all(path.join("boots")).unwrap();
        }),
    ];
    for (how, harm) in harms {
        let world = World::new();
        let (a, election) = (world.open(), name("a"));
        let lease = lead(&a, &election, "a").await;
        harm(&world.path());
        assert!(matches!(renew(&a, &lease).await, Ok(Renewal::Lost(None))), "{how}");
        assert_eq!(release(&a, &lease).await, Released::NotHeld, "{how}");
        a.watch(std::slice::from_ref(&election)).unwrap().next().await;
        a.read(&election).await.unwrap_err();
        let error = a.acquire(&election, &bid("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{how}: {error}");
        if how == "removed" {
            assert!(!world.path().exists(), "it was made again");
        }
        assert!(error.to_string().contains("open the store again"), "{how}: {error}");
        lead(&world.open(), &election, "b").await;
    }
}

#[tokio::test]
async fn a_record_that_was_removed_by_hand_is_a_loss_and_the_next_token_is_higher() {
    let world = World::new();
    let (a, election) = (world.open(), name("a"));
    let lease = lead(&a, &election, "a").await;
    fs::remove_dir_all(newest(&a, &election).parent().unwrap()).unwrap();
    assert!(matches!(renew(&a, &lease).await.unwrap(), Renewal::Lost(None)));
    assert!(lead(&a, &election, "a").await.token > lease.token);
}

#[tokio::test]
async fn a_torn_or_foreign_record_is_corrupt_never_free_and_repair_keeps_the_token() {
    let world = World::new();
    let election = name("größe");
    let (a, b) = (world.open(), world.open());
    let mut last = FencingToken::ZERO;
    let whole = {
        let lease = lead(&a, &election, "a").await;
        let content = fs::read(newest(&a, &election)).unwrap();
        release(&a, &lease).await;
        content
    };
    let cuts = (0..whole.len()).step_by(7).map(|length| whole[..length].to_vec());
    let foreign =
        [b"hello".to_vec(), b"{}".to_vec(), vec![0; whole.len()], [whole.as_slice(), b"\n"].concat()];
    for broken in cuts.chain(foreign) {
        let lease = lead(&a, &election, "a").await;
        assert!(lease.token > last, "{lease:?} after {last}");
        last = lease.token;
        let path = newest(&a, &election);
        fs::write(&path, &broken).unwrap();

        for error in
            [b.acquire(&election, &bid("b")).await.unwrap_err(), b.read(&election).await.unwrap_err()]
        {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("größe") && error.to_string().contains("repaired"), "{error}");
        }
        assert!(matches!(renew(&a, &lease).await.unwrap(), Renewal::Lost(None)));
        assert_eq!(release(&a, &lease).await, Released::NotHeld);
        assert_eq!(fs::read(&path).unwrap(), broken, "the foreign value is kept");

        let Repaired::Mended(token) = b.repair(&election).await.unwrap() else {
            panic!("not mended");
        };
        assert!(token >= last);
        assert_eq!(b.repair(&election).await.unwrap(), Repaired::Sound);
        assert_eq!(b.read(&election).await.unwrap().unwrap().state, RecordState::Free);
        last = token;
        let next = lead(&b, &election, "b").await;
        assert!(next.token > last);
        last = next.token;
        release(&b, &next).await;
    }
    assert_eq!(b.repair(&name("unknown")).await.unwrap(), Repaired::Sound);
}

#[tokio::test]
async fn repair_without_a_ceiling_finds_the_token_in_what_can_still_be_read() {
    let world = World::new();
    let (a, election) = (world.open(), name("a"));
    let mut lease = lead(&a, &election, "a").await;
    for _ in 0..4 {
        release(&a, &lease).await;
        lease = lead(&a, &election, "a").await;
    }
    renewed(&a, &lease).await;
    fs::remove_dir_all(world.path().join("tokens")).unwrap();
    fs::write(newest(&a, &election), "torn").unwrap();
    let b = world.open();
    assert_eq!(b.repair(&election).await.unwrap(), Repaired::Mended(lease.token));
    assert!(lead(&b, &election, "b").await.token > lease.token);
}

#[tokio::test]
async fn a_record_edited_by_hand_is_a_loss_although_it_can_be_read() {
    let world = World::new();
    let (a, b, election) = (world.open(), world.open(), name("a"));
    let lease = lead(&a, &election, "a").await;
    let path = newest(&a, &election);
    release(&a, &lease).await;
    let older = fs::read(path).unwrap();
    let lease = lead(&b, &election, "b").await;
    fs::write(newest(&b, &election), &older).unwrap();
    assert!(matches!(renew(&b, &lease).await.unwrap(), Renewal::Lost(Some(_))));
    assert_eq!(fs::read(newest(&b, &election)).unwrap(), older);
}

#[tokio::test]
async fn a_watcher_hears_of_every_change_and_of_a_death() {
    let world = World::new();
    let (a, b, election) = (world.open(), world.open(), name("a"));
    let mut changes = b.watch(std::slice::from_ref(&election)).unwrap();
    let mut hear = async |wanted: &dyn Fn(&LeaseRecord) -> bool| loop {
        match changes.next().await.unwrap() {
            Change::Record(record) if wanted(&record) => return,
            Change::Record(_) | Change::Gap => {}
        }
    };
    let lease = lead(&a, &election, "a").await;
    hear(&|record| record.state == RecordState::Held).await;
    let lease = renewed(&a, &lease).await;
    hear(&|record| record.renew_total == 1).await;
    release(&a, &lease).await;
    hear(&|record| record.state == RecordState::Free).await;
    lead(&a, &election, "a").await;
    hear(&|record| record.state == RecordState::Held).await;
    drop(a);
    hear(&|record| record.state == RecordState::Free).await;
    assert_eq!(operator_list(&b).await, [election]);
}

async fn operator_list(store: &FileStore) -> Vec<ElectionName> {
    store.operator().unwrap().list("").await.unwrap()
}

#[tokio::test]
async fn a_watcher_hears_that_the_directory_is_gone_and_leaves_nothing_when_it_stops() {
    let world = World::new();
    let (store, election) = (world.open(), name("a"));
    let mut changes = store.watch(std::slice::from_ref(&election)).unwrap();
    assert_eq!(changes.next().await.unwrap(), Change::Gap, "looked at once at the beginning");
    assert_eq!(operator_list(&store).await, [], "watching makes no election");
    fs::rename(world.path(), world.path().with_extension("moved")).unwrap();
    assert_eq!(changes.next().await.unwrap(), Change::Gap);
    let inner = Arc::clone(&store.leases.inner().inner);
    drop((changes, store));
    assert_eq!(Arc::strong_count(&inner), 1);
}

#[tokio::test]
async fn calls_outside_a_runtime_are_refused_and_do_not_panic() {
    let world = World::new();
    let store = world.open();
    let outcome = std::thread::spawn(move || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let election = name("a");
        let mut call = store.read(&election);
        match call.as_mut().poll(&mut context) {
            std::task::Poll::Ready(answer) => answer.unwrap_err(),
            std::task::Poll::Pending => panic!("waits for ever"),
        }
    });
    let error = outcome.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("tokio"));
}

#[tokio::test]
async fn everything_belongs_to_this_user_alone() {
    use std::os::unix::fs::MetadataExt;
    fn modes(folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let wanted = if metadata.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(metadata.mode() & 0o777, wanted, "{}", path.display());
            if metadata.is_dir() {
                modes(&path);
            }
        }
    }
    let world = World::new();
    let store = world.open();
    lead(&store, &name(&"ü".repeat(127)), "a").await;
    modes(&world.path().join(".."));
}

#[tokio::test]
async fn the_guarantees_are_those_of_one_machine() {
    let world = World::new();
    let store = world.open();
    let guarantees = store.guarantees();
    assert_eq!(guarantees.store, "file");
    assert!(guarantees.scope.contains(world.path().to_str().unwrap()));
    assert_eq!(guarantees.tokens, TokenOrder::Strict);
    assert!(guarantees.linearizable && !guarantees.survives_restart);
    assert!(format!("{store:?}").starts_with("FileStore("));
}

#[tokio::test]
async fn a_successful_end_is_known_after_a_reboot() {
    let world = World::new();
    let election = name("nightly");
    let store = world.builder().boot_id("first").open().unwrap();
    let lease = lead(&store, &election, "a").await;
    let ending = Release {
        lease,
        attempt: Attempt::new(&Random::from_os()),
        open: Vec::new(),
        next: Next::Anybody,
        succeeded: true,
        answer: None,
    };
    assert_eq!(store.release(&ending).await.unwrap(), Released::Released);
    drop(store);

    world.clock.advance(Duration::from_secs(3600));
    let store = world.builder().boot_id("second").open().unwrap();
    assert!(store.read(&election).await.unwrap().is_none(), "a reboot frees everything");
    let lease = lead(&store, &election, "b").await;
    let record = store.read(&election).await.unwrap().unwrap();
    assert_eq!(record.last_success, Some(Duration::from_secs(3600)));
    release(&store, &lease).await;
    let record = store.read(&election).await.unwrap().unwrap();
    assert_eq!(record.last_success, Some(Duration::from_secs(3600)), "an end without success keeps it");
}
