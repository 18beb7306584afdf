//! The server's dry run of a manifest.

use super::LookError;
use crate::api::{MERGE, escaped};
use crate::connect::Cluster;
use crate::fault::{Fault, ServerRefusal};
use crate::object::{self, merge_patch};
use crate::ownership;
use converge_objects::k8s::{fields, from_text};
use converge_resource::{ApiRef, Content, FIELD_MANAGER};
use serde_json::{Value, json};
use std::sync::PoisonError;

/// The words of a query that change nothing.
const DRY: &str = "&dryRun=All";

impl Cluster {
    /// Keeps who applies the fields of an object that was read: this shows which fields an apply gives up.
    pub(crate) fn saw(&self, wanted: &ApiRef, live: Option<&Value>) {
        let applied = live.map(|live| ownership::applied(live, self.manager())).unwrap_or_default();
        let mut all = self.inner.applied.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(wanted.clone(), applied);
    }

    /// A dry run of an apply of converge, with the fields that it gives up; see [`converge_resource::ApiProbe::Apply`].
    pub(super) async fn dry_apply(&self, manifest: &str, force: bool) -> Result<Value, LookError> {
        let mut answer = self.dry_run(manifest, force).await?;
        let Some(made) = answer.get("object") else { return Ok(answer) };
        let Some(wanted) = ApiRef::of(made) else { return Ok(answer) };
        let found = || {
            let all = self.inner.applied.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(&wanted).cloned()
        };
        // Who asks for an apply has looked at the object before.
        let Some(before) = found() else { return Ok(answer) };
        let plain = before.iter().any(|entry| ownership::is_own(entry, FIELD_MANAGER))
            && self.manager() != FIELD_MANAGER
            && self.is_plainly_managed(&wanted.object()).await?;
        let manager = if plain { FIELD_MANAGER } else { self.manager() };
        let given_up = ownership::given_up(&before, made, manager);
        if let Some(map) = answer.as_object_mut().filter(|_| !given_up.is_empty()) {
            map.insert("gives_up".to_owned(), Value::Array(given_up));
        }
        Ok(answer)
    }

    /// A dry run of a server-side apply.
    pub(super) async fn dry_run(&self, manifest: &str, force: bool) -> Result<Value, LookError> {
        let manifest: Value = match serde_json::from_str(manifest) {
            Ok(manifest) => manifest,
            Err(error) => return Ok(json!({"invalid": format!("the manifest is not JSON: {error}")})),
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
            Err(fault) => return Err(fault.into()),
        };
        let api = &self.inner.api;
        let mut manager = self.manager();
        let mut answer = ownership::apply(api, &path, &manifest, manager, force, DRY).await;
        let meets = match &answer {
            Ok(object) => ownership::has_plain(object),
            Err(Fault::Reply(reply)) => reply.conflicts().iter().any(|(manager, _)| manager == FIELD_MANAGER),
            Err(_) => false,
        };
        if meets && manager != FIELD_MANAGER && self.is_plainly_managed(&wanted.object()).await? {
            // The fields of that name are this project's: the apply takes them over first.
            manager = FIELD_MANAGER;
            answer = ownership::apply(api, &path, &manifest, manager, force, DRY).await;
        }
        match answer {
            Ok(object) => Ok(json!({"object": object})),
            Err(Fault::Reply(reply)) => {
                let mut meant = refused(&reply, &wanted, manager).ok_or(Fault::Reply(reply))?;
                if let Some(map) = meant.as_object_mut().filter(|map| map.contains_key("conflicts")) {
                    map.insert("manager".to_owned(), json!(self.manager()));
                }
                Ok(meant)
            }
            Err(fault) => Err(fault.into()),
        }
    }
}

impl Cluster {
    /// A dry run of a write to a saved state; see [`converge_resource::ApiProbe::Back`].
    pub(super) async fn dry_back(
        &self,
        wanted: &ApiRef,
        from: Option<&str>,
        to: &str,
    ) -> Result<Value, LookError> {
        let api = &self.inner.api;
        let read = |text: &str| from_text(&Content::new(text.as_bytes().to_vec()));
        let Some(mut to) = read(to) else { return Ok(Value::Null) };
        if let Some(secret) = to.as_object_mut().filter(|_| wanted.kind == "Secret") {
            // Digests stand for its values.
            secret.remove("data");
        }
        let words = format!("fieldManager={}{DRY}", escaped(self.manager()));
        let mut found = None;
        let answer = match from.and_then(read) {
            None => {
                let ApiRef { api_version, kind, namespace, .. } = wanted;
                let list = api.collection(api_version, kind, namespace.as_deref()).await?;
                let Some(list) = list else { return Ok(json!({"no_kind": format!("{api_version} {kind}")})) };
                api.post(&format!("{list}?{words}"), &to).await
            }
            Some(from) => {
                let (Some(path), Some(live)) = (api.path(wanted).await?, api.object(wanted).await?) else {
                    return Ok(Value::Null);
                };
                let changes = fields::leaf_differences(&from, &to);
                let Ok(mut new) = fields::with(&live, &changes) else { return Ok(Value::Null) };
                fields::drop_emptied(&mut new, &changes, &to);
                let patch = merge_patch(&live, &new);
                found = Some(live);
                api.patch(&format!("{path}?{words}"), MERGE, &patch).await
            }
        };
        match answer {
            Err(Fault::Reply(reply)) => {
                let why = refused_back(&reply, wanted, self.manager());
                Ok(why.filter(|why| why.get("conflicts").is_none()).unwrap_or_default())
            }
            Err(fault) => Err(fault.into()),
            Ok(made) => {
                let found = found.map(|found| ("found".to_owned(), found));
                let answer = [("object".to_owned(), made)].into_iter().chain(found);
                Ok(Value::Object(answer.collect()))
            }
        }
    }
}

impl Cluster {
    /// A dry run of a deletion; see [`converge_resource::ApiProbe::Gone`].
    pub(super) async fn dry_gone(&self, wanted: &ApiRef) -> Result<Value, LookError> {
        let api = &self.inner.api;
        let Some(path) = api.path(wanted).await? else { return Ok(Value::Null) };
        let Some(found) = self.collected(wanted).await? else { return Ok(Value::Null) };
        if object::is_held(&found) {
            return Ok(json!({"held": LookError::being_deleted(&found).to_string()}));
        }
        match api.delete(&path, &json!({"dryRun": ["All"]})).await {
            Ok(_) => Ok(Value::Null),
            Err(Fault::Reply(reply)) => Ok(refused_back(&reply, wanted, self.manager()).unwrap_or_default()),
            Err(fault) => Err(fault.into()),
        }
    }
}

/// The meaning of a refused apply of converge; `None` when it says nothing about the manifest.
pub(crate) fn refused(reply: &ServerRefusal, wanted: &ApiRef, own: &str) -> Option<Value> {
    let conflicts = reply.conflicts();
    if !conflicts.is_empty() {
        let list: Vec<Value> = conflicts
            .into_iter()
            .filter(|(manager, _)| manager != own)
            .map(|(manager, field)| json!({"manager": manager, "field": field}))
            .collect();
        return Some(json!({"conflicts": list}));
    }
    if reply.lacks_namespace() {
        return Some(json!({"no_namespace": wanted.namespace.clone().unwrap_or_default()}));
    }
    // A right that we lack is no fault of the manifest; what an admission plugin or a webhook says is.
    let rights = reply.code == 403 && reply.message.contains(" cannot ");
    // A field that the kind has not comes with status 500.
    let wrong = ["failed to create typed patch object", "admission webhook"];
    let about = matches!(reply.code, 400 | 403 | 404 | 409 | 413 | 422)
        || wrong.iter().any(|words| reply.message.contains(words));
    (about && !rights).then(|| json!({"invalid": reply.message}))
}

/// The same of a dry run of what a rollback or a prune writes: a webhook that must be asked and does not answer would refuse that too.
fn refused_back(reply: &ServerRefusal, wanted: &ApiRef, own: &str) -> Option<Value> {
    let unanswered =
        || reply.message.contains("failed calling webhook").then(|| json!({"invalid": reply.message}));
    refused(reply, wanted, own).or_else(unanswered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_distinguished() {
        let wanted = ApiRef::from_key("v1/ConfigMap/n/x").unwrap();
        let reply = |code: u16, message: &str, details: Value| ServerRefusal {
            code,
            message: message.to_owned(),
            details,
            reason: String::new(),
        };
        let namespace = reply(404, "namespaces \"n\" not found", json!({"kind": "namespaces", "name": "n"}));
        assert_eq!(refused(&namespace, &wanted, FIELD_MANAGER), Some(json!({"no_namespace": "n"})));
        let rbac = reply(403, "configmaps \"x\" is forbidden: User \"u\" cannot patch resource", json!({}));
        assert_eq!(refused(&rbac, &wanted, FIELD_MANAGER), None);
        let quota = reply(403, "configmaps \"x\" is forbidden: exceeded quota", json!({}));
        assert!(
            refused(&quota, &wanted, FIELD_MANAGER).unwrap()["invalid"].as_str().unwrap().contains("quota")
        );
        // Of an apply it is no answer, and of a step back a refusal.
        let webhook =
            reply(500, "Internal error occurred: failed calling webhook \"a.ex.io\": dial tcp", json!({}));
        assert_eq!(refused(&webhook, &wanted, FIELD_MANAGER), None);
        assert_eq!(refused_back(&webhook, &wanted, FIELD_MANAGER), Some(json!({"invalid": webhook.message})));
        assert_eq!(refused_back(&rbac, &wanted, FIELD_MANAGER), None);
        assert_eq!(
            refused(&reply(500, "etcdserver: request timed out", json!({})), &wanted, FIELD_MANAGER),
            None
        );
    }
}
