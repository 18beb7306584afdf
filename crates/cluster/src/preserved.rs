//! Fields of a release that belong to other managers: helm is given manifests with what is live there, so its upgrade does not set
//! them back. What the chart itself declares is laid beside them, for helm's record.
//!
//! helm hands what it rendered to a program (`--post-renderer`) and takes what that gives back. The program here is a few lines of shell
//! that lay the manifests into a file of the private folder and wait for another one, which we write.

use crate::connect::Cluster;
use crate::fault::Fault;
use crate::helm::{Helm, HelmError};
use crate::private_file::{HelmFileError, private};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use converge_objects::k8s::fields;
use converge_objects::release;
use converge_resource::{PreservedField, Segment};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The reason why live values are not laid into helm's manifests.
#[derive(Debug, thiserror::Error)]
enum PreserveError {
    #[error(transparent)]
    Api(#[from] Fault),
    #[error("helm's manifests: {0}")]
    Manifests(#[from] serde_yaml::Error),
    #[error(transparent)]
    Field(#[from] fields::FieldError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// How often we look whether helm has rendered.
const LOOK: Duration = Duration::from_millis(20);

/// Its first argument is the folder. It ends with helm, or when we say that it fails.
const PROGRAM: &str = "#!/bin/sh
cat >\"$1/rendered.part\" && mv \"$1/rendered.part\" \"$1/rendered\" || exit 1
while [ -d \"$1\" ] && [ ! -e \"$1/kept\" ]; do
  [ ! -e \"$1/refused\" ] || { cat \"$1/refused\" >&2; exit 1; }
  sleep 0.05
done
cat \"$1/kept\"
";

/// The fields that an upgrade leaves as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreservedFields {
    /// Those of other managers.
    pub(crate) others: Vec<PreservedField>,
    /// Those for which the chart draws another value each time: they are its own.
    pub(crate) drawn: Vec<PreservedField>,
}

impl PreservedFields {
    pub(crate) fn is_empty(&self) -> bool {
        self.others.is_empty() && self.drawn.is_empty()
    }
}

/// The manifests of an upgrade.
pub(crate) struct LaidManifests {
    /// As helm applied and recorded them.
    pub(crate) applied: String,
    /// As the chart declares them.
    pub(crate) declared: String,
}

impl Helm {
    /// Runs an upgrade that leaves these fields as they are; its standard output, and the manifests if helm has rendered any.
    pub(crate) async fn run_keeping(
        &self,
        cluster: &Cluster,
        arguments: &[String],
        limit: Duration,
        keep: &PreservedFields,
        namespace: &str,
    ) -> Result<(String, Option<LaidManifests>), HelmError> {
        let folder = self.folder();
        let program = folder.join("keep.sh");
        private(&program, PROGRAM.as_bytes())?;
        let rights = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, rights)
            .map_err(|error| HelmFileError { path: program.clone(), error })?;
        let mut arguments = arguments.to_vec();
        let (program, argument) = (program.display().to_string(), folder.display().to_string());
        arguments.extend([
            "--post-renderer".to_owned(),
            program,
            "--post-renderer-args".to_owned(),
            argument,
        ]);
        let run = self.run(&arguments, limit);
        tokio::pin!(run);
        let mut answered = None;
        loop {
            tokio::select! {
                done = &mut run => return Ok((done?, answered.flatten())),
                () = tokio::time::sleep(LOOK), if answered.is_none() => answered = answer(cluster, folder, keep, namespace).await?,
            }
        }
    }
}

/// Gives helm its manifests back once it has rendered them, and returns them, or none where they were refused; `None` while helm has not rendered.
async fn answer(
    cluster: &Cluster,
    folder: &Path,
    keep: &PreservedFields,
    namespace: &str,
) -> Result<Option<Option<LaidManifests>>, HelmError> {
    let rendered = match std::fs::read_to_string(folder.join("rendered")) {
        Ok(rendered) => rendered,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(HelmError::Rendered(error)),
    };
    let laid = async {
        let declared = with_live(cluster, &rendered, &keep.drawn, namespace).await?;
        let applied = with_live(cluster, &declared, &keep.others, namespace).await?;
        Ok::<_, PreserveError>(LaidManifests { applied, declared })
    };
    let laid = laid.await;
    let (name, text) = match &laid {
        Ok(laid) => ("kept", laid.applied.clone()),
        Err(error) => ("refused", error.to_string()),
    };
    let part = folder.join("answer.part");
    private(&part, text.as_bytes())?;
    let answer = folder.join(name);
    std::fs::rename(part, &answer).map_err(|error| HelmFileError { path: answer, error })?;
    Ok(Some(laid.ok()))
}

async fn with_live(
    cluster: &Cluster,
    rendered: &str,
    keep: &[PreservedField],
    namespace: &str,
) -> Result<String, PreserveError> {
    let mut documents = documents(rendered);
    let mut objects = BTreeMap::new();
    for preserved in keep {
        if !objects.contains_key(&preserved.object) {
            let live = cluster.inner.api.object(&preserved.object).await?;
            objects.insert(&preserved.object, live);
        }
        let live = objects.get(&preserved.object).and_then(Option::as_ref);
        // A field that is gone since has no owner either.
        let Some(value) = live.and_then(|live| value_of(live, &preserved.path)) else { continue };
        for document in &mut documents {
            lay(document, preserved, &value, namespace)?;
        }
    }
    Ok(documents.concat())
}

/// The live value at this place of a manifest: the server keeps `stringData` of a Secret as `data`.
fn value_of(live: &Value, path: &[Segment]) -> Option<Value> {
    match path {
        [Segment::Key(part), Segment::Key(name)] if part == "stringData" => {
            let bytes = STANDARD.decode(live.pointer("/data")?.get(name)?.as_str()?).ok()?;
            String::from_utf8(bytes).ok().map(Value::String)
        }
        path => fields::read(live, path).cloned(),
    }
}

/// A stream of YAML, cut before each line that begins a document.
fn documents(stream: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in stream.split_inclusive('\n') {
        if line.starts_with("---") {
            documents.push(String::new());
        }
        if let Some(last) = documents.last_mut() {
            last.push_str(line);
        }
    }
    documents
}

/// Lays a value into the document, if it is that object; others stay as they are, to the letter.
fn lay(
    document: &mut String,
    preserved: &PreservedField,
    value: &Value,
    namespace: &str,
) -> Result<(), PreserveError> {
    let parsed = release::manifests(document)?;
    let [manifest] = parsed.as_slice() else { return Ok(()) };
    if !release::is(manifest, &preserved.object, namespace) {
        return Ok(());
    }
    let mut manifest = manifest.clone();
    fields::write(&mut manifest, &preserved.path, Some(value.clone()))?;
    let text = serde_json::to_string_pretty(&manifest)?;
    // JSON is YAML.
    *document = format!("---\n{text}\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_resource::ApiRef;
    use serde_json::json;

    #[test]
    fn a_field_is_laid_into_its_object_alone() {
        let other = "---\n# Source: b\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: b}\ndata:\n  t: |\n    --- x\n";
        let one = "# first\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {k: '1'}\n";
        let preserved = PreservedField {
            object: ApiRef::from_key("v1/ConfigMap/ns/a").unwrap(),
            path: vec![Segment::Key("data".into()), Segment::Key("k".into())],
        };
        let mut found = documents(&format!("{one}{other}"));
        assert_eq!(found.len(), 2);
        for document in &mut found {
            lay(document, &preserved, &json!("live"), "ns").unwrap();
        }
        assert_eq!(release::manifests(&found[0]).unwrap()[0]["data"]["k"], "live");
        assert_eq!(found[1], other);
        let live = json!({"data": {"k": "YQ=="}});
        let path = |part: &str| [Segment::Key(part.into()), Segment::Key("k".into())];
        assert_eq!(value_of(&live, &path("stringData")), Some(json!("a")));
        assert_eq!(value_of(&live, &path("data")), Some(json!("YQ==")));
        let mut elsewhere = one.to_owned();
        lay(&mut elsewhere, &preserved, &json!("live"), "other").unwrap();
        assert_eq!(elsewhere, one);
    }
}
