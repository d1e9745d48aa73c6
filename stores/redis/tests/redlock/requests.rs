//! What an operator asks of the leader, where he, the leader and whoever looks reach different nodes.

use std::time::Duration;

use tenure_core::Random;
use tenure_core::name::RequestId;
use tenure_core::store::{Action, Answer, Answered, ControlRequest, Renew, Renewal, Requested};
use tenure_testkit::proxy::{Proxies, Resp};

use crate::support::fixture::keys;
use crate::support::independent::open_nodes;
use crate::support::{Candidate, name, soon};
use crate::{KEPT, addresses, behind_proxies};

const TTL: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_seen_by_every_majority() {
    let (nodes, leaders_way) = behind_proxies(5);
    let operators_way = Proxies::start(&addresses(&nodes), Resp);
    let readers_way = Proxies::start(&addresses(&nodes), Resp);
    for (way, cut_off) in [(&operators_way, [0, 1]), (&readers_way, [2, 4])] {
        for number in cut_off {
            way.all()[number].turn_away().await;
        }
    }
    let leader = Candidate::new(open_nodes(&leaders_way.addresses(), KEPT), "leader", TTL);
    let operator = Candidate::new(open_nodes(&operators_way.addresses(), KEPT), "operator", TTL);
    let reader = Candidate::new(open_nodes(&readers_way.addresses(), KEPT), "reader", TTL);
    let election = name("asked");
    let lease = leader.win(&election).await;
    for node in &nodes {
        let lease = keys(&election).lease;
        soon("all have voted", async || node.call(&["GET", &lease]).await.text().is_some()).await;
    }
    // The third to the fifth node have the request, and of the first three, by which the leader goes on, one.
    let request = ControlRequest {
        id: RequestId::new(&Random::from_os()),
        token: lease.token,
        by: "kim".to_owned(),
        action: Action::HandOff { to: leader.id.clone() },
        expires_in: TTL,
    };
    let asked = operator.store.operator().unwrap().request(&election, operator.attempt(), request.clone());
    assert_eq!(asked.await.unwrap(), Requested::Accepted(lease.token));
    for proxy in &leaders_way.all()[3..] {
        proxy.turn_away().await;
    }
    let renewed = leader.store.renew(&[leader.renewal(&lease)]).await.remove(0).unwrap();
    let Renewal::Renewed(lease, Some(found)) = renewed else { panic!("{renewed:?}") };
    assert_eq!(found.id, request.id);
    let answer = Answered { id: request.id, answer: Answer::Refused("it leads already".to_owned()) };
    let renewal = Renew { answer: Some(answer.clone()), ..leader.renewal(&lease) };
    let renewed = leader.store.renew(&[renewal]).await.remove(0).unwrap();
    assert!(matches!(renewed, Renewal::Renewed(_, None)), "{renewed:?}");
    // Who looks reaches the first two and the fourth.
    let record = reader.store.read(&election).await.unwrap().unwrap();
    assert_eq!(record.answer, Some(answer));
}
