//! The variables `MUTEX_REDIS_HOST`, `…_PORT`, `…_PREFIX`, `…_SENTINEL_HOST`, `…_SENTINEL_PORT` and `…_SENTINEL_NAME`, each
//! of which falls back to `REDIS_…`. The lease lies at `{prefix}:leader:{election}`; the prefix falls back to the `name` in
//! `./package.json`, then to `app`.

use std::path::Path;
use std::time::Duration;

use super::Other;
use super::connection::encoded;
use super::lease;
use super::value::Found;
use crate::find;
use crate::keys::{Said, quoted};
use crate::layer::Layer;
use crate::mistake::{Mistake, Text};
use crate::parse::{self, Format};
use crate::sources::{Environment, Sources};
use crate::tree::Value;

const OWN: &str = "MUTEX_REDIS_";
const SHARED: &str = "REDIS_";
const NAMES: [&str; 6] = ["HOST", "PORT", "PREFIX", "SENTINEL_HOST", "SENTINEL_PORT", "SENTINEL_NAME"];

/// Returns a variable that is this software's alone.
pub(super) fn own_variable(environment: &Environment) -> Option<&str> {
    let own = NAMES.iter().find_map(|name| environment.get_key_value(&format!("{OWN}{name}")));
    own.map(|(name, _)| name.as_str())
}

/// Reads them if one names a server, or is this software's alone.
pub(super) fn in_environment(sources: &Sources) -> (Option<Other>, Vec<Mistake>) {
    let environment = &sources.environment;
    let find = |name: &str| {
        [OWN, SHARED].into_iter().find_map(|prefix| {
            let (name, value) = environment.get_key_value(&format!("{prefix}{name}"))?;
            // Empty is as good as unset there.
            (!value.is_empty()).then(|| Found::in_variable(name, value))
        })
    };
    let (host, sentinel) = (find("HOST"), find("SENTINEL_HOST"));
    // What falls back to a name that any software may use is taken only beside one that is this software's alone.
    if own_variable(environment).is_none() {
        return (None, Vec::new());
    }
    let mut mistakes = Vec::new();
    let default = |name: &str, value: &str| Found::default(name, Value::Text(value.to_owned()));
    let or = |name: &str, value: &str| find(name).unwrap_or_else(|| default(name, value));
    let place = match sentinel {
        Some(sentinel) => place(&sentinel, &or("SENTINEL_PORT", "26379")).and_then(|place| {
            let name = or("SENTINEL_NAME", "mymaster").text()?.unwrap_or_default();
            Ok((sentinel, format!("redis+sentinel://{place}/{}", encoded(&name))))
        }),
        None => {
            let host = host.unwrap_or_else(|| default("HOST", "localhost"));
            place(&host, &or("PORT", "6379")).map(|place| (host, format!("redis://{place}/0")))
        }
    };
    let prefix = match find("PREFIX") {
        Some(prefix) => Ok(prefix),
        None => package(sources.here()).map(|name| name.unwrap_or_else(|| default("PREFIX", "app"))),
    };
    let key =
        prefix.and_then(|at| lease::template(&at, &format!("{}:leader:", at.text()?.unwrap_or_default())));
    let mut layer = Layer::default();
    match (place, key) {
        (Ok((at, url)), Ok(key)) => {
            layer.set("store", at.given(Said::Text(format!("{url}?key={}", encoded(&key)))));
        }
        (place, key) => mistakes.extend([place.err(), key.err()].into_iter().flatten()),
    }
    for (name, seconds) in [("ttl", 30), ("renew_interval", 10), ("retry_interval", 5)] {
        let time = Said::Time(Duration::from_secs(seconds));
        layer.set(name, Found::default("MUTEX_REDIS", Value::Nothing).given(time));
    }
    (Some(Other { what: "MUTEX_REDIS_…", election: None, layer, warnings: Vec::new() }), mistakes)
}

fn place(host: &Found<'_>, port: &Found<'_>) -> Result<String, Mistake> {
    let name = host.text()?.unwrap_or_default();
    // What else a URL could hold is no host, and may be a secret.
    if name.contains(['/', '@', '?', '#', ',']) {
        return Err(host.mistake(format!("{} is no host: write its name or address alone", host.name)));
    }
    let name = if name.contains(':') && !name.starts_with('[') { format!("[{name}]") } else { name };
    let text = port.text()?.unwrap_or_default();
    match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(format!("{name}:{port}")),
        _ => Err(port.mistake(format!(
            "{} is {}: a port is a number from 1 to 65535",
            port.name,
            quoted(&text)
        ))),
    }
}

/// Returns the name of the package in whose directory we are.
fn package(directory: &Path) -> Result<Option<Found<'static>>, Mistake> {
    let path = directory.join("package.json");
    if !path.is_file() {
        return Ok(None);
    }
    let text: Text = find::open(&path, "")?.0;
    let nothing = Environment::new();
    let root = parse::parse(Format::Json, &text, &nothing).map_err(|mistakes| {
        let place = crate::mistake::Place::File { path: path.clone(), excerpt: None };
        let message = mistakes.first().map_or_else(String::new, |mistake| mistake.message().to_owned());
        Mistake::new(place, format!("its name is wanted for the key of the lease, and {message}"))
            .hint("mend the file, or set MUTEX_REDIS_PREFIX")
    })?;
    let name = root.entries().iter().find(|entry| entry.name == "name").map(|entry| &entry.node.value);
    Ok(match name {
        Some(Value::Text(name)) if !name.is_empty() => {
            Some(Found::default(format!("name in {}", path.display()), Value::Text(name.clone())))
        }
        _ => None,
    })
}
