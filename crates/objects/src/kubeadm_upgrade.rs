//! The upgrade of a node that is not the first control plane: how far its files follow the cluster (key `follow`), whether it is free of pods for another
//! kubelet (`drain:NODE`), and whether it takes pods (`pods:NODE`).

use crate::programs::not_known;
use converge_resource::{
    AlteredFact, Change, Disruption, DynEffects, DynRelations, Effects, ErasedObject, Facets, Object,
    OtherHostQuestion, Relations, Reversibility, Traits, quote, state_of_words,
};

/// A part of the upgrade of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeadmUpgradeState {
    /// The host is not a node (`absent`).
    Absent,
    /// Its files are those of this version (`at VERSION`): `kubeadm upgrade node` has run, or the kubelet is as new.
    At(String),
    /// The installed kubelet has this version (`runs VERSION`).
    Runs(String),
    /// The node is cordoned and free of pods, for a kubelet of this version (`free VERSION`).
    Free(String),
    /// It takes pods (`open`).
    Open,
    /// Others have cordoned it (`closed`).
    Closed,
    /// Runs of converge have cordoned it, for this purpose: `upgrade` or `leave` (`cordoned PURPOSE`).
    Cordoned(String),
    /// The API does not answer (`silent`).
    Silent,
}

/// The purpose of a cordon that comes before another kubelet.
const UPGRADE: &str = "upgrade";

impl KubeadmUpgradeState {
    fn words(&self) -> Vec<String> {
        let (word, rest) = match self {
            Self::Absent => ("absent", None),
            Self::At(version) => ("at", Some(version)),
            Self::Runs(version) => ("runs", Some(version)),
            Self::Free(version) => ("free", Some(version)),
            Self::Open => ("open", None),
            Self::Closed => ("closed", None),
            Self::Cordoned(purpose) => ("cordoned", Some(purpose)),
            Self::Silent => ("silent", None),
        };
        std::iter::once(word.to_owned()).chain(rest.cloned()).collect()
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["at", version] => Some(Self::At((*version).to_owned())),
            ["runs", version] => Some(Self::Runs((*version).to_owned())),
            ["free", version] => Some(Self::Free((*version).to_owned())),
            ["open"] => Some(Self::Open),
            ["closed"] => Some(Self::Closed),
            ["cordoned", purpose] => Some(Self::Cordoned((*purpose).to_owned())),
            ["silent"] => Some(Self::Silent),
            _ => None,
        }
    }
}

state_of_words!(KubeadmUpgradeState);

/// The question to a control plane whether the cluster at this endpoint has this version yet.
pub fn leads(control_plane: &str, version: &str, endpoint: &str, seconds: u64) -> OtherHostQuestion {
    OtherHostQuestion {
        host: control_plane.to_owned(),
        script: format!("cv_kubeadm_leads {} {}", quote(version), quote(endpoint)),
        seconds,
        give_up: None,
        what: format!("the version {version} of the cluster"),
    }
}

/// The pods that a drain may end.
#[derive(Clone, Copy, Debug, Default)]
pub struct MayEnd {
    /// Those that no controller brings back.
    pub unmanaged: bool,
    /// Those whose emptyDir volumes are lost with them.
    pub with_emptydir: bool,
}

/// The request to a control plane to free a node of pods, within so many seconds.
pub fn free(control_plane: &str, node: &str, endpoint: &str, seconds: u64, may: MayEnd) -> OtherHostQuestion {
    let (quoted, endpoint) = (quote(node), quote(endpoint));
    let flags = [(may.unmanaged, " --force"), (may.with_emptydir, " --delete-emptydir-data")];
    let flags: String = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| *flag).collect();
    OtherHostQuestion {
        host: control_plane.to_owned(),
        script: format!("cv_kubeadm_free {quoted} {endpoint}{flags}"),
        seconds,
        give_up: Some(format!("cv_kubeadm_keep {quoted} {endpoint} {UPGRADE}")),
        what: format!("a drain of the node {node}"),
    }
}

/// The object.
pub struct KubeadmUpgrade;

impl Object for KubeadmUpgrade {
    const KIND: &'static str = "kubeadm_upgrade";
    const SHELL: &'static str = concat!(include_str!("kubeadm_drain.sh"), include_str!("kubeadm_upgrade.sh"));
    const SECONDS: u64 = 1800;
    // kubeadm takes no version back, and a node that takes pods is as it was before.
    const TRAITS: Traits = Traits { passes: true, ..Traits::NONE };
    const RELATIONS: &'static dyn DynRelations = &ErasedObject::<Self>::new();
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = KubeadmUpgradeState;

    fn title(key: &str, _: &KubeadmUpgradeState, to: &KubeadmUpgradeState) -> String {
        let node = key.split_once(':').map_or("", |(_, node)| node);
        match to {
            KubeadmUpgradeState::At(version) => format!("kubeadm upgrade node: to {version}"),
            KubeadmUpgradeState::Free(version) => {
                format!("cordon and drain the node {node} for the kubelet {version}")
            }
            KubeadmUpgradeState::Open => format!("the node {node} takes pods again"),
            _ => "upgrade of the node".to_owned(),
        }
    }

    fn reversibility(_: &str, _: &KubeadmUpgradeState, to: &KubeadmUpgradeState) -> Reversibility {
        match to {
            KubeadmUpgradeState::At(_) => {
                Reversibility::Irreversible("kubeadm takes no version back".to_owned())
            }
            _ => Reversibility::Reversible,
        }
    }

    fn opaque(_: &KubeadmUpgradeState, to: &KubeadmUpgradeState) -> bool {
        matches!(to, KubeadmUpgradeState::At(_))
    }

    fn disruption(_: &KubeadmUpgradeState, to: Option<&KubeadmUpgradeState>) -> Disruption {
        match to {
            Some(KubeadmUpgradeState::Free(_)) => Disruption::Drain,
            Some(KubeadmUpgradeState::At(_)) => Disruption::Restarts,
            _ => Disruption::None,
        }
    }

    fn facets(state: &KubeadmUpgradeState) -> Facets {
        match state {
            KubeadmUpgradeState::Absent => Vec::new(),
            KubeadmUpgradeState::At(version) => vec![("follows", version.clone())],
            KubeadmUpgradeState::Runs(version) => vec![("kubelet", version.clone())],
            KubeadmUpgradeState::Free(version) => vec![("free of pods for", version.clone())],
            KubeadmUpgradeState::Open => vec![("takes pods", "yes".to_owned())],
            KubeadmUpgradeState::Closed => vec![("takes pods", "no, others have cordoned it".to_owned())],
            KubeadmUpgradeState::Cordoned(purpose) => {
                vec![("takes pods", format!("no, cordoned for: {purpose}"))]
            }
            KubeadmUpgradeState::Silent => vec![("takes pods", "the API does not answer".to_owned())],
        }
    }
}

impl Relations for KubeadmUpgrade {
    /// A node that is drained is cordoned.
    fn follows(key: &str, state: &KubeadmUpgradeState, other: &Change) -> Option<KubeadmUpgradeState> {
        let node = key.strip_prefix("pods:")?;
        let drained = other.object.kind == Self::KIND
            && other.object.key.strip_prefix("drain:") == Some(node)
            && matches!(KubeadmUpgradeState::try_from(other.to.clone()), Ok(KubeadmUpgradeState::Free(_)));
        (drained && *state == KubeadmUpgradeState::Open)
            .then(|| KubeadmUpgradeState::Cordoned(UPGRADE.to_owned()))
    }

    fn is_followed(_: &KubeadmUpgradeState, to: &KubeadmUpgradeState) -> bool {
        matches!(to, KubeadmUpgradeState::Free(_))
    }
}

impl Effects for KubeadmUpgrade {
    fn alters(key: &str, _: &KubeadmUpgradeState, _: &KubeadmUpgradeState) -> Vec<AlteredFact> {
        not_known(Self::may_alter(key))
    }

    fn may_alter(key: &str) -> Vec<&'static str> {
        if key == "follow" { vec!["kubernetes"] } else { Vec::new() }
    }
}

#[cfg(test)]
#[path = "kubeadm_upgrade_tests.rs"]
mod tests;
