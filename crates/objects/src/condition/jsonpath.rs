//! Queries for fields of an object in the notation of Kubernetes, read as JSONPath (RFC 9535).

use serde_json::Value;
use serde_json_path::JsonPath;

/// The reason why a text is no query for fields.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// It is empty, or holds several paths.
    #[error("write one path, as `{{.status.phase}}`")]
    NotOnePath,
    /// The brace at its begin has no counterpart at its end.
    #[error("`{0}`: the brace is not closed")]
    OpenBrace(String),
    /// A bracket has no counterpart.
    #[error("`{0}`: a bracket is not closed")]
    OpenBracket(String),
    /// A dot has no name behind it.
    #[error("`{0}`: a name is missing behind a dot")]
    NoName(String),
    /// RFC 9535 has no such query.
    #[error("`{text}` is no JSONPath: {error}")]
    NotJsonPath {
        /// The text as it was given.
        text: String,
        /// The error of the parser.
        error: serde_json_path::ParseError,
    },
}

/// A query for fields of an object.
#[derive(Clone, Debug)]
pub struct FieldQuery {
    path: JsonPath,
}

impl FieldQuery {
    /// Reads `{.status.conditions[?(@.type=="Ready")].status}` (with or without the braces), `$.status.state`, or a JSON
    /// pointer as `/status/state`.
    ///
    /// # Errors
    /// The text is no query: see [`QueryError`].
    pub fn read(text: &str) -> Result<Self, QueryError> {
        let standard = standard(text.trim())?;
        match JsonPath::parse(&standard) {
            Ok(path) => Ok(Self { path }),
            Err(error) => Err(QueryError::NotJsonPath { text: text.to_owned(), error }),
        }
    }

    /// All values that it leads to.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        self.path.query(object).all()
    }
}

/// The same query in the form of RFC 9535.
fn standard(text: &str) -> Result<String, QueryError> {
    if text.starts_with('/') {
        let names = text.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
        return Ok(names.fold("$".to_owned(), |path, name| path + &bracketed(&name)));
    }
    let text = match text.strip_prefix('{') {
        Some(inner) => inner.strip_suffix('}').ok_or_else(|| QueryError::OpenBrace(text.to_owned()))?,
        None => text,
    };
    let text = text.strip_prefix('$').unwrap_or(text);
    if text.is_empty() || text.contains(['{', '}']) {
        return Err(QueryError::NotOnePath);
    }
    let mut out = "$".to_owned();
    let mut rest = text;
    if !rest.starts_with(['.', '[']) {
        let (name, left) = name(rest);
        out.push_str(&bracketed(&name));
        rest = left;
    }
    while let Some(first) = rest.chars().next() {
        if first == '[' {
            let end = closing(rest).ok_or_else(|| QueryError::OpenBracket(text.to_owned()))?;
            let (inside, left) = rest.split_at(end);
            out.push_str(inside);
            rest = left;
            continue;
        }
        let deep = rest.starts_with("..");
        let (found, left) = name(rest.trim_start_matches('.'));
        if found.is_empty() && !left.starts_with('[') {
            return Err(QueryError::NoName(text.to_owned()));
        }
        out.push_str(if deep { ".." } else { "" });
        match found.as_str() {
            "" => {}
            "*" => out.push_str("[*]"),
            found => out.push_str(&bracketed(found)),
        }
        rest = left;
    }
    Ok(out)
}

/// A name up to the next dot or bracket; a backslash keeps what follows it.
fn name(text: &str) -> (String, &str) {
    let mut found = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return (found, text.get(at..).unwrap_or_default()),
            '\\' => found.extend(chars.next().map(|(_, retained)| retained)),
            _ => found.push(c),
        }
    }
    (found, "")
}

fn bracketed(name: &str) -> String {
    format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// The place behind the bracket that closes the first one; brackets in quotes do not count.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut retained) = (0_usize, None, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if retained => retained = false,
            (Some(_), '\\') => retained = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Two fields of one object together: the role time_slicing waits so for what an operator makes of its own.
    #[test]
    fn one_field_stands_for_another() {
        let text = "{.metadata[?@ == $.metadata.name && (!$.metadata.ownerReferences[?@.kind == 'Policy'] || $.spec.volumes[?@.configMap.name == 'x'])]}";
        let query = FieldQuery::read(text).unwrap();
        let object = |owners: Value, volumes: Value| json!({"metadata": {"name": "d", "namespace": "n", "ownerReferences": owners}, "spec": {"volumes": volumes}});
        let (policy, volume) =
            (json!([{"kind": "Policy"}]), json!([{"name": "v", "configMap": {"name": "x"}}]));
        assert_eq!(query.find(&object(policy.clone(), volume)), [&json!("d")]);
        assert_eq!(query.find(&object(json!([{"kind": "Other"}]), json!([]))), [&json!("d")]);
        assert!(
            query
                .find(&object(policy.clone(), json!([{"name": "v", "configMap": {"name": "y"}}])))
                .is_empty()
        );
        assert!(query.find(&object(policy, json!([]))).is_empty());
    }

    #[test]
    fn kubernetes_and_pointers_are_read() {
        let node = json!({"metadata": {"labels": {"nvidia.com/gpu.count": "8"}}, "status": {"conditions": [
            {"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "node-info": {"v": 1}}});
        let found = |query: &str| {
            FieldQuery::read(query).unwrap().find(&node).into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(found("{.status.conditions[?(@.type==\"Ready\")].status}"), [json!("True")]);
        assert_eq!(found(".status.conditions[?(@.type=='Ready')].status"), [json!("True")]);
        assert_eq!(found("{.metadata.labels.nvidia\\.com/gpu\\.count}"), [json!("8")]);
        assert_eq!(found("/metadata/labels/nvidia.com~1gpu.count"), [json!("8")]);
        assert_eq!(found("$.status.node-info.v"), [json!(1)]);
        assert_eq!(found("status.conditions[*].type"), [json!("MemoryPressure"), json!("Ready")]);
        assert_eq!(found(".status.conditions.*.type").len(), 2);
        assert_eq!(found("..type").len(), 2);
        assert_eq!(found("{.spec.nothing}"), Vec::<Value>::new());
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for bad in ["", "{.a", "{.a}{.b}", ".a[0", ".a.", "[?(@.a==]", "{}"] {
            assert!(FieldQuery::read(bad).is_err(), "{bad}");
        }
    }
}
