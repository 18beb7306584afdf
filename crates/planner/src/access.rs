//! The accesses to a host that a change can break: ssh, the network, a container runtime.

use converge_resource::ObjectId;
use serde::{Deserialize, Serialize};

/// The access that a change can break, and that must therefore answer before the change stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Access over ssh: a new connection must succeed.
    Ssh,
    /// Access through the network or the firewall: a new ssh connection must succeed too.
    Network,
    /// A container runtime: in addition everything that answered before: CRI, kubelet's Lease, the node's Ready.
    Runtime,
}

/// A guarded item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemGuard {
    /// The access that it can break.
    pub guard: Guard,
    /// The change is reverted automatically unless confirmed within this many seconds.
    pub seconds: u64,
}

/// Whether an item is guarded, and by which guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardChoice {
    /// The objects that it changes decide.
    #[default]
    ByObjects,
    /// It is not guarded.
    Never,
    /// This guard.
    By(Guard),
}

impl GuardChoice {
    /// The choice of a role's file: a guard's word, or any other one for none.
    pub fn from_word(word: &str) -> Self {
        Guard::from_word(word).map_or(Self::Never, Self::By)
    }
}

/// The guard of an item as a user declares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeclaredGuard {
    /// The choice of a guard.
    pub choice: GuardChoice,
    /// The confirmation timeout in seconds.
    pub seconds: Option<u64>,
}

/// The table of guards for objects where the user declares none: kinds of objects, and the beginnings of their keys. A key
/// with `/` or `.` at its end matches all keys that begin so, any other one only itself.
const TABLE: &[(Guard, &str, &[&str])] = &[
    (Guard::Ssh, "path", &["/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d/", "/etc/pam.d/sshd"]),
    (Guard::Ssh, "unit", &["ssh.service", "sshd.service", "ssh.socket", "sshd.socket"]),
    (
        Guard::Network,
        "path",
        &[
            "/etc/network/",
            "/etc/netplan/",
            "/etc/systemd/network/",
            "/etc/NetworkManager/",
            "/etc/nftables.conf",
            "/etc/nftables/",
            "/etc/iptables/",
            "/etc/ufw/",
        ],
    ),
    (
        Guard::Network,
        "unit",
        &[
            "networking.service",
            "systemd-networkd.service",
            "NetworkManager.service",
            "nftables.service",
            "netfilter-persistent.service",
            "ufw.service",
        ],
    ),
    (Guard::Network, "firewall", &["ufw"]),
    (
        Guard::Runtime,
        "path",
        &[
            "/etc/containerd/",
            "/etc/docker/daemon.json",
            "/etc/crio/",
            "/etc/systemd/system/containerd.service.d/",
            "/etc/systemd/system/docker.service.d/",
            "/etc/systemd/system/crio.service.d/",
        ],
    ),
    (Guard::Runtime, "unit", &["containerd.service", "docker.service", "crio.service"]),
];

impl Guard {
    /// The words for it in a role's file.
    pub const WORDS: [&str; 3] = ["ssh", "network", "runtime"];

    /// Parses such a word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Ssh, Self::Network, Self::Runtime].into_iter().find(|guard| guard.word() == word)
    }

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ssh => "ssh",
            Self::Network => "network",
            Self::Runtime => "runtime",
        }
    }

    /// The default confirmation timeout. A runtime has to keep the node Ready for a minute within it.
    pub fn seconds(self) -> u64 {
        match self {
            Self::Ssh | Self::Network => 60,
            Self::Runtime => 180,
        }
    }

    /// Units that may have to be restarted with their earlier inputs.
    pub fn units(self) -> Vec<String> {
        let of = |(guard, kind, _): &&(Self, &str, &[&str])| *guard == self && *kind == "unit";
        let units = TABLE.iter().filter(of).flat_map(|(_, _, keys)| keys.iter());
        units.map(|unit| (*unit).to_owned()).collect()
    }

    /// The guard of this object where the user declares none.
    pub fn of(object: &ObjectId) -> Option<Self> {
        let matches = |key: &str| match key.strip_suffix('/') {
            Some(_) => object.key.starts_with(key),
            None => object.key == key,
        };
        let found =
            TABLE.iter().find(|(_, kind, keys)| *kind == object.kind && keys.iter().any(|k| matches(k)));
        found.map(|(guard, ..)| *guard)
    }

    /// The guard of an item that changes these objects, where the user declares none.
    pub fn of_all<'a>(objects: impl IntoIterator<Item = &'a ObjectId>) -> Option<Self> {
        objects.into_iter().find_map(Self::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_by_path_unit_and_kind() {
        let of = |kind: &str, key: &str| Guard::of(&ObjectId::new(kind, key));
        assert_eq!(of("path", "/etc/ssh/sshd_config"), Some(Guard::Ssh));
        assert_eq!(of("path", "/etc/ssh/sshd_config.d/10-x.conf"), Some(Guard::Ssh));
        assert_eq!(of("path", "/etc/ssh/sshd_config.bak"), None);
        assert_eq!(of("path", "/etc/ssh/ssh_config"), None);
        assert_eq!(of("unit", "containerd.service"), Some(Guard::Runtime));
        assert_eq!(of("path", "/etc/containerd/config.toml"), Some(Guard::Runtime));
        assert_eq!(of("firewall", "ufw"), Some(Guard::Network));
        assert_eq!(of("package", "containerd"), None);
        assert_eq!(Guard::Ssh.units().first().map(String::as_str), Some("ssh.service"));
        for word in Guard::WORDS {
            assert_eq!(Guard::from_word(word).map(Guard::word), Some(word));
        }
    }
}
