//! Files of recorded answers: `tests/recorded/SCENARIO.json` of a role.

use crate::discover::Case;
use camino::Utf8PathBuf;
use converge_engine::recorded::HostRecording;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

const FORMAT: &str = "converge-recorded-answers";
const VERSION: u32 = 1;

/// The reason why answers are not recorded, or recorded ones are not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the answers cannot be written as JSON: {0}")]
    Write(serde_json::Error),
    #[error("{path}: {error}; record it again with `converge test --record`")]
    Read { path: Utf8PathBuf, error: serde_json::Error },
    #[error("{path}: format {format} {version} is not known; record it again with `converge test --record`")]
    Format { path: Utf8PathBuf, format: String, version: u32 },
}

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
pub(crate) fn save(
    case: &Case,
    hosts: BTreeMap<String, HostRecording>,
) -> Result<Utf8PathBuf, RecordingError> {
    let recording = Recording {
        format: FORMAT.to_owned(),
        version: VERSION,
        role: case.role.clone(),
        scenario: case.scenario.name.clone(),
        hosts,
    };
    let path = path(case);
    let mut text = serde_json::to_string_pretty(&recording).map_err(RecordingError::Write)?;
    text.push('\n');
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    fs_err::write(&path, text)?;
    Ok(path)
}

/// Reads what the hosts answered; `None` when nothing was recorded.
pub(crate) fn load(case: &Case) -> Result<Option<BTreeMap<String, HostRecording>>, RecordingError> {
    let path = path(case);
    if !path.is_file() {
        return Ok(None);
    }
    let text = fs_err::read_to_string(&path)?;
    #[derive(Deserialize)]
    struct Head {
        format: String,
        version: u32,
    }
    let unread = |error| RecordingError::Read { path: path.clone(), error };
    let head: Head = serde_json::from_str(&text).map_err(unread)?;
    if head.format != FORMAT || head.version != VERSION {
        return Err(RecordingError::Format { path, format: head.format, version: head.version });
    }
    let recording: Recording = serde_json::from_str(&text).map_err(unread)?;
    Ok(Some(recording.hosts))
}
