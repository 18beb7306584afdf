//! The names of formats, and their version.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// Names of formats: one constant each in its document.
macro_rules! format_name {
    ($(#[$doc:meta] $type:ident = $name:literal;)*) => {
        $(
            #[$doc]
            #[derive(Clone, Copy, Debug, Default)]
            pub struct $type;

            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str($name)
                }
            }

            impl JsonSchema for $type {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($type).into()
                }
                fn inline_schema() -> bool {
                    true
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    schemars::json_schema!({"const": $name})
                }
            }
        )*
    };
}

format_name! {
    /// `converge-plan-report`
    PlanFormat = "converge-plan-report";
    /// `converge-apply`
    ApplyFormat = "converge-apply";
    /// `converge-verify`
    VerifyFormat = "converge-verify";
    /// `converge-snapshots`
    SnapshotsFormat = "converge-snapshots";
    /// `converge-state`
    StateFormat = "converge-state";
    /// `converge-vars`
    VarsFormat = "converge-vars";
    /// `converge-facts`
    FactsFormat = "converge-facts";
    /// `converge-fact`
    FactFormat = "converge-fact";
    /// `converge-import-report`
    ImportFormat = "converge-import-report";
    /// `converge-doctor`
    DoctorFormat = "converge-doctor";
    /// `converge-run`
    RunFormat = "converge-run";
    /// `converge-tests`
    TestsFormat = "converge-tests";
    /// `converge-settings`
    SettingsFormat = "converge-settings";
}

/// Version 1
#[derive(Clone, Copy, Debug, Default)]
pub struct One;

impl Serialize for One {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(1)
    }
}

impl JsonSchema for One {
    fn schema_name() -> Cow<'static, str> {
        "One".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"const": 1})
    }
}
