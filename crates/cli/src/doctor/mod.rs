//! `tenure doctor`: what can be counted on here, tried out.

mod machine;
mod probe;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tenure::StoreUrl;
use tenure::store::Guarantees;

use crate::args::DoctorArgs;
use crate::reading::{Failure, Output};
use crate::show::colour::{self, Tone, paint};
use crate::show::table::Table;
use crate::show::{json, words};
use crate::{duration, reading};

/// How something was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// It is as it should be.
    Good,
    /// It is no fault, but worth knowing.
    Noted,
    /// It works, with a risk or a cost.
    Doubtful,
    /// It does not work.
    Bad,
}

/// What was looked at, and found.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    text: String,
    hint: Option<String>,
}

impl Finding {
    fn new(check: &'static str, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { check, verdict, text: text.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// All that was found.
#[derive(Debug, Default)]
struct Report {
    guarantees: Option<Guarantees>,
    /// Half of the calls took no longer.
    round_trip: Option<Duration>,
    /// A ttl that leaves enough room for the slowest call.
    recommended_ttl: Option<Duration>,
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.verdict != Verdict::Bad)
    }
}

#[derive(Serialize)]
struct Json<'a> {
    healthy: bool,
    store: Option<json::Store>,
    round_trip_us: Option<u64>,
    recommended_ttl_ms: Option<u64>,
    findings: &'a [Finding],
}

pub(crate) fn main(args: &DoctorArgs) -> ExitCode {
    reading::conclude(
        || open(args),
        async |url, output| {
            let mut report = Report::default();
            probe::store(url, args, &mut report).await;
            machine::look(url, &mut report);
            let verdict = if report.is_healthy() { reading::Verdict::Yes } else { reading::Verdict::No };
            write(args, report, output)?;
            Ok(verdict)
        },
    )
}

fn open(args: &DoctorArgs) -> Result<StoreUrl, Failure> {
    let url = args.read.store.url(&[])?;
    if url == StoreUrl::Memory {
        return Err(Failure::Usage {
            message: "store \"memory:\" lives inside one process: there is nothing to try out".into(),
            hint: "name the store that the candidates use, with --store or TENURE_STORE",
        });
    }
    // By its path, which is worth showing; without one the store itself says why.
    Ok(url.clone().resolved().unwrap_or(url))
}

fn write(args: &DoctorArgs, report: Report, output: &mut Output) -> io::Result<()> {
    if args.read.json {
        let whole = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let answer = Json {
            healthy: report.is_healthy(),
            round_trip_us: report.round_trip.map(|time| whole(time.as_micros())),
            recommended_ttl_ms: report.recommended_ttl.map(|ttl| whole(ttl.as_millis())),
            store: report.guarantees.map(json::store),
            findings: &report.findings,
        };
        return reading::write_json(output, &answer);
    }
    let coloured = colour::wanted();
    let mut table = Table::plain();
    for finding in &report.findings {
        let (word, tone) = match finding.verdict {
            Verdict::Good => ("ok", Tone::Good),
            Verdict::Noted => ("note", Tone::Plain),
            Verdict::Doubtful => ("warning", Tone::Kept),
            Verdict::Bad => ("BAD", Tone::Bad),
        };
        table.row([paint(word.into(), tone, coloured), finding.check.into(), finding.text.clone()]);
        if let Some(hint) = &finding.hint {
            table.row([String::new(), String::new(), format!("hint: {hint}")]);
        }
    }
    table.write(output)?;
    if let Some(guarantees) = &report.guarantees {
        writeln!(output, "\nWhat can be counted on ({}: {}):", guarantees.store, guarantees.scope)?;
        for sentence in words::guarantees(guarantees) {
            writeln!(output, "  {sentence}")?;
        }
    }
    let bad = report.findings.iter().filter(|finding| finding.verdict == Verdict::Bad).count();
    let doubtful = report.findings.iter().filter(|finding| finding.verdict == Verdict::Doubtful).count();
    writeln!(
        output,
        "\n{}",
        match (bad, doubtful) {
            (0, 0) => "All is well.".to_owned(),
            (0, doubtful) => format!("It works; {doubtful} to think about."),
            (bad, _) => format!("{bad} to mend."),
        }
    )
}

/// Writes a round trip: these are shorter than what people otherwise wait for.
fn fine(time: Duration) -> String {
    if time < Duration::from_millis(10) {
        format!("{:.2} ms", time.as_secs_f64() * 1000.0)
    } else {
        duration::show(time)
    }
}
