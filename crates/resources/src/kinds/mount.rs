//! `mount`

use crate::above::{need_parent, need_root_only};
use crate::fstab::{self, FSTAB, Which};
use crate::kinds::kernel_module::yes;
use crate::look::{Asks, check_path, kernel_may_change, normal, path, path_id, state};
use crate::names::Names;
use crate::presence::Presence;
use converge_objects::{FilesystemState, MountState, PathState, is_container};
use converge_resource::{
    Claim, ObjectId, ParamError, Probe, Resource, State, Stop, View, WantedStates, quote,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// The work on the source of a bind mount, for a refusal.
const TAKING: &str = "taking something to be mounted";

const REMEDY: &str = "choose a place where only root may write";

/// A file system at a path: mounted now, and at boot by its line in `/etc/fstab`.
///
/// The mount point is made where it is missing, and taken away again by a rollback. Another device is mounted in place of the
/// present one, changed options are a remount. Of the options the kernel's own view decides: `ro`, `nosuid`, `nodev`, `noexec`, `noatime`,
/// `nodiratime`, `sync` and `dirsync` are exact in both directions, `name=value` where the kernel shows the name; what it does not show
/// (`nofail`, `_netdev`, `x-…`) counts from the next mount. Files below the mount point are looked at again after it.
/// A directory that lies in another bind mount is shown, and mounted, as the directory that this one shows, as the kernel does; its line keeps the `source` that is written.
///
/// tmpfs and bind mounts are proved on real hosts. Disks and NFS are data for the same `mount`: there is no second disk and no NFS in the test hosts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The mount point.
    path: String,
    /// The source: a device, `UUID=…`, `LABEL=…`, `server:/export`, a directory for `bind`, or `tmpfs`.
    source: Option<String>,
    /// The type: `ext4`, `nfs`, `tmpfs`, `bind` for a directory that is shown once more.
    #[serde(default = "any_type")]
    fstype: String,
    /// Options, as one text with commas or as a list.
    #[serde(default)]
    options: Names,
    /// Whether it is mounted.
    #[serde(default)]
    state: Presence,
    /// Mount or unmount it now. With `false` only `/etc/fstab` says so.
    #[serde(default = "yes")]
    now: bool,
    /// Have the line in `/etc/fstab`.
    #[serde(default = "yes")]
    boot: bool,
    /// The fifth field of the line: whether `dump` saves it.
    #[serde(default)]
    dump: u8,
    /// The sixth field: when `fsck` checks it; 0 is never, 1 the root, 2 the others.
    #[serde(default)]
    pass: u8,
}

fn any_type() -> String {
    "auto".to_owned()
}

/// Flags that the kernel always shows, and their opposites.
const FLAGS: &[&str] = &["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "sync", "dirsync"];

/// `UUID=…` and the like, which name a device by its content.
fn is_tag(source: &str) -> bool {
    ["UUID=", "LABEL=", "PARTUUID=", "PARTLABEL="].iter().any(|t| source.starts_with(t))
}

/// A size or a mode in the kernel's spelling.
fn value(name: &str, text: &str) -> String {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return text.to_owned(),
    };
    match (name, digits.parse::<u128>()) {
        ("size", Ok(n)) => (n << shift).to_string(),
        ("mode" | "uid" | "gid", Ok(n)) if unit.is_empty() => n.to_string(),
        _ => text.to_owned(),
    }
}

/// Whether a mount with these options, as the kernel shows them, is what these written options ask for. An option with a value that is not shown has the
/// kernel's own; a tmpfs always shows a size that it was given.
fn satisfied(fstype: &str, shown: &str, written: &[&str]) -> bool {
    let shown: Vec<&str> = shown.split(',').collect();
    // mount(8): `user` and `users` imply three flags, which may be taken back.
    let user = written.iter().any(|w| matches!(*w, "user" | "users" | "owner" | "group"));
    let implied = |flag: &str| match flag {
        "noexec" => user && !written.contains(&"exec"),
        "nosuid" => user && !written.contains(&"suid"),
        "nodev" => user && !written.contains(&"dev"),
        _ => false,
    };
    FLAGS.iter().all(|flag| shown.contains(flag) == (written.contains(flag) || implied(flag)))
        && written.iter().filter_map(|w| w.split_once('=')).all(|(name, wanted)| {
            let now = shown.iter().filter_map(|s| s.split_once('=')).find(|(n, _)| *n == name);
            let is_default = !(fstype == "tmpfs" && name == "size") || wanted.trim_end_matches('%') == "0";
            now.map_or(is_default, |(_, now)| {
                value(name, now) == value(name, wanted) || wanted.ends_with('%')
            })
        })
}

impl Mount {
    fn at(&self) -> String {
        normal(&self.path)
    }

    fn id(&self) -> ObjectId {
        ObjectId::new("mount", self.at())
    }

    fn source(&self) -> &str {
        self.source.as_deref().unwrap_or(if self.fstype == "tmpfs" { "tmpfs" } else { "none" })
    }

    fn options(&self) -> Vec<&str> {
        self.options.0.iter().flat_map(|o| o.split(',')).map(str::trim).filter(|o| !o.is_empty()).collect()
    }

    fn is_bind(&self) -> bool {
        self.fstype == "bind" || self.options().iter().any(|o| matches!(*o, "bind" | "rbind"))
    }

    /// The options of the mount itself: `bind` is how, not what.
    fn own_options(&self) -> Vec<&str> {
        self.options().into_iter().filter(|o| !matches!(*o, "bind" | "rbind" | "defaults")).collect()
    }

    fn entry(&self) -> Vec<String> {
        let mut options = self.own_options();
        if self.is_bind() {
            options.insert(0, "bind");
        }
        if options.is_empty() {
            options.push("defaults");
        }
        let fstype = if self.is_bind() { "none" } else { &self.fstype };
        let numbers = [self.dump.to_string(), self.pass.to_string()];
        [self.source(), &self.at(), fstype, &options.join(","), &numbers[0], &numbers[1]]
            .map(str::to_owned)
            .to_vec()
    }

    /// The device that a tag or a link names, on the host.
    fn probe(&self) -> Probe {
        let source = quote(self.source());
        Probe::run(if is_tag(self.source()) {
            format!("PATH=$PATH:/usr/sbin:/sbin; findfs -- {source}")
        } else {
            format!("readlink -f -- {source}")
        })
    }

    /// Whether the mounted source is the declared one.
    fn is_source(&self, view: &dyn View, shown: &str) -> Result<bool, Stop> {
        let source = self.source();
        if shown == source || (!source.starts_with('/') && !is_tag(source)) {
            return Ok(shown == source || self.fstype == "tmpfs");
        }
        let device = view.run(&self.probe())?.stdout;
        Ok(device.trim() == shown)
    }

    /// Whether an earlier resource makes the file system that the source names by its label.
    fn is_made_before(&self, view: &dyn View) -> bool {
        let is_it = |state: State| {
            let made = FilesystemState::try_from(state);
            matches!(made, Ok(FilesystemState::Made { label, .. }) if label.as_deref() == self.source().strip_prefix("LABEL="))
        };
        self.source().starts_with("LABEL=")
            && view.determined("filesystem").into_iter().any(|(_, state)| is_it(state))
    }

    /// Checks that the source exists, or may exist when the resource's turn comes.
    fn need_source(&self, view: &dyn View) -> Result<(), Stop> {
        let source = self.source();
        let gone = |what: String| match kernel_may_change(view) {
            Some(wait) => Err(Stop::Deferred(wait)),
            None => Err(Stop::invalid_help("/source", what, "correct it, or make it in a resource before")),
        };
        if is_tag(source) {
            if self.is_made_before(view) {
                return Ok(());
            }
            return match view.run(&self.probe())?.status {
                0 => Ok(()),
                _ => gone(format!("no device has {source}")),
            };
        }
        if !source.starts_with('/') {
            return Ok(());
        }
        match path(view, source)? {
            PathState::Absent if view.may_appear(&path_id(source)).is_none() => {
                gone(format!("{source} does not exist"))
            }
            PathState::File { .. } if self.is_bind() => {
                Err(Stop::invalid("/source", format!("{source} is a file: only directories are bound")))
            }
            _ => Ok(()),
        }
    }

    /// Whether something that is in memory only goes when the present mount gives way to this state.
    fn takes_from_memory(&self, view: &dyn View, to: &MountState) -> Result<bool, Stop> {
        let now = state::<MountState>(view, &self.id())?;
        if to.is_remount_of(&now) || !is_container(&self.id(), &now.into()) {
            return Ok(false);
        }
        let listed = view.run(&Probe::run(format!("ls -A -- {}", quote(&self.at()))))?;
        Ok(!listed.stdout.trim().is_empty())
    }

    /// The directory of a bind mount as the kernel shows it. One that lies in another bind mount is a part of what that one shows.
    fn bound(&self, view: &dyn View) -> Result<Option<String>, Stop> {
        if !self.is_bind() {
            return Ok(None);
        }
        let source = normal(self.source());
        let above = source.rmatch_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
        let places = std::iter::once(source.len()).chain(above).filter_map(|at| source.split_at_checked(at));
        match need_root_only(view, "/source", &source, TAKING, REMEDY) {
            // It is refused where it is not mounted so already.
            Err(Stop::Invalid { .. }) => return Ok(Some(source)),
            safe => safe?,
        }
        let mut asks = Asks::default();
        let mut mounts = Vec::new();
        for (place, rest) in places.filter(|(place, _)| *place != self.at()) {
            let found = asks.take(state::<MountState>(view, &ObjectId::new("mount", place)))?;
            mounts.extend(found.map(|found| (found, rest)));
        }
        asks.finish()?;
        // The lowest mount is the one in which the directory lies.
        let mount = mounts.into_iter().find(|(found, _)| *found != MountState::Absent);
        Ok(Some(match mount {
            Some((MountState::Mount { bind: Some(shown), .. }, rest)) => normal(&format!("{shown}{rest}")),
            _ => source,
        }))
    }

    fn unmounted(&self, view: &dyn View) -> Result<MountState, Stop> {
        if state::<MountState>(view, &self.id())? != MountState::Absent {
            need_root_only(view, "/path", &self.at(), "unmounting", REMEDY)?;
        }
        Ok(MountState::Absent)
    }

    fn mounted(&self, view: &dyn View) -> Result<MountState, Stop> {
        let now = state::<MountState>(view, &self.id())?;
        let options = self.own_options();
        let wanted = |source: String, fstype: String, bind: Option<String>| MountState::Mount {
            source,
            fstype,
            options: if options.is_empty() { "defaults".to_owned() } else { options.join(",") },
            bind,
        };
        let bind = self.bound(view)?;
        if let MountState::Mount { source, fstype, options: shown, bind: shown_bind } = &now {
            let typed =
                self.fstype == "auto" || *fstype == self.fstype || *fstype == format!("{}4", self.fstype);
            let same = match &bind {
                Some(_) => *shown_bind == bind,
                None => typed && self.is_source(view, source)?,
            };
            if same && (*shown == options.join(",") || satisfied(fstype, shown, &options)) {
                return Ok(now);
            }
            if same {
                need_root_only(view, "/path", &self.at(), "mounting", REMEDY)?;
                return Ok(wanted(source.clone(), fstype.clone(), shown_bind.clone()));
            }
        }
        let below = format!("{}/", self.at());
        let hidden = view
            .determined("path")
            .into_iter()
            .find(|(id, state)| id.key.starts_with(&below) && !state.is_absent());
        if let Some((id, _)) = hidden {
            return Err(Stop::invalid_help(
                "/path",
                format!("an earlier resource manages {}, which this mount hides", id.key),
                "put the mount before the resources that make what lies in it",
            ));
        }
        self.need_source(view)?;
        let mut asks = Asks::default();
        if self.source().starts_with('/') {
            let source = normal(self.source());
            asks.take(need_root_only(view, "/source", &source, TAKING, REMEDY))?;
        }
        asks.take(need_root_only(view, "/path", &self.at(), "mounting", REMEDY))?;
        let there = asks.take(path(view, &self.path))?;
        asks.finish()?;
        match there {
            None | Some(PathState::Dir { .. } | PathState::Link { .. }) => {}
            Some(PathState::Absent) => need_parent(view, "/path", &self.path)?,
            Some(_) => return Err(Stop::invalid("/path", format!("{} is not a directory", self.path))),
        }
        let fstype = if self.is_bind() { "none" } else { &self.fstype };
        Ok(wanted(self.source().to_owned(), fstype.to_owned(), bind))
    }
}

impl Resource for Mount {
    const KIND: &'static str = "mount";
    const EXAMPLE: &'static str = "\
- name: models
  mount: {path: /srv/models, source: \"nas:/models\", fstype: nfs, options: [ro, hard, _netdev]}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if self.at() == "/" && self.state == Presence::Absent {
            wrong("/path", "the root cannot be unmounted", "name another mount point");
        }
        match &self.source {
            None if self.state == Presence::Present && self.fstype != "tmpfs" => {
                wrong("", "nothing says what is mounted", "add `source: DEVICE`");
            }
            Some(s) if s.is_empty() || s.starts_with('-') || s.chars().any(char::is_control) => {
                wrong("/source", "this is no device, share or directory", "write a device, as `UUID=…`");
            }
            Some(s) if self.is_bind() && !s.starts_with('/') => {
                wrong("/source", "a bind mount shows a directory", "write its absolute path");
            }
            _ => {}
        }
        let good = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        if self.fstype.is_empty() || self.fstype.starts_with('-') || !self.fstype.bytes().all(good) {
            wrong("/fstype", "this is no type of file system", "write it as `mount -t` takes it, as `ext4`");
        }
        if self.options().iter().any(|o| o.chars().any(|c| c.is_control() || c == ' ')) {
            wrong("/options", "an option has a blank in it", "separate options with commas");
        }
        if self.options().contains(&"remount") {
            wrong(
                "/options",
                "`remount` is no option to keep",
                "leave it out: changed options are a remount",
            );
        }
        if !self.now && !self.boot {
            wrong("", "with `now: false` and `boot: false` nothing is left to do", "leave one of them out");
        }
        if self.dump > 1 || self.pass > 2 {
            wrong(
                if self.dump > 1 { "/dump" } else { "/pass" },
                "the number is out of range",
                "write 0, 1 or 2",
            );
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        if self.now {
            claims.push(Claim::exclusive(self.id(), "mount"));
            if self.state == Presence::Present {
                claims.push(Claim::edit(path_id(&self.path), "may-create"));
            }
        }
        claims.push(Claim::edit(path_id(FSTAB), "content"));
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let here = self.state == Presence::Present;
        let entry = self.entry();
        let mut wanted = if self.boot {
            fstab::plan(view, Which::MountPoint(&self.path), here.then_some(entry.as_slice()))?
        } else {
            WantedStates::default()
        };
        if self.now {
            let to = if here { self.mounted(view)? } else { self.unmounted(view)? };
            if self.takes_from_memory(view, &to)? {
                wanted.irreversible.push((self.id(), "what it holds in memory goes with it".to_owned()));
            }
            let mount = (self.id(), to.into());
            // systemd knows the line before the mount comes, and until it has gone.
            wanted.targets.insert(if here { wanted.targets.len() } else { 0 }, mount);
        }
        Ok(wanted)
    }
}

#[cfg(test)]
#[path = "mount_tests.rs"]
mod tests;
