//! A proxy in front of one server.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::{fmt, io};

use tokio::net::{TcpListener, TcpSocket};

use super::connection::serve;
use super::shared::Shared;
use super::state::{Door, Link, State};
use super::{Counts, Fault, Protocol};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A proxy in front of one server. Dropping it ends it and all its connections.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Proxy {
    /// Starts one on a free port of 127.0.0.1, within a Tokio runtime. The server need not run yet.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn start(server: SocketAddr, protocol: impl Protocol) -> Self {
        Address::reserve().start(server, Arc::new(protocol), Vec::new())
    }

    /// Returns the address to give to a store instead of the server's.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the server behind it.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.shared.server
    }

    /// Adds a fault for all connections, present and future.
    pub fn inject(&self, fault: Fault) {
        self.shared.command(|state| state.inject(None, fault));
    }

    /// Ends all faults, also those of single connections, and lets everybody in again.
    ///
    /// Connections from which something is missing are cut. What was held back stays so.
    pub async fn clear(&self) {
        let broken = self.shared.command(|state| state.clear(None));
        self.cut_all(|id| broken.contains(&id)).await;
        self.door(Door::Open).await;
    }

    /// Resets all present connections; new ones are served. What was held back stays so.
    pub async fn cut(&self) {
        self.cut_all(|_| true).await;
    }

    /// Resets all connections and listens no more: the kernel refuses whoever comes. The port stays reserved.
    pub async fn refuse(&self) {
        self.door(Door::Shut).await;
        self.cut_all(|_| true).await;
    }

    /// Resets all connections, and every new one as soon as it is made.
    pub async fn turn_away(&self) {
        self.door(Door::TurningAway).await;
        self.cut_all(|_| true).await;
    }

    /// Lets nothing pass any more on present connections, for ever, while new ones are served: whoever has one must find
    /// out by itself. Only [`cut`](Self::cut) ends them.
    pub fn strand(&self) {
        self.shared.command(State::strand);
    }

    /// Brings what was held back to the server, connection after connection in the order in which they were made, and
    /// returns when the server has dealt with it. Returns how many requests were delivered.
    ///
    /// Candidates that are still there get the answers. What was held back on a connection that the server has closed is
    /// lost.
    pub async fn deliver_late(&self) -> u64 {
        let before = self.counts().requests_delivered;
        let holding = self.shared.step(|state| {
            let holding = state.links.iter().filter(|(_, link)| !link.held.is_empty());
            holding.map(|(&id, _)| id).collect::<Vec<_>>()
        });
        for id in holding {
            self.shared.command(|state| {
                if let Some(link) = state.links.get_mut(&id) {
                    link.deliver = true;
                }
            });
            self.shared
                .wait_for("the server to deal with what was held back", |state| {
                    state.links.get(&id).is_none_or(Link::is_delivered).then_some(())
                })
                .await;
        }
        self.counts().requests_delivered - before
    }

    /// Returns the connections that candidates have now, in the order in which they were made.
    #[must_use]
    pub fn connections(&self) -> Vec<Connection> {
        let ids = self.shared.step(|state| {
            let open = state.links.iter().filter(|(_, link)| link.front_open);
            open.map(|(&id, _)| id).collect::<Vec<_>>()
        });
        ids.into_iter().map(|id| Connection { shared: Arc::clone(&self.shared), id }).collect()
    }

    /// Waits for a connection on which a request was sent that `fits`, at any time: the one that subscribes.
    ///
    /// # Panics
    /// If there is none in time.
    pub async fn connection_that_sent(&self, what: &str, fits: impl Fn(&[u8]) -> bool) -> Connection {
        let what = format!("a connection that sent {what}");
        let id = self.shared.wait_for(&what, |state| {
            let mut open = state.links.iter().filter(|(_, link)| link.front_open);
            open.find(|(_, link)| link.sent.iter().any(|request| fits(request))).map(|(&id, _)| id)
        });
        Connection { id: id.await, shared: Arc::clone(&self.shared) }
    }

    /// Returns what was counted since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.step(|state| state.counts)
    }

    /// Waits until the counts show `fact`.
    ///
    /// # Panics
    /// If they do not in time, with `what` was waited for.
    pub async fn wait_for(&self, what: &str, fact: impl Fn(&Counts) -> bool) {
        self.shared.wait_for(what, |state| fact(&state.counts).then_some(())).await;
    }

    async fn door(&self, door: Door) {
        self.shared.command(|state| state.door = door);
        // Another command may have come in between; then that one is in force.
        let in_force = |state: &State| state.door_in_force == state.door;
        self.shared.wait_for("its listener", |state| in_force(state).then_some(())).await;
    }

    async fn cut_all(&self, wanted: impl Fn(u64) -> bool) {
        cut(&self.shared, wanted).await;
    }
}

/// Resets connections and returns when they are gone.
async fn cut(shared: &Shared, wanted: impl Fn(u64) -> bool) {
    let cut = shared.command(|state| state.cut(wanted));
    let gone = |state: &State, id| state.links.get(id).is_none_or(|link| !link.front_open);
    shared
        .wait_for("connections to be cut", |state| cut.iter().all(|id| gone(state, id)).then_some(()))
        .await;
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.command(|state| state.closing = true);
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("address", &self.address)
            .field("server", &self.shared.server)
            .field("counts", &self.counts())
            .finish()
    }
}

/// One connection through a proxy. It may have ended; then commands do nothing.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    id: u64,
}

impl Connection {
    /// Adds a fault for this connection alone.
    pub fn inject(&self, fault: Fault) {
        self.shared.command(|state| state.inject(Some(self.id), fault));
    }

    /// Ends the faults of this connection alone; cuts it if something is missing from it.
    pub async fn clear(&self) {
        let broken = self.shared.command(|state| state.clear(Some(self.id)));
        cut(&self.shared, |id| broken.contains(&id)).await;
    }

    /// Resets it. What was held back stays so.
    pub async fn cut(&self) {
        cut(&self.shared, |id| id == self.id).await;
    }

    /// Tells whether the candidate still has it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared.step(|state| state.links.get(&self.id).is_some_and(|link| link.front_open))
    }

    /// Waits until the candidate has closed it, or it was cut.
    ///
    /// # Panics
    /// If that does not come about in time.
    pub async fn ended(&self) {
        let open = |state: &State| state.links.get(&self.id).is_some_and(|link| link.front_open);
        self.shared.wait_for("the end of a connection", |state| (!open(state)).then_some(())).await;
    }

    /// Returns the address of the candidate's side.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.shared.step(|state| state.links.get(&self.id).map(|link| link.peer))
    }

    /// Returns how many requests came over it.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.step(|state| state.links.get(&self.id).map_or(0, |link| link.requests))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).field("is_open", &self.is_open()).finish()
    }
}

/// The address of a proxy, reserved for as long as it runs, also while nobody listens.
///
/// A socket is bound to it that never listens, and shares the port (SO_REUSEPORT) with whichever socket does.
pub(super) struct Address {
    _reserved: TcpSocket,
    pub(super) address: SocketAddr,
}

impl Address {
    pub(super) fn reserve() -> Self {
        let any = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0).into();
        let reserved = bind(any).expect("a free port on 127.0.0.1");
        Self { address: reserved.local_addr().expect("a bound socket has an address"), _reserved: reserved }
    }

    pub(super) fn start(
        self,
        server: SocketAddr,
        protocol: Arc<dyn Protocol>,
        ports: Vec<(u16, u16)>,
    ) -> Proxy {
        let address = self.address;
        let shared = Arc::new(Shared::new(server, protocol, ports));
        let listener = self.listen();
        tokio::spawn(accept(Arc::clone(&shared), self, Some(listener)));
        Proxy { shared, address }
    }

    fn listen(&self) -> TcpListener {
        bind(self.address).and_then(|socket| socket.listen(BACKLOG)).expect("the port is reserved")
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Lets connections in as the door stands.
async fn accept(shared: Arc<Shared>, address: Address, mut listener: Option<TcpListener>) {
    let mut commands = shared.commands();
    loop {
        commands.borrow_and_update();
        let (door, closing) = shared.step(|state| (state.door, state.closing));
        if closing {
            return;
        }
        listener = match (door, listener) {
            // Whoever waits to be accepted is reset.
            (Door::Shut, _) => None,
            (_, Some(listener)) => Some(listener),
            (_, None) => Some(address.listen()),
        };
        shared.step(|state| state.door_in_force = door);
        let Some(listener) = &listener else {
            let _ = commands.changed().await;
            continue;
        };
        tokio::select! {
            biased;
            _ = commands.changed() => {}
            accepted = listener.accept() => match accepted {
                Ok((front, peer)) => match shared.step(|state| state.open(peer)) {
                    Some(id) => drop(tokio::spawn(serve(Arc::clone(&shared), id, front))),
                    None => drop(front.set_zero_linger()),
                },
                // The connection has gone again, or there are too many: others may come.
                Err(error) => eprintln!("the proxy on {} cannot accept: {error}", address.address),
            },
        }
    }
}
