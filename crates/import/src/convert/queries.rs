//! Tasks whose registered result later tasks read: `stat`, and commands that change nothing.

use super::params::param;
use super::{Context, Conversion, Params, shell_text};
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
        "slurp" => {
            let mut known = BTreeMap::from([(".content".to_owned(), format!("{register}.stdout"))]);
            let failed = if fails { format!("({register}.status != 0)") } else { "false".to_owned() };
            for path in [".failed", " is failed", " is failure"] {
                known.insert(path.to_owned(), failed.clone());
            }
            RegisteredResult::Query(known)
        }
        "uri" | "find" | "getent" => unknown(
            format!("`{register}` is the answer of `{module}`"),
            "write `query` with `register`; its answer is `stdout`, `lines`, `status` and `json`",
        ),
        _ => RegisteredResult::Changes(Vec::new()),
    }
}

pub(super) fn stat(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
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
        return Ok(Conversion { left_out: Some("left out"), ..Conversion::default() });
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
    let mut all = Conversion::one(
        "query",
        vec![param("run", test.replace('@', &shell_text::word(&path))), statuses(&[0, 1])],
    );
    if let Some(made) = all.made.first_mut() {
        made.registers = true;
    }
    Ok(all)
}

/// Ansible gives the content in base64.
pub(super) fn slurp(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    let path = params.needed(&["src", "path"])?;
    params.finish("query")?;
    let read = format!("base64 -w0 {}", shell_text::word(&path));
    let mut out = vec![param("run", read.clone())];
    if context.ignores_errors {
        out = vec![param("run", format!("{read} || exit 1")), statuses(&[0, 1])];
    }
    let mut all = Conversion::one("query", out);
    if let Some(made) = all.made.first_mut() {
        made.registers = context.is_query;
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
