//! The record of an import: what was written, so that importing again never overwrites the edits of a person.

use converge_resource::to_hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The name of the format.
pub const FORMAT: &str = "converge-import";
/// Its version.
const VERSION: u32 = 1;

/// The files that the last import wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportRecord {
    format: String,
    version: u32,
    /// SHA-256 of each file, by its path from the folder of the record's output.
    files: BTreeMap<String, String>,
}

/// The reason why a record cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportRecordError {
    /// It is not JSON of this form.
    Unreadable(String),
    /// It is another format, or a version that this program does not know.
    Unknown {
        /// The format that it names.
        format: String,
        /// The version.
        version: u32,
    },
}

/// A file that is there, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresentFile {
    /// There is none.
    Missing,
    /// Its bytes.
    Bytes(Vec<u8>),
}

/// The reason why a file is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditConflict {
    /// It was edited since the last import, or comes from elsewhere.
    Edited,
    /// It was removed since the last import.
    Removed,
}

fn digest(bytes: &[u8]) -> String {
    to_hex(Sha256::digest(bytes).as_slice())
}

impl Default for ImportRecord {
    fn default() -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, files: BTreeMap::new() }
    }
}

impl ImportRecord {
    /// Reads a record.
    ///
    /// # Errors
    /// It is of another form, or of another version.
    pub fn read(text: &str) -> Result<Self, ImportRecordError> {
        let record: Self =
            serde_json::from_str(text).map_err(|e| ImportRecordError::Unreadable(e.to_string()))?;
        if record.format != FORMAT || record.version != VERSION {
            return Err(ImportRecordError::Unknown { format: record.format, version: record.version });
        }
        Ok(record)
    }

    /// Its text.
    #[must_use]
    pub fn write(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    /// Notes a file that is written.
    pub fn note(&mut self, path: &str, bytes: &[u8]) {
        self.files.insert(path.to_owned(), digest(bytes));
    }
}

/// Whether a file may be written: it is new, has this content already, or is as the last import left it.
#[must_use]
pub fn compare(record: &ImportRecord, path: &str, present: &PresentFile, new: &[u8]) -> Option<EditConflict> {
    let recorded = record.files.get(path);
    match present {
        PresentFile::Missing => recorded.map(|_| EditConflict::Removed),
        PresentFile::Bytes(bytes) if bytes == new => None,
        PresentFile::Bytes(bytes) if recorded == Some(&digest(bytes)) => None,
        PresentFile::Bytes(_) => Some(EditConflict::Edited),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_edited_is_written_again() {
        let mut record = ImportRecord::default();
        record.note("a", b"one");
        let there = |text: &str| PresentFile::Bytes(text.as_bytes().to_vec());
        assert_eq!(compare(&record, "a", &there("one"), b"two"), None);
        assert_eq!(compare(&record, "a", &there("mine"), b"two"), Some(EditConflict::Edited));
        assert_eq!(compare(&record, "a", &there("two"), b"two"), None);
        assert_eq!(compare(&record, "a", &PresentFile::Missing, b"two"), Some(EditConflict::Removed));
        assert_eq!(compare(&record, "b", &PresentFile::Missing, b"two"), None);
        assert_eq!(compare(&record, "b", &there("foreign"), b"two"), Some(EditConflict::Edited));
        assert_eq!(ImportRecord::read(&record.write()), Ok(record));
        assert!(matches!(
            ImportRecord::read("{\"format\":\"x\",\"version\":1,\"files\":{}}"),
            Err(ImportRecordError::Unknown { .. })
        ));
        assert!(matches!(ImportRecord::read("{"), Err(ImportRecordError::Unreadable(_))));
    }
}
