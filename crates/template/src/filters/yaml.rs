//! YAML in and out: text that any YAML 1.1 reader, Ansible among them, reads back as it was.

use converge_syntax::{Dialect, Node, Source, Span, YamlStyle, parse_yaml, write_yaml};
use minijinja::value::Kwargs;
use minijinja::{Error, Value};

use super::invalid;
use crate::convert::{to_node, to_value};
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("to_yaml", to_yaml);
    env.add_filter("to_nice_yaml", to_nice_yaml);
    env.add_filter("from_yaml", from_yaml);
    env.add_filter("from_yaml_all", from_yaml_all);
}

fn dump(value: &Value, kwargs: &Kwargs, indent: usize, flow_leaves: bool) -> Result<String, Error> {
    let style = YamlStyle {
        indent: kwargs.get::<Option<usize>>("indent")?.unwrap_or(indent).clamp(1, 16),
        sort: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(true),
        flow_leaves: kwargs.get::<Option<bool>>("default_flow_style")?.unwrap_or(flow_leaves),
    };
    // Lines are never folded, which is what a large width asks for.
    kwargs.get::<Option<i64>>("width")?;
    kwargs.assert_all_used()?;
    crate::measure::with_indent("to_yaml", value, style.indent)?;
    let node = to_node(value, &Span::nowhere("yaml"))?;
    Ok(write_yaml(&node, &style))
}

fn to_yaml(value: Value, kwargs: Kwargs) -> Result<String, Error> {
    dump(&value, &kwargs, 2, true)
}

fn to_nice_yaml(value: Value, indent: Option<usize>, kwargs: Kwargs) -> Result<String, Error> {
    dump(&value, &kwargs, indent.unwrap_or(4), false)
}

fn documents(text: String) -> Result<Vec<Node>, Error> {
    parse_yaml(Source::new("from_yaml", text), Dialect::Ansible).map_err(|found| {
        let first = found.iter().next();
        let line = first.and_then(|found| found.span()).map_or(1, Span::line);
        invalid(format!("from_yaml: line {line}: {}", first.map_or("", |found| found.message.as_str())))
    })
}

fn from_yaml_all(text: String) -> Result<Vec<Value>, Error> {
    Ok(documents(text)?.iter().map(to_value).collect())
}

fn from_yaml(text: String) -> Result<Value, Error> {
    match documents(text)?.as_slice() {
        [] => Ok(Value::from(())),
        [one] => Ok(to_value(one)),
        _ => Err(invalid("from_yaml: the text holds more than one document")),
    }
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    #[test]
    fn written_and_read_again() {
        table(&[
            (
                "{'b': [1, 2], 'a': {'y': {'z': 'yes'}}} | to_nice_yaml(indent=2)",
                "\"a:\\n  y:\\n    z: 'yes'\\nb:\\n- 1\\n- 2\\n\"",
            ),
            ("{'a': {'b': 1}} | to_nice_yaml", "\"a:\\n    b: 1\\n\""),
            ("{'b': 1, 'a': 2} | to_nice_yaml(sort_keys=false)", "\"b: 1\\na: 2\\n\""),
            ("{'a': [1, 'x'], 'b': {'c': 2}} | to_yaml", "\"a: [1, x]\\nb: {c: 2}\\n\""),
            ("[{'a': 1, 'b': 2}] | to_nice_yaml(indent=2)", "\"- a: 1\\n  b: 2\\n\""),
            ("'a: [1, {b: ~}]' | from_yaml", "{a: [1, {b: null}]}"),
            ("'mode: 0644' | from_yaml", "{mode: 420}"),
            ("'a: [' | from_yaml", "!from_yaml: line"),
            ("'' | from_yaml", ""),
        ]);
    }
}
