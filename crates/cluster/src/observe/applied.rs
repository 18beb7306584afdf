//! How much of a revision that failed was applied. helm's record says it of hooks alone, so the live objects are asked.

use super::LookError;
use crate::connect::Cluster;
use crate::object::{is_being_deleted, seconds, text};
use converge_objects::k8s::fields::{self, Field};
use converge_objects::k8s::normalised;
use converge_objects::release::{self, has_failed, in_force, manifests};
use converge_resource::ApiRef;
use serde_json::{Map, Value, json};

/// Events of hooks that come before anything is applied.
const BEFORE: [&str; 3] = ["pre-install", "pre-upgrade", "pre-rollback"];

/// Events of hooks that come when all is applied, and has been waited for.
const AFTER: [&str; 3] = ["post-install", "post-upgrade", "post-rollback"];

impl Cluster {
    /// Says of each revision that failed whether all of it was applied: `applied`. Both lists are newest first.
    pub(super) async fn mark_applied(
        &self,
        namespace: &str,
        records: &[Value],
        revisions: &mut [Value],
    ) -> Result<(), LookError> {
        let last = revisions.iter().position(|r| text(r, "/status") == "deployed").unwrap_or(revisions.len());
        // The oldest first: a later one may have failed on top of it.
        for at in (0..revisions.len()).rev() {
            let Some((revision, older)) = revisions.get(at..).and_then(<[Value]>::split_first) else {
                continue;
            };
            if !has_failed(revision) {
                continue;
            }
            let applied = match records.get(at).and_then(hooks_say) {
                Some(applied) => applied,
                None if at < last => self.is_live(namespace, revision, in_force(older)).await?,
                None => continue,
            };
            if let Some(revision) = revisions.get_mut(at).and_then(Value::as_object_mut) {
                revision.insert("applied".to_owned(), json!(applied));
            }
        }
        Ok(())
    }

    /// Whether the manifests of a revision are live, where they differ from those of the one before.
    async fn is_live(
        &self,
        namespace: &str,
        revision: &Value,
        before: Option<&Value>,
    ) -> Result<bool, LookError> {
        let list = |revision: &Value| manifests(text(revision, "/manifest"));
        let (then, before) = (list(revision)?, before.map(list).transpose()?.unwrap_or_default());
        for manifest in &then {
            let Some(object) = self.placed(manifest, namespace).await? else { continue };
            let previous = before.iter().find(|m| release::is(m, &object, namespace));
            if previous != Some(manifest) && !self.is_laid(&object, manifest, previous).await? {
                return Ok(false);
            }
        }
        for manifest in before.iter().filter(|m| !has_keep_policy(m)) {
            let Some(object) = self.placed(manifest, namespace).await? else { continue };
            let dropped = !then.iter().any(|m| release::is(m, &object, namespace));
            if dropped && self.inner.api.object(&object).await?.is_some_and(|live| !is_being_deleted(&live)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The object of a manifest, in the namespace where helm lays it.
    async fn placed(&self, manifest: &Value, namespace: &str) -> Result<Option<ApiRef>, LookError> {
        let Some(mut object) = ApiRef::of(manifest) else { return Ok(None) };
        if object.namespace.is_none() {
            let resource = self.inner.api.resource(&object.api_version, &object.kind).await?;
            object.namespace = resource.filter(|r| r.namespaced).map(|_| namespace.to_owned());
        }
        Ok(Some(object))
    }

    /// Whether an object is there as the manifest has it, in the fields in which it differs from the previous manifest.
    async fn is_laid(
        &self,
        object: &ApiRef,
        manifest: &Value,
        previous: Option<&Value>,
    ) -> Result<bool, LookError> {
        let Some(live) = self.inner.api.object(object).await? else { return Ok(false) };
        let Some(previous) = previous else { return Ok(true) };
        let mut wish = manifest.clone();
        if let (Some(metadata), Some(namespace)) =
            (wish.get_mut("metadata").and_then(Value::as_object_mut), &object.namespace)
        {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        // The server knows what its defaults and its ways to write a value make of the manifest; one that it refuses is not what is there.
        let answer = self.dry_run(&wish.to_string(), true).await?;
        let Some(made) = answer.get("object") else { return Ok(false) };
        let missing = fields::differences(&normalised(&live), &normalised(made));
        // The values of a Secret stand in a manifest in two ways.
        let changed = fields::leaf_differences(previous, manifest);
        let counts = |field: &Field| {
            object.kind == "Secret" || changed.iter().any(|c| fields::touch(&c.path, &field.path))
        };
        Ok(!missing.iter().any(counts))
    }
}

/// The evidence of the hooks that ran with a revision: whether nothing was applied yet, or all of it was.
fn hooks_say(record: &Value) -> Option<bool> {
    let begun = record.pointer("/info/last_deployed").and_then(seconds)?;
    let hooks = record.get("hooks").and_then(Value::as_array)?;
    // A rollback takes the hooks over from the older revision, with their last run.
    let ran = |hook: &&Value| {
        hook.pointer("/last_run/started_at").and_then(seconds).is_some_and(|started| started >= begun)
    };
    let only = |hook: &Value, events: [&str; 3]| {
        let own = hook.get("events").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        !own.is_empty() && own.iter().all(|event| event.as_str().is_some_and(|e| events.contains(&e)))
    };
    let stopped = |hook: &Value| text(hook, "/last_run/phase") != "Succeeded";
    if hooks.iter().filter(ran).any(|hook| only(hook, BEFORE) && stopped(hook)) {
        return Some(false);
    }
    hooks.iter().filter(ran).any(|hook| only(hook, AFTER)).then_some(true)
}

/// Whether helm leaves an object where a revision drops it.
fn has_keep_policy(manifest: &Value) -> bool {
    let annotations = manifest.pointer("/metadata/annotations").and_then(Value::as_object);
    let policy = |a: &Map<String, Value>| a.get("helm.sh/resource-policy").cloned();
    annotations.and_then(policy).is_some_and(|policy| policy == "keep")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_tell_how_far_helm_came() {
        let record =
            |hooks: Value| json!({"info": {"last_deployed": "2026-11-25T19:41:35.5Z"}, "hooks": hooks});
        let hook = |events: &[&str], second: u32, phase: &str| json!({"events": events, "last_run": {"started_at": format!("2026-11-25T19:41:{second}.7Z"), "phase": phase}});
        let says = |hooks: &[Value]| hooks_say(&record(json!(hooks)));
        assert_eq!(says(&[hook(&["pre-upgrade", "pre-install"], 36, "Failed")]), Some(false));
        assert_eq!(says(&[hook(&["pre-upgrade"], 36, "Succeeded")]), None);
        assert_eq!(
            says(&[hook(&["pre-upgrade"], 36, "Succeeded"), hook(&["post-upgrade"], 37, "Failed")]),
            Some(true)
        );
        // Of an earlier operation, and of both sorts.
        assert_eq!(says(&[hook(&["pre-upgrade"], 20, "Failed")]), None);
        assert_eq!(says(&[hook(&["pre-upgrade", "post-upgrade"], 36, "Failed")]), None);
        assert_eq!(says(&[hook(&["test"], 36, "Failed"), json!({"events": ["pre-upgrade"]})]), None);
        assert_eq!(hooks_say(&json!({})), None);
    }
}
