//! Completion in shells: real bash takes the script and asks the program.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use std::path::Path;
use std::process::{Command, Stdio};

fn put(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn project() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "converge.toml", "inventory = \"inventories/prod.yaml\"\n");
    let hosts = "web: {hosts: {web1: {}, web2: {}}}\ngpu: {hosts: {gpu1: {}}}\n";
    put(dir.path(), "inventories/prod.yaml", hosts);
    put(dir.path(), "inventories/other.yaml", "db: {hosts: {db1: {}}}\n");
    put(dir.path(), "playbooks/site.yaml", "- {hosts: all, roles: [base, shop], tags: [play]}\n");
    let role = "summary: A shop\nresources:\n  - name: a\n    tags: [slow, disk]\n    query: {run: 'true'}\n";
    put(dir.path(), "roles/shop/role.yaml", role);
    put(dir.path(), "roles/base/role.yaml", "summary: Basics\nresources: []\n");
    dir
}

/// The candidates that bash has for a line, the cursor at its end; `word` is the part that bash itself takes for the last word.
fn bash(dir: &Path, line: &str, word: &str) -> Vec<String> {
    let script = "source <(converge completions bash) || exit 1\n\
         complete -p converge | grep -q -- '-F _converge' || exit 1\n\
         COMP_LINE=$1 COMP_POINT=${#1}; _converge converge \"$2\" x; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let program = Path::new(env!("CARGO_BIN_EXE_converge")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["--norc", "-c", script, "bash", line, word])
        .current_dir(dir)
        .env("PATH", path)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_what_the_project_has() {
    let dir = project();
    for (line, word, expected) in [
        ("converge sna", "sna", vec!["snapshots"]),
        ("converge state fo", "fo", vec!["forget"]),
        ("converge plan --lim", "--lim", vec!["--limit"]),
        ("converge plan --limit we", "we", vec!["web", "web1", "web2"]),
        ("converge plan -l ", "", vec!["all", "gpu", "gpu1", "ungrouped", "web", "web1", "web2"]),
        // bash takes the part behind = and : for a word of its own.
        ("converge plan --limit=web1:!gp", "!gp", vec!["!gpu", "!gpu1"]),
        ("converge plan --limit web:gp", "gp", vec!["gpu", "gpu1"]),
        ("converge plan --output=j", "j", vec!["json", "junit"]),
        ("converge plan inventories/other.yaml --limit d", "d", vec!["db", "db1"]),
        ("converge plan -i inventories/other.yaml -l d", "d", vec!["db", "db1"]),
        ("converge --role ", "", vec!["base", "shop"]),
        ("converge apply --tags slow,", "slow,", vec!["slow,disk", "slow,play", "slow,slow"]),
        ("converge explain sh", "sh", vec!["shop"]),
        ("converge explain swa", "swa", vec!["swap"]),
        ("converge vars gp", "gp", vec!["gpu1"]),
        ("converge schema sett", "sett", vec!["settings", "settings-report"]),
        // A file may stand there.
        ("converge plan inv", "inv", vec![]),
    ] {
        assert_eq!(bash(dir.path(), line, word), expected, "{line}");
    }
}

#[test]
fn nobody_waits_for_hosts_that_have_no_runs() {
    let dir = project();
    put(
        dir.path(),
        "inventories/prod.yaml",
        "all: {hosts: {here: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n",
    );
    let begun = std::time::Instant::now();
    assert_eq!(bash(dir.path(), "converge rollback --to ", ""), Vec::<String>::new());
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
}
