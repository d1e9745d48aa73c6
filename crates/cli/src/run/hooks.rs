//! Commands for whoever wants to hear of losses and changes, run one after the other beside everything else.
//!
//! They are not work of a term: nothing waits for them but the end of the wrapper, and that not for ever.

use std::process::Stdio;
use std::time::Duration;

use tenure::{Clock, SystemClock};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::voice::Voice;

/// How long the end waits for a hook.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// Hooks that wait at most; a hook that hangs must not fill the memory.
const WAITING: usize = 64;

struct Hook {
    what: &'static str,
    script: String,
    env: Vec<(String, String)>,
}

pub(super) struct Hooks {
    queue: mpsc::Sender<Hook>,
    task: JoinHandle<()>,
    voice: Voice,
}

impl Hooks {
    pub(super) fn start(voice: Voice) -> Self {
        let speaker = voice.clone();
        let (queue, mut waiting) = mpsc::channel::<Hook>(WAITING);
        let task = tokio::spawn(async move {
            while let Some(hook) = waiting.recv().await {
                if let Err(why) = run(hook).await {
                    speaker.error("hook_failed", &why);
                }
            }
        });
        Self { queue, task, voice }
    }

    pub(super) fn call(&self, what: &'static str, script: Option<&String>, env: Vec<(String, String)>) {
        let Some(script) = script else { return };
        if self.queue.try_send(Hook { what, script: script.clone(), env }).is_err() {
            let why = format!("{what} is not run: {WAITING} hooks wait already for one that does not end");
            self.voice.error("hook_failed", &why);
        }
    }

    /// Waits for what was called, for a while.
    pub(super) async fn end(self) {
        drop(self.queue);
        let clock = SystemClock;
        let until = clock.sleep_until(clock.now().plus(LAST_WAIT));
        tokio::select! {
            _ = self.task => {}
            () = until => {}
        }
    }
}

async fn run(hook: Hook) -> Result<(), String> {
    let Hook { what, script, env } = hook;
    let status = Command::new("sh")
        .arg("-c")
        .arg(&script)
        .envs(env)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await;
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} {script:?} failed: {status}")),
        Err(error) => Err(format!("{what} {script:?} could not be started: {error}")),
    }
}
