//! A port that stays with whoever reserved it, also while its server is down.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::{fmt, io};

use tokio::net::TcpSocket;

/// A port of 127.0.0.1 for a server of this test.
///
/// A socket is bound to it that never listens. So the kernel gives the port to nobody who asks for any free one, while a
/// server that asks for this one gets it: both set SO_REUSEADDR, as servers do. A server that was killed finds its port
/// again.
pub struct Port {
    number: u16,
    _reserved: TcpSocket,
}

impl Port {
    /// Reserves a free port.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn reserve() -> Self {
        Self::bind(0).expect("there is no free port on 127.0.0.1")
    }

    /// Reserves a free port and the one `above` it, for servers that derive a second one from the first.
    ///
    /// # Panics
    /// If there is no such pair.
    #[must_use]
    pub fn reserve_pair(above: u16) -> (Self, Self) {
        // Ports that do not fit are kept until a pair is found, so that each is tried once.
        let mut unfit = Vec::new();
        while unfit.len() < 1000 {
            let first = Self::reserve();
            match first.number.checked_add(above).map(Self::bind) {
                Some(Ok(second)) => return (first, second),
                _ => unfit.push(first),
            }
        }
        panic!("there are no two free ports on 127.0.0.1 that lie {above} apart");
    }

    fn bind(number: u16) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, number).into())?;
        Ok(Self { number: socket.local_addr()?.port(), _reserved: socket })
    }

    /// Returns its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the address that a server here listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.number).into()
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Port({})", self.number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_server_gets_the_reserved_port_and_nobody_else_by_chance() {
        let port = Port::reserve();
        assert!(TcpStream::connect(port.address()).is_err(), "nobody listens yet");
        for _ in 0..2 {
            // The standard library sets SO_REUSEADDR, as servers do.
            let server = TcpListener::bind(port.address()).unwrap();
            TcpStream::connect(port.address()).unwrap();
            drop(server);
        }
        let others: Vec<_> = (0..200).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap() != port.address()));
    }

    #[test]
    fn reserved_ports_differ() {
        let ports: Vec<_> = (0..100).map(|_| Port::reserve()).collect();
        let numbers: BTreeSet<_> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
        let (first, second) = Port::reserve_pair(10_000);
        assert_eq!(first.number() + 10_000, second.number());
    }
}
