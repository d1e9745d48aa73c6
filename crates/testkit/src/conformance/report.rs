//! What came out.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::Property;

/// What one property showed on one store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds, apart from the parts that could not be shown.
    Pass {
        /// Parts that the fixture or the store has no means for, with the reason.
        left_out: Vec<String>,
    },
    /// It does not apply, and why.
    NotApplicable(String),
    /// It does not hold, and what was seen.
    Fail(String),
}

/// What all properties showed on one store.
#[derive(Clone, Debug)]
pub struct Report {
    store: String,
    verdicts: Vec<(Property, Verdict)>,
}

impl Report {
    pub(super) fn new(store: &str) -> Self {
        Self { store: store.to_owned(), verdicts: Vec::new() }
    }

    pub(super) fn add(&mut self, property: Property, verdict: Verdict) {
        self.verdicts.push((property, verdict));
    }

    /// Returns the store's name in the table.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.store
    }

    /// Returns what each property showed, in order.
    #[must_use]
    pub fn verdicts(&self) -> &[(Property, Verdict)] {
        &self.verdicts
    }

    /// Returns the properties that do not hold.
    #[must_use]
    pub fn failures(&self) -> Vec<Property> {
        let failed = |verdict: &Verdict| matches!(verdict, Verdict::Fail(_));
        self.verdicts.iter().filter(|(_, verdict)| failed(verdict)).map(|&(property, _)| property).collect()
    }

    /// Fails if any property does.
    ///
    /// # Panics
    /// With a list of the properties that do not hold.
    pub fn assert_all(&self) {
        let mut failures = String::new();
        for (property, verdict) in &self.verdicts {
            if let Verdict::Fail(message) = verdict {
                let _ = writeln!(failures, "  {property} {}\n      {message}", property.title());
            }
        }
        assert!(failures.is_empty(), "store {} does not conform:\n{failures}", self.store);
    }

    /// Returns how many properties pass, and below that every one that does not apply, only in part, or not, with the
    /// reason; the store's part of the snapshot.
    #[must_use]
    pub fn summary(&self) -> String {
        let passes = self.verdicts.iter().filter(|(_, v)| matches!(v, Verdict::Pass { .. })).count();
        let mut summary = format!("{}: {passes} of {} pass\n", self.store, Property::ALL.len());
        for (property, verdict) in &self.verdicts {
            match verdict {
                Verdict::Pass { left_out } => {
                    for part in left_out {
                        let _ = writeln!(summary, "  {property} without: {part}");
                    }
                }
                Verdict::NotApplicable(reason) => {
                    let _ = writeln!(summary, "  {property} n/a: {reason}");
                }
                Verdict::Fail(message) => {
                    let first = message.lines().next().unwrap_or_default();
                    let _ = writeln!(summary, "  {property} FAIL: {first}");
                }
            }
        }
        summary
    }

    /// Returns the store's row of the table: a mark for each property.
    #[must_use]
    pub fn row(&self) -> String {
        let marks: Vec<_> = self
            .verdicts
            .iter()
            .map(|(property, verdict)| match verdict {
                Verdict::Pass { .. } => format!("{property} ✓"),
                Verdict::NotApplicable(_) => format!("{property} n/a"),
                Verdict::Fail(_) => format!("{property} FAIL"),
            })
            .collect();
        format!("{}: {}", self.store, marks.join(" "))
    }

    /// Appends the report to `conformance/<store>.json` in cargo's target directory, for the table. Where there is no
    /// such directory (a test that was started by hand), or it cannot be written, there is nothing to note it for.
    pub fn save(&self) {
        let Some(directory) = directory() else { return };
        let file = directory.join(format!("{}.json", file_name(&self.store)));
        let appended = fs::create_dir_all(&directory)
            .and_then(|()| OpenOptions::new().create(true).append(true).open(file))
            // One write, so that two runs at the same time leave two whole lines.
            .and_then(|mut file| file.write_all(format!("{}\n", self.to_json()).as_bytes()));
        if let Err(error) = appended {
            eprintln!("the report on store {} is not in the table: {error}", self.store);
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let lines: Vec<_> = self
            .verdicts
            .iter()
            .map(|(property, verdict)| match verdict {
                Verdict::Pass { left_out } => {
                    json!({"property": property.id(), "verdict": "pass", "left_out": left_out})
                }
                Verdict::NotApplicable(reason) => {
                    json!({"property": property.id(), "verdict": "not_applicable", "reason": reason})
                }
                Verdict::Fail(message) => {
                    json!({"property": property.id(), "verdict": "fail", "message": message})
                }
            })
            .collect();
        json!({"store": self.store, "properties": lines})
    }

    /// Reads a report back; `None` if it is of another shape, from an older suite for example.
    pub(super) fn from_json(value: &Value) -> Option<Self> {
        let mut report = Self::new(value.get("store")?.as_str()?);
        for line in value.get("properties")?.as_array()? {
            let text = |field: &str| Some(line.get(field)?.as_str()?.to_owned());
            let id = text("property")?;
            let property = Property::ALL.iter().copied().find(|p| p.id() == id)?;
            let verdict = match text("verdict")?.as_str() {
                "pass" => Verdict::Pass {
                    left_out: line
                        .get("left_out")?
                        .as_array()?
                        .iter()
                        .filter_map(|part| Some(part.as_str()?.to_owned()))
                        .collect(),
                },
                "not_applicable" => Verdict::NotApplicable(text("reason")?),
                "fail" => Verdict::Fail(text("message")?),
                _ => return None,
            };
            report.add(property, verdict);
        }
        Some(report)
    }
}

/// Where reports are kept: in cargo's target directory, which the running test lies in. The examples of the documentation
/// do not, and leave no report.
pub(super) fn directory() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    // Cargo marks its target directory so.
    let target = program.ancestors().find(|a| a.join("CACHEDIR.TAG").is_file())?;
    Some(target.join("conformance"))
}

fn file_name(store: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    store.chars().map(plain).collect()
}
