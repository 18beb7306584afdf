//! A release as it was: what is kept of it for a rollback, and the chart that brings it back.
//!
//! A rollback cannot count on the chart: its repository may be gone, and helm's own record holds no subcharts. It needs none: what the
//! chart rendered stands in helm's record, and a chart that is nothing but these manifests brings back the same release.

use crate::packed;
use crate::private_file::{HelmFileError, private};
use base64::DecodeError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use converge_objects::release;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// The limit of the packed size of one release: a Secret of the records must hold it.
const LIMIT: usize = 600 << 10;

/// The limit of its unpacked size: a guard against a crafted one.
const UNPACKED: u64 = 128 << 20;

/// Entries of a chart's metadata that would keep it from being installed: its parts are in the manifests, and it ran on this cluster.
const LEFT_OUT: [&str; 2] = ["dependencies", "kubeVersion"];

/// The reason why a release is not kept, or its saved parts cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SavedReleaseError {
    #[error("it has {kib} KiB, and {} can be kept", LIMIT >> 10)]
    TooLarge { kib: usize },
    #[error(transparent)]
    Base64(#[from] DecodeError),
    #[error(transparent)]
    Packed(#[from] io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The parts from which a release is restored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SavedRelease {
    /// `Chart.yaml`.
    metadata: Map<String, Value>,
    /// The chart's own values.
    values: Value,
    /// The values that were given.
    config: Value,
    manifest: String,
    hooks: Vec<String>,
    notes: String,
    /// Files that define kinds, by their place in the chart.
    definitions: BTreeMap<String, String>,
}

impl SavedRelease {
    /// Out of a record of helm.
    pub(crate) fn of(record: &Value) -> Option<Self> {
        let text = |pointer: &str| crate::object::text(record, pointer).to_owned();
        let value = |pointer: &str| record.pointer(pointer).filter(|v| !v.is_null()).cloned();
        let list = |pointer: &str| record.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let definition = |file: &Value| {
            let name = crate::object::text(file, "/name");
            let plain = name.split('/').all(|part| !matches!(part, "" | "." | ".."));
            let data = STANDARD.decode(crate::object::text(file, "/data")).ok()?;
            (name.starts_with("crds/") && plain)
                .then(|| Some((name.to_owned(), String::from_utf8(data).ok()?)))
                .flatten()
        };
        Some(Self {
            metadata: value("/chart/metadata")?.as_object()?.clone(),
            values: value("/chart/values").unwrap_or_else(|| json!({})),
            config: value("/config").unwrap_or_else(|| json!({})),
            manifest: text("/manifest"),
            hooks: list("/hooks").map(|hook| crate::object::text(hook, "/manifest").to_owned()).collect(),
            notes: text("/info/notes"),
            definitions: list("/chart/files").filter_map(definition).collect(),
        })
    }

    /// Whether it holds values of Secrets.
    pub(crate) fn holds_secrets(&self) -> bool {
        std::iter::once(&self.manifest).chain(&self.hooks).any(|text| match release::manifests(text) {
            Ok(found) => found.iter().any(|m| crate::object::text(m, "/kind") == "Secret"),
            Err(_) => true,
        })
    }

    /// The form in converge's records.
    pub(crate) fn pack(&self) -> Result<String, SavedReleaseError> {
        let packed = packed::pack::<_, SavedReleaseError>(self)?;
        if packed.len() > LIMIT {
            return Err(SavedReleaseError::TooLarge { kib: packed.len() >> 10 });
        }
        Ok(STANDARD.encode(packed))
    }

    /// Reads what [`SavedRelease::pack`] wrote.
    pub(crate) fn unpack(packed: &str) -> Result<Self, SavedReleaseError> {
        packed::unpack(packed, UNPACKED)
    }

    /// Lays the chart into a folder that only we can read; helm's arguments that name it and its values.
    pub(crate) fn lay(&self, folder: &Path) -> Result<Vec<String>, HelmFileError> {
        let (chart, values) = (folder.join("previous"), folder.join("values.json"));
        let mut metadata = self.metadata.clone();
        metadata.retain(|key, _| !LEFT_OUT.contains(&key.as_str()));
        let place = |name: &str, text: &str| {
            let path = chart.join(name);
            let above = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(above)
                .map_err(|error| HelmFileError { path: above.to_owned(), error })?;
            private(&path, text.as_bytes())
        };
        place("Chart.yaml", &Value::Object(metadata).to_string())?;
        place("values.yaml", &self.values.to_string())?;
        // The content of a file is not rendered.
        place("kept/manifest", &self.manifest)?;
        place("templates/manifest.yaml", "{{ .Files.Get \"kept/manifest\" }}")?;
        for (number, hook) in self.hooks.iter().enumerate() {
            place(&format!("kept/hook-{number}"), hook)?;
            place(
                &format!("templates/hook-{number}.yaml"),
                &format!("{{{{ .Files.Get \"kept/hook-{number}\" }}}}"),
            )?;
        }
        place("kept/notes", &self.notes)?;
        place("templates/NOTES.txt", "{{ .Files.Get \"kept/notes\" }}")?;
        for (name, text) in &self.definitions {
            place(name, text)?;
        }
        private(&values, self.config.to_string().as_bytes())?;
        let words = [chart, "--values".into(), values];
        Ok(words.iter().map(|word| word.display().to_string()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(manifest: &str) -> Value {
        json!({"version": 3, "info": {"status": "deployed", "notes": "read {{ this }}"},
            "chart": {"metadata": {"apiVersion": "v2", "name": "c", "version": "1.0.0", "kubeVersion": "<1", "dependencies": [{"name": "d"}]},
                "values": {"size": 1}, "templates": [{"name": "templates/x.yaml", "data": "e3sgfX0="}],
                "files": [{"name": "crds/a.yaml", "data": STANDARD.encode("a: 1")}, {"name": "crds/../x", "data": ""}, {"name": "README", "data": ""}]},
            "config": {"size": 2}, "manifest": manifest, "hooks": [{"name": "h", "manifest": "kind: Job"}]})
    }

    #[test]
    fn a_release_comes_back_as_a_chart_of_its_manifests() {
        let saved_release = SavedRelease::of(&record("kind: ConfigMap\ndata: {a: '{{ x }}'}\n")).unwrap();
        assert!(!saved_release.holds_secrets());
        assert_eq!(SavedRelease::unpack(&saved_release.pack().unwrap()).unwrap(), saved_release);
        let folder = tempfile::tempdir().unwrap();
        let arguments = saved_release.lay(folder.path()).unwrap();
        assert_eq!(arguments[1], "--values");
        let read = |name: &str| std::fs::read_to_string(folder.path().join("previous").join(name)).unwrap();
        assert_eq!(read("Chart.yaml"), r#"{"apiVersion":"v2","name":"c","version":"1.0.0"}"#);
        assert!(read("kept/manifest").contains("{{ x }}") && read("kept/hook-0") == "kind: Job");
        assert_eq!((read("crds/a.yaml").as_str(), saved_release.definitions.len()), ("a: 1", 1));
        assert_eq!(std::fs::read_to_string(folder.path().join("values.json")).unwrap(), r#"{"size":2}"#);
    }

    #[test]
    fn a_release_with_secrets_is_recognized() {
        let secret = "kind: ConfigMap\n---\napiVersion: v1\nkind: Secret\n";
        assert!(SavedRelease::of(&record(secret)).unwrap().holds_secrets());
        assert!(
            SavedRelease::of(&record("a: [")).unwrap().holds_secrets(),
            "what is not understood may be one"
        );
        assert_eq!(SavedRelease::of(&json!({"chart": {}})), None);
        assert!(matches!(SavedRelease::unpack("%"), Err(SavedReleaseError::Base64(_))));
    }
}
