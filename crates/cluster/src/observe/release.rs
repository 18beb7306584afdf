//! Helm releases, as helm itself keeps them, and charts as helm would render them.

use super::LookError;
use crate::api::escaped;
use crate::connect::Cluster;
use crate::fault::Fault;
use crate::helm::{Helm, HelmError, QUESTION};
use crate::helm_record::record;
use crate::object::text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use converge_objects::k8s::fields::leaf_differences;
use converge_objects::release::{ReleaseState, content, in_force, manifests};
use converge_resource::{
    ARCHIVE, ApiRef, Chart, Content, ObjectId, Observation, PreservedField, RANDOM, REFUSED, ReleaseSpec,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The reason why a chart was not rendered.
enum RenderFailure {
    /// helm refuses it: an answer, for its kind.
    Refused(HelmError),
    /// There is no answer.
    Failed(LookError),
}

impl From<LookError> for RenderFailure {
    fn from(error: LookError) -> Self {
        Self::Failed(error)
    }
}

impl From<HelmError> for RenderFailure {
    fn from(error: HelmError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<RenderFailure> for LookError {
    fn from(unrendered: RenderFailure) -> Self {
        match unrendered {
            RenderFailure::Refused(error) => error.into(),
            RenderFailure::Failed(error) => error,
        }
    }
}

/// Namespace and name of a release's key.
pub(crate) fn parts(id: &ObjectId) -> Result<(&str, &str), LookError> {
    id.key.split_once('/').ok_or_else(|| LookError::ReleaseKey(id.key.clone()))
}

/// The part of a record that users and kinds read.
pub(crate) fn revision(release: &Value) -> Value {
    json!({
        "revision": release.get("version"),
        "status": release.pointer("/info/status"),
        "chart": {
            "name": release.pointer("/chart/metadata/name"),
            "version": release.pointer("/chart/metadata/version"),
        },
        "values": release.get("config").cloned().unwrap_or_else(|| json!({})),
        "manifest": text(release, "/manifest"),
        "updated": release.pointer("/info/last_deployed"),
        "definitions": definitions(release),
    })
}

/// The names of the definitions of kinds in the chart of a record of helm (`crds/`): helm makes them with the first install, and leaves them.
fn definitions(release: &Value) -> Vec<String> {
    let files = release.pointer("/chart/files").and_then(Value::as_array).into_iter().flatten();
    let defines = files.filter(|file| text(file, "/name").starts_with("crds/"));
    let decoded =
        defines.filter_map(|file| String::from_utf8(STANDARD.decode(text(file, "/data")).ok()?).ok());
    decoded.flat_map(|yaml| names_of(&yaml)).collect()
}

/// The names of objects in a stream of YAML.
fn names_of(yaml: &str) -> Vec<String> {
    let all = manifests(yaml).unwrap_or_default();
    all.iter().map(|manifest| text(manifest, "/metadata/name").to_owned()).filter(|n| !n.is_empty()).collect()
}

/// The state of a release with these revisions, newest first.
pub(crate) fn state(revisions: &[Value]) -> Result<(Observation, Option<Content>), LookError> {
    let (state, content) = ReleaseState::now(revisions)?;
    let there = revisions.first().filter(|_| state != ReleaseState::Absent);
    let moment = there.and_then(|newest| newest.get("updated")).and_then(crate::object::seconds);
    Ok((Observation::new(state.into(), moment), content))
}

/// The number of a revision.
pub(crate) fn number(revision: &Value) -> u64 {
    revision.get("revision").and_then(Value::as_u64).unwrap_or(0)
}

impl Cluster {
    /// The Secrets in which helm keeps the records of a release, in no order.
    pub(crate) async fn helm_secrets(&self, namespace: &str, name: &str) -> Result<Vec<Value>, Fault> {
        let labels = escaped(&format!("owner=helm,name={name}"));
        let path = format!("/api/v1/namespaces/{}/secrets?labelSelector={labels}", escaped(namespace));
        self.inner.api.list(&path).await
    }

    /// The records of helm for a release, newest first.
    pub(crate) async fn helm_records(&self, namespace: &str, name: &str) -> Result<Vec<Value>, LookError> {
        let secrets = self.helm_secrets(namespace, name).await?;
        let mut found = Vec::new();
        for secret in &secrets {
            found.push(record(secret).ok_or_else(|| LookError::HelmRecord {
                namespace: namespace.to_owned(),
                secret: text(secret, "/metadata/name").to_owned(),
                release: name.to_owned(),
            })?);
        }
        found.sort_by_key(|r| std::cmp::Reverse(r.get("version").and_then(Value::as_u64)));
        Ok(found)
    }

    /// The revisions of a release with these records of helm, newest first.
    pub(crate) async fn revisions_of(
        &self,
        namespace: &str,
        records: &[Value],
    ) -> Result<Vec<Value>, LookError> {
        let mut revisions: Vec<Value> = records.iter().map(revision).collect();
        self.mark_applied(namespace, records, &mut revisions).await?;
        Ok(revisions)
    }

    /// The revisions of a release, newest first.
    pub(crate) async fn revisions(&self, namespace: &str, name: &str) -> Result<Vec<Value>, LookError> {
        self.revisions_of(namespace, &self.helm_records(namespace, name).await?).await
    }

    /// The state of a release.
    pub(crate) async fn release(&self, id: &ObjectId) -> Result<(Observation, Vec<Content>), LookError> {
        let (namespace, name) = parts(id)?;
        let (observed, content) = state(&self.revisions(namespace, name).await?)?;
        Ok((observed, content.into_iter().collect()))
    }

    /// The result of rendering by helm; see [`converge_resource::ApiProbe::Render`].
    pub(super) async fn render(&self, spec: &str) -> Result<Value, LookError> {
        let spec: Value = serde_json::from_str(spec).map_err(LookError::ReleaseSpec)?;
        if let Some(archive) = spec.get(ARCHIVE).and_then(Value::as_str) {
            self.offer(Content::new(STANDARD.decode(archive).map_err(LookError::Archive)?));
        }
        let spec: ReleaseSpec = serde_json::from_value(spec).map_err(LookError::ReleaseSpec)?;
        let helm = match Helm::ready(self, Some(&spec)).await {
            Err(error) if error.is_of_source() => return Ok(refused(&error)),
            ready => ready?,
        };
        let chart = helm.chart(self, &spec)?;
        let begun = Instant::now();
        let rendered = async {
            let how = self.how(&helm, &spec, chart).await?;
            let answer = how.render(&helm).await?;
            Ok((how, answer))
        };
        let (how, mut answer) = match rendered.await {
            Ok(rendered) => rendered,
            Err(RenderFailure::Refused(error)) => return Ok(refused(&error)),
            Err(RenderFailure::Failed(error)) => return Err(error),
        };
        let random = self.random(&helm, &spec, &how, &answer, begun).await?;
        if let (Some(map), false) = (answer.as_object_mut(), random.is_empty()) {
            map.insert(RANDOM.to_owned(), json!(random));
        }
        Ok(answer)
    }

    /// How helm can be asked for its manifests.
    async fn how(
        &self,
        helm: &Helm,
        spec: &ReleaseSpec,
        chart: Vec<String>,
    ) -> Result<ManifestSource, RenderFailure> {
        let mut arguments =
            words(&["upgrade", "--install", "--dry-run=server", "--reset-values", "-o", "json"]);
        arguments.extend(words(&["--namespace", &spec.namespace, &spec.name]));
        arguments.extend(chart.clone());
        let reply = match helm.run(&arguments, QUESTION).await {
            Ok(release) => return Ok(ManifestSource::Upgrade { arguments, first: release }),
            Err(refused) if refused.is_of_source() => return Err(RenderFailure::Refused(refused)),
            Err(reply) => reply,
        };
        // A release that is stuck: helm then checks nothing else. Or a chart that brings the kinds of its own objects: helm
        // makes these first when it installs, and not in a dry run. The templates can still be rendered.
        let hangs = reply.hangs();
        let about: Vec<String> = chart.iter().take_while(|word| *word != "--values").cloned().collect();
        let shown = |what: &str| [words(&["show", what]), about.clone()].concat();
        let crds = helm.run(&shown("crds"), QUESTION).await?;
        let brought = kinds_of(&crds);
        let missing = reply.missing_kinds();
        let brings = |kind: &String| brought.iter().any(|word| word.rsplit('/').next() == Some(kind));
        // Without the server helm takes the cluster for one of its own build's version that has nothing but Kubernetes' own kinds.
        let (version, mut apis) = self.inner.api.capabilities().await.map_err(LookError::from)?;
        let comes = brought.iter().any(|api| !apis.contains(api)) && missing.iter().all(brings);
        // It is installed anew then.
        if !hangs && !comes && !reply.is_half_removed() {
            return Err(RenderFailure::Refused(reply));
        }
        apis.extend(brought);
        let mut arguments =
            words(&["template", "--dry-run=server", "--no-hooks", "--namespace", &spec.namespace]);
        arguments.extend(words(&["--kube-version", &version]));
        arguments.extend(apis.into_iter().flat_map(|api| ["--api-versions".to_owned(), api]));
        if hangs {
            arguments.push("--is-upgrade".to_owned());
        }
        arguments.push(spec.name.clone());
        arguments.extend(chart);
        let definitions = names_of(&crds);
        Ok(ManifestSource::Template {
            arguments,
            chart: shown("chart"),
            values: shown("values"),
            definitions,
        })
    }

    /// The fields that come out otherwise each time that the chart is rendered, where there is a release that has them: a password that it draws,
    /// and what is computed from it.
    async fn random(
        &self,
        helm: &Helm,
        spec: &ReleaseSpec,
        how: &ManifestSource,
        answer: &Value,
        begun: Instant,
    ) -> Result<Vec<PreservedField>, LookError> {
        let revisions = self.revisions(&spec.namespace, &spec.name).await?;
        let list =
            |answer: &Value| answer.get("manifests").and_then(Value::as_array).cloned().unwrap_or_default();
        let one = list(answer);
        let same = |live: &Value| {
            let then = manifests(text(live, "/manifest")).unwrap_or_default();
            content("", "", &Value::Null, &then) == content("", "", &Value::Null, &one)
        };
        // A release that is rendered as it is in force, or of which nothing is, has nothing to keep.
        if in_force(&revisions).is_none_or(same) {
            return Ok(Vec::new());
        }
        // The time of day is drawn too, to the second.
        tokio::time::sleep(Duration::from_millis(1100).saturating_sub(begun.elapsed())).await;
        let again = how.render_anew(helm).await?;
        let mut found = moving(&one, &list(&again));
        for preserved in found.iter_mut().filter(|preserved| preserved.object.namespace.is_none()) {
            let ApiRef { api_version, kind, .. } = &preserved.object;
            let resource = self.inner.api.resource(api_version, kind).await?;
            preserved.object.namespace = resource.filter(|r| r.namespaced).map(|_| spec.namespace.clone());
        }
        Ok(found)
    }
}

/// How helm is asked for the manifests of a chart.
enum ManifestSource {
    /// As it would lay them; with what it has said already.
    Upgrade { arguments: Vec<String>, first: String },
    /// From the templates alone.
    Template { arguments: Vec<String>, chart: Vec<String>, values: Vec<String>, definitions: Vec<String> },
}

impl ManifestSource {
    /// The answer for kinds.
    async fn render(&self, helm: &Helm) -> Result<Value, RenderFailure> {
        match self {
            Self::Upgrade { first, .. } => Ok(upgraded(first)?),
            Self::Template { arguments, chart, values, definitions } => {
                let rendered = helm.run(arguments, QUESTION).await.map_err(RenderFailure::Refused)?;
                let about = helm.run(chart, QUESTION).await?;
                let values = helm.run(values, QUESTION).await?;
                let about: Value = serde_yaml::from_str(&about).unwrap_or_default();
                Ok(json!({
                    "manifests": manifests(&rendered).map_err(HelmError::Manifests)?,
                    "chart": about.get("name"),
                    "version": about.get("version"),
                    "values": serde_yaml::from_str::<Value>(&values).unwrap_or_default(),
                    "notes": null,
                    "definitions": definitions,
                }))
            }
        }
    }

    /// The same, asked once more.
    async fn render_anew(&self, helm: &Helm) -> Result<Value, RenderFailure> {
        match self {
            Self::Upgrade { arguments, .. } => {
                let release = helm.run(arguments, QUESTION).await.map_err(RenderFailure::Refused)?;
                Ok(upgraded(&release)?)
            }
            Self::Template { .. } => self.render(helm).await,
        }
    }
}

/// The result of a dry run of an upgrade.
fn upgraded(release: &str) -> Result<Value, HelmError> {
    let release: Value = serde_json::from_str(release).map_err(HelmError::Answer)?;
    Ok(json!({
        "manifests": manifests(text(&release, "/manifest")).map_err(HelmError::Manifests)?,
        "chart": release.pointer("/chart/metadata/name"),
        "version": release.pointer("/chart/metadata/version"),
        "values": release.pointer("/chart/values").cloned().unwrap_or_else(|| json!({})),
        "notes": release.pointer("/info/notes"),
        "definitions": definitions(&release),
    }))
}

/// The fields in which two renderings of one chart differ. An object that only one of them has has a name that is drawn: nothing of it can be kept.
fn moving(one: &[Value], two: &[Value]) -> Vec<PreservedField> {
    let mut found = Vec::new();
    for manifest in one {
        let Some(object) = ApiRef::of(manifest) else { continue };
        let Some(other) = two.iter().find(|m| ApiRef::of(m).as_ref() == Some(&object)) else { continue };
        let fields = leaf_differences(manifest, other).into_iter().filter(|f| f.before.is_some());
        found.extend(fields.map(|field| PreservedField { object: object.clone(), path: field.path }));
    }
    found
}

/// `apps/v1` and `apps/v1/Deployment` of each definition of a kind.
fn kinds_of(crds: &str) -> Vec<String> {
    let mut found = Vec::new();
    for crd in manifests(crds).unwrap_or_default() {
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
        for version in versions.iter().filter(|v| v.get("served") != Some(&Value::Bool(false))) {
            let group = format!("{}/{}", text(&crd, "/spec/group"), text(version, "/name"));
            found.push(format!("{group}/{}", text(&crd, "/spec/names/kind")));
            found.push(group);
        }
    }
    found
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// The meaning of a refusal by helm.
fn refused(error: &HelmError) -> Value {
    match error {
        HelmError::Refused(refusal) => {
            return json!({REFUSED: {"message": refusal.to_string(), "help": refusal.help(), "parameter": "login"}});
        }
        HelmError::Source(fault) => {
            let (message, help) = (fault.to_string(), fault.help());
            return json!({REFUSED: {"message": message, "help": help, "parameter": fault.parameter()}});
        }
        _ => {}
    }
    let reply = error.to_string();
    let line = reply.strip_prefix("Error: ").unwrap_or(&reply);
    if error.waits() { json!({"waits": line}) } else { json!({"invalid": line}) }
}

/// A chart for people.
pub(crate) fn chart_name(spec: &ReleaseSpec) -> String {
    let version = spec.version.as_ref().map_or_else(String::new, |v| format!(" {v}"));
    match &spec.chart {
        Chart::Repository { name, .. } => format!("{name}{version}"),
        Chart::Oci(url) => format!("{url}{version}"),
        Chart::Archive(_) => "the packaged chart".to_owned(),
        Chart::SavedRelease(_) => "as it was".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helms_refusals_are_distinguished() {
        let missing = "Error: unable to build kubernetes objects: resource mapping not found: no matches for kind \"X\" in version \"y/v1\"\nensure CRDs are installed first";
        let missing = HelmError::Reply(missing.to_owned());
        assert_eq!(missing.missing_kinds(), ["X"]);
        assert!(refused(&missing)["waits"].as_str().unwrap().starts_with("unable to build"));
        assert!(HelmError::Reply("Error: another operation is in progress".to_owned()).hangs());
        assert_eq!(
            refused(&HelmError::Reply("Error: chart \"x\" version \"9\" not found".to_owned())),
            json!({"invalid": "chart \"x\" version \"9\" not found"})
        );
        let crd = "kind: CustomResourceDefinition\nspec: {group: g.io, names: {kind: K}, versions: [{name: v1, served: true}, {name: v0, served: false}]}\n";
        assert_eq!(kinds_of(crd), ["g.io/v1/K", "g.io/v1"]);
        assert!(parts(&ObjectId::new("release", "x")).is_err());
    }

    /// A password that is drawn, and what is made of it.
    #[test]
    fn what_a_chart_draws_is_distinguished_from_its_messages() {
        let rendered = |word: &str| {
            vec![
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": word, "user": "eA=="}}),
                json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": word}}),
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
                    "spec": {"template": {"metadata": {"annotations": {"sum": word, "x": "1"}}}}}),
            ]
        };
        let found: Vec<String> = moving(&rendered("YQ=="), &rendered("Yg=="))
            .iter()
            .map(|k| format!("{}{}", k.object.name, converge_objects::k8s::fields::shown(&k.path)))
            .collect();
        assert_eq!(found, ["s.data.p", "d.spec.template.metadata.annotations.sum"]);
        assert_eq!(moving(&rendered("a"), &rendered("a")), []);
    }
}
