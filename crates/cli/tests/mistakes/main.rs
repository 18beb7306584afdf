//! Mistakes that people make, with what they are told: the tables beside this file.
//!
//! A row is a title, the files that differ from the README's first project, the command line, the exit code and the whole output:
//!
//! ```text
//! === title
//! --- path of a file; `--- -path` takes one away
//! its text
//! $ arguments of converge
//! ? 64
//! the output, standard error first
//! ```
//!
//! With `CONVERGE_BLESS=1` the tables are written anew from what comes; read the difference before you commit it.
#![expect(clippy::unwrap_used, reason = "a helper of a test may fail as the test does")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The README's first project, on a host that refuses at once.
const PROJECT: [(&str, &str); 4] = [
    (
        "inventories/hosts.yaml",
        "all:\n  hosts:\n    web1: {ansible_host: 127.0.0.1, ansible_port: 1, ansible_become: true, site_port: 8080}\n",
    ),
    ("playbooks/site.yaml", "- name: web servers\n  hosts: all\n  roles: [hello]\n"),
    (
        "roles/hello/role.yaml",
        "summary: A web page that says hello\n\
         inputs:\n\
         \x20 site_port: {type: int, default: 80, min: 1, max: 65535, help: the port of the site}\n\
         resources:\n\
         \x20 - name: site\n\
         \x20   file: {path: /etc/site.conf, template: site.conf.j2, mode: \"0644\"}\n",
    ),
    ("roles/hello/templates/site.conf.j2", "listen {{ site_port }};\n"),
];

#[derive(Debug, Default)]
struct Row {
    title: String,
    files: Vec<(String, String)>,
    arguments: String,
    code: i32,
    output: String,
}

fn rows(table: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut in_output = false;
    for line in table.lines() {
        if let Some(title) = line.strip_prefix("=== ") {
            rows.push(Row { title: title.to_owned(), ..Row::default() });
            in_output = false;
            continue;
        }
        let row = rows.last_mut().unwrap();
        if in_output {
            writeln!(row.output, "{line}").unwrap();
        } else if let Some(path) = line.strip_prefix("--- ") {
            row.files.push((path.to_owned(), String::new()));
        } else if let Some(arguments) = line.strip_prefix("$ ") {
            arguments.clone_into(&mut row.arguments);
        } else if let Some(code) = line.strip_prefix("? ") {
            row.code = code.parse().unwrap();
            in_output = true;
        } else {
            writeln!(row.files.last_mut().unwrap().1, "{line}").unwrap();
        }
    }
    rows
}

/// Runs a row in a folder of its own: the exit code and the output.
fn run(row: &Row) -> (i32, String) {
    let dir = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    PROJECT.iter().for_each(|(path, text)| put(path, text));
    for (path, text) in &row.files {
        match path.strip_prefix('-') {
            Some(gone) => std::fs::remove_file(dir.path().join(gone)).unwrap(),
            None => put(path, text),
        }
    }
    let done = Command::new(env!("CARGO_BIN_EXE_converge"))
        .args(words(&row.arguments))
        .current_dir(dir.path())
        .env("HOME", dir.path())
        .env_remove("SSH_AUTH_SOCK")
        .env_remove("ANSIBLE_INVENTORY_IGNORE")
        .env_remove("ANSIBLE_VAULT_PASSWORD_FILE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut output = String::from_utf8_lossy(&done.stderr).into_owned();
    output.push_str(&String::from_utf8_lossy(&done.stdout));
    (done.status.code().unwrap_or(-1), output)
}

/// Words with single quotes around what holds blanks, or nothing.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap(),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

fn tables() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "txt")).collect();
    tables.sort();
    tables
}

/// The outcomes of all rows, in their order: each in a folder of its own, as many at once as there are processors.
fn outcomes(rows: &[Row]) -> Vec<(i32, String)> {
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let share = rows.len().div_ceil(workers).max(1);
    std::thread::scope(|threads| {
        let running: Vec<_> = rows
            .chunks(share)
            .map(|part| threads.spawn(move || part.iter().map(run).collect::<Vec<_>>()))
            .collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn every_mistake_is_reported_with_place_cause_and_remedy() {
    let bless = std::env::var_os("CONVERGE_BLESS").is_some();
    let mut wrong = String::new();
    let mut count = 0;
    for path in tables() {
        let mut table = String::new();
        let rows = rows(&std::fs::read_to_string(&path).unwrap());
        count += rows.len();
        for (row, (code, output)) in rows.iter().zip(outcomes(&rows)) {
            let (output, wanted) = (output.trim_end(), row.output.trim_end());
            if (code, output) != (row.code, wanted) {
                let (title, arguments, old) = (&row.title, &row.arguments, row.code);
                writeln!(
                    wrong,
                    "{title}: converge {arguments}\nwanted {old}\n{wanted}\ncame {code}\n{output}\n"
                )
                .unwrap();
            }
            writeln!(table, "=== {}", row.title).unwrap();
            for (path, text) in &row.files {
                write!(table, "--- {path}\n{text}").unwrap();
            }
            write!(table, "$ {}\n? {code}\n{output}\n\n", row.arguments).unwrap();
        }
        if bless {
            std::fs::write(path, format!("{}\n", table.trim_end())).unwrap();
        }
    }
    assert!(count >= 190, "{count} mistakes");
    assert!(bless || wrong.is_empty(), "{wrong}");
}

/// Every message has a remedy: a `help` line in every row that ends with an error of usage.
#[test]
fn every_row_names_a_remedy() {
    for path in tables() {
        for row in rows(&std::fs::read_to_string(&path).unwrap()).into_iter().filter(|row| row.code == 64) {
            let reported = row.output.contains("help: ")
                || row.output.contains(" must ")
                || row.output.contains("--help")
                || row.output.contains(": write ");
            assert!(reported, "{}: {}\n{}", path.display(), row.title, row.output);
        }
    }
}
