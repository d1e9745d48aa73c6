//! Proxies in front of several servers that belong together.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::join_all;

use super::one::Address;
use super::{Counts, Fault, Protocol, Proxy};

/// Proxies in front of several servers that belong together: sentinels and what they look after, a cluster, independent
/// servers. One way for a candidate, on which all of them are disturbed at once.
///
/// Where servers name each other to candidates, the proxies put their own ports instead, if the protocol knows how
/// ([`Protocol::translate`]): a candidate that was given addresses of proxies stays behind proxies. The servers
/// themselves talk to each other past them.
#[derive(Debug)]
pub struct Proxies {
    proxies: Vec<Proxy>,
}

impl Proxies {
    /// Starts one in front of each server, within a Tokio runtime.
    ///
    /// # Panics
    /// If there are no free ports, or a port of a server has not five digits.
    #[must_use]
    pub fn start(servers: &[SocketAddr], protocol: impl Protocol) -> Self {
        let protocol: Arc<dyn Protocol> = Arc::new(protocol);
        let addresses: Vec<_> = servers.iter().map(|_| Address::reserve()).collect();
        let of_proxies = addresses.iter().map(|address| address.address.port());
        let ports: Vec<_> = servers.iter().map(SocketAddr::port).zip(of_proxies).collect();
        let five = |port: u16| port >= 10_000;
        assert!(ports.iter().all(|&(from, to)| five(from) && five(to)), "ports need five digits: {ports:?}");
        let start = |(address, server): (Address, &SocketAddr)| {
            address.start(*server, Arc::clone(&protocol), ports.clone())
        };
        Self { proxies: addresses.into_iter().zip(servers).map(start).collect() }
    }

    /// Returns all proxies, in the order of their servers.
    #[must_use]
    pub fn all(&self) -> &[Proxy] {
        &self.proxies
    }

    /// Returns the proxy in front of a server.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn before(&self, server: SocketAddr) -> &Proxy {
        let proxy = self.proxies.iter().find(|proxy| proxy.server() == server);
        proxy.unwrap_or_else(|| panic!("no proxy stands in front of {server}"))
    }

    /// Returns the addresses to give to a store instead of the servers', in the same order.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.proxies.iter().map(Proxy::address).collect()
    }

    /// Adds a fault to each of them. Where it is about the next requests, each proxy counts for itself.
    pub fn inject(&self, fault: &Fault) {
        for proxy in &self.proxies {
            proxy.inject(fault.clone());
        }
    }

    /// Ends all faults, as [`Proxy::clear`] does.
    pub async fn clear(&self) {
        join_all(self.proxies.iter().map(Proxy::clear)).await;
    }

    /// Resets all present connections.
    pub async fn cut(&self) {
        join_all(self.proxies.iter().map(Proxy::cut)).await;
    }

    /// Resets all connections, and every new one as soon as it is made.
    pub async fn turn_away(&self) {
        join_all(self.proxies.iter().map(Proxy::turn_away)).await;
    }

    /// Brings what was held back to the servers, one after the other, as [`Proxy::deliver_late`] does.
    pub async fn deliver_late(&self) -> u64 {
        let mut delivered = 0;
        for proxy in &self.proxies {
            delivered += proxy.deliver_late().await;
        }
        delivered
    }

    /// Returns what all of them have counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.proxies.iter().map(Proxy::counts).fold(Counts::default(), Counts::plus)
    }
}
