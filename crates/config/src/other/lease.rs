//! What two of the forms share: a resource, a lease in whole seconds, a prefix, and a connection.

use std::time::Duration;

use tenure_core::ElectionName;
use tenure_core::elector::Settings;
use tenure_core::embedded::MemoryStore;
use tenure_core::store::LeaseStore;

use super::connection;
use super::value::Found;
use crate::duration;
use crate::keys::Said;
use crate::layer::Layer;
use crate::mistake::Mistake;
use crate::tree::Value;

/// The settings of a lease, by the other software's names.
pub(super) struct Lease<'a> {
    /// Where they stand.
    at: Found<'a>,
    resource: Found<'a>,
    seconds: Found<'a>,
    renewal: Found<'a>,
    prefix: Found<'a>,
    logging: Found<'a>,
}

/// How a form calls them, in that order.
pub(super) type Names = [&'static str; 5];

impl<'a> Lease<'a> {
    /// Takes what was found, and the defaults of that software for the rest.
    pub(super) fn new(at: Found<'a>, names: Names, found: impl Fn(&str) -> Option<Found<'a>>) -> Self {
        let defaults = [
            Value::Text("honua-server".to_owned()),
            Value::Number(30.0),
            Value::Number(10.0),
            Value::Text("honua:leader:".to_owned()),
            Value::Switch(false),
        ];
        let mut all = names
            .into_iter()
            .zip(defaults)
            .map(|(name, default)| found(name).unwrap_or_else(|| Found::default(name, default)));
        let mut next = || all.next().unwrap_or_else(|| Found::default("", Value::Nothing));
        Self { at, resource: next(), seconds: next(), renewal: next(), prefix: next(), logging: next() }
    }

    /// Makes them ours: the lease lies at prefix + resource.
    pub(super) fn read(&self, connection: Option<&Found<'_>>, mistakes: &mut Vec<Mistake>) -> Read {
        let mut read = Read::default();
        match self.election() {
            Ok(name) => read.election = Some(name),
            Err(mistake) => mistakes.push(mistake),
        }
        match self.store(connection) {
            Ok(url) => {
                let at = connection.unwrap_or(&self.at);
                read.layer.set("store", at.given(Said::Text(url)));
            }
            Err(mistake) => mistakes.push(mistake),
        }
        match (self.seconds.seconds(), self.renewal.seconds()) {
            (Ok(ttl), Ok(renewal)) => mistakes.extend(self.times(ttl, renewal, &mut read).err()),
            (ttl, renewal) => mistakes.extend([ttl.err(), renewal.err()].into_iter().flatten()),
        }
        match self.logging.switch() {
            Ok(switch) => read.layer.set("verbose", self.logging.given(Said::Switch(switch))),
            Err(mistake) => mistakes.push(mistake),
        }
        read
    }

    fn election(&self) -> Result<ElectionName, Mistake> {
        let name = self.resource.text()?.unwrap_or_default();
        named(&self.resource, &name)
    }

    fn store(&self, connection: Option<&Found<'_>>) -> Result<String, Mistake> {
        let prefix = self.prefix.any_text()?;
        let key = template(&self.prefix, &prefix)?;
        let none = || {
            self.at
                .mistake("leader election is on, but nothing says where its Redis is")
                .hint("write it where the connection stands, or say it in our own words with --store")
        };
        let Some(connection) = connection else { return Err(none()) };
        let text = connection.text()?.ok_or_else(none)?;
        let name = &connection.name;
        connection::url(&text, &key).map_err(|why| connection.mistake(format!("{name} {why}")))
    }

    fn times(&self, ttl: Duration, mut renewal: Duration, read: &mut Read) -> Result<(), Mistake> {
        if renewal >= ttl {
            let (name, other) = (&self.renewal.name, &self.seconds.name);
            return Err(self.renewal.mistake(format!(
                "{name} is {}: it must be below {other} ({})",
                duration::show(renewal),
                duration::show(ttl)
            )));
        }
        let any = MemoryStore::new().guarantees();
        if Settings::ttl(ttl).renew_interval(renewal).resolve(&any).is_err() {
            let lower = ttl / 3;
            let (name, from, to) = (&self.renewal.name, duration::show(renewal), duration::show(lower));
            read.warnings.push(self.renewal.mistake(format!(
                "{name} is {from}: two renewals and the time to stop do not fit into the lease of {}; {to} is taken",
                duration::show(ttl)
            )));
            renewal = lower;
        }
        read.layer.set("ttl", self.seconds.given(Said::Time(ttl)));
        read.layer.set("renew_interval", self.renewal.given(Said::Time(renewal)));
        read.layer.set("retry_interval", self.renewal.given(Said::Time(renewal)));
        Ok(())
    }
}

/// What a lease's settings come to.
#[derive(Default)]
pub(super) struct Read {
    pub(super) election: Option<ElectionName>,
    pub(super) layer: Layer,
    pub(super) warnings: Vec<Mistake>,
}

/// Makes a name that ends the key as the other software writes it.
fn named(at: &Found<'_>, name: &str) -> Result<ElectionName, Mistake> {
    let name = ElectionName::new(name).map_err(|error| at.mistake(format!("{}: {error}", at.name)))?;
    match other_key(&name) {
        Some(message) => Err(at.mistake(format!("{}: {message}", at.name))),
        None => Ok(name),
    }
}

/// Says why an election would be contested at another key than the other software's.
pub(crate) fn other_key(name: &ElectionName) -> Option<String> {
    // Our keys write these characters otherwise: both would lead, each by its own key.
    name.as_str().contains(['%', '{', '}']).then(|| {
        format!(
            "with %, {{ or }} in its name the election {:?} has another key here than in the other software",
            name.as_str()
        )
    })
}

/// Makes the template of a key that begins with a prefix, whatever that is.
pub(super) fn template(at: &Found<'_>, prefix: &str) -> Result<String, Mistake> {
    if prefix.contains("{prefix}") || prefix.contains("{election}") {
        return Err(at.mistake(format!(
            "{} is {prefix:?}: {{prefix}} and {{election}} mean something else in a key",
            at.name
        )));
    }
    Ok(format!("{prefix}{{election}}"))
}
