//! A way to a server that can be disturbed: a TCP proxy on 127.0.0.1, programmed while it runs.
//!
//! A store is given [`Proxy::address`] instead of the server's; the test then decides what passes. Faults hold for every
//! connection ([`Proxy::inject`]) or for one ([`Connection::inject`]), in one [`Direction`] or in both. A command returns
//! when it is in force: it holds for all that arrives at the proxy from then on. [`Proxy::wait_for`] waits for facts. So no
//! test has to sleep.
//!
//! | trouble | how |
//! |---|---|
//! | slow | [`Fault::Delay`] |
//! | connection reset | [`Proxy::cut`], [`Connection::cut`] |
//! | nobody listens | [`Proxy::refuse`] (refused by the kernel), [`Proxy::turn_away`] (accepted, reset and counted) |
//! | black hole: accepts, swallows, never answers | [`Fault::BlackHole`] |
//! | half-open: one direction is dead | [`Fault::Silence`] |
//! | only present connections are dead, for ever | [`Proxy::strand`] |
//! | request lost | [`Fault::LoseRequests`] |
//! | answer lost after the request was applied | [`Fault::LoseAnswers`] |
//! | request held back, delivered later | [`Fault::HoldBack`], then [`Proxy::deliver_late`] |
//!
//! [`Proxy::clear`] ends all of it.
//!
//! # Example
//!
//! ```
//! # #[cfg(feature = "servers")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! use tenure_testkit::proxy::{Fault, Proxy, Requests, Resp, Then};
//! use tenure_testkit::servers::redis::Redis;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//! use tokio::net::TcpStream;
//!
//! let redis = Redis::start().await;
//! let proxy = Proxy::start(redis.address(), Resp);
//! proxy.inject(Fault::LoseAnswers(Requests::commands(&["INCR"]).next(1), Then::Cut));
//!
//! // A store would get `redis.url_by(proxy.address())`.
//! let mut candidate = TcpStream::connect(proxy.address()).await.unwrap();
//! candidate.write_all(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n").await.unwrap();
//! assert!(candidate.read(&mut [0]).await.is_err(), "it does not know whether it happened");
//! assert_eq!(redis.call(&["GET", "a"]).await.text().as_deref(), Some("1"), "it did");
//! # }
//! # #[cfg(not(feature = "servers"))]
//! # fn main() {}
//! ```
//!
//! # What TCP does not do
//!
//! Nothing is ever lost out of the middle of a TCP connection. So once something was swallowed from a connection, that
//! direction of it stays dead, whatever is injected or cleared afterwards, and what follows a request that is held back
//! on the same connection is held back, too. `clear` cuts such connections; the next one that the store opens is whole.
//!
//! The kernel acknowledges what the proxy swallows: what a store sees is silence, not lost packets.
//!
//! # Requests
//!
//! Faults of requests and answers need to know where one ends: that is a [`Protocol`]. [`Resp`] is that of Redis and
//! Valkey. [`Raw`] knows nothing, takes what arrives together for one request, and works for everything, TLS too.
//!
//! [`Proxies`] stand in front of several servers, and tell each of them's address by that of its proxy where servers name
//! each other. [`ProxyNetwork`] is the conformance suite's [`Network`](crate::conformance::Network) made of them.

mod connection;
mod fault;
mod many;
mod network;
mod one;
mod protocol;
mod shared;
mod state;

pub use fault::{Direction, Fault, Requests, Then};
pub use many::Proxies;
pub use network::ProxyNetwork;
pub use one::{Connection, Proxy};
pub use protocol::{Protocol, Raw, Resp};
pub use state::Counts;
