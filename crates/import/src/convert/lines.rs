//! lineinfile, blockinfile, ini_file.

use super::params::param;
use super::{Context, Conversion, Params};
use crate::expression::ImportProblem;
use crate::yaml::map;
use converge_syntax::Value;

/// Patterns of Python that the kind `line` does not know.
fn pattern(text: &str) -> Result<(), ImportProblem> {
    let bad = ["(?=", "(?!", "(?<=", "(?<!", "(?P=", "\\Z"];
    match bad.iter().find(|part| text.contains(**part)) {
        Some(part) => Err(ImportProblem::new(
            format!("the pattern has `{part}`, which is not known here"),
            "write a pattern without it",
        )),
        None => Ok(()),
    }
}

pub(super) fn lineinfile(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["backup", "encoding"]);
    let mut out = vec![param("path", params.needed(&["path", "dest", "destfile", "name"])?)];
    if let Some(text) = params.text(&["search_string"]) {
        out.push(param("regexp", literal(&text)?));
    }
    if let Some(regexp) = params.text(&["regexp", "regex"]) {
        pattern(&regexp)?;
        out.push(param("regexp", regexp));
    }
    if let Some(line) = params.text(&["line", "value"]) {
        out.push(param("line", line));
    }
    if params.text(&["state"]).as_deref() == Some("absent") {
        out.push(param("state", "absent"));
        // Where a pattern decides, the text of the line means nothing to Ansible.
        if out.iter().any(|(key, _)| key == "regexp") {
            out.retain(|(key, _)| key != "line");
        }
        params.ignore(&["insertafter", "insertbefore", "create"]);
    }
    for (theirs, own) in [("insertafter", "insert_after"), ("insertbefore", "insert_before")] {
        if let Some(text) = params.text(&[theirs]) {
            pattern(&text)?;
            out.push(param(own, text));
        }
    }
    for (theirs, own) in [("backrefs", "backrefs"), ("firstmatch", "first_match"), ("create", "create")] {
        if params.flag(&[theirs])? == Some(true) {
            out.push(param(own, true));
        }
    }
    params.attributes(&mut out)?;
    params.same(&[("validate", "validate")], &mut out);
    params.finish("line")?;
    Ok(Conversion::one("line", out))
}

/// A pattern that matches this text.
fn literal(text: &str) -> Result<String, ImportProblem> {
    if text.contains("{{") {
        return Err(ImportProblem::new(
            "the text that is searched for is a template",
            "write `regexp` with `regex_escape`",
        ));
    }
    let escaped = |c: char| if "\\.+*?()|[]{}^$".contains(c) { format!("\\{c}") } else { c.to_string() };
    Ok(text.chars().map(escaped).collect())
}

pub(super) fn blockinfile(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["backup", "encoding"]);
    let mut out = vec![param("path", params.needed(&["path", "dest", "destfile", "name"])?)];
    let marker = params.text(&["marker"]).unwrap_or_else(|| "# {mark} ANSIBLE MANAGED BLOCK".to_owned());
    out.push(param("marker", marker));
    let block = params.text(&["block", "content"]).unwrap_or_default();
    if params.text(&["state"]).as_deref() == Some("absent") || block.is_empty() {
        out.push(param("state", "absent"));
        params.ignore(&["insertafter", "insertbefore", "create"]);
    } else {
        out.push(param("block", block));
    }
    params.same(&[("insertafter", "insert_after"), ("insertbefore", "insert_before")], &mut out);
    if params.flag(&["create"])? == Some(true) {
        out.push(param("create", true));
    }
    params.attributes(&mut out)?;
    params.same(&[("validate", "validate")], &mut out);
    params.finish("block")?;
    Ok(Conversion::one("block", out))
}

pub(super) fn ini_file(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["backup", "no_extra_spaces", "ignore_spaces", "follow"]);
    let path = params.needed(&["path", "dest"])?;
    let section = params.needed(&["section"])?;
    let option = params.needed(&["option"])?;
    if section.contains("{{") || option.contains("{{") {
        return Err(ImportProblem::new(
            "section or option is a template",
            "write the names into `set` of `structured`",
        ));
    }
    let pointer = |text: &str| text.replace('~', "~0").replace('/', "~1");
    let pointer = format!("/{}/{}", pointer(&section), pointer(&option));
    let mut out = vec![param("path", path), param("format", "ini")];
    let create = params.flag(&["create"])?.unwrap_or(true);
    if params.text(&["state"]).as_deref() == Some("absent") {
        params.ignore(&["value"]);
        out.push(("remove".to_owned(), crate::yaml::texts([pointer])));
    } else {
        let value = params.needed(&["value"])?;
        out.push(("set".to_owned(), map([(pointer, crate::yaml::made(Value::from(value)))])));
        if create {
            out.push(param("create", true));
        }
    }
    params.attributes(&mut out)?;
    params.finish("structured")?;
    Ok(Conversion::one("structured", out))
}
