//! `k8s_manifests`

use crate::manifest::check_manifest;
use crate::unpack::{ArchiveMember, Choice, read};
use converge_objects::release::documents;
use converge_resource::{
    ApiRef, Claim, LocalProbe, ParamError, Place, Resource, SourceFile, Stop, Tree, View, WantedStates,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The objects of manifests that others wrote: of a file, a folder, an address, or a kustomization.
///
/// With `register` they are a value: `objects`, a map of manifests under names such as `deployment web/server`, in the order in which they are to be
/// made: namespaces and definitions of kinds first, webhooks last. A `k8s_object` that goes over them (`for_each`, where `item.key` is the name and `item.value`
/// the manifest) makes each of them an item: planned, shown as a diff, applied and rolled back like one that the role writes, and orphaned when the manifests have it no more.
///
/// A kustomization is rendered by the real `kustomize` of this machine, or by `kubectl kustomize` where that is not in PATH; what it names on the network is
/// fetched by that program. An address is fetched by `curl` of this machine and must have the checksum. A Secret with values is
/// refused, since they would stand in the plan: leave it out (in a kustomization with `$patch: delete`), and write it with the kind `secret`. An empty one, which a
/// controller fills, is an object like others.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-converge-outputs" = true))]
pub struct K8sManifests {
    /// A file under the role's `files/`, with one or more YAML documents.
    source: Option<SourceFile>,
    /// In place of it: a folder under the role's `files/`. Its `.yaml`, `.yml` and `.json` files are read in the order of their paths.
    folder: Option<Tree>,
    /// In place of it: a folder under the role's `files/` with a kustomization.
    kustomization: Option<Tree>,
    /// The folder in `kustomization` that is rendered: `overlays/production`.
    overlay: Option<String>,
    /// In place of it: the address of a file.
    url: Option<String>,
    /// The checksum of that file: `sha256:` and 64 hexadecimal digits.
    checksum: Option<String>,
}

impl K8sManifests {
    /// The digits of the checksum.
    fn sha256(&self) -> Option<&str> {
        let digits = self.checksum.as_deref()?.strip_prefix("sha256:")?;
        let good =
            digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        good.then_some(digits)
    }

    /// The texts of the manifests, each with the name of its file.
    fn texts(&self, view: &dyn View) -> Result<Vec<(String, String)>, Stop> {
        if let Some(source) = &self.source {
            let text =
                source.content.text().ok_or_else(|| Stop::invalid("/source", "it is not UTF-8 text"))?;
            return Ok(vec![(source.path.clone(), text.to_owned())]);
        }
        if let Some(Tree(folder)) = &self.folder {
            let is_manifest = |path: &str| [".yaml", ".yml", ".json"].iter().any(|end| path.ends_with(end));
            let files = files(folder, "/folder")?;
            return Ok(files.into_iter().filter(|(path, _)| is_manifest(path)).collect());
        }
        let (pointer, place, probe) = match (&self.kustomization, &self.url) {
            (Some(Tree(folder)), _) => {
                let overlay = self.overlay.clone().unwrap_or_default();
                let place = format!("{}, as it is rendered", folder.path);
                (
                    "/kustomization",
                    place,
                    LocalProbe::Kustomize { files: files(folder, "/kustomization")?, overlay },
                )
            }
            (None, url) => {
                let sha256 = self.sha256().unwrap_or_default().to_owned();
                let url = url.clone().unwrap_or_default();
                ("/url", url.clone(), LocalProbe::Url { url, sha256 })
            }
        };
        let answer = view.local(&probe)?;
        let word = |key: &str| answer.get(key).and_then(Value::as_str).map(str::to_owned);
        match (word("text"), word("invalid")) {
            (Some(text), _) => Ok(vec![(place, text)]),
            (None, why) => {
                Err(Stop::invalid(pointer, why.unwrap_or_else(|| "there is no answer".to_owned())))
            }
        }
    }
}

/// The files of a folder by their paths in it.
fn files(folder: &SourceFile, pointer: &str) -> Result<BTreeMap<String, String>, Stop> {
    let listing = read(folder.content.bytes(), &Choice { strip: 1, only: &[] });
    let listing = listing.map_err(|error| Stop::invalid(pointer, format!("{}: {error}", folder.path)))?;
    let mut files = BTreeMap::new();
    for (path, member) in listing.members {
        match member {
            ArchiveMember::Dir { .. } => {}
            ArchiveMember::Link { .. } => return Err(Stop::invalid(pointer, format!("{path} is a link"))),
            ArchiveMember::File { digest, .. } => {
                let text = listing.contents.get(&digest).and_then(|content| content.text());
                let text = text.ok_or_else(|| Stop::invalid(pointer, format!("{path} is not UTF-8 text")))?;
                files.insert(path, text.to_owned());
            }
        }
    }
    Ok(files)
}

/// Namespaces and definitions of kinds come before what is in them, webhooks after what answers them.
fn rank(object: &Value) -> u8 {
    match object.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => 3,
        _ => 2,
    }
}

/// An object of the manifests, with the file and the document in which it stands.
struct Found {
    object: Value,
    place: String,
}

/// The objects of one document: a list holds several.
fn flat(document: Value, place: &str, found: &mut Vec<Found>) {
    let is_list = document.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match document.get("items") {
        Some(Value::Array(items)) if is_list => {
            items.iter().for_each(|item| flat(item.clone(), place, found))
        }
        _ => found.push(Found { object: document, place: place.to_owned() }),
    }
}

/// The manifests by their names, in the order in which they are to be made.
fn objects(texts: &[(String, String)]) -> Result<Map<String, Value>, Stop> {
    let mut found = Vec::new();
    for (file, text) in texts {
        let documents =
            documents(text).map_err(|error| Stop::invalid("", format!("{file}: it is no YAML: {error}")))?;
        for (number, document) in documents {
            flat(document, &format!("{file}, document {number}"), &mut found);
        }
    }
    found.sort_by_key(|found| rank(&found.object));
    let mut objects = Map::new();
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    for Found { mut object, place } in found {
        // Generators write them, and the server says them.
        if let Some(map) = object.as_object_mut() {
            map.shift_remove("status");
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|key, value| key != "creationTimestamp" || !value.is_null());
        }
        let name = ApiRef::of(&object).map(|named| named.shown());
        let mut errors = Vec::new();
        check_manifest(&object, &mut errors);
        // A generated name is the reason where there is no other.
        let is_nameless = name.is_none() && object.pointer("/metadata/generateName").is_none();
        if is_nameless {
            let why = "it has no `apiVersion`, `kind` or `metadata.name`";
            return Err(Stop::invalid("", format!("{place}: {why}")));
        }
        if let Some(ParamError { message, help, .. }) = errors.into_iter().next() {
            let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
            let message = format!("{place}: {name}{message}");
            return Err(Stop::Invalid { pointer: String::new(), message, help, open: None });
        }
        let Some(name) = name else { continue };
        if let Some(first) = places.insert(name.clone(), place.clone()) {
            return Err(Stop::invalid("", format!("{name} is there twice: in {first} and in {place}")));
        }
        objects.insert(name, object);
    }
    Ok(objects)
}

impl Resource for K8sManifests {
    const KIND: &'static str = "k8s_manifests";
    const READ_ONLY: bool = true;
    const PLACES: &'static [Place] = &[Place::Cluster];
    const EXAMPLE: &'static str = "\
- name: the manifests of the trainer
  k8s_manifests: {url: \"https://example.org/trainer/v2.1.0/install.yaml\", checksum: \"sha256:9318379b847e333460d33d291d4c088156299a26cd93d570a7f5d0c36e50b5bb\"}
  register: trainer
- name: an object of the trainer
  for_each: \"{{ trainer.objects }}\"
  k8s_object: \"{{ item.value }}\"
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let mut wrong = |pointer: &str, message: &'static str, help: &'static str| {
            errors.push(ParamError::fixed(pointer, message, help));
        };
        let given =
            [self.source.is_some(), self.folder.is_some(), self.kustomization.is_some(), self.url.is_some()];
        if given.into_iter().filter(|given| *given).count() != 1 {
            let help = "give one of `source`, `folder`, `kustomization` and `url`";
            wrong("", "it is not clear where the manifests are", help);
        }
        if let Some(url) = &self.url {
            let good = ["https://", "http://"].iter().any(|start| url.starts_with(start));
            if !good || url.chars().any(|c| c.is_control() || c.is_whitespace()) {
                wrong("/url", "it is no address", "write it as `https://example.org/install.yaml`");
            }
            if self.sha256().is_none() {
                let help = "write `sha256:` and the 64 digits that `sha256sum` prints for that file";
                wrong("/checksum", "an address needs the checksum of what is there", help);
            }
        } else if self.checksum.is_some() {
            wrong("/checksum", "the checksum is that of an address", "leave it out");
        }
        if let Some(overlay) = &self.overlay {
            if self.kustomization.is_none() {
                wrong("/overlay", "an overlay is a folder of a `kustomization`", "leave it out");
            }
            if overlay.split('/').any(|step| ["", ".", ".."].contains(&step)) {
                wrong(
                    "/overlay",
                    "it is not a folder below the kustomization",
                    "write it as `overlays/production`",
                );
            }
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let objects = objects(&self.texts(view)?)?;
        Ok(WantedStates { output: Some(json!({"objects": objects})), ..WantedStates::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read as kind, settle, wrong};

    const TEXT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop, creationTimestamp: null}\n---\n# nothing\n---\n\
        apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: shop}, status: {}}\n\
        - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: jobs.x.org}}\n";

    fn names(wanted: &WantedStates) -> Vec<String> {
        wanted.output.as_ref().unwrap()["objects"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn what_others_need_comes_first() {
        let of = kind::<K8sManifests>(json!({"source": SourceFile::loaded("a.yaml", TEXT.as_bytes())}));
        let wanted = of.plan(&FakeView::new()).unwrap();
        assert_eq!(
            names(&wanted),
            ["namespace shop", "customresourcedefinition jobs.x.org", "configmap shop/a"]
        );
        let namespace = &wanted.output.unwrap()["objects"]["namespace shop"];
        assert_eq!(
            *namespace,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        );
    }

    #[test]
    fn a_folder_is_read_and_a_kustomization_is_rendered() {
        let packed = crate::unpack::tests::tgz(&[
            ("m/b.yaml", 0o644, TEXT.as_bytes()),
            ("m/README", 0o644, b"# no manifest: {"),
        ]);
        let folder = kind::<K8sManifests>(json!({"folder": SourceFile::loaded("m", &packed)}));
        assert_eq!(names(&folder.plan(&FakeView::new()).unwrap()).len(), 3);
        settle(&folder, FakeView::new());
        let of = kind::<K8sManifests>(
            json!({"kustomization": SourceFile::loaded("m", &packed), "overlay": "b/c"}),
        );
        let Err(Stop::Ask(probes)) = of.plan(&FakeView::new()) else { panic!() };
        let [converge_resource::Probe::Local(probe)] = probes.as_slice() else { panic!("{probes:?}") };
        let LocalProbe::Kustomize { files, overlay } = probe else { panic!("{probe:?}") };
        assert_eq!((files.len(), overlay.as_str()), (2, "b/c"));
        let view = FakeView::new().tells(probe.clone(), json!({"text": TEXT}));
        assert_eq!(names(&of.plan(&view).unwrap()).len(), 3);
        let view = FakeView::new().tells(probe.clone(), json!({"invalid": "no kustomization"}));
        assert!(matches!(of.plan(&view), Err(Stop::Invalid { pointer, .. }) if pointer == "/kustomization"));
    }

    #[test]
    fn what_is_no_object_is_named() {
        let reply = |text: &str| match objects(&[("m.yaml".to_owned(), text.to_owned())]) {
            Err(Stop::Invalid { message, .. }) => message,
            other => panic!("{other:?}"),
        };
        assert!(reply("a: [").starts_with("m.yaml: it is no YAML"));
        assert!(reply("kind: ConfigMap\n").contains("no `apiVersion`"));
        let one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        assert_eq!(
            reply(&format!("{one}---\n# nothing\n---\n{one}")),
            "configmap a is there twice: in m.yaml, document 1 and in m.yaml, document 3"
        );
        let generated = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n";
        assert!(
            reply(&format!("{one}---\n{generated}"))
                .starts_with("m.yaml, document 2: the name would be another")
        );
        assert!(
            reply("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: eA==}\n")
                .starts_with("m.yaml, document 1: secret a: ")
        );
    }

    #[test]
    fn wrong_parameters_are_named() {
        let sum = format!("sha256:{}", "0".repeat(64));
        assert_eq!(wrong::<K8sManifests>(json!({})), [""]);
        assert_eq!(wrong::<K8sManifests>(json!({"url": "https://x.org/a"})), ["/checksum"]);
        assert_eq!(wrong::<K8sManifests>(json!({"url": "file:///a", "checksum": sum})), ["/url"]);
        let source = SourceFile::loaded("a", b"");
        assert_eq!(
            wrong::<K8sManifests>(json!({"source": source, "checksum": sum, "overlay": ".."})),
            ["/checksum", "/overlay", "/overlay"]
        );
    }
}
