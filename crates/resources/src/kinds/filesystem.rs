//! `filesystem`

use crate::above::need_root_only;
use crate::look::{check_path, kernel_may_change, normal, path_id, program_may_come, state};
use converge_objects::FilesystemState;
use converge_resource::{Claim, ObjectId, ParamError, Probe, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// A file system on a disk, a partition or a volume that has none yet.
///
/// It is only ever made on what blkid finds nothing on. A file system of the declared type that is there stays as it is, with all that it holds;
/// anything else (another type or label, a partition table, a part of a volume group, swap) is an error in the plan that says what is there. Sizes
/// and labels of what is there are not changed.
///
/// A rollback takes the file system away while it is empty and not mounted. As soon as it holds something it counts as changed
/// since: the rollback names it and leaves it. Name a disk by one path in all roles, best by one that stays: `/dev/disk/by-id/…`.
/// The `mount` comes after it.
///
/// ext4 is proved on files that stand for disks: the test hosts are containers, without disks of their own. ext4 and xfs were tried by hand on block devices.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// The disk: a block device, or a file of the disk's size.
    device: String,
    /// Its type.
    fstype: FilesystemType,
    /// Its label: letters, digits, `.`, `_` and `-`. Left out, it has none, and one that is there does not matter.
    label: Option<String>,
}

/// A type of file system.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum FilesystemType {
    Ext2,
    Ext3,
    Ext4,
    Xfs,
}

impl FilesystemType {
    fn word(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// The package that has its mkfs, under the name that Debian and RHEL give it.
    fn package(self) -> &'static str {
        if self == Self::Xfs { "xfsprogs" } else { "e2fsprogs" }
    }

    /// The most bytes of a label.
    fn longest_label(self) -> usize {
        if self == Self::Xfs { 12 } else { 16 }
    }
}

const REMEDY: &str = "name the disk by a path that only root may change";

impl Filesystem {
    fn id(&self) -> ObjectId {
        ObjectId::new("filesystem", normal(&self.device))
    }

    /// Stops unless the program that makes it is there, or may come before its turn.
    fn need_program(&self, view: &dyn View) -> Result<(), Stop> {
        let program = format!("mkfs.{}", self.fstype.word());
        let asked = Probe::run(format!("PATH=$PATH:/usr/sbin:/sbin; command -v {program}"));
        if view.run(&asked)?.status == 0 || program_may_come(view, &[&program]).is_some() {
            return Ok(());
        }
        let help =
            format!("bring it in a resource before: `package: {{names: [{}]}}`", self.fstype.package());
        Err(Stop::invalid_help("/fstype", format!("this host has no {program}"), help))
    }
}

impl Resource for Filesystem {
    const KIND: &'static str = "filesystem";
    const EXAMPLE: &'static str = "\
- name: scratch disk
  filesystem: {device: /dev/disk/by-id/nvme-scratch, fstype: ext4, label: scratch}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/device", &self.device, &mut errors);
        let Some(label) = &self.label else { return errors };
        let good = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let longest = self.fstype.longest_label();
        if label.is_empty() || label.starts_with('-') || !label.bytes().all(good) {
            let help = "write letters, digits, `.`, `_` and `-`, or leave it out";
            errors.push(ParamError::new("/label", "this is no label", help));
        } else if label.len() > longest {
            let message = format!("{} has labels of {longest} characters at most", self.fstype.word());
            errors.push(ParamError::new("/label", message, "write a shorter one"));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        vec![Claim::exclusive(self.id(), "on it")]
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let device = normal(&self.device);
        let wipe = "converge never writes over it: name another disk, or clear this one by hand (`wipefs`)";
        let now = state::<FilesystemState>(view, &self.id())?;
        let to = match &now {
            FilesystemState::Absent => {
                let wait = view.may_appear(&path_id(&device)).or_else(|| kernel_may_change(view));
                return Err(wait.map_or_else(
                    || {
                        let help = "correct it, or make it in a resource before";
                        Stop::invalid_help("/device", format!("{device} does not exist"), help)
                    },
                    Stop::Deferred,
                ));
            }
            FilesystemState::Other { what } => {
                return Err(Stop::invalid_help("/device", format!("{device} holds {what}"), wipe));
            }
            FilesystemState::Made { fstype, .. } if fstype != self.fstype.word() => {
                let message = format!("{device} has a file system of type {fstype}");
                return Err(Stop::invalid_help("/fstype", message, wipe));
            }
            FilesystemState::Made { label, .. } if self.label.is_some() && *label != self.label => {
                let is = label.as_deref().map_or_else(|| "no label".to_owned(), |l| format!("the label {l}"));
                let help =
                    "labels of what is there are not changed: declare the present one, or change it by hand";
                return Err(Stop::invalid_help(
                    "/label",
                    format!("the file system on {device} has {is}"),
                    help,
                ));
            }
            FilesystemState::Made { .. } => now,
            FilesystemState::Blank => {
                need_root_only(view, "/device", &device, "making a file system", REMEDY)?;
                self.need_program(view)?;
                let (fstype, label) = (self.fstype.word().to_owned(), self.label.clone());
                FilesystemState::Made { fstype, label, uuid: None, used: false }
            }
        };
        let mut wanted = WantedStates::default();
        wanted.targets.push((self.id(), to.into()));
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_resource::State;
    use serde_json::json;

    fn scratch() -> Filesystem {
        read::<Filesystem>(json!({"device": "/dev//sdb", "fstype": "ext4", "label": "scratch"}))
    }

    fn host(line: &str) -> FakeView {
        let asked = Probe::run("PATH=$PATH:/usr/sbin:/sbin; command -v mkfs.ext4");
        FakeView::new().dir("/dev").has(scratch().id(), State::from_line(line)).answer(
            &asked,
            0,
            "/sbin/mkfs.ext4\n",
        )
    }

    fn refused(view: &FakeView) -> (String, String) {
        match scratch().plan(view) {
            Err(Stop::Invalid { pointer, message, .. }) => (pointer, message),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_blank_disk_gets_one_and_a_made_one_stays() {
        let after = settle(&scratch(), host("blank"));
        assert_eq!(after.line(&scratch().id()), "fs ext4 scratch ~ empty");
        let made = "fs ext4 scratch 1-2 used";
        assert_eq!(settle(&scratch(), host(made)).line(&scratch().id()), made);
        let any = read::<Filesystem>(json!({"device": "/dev/sdb", "fstype": "ext4"}));
        assert_eq!(settle(&any, host(made)).line(&any.id()), made);
    }

    #[test]
    fn nothing_is_written_over() {
        assert_eq!(refused(&host("other LVM2_member")).1, "/dev/sdb holds LVM2_member");
        assert_eq!(refused(&host("fs xfs scratch 1-2 used")).0, "/fstype");
        assert_eq!(
            refused(&host("fs ext4 old 1-2 empty")),
            ("/label".into(), "the file system on /dev/sdb has the label old".into())
        );
        assert_eq!(refused(&host("absent")), ("/device".into(), "/dev/sdb does not exist".into()));
        assert!(matches!(scratch().plan(&host("absent").may(path_id("/dev/sdb"))), Err(Stop::Deferred(_))));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Filesystem>(json!({"device": "sdb", "fstype": "ext4"})), ["/device"]);
        assert_eq!(wrong::<Filesystem>(json!({"device": "/d", "fstype": "ntfs"})), ["parse /fstype"]);
        for label in ["", "a b", "-L", "thirteen-long"] {
            let params = json!({"device": "/d", "fstype": "xfs", "label": label});
            assert_eq!(wrong::<Filesystem>(params), ["/label"], "{label}");
        }
    }
}
