//! One connection: what arrives on one side goes out on the other, as the state decides.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::io;
use std::sync::Arc;

use tenure_core::clock::Moment;
use tenure_core::{Clock, SystemClock};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;

use super::Direction;
use super::shared::Shared;
use super::state::{Decision, State};

/// How much may be on its way in one direction before nothing more is read.
const MOST_WAITING: usize = 10_000;

/// How much is read at once.
const READ: usize = 64 * 1024;

/// Why a connection ended before both sides had closed it.
enum Ended {
    /// One side broke off, or the connection is to be cut: the candidate sees a reset.
    Broken,
    /// The candidate has closed its side, and the server is not to know.
    Left,
}

/// Serves a connection until it has ended and what was held back on it was delivered.
pub(super) async fn serve(shared: Arc<Shared>, id: u64, mut front: TcpStream) {
    // The proxy must not be what makes a store slow.
    let _ = front.set_nodelay(true);
    let (mut back, mut replies) = (None, Inflow::default());
    let ended = tokio::select! {
        biased;
        () = until_cut(&shared, id) => Err(Ended::Broken),
        ended = exchange(&shared, id, &mut front, &mut back, &mut replies) => ended,
    };
    if let Err(Ended::Broken) = ended {
        let _ = front.set_zero_linger();
    }
    drop(front);
    let is_late = shared.step(|state| state.leave(id));
    if let Some(back) = back.as_mut().filter(|_| is_late) {
        // It ends when the server hangs up, too; then what was held back is lost.
        let _ = deliver(&shared, id, back, replies).await;
    }
    drop(back);
    shared.step(|state| state.links.remove(&id));
}

async fn until_cut(shared: &Shared, id: u64) {
    until(shared, |state| state.closing || state.links.get(&id).is_none_or(|link| link.cut)).await;
}

/// Waits for something that a command or a decision brings about.
async fn until(shared: &Shared, is_so: impl Fn(&State) -> bool) {
    let mut commands = shared.commands();
    loop {
        commands.borrow_and_update();
        if shared.step(|state| is_so(state)) {
            return;
        }
        // The sender is `shared`: it is still there.
        let _ = commands.changed().await;
    }
}

/// Serves both directions until both have ended or one broke. The server is connected here, since it may not answer.
async fn exchange(
    shared: &Shared,
    id: u64,
    front: &mut TcpStream,
    back: &mut Option<TcpStream>,
    replies: &mut Inflow,
) -> Result<(), Ended> {
    let mut requests = Inflow::default();
    if shared.step(|state| state.falls_into_black_hole(id)) {
        let (read, _) = front.split();
        let pump = Pump { shared, id, direction: Direction::ToServer, from: read, inflow: &mut requests };
        return pump.run(tokio::io::sink()).await;
    }
    let Ok(connected) = TcpStream::connect(shared.server).await else { return Err(Ended::Broken) };
    let _ = connected.set_nodelay(true);
    let (front_read, front_write) = front.split();
    let (back_read, back_write) = back.insert(connected).split();
    let up = Pump { shared, id, direction: Direction::ToServer, from: front_read, inflow: &mut requests };
    let down = Pump { shared, id, direction: Direction::FromServer, from: back_read, inflow: replies };
    tokio::try_join!(up.run(back_write), down.run(front_write)).map(|_| ())
}

/// Keeps the back alone until what was held back is to be delivered, and the server has dealt with it. `replies` are what
/// it said before; nobody is there to hear them, but they count.
async fn deliver(shared: &Shared, id: u64, back: &mut TcpStream, replies: Inflow) -> io::Result<()> {
    let mut commands = shared.commands();
    let Inflow { mut bytes, waiting, .. } = replies;
    for (_, reply) in waiting {
        shared.step(|state| state.reply(id, &reply, &*shared.protocol));
    }
    loop {
        commands.borrow_and_update();
        for request in shared.step(|state| state.delivery(id, &*shared.protocol)) {
            back.write_all(&request).await?;
        }
        if shared.step(|state| state.closing || state.is_all_delivered(id)) {
            return Ok(());
        }
        tokio::select! {
            biased;
            _ = commands.changed() => {}
            read = back.read_buf(&mut bytes) => {
                if read? == 0 {
                    return Ok(());
                }
                while let Some(reply) = first(shared, Direction::FromServer, &mut bytes) {
                    shared.step(|state| state.reply(id, &reply, &*shared.protocol));
                }
            }
        }
    }
}

/// Takes the first whole request or reply out of `bytes`.
fn first(shared: &Shared, direction: Direction, bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    if bytes.is_empty() {
        return None;
    }
    let length = match direction {
        Direction::ToServer => shared.protocol.request(bytes),
        Direction::FromServer => shared.protocol.reply(bytes),
    };
    length.map(|length| bytes.drain(..length).collect())
}

/// What has arrived from one side and was not decided about.
#[derive(Default)]
struct Inflow {
    /// What has arrived and is not whole yet.
    bytes: Vec<u8>,
    /// What is whole, and when it is to go on: only then it is decided about.
    waiting: VecDeque<(Moment, Vec<u8>)>,
    read_all: bool,
}

/// One direction of a connection.
struct Pump<'a> {
    shared: &'a Shared,
    id: u64,
    direction: Direction,
    from: ReadHalf<'a>,
    inflow: &'a mut Inflow,
}

impl Pump<'_> {
    async fn run(mut self, mut to: impl AsyncWrite + Unpin) -> Result<(), Ended> {
        let mut commands = self.shared.commands();
        loop {
            commands.borrow_and_update();
            self.deliver_late(&mut to).await?;
            self.pass_on(&mut to).await?;
            if self.inflow.read_all && self.inflow.waiting.is_empty() {
                return self.end(&mut to).await;
            }
            self.inflow.bytes.reserve(READ);
            let due = self.next_due();
            tokio::select! {
                biased;
                // The sender is `shared`: it is still there.
                _ = commands.changed() => {}
                () = due => {}
                read = self.from.read_buf(&mut self.inflow.bytes),
                    if !self.inflow.read_all && self.inflow.waiting.len() < MOST_WAITING => match read {
                        Ok(0) => self.arrive_last(),
                        Ok(_) => self.arrive(),
                        Err(_) => self.broken(Direction::FromServer).await?,
                    },
            }
        }
    }

    /// Cuts what has arrived into requests or replies.
    fn arrive(&mut self) {
        while let Some(whole) = first(self.shared, self.direction, &mut self.inflow.bytes) {
            self.wait(whole);
        }
    }

    /// Lets the rest pass as it is: no more will come.
    fn arrive_last(&mut self) {
        self.inflow.read_all = true;
        let rest = std::mem::take(&mut self.inflow.bytes);
        if !rest.is_empty() {
            self.wait(rest);
        }
    }

    fn wait(&mut self, whole: Vec<u8>) {
        let delay = self.shared.step(|state| {
            if self.direction == Direction::ToServer {
                state.arrived(self.id, &whole);
            }
            state.delay(self.id, self.direction)
        });
        self.inflow.waiting.push_back((SystemClock.now().plus(delay), whole));
    }

    /// Waits until the first that waits is to go on.
    fn next_due(&self) -> impl Future<Output = ()> + use<> {
        let due = self.inflow.waiting.front().map(|(due, _)| SystemClock.sleep_until(*due));
        async {
            match due {
                Some(due) => due.await,
                None => pending().await,
            }
        }
    }

    /// Decides about what is due, and sends what may pass.
    async fn pass_on(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Ended> {
        let (id, protocol) = (self.id, &*self.shared.protocol);
        while self.inflow.waiting.front().is_some_and(|(due, _)| due.has_passed(SystemClock.now())) {
            let Some((_, mut whole)) = self.inflow.waiting.pop_front() else { break };
            let decision = self.shared.step(|state| match self.direction {
                Direction::ToServer => state.request(id, &whole, protocol),
                Direction::FromServer => state.reply(id, &whole, protocol),
            });
            if decision == Decision::Swallow {
                // The connection may be one to be cut now.
                self.shared.wake();
                continue;
            }
            if self.direction == Direction::FromServer {
                protocol.translate(&mut whole, &self.shared.ports);
            }
            self.send(to, &whole).await?;
        }
        Ok(())
    }

    /// Sends what was held back, when that is wanted: the candidate may still wait for the answer.
    async fn deliver_late(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Ended> {
        if self.direction == Direction::ToServer {
            let held = self.shared.step(|state| state.delivery(self.id, &*self.shared.protocol));
            for request in held {
                self.send(to, &request).await?;
            }
        }
        Ok(())
    }

    async fn send(&self, to: &mut (impl AsyncWrite + Unpin), whole: &[u8]) -> Result<(), Ended> {
        match to.write_all(whole).await {
            Ok(()) => Ok(()),
            Err(_) => self.broken(Direction::ToServer).await,
        }
    }

    /// Ends this direction: the other side is told that no more will come.
    async fn end(&self, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), Ended> {
        match self.direction {
            Direction::ToServer if self.shared.command(|state| state.hides_end_of_requests(self.id)) => {
                Err(Ended::Left)
            }
            Direction::FromServer if self.shared.step(|state| state.hides_end_of_replies(self.id)) => {
                self.silence().await
            }
            _ => {
                // It may be gone; then there is nobody to tell.
                let _ = to.shutdown().await;
                Ok(())
            }
        }
    }

    /// Breaks off because a side did; `at_server` is the direction in which that side is the server's. In silence nobody
    /// hears of what becomes of the server.
    async fn broken(&self, at_server: Direction) -> Result<(), Ended> {
        if self.direction == at_server && self.shared.step(|state| state.hides_end_of_replies(self.id)) {
            return self.silence().await;
        }
        Err(Ended::Broken)
    }

    /// Says nothing until the candidate has left.
    async fn silence(&self) -> Result<(), Ended> {
        until(self.shared, |state| state.has_left(self.id)).await;
        Err(Ended::Left)
    }
}
