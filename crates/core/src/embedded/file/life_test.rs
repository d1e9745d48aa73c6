use super::*;

fn layout(top: &Path) -> Layout {
    let layout = Layout::new(top.into(), "boot".into());
    layout.make_folders().unwrap();
    layout
}

#[test]
fn a_life_is_seen_while_its_description_is_open_anywhere_and_not_after() {
    let top = tempfile::tempdir().unwrap();
    let layout = layout(top.path());
    let life = Life::begin(&layout.openers, &Random::from_os()).unwrap();
    life.sign(&layout.lives).unwrap();
    life.sign(&layout.lives).unwrap();
    let (id, path) = (life.id().to_owned(), layout.openers.join(life.id()));
    assert_eq!(probe(&path).unwrap(), Pulse::Alive);
    assert_eq!(probe(&path).unwrap(), Pulse::Alive, "a probe does not kill");
    assert!(!is_dead(&layout.lives, &id));

    let heir = life.duplicate().unwrap();
    drop(life);
    assert!(!is_dead(&layout.lives, &id), "somebody inherited it");
    drop(heir);
    assert!(is_dead(&layout.lives, &id));
    assert_eq!(probe(&path).unwrap(), Pulse::Dead);
}

#[test]
fn two_probes_at_once_do_not_take_each_other_for_the_living() {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("life");
    let held = File::create(&path).unwrap();
    flock(&held, FlockOperation::NonBlockingLockShared).unwrap();
    assert_eq!(probe(&path).unwrap(), Pulse::Dead);
}

#[test]
fn a_missing_file_or_a_sign_that_leads_elsewhere_proves_nothing() {
    let top = tempfile::tempdir().unwrap();
    let layout = layout(top.path());
    fs::write(layout.openers.join("free"), "").unwrap();
    for sign in ["missing", "", "../openers/free", ".", "free.1"] {
        assert!(!is_dead(&layout.lives, sign), "{sign:?}");
    }
}

#[test]
fn sweeping_takes_what_the_dead_left_remembers_them_for_a_day_and_spares_the_living() {
    let top = tempfile::tempdir().unwrap();
    let layout = layout(top.path());
    let random = Random::from_os();
    let begin = || {
        let life = Life::begin(&layout.openers, &random).unwrap();
        life.sign(&layout.lives).unwrap();
        fs::write(layout.scratch.join(format!("{}.1", life.id())), "").unwrap();
        life
    };
    let (alive, dead) = (begin(), begin());
    let dead_id = dead.id().to_owned();
    drop(dead);
    fs::write(layout.openers.join(format!("{UNFINISHED}1-2")), "").unwrap();

    let hour = Duration::from_secs(3600);
    sweep(&layout, hour);
    assert_eq!(entries(&layout.openers).unwrap(), [alive.id()]);
    assert_eq!(entries(&layout.scratch).unwrap(), [format!("{}.1", alive.id()).as_str()]);
    assert!(is_dead(&layout.lives, &dead_id), "its death is remembered");
    assert!(!is_dead(&layout.lives, alive.id()));

    sweep(&layout, 26 * hour);
    assert!(is_dead(&layout.lives, &dead_id), "long enough for the longest lease");
    sweep(&layout, 27 * hour);
    assert_eq!(entries(&layout.lives).unwrap(), [alive.id()]);
    assert!(alive.is_in_place().unwrap());
}

#[test]
fn lives_that_begin_while_others_sweep_are_never_swept() {
    let top = tempfile::tempdir().unwrap();
    let layout = layout(top.path());
    let random = Random::from_os();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                sweep(&layout, Duration::ZERO);
            }
        });
        for _ in 0..500 {
            let life = Life::begin(&layout.openers, &random).unwrap();
            assert!(life.is_in_place().unwrap());
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_life_knows_when_its_file_was_removed_or_replaced() {
    let top = tempfile::tempdir().unwrap();
    let layout = layout(top.path());
    let life = Life::begin(&layout.openers, &Random::from_os()).unwrap();
    assert!(life.is_in_place().unwrap());
    let path = layout.openers.join(life.id());
    fs::remove_file(&path).unwrap();
    assert!(!life.is_in_place().unwrap());
    fs::write(&path, "").unwrap();
    assert!(!life.is_in_place().unwrap());
    fs::remove_dir_all(top.path()).unwrap();
    assert!(!life.is_in_place().unwrap());
}
