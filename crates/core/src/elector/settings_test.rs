use super::*;
use crate::embedded::MemoryStore;
use crate::store::LeaseStore;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const DAY: Duration = secs(24 * 60 * 60);

fn resolve(settings: &Settings) -> Result<Timing, InvalidSettings> {
    settings.resolve(&MemoryStore::new().guarantees())
}

fn broken(settings: &Settings) -> Vec<String> {
    resolve(settings).expect_err("breaks a rule").broken_rules().to_vec()
}

/// Exactly one rule is broken, and its sentence has all these words.
fn breaks_one(settings: &Settings, words: &[&str]) {
    let broken = broken(settings);
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(words.iter().all(|word| broken[0].contains(word)), "{words:?} in {broken:?}");
}

#[test]
fn what_is_not_given_follows_from_the_ttl() {
    // (ttl, renew, retry, drain, call)
    let us = Duration::from_micros;
    for (ttl, renew, retry, drain, call) in [
        (ms(500), us(166_666), us(83_333), us(13_333), us(83_333)),
        (secs(2), us(666_666), us(333_333), us(293_333), us(333_333)),
        (secs(5), us(1_666_666), us(833_333), us(853_333), us(833_333)),
        (secs(30), secs(10), secs(5), secs(5), secs(5)),
        (DAY, DAY / 3, DAY / 6, secs(5), secs(5)),
    ] {
        let timing = resolve(&Settings::ttl(ttl)).unwrap();
        let whole = |duration: Duration| us(u64::try_from(duration.as_micros()).unwrap());
        assert_eq!(timing.ttl, ttl);
        assert_eq!(whole(timing.renew_interval), renew);
        assert_eq!(whole(timing.retry_interval), retry);
        assert_eq!(whole(timing.drain_timeout), drain);
        assert_eq!(whole(timing.call_timeout), call);
        assert_eq!((timing.latency, timing.drift_permille), (ms(100), 100));
    }
}

#[test]
fn nobody_who_gives_only_a_ttl_hears_of_anything_else() {
    let mut ttl = ms(500);
    while ttl <= DAY {
        let timing = resolve(&Settings::ttl(ttl)).unwrap_or_else(|error| panic!("{ttl:?}: {error}"));
        assert!(!timing.drain_timeout.is_zero());
        ttl = ttl * 101 / 100;
    }
    resolve(&Settings::ttl(DAY)).unwrap();
}

#[test]
fn the_profiles_are_what_they_say_and_valid() {
    for (profile, ttl, renew, retry, drain) in [
        (Profile::Fast, secs(2), ms(500), ms(250), ms(500)),
        (Profile::Balanced, secs(30), secs(10), secs(5), secs(5)),
        (Profile::Stable, secs(60), secs(20), secs(10), secs(10)),
        (Profile::ObjectStorage, secs(900), secs(300), secs(60), secs(30)),
    ] {
        let timing = resolve(&Settings::profile(profile)).unwrap();
        assert_eq!(
            (timing.ttl, timing.renew_interval, timing.retry_interval, timing.drain_timeout),
            (ttl, renew, retry, drain)
        );
    }
    assert_eq!(resolve(&Settings::default()), resolve(&Settings::profile(Profile::default())));
    assert_eq!(resolve(&Settings::default()), resolve(&Settings::ttl(secs(30))));
}

#[test]
fn trust_counts_from_the_send_and_ends_before_the_lease_does() {
    let timing = resolve(&Settings::ttl(secs(30))).unwrap();
    let sent = Moment::new(secs(100), secs(50));
    assert_eq!(timing.must_stop(sent, secs(30)), sent.plus(ms(26_900)));
    assert_eq!(timing.deadline(sent, secs(30)), sent.plus(ms(21_900)));
    assert_eq!(timing.surely_over(sent, secs(30)), sent.plus(secs(33)));
    // Granted less: less. Granted more: what was asked for, except where it must surely be over.
    assert_eq!(timing.deadline(sent, secs(20)), sent.plus(ms(12_900)));
    assert_eq!(timing.deadline(sent, secs(40)), sent.plus(ms(21_900)));
    assert_eq!(timing.surely_over(sent, secs(40)), sent.plus(secs(44)));
    // Granted nearly nothing: over before it began, never a panic.
    assert!(timing.deadline(sent, ms(1)).has_passed(sent));
    assert!(timing.deadline(sent, Duration::ZERO).has_passed(sent));
    assert_eq!(timing.deadline(sent, Duration::MAX), sent.plus(ms(21_900)));
    assert!(!timing.surely_over(sent, Duration::MAX).has_passed(sent.plus(DAY * 365)));
}

#[test]
fn one_attempt_leaves_time_for_a_second() {
    let timing = resolve(&Settings::ttl(secs(30))).unwrap();
    assert_eq!(timing.attempt_timeout(secs(20)), secs(5));
    assert_eq!(timing.attempt_timeout(secs(4)), secs(2));
    assert_eq!(timing.attempt_timeout(Duration::ZERO), ms(5));
}

#[test]
fn every_rule_names_the_value_and_what_it_is_held_against() {
    breaks_one(&Settings::ttl(ms(499)), &["ttl is 499ms", "500ms", "five times the latency"]);
    breaks_one(&Settings::ttl(ms(500)).latency(ms(101)), &["ttl is 500ms", "505ms"]);
    breaks_one(&Settings::ttl(DAY + secs(1)), &["ttl is 86401s", "24 h"]);
    let interval = Settings::ttl(secs(30)).drain_timeout(secs(5));
    breaks_one(
        &interval.clone().renew_interval(ms(10_951)),
        &["renew_interval is 10.951s", "21.902s", "21.9s", "30s", "10 %", "100ms", "5s"],
    );
    resolve(&interval.renew_interval(ms(10_950))).expect("exactly at the limit");
    breaks_one(
        &Settings::ttl(secs(30)).drain_timeout(ms(6_901)),
        &["drain_timeout is 6.901s", "6.9s", "ttl 30s", "2 × renew_interval 20s", "shorten drain_timeout"],
    );
    resolve(&Settings::ttl(secs(30)).drain_timeout(ms(6_900))).expect("exactly at the limit");
    breaks_one(&Settings::ttl(secs(30)).drain_timeout(Duration::ZERO), &["drain_timeout is 0"]);
    breaks_one(
        &Settings::ttl(secs(30)).call_timeout(secs(10)),
        &["call_timeout is 10s", "renew_interval (10s)"],
    );
    breaks_one(
        &Settings::ttl(secs(30)).call_timeout(Duration::ZERO),
        &["call_timeout is 0ns", "renew_interval (10s)"],
    );
    for short in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999)] {
        let words = [&format!("_interval is {short:?}"), "shortest is 1ms", "lengthen it"];
        breaks_one(&Settings::ttl(secs(30)).retry_interval(short), &words);
        breaks_one(&Settings::ttl(secs(30)).renew_interval(short), &words);
    }
    resolve(&Settings::ttl(secs(30)).retry_interval(ms(1)).renew_interval(ms(1))).expect("the shortest");
    breaks_one(&Settings::ttl(secs(30)).retry_interval(DAY + secs(1)), &["retry_interval is 86401s", "24 h"]);
    for drift in [-0.01, 0.5, 0.9, 7.0] {
        // With time to spare, so that a drift that is cut to the highest breaks no other rule.
        let settings = Settings::ttl(secs(30)).renew_interval(secs(5)).drift(drift);
        breaks_one(&settings, &[&format!("drift is {drift}"), "0.5"]);
    }
    breaks_one(&Settings::ttl(secs(30)).drift(f64::NAN), &["drift is NaN", "0.5"]);
}

#[test]
fn a_bad_value_is_named_alone_and_not_what_was_worked_out_from_it() {
    for ttl in [Duration::ZERO, Duration::from_nanos(1), ms(1), ms(100), ms(499), DAY * 7, Duration::MAX] {
        breaks_one(&Settings::ttl(ttl), &[&format!("ttl is {ttl:?}"), "en it"]);
    }
    breaks_one(&Settings::ttl(secs(30)).drift(0.4), &["drift is 0.4", "17.9s", "2 × renew_interval 20s"]);
    breaks_one(&Settings::ttl(secs(1)).latency(ms(200)).drift(0.2), &["drift is 0.2", "ttl 1s"]);
    breaks_one(&Settings::default().latency(secs(7)), &["latency is 7s", "ttl 30s", "35s"]);
    breaks_one(&Settings::default().latency(Duration::MAX), &["latency is ", "ttl 30s"]);
    // What was typed beside it is judged all the same.
    let both = broken(&Settings::ttl(ms(1)).retry_interval(Duration::ZERO));
    assert_eq!(both.len(), 2, "{both:?}");
}

#[test]
fn a_default_that_the_store_refuses_is_named_as_the_default() {
    let guarantees = Guarantees { store: "slow", min_ttl: secs(60), ..MemoryStore::new().guarantees() };
    let error = Settings::default().resolve(&guarantees).unwrap_err();
    assert_eq!(
        error.broken_rules(),
        ["ttl is 30s (the default): the shortest here is 60s (slow); lengthen it"]
    );
}

#[test]
fn every_broken_rule_is_listed_not_only_the_first() {
    let settings = Settings::ttl(ms(1))
        .renew_interval(secs(1))
        .retry_interval(Duration::ZERO)
        .call_timeout(secs(1))
        .drift(1.0)
        .drain_timeout(secs(9));
    let broken = broken(&settings);
    for begins in ["drift", "ttl", "retry_interval", "call_timeout", "renew_interval"] {
        assert!(broken.iter().any(|rule| rule.starts_with(begins)), "{begins} in {broken:?}");
    }
    let text = InvalidSettings { broken: broken.clone() }.to_string();
    assert!(broken.iter().all(|rule| text.contains(rule)), "{text}");
}

#[test]
fn a_store_may_raise_the_shortest_ttl_and_is_named_then() {
    let guarantees = Guarantees { store: "slow", min_ttl: secs(5), ..MemoryStore::new().guarantees() };
    let error = Settings::ttl(secs(4)).resolve(&guarantees).unwrap_err();
    assert_eq!(error.broken_rules(), ["ttl is 4s: the shortest here is 5s (slow); lengthen it"]);
    Settings::ttl(secs(5)).resolve(&guarantees).unwrap();
}

#[test]
fn a_smaller_latency_permits_a_shorter_ttl() {
    resolve(&Settings::ttl(ms(50)).latency(ms(10))).unwrap();
    resolve(&Settings::ttl(ms(5)).latency(Duration::ZERO).drift(0.0)).unwrap();
}

#[test]
fn a_drift_is_never_rounded_down() {
    for (drift, permille) in [(0.0, 0), (0.001, 1), (0.0001, 1), (0.1, 100), (0.1234, 124), (0.4999, 500)] {
        assert_eq!(
            resolve(&Settings::ttl(secs(900)).renew_interval(secs(60)).drift(drift)).unwrap().drift_permille,
            permille
        );
    }
}

#[test]
fn absurd_values_are_refused_and_never_panic() {
    let durations = [Duration::ZERO, Duration::from_nanos(1), ms(1), secs(30), DAY, Duration::MAX];
    let drifts = [
        0.0,
        -0.0,
        0.1,
        0.5,
        1.0,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN_POSITIVE,
    ];
    let mut valid = 0;
    for ttl in durations {
        for given in durations {
            for drift in drifts {
                let base = Settings::ttl(ttl).drift(drift);
                for settings in [
                    base.clone().renew_interval(given),
                    base.clone().retry_interval(given),
                    base.clone().drain_timeout(given),
                    base.clone().call_timeout(given),
                    base.clone().latency(given),
                    Settings::ttl(ttl)
                        .renew_interval(given)
                        .retry_interval(given)
                        .drain_timeout(given)
                        .call_timeout(given)
                        .latency(given)
                        .drift(drift),
                ] {
                    match resolve(&settings) {
                        Ok(timing) => {
                            valid += 1;
                            assert!((ms(1)..=DAY).contains(&timing.ttl), "{settings:?}");
                            assert!(timing.retry_interval <= DAY && !timing.retry_interval.is_zero());
                            let start = Moment::default();
                            assert!(!timing.deadline(start, timing.ttl).has_passed(start), "{settings:?}");
                        }
                        Err(invalid) => {
                            assert!(!invalid.broken_rules().is_empty() && !invalid.to_string().is_empty());
                        }
                    }
                }
            }
        }
    }
    assert!(valid > 0);
}
