//! Filters and tests of Ansible that Jinja has not; one file for each family.

mod chance;
mod collections;
mod combining;
mod crypt;
mod dates;
mod encoding;
mod jmes;
mod json;
mod maths;
mod names;
mod network;
mod paths;
mod places;
mod regex;
mod tests;
mod text;
mod types;
mod version;
mod yaml;

use crate::registry::Registry;
use minijinja::value::{Kwargs, Rest, StringInput, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State, Value};

/// Every filter there is, for suggestions.
pub(crate) const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "b64decode",
    "b64encode",
    "basename",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "checksum",
    "cidr_merge",
    "combinations",
    "combine",
    "comment",
    "commonpath",
    "count",
    "d",
    "default",
    "dict2items",
    "dictsort",
    "difference",
    "dirname",
    "escape",
    "expanduser",
    "expandvars",
    "extract",
    "first",
    "flatten",
    "float",
    "format",
    "from_json",
    "from_yaml",
    "from_yaml_all",
    "groupby",
    "hash",
    "human_readable",
    "human_to_bytes",
    "indent",
    "int",
    "intersect",
    "ipaddr",
    "ipmath",
    "ipsubnet",
    "ipv4",
    "ipv6",
    "ipwrap",
    "items",
    "items2dict",
    "join",
    "json_query",
    "last",
    "length",
    "lines",
    "list",
    "log",
    "lower",
    "mandatory",
    "map",
    "max",
    "md5",
    "min",
    "network_in_network",
    "network_in_usable",
    "normpath",
    "nthhost",
    "password_hash",
    "path_join",
    "permutations",
    "pow",
    "product",
    "quote",
    "quote_words",
    "random",
    "realpath",
    "regex_escape",
    "regex_findall",
    "regex_replace",
    "regex_search",
    "reject",
    "rejectattr",
    "rekey_on_member",
    "relpath",
    "replace",
    "reverse",
    "root",
    "round",
    "select",
    "selectattr",
    "sha1",
    "shuffle",
    "slice",
    "sort",
    "split",
    "splitext",
    "strftime",
    "string",
    "subelements",
    "sum",
    "symmetric_difference",
    "ternary",
    "title",
    "to_datetime",
    "to_json",
    "to_nice_json",
    "to_nice_yaml",
    "to_uuid",
    "to_yaml",
    "tojson",
    "trim",
    "type_debug",
    "union",
    "unique",
    "upper",
    "urlencode",
    "urlsplit",
    "win_basename",
    "win_dirname",
    "win_splitdrive",
    "zip",
    "zip_longest",
];

/// Every test there is, for suggestions.
pub(crate) const TESTS: &[&str] = &[
    "abs",
    "all",
    "any",
    "boolean",
    "change",
    "changed",
    "contains",
    "defined",
    "directory",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "even",
    "exists",
    "failed",
    "failure",
    "false",
    "falsy",
    "file",
    "float",
    "ge",
    "gt",
    "in",
    "in_network",
    "integer",
    "ip",
    "ip_address",
    "ipv4_address",
    "ipv6_address",
    "iterable",
    "le",
    "link",
    "link_exists",
    "lower",
    "lt",
    "mapping",
    "match",
    "mount",
    "nan",
    "ne",
    "none",
    "number",
    "odd",
    "regex",
    "same_file",
    "sameas",
    "search",
    "sequence",
    "skip",
    "skipped",
    "startingwith",
    "string",
    "subset",
    "succeeded",
    "success",
    "successful",
    "superset",
    "true",
    "truthy",
    "undefined",
    "upper",
    "version",
];

/// Adds all of them.
pub(crate) fn install(env: &mut Registry<'_>) {
    types::install(env);
    collections::install(env);
    json::install(env);
    yaml::install(env);
    encoding::install(env);
    regex::install(env);
    text::install(env);
    paths::install(env);
    tests::install(env);
    places::install(env);
    combining::install(env);
    maths::install(env);
    chance::install(env);
    crypt::install(env);
    names::install(env);
    network::install(env);
    jmes::install(env);
    dates::install(env);
}

/// An error that names the variable, where a value is undefined.
pub(crate) fn defined(state: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        // Only minijinja itself can say where an undefined value came from; this asks it.
        StringInput::new(state, value)?;
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    Ok(())
}

/// Arguments taken apart into positional ones and keywords.
pub(crate) fn arguments(values: Rest<ValueOrKwargs>) -> Result<(Vec<Value>, Kwargs), Error> {
    let mut options = Kwargs::from_iter(std::iter::empty::<(String, Value)>());
    let mut positional = Vec::new();
    for value in values.into_values() {
        if value.is_kwargs() {
            options = Kwargs::try_from(value)?;
        } else {
            positional.push(value);
        }
    }
    Ok((positional, options))
}

/// An error about what a filter was given.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

#[cfg(test)]
pub(crate) mod check {
    use crate::engine::TemplateEngine;
    use crate::scope::Scope;
    use converge_syntax::{Dialect, Node, Source, Value, parse_yaml};

    /// Evaluates expressions; each must give the value of the YAML on the right, or fail with the words after `!`.
    pub(crate) fn table(rows: &[(&str, &str)]) {
        let engine = TemplateEngine::new();
        let scope = Scope::new(&engine);
        for (expression, wanted) in rows {
            let source = Source::new("test", format!("{{{{ {expression} }}}}"));
            let node = Node::new(source.text(), converge_syntax::Span::whole(source.clone()));
            let got = engine.eval_value(&node, &scope);
            if let Some(words) = wanted.strip_prefix('!') {
                let error = got.expect_err(expression).to_string();
                assert!(error.contains(words), "{expression}: {error}");
                continue;
            }
            let mut got = got.unwrap_or_else(|error| panic!("{expression}: {error}")).known().unwrap();
            let wanted = parse_yaml(Source::new("wanted", *wanted), Dialect::Ansible).unwrap();
            // Text that looks like a template is tagged; the tables compare values.
            got.tag = None;
            let wanted = wanted.into_iter().next().map_or(Value::Null, |node| node.value);
            assert_eq!(got.value, wanted, "{expression}");
        }
    }

    #[test]
    fn every_name_for_suggestions_exists() {
        let engine = TemplateEngine::new();
        let scope = Scope::new(&engine);
        let exists = |text: String| {
            let node = Node::new(text, converge_syntax::Span::nowhere("test"));
            match engine.eval_value(&node, &scope) {
                Ok(_) => true,
                Err(error) => !error.to_string().contains("there is no"),
            }
        };
        for name in super::FILTERS {
            assert!(exists(format!("{{{{ 'a' | {name} }}}}")), "{name}");
        }
        for name in super::TESTS {
            assert!(exists(format!("{{{{ 'a' is {name} }}}}")), "{name}");
        }
        assert!(!exists("{{ 'a' | no_such }}".to_owned()));
    }
}
