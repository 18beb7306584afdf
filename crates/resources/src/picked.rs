//! Objects of a cluster that a selector picks.

use crate::look::Asks;
use crate::manifest::present;
use crate::target::missing_kind_help;
use converge_resource::{ApiProbe, ApiRef, ObjectId, ParamError, Stop, View, Wait};
use serde_json::Value;

/// Which objects.
pub struct PickedObjects<'a> {
    /// `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// `Node`.
    pub kind: &'a str,
    /// In this namespace; in all when `None`.
    pub namespace: Option<&'a str>,
    /// A label selector.
    pub labels: Option<&'a str>,
}

impl PickedObjects<'_> {
    /// They, as they will be when the item's turn comes. Where an earlier item may bring more of them, that is waited for.
    pub fn find(&self, view: &dyn View) -> Result<Vec<(ApiRef, Value)>, Stop> {
        let (version, kind) = (self.api_version, self.kind);
        let any = ObjectId::new("k8s", format!("{version}/{kind}/*"));
        if let Some(wait) = view.may_appear(&any) {
            return Err(Stop::Deferred(Wait {
                reason: format!("more objects of the kind {kind} may come"),
                ..wait
            }));
        }
        let answer = view.api(&ApiProbe::List {
            api_version: version.to_owned(),
            kind: kind.to_owned(),
            namespace: self.namespace.map(str::to_owned),
            labels: self.labels.map(str::to_owned),
        })?;
        let Some(list) = answer.as_array() else {
            let message = format!("the server knows no kind {kind} of {version}");
            return Err(Stop::invalid_help("/kind", message, missing_kind_help(version, kind)));
        };
        let mut asks = Asks::default();
        let mut found = Vec::new();
        for object in list.iter().filter_map(ApiRef::of) {
            if let Some(Some(content)) = asks.take(present(view, &object))? {
                found.push((object, content));
            }
        }
        asks.finish()?;
        Ok(found)
    }
}

/// Refuses what can be no label selector.
pub fn check_selector(pointer: &str, text: &str, errors: &mut Vec<ParamError>) {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_./=!,() ".contains(&b);
    if text.trim().is_empty() || !text.bytes().all(good) {
        let help = "write it as kubectl takes it: `app=x,tier!=back`";
        errors.push(ParamError::new(pointer, format!("`{text}` is no label selector"), help));
    }
}
