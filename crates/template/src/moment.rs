//! The inputs of a run that depend on its moment: the time, and the seed of `random`. A saved plan holds them, so that its
//! apply renders the same.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The time and the seed of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// The time of `now()`, and of `strftime` without an argument.
    pub now: Timestamp,
    /// The seed of `random` and `shuffle` where the template gives none.
    pub seed: String,
}

impl Moment {
    /// This moment, with a seed that no other has.
    #[must_use]
    pub fn here() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let now = Timestamp::now();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self { now, seed: format!("{}-{}-{count}", now.as_nanosecond(), std::process::id()) }
    }
}
