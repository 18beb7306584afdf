//! The file system on a disk. The key is the disk's path: a block device, or a file that stands for one.

use converge_resource::{DriftScript, Facets, Object, Traits, quote, state_of_words};

/// The state of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesystemState {
    /// There is no such disk (`absent`).
    Absent,
    /// blkid knows nothing of what is on it (`blank`).
    Blank,
    /// A file system (`fs TYPE LABEL UUID empty|used`).
    Made {
        /// Its type: `ext4`.
        fstype: String,
        /// Its label; `None` is none (`-`).
        label: Option<String>,
        /// Its UUID. `None` only in a planned state (`~`): mkfs draws it.
        uuid: Option<String>,
        /// Whether it holds something, or nobody can tell. mkfs's own `lost+found` does not count.
        used: bool,
    },
    /// Something else, which is never written over: a partition table, a part of a volume group (`other WHAT`).
    Other {
        /// The thing, for people.
        what: String,
    },
}

impl FilesystemState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Blank => vec!["blank".to_owned()],
            Self::Made { fstype, label, uuid, used } => {
                let holds = if *used { "used" } else { "empty" };
                let (label, uuid) = (label.as_deref().unwrap_or("-"), uuid.as_deref().unwrap_or("~"));
                ["fs", fstype, label, uuid, holds].map(str::to_owned).to_vec()
            }
            Self::Other { what } => vec!["other".to_owned(), what.clone()],
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["blank"] => Some(Self::Blank),
            ["fs", fstype, label, uuid, holds @ ("empty" | "used")] => Some(Self::Made {
                fstype: (*fstype).to_owned(),
                label: (*label != "-").then(|| (*label).to_owned()),
                uuid: (*uuid != "~").then(|| (*uuid).to_owned()),
                used: *holds == "used",
            }),
            ["other", what] => Some(Self::Other { what: (*what).to_owned() }),
            _ => None,
        }
    }
}

state_of_words!(FilesystemState);

/// The object.
pub struct Filesystem;

impl Object for Filesystem {
    const KIND: &'static str = "filesystem";
    const SHELL: &'static str = include_str!("filesystem.sh");
    const SECONDS: u64 = 1800;
    const TRAITS: Traits = Traits { at_path: true, ..Traits::NONE };
    type State = FilesystemState;

    fn title(key: &str, _: &FilesystemState, to: &FilesystemState) -> String {
        match to {
            FilesystemState::Made { fstype, .. } => format!("mkfs.{fstype} {key}"),
            _ => format!("wipefs {key}"),
        }
    }

    /// A UUID that the plan leaves open is any.
    fn fulfils(now: &FilesystemState, planned: &FilesystemState) -> bool {
        let mut filled = planned.clone();
        if let (FilesystemState::Made { uuid: open @ None, .. }, FilesystemState::Made { uuid, .. }) =
            (&mut filled, now)
        {
            open.clone_from(uuid);
        }
        *now == filled
    }

    fn drifts(key: &str, state: &FilesystemState) -> Vec<DriftScript> {
        match state {
            FilesystemState::Made { used: false, .. } => {
                let script = format!("wipefs -a -q -- {} || exit 3", quote(key));
                vec![DriftScript::new("on it", "signature wiped", script)]
            }
            _ => Vec::new(),
        }
    }

    fn facets(state: &FilesystemState) -> Facets {
        match state {
            FilesystemState::Absent => Vec::new(),
            FilesystemState::Blank => vec![("on it", "nothing".to_owned())],
            FilesystemState::Other { what } => vec![("on it", what.clone())],
            FilesystemState::Made { fstype, label, uuid, used } => {
                let mut facets = vec![("on it", fstype.clone())];
                facets.extend(label.clone().map(|label| ("label", label)));
                facets.push(("uuid", uuid.clone().unwrap_or_else(|| "(drawn by mkfs)".to_owned())));
                facets.extend(used.then(|| ("holds data", "yes".to_owned())));
                facets
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{safe_tempdir, shells};
    use converge_resource::State;
    use std::process::Command;

    /// Whether this machine has the programs of ext4; as any user they work on a file.
    fn has_ext4() -> bool {
        let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
        ["mkfs.ext4", "dumpe2fs", "blkid", "wipefs"].into_iter().all(has)
    }

    #[test]
    fn a_file_system_is_made_on_what_is_blank_and_taken_away_while_it_is_empty() {
        let tools = tempfile::tempdir().unwrap();
        assert!(has_ext4(), "this test needs e2fsprogs and util-linux");
        for shell in shells(tools.path()) {
            let (root, dir) = (tempfile::tempdir().unwrap(), safe_tempdir());
            let disk = dir.path().join("a disk");
            let key = disk.to_str().unwrap();
            let blank = || std::fs::File::create(&disk).unwrap().set_len(16 << 20).unwrap();
            let line = || shell.good(root.path(), "cv_line_filesystem \"$1\"", &[key], b"");
            let apply = |line: &str| {
                let ran = shell.run(root.path(), "cv_apply_filesystem \"$1\" \"$2\"", &[key, line], b"");
                (ran.status.success(), String::from_utf8_lossy(&ran.stderr).into_owned())
            };
            assert_eq!(line(), "absent\n", "{}", shell.name);
            blank();
            assert_eq!(line(), "blank\n", "{}", shell.name);
            assert_eq!(apply("fs ext4 scratch ~ empty"), (true, String::new()), "{}", shell.name);
            let made = line();
            assert!(made.starts_with("fs ext4 scratch ") && made.ends_with(" empty\n"), "{made}");
            // Once more it is the same, and another one is not put in its place.
            assert!(apply("fs ext4 scratch ~ empty").0);
            assert_eq!(line(), made);
            let (done, reply) = apply("fs ext3 - ~ empty");
            assert!(!done && reply.contains("left as it is"), "{reply}");
            // Taken away while it is empty, and made again as it was.
            assert!(apply("blank").0);
            assert_eq!(line(), "blank\n", "{}", shell.name);
            assert!(apply(made.trim_end()).0);
            assert_eq!(line(), made, "{}", shell.name);
            // A label of somebody's with a blank.
            assert!(Command::new("e2label").args([key, "my disk"]).status().unwrap().success());
            let state = FilesystemState::try_from(State::from_line(line().trim_end())).unwrap();
            assert!(matches!(state, FilesystemState::Made { label: Some(label), .. } if label == "my disk"));
            assert!(Command::new("e2label").args([key, "scratch"]).status().unwrap().success());
            // Not while it holds something.
            let wrote = Command::new("debugfs").args(["-w", "-R", "mkdir data", key]).output().unwrap();
            assert!(wrote.status.success());
            assert_eq!(line(), made.replace("empty", "used"), "{}", shell.name);
            let (done, reply) = apply("blank");
            assert!(!done && reply.contains("it holds data"), "{reply}");
            assert_eq!(line(), made.replace("empty", "used"));
            // A partition table is nothing to write over: the signature of an MBR with one partition.
            blank();
            let mut table = vec![0; 512];
            table[446..462].copy_from_slice(&[0, 32, 33, 0, 131, 1, 1, 1, 0, 8, 0, 0, 0, 8, 0, 0]);
            table[510..].copy_from_slice(&[0x55, 0xaa]);
            std::fs::write(&disk, [table, vec![0; 4 << 20]].concat()).unwrap();
            let other = FilesystemState::Other { what: "a partition table (dos)".to_owned() };
            assert_eq!(line().trim_end(), State::from(other).line(), "{}", shell.name);
            assert!(!apply("fs ext4 - ~ empty").0);
            // Nothing can be said of an empty file.
            std::fs::write(&disk, "").unwrap();
            assert!(!shell.run(root.path(), "cv_line_filesystem \"$1\"", &[key], b"").status.success());
        }
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for line in ["absent", "blank", "fs ext4 - ~ empty", "fs xfs scratch 12-ab used", "other LVM2_member"]
        {
            let state = FilesystemState::try_from(State::from_line(line)).unwrap();
            assert_eq!(State::from(state).line(), line);
        }
        for bad in ["fs ext4", "fs ext4 - ~ full", "other", "made"] {
            assert!(FilesystemState::try_from(State::from_line(bad)).is_err(), "{bad}");
        }
    }
}
