//! `k8s_wait`

use crate::look::{Asks, check_deadline};
use crate::manifest::check_name;
use crate::names::Names;
use crate::picked::check_selector;
use crate::target::{Targets, short};
use converge_objects::ConditionState;
use converge_objects::condition::{self, Amount, ConditionVerdict, CountTest, Expectation, Pick, Test};
use converge_resource::{Claim, ObjectId, ParamError, Place, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Waits until something holds on a cluster: a condition, a field, a number of objects, what nodes offer, what a Service answers.
///
/// It changes nothing, and belongs in `resources` and `verify`. Where an earlier resource of the run changes the cluster, it is looked at when its turn
/// comes; what holds then is no change. What does not hold within the deadline fails, with the names and numbers that were observed last. Nodes that are
/// not ready do not count, and are named.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct K8sWait {
    /// An object or a list of objects: `clusterpolicy/cluster-policy`, or in full: `{apiVersion: …, kind: …, name: …}`.
    #[serde(default)]
    target: Targets,
    /// In place of `target`: all objects of this kind, as `pod`, in `namespace` and with the labels of `selector`.
    kind: Option<String>,
    /// The version of `kind`, where it is not one of Kubernetes' own.
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    /// The namespace of `target` or `kind`.
    namespace: Option<String>,
    /// Labels of the objects of `kind`, as kubectl takes a selector.
    selector: Option<String>,
    /// Until this condition of each object holds: `Ready`, `Available`. With `count`: only objects with it count.
    condition: Option<String>,
    /// The status of `condition` that counts.
    #[serde(default)]
    status: ConditionStatus,
    /// Until the field at this JSONPath is there, or is as `equals`, `at_least` or `at_most` say: `{.status.state}`.
    jsonpath: Option<String>,
    /// The value of `jsonpath`.
    equals: Option<Plain>,
    /// The value of `jsonpath` is a number of at least this.
    at_least: Option<i64>,
    /// The value of `jsonpath` is a number of at most this.
    at_most: Option<i64>,
    /// Until there are so many objects of `kind`: `{equals: 2}`, `{at_least: 1}`, or `{nodes: SELECTOR}`, one for each node that is ready
    /// and has these labels (`""`: each node that is ready).
    count: Option<Count>,
    /// Until each node that is ready offers so much of a resource: `{resource: nvidia.com/gpu, nodes: nvidia.com/gpu.present=true,
    /// label: nvidia.com/gpu.count, times: 4}`, the number in its label times 4; without `label` exactly `times`.
    /// `none_is_fine: true` lets it hold where no node has the labels of `nodes`.
    allocatable: Option<Allocatable>,
    /// Until a Service answers: `{service: nvidia-dcgm-exporter, port: 9400, path: /metrics}`, in `namespace`. The API
    /// server passes the question on, so no access to the cluster's network is needed.
    http: Option<Http>,
    /// With `kind` and `jsonpath`: it holds too where there is no such object.
    #[serde(default)]
    none_is_fine: bool,
    /// Seconds after which the wait has failed.
    #[serde(default = "five_minutes")]
    timeout: u32,
}

fn five_minutes() -> u32 {
    300
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
enum ConditionStatus {
    /// It holds.
    #[default]
    True,
    /// It does not hold.
    False,
    /// It is not known.
    Unknown,
}

/// A value that can be written in one word.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Plain {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
    /// True or false.
    Bool(bool),
}

/// A number of resources.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Count {
    /// Exactly this many.
    equals: Option<u64>,
    /// At least this many.
    at_least: Option<u64>,
    /// One for each node that is ready and has these labels.
    nodes: Option<String>,
}

/// The resources that nodes offer.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Allocatable {
    /// `nvidia.com/gpu`; a list of names where it may have another one: `[nvidia.com/gpu, nvidia.com/gpu.shared]`.
    resource: Names,
    /// Labels of the nodes, as kubectl takes a selector.
    nodes: Option<String>,
    /// The label of a node that says how many of it are there.
    label: Option<String>,
    /// The factor; without `label` the number itself.
    #[serde(default = "once")]
    times: u64,
    /// More of it is fine too: where GPUs may be shared already.
    #[serde(default)]
    or_more: bool,
    /// No node with these labels is fine too.
    #[serde(default)]
    none_is_fine: bool,
}

/// The answer of a Service.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Http {
    /// Its name.
    service: String,
    /// Its port.
    port: u16,
    /// Where it is asked.
    #[serde(default = "root")]
    path: String,
    /// The status that it answers.
    #[serde(default = "good")]
    status: u16,
    /// It speaks TLS; its certificate is not checked.
    #[serde(default)]
    tls: bool,
}

fn root() -> String {
    "/".to_owned()
}

fn good() -> u16 {
    200
}

impl Http {
    fn check(&self, errors: &mut Vec<ParamError>) {
        check_name("/http/service", &self.service, errors);
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if self.port == 0 {
            wrong("/http/port", "this is not a port", "write 1 to 65535");
        }
        let plain = |b: u8| b.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&b);
        let up = self.path.split(['/', '?']).any(|part| part == "..");
        if !self.path.starts_with('/') || up || !self.path.bytes().all(plain) {
            wrong("/http/path", "this is not a path of HTTP", "write it as `/healthz`");
        }
        if !(100..=599).contains(&self.status) {
            wrong("/http/status", "this is no status of HTTP", "write 100 to 599");
        }
    }
}

fn once() -> u64 {
    1
}

impl K8sWait {
    fn pick(&self) -> Result<Pick, ParamError> {
        let Some(kind) = &self.kind else {
            return self.target.find(self.namespace.as_deref()).map(Pick::Named);
        };
        let (api_version, kind) = match &self.api_version {
            Some(version) => (version.clone(), kind.clone()),
            None => short("/kind", kind).map(|(version, kind, _)| (version.to_owned(), kind.to_owned()))?,
        };
        let labels = self.selector.clone();
        Ok(Pick::All { api_version, kind, namespace: self.namespace.clone(), labels })
    }

    fn test(&self) -> Test {
        match (&self.equals, self.at_least, self.at_most) {
            (Some(Plain::Text(text)), ..) => Test::Equals(Value::from(text.as_str())),
            (Some(Plain::Number(number)), ..) => Test::Equals(Value::from(*number)),
            (Some(Plain::Bool(is)), ..) => Test::Equals(Value::from(*is)),
            (None, Some(least), _) => Test::AtLeast(least),
            (None, None, Some(most)) => Test::AtMost(most),
            (None, None, None) => Test::Exists,
        }
    }

    fn question(&self) -> Result<condition::TimedCondition, ParamError> {
        let what = if let Some(http) = &self.http {
            Expectation::Answers {
                namespace: self.namespace.clone().unwrap_or_else(|| "default".to_owned()),
                service: http.service.clone(),
                port: http.port,
                tls: http.tls,
                path: http.path.clone(),
                status: http.status,
            }
        } else if let Some(wanted) = &self.allocatable {
            Expectation::Allocatable {
                resource: wanted.resource.0.first().cloned().unwrap_or_default(),
                or: wanted.resource.0.iter().skip(1).cloned().collect(),
                nodes: wanted.nodes.clone(),
                amount: Amount { label: wanted.label.clone(), times: wanted.times, or_more: wanted.or_more },
                none_is_fine: wanted.none_is_fine,
            }
        } else if let Some(count) = &self.count {
            let test = match (count.equals, count.at_least, &count.nodes) {
                (Some(number), ..) => CountTest::Equals(number),
                (None, Some(least), _) => CountTest::AtLeast(least),
                (None, None, Some(labels)) => {
                    CountTest::Nodes(Some(labels.clone()).filter(|l| !l.trim().is_empty()))
                }
                (None, None, None) => CountTest::AtLeast(1),
            };
            Expectation::Count { of: self.pick()?, condition: self.condition.clone(), test }
        } else if let Some(path) = &self.jsonpath {
            Expectation::Field {
                of: self.pick()?,
                path: path.clone(),
                or: Vec::new(),
                test: self.test(),
                none_is_fine: self.none_is_fine,
                ready_nodes_only: false,
            }
        } else {
            let name = self.condition.clone().unwrap_or_else(|| "Ready".to_owned());
            Expectation::Condition { of: self.pick()?, name, status: format!("{:?}", self.status) }
        };
        Ok(condition::TimedCondition { what, seconds: u64::from(self.timeout) })
    }

    fn object(&self) -> Result<ObjectId, ParamError> {
        Ok(ObjectId::new("condition", self.question()?.key()))
    }
}

impl Resource for K8sWait {
    const KIND: &'static str = "k8s_wait";
    const READ_ONLY: bool = true;
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: every GPU is shared by four
  k8s_wait:
    allocatable: {resource: nvidia.com/gpu, nodes: nvidia.com/gpu.present=true, label: nvidia.com/gpu.count, times: 4}
    timeout: 600
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        let objects = !self.target.0.is_empty() || self.kind.is_some();
        if self.http.is_some() {
            let others = [self.allocatable.is_some(), self.count.is_some(), self.jsonpath.is_some()];
            if others.contains(&true) || self.condition.is_some() || objects {
                wrong("/http", "two things are waited for", "write a resource for each");
            }
        } else if self.allocatable.is_some() {
            let others = [self.count.is_some(), self.jsonpath.is_some(), self.condition.is_some(), objects];
            if others.contains(&true) {
                wrong("/allocatable", "two things are waited for", "write a resource for each");
            }
        } else if !objects {
            wrong("", "nothing is waited for", "give `target`, `kind`, `allocatable` or `http`");
        } else if self.condition.is_none() && self.jsonpath.is_none() && self.count.is_none() {
            wrong("", "nothing is said about the objects", "give `condition`, `jsonpath` or `count`");
        }
        if !self.target.0.is_empty() && self.kind.is_some() {
            wrong("/kind", "`target` and `kind` both name the objects", "keep one of them");
        }
        if self.jsonpath.is_some() && (self.condition.is_some() || self.count.is_some()) {
            wrong("/jsonpath", "two things are waited for", "write a resource for each");
        }
        if self.none_is_fine && (self.kind.is_none() || self.jsonpath.is_none()) {
            let help = "give `kind` and `jsonpath`; in `allocatable` it has a place of its own";
            wrong("/none_is_fine", "it is not clear of what there may be none", help);
        }
        let tests = [self.equals.is_some(), self.at_least.is_some(), self.at_most.is_some()];
        let tests = tests.into_iter().filter(|given| *given).count();
        if tests > 1 || (tests == 1 && self.jsonpath.is_none()) {
            let help = "give one of `equals`, `at_least` and `at_most`, with `jsonpath`";
            wrong("/jsonpath", "what its value must be is not clear", help);
        }
        if let Some(count) = &self.count {
            let given = [count.equals.is_some(), count.at_least.is_some(), count.nodes.is_some()];
            if given.into_iter().filter(|given| *given).count() != 1 {
                wrong("/count", "the number is not clear", "give one of `equals`, `at_least` and `nodes`");
            }
        }
        if self.kind.is_none() && (self.selector.is_some() || self.api_version.is_some()) {
            wrong("/kind", "whose labels and version are these", "give `kind` too");
        }
        if let Some(Err(why)) = self.jsonpath.as_deref().map(condition::FieldQuery::read) {
            wrong("/jsonpath", &why.to_string(), "write it as `{.status.state}`");
        }
        if self.allocatable.as_ref().is_some_and(|a| a.resource.0.is_empty()) {
            wrong("/allocatable/resource", "no resource is named", "write it as `nvidia.com/gpu`");
        }
        check_deadline("/timeout", self.timeout.into(), 7200, &mut errors);
        if let Some(http) = &self.http {
            http.check(&mut errors);
        }
        let nodes = self.count.as_ref().and_then(|c| c.nodes.as_deref()).filter(|n| !n.trim().is_empty());
        let offers = self.allocatable.as_ref().and_then(|a| a.nodes.as_deref());
        for (pointer, text) in
            [("/selector", self.selector.as_deref()), ("/count/nodes", nodes), ("/allocatable/nodes", offers)]
        {
            if let Some(text) = text {
                check_selector(pointer, text, &mut errors);
            }
        }
        if errors.is_empty() {
            errors.extend(self.question().err());
        }
        errors
    }

    /// The condition is claimed, so that it is read with everything else.
    fn claims(&self) -> Vec<Claim> {
        let claim = |object: ObjectId| Claim::shared(object, "condition", "met");
        self.object().map(|object| vec![claim(object)]).unwrap_or_default()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        view.after_all()?;
        let invalid = |e: ParamError| Stop::invalid(&e.pointer, e.message);
        let (question, object) = (self.question().map_err(invalid)?, self.object().map_err(invalid)?);
        let now = view.state::<condition::Condition>(&object.key)?;
        let mut wanted = WantedStates::one(object, ConditionState::Met);
        if now == ConditionState::Met {
            return Ok(wanted);
        }
        let mut asks = Asks::default();
        let mut answers = Vec::new();
        for probe in question.asks() {
            answers.extend(asks.take(view.api(&probe))?);
        }
        asks.finish()?;
        if let ConditionVerdict::Open(why) = question.judge(&answers) {
            wanted.notes.push(format!("does not hold yet: {why}"));
        }
        let out = question.left_out(&answers);
        if !out.is_empty() {
            wanted.notes.push(format!("not ready, so not counted: {}", out.join(", ")));
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use serde_json::json;

    fn gpus() -> K8sWait {
        read(
            json!({"allocatable": {"resource": "nvidia.com/gpu", "nodes": "gpu=true", "times": 4}, "timeout": 60}),
        )
    }

    fn question(params: Value) -> Expectation {
        read::<K8sWait>(params).question().unwrap().what
    }

    #[test]
    fn what_holds_is_no_change_and_what_does_not_is_one() {
        let kind = gpus();
        let object = kind.object().unwrap();
        assert_eq!(kind.claims()[0].object, object);
        settle(&kind, FakeView::new().has(object.clone(), ConditionState::Met));
        let node = |name: &str, ready: &str| {
            json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}],
                "allocatable": {"nvidia.com/gpu": "1"}}})
        };
        let probe = kind.question().unwrap().asks().remove(0);
        let open = FakeView::new()
            .has(object, ConditionState::Open)
            .says(probe, json!([node("a", "True"), node("b", "False")]));
        let notes = kind.plan(&open).unwrap().notes;
        assert_eq!(notes[0], "does not hold yet: node a: allocatable nvidia.com/gpu is 1, expected 4");
        assert_eq!(notes[1], "not ready, so not counted: b");
        settle(&kind, open);
    }

    #[test]
    fn it_waits_for_its_turn() {
        assert!(matches!(gpus().plan(&FakeView::new().pending()), Err(Stop::Deferred(_))));
    }

    #[test]
    fn every_form_is_read() {
        let ready = question(json!({"target": "node/a", "condition": "Ready"}));
        assert!(matches!(ready, Expectation::Condition { ref status, .. } if status == "True"), "{ready:?}");
        let field = question(
            json!({"target": ["clusterpolicy/p"], "jsonpath": "{.status.state}", "equals": "ready"}),
        );
        assert!(matches!(field, Expectation::Field { test: Test::Equals(_), .. }), "{field:?}");
        let count = question(
            json!({"kind": "pod", "namespace": "n", "selector": "app=x", "condition": "Ready", "count": {"nodes": ""}}),
        );
        assert!(matches!(count, Expectation::Count { test: CountTest::Nodes(None), .. }), "{count:?}");
        let other =
            question(json!({"kind": "Thing", "apiVersion": "a.b/v1", "jsonpath": ".x", "at_least": 2}));
        assert!(matches!(other, Expectation::Field { test: Test::AtLeast(2), .. }), "{other:?}");
    }

    #[test]
    fn a_service_is_asked() {
        let kind: K8sWait =
            read(json!({"namespace": "n", "http": {"service": "s", "port": 80, "path": "/ok"}}));
        let wait = kind.question().unwrap();
        assert_eq!(wait.judge(&[json!({"status": 200})]), ConditionVerdict::Met);
        let open = |status: u16| match wait.judge(&[json!({"status": status})]) {
            ConditionVerdict::Open(why) => why,
            ConditionVerdict::Met => panic!("{status}"),
        };
        assert_eq!(open(503), "no endpoint serves n/s (status 503)");
        assert_eq!(open(500), "the service n/s answers with status 500");
        for (part, value) in
            [("path", json!("x")), ("path", json!("/../x")), ("port", json!(0)), ("status", json!(99))]
        {
            let mut http = json!({"service": "s", "port": 80});
            http[part] = value;
            assert_eq!(wrong::<K8sWait>(json!({"http": http})), [format!("/http/{part}")]);
        }
        let both = json!({"http": {"service": "s", "port": 80}, "kind": "pod", "condition": "Ready"});
        assert_eq!(wrong::<K8sWait>(both), ["/http"]);
    }

    #[test]
    fn no_object_is_fine_where_it_says_so() {
        let wait = |none_is_fine: bool| {
            let params = json!({"kind": "node", "selector": "gpu=true", "jsonpath": ".status", "none_is_fine": none_is_fine});
            let kind: K8sWait = read(params);
            kind.question().unwrap()
        };
        assert_eq!(wait(true).judge(&[json!([])]), ConditionVerdict::Met);
        assert_eq!(
            wait(false).judge(&[json!([])]),
            ConditionVerdict::Open("there are no nodes with gpu=true".into())
        );
        let bad = json!([{"metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}]);
        let kind: K8sWait = read(json!({"kind": "node", "jsonpath": ".status.none", "none_is_fine": true}));
        assert!(matches!(kind.question().unwrap().judge(&[bad]), ConditionVerdict::Open(_)));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<K8sWait>(json!({})), [""]);
        assert_eq!(wrong::<K8sWait>(json!({"target": "node/a"})), [""]);
        assert_eq!(wrong::<K8sWait>(json!({"target": "nod/a", "condition": "Ready"})), ["/target"]);
        assert_eq!(
            wrong::<K8sWait>(json!({"target": "node/a", "kind": "node", "condition": "Ready"})),
            ["/kind"]
        );
        assert_eq!(wrong::<K8sWait>(json!({"target": "node/a", "jsonpath": "{.a"})), ["/jsonpath"]);
        assert_eq!(
            wrong::<K8sWait>(json!({"target": "node/a", "jsonpath": ".a", "equals": 1, "at_least": 1})),
            ["/jsonpath"]
        );
        assert_eq!(wrong::<K8sWait>(json!({"kind": "pod", "count": {}})), ["/count"]);
        assert_eq!(
            wrong::<K8sWait>(json!({"kind": "pod", "condition": "Ready", "timeout": 0})),
            ["/timeout"]
        );
        assert_eq!(
            wrong::<K8sWait>(json!({"target": "node/a", "jsonpath": ".a", "none_is_fine": true})),
            ["/none_is_fine"]
        );
        let none = json!({"allocatable": {"resource": []}});
        assert_eq!(wrong::<K8sWait>(none), ["/allocatable/resource"]);
        let both = json!({"target": "node/a", "condition": "Ready", "allocatable": {"resource": "x"}});
        assert_eq!(wrong::<K8sWait>(both), ["/allocatable"]);
    }
}
