//! Directories and links above what is pruned.

use super::*;

/// Also where the role came to manage the directory after the file, which lies in it under the name of a link.
#[test]
fn a_directory_goes_after_a_file_in_it_that_is_managed_for_longer() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "rm -rf /srv/*");
    playbook(&world, "base");
    let directory = "  - name: directory\n    directory: {path: /srv/d, mode: \"0700\"}\n";
    let made = [
        // By somebody first, and by the role after he has removed it.
        ("mkdir d", "/srv/d"),
        ("mkdir d; ln -s d l", "/srv/l"),
    ];
    for (start, file) in made {
        exec(host, &format!("cd /srv; {start}"));
        let file = format!("  - name: file\n    file: {{path: {file}/x, content: \"x\\n\"}}\n");
        let run = |resources: &str| {
            role(&world, "base", &format!("resources:\n{resources}"));
            converge(&world, &["apply", "--yes", "--limit", "h1", "hosts.yaml"])
        };
        run(&file).expect(0);
        exec(host, "rm -rf /srv/d");
        run(&format!("{directory}{file}")).expect(0);
        role(&world, "base", "resources: []\n");
        converge(&world, &["apply", "--yes", "--prune=2", "--limit", "h1", "hosts.yaml"]).expect(0);
        assert_eq!(exec(host, "ls /srv/d /srv/l/x 2>/dev/null || true"), "");
        converge(&world, &["rollback", "--yes", "--limit", "h1", "hosts.yaml"]).expect(0);
        assert_eq!(exec(host, "cat /srv/d/x"), "x");
        converge(&world, &["rollback", "--yes", "--limit", "h1", "hosts.yaml"]).expect(0);
        assert_eq!(exec(host, "ls /srv/d /srv/l/x 2>/dev/null || true"), "");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

/// A file below a link goes as long as the link leads there; where the run leads it elsewhere, nothing of it is touched.
#[test]
fn a_file_below_a_link_is_pruned_where_the_link_leads_on_and_left_where_it_does_not() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "rm -rf /srv/*");
    playbook(&world, "base");
    let link = "  - name: link\n    link: {path: /srv/l, target: A, force: true}\n";
    let file = "  - name: file\n    file: {path: /srv/l/x, content: \"a\\n\"}\n";
    let others = "  - name: other\n    file: {path: /srv/l/y, content: \"y\\n\"}\n";
    let ends = [
        (link, "A/keep|A/y|B/x"),
        ("  - name: link\n    link: {path: /srv/l, target: B}\n", "A/keep|A/x|B/x|B/y"),
        ("  - name: link\n    directory: {path: /srv/l, force: true}\n", "A/keep|A/x|B/x|l/y"),
    ];
    for (end, left) in ends {
        exec(host, "mkdir /srv/A /srv/B; echo k >/srv/A/keep; echo a >/srv/B/x");
        let look = "cd /srv; find * -type f | sort | paste -sd '|'";
        role(&world, "base", &format!("resources:\n{link}{file}"));
        converge(&world, &["apply", "--yes", "--limit", "h1", "hosts.yaml"]).expect(0);
        let before = exec(host, look);
        role(&world, "base", &format!("resources:\n{end}{others}"));
        let pruned = converge(&world, &["apply", "--yes", "--prune=1", "--limit", "h1", "hosts.yaml"]);
        assert_eq!(exec(host, look), left, "{end} {}", pruned.expect(0).all());
        converge(&world, &["rollback", "--yes", "--limit", "h1", "hosts.yaml"]).expect(0);
        assert_eq!(exec(host, look), before, "{end}");
        exec(host, "rm -rf /srv/* /var/lib/converge");
    }
}

/// A prune brings an adopted file back in the directory of its adoption, and nowhere else.
#[test]
fn an_adopted_file_is_pruned_in_the_directory_of_its_adoption_only() {
    let world = world();
    let host = &world.hosts()[0];
    playbook(&world, "base");
    let declared = |text: &str| {
        let file =
            format!("resources:\n  - name: file\n    file: {{path: /srv/l/x, content: \"{text}\\n\"}}\n");
        role(&world, "base", &file);
    };
    let on_h1 = |args: &[&str]| converge(&world, &[args, &["--yes", "--limit", "h1"]].concat());
    for led_before_the_change in [true, false] {
        exec(
            host,
            "rm -rf /srv/* /var/lib/converge; cd /srv; mkdir A B; ln -s A l; echo mine >A/x; echo theirs >B/x",
        );
        declared("mine");
        on_h1(&["state", "adopt", "hosts.yaml", "base/file"]).expect(0).says("1 object adopted");
        if led_before_the_change {
            exec(host, "ln -sfn B /srv/l");
        }
        declared("new");
        on_h1(&["apply", "hosts.yaml"]).expect(0);
        exec(host, "ln -sfn B /srv/l");
        let before = exec(host, "cat /srv/A/x /srv/B/x");
        role(&world, "base", "resources: []\n");
        on_h1(&["apply", "hosts.yaml", "--prune=1"]).expect(4).says("/srv/A");
        assert_eq!(exec(host, "cat /srv/A/x /srv/B/x"), before);
        if !led_before_the_change {
            exec(host, "ln -sfn A /srv/l");
            on_h1(&["apply", "hosts.yaml", "--prune=1"]).expect(0);
            assert_eq!(exec(host, "cat /srv/A/x /srv/B/x | xargs"), "mine theirs");
        }
    }
}

/// A file below a place at which the same run mounts something else is out of sight when its turn comes: the plan says so, and the rest of the run is made.
#[test]
fn what_a_mount_of_the_same_run_hides_is_refused_in_the_plan() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "umount /srv/m 2>/dev/null; rm -rf /srv/*; mkdir /srv/b; cp /etc/fstab /root/fstab");
    playbook(&world, "base");
    let on_h1 = |args: &[&str]| converge(&world, &[args, &["--limit", "h1", "hosts.yaml"]].concat());
    let directory = "  - name: place\n    directory: {path: /srv/m}\n";
    let memory =
        "  - name: mount\n    mount: {path: /srv/m, source: tmpfs, fstype: tmpfs, options: size=1m}\n";
    let bind = "  - name: mount\n    mount: {path: /srv/m, source: /srv/b, fstype: none, options: bind}\n";
    let inside = "  - name: inside\n    file: {path: /srv/m/in, content: \"in\\n\"}\n";
    for first in [memory, ""] {
        role(&world, "base", &format!("resources:\n{directory}{first}{inside}"));
        on_h1(&["apply", "--yes"]).expect(0);
        role(&world, "base", &format!("resources:\n{directory}{bind}"));
        let why = "the plan changes what is mounted at /srv/m first";
        on_h1(&["plan", "--prune"]).expect(2).says(why);
        let pruned = on_h1(&["apply", "--yes", "--prune"]).says(why);
        assert!(!pruned.all().contains("was planned as"), "{}", pruned.all());
        assert_eq!(exec(host, "findmnt -no FSROOT /srv/m | grep -c /srv/b; ls /srv/m"), "1");
        exec(host, "umount /srv/m; rm -rf /srv/m /var/lib/converge; cp /root/fstab /etc/fstab");
    }
}
