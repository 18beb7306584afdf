//! `converge vault` against the real `ansible-vault`, in both directions.
//!
//! The environment variable `CONVERGE_ANSIBLE_VENV` names a Python virtual environment with `ansible-core`; the test command
//! of the workspace makes it. Without it the comparison is skipped, loudly, and fails where `CI` is set.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail as the test does")]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn run(mut command: Command, dir: &Path, input: &[u8]) -> (i32, String, String) {
    let mut child = command
        .current_dir(dir)
        .env("HOME", dir)
        .env_remove("CI")
        .env_remove("ANSIBLE_VAULT_PASSWORD_FILE")
        .env_remove("ANSIBLE_VAULT_IDENTITY_LIST")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that reads nothing closes its end.
    let _gone = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn vault(dir: &Path, args: &[&str], input: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_converge"));
    command.arg("vault").args(args);
    run(command, dir, input.as_bytes())
}

fn good(dir: &Path, args: &[&str], input: &str) -> String {
    let (code, out, err) = vault(dir, args, input);
    assert_eq!(code, 0, "{args:?}: {err}");
    out
}

/// Passwords in files and scripts.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    put("pw", "  first\n", 0o600);
    put("pw2", "second", 0o600);
    put("script", "#!/bin/sh\necho first\n", 0o700);
    put("keys-client.sh", "#!/bin/sh\n[ \"$1 $2\" = '--vault-id prod' ] || exit 2\necho second\n", 0o700);
    put(
        "editor",
        "#!/bin/sh\nprintf 'added: 1\\n' >> \"$1\"\nstat -c %a \"$1\" > mode\nls -ld \"$(dirname \"$1\")\" | cut -c1-10 >> mode\n",
        0o700,
    );
    put("all.yml", "user: root\npassword: gehe\u{ef}m\n", 0o640);
    dir
}

fn read(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap()
}

#[test]
fn files_are_encrypted_viewed_edited_rekeyed_and_decrypted() {
    let dir = folder();
    let at = dir.path();
    let plain = read(at, "all.yml");
    good(at, &["encrypt", "all.yml", "--vault-password-file", "pw"], "");
    assert!(read(at, "all.yml").starts_with("$ANSIBLE_VAULT;1.1;AES256\n"));
    let mode = std::fs::metadata(at.join("all.yml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640, "the mode stays");
    // A script may print the password.
    assert_eq!(good(at, &["view", "all.yml", "--vault-password-file", "./script"], ""), plain);
    let mut edit = Command::new(env!("CARGO_BIN_EXE_converge"));
    edit.args(["vault", "edit", "all.yml", "--vault-password-file", "pw"]).env("EDITOR", at.join("editor"));
    edit.env_remove("VISUAL");
    let (code, _, err) = run(edit, at, b"");
    assert_eq!(code, 0, "{err}");
    assert_eq!(read(at, "mode"), "600\ndrwx------\n");
    // A client script gets the name of the wanted password.
    good(
        at,
        &["rekey", "all.yml", "--vault-password-file", "pw", "--new-vault-id", "prod@keys-client.sh"],
        "",
    );
    assert!(read(at, "all.yml").starts_with("$ANSIBLE_VAULT;1.2;AES256;prod\n"));
    assert_eq!(
        good(at, &["view", "all.yml", "--vault-id", "dev@pw", "--vault-id", "prod@pw2"], ""),
        format!("{plain}added: 1\n")
    );
    good(at, &["decrypt", "all.yml", "--vault-password-file", "pw2"], "");
    assert_eq!(read(at, "all.yml"), format!("{plain}added: 1\n"));
    let piped = good(at, &["encrypt", "--vault-id", "prod@pw2"], "text");
    assert_eq!(good(at, &["decrypt", "--vault-id", "prod@pw2"], &piped), "text");
    let left =
        std::fs::read_dir(at).unwrap().flatten().filter(|e| e.file_name().to_string_lossy().starts_with('.'));
    assert_eq!(left.count(), 0, "no temporary file stays");
}

#[test]
fn errors_say_what_to_do_and_change_nothing() {
    let dir = folder();
    let at = dir.path();
    good(at, &["encrypt", "all.yml", "--vault-password-file", "pw"], "");
    let before = read(at, "all.yml");
    for (args, words) in [
        (
            &["view", "all.yml", "--vault-password-file", "pw2"][..],
            "none of the given vault passwords (default) opens it",
        ),
        (&["decrypt", "all.yml", "pw", "--vault-password-file", "pw"], "pw is not encrypted"),
        (&["encrypt", "pw2", "all.yml", "--vault-password-file", "pw"], "all.yml is encrypted already"),
        (&["encrypt", "pw2", "--vault-id", "a@pw", "--vault-id", "b@pw2"], "--encrypt-vault-id"),
        (
            &["encrypt", "pw2", "--vault-id", "a@pw", "--encrypt-vault-id", "c"],
            "no vault password of the name `c`",
        ),
        (&["view", "all.yml", "--vault-password-file", "nope"], "nope"),
        (&["view", "all.yml", "--vault-password-file", "."], "is a folder"),
        (&["view", "all.yml", "--vault-id", "other@keys-client.sh"], "no password of this name"),
        (&["encrypt-string", "--vault-password-file", "pw"], "no value to encrypt"),
        (&["encrypt-string", "geheim"], "unexpected argument"),
    ] {
        let (code, out, err) = vault(at, args, "");
        assert_eq!(code, 64, "{args:?}: {err}");
        let one_line = err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(one_line.contains(words) && out.is_empty(), "{args:?}: {err}");
    }
    assert_eq!(read(at, "all.yml"), before);
    assert_eq!(read(at, "pw2"), "second");
}

#[test]
fn ansible_reads_what_is_written_and_the_other_way_round() {
    let Ok(venv) = std::env::var("CONVERGE_ANSIBLE_VENV") else {
        assert!(
            std::env::var("CI").is_err(),
            "CONVERGE_ANSIBLE_VENV is not set: Ansible must be there to compare with"
        );
        let skipped =
            "SKIPPED: CONVERGE_ANSIBLE_VENV is not set, nothing was compared with the real ansible-vault";
        writeln!(std::io::stderr(), "\n*** {skipped} ***\n").unwrap();
        return;
    };
    let dir = folder();
    let at = dir.path();
    let ansible = |program: &str, args: &[&str], input: &str| {
        let mut command = Command::new(format!("{venv}/bin/{program}"));
        command.args(args).env("ANSIBLE_HOME", at).env("LC_ALL", "C.UTF-8").env("ANSIBLE_NOCOLOR", "1");
        let (code, out, err) = run(command, at, input.as_bytes());
        assert_eq!(code, 0, "{program} {args:?}: {err}");
        out
    };
    let plain = read(at, "all.yml");
    // Ours, read by Ansible: both forms, with the padding's lengths.
    for length in [0, 15, 16] {
        let text = "x".repeat(length);
        for (id, header) in [("pw", "1.1;AES256"), ("prod@pw2", "1.2;AES256;prod")] {
            let sealed = good(at, &["encrypt", "--vault-id", id], &text);
            assert!(sealed.starts_with(&format!("$ANSIBLE_VAULT;{header}\n")), "{sealed}");
            assert_eq!(ansible("ansible-vault", &["decrypt", "--vault-id", id], &sealed), text);
            let theirs = ansible("ansible-vault", &["encrypt", "--vault-id", id], &text);
            assert_eq!(good(at, &["decrypt", "--vault-id", id], &theirs), text);
        }
    }
    // A file through both hands.
    good(at, &["encrypt", "all.yml", "--vault-password-file", "pw"], "");
    ansible(
        "ansible-vault",
        &["rekey", "all.yml", "--vault-password-file", "pw", "--new-vault-id", "prod@pw2"],
        "",
    );
    assert_eq!(good(at, &["view", "all.yml", "--vault-id", "prod@keys-client.sh"], ""), plain);
    good(at, &["rekey", "all.yml", "--vault-id", "prod@pw2", "--new-vault-password-file", "pw"], "");
    assert_eq!(ansible("ansible-vault", &["view", "all.yml", "--vault-password-file", "script"], ""), plain);
    // Values in an inventory: values of converge as variables of Ansible, and the other way round.
    let own = good(at, &["encrypt-string", "--name", "ours", "--vault-id", "prod@pw2"], "von uns\n");
    let theirs = ansible(
        "ansible-vault",
        &["encrypt_string", "--name", "theirs", "--vault-id", "pw", "--stdin-name", "theirs"],
        "von euch",
    );
    let theirs = theirs
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    std::fs::create_dir(at.join("host_vars")).unwrap();
    std::fs::write(
        at.join("host_vars/h.yml"),
        format!("{own}{theirs}joined: '{{{{ ours }}}}{{{{ theirs }}}}'\n"),
    )
    .unwrap();
    std::fs::write(at.join("hosts"), "h ansible_connection=local\n").unwrap();
    let all = ["--vault-id", "prod@pw2", "--vault-id", "pw"];
    let observed = ansible(
        "ansible",
        &[&["-i", "hosts", "h", "-m", "debug", "-a", "var=joined"], &all[..]].concat(),
        "",
    );
    assert!(observed.contains(r#""joined": "von uns\nvon euch""#), "{observed}");
    std::fs::create_dir_all(at.join("playbooks")).unwrap();
    std::fs::create_dir_all(at.join("roles/r")).unwrap();
    std::fs::write(at.join("playbooks/site.yaml"), "- hosts: all\n  roles: [r]\n").unwrap();
    let place = at.join("out");
    let role = format!(
        "summary: r\nresources:\n  - name: f\n    file: {{path: {}, content: \"{{{{ joined }}}}\", mode: \"0600\"}}\n",
        place.display()
    );
    std::fs::write(at.join("roles/r/role.yaml"), role).unwrap();
    let mut plan = Command::new(env!("CARGO_BIN_EXE_converge"));
    plan.args(["plan", "hosts", "-v"]).args(all);
    let (code, out, err) = run(plan, at, b"");
    assert_eq!(code, 2, "{out}{err}");
    assert!(!out.contains("von uns") && !out.contains("von euch"), "{out}");
    assert!(out.contains("sensitive"), "{out}");
}
