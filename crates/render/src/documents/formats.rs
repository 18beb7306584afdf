//! The names of formats, and their version.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::borrow::Cow;

/// Names of formats: one constant each in its document.
macro_rules! format_name {
    ($(#[$doc:meta] $type:ident = $name:literal;)*) => {
        $(
            #[$doc]
            pub struct $type;

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
}

/// Version 1
pub struct One;

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
