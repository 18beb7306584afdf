//! Time-slicing: the settings of the device plugin, and their result.

use super::super::view::{ClusterView, GPU, few, full, label, list, moment, name, namespace, resource, text};
use super::{Diagnosis, Health};
use converge_syntax::did_you_mean;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

/// The label that names a node's profile.
const PROFILE_LABEL: &str = "nvidia.com/device-plugin.config";

/// Fewer than two.
pub(in super::super) const REPLICAS: Diagnosis = Diagnosis {
    step: "replicas",
    symptom: "the device plugin crash-loops, 0 GPUs are allocatable: `number of replicas must be >= 2`",
    cause: "a profile asks for fewer than 2 shares, which the plugin refuses as a whole",
    help: "without a sharing section each GPU takes one pod: leave the section out, or set 2 or more",
    role: Some("time_slicing"),
    look: replicas,
};

/// A name that no profile has.
pub(in super::super) const PROFILE: Diagnosis = Diagnosis {
    step: "profile",
    symptom: "a node keeps its old number of shares, the plugin's sidecars crash-loop",
    cause: "a profile is named that the ConfigMap does not have",
    help: "name one that is there, or add it to `gpu_time_slicing_profiles`",
    role: Some("time_slicing"),
    look: profile,
};

/// A word that nobody reads.
pub(in super::super) const KEY: Diagnosis = Diagnosis {
    step: "key",
    symptom: "GPUs are not shared, and nothing complains",
    cause: "a key of a profile is misspelled: the device plugin silently ignores keys that it does not know",
    help: "let the role write the content, or correct the key and restart the device plugin",
    role: Some("time_slicing"),
    look: key,
};

/// Content that nobody has read.
pub(in super::super) const STALE: Diagnosis = Diagnosis {
    step: "slices",
    symptom: "the number of shares was changed, and allocatable stays as it was",
    cause: "a running device plugin does not notice new content: it watches the node's label only",
    help: "restart what reads it: `kubectl rollout restart` of the device plugin and of feature discovery, or the role",
    role: Some("time_slicing"),
    look: stale,
};

/// Shares that do not add up.
pub(in super::super) const SHARES: Diagnosis = Diagnosis {
    step: "shares",
    symptom: "a node offers more or fewer GPUs than it has, times its shares",
    cause: "the device plugin runs with another profile than feature discovery tells of, or has lost a GPU. Labels follow a new profile within a minute",
    help: "ask again in a minute, then restart both with the role; where a GPU is lost, `nvidia-smi -L` and `dmesg | grep -i xid` on the host say so",
    role: Some("time_slicing"),
    look: shares,
};

/// Every number of replicas in a profile.
fn numbers(profile: &str) -> impl Iterator<Item = i64> {
    profile.lines().filter_map(|line| {
        let line = line.split('#').next()?.trim().trim_start_matches("- ");
        line.strip_prefix("replicas:")?.trim().parse().ok()
    })
}

fn profiles(view: &ClusterView) -> impl Iterator<Item = (&Value, &str, &str)> {
    view.config_maps.iter().flat_map(|map| {
        let data = map.get("data").and_then(Value::as_object).into_iter().flatten();
        data.filter_map(move |(key, value)| Some((map, key.as_str(), value.as_str()?)))
    })
}

/// Keys of a profile that have much to do with its shares.
const SHARING_KEYS: &[&str] = &[
    "version",
    "sharing",
    "timeSlicing",
    "resources",
    "replicas",
    "renameByDefault",
    "failRequestsGreaterThanOne",
];

/// The first misspelled key of a profile, and what is meant. (The plugin does not heed the case of letters.)
fn misspelled(profile: &str) -> Option<(&str, &'static str)> {
    profile.lines().find_map(|line| {
        let (word, _) = line.split('#').next()?.split_once(':')?;
        let word = word.trim().trim_start_matches("- ").trim();
        let is = |known: &&str| known.eq_ignore_ascii_case(word);
        if SHARING_KEYS.iter().any(is) {
            return None;
        }
        Some((word, did_you_mean(word, SHARING_KEYS.iter().copied())?))
    })
}

fn key(view: &ClusterView) -> Option<(Health, String)> {
    let (map, profile, (word, meant)) =
        profiles(view).find_map(|(map, key, text)| Some((map, key, misspelled(text)?)))?;
    let found = format!("ConfigMap {}, profile {profile}: `{word}`, where `{meant}` is meant", full(map));
    Some((Health::Ill, found))
}

/// Does the plugin refuse its settings?
pub(super) fn is_refused(view: &ClusterView) -> bool {
    replicas(view).is_some() || profile(view).is_some()
}

fn replicas(view: &ClusterView) -> Option<(Health, String)> {
    let (map, key, least) = profiles(view).find_map(|(map, key, text)| {
        let least = numbers(text).min().filter(|least| *least < 2)?;
        Some((map, key, least))
    })?;
    Some((Health::Ill, format!("ConfigMap {}, profile {key}: replicas {least}", full(map))))
}

fn profile(view: &ClusterView) -> Option<(Health, String)> {
    let known: BTreeSet<&str> = profiles(view).map(|(_, key, _)| key).collect();
    for (place, wanted) in view.configs() {
        if !view.config_maps.iter().any(|map| namespace(map) == place && name(map) == wanted) {
            return Some((
                Health::Ill,
                format!("the device plugin is to read ConfigMap {place}/{wanted}, which is not there"),
            ));
        }
    }
    for policy in view.policies.iter().flatten() {
        let default = text(policy, "/spec/devicePlugin/config/default");
        if !default.is_empty() && !known.is_empty() && !known.contains(default) {
            let found =
                format!("ClusterPolicy {} has the default {default}; there is {}", name(policy), few(known));
            return Some((Health::Ill, found));
        }
    }
    if known.is_empty() {
        return None;
    }
    for set in view.plugins() {
        if let Some(wanted) = own_profile(set).filter(|wanted| !known.contains(wanted)) {
            let found =
                format!("DaemonSet {} is to read the profile {wanted}; there is {}", full(set), few(known));
            return Some((Health::Ill, found));
        }
    }
    let unknown = view.nodes.iter().find_map(|node| {
        let wanted =
            label(node, PROFILE_LABEL).filter(|wanted| !wanted.is_empty() && !known.contains(wanted))?;
        Some((node, wanted))
    });
    let (node, wanted) = unknown?;
    Some((Health::Ill, format!("node {} wants the profile {wanted}; there is {}", name(node), few(known))))
}

/// The profile that a plugin without an operator is pointed at: the file's name in its variable CONFIG_FILE, where a ConfigMap is mounted.
fn own_profile(set: &Value) -> Option<&str> {
    let mounted =
        list(set, "/spec/template/spec/volumes").iter().filter(|volume| volume.get("configMap").is_some());
    let mounted: Vec<&str> = mounted.map(|volume| text(volume, "/name")).collect();
    list(set, "/spec/template/spec/containers").iter().find_map(|container| {
        let variable =
            list(container, "/env").iter().find(|variable| text(variable, "/name") == "CONFIG_FILE")?;
        let (folder, file) = text(variable, "/value").rsplit_once('/')?;
        let mut mounts = list(container, "/volumeMounts").iter();
        mounts
            .any(|mount| text(mount, "/mountPath") == folder && mounted.contains(&text(mount, "/name")))
            .then_some(file)
    })
}

/// The shares of each GPU that a node's profile asks for, where it is known which that is.
fn asked(view: &ClusterView, node: &Value) -> Option<u64> {
    let default =
        view.policies.iter().flatten().map(|policy| text(policy, "/spec/devicePlugin/config/default"));
    let default = default.chain(view.plugins().filter_map(own_profile)).find(|name| !name.is_empty());
    let wanted = label(node, PROFILE_LABEL).filter(|wanted| !wanted.is_empty()).or(default)?;
    let (_, _, profile) = profiles(view).find(|(_, key, _)| *key == wanted)?;
    Some(numbers(profile).max().and_then(|number| number.try_into().ok()).unwrap_or(1))
}

/// When the content of a ConfigMap was last written.
fn changed(map: &Value) -> Option<Timestamp> {
    let wrote = list(map, "/metadata/managedFields").iter();
    let wrote = wrote.filter(|entry| entry.pointer("/fieldsV1/f:data").is_some());
    wrote
        .filter_map(|entry| moment(entry, "/time"))
        .max()
        .or_else(|| moment(map, "/metadata/creationTimestamp"))
}

fn stale(view: &ClusterView) -> Option<(Health, String)> {
    for map in &view.config_maps {
        let Some(changed) = changed(map) else { continue };
        let sets = view.plugins().filter(|set| namespace(set) == namespace(map));
        let old: Vec<&str> = sets
            .flat_map(|set| view.pods_of(set))
            .filter(|pod| moment(pod, "/status/startTime").is_some_and(|started| started < changed))
            .map(name)
            .collect();
        if !old.is_empty() {
            let found =
                format!("ConfigMap {} changed at {changed:.0}; started before that: {}", full(map), few(old));
            return Some((Health::Ill, found));
        }
    }
    None
}

fn shares(view: &ClusterView) -> Option<(Health, String)> {
    // The configuration that the plugin runs with then is of no profile.
    if is_refused(view) {
        return None;
    }
    let count = |node: &Value, key: &str| label(node, key).and_then(|text| text.parse::<u64>().ok());
    let odd = view.nodes.iter().filter_map(|node| {
        let physical = count(node, "nvidia.com/gpu.count")?;
        // Feature discovery tells the shares; where it does not run, the profile does.
        let replicas =
            count(node, "nvidia.com/gpu.replicas").or_else(|| asked(view, node)).unwrap_or(1).max(1);
        let sliced = label(node, "nvidia.com/gpu.sharing-strategy")
            .is_none_or(|s| matches!(s, "none" | "time-slicing"));
        let whole = label(node, "nvidia.com/mig.strategy").is_none_or(|strategy| strategy == "none");
        let own = resource(node, "allocatable", GPU).unwrap_or(0);
        let renamed = resource(node, "allocatable", "nvidia.com/gpu.shared").unwrap_or(0);
        let offered = own.max(renamed);
        // A GPU that is held to be sick is another matter.
        let healthy = resource(node, "capacity", GPU).is_none_or(|capacity| own == capacity) || renamed > own;
        (sliced && whole && healthy && offered > 0 && offered != physical * replicas)
            .then(|| format!("{} offers {offered}, not {physical} × {replicas}", name(node)))
    });
    let odd: Vec<String> = odd.collect();
    (!odd.is_empty()).then(|| (Health::Ill, few(odd)))
}
