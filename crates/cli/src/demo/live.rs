//! The demonstration in a terminal.

use std::time::Duration;

use tenure::{Clock, Moment, SystemClock};

use super::Failure;
use super::cast::{Cast, Done, SEATS};
use super::event::{Happened, What};
use super::keys::{self, Key};
use super::picture::{self, Row, View};
use super::screen::Screen;
use super::signals::{Signals, Wish};
use super::timeline::{CELL, Timeline};
use crate::show::colour;

/// Lines of the log that are kept: more than a window shows.
const KEPT: usize = 200;

struct Live<'a> {
    cast: &'a mut Cast,
    ttl: Duration,
    began: Moment,
    timelines: [Timeline; SEATS],
    log: Vec<String>,
    chosen: usize,
    are_all_started: bool,
}

/// Shows it until somebody wants to quit, and returns the code to exit with.
pub(super) async fn show(cast: &mut Cast, ttl: Duration) -> Result<u8, Failure> {
    let mut signals = Signals::listen().map_err(Failure::system("listen to signals"))?;
    let mut live = Live {
        cast,
        ttl,
        began: SystemClock.now(),
        timelines: Default::default(),
        log: Vec::new(),
        chosen: 0,
        are_all_started: false,
    };
    let screen = Screen::of_output().map_err(Failure::system("draw on the terminal"))?;
    let mut keys = keys::read().map_err(Failure::system("read keys"))?;
    live.start(0);
    let mut next_cell = SystemClock.now();
    loop {
        if live.draw(&screen).is_err() {
            // The terminal has gone, and with it whoever looked.
            return Ok(0);
        }
        tokio::select! {
            biased;
            wish = signals.next() => if let Wish::End(code) = wish {
                return Ok(code);
            },
            key = keys.recv() => match key {
                None | Some(Key::Quit) => return Ok(0),
                Some(key) => live.obey(key).await,
            },
            happened = live.cast.next() => live.tell(&happened),
            () = SystemClock.sleep_until(next_cell) => {
                live.add_cells();
                next_cell = SystemClock.now().plus(CELL).by_boot();
            }
        }
    }
}

impl Live<'_> {
    async fn obey(&mut self, key: Key) {
        let seat = self.chosen;
        let done = match key {
            Key::Choose(seat) => return self.chosen = seat,
            Key::Up => return self.chosen = (seat + SEATS - 1) % SEATS,
            Key::Down => return self.chosen = (seat + 1) % SEATS,
            Key::Kill => self.cast.kill(seat),
            Key::Stop => self.cast.stop(seat),
            Key::Continue => self.cast.continue_(seat),
            Key::CutOffOrConnect if self.cast.candidates()[seat].is_cut_off => self.cast.connect(seat),
            Key::CutOffOrConnect => self.cast.cut_off(seat),
            Key::HandOff => self.cast.hand_off(seat).await,
            Key::Start => return self.start(seat),
            Key::Quit => return,
        };
        self.note(done);
    }

    fn note(&mut self, done: Done) {
        match done {
            Ok(happened) => self.tell(&happened),
            Err(why) => self.say(&why),
        }
    }

    fn start(&mut self, seat: usize) {
        let started = self.cast.start(seat);
        self.note(started);
    }

    fn tell(&mut self, happened: &Happened) {
        self.say(&happened.message(|seat| self.cast.letter(seat)));
        // The others come when the first one leads, or whatever else became of it. Bids for the first term that meet make
        // its token jump, which is allowed and odd to look at.
        if happened.what != What::Started && !std::mem::replace(&mut self.are_all_started, true) {
            (1..SEATS).for_each(|seat| self.start(seat));
        }
    }

    fn say(&mut self, text: &str) {
        let seconds = SystemClock.now().time_since(self.began).as_secs();
        self.log.push(format!("{seconds:4}s  {text}"));
        let surplus = self.log.len().saturating_sub(KEPT);
        self.log.drain(..surplus);
    }

    fn add_cells(&mut self) {
        for (timeline, candidate) in self.timelines.iter_mut().zip(self.cast.candidates()) {
            timeline.add(candidate);
        }
    }

    fn draw(&self, screen: &Screen) -> std::io::Result<()> {
        let row = |(seat, timeline): (usize, _)| {
            let candidate = &self.cast.candidates()[seat];
            Row {
                letter: candidate.letter,
                is_chosen: seat == self.chosen,
                state: candidate.state(),
                tone: picture::tone(candidate),
                timeline,
            }
        };
        let view = View {
            rows: self.timelines.iter().enumerate().map(row).collect(),
            leader: picture::leader(self.cast),
            log: &self.log,
            ttl: self.ttl,
            colours: colour::wanted(),
        };
        screen.draw(&picture::draw(&view, screen.size()))
    }
}
