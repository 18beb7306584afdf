//! The server's answer to a patch of an object: a refusal, or the object as it would keep it.

use converge_objects::condition::quantity;
use converge_objects::k8s::parts::holds;
use converge_objects::k8s::{self, fields};
use converge_resource::{ApiProbe, ApiRef, Stop, View, Wait};
use serde_json::Value;

/// A patch of an object.
pub(crate) struct Patch<'a> {
    pub object: &'a ApiRef,
    /// The parameter that names the object.
    pub pointer: &'a str,
    /// The object as it is when the turn of the patch comes.
    pub now: &'a Value,
    /// The same with the patch.
    pub new: Value,
}

impl Patch<'_> {
    /// The object as the server would keep it, by a dry run: with the defaults and the changes of webhooks, without an empty value of a field that may be
    /// missing, and with quantities in the server's own way.
    ///
    /// # Errors
    /// The server refuses the patch, or does not keep a declared field so. `Stop::Deferred` where an earlier item of the run may change that.
    pub(crate) fn retained(self, view: &dyn View) -> Result<Value, Stop> {
        let (from, to) = (Some(k8s::text(self.now)), k8s::text(&k8s::normalised(&self.new)));
        let answer = view.api(&ApiProbe::Back { object: self.object.clone(), from, to })?;
        if let Some(refusal) = answer.get("invalid") {
            let words = refusal.as_str().map_or_else(|| refusal.to_string(), str::to_owned);
            let why = format!("the server refuses {}: {words}", self.object.shown());
            return Err(match view.pending() {
                Some(wait) => Stop::Deferred(Wait { reason: why, ..wait }),
                None => Stop::invalid(self.pointer, why),
            });
        }
        let Some(made) = answer.get("object").map(k8s::normalised) else { return Ok(self.new) };
        let found = answer.get("found").map_or_else(|| self.now.clone(), k8s::normalised);
        // Earlier items of the run change these fields first.
        let earlier = fields::leaf_differences(&found, self.now);
        let wanted = fields::leaf_differences(self.now, &self.new);
        let Ok(base) = fields::with(&found, &wanted) else { return Ok(self.new) };
        let touches = |all: &[fields::Field], field: &fields::Field| {
            all.iter().any(|one| fields::touch(&one.path, &field.path))
        };
        let mut retained = Vec::new();
        for field in fields::leaf_differences(&base, &made) {
            let is_held = || field.before.is_none() || holds(field.after.as_ref(), field.before.as_ref());
            if is_same(&field) {
                retained.push(field);
            } else if touches(&wanted, &field) && !is_held() {
                // A later version of the kind, say, may keep it.
                if view.pending().is_none() {
                    return Err(self.differs(&field));
                }
            } else if !touches(&earlier, &field) && self.object.kind != "Secret" {
                retained.push(field);
            }
        }
        Ok(fields::with(&self.new, &retained).unwrap_or(self.new))
    }

    /// The error for a declared field that the server does not keep.
    fn differs(&self, field: &fields::Field) -> Stop {
        let path = fields::shown(&field.path);
        let instead = match &field.after {
            Some(value) => format!("it makes {value} of it"),
            None => "it drops the field".to_owned(),
        };
        Stop::invalid_help(
            self.pointer,
            format!("{}: the server does not keep {path} as declared: {instead}", self.object.shown()),
            "correct the path or the value, or look for a policy or a webhook that changes it",
        )
    }
}

/// Whether a value and the one that the server keeps mean the same.
fn is_same(field: &fields::Field) -> bool {
    match (&field.before, &field.after) {
        (Some(wanted), None) => is_empty(wanted),
        (Some(wanted), Some(retained)) => {
            quantity(wanted).is_some_and(|wanted| quantity(retained) == Some(wanted))
        }
        (None, _) => false,
    }
}

/// Whether a value is the one that a field has without being there.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}
