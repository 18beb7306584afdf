//! Accounts and the files that belong to them.

use super::*;

#[test]
fn an_account_comes_back_with_its_files() {
    let world = world();
    let host = &world.hosts()[0];
    exec(host, "useradd -u 4960 gon2; echo 1 >/srv/gon2f; chown gon2:gon2 /srv/gon2f");
    let role = r"resources:
  - name: user
    user: {name: gon2, state: absent}
  - name: group
    group: {name: gon2, state: absent}
  - name: file
    file: {path: /srv/gon2f, owner: games, group: games}
";
    let owner = || exec(host, "stat -c %U:%G /srv/gon2f; id -u gon2 2>/dev/null || echo none");
    apply(&world, role);
    assert_eq!(owner(), "games:games\nnone");
    rollback(&world, &[]).expect(0);
    assert_eq!(owner(), "gon2:gon2\n4960");
    // The same without converge.
    apply(&world, role);
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(owner(), "gon2:gon2\n4960");
    exec(host, "userdel gon2; rm /srv/gon2f");
}

/// The owner of a file is a number: its name comes and goes with the account.
#[test]
fn a_file_is_the_runs_own_under_the_name_and_the_number_of_its_owner() {
    let world = world();
    let host = &world.hosts()[0];
    let owner = || {
        exec(host, "stat -c %U:%G /srv/mine 2>/dev/null || echo none; id -u own5 2>/dev/null || echo none")
    };
    let file =
        "  - name: file\n    file: {path: /srv/mine, content: \"a\\n\", owner: \"4977\", group: \"4977\"}\n";
    let group = "  - name: group\n    group: {name: own5, gid: 4977}\n";
    let user = "  - name: user\n    user: {name: own5, uid: 4977, group: own5, home: /srv}\n";
    let older = "  - name: older\n    file: {path: /etc/older, content: \"a\\n\"}\n";
    let role = |items: &[&str]| format!("resources:\n{older}{}", items.concat());
    // One run, and the account comes after the file.
    apply(&world, &role(&[]));
    apply(&world, &role(&[file, group, user]));
    assert_eq!(owner(), "own5:own5\n4977");
    rollback(&world, &[]).expect(0);
    assert_eq!(owner(), "none\nnone");
    // The account comes in a later run, and a third changes the content.
    apply(&world, &role(&[file]));
    let from = exec(host, "ls /var/lib/converge/runs | tail -n 1");
    apply(&world, &role(&[file, group, user]));
    apply(&world, &role(&[&file.replace("a\\n", "b\\n"), group, user]));
    rollback(&world, &["--to", &from]).expect(0);
    assert_eq!(owner(), "none\nnone");
    // Somebody takes the account away, and gives its number to another: the file is as the run left it.
    apply(&world, &role(&[group, user, &file.replace("\"4977\"", "own5")]));
    exec(
        host,
        "userdel own5; groupdel own5 2>/dev/null; groupadd -g 4977 new5; useradd -u 4977 -g new5 -d /srv new5",
    );
    assert_eq!(owner(), "new5:new5\nnone");
    rollback(&world, &[]).expect(0);
    assert_eq!(owner(), "none\nnone");
    // Given to somebody else, it is his.
    apply(&world, &role(&[&file.replace("\"4977\"", "new5")]));
    exec(host, "chown games /srv/mine");
    rollback(&world, &[]).says("changed by someone else");
    assert_eq!(owner(), "games:new5\nnone");
    exec(host, "userdel new5; rm -f /srv/mine /etc/older; rm -rf /var/lib/converge");
}

/// Without converge as well: the numbers of the accounts that there are decide.
#[test]
fn the_host_itself_takes_back_a_file_whose_owner_has_got_a_name() {
    let world = world();
    let host = &world.hosts()[0];
    let role = "resources:\n  - name: file\n    file: {path: /srv/mine, content: x, owner: \"4978\", group: \"4978\"}\n  - name: group\n    group: {name: own6, gid: 4978}\n  - name: user\n    user: {name: own6, uid: 4978, group: own6, home: /srv}\n";
    apply(&world, role);
    let undone = host.exec("sh /var/lib/converge/undo.sh").unwrap();
    assert!(undone.success(), "{}{}", undone.stdout, undone.stderr);
    assert_eq!(
        exec(host, "ls /srv/mine 2>/dev/null || echo gone; id -u own6 2>/dev/null || echo none"),
        "gone\nnone"
    );
}

#[test]
fn a_home_with_files_of_its_user_stays_with_its_user() {
    let world = world();
    let host = &world.hosts()[0];
    let older = "resources:\n  - name: file\n    file: {path: /etc/older, content: \"a\\n\"}\n";
    apply(&world, older);
    apply(&world, &format!("{older}  - name: account\n    user: {{name: bob}}\n"));
    exec(host, "install -o bob /dev/null /home/bob/.history");
    rollback(&world, &[])
        .says("it holds /home/bob/.history, which is not reverted")
        .says("remove file /etc/older");
    assert_eq!(exec(host, "stat -c %U /home/bob; ls /etc/older 2>/dev/null || echo gone"), "bob\ngone");
    exec(host, "rm /home/bob/.history");
    rollback(&world, &[]).expect(0);
    assert_eq!(
        exec(host, "id bob 2>&1; ls -d /home/bob 2>/dev/null || echo gone"),
        "id: ‘bob’: no such user\ngone"
    );
}
