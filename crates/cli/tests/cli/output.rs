//! Output for people and for pipes: a reader that leaves, a file that cannot be written, control characters.

use super::*;

#[test]
fn a_reader_that_leaves_is_no_error() {
    let dir = project();
    let mut child = Command::new(env!("CARGO_BIN_EXE_converge"))
        .args(["explain", "file"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn an_output_or_a_report_that_cannot_be_written_is_a_failure() {
    let dir = project();
    let full = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_converge"))
            .args(args)
            .current_dir(dir.path())
            .env("HOME", dir.path())
            .stdin(Stdio::null())
            .stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for args in [
        &["explain", "file"][..],
        &["inventory", "inv.yaml", "--list"],
        &["--help"],
        &["--version"],
        &["plan", "--help"],
        &["help", "plan"],
    ] {
        let (code, err) = full(args);
        assert_eq!(code, Some(74), "{args:?}: {err}");
        assert!(err.contains("could not be written: No space left on device"), "{args:?}: {err}");
    }
    let (code, _, err) = ran(dir.path(), &["plan", "inv.yaml", "--limit", "a", "--report", "no/such/folder"]);
    assert_eq!(code, 74, "{err}");
    assert!(err.contains("no/such/folder"), "{err}");
    let (code, _, err) = ran(dir.path(), &["plan", "inv.yaml", "--limit", "a", "--out", "no/such/plan"]);
    assert_eq!(code, 74, "{err}");
    assert!(err.contains("no/such/plan"), "{err}");
}

/// Files of one's own may come from elsewhere: an error about one shows control characters, and never sends them to the terminal.
#[test]
fn no_error_about_a_file_sends_its_control_characters_to_the_terminal() {
    const EVIL: &str = "\u{1b}]0;evil\u{7}\u{9b}31m\u{1b}[2Jx";
    let role = |dir: &Path, text: String| put(dir, "roles/web/role.yaml", &text);
    let item = |parameters: &str| format!("resources:\n  - name: x\n    {parameters}\n");
    let escaped = "\\e]0;evil\\a\\x9b31m\\e[2Jx";
    type Damage<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Damage<'_>); 9] = [
        ("a raw key", &|dir| role(dir, item(&format!("fi{EVIL}le: {{path: /x}}")))),
        ("an escaped key", &|dir| role(dir, item(&format!("\"fi{escaped}le\": {{path: /x}}")))),
        ("an escaped value", &|dir| role(dir, item(&format!("file: {{path: \"{escaped}\"}}")))),
        ("an expression", &|dir| {
            role(dir, item(&format!("file: {{path: /x, content: \"{{{{ '{escaped}' | nofilter }}}}\"}}")));
        }),
        ("a template", &|dir| {
            role(dir, item("file: {path: /x, template: t.j2}"));
            put(dir, "roles/web/templates/t.j2", &format!("{EVIL}\n{{{{ {EVIL} }}}}{{% if %}}\n"));
        }),
        ("a name of an input", &|dir| {
            put(dir, "group_vars/all.yaml", &format!("token: [\"{escaped}\"]\n\"{escaped}\": 1\n"));
        }),
        ("a host", &|dir| put(dir, "inv.yaml", &format!("all:\n  hosts:\n    \"{escaped}\": {{x: [}}\n"))),
        ("a role's name", &|dir| {
            put(dir, "playbooks/site.yaml", &format!("- hosts: all\n  roles: [\"{escaped}\"]\n"));
        }),
        ("a comment beside an error", &|dir| {
            role(dir, format!("resources:\n  - name: x # {EVIL}\n    fiel: {{path: /x}} # {EVIL}\n"));
        }),
    ];
    for (what, damage) in cases {
        let dir = project();
        damage(dir.path());
        let ini = format!("{}.ini", EVIL.replace('/', ""));
        put(dir.path(), &ini, &format!("[{EVIL}\nhost{EVIL} a=\n"));
        for args in [&["plan", "inv.yaml"][..], &["plan", &ini], &["plan", "inv.yaml", "--playbook", EVIL]] {
            for colour in ["0", "1"] {
                let mut command = Command::new(env!("CARGO_BIN_EXE_converge"));
                command.args(args).current_dir(dir.path()).env_remove("NO_COLOR").env("HOME", dir.path());
                let output = command.env("CLICOLOR_FORCE", colour).stdin(Stdio::null()).output().unwrap();
                let reply = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
                assert_eq!(output.status.code(), Some(64), "{what} {args:?}: {reply:?}");
                let acts = |c: char| c.is_control() && !"\n\t\u{1b}".contains(c);
                assert!(!reply.contains(acts), "{what} {args:?} {colour}: {reply:?}");
                assert!(escapes_are_colours(&reply), "{what} {args:?} {colour}: {reply:?}");
                assert!(colour == "1" || !reply.contains('\u{1b}'), "{what} {args:?}: {reply:?}");
            }
        }
    }
}

/// Whether every escape begins a colour: `ESC [ … m`.
fn escapes_are_colours(text: &str) -> bool {
    text.split('\u{1b}').skip(1).all(|rest| {
        let end = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "[;".contains(c));
        rest.starts_with('[') && end.starts_with('m')
    })
}
