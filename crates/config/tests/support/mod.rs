//! What the tests share.

use tenure_config::Sources;

/// Nothing but what a test names; files are looked for in its directory.
pub(crate) fn sources(directory: impl Into<std::path::PathBuf>) -> Sources {
    Sources::nothing(directory).store_rule(|url| {
        let known = ["file:", "memory:", "redis:", "rediss:", "redis+sentinel:"];
        if !known.iter().any(|scheme| url.starts_with(scheme)) {
            return Err("has a scheme that is not known".to_owned());
        }
        if url.ends_with("/none") { Err("names a database that is no number".to_owned()) } else { Ok(()) }
    })
}
