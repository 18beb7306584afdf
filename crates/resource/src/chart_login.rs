//! The login to a private repository of charts, or to a private registry.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The schema keyword of a parameter whose value is in no state, plan, diff, record or output. A secret in it does not make its resource sensitive.
pub const UNRECORDED_KEYWORD: &str = "x-converge-unrecorded";

/// The login to a private repository of charts, or to a private registry.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-converge-unrecorded" = true))]
pub struct ChartLogin {
    /// The name of the user; `$oauthtoken` at NGC.
    pub username: String,
    /// The password, or the token that stands for one.
    pub password: String,
}

impl fmt::Debug for ChartLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChartLogin").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_read_and_shows_nothing() {
        let login: ChartLogin =
            serde_json::from_str(r#"{"username": "ann", "password": "hunter2"}"#).unwrap();
        assert_eq!(format!("{login:?}"), "ChartLogin { .. }");
        let schema = schemars::schema_for!(ChartLogin);
        assert_eq!(schema.get(UNRECORDED_KEYWORD), Some(&serde_json::Value::Bool(true)));
    }
}
