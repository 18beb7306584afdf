//! find: the files below folders, in the structure that Ansible gives them.

use super::params::param;
use super::{Context, Conversion, Params, shell_text};
use crate::expression::{ImportProblem, whole_expression};
use converge_syntax::Node;

/// The attributes of each file, in the words of GNU find; its type comes first.
const FORM: &str = r#"'%y "path": "%p", "mode": "%04m", "size": %s, "uid": %U, "gid": %G, "pw_name": "%u", "gr_name": "%g", "inode": %i, "nlink": %n, "mtime": %T@\n'"#;

/// From lines to the answer.
const ANSWER: &str = r#"awk '
function is(t) { return substr($0, 1, 1) == t ? "true" : "false" }
BEGIN { printf "{\"files\": [" }
{ printf "%s{\"isdir\": %s, \"isreg\": %s, \"islnk\": %s, %s}", (n++ ? ", " : ""), is("d"), is("f"), is("l"), substr($0, 3) }
END { printf "], \"matched\": %d}", n }'"#;

/// A list, or a text with commas between its elements.
fn elements(node: &Node) -> Vec<String> {
    match node.as_list() {
        Some(items) => items.iter().filter_map(Node::scalar_text).collect(),
        None => {
            let text = node.scalar_text().unwrap_or_default();
            if text.contains("{{") {
                return vec![text];
            }
            text.split(',').map(|one| one.trim().to_owned()).collect()
        }
    }
}

/// The folders as words of a shell; one whose name is an expression may be a list.
fn folders(node: &Node) -> Result<Vec<String>, ImportProblem> {
    let word = |path: &String| {
        if let Some(expression) = whole_expression(path) {
            return Ok(format!("{{{{ [{expression}] | flatten | map('quote') | join(' ') }}}}"));
        }
        let plain = shell_text::outside_of_templates(path);
        if plain.starts_with('~') || plain.contains('$') {
            return Err(ImportProblem::new(
                format!("`{path}` has something in it that the host knows"),
                "write the whole path",
            ));
        }
        let bare = path.trim_end_matches('/');
        Ok(shell_text::word(if bare.is_empty() { "/" } else { bare }))
    };
    elements(node).iter().map(word).collect()
}

/// A condition of find for the name of a file.
fn name_test(pattern: &str, is_regex: bool) -> Result<String, ImportProblem> {
    let open = |why: &str| {
        ImportProblem::new(
            format!("the pattern `{pattern}` {why}"),
            "write `query` with find, and its `-name` or `-regex`",
        )
    };
    if whole_expression(pattern).is_some() {
        return Err(open("may be a list"));
    }
    if !is_regex {
        return Ok(format!("-name {}", shell_text::word(pattern)));
    }
    // Ansible looks from the beginning of the name on.
    let rest = pattern.strip_prefix('^').unwrap_or(pattern);
    let (rest, end) = match rest.strip_suffix('$') {
        Some(rest) => (rest, ""),
        None => (rest, "[^/]*"),
    };
    let mut out = String::from(".*/");
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '.' => out.push_str("[^/]"),
            '\\' => match chars.next() {
                Some(c @ ('.' | '-' | '_')) => out.push_str(&format!("[{c}]")),
                _ => return Err(open("is no plain one")),
            },
            c if c == '_' || c == '-' || c.is_ascii_alphanumeric() => out.push(c),
            _ => return Err(open("is no plain one")),
        }
    }
    Ok(format!("-regextype posix-extended -regex {}", shell_text::word(&format!("{out}{end}"))))
}

/// One of several conditions.
fn any_of(tests: &[String]) -> String {
    match tests {
        [one] => one.clone(),
        all => format!("\\( {} \\)", all.join(" -o ")),
    }
}

pub(super) fn find(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    let paths = params
        .take(&["paths", "path", "name"])
        .ok_or_else(|| ImportProblem::new("no folder is named", "write `query` with find"))?;
    let is_regex = params.flag(&["use_regex"])? == Some(true);
    let tests = |node: Option<Node>| -> Result<Vec<String>, ImportProblem> {
        node.iter().flat_map(elements).map(|pattern| name_test(&pattern, is_regex)).collect()
    };
    let wanted = tests(params.take(&["patterns", "pattern"]))?;
    let unwanted = tests(params.take(&["excludes", "exclude"]))?;
    let mut all = vec!["find -H".to_owned(), folders(&paths)?.join(" "), "-mindepth 1".to_owned()];
    let depth = params.text(&["depth"]);
    match (params.flag(&["recurse"])?, depth) {
        (Some(true), Some(depth)) => all.push(format!("-maxdepth {}", shell_text::word(&depth))),
        (Some(true), None) => {}
        _ => all.push("-maxdepth 1".to_owned()),
    }
    match params.text(&["file_type"]).as_deref() {
        None | Some("file") => all.push("-type f".to_owned()),
        Some("directory") => all.push("-type d".to_owned()),
        Some("link") => all.push("-type l".to_owned()),
        Some("any") => {}
        Some(other) => {
            return Err(ImportProblem::new(
                format!("`file_type: {other}` is not known"),
                "write `query` with find",
            ));
        }
    }
    if params.flag(&["hidden"])? != Some(true) {
        all.push("! -name '.*'".to_owned());
    }
    if !wanted.is_empty() {
        all.push(any_of(&wanted));
    }
    if !unwanted.is_empty() {
        all.push(format!("! {}", any_of(&unwanted)));
    }
    if params.flag(&["follow"])? == Some(true) {
        return Err(ImportProblem::new("`follow` goes through links", "write `query` with `find -L`"));
    }
    if params.flag(&["get_checksum"])? == Some(true) {
        return Err(ImportProblem::new("it asks for checksums", "write `query` with find and sha256sum"));
    }
    params.finish("query")?;
    if !context.is_query {
        return Ok(Conversion { left_out: Some("left out"), ..Conversion::default() });
    }
    let run = format!("{} -printf \\\n{FORM} 2>/dev/null | {ANSWER}", all.join(" "));
    let mut made = Conversion::one("query", vec![param("run", run), param("json", true)]);
    made.made.iter_mut().for_each(|made| made.registers = true);
    Ok(made)
}
