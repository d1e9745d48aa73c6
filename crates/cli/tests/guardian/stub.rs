//! The stub looks at its parent and at the clock as its last act.

use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use tempfile::TempDir;

use crate::harness::TENURE;

/// Starts a stub for `touch` and returns what it says, and whether it touched.
fn stub(parent: u32, deadline: u64) -> (Vec<String>, bool) {
    let folder = TempDir::new().unwrap();
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let prepare = format!(
        r#"{{"Prepare":{{"parent":{parent},"surroundings":{{"cgroup":null,"oom_score":null,"blocked":[]}}}}}}"#
    );
    let go = format!(r#"{{"Go":{{"env":[],"deadline":[{deadline},{deadline}],"foreground":false}}}}"#);
    for order in [prepare, go] {
        send(&ours, order.as_bytes(), SendFlags::NOSIGNAL).unwrap();
    }
    let touched = folder.path().join("touched");
    let mut stub = Command::new(TENURE)
        .args(["__exec", "--", "touch"])
        .arg(&touched)
        .stdin(Stdio::from(theirs))
        .spawn()
        .unwrap();
    stub.wait().unwrap();
    let mut said = Vec::new();
    loop {
        let mut buffer = [0; 1000];
        match recv(&ours, &mut buffer[..], RecvFlags::empty()) {
            Ok((_, 0)) => break,
            Ok((_, length)) => said.push(String::from_utf8(buffer[..length].to_vec()).unwrap()),
            // It had not read everything. What it said is still there.
            Err(error) => assert_eq!(error, Errno::CONNRESET),
        }
    }
    (said, touched.exists())
}

#[test]
fn it_becomes_the_command_in_time() {
    assert_eq!(stub(std::process::id(), u64::MAX), (vec!["\"Ready\"".to_owned()], true));
}

#[test]
fn it_does_not_start_late() {
    let (said, touched) = stub(std::process::id(), 1);
    assert_eq!(said, ["\"Ready\"", r#"{"Failed":"Late"}"#]);
    assert!(!touched);
}

#[test]
fn it_does_not_start_without_its_parent() {
    let (said, touched) = stub(1, u64::MAX);
    assert!(said[0].contains("its parent has gone") && !touched, "{said:?}");
}
