//! A fleet that is being moved: other software's settings lead to the very key that it contests, and nobody meets anybody.
//!
//! The other side is a plain script without a line of ours.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tenure_testkit::servers::redis::{Options, Redis};

use crate::place::SECRET;
use crate::world::{Candidate, eventually, tenure};

/// So many terms has each side.
const TERMS: usize = 3;

/// What everybody finds in books and blogs. It notes each of its terms, and everybody whom it meets inside, and lets the
/// other side have its turn.
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
  if [ "$(ask lindex terms -1)" != plain ] && [ "$(ask set "$key" "$mine" nx px 20000)" = OK ]; then
    [ "$(ask set inside "$mine" nx)" = OK ] || ask rpush met "$mine" >/dev/null
    [ "$(ask eval "$renew" 1 "$key" "$mine" 20000)" = 1 ] || ask rpush met "lost $mine" >/dev/null
    ask rpush terms plain >/dev/null
    ask del inside >/dev/null
    [ "$(ask eval "$release" 1 "$key" "$mine")" = 1 ] || ask rpush met "gone $mine" >/dev/null
  fi
done
"#;

/// What our side runs while it leads.
const WORK: &str = r#"
ask() { redis-cli -p "$PORT" "$@" > /dev/null; }
[ "$(redis-cli -p "$PORT" set inside ours nx)" = OK ] || ask rpush met ours
ask rpush terms ours
ask del inside
"#;

/// Ends with the test, whatever happens.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server, and whether it wants its password.
struct Server {
    redis: Redis,
    password: bool,
}

impl Server {
    async fn start(password: bool) -> Self {
        let options = Options::default().append_only();
        let redis = if password { options.password(SECRET) } else { options }.start().await;
        // Without this our side would wait for the time that the other's lease had left.
        redis.call(&["CONFIG", "SET", "notify-keyspace-events", "Kgx"]).await;
        Self { redis, password }
    }

    fn port(&self) -> String {
        self.redis.port().to_string()
    }

    /// Gives a command that asks with redis-cli what that needs.
    fn log_in<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        if self.password {
            command.env("REDISCLI_AUTH", SECRET);
        }
        command.stdin(Stdio::null())
    }

    fn plain_script(&self, key: &str) -> Script {
        let mut script = Command::new("bash");
        script.args(["-c", SCRIPT, "plain", key, &self.port()]);
        Script(self.log_in(&mut script).spawn().unwrap())
    }

    fn answer(&self, words: &[&str]) -> String {
        let mut ask = Command::new("redis-cli");
        ask.args(["-p", &self.port()]).args(words);
        String::from_utf8(self.log_in(&mut ask).output().unwrap().stdout).unwrap()
    }
}

/// Lets both sides lead in turn; `run` is `tenure run` with the other software's settings.
fn contest(server: &Server, mut run: Command, key: &str, folder: &Path) {
    run.args(["--", "sh", "-c", WORK]).current_dir(folder).stdout(Stdio::null());
    server.log_in(run.env("PORT", server.port()));
    let ours = Candidate::start(run);
    let line = ours.says("election ");
    assert!(line.contains(&format!("lease at {key})")), "{line}");
    let mut script = server.plain_script(key);
    let terms = || server.answer(&["lrange", "terms", "0", "-1"]);
    let of = |terms: &str, who: &str| terms.lines().filter(|line| *line == who).count();
    eventually("both sides had their terms", || {
        let terms = terms();
        (of(&terms, "ours") >= TERMS && of(&terms, "plain") >= TERMS).then_some(())
    });
    server.answer(&["set", "stop", "1"]);
    assert!(script.0.wait().unwrap().success());
    assert_eq!(server.answer(&["lrange", "met", "0", "-1"]).trim(), "", "somebody met somebody: {}", terms());
    let said = ours.said().join("\n");
    assert!(!said.contains(SECRET), "{said}");
}

#[tokio::test]
async fn the_variables_of_a_mutex() {
    let (server, folder) = (Server::start(false).await, tempfile::tempdir().unwrap());
    fs::write(folder.path().join("package.json"), r#"{ "name": "@acme/shop" }"#).unwrap();
    let mut run = tenure();
    run.args(["run", "--election", "billing", "--ttl", "3s"]);
    run.env("MUTEX_REDIS_HOST", "127.0.0.1").env("REDIS_PORT", server.port());
    contest(&server, run, "@acme/shop:leader:billing", folder.path());

    // What the command is told leads it to the same lease.
    let mut once = tenure();
    once.args([
        "run",
        "--election",
        "once",
        "--ttl",
        "3s",
        "--once",
        "--",
        "sh",
        "-c",
        "exec \"$TENURE\" leader --is-me",
    ]);
    once.env("MUTEX_REDIS_HOST", "127.0.0.1").env("REDIS_PORT", server.port());
    once.env("TENURE", env!("CARGO_BIN_EXE_tenure")).current_dir(folder.path()).stdout(Stdio::null());
    let mut once = Candidate::start(once);
    assert_eq!(once.exits(), 0, "{:?}", once.said());
}

#[tokio::test]
async fn the_section_leader_election() {
    let (server, folder) = (Server::start(true).await, tempfile::tempdir().unwrap());
    let text =
        r#"{ "Kestrel": {}, "LeaderElection": { "LeaseDurationSeconds": 3, "RenewalIntervalSeconds": 1 } }"#;
    fs::write(folder.path().join("appsettings.json"), text).unwrap();
    let mut run = tenure();
    run.args(["run", "--config", "appsettings.json"]);
    run.env("LeaderElection__ResourceName", "gis");
    run.env(
        "Redis__ConnectionString",
        format!("127.0.0.1:{},password={SECRET},abortConnect=false", server.port()),
    );
    contest(&server, run, "honua:leader:gis", folder.path());
}

#[tokio::test]
async fn the_block_high_availability() {
    let (server, folder) = (Server::start(true).await, tempfile::tempdir().unwrap());
    fs::write(folder.path().join("server.honua"), HCL).unwrap();
    let mut run = tenure();
    run.args(["run", "--config", "server.honua"]);
    run.env("CONNECTION", format!("127.0.0.1:{},password={SECRET}", server.port()));
    contest(&server, run, "acme:honua-server", folder.path());
}

const HCL: &str = r#"
honua "main" {
  port = var.port

  high_availability {
    enabled = true

    leader_election {
      enabled                  = true
      lease_duration_seconds   = 3
      renewal_interval_seconds = 1
      key_prefix               = "acme:"
    }
  }

  cache "redis" {
    enabled    = true
    connection = env("CONNECTION")
    prefix     = "cached:"
  }
}
"#;

#[test]
fn what_is_switched_off_leads_without_a_store_and_says_so_once() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("server.honua"), HCL.replacen("true", "false", 1)).unwrap();
    let mut run = tenure();
    run.args(["run", "--config", "server.honua", "--once", "--", "sh", "-c", "exit 7"])
        .current_dir(folder.path());
    let mut candidate = Candidate::start(run);
    assert_eq!(candidate.exits(), 7);
    let warnings = candidate.said().into_iter().filter(|line| line.contains("warning: ")).collect::<Vec<_>>();
    assert!(matches!(warnings.as_slice(), [one] if one.contains("server.honua:6:15: ")), "{warnings:?}");
}
