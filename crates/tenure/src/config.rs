//! Configuration from files and the environment, as the command reads it.
//!
//! ```no_run
//! use tenure::Elections;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // TENURE_STORE, TENURE_TTL …, then ./tenure.toml or another file.
//! let config = tenure::config::load()?;
//! let billing = config.election()?;
//! let store = tenure::open(billing.store().url())?;
//! let elections = Elections::builder(store).settings(billing.settings()).build();
//! let leadership = elections.lead(billing.name().as_str()).await?;
//! # Ok(())
//! # }
//! ```

use std::path::PathBuf;

pub use tenure_config::*;

use crate::StoreUrl;

/// Reads the environment of this process, and the file that it names or that is found.
///
/// # Errors
/// Lists every mistake, each with its place and a way out.
pub fn load() -> Result<Config, Mistakes> {
    Config::load(&sources())
}

/// Reads this file; the environment counts more.
///
/// # Errors
/// As [`load`].
pub fn from_file(file: impl Into<PathBuf>) -> Result<Config, Mistakes> {
    Config::load(&sources().file(file))
}

/// Begins with this process, and the rules for the stores of this build.
#[must_use]
pub fn sources() -> Sources {
    Sources::of_process()
        .store_rule(|url| url.parse::<StoreUrl>().map(drop).map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_leads_to_a_store_and_settings() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tenure.yaml");
        std::fs::write(&file, "store: \"memory:\"\nelections:\n  billing:\n    ttl: 10s\n").unwrap();
        let config = from_file(&file).unwrap();
        let billing = config.named("billing").unwrap();
        assert!(crate::open(billing.store().url()).is_ok());
        assert_eq!(billing.settings(), crate::Settings::ttl(std::time::Duration::from_secs(10)));
        std::fs::write(&file, "store: nothing\n").unwrap();
        let said = from_file(&file).unwrap_err().to_string();
        assert!(said.contains("tenure.yaml:1:8: store \"nothing\" has no scheme"), "{said}");
    }
}
