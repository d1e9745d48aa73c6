//! The signals that a wrapper gets, and what each of them means.

use std::fs;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// What somebody wants from the wrapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Stop the command, give the lease back, exit; the signal's number.
    Stop(i32),
    /// Do so, and be stopped until continued.
    Suspend,
    /// Tell the command.
    Forward(i32),
    /// Whoever runs several elections wants this one to stop, or is gone.
    End,
}

pub(super) struct Signals {
    list: Vec<(Signal, Wish)>,
    /// Standard input has ended.
    end: Option<oneshot::Receiver<()>>,
}

const HUP: i32 = 1;
const INT: i32 = 2;
const QUIT: i32 = 3;
const USR1: i32 = 10;
const USR2: i32 = 12;
pub(super) const TERM: i32 = 15;
pub(super) const TSTP: i32 = 20;
const WINCH: i32 = 28;

impl Signals {
    /// Listens to signals and, if somebody holds the other end of standard input, to its end.
    pub(super) fn listen(held: bool) -> io::Result<Self> {
        // Without a terminal a hang-up is what daemons take for "read your configuration again".
        let hang_up = if has_terminal() { Wish::Stop(HUP) } else { Wish::Forward(HUP) };
        let wishes = [
            (INT, Wish::Stop(INT)),
            (TERM, Wish::Stop(TERM)),
            (HUP, hang_up),
            (TSTP, Wish::Suspend),
            (QUIT, Wish::Forward(QUIT)),
            (USR1, Wish::Forward(USR1)),
            (USR2, Wish::Forward(USR2)),
            (WINCH, Wish::Forward(WINCH)),
        ];
        let ignored = ignored();
        let list = wishes
            .into_iter()
            // What was ignored when we were started stays so: that is what nohup asks for.
            .filter(|(number, _)| ignored & (1 << (number - 1)) == 0)
            .map(|(number, wish)| Ok((signal(SignalKind::from_raw(number))?, wish)))
            .collect::<io::Result<_>>()?;
        Ok(Self { list, end: held.then(end_of_input).transpose()? })
    }

    /// Waits for the next one. Nothing is lost if this is dropped.
    pub(super) async fn next(&mut self) -> Wish {
        std::future::poll_fn(|context| {
            if let Some(end) = &mut self.end
                && Pin::new(end).poll(context).is_ready()
            {
                self.end = None;
                return std::task::Poll::Ready(Wish::End);
            }
            for (signal, wish) in &mut self.list {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*wish);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Tells when standard input ends. Only whoever holds its other end writes to it, and that one never does.
fn end_of_input() -> io::Result<oneshot::Receiver<()>> {
    let (ended, end) = oneshot::channel();
    std::thread::Builder::new().name("tenure-input".to_owned()).spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = ended.send(());
    })?;
    Ok(end)
}

fn has_terminal() -> bool {
    fs::File::open("/dev/tty").is_ok()
}

/// The signals that this process was started to ignore, one bit each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
