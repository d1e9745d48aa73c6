//! Where a request and its answer end.

use crate::resp;

/// How requests and answers look on a connection.
pub trait Protocol: Send + Sync + 'static {
    /// Returns the length of the request with which `bytes` begin, if all of it is there. `bytes` are never empty.
    fn request(&self, bytes: &[u8]) -> Option<usize>;

    /// Returns the length of what the server says first in `bytes`, if all of it is there. `bytes` are never empty.
    fn reply(&self, bytes: &[u8]) -> Option<usize>;

    /// Returns how many answers a request gets, in the order of the requests; `None` if nobody can tell.
    fn answers(&self, request: &[u8]) -> Option<u64>;

    /// Tells whether what the server says is an answer; else it came by itself.
    fn is_answer(&self, reply: &[u8]) -> bool;

    /// Replaces ports by which the server names servers: the first of each pair by the second.
    fn translate(&self, _reply: &mut [u8], _ports: &[(u16, u16)]) {}
}

/// Knows no requests: what arrives together is one, and the next thing that comes back is its answer. Fits everything,
/// TLS too, as long as requests do not overtake each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Protocol for Raw {
    fn request(&self, bytes: &[u8]) -> Option<usize> {
        Some(bytes.len())
    }

    fn reply(&self, bytes: &[u8]) -> Option<usize> {
        Some(bytes.len())
    }

    fn answers(&self, _request: &[u8]) -> Option<u64> {
        None
    }

    fn is_answer(&self, _reply: &[u8]) -> bool {
        true
    }
}

/// The protocol of Redis and Valkey, RESP2 and RESP3, pipelined or not, with messages of subscriptions in between.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resp;

impl Protocol for Resp {
    fn request(&self, bytes: &[u8]) -> Option<usize> {
        resp::length(bytes)
    }

    fn reply(&self, bytes: &[u8]) -> Option<usize> {
        resp::length(bytes)
    }

    fn answers(&self, request: &[u8]) -> Option<u64> {
        // What confirms a subscription looks like its messages, and may come several times.
        let subscribes = resp::command(request).is_some_and(|command| command.ends_with("SUBSCRIBE"));
        Some(u64::from(!subscribes))
    }

    fn is_answer(&self, reply: &[u8]) -> bool {
        !resp::is_push(reply)
    }

    fn translate(&self, reply: &mut [u8], ports: &[(u16, u16)]) {
        // What stands before a port wherever servers are named: MOVED and ASK, CLUSTER NODES and names of replicas; CLUSTER
        // SLOTS; GET-MASTER-ADDR-BY-NAME; MASTERS, REPLICAS, CLUSTER SHARDS; switch-master. Ports have five digits each, so
        // that no length changes; numbers that stand elsewhere are left alone.
        const BEFORE: [&[u8]; 6] = [
            b"127.0.0.1:",
            b"127.0.0.1\r\n:",
            b"127.0.0.1\r\n$5\r\n",
            b"port\r\n$5\r\n",
            b"port\r\n:",
            b"127.0.0.1 ",
        ];
        for before in BEFORE {
            let mut at = 0;
            while let Some(found) = reply[at..].windows(before.len()).position(|window| window == before) {
                at += found + before.len();
                let Some(digits) = reply.get_mut(at..at + 5) else { break };
                let port = ports.iter().find(|(from, _)| from.to_string().as_bytes() == digits);
                if let Some((_, to)) = port {
                    digits.copy_from_slice(to.to_string().as_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_not_answered_in_their_turn() {
        assert_eq!(Resp.answers(&resp::request(&["psubscribe", "*"])), Some(0));
        assert_eq!(Resp.answers(&resp::request(&["GET", "a"])), Some(1));
    }

    #[test]
    fn servers_are_named_by_the_ports_of_their_proxies() {
        let ports = [(30_001, 40_001), (30_002, 40_002)];
        for (said, heard) in [
            ("-MOVED 1 127.0.0.1:30001\r\n", "-MOVED 1 127.0.0.1:40001\r\n"),
            ("-ASK 1 127.0.0.1:30003\r\n", "-ASK 1 127.0.0.1:30003\r\n"),
            (
                "*3\r\n:0\r\n:30001\r\n*2\r\n$9\r\n127.0.0.1\r\n:30001\r\n",
                "*3\r\n:0\r\n:30001\r\n*2\r\n$9\r\n127.0.0.1\r\n:40001\r\n",
            ),
            ("*2\r\n$9\r\n127.0.0.1\r\n$5\r\n30002\r\n", "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n40002\r\n"),
            (
                "*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$5\r\n30002\r\n",
                "*4\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n$4\r\nport\r\n$5\r\n40002\r\n",
            ),
            (
                "*1\r\n$48\r\nmymaster 127.0.0.1 30001 127.0.0.1 30002\r\n",
                "*1\r\n$48\r\nmymaster 127.0.0.1 40001 127.0.0.1 40002\r\n",
            ),
            (":30001\r\n", ":30001\r\n"),
            ("$5\r\n30001\r\n", "$5\r\n30001\r\n"),
        ] {
            let mut reply = said.as_bytes().to_vec();
            Resp.translate(&mut reply, &ports);
            assert_eq!(String::from_utf8_lossy(&reply), heard);
        }
    }
}
