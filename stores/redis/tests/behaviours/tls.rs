//! Encrypted connections: whom they trust, and what a mismatch says.

use std::time::Duration;

use tenure_core::store::{ErrorKind, StoreError};
use tenure_testkit::servers::redis::{ClientCertificates, Options, Redis};

use crate::support::{Candidate, here, name, open};

async fn first_bid(url: &str, options: &str) -> Result<(), StoreError> {
    let store = open(url, &format!("survives_restart=true&{options}"));
    let first = Candidate::new(store, "first", Duration::from_secs(60));
    first.store.acquire(&name("encrypted"), &first.bid()).await.map(drop)
}

fn says(outcome: Result<(), StoreError>, kind: ErrorKind, hint: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(hint), "{hint:?} is missing: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_the_authority_and_the_password_is_served() {
    let options = Options::default().tls(ClientCertificates::Optional).without_default_user();
    let server = here(options.user("app", "pw", "~tenure:* ~{tenure:* &* +@all").start());
    let certificates = server.certificates().unwrap();
    let authority = format!("ca={}", certificates.authority().display());
    first_bid(&server.url(), &authority).await.unwrap();

    says(first_bid(&server.url(), "").await, ErrorKind::Unavailable, "ca=/path");
    let stranger = format!("ca={}", certificates.stranger().display());
    says(first_bid(&server.url(), &stranger).await, ErrorKind::Unavailable, "ca=/path");
    says(first_bid(&server.url(), "ca=/nowhere.pem").await, ErrorKind::Invalid, "/nowhere.pem");
    let wrong = server.url().replace(":pw@", ":wrong@");
    says(first_bid(&wrong, &authority).await, ErrorKind::Denied, "refuses the user or the password");
    let elsewhere = format!("{authority}&prefix=other");
    says(first_bid(&server.url(), &elsewhere).await, ErrorKind::Denied, "grant ~other:leader:*");
    let plain = server.url().replace("rediss://", "redis://");
    says(first_bid(&plain, "call_timeout=1s").await, ErrorKind::Unavailable, "rediss://");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_in_the_certificate_may_be_another_one_than_the_host() {
    let server = here(Options::default().tls(ClientCertificates::Optional).start());
    let authority = format!("ca={}", server.certificates().unwrap().authority().display());
    first_bid(&server.url(), &format!("{authority}&server_name=localhost")).await.unwrap();
    let wrong = format!("{authority}&server_name=elsewhere.example");
    says(first_bid(&server.url(), &wrong).await, ErrorKind::Unavailable, "server_name=");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_our_certificate_gets_it() {
    let server = here(Options::default().tls(ClientCertificates::Required).start());
    let certificates = server.certificates().unwrap();
    let authority = format!("ca={}", certificates.authority().display());
    let own = format!(
        "{authority}&certificate={}&certificate_private={}",
        certificates.candidate().display(),
        certificates.candidate_private().display()
    );
    first_bid(&server.url(), &own).await.unwrap();
    says(first_bid(&server.url(), &authority).await, ErrorKind::Unavailable, "certificate_private=");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_without_tls_is_named() {
    let server = here(Redis::start());
    let url = server.url().replace("redis://", "rediss://");
    says(first_bid(&url, "call_timeout=1s").await, ErrorKind::Timeout, "write redis://");
}
