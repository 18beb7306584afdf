//! The facts of hosts; identical output is grouped.

use crate::names::fold_names;
use crate::plan::lost_host;
use crate::text::{Line, Text, Tone};
use converge_engine::HostAnswer;
use converge_resource::counted;
use serde_json::{Map, Value};

/// A place in facts: `nvidia.gpus[0].name`, `network.interfaces[].name` for all of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactPath(Vec<FactPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum FactPart {
    Name(String),
    Index(usize),
    Each,
}

impl FactPath {
    /// Reads a path; `None` when it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        for word in text.split('.') {
            let (name, mut rest) = word.split_at(word.find('[').unwrap_or(word.len()));
            match name.parse() {
                Ok(index) => parts.push(FactPart::Index(index)),
                Err(_) if name.is_empty() => return None,
                Err(_) => parts.push(FactPart::Name(name.to_owned())),
            }
            while !rest.is_empty() {
                let (inner, after) = rest.strip_prefix('[')?.split_once(']')?;
                parts.push(if inner.is_empty() {
                    FactPart::Each
                } else {
                    FactPart::Index(inner.parse().ok()?)
                });
                rest = after;
            }
        }
        Some(Self(parts))
    }

    /// The first name: what a host is to be asked.
    pub fn first(&self) -> &str {
        match self.0.first() {
            Some(FactPart::Name(name)) => name,
            _ => "",
        }
    }

    /// The value there. An index beyond a list's end gives null.
    ///
    /// # Errors
    /// A name that no fact has, with those that there are.
    pub fn of(&self, facts: &Value) -> Result<Value, (String, Vec<String>)> {
        at(facts, &self.0)
    }
}

fn at(value: &Value, path: &[FactPart]) -> Result<Value, (String, Vec<String>)> {
    let Some((part, rest)) = path.split_first() else { return Ok(value.clone()) };
    match (part, value) {
        (_, Value::Null) => Ok(Value::Null),
        (FactPart::Name(name), Value::Object(map)) => match map.get(name) {
            Some(inner) => at(inner, rest),
            None => Err((name.clone(), map.keys().cloned().collect())),
        },
        (FactPart::Index(n), Value::Array(items)) => {
            items.get(*n).map_or(Ok(Value::Null), |item| at(item, rest))
        }
        (FactPart::Each, Value::Array(items)) => {
            items.iter().map(|item| at(item, rest)).collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        (FactPart::Name(name), _) => Err((name.clone(), Vec::new())),
        (FactPart::Index(n), _) => Err((format!("[{n}]"), Vec::new())),
        (FactPart::Each, _) => Err(("[]".to_owned(), Vec::new())),
    }
}

/// Some facts, and the hosts that say so.
type FactGroup<'a> = (Vec<(&'a String, &'a Value)>, Vec<&'a str>);

/// The facts of all hosts: those that are equal on all of them first.
pub fn facts(all: &[HostAnswer]) -> Text {
    let mut text = Text::new();
    let hosts: Vec<(&str, &Map<String, Value>)> =
        all.iter().filter_map(|h| Some((h.host.as_str(), h.result.as_ref().ok()?.as_object()?))).collect();
    let equal = |name: &str, value: &Value| hosts.iter().all(|(_, facts)| facts.get(name) == Some(value));
    let mut groups: Vec<FactGroup<'_>> = Vec::new();
    if let (Some((_, first)), true) = (hosts.first(), hosts.len() > 1) {
        let common: Vec<(&String, &Value)> = first.iter().filter(|(n, v)| equal(n, v)).collect();
        let names = hosts.iter().map(|(host, _)| *host).collect();
        groups.push((common, names));
    }
    for (host, facts) in &hosts {
        let own: Vec<_> = facts.iter().filter(|(n, v)| hosts.len() == 1 || !equal(n, v)).collect();
        match groups.iter_mut().skip(usize::from(hosts.len() > 1)).find(|(o, _)| *o == own) {
            Some((_, hosts)) => hosts.push(host),
            None => groups.push((own, vec![host])),
        }
    }
    for (facts, hosts) in groups.iter().filter(|(facts, _)| !facts.is_empty()) {
        text.gap();
        text.push(header(hosts));
        for (name, value) in facts {
            push_value(&mut text, 2, name, value);
        }
    }
    push_lost(&mut text, all);
    text
}

/// One fact of all hosts; identical output is grouped.
pub fn fact(all: &[(String, Value)], lost: &[HostAnswer]) -> Text {
    let mut text = Text::new();
    let mut groups: Vec<(&Value, Vec<&str>)> = Vec::new();
    for (host, value) in all {
        match groups.iter_mut().find(|(v, _)| *v == value) {
            Some((_, hosts)) => hosts.push(host),
            None => groups.push((value, vec![host])),
        }
    }
    for (value, hosts) in groups {
        match inline(value) {
            Some(word) => text.push(header(&hosts).faint("  ").plain(word)),
            None => {
                text.gap();
                text.push(header(&hosts));
                push_inner(&mut text, 2, value);
            }
        }
    }
    push_lost(&mut text, lost);
    text
}

fn header(hosts: &[&str]) -> Line {
    let line = Line::at(0).say(Tone::Strong, fold_names(hosts)).fold(2);
    if hosts.len() > 1 { line.faint(format!(" · {}", counted(hosts.len(), "host"))) } else { line }
}

fn push_lost(text: &mut Text, all: &[HostAnswer]) {
    for host in all {
        if let Err(lost) = &host.result {
            text.gap();
            text.append(lost_host(&host.host, lost));
        }
    }
}

/// A value that fits on a line.
fn inline(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => s.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) if items.iter().all(|i| !i.is_object() && !i.is_array()) => {
            items.iter().filter_map(inline).collect::<Vec<_>>().join(", ")
        }
        Value::Array(_) => return None,
        Value::Object(map) if map.is_empty() => "none".to_owned(),
        Value::Object(_) => return None,
    })
}

fn push_value(text: &mut Text, indent: usize, name: &str, value: &Value) {
    let absent = value.get("present") == Some(&Value::Bool(false));
    match inline(value).or_else(|| absent.then(|| "not there".to_owned())) {
        Some(word) => {
            let tone = if value.is_null() { Tone::Faint } else { Tone::Plain };
            text.push(Line::at(indent).faint(format!("{name}: ")).say(tone, word).fold(indent + 2));
        }
        None => {
            text.push(Line::at(indent).faint(format!("{name}:")));
            push_inner(text, indent + 2, value);
        }
    }
}

fn push_inner(text: &mut Text, indent: usize, value: &Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                push_value(text, indent, name, value);
            }
        }
        Value::Array(items) => {
            for item in items {
                // The parts of an entry that fit on a line stand on one line.
                let parts = item.as_object().and_then(|map| {
                    map.iter()
                        .filter(|(_, v)| !v.is_null())
                        .map(|(k, v)| Some((k, inline(v)?)))
                        .collect::<Option<Vec<_>>>()
                });
                match parts {
                    Some(parts) => {
                        let mut line = Line::at(indent).faint("- ").fold(indent + 4);
                        for (at, (name, word)) in parts.into_iter().enumerate() {
                            line =
                                line.faint(format!("{}{name} ", if at > 0 { ", " } else { "" })).plain(word);
                        }
                        text.push(line);
                    }
                    None => {
                        text.push(Line::at(indent).faint("-"));
                        push_inner(text, indent + 2, item);
                    }
                }
            }
        }
        other => text.push(Line::at(indent).plain(inline(other).unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Look;
    use converge_engine::TargetError;
    use serde_json::json;

    fn host(name: &str, kernel: &str) -> HostAnswer {
        let facts = json!({
            "hostname": name,
            "os": {"id": "debian", "like": [], "version": "12"},
            "kernel": kernel,
            "cpus": 4,
            "nvidia": {"count": 1, "gpus": [{"index": 0, "name": "NVIDIA \u{1b}[2JH200", "mig": null, "mig_devices": []}]},
        });
        HostAnswer { host: name.into(), result: Ok(facts) }
    }

    #[test]
    fn what_is_equal_is_shown_once() {
        let mut all = vec![host("a", "6.1"), host("b", "6.1"), host("c", "6.8")];
        let lost = TargetError::Unreachable("no answer".into());
        all.push(HostAnswer { host: "d".into(), result: Err(lost) });
        insta::assert_snapshot!(facts(&all).draw(&Look::PLAIN));
    }

    #[test]
    fn one_fact_of_many_hosts() {
        let all = [host("a", "6.1"), host("b", "6.1"), host("c", "6.8")];
        let of = |path: &str| -> String {
            let path = FactPath::parse(path).unwrap();
            let values: Vec<_> =
                all.iter().map(|h| (h.host.clone(), path.of(h.result.as_ref().unwrap()).unwrap())).collect();
            fact(&values, &[]).draw(&Look::PLAIN)
        };
        assert_eq!(of("kernel"), "a, b · 2 hosts  6.1\nc  6.8\n");
        assert_eq!(of("nvidia.gpus[0].index"), "a, b, c · 3 hosts  0\n");
        assert_eq!(of("nvidia.gpus[].index"), of("nvidia.gpus.0.index"));
        assert_eq!(of("nvidia.gpus[7].index"), "a, b, c · 3 hosts  none\n");
    }

    #[test]
    fn a_name_that_no_fact_has_is_named() {
        let facts = host("a", "6.1").result.unwrap();
        let wrong = FactPath::parse("os.vresion").unwrap().of(&facts);
        assert_eq!(wrong, Err(("vresion".into(), vec!["id".into(), "like".into(), "version".into()])));
        assert_eq!(FactPath::parse("a..b"), None);
        assert_eq!(FactPath::parse("a[x]"), None);
    }
}
