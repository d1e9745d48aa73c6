//! The terminal, taken for a while and given back as it was.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Another screen, no cursor, lines that are too long are cut.
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
/// All of it back, and no colour.
const GIVE_BACK: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

/// What is taken for the size of a terminal that does not know it: columns and rows.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// Tells whether there is a terminal that can be drawn on.
pub(super) fn is_there() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
}

/// Given back when it is dropped, and before a panic says what it has to say.
pub(super) struct Screen {
    taken: Arc<Taken>,
}

struct Taken {
    terminal: File,
    before: Termios,
    is_given_back: AtomicBool,
}

impl Screen {
    pub(super) fn take(terminal: OwnedFd) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        let taken = Taken { terminal: terminal.into(), before, is_given_back: AtomicBool::new(false) };
        let screen = Self { taken: Arc::new(taken) };
        tcsetattr(&screen.taken.terminal, OptionalActions::Now, &raw)?;
        screen.write(TAKE)?;
        let (taken, usual) = (Arc::clone(&screen.taken), panic::take_hook());
        panic::set_hook(Box::new(move |panic| {
            taken.give_back();
            usual(panic);
        }));
        Ok(screen)
    }

    /// Takes the terminal that standard output is.
    pub(super) fn of_output() -> io::Result<Self> {
        Self::take(io::stdout().as_fd().try_clone_to_owned()?)
    }

    /// Returns columns and rows.
    pub(super) fn size(&self) -> (usize, usize) {
        let known = tcgetwinsize(&self.taken.terminal).ok();
        known.map_or(USUAL_SIZE, |size| match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => USUAL_SIZE,
            (columns, rows) => (columns.into(), rows.into()),
        })
    }

    /// Draws lines from the top, in one write so that nothing flickers.
    pub(super) fn draw(&self, lines: &[String]) -> io::Result<()> {
        let mut text = String::new();
        for (row, line) in lines.iter().enumerate() {
            text.push_str(&format!("\x1b[{};1H{line}\x1b[K", row + 1));
        }
        text.push_str("\x1b[J");
        self.write(&text)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        (&self.taken.terminal).write_all(text.as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.taken.give_back();
    }
}

impl Taken {
    fn give_back(&self) {
        if !self.is_given_back.swap(true, Ordering::Relaxed) {
            // A terminal that has gone needs nothing back.
            let _ = (&self.terminal).write_all(GIVE_BACK.as_bytes());
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::LocalModes;

    use super::*;

    #[test]
    fn a_panic_gives_the_terminal_back() {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let open = || rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let (terminal, witness) = (open(), open());
        let is_raw = || !tcgetattr(&witness).unwrap().local_modes.contains(LocalModes::ICANON);
        assert!(!is_raw());
        let caught = std::thread::spawn(move || {
            let screen = Screen::take(terminal).unwrap();
            screen.draw(&["hello".to_owned()]).unwrap();
            panic!("on purpose");
        });
        assert!(caught.join().is_err());
        assert!(!is_raw());
        let mut seen = vec![0; 4096];
        let length = File::from(keyboard).read(&mut seen).unwrap();
        let seen = String::from_utf8_lossy(&seen[..length]);
        assert!(seen.starts_with(TAKE) && seen.contains("hello") && seen.ends_with(GIVE_BACK), "{seen:?}");
    }
}
