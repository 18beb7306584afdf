//! `k8s_job`

use crate::look::check_deadline;
use crate::manifest::check_name;
use converge_resource::{ApiProbe, ApiRef, Claim, ParamError, Place, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A piece of work that shows that a cluster works: a Job is run to its end, its log is read, and it is taken away in every case.
///
/// It belongs in `verify`. A Job that an interrupted run left behind is taken away first, and never stands for a result. A failure tells the reason
/// and the end of the log.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct K8sJob {
    /// Its name; also in the name of the Job.
    name: String,
    /// Its namespace.
    #[serde(default = "default_namespace")]
    namespace: String,
    /// The image that it runs.
    image: Option<String>,
    /// The command, as a list; without it the image's own.
    #[serde(default)]
    command: Vec<String>,
    /// Environment variables.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The RuntimeClass of its pod.
    runtime_class: Option<String>,
    /// The resources that it requests, as `{nvidia.com/gpu: "1"}`: limits and requests.
    #[serde(default)]
    limits: BTreeMap<String, String>,
    /// The node that it must run on; else any that fits.
    node: Option<String>,
    /// Labels of the nodes that it may run on.
    #[serde(default)]
    node_selector: BTreeMap<String, String>,
    /// Tolerations of its pod, as a manifest has them.
    #[serde(default)]
    tolerations: Vec<Map<String, Value>>,
    /// In place of all these: the `spec` of a Job, as a manifest has it.
    spec: Option<Map<String, Value>>,
    /// A regular expression that a line of the log must match.
    expect: Option<String>,
    /// Seconds after which it has failed.
    #[serde(default = "five_minutes")]
    timeout: u64,
}

fn default_namespace() -> String {
    "default".to_owned()
}

fn five_minutes() -> u64 {
    300
}

impl K8sJob {
    fn spec(&self) -> Value {
        if let Some(spec) = &self.spec {
            return Value::Object(spec.clone());
        }
        let mut container = json!({"name": "job", "image": self.image, "imagePullPolicy": "IfNotPresent"});
        if !self.command.is_empty() {
            container["command"] = json!(self.command);
        }
        if !self.env.is_empty() {
            let env: Vec<Value> = self.env.iter().map(|(k, v)| json!({"name": k, "value": v})).collect();
            container["env"] = json!(env);
        }
        if !self.limits.is_empty() {
            container["resources"] = json!({"limits": self.limits, "requests": self.limits});
        }
        let mut pod = json!({"restartPolicy": "Never", "containers": [container]});
        if let Some(class) = &self.runtime_class {
            pod["runtimeClassName"] = json!(class);
        }
        let mut selector = self.node_selector.clone();
        if let Some(node) = &self.node {
            selector.insert("kubernetes.io/hostname".to_owned(), node.clone());
        }
        if !selector.is_empty() {
            pod["nodeSelector"] = json!(selector);
        }
        if !self.tolerations.is_empty() {
            pod["tolerations"] = json!(self.tolerations);
        }
        json!({"backoffLimit": 0, "template": {"spec": pod}})
    }

    fn manifest(&self) -> Value {
        let mut spec = self.spec();
        // A fallback: the cluster itself removes the Job.
        for (key, value) in [("activeDeadlineSeconds", self.timeout), ("ttlSecondsAfterFinished", 600)] {
            if spec.get(key).is_none() {
                spec[key] = json!(value);
            }
        }
        let name = format!("converge-{}", self.name);
        let metadata = json!({"name": name, "namespace": self.namespace});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    }

    fn probe(&self) -> ApiProbe {
        ApiProbe::Job { manifest: self.manifest().to_string(), seconds: self.timeout }
    }
}

/// The last lines of a log.
fn end_of(log: &str) -> String {
    const LINES: usize = 15;
    let lines: Vec<&str> = log.trim_end().lines().collect();
    let end = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
    if end.is_empty() {
        "its log is empty".to_owned()
    } else {
        format!("its log ends with\n{}", end.join("\n"))
    }
}

impl Resource for K8sJob {
    const KIND: &'static str = "k8s_job";
    const READ_ONLY: bool = true;
    const VERIFY_ONLY: bool = true;
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: vectors are added on a GPU
  k8s_job:
    name: cuda-vectoradd
    image: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0-ubuntu22.04
    runtime_class: nvidia
    limits: {nvidia.com/gpu: \"1\"}
    expect: Test PASSED
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_name("/name", &self.name, &mut errors);
        if self.name.len() > 50 {
            errors.push(ParamError::new("/name", "the name is too long", "at most 50 letters"));
        }
        check_name("/namespace", &self.namespace, &mut errors);
        let short = self.image.is_some()
            || !self.command.is_empty()
            || !self.env.is_empty()
            || self.runtime_class.is_some()
            || !self.limits.is_empty()
            || self.node.is_some()
            || !self.node_selector.is_empty()
            || !self.tolerations.is_empty();
        match (&self.spec, short) {
            (Some(_), true) => {
                let help = "say all of it in `spec`, or leave `spec` out";
                errors.push(ParamError::new("/spec", "`spec` stands in place of all these", help));
            }
            (Some(spec), false) => {
                if Value::Object(spec.clone()).pointer("/template/spec/containers/0").is_none() {
                    let help = "write `spec: {template: {spec: {restartPolicy: Never, containers: […]}}}`";
                    errors.push(ParamError::new("/spec", "this is no spec of a Job", help));
                }
            }
            (None, _) if self.image.is_none() => {
                errors.push(ParamError::new("", "nothing is run", "give `image` or `spec`"));
            }
            (None, _) => {}
        }
        if let Some(Err(e)) = self.expect.as_deref().map(regex::Regex::new) {
            let message = format!("this is no regular expression: {e}");
            errors.push(ParamError::new("/expect", message, "write one, as `Test PASSED`"));
        }
        check_deadline("/timeout", self.timeout, 3600, &mut errors);
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        view.after_all()?;
        let answer = view.api(&self.probe())?;
        let text = |key: &str| answer.get(key).and_then(Value::as_str).unwrap_or_default();
        let shown = ApiRef::of(&self.manifest()).map_or_else(|| self.name.clone(), |r| r.shown());
        let log = text("log");
        if answer.get("succeeded") != Some(&Value::Bool(true)) {
            let reason = if text("reason").is_empty() { "it failed" } else { text("reason") };
            return Err(Stop::Failed(format!("{shown}: {reason}; {}", end_of(log))));
        }
        if let Some(expect) = &self.expect {
            let wanted = regex::Regex::new(expect).map_err(|e| Stop::invalid("/expect", e.to_string()))?;
            if !log.lines().any(|line| wanted.is_match(line)) {
                return Err(Stop::Failed(format!(
                    "{shown}: no line of its log matches `{expect}`; {}",
                    end_of(log)
                )));
            }
        }
        Ok(WantedStates::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};

    fn kind() -> K8sJob {
        read(
            json!({"name": "vectors", "image": "a:1", "command": ["x"], "runtime_class": "nvidia", "node": "n1",
            "limits": {"nvidia.com/gpu": "1"}, "tolerations": [{"operator": "Exists"}], "expect": "PASSED$"}),
        )
    }

    fn reply(answer: Value) -> String {
        match kind().plan(&FakeView::new().says(kind().probe(), answer)) {
            Err(Stop::Failed(why)) => why,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_short_form_is_a_job() {
        let job = kind().manifest();
        let at = |pointer: &str| job.pointer(pointer).cloned().unwrap();
        assert_eq!(at("/metadata/name"), json!("converge-vectors"));
        assert_eq!(at("/spec/backoffLimit"), json!(0));
        assert_eq!(at("/spec/activeDeadlineSeconds"), json!(300));
        let pod = at("/spec/template/spec");
        assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/hostname": "n1"}));
        assert_eq!(pod["containers"][0]["resources"]["limits"], json!({"nvidia.com/gpu": "1"}));
        assert_eq!(pod["runtimeClassName"], "nvidia");
    }

    #[test]
    fn a_failure_has_its_reason_and_the_end_of_the_log() {
        settle(
            &kind(),
            FakeView::new().says(kind().probe(), json!({"succeeded": true, "log": "Test PASSED\nDone"})),
        );
        let many: String = (0..40).map(|n| format!("line {n}\n")).collect();
        let why = reply(json!({"succeeded": false, "reason": "BackoffLimitExceeded", "log": many}));
        assert!(
            why.starts_with(
                "job default/converge-vectors: BackoffLimitExceeded; its log ends with\nline 25\n"
            ),
            "{why}"
        );
        assert!(reply(json!({"succeeded": false, "log": ""})).ends_with("it failed; its log is empty"));
        assert!(
            reply(json!({"succeeded": true, "log": "FAILED"}))
                .contains("no line of its log matches `PASSED$`")
        );
    }

    #[test]
    fn it_waits_for_earlier_changes() {
        assert!(matches!(kind().plan(&FakeView::new().pending()), Err(Stop::Deferred(_))));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<K8sJob>(json!({"name": "x"})), [""]);
        assert_eq!(wrong::<K8sJob>(json!({"name": "x", "spec": {}})), ["/spec"]);
        assert_eq!(wrong::<K8sJob>(json!({"name": "x", "image": "a", "spec": {}})), ["/spec"]);
        assert_eq!(
            wrong::<K8sJob>(json!({"name": "X_", "image": "a", "expect": "(", "timeout": 0})),
            ["/name", "/expect", "/timeout"]
        );
    }
}
