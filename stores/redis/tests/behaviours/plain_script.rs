//! A plain script without a line of ours takes part with SET NX PX and the usual two scripts for renewing and releasing.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tenure_core::SystemClock;
use tenure_core::clock::ClockExt;
use tenure_core::store::{Acquisition, Renewal};
use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::Redis;

use crate::support::fixture::keys;
use crate::support::{Candidate, here, name, open};

const HANDOVERS: usize = 100;

/// What everybody finds in books and blogs. It notes each of its terms, and everybody whom it meets inside.
const SCRIPT: &str = r#"
set -u
key=$1; port=$2
ask() { redis-cli -p "$port" "$@"; }
renew='if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end'
release='if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'
turn=0
while [ "$(ask exists stop)" = 0 ]; do
  turn=$((turn + 1))
  mine="plain-$$-$turn"
  if [ "$(ask set "$key" "$mine" nx px 20000)" = OK ]; then
    [ "$(ask set inside "$mine" nx)" = OK ] || ask rpush met "$mine" >/dev/null
    [ "$(ask eval "$renew" 1 "$key" "$mine" 20000)" = 1 ] || ask rpush met "lost $mine" >/dev/null
    ask rpush terms plain >/dev/null
    ask del inside >/dev/null
    [ "$(ask eval "$release" 1 "$key" "$mine")" = 1 ] || ask rpush met "gone $mine" >/dev/null
  fi
done
"#;

/// Ends with the test, whatever happens.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_handovers_with_a_plain_script_and_nobody_meets_anybody() {
    let server = here(Redis::start());
    let ours = Candidate::new(open(&server.url(), "survives_restart=true"), "ours", Duration::from_secs(20));
    let election = name("mixed");
    let script = Command::new("bash")
        .args(["-c", SCRIPT, "plain", &keys(&election).lease, &server.port().to_string()])
        .stdin(Stdio::null())
        .spawn();
    let mut script = Script(script.unwrap());

    while handovers(&server).await < HANDOVERS {
        let Acquisition::Acquired(lease) = ours.acquire(&election).await else {
            SystemClock.sleep(Duration::from_millis(1)).await;
            continue;
        };
        let inside = server.call(&["SET", "inside", "ours", "NX"]).await;
        assert_eq!(inside, Reply::Text("OK".to_owned()), "somebody is inside");
        let renewed = ours.store.renew(&[ours.renewal(&lease)]).await.remove(0).unwrap();
        let Renewal::Renewed(lease, _) = renewed else { panic!("{renewed:?}") };
        server.call(&["RPUSH", "terms", "ours"]).await;
        server.call(&["DEL", "inside"]).await;
        ours.store.release(&ours.release_of(&lease)).await.unwrap();
        // So that the other one gets its turn.
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
    server.call(&["SET", "stop", "1"]).await;
    assert!(script.0.wait().unwrap().success());
    assert_eq!(server.call(&["LRANGE", "met", "0", "-1"]).await.list(), [], "the script met somebody");
}

async fn handovers(server: &Redis) -> usize {
    let terms = server.call(&["LRANGE", "terms", "0", "-1"]).await;
    terms.list().windows(2).filter(|pair| pair[0] != pair[1]).count()
}
