//! `helm_release`

use crate::chart_source::{archive_name, check_login, check_registry, check_repository, exact, source_stop};
use crate::look::check_deadline;
use crate::manifest::{check_name, namespace_comes};
use crate::presence::Presence;
use crate::release_drift::{InstalledRelease, ReleaseDrift};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use converge_objects::ReleaseState;
use converge_objects::k8s::{K8s, K8sState, fields};
use converge_objects::release::{self, Recovery, Release};
use converge_resource::{
    ARCHIVE, ApiCall, ApiProbe, Chart, ChartLogin, Claim, ObjectId, ParamError, Place, PreservedField,
    RANDOM, ReleaseSpec, Resource, SourceFile, Stop, Tree, View, Wait, WantedStates,
};
use converge_syntax::did_you_mean;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A release of a helm chart, with a fixed name and an exact version.
///
/// The plan shows what the chart renders beside what is installed. Where chart, version and values are those of the deployed revision, the objects
/// of the release are compared with the cluster: what is missing or was changed behind helm's back is set right. A field that the chart declares and
/// that a user has changed with a tool of people (kubectl, an editor, another deployer) is drift: the resource fails in the plan and names the
/// field and its manager, and `force_conflicts: true` takes it back. Declared fields that a controller or a `k8s_patch` owns are shown as theirs and left to
/// them, by an upgrade and by a rollback too: helm is given the manifests with what is live there. They alone make no upgrade.
/// Fields that the chart does not declare are no difference, whoever writes them. What a chart draws at random (a password) stays as it is deployed.
///
/// A release that `state: absent` took away can be rolled back, though its chart may be gone. Keys of values that the chart does not know are shown
/// with the nearest one that it knows. A release that is stuck in `pending-…` or has failed is shown with its recovery; it is recovered too where the
/// chart cannot be rendered.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HelmRelease {
    /// The name of the release.
    name: String,
    /// The namespace of the release.
    namespace: String,
    /// The address of the repository that has the chart: `https://helm.ngc.nvidia.com/nvidia`.
    repository: Option<String>,
    /// The name of the chart in the repository.
    chart: Option<String>,
    /// In place of `repository` and `chart`: a chart of an OCI registry, `oci://registry.example.org/charts/name`.
    oci: Option<String>,
    /// In place of these: a packaged chart (`.tgz`) under the role's `files/`.
    archive: Option<SourceFile>,
    /// In place of these: a folder of a chart under the role's `files/`, with all that it depends on in its `charts/`.
    folder: Option<Tree>,
    /// The login to a private repository (`repository`) or registry (`oci`): `{username: …, password: …}`. Give the password by a sensitive input or from a vault. It
    /// goes to helm in a file that only the user who runs converge can read, and is in no plan, record or output: a new password is no difference.
    login: Option<ChartLogin>,
    /// Ask the registry of `oci` over HTTP without TLS, as one in a network of its own may want it. A password then crosses that network in clear text.
    #[serde(default)]
    plain_http: bool,
    /// The exact version of the chart. An archive and a folder have their own.
    version: Option<String>,
    /// The values, typed: `"true"` is text, `true` is not.
    #[serde(default)]
    values: Map<String, Value>,
    /// Make the namespace where it is not there. It stays when the release goes, since others may use it.
    #[serde(default)]
    create_namespace: bool,
    /// Wait until what it installs is ready.
    #[serde(default = "yes")]
    wait: bool,
    /// Seconds that helm may take, for hooks too where `wait` is false.
    #[serde(default = "ten_minutes")]
    timeout: u64,
    /// Take fields that the chart declares and another manager or a `k8s_patch` owns. Without it a field that a user has changed by hand is an
    /// error, and those of others are left as they are.
    #[serde(default)]
    force_conflicts: bool,
    /// Whether it is installed.
    #[serde(default)]
    state: Presence,
}

fn yes() -> bool {
    true
}

fn ten_minutes() -> u64 {
    600
}

impl HelmRelease {
    fn object(&self) -> ObjectId {
        ObjectId::new("release", format!("{}/{}", self.namespace, self.name))
    }

    /// The chart of the role itself.
    fn packed(&self) -> Option<&SourceFile> {
        self.archive.as_ref().or(self.folder.as_ref().map(|Tree(source)| source))
    }

    fn chart(&self) -> Option<Chart> {
        match (&self.repository, &self.chart, &self.oci, self.packed()) {
            (Some(url), Some(name), None, None) => {
                Some(Chart::Repository { url: url.clone(), name: name.clone() })
            }
            (None, None, Some(oci), None) => Some(Chart::Oci(oci.clone())),
            (None, None, None, Some(packed)) if self.archive.is_none() || self.folder.is_none() => {
                Some(Chart::Archive(packed.content.digest().as_str().to_owned()))
            }
            _ => None,
        }
    }

    /// The chart's name, as far as the parameters say it.
    fn chart_name(&self) -> Option<&str> {
        self.chart.as_deref().or_else(|| self.oci.as_deref()?.rsplit('/').next())
    }

    fn spec(&self, chart: Chart) -> ReleaseSpec {
        ReleaseSpec {
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            chart,
            login: self.login.clone(),
            plain_http: self.plain_http,
            version: self.version.clone(),
            values: Value::Object(self.values.clone()),
            create_namespace: self.create_namespace,
            wait_seconds: self.wait.then_some(self.timeout),
            seconds: Some(self.timeout),
            keep: Vec::new(),
            drawn: Vec::new(),
            unset: Vec::new(),
        }
    }

    /// Whether this revision was made of the same chart, version and values.
    fn made(&self, revision: &Value) -> bool {
        let word = |pointer: &str| revision.pointer(pointer).and_then(Value::as_str);
        let bare = |version: &str| version.strip_prefix('v').unwrap_or(version).to_owned();
        let values = match revision.get("values") {
            None | Some(Value::Null) => Value::Object(Map::new()),
            Some(values) => values.clone(),
        };
        self.packed().is_none()
            && word("/status") == Some("deployed")
            && word("/chart/name") == self.chart_name()
            && word("/chart/version").map(bare) == self.version.as_deref().map(bare)
            && release::stored(&values) == release::stored(&Value::Object(self.values.clone()))
    }

    /// The release as it is: only its objects are looked at.
    fn unchanged(
        &self,
        view: &dyn View,
        now: ReleaseState,
        manifests: &[Value],
    ) -> Result<WantedStates, Stop> {
        let drift = self.installed().drift(view, manifests)?;
        drift.conflict()?;
        Ok(self.with_objects(WantedStates::one(self.object(), now), drift))
    }

    /// Corrects objects that are missing or were changed behind helm's back.
    fn with_objects(&self, mut wanted: WantedStates, drift: ReleaseDrift) -> WantedStates {
        wanted.notes.extend(drift.notes());
        wanted.targets.extend(drift.targets);
        wanted.contents.extend(drift.contents);
        wanted.calls.extend(drift.calls);
        wanted
    }

    /// A release that is stuck and whose chart cannot be rendered now: it is recovered nevertheless.
    fn put_right(&self, revisions: &[Value], why: &str) -> Result<Option<WantedStates>, Stop> {
        let wanted = match release::recovery(revisions) {
            None => return Ok(None),
            Some(Recovery::Uninstall) => WantedStates::one(self.object(), ReleaseState::Absent),
            Some(Recovery::Rollback(number)) => {
                let is = |r: &&Value| r.get("revision").and_then(Value::as_u64) == Some(number);
                let Some(revision) = revisions.iter().find(is) else { return Ok(None) };
                let (state, content) = ReleaseState::of(revision).map_err(Stop::failed)?;
                let state = state.settled();
                WantedStates::one(self.object(), state).with(content)
            }
        };
        let newest =
            revisions.first().and_then(|r| r.get("status")).and_then(Value::as_str).unwrap_or_default();
        let note = format!(
            "the release is stuck in {newest} and is recovered; the next run installs the declared chart: {why}"
        );
        Ok(Some(WantedStates { notes: vec![note], ..wanted }))
    }

    /// Lays into what helm renders what is in force already where the chart draws something anew each time; which fields these are.
    fn keep_drawn(
        &self,
        rendered: &Value,
        revisions: &[Value],
        manifests: &mut [Value],
    ) -> Result<Vec<PreservedField>, Stop> {
        let drawn: Vec<PreservedField> = match rendered.get(RANDOM) {
            None => return Ok(Vec::new()),
            Some(drawn) => serde_json::from_value(drawn.clone()).map_err(|e| Stop::Failed(e.to_string()))?,
        };
        let Some(revision) = release::in_force(revisions) else { return Ok(Vec::new()) };
        let then = deployed(revision)?;
        let mut preserved = Vec::new();
        for field in drawn {
            let own = |m: &&Value| release::is(m, &field.object, &self.namespace);
            let Some(value) = then.iter().find(own).and_then(|m| fields::read(m, &field.path)) else {
                continue;
            };
            let own = |m: &&mut Value| release::is(m, &field.object, &self.namespace);
            let Some(manifest) = manifests.iter_mut().find(own) else { continue };
            fields::write(manifest, &field.path, Some(value.clone())).map_err(Stop::failed)?;
            preserved.push(field);
        }
        Ok(preserved)
    }

    /// Says that helm makes the namespace.
    fn namespace_note(&self, view: &dyn View) -> Result<Option<String>, Stop> {
        let key = format!("v1/Namespace/{}", self.namespace);
        if !self.create_namespace || view.state::<K8s>(&key)? != K8sState::Absent {
            return Ok(None);
        }
        let note =
            format!("helm makes the namespace {} first; it stays when the release goes", self.namespace);
        Ok(namespace_comes(view, &self.namespace).is_none().then_some(note))
    }

    fn installed(&self) -> InstalledRelease<'_> {
        InstalledRelease { name: &self.name, namespace: &self.namespace, force: self.force_conflicts }
    }

    /// The question to helm; it carries a packaged chart.
    fn question(&self, spec: &ReleaseSpec) -> Result<ApiProbe, Stop> {
        let mut question = serde_json::to_value(spec).map_err(|e| Stop::Failed(e.to_string()))?;
        if let (Some(map), Some(archive)) = (question.as_object_mut(), self.packed()) {
            map.insert(ARCHIVE.to_owned(), Value::from(STANDARD.encode(archive.content.bytes())));
        }
        Ok(ApiProbe::Render(question.to_string()))
    }

    /// The chart as helm renders it.
    fn rendered(&self, view: &dyn View, spec: &ReleaseSpec) -> Result<Value, Stop> {
        let answer = view.api(&self.question(spec)?)?;
        let reply =
            |key: &str| answer.get(key).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
        if let Some(stop) = source_stop(&answer, if self.oci.is_some() { "/oci" } else { "/repository" }) {
            return Err(stop);
        }
        if let Some(why) = reply("waits") {
            let wait = view.may_appear(&self.object()).or_else(|| namespace_comes(view, &self.namespace));
            return Err(match wait.or_else(|| view.pending()) {
                Some(wait) => Stop::Deferred(Wait { reason: why, ..wait }),
                None => Stop::invalid_help(
                    "",
                    format!("the chart cannot be rendered: {why}"),
                    "bring what it needs with an earlier resource or a role in `requires`",
                ),
            });
        }
        match reply("invalid") {
            Some(why) => Err(Stop::invalid("", format!("helm refuses the chart: {why}"))),
            None => Ok(answer),
        }
    }
}

/// The manifests of a revision.
fn deployed(revision: &Value) -> Result<Vec<Value>, Stop> {
    let text = revision.get("manifest").and_then(Value::as_str).unwrap_or_default();
    release::manifests(text)
        .map_err(|why| Stop::Failed(format!("the manifest of the release is no YAML: {why}")))
}

/// The error of the newest revision and its recovery; `revisions` are newest first.
fn recovery(revisions: &[Value]) -> Option<String> {
    let number = |r: &Value| r.get("revision").map_or_else(String::new, Value::to_string);
    let newest = revisions.first()?;
    let now = newest.get("status").and_then(Value::as_str).unwrap_or_default();
    let (name, good) = (number(newest), release::in_force(revisions));
    let reported = match (now, good) {
        ("pending-install", None) => "what it left is taken away, then it is installed again".to_owned(),
        (_, Some(good)) if now.starts_with("pending-") => {
            format!("it goes back to revision {}, then it is upgraded", number(good))
        }
        (_, None) if now.starts_with("pending-") => {
            return Some(format!(
                "revision {name} is stuck in {now}, and none is in force: it is installed again"
            ));
        }
        ("failed", good) => {
            let force = match good {
                None => "nothing of the release is in force".to_owned(),
                Some(good) if number(good) == name => "all of it was applied".to_owned(),
                Some(good) => format!("it is not in force: revision {} is", number(good)),
            };
            return Some(format!("revision {name} has failed, {force}; it is upgraded anew"));
        }
        ("uninstalling", _) => "it is installed again".to_owned(),
        _ => return None,
    };
    Some(format!("revision {name} is stuck in {now}: {reported}"))
}

/// Keys of values that the chart's own values do not have, each with the nearest that they have.
fn unknown_keys(given: &Map<String, Value>, own: &Map<String, Value>, at: &str, notes: &mut Vec<String>) {
    for (key, value) in given {
        let way = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        match (own.get(key), value) {
            (None, _) if key == "global" => {}
            (None, _) => {
                let near = did_you_mean(key, own.keys().map(String::as_str));
                let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                notes.push(format!("the chart has no value `{way}`, so it may do nothing{near}"));
            }
            // A map without keys takes any.
            (Some(Value::Object(own)), Value::Object(given)) if !own.is_empty() => {
                unknown_keys(given, own, &way, notes);
            }
            _ => {}
        }
    }
}

impl Resource for HelmRelease {
    const KIND: &'static str = "helm_release";
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: the GPU operator
  helm_release:
    name: gpu-operator
    namespace: gpu-operator
    repository: https://helm.ngc.nvidia.com/nvidia
    chart: gpu-operator
    version: v25.10.0
    values: {driver: {enabled: false}}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_name("/name", &self.name, &mut errors);
        check_name("/namespace", &self.namespace, &mut errors);
        check_deadline("/timeout", self.timeout, 7200, &mut errors);
        check_login(self.login.as_ref(), &mut errors);
        if let Some(url) = &self.repository {
            check_repository("/repository", url, &mut errors);
        }
        if let Some(url) = &self.oci {
            check_registry("/oci", url, &mut errors);
        }
        if self.login.is_some() && self.packed().is_some() && self.state == Presence::Present {
            let help = "leave `login` out: it is for a chart of `repository` or `oci`";
            errors.push(ParamError::fixed("/login", "a chart of the role itself needs no login", help));
        }
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if self.name.len() > 53 {
            wrong("/name", "the name of a release has at most 53 letters", "choose a shorter one");
        }
        if self.state == Presence::Absent {
            return errors;
        }
        if self.chart().is_none() {
            wrong(
                "",
                "it is not clear which chart it is",
                "give `repository` and `chart`, or `oci`, or `archive`, or `folder`",
            );
        }
        if self.plain_http && self.oci.is_none() {
            wrong(
                "/plain_http",
                "this is for a registry (`oci`)",
                "write `http://` in `repository`, or leave it out",
            );
        }
        match (&self.version, self.packed()) {
            (Some(_), Some(_)) => {
                wrong("/version", "an archive and a folder have their own version", "leave `version` out");
            }
            (None, None) => wrong("", "no version is given", "add `version`, exact, as `v25.10.0`"),
            (Some(version), None) if !exact(version) => {
                let help = "write an exact version, as `v25.10.0`: what `latest` is changes behind your back";
                wrong("/version", "this is not one version", help);
            }
            _ => {}
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        match self.state {
            Presence::Absent => vec![Claim::shared(self.object(), "presence", "absent")],
            Presence::Present => vec![
                Claim::exclusive(self.object(), "content"),
                Claim::shared(self.object(), "presence", "present"),
            ],
        }
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let object = self.object();
        let now = view.state::<Release>(&object.key)?;
        if self.state == Presence::Absent {
            return Ok(WantedStates::one(object, ReleaseState::Absent));
        }
        let chart = self.chart().ok_or_else(|| Stop::invalid("", "it is not clear which chart it is"))?;
        let probe = ApiProbe::Release { namespace: self.namespace.clone(), name: self.name.clone() };
        let answer = view.api(&probe)?;
        let revisions = answer.as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(newest) = revisions.first().filter(|r| self.made(r) && now != ReleaseState::Absent) {
            let manifests = deployed(newest)?;
            // Revisions of older versions have the values of others, and not the chart's.
            if !self.installed().gets_pruned_fields(view, &manifests) {
                return self.unchanged(view, now, &manifests);
            }
        }
        let mut spec = self.spec(chart);
        let rendered = match self.rendered(view, &spec) {
            Err(stop @ (Stop::Invalid { .. } | Stop::Failed(_))) if now != ReleaseState::Absent => {
                let (Stop::Invalid { message: why, .. } | Stop::Failed(why)) = &stop else {
                    return Err(stop);
                };
                return self.put_right(revisions, why)?.ok_or(stop);
            }
            rendered => rendered?,
        };
        let word = |key: &str| rendered.get(key).and_then(Value::as_str);
        let version = word("version").or(self.version.as_deref()).unwrap_or_default();
        let known = word("chart").or(self.chart_name());
        let name = known.or(self.packed().map(|a| archive_name(&a.path))).unwrap_or_default();
        let list = rendered.get("manifests").and_then(Value::as_array);
        let mut manifests = list.cloned().unwrap_or_default();
        // Of what is uninstalled before, nothing is left to compare with or to keep.
        let goes_first = release::recovery(revisions) == Some(Recovery::Uninstall);
        if !goes_first {
            spec.drawn = self.keep_drawn(&rendered, revisions, &mut manifests)?;
        }
        let mut drift = ReleaseDrift::default();
        // A revision that differs by fields of others alone would change nothing, and its rollback neither.
        let mut compared = manifests.clone();
        if now != ReleaseState::Absent && !goes_first {
            drift = self.installed().drift(view, &manifests)?;
            drift.conflict()?;
            if !self.force_conflicts {
                if let Some(revision) = release::in_force(revisions) {
                    let in_force = deployed(revision)?;
                    let with = drift.as_in_force(&self.namespace, &compared, &in_force);
                    compared = with.map_err(Stop::failed)?;
                    let left_alone = drift.keep_dropped(&self.namespace, &manifests, &in_force);
                    spec.keep.extend(left_alone.map_err(Stop::failed)?);
                }
                spec.keep.extend(drift.keep(&self.namespace, &manifests));
            }
        }
        let of = |manifests: &[Value]| {
            let content = release::content(name, version, &spec.values, manifests);
            let (status, chart) = ("deployed".to_owned(), format!("{name}-{version}"));
            let state = ReleaseState::Installed { status, chart, digest: content.digest().clone() };
            (state, content)
        };
        if of(&compared).0 == now {
            return Ok(self.with_objects(WantedStates::one(object, now), drift));
        }
        let (state, content) = of(&manifests);
        // helm sets a field back only where it differs from the revision before: what others took is taken back first.
        let mut wanted = drift.taken();
        wanted.targets.push((object, state.into()));
        wanted.contents.push(content);
        if let Some(archive) = self.packed() {
            wanted.contents.push(archive.content.clone());
        }
        if let Some(own) = rendered.get("values").and_then(Value::as_object) {
            unknown_keys(&self.values, own, "", &mut wanted.notes);
        }
        wanted.notes.extend(self.namespace_note(view)?);
        if revisions.is_empty() {
            wanted.notes.extend(definitions_note(rendered.get("definitions")));
        }
        wanted.notes.extend(recovery(revisions));
        wanted.notes.extend(drift.notes());
        wanted.calls.push(ApiCall::Release(Box::new(spec)));
        Ok(wanted)
    }
}

/// Says which definitions of kinds helm makes.
fn definitions_note(found: Option<&Value>) -> Option<String> {
    let names: Vec<&str> = found.and_then(Value::as_array)?.iter().filter_map(Value::as_str).collect();
    (!names.is_empty()).then(|| {
        format!(
            "helm makes the definitions of kinds {} first; they stay when the release goes",
            names.join(", ")
        )
    })
}

#[cfg(test)]
#[path = "helm_release_tests.rs"]
mod tests;
