//! Two projects with the same objects.

use super::*;

fn shared(world: &World, name: &str, content: &str, more: &str) {
    let role = format!("  - file: {{path: /srv/shared, content: \"{content}\"}}\n{more}");
    world.of_project(name, &["apply", "--yes"], Some(&role)).unwrap().expect(0);
}

/// A rollback of the one finds the file as it was before its run: the other has written it since. That hides the change, and undoes nothing: when the other
/// one has gone back, it goes back too, by any way.
#[test]
fn a_change_that_another_project_hides_goes_back_when_that_one_has() {
    let world = world();
    let host = &world.hosts()[0];
    let is = || exec(host, "cd /srv; cat shared 2>/dev/null; ls");
    let undo = |run: &str| {
        let ran = host.exec(&format!("sh /var/lib/converge/undo.sh {run}")).unwrap();
        assert!(ran.success(), "{}{}", ran.stdout, ran.stderr);
        ran.stdout
    };
    for way in ["rollback", "undo.sh"] {
        shared(&world, "pa", "a2\\n", "");
        shared(&world, "pb", "b1\\n", "");
        shared(&world, "pa", "a3\\n", "  - file: {path: /srv/k, content: k}\n");
        let third = exec(host, "ls /var/lib/converge/runs | sed -n 3p");
        shared(&world, "pb", "b1\\n", "");
        assert_eq!(is(), "b1\nk\nshared");
        let back = |name: &str, run: &str| match way {
            "rollback" => world.of_project(name, &["rollback", "--yes"], None).unwrap().expect(0).all(),
            _ => undo(run),
        };
        let reply = back("pa", &third);
        let named = if way == "rollback" {
            "its previous state already and is not reverted"
        } else {
            "and not undone"
        };
        assert!(reply.contains(named) && reply.contains("path:/srv/shared"), "{reply}");
        assert_eq!(is(), "b1\nshared", "{way}");
        for (name, content) in [("pb", "a3\nshared"), ("pa", "b1\nshared"), ("pb", "a2\nshared"), ("pa", "")]
        {
            let reply = back(name, "");
            assert_eq!(is(), content, "{way}, {name}: {reply}");
        }
        for name in ["pa", "pb"] {
            world
                .of_project(name, &["rollback", "--yes"], None)
                .unwrap()
                .expect(0)
                .says("has a run to roll back");
        }
        assert_eq!(undo(""), "there is no run to undo\n");
        exec(host, "rm -rf /var/lib/converge");
    }
}

/// A change that another project has pruned again is in nobody's way, and so are two runs of it that came back to the first one's start.
#[test]
fn what_another_project_has_brought_back_by_itself_is_in_nobodys_way() {
    let world = world();
    let host = &world.hosts()[0];
    for way in ["rollback", "undo.sh"] {
        shared(&world, "pa", "a\\n", "");
        let first = first_run(host);
        shared(&world, "pb", "b\\n", "");
        shared(&world, "pb", "a\\n", "");
        match way {
            "rollback" => drop(world.of_project("pa", &["rollback", "--yes"], None).unwrap().expect(0)),
            _ => {
                let ran = host.exec(&format!("sh /var/lib/converge/undo.sh {first}")).unwrap();
                assert!(ran.success(), "{}{}", ran.stdout, ran.stderr);
            }
        }
        assert_eq!(exec(host, "ls /srv"), "", "{way}");
        for name in ["pb", "pa"] {
            world
                .of_project(name, &["rollback", "--yes"], None)
                .unwrap()
                .expect(0)
                .says("has a run to roll back");
        }
        assert_eq!(exec(host, "sh /var/lib/converge/undo.sh; ls /srv"), "there is no run to undo");
        exec(host, "rm -rf /var/lib/converge");
    }
}
