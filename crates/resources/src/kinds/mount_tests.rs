use super::*;
use crate::fake::{FakeView, read, settle, wrong};
use serde_json::json;

fn host() -> FakeView {
    FakeView::new().dir("/mnt").file(FSTAB, 0o644, "UUID=1 / ext4 defaults 0 1\n")
}

fn observed(kind: &Mount, line: &str) -> FakeView {
    host().has(kind.id(), State::from_line(line))
}

/// Of a directory that is there the host says so when it looks.
#[test]
fn nothing_is_mounted_in_a_users_directory() {
    let kind = read::<Mount>(json!({"path": "/mnt/u/fast", "fstype": "tmpfs", "boot": false}));
    let dir = PathState::Dir { mode: 0o755, owner: "alice".into(), group: "alice".into() };
    let there = host().has(path_id("/mnt/u"), dir);
    let Err(Stop::Invalid { pointer, message, .. }) = kind.plan(&there) else { panic!("it is mounted") };
    assert_eq!(pointer, "/path");
    assert!(message.starts_with("/mnt/u/fast: others than root may write to /mnt/u, where mounting"));
}

#[test]
fn it_is_mounted_now_and_at_boot() {
    let kind =
        read::<Mount>(json!({"path": "/mnt/fast", "fstype": "tmpfs", "options": ["size=16M", "mode=0755"]}));
    let after = settle(&kind, host());
    assert_eq!(after.line(&kind.id()), "mount tmpfs tmpfs size=16M,mode=0755 -");
    assert!(after.text(FSTAB).ends_with("0 1\ntmpfs /mnt/fast tmpfs size=16M,mode=0755 0 0\n"));
    let shown = "mount tmpfs tmpfs rw,relatime,size=16384k,mode=755 -";
    assert_eq!(settle(&kind, observed(&kind, shown)).line(&kind.id()), shown);
    // Drift of the options leads to a remount.
    let drifted = "mount tmpfs tmpfs rw,noexec,relatime,size=16384k,mode=755 -";
    assert_ne!(settle(&kind, observed(&kind, drifted)).line(&kind.id()), drifted);
    let gone = read::<Mount>(json!({"path": "/mnt/fast", "state": "absent"}));
    let after = settle(&gone, after.answer(&Probe::run("ls -A -- /mnt/fast"), 0, ""));
    assert_eq!(after.line(&kind.id()), "absent");
    assert_eq!(after.text(FSTAB), "UUID=1 / ext4 defaults 0 1\n");
}

#[test]
fn a_tag_is_the_device_that_has_it() {
    let kind =
        read::<Mount>(json!({"path": "/mnt/d", "source": "UUID=9", "fstype": "ext4", "options": "noatime"}));
    let view = |line: &str| observed(&kind, line).answer(&kind.probe(), 0, "/dev/sdb1\n");
    let right = "mount /dev/sdb1 ext4 rw,noatime -";
    assert_eq!(settle(&kind, view(right)).line(&kind.id()), right);
    let wanted = "mount UUID=9 ext4 noatime -";
    assert_eq!(kind.plan(&view("mount /dev/sdc1 ext4 rw,noatime -")).unwrap().targets[1].1.line(), wanted);
    let missing = host().answer(&kind.probe(), 1, "");
    assert!(matches!(kind.plan(&missing), Err(Stop::Invalid { pointer, .. }) if pointer == "/source"));
    let text = missing.clone().acts(path_id("/etc/x"), false);
    assert!(matches!(kind.plan(&text), Err(Stop::Invalid { .. })), "a text file brings no device");
    let module = ObjectId::new("module", "brd");
    assert!(matches!(kind.plan(&missing.acts(module, false)), Err(Stop::Deferred(_))));
}

#[test]
fn a_bind_shows_a_directory_once_more() {
    for params in [
        json!({"path": "/mnt/b", "source": "/srv/b", "fstype": "bind", "options": "ro"}),
        json!({"path": "/mnt/b", "source": "/srv/b", "fstype": "none", "options": "bind,ro"}),
    ] {
        let kind = read::<Mount>(params);
        let view = || host().dir("/srv").dir("/srv/b");
        let after = settle(&kind, view());
        assert_eq!(after.line(&kind.id()), "mount /srv/b none ro /srv/b");
        assert!(after.text(FSTAB).ends_with("/srv/b /mnt/b none bind,ro 0 0\n"));
        let shown = "mount /dev/sda1 ext4 ro,relatime /srv/b";
        assert_eq!(settle(&kind, view().has(kind.id(), State::from_line(shown))).line(&kind.id()), shown);
        assert!(matches!(kind.plan(&host()), Err(Stop::Invalid { .. })));
    }
}

#[test]
fn a_directory_in_a_bind_mount_is_bound_as_the_kernel_shows_it() {
    let bind = |source: &str| read::<Mount>(json!({"path": "/mnt/c", "source": source, "fstype": "bind"}));
    let view = || {
        let mounted = |path: &str, line: &str| (ObjectId::new("mount", path), State::from_line(line));
        let (b, shown) = mounted("/srv/b", "mount /dev/sda1 ext4 rw /srv/src");
        let (t, own) = mounted("/srv/b/t", "mount tmpfs tmpfs rw -");
        let dirs = ["/srv", "/srv/b", "/srv/b/d", "/srv/b/t", "/srv/b/t/d"];
        dirs.into_iter().fold(host(), |view, dir| view.dir(dir)).has(b, shown).has(t, own)
    };
    for (source, shown) in
        [("/srv/b", "/srv/src"), ("/srv/b/d", "/srv/src/d"), ("/srv/b/t/d", "/srv/b/t/d"), ("/srv", "/srv")]
    {
        let kind = bind(source);
        let after = settle(&kind, view());
        assert_eq!(after.line(&kind.id()), format!("mount {source} none defaults {shown}"));
        assert!(after.text(FSTAB).ends_with(&format!("{source} /mnt/c none bind 0 0\n")));
    }
    // Mounted, it is as declared.
    let kind = bind("/srv/b");
    let there = "mount /dev/sda1 ext4 rw,relatime /srv/src";
    assert_eq!(settle(&kind, view().has(kind.id(), State::from_line(there))).line(&kind.id()), there);
}

#[test]
fn a_file_system_in_memory_that_holds_something_cannot_come_back() {
    let other = read::<Mount>(json!({"path": "/mnt/m", "source": "/srv", "fstype": "bind", "boot": false}));
    let gone = read::<Mount>(json!({"path": "/mnt/m", "state": "absent", "boot": false}));
    let smaller =
        read::<Mount>(json!({"path": "/mnt/m", "fstype": "tmpfs", "options": "size=1m", "boot": false}));
    let listed = Probe::run("ls -A -- /mnt/m");
    for (kind, holds, lost) in [
        (&other, "data\n", 1),
        (&gone, "data\n", 1),
        (&other, "", 0),
        (&gone, "", 0),
        (&smaller, "data\n", 0),
    ] {
        let view = observed(kind, "mount tmpfs tmpfs rw,size=2m -").dir("/srv").answer(&listed, 0, holds);
        assert_eq!(kind.plan(&view).unwrap().irreversible.len(), lost, "{kind:?} {holds:?}");
    }
}

#[test]
fn options_are_compared_as_the_kernel_shows_them() {
    for (shown, written, same) in [
        ("rw,relatime", "", true),
        ("ro,relatime", "", false),
        ("rw,nosuid,nodev,noexec,relatime", "user", true),
        ("rw,relatime,vers=4.2,addr=10.0.0.1", "vers=4.2,hard,nofail,x-systemd.requires=a", true),
        ("rw,relatime,size=1048576k", "size=1g", true),
        ("rw,relatime,size=1048576k", "size=50%", true),
        ("rw,relatime,size=1048576k", "size=2G", false),
        ("rw,relatime", "size=1m", false),
        ("rw,relatime", "size=0", true),
        ("rw,relatime", "nr_inodes=9", true),
        ("rw,noatime,mode=1777", "noatime,mode=01777", true),
    ] {
        let written: Vec<&str> = written.split(',').filter(|o| !o.is_empty()).collect();
        assert_eq!(satisfied("tmpfs", shown, &written), same, "{shown}: {written:?}");
    }
}

#[test]
fn only_the_line_or_only_the_mount() {
    let line = read::<Mount>(json!({"path": "/mnt/x", "source": "s:/e", "fstype": "nfs", "now": false}));
    assert_eq!(settle(&line, host()).line(&line.id()), "absent");
    let now = read::<Mount>(json!({"path": "/mnt/x", "source": "s:/e", "fstype": "nfs", "boot": false}));
    assert_eq!(settle(&now, host()).text(FSTAB), "UUID=1 / ext4 defaults 0 1\n");
    let shown = "mount s:/e nfs4 rw,relatime,vers=4.2 -";
    assert_eq!(settle(&now, observed(&now, shown)).line(&now.id()), shown);
}

#[test]
fn wrong_parameters_are_named() {
    assert_eq!(wrong::<Mount>(json!({"path": "x"})), ["/path", ""]);
    assert_eq!(
        wrong::<Mount>(json!({"path": "/x", "source": "-a", "fstype": "a b"})),
        ["/source", "/fstype"]
    );
    assert_eq!(wrong::<Mount>(json!({"path": "/x", "source": "a", "fstype": "bind"})), ["/source"]);
    assert_eq!(
        wrong::<Mount>(json!({"path": "/", "state": "absent", "options": "remount"})),
        ["/path", "/options"]
    );
    assert_eq!(wrong::<Mount>(json!({"path": "/x", "source": "a", "now": false, "boot": false})), [""]);
}
