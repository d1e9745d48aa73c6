//! A4: elections are independent and listed back exactly, whatever their names.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_core::ElectionName;
use tenure_core::store::{ErrorKind, RecordState};

use super::cx::{Checked, Cx, name};

/// Pairs of names that some encoding, matching or folding would take for one.
fn names() -> Vec<ElectionName> {
    let longest = "x".repeat(255);
    let beside = format!("{}y", "x".repeat(254));
    // 255 bytes of characters of several bytes each.
    let wide = format!("{}n", "ü".repeat(127));
    [
        "x",
        "X",
        "a",
        "a ",
        " a",
        "a b",
        "a+b",
        "a/b",
        "a//b",
        "a%2Fb",
        "/a",
        "a/",
        "..",
        ".",
        "a:b",
        "a::b",
        "a*",
        "a?",
        "*",
        "{}",
        "{a}",
        "a}b",
        "{a}b",
        "größe",
        "große",
        "größe/ü",
        "🗳",
        "\\",
        "a\\b",
        "'\"",
        "$a",
        "#a",
        "-a",
        "~",
        "%",
        "a.json",
        "ａ",
        &longest,
        &beside,
        &wide,
    ]
    .into_iter()
    .map(name)
    .collect()
}

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let names = names();
    let mut held = Vec::new();
    for (i, election) in names.iter().enumerate() {
        let candidate = cx.candidate(&format!("candidate-{i}")).await;
        let lease = candidate.win_lasting(election).await;
        held.push((candidate, lease));
    }
    let reader = cx.candidate("reader").await;
    for (candidate, lease) in &held {
        let record = reader.record(&lease.election).await;
        assert_eq!(record.election, lease.election, "the record of another election");
        assert_eq!(
            record.leader().map(|holder| (&holder.candidate, holder.bid)),
            Some((&candidate.id, lease.bid)),
            "another holder in {:?}",
            lease.election
        );
    }
    match reader.operator() {
        None => cx.leave_out("names listed back: the store has no operator"),
        Some(operator) => {
            for prefix in ["", "a", "a/", "x", "{", "*", "größe", "%", "nobody"] {
                let expected: BTreeSet<_> =
                    names.iter().filter(|name| name.as_str().starts_with(prefix)).cloned().collect();
                match operator.list(prefix).await {
                    Ok(listed) => assert_eq!(
                        listed,
                        expected.into_iter().collect::<Vec<_>>(),
                        "listed with prefix {prefix:?}"
                    ),
                    Err(error) if error.kind() == ErrorKind::Invalid => {
                        cx.leave_out("names listed back: the store cannot list");
                        break;
                    }
                    Err(error) => panic!("list {prefix:?}: {error}"),
                }
            }
        }
    }
    // Every second one is given back; the others notice nothing.
    for (i, (candidate, lease)) in held.iter().enumerate() {
        if i % 2 == 0 {
            candidate.release(lease).await;
        }
    }
    for (i, (candidate, lease)) in held.iter().enumerate() {
        if i % 2 == 0 {
            let state = reader.record(&lease.election).await.state;
            assert_eq!(state, RecordState::Free, "{:?} was released", lease.election);
        } else {
            candidate.renew(lease).await;
        }
    }
    Ok(())
}
