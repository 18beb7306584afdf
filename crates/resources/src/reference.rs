//! The reference page of a kind, from its schema, its doc comments and its example.

use crate::registry::kind;
use serde_json::Value;

/// The Markdown page of a kind; `None` when there is no such kind.
pub fn reference_page(name: &str) -> Option<String> {
    let info = kind(name)?;
    let schema = (info.schema)();
    let text =
        |value: &Value| value.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut page = format!("# `{name}`\n\n{}\n", text(&schema));
    if info.read_only {
        page.push_str("\nIt only reads: it may also stand in `check` and `verify`.\n");
    }
    page.push_str(&format!("\n## Example\n\n```yaml\n{}```\n\n## Parameters\n", info.example));
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    for (field, property) in properties.into_iter().flatten() {
        let mut facts = vec![type_of(&schema, property)];
        if required.contains(&field.as_str()) {
            facts.push("required".to_owned());
        }
        match property.get("default") {
            None | Some(Value::Null) => {}
            Some(Value::Array(list)) if list.is_empty() => {}
            Some(default) => facts.push(format!("default `{}`", plain(default))),
        }
        page.push_str(&format!("\n### `{field}`\n\n*{}*\n\n{}\n", facts.join(", "), text(property)));
        for (value, meaning) in choices(&schema, property) {
            page.push_str(&format!("\n* `{value}`: {meaning}"));
        }
        if !choices(&schema, property).is_empty() {
            page.push('\n');
        }
    }
    Some(page)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The schema of a property, through `$ref` and the `null` of an optional one.
fn resolved<'a>(schema: &'a Value, property: &'a Value) -> &'a Value {
    let options = property.get("anyOf").and_then(Value::as_array);
    let inner =
        options.and_then(|o| o.iter().find(|s| s.get("type").and_then(Value::as_str) != Some("null")));
    let property = inner.unwrap_or(property);
    let target = property.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
    target.and_then(|pointer| schema.pointer(pointer)).unwrap_or(property)
}

/// The values of an enumeration with what they mean.
fn choices<'a>(schema: &'a Value, property: &'a Value) -> Vec<(&'a str, &'a str)> {
    let one_of = resolved(schema, property).get("oneOf").and_then(Value::as_array);
    let pick = |s: &'a Value| {
        Some((s.get("const")?.as_str()?, s.get("description").and_then(Value::as_str).unwrap_or_default()))
    };
    one_of.into_iter().flatten().filter_map(pick).collect()
}

fn type_of(schema: &Value, property: &Value) -> String {
    match property.get(converge_resource::LOAD_KEYWORD).and_then(Value::as_str) {
        Some("template") => return "path under `templates/`".to_owned(),
        Some("tree") => return "folder under `files/`".to_owned(),
        Some(_) => return "path under `files/`".to_owned(),
        None => {}
    }
    if !choices(schema, property).is_empty() {
        return "one of the words below".to_owned();
    }
    let options = property.get("anyOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let options: Vec<&Value> =
        options.iter().filter(|o| o.get("type").and_then(Value::as_str) != Some("null")).collect();
    if options.len() > 1 || options.first().is_some_and(|only| only.get("anyOf").is_some()) {
        return options.into_iter().map(|o| type_of(schema, o)).collect::<Vec<_>>().join(" or ");
    }
    let resolved = resolved(schema, property);
    if resolved.get("anyOf").is_some() && !std::ptr::eq(resolved, property) {
        return type_of(schema, resolved);
    }
    let word = |name: &str| match name {
        "array" => match resolved.pointer("/items/type").and_then(Value::as_str) {
            Some(item) => format!("list of {item}s"),
            None => "list".to_owned(),
        },
        other => other.to_owned(),
    };
    match resolved.get("type") {
        Some(Value::String(name)) => word(name),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str).filter(|n| *n != "null");
            names.map(word).collect::<Vec<_>>().join(" or ")
        }
        _ => "any value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_all_of_the_kind() {
        let page = reference_page("line").unwrap();
        assert!(page.starts_with("# `line`\n\nOne line of a text file"), "{page}");
        for part in [
            "### `path`\n\n*string, required*",
            "### `create`\n\n*boolean, default `false`*",
            "### `state`\n\n*one of the words below, default `present`*",
            "* `absent`: It is not there.",
            "### `mode`\n\n*string or integer*",
            "  line:\n    path: /etc/ssh/sshd_config",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        assert!(reference_page("file").unwrap().contains("### `template`\n\n*path under `templates/`*"));
        assert!(reference_page("package").unwrap().contains("*string or list of strings, required*"));
        assert!(reference_page("lines").is_none());
    }

    /// With `CONVERGE_WRITE_DOCS=1` in the environment it writes them.
    #[test]
    fn the_pages_in_docs_are_those_of_the_code() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kinds");
        for info in crate::KINDS {
            let (file, page) = (dir.join(format!("{}.md", info.kind)), reference_page(info.kind).unwrap());
            if std::env::var_os("CONVERGE_WRITE_DOCS").is_some() {
                std::fs::create_dir_all(&dir).unwrap();
                std::fs::write(&file, &page).unwrap();
            }
            let on_disk = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(on_disk == page, "{} is old: run the tests with CONVERGE_WRITE_DOCS=1", file.display());
        }
        let pages = std::fs::read_dir(&dir).unwrap().filter_map(Result::ok);
        let left: Vec<_> =
            pages.filter(|p| kind(p.path().file_stem().unwrap().to_str().unwrap()).is_none()).collect();
        assert!(left.is_empty(), "pages of no kind: {left:?}");
    }
}
