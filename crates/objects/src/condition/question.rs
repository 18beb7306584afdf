//! Conditions to wait for, as data, and their evaluation on answers of the API.

mod judge;

use super::jsonpath::FieldQuery;
use converge_resource::{ApiProbe, ApiRef};
pub use judge::quantity;
use judge::{allocatable, condition, count, field, plain, some_of};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A condition, with the time that it may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedCondition {
    /// The condition.
    pub what: Expectation,
    /// The deadline in seconds.
    pub seconds: u64,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// A condition of each picked object.
    Condition {
        /// Which objects.
        of: Pick,
        /// Its type: `Ready`.
        name: String,
        /// `True`, `False` or `Unknown`.
        status: String,
    },
    /// A field of each picked object.
    Field {
        /// Which objects.
        of: Pick,
        /// JSONPath.
        path: String,
        /// Other fields, one of which may be so in its stead.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        or: Vec<String>,
        /// The test of its value.
        test: Test,
        /// It holds too where no object is picked.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        none_is_fine: bool,
        /// Of nodes that are picked by name, those that are not ready do not count. Of nodes that labels pick, they never do.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ready_nodes_only: bool,
    },
    /// The number of objects.
    Count {
        /// Which objects.
        of: Pick,
        /// Only those with this condition count.
        condition: Option<String>,
        /// The test of their number.
        test: CountTest,
    },
    /// The answer of a Service to a GET over HTTP.
    Answers {
        /// Its namespace.
        namespace: String,
        /// Its name.
        service: String,
        /// Its port.
        port: u16,
        /// It speaks TLS.
        tls: bool,
        /// `/healthz`.
        path: String,
        /// The status that it must answer.
        status: u16,
    },
    /// The amount of a resource that each ready node offers.
    Allocatable {
        /// `nvidia.com/gpu`.
        resource: String,
        /// Other names of it: what a node offers of all of them together counts.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        or: Vec<String>,
        /// Which nodes: a label selector.
        nodes: Option<String>,
        /// The amount that each of them must offer.
        amount: Amount,
        /// It holds too where no node is picked.
        none_is_fine: bool,
    },
}

/// One object or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// These, by name.
    Named(Vec<ApiRef>),
    /// All of a kind.
    All {
        /// `v1`, `apps/v1`.
        api_version: String,
        /// `Pod`.
        kind: String,
        /// In this namespace; in all when `None`.
        namespace: Option<String>,
        /// A label selector.
        labels: Option<String>,
    },
}

/// A test of a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// This value. A number and the text of it are the same.
    Equals(Value),
    /// A number of at least this.
    AtLeast(i64),
    /// A number of at most this.
    AtMost(i64),
    /// Anything.
    Exists,
}

/// A test of a number of objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountTest {
    /// Exactly this many.
    Equals(u64),
    /// At least this many.
    AtLeast(u64),
    /// As many as nodes that are ready and have these labels; with `None` as all that are ready.
    Nodes(Option<String>),
}

/// The amount that a node must offer: a fixed number, or the value of a label of the node, times a factor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The label that has the number of one node.
    pub label: Option<String>,
    /// The number, or the factor.
    pub times: u64,
    /// More will do too: GPUs that are shared already.
    #[serde(default)]
    pub or_more: bool,
}

/// Whether it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionVerdict {
    /// It holds.
    Met,
    /// It does not hold yet: why, with names and numbers.
    Open(String),
}

impl TimedCondition {
    /// Reads the key of a condition; `None` for another text.
    pub fn from_key(key: &str) -> Option<Self> {
        serde_json::from_str(key).ok()
    }

    /// The key of its condition: JSON text.
    pub fn key(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// For people: `each node offers 4 of nvidia.com/gpu`.
    pub fn shown(&self) -> String {
        match &self.what {
            Expectation::Condition { of, name, status } => format!("{name} is {status} of {}", of.shown()),
            Expectation::Field { of, path, or, test, .. } => {
                // As people call it: `allocatable nvidia.com/gpu`.
                let word = |path: &String| match path.strip_prefix("/status/allocatable/") {
                    Some(name) => format!("allocatable {}", name.replace("~1", "/").replace("~0", "~")),
                    None => path.clone(),
                };
                let path = [std::slice::from_ref(path), or]
                    .concat()
                    .iter()
                    .map(word)
                    .collect::<Vec<_>>()
                    .join(" or ");
                format!("{path} is {} of {}", test.wanted(), of.shown())
            }
            Expectation::Count { of, condition, test } => {
                let state = condition.as_ref().map_or_else(String::new, |name| format!(" that are {name}"));
                let wanted = match test {
                    CountTest::Equals(n) => n.to_string(),
                    CountTest::AtLeast(n) => format!("at least {n}"),
                    CountTest::Nodes(_) => "one for each node".to_owned(),
                };
                format!("there are {wanted} {}{state}", of.shown())
            }
            Expectation::Answers { namespace, service, port, path, status, .. } => {
                format!("the service {namespace}/{service}:{port} answers {status} at {path}")
            }
            Expectation::Allocatable { resource, or, nodes, amount, .. } => {
                let resource = [std::slice::from_ref(resource), or].concat().join(" or ");
                let which = nodes.as_ref().map_or_else(String::new, |l| format!(" with {l}"));
                let wanted = match &amount.label {
                    Some(label) => format!("{label} times {}", amount.times),
                    None => amount.times.to_string(),
                };
                format!("each node{which} offers {wanted} of {resource}")
            }
        }
    }

    /// The questions to the API, in the order in which [`TimedCondition::judge`] takes the answers.
    pub fn asks(&self) -> Vec<ApiProbe> {
        match &self.what {
            Expectation::Condition { of, .. } | Expectation::Field { of, .. } => of.asks(),
            Expectation::Count { of, test: CountTest::Nodes(labels), .. } => {
                let mut asks = of.asks();
                asks.push(nodes(labels.clone()));
                asks
            }
            Expectation::Count { of, .. } => of.asks(),
            Expectation::Answers { namespace, service, port, tls, path, .. } => vec![ApiProbe::Service {
                namespace: namespace.clone(),
                name: service.clone(),
                port: *port,
                tls: *tls,
                path: path.clone(),
            }],
            Expectation::Allocatable { nodes: labels, .. } => vec![nodes(labels.clone())],
        }
    }

    /// Whether it holds, by the answers to [`TimedCondition::asks`].
    pub fn judge(&self, answers: &[Value]) -> ConditionVerdict {
        let open = match &self.what {
            Expectation::Condition { of, name, status } => {
                each(of, answers, false, &|object| condition(object, name, status))
            }
            Expectation::Field { of, path, or, test, none_is_fine, ready_nodes_only } => {
                match std::iter::once(path).chain(or).map(|p| FieldQuery::read(p).map(|q| (p, q))).collect() {
                    Ok::<Vec<(&String, FieldQuery)>, _>(queries) => {
                        each(of, answers, *none_is_fine, &|object| {
                            // Answers of a node that is not ready tell nothing.
                            if (*ready_nodes_only || of.is_nodes()) && !ready(object) {
                                return None;
                            }
                            let open: Option<Vec<String>> = queries
                                .iter()
                                .map(|(path, query)| field(object, query, path, test))
                                .collect();
                            open.map(|open| open.join(", "))
                        })
                    }
                    Err(error) => vec![error.to_string()],
                }
            }
            Expectation::Count { of, condition: name, test } => {
                count(of, name.as_deref(), test, answers).into_iter().collect()
            }
            Expectation::Answers { namespace, service, status: wanted, .. } => {
                let status = answers.first().and_then(|a| a.get("status")).and_then(Value::as_u64);
                match status {
                    Some(status) if status == u64::from(*wanted) => Vec::new(),
                    Some(503) => {
                        vec![format!("no endpoint serves {namespace}/{service} (status 503)")]
                    }
                    Some(504) => vec![format!("the service {namespace}/{service} does not answer in time")],
                    Some(404) => vec![format!(
                        "the service {namespace}/{service} or its path is not there, or nobody stands behind it (status 404)"
                    )],
                    other => vec![format!(
                        "the service {namespace}/{service} answers with status {}",
                        other.unwrap_or_default()
                    )],
                }
            }
            Expectation::Allocatable { resource, or, nodes, amount, none_is_fine } => {
                let list = answers.first().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let names: Vec<&str> = std::iter::once(resource).chain(or).map(String::as_str).collect();
                allocatable(list, &names, nodes.as_deref(), amount, *none_is_fine)
            }
        };
        if open.is_empty() { ConditionVerdict::Met } else { ConditionVerdict::Open(some_of(&open)) }
    }

    /// Names of picked nodes that are not ready and so do not count.
    pub fn left_out(&self, answers: &[Value]) -> Vec<String> {
        let nodes: Vec<&Value> = match &self.what {
            Expectation::Allocatable { .. } | Expectation::Count { test: CountTest::Nodes(_), .. } => {
                answers.last().and_then(Value::as_array).into_iter().flatten().collect()
            }
            Expectation::Field { of, ready_nodes_only, .. } if *ready_nodes_only || of.is_nodes() => {
                of.found(answers).0
            }
            _ => Vec::new(),
        };
        nodes.into_iter().filter(|node| !ready(node)).map(name_of).collect()
    }
}

fn nodes(labels: Option<String>) -> ApiProbe {
    ApiProbe::List { api_version: "v1".to_owned(), kind: "Node".to_owned(), namespace: None, labels }
}

impl Pick {
    fn is_nodes(&self) -> bool {
        matches!(self, Self::All { api_version, kind, .. } if api_version == "v1" && kind == "Node")
    }

    fn asks(&self) -> Vec<ApiProbe> {
        match self {
            Self::Named(names) => names.iter().cloned().map(ApiProbe::Get).collect(),
            Self::All { api_version, kind, namespace, labels } => vec![ApiProbe::List {
                api_version: api_version.clone(),
                kind: kind.clone(),
                namespace: namespace.clone(),
                labels: labels.clone(),
            }],
        }
    }

    /// The objects that were found, and those that are missing.
    fn found<'a>(&self, answers: &'a [Value]) -> (Vec<&'a Value>, Vec<String>) {
        match self {
            Self::Named(names) => {
                let (mut there, mut missing) = (Vec::new(), Vec::new());
                for (index, name) in names.iter().enumerate() {
                    match answers.get(index).filter(|a| !a.is_null()) {
                        Some(object) => there.push(object),
                        None => missing.push(format!("{} is not there", name.shown())),
                    }
                }
                (there, missing)
            }
            Self::All { kind, .. } => match answers.first() {
                Some(Value::Array(list)) => (list.iter().collect(), Vec::new()),
                _ => (Vec::new(), vec![format!("the server knows no kind {kind}")]),
            },
        }
    }

    /// For people: `pods with app=x in gpu-operator`.
    pub fn shown(&self) -> String {
        match self {
            Self::Named(names) => names.iter().map(ApiRef::shown).collect::<Vec<_>>().join(", "),
            Self::All { kind, namespace, labels, .. } => {
                let mut text = format!("{}s", kind.to_lowercase());
                for (word, part) in [("with", labels), ("in", namespace)] {
                    if let Some(part) = part {
                        text.push_str(&format!(" {word} {part}"));
                    }
                }
                text
            }
        }
    }
}

/// A reason for each object for which it does not hold.
fn each(
    of: &Pick,
    answers: &[Value],
    none_is_fine: bool,
    judge: &dyn Fn(&Value) -> Option<String>,
) -> Vec<String> {
    let (there, mut open) = of.found(answers);
    if there.is_empty() && open.is_empty() && !none_is_fine {
        open.push(format!("there are no {}", of.shown()));
    }
    open.extend(there.into_iter().filter_map(|o| Some(format!("{}: {}", shown(o), judge(o)?))));
    open
}

fn name_of(object: &Value) -> String {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("(no name)").to_owned()
}

fn shown(object: &Value) -> String {
    ApiRef::of(object).map_or_else(|| name_of(object), |r| r.shown())
}

/// Whether a node is ready.
pub fn ready(node: &Value) -> bool {
    condition_of(node, "Ready").is_some_and(|c| c.get("status").and_then(Value::as_str) == Some("True"))
}

fn condition_of<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let list = object.pointer("/status/conditions")?.as_array()?;
    list.iter().find(|c| c.get("type").and_then(Value::as_str).is_some_and(|t| t.eq_ignore_ascii_case(name)))
}

impl Test {
    fn wanted(&self) -> String {
        match self {
            Self::Equals(wanted) => plain(wanted),
            Self::AtLeast(least) => format!("at least {least}"),
            Self::AtMost(most) => format!("at most {most}"),
            Self::Exists => "there".to_owned(),
        }
    }
}

#[cfg(test)]
#[path = "question_tests.rs"]
mod tests;
