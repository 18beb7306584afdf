//! Fields of a release's objects that are away by a run in force: helm lays all that a chart declares, so they are taken away again behind it.

use crate::api::{MERGE, escaped};
use crate::connect::Cluster;
use crate::fault::Fault;
use crate::helm::HelmError;
use crate::object::merge_patch;
use crate::ownership::retried;
use converge_objects::k8s::fields;
use converge_resource::{ApiRef, PreservedField};
use serde_json::Value;
use std::collections::BTreeSet;

impl Cluster {
    /// Takes these fields away, as far as they are there.
    pub(super) async fn take_away(&self, unset: &[PreservedField]) -> Result<(), HelmError> {
        let objects: BTreeSet<&ApiRef> = unset.iter().map(|field| &field.object).collect();
        for object in objects {
            let paths: Vec<_> = unset.iter().filter(|f| f.object == *object).map(|f| &f.path[..]).collect();
            let taken =
                retried(|fault: &Fault| fault.code() == Some(409), || self.take_away_of(object, &paths));
            taken.await.map_err(|fault| HelmError::Unset { object: object.shown(), fault })?;
        }
        Ok(())
    }

    async fn take_away_of(&self, object: &ApiRef, paths: &[&[fields::Segment]]) -> Result<(), Fault> {
        let api = &self.inner.api;
        let (Some(live), Some(path)) = (api.object(object).await?, api.path(object).await?) else {
            return Ok(());
        };
        let new = without(&live, paths);
        if new == live {
            return Ok(());
        }
        let mut patch = merge_patch(&live, &new);
        patch["metadata"]["resourceVersion"] =
            live.pointer("/metadata/resourceVersion").cloned().unwrap_or(Value::Null);
        let path = format!("{path}?fieldManager={}", escaped(self.manager()));
        api.patch(&path, MERGE, &patch).await.map(drop)
    }
}

/// The object without these fields. One that has no place in it is not there.
fn without(live: &Value, paths: &[&[fields::Segment]]) -> Value {
    let mut new = live.clone();
    for path in paths.iter().filter(|path| fields::read(live, path).is_some()) {
        drop(fields::write(&mut new, path, None));
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_these_fields_go() {
        let key = |name: &str| fields::Segment::Key(name.to_owned());
        let item = fields::Segment::Item("name".to_owned(), "\"x\"".to_owned());
        let live = json!({"data": {"a": "1", "b": "2"}, "list": [{"name": "x"}, {"name": "y"}]});
        let paths = [vec![key("data"), key("a")], vec![key("list"), item], vec![key("none"), key("x")]];
        let paths: Vec<_> = paths.iter().map(|path| &path[..]).collect();
        let wanted = json!({"data": {"b": "2"}, "list": [{"name": "y"}]});
        assert_eq!(without(&live, &paths), wanted);
        assert_eq!(without(&wanted, &paths), wanted);
    }
}
