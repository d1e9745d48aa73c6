//! From when trust counts.

use std::time::Duration;

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::network::Weather;
use crate::plan::Plan;

pub(super) const REPLY_ANCHORED_DEADLINE: Scenario = Scenario {
    name: "reply_anchored_deadline",
    story: "validity is counted from the reply, which was under way for a while",
    about: &[fault::PARTITION, "takeover"],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.weather.reply = (Duration::from_millis(1), plan.ttl / 3);
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 200), async |leader| leader.link.cut_for(world.percent(100, 200)))
                .await;
        })
    },
};

pub(super) const RETRY_ANCHORED_DEADLINE: Scenario = Scenario {
    name: "retry_anchored_deadline",
    story: "a retried bid's deadline counts from the retry while the store counts from the first",
    about: &[fault::FOUND_BY_RETRY, fault::PARTITION, "takeover"],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.weather = Weather {
            lose_reply: 300,
            lose_request: 50,
            late_up_to: plan.ttl,
            reply: (Duration::from_millis(1), plan.ttl / 5),
            ..Weather::calm()
        };
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (1, 100), async |leader| leader.link.cut_for(world.percent(100, 200)))
                .await;
        })
    },
};
