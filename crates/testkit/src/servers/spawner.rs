//! The thread that starts all servers of this process.

use std::io;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};
use std::thread;

type Order = (Command, mpsc::Sender<io::Result<Child>>);

static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();

/// Starts a program from a thread that lives as long as the process.
///
/// The kernel ends a server when the *thread* that started it ends (`setpriv --pdeathsig`). The thread of a test or of
/// its runtime may end before the test does; this one ends with the process, however that comes about.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, queue) = mpsc::channel::<Order>();
        thread::Builder::new()
            .name("tenure-servers".to_owned())
            .spawn(move || {
                for (mut command, answer) in queue {
                    // Whoever asked waits for it.
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("the thread that starts servers");
        orders
    });
    let (answer, started) = mpsc::channel();
    spawner.send((command, answer)).map_err(io::Error::other)?;
    started.recv().map_err(io::Error::other)?
}
