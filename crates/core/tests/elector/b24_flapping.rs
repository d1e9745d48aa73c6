//! B24: three terms shorter than a renew interval: back-off, event `Flapping`.

use tenure_core::elector::EventKind;

use crate::world::{RETRY, TTL, World, count, ms, secs};

#[tokio::test(start_paused = true)]
async fn the_third_short_term_in_a_row_makes_it_wait_and_each_further_one_longer() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    let mut waits = Vec::new();
    let mut announced = Vec::new();
    for term in 1..=8 {
        let elected = ears.elected().await;
        if let Some(ended) = waits.pop() {
            waits.push(world.time_of(elected.last().unwrap()) - ended);
        }
        assert_eq!(handle.status().terms, term);
        world.sleep(secs(1)).await;
        world.take_away().await;
        let events = ears.term_ended().await;
        assert_eq!(count(&events, "flapping"), usize::from(term >= 3), "term {term}");
        announced.extend(events.iter().filter_map(|event| match event.kind {
            EventKind::Flapping { terms, wait } => Some((terms, wait)),
            _ => None,
        }));
        waits.push(world.time_of(events.last().unwrap()));
    }
    waits.pop();
    assert_eq!(waits[..2], [secs(0), secs(0)], "no pause at first");
    for (n, waited) in waits[2..].iter().enumerate() {
        let (terms, wait) = announced[n];
        assert_eq!(usize::try_from(terms).unwrap(), n + 3);
        // Doubling, up to a ttl.
        let least = (RETRY * (1 << n.min(4))).min(TTL);
        assert!((least..=least * 3 / 2).contains(&wait), "{wait:?}");
        assert!((wait..=wait + ms(2)).contains(waited), "{waited:?} for {wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_of_a_renew_interval_begins_the_count_anew() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    for _ in 0..4 {
        for lasts in [1, 1, 11] {
            ears.elected().await;
            world.sleep(secs(lasts)).await;
            world.take_away().await;
        }
    }
    assert_eq!(count(&ears.elected().await, "flapping"), 0);
    assert_eq!(handle.status().terms, 13);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_was_asked_for_is_not_cut_short_by_the_back_off() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    for _ in 0..2 {
        ears.elected().await;
        handle.resign(Some(secs(0))).await.unwrap();
    }
    ears.elected().await;
    let before = world.now();
    handle.resign(Some(secs(600))).await.unwrap();
    let elected = ears.elected().await;
    assert_eq!(count(&elected, "flapping 3"), 1);
    assert!(world.time_of(elected.last().unwrap()) >= before + secs(600));
}
