//! Lets a test be the wrapper: `tenure __drive ISOLATE LIFE TERMINAL -- COMMAND…`, orders as lines on standard input,
//! reports as lines on standard output. `-` stands for none.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::Duration;

use tenure::clock::Moment;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::alarm;
use super::wrapper::{Guardian, Options, Order, Report};
use crate::args::Isolate;

/// As the command's default.
const LATENCY: Duration = Duration::from_millis(100);

pub(super) fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(drive())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("failed {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn drive() -> io::Result<()> {
    let options = options()?;
    let mut orders = orders();
    let mut hooks: JoinSet<String> = JoinSet::new();
    loop {
        let mut guardian =
            Guardian::start(&options).await.map_err(|error| io::Error::other(error.to_string()))?;
        say(&format!("ready {}", guardian.isolation()));
        loop {
            tokio::select! {
                biased;
                report = guardian.report() => {
                    say(&format!("{report:?}"));
                    if matches!(report, Report::Gone { guardian_died: true, .. }) {
                        break;
                    }
                }
                Some(Ok(line)) = hooks.join_next() => say(&line),
                order = orders.recv() => match order {
                    Some(order) if order == "hook" => drop(hooks.spawn(hook()?)),
                    Some(order) => obey(&mut guardian, &order)?,
                    None => {
                        guardian.close().await;
                        say("closed");
                        return Ok(());
                    }
                }
            }
        }
    }
}

fn options() -> io::Result<Options> {
    let mut arguments = std::env::args_os().skip(2);
    let mut next = || arguments.next().unwrap_or_default();
    let isolate = match next().to_str() {
        Some("on") => Isolate::On,
        Some("off") => Isolate::Off,
        _ => Isolate::Auto,
    };
    let (life, terminal) = (next(), next());
    let life = (life != "-").then(|| OpenOptions::new().write(true).open(&life)).transpose()?;
    if let Some(life) = &life {
        rustix::fs::flock(life, rustix::fs::FlockOperation::LockExclusive)?;
    }
    let terminal = (terminal != "-").then(|| OpenOptions::new().read(true).write(true).open(&terminal));
    let file = |file: File| OwnedFd::from(file);
    Ok(Options {
        isolate,
        life: life.map(file),
        terminal: terminal.transpose()?.map(file),
        latency: LATENCY,
        command: arguments.skip(1).collect(),
    })
}

fn orders() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Runs something beside the guardian.
fn hook() -> io::Result<impl Future<Output = String>> {
    let mut hook = tokio::process::Command::new("sleep").arg("1000").kill_on_drop(true).spawn()?;
    say(&format!("hook {}", hook.id().unwrap_or_default()));
    Ok(async move {
        let signal = hook.wait().await.ok().and_then(|status| status.signal());
        format!("hook ended {signal:?}")
    })
}

/// Times are milliseconds from now.
fn obey(guardian: &mut Guardian, order: &str) -> io::Result<()> {
    let mut words = order.split(' ');
    let verb = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let after = |ms: Option<u64>| alarm::now().plus(Duration::from_millis(ms.unwrap_or(0)));
    match verb {
        "begin" => {
            let (deadline, must_stop): (Moment, Moment) = (after(number()), after(number()));
            let mut rest = order.splitn(4, ' ').skip(3);
            let env = vec![("TENURE_TEST".to_owned(), rest.next().unwrap_or_default().to_owned())];
            guardian.begin(Order { term: 1, env, deadline, must_stop, record: record_order() });
        }
        "extend" => {
            guardian.extend(after(number()), after(number()));
            say("extended");
        }
        "stop" => guardian.stop(after(number())),
        "kill" => guardian.kill(),
        "signal" => guardian.forward(number().and_then(|number| i32::try_from(number).ok()).unwrap_or(0)),
        "recorded" => guardian.recorded(),
        _ => return Err(io::Error::other(format!("unknown order {verb}"))),
    }
    Ok(())
}

/// Names the file into which the recorder writes what it was told, so that the test sees it.
const RECORD_FILE: &str = "TENURE_TEST_RECORD";

fn record_order() -> Option<serde_json::Value> {
    std::env::var(RECORD_FILE).ok().map(serde_json::Value::String)
}

/// Tells whether a test wants to see what the recorder is told.
pub(super) fn is_recorder() -> bool {
    std::env::var_os(RECORD_FILE).is_some()
}

/// Plays the recorder. If the file is a pipe, it hangs until somebody reads.
pub(super) fn record() -> ExitCode {
    let told = io::read_to_string(io::stdin()).unwrap_or_default();
    let path = std::env::var_os(RECORD_FILE).unwrap_or_default();
    std::fs::write(path, told).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn say(line: &str) {
    // Whoever does not listen any more has ended the test.
    let _ = writeln!(io::stdout().lock(), "{line}");
}
