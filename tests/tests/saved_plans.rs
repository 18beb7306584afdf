//! A saved plan is applied as it was shown, whatever clock and random numbers would yield by then.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_tests::World;

const ROLE: &str = "
resources:
  - name: time and chance
    file:
      path: /etc/moment
      content: |
        made {{ now(utc=true, fmt='%H:%M:%S.%f') }}
        number {{ 1000000000 | random }}
        order {{ range(20) | list | shuffle | join(' ') }}
";

/// Items that wait for a query that waits for a command; `{}` is the value that a role may be changed to.
const WAITS: &str = "
inputs:
  word: {type: str, default: plain}
  pw: {type: str, sensitive: true, default: none}
resources:
  - name: made
    command: {run: 'echo one >/etc/q', creates: /etc/q, undo: rm /etc/q}
  - name: q
    query: {run: cat /etc/q}
    register: q
  - name: open
    file: {path: /etc/open, content: \"good {{ q.stdout }} {{ word }}\\n\"}
  - name: secret
    file: {path: /etc/secret, content: \"{{ q.stdout }} {{ pw }}\\n\"}
";

/// The deferred items of a plan are bound too: by their source, and by their inputs, secret ones included.
fn deferred_items_are_bound(world: &World) {
    let host = &world.hosts()[0];
    let there = |name: &str| host.exec(&format!("cat /etc/{name} 2>/dev/null")).unwrap().stdout;
    let plan = |more: &[&str]| {
        host.exec("rm -f /etc/q /etc/open /etc/secret").unwrap();
        world.only_role("waits", WAITS).unwrap();
        let args: Vec<&str> =
            ["plan", "hosts.yaml", "--out", "waits.plan"].iter().chain(more).copied().collect();
        world.converge(&args).unwrap().expect(2);
        std::fs::read_to_string(world.dir().join("waits.plan")).unwrap()
    };
    let apply = || world.converge(&["apply", "waits.plan", "--yes"]).unwrap();
    let other = "has changed since the plan was made";
    plan(&[]);
    let ran = apply().expect(0);
    assert!(!ran.all().contains(other), "{}", ran.all());
    assert_eq!(there("open").trim(), "good one plain");
    // Another role: only what it changes is refused.
    for (was, is) in
        [("good {{", "evil {{"), ("path: /etc/open, ", "path: /etc/open, mode: '4777', owner: nobody, ")]
    {
        plan(&[]);
        world.only_role("waits", &WAITS.replacen(was, is, 1)).unwrap();
        let ran = apply();
        assert!(
            ran.code != Some(0) && ran.all().contains(other) && ran.all().contains("waits/open"),
            "{}",
            ran.all()
        );
        assert_eq!(there("open"), "", "{is}");
    }
    // Another value, and another secret.
    world.write("pw", "hunter2").unwrap();
    let saved = plan(&["--set", "pw=@pw"]);
    assert!(!saved.contains("hunter2"), "a saved plan holds no secret");
    world.write("pw", "hunter3").unwrap();
    let ran = apply();
    assert!(
        ran.code != Some(0) && ran.all().contains(other) && ran.all().contains("waits/secret"),
        "{}",
        ran.all()
    );
    assert_eq!((there("secret").as_str(), there("open").trim()), ("", "good one plain"));
    plan(&["--set", "word=a"]);
    let path = world.dir().join("waits.plan");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("word=a"), "{text}");
    std::fs::write(&path, text.replace("word=a", "word=b")).unwrap();
    let ran = apply();
    assert!(ran.code != Some(0) && ran.all().contains("waits/open"), "{}", ran.all());
    assert_eq!(there("open"), "");
    // A host that goes by another name since is not a host of the plan.
    plan(&[]);
    let inventory = std::fs::read_to_string(world.dir().join("hosts.yaml")).unwrap();
    world.write("hosts.yaml", &inventory.replace("h1:", "h9:")).unwrap();
    apply().expect(4).says("does not have: h1");
    world.write("hosts.yaml", &inventory).unwrap();
}

/// A mount, a mask and a hold that somebody has made since the plan.
fn what_others_have_done_since_is_refused_by_name(world: &World) {
    let host = &world.hosts()[0];
    let role = "resources:
  - name: mount
    mount: {path: /srv/m, fstype: tmpfs, options: 'size=8m,mode=0755'}
";
    let plan = |role: &str| {
        world.only_role("since", role).unwrap();
        world.converge(&["plan", "hosts.yaml", "--out", "since.plan"]).unwrap().expect(2);
    };
    let apply = || world.converge(&["apply", "since.plan", "--yes"]).unwrap();
    for by_hand in [
        // The very mount, another file system, and the whole of it with its line.
        "mount -t tmpfs -o size=8m,mode=0755 tmpfs /srv/m",
        "mount -t ramfs ramfs /srv/m",
        "echo 'tmpfs /srv/m tmpfs size=8m,mode=0755 0 0' >>/etc/fstab; mount /srv/m",
    ] {
        host.exec("mkdir -p /srv/m").unwrap();
        plan(role);
        host.exec(by_hand).unwrap();
        let before = host.exec("cat /etc/fstab; findmnt -n /srv/m").unwrap().stdout;
        let ran =
            apply().expect(4).says("mount · mount: refused").says("mount:/srv/m changed since the plan");
        assert!(!ran.all().contains("changes more than is needed"), "{}", ran.all());
        assert_eq!(host.exec("cat /etc/fstab; findmnt -n /srv/m").unwrap().stdout, before, "{by_hand}");
        host.exec("umount /srv/m; sed -i '\\|/srv/m|d' /etc/fstab").unwrap();
    }
    host.exec("printf '[Service]\\nExecStart=/bin/sleep infinity\\n' >/usr/lib/systemd/system/since.service; systemctl daemon-reload")
        .unwrap();
    plan("resources:\n  - name: unit\n    service: {name: since, state: started}\n");
    host.exec("systemctl mask since").unwrap();
    let ran = apply().expect(4).says("unit:since.service changed since the plan").says("masked");
    assert!(!ran.all().contains("nothing is left to change"), "{}", ran.all());
    host.exec("DEBIAN_FRONTEND=noninteractive apt-get -qq install -y cowsay").unwrap();
    plan("resources:\n  - name: package\n    package: {name: cowsay, state: absent}\n");
    host.exec("apt-mark hold cowsay").unwrap();
    let ran = apply().expect(4).says("package:cowsay changed since the plan").says("Held packages");
    assert!(!ran.all().contains("nothing is left to change"), "{}", ran.all());
    host.exec("apt-mark unhold cowsay; systemctl unmask since").unwrap();
}

#[test]
fn time_and_chance_are_those_of_the_plan() {
    let world = World::new("words-moment", 1).unwrap();
    world.only_role("moment", ROLE).unwrap();
    let shown = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix('+'));
        let own = ["made ", "number ", "order "];
        lines.filter(|line| own.iter().any(|o| line.starts_with(o))).map(str::to_owned).collect()
    };
    let retained = world.converge(&["plan", "hosts.yaml", "--out", "kept.plan"]).unwrap().expect(2);
    let other = world.converge(&["plan", "hosts.yaml"]).unwrap().expect(2);
    assert_eq!(shown(&retained.stdout).len(), 3, "{}", retained.stdout);
    for (one, two) in shown(&retained.stdout).iter().zip(shown(&other.stdout)) {
        assert_ne!(*one, two, "two runs say the same");
    }
    let applied = world.converge(&["apply", "kept.plan", "--yes"]).unwrap().expect(0);
    assert!(!applied.all().contains("refused"), "{}", applied.all());
    let there = world.hosts()[0].exec("cat /etc/moment").unwrap();
    assert_eq!(there.stdout.lines().collect::<Vec<_>>(), shown(&retained.stdout));
    // Of another version: the file says so, and nothing is applied.
    let path = world.dir().join("kept.plan");
    let text = std::fs::read_to_string(&path).unwrap().replacen("\"version\":5", "\"version\":2", 1);
    std::fs::write(&path, text).unwrap();
    world
        .converge(&["apply", "kept.plan", "--yes"])
        .unwrap()
        .expect(64)
        .says("version 2")
        .says("older than this converge reads");
    deferred_items_are_bound(&world);
    what_others_have_done_since_is_refused_by_name(&world);
}
