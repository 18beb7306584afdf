//! Helm releases, as helm itself keeps them, and charts as helm would render them.

use crate::api::escaped;
use crate::connect::Cluster;
use crate::helm::Helm;
use crate::object::text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use converge_objects::release::{ReleaseState, manifests};
use converge_resource::{ARCHIVE, Chart, Content, ObjectId, Observed, ReleaseSpec, State};
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::Read as _;
use std::time::Duration;

/// What a record of helm may hold unpacked.
const UNPACKED: u64 = 128 << 20;

/// Words of helm that tell that something is to come yet.
const WAITS: [&str; 4] = [
    "no matches for kind",
    "ensure CRDs are installed first",
    "could not find the requested resource",
    "namespaces \"",
];

/// Namespace and name of a release's key.
pub(crate) fn parts(id: &ObjectId) -> Result<(&str, &str), String> {
    id.key
        .split_once('/')
        .ok_or_else(|| format!("`{}` names no release; it is written NAMESPACE/NAME", id.key))
}

/// A record of helm, out of its Secret; pure.
fn record(secret: &Value) -> Option<Value> {
    let outer = STANDARD.decode(text(secret, "/data/release")).ok()?;
    let inner = STANDARD.decode(&outer).ok()?;
    let mut bytes = Vec::new();
    if inner.starts_with(&[0x1f, 0x8b]) {
        GzDecoder::new(inner.as_slice()).take(UNPACKED).read_to_end(&mut bytes).ok()?;
    } else {
        bytes = inner;
    }
    serde_json::from_slice(&bytes).ok()
}

/// What people and kinds read of a record.
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
    })
}

/// The state of a release: that of its newest revision. What was uninstalled with its history kept is not there.
pub(crate) fn newest(revisions: &[Value]) -> Result<(Observed, Vec<Content>), String> {
    let Some(newest) = revisions.first().filter(|r| text(r, "/status") != "uninstalled") else {
        return Ok((Observed { state: State::absent(), moment: None }, Vec::new()));
    };
    let (state, content) = ReleaseState::of(newest)?;
    let moment = newest.get("updated").and_then(crate::object::seconds);
    Ok((Observed { state: state.into(), moment }, vec![content]))
}

/// The number of a revision.
pub(crate) fn number(revision: &Value) -> u64 {
    revision.get("revision").and_then(Value::as_u64).unwrap_or(0)
}

impl Cluster {
    /// What helm keeps of a release, newest first.
    pub(crate) async fn helm_records(&self, namespace: &str, name: &str) -> Result<Vec<Value>, String> {
        let labels = escaped(&format!("owner=helm,name={name}"));
        let path = format!("/api/v1/namespaces/{}/secrets?labelSelector={labels}", escaped(namespace));
        let secrets = self.inner.api.list(&path).await.map_err(|e| e.to_string())?;
        let mut found = Vec::new();
        for secret in &secrets {
            let what = text(secret, "/metadata/name");
            found.push(record(secret).ok_or_else(|| {
                format!("helm's record {namespace}/{what} is not understood; `helm history {name} -n {namespace}` may tell more")
            })?);
        }
        found.sort_by_key(|r| std::cmp::Reverse(r.get("version").and_then(Value::as_u64)));
        Ok(found)
    }

    /// The revisions of a release, newest first.
    pub(crate) async fn revisions(&self, namespace: &str, name: &str) -> Result<Vec<Value>, String> {
        Ok(self.helm_records(namespace, name).await?.iter().map(revision).collect())
    }

    /// The state of a release.
    pub(crate) async fn release(&self, id: &ObjectId) -> Result<(Observed, Vec<Content>), String> {
        let (namespace, name) = parts(id)?;
        newest(&self.revisions(namespace, name).await?)
    }

    /// What helm would render; see [`converge_resource::ApiProbe::Render`].
    pub(super) async fn render(&self, spec: &str) -> Result<Value, String> {
        let bad = |e: &dyn std::fmt::Display| format!("the release is not understood: {e}");
        let spec: Value = serde_json::from_str(spec).map_err(|e| bad(&e))?;
        if let Some(archive) = spec.get(ARCHIVE).and_then(Value::as_str) {
            self.offer(Content::new(STANDARD.decode(archive).map_err(|e| bad(&e))?));
        }
        let spec: ReleaseSpec = serde_json::from_value(spec).map_err(|e| bad(&e))?;
        let helm = Helm::ready(self).await?;
        let chart = helm.chart(self, &spec)?;
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<String>>();
        let limit = Duration::from_secs(120);
        let mut arguments = words(&[
            "upgrade",
            "--install",
            "--dry-run=server",
            "--reset-values",
            "-o",
            "json",
            "--namespace",
            &spec.namespace,
            &spec.name,
        ]);
        arguments.extend(chart.clone());
        let said = match helm.run(&arguments, limit).await {
            Ok(release) => {
                let release: Value =
                    serde_json::from_str(&release).map_err(|e| format!("helm's answer is no JSON: {e}"))?;
                return Ok(json!({
                    "manifests": manifests(text(&release, "/manifest")).map_err(|e| format!("helm's manifests: {e}"))?,
                    "chart": release.pointer("/chart/metadata/name"),
                    "version": release.pointer("/chart/metadata/version"),
                    "values": release.pointer("/chart/values").cloned().unwrap_or_else(|| json!({})),
                    "notes": release.pointer("/info/notes"),
                }));
            }
            Err(said) => said,
        };
        let mut show = words(&["show", "all"]);
        show.extend(chart.clone().into_iter().take_while(|word| word != "--values"));
        let about_chart = |what: &str| {
            let mut arguments = show.clone();
            if let Some(last) = arguments.get_mut(1) {
                what.clone_into(last);
            }
            arguments
        };
        // A release that hangs: helm looks at nothing else then. Or a chart that brings the kinds of its own objects: helm
        // makes these first when it installs, and not in a dry run. The templates can be rendered all the same.
        let hangs = said.contains("another operation");
        let missing = missing_kinds(&said);
        if !hangs {
            let crds = match missing.is_empty() {
                true => String::new(),
                false => helm.run(&about_chart("crds"), limit).await?,
            };
            let brings = |kind: &String| {
                crds.lines().any(|line| {
                    line.trim() == format!("kind: {kind}") || line.contains(&format!("kind: {kind},"))
                })
            };
            if missing.is_empty() || !missing.iter().all(brings) {
                return Ok(refused(&said));
            }
        }
        let mut arguments =
            words(&["template", "--dry-run=server", "--no-hooks", "--namespace", &spec.namespace]);
        if hangs {
            arguments.push("--is-upgrade".to_owned());
        }
        arguments.push(spec.name.clone());
        arguments.extend(chart);
        let rendered = match helm.run(&arguments, limit).await {
            Ok(rendered) => rendered,
            Err(said) => return Ok(refused(&said)),
        };
        let about = helm.run(&about_chart("chart"), limit).await?;
        let values = helm.run(&about_chart("values"), limit).await?;
        let about: Value = serde_yaml::from_str(&about).unwrap_or_default();
        Ok(json!({
            "manifests": manifests(&rendered).map_err(|e| format!("helm's manifests: {e}"))?,
            "chart": about.get("name"),
            "version": about.get("version"),
            "values": serde_yaml::from_str::<Value>(&values).unwrap_or_default(),
            "notes": null,
        }))
    }
}

/// The kinds that helm misses, by its own words: `no matches for kind "ClusterPolicy" in version "nvidia.com/v1"`.
fn missing_kinds(said: &str) -> Vec<String> {
    let after = said.split("no matches for kind \"").skip(1);
    after.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// What a refusal of helm means.
fn refused(said: &str) -> Value {
    let waits = WAITS.iter().any(|word| said.contains(word));
    let line = said.strip_prefix("Error: ").unwrap_or(said);
    if waits { json!({"waits": line}) } else { json!({"invalid": line}) }
}

/// A chart for people.
pub(crate) fn chart_name(spec: &ReleaseSpec) -> String {
    let version = spec.version.as_ref().map_or_else(String::new, |v| format!(" {v}"));
    match &spec.chart {
        Chart::Repository { name, .. } => format!("{name}{version}"),
        Chart::Oci(url) => format!("{url}{version}"),
        Chart::Archive(_) => "the packaged chart".to_owned(),
        Chart::Former(_) => "as it was".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helms_refusals_are_told_apart() {
        let missing = "Error: unable to build kubernetes objects: resource mapping not found: no matches for kind \"X\" in version \"y/v1\"\nensure CRDs are installed first";
        assert!(refused(missing)["waits"].as_str().unwrap().starts_with("unable to build"));
        assert_eq!(
            refused("Error: chart \"x\" version \"9\" not found"),
            json!({"invalid": "chart \"x\" version \"9\" not found"})
        );
        assert_eq!(record(&json!({"data": {"release": "%%"}})), None);
        assert!(parts(&ObjectId::new("release", "x")).is_err());
    }
}
