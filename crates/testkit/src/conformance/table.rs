//! The store × property table, and the snapshot that it is held against.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::report::directory;
use super::{Property, Report, Verdict};

/// Returns where the reports of this build are kept, if this program lies in a target directory.
#[must_use]
pub fn report_directory() -> Option<PathBuf> {
    directory()
}

/// Reads the last report on each store, in the order of their names.
///
/// # Errors
/// If the directory or a file in it cannot be read, or a file's last line is not a report.
pub fn read_reports(directory: &Path) -> io::Result<Vec<Report>> {
    let mut reports = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let report = text
            .lines()
            .last()
            .and_then(|line| serde_json::from_str(line).ok())
            .and_then(|value| Report::from_json(&value))
            .ok_or_else(|| {
                let message = format!("{} does not end with a report: delete it", path.display());
                io::Error::new(io::ErrorKind::InvalidData, message)
            })?;
        reports.push(report);
    }
    reports.sort_by(|a, b| a.store().cmp(b.store()));
    Ok(reports)
}

/// Draws the table: a row for each store, the reasons below.
#[must_use]
pub fn draw(reports: &[Report]) -> String {
    let width = reports.iter().map(|r| r.store().chars().count()).max().unwrap_or(0).max(5);
    let mut table = format!("{:width$}", "store");
    for property in Property::ALL {
        let _ = write!(table, " {:>4}", property.id());
    }
    table.push('\n');
    let mut notes = String::new();
    for report in reports {
        let _ = write!(table, "{:width$}", report.store());
        for &property in Property::ALL {
            let verdict = report.verdicts().iter().find(|(p, _)| *p == property);
            let mark = match verdict {
                Some((_, Verdict::Pass { left_out })) if left_out.is_empty() => "✓",
                // Holds as far as it could be shown; what could not stands below.
                Some((_, Verdict::Pass { .. })) => "✓*",
                Some((_, Verdict::NotApplicable(_))) => "n/a",
                Some((_, Verdict::Fail(_))) => "FAIL",
                None => "?",
            };
            let _ = write!(table, " {mark:>4}");
        }
        table.push('\n');
        notes.push_str(&report.summary());
    }
    format!("{table}\n{notes}")
}

/// Writes down what the table is held against; keeps what `before` says about stores that were not run.
#[must_use]
pub fn snapshot(reports: &[Report], before: &str) -> String {
    let ran = |block: &String| reports.iter().any(|report| report.store() == first_word(block));
    let mut parts: Vec<_> = blocks(before).into_iter().filter(|block| !ran(block)).collect();
    parts.extend(reports.iter().map(Report::summary));
    parts.sort_by(|a, b| first_word(a).cmp(first_word(b)));
    parts.concat()
}

/// Tells how the reports differ from a snapshot; empty if they do not.
///
/// A failed property, a store that is not in the snapshot, another number of passes, another property that does not
/// apply or another part left out is a difference. A store of the snapshot without a report is one unless
/// `allow_missing`.
#[must_use]
pub fn differences(reports: &[Report], snapshot: &str, allow_missing: bool) -> Vec<String> {
    let mut differences = Vec::new();
    let expected = blocks(snapshot);
    for report in reports {
        for property in report.failures() {
            differences.push(format!("{}: {property} fails", report.store()));
        }
        let now = report.summary();
        match expected.iter().find(|block| first_word(block) == first_word(&now)) {
            None => differences.push(format!("{}: not in the snapshot", report.store())),
            Some(before) if *before != now => {
                differences.push(format!("{}: was\n{before}but is\n{now}", report.store()));
            }
            Some(_) => {}
        }
    }
    for block in expected {
        let ran = |report: &Report| first_word(&block) == report.store();
        if !allow_missing && !reports.iter().any(ran) {
            differences.push(format!("{} was not run", first_word(&block)));
        }
    }
    differences
}

fn first_word(block: &str) -> &str {
    block.split(':').next().unwrap_or_default()
}

/// Takes a snapshot apart: a store's part begins with a line that is not indented.
fn blocks(snapshot: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    for line in snapshot.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with(' ') {
            blocks.push(String::new());
        }
        if let Some(block) = blocks.last_mut() {
            block.push_str(line);
            block.push('\n');
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdict: Verdict) -> Report {
        let mut report = Report::new("memory");
        report.add(Property::A1, Verdict::Pass { left_out: vec![] });
        report.add(Property::A11, verdict);
        report
    }

    #[test]
    fn a_report_reads_back_as_written() {
        for verdict in [
            Verdict::Pass { left_out: vec!["a part".into()] },
            Verdict::NotApplicable("a reason".into()),
            Verdict::Fail("a \"message\"\nof two lines".into()),
        ] {
            let report = report(verdict);
            let json = report.to_json();
            assert!(!json.to_string().contains('\n'), "a report is one line");
            assert_eq!(Report::from_json(&json).unwrap().verdicts(), report.verdicts());
        }
    }

    #[test]
    fn another_number_of_properties_that_do_not_apply_is_a_difference() {
        let before = snapshot(&[report(Verdict::Pass { left_out: vec![] })], "");
        let same = [report(Verdict::Pass { left_out: vec![] })];
        assert_eq!(differences(&same, &before, false), Vec::<String>::new());
        let less = [report(Verdict::NotApplicable("a reason".into()))];
        assert_eq!(differences(&less, &before, false).len(), 1);
        let in_part = [report(Verdict::Pass { left_out: vec!["a part".into()] })];
        assert_eq!(differences(&in_part, &before, false).len(), 1);
        assert_eq!(differences(&less, &snapshot(&less, ""), false), Vec::<String>::new());
    }

    #[test]
    fn a_failure_is_a_difference_even_if_the_snapshot_has_it() {
        let failed = [report(Verdict::Fail("no".into()))];
        assert_eq!(differences(&failed, &snapshot(&failed, ""), false).len(), 1);
    }

    #[test]
    fn a_store_that_was_not_run_or_is_new_is_a_difference() {
        let reports = [report(Verdict::Pass { left_out: vec![] })];
        let snapshot = snapshot(&reports, "");
        assert_eq!(differences(&[], &snapshot, false).len(), 1);
        assert!(differences(&[], &snapshot, true).is_empty());
        assert_eq!(differences(&reports, "", true).len(), 1);
    }

    #[test]
    fn a_new_snapshot_keeps_what_was_not_run() {
        let reports = [report(Verdict::Pass { left_out: vec![] })];
        let before = "memory: 1 of 31 pass\nredis: 30 of 31 pass\n  A30 n/a: a reason\n";
        let after = snapshot(&reports, before);
        assert!(after.starts_with("memory: 2 of"), "{after}");
        assert!(after.ends_with("redis: 30 of 31 pass\n  A30 n/a: a reason\n"), "{after}");
    }

    #[test]
    fn the_table_shows_each_verdict_and_its_reason() {
        let table = draw(&[report(Verdict::NotApplicable("a reason".into()))]);
        assert!(table.contains("n/a") && table.contains("A11 n/a: a reason"), "{table}");
        assert!(draw(&[report(Verdict::Fail("no".into()))]).contains("FAIL"));
        let in_part = Verdict::Pass { left_out: vec!["a part".into()] };
        assert!(draw(&[report(in_part)]).contains("✓*"));
    }
}
