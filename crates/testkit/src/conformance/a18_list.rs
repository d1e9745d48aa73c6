//! A18: lists are complete and in order, with a prefix too, also of 1,000 elections.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tenure_core::ElectionName;
use tenure_core::store::ErrorKind;

use super::cx::{Checked, Cx, name};

const ELECTIONS: usize = 1000;

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let first = cx.candidate("first").await;
    let unknown = cx.election("unknown");
    assert_eq!(first.read(&unknown).await, None, "an unknown election has a record");
    let Some(operator) = first.operator() else {
        return Err("the store has no operator to list elections");
    };
    if operator.list("").await.is_err_and(|error| error.kind() == ErrorKind::Invalid) {
        return Err("the store cannot list elections");
    }
    let elections: Vec<ElectionName> = (0..ELECTIONS).map(|i| cx.election(&format!("list/{i:04}"))).collect();
    stream::iter(elections.clone())
        .map(|election| {
            let first = first.clone();
            async move { first.win_lasting(&election).await }
        })
        .buffer_unordered(32)
        .for_each(|_| std::future::ready(()))
        .await;

    let reader = cx.candidate("reader").await;
    let Some(operator) = reader.operator() else {
        panic!("one handle has an operator, the other has none");
    };
    let base = cx.election("list/");
    for (prefix, expected) in [
        (base.as_str().to_owned(), &elections[..]),
        (format!("{base}03"), &elections[300..400]),
        (format!("{base}0999"), &elections[999..]),
        (format!("{base}x"), &[]),
    ] {
        match operator.list(&prefix).await {
            Ok(listed) => assert!(
                listed == expected,
                "with prefix {prefix:?} {} elections are listed, {} are there",
                listed.len(),
                expected.len()
            ),
            Err(error) => panic!("list {prefix:?}: {error}"),
        }
    }
    match operator.list("").await {
        Ok(listed) => assert_eq!(listed.len(), ELECTIONS, "all are listed"),
        Err(error) => panic!("list: {error}"),
    }
    let last = reader.record(&name(&format!("{base}0999"))).await;
    assert!(last.leader().is_some(), "the last one is held");
    Ok(())
}
