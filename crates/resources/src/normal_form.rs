//! Values that the server writes in its own way: what a role patches is compared with these.

use converge_objects::condition::quantity;
use converge_objects::k8s::{self, fields};
use converge_resource::{ApiProbe, ApiRef, Stop, View};
use serde_json::Value;

/// An object with the values as the server keeps them: it drops an empty one of a field that may be missing, and writes a quantity in its own way.
pub(crate) fn in_normal_form(
    view: &dyn View,
    object: &ApiRef,
    now: &Value,
    new: Value,
) -> Result<Value, Stop> {
    let (from, to) = (Some(k8s::text(now)), k8s::text(&k8s::normalised(&new)));
    let answer = view.api(&ApiProbe::Back { object: object.clone(), from, to })?;
    let Some(made) = answer.get("object").map(k8s::normalised) else { return Ok(new) };
    let is_same = |field: &fields::Field| match (&field.before, &field.after) {
        (Some(wanted), None) => is_empty(wanted),
        (Some(wanted), Some(retained)) => {
            quantity(wanted).is_some_and(|wanted| quantity(retained) == Some(wanted))
        }
        (None, _) => false,
    };
    let mut retained = fields::leaf_differences(&new, &made);
    retained.retain(is_same);
    Ok(fields::with(&new, &retained).unwrap_or(new))
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
