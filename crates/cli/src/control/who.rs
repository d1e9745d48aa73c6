//! Who is meant by a name that an operator types.

use tenure::CandidateId;
use tenure::store::LeaseRecord;

use super::outcome::Because;

/// Finds the candidate that `who` means: by its whole name, its identity, its host or the beginning of its name.
///
/// `standing_by` are those who can be meant, if the store can tell.
pub(crate) fn find(
    who: &str,
    standing_by: Option<&[CandidateId]>,
    record: &LeaseRecord,
) -> Result<CandidateId, Because> {
    if record.leader().is_some_and(|leader| {
        leader.candidate.as_str() == who || leader.identity.as_ref().is_some_and(|name| name.as_str() == who)
    }) {
        return Err(Because::new(format!("{who} leads already")));
    }
    let Some(standing_by) = standing_by else { return taken_at_its_word(who, record) };
    let is_known_as = |candidate: &CandidateId| {
        let led_before = record.last_terms.iter().filter(|term| term.candidate == *candidate);
        led_before.filter_map(|term| term.identity.as_ref()).any(|identity| identity.as_str() == who)
    };
    let ways: [&dyn Fn(&CandidateId) -> bool; 4] = [
        &|candidate| candidate.as_str() == who,
        &is_known_as,
        &|candidate| host(candidate) == Some(who),
        &|candidate| candidate.as_str().starts_with(who),
    ];
    for is_meant in ways {
        let found: Vec<_> = standing_by.iter().filter(|candidate| is_meant(candidate)).collect();
        match found.as_slice() {
            [] => {}
            [one] => return Ok((*one).clone()),
            several => {
                let names = several.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Because::new(format!("{who:?} can mean several: {names}"))
                    .hint("give more of the name of the one that is meant"));
            }
        }
    }
    Err(nobody(who, standing_by))
}

fn nobody(who: &str, standing_by: &[CandidateId]) -> Because {
    let because = Because::new(format!("nobody called {who:?} stands by"));
    if standing_by.is_empty() {
        return because.hint("nobody stands by at all: start another candidate");
    }
    let names = standing_by.iter().map(CandidateId::as_str).collect::<Vec<_>>().join(", ");
    because.hint(format!("these do: {names}"))
}

/// Takes a whole name where the store cannot tell who stands by; anything less would end a term for a typing error.
fn taken_at_its_word(who: &str, record: &LeaseRecord) -> Result<CandidateId, Because> {
    let led_before = record.last_terms.iter().any(|term| term.candidate.as_str() == who);
    match CandidateId::new(who) {
        Ok(candidate) if led_before || host(&candidate).is_some() => Ok(candidate),
        _ => Err(Because::new(format!(
            "this store cannot tell who stands by, and {who:?} is not the whole name of a candidate (host_pid_random)"
        ))
        .hint("`tenure run` says its candidate's name when it starts; without --to anybody but the leader takes over")),
    }
}

/// Returns the host in the name of a process: `{host}_{pid}_{random}`.
fn host(candidate: &CandidateId) -> Option<&str> {
    let mut parts = candidate.as_str().rsplitn(3, '_');
    let (random, pid, host) = (parts.next()?, parts.next()?, parts.next()?);
    let is_random = random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_random && !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit())).then_some(host)
}

#[cfg(test)]
mod tests {
    use tenure::store::{LeaseStore, Next, Release};
    use tenure::{
        Attempt, BidId, ElectionName, FencingToken, Identity, MemoryStore, Random, store::Acquisition,
        store::Bid, store::Origin,
    };

    use super::*;

    fn names(names: &[&str]) -> Vec<CandidateId> {
        names.iter().map(|name| CandidateId::new(name).unwrap()).collect()
    }

    /// Returns the record of an election that was led by each of these in turn, and is led by the last one.
    async fn led_by(leaders: &[(&str, Option<&str>)]) -> LeaseRecord {
        let (store, random, election) =
            (MemoryStore::new(), Random::from_seed(1), ElectionName::new("e").unwrap());
        for (place, (who, identity)) in leaders.iter().enumerate() {
            let bid = Bid {
                id: BidId::new(&random),
                attempt: Attempt::new(&random),
                open: Vec::new(),
                candidate: CandidateId::new(who).unwrap(),
                identity: identity.map(|name| Identity::new(name).unwrap()),
                origin: Origin::default(),
                ttl: std::time::Duration::from_secs(600),
                metadata: std::collections::BTreeMap::new(),
                floor: FencingToken::ZERO,
                supersedes: None,
            };
            let Acquisition::Acquired(lease) = store.acquire(&election, &bid).await.unwrap() else {
                panic!("refused")
            };
            if place + 1 < leaders.len() {
                let (attempt, next) = (Attempt::new(&random), Next::Anybody);
                let release =
                    Release { lease, attempt, open: Vec::new(), next, succeeded: false, answer: None };
                store.release(&release).await.unwrap();
            }
        }
        store.read(&election).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_name_an_identity_a_host_or_a_beginning_is_enough() {
        let record = led_by(&[("web-2_200_bbbbbbbb", Some("left")), ("web-1_100_aaaaaaaa", None)]).await;
        let standing_by = names(&["db_7_dddddddd", "web-2_200_bbbbbbbb", "web-20_5_eeeeeeee", "worker"]);
        for (who, found) in [
            ("worker", "worker"),
            ("left", "web-2_200_bbbbbbbb"),
            ("web-2", "web-2_200_bbbbbbbb"),
            ("db", "db_7_dddddddd"),
            ("web-20_5", "web-20_5_eeeeeeee"),
            ("wo", "worker"),
        ] {
            let answer = find(who, Some(&standing_by), &record).map_err(|because| because.reason);
            assert_eq!(answer.as_ref().map(CandidateId::as_str), Ok(found), "{who}");
        }
    }

    #[tokio::test]
    async fn what_means_several_or_nobody_names_who_can_be_meant() {
        let record = led_by(&[("web-1_100_aaaaaaaa", Some("right"))]).await;
        let standing_by = names(&["web-2_200_bbbbbbbb", "web-2_201_cccccccc"]);
        for who in ["web-2", "w"] {
            let because = find(who, Some(&standing_by), &record).unwrap_err();
            assert!(
                because.reason.ends_with("several: web-2_200_bbbbbbbb, web-2_201_cccccccc"),
                "{}",
                because.reason
            );
        }
        let unknown = find("db", Some(&standing_by), &record).unwrap_err();
        assert_eq!(unknown.hint.as_deref(), Some("these do: web-2_200_bbbbbbbb, web-2_201_cccccccc"));
        assert!(
            find("db", Some(&[]), &record).unwrap_err().hint.unwrap().contains("start another candidate")
        );
        for who in ["web-1_100_aaaaaaaa", "right"] {
            assert_eq!(
                find(who, Some(&standing_by), &record).unwrap_err().reason,
                format!("{who} leads already")
            );
        }
    }

    #[tokio::test]
    async fn where_nobody_can_tell_a_whole_name_is_taken_at_its_word() {
        let record = led_by(&[("worker", None), ("web-1_100_aaaaaaaa", None)]).await;
        for who in ["web-2_200_0123abcd", "worker"] {
            assert_eq!(find(who, None, &record).ok().unwrap().as_str(), who);
        }
        for who in ["web-2", "web-2_200", "web-2_x_0123abcd", "web-2_200_0123abcg", " "] {
            assert!(
                find(who, None, &record).unwrap_err().reason.contains("cannot tell who stands by"),
                "{who}"
            );
        }
    }
}
