//! A fixed sequence without a terminal, for documents and tests: the same lines each time.

use std::io::{self, Write};
use std::time::Duration;

use tenure::{Clock, SystemClock};

use super::Failure;
use super::cast::{Cast, Done};
use super::event::{Happened, What};
use super::signals::{Signals, Wish};

/// Longer than anything takes that ever happens.
const PATIENCE: Duration = Duration::from_secs(60);

/// Plays the sequence, and returns the code to exit with.
pub(super) async fn play(cast: &mut Cast, ttl: Duration, json: bool) -> Result<u8, Failure> {
    let mut signals = Signals::listen().map_err(Failure::system("listen to signals"))?;
    let mut script = Script { cast, ttl, json, log: Vec::new(), step: 0 };
    tokio::select! {
        biased;
        code = ended(&mut signals) => Ok(code),
        played = script.play() => played.map(|()| 0),
    }
}

async fn ended(signals: &mut Signals) -> u8 {
    loop {
        if let Wish::End(code) = signals.next().await {
            return code;
        }
    }
}

struct Script<'a> {
    cast: &'a mut Cast,
    ttl: Duration,
    json: bool,
    /// Everything that happened, also what nobody asks for.
    log: Vec<Happened>,
    /// Where in the log the present step begins.
    step: usize,
}

impl Script<'_> {
    /// Whoever takes over is the only one who can, or is named: so that it is the same one each time.
    async fn play(&mut self) -> Result<(), Failure> {
        let (a, mut b, mut c) = (0, 1, 2);
        self.start(a, is_elected).await?;
        self.start(b, stands_by).await?;
        self.start(c, stands_by).await?;

        let killed = self.cast.kill(a);
        self.act(killed)?;
        let elected = self.wait(|happened| is_elected(&happened.what)).await?;
        if elected.seat == c {
            // Both did the same until now: B is the one who was faster.
            self.cast.swap_letters(b, c);
            (b, c) = (c, b);
        }
        self.print(&elected)?;

        let stopped = self.cast.stop(b);
        self.act(stopped)?;
        self.happens(c, is_elected).await?;
        let continued = self.cast.continue_(b);
        self.act(continued)?;
        self.happens(b, is_term_end).await?;
        self.happens(b, stands_by).await?;

        let cut_off = self.cast.cut_off(c);
        self.act(cut_off)?;
        self.happens(c, is_term_end).await?;
        self.happens(b, is_elected).await?;
        let connected = self.cast.connect(c);
        self.act(connected)?;
        self.happens(c, stands_by).await?;

        self.start(a, stands_by).await?;
        let asked = self.cast.hand_off(a).await;
        self.act(asked)?;
        self.happens(b, is_term_end).await?;
        self.happens(a, is_elected).await?;
        self.happens(b, stands_by).await?;

        // The leader last, or another one would lead for a moment.
        self.end(b).await?;
        self.end(c).await?;
        let told = self.cast.tell_to_end(a);
        self.act(told)?;
        self.happens(a, is_term_end).await?;
        self.happens(a, is_end).await
    }

    async fn start(&mut self, seat: usize, then: impl Fn(&What) -> bool) -> Result<(), Failure> {
        let started = self.cast.start(seat);
        self.act(started)?;
        self.happens(seat, then).await
    }

    async fn end(&mut self, seat: usize) -> Result<(), Failure> {
        let told = self.cast.tell_to_end(seat);
        self.act(told)?;
        self.happens(seat, is_end).await
    }

    /// Begins a step with what was done.
    fn act(&mut self, done: Done) -> Result<(), Failure> {
        let happened = done.map_err(Failure::Script)?;
        self.step = self.log.len();
        self.print(&happened)
    }

    /// Waits until something happens to one candidate in this step, and tells it.
    async fn happens(&mut self, seat: usize, what: impl Fn(&What) -> bool) -> Result<(), Failure> {
        let happened = self.wait(|happened| happened.seat == seat && what(&happened.what)).await?;
        self.print(&happened)
    }

    /// Waits until something happens in this step. Candidates do not speak in turn: it may have been told before.
    async fn wait(&mut self, wanted: impl Fn(&Happened) -> bool) -> Result<Happened, Failure> {
        let until = SystemClock.now().plus(PATIENCE + 2 * self.ttl);
        loop {
            if let Some(found) = self.log[self.step..].iter().find(|happened| wanted(happened)) {
                return Ok(found.clone());
            }
            tokio::select! {
                biased;
                happened = self.cast.next() => self.log.push(happened),
                () = SystemClock.sleep_until(until) => return Err(self.in_vain()),
            }
        }
    }

    fn in_vain(&self) -> Failure {
        let seen: Vec<_> = self.log[self.step..].iter().map(|happened| self.message(happened)).collect();
        let seen = if seen.is_empty() { "nothing".to_owned() } else { seen.join(" ") };
        Failure::Script(format!(
            "what comes next did not happen in time; since the last line there was: {seen}"
        ))
    }

    fn message(&self, happened: &Happened) -> String {
        happened.message(|seat| self.cast.letter(seat))
    }

    fn print(&self, happened: &Happened) -> Result<(), Failure> {
        let line =
            if self.json { happened.json(|seat| self.cast.letter(seat)) } else { self.message(happened) };
        let mut output = io::stdout().lock();
        writeln!(output, "{line}")?;
        Ok(output.flush()?)
    }
}

fn stands_by(what: &What) -> bool {
    *what == What::StandsBy
}

fn is_elected(what: &What) -> bool {
    matches!(what, What::Elected(_))
}

fn is_term_end(what: &What) -> bool {
    matches!(what, What::TermEnded(..))
}

fn is_end(what: &What) -> bool {
    matches!(what, What::Ended(_))
}
