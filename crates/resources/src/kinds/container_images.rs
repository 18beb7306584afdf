//! `container_images`

use crate::look::{Asks, check_path, state};
use crate::names::Names;
use converge_objects::ContainerImageState;
use converge_objects::container_image::image_id;
use converge_objects::path::within;
use converge_resource::{
    Claim, ObjectId, ParamError, Probe, Resource, Stop, View, WantedStates, decode_field, quote,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Images of containerd from archives on the host, for hosts that reach no registry.
///
/// An archive is what `docker save` or `ctr images export` writes. Every image that it names is imported where containerd has none of that name;
/// one that is there already stays as it is, whatever its content. Imported images are pinned: the kubelet clears an image away when the disk is
/// nearly full, and nothing could bring it back.
///
/// A rollback removes the images that the run imported and unpins those that it pinned. Images that were there before stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerImages {
    /// Archives on the host, and folders of archives (`*.tar`, `*.tar.gz`, `*.tgz`, `*.tar.zst`): one absolute path or several.
    archives: Names,
    /// Keep the kubelet from clearing them away (the label `io.cri-containerd.pinned`).
    #[serde(default = "yes")]
    pinned: bool,
    /// containerd's socket. k8s-snap has it at `/run/containerd/containerd.sock` too, unless its base folder was moved; k3s and RKE2 at
    /// `/run/k3s/containerd/containerd.sock`.
    #[serde(default = "socket")]
    address: String,
    /// containerd's namespace; that of the kubelet is `k8s.io`.
    #[serde(default = "kubelets")]
    namespace: String,
    /// containerd's program: a name, or a path such as `/var/lib/rancher/rke2/bin/ctr` or `/snap/k8s/current/bin/ctr`.
    #[serde(default = "ctr")]
    program: String,
}

fn yes() -> bool {
    true
}

fn socket() -> String {
    "/run/containerd/containerd.sock".to_owned()
}

fn kubelets() -> String {
    "k8s.io".to_owned()
}

fn ctr() -> String {
    "ctr".to_owned()
}

/// The name under which containerd keeps an image: Docker leaves its own registry out.
fn full_name(name: &str) -> String {
    match name.split_once('/') {
        None => format!("docker.io/library/{name}"),
        Some((first, _)) if first == "localhost" || first.contains(['.', ':']) => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
    }
}

/// The names in a `manifest.json`.
fn of_manifest(manifest: &Value) -> Vec<String> {
    let images = manifest.as_array().into_iter().flatten();
    let tags = images.filter_map(|image| image.get("RepoTags")?.as_array()).flatten();
    tags.filter_map(Value::as_str).map(full_name).collect()
}

/// The names in the `index.json` of an OCI layout. A reference that is a tag alone names no image.
fn of_index(index: &Value) -> Vec<String> {
    let images = index.get("manifests").and_then(Value::as_array).into_iter().flatten();
    let name = |image: &Value| {
        let notes = image.get("annotations")?;
        let full = notes.get("io.containerd.image.name").and_then(Value::as_str);
        let short = || {
            let name = notes.get("org.opencontainers.image.ref.name")?.as_str()?;
            name.contains([':', '@']).then_some(name)
        };
        full.or_else(short).map(full_name)
    };
    images.filter_map(name).collect()
}

/// The images of all archives, each with the last archive that has it, and the places without an archive.
#[derive(Debug, Default, PartialEq)]
struct Held {
    images: BTreeMap<String, String>,
    missing: Vec<String>,
}

/// The reason why the images of the archives are not known.
#[derive(Debug, thiserror::Error)]
enum HeldError {
    #[error(
        "{0} has no image with a name: make it with `docker save NAME:TAG` or `ctr images export`, or take it away"
    )]
    NoName(String),
    /// A line of the answer.
    #[error("the answer of the host is not understood: {0}")]
    Answer(String),
    #[error("{path}: its {list}.json cannot be read: {error}")]
    List {
        path: String,
        /// `manifest` or `index`.
        list: String,
        error: serde_json::Error,
    },
}

/// Reads the answer of `cv_container_image_archives`.
fn held(answer: &str) -> Result<Held, HeldError> {
    let mut all = Held::default();
    let mut archive: Option<(String, bool)> = None;
    let unnamed = |archive: &Option<(String, bool)>| match archive {
        Some((path, false)) => Err(HeldError::NoName(path.clone())),
        _ => Ok(()),
    };
    for line in answer.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let path = || decode_field(rest).ok_or_else(|| HeldError::Answer(line.to_owned()));
        match word {
            "missing" => all.missing.push(path()?),
            "archive" => {
                unnamed(&archive)?;
                archive = Some((path()?, false));
            }
            _ => {
                let Some((path, named)) = &mut archive else {
                    return Err(HeldError::Answer(line.to_owned()));
                };
                let text: Value = serde_json::from_str(rest).map_err(|error| HeldError::List {
                    path: path.clone(),
                    list: word.to_owned(),
                    error,
                })?;
                let names = if word == "manifest" { of_manifest(&text) } else { of_index(&text) };
                *named = !names.is_empty();
                all.images.extend(names.into_iter().map(|name| (name, path.clone())));
            }
        }
    }
    unnamed(&archive)?;
    Ok(all)
}

impl ContainerImages {
    fn id(&self, image: &str) -> Option<ObjectId> {
        image_id(&self.program, &self.address, &self.namespace, image)
    }

    fn probe(&self) -> Probe {
        let places: Vec<String> = self.archives.0.iter().map(|place| quote(place)).collect();
        let script = format!("cv_container_image_archives {}", places.join(" "));
        Probe::Run { script, user: None, timeout: 300 }
    }

    /// Stops where an earlier item may lay or change the archives.
    fn after_archives(&self, view: &dyn View) -> Result<(), Stop> {
        let place = |path: &str| path.trim_end_matches('/').to_owned();
        let touches = |path: &str| {
            self.archives
                .0
                .iter()
                .any(|own| within(&place(own), &place(path)) || within(&place(path), &place(own)))
        };
        let matters = |object: &ObjectId, _: bool| match object.kind.as_str() {
            "path" | "mount" => touches(&object.key),
            "command" => true,
            _ => false,
        };
        view.pending_act(&matters).map_or(Ok(()), |wait| Err(Stop::Deferred(wait)))
    }

    fn images(&self, view: &dyn View) -> Result<Held, Stop> {
        let answer = view.run(&self.probe())?;
        let all = held(&answer.stdout).map_err(|why| Stop::invalid("/archives", why))?;
        if all.missing.is_empty() {
            return Ok(all);
        }
        let reason = format!("there is no image archive at {}", all.missing.join(", "));
        Err(match view.pending() {
            Some(mut wait) => {
                wait.reason = format!("{reason}; {}", wait.reason);
                Stop::Deferred(wait)
            }
            None => Stop::invalid_help(
                "/archives",
                reason,
                "correct the path, or lay archives there: `docker save NAME:TAG -o NAME.tar`",
            ),
        })
    }
}

impl Resource for ContainerImages {
    const KIND: &'static str = "container_images";
    const EXAMPLE: &'static str = "\
- name: images without a registry
  container_images: {archives: /var/cache/images}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        if self.archives.0.is_empty() {
            errors.push(ParamError::new(
                "/archives",
                "no archive is named",
                "name an archive or a folder of them",
            ));
        }
        for (n, place) in self.archives.0.iter().enumerate() {
            let pointer =
                if self.archives.0.len() == 1 { "/archives".to_owned() } else { format!("/archives/{n}") };
            check_path(&pointer, place, &mut errors);
        }
        check_path("/address", &self.address, &mut errors);
        let word = |text: &str| {
            !text.is_empty() && !text.starts_with('-') && text.bytes().all(|b| b.is_ascii_graphic())
        };
        for (pointer, text) in
            [("/address", &self.address), ("/namespace", &self.namespace), ("/program", &self.program)]
        {
            if !word(text) {
                errors.push(ParamError::new(
                    pointer,
                    "it is not one word",
                    "write it without blanks, as `ctr` takes it",
                ));
            }
        }
        if self.namespace.contains('/') {
            errors.push(ParamError::new(
                "/namespace",
                "no namespace has a `/` in it",
                "write it as `ctr namespaces list` shows it",
            ));
        }
        errors
    }

    /// Only the host knows which images these are: any image of the namespace may be touched.
    fn claims(&self) -> Vec<Claim> {
        self.id("").map(|id| Claim::edit(id, "presence")).into_iter().collect()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        self.after_archives(view)?;
        let held = self.images(view)?;
        let wanted = if self.pinned { ContainerImageState::Pinned } else { ContainerImageState::Present };
        let mut asks = Asks::default();
        let mut targets = Vec::new();
        for image in held.images.keys() {
            let id = self.id(image).ok_or_else(|| {
                Stop::invalid("/archives", format!("`{image}` is not the name of an image"))
            })?;
            let now = state::<ContainerImageState>(view, &id).map_err(|stop| match (stop, view.pending()) {
                // An earlier item may bring containerd, or start it.
                (Stop::Failed(why), Some(mut wait)) => {
                    wait.reason = format!("{why}; {}", wait.reason);
                    Stop::Deferred(wait)
                }
                (stop, _) => stop,
            });
            let Some(now) = asks.take(now)? else { continue };
            // One that somebody has pinned stays so.
            let to = if now == ContainerImageState::Pinned { now } else { wanted };
            targets.push((id, to.into()));
        }
        asks.finish()?;
        let lines: Vec<String> =
            held.images.iter().map(|(image, archive)| format!("{image} {archive}")).collect();
        Ok(WantedStates {
            targets,
            settings: vec![("CV_IMAGE_ARCHIVES".to_owned(), lines.join("\n"))],
            ..WantedStates::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use crate::look::path_id;
    use converge_resource::State;
    use serde_json::json;

    const TWO: &str = "archive /images/a.tar\nmanifest [{\"Config\":\"x\",\"RepoTags\":[\"registry.k8s.io/pause:3.10\",\"busybox:1\"]}]\n\
        archive /images/b.tar\nindex {\"manifests\":[{\"annotations\":{\"io.containerd.image.name\":\"quay.io/b:2\"}},{\"digest\":\"x\"}]}\n";

    fn kind() -> ContainerImages {
        read(json!({"archives": "/images"}))
    }

    fn id(image: &str) -> ObjectId {
        kind().id(image).unwrap()
    }

    fn host(reply: &str) -> FakeView {
        FakeView::new().answer(&kind().probe(), 0, reply)
    }

    #[test]
    fn images_that_are_missing_are_imported_and_all_are_pinned() {
        let view = host(TWO).has(id("quay.io/b:2"), State::from_line("present"));
        let wanted = kind().plan(&view).unwrap();
        let lines: Vec<(&str, &str)> = wanted
            .targets
            .iter()
            .map(|(id, to)| (id.key.split_once("k8s.io/").unwrap().1, to.line()))
            .collect();
        assert_eq!(
            lines,
            [
                ("docker.io/library/busybox:1", "pinned"),
                ("quay.io/b:2", "pinned"),
                ("registry.k8s.io/pause:3.10", "pinned")
            ]
        );
        let archives = &wanted.settings[0].1;
        assert!(
            archives.contains("docker.io/library/busybox:1 /images/a.tar\nquay.io/b:2 /images/b.tar"),
            "{archives}"
        );
        settle(&kind(), view);
        // An item without pins takes none away.
        let plain: ContainerImages = read(json!({"archives": "/images", "pinned": false}));
        let view = host(TWO).has(id("quay.io/b:2"), State::from_line("pinned"));
        let after = settle(&plain, view);
        assert_eq!(after.line(&id("quay.io/b:2")), "pinned");
        assert_eq!(after.line(&id("docker.io/library/busybox:1")), "present");
    }

    #[test]
    fn names_are_those_of_containerd() {
        for (name, full) in [
            ("a:1", "docker.io/library/a:1"),
            ("me/a:1", "docker.io/me/a:1"),
            ("localhost/a:1", "localhost/a:1"),
            ("host:5000/a:1", "host:5000/a:1"),
            ("registry.k8s.io/pause:3", "registry.k8s.io/pause:3"),
        ] {
            assert_eq!(full_name(name), full);
        }
        let tag = json!({"manifests": [{"annotations": {"org.opencontainers.image.ref.name": "latest"}}]});
        assert!(of_index(&tag).is_empty());
    }

    #[test]
    fn archives_that_cannot_be_read_are_named() {
        for (reply, says) in [
            ("archive /images/a.tar\n", "/images/a.tar has no image with a name"),
            (
                "archive /images/a.tar\narchive /images/b.tar\nmanifest []\n",
                "/images/a.tar has no image with a name",
            ),
            (
                "archive /images/a.tar\nmanifest [{\"RepoTags\":null}]\n",
                "/images/a.tar has no image with a name",
            ),
            ("archive /images/a.tar\nmanifest [{\n", "/images/a.tar: its manifest.json cannot be read"),
            (
                "archive /images/a.tar\nmanifest [{\"RepoTags\":[\"a b\"]}]\n",
                "`docker.io/library/a b` is not the name of an image",
            ),
            ("missing /images\n", "there is no image archive at /images"),
            ("oops\n", "is not understood"),
        ] {
            let Err(Stop::Invalid { pointer, message, .. }) = kind().plan(&host(reply)) else {
                panic!("{reply}")
            };
            assert!(pointer == "/archives" && message.contains(says), "{reply}: {message}");
        }
    }

    #[test]
    fn what_an_earlier_item_may_bring_is_waited_for() {
        let deferred = |view: FakeView| matches!(kind().plan(&view), Err(Stop::Deferred(_)));
        assert!(deferred(host(TWO).pending()), "the fake's earlier item may change all");
        assert!(deferred(host("missing /images\n").pending()));
        assert!(matches!(
            kind().plan(&FakeView::strict().answer(&kind().probe(), 0, TWO)),
            Err(Stop::Ask(probes)) if probes.len() == 3
        ));
        assert!(kind().after_archives(&FakeView::new().changes(path_id("/images"))).is_ok());
    }

    #[test]
    fn all_images_of_the_namespace_are_claimed() {
        let claims = kind().claims();
        assert!(claims[0].object.key.ends_with('/') && id("a/b:1").key.starts_with(&claims[0].object.key));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<ContainerImages>(json!({"archives": []})), ["/archives"]);
        assert_eq!(wrong::<ContainerImages>(json!({"archives": ["/a", "b"]})), ["/archives/1"]);
        let odd = json!({"archives": "/a", "address": "unix:///x", "namespace": "a b", "program": ""});
        assert_eq!(wrong::<ContainerImages>(odd), ["/address", "/namespace", "/program"]);
    }
}
