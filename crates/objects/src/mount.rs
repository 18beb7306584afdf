//! The file system mounted at a path. The key is the mount point; of several mounts at one path the topmost counts.

use converge_resource::{
    AlteredFact, DriftScript, DynEffects, DynLinks, Effects, ErasedObject, Facets, Footprint, Links, Object,
    Traits, quote, state_of_words,
};

/// The state of a mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountState {
    /// Nothing is mounted there (`absent`).
    Absent,
    /// A mount (`mount SOURCE FSTYPE OPTIONS BIND`).
    Mount {
        /// The device, share or name that the kernel shows; in a planned state what the user wrote, such as `UUID=…`.
        source: String,
        /// The file system's type.
        fstype: String,
        /// The options as the kernel shows them; in a planned state what the user wrote.
        options: String,
        /// The path that is shown once more here (`mount --bind`).
        bind: Option<String>,
    },
}

impl MountState {
    /// Whether the other state becomes this one by a remount: both are mounts of the same device or path, and differ at most in options that a remount
    /// changes. The size of a file system in memory stays in a remount that does not name it.
    #[must_use]
    pub fn is_remount_of(&self, other: &Self) -> bool {
        let (
            Self::Mount { source: a, bind: c, options: from, fstype },
            Self::Mount { source: b, bind: d, options: to, .. },
        ) = (other, self)
        else {
            return false;
        };
        let has = |options: &str, key: &str| {
            options
                .split(',')
                .any(|option| option.strip_prefix(key).is_some_and(|rest| rest.starts_with('=')))
        };
        let stays = |key: &&str| has(from, key) && !has(to, key);
        let in_memory = matches!(fstype.as_str(), "tmpfs" | "ramfs") && c.is_none();
        a == b && c == d && !(in_memory && ["size", "nr_blocks", "nr_inodes"].iter().any(stays))
    }

    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Mount { source, fstype, options, bind } => {
                let bind = bind.as_deref().unwrap_or("-");
                ["mount", source, fstype, options, bind].map(str::to_owned).to_vec()
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["mount", source, fstype, options, bind] => Some(Self::Mount {
                source: (*source).to_owned(),
                fstype: (*fstype).to_owned(),
                options: (*options).to_owned(),
                bind: (*bind != "-").then(|| (*bind).to_owned()),
            }),
            _ => None,
        }
    }
}

state_of_words!(MountState);

/// The object.
pub struct Mount;

impl Object for Mount {
    const KIND: &'static str = "mount";
    const SHELL: &'static str = include_str!("mount.sh");
    const SECONDS: u64 = 300;
    const TRAITS: Traits =
        Traits { at_path: true, footprint: Footprint::Place, mounts: true, has_line: true, ..Traits::NONE };
    const LINKS: &'static dyn DynLinks = &ErasedObject::<Self>::new();
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = MountState;

    fn title(key: &str, from: &MountState, to: &MountState) -> String {
        let verb = match to {
            MountState::Absent => "unmount",
            MountState::Mount { .. } if to.is_remount_of(from) => "change the options of",
            MountState::Mount { .. } => "mount",
        };
        format!("{verb} {key}")
    }

    /// The kernel spells options and devices in its own way.
    fn fulfils(now: &MountState, planned: &MountState) -> bool {
        let (
            MountState::Mount { fstype: found, bind, .. },
            MountState::Mount { fstype, bind: wanted_bind, .. },
        ) = (now, planned)
        else {
            return now == planned;
        };
        let family = |name: &str| name.strip_suffix('4').unwrap_or(name).to_owned();
        bind == wanted_bind && (fstype == "auto" || bind.is_some() || family(fstype) == family(found))
    }

    /// Every path below the mount point becomes another one.
    fn opaque(from: &MountState, to: &MountState) -> bool {
        !to.is_remount_of(from)
    }

    fn facets(state: &MountState) -> Facets {
        match state {
            MountState::Absent => Vec::new(),
            MountState::Mount { source, fstype, options, bind: None } => {
                vec![("source", source.clone()), ("type", fstype.clone()), ("options", options.clone())]
            }
            MountState::Mount { options, bind: Some(bind), .. } => {
                vec![("source", bind.clone()), ("type", "bind".to_owned()), ("options", options.clone())]
            }
        }
    }

    fn drifts(key: &str, state: &MountState) -> Vec<DriftScript> {
        match state {
            MountState::Mount { .. } => {
                // A mount that is in use stays.
                vec![DriftScript::new("mount", "unmounted", format!("umount -- {} || exit 3", quote(key)))]
            }
            MountState::Absent => Vec::new(),
        }
    }
}

impl Links for Mount {
    fn covers(key: &str, from: &MountState, to: &MountState) -> Option<String> {
        (!to.is_remount_of(from)).then(|| key.to_owned())
    }
}

impl Effects for Mount {
    fn alters(_: &str, _: &MountState, _: &MountState) -> Vec<AlteredFact> {
        vec![("mounts", None)]
    }

    fn may_alter(_: &str) -> Vec<&'static str> {
        vec!["mounts"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shells;
    use converge_resource::State;

    /// A Debian 12 server: a root disk, a tmpfs, a bind of a folder, a bind of a whole mount, a blank, btrfs subvolumes.
    const TABLE: &str = r"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:25 / /mnt/fast rw,noexec,relatime shared:9 - tmpfs tmpfs rw,size=32768k,mode=755
31 22 8:1 /srv/b /mnt/b ro,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
32 22 0:25 / /mnt/again rw,relatime shared:9 - tmpfs tmpfs rw,size=32768k,mode=755
33 22 8:17 / /mnt/my\040disk rw,noatime - xfs /dev/sdb1 rw,attr2
40 22 0:44 /@ /b rw - btrfs /dev/sdc rw,subvol=/@
41 22 0:44 /@home /b/home rw - btrfs /dev/sdc rw,subvol=/@home
50 22 0:51 / /top rw - tmpfs one rw
51 50 0:52 / /top rw - tmpfs two rw
";

    #[test]
    fn mountinfo_is_read_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("mountinfo");
        std::fs::write(&table, TABLE).unwrap();
        let wanted = [
            ("/", "mount /dev/sda1 ext4 rw,relatime,errors=remount-ro -"),
            ("/mnt/fast", "mount tmpfs tmpfs rw,noexec,relatime,size=32768k,mode=755 -"),
            ("/mnt/b", "mount /dev/sda1 ext4 ro,relatime /srv/b"),
            ("/mnt/again", "mount tmpfs tmpfs rw,relatime /mnt/fast"),
            ("/mnt/my disk", "mount /dev/sdb1 xfs rw,noatime,attr2 -"),
            ("/b/home", "mount /dev/sdc btrfs rw,subvol=/@home -"),
            ("/top", "mount two tmpfs rw -"),
            ("/mnt", "absent"),
        ];
        let keys: Vec<&str> = wanted.iter().map(|(k, _)| *k).collect();
        for shell in shells(dir.path()) {
            let script = format!("CV_MOUNTINFO='{}'; cv_see_mount \"$@\"", table.display());
            let observed =
                crate::testing::parse::<Mount>(&keys, &shell.good(dir.path(), &script, &keys, b""));
            for (key, line) in wanted {
                assert_eq!(observed[key].as_ref().unwrap().state.line(), line, "{}: {key}", shell.name);
            }
        }
    }

    #[test]
    fn what_mount_has_made_of_a_plan_counts() {
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            for (found, wanted, same) in [
                ("mount /dev/sda2 ext4 rw,relatime -", "mount UUID=9 auto defaults -", true),
                ("mount s:/e nfs4 rw,vers=4.2 -", "mount s:/e nfs soft -", true),
                ("mount /dev/sda2 xfs rw -", "mount /dev/sda2 ext4 rw -", false),
                ("mount tmpfs tmpfs rw /a", "mount /a none bind /a", true),
                ("mount tmpfs tmpfs rw -", "mount /a none bind /a", false),
                ("absent", "mount /dev/sda2 auto defaults -", false),
                ("mount /dev/sda2 xfs rw -", "absent", false),
            ] {
                // The caller has an IFS of its own.
                let script = "IFS=$CV_NL; cv_same_mount x \"$1\" \"$2\"";
                let output = shell.run(dir.path(), script, &[found, wanted], b"");
                assert_eq!(output.status.success(), same, "{}: {found} for {wanted}", shell.name);
            }
            let defaults = shell.good(dir.path(), "cv_mount_defaults ro,noexec,size=1m", &[], b"");
            assert_eq!(defaults, "suid,dev,relatime,diratime,async,", "{}", shell.name);
        }
    }

    #[test]
    fn who_keeps_a_mount_busy_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("a mount");
        std::fs::create_dir(&at).unwrap();
        let mut inside = std::process::Command::new("sleep").arg("600").current_dir(&at).spawn().unwrap();
        let file = std::fs::File::create(at.join("log")).unwrap();
        let mut reader = std::process::Command::new("sleep").arg("600").stdin(file).spawn().unwrap();
        // The programs that this one starts are there for a moment each, and are not named.
        let mut script = std::process::Command::new("sh");
        script.args(["-c", "while :; do sleep 0.9; done"]).current_dir(&at);
        let mut busy = script.spawn().unwrap();
        let at = at.display().to_string();
        let mut wanted = [
            format!("process {} (sh) uses {at}: end it, then apply again\n", busy.id()),
            format!("process {} (sleep) uses {at}: end it, then apply again\n", inside.id()),
            format!("process {} (sleep) uses {at}/log: end it, then apply again\n", reader.id()),
        ];
        wanted.sort();
        for shell in shells(dir.path()) {
            assert_eq!(
                shell.good(dir.path(), "cv_mount_users \"$1\"", &[&at], b""),
                wanted.concat(),
                "{}",
                shell.name
            );
        }
        for sleeper in [&mut inside, &mut reader, &mut busy] {
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
        }
    }

    #[test]
    fn states_are_lines_and_a_remount_is_no_foreign_code() {
        let mount = |options: &str| {
            MountState::try_from(State::from_line(&format!("mount tmpfs tmpfs {options} -"))).unwrap()
        };
        assert_eq!(State::from(mount("rw")).line(), "mount tmpfs tmpfs rw -");
        assert!(!Mount::opaque(&mount("rw"), &mount("ro")));
        assert!(Mount::opaque(&MountState::Absent, &mount("ro")));
        assert_eq!(Mount::title("/m", &mount("rw"), &mount("ro")), "change the options of /m");
        assert!(MountState::try_from(State::from_line("mount a b")).is_err());
        // Controller and host decide alike.
        let dir = tempfile::tempdir().unwrap();
        for (from, to, remount) in [
            ("rw,relatime", "rw,size=1m", true),
            ("rw,size=1024k", "rw,size=2m,mode=755", true),
            ("rw,size=1024k", "rw,relatime", false),
            ("rw,size=1024k,mode=755", "rw,size=1m", true),
            ("rw,size=1024k,nr_inodes=9", "rw,size=1m", false),
            ("rw,size=1024k", "defaults", false),
        ] {
            assert_eq!(mount(to).is_remount_of(&mount(from)), remount, "{from} to {to}");
            for shell in shells(dir.path()) {
                let script = "cv_mount_remounts tmpfs - \"$1\" \"$2\"";
                let output = shell.run(dir.path(), script, &[from, to], b"");
                assert_eq!(output.status.success(), remount, "{}: {from} to {to}", shell.name);
            }
        }
    }
}
