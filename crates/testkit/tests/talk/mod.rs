//! Talks to servers of Redis's protocol by hand, as a candidate would.

// Every test program uses its own part, and none of it leaves the program.
#![allow(dead_code, unreachable_pub)]

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tenure_core::SystemClock;
use tenure_core::clock::ClockExt;
use tenure_testkit::resp::{self, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection as a candidate has one.
pub struct Connection {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), bytes: Vec::new() }
    }

    pub async fn send(&mut self, arguments: &[&str]) {
        self.send_bytes(&resp::request(arguments)).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Waits for the next reply.
    pub async fn reply(&mut self) -> Reply {
        self.try_reply().await.unwrap()
    }

    /// Waits for the next reply, or the end of the connection.
    pub async fn try_reply(&mut self) -> io::Result<Reply> {
        loop {
            if let Some((reply, length)) = resp::reply(&self.bytes) {
                self.bytes.drain(..length);
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Waits until the connection is reset.
    pub async fn is_reset(&mut self) {
        assert_eq!(self.try_reply().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    }

    pub async fn call(&mut self, arguments: &[&str]) -> Reply {
        self.send(arguments).await;
        self.reply().await
    }

    /// Tells whether a reply comes soon. That none comes can only be seen by waiting.
    pub async fn is_answered_within(&mut self, limit: Duration) -> bool {
        tokio::select! {
            biased;
            _ = self.reply() => true,
            () = SystemClock.sleep(limit) => false,
        }
    }
}

pub fn ok() -> Reply {
    Reply::Text("OK".to_owned())
}

pub fn value(text: &str) -> Reply {
    Reply::Bytes(text.into())
}
