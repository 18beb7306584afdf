//! A document that kubeadm keeps in its cluster, in a ConfigMap of the namespace `kube-system`, as a control plane reads it. Its key is
//! `cluster` (`kubeadm-config`), `kubelet` (`kubelet-config`) or `kube_proxy` (`kube-proxy`).

use converge_resource::{
    AttributeChange, Disruption, DriftScript, DynNodePart, ErasedObject, Facets, NodePart, Object,
    state_of_words,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// The configuration document in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeadmConfigState {
    /// The host is no control plane, or the cluster has no such document (`absent`).
    Absent,
    /// The API does not answer (`silent`).
    Silent,
    /// The document (`text TEXT`).
    Text {
        /// It, without the line feeds at its end.
        text: String,
        /// It was written, and who reads it when it starts has not been restarted since (`unread TEXT`).
        unread: bool,
    },
}

impl KubeadmConfigState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Silent => vec!["silent".to_owned()],
            Self::Text { text, unread } => {
                vec![if *unread { "unread" } else { "text" }.to_owned(), text.clone()]
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["silent"] => Some(Self::Silent),
            [word @ ("text" | "unread"), text] => {
                Some(Self::Text { text: (*text).to_owned(), unread: *word == "unread" })
            }
            _ => None,
        }
    }

    /// Its values by their places, `a.b.c`.
    fn fields(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        if let Self::Text { text, .. } = self {
            match serde_yaml::from_str::<Value>(text) {
                Ok(value) => leaves("", &value, &mut found),
                Err(_) => {
                    found.insert("text".to_owned(), text.clone());
                }
            }
        }
        found
    }
}

fn leaves(at: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                leaves(&at, value, found);
            }
        }
        // It says nothing, as one that is not there.
        Value::Object(_) => {}
        value => {
            found.insert(at.to_owned(), shown(value));
        }
    }
}

/// A text as YAML has it in one line, in quotes where it needs them; all else as JSON.
fn shown(value: &Value) -> String {
    let plain = value.as_str().and_then(|text| serde_yaml::to_string(text).ok());
    let plain = plain.map(|text| text.trim_end().to_owned()).filter(|text| !text.contains('\n'));
    plain.unwrap_or_else(|| value.to_string())
}

state_of_words!(KubeadmConfigState);

/// The object.
pub struct KubeadmConfig;

impl Object for KubeadmConfig {
    const KIND: &'static str = "kubeadm_config";
    const SHELL: &'static str = include_str!("kubeadm_config.sh");
    const SECONDS: u64 = 300;
    const NODE: &'static dyn DynNodePart = &ErasedObject::<Self>::new();
    type State = KubeadmConfigState;

    fn title(key: &str, from: &KubeadmConfigState, to: &KubeadmConfigState) -> String {
        let text = |state: &KubeadmConfigState| match state {
            KubeadmConfigState::Text { text, .. } => Some(text.clone()),
            _ => None,
        };
        let name = match key {
            "cluster" => "kubeadm",
            "kubelet" => "the kubelets",
            _ => "kube-proxy",
        };
        if text(from) == text(to) {
            return format!("restart {name}, which has not read its configuration");
        }
        let then = if restarts(to) { ", and restart it" } else { "" };
        format!("change the configuration of {name} in the cluster{then}")
    }

    fn disruption(_: &KubeadmConfigState, to: Option<&KubeadmConfigState>) -> Disruption {
        if to.is_some_and(restarts) { Disruption::Restarts } else { Disruption::None }
    }

    fn facets(state: &KubeadmConfigState) -> Facets {
        let KubeadmConfigState::Text { text, unread } = state else { return Vec::new() };
        let mut facets = vec![("document", text.clone())];
        if *unread {
            facets.push(("read", "not since it was written".to_owned()));
        }
        facets
    }

    fn attributes(from: &KubeadmConfigState, to: &KubeadmConfigState) -> Vec<AttributeChange> {
        let (before, after) = (from.fields(), to.fields());
        let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
        names
            .map(|name| AttributeChange {
                name: name.clone(),
                before: before.get(name).cloned(),
                after: after.get(name).cloned(),
            })
            .filter(|change| change.before != change.after)
            .collect()
    }

    fn drifts(key: &str, _: &KubeadmConfigState) -> Vec<DriftScript> {
        // No program knows such a field, and none reads it before it starts.
        let script = format!(
            "cv_kubeadm_config_of {key} && is=$(cv_line_kubeadm_config {key}) && cv_dec_to \"${{is#* }}\" &&
{{ printf 'data:\\n  %s: |2\\n' \"$CV_FIELD\"; printf '%s\\n' \"$CV_DEC\" drifted: true | sed 's/^/    /'; }} |
cv_kubeadm_config_kube 60 patch configmap \"$CV_MAP\" --type merge --patch-file /dev/stdin >/dev/null || exit 3"
        );
        vec![DriftScript::new("document", "another field", script)]
    }
}

impl NodePart for KubeadmConfig {
    const GOES_WITH_NODE: bool = true;
}

/// Whether pods are restarted for this text: those of kube-proxy read it when they start. Each node's kubelet has a file of its own.
fn restarts(state: &KubeadmConfigState) -> bool {
    let KubeadmConfigState::Text { text, .. } = state else { return false };
    text.lines().any(|line| line == "kind: KubeProxyConfiguration")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};
    use converge_resource::{State, quote};

    /// A cluster of which all is in one file. `down` beside it makes it silent.
    const KUBECTL: &str = r#"#!/bin/sh
here=${0%/*}
[ ! -e "$here/down" ] || { echo 'connection refused' >&2; exit 1; }
echo "$*" >>"$here/log"
case $* in
*' get configmap '*) for map in kubeadm-config kubelet-config kube-proxy; do printf '\001%s\n' $map; cat "$here/map"; done ;;
*' patch configmap '*) cat >"$here/patch"; sed -n 's/^    //p' "$here/patch" >"$here/map" ;;
*'rollout restart'*) [ ! -e "$here/stuck" ] || exit 1 ;;
esac
"#;

    fn text(text: &str) -> KubeadmConfigState {
        KubeadmConfigState::Text { text: text.to_owned(), unread: false }
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        let unread = KubeadmConfigState::Text { text: "a: 1".into(), unread: true };
        for (state, line) in [
            (KubeadmConfigState::Absent, "absent"),
            (KubeadmConfigState::Silent, "silent"),
            (text("a"), "text a"),
            (unread, "unread \\0141\\0072\\0040\\0061"),
        ] {
            assert_eq!(State::from(state.clone()).line(), line);
            assert_eq!(KubeadmConfigState::try_from(State::from_line(line)), Ok(state));
        }
    }

    #[test]
    fn people_read_the_fields_that_differ() {
        let (from, to) = (text("a: {b: '', c: [x]}\nd: 2\nf: {}"), text("a: {b: '1', c: [x, y]}\ne: 1m0s"));
        let all = KubeadmConfig::attributes(&from, &to);
        let reply: Vec<_> =
            all.iter().map(|a| (a.name.as_str(), a.before.as_deref(), a.after.as_deref())).collect();
        assert_eq!(
            reply,
            [
                ("a.b", Some("''"), Some("'1'")),
                ("a.c", Some("[\"x\"]"), Some("[\"x\",\"y\"]")),
                ("d", Some("2"), None),
                ("e", None, Some("1m0s"))
            ]
        );
        let proxy = text("kind: KubeProxyConfiguration");
        assert_eq!(KubeadmConfig::disruption(&from, Some(&proxy)), Disruption::Restarts);
        assert_eq!(KubeadmConfig::disruption(&from, Some(&to)), Disruption::None);
        assert!(
            KubeadmConfig::title("kubelet", &from, &to)
                .starts_with("change the configuration of the kubelets")
        );
    }

    #[test]
    fn a_document_is_read_and_written_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            let root = tempfile::tempdir().unwrap();
            let at = root.path();
            let tools = fake_tool(at, "kubectl", KUBECTL);
            let file = |name: &str| std::path::Path::new(&tools).join(name);
            let vars = format!(
                "PATH={}:$PATH CV_KUBE_DIR={}/kubernetes CV_ROOT={}; export PATH; ",
                quote(&tools),
                at.display(),
                at.display()
            );
            let good = |script: &str| shell.good(at, &format!("{vars}{script}"), &[], b"");
            let line = |key: &str| good(&format!("cv_line_kubeadm_config {key}")).trim_end().to_owned();
            assert_eq!(line("kubelet"), "absent", "{}", shell.name);
            std::fs::create_dir_all(at.join("kubernetes/manifests")).unwrap();
            std::fs::write(at.join("kubernetes/admin.conf"), "").unwrap();
            std::fs::write(at.join("kubernetes/manifests/kube-apiserver.yaml"), "").unwrap();
            // Without it there is nothing to change.
            std::fs::write(file("map"), "").unwrap();
            assert_eq!(line("kube_proxy"), "absent");
            std::fs::write(file("down"), "").unwrap();
            assert_eq!(line("kubelet"), "silent");
            std::fs::remove_file(file("down")).unwrap();

            std::fs::write(file("map"), "a: 1\nb:\n- x\n").unwrap();
            let (old, new) = (State::from(text("a: 1\nb:\n- x")), State::from(text("a: 1\n\nb:\n  - \"'\"")));
            assert_eq!(line("kubelet"), old.line());
            let apply =
                |key: &str, to: &State| good(&format!("cv_apply_kubeadm_config {key} {}", quote(to.line())));
            apply("kubelet", &new);
            assert_eq!(line("kubelet"), new.line());
            let patch = std::fs::read_to_string(file("patch")).unwrap();
            assert!(patch.starts_with("data:\n  kubelet: |2\n    a: 1\n    \n    b:\n"), "{patch}");
            let log = || std::fs::read_to_string(file("log")).unwrap();
            assert!(!log().contains("rollout"), "{}", log());

            // kube-proxy reads it when it starts. A restart that failed is made good, though the text is there.
            std::fs::write(file("stuck"), "").unwrap();
            let apply_old = format!("{vars}cv_apply_kubeadm_config kube_proxy {}", quote(old.line()));
            assert!(!shell.run(at, &apply_old, &[], b"").status.success());
            assert!(line("kube_proxy").starts_with("unread "));
            std::fs::remove_file(file("stuck")).unwrap();
            let patches = log().matches(" patch ").count();
            apply("kube_proxy", &old);
            assert_eq!(line("kube_proxy"), old.line());
            assert_eq!(log().matches(" patch ").count(), patches, "it was written again");
        }
    }
}
