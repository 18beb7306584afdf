//! Files of recorded answers: `tests/recorded/SCENARIO.json` of a role.

use crate::discover::Case;
use camino::Utf8PathBuf;
use converge_engine::recorded::HostRecording;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const FORMAT: &str = "converge-recorded-answers";
const VERSION: u32 = 1;

/// The answers of the hosts of a scenario.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recording {
    format: String,
    version: u32,
    role: String,
    scenario: String,
    hosts: BTreeMap<String, HostRecording>,
}

/// The file of a scenario's recorded answers.
pub(crate) fn path(case: &Case) -> Utf8PathBuf {
    case.dir.join("tests/recorded").join(format!("{}.json", case.scenario.name))
}

/// Writes what the hosts answered.
pub(crate) fn save(case: &Case, hosts: BTreeMap<String, HostRecording>) -> Result<Utf8PathBuf, String> {
    let recording = Recording {
        format: FORMAT.to_owned(),
        version: VERSION,
        role: case.role.clone(),
        scenario: case.scenario.name.clone(),
        hosts,
    };
    let path = path(case);
    let mut text = serde_json::to_string_pretty(&recording).map_err(|e| e.to_string())?;
    text.push('\n');
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder).map_err(|e| e.to_string())?;
    }
    fs_err::write(&path, text).map_err(|e| e.to_string())?;
    Ok(path)
}

/// Reads what the hosts answered; `None` when nothing was recorded.
pub(crate) fn load(case: &Case) -> Result<Option<BTreeMap<String, HostRecording>>, String> {
    let path = path(case);
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs_err::read_to_string(&path).map_err(|e| e.to_string())?;
    #[derive(Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let again = "record it again with `converge test --record`";
    let head: Head = serde_json::from_str(&text).map_err(|e| format!("{path}: {e}; {again}"))?;
    if head.format != FORMAT || head.version != VERSION {
        return Err(format!("{path}: format {} {} is not known; {again}", head.format, head.version));
    }
    let recording: Recording = serde_json::from_str(&text).map_err(|e| format!("{path}: {e}; {again}"))?;
    Ok(Some(recording.hosts))
}
