//! The documents of `--output json` as types. They are the published contract: `docs/schemas/` is made from them, and a test
//! holds real documents against them. Fields may be added within one version; a reader leaves out what it does not know.

mod apply;
mod doctor;
mod formats;
mod import;
mod plan;
mod records;
mod run;
mod scenarios;
mod settings;
mod values;

pub use apply::*;
use converge_engine::TargetError;
pub use doctor::*;
pub use formats::*;
pub use import::*;
pub use plan::*;
pub use records::*;
pub use run::*;
pub use scenarios::*;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde_json::Value;
pub use settings::*;
pub use values::*;

/// The name and the JSON Schema of every document.
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        ("plan", schema_for!(PlanDocument).to_value()),
        ("apply", schema_for!(ApplyDocument).to_value()),
        ("verify", schema_for!(VerifyDocument).to_value()),
        ("snapshots", schema_for!(SnapshotsDocument).to_value()),
        ("state", schema_for!(StateDocument).to_value()),
        ("vars", schema_for!(VarsDocument).to_value()),
        ("facts", schema_for!(FactsDocument).to_value()),
        ("fact", schema_for!(FactDocument).to_value()),
        ("import", schema_for!(ImportDocument).to_value()),
        ("doctor", schema_for!(DoctorDocument).to_value()),
        ("run", schema_for!(RunDocument).to_value()),
        ("tests", schema_for!(TestsDocument).to_value()),
        ("settings-report", schema_for!(SettingsDocument).to_value()),
    ]
}

/// The JSON of a document, or of a part of one. They are plain data, which always has a form in JSON.
pub fn to_json(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// The reason why a host is excluded from a run.
#[derive(Serialize, JsonSchema)]
pub struct Lost {
    /// The error
    pub message: String,
    /// Always null: the message says what to do
    pub help: Option<String>,
    /// True if the host was unreachable or refused the login; false for refusals such as a changed host key or a lock
    pub unreachable: bool,
    /// True if the host was reached and refused the login.
    pub login_refused: bool,
    /// True if the inventory excludes it with `maintenance: true`.
    pub maintenance: bool,
}

impl From<&TargetError> for Lost {
    fn from(lost: &TargetError) -> Self {
        Self {
            message: lost.to_string(),
            help: None,
            unreachable: lost.is_unreachable(),
            login_refused: matches!(lost, TargetError::LoginRefused(_)),
            maintenance: *lost == TargetError::Maintenance,
        }
    }
}

#[cfg(test)]
mod tests;
