//! The control plane of kubeadm on a host (key `all`): the arguments of the API server, the controller manager and the scheduler, and the names in
//! the API server's certificate.

use crate::programs::not_known;
use converge_resource::{
    AlteredFact, AttributeChange, Disruption, DriftScript, DynEffects, DynNodePart, Effects, ErasedObject,
    Facets, NodePart, Object, state_of_words,
};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

/// The state of a control plane.
///
/// Its words are `PROGRAM:--NAME=VALUE` for an argument, `manifest:PROGRAM=DIGEST` for the manifest without its image, and `name:NAME` for a
/// name in the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlPlaneState {
    /// The host is no control plane, or its init has not ended (`absent`).
    Absent,
    /// It is there (`plane RECORD WORD…`).
    There {
        /// The declaration that the manifests were made from, as JSON; `-` if there is no record, `begun` if a run was cut off while it made them.
        record: String,
        /// All arguments and names.
        words: Vec<String>,
    },
    /// It is made anew by kubeadm, which adds arguments of its own: only in a planned state (`plane RECORD ~ WORD… ^WORD…`).
    Planned {
        /// The declaration.
        record: String,
        /// The words that must be there.
        with: Vec<String>,
        /// The words that are there and must go.
        without: Vec<String>,
    },
}

impl ControlPlaneState {
    fn words(&self) -> Vec<String> {
        let head = |record: &String| vec!["plane".to_owned(), record.clone()];
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::There { record, words } => [head(record), words.clone()].concat(),
            Self::Planned { record, with, without } => {
                let gone = without.iter().map(|word| format!("^{word}")).collect();
                [head(record), vec!["~".to_owned()], with.clone(), gone].concat()
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match words {
            ["absent"] => Some(Self::Absent),
            ["plane", record, "~", words @ ..] => {
                let (gone, with): (Vec<&str>, Vec<&str>) = words.iter().partition(|w| w.starts_with('^'));
                let without =
                    gone.iter().filter_map(|word| word.strip_prefix('^')).map(str::to_owned).collect();
                Some(Self::Planned { record: (*record).to_owned(), with: owned(&with), without })
            }
            ["plane", record, words @ ..] => {
                Some(Self::There { record: (*record).to_owned(), words: owned(words) })
            }
            _ => None,
        }
    }

    fn record(&self) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::There { record, .. } | Self::Planned { record, .. } => Some(record),
        }
    }

    /// The declaration that it was made from, by parts of kubeadm's configuration.
    fn declaration(&self) -> Map<String, Value> {
        self.record().and_then(|record| serde_json::from_str(record).ok()).unwrap_or_default()
    }

    /// The arguments and names that were declared, as [`name_and_value`] has them.
    fn declared_names(&self) -> BTreeSet<String> {
        let declared = self.declaration();
        declared_words(&declared).map(|word| name_and_value(&word).0).collect()
    }

    /// The declared fields that are no arguments and no names, by their places: `scheduler.extraVolumes`.
    fn other_fields(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (part, fields) in &self.declaration() {
            for (field, value) in fields.as_object().into_iter().flatten() {
                if !matches!(field.as_str(), "extraArgs" | "certSANs") {
                    found.insert(format!("{part}.{field}"), value.to_string());
                }
            }
        }
        found
    }
}

state_of_words!(ControlPlaneState);

/// The parts of kubeadm's configuration with the programs that they configure.
pub const PARTS: [(&str, &str); 3] = [
    ("apiServer", "kube-apiserver"),
    ("controllerManager", "kube-controller-manager"),
    ("scheduler", "kube-scheduler"),
];

/// The words of a declaration: arguments, then names.
pub fn declared_words(declared: &Map<String, Value>) -> impl Iterator<Item = String> {
    let list = |part: &str, field: &str| -> Vec<Value> {
        let fields = declared.get(part).and_then(Value::as_object);
        fields.and_then(|fields| fields.get(field)?.as_array().cloned()).unwrap_or_default()
    };
    let mut words = Vec::new();
    for (part, program) in PARTS {
        for argument in list(part, "extraArgs") {
            let text = |key: &str| argument.get(key).map(plain).unwrap_or_default();
            words.push(format!("{program}:--{}={}", text("name"), text("value")));
        }
    }
    let names = list("apiServer", "certSANs");
    words.extend(names.iter().map(|name| format!("name:{}", as_openssl(&plain(name)))));
    words.into_iter()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A name as openssl writes it: an IPv6 address in capitals, with all its parts.
fn as_openssl(name: &str) -> String {
    match name.parse::<Ipv6Addr>() {
        Ok(address) => address.segments().map(|part| format!("{part:X}")).join(":"),
        Err(_) => name.to_owned(),
    }
}

/// The argument or name of a word as people read it, and its value.
fn name_and_value(word: &str) -> (String, String) {
    match word.split_once(':') {
        Some(("name", name)) => (format!("certificate {name}"), "yes".to_owned()),
        Some((part, argument)) => {
            let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
            (format!("{part} {name}"), value.to_owned())
        }
        None => (word.to_owned(), String::new()),
    }
}

/// The values of each argument, and the names.
fn by_name<'a>(words: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    // A digest is nothing to read.
    for word in words.into_iter().filter(|word| !word.starts_with("manifest:")) {
        let (name, value) = name_and_value(word);
        found
            .entry(name)
            .and_modify(|values| {
                values.push_str(", ");
                values.push_str(&value);
            })
            .or_insert(value);
    }
    found
}

/// Whether this argument of the API server lets everyone in. `read_open.sh` has the same list, for facts.
pub fn open_argument(argument: &str) -> bool {
    let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
    let lists = |word: &str| value.split(',').any(|part| part == word);
    match name {
        "--authorization-mode" => lists("AlwaysAllow"),
        "--token-auth-file" | "--basic-auth-file" | "--insecure-bind-address" => true,
        "--insecure-port" => value.starts_with(|c: char| c.is_ascii_digit() && c != '0'),
        "--service-account-lookup" => value == "false",
        "--enable-admission-plugins" => lists("AlwaysAdmit"),
        "--disable-admission-plugins" => lists("NodeRestriction"),
        _ => false,
    }
}

/// The word of the record while the files are made.
const BEGUN: &str = "begun";

/// The part of the words that says what is in the certificate.
const NAMES: &str = "name";

/// The words of one file: of the manifest of this program, or of the certificate.
fn of_file<'a>(words: &'a [String], file: &str) -> BTreeSet<&'a str> {
    let is = |word: &&str| {
        let of = |word: &str| word.strip_prefix(file).is_some_and(|rest| rest.starts_with([':', '=']));
        of(word) || word.strip_prefix("manifest:").is_some_and(of)
    };
    words.iter().map(String::as_str).filter(is).collect()
}

/// Whether the words of one file are those that it has in this state.
fn is_file_of(found: &BTreeSet<&str>, file: &str, state: &ControlPlaneState) -> bool {
    match state {
        ControlPlaneState::Absent => false,
        ControlPlaneState::There { words, .. } => of_file(words, file) == *found,
        ControlPlaneState::Planned { with, without, .. } => {
            of_file(with, file).is_subset(found) && of_file(without, file).is_disjoint(found)
        }
    }
}

/// Whether only the record changes: nothing is made anew.
fn only_record(from: &ControlPlaneState, to: &ControlPlaneState) -> bool {
    match (from, to) {
        (ControlPlaneState::There { words: a, .. }, ControlPlaneState::There { words: b, .. }) => a == b,
        _ => false,
    }
}

/// The object.
pub struct KubeadmControlPlane;

impl Object for KubeadmControlPlane {
    const KIND: &'static str = "kubeadm_control_plane";
    const SHELL: &'static str = include_str!("kubeadm_control_plane.sh");
    const SECONDS: u64 = 1500;
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const NODE: &'static dyn DynNodePart = &ErasedObject::<Self>::new();
    type State = ControlPlaneState;

    fn title(_: &str, from: &ControlPlaneState, to: &ControlPlaneState) -> String {
        match to {
            ControlPlaneState::Planned { .. } => {
                "make the control plane's manifests and the API server's certificate anew".to_owned()
            }
            _ if only_record(from, to) => "record what the control plane was made from".to_owned(),
            _ => "bring the control plane's earlier manifests back".to_owned(),
        }
    }

    fn opaque(from: &ControlPlaneState, to: &ControlPlaneState) -> bool {
        !only_record(from, to)
    }

    fn disruption(from: &ControlPlaneState, to: Option<&ControlPlaneState>) -> Disruption {
        match to {
            Some(to) if only_record(from, to) => Disruption::None,
            None if *from == ControlPlaneState::Absent => Disruption::None,
            _ => Disruption::Restarts,
        }
    }

    fn fulfils(now: &ControlPlaneState, planned: &ControlPlaneState) -> bool {
        let ControlPlaneState::Planned { record, with, without } = planned else {
            // Of a state in the middle of a step the files come back that were there.
            return now == planned || (now.record() == Some(BEGUN) && Self::amid(now, now, planned));
        };
        let ControlPlaneState::There { record: is, words } = now else { return now == planned };
        let words: BTreeSet<&String> = words.iter().collect();
        is == record
            && with.iter().all(|word| words.contains(word))
            && !without.iter().any(|word| words.contains(word))
    }

    // The record is the first thing that a step writes and the last one. In between each file is the previous or the new one, or is not there or
    // empty: it is being written.
    fn amid(before: &ControlPlaneState, after: &ControlPlaneState, now: &ControlPlaneState) -> bool {
        let ControlPlaneState::There { record, words } = now else { return false };
        let programs = PARTS.iter().map(|(_, program)| *program);
        record == BEGUN
            && programs.chain([NAMES]).all(|file| {
                let found = of_file(words, file);
                let empty = found.iter().all(|word| word.starts_with("manifest:"));
                empty || [before, after].iter().any(|end| is_file_of(&found, file, end))
            })
    }

    fn facets(state: &ControlPlaneState) -> Facets {
        match state {
            ControlPlaneState::Absent => Vec::new(),
            ControlPlaneState::There { words, .. } => vec![("arguments", words.join(" "))],
            ControlPlaneState::Planned { with, .. } => vec![("arguments", with.join(" "))],
        }
    }

    fn attributes(from: &ControlPlaneState, to: &ControlPlaneState) -> Vec<AttributeChange> {
        let words = |state: &ControlPlaneState| match state {
            ControlPlaneState::There { words, .. } => words.clone(),
            _ => Vec::new(),
        };
        let mut before = by_name(&words(from));
        let mut after = match to {
            ControlPlaneState::Planned { with, without, .. } => {
                // kubeadm decides about all others.
                let gone = by_name(without);
                let after = by_name(with);
                let earlier = from.declared_names();
                let shown = |name: &String| after.contains_key(name) || gone.contains_key(name);
                before.retain(|name, _| shown(name) || earlier.contains(name));
                after
            }
            _ => by_name(&words(to)),
        };
        before.extend(from.other_fields());
        after.extend(to.other_fields());
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let changes = names.into_iter().map(|name| AttributeChange {
            name: name.clone(),
            before: before.get(name).cloned(),
            after: after.get(name).cloned(),
        });
        changes.filter(|change| change.before != change.after).collect()
    }

    fn drifts(_: &str, _: &ControlPlaneState) -> Vec<DriftScript> {
        let script = "manifest=/etc/kubernetes/manifests/kube-apiserver.yaml; [ -e $manifest ] || exit 3
sed -i 's/^\\( *\\)- kube-apiserver$/&\\n\\1- --service-account-lookup=false/' $manifest";
        vec![DriftScript::new("arguments", "tokens that were deleted stay good", script)]
    }
}

impl Effects for KubeadmControlPlane {
    fn alters(key: &str, from: &ControlPlaneState, to: &ControlPlaneState) -> Vec<AlteredFact> {
        if only_record(from, to) { Vec::new() } else { not_known(Self::may_alter(key)) }
    }

    fn may_alter(_: &str) -> Vec<&'static str> {
        vec!["kubernetes"]
    }
}

impl NodePart for KubeadmControlPlane {
    const GOES_WITH_NODE: bool = true;
}

#[cfg(test)]
#[path = "kubeadm_control_plane_tests.rs"]
mod tests;
