//! A12: a record that cannot be understood is `Corrupt`, with the election's name: not a panic, not "free".

use std::sync::Arc;

use tenure_core::ElectionName;
use tenure_core::store::{ErrorKind, StoreError};

use super::cx::{Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let Some(by_hand) = cx.fixture.by_hand() else {
        return Err("nobody can write into the place of a record");
    };
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let (election, other) = (cx.election("corrupt"), cx.election("other"));
    first.win_lasting(&election).await;
    first.win_lasting(&other).await;
    let (Some(good), Some(misplaced)) = (by_hand.get(&election).await, by_hand.get(&other).await) else {
        panic!("there is nothing in the place of a held record");
    };

    let mut values = vec![
        ("what something else wrote", b"hello".to_vec()),
        ("nothing", Vec::new()),
        ("bytes that are no text", vec![0, 159, 146, 150]),
        ("half a record", good[..good.len() / 2].to_vec()),
        ("a record without its last byte", good[..good.len() - 1].to_vec()),
    ];
    if misplaced != good {
        values.push(("the record of another election", misplaced));
    }
    match by_hand.in_a_later_format(&good) {
        Some(future) => values.push(("a record of a later format", future)),
        None => cx.leave_out("a record from the future: the store's records name no format"),
    }
    for (what, value) in values {
        by_hand.put(&election, Some(value.clone())).await;
        let bid = second.store.acquire(&election, &second.bid()).await;
        corrupt(&election, &format!("a bid over {what}"), bid);
        let read = second.store.read(&election).await;
        corrupt(&election, &format!("a read of {what}"), read);
        assert_eq!(by_hand.get(&election).await, Some(value), "{what} was not kept for whoever mends it");
    }
    // Mended, it goes on.
    by_hand.put(&election, Some(good)).await;
    second.refused(&election).await;
    Ok(())
}

fn corrupt<T: std::fmt::Debug>(election: &ElectionName, what: &str, answer: Result<T, StoreError>) {
    match answer {
        Ok(answer) => panic!("{what} was answered with {answer:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
            assert!(
                error.to_string().contains(election.as_str()),
                "{what} does not name the election: {error}"
            );
        }
    }
}
