//! The wrapper's loop.

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::json;
use tenure::elector::{
    CommandError, ElectionEvent, ElectorState, EndReason, EventKind, Events, Finish, Heard, Statuses,
};
use tenure::store::{LeaseRecord, RecordState, TermEnd};
use tenure::{CandidateId, Clock, Elections, ElectorHandle, FencingToken, Leadership, Moment, SystemClock};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use super::deadline_file::DeadlineFile;
use super::hooks::Hooks;
use super::notify::Notify;
use super::pace;
use super::plan::{Plan, Refusal};
use super::record::Ended;
use super::signals::{Signals, TERM, Wish};
use super::term::{self, Term};
use super::voice::{Level, Voice};
use crate::args::Isolate;
use crate::duration;
use crate::exit;
use crate::guardian::{Ending, Guardian, Options, Order, Report};
use crate::show::{json, words};
use crate::talk;

/// How long the end waits for a guardian that has nothing more to do.
const CLOSING: Duration = Duration::from_secs(1);

/// How long a lease may take to be given back by a wrapper that cannot run anything; then it runs out.
const GIVING_BACK: Duration = Duration::from_secs(5);

/// What is run for whoever wants to hear of changes.
pub(super) struct Script {
    pub(super) on_lost: Option<String>,
    pub(super) on_leader_change: Option<String>,
}

pub(super) struct Wrapper {
    plan: Plan,
    voice: Voice,
    script: Script,
    hooks: Hooks,
    notify: Notify,
    signals: Signals,
    elections: Elections,
    deadline_file: DeadlineFile,
    guardian_options: Options,
    guardian: Guardian,
    /// The command's last exit code.
    code: Option<u8>,
    /// How long this machine rested after the last crash, with `--failover-on-crash`.
    rested: Option<Duration>,
    /// The store did not answer the last time; said once.
    store_silent: bool,
    /// It does not wait to be elected: what keeps it from that is said when it gives up, in a moment.
    at_once: bool,
    /// Who leads, in which term.
    leader: Option<(CandidateId, FencingToken)>,
    /// Why nobody is elected although nobody leads, and until when.
    waiting: Option<(RecordState, Moment)>,
}

/// One campaign after another, with the same elector.
struct Standing {
    handle: ElectorHandle,
    elected: UnboundedReceiver<Leadership>,
    ended: UnboundedReceiver<EndReason>,
    events: Events,
    statuses: Statuses,
    term: Option<Term>,
    leaving: Option<Leaving>,
    /// It stands for a limited time, and only until its first term.
    limited: bool,
    /// The elector has stopped: neither statuses nor events follow.
    stopped: bool,
}

/// The elector is on its way to the end of a term, or to its own end.
struct Leaving {
    done: Pin<Box<dyn Future<Output = Result<(), CommandError>>>>,
    then: Then,
}

/// What follows once the elector has done it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Exit(Option<u8>),
    Suspend,
    /// Stand again, with a new elector.
    Anew,
    /// Go on: the same elector stands again.
    GoOn,
}

impl Wrapper {
    /// Gets everything that must be there before the first bid.
    pub(super) fn prepare(mut plan: Plan, mut voice: Voice, script: Script) -> Result<Self, Refusal> {
        let failure = |what: &str, error: &dyn std::error::Error| {
            Refusal::new(exit::FAILURE, format!("{what}: {}", talk::chain(error)))
        };
        let elections = Elections::builder(plan.store.clone()).settings(plan.settings.clone()).build();
        let candidate = elections.candidate().clone();
        voice.candidate = candidate.to_string();
        let signals =
            Signals::listen(voice.one_of_all).map_err(|error| failure("cannot listen to signals", &error))?;
        let deadline_file = DeadlineFile::create(&candidate)
            .map_err(|error| failure("cannot make the file with the deadline", &error))?;
        let guardian_options = Options {
            isolate: plan.isolate,
            command: plan.command.clone(),
            terminal: terminal(plan.interactive)?,
            life: plan.life.take(),
            latency: plan.timing.latency,
        };
        let guardian = Guardian::spawn(&guardian_options)
            .map_err(|error| failure("cannot start the guardian", &error))?;
        Ok(Self {
            plan,
            hooks: Hooks::start(voice.clone()),
            voice,
            script,
            notify: Notify::from_env(),
            signals,
            elections,
            deadline_file,
            guardian_options,
            guardian,
            code: None,
            rested: None,
            store_silent: false,
            at_once: false,
            leader: None,
            waiting: None,
        })
    }

    pub(super) async fn run(mut self) -> Result<u8, Refusal> {
        let standing = self.stand_early()?;
        if let Err(error) = self.guardian.ready().await {
            if let Some(Standing { handle, elected, .. }) = standing {
                // A term that waits there counts as work.
                drop(elected);
                let limit = SystemClock.sleep_until(SystemClock.now().plus(GIVING_BACK));
                tokio::select! {
                    () = handle.stop() => {}
                    () = limit => {}
                }
            }
            let reason = format!("cannot start the guardian: {}", talk::chain(&error));
            return Err(Refusal::new(exit::FAILURE, reason));
        }
        self.say_start();
        self.notify.ready();
        let code = self.stand_again_and_again(standing).await;
        self.notify.stopping();
        self.hooks.end().await;
        let limit = SystemClock.now().plus(CLOSING);
        tokio::select! {
            biased;
            () = self.guardian.close() => {}
            () = SystemClock.sleep_until(limit) => {}
        }
        code
    }

    /// Stands while the guardian gets ready, which takes about as long as the bid. Not if that may fail for more reasons
    /// than a machine without resources, nor if there may be nothing to stand for.
    fn stand_early(&self) -> Result<Option<Standing>, Refusal> {
        if self.plan.isolate == Isolate::On || self.plan.min_interval.is_some() {
            return Ok(None);
        }
        self.start_elector(self.plan.wait).map(Some)
    }

    async fn stand_again_and_again(&mut self, mut early: Option<Standing>) -> Result<u8, Refusal> {
        if let Some(interval) = self.plan.min_interval
            && let Ok(Some(record)) = self.read().await
            && self.ran_within(interval, &record)
        {
            return Ok(0);
        }
        let mut wait = self.plan.wait;
        loop {
            let standing = match early.take() {
                Some(standing) => standing,
                None => self.start_elector(wait)?,
            };
            self.at_once = wait == Some(Duration::ZERO);
            match self.stand(standing).await? {
                Then::Exit(code) => return Ok(code.unwrap_or(0)),
                Then::Suspend => {
                    self.voice.mouth.finish_sentence();
                    suspend();
                }
                Then::Anew | Then::GoOn => {}
            }
            // Whoever led once has waited long enough for it.
            wait = None;
        }
    }

    /// Stands for election until there is a reason to stop.
    async fn stand(&mut self, mut standing: Standing) -> Result<Then, Refusal> {
        let mut watchdog = SystemClock.now();
        loop {
            tokio::select! {
                biased;
                wish = self.signals.next() => self.obey(wish, &mut standing),
                Some(reason) = standing.ended.recv() => self.end_term(reason, &mut standing),
                Some(leadership) = standing.elected.recv() => self.begin_term(leadership, &mut standing).await?,
                report = self.guardian.report() => self.heed(report, &mut standing).await?,
                left = left(&mut standing.leaving) => {
                    let then = self.left(&left, &mut standing);
                    if then != Then::GoOn {
                        return Ok(then);
                    }
                }
                status = standing.statuses.changed(), if !standing.stopped => match status {
                    Ok(status) if status.state != ElectorState::Stopped => self.extend(&mut standing),
                    _ if standing.leaving.is_none() => {
                        self.tell_all(&mut standing);
                        return Ok(self.gave_up(&standing));
                    }
                    _ => standing.stopped = true,
                },
                Some(heard) = standing.events.next(), if !standing.stopped => self.tell(heard),
                () = SystemClock.sleep_until(watchdog), if self.notify.watchdog.is_some() => {
                    self.notify.alive();
                    watchdog = SystemClock.now().plus(self.notify.watchdog.unwrap_or_default()).by_boot();
                }
            }
        }
    }

    fn start_elector(&self, wait: Option<Duration>) -> Result<Standing, Refusal> {
        let (elected_sender, elected) = mpsc::unbounded_channel();
        let (ended_sender, ended) = mpsc::unbounded_channel();
        let mut elector = self
            .elections
            .elector(self.plan.election.as_str())
            .on_elected(move |leadership| {
                // The leadership counts as work until it is dropped, here or by whoever takes it.
                let _ = elected_sender.send(leadership);
                std::future::ready(Ok(()))
            })
            .on_term_end(move |reason| {
                let _ = ended_sender.send(reason);
                std::future::ready(Ok(()))
            });
        if let Some(wait) = wait {
            elector = elector.give_up_after(wait);
        }
        let handle = elector.start().map_err(|error| Refusal::new(exit::FAILURE, error.to_string()))?;
        Ok(Standing {
            elected,
            ended,
            events: handle.events(),
            statuses: handle.statuses(),
            handle,
            term: None,
            leaving: None,
            limited: wait.is_some(),
            stopped: false,
        })
    }

    fn obey(&mut self, wish: Wish, standing: &mut Standing) {
        match wish {
            Wish::Forward(signal) => self.guardian.forward(signal),
            // Whoever runs several may have passed on a signal that everybody got: it says nothing new.
            Wish::End if standing.is_exiting() => {}
            Wish::End => self.obey(Wish::Stop(TERM), standing),
            Wish::Stop(_) if standing.is_exiting() => {
                self.voice.normal("killing", "stopping at once");
                self.guardian.kill();
            }
            Wish::Stop(signal) => {
                let what = if standing.term.is_some() {
                    "stopping the command, then giving the lease back"
                } else {
                    "stopping"
                };
                self.voice.say(Level::Normal, "stopping", what, json!({ "signal": signal }));
                self.notify.stopping();
                standing.stop(Then::Exit(None));
            }
            Wish::Suspend => self.leave_to_suspend(standing),
        }
    }

    fn leave_to_suspend(&mut self, standing: &mut Standing) {
        if !standing.is_stopping() {
            self.voice.normal(
                "suspending",
                "stopping the command and giving the lease back before this process is stopped",
            );
            standing.stop(Then::Suspend);
        }
    }

    async fn begin_term(&mut self, leadership: Leadership, standing: &mut Standing) -> Result<(), Refusal> {
        if standing.is_stopping() {
            return Ok(());
        }
        // First things first.
        self.tell_all(standing);
        if let Some(interval) = self.plan.min_interval {
            match self.read().await {
                Ok(Some(record)) if self.ran_within(interval, &record) => {
                    drop(leadership);
                    standing.finish(Finish::default(), Then::Exit(Some(0)));
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => {
                    // Whether it ran lately is not known: not now.
                    self.voice.error("unknown", &format!("cannot tell when the command ran last: {error}"));
                    drop(leadership);
                    let finish = Finish { pause: self.plan.timing.retry_interval, ..Finish::default() };
                    standing.finish(
                        finish,
                        if self.plan.once { Then::Exit(Some(exit::FAILURE)) } else { Then::Anew },
                    );
                    return Ok(());
                }
            }
        }
        // Over already: the elector tells why in a moment.
        let Some(deadline) = leadership.deadline() else { return Ok(()) };
        let must_stop = deadline.plus(self.plan.timing.drain_timeout);
        self.write_deadline(deadline);
        self.guardian.begin(Order {
            term: leadership.token().0,
            env: self.environment(&leadership),
            deadline,
            must_stop,
            record: self.record_of(&leadership),
        });
        let began = SystemClock.now();
        standing.term = Some(Term { leadership, began, must_stop, reason: None, ending: None });
        Ok(())
    }

    /// Returns what the guardian needs to record a successful end by itself; only where somebody asks for it.
    fn record_of(&self, leadership: &Leadership) -> Option<serde_json::Value> {
        self.plan.min_interval?;
        let ended = Ended {
            store: self.plan.url_given.clone(),
            election: self.plan.election.clone(),
            candidate: self.elections.candidate().clone(),
            token: leadership.token(),
        };
        serde_json::to_value(ended).ok()
    }

    fn environment(&self, leadership: &Leadership) -> Vec<(String, String)> {
        let previous = leadership.previous().map(|term| term.token.to_string());
        [
            ("TENURE_ELECTION", self.plan.election.to_string()),
            ("TENURE_CANDIDATE", self.elections.candidate().to_string()),
            ("TENURE_TOKEN", leadership.token().to_string()),
            ("TENURE_PREVIOUS_TOKEN", previous.unwrap_or_default()),
            ("TENURE_ATTEMPTS", leadership.attempts().to_string()),
            ("TENURE_STORE", self.plan.url.without_secrets()),
            ("TENURE_DEADLINE_FILE", self.deadline_file.path().display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    /// A renewal moves the deadline ahead, here, in the guardian and in the command's file.
    fn extend(&mut self, standing: &mut Standing) {
        let Some(term) = standing.term.as_mut().filter(|term| term.reason.is_none()) else { return };
        let Some(deadline) = term.leadership.deadline() else { return };
        let must_stop = deadline.plus(self.plan.timing.drain_timeout);
        if must_stop != term.must_stop {
            term.must_stop = must_stop;
            self.guardian.extend(deadline, must_stop);
            self.write_deadline(deadline);
        }
    }

    fn write_deadline(&self, deadline: Moment) {
        if let Err(error) = self.deadline_file.set(deadline) {
            let path = self.deadline_file.path().display();
            self.voice.error("deadline_file", &format!("cannot write the deadline to {path}: {error}"));
        }
    }

    /// The term ends: the command is told to stop, or, where somebody else may lead already, is stopped at once.
    fn end_term(&mut self, reason: EndReason, standing: &mut Standing) {
        let Some(term) = &mut standing.term else { return };
        let _ = self.deadline_file.end();
        match reason {
            EndReason::Lost => self.guardian.kill(),
            EndReason::DeadlinePassed => self.guardian.stop(term.must_stop),
            _ => {
                let drained = SystemClock.now().plus(self.plan.timing.drain_timeout);
                self.guardian.stop(drained.earlier_of(term.must_stop));
            }
        }
        term.reason = Some(reason);
    }

    async fn heed(&mut self, report: Report, standing: &mut Standing) -> Result<(), Refusal> {
        match report {
            Report::Started { pid } => {
                self.voice.say(
                    Level::Verbose,
                    "started",
                    &format!("the command runs, process {pid}"),
                    json!({ "pid": pid }),
                );
            }
            Report::Stopped { .. } => self.leave_to_suspend(standing),
            Report::Ended(ending) => {
                if let Some(term) = &mut standing.term {
                    term.ending = Some(ending);
                }
            }
            Report::Unkillable(survivors) => {
                let names: Vec<_> =
                    survivors.iter().map(|one| format!("{} ({})", one.pid, one.name)).collect();
                let text =
                    format!("cannot be killed, so the lease is kept until they end: {}", names.join(", "));
                self.voice.error("unkillable", &text);
            }
            Report::Gone { ending, stopped, guardian_died } => {
                if guardian_died {
                    self.voice
                        .error("guardian_died", "the guardian died; all that it guarded has been killed");
                    // Before the lease is given back, and so before the next bid.
                    self.guardian = Guardian::start(&self.guardian_options).await.map_err(|error| {
                        Refusal::new(
                            exit::FAILURE,
                            format!("cannot start the guardian again: {}", talk::chain(&error)),
                        )
                    })?;
                }
                if let Some(mut term) = standing.term.take() {
                    term.ending = ending.or(term.ending);
                    self.command_ended(term, stopped, guardian_died, standing);
                }
            }
        }
        Ok(())
    }

    /// Everything that the command started is gone.
    fn command_ended(&mut self, term: Term, stopped: bool, guardian_died: bool, standing: &mut Standing) {
        let ending = term.ending.clone();
        let code = ending.as_ref().and_then(term::code_of);
        self.code = code;
        let (ran, cool_down_before) = (term.ran(), term.cool_down_before());
        let reason = term.reason.clone();
        // From here on the lease may be given back.
        drop(term);
        let told = standing.is_stopping();
        match reason {
            // The elector ends the term already.
            Some(_) if told => {}
            Some(reason) if self.plan.once => {
                let code = if reason.is_loss() { exit::LOST } else { code.unwrap_or(exit::LOST) };
                standing.stop(Then::Exit(Some(code)));
            }
            Some(_) if standing.limited => standing.stop(Then::Anew),
            Some(_) => {}
            // The guardian was first: for it the deadline had passed.
            None if stopped => {
                self.voice.error("deadline", "the command was stopped: the lease was not renewed in time");
                let then = match self.plan.once {
                    true => Then::Exit(Some(exit::LOST)),
                    false if standing.limited => Then::Anew,
                    false => Then::GoOn,
                };
                standing.finish(Finish::default(), then);
            }
            None => {
                let finish = if guardian_died && ending.is_none() {
                    Finish { pause: pace::after(None, ran), ..Finish::default() }
                } else {
                    self.finish_after(code.filter(|_| !told), ran, cool_down_before)
                };
                self.say_ended(ending.as_ref(), &finish);
                let then = match self.plan.once {
                    true => Then::Exit(Some(code.unwrap_or(match ending {
                        Some(Ending::Late) => exit::LOST,
                        _ => exit::FAILURE,
                    }))),
                    false if standing.limited => Then::Anew,
                    false => Then::GoOn,
                };
                standing.finish(finish, then);
            }
        }
    }

    /// How the term ends whose command ended by itself.
    fn finish_after(
        &mut self,
        code: Option<u8>,
        ran: Duration,
        cool_down_before: Option<Duration>,
    ) -> Finish {
        let succeeded = code == Some(0);
        if !succeeded && self.plan.failover_on_crash {
            let pause = pace::after(self.rested, ran);
            self.rested = Some(pause);
            return Finish { succeeded, cool_down: Duration::ZERO, pause };
        }
        Finish { succeeded, cool_down: pace::after(cool_down_before, ran), pause: Duration::ZERO }
    }

    fn left(&mut self, left: &Result<(), CommandError>, standing: &mut Standing) -> Then {
        let then = standing.leaving.take().map_or(Then::GoOn, |leaving| leaving.then);
        self.tell_all(standing);
        if left.is_ok() {
            self.guardian.recorded();
        } else if self.plan.min_interval.is_some() && self.code == Some(0) {
            self.voice.error(
                "not_recorded",
                "the successful end could not be recorded: the command may run again within the interval",
            );
        }
        match then {
            Then::Exit(None) => Then::Exit(self.code),
            then => then,
        }
    }

    /// The elector stopped by itself: its time was up.
    fn gave_up(&self, standing: &Standing) -> Then {
        let status = standing.handle.status();
        let code = match (&self.leader, &status.last_error) {
            (_, Some(error)) => {
                self.voice.error("store_failed", &format!("gave up: {error}"));
                exit::FAILURE
            }
            (Some((leader, token)), None) => {
                let text = leads(leader, *token);
                let details = json!({ "leader": leader, "token": token });
                self.voice.say(Level::Normal, "refused", &text, details);
                exit::REFUSED
            }
            (None, None) => {
                let why = self.why_nobody().unwrap_or_else(|| "somebody was faster".into());
                self.voice.normal("refused", &format!("nobody may lead now: {why}"));
                exit::REFUSED
            }
        };
        Then::Exit(Some(code))
    }

    /// Says why an election that nobody leads is not free, and for how long.
    fn why_nobody(&self) -> Option<String> {
        let (state, until) = self.waiting.as_ref()?;
        let time = duration::brief(until.time_since(SystemClock.now()));
        match state {
            RecordState::Reserved { successor: Some(successor) } => {
                Some(format!("it is kept for {successor} for {time}"))
            }
            RecordState::Reserved { successor: None } => {
                Some(format!("the command has ended just now, and nobody starts it for {time}"))
            }
            RecordState::Paused => Some(format!("an operator paused the election, for {time}")),
            RecordState::Recovering => Some(format!("{}, for {time}", words::RECOVERING)),
            RecordState::Held | RecordState::Free => None,
        }
    }

    fn tell_waiting(&mut self, state: &RecordState, opens_in: Option<Duration>) {
        let opens_in = opens_in.unwrap_or_default();
        self.waiting = Some((state.clone(), SystemClock.now().plus(opens_in)));
        let Some(why) = self.why_nobody() else { return };
        let text = format!("waiting, nobody may lead now: {why}");
        self.notify.status(&text);
        // A cool-down or a handoff is part of how things go, and was told by whoever began it.
        let expected = matches!(state, RecordState::Reserved { .. });
        let level = if expected || self.at_once { Level::Verbose } else { Level::Normal };
        let details = json!({ "state": json::state(state), "opens_in_ms": json::ms(opens_in) });
        self.voice.say(level, "waiting", &text, details);
    }

    async fn read(&self) -> Result<Option<LeaseRecord>, String> {
        let limit = SystemClock.now().plus(self.plan.timing.call_timeout);
        tokio::select! {
            biased;
            record = self.plan.store.read(&self.plan.election) => record.map_err(|error| talk::chain(&error)),
            () = SystemClock.sleep_until(limit) => Err("the store gave no answer in time".into()),
        }
    }

    /// Tells whether the command ended with success within `interval`, and says who ran it when.
    fn ran_within(&self, interval: Duration, record: &LeaseRecord) -> bool {
        let Some(ago) = record.last_success.filter(|ago| *ago < interval) else { return false };
        let by = record.last_terms.iter().rev().find(|term| term.end == Some(TermEnd::Succeeded));
        let who = by.map_or_else(|| "an earlier run".to_owned(), |term| term.candidate.to_string());
        let text = format!(
            "not started: {who} ended it with success {} ago, and the shortest interval is {}",
            duration::show(ago),
            duration::show(interval)
        );
        let details = json!({ "ended_by": by.map(|term| &term.candidate), "ago_ms": ago.as_millis() });
        self.voice.say(Level::Normal, "ran_lately", &text, details);
        true
    }

    fn say_start(&self) {
        for warning in &self.plan.warnings {
            self.voice.normal("warning", &format!("warning: {warning}"));
        }
        let lease = self.plan.url.lease_name(&self.plan.election);
        let at = lease.as_ref().map(|name| format!(", lease at {name}")).unwrap_or_default();
        let text = format!(
            "election {:?} on {} ({}{at}); candidate {}; isolation: {}",
            self.plan.election.as_str(),
            self.plan.url,
            self.plan.url.reach(),
            self.elections.candidate(),
            self.guardian.isolation()
        );
        let details = json!({
            "store": self.plan.url.to_string(),
            "scope": self.plan.store.guarantees().scope,
            "lease": lease,
            "isolation": self.guardian.isolation(),
        });
        self.voice.say(Level::Normal, "started", &text, details);
    }

    fn say_ended(&self, ending: Option<&Ending>, finish: &Finish) {
        let what = ending.map_or_else(|| "was killed".to_owned(), term::in_words);
        let rest = finish.cool_down.max(finish.pause);
        let who = if finish.cool_down.is_zero() { "this machine rests" } else { "nobody starts it" };
        let text = format!("the command {what}; {who} for {}", duration::show(rest));
        let details = json!({ "code": self.code, "cool_down_ms": finish.cool_down.as_millis(), "succeeded": finish.succeeded });
        self.voice.say(Level::Normal, "ended", &text, details);
    }

    /// Tells what has happened already.
    fn tell_all(&mut self, standing: &mut Standing) {
        while let Some(Some(heard)) = standing.events.next().now_or_never() {
            self.tell(heard);
        }
    }

    fn tell(&mut self, heard: Heard) {
        match heard {
            Heard::Event(event) => self.tell_event(&event),
            Heard::Missed(count) => self.voice.error("missed", &format!("{count} events were not told")),
        }
    }

    fn tell_event(&mut self, event: &ElectionEvent) {
        match &event.kind {
            EventKind::LeaderChanged { leader: Some(leader), token } => {
                self.store_silent = false;
                self.leader = Some((leader.clone(), *token));
                self.waiting = None;
                let text = format!("standing by: {}", leads(leader, *token));
                self.notify.status(&text);
                let level = if self.at_once { Level::Verbose } else { Level::Normal };
                self.voice.say(level, "leader_changed", &text, json!({ "leader": leader, "token": token }));
                let env = self.hook_environment(&[
                    ("TENURE_LEADER", leader.to_string()),
                    ("TENURE_TOKEN", token.to_string()),
                ]);
                self.hooks.call("on-leader-change", self.script.on_leader_change.as_ref(), env);
            }
            EventKind::LeaderChanged { leader: None, token } => {
                self.leader = None;
                let details = json!({ "leader": null, "token": token });
                self.voice.say(Level::Verbose, "leader_changed", "nobody leads", details);
            }
            EventKind::Waiting { state, opens_in } => {
                self.store_silent = false;
                self.tell_waiting(state, *opens_in);
            }
            EventKind::Elected { token, attempts } => {
                self.store_silent = false;
                self.at_once = false;
                self.leader = None;
                self.waiting = None;
                let text = format!("elected: this process leads, term {token}");
                self.notify.status(&text);
                self.voice.say(
                    Level::Normal,
                    "elected",
                    &text,
                    json!({ "token": token, "attempts": attempts }),
                );
            }
            EventKind::TermEnded { token, reason } => {
                let text = format!("term {token} ended: {reason}");
                let details = json!({ "token": token, "reason": reason.to_string() });
                self.voice.say(Level::Normal, "term_ended", &text, details);
                if reason.is_loss() {
                    let env = self.hook_environment(&[
                        ("TENURE_TOKEN", token.to_string()),
                        ("TENURE_REASON", reason.to_string()),
                    ]);
                    self.hooks.call("on-lost", self.script.on_lost.as_ref(), env);
                }
            }
            EventKind::BidFailed { error } => {
                self.tell_silence(&format!("cannot stand: {}", talk::chain(error)));
            }
            EventKind::RenewFailed { error, left, .. } => self.tell_silence(&format!(
                "cannot renew: {}; the command is stopped in {} if that does not change",
                talk::chain(error),
                duration::show(*left)
            )),
            EventKind::ReleaseFailed { error, .. } => {
                self.voice.error(
                    "release_failed",
                    &format!("cannot give the lease back yet: {}", talk::chain(error)),
                );
            }
            EventKind::LostWhileDraining { token } => {
                // Somebody else may lead already.
                self.guardian.kill();
                self.voice.error("lost", &format!("the lease of term {token} is lost; killing the command"));
            }
            EventKind::Overrun { token } => self.voice.error(
                "overrun",
                &format!(
                    "processes of term {token} still run; the lease is kept for as long as the store answers"
                ),
            ),
            EventKind::IdentityShared { token } => self.voice.error(
                "identity_shared",
                &format!(
                    "somebody else renewed the lease of term {token}: was this process or its machine cloned?"
                ),
            ),
            EventKind::Flapping { terms, wait } => self.voice.error(
                "flapping",
                &format!("{terms} terms in a row were short; standing again in {}", duration::show(*wait)),
            ),
            EventKind::Requested { token, .. } => {
                self.voice.normal("requested", &format!("an operator asked for the end of term {token}"));
            }
            _ => {}
        }
    }

    /// Said once for each silence of the store, and each time to whoever wants to hear more.
    fn tell_silence(&mut self, text: &str) {
        let level = if self.store_silent || self.at_once { Level::Verbose } else { Level::Normal };
        self.store_silent = true;
        self.voice.say(level, "store_failed", text, json!({}));
    }

    fn hook_environment(&self, more: &[(&str, String)]) -> Vec<(String, String)> {
        let all = [
            ("TENURE_ELECTION", self.plan.election.to_string()),
            ("TENURE_CANDIDATE", self.elections.candidate().to_string()),
            ("TENURE_STORE", self.plan.url.without_secrets()),
        ];
        all.iter().chain(more).map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }
}

impl Standing {
    /// Tells whether the wrapper exits once the elector has stopped.
    fn is_exiting(&self) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| matches!(leaving.then, Then::Exit(_)))
    }

    /// Tells whether the elector will have stopped soon.
    fn is_stopping(&self) -> bool {
        self.leaving.as_ref().is_some_and(|leaving| leaving.then != Then::GoOn)
    }

    /// Stops the elector: the term ends in order, and the lease is given back. What ends already ends first.
    fn stop(&mut self, then: Then) {
        let handle = self.handle.observer();
        let before = self.leaving.take();
        let done = Box::pin(async move {
            let left = match before {
                Some(before) => before.done.await,
                None => Ok(()),
            };
            handle.stop().await;
            left
        });
        self.leaving = Some(Leaving { done, then });
    }

    /// Ends the term whose command has ended, and then stops the elector unless it goes on.
    fn finish(&mut self, finish: Finish, then: Then) {
        let handle = self.handle.observer();
        // Whoever was told to stop meanwhile does not forget it.
        let then =
            self.leaving.take().map(|before| before.then).filter(|then| *then != Then::GoOn).unwrap_or(then);
        let done = Box::pin(async move {
            if then == Then::GoOn {
                return handle.finish(finish).await;
            }
            // Both are told at once, in this order: it does not stand again in between.
            futures_util::future::join(handle.finish(finish), handle.stop()).await.0
        });
        self.leaving = Some(Leaving { done, then });
    }
}

/// Says who leads. Other software does so in no term.
fn leads(leader: &CandidateId, token: FencingToken) -> String {
    if token == FencingToken::ZERO {
        format!("{leader} holds the lease (other software)")
    } else {
        format!("{leader} leads, term {token}")
    }
}

async fn left(leaving: &mut Option<Leaving>) -> Result<(), CommandError> {
    match leaving {
        Some(leaving) => leaving.done.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Returns the terminal, if the command is to have it.
fn terminal(interactive: bool) -> Result<Option<OwnedFd>, Refusal> {
    use std::io::IsTerminal;
    use std::os::fd::AsFd;
    if !interactive {
        return Ok(None);
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Refusal::new(
            exit::FAILURE,
            "--interactive hands over the terminal, and standard input is none",
        ));
    }
    let terminal = stdin.as_fd().try_clone_to_owned();
    terminal
        .map(Some)
        .map_err(|error| Refusal::new(exit::FAILURE, format!("cannot hand over the terminal: {error}")))
}

/// Stops this process until somebody continues it.
pub(super) fn suspend() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
}
