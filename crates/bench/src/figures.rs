//! Figures, and the limits that they must keep.

use std::collections::BTreeMap;
use std::time::Duration;

/// Compiled in, so that a figure is always judged by the limits of its own commit.
const LIMITS: &str = include_str!("../limits.toml");

/// Fewer samples than this have no honest p99: the maximum is shown instead.
const SAMPLES_FOR_P99: usize = 300;

#[derive(Default)]
pub(crate) struct Figures {
    values: BTreeMap<String, f64>,
}

impl Figures {
    pub(crate) fn add(&mut self, name: &str, value: f64, unit: &str) {
        eprintln!("  {name:<28} {value:>12.3} {unit}");
        self.values.insert(name.to_owned(), value);
    }

    /// Adds p50 and p99 (or the maximum, if there are too few samples) of some durations.
    pub(crate) fn add_spread(&mut self, name: &str, mut samples: Vec<Duration>) {
        samples.sort_unstable();
        let ms = |duration: &Duration| duration.as_secs_f64() * 1e3;
        if let (Some(middle), Some(last)) = (samples.get(samples.len() / 2), samples.last()) {
            self.add(&format!("{name}_p50_ms"), ms(middle), "ms");
            if samples.len() >= SAMPLES_FOR_P99 {
                self.add(&format!("{name}_p99_ms"), ms(&samples[samples.len() * 99 / 100]), "ms");
            } else {
                self.add(&format!("{name}_max_ms"), ms(last), "ms");
            }
        }
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(&self.values).unwrap_or_default()
    }

    /// Compares with the limits of one section. `whole`: every limit must have been measured.
    pub(crate) fn within_limits(&self, section: &str, whole: bool) -> bool {
        let mut good = true;
        for (name, limit) in limits(section) {
            match self.values.get(&name) {
                Some(value) if *value <= limit => eprintln!("ok      {name}: {value:.3} ≤ {limit}"),
                Some(value) => {
                    good = false;
                    eprintln!("BEYOND  {name}: {value:.3} > {limit}");
                }
                None if whole => {
                    good = false;
                    eprintln!("BEYOND  {name}: not measured (limit {limit})");
                }
                None => {}
            }
        }
        good
    }
}

/// Reads `name = number` lines of a section; the file has nothing else.
fn limits(section: &str) -> Vec<(String, f64)> {
    let mut present = "";
    let mut found = Vec::new();
    for line in LIMITS.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            present = name;
        } else if let Some((name, value)) = line.split_once('=')
            && present == section
            && let Ok(value) = value.trim().parse()
        {
            found.push((name.trim().to_owned(), value));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_read() {
        let limits: Vec<_> = ["core", "redis", "run"].into_iter().flat_map(limits).collect();
        let lines = LIMITS.lines().filter(|line| line.contains('=') && !line.starts_with('#')).count();
        assert_eq!(limits.len(), lines);
        assert!(limits.iter().any(|(name, value)| name == "check_ratio" && (*value - 1.15).abs() < 1e-9));
    }

    #[test]
    fn a_figure_beyond_its_limit_and_a_missing_one_fail() {
        let mut figures = Figures::default();
        assert!(!figures.within_limits("core", true));
        assert!(figures.within_limits("core", false));
        figures.add("check_ratio", 1.2, "");
        assert!(!figures.within_limits("core", false));
    }

    #[test]
    fn few_samples_show_their_maximum() {
        let mut figures = Figures::default();
        figures.add_spread("few", vec![Duration::from_millis(1); 299]);
        figures.add_spread("many", vec![Duration::from_millis(1); 300]);
        assert!(figures.values.contains_key("few_max_ms") && figures.values.contains_key("many_p99_ms"));
        assert!(!figures.values.contains_key("few_p99_ms"));
    }
}
