//! Runs that see only a part of the project: narrowed, or with conditions.

use super::*;

#[test]
fn a_narrowed_run_prunes_nothing_outside_it() {
    let world = world();
    role(&world, "base", &files(&["a", "b"]));
    role(&world, "app", &files_alone(&["c", "d"]));
    playbook(&world, "base, app");
    apply(&world).expect(0);
    role(&world, "base", &files(&["a"]).replace("  - name: a\n", "  - name: a\n    tags: [some]\n"));
    role(&world, "app", &files_alone(&["c"]));
    assert_eq!(undeclared(&world, &[]), ["/etc/mine/d removed", "/etc/mine/b removed"]);
    assert_eq!(undeclared(&world, &["--role", "app"]), ["/etc/mine/d removed"]);
    assert!(undeclared(&world, &["--tags", "some"]).is_empty());
    assert!(
        undeclared(&world, &["--skip-tags", "some"]).len() == 1,
        "of `app`, which is whole without the tag"
    );
    converge(&world, &["apply", "--yes", "--prune=1", "--role", "app", "--limit", "h1", "hosts.yaml"])
        .expect(0);
    converge(&world, &["apply", "--yes", "--prune", "--tags", "some", "hosts.yaml"]).expect(0);
    let left: Vec<String> = world.hosts().iter().map(|h| exec(h, "ls /etc/mine | xargs")).collect();
    assert_eq!(left, ["a b c", "a b c d"], "one role on one host");
    // A role that is gone from the playbook was evaluated completely: unless the run is narrowed to others.
    playbook(&world, "base");
    assert!(undeclared(&world, &["--role", "base"]).iter().all(|t| t.starts_with("/etc/mine/b")));
    assert_eq!(undeclared(&world, &[]), ["/etc/mine/c removed", "/etc/mine/b removed"]);
}

#[test]
fn a_condition_that_turned_false_declares_no_more_and_an_unknown_one_keeps() {
    let world = world();
    let with = |condition: &str| {
        files(&["a", "b"]).replace("  - name: b\n", &format!("  - name: b\n    when: {condition}\n"))
    };
    role(&world, "base", &with("true"));
    playbook(&world, "base");
    apply(&world).expect(0);
    role(&world, "base", &with("inventory_hostname == 'h2'"));
    assert_eq!(undeclared(&world, &[]), ["/etc/mine/b removed"]);
    // A condition on the result of an item that has not run yet.
    let unknown = with("later.stdout == 'x'").replace(
        "  - name: a\n",
        "  - name: ask\n    query: {run: cat /etc/mine/answer}\n    register: later\n  - name: a\n",
    );
    let unknown = unknown.replace(
        "  - name: ask\n",
        "  - name: answer\n    command: {run: echo x > /etc/mine/answer, creates: /etc/mine/answer, undo: rm /etc/mine/answer}\n  - name: ask\n",
    );
    role(&world, "base", &unknown);
    let plan =
        converge(&world, &["plan", "--prune", "--limit", "h1", "hosts.yaml"]).expect(2).says("deferred");
    assert!(!plan.all().contains("orphaned"), "{}", plan.all());
    apply(&world).expect(0);
    assert!(has(&world.hosts()[0], "/etc/mine/b"));
}
