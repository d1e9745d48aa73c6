//! Stores by URL: outgrow one by changing a line.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use tenure_core::ElectionName;
use tenure_core::embedded::{FileStore, FileStoreBuilder, MemoryStore};
#[cfg(feature = "redis")]
use tenure_core::store::ErrorKind;
use tenure_core::store::{LeaseStore, StoreError};

/// Where leases live, as a URL says it.
///
/// | URL | store |
/// |---|---|
/// | `file:` | the default directory of this machine ([`FileStore::default_directory`]) |
/// | `file:///var/lib/leases` | that directory |
/// | `memory:` | this process alone |
/// | `redis://user:password@host:port/db`, `rediss://…`, `redis+unix:///socket` | a Redis server (feature `redis`) |
/// | `redis+sentinel://a,b,c/mymaster`, `redis+cluster://a,b,c`, `redlock://a,b,c` | several of them (feature `redis`) |
///
/// A directory on a file system that is not known to be local is taken with `?allow_unknown_file_system=true`, a process
/// in a shifted time namespace with `?allow_shifted_clock=true`; what that risks stands at
/// [`FileStoreBuilder`](tenure_core::embedded::FileStoreBuilder).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// A directory of this machine; `None` is the default one.
    File {
        /// Which directory.
        path: Option<PathBuf>,
        /// Take it also if it may be on a network file system.
        allow_unknown_file_system: bool,
        /// Work also in a time namespace with a shifted clock.
        allow_shifted_clock: bool,
    },
    /// The memory of this process.
    Memory,
    /// A Redis or Valkey server.
    #[cfg(feature = "redis")]
    Redis(Box<tenure_redis::RedisConfig>),
}

/// The schemes that this build knows.
#[cfg(feature = "redis")]
pub const SCHEMES: &[&str] =
    &["file", "memory", "redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster", "redlock"];

/// The schemes that this build knows.
#[cfg(not(feature = "redis"))]
pub const SCHEMES: &[&str] = &["file", "memory"];

/// A store's URL that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("store {url:?} {rule}")]
pub struct InvalidUrl {
    /// What was given, without secrets.
    pub url: String,
    /// Which rule it breaks, and the way out.
    pub rule: String,
}

/// Why a store could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL breaks a rule.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Opens the store at `url`.
///
/// A store with a server is not asked yet: if it is down, calls fail until it is back.
///
/// # Errors
/// If the URL breaks a rule, or the store refuses the configuration.
pub fn open(url: &str) -> Result<Arc<dyn LeaseStore>, OpenError> {
    Ok(url.parse::<StoreUrl>()?.open()?)
}

impl StoreUrl {
    /// Opens the store.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(&self) -> Result<Arc<dyn LeaseStore>, StoreError> {
        if let Some(file) = self.open_file() {
            return Ok(Arc::new(file?));
        }
        #[cfg(feature = "redis")]
        if let Self::Redis(config) = self {
            return tenure_redis::open((**config).clone())
                .map_err(|error| StoreError::new(ErrorKind::Invalid, "redis", "open", error.to_string()));
        }
        Ok(Arc::new(MemoryStore::new()))
    }

    /// Names what the environment decides: the default directory by its path.
    ///
    /// # Errors
    /// `Invalid` if the environment names no directory.
    pub fn resolved(self) -> Result<Self, StoreError> {
        match self {
            Self::File { path: None, allow_unknown_file_system, allow_shifted_clock } => {
                let path = Some(FileStore::default_directory()?);
                Ok(Self::File { path, allow_unknown_file_system, allow_shifted_clock })
            }
            named => Ok(named),
        }
    }

    /// Tells in short who can take part.
    #[must_use]
    pub fn reach(&self) -> &'static str {
        match self {
            Self::File { .. } => "this machine, this user",
            Self::Memory => "this process alone",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "whoever reaches the server",
        }
    }

    /// Returns the name under which an election's lease lies in the store, where other software may look for it.
    #[must_use]
    #[cfg_attr(not(feature = "redis"), allow(unused_variables))]
    pub fn lease_name(&self, election: &ElectionName) -> Option<String> {
        match self {
            Self::File { .. } | Self::Memory => None,
            #[cfg(feature = "redis")]
            Self::Redis(config) => config.lease_name(election).ok(),
        }
    }

    /// Writes the URL with all that a command needs to find the same leases, without secrets.
    #[must_use]
    pub fn without_secrets(&self) -> String {
        match self {
            Self::File { .. } | Self::Memory => self.to_string(),
            #[cfg(feature = "redis")]
            Self::Redis(config) => config.without_secrets(),
        }
    }

    /// Opens the store to look at it: whoever looks takes no part, and a directory is neither made nor changed.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open_to_read(&self) -> Result<Arc<dyn LeaseStore>, StoreError> {
        match self.file() {
            Some(file) => Ok(Arc::new(file?.open_to_read()?)),
            None => self.open(),
        }
    }

    /// Opens the store if it is a directory of this machine; `None` if it is another one.
    ///
    /// For supervisors, which need the [life file](FileStore::life_file).
    ///
    /// # Errors
    /// As [`open`].
    pub fn open_file(&self) -> Option<Result<FileStore, StoreError>> {
        Some(self.file()?.and_then(FileStoreBuilder::open))
    }

    fn file(&self) -> Option<Result<FileStoreBuilder, StoreError>> {
        let Self::File { path, allow_unknown_file_system, allow_shifted_clock } = self else { return None };
        let directory = path.clone().map_or_else(FileStore::default_directory, Ok);
        Some(directory.map(|directory| {
            FileStore::at(directory)
                .allow_unknown_file_system(*allow_unknown_file_system)
                .allow_shifted_clock(*allow_shifted_clock)
        }))
    }
}

impl FromStr for StoreUrl {
    type Err = InvalidUrl;

    fn from_str(url: &str) -> Result<Self, InvalidUrl> {
        let wrong = |rule: String| InvalidUrl { url: shown(url), rule };
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(wrong(format!(
                "has no scheme: write scheme:… with one of {}; a directory is file:///path",
                SCHEMES.join(", ")
            )));
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(wrong("has something after \"memory:\": write just memory:".into())),
            "file" => file(rest).map_err(wrong),
            #[cfg(feature = "redis")]
            scheme if tenure_redis::SCHEMES.contains(&scheme) => {
                match tenure_redis::RedisConfig::from_url(url) {
                    Ok(config) => Ok(Self::Redis(Box::new(config))),
                    Err(tenure_redis::InvalidConfig(rule)) => Err(wrong(rule)),
                }
            }
            _ => {
                let known = SCHEMES.iter().map(|scheme| format!("{scheme}:")).collect::<Vec<_>>().join(", ");
                Err(wrong(format!("has a scheme that this build does not know: it knows {known}")))
            }
        }
    }
}

fn file(rest: &str) -> Result<StoreUrl, String> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = match path.strip_prefix("//") {
        None if path.is_empty() => None,
        None if path.starts_with('/') => Some(PathBuf::from(path)),
        Some(absolute) if absolute.starts_with('/') => Some(PathBuf::from(absolute)),
        None => return Err("names a relative directory: write file:///absolute/path".into()),
        Some(_) => {
            return Err("names a host: a directory is of this machine, write file:///absolute/path".into());
        }
    };
    let (mut allow_unknown_file_system, mut allow_shifted_clock) = (false, false);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let switch = match pair.split_once('=') {
            Some(("allow_unknown_file_system", value)) => (&mut allow_unknown_file_system, value),
            Some(("allow_shifted_clock", value)) => (&mut allow_shifted_clock, value),
            _ => {
                return Err(format!(
                    "has the option {pair:?}: a directory has allow_unknown_file_system=true and allow_shifted_clock=true"
                ));
            }
        };
        *switch.0 = match switch.1 {
            "true" => true,
            "false" => false,
            value => return Err(format!("has an option with the value {value:?}: write true or false")),
        };
    }
    Ok(StoreUrl::File { path, allow_unknown_file_system, allow_shifted_clock })
}

/// Hides what stands before an `@`, and the value of a password's option.
fn shown(url: &str) -> String {
    let Some(end) = url.rfind('@') else { return without_passwords(url) };
    // Also where the URL is mistyped: what stands between scheme and host is never shown.
    let scheme = match url.find("://") {
        Some(colon) => colon + 3,
        None => url.find(['/', ':']).map_or(0, |colon| colon + 1),
    };
    if scheme > end {
        without_passwords(url)
    } else {
        without_passwords(&format!("{}…{}", &url[..scheme], &url[end..]))
    }
}

fn without_passwords(url: &str) -> String {
    let hidden = url.split('&').map(|part| match part.find("password=") {
        Some(at) => &part[..at + "password=".len()],
        None => part,
    });
    let ended =
        hidden.map(|part| if part.ends_with("password=") { format!("{part}…") } else { part.to_owned() });
    ended.collect::<Vec<_>>().join("&")
}

/// Writes the URL without secrets.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::File { path: None, .. } => f.write_str("file:"),
            Self::File { path: Some(path), .. } => write!(f, "file://{}", path.display()),
            #[cfg(feature = "redis")]
            Self::Redis(config) => config.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(path: Option<&str>) -> StoreUrl {
        StoreUrl::File {
            path: path.map(PathBuf::from),
            allow_unknown_file_system: false,
            allow_shifted_clock: false,
        }
    }

    #[test]
    fn the_embedded_stores_have_urls() {
        for (url, store) in [
            ("memory:", StoreUrl::Memory),
            ("file:", directory(None)),
            ("file:///var/lib/leases", directory(Some("/var/lib/leases"))),
            ("file:/var/lib/leases", directory(Some("/var/lib/leases"))),
        ] {
            assert_eq!(url.parse(), Ok(store), "{url}");
        }
        let allowed = "file:///a?allow_unknown_file_system=true&allow_shifted_clock=true".parse();
        let expected = StoreUrl::File {
            path: Some("/a".into()),
            allow_unknown_file_system: true,
            allow_shifted_clock: true,
        };
        assert_eq!(allowed, Ok(expected));
    }

    #[test]
    fn what_breaks_a_rule_is_named_with_the_way_out_and_without_secrets() {
        for (url, wants) in [
            ("/var/lib/leases", "file:///path"),
            ("", "no scheme"),
            ("file:leases", "file:///absolute/path"),
            ("file://host/leases", "names a host"),
            ("file:///a?x=1", "allow_unknown_file_system=true"),
            ("file:///a?allow_shifted_clock=yes", "true or false"),
            ("memory:x", "just memory:"),
            ("cassandra://u:secret@h/", "it knows file:, memory:"),
            #[cfg(feature = "redis")]
            ("redis://u:secret@h/x", "its number"),
            #[cfg(feature = "redis")]
            ("redis://u:secret#@h/x", "%23 for #"),
            #[cfg(feature = "redis")]
            ("redis+unix:///s?db=x&password=secret", "its number"),
            #[cfg(feature = "redis")]
            ("redis://h?sentinel_password=secret&prefix=a}b", "prefix=a}b"),
        ] {
            let error = url.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(error.contains(wants) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn a_store_opens_by_its_url() {
        let directory = tempfile::tempdir().unwrap();
        for url in ["memory:".to_owned(), format!("file://{}", directory.path().display())] {
            assert!(open(&url).is_ok(), "{url}");
        }
        assert!(matches!(open("nothing"), Err(OpenError::Url(_))));
    }

    #[test]
    fn a_directory_that_is_only_looked_at_is_not_made() {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("store");
        let url: StoreUrl = format!("file://{}", place.display()).parse().unwrap();
        assert!(url.open_to_read().is_ok());
        assert!(!place.exists());
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_redis_store_opens_before_its_server_does() {
        let url: StoreUrl = "redis://app:secret@localhost:1/2?prefix=shop".parse().unwrap();
        assert_eq!(url.to_string(), "redis://localhost:1/2");
        assert!(!format!("{url:?}").contains("secret"));
        let billing = ElectionName::new("billing").unwrap();
        assert_eq!(url.lease_name(&billing).as_deref(), Some("shop:leader:billing"));
        let again: StoreUrl = url.without_secrets().parse().unwrap();
        assert_eq!(again.lease_name(&billing), url.lease_name(&billing));
        assert!(!url.without_secrets().contains("secret"));
        assert_eq!(url.open().unwrap().guarantees().store, "redis");
        let nodes: StoreUrl = "redlock://app:secret@a,b,c/2".parse().unwrap();
        assert_eq!(nodes.open().unwrap().guarantees().store, "redlock");
    }
}
