//! Tasks whose registered result later tasks read: `stat`, and commands that change nothing.

use super::params::param;
use super::{Context, Converted, Params, shell_text};
use crate::expression::{ImportProblem, RegisteredResult};
use crate::yaml::made;
use converge_syntax::{Node, Value};
use std::collections::{BTreeMap, BTreeSet};

const WIDE: &str = " is defined";

/// The shell text for one attribute of `stat`, with the path in the place of `@`.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("exists", "[ -e @ ] || [ -L @ ]"),
    ("isdir", "[ -d @ ] && ! [ -L @ ]"),
    ("isreg", "[ -f @ ] && ! [ -L @ ]"),
    ("islnk", "[ -L @ ]"),
    ("executable", "[ -x @ ]"),
];

/// The attribute that all uses of a result of `stat` ask for.
fn attribute(uses: &BTreeSet<String>) -> Option<&'static str> {
    let mut found = None;
    for path in uses.iter().filter(|path| !path.ends_with(WIDE)) {
        let name = path.strip_prefix(".stat.")?;
        let name = name.strip_suffix(" is defined").unwrap_or(name);
        let (own, _) = ATTRIBUTES.iter().find(|(own, _)| *own == name)?;
        if found.is_some_and(|other| other != *own) {
            return None;
        }
        found = Some(*own);
    }
    found
}

/// The form of a registered result: what stands for each of its uses.
pub(crate) fn shape(
    module: &str,
    text: Option<&str>,
    (reads, fails): (bool, bool),
    uses: &BTreeSet<String>,
    register: &str,
) -> RegisteredResult {
    let unknown = |why: String, write: &str| RegisteredResult::Unknown(ImportProblem::new(why, write));
    match module {
        "stat" => match attribute(uses) {
            Some(name) => {
                let holds = format!("({register}.status == 0)");
                RegisteredResult::Query(BTreeMap::from([(format!(".stat.{name}"), holds)]))
            }
            None => unknown(
                format!("`{register}` is asked for more than one thing, or for one that has no plain test"),
                "write `query` with `stat -c`, one for each question",
            ),
        },
        "command" | "shell" | "raw" if reads && text.is_some() => {
            let mut known: BTreeMap<String, String> = BTreeMap::new();
            let mut add = |path: &str, here: String| known.insert(path.to_owned(), here);
            add(".stdout", format!("{register}.stdout"));
            add(".stdout_lines", format!("{register}.lines"));
            add(".rc", format!("{register}.status"));
            let failed = if fails { format!("({register}.status != 0)") } else { "false".to_owned() };
            let good = if fails { format!("({register}.status == 0)") } else { "true".to_owned() };
            for path in [".failed", " is failed", " is failure"] {
                add(path, failed.clone());
            }
            for path in [" is succeeded", " is success", " is successful"] {
                add(path, good.clone());
            }
            for path in [".changed", " is changed"] {
                add(path, "false".to_owned());
            }
            RegisteredResult::Query(known)
        }
        "uri" | "find" | "slurp" | "getent" => unknown(
            format!("`{register}` is the answer of `{module}`"),
            "write `query` with `register`; its answer is `stdout`, `lines`, `status` and `json`",
        ),
        _ => RegisteredResult::Changes(Vec::new()),
    }
}

pub(super) fn stat(mut params: Params, context: &Context) -> Result<Converted, ImportProblem> {
    params.ignore(&[
        "get_checksum",
        "get_attributes",
        "get_mime",
        "get_md5",
        "checksum_algorithm",
        "get_selinux_context",
    ]);
    let follow = params.flag(&["follow"])? == Some(true);
    let path = params.needed(&["path", "dest", "name"])?;
    params.finish("query")?;
    if !context.is_query {
        return Ok(Converted::nothing("nothing here reads its answer"));
    }
    let name = context.queries.get(context.register.as_deref().unwrap_or_default());
    let test = ATTRIBUTES.iter().find(|(own, _)| name.is_some_and(|name| name == own));
    let Some((_, test)) = test else {
        return Err(ImportProblem::new(
            "more than one attribute is asked for",
            "write `query` with `stat -c`",
        ));
    };
    let test = if follow {
        test.replace(" && ! [ -L @ ]", "").replace(" || [ -L @ ]", "")
    } else {
        (*test).to_owned()
    };
    let mut all = Converted::one(
        "query",
        vec![param("run", test.replace('@', &shell_text::word(&path))), statuses(&[0, 1])],
    );
    if let Some(made) = all.made.first_mut() {
        made.registers = true;
    }
    Ok(all)
}

/// The attribute that a `stat` is for, to find its test again.
pub(crate) fn stat_attribute(uses: &BTreeSet<String>) -> Option<String> {
    attribute(uses).map(str::to_owned)
}

pub(super) fn statuses(all: &[i64]) -> (String, Node) {
    ("status".to_owned(), made(Value::List(all.iter().map(|status| made(*status)).collect())))
}

/// Programs that only read, with the first argument that makes them so where it is needed.
const READERS: &[(&str, &[&str])] = &[
    ("cat", &[]),
    ("ls", &[]),
    ("test", &[]),
    ("[", &[]),
    ("which", &[]),
    ("type", &[]),
    ("grep", &[]),
    ("egrep", &[]),
    ("stat", &[]),
    ("uname", &[]),
    ("id", &[]),
    ("getent", &[]),
    ("whoami", &[]),
    ("nproc", &[]),
    ("df", &[]),
    ("free", &[]),
    ("lsmod", &[]),
    ("lsblk", &[]),
    ("blkid", &[]),
    ("findmnt", &[]),
    ("readlink", &[]),
    ("realpath", &[]),
    ("head", &[]),
    ("tail", &[]),
    ("wc", &[]),
    ("echo", &[]),
    ("printf", &[]),
    ("dpkg-query", &[]),
    ("lspci", &[]),
    ("nvidia-smi", &[]),
    ("getconf", &[]),
    ("pgrep", &[]),
    ("ss", &[]),
    ("sha256sum", &[]),
    ("cut", &[]),
    ("sort", &[]),
    ("uniq", &[]),
    ("tr", &[]),
    ("jq", &[]),
    ("basename", &[]),
    ("dirname", &[]),
    ("awk", &[]),
    ("hostname", &[]),
    ("file", &[]),
    ("stty", &[]),
    ("getcap", &[]),
    ("locale", &[]),
    ("groups", &[]),
    ("true", &[]),
    ("false", &[]),
    ("command", &["-v"]),
    (
        "systemctl",
        &["is-active", "is-enabled", "is-failed", "show", "status", "list-units", "list-unit-files", "cat"],
    ),
    (
        "dpkg",
        &[
            "-l",
            "-s",
            "-S",
            "-L",
            "--get-selections",
            "--print-architecture",
            "--list",
            "--status",
            "--compare-versions",
        ],
    ),
    ("rpm", &["-q", "-qa", "-ql"]),
    ("sysctl", &["-n", "-a"]),
    ("swapon", &["--show", "-s", "--summary"]),
    ("apt-cache", &[]),
    ("apt-mark", &["showhold", "showmanual", "showauto"]),
    ("docker", &["info", "ps", "inspect", "version", "images", "--version", "-v"]),
    ("kubectl", &["get", "version", "describe", "config"]),
    ("helm", &["list", "ls", "version", "status", "get"]),
    ("ip", &["addr", "route", "link", "a", "-o", "-4", "-6", "-j"]),
    ("mountpoint", &[]),
    ("ufw", &["status"]),
    ("openssl", &["version", "x509", "verify"]),
    ("timedatectl", &["show", "status"]),
    ("containerd", &["config"]),
    ("crictl", &["info", "version", "ps"]),
];

/// Whether a command text is known to change nothing: programs that only read, in pipes and lists.
pub(crate) fn read_only(text: &str) -> bool {
    let outside = shell_text::outside_of_templates(text);
    let quiet = outside
        .replace("2>&1", "")
        .replace("2>/dev/null", "")
        .replace("2> /dev/null", "")
        .replace(">/dev/null", "")
        .replace("> /dev/null", "");
    if quiet.contains(['>', '`']) || quiet.contains("$(") {
        return false;
    }
    let parts = quiet.split(['|', '&', ';', '\n']).map(str::trim).filter(|part| !part.is_empty());
    let mut some = false;
    let all = parts.into_iter().all(|part| {
        some = true;
        let mut words =
            part.split_whitespace().filter(|word| *word != "!" && *word != "sudo" && *word != "set");
        let program = words.next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or(program);
        let first = words.next();
        if matches!(first, Some("--version" | "-version" | "-V" | "version" | "-v")) && words.next().is_none()
        {
            return true;
        }
        if program == "-o" {
            return true;
        }
        READERS.iter().any(|(name, verbs)| {
            *name == program && (verbs.is_empty() || first.is_some_and(|first| verbs.contains(&first)))
        })
    });
    some && all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_reads_is_told_from_what_changes() {
        for text in [
            "cat /etc/hosts",
            "systemctl is-active x",
            "helm version",
            "dpkg -l | grep -c foo",
            "/usr/bin/agent --version 2>/dev/null",
            "command -v jq",
        ] {
            assert!(read_only(text), "{text}");
        }
        for text in
            ["sysctl --system", "systemctl restart x", "cat a > b", "echo $(rm x)", "make", "", "ls; rm x"]
        {
            assert!(!read_only(text), "{text}");
        }
    }
}
