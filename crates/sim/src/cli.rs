//! The command line: what to run, and how to show it.

use std::fmt::Write as _;

use crate::batch::{self, Batch, Report};
use crate::flaw::{self, FlawCase};
use crate::invariant;
use crate::run::run;
use crate::scenario::{self, Scenario};

/// How the command is used.
pub const USAGE: &str = "\
usage: tenure-sim --scenario NAME [--seed N] [--trace]   one run
       tenure-sim --scenario NAME --seeds N              many runs of one scenario
       tenure-sim --all [--seeds N]                      many runs of every scenario
       tenure-sim --list                                 scenarios, invariants, flaws

  --from N      first seed of many (default 0)
  --flaw NAME   with a known mistake switched on
  --threads N   at most so many at once (default: all cores)
  --json        the summary as JSON";

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Args {
    scenario: Option<String>,
    seed: Option<u64>,
    seeds: Option<u64>,
    from: u64,
    all: bool,
    trace: bool,
    flaw: Option<String>,
    threads: Option<usize>,
    json: bool,
    list: bool,
}

fn parse(words: &[String]) -> Result<Args, String> {
    let mut args = Args::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--scenario" => args.scenario = Some(value()?),
            "--seed" => args.seed = Some(number(word, &value()?)?),
            "--seeds" => args.seeds = Some(number(word, &value()?)?),
            "--from" => args.from = number(word, &value()?)?,
            "--flaw" => args.flaw = Some(value()?),
            "--threads" => args.threads = usize::try_from(number(word, &value()?)?).ok(),
            "--all" => args.all = true,
            "--trace" => args.trace = true,
            "--json" => args.json = true,
            "--list" => args.list = true,
            other => return Err(format!("{other:?} is not an option")),
        }
    }
    if args.seed.is_some() && args.seeds.is_some() {
        return Err("--seed is one run, --seeds are many: give one of them".into());
    }
    if args.all == args.scenario.is_some() && !args.list {
        return Err("say --scenario NAME or --all".into());
    }
    if args.trace && (args.all || args.seeds.is_some()) {
        return Err("--trace shows one run: give --scenario and --seed".into());
    }
    Ok(args)
}

fn number(option: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{option} {value:?}: not a whole number"))
}

/// Runs the command; answers what goes to standard output and the exit code.
///
/// # Errors
/// What is wrong with the words, for standard error.
pub fn main(words: &[String]) -> Result<(String, u8), String> {
    let args = parse(words)?;
    if args.list {
        return Ok((list(), 0));
    }
    let flaw = match &args.flaw {
        Some(name) => Some(flaw::find(name).ok_or_else(|| format!("no flaw {name:?}: see --list"))?),
        None => None,
    };
    let scenarios = match &args.scenario {
        Some(name) => vec![scenario::find(name).ok_or_else(|| format!("no scenario {name:?}: see --list"))?],
        None => scenario::ALL.to_vec(),
    };
    if let (Some(scenario), false, None) = (scenarios.first(), args.all, args.seeds) {
        return Ok(one(scenario, args.seed.unwrap_or_default(), flaw, args.trace, args.json));
    }
    let seeds = args.from..args.from + args.seeds.unwrap_or(100);
    let report = batch::run_all(&Batch { scenarios, seeds, flaw, threads: args.threads });
    let code = u8::from(!report.is_fine());
    Ok((if args.json { report.json() } else { report.to_string() }, code))
}

fn one(scenario: &Scenario, seed: u64, flaw: Option<&FlawCase>, trace: bool, json: bool) -> (String, u8) {
    let outcome = run(scenario, seed, flaw);
    let mut text = String::new();
    // Writing into a string cannot fail.
    if trace {
        let _ = write!(text, "{}", outcome.trace);
    }
    let report = Report::of_one(scenario, seed, flaw, &outcome);
    let _ = write!(text, "{}", if json { report.json() } else { report.to_string() });
    (text, u8::from(!outcome.broken.is_empty()))
}

fn list() -> String {
    let mut text = String::from("scenarios\n");
    for scenario in scenario::ALL {
        let _ = writeln!(text, "  {:<28} {}", scenario.name, scenario.story);
    }
    text.push_str("\ninvariants\n");
    for invariant in invariant::ALL {
        let _ = writeln!(text, "  {:<28} {}", invariant.name, invariant.says);
    }
    text.push_str("\nflaws, where they show, and which invariant finds them\n");
    for flaw in flaw::ALL {
        let _ = writeln!(text, "  {:<28} {} → {}", flaw.name, flaw.scenario, flaw.invariant);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_asked_for_is_understood() {
        let args = parse(&words("--scenario herd --seed 7 --trace")).unwrap();
        assert_eq!((args.scenario.as_deref(), args.seed, args.trace), (Some("herd"), Some(7), true));
        let args = parse(&words("--all --seeds 50 --from 9 --json --threads 1")).unwrap();
        assert_eq!((args.all, args.seeds, args.from, args.json), (true, Some(50), 9, true));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        for (line, reason) in [
            ("", "say --scenario"),
            ("--all --scenario herd", "say --scenario"),
            ("--seed x --all", "not a whole number"),
            ("--seed", "needs a value"),
            ("--all --trace", "one run"),
            ("--all --seed 1 --seeds 2", "one of them"),
            ("--what", "not an option"),
        ] {
            let message = parse(&words(line)).unwrap_err();
            assert!(message.contains(reason), "{line}: {message}");
        }
        assert!(main(&words("--scenario nonsense")).unwrap_err().contains("no scenario"));
        assert!(main(&words("--all --flaw nonsense")).unwrap_err().contains("no flaw"));
    }

    #[test]
    fn the_list_names_everything() {
        let text = list();
        assert!(scenario::ALL.iter().all(|scenario| text.contains(scenario.name)));
        assert!(flaw::ALL.iter().all(|flaw| text.contains(flaw.name)));
    }
}
