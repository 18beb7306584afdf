//! The server's dry run of a manifest.

use crate::connect::Cluster;
use crate::fault::{Fault, Said};
use crate::ownership;
use converge_resource::{ApiRef, FIELD_MANAGER};
use serde_json::{Value, json};

impl Cluster {
    /// A dry run of a server-side apply; see [`converge_resource::ApiProbe::Apply`].
    pub(super) async fn dry_run(&self, manifest: &str, force: bool) -> Result<Value, Fault> {
        let manifest: Value = match serde_json::from_str(manifest) {
            Ok(manifest) => manifest,
            Err(error) => return Ok(json!({"invalid": format!("the manifest is no JSON: {error}")})),
        };
        let Some(wanted) = ApiRef::of(&manifest) else {
            return Ok(json!({"invalid": "the manifest needs apiVersion, kind and metadata.name"}));
        };
        let path = match self.inner.api.path(&wanted).await {
            Ok(Some(path)) => path,
            Ok(None) => {
                return Ok(json!({"no_kind": format!("{} {}", wanted.api_version, wanted.kind)}));
            }
            Err(fault @ (Fault::NoNamespace(_) | Fault::ExtraNamespace(_))) => {
                return Ok(json!({"invalid": fault.to_string()}));
            }
            Err(fault) => return Err(fault),
        };
        match ownership::apply(&self.inner.api, &path, &manifest, FIELD_MANAGER, force, "&dryRun=All").await {
            Ok(object) => Ok(json!({"object": object})),
            Err(Fault::Said(said)) => refused(&said, &wanted).ok_or(Fault::Said(said)),
            Err(fault) => Err(fault),
        }
    }
}

/// The meaning of a refused apply; `None` when it says nothing about the manifest.
pub(crate) fn refused(said: &Said, wanted: &ApiRef) -> Option<Value> {
    let conflicts = said.conflicts();
    if !conflicts.is_empty() {
        let list: Vec<Value> = conflicts
            .into_iter()
            .filter(|(manager, _)| manager != FIELD_MANAGER)
            .map(|(manager, field)| json!({"manager": manager, "field": field}))
            .collect();
        return Some(json!({"conflicts": list}));
    }
    if said.lacks_namespace() {
        return Some(json!({"no_namespace": wanted.namespace.clone().unwrap_or_default()}));
    }
    // A right that we lack is no fault of the manifest; what an admission plugin or a webhook says is.
    let rights = said.code == 403 && said.message.contains(" cannot ");
    // A field that the kind has not comes with status 500.
    let wrong = ["failed to create typed patch object", "admission webhook"];
    let about = matches!(said.code, 400 | 403 | 404 | 409 | 413 | 422)
        || wrong.iter().any(|words| said.message.contains(words));
    (about && !rights).then(|| json!({"invalid": said.message}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let wanted = ApiRef::from_key("v1/ConfigMap/n/x").unwrap();
        let said = |code: u16, message: &str, details: Value| Said {
            code,
            message: message.to_owned(),
            details,
            reason: String::new(),
        };
        let namespace = said(404, "namespaces \"n\" not found", json!({"kind": "namespaces", "name": "n"}));
        assert_eq!(refused(&namespace, &wanted), Some(json!({"no_namespace": "n"})));
        let rbac = said(403, "configmaps \"x\" is forbidden: User \"u\" cannot patch resource", json!({}));
        assert_eq!(refused(&rbac, &wanted), None);
        let quota = said(403, "configmaps \"x\" is forbidden: exceeded quota", json!({}));
        assert!(refused(&quota, &wanted).unwrap()["invalid"].as_str().unwrap().contains("quota"));
        assert_eq!(refused(&said(500, "etcdserver: request timed out", json!({})), &wanted), None);
    }
}
