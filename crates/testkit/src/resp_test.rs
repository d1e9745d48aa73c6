use super::*;

/// Whole messages of every kind, as servers send them.
const MESSAGES: &[&[u8]] = &[
    b"+OK\r\n",
    b"-NOSCRIPT No matching script.\r\n",
    b":-5\r\n",
    b"$5\r\na\r\nb\n\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*3\r\n:1\r\n*2\r\n$1\r\nx\r\n$-1\r\n+y\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",3.25\r\n",
    b"(3492890328409238509324850943850943825024385\r\n",
    b"!9\r\nERR wrong\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"~2\r\n:1\r\n:2\r\n",
    b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n*1\r\n:2\r\n",
    b"|1\r\n+ttl\r\n:3600\r\n*1\r\n:7\r\n",
    b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n",
    b"PING\r\n",
];

#[test]
fn every_message_ends_where_the_next_one_begins() {
    for message in MESSAGES {
        let mut bytes = message.to_vec();
        bytes.extend(b":1\r\n");
        assert_eq!(length(&bytes), Some(message.len()), "{:?}", String::from_utf8_lossy(message));
        for cut in 0..message.len() {
            assert_eq!(length(&message[..cut]), None, "{:?} cut at {cut}", String::from_utf8_lossy(message));
        }
    }
}

#[test]
fn what_is_no_message_is_taken_as_it_came() {
    assert_eq!(length(b"\x16\x03\x01\x02\x00"), Some(5), "TLS");
    assert_eq!(length(b"$x\r\nabc"), Some(7));
    assert_eq!(length(b"*?\r\nabc"), Some(7));
}

#[test]
fn a_request_reads_as_it_was_written() {
    let bytes = request(&["set", "a", ""]);
    assert_eq!(bytes, b"*3\r\n$3\r\nset\r\n$1\r\na\r\n$0\r\n\r\n");
    assert_eq!(command(&bytes).as_deref(), Some("SET"));
    assert_eq!(command(b"ping\r\n").as_deref(), Some("PING"));
    assert_eq!(command(b""), None);
}

#[test]
fn replies_are_read() {
    let read = |bytes: &[u8]| reply(bytes).map(|(reply, length)| (reply, bytes.len() - length));
    assert_eq!(read(b"+OK\r\nrest"), Some((Reply::Text("OK".into()), 4)));
    assert_eq!(read(b"$-1\r\n"), Some((Reply::Null, 0)));
    assert_eq!(read(b"$3\r\nab"), None);
    let (list, _) = reply(b"*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n:99\r\n").unwrap();
    assert_eq!(list.field("port").as_deref(), Some("99"));
    assert_eq!(list.field("name"), None);
    let (info, _) = reply(b"$28\r\n# Replication\r\nrole:master\r\n\r\n").unwrap();
    assert_eq!(info.line("role").as_deref(), Some("master"));
    let (attributed, _) = reply(MESSAGES[17]).unwrap();
    assert_eq!(attributed, Reply::List(vec![Reply::Integer(7)]));
}

#[test]
fn what_comes_by_itself_is_told_from_answers() {
    for push in [
        MESSAGES[18],
        b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n",
        b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    ] {
        assert!(is_push(push));
    }
    for answer in [MESSAGES[0], MESSAGES[8], b"*1\r\n$6\r\nmassag\r\n"] {
        assert!(!is_push(answer));
    }
}
