//! The proxy disturbs what it knows nothing about: a server that says back what it hears.

#![allow(clippy::unwrap_used)] // The helpers are test code, too.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tenure_core::clock::ClockExt;
use tenure_core::{Clock, SystemClock};
use tenure_testkit::proxy::{Direction, Fault, Proxy, Raw, Requests, Then};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// A server that says back what it hears, and tells the test.
struct Echo {
    address: SocketAddr,
    heard: mpsc::UnboundedReceiver<String>,
    /// Dropped, it ends the server and its connections.
    _running: watch::Sender<()>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, heard) = mpsc::unbounded_channel();
        let (running, mut until) = watch::channel(());
        tokio::spawn(async move {
            loop {
                let (stream, _) = tokio::select! {
                    _ = until.changed() => return,
                    accepted = listener.accept() => accepted.unwrap(),
                };
                let (tell, mut until) = (tell.clone(), until.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = until.changed() => {}
                        () = echo(stream, tell) => {}
                    }
                });
            }
        });
        Self { address, heard, _running: running }
    }

    async fn hears(&mut self, text: &str) {
        // Several things that were said may arrive as one.
        let mut heard = String::new();
        while heard.len() < text.len() {
            heard += &self.heard.recv().await.unwrap();
        }
        assert_eq!(heard, text);
    }

    fn has_heard_nothing(&mut self) {
        assert_eq!(self.heard.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }
}

async fn echo(mut stream: TcpStream, tell: mpsc::UnboundedSender<String>) {
    let mut bytes = vec![0; 1024];
    while let Ok(length @ 1..) = stream.read(&mut bytes).await {
        // The test may be over.
        let _ = tell.send(String::from_utf8_lossy(&bytes[..length]).into_owned());
        if stream.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

/// A candidate's side.
struct Talker(TcpStream);

impl Talker {
    async fn open(proxy: &Proxy) -> Self {
        Self(TcpStream::connect(proxy.address()).await.unwrap())
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn hears(&mut self, text: &str) {
        let mut bytes = vec![0; text.len()];
        self.0.read_exact(&mut bytes).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    async fn is_reset(&mut self) {
        let error = self.0.read(&mut [0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }

    /// That nothing comes can only be seen by waiting.
    async fn hears_nothing(&mut self) {
        let mut bytes = [0];
        tokio::select! {
            biased;
            read = self.0.read(&mut bytes) => panic!("it heard something: {read:?}"),
            () = SystemClock.sleep(Duration::from_millis(100)) => {}
        }
    }

    /// Goes through a whole exchange.
    async fn is_served(&mut self, echo: &mut Echo, text: &str) {
        self.say(text).await;
        echo.hears(text).await;
        self.hears(text).await;
    }
}

/// Tries to connect and is reset. It depends on the moment which call learns of it.
async fn comes_in_vain(proxy: &Proxy) {
    if let Ok(mut stream) = TcpStream::connect(proxy.address()).await {
        assert!(stream.read(&mut [0]).await.is_err());
    }
}

async fn start() -> (Echo, Proxy) {
    let echo = Echo::start().await;
    let proxy = Proxy::start(echo.address, Raw);
    (echo, proxy)
}

#[tokio::test]
async fn without_faults_everything_passes_and_is_counted() {
    let (mut echo, proxy) = start().await;
    let (mut first, mut second) = (Talker::open(&proxy).await, Talker::open(&proxy).await);
    first.is_served(&mut echo, "one").await;
    second.is_served(&mut echo, "two").await;
    first.is_served(&mut echo, "three").await;
    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.requests, counts.replies), (2, 3, 3));
    assert_eq!(counts.troubled(), 0);
    assert_eq!(proxy.connections().len(), 2);
    let connection = proxy.connection_that_sent("two", |request| request == b"two").await;
    assert_eq!(connection.peer(), Some(second.0.local_addr().unwrap()));
    assert_eq!(connection.requests(), 1);
    drop(second);
    connection.ended().await;
    assert_eq!(proxy.connections().len(), 1);
}

#[tokio::test]
async fn the_end_of_one_side_reaches_the_other() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "a").await;
    talker.0.shutdown().await.unwrap();
    assert_eq!(talker.0.read(&mut [0]).await.unwrap(), 0, "the server closes in turn");
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "b").await;
    drop(echo);
    assert_eq!(talker.0.read(&mut [0]).await.unwrap(), 0, "the server closes by itself");
}

#[tokio::test]
async fn a_server_that_is_down_resets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let proxy = Proxy::start(address, Raw);
    comes_in_vain(&proxy).await;
}

#[tokio::test]
async fn a_delay_holds_in_its_direction_and_keeps_the_order() {
    let by = Duration::from_millis(150);
    for direction in [Direction::ToServer, Direction::FromServer] {
        let (mut echo, proxy) = start().await;
        let mut talker = Talker::open(&proxy).await;
        talker.is_served(&mut echo, "a").await;
        proxy.inject(Fault::Delay(direction, by));
        let begun = SystemClock.now();
        talker.say("b").await;
        proxy.wait_for("the second request", |counts| counts.requests == 2).await;
        talker.say("c").await;
        talker.hears("bc").await;
        assert!(SystemClock.now().time_since(begun) >= by, "it took no time");
        proxy.clear().await;
        echo.hears("bc").await;
        talker.is_served(&mut echo, "d").await;
    }
}

#[tokio::test]
async fn a_cut_resets_what_is_there_and_nothing_else() {
    let (mut echo, proxy) = start().await;
    let (mut first, mut second) = (Talker::open(&proxy).await, Talker::open(&proxy).await);
    first.is_served(&mut echo, "a").await;
    second.is_served(&mut echo, "b").await;
    proxy.connection_that_sent("b", |request| request == b"b").await.cut().await;
    second.is_reset().await;
    first.is_served(&mut echo, "c").await;
    proxy.cut().await;
    assert!(proxy.connections().is_empty());
    first.is_reset().await;
    assert_eq!(proxy.counts().cut, 2);
    Talker::open(&proxy).await.is_served(&mut echo, "d").await;
}

#[tokio::test]
async fn refused_connections_are_refused_by_the_kernel() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "a").await;
    for _ in 0..3 {
        proxy.refuse().await;
        let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        proxy.clear().await;
        Talker::open(&proxy).await.is_served(&mut echo, "b").await;
    }
    talker.is_reset().await;
}

#[tokio::test]
async fn whoever_is_turned_away_is_reset_and_counted() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "a").await;
    proxy.turn_away().await;
    talker.is_reset().await;
    for _ in 0..2 {
        comes_in_vain(&proxy).await;
    }
    proxy.wait_for("two of them", |counts| counts.turned_away == 2).await;
    proxy.clear().await;
    Talker::open(&proxy).await.is_served(&mut echo, "b").await;
}

#[tokio::test]
async fn a_black_hole_swallows_on_old_and_new_connections() {
    let (mut echo, proxy) = start().await;
    let mut old = Talker::open(&proxy).await;
    old.is_served(&mut echo, "a").await;
    let mut idle = Talker::open(&proxy).await;
    idle.is_served(&mut echo, "b").await;
    proxy.inject(Fault::BlackHole);
    let mut new = Talker::open(&proxy).await;
    old.say("lost").await;
    new.say("lost").await;
    proxy.wait_for("both requests", |counts| counts.requests_lost == 2).await;
    old.hears_nothing().await;
    echo.has_heard_nothing();
    proxy.clear().await;
    old.is_reset().await;
    new.is_reset().await;
    idle.is_served(&mut echo, "c").await;
    Talker::open(&proxy).await.is_served(&mut echo, "d").await;
}

#[tokio::test]
async fn in_a_black_hole_nobody_hears_of_the_end_of_the_server() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "a").await;
    proxy.inject(Fault::BlackHole);
    drop(echo);
    talker.hears_nothing().await;
    proxy.clear().await;
    talker.is_reset().await;
}

#[tokio::test]
async fn in_silence_a_candidate_can_leave() {
    for direction in [Direction::ToServer, Direction::FromServer] {
        let (mut echo, proxy) = start().await;
        let mut talker = Talker::open(&proxy).await;
        talker.is_served(&mut echo, "a").await;
        let connection = proxy.connection_that_sent("a", |request| request == b"a").await;
        proxy.inject(Fault::Silence(direction));
        drop(talker);
        connection.ended().await;
    }
}

#[tokio::test]
async fn a_half_open_connection_has_one_direction() {
    let (mut echo, proxy) = start().await;
    let mut deaf = Talker::open(&proxy).await;
    deaf.is_served(&mut echo, "a").await;
    proxy.inject(Fault::Silence(Direction::FromServer));
    deaf.say("b").await;
    echo.hears("b").await;
    proxy.wait_for("the answer", |counts| counts.replies_lost == 1).await;
    deaf.hears_nothing().await;
    proxy.clear().await;
    deaf.is_reset().await;

    let mut mute = Talker::open(&proxy).await;
    mute.is_served(&mut echo, "c").await;
    proxy.inject(Fault::Delay(Direction::FromServer, Duration::from_millis(50)));
    mute.say("d").await;
    echo.hears("d").await;
    proxy.inject(Fault::Silence(Direction::ToServer));
    mute.hears("d").await;
    mute.say("lost").await;
    proxy.wait_for("the request", |counts| counts.requests_lost == 1).await;
    echo.has_heard_nothing();
}

#[tokio::test]
async fn stranded_connections_stay_dead_while_new_ones_are_served() {
    let (mut echo, proxy) = start().await;
    let mut stranded = Talker::open(&proxy).await;
    stranded.is_served(&mut echo, "a").await;
    proxy.strand();
    Talker::open(&proxy).await.is_served(&mut echo, "b").await;
    proxy.clear().await;
    stranded.say("lost").await;
    proxy.wait_for("the request", |counts| counts.requests_lost == 1).await;
    stranded.hears_nothing().await;
    proxy.cut().await;
    stranded.is_reset().await;
}

#[tokio::test]
async fn a_fault_of_one_connection_leaves_the_others_alone() {
    let (mut echo, proxy) = start().await;
    let (mut first, mut second) = (Talker::open(&proxy).await, Talker::open(&proxy).await);
    first.is_served(&mut echo, "a").await;
    second.is_served(&mut echo, "b").await;
    let connection = proxy.connection_that_sent("a", |request| request == b"a").await;
    connection.inject(Fault::BlackHole);
    first.say("lost").await;
    proxy.wait_for("the request", |counts| counts.requests_lost == 1).await;
    second.is_served(&mut echo, "c").await;
    connection.clear().await;
    first.is_reset().await;
    assert!(!connection.is_open());
    second.is_served(&mut echo, "d").await;
}

#[tokio::test]
async fn a_lost_request_never_reaches_the_server() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "a").await;
    proxy.inject(Fault::LoseRequests(Requests::containing("b").next(1), Then::Cut));
    talker.is_served(&mut echo, "c").await;
    talker.say("b").await;
    talker.is_reset().await;
    echo.has_heard_nothing();
    Talker::open(&proxy).await.is_served(&mut echo, "b").await;
    assert_eq!(proxy.counts().requests_lost, 1);
}

#[tokio::test]
async fn a_lost_answer_was_for_a_request_that_was_applied() {
    for then in [Then::Cut, Then::Silence] {
        let (mut echo, proxy) = start().await;
        let mut talker = Talker::open(&proxy).await;
        talker.is_served(&mut echo, "a").await;
        proxy.inject(Fault::LoseAnswers(Requests::all().next(1), then));
        talker.say("b").await;
        echo.hears("b").await;
        proxy.wait_for("its answer", |counts| counts.replies_lost == 1).await;
        match then {
            Then::Cut => talker.is_reset().await,
            Then::Silence => {
                talker.say("c").await;
                echo.hears("c").await;
                talker.hears_nothing().await;
                proxy.clear().await;
                talker.is_reset().await;
            }
        }
        Talker::open(&proxy).await.is_served(&mut echo, "d").await;
    }
}

#[tokio::test]
async fn a_request_that_was_held_back_arrives_when_its_sender_is_gone() {
    let (mut echo, proxy) = start().await;
    for leaves in [true, false] {
        let mut talker = Talker::open(&proxy).await;
        talker.is_served(&mut echo, "a").await;
        let connection = proxy.connection_that_sent("a", |request| request == b"a").await;
        proxy.inject(Fault::HoldBack(Requests::all().next(1)));
        let before = proxy.counts().requests_held;
        talker.say("late").await;
        proxy.wait_for("the request", |counts| counts.requests_held == before + 1).await;
        if leaves {
            drop(talker);
            connection.ended().await;
        } else {
            proxy.clear().await;
            talker.is_reset().await;
        }
        Talker::open(&proxy).await.is_served(&mut echo, "b").await;
        echo.has_heard_nothing();
        assert_eq!(proxy.deliver_late().await, 1);
        echo.hears("late").await;
    }
    assert_eq!(proxy.deliver_late().await, 0, "nothing is held back any more");
}

#[tokio::test]
async fn an_answer_that_is_still_on_its_way_is_not_taken_for_the_late_one() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    proxy.inject(Fault::Delay(Direction::FromServer, Duration::from_secs(10)));
    talker.say("a").await;
    echo.hears("a").await;
    proxy.inject(Fault::HoldBack(Requests::all()));
    talker.say("late").await;
    proxy.wait_for("the request", |counts| counts.requests_held == 1).await;
    drop(talker);
    proxy.wait_for("the first answer", |counts| counts.replies == 1).await;
    assert_eq!(proxy.deliver_late().await, 1);
    echo.hears("late").await;
    assert_eq!(proxy.counts().replies, 2);
}

#[tokio::test]
async fn a_request_that_was_held_back_is_answered_if_its_sender_is_there() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "a").await;
    proxy.inject(Fault::HoldBack(Requests::containing("b")));
    talker.say("b").await;
    proxy.wait_for("the first request", |counts| counts.requests_held == 1).await;
    talker.say("c").await;
    proxy.wait_for("what follows it", |counts| counts.requests_held == 2).await;
    talker.hears_nothing().await;
    assert_eq!(proxy.deliver_late().await, 2);
    echo.hears("bc").await;
    talker.hears("bc").await;
    talker.is_served(&mut echo, "d").await;
}

#[tokio::test]
async fn what_was_held_back_is_lost_with_the_server() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "a").await;
    proxy.inject(Fault::HoldBack(Requests::all()));
    talker.say("b").await;
    proxy.wait_for("the request", |counts| counts.requests_held == 1).await;
    proxy.cut().await;
    drop(echo);
    proxy.deliver_late().await;
}

#[tokio::test]
async fn what_was_held_back_is_lost_with_the_server_also_in_silence() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "a").await;
    proxy.inject(Fault::HoldBack(Requests::all()));
    talker.say("b").await;
    proxy.wait_for("the request", |counts| counts.requests_held == 1).await;
    proxy.inject(Fault::Silence(Direction::FromServer));
    drop(echo);
    talker.hears_nothing().await;
    proxy.deliver_late().await;
    talker.hears_nothing().await;
}

#[tokio::test]
async fn a_dropped_proxy_ends_its_connections() {
    let (mut echo, proxy) = start().await;
    let mut talker = Talker::open(&proxy).await;
    talker.is_served(&mut echo, "a").await;
    let address = proxy.address();
    drop(proxy);
    talker.is_reset().await;
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
