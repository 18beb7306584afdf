//! Tasks whose registered result later tasks read: `stat`, and commands that change nothing.

use super::params::param;
use super::{Context, Conversion, Params, shell_text};
use crate::expression::{ImportProblem, RegisteredResult};
use crate::results::JsonAnswer;
use crate::yaml::made;
use converge_syntax::{Node, Value};
use std::collections::{BTreeMap, BTreeSet};

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
    for path in uses.iter().filter(|path| !matches!(path.as_str(), " is defined" | ".stat is defined")) {
        // Of a path that is not there only `exists` is defined.
        let name = path.strip_prefix(".stat.")?;
        let name = if name == "exists is defined" { "exists" } else { name };
        let (own, _) = ATTRIBUTES.iter().find(|(own, _)| *own == name)?;
        if found.is_some_and(|other| other != *own) {
            return None;
        }
        found = Some(*own);
    }
    found
}

/// The shell text for a value of `stat`, and whether it is a text. `$p` is the path, `$t` its type.
const VALUES: &[(&str, bool, &str)] = &[
    ("isdir", false, "is [ \"$t\" = directory ]"),
    ("isreg", false, "is [ \"${t#regular}\" != \"$t\" ]"),
    ("islnk", false, "is [ \"$t\" = 'symbolic link' ]"),
    ("issock", false, "is [ \"$t\" = socket ]"),
    ("isfifo", false, "is [ \"$t\" = fifo ]"),
    ("readable", false, "is [ -r \"$p\" ]"),
    ("writeable", false, "is [ -w \"$p\" ]"),
    ("executable", false, "is [ -x \"$p\" ]"),
    ("mode", true, "s %04a"),
    ("uid", false, "s %u"),
    ("gid", false, "s %g"),
    ("size", false, "s %s"),
    ("pw_name", true, "s %U"),
    ("gr_name", true, "s %G"),
];

/// The attributes of a `stat` that are asked for, but for `exists`. `None` where one of them has no text.
fn values(uses: &BTreeSet<String>) -> Option<Vec<&'static str>> {
    let mut found = BTreeSet::new();
    for path in uses.iter().filter(|path| !matches!(path.as_str(), " is defined" | ".stat is defined")) {
        // A test, or a part of the value, may stand behind the name.
        let name = path.strip_prefix(".stat.")?.split([' ', '.']).next()?;
        if name != "exists" {
            found.insert(VALUES.iter().find(|(own, ..)| *own == name)?.0);
        }
    }
    Some(found.into_iter().collect())
}

/// A script that answers with these attributes as Ansible does: of a path that is not there it says only that.
fn described(path: &str, names: &str, follow: bool) -> String {
    let (is_there, flag) =
        if follow { ("[ -e \"$p\" ]", "-L ") } else { ("[ -e \"$p\" ] || [ -L \"$p\" ]", "") };
    let mut lines = vec![
        format!("p={}", shell_text::word(path)),
        format!("if ! {{ {is_there}; }}; then echo '{{\"exists\": false}}'; exit 0; fi"),
        format!("s() {{ LC_ALL=C stat {flag}-c \"$1\" -- \"$p\"; }}"),
        "is() { if \"$@\"; then echo true; else echo false; fi; }".to_owned(),
        "t=$(s %F)".to_owned(),
    ];
    let mut form = "{\"exists\": true".to_owned();
    let mut given = String::new();
    for (name, is_text, text) in VALUES.iter().filter(|(name, ..)| names.split(',').any(|one| one == *name)) {
        form.push_str(&format!(", \"{name}\": {}", if *is_text { "\"%s\"" } else { "%s" }));
        given.push_str(&format!(" \"$({text})\""));
    }
    lines.push(format!("printf '{form}}}'{given}"));
    lines.join("\n")
}

/// The part of the answer of `find` that is read here.
const OF_FIND: &[&str] =
    &[".files", ".matched", ".changed", " is changed", ".failed", " is failed", " is defined"];

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
            None if values(uses).is_some() => RegisteredResult::Json(JsonAnswer {
                path: ".stat",
                here: format!("{register}.json"),
                known: [".changed", " is changed", ".failed", " is failed"]
                    .map(|path| (path.to_owned(), "false".to_owned()))
                    .into(),
            }),
            None => unknown(
                format!("`{register}` is asked for something that has no plain test"),
                "write `query` with `stat -c`",
            ),
        },
        "command" | "shell" | "raw" if reads && text.is_some() => {
            let mut known: BTreeMap<String, String> = BTreeMap::new();
            let mut add = |path: &str, here: String| known.insert(path.to_owned(), here);
            add(".stdout", format!("{register}.stdout"));
            add(".stdout_lines", format!("{register}.lines"));
            add(".rc", format!("{register}.status"));
            add(".stderr", format!("{}.stdout", of_errors(register)));
            add(".stderr_lines", format!("{}.lines", of_errors(register)));
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
        "find" if uses.iter().all(|path| OF_FIND.iter().any(|own| path.starts_with(own))) => {
            RegisteredResult::Json(JsonAnswer {
                path: "",
                here: format!("{register}.json"),
                known: [".changed", " is changed", ".failed", " is failed"]
                    .map(|path| (path.to_owned(), "false".to_owned()))
                    .into(),
            })
        }
        "uri" | "find" | "getent" => unknown(
            format!("`{register}` is the answer of `{module}`"),
            "write `query` with `register`; its answer is `stdout`, `lines`, `status` and `json`",
        ),
        _ => RegisteredResult::Changes(Vec::new()),
    }
}

/// The name of the answer that is what a command said as errors.
pub(crate) fn of_errors(register: &str) -> String {
    format!("{register}_stderr")
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
        let run = described(&path, name.map_or("", String::as_str), follow);
        let mut all = Conversion::one("query", vec![param("run", run), param("json", true)]);
        all.made.iter_mut().for_each(|made| made.registers = true);
        return Ok(all);
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

/// The attribute that a `stat` is for, or all that are asked for with a comma before each, to find the question again.
pub(crate) fn stat_attribute(uses: &BTreeSet<String>) -> Option<String> {
    attribute(uses)
        .map(str::to_owned)
        .or_else(|| values(uses).map(|all| all.iter().map(|name| format!(",{name}")).collect()))
}

pub(super) fn statuses(all: &[i64]) -> (String, Node) {
    ("status".to_owned(), made(Value::List(all.iter().map(|status| made(*status)).collect())))
}
