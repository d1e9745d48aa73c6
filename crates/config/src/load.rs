//! From flags, environment and file to one configuration.

use std::ops::Range;

use tenure_core::ElectionName;

use crate::config::{Config, Election};
use crate::find;
use crate::keys::{self, KEYS, Key, Scope};
use crate::layer::{Given, Layer};
use crate::mistake::{Mistake, Mistakes, Place, Text};
use crate::origin::Origin;
use crate::other::{self, Other};
use crate::parse;
use crate::read::{self, Named};
use crate::sources::Sources;
use crate::suggest;
use crate::values::Values;

/// Reads everything, and collects every mistake.
pub(crate) fn load(sources: &Sources) -> Result<Config, Mistakes> {
    let mut desk = Desk { sources, text: None, mistakes: Vec::new(), warnings: Vec::new() };
    let config = desk.config();
    if desk.mistakes.is_empty() { Ok(config) } else { Err(Mistakes::new(desk.mistakes)) }
}

/// Where everything is put together.
struct Desk<'a> {
    sources: &'a Sources,
    text: Option<Text>,
    mistakes: Vec<Mistake>,
    warnings: Vec<Mistake>,
}

/// What a file gave: settings of ours, or those of other software.
enum InFile {
    Ours(read::File),
    Others(Other),
}

impl Desk<'_> {
    fn config(&mut self) -> Config {
        let wanted = self.wanted();
        let said = self.environment().over(&self.flags());
        let (file, mut other) = match self.file() {
            InFile::Ours(file) => (file, None),
            InFile::Others(other) => (read::File::default(), Some(other)),
        };
        let top = file.top.clone().over(&said);
        let own: Vec<(Named, Layer)> = file
            .elections
            .into_iter()
            .map(|named| {
                let layer = file.top.clone().over(&named.layer).over(&said);
                (named, layer)
            })
            .collect();
        // What holds for all others is asked for only if there may be others.
        let others = own.is_empty()
            || wanted.as_ref().is_some_and(|name| own.iter().all(|(one, _)| one.name != *name));
        let needs_store = (others && top.get("store").is_none())
            || own.iter().any(|(_, layer)| layer.get("store").is_none());
        if !needs_store {
            if let Some(unused) = other.take() {
                self.say_unused(&unused, &top);
            }
        } else if other.is_none() {
            let (found, mistakes) = other::in_environment(self.sources);
            self.mistakes.extend(mistakes);
            other = found;
        }
        let complete = |layer: Layer| match &other {
            Some(other) if layer.get("store").is_none() => other.layer.clone().over(&layer),
            _ => layer,
        };
        let defaults = Values { layer: complete(top) };
        let mut elections: Vec<Election> = own
            .into_iter()
            .map(|(named, layer)| Election { name: named.name, values: Values { layer: complete(layer) } })
            .collect();
        let others_election =
            other.as_ref().and_then(|other| other.election.clone()).filter(|_| elections.is_empty());
        // Whoever names an election of his own does not contest the other software's.
        for name in [wanted.clone().or(others_election)].into_iter().flatten() {
            if !elections.iter().any(|election| election.name == name) {
                elections.push(Election { name, values: defaults.clone() });
            }
        }
        if let Some(other) = other {
            let store = other.layer.get("store");
            let contests = |election: &&Election| election.values.layer.get("store") == store;
            let keys = elections.iter().filter(contests).filter_map(|one| other::other_key(&one.name));
            self.mistakes.extend(keys.map(|message| Mistake::new(Place::Nowhere, message)));
            self.warnings.extend(other.warnings);
        }
        self.check(&defaults);
        elections.iter().for_each(|election| self.check(&election.values));
        let file = self.text.as_ref().map(|text| text.path.clone());
        Config { file, wanted, defaults, elections, warnings: std::mem::take(&mut self.warnings) }
    }

    /// Returns the election that a flag or the environment names.
    fn wanted(&mut self) -> Option<ElectionName> {
        let flag = self.sources.election.as_ref().map(|name| (name, "--election"));
        // Inside a command of `tenure run` it names the one that is led already: nobody means to stand beside himself.
        let environment = &self.sources.environment;
        let outside = !environment.contains_key("TENURE_TOKEN");
        let variable = environment.get("TENURE_ELECTION").filter(|_| outside);
        let variable = variable.map(|name| (name, "TENURE_ELECTION"));
        let (name, place) = flag.or(variable)?;
        match ElectionName::new(name) {
            Ok(name) => Some(name),
            Err(error) => {
                self.mistakes.push(Mistake::new(Place::Name(place.to_owned()), error.to_string()));
                None
            }
        }
    }

    fn flags(&mut self) -> Layer {
        let sources = self.sources;
        let given = sources.flags.iter().filter_map(|(name, text)| {
            let key = keys::find(name)?;
            Some((key, Origin::Flag(key.flag()), text))
        });
        self.layer(given)
    }

    fn environment(&mut self) -> Layer {
        let sources = self.sources;
        let settable = KEYS.iter().filter(|key| key.scope == Scope::Everywhere);
        let given = settable.filter_map(|key| {
            let text = sources.environment.get(&key.variable())?;
            Some((key, Origin::Variable(key.variable()), text))
        });
        let layer = self.layer(given);
        self.warn_of_unknown_variables();
        layer
    }

    fn layer<'t>(&mut self, given: impl Iterator<Item = (&'static Key, Origin, &'t String)>) -> Layer {
        let mut layer = Layer::default();
        for (key, origin, text) in given {
            match keys::from_text(key, text) {
                Ok(said) => layer.set(key.name, Given { said, origin, span: None }),
                Err(wrong) => {
                    let place = Place::Name(origin.to_string());
                    self.mistakes.push(Mistake::new(place, wrong.message).maybe_hint(wrong.hint));
                }
            }
        }
        if let (Some(ttl), Some(profile)) = (layer.contradiction(), layer.get("profile")) {
            let (ttl, profile) = (&ttl.origin, &profile.origin);
            let message = format!(
                "{profile} and {ttl} contradict each other: a profile sets the ttl and everything that follows from it"
            );
            self.mistakes.push(Mistake::new(Place::Nowhere, message).hint("give one of them"));
        }
        layer
    }

    /// A variable of ours that is mistyped would be overlooked in silence. It may also be somebody else's: no mistake.
    fn warn_of_unknown_variables(&mut self) {
        for name in self.sources.environment.keys() {
            let Some(own) = name.strip_prefix(PREFIX).filter(|_| !ELSEWHERE.contains(&name.as_str())) else {
                continue;
            };
            match suggest::nearest(own, KEYS.iter().map(|key| key.name)).and_then(keys::find) {
                Some(near) if near.variable() != *name => {
                    let warning = Mistake::new(Place::Name(name.clone()), "this variable is not used");
                    self.warnings.push(warning.hint(format!("did you mean {}?", near.variable())));
                }
                _ => {}
            }
        }
    }

    fn file(&mut self) -> InFile {
        let nothing = || InFile::Ours(read::File::default());
        let (text, format) = match find::find(self.sources) {
            Ok(Some(found)) => found,
            Ok(None) => return nothing(),
            Err(mistake) => {
                self.mistakes.push(mistake);
                return nothing();
            }
        };
        let text = self.text.insert(text);
        let root = match parse::parse(format, text, &self.sources.environment) {
            Ok(root) => root,
            Err(mistakes) => {
                self.mistakes.extend(mistakes);
                return nothing();
            }
        };
        if !read::is_ours(&root)
            && let Some((other, mistakes)) = other::in_file(self.sources, text, format, &root)
        {
            self.mistakes.extend(mistakes);
            return InFile::Others(other);
        }
        let (file, mistakes) = read::read(text, &root);
        self.mistakes.extend(mistakes);
        InFile::Ours(file)
    }

    fn say_unused(&mut self, other: &Other, top: &Layer) {
        let (Some(text), Some(store)) = (&self.text, top.get("store")) else { return };
        let place = Place::File { path: text.path.clone(), excerpt: None };
        let message = format!("its {} is not used: {} says where leases live", other.what, store.origin);
        self.warnings.push(Mistake::new(place, message));
    }

    /// Checks what can be checked without a store.
    fn check(&mut self, values: &Values) {
        if let Some(given) = values.layer.get("store")
            && let Err(why) = (self.sources.store_rule)(values.store().url())
        {
            let given = given.clone();
            self.wrong_value(Some(&given), why);
        }
        if let Err(invalid) = values.timing() {
            for rule in invalid.broken_rules() {
                // Each rule begins with the name of the value that breaks it.
                let name = rule.split(' ').next().unwrap_or_default();
                let of_profile = || values.layer.get("profile");
                let given = values.layer.get(name).or_else(of_profile).cloned();
                self.wrong_value(given.as_ref(), rule.clone());
            }
        }
    }

    fn wrong_value(&mut self, given: Option<&Given>, message: String) {
        let mistake = match given {
            Some(Given { span: Some(span), .. }) => self.in_text(span, message),
            Some(Given { origin: Origin::Default(_), .. }) | None => Mistake::new(Place::Nowhere, message),
            Some(Given { origin, .. }) => Mistake::new(Place::Name(origin.to_string()), message),
        };
        if !self.mistakes.contains(&mistake) {
            self.mistakes.push(mistake);
        }
    }

    fn in_text(&self, span: &Range<usize>, message: String) -> Mistake {
        match &self.text {
            Some(text) => text.mistake(span, message),
            None => Mistake::new(Place::Nowhere, message),
        }
    }
}

/// What our variables begin with.
const PREFIX: &str = "TENURE_";

/// Variables with our prefix that are read, or written, elsewhere.
const ELSEWHERE: &[&str] = &[
    "TENURE_CONFIG",
    "TENURE_ELECTION",
    "TENURE_CANDIDATE",
    "TENURE_TOKEN",
    "TENURE_PREVIOUS_TOKEN",
    "TENURE_ATTEMPTS",
    "TENURE_DEADLINE_FILE",
    "TENURE_DIR",
];
