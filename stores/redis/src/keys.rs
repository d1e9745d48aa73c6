//! Where an election lies: the key of its lease, the key of its record, and its channel.

use std::borrow::Cow;

use tenure_core::ElectionName;

/// Where leases lie if nothing else is said.
pub const DEFAULT_TEMPLATE: &str = "{prefix}:leader:{election}";

/// The prefix if nothing else is said.
pub const DEFAULT_PREFIX: &str = "tenure";

/// How names of elections become keys, and keys names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    before: String,
    after: String,
    /// Whether the keys have a hash tag by the template or the prefix.
    tagged: bool,
    /// What stands behind the key in the name of a channel.
    channel: String,
}

/// The keys of one election; all of them lie in one hash slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ElectionKeys {
    /// A plain string: its value names who holds.
    pub(crate) lease: String,
    /// A hash: all else.
    pub(crate) record: String,
    /// Where changes are told.
    pub(crate) channel: String,
}

const RECORD: &str = ":record";
/// Behind a key that is a record's only by this: `encode` never writes it, so that no election's lease has such a key.
const TAGGED_RECORD: &str = "%record";
const CHANNEL: &str = ":changes";

impl Keys {
    /// Takes a template with `{election}` and, if wanted, `{prefix}`.
    pub(crate) fn new(template: &str, prefix: &str) -> Result<Self, String> {
        let Some((before, after)) = template.split_once("{election}") else {
            return Err(format!("has the key template {template:?} without {{election}}: write it in"));
        };
        if after.contains("{election}") {
            return Err(format!("has the key template {template:?} with two {{election}}: write it once"));
        }
        let (before, after) = (before.replace("{prefix}", prefix), after.replace("{prefix}", prefix));
        let tagged = match (has_tag(&before), has_tag(&after)) {
            (true, _) => true,
            // Whatever the election is called, its name has no braces: the first tag of the key is this one.
            (false, true) if !has_braces(&before) => true,
            _ if has_braces(&before) || has_braces(&after) => {
                return Err(format!(
                    "has the key template {template:?} with braces that are no hash tag: what belongs together would \
                     lie in different slots; write {{tag}} with something in it, or no braces"
                ));
            }
            _ => false,
        };
        Ok(Self { before, after, tagged, channel: format!("{CHANNEL}@0") })
    }

    /// Takes the number of the database: each has its own keys, but channels are the server's.
    pub(crate) fn in_database(self, number: u32) -> Self {
        Self { channel: format!("{CHANNEL}@{number}"), ..self }
    }

    /// Returns what stands behind the key of a lease in the key of its record.
    fn record(&self) -> &'static str {
        if self.tagged { TAGGED_RECORD } else { RECORD }
    }

    pub(crate) fn of(&self, election: &ElectionName) -> ElectionKeys {
        let lease = [&self.before, &*encode(election.as_str()), &self.after].concat();
        let beside = |what: &str| match self.tagged {
            true => [&lease, what].concat(),
            false => ["{", &lease, "}", what].concat(),
        };
        ElectionKeys { record: beside(self.record()), channel: beside(&self.channel), lease }
    }

    /// Returns the pattern of all records' keys whose election begins with `prefix`.
    pub(crate) fn pattern(&self, prefix: &str) -> String {
        let begin = glob(&format!("{}{}", self.before, encode(prefix)));
        let end = glob(&self.after);
        let record = self.record();
        if self.tagged { format!("{begin}*{end}{record}") } else { format!("{{{begin}*{end}}}{record}") }
    }

    /// Returns the election whose record lies at `key`.
    pub(crate) fn election(&self, key: &str) -> Option<ElectionName> {
        self.election_beside(key, self.record())
    }

    /// Returns the election whose changes are told on `channel`.
    pub(crate) fn election_of(&self, channel: &str) -> Option<ElectionName> {
        self.election_beside(channel, &self.channel)
    }

    fn election_beside(&self, name: &str, what: &str) -> Option<ElectionName> {
        let lease = name.strip_suffix(what)?;
        let lease = if self.tagged { lease } else { lease.strip_prefix('{')?.strip_suffix('}')? };
        let name = lease.strip_prefix(self.before.as_str())?.strip_suffix(self.after.as_str())?;
        ElectionName::new(decode(name)?).ok()
    }

    /// Returns what an access rule must name for these keys.
    pub(crate) fn access(&self) -> String {
        let (before, after) = (glob(&self.before), glob(&self.after));
        if self.tagged {
            format!("~{before}*{after}*")
        } else {
            format!("~{before}*{after} ~{{{before}*{after}}}*")
        }
    }
}

/// A server looks for the first `{`, then for the first `}` after it; with something between them that is the tag.
pub(crate) fn tag(key: &str) -> Option<&str> {
    let (tag, _) = key.split_once('{')?.1.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

fn has_tag(text: &str) -> bool {
    tag(text).is_some()
}

fn has_braces(text: &str) -> bool {
    text.contains(['{', '}'])
}

/// Braces would move a key into another slot. Hardly any name has them, and this runs with every call.
fn encode(name: &str) -> Cow<'_, str> {
    if !name.contains(['%', '{', '}']) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.replace('%', "%25").replace('{', "%7B").replace('}', "%7D"))
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    if has_braces(text) {
        return None;
    }
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let name = text.replace("%7B", "{").replace("%7D", "}").replace("%25", "%");
    // Only what `encode` writes is the key of an election: two keys never have one name.
    (encode(&name) == text).then_some(Cow::Owned(name))
}

/// Escapes what has a meaning in a pattern.
fn glob(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ElectionName {
        ElectionName::new(name).unwrap()
    }

    #[test]
    fn what_belongs_together_shares_a_hash_tag() {
        let plain = Keys::new(DEFAULT_TEMPLATE, DEFAULT_PREFIX).unwrap().of(&name("billing"));
        assert_eq!(plain.lease, "tenure:leader:billing");
        assert_eq!(plain.record, "{tenure:leader:billing}:record");
        assert_eq!(plain.channel, "{tenure:leader:billing}:changes@0");
        let tagged = Keys::new("{prefix}:{election}", "{app}").unwrap().of(&name("billing"));
        assert_eq!(tagged.lease, "{app}:billing");
        assert_eq!(tagged.record, "{app}:billing%record");
        let braces = Keys::new("{prefix}{election}", "").unwrap().of(&name("a}b{%"));
        assert_eq!(braces.lease, "a%7Db%7B%25");
        assert_eq!(braces.record, "{a%7Db%7B%25}:record");
    }

    #[test]
    fn no_key_of_an_election_is_one_of_another() {
        for (template, prefix) in
            [(DEFAULT_TEMPLATE, "p"), (DEFAULT_TEMPLATE, "{p}"), ("{prefix}{election}record", "{p}")]
        {
            let keys = Keys::new(template, prefix).unwrap();
            let names = ["x", "x:record", "x%record", "x:changes@0", "{x}:record", "xrecord%"];
            let all: Vec<_> = names.iter().map(|election| keys.of(&name(election))).collect();
            let mut distinct: Vec<_> = all.iter().flat_map(|keys| [&keys.lease, &keys.record]).collect();
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), 2 * names.len(), "{template} {prefix}: {all:?}");
        }
    }

    #[test]
    fn a_name_comes_back_from_its_key() {
        for (template, prefix) in
            [(DEFAULT_TEMPLATE, "p"), ("{prefix}{election}", ""), ("{election}{prefix}", "{t}")]
        {
            let keys = Keys::new(template, prefix).unwrap();
            for election in ["a", "%", "%25", "%7B", "{}", "a b*?[x]", "größe"] {
                let election = name(election);
                assert_eq!(keys.election(&keys.of(&election).record), Some(election.clone()), "{template}");
                assert_eq!(
                    keys.election_of(&keys.of(&election).channel),
                    Some(election.clone()),
                    "{template}"
                );
            }
        }
        let keys = Keys::new(DEFAULT_TEMPLATE, DEFAULT_PREFIX).unwrap();
        assert_eq!(keys.election("{something else}:record"), None);
        assert_eq!(keys.election("{tenure:leader:a%7b}:record"), None, "two keys never have one name");
    }

    #[test]
    fn a_template_that_parts_what_belongs_together_is_refused() {
        for (template, prefix) in [
            ("{prefix}", "p"),
            ("{election}{election}", "p"),
            ("{prefix}:{election}", "a}b"),
            ("{}{election}", "p"),
        ] {
            assert!(Keys::new(template, prefix).is_err(), "{template} {prefix}");
        }
    }
}
