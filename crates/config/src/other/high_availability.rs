//! The HCL block `high_availability { leader_election { … } }`, at the top or inside another product's block, with
//! `cache "redis" { connection = … }`. The cache's prefix is for cached values, and no part of the lease's key.

use super::Other;
use super::lease::{Lease, Names, Read};
use super::value::Found;
use crate::keys::Said;
use crate::mistake::{Mistake, Text};
use crate::suggest;
use crate::tree::{Entry, Node};

const BLOCK: &str = "high_availability";
const INNER: &str = "leader_election";
const NAMES: Names = [
    "resource_name",
    "lease_duration_seconds",
    "renewal_interval_seconds",
    "key_prefix",
    "enable_detailed_logging",
];
const ENABLED: &str = "enabled";
const CACHE: [&str; 2] = ["cache", "redis"];
const OF_CACHE: [&str; 3] = [ENABLED, "connection", "prefix"];

/// Reads the block of a file; `None` if it has none.
pub(super) fn in_file(text: &Text, root: &Node) -> Option<(Other, Vec<Mistake>)> {
    let mut blocks = Vec::new();
    find_all(root, &[BLOCK], &mut blocks);
    let (block, more) = blocks.split_first()?;
    let mut form = Form { text, mistakes: Vec::new() };
    for second in more {
        let line = text.line(block.span.start);
        form.mistakes.push(
            text.mistake(&second.span, format!("{BLOCK} stands here a second time (first in line {line})")),
        );
    }
    let other = form.read(root, block);
    Some((other, form.mistakes))
}

/// Finds every block of that path, however deep it lies in others.
fn find_all<'a>(node: &'a Node, path: &[&str], found: &mut Vec<&'a Entry>) {
    for entry in node.entries() {
        match path {
            [last] if entry.name == *last => found.push(entry),
            [first, rest @ ..] if entry.name == *first && !rest.is_empty() => {
                found.extend(entry.node.entries().iter().filter(|inner| rest == [inner.name.as_str()]));
            }
            _ => find_all(&entry.node, path, found),
        }
    }
}

struct Form<'a> {
    text: &'a Text,
    mistakes: Vec<Mistake>,
}

impl<'a> Form<'a> {
    fn read(&mut self, root: &'a Node, block: &'a Entry) -> Other {
        self.check(&block.node, &[ENABLED, INNER], BLOCK);
        let election = block.node.entries().iter().find(|entry| entry.name == INNER);
        if let Some(election) = election {
            self.check(&election.node, &NAMES.iter().copied().chain([ENABLED]).collect::<Vec<_>>(), INNER);
        }
        let mut caches = Vec::new();
        find_all(root, &CACHE, &mut caches);
        let cache = caches.first().copied();
        if let Some(cache) = cache {
            self.check_cache(&cache.node);
        }
        let off = self.off(&block.node).or_else(|| election.and_then(|election| self.off(&election.node)));
        let inner = election.map(|election| &election.node);
        let at = Found::name_in_file(self.text, election.unwrap_or(block));
        let lease = Lease::new(at, NAMES, |name| inner.and_then(|node| self.find(node, name)));
        let read = match &off {
            Some(off) => self.alone(&lease, off),
            None => {
                let connection = cache.and_then(|cache| self.connection(&cache.node));
                lease.read(connection.as_ref(), &mut self.mistakes)
            }
        };
        Other {
            what: "block high_availability",
            election: read.election,
            layer: read.layer,
            warnings: read.warnings,
        }
    }

    fn find(&self, node: &'a Node, name: &str) -> Option<Found<'a>> {
        let entry = node.entries().iter().find(|entry| entry.name == name)?;
        Some(Found::in_file(self.text, name, &entry.node))
    }

    /// Returns what switches it off. A block without the word is on: to lead without a store by mistake is the worse.
    fn off(&mut self, node: &'a Node) -> Option<Found<'a>> {
        let found = self.find(node, ENABLED)?;
        match found.switch() {
            Ok(on) => (!on).then_some(found),
            Err(mistake) => {
                self.mistakes.push(mistake);
                None
            }
        }
    }

    /// Switched off, there is one process, and it leads.
    fn alone(&mut self, lease: &Lease<'_>, off: &Found<'_>) -> Read {
        // The rest is judged too, so that switching it on brings no surprise; where Redis is does not matter.
        let mut read = lease.read(Some(&Found::in_variable("connection", "localhost")), &mut self.mistakes);
        read.layer.set("store", off.given(Said::Text("memory:".to_owned())));
        read.warnings.push(
            off.mistake("leader election is switched off: this process leads without asking anybody")
                .hint("another process with these settings leads too; write enabled = true to elect one"),
        );
        read
    }

    fn connection(&mut self, cache: &'a Node) -> Option<Found<'a>> {
        if let Some(off) = self.off(cache) {
            self.mistakes.push(
                off.mistake("leader election is on, but its Redis is switched off")
                    .hint("switch both on, or both off"),
            );
        }
        self.find(cache, OF_CACHE[1])
    }

    fn check(&mut self, node: &Node, known: &[&str], block: &str) {
        let mut seen: Vec<&str> = Vec::new();
        for entry in node.entries() {
            let message = if !known.contains(&entry.name.as_str()) {
                format!("{block} has no setting {:?}", entry.name)
            } else if seen.contains(&entry.name.as_str()) {
                format!("{} is said a second time", entry.name)
            } else {
                seen.push(&entry.name);
                continue;
            };
            let hint =
                suggest::did_you_mean(&entry.name, known.iter().copied().filter(|name| *name != entry.name));
            self.mistakes.push(self.text.mistake(&entry.span, message).maybe_hint(hint));
        }
    }

    /// A cache has settings that we do not know; but one that is nearly ours is a mistake.
    fn check_cache(&mut self, cache: &Node) {
        for entry in cache.entries().iter().filter(|entry| !OF_CACHE.contains(&entry.name.as_str())) {
            if let Some(hint) = suggest::did_you_mean(&entry.name, OF_CACHE) {
                let message = format!("cache \"redis\" has no setting {:?}", entry.name);
                self.mistakes.push(self.text.mistake(&entry.span, message).hint(hint));
            }
        }
    }
}
