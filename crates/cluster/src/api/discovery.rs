//! The kinds that the API server knows, and their paths.

use super::{Api, ApiKind, DISCOVERY, FRESH, escaped, json};
use crate::fault::Fault;
use converge_resource::ApiRef;
use http::Method;
use serde_json::Value;
use std::time::Instant;

pub(super) struct Known {
    at: Instant,
    kinds: Vec<ApiKind>,
}

/// Groups and kinds of an aggregated discovery; of an older server's, the groups alone. Pure.
pub(super) fn apis(groups: &Value) -> Vec<String> {
    let list =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut found = Vec::new();
    for group in list(groups, "items") {
        let name = group.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        for version in list(&group, "versions") {
            let word = version.get("version").and_then(Value::as_str).unwrap_or_default();
            let word = if name.is_empty() { word.to_owned() } else { format!("{name}/{word}") };
            let kinds = list(&version, "resources");
            let kinds = kinds.iter().filter_map(|r| r.pointer("/responseKind/kind")?.as_str());
            let kinds: Vec<String> = kinds.map(|kind| format!("{word}/{kind}")).collect();
            found.push(word);
            found.extend(kinds);
        }
    }
    found.extend(list(groups, "versions").iter().filter_map(Value::as_str).map(str::to_owned));
    for version in list(groups, "groups").iter().flat_map(|group| list(group, "versions")) {
        found.extend(version.get("groupVersion").and_then(Value::as_str).map(str::to_owned));
    }
    found
}

pub(super) fn resource_of(entry: &Value) -> Option<ApiKind> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    // `pods/log` and the like are parts of others.
    let plural = text("name").filter(|name| !name.contains('/'))?;
    Some(ApiKind {
        kind: text("kind")?.to_owned(),
        plural: plural.to_owned(),
        namespaced: entry.get("namespaced").and_then(Value::as_bool)?,
    })
}

pub(super) fn group_path(version: &str) -> String {
    let folder = if version.contains('/') { "apis" } else { "api" };
    let parts: Vec<String> = version.split('/').map(escaped).collect();
    format!("/{folder}/{}", parts.join("/"))
}

pub(super) fn list_path(version: &str, resource: &ApiKind, namespace: Option<&str>) -> String {
    let group = group_path(version);
    let plural = &resource.plural;
    match namespace {
        Some(namespace) => format!("{group}/namespaces/{}/{plural}", escaped(namespace)),
        None => format!("{group}/{plural}"),
    }
}

impl Api {
    /// The server's names of this kind; `None` when it has no such kind.
    pub(crate) async fn resource(&self, version: &str, kind: &str) -> Result<Option<ApiKind>, Fault> {
        let mut known = self.kinds.lock().await;
        let found = |known: &Known| known.kinds.iter().find(|r| r.kind == kind).cloned();
        if let Some(list) = known.get(version) {
            let hit = found(list);
            if hit.is_some() || list.at.elapsed() < FRESH {
                return Ok(hit);
            }
        }
        let path = group_path(version);
        let answer = self.find(&path).await?;
        let listed = answer.as_ref().and_then(|a| a.get("resources")).and_then(Value::as_array);
        let kinds = listed.into_iter().flatten().filter_map(resource_of).collect();
        let list = Known { at: Instant::now(), kinds };
        let hit = found(&list);
        known.insert(version.to_owned(), list);
        Ok(hit)
    }

    /// The data that charts ask for about the cluster: its version, and all that its API has, as `apps/v1` and as `apps/v1/Deployment`.
    pub(crate) async fn capabilities(&self) -> Result<(String, Vec<String>), Fault> {
        let version = self.get("/version").await?;
        let version = version.get("gitVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut found = Vec::new();
        for folder in ["/api", "/apis"] {
            let groups = json(&self.send(&Method::GET, folder, DISCOVERY, None).await?)?;
            found.extend(apis(&groups));
        }
        Ok((version, found))
    }

    /// Kinds that may have come since are asked for again.
    pub(crate) async fn forget_kinds(&self) {
        self.kinds.lock().await.clear();
    }

    /// The path of an object; `None` when the server has no such kind.
    pub(crate) async fn path(&self, object: &ApiRef) -> Result<Option<String>, Fault> {
        let ApiRef { api_version, kind, namespace, name } = object;
        let Some(resource) = self.resource(api_version, kind).await? else { return Ok(None) };
        match (resource.namespaced, namespace) {
            (true, None) => Err(Fault::NoNamespace(object.shown())),
            (false, Some(_)) => Err(Fault::ExtraNamespace(object.shown())),
            (_, namespace) => Ok(Some(format!(
                "{}/{}",
                list_path(api_version, &resource, namespace.as_deref()),
                escaped(name)
            ))),
        }
    }

    /// The path under which the objects of a kind are; `None` when the server has no such kind.
    pub(crate) async fn collection(
        &self,
        version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Result<Option<String>, Fault> {
        let resource = self.resource(version, kind).await?;
        Ok(resource.map(|r| list_path(version, &r, namespace.filter(|_| r.namespaced))))
    }
}
