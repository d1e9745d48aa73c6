//! One server with TLS and users.

use std::path::Path;
use std::process::Command;

use tenure_testkit::servers::Program;
use tenure_testkit::servers::redis::{ClientCertificates, Flavour, Options, Redis};

/// Talks to a server over TLS as somebody with `arguments` does; returns all that was said.
fn say(redis: &Redis, authority: &Path, arguments: &[&str]) -> String {
    let program = Program::find("redis-cli", "TENURE_REDIS_CLI");
    let output = Command::new(program.path())
        .args(["-h", "127.0.0.1", "-p", &redis.port().to_string(), "--tls", "--cacert"])
        .arg(authority)
        .args(arguments)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap()
}

pub async fn tls_lets_in_who_is_known(flavour: Flavour) {
    let redis = Options::default()
        .flavour(flavour)
        .tls(ClientCertificates::Optional)
        .without_default_user()
        .user("app", "pw", "~lock:* &* +@all -config")
        .start()
        .await;
    let certificates = redis.certificates().unwrap();
    let app = |arguments: &[&str]| {
        say(
            &redis,
            &certificates.authority(),
            &[&["--no-auth-warning", "--user", "app", "--pass", "pw"], arguments].concat(),
        )
    };
    assert_eq!(app(&["SET", "lock:a", "1"]).trim(), "OK");
    assert!(app(&["SET", "other", "1"]).contains("NOPERM"), "another key");
    assert!(app(&["CONFIG", "GET", "*"]).contains("NOPERM"), "another command");
    let anybody = say(&redis, &certificates.authority(), &["PING"]);
    assert!(anybody.contains("NOAUTH"), "no user: {anybody}");
    let wrong = say(&redis, &certificates.authority(), &["--user", "app", "--pass", "wrong", "PING"]);
    assert!(wrong.contains("WRONGPASS"), "wrong password: {wrong}");
    let stranger = say(&redis, &certificates.stranger(), &["PING"]);
    assert!(stranger.contains("certificate verify failed"), "an authority that signed nothing: {stranger}");
    assert_eq!(redis.url(), format!("rediss://app:pw@127.0.0.1:{}", redis.port()));
}

pub async fn tls_can_ask_for_a_certificate(flavour: Flavour) {
    let redis = Options::default().flavour(flavour).tls(ClientCertificates::Required).start().await;
    let certificates = redis.certificates().unwrap();
    let (own, private) = (certificates.candidate(), certificates.candidate_private());
    let with = ["--cert", own.to_str().unwrap(), "--key", private.to_str().unwrap(), "PING"];
    assert_eq!(say(&redis, &certificates.authority(), &with).trim(), "PONG");
    let without = say(&redis, &certificates.authority(), &["PING"]);
    assert!(!without.contains("PONG"), "let in without a certificate: {without}");
}
