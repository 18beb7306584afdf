//! An image of containerd. Its key is `PROGRAM ADDRESS NAMESPACE/IMAGE`: the program that asks (`ctr`), the socket that it asks at, the
//! namespace that has the image, and the image's full name.

use converge_resource::{
    DriftScript, DynNeeds, ErasedObject, Facets, Needs, Object, ObjectId, State, Step, quote, state_of_words,
};

/// The state of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerImageState {
    /// containerd has none of this name (`absent`).
    Absent,
    /// It is there, and the kubelet may clear it away (`present`).
    Present,
    /// It is there, and the kubelet keeps it (`pinned`).
    Pinned,
}

impl ContainerImageState {
    fn words(&self) -> Vec<String> {
        let word = match self {
            Self::Absent => "absent",
            Self::Present => "present",
            Self::Pinned => "pinned",
        };
        vec![word.to_owned()]
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["present"] => Some(Self::Present),
            ["pinned"] => Some(Self::Pinned),
            _ => None,
        }
    }
}

state_of_words!(ContainerImageState);

/// The object of an image; of no image, all of the namespace. `None` for words that are no part of a key.
pub fn image_id(program: &str, address: &str, namespace: &str, image: &str) -> Option<ObjectId> {
    let good = |word: &str| word.bytes().all(|b| b.is_ascii_graphic());
    let words = [program, address, namespace].iter().all(|word| !word.is_empty() && good(word));
    let key = format!("{program} {address} {namespace}/{image}");
    (words && good(image) && !namespace.contains('/')).then(|| ObjectId::new(ContainerImage::KIND, key))
}

/// The program, the address, the namespace and the name of a key.
fn parts(key: &str) -> Option<[&str; 4]> {
    let (program, rest) = key.split_once(' ')?;
    let (address, rest) = rest.split_once(' ')?;
    let (namespace, image) = rest.split_once('/')?;
    Some([program, address, namespace, image])
}

fn name(key: &str) -> &str {
    parts(key).map_or(key, |[.., image]| image)
}

/// The object.
pub struct ContainerImage;

impl Object for ContainerImage {
    const KIND: &'static str = "container_image";
    const SHELL: &'static str = include_str!("container_image.sh");
    const SECONDS: u64 = 1800;
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    type State = ContainerImageState;

    fn title(key: &str, from: &ContainerImageState, to: &ContainerImageState) -> String {
        use ContainerImageState::{Absent, Pinned, Present};
        let image = name(key);
        match (from, to) {
            (_, Absent) => format!("remove the image {image}"),
            (Absent, Pinned) => format!("import and pin the image {image}"),
            (Absent, Present) => format!("import the image {image}"),
            (Present | Pinned, Pinned) => format!("pin the image {image}"),
            (Present | Pinned, Present) => format!("unpin the image {image}"),
        }
    }

    /// One step: the archive of one image may bring another.
    fn steps(changes: &[(&str, ContainerImageState, ContainerImageState)]) -> Vec<Step> {
        let title = match changes {
            [] => return Vec::new(),
            [(key, from, to)] => Self::title(key, from, to),
            [(key, from, to), ..] => format!("{} and {} more", Self::title(key, from, to), changes.len() - 1),
        };
        let words: Vec<String> =
            changes.iter().flat_map(|(key, _, to)| [quote(key), quote(State::from(*to).line())]).collect();
        vec![Step::new(title, format!("cv_apply_container_images {}", words.join(" "))).within(Self::SECONDS)]
    }

    fn amid(before: &ContainerImageState, after: &ContainerImageState, now: &ContainerImageState) -> bool {
        use ContainerImageState::{Absent, Pinned, Present};
        matches!((before, after, now), (Absent, Pinned, Present))
    }

    fn facets(state: &ContainerImageState) -> Facets {
        match state {
            ContainerImageState::Absent => Vec::new(),
            ContainerImageState::Present => vec![("pinned", "no".to_owned())],
            ContainerImageState::Pinned => vec![("pinned", "yes".to_owned())],
        }
    }

    fn drifts(key: &str, state: &ContainerImageState) -> Vec<DriftScript> {
        let (ContainerImageState::Pinned, Some(parts)) = (state, parts(key)) else { return Vec::new() };
        let [program, address, namespace, image] = parts.map(quote);
        let script = format!(
            "{program} --address {address} --namespace {namespace} images label {image} io.cri-containerd.pinned= >/dev/null || exit 3"
        );
        vec![DriftScript::new("pinned", "unpinned", script)]
    }
}

impl Needs for ContainerImage {
    fn served_by(key: &str) -> &'static [&'static str] {
        match parts(key).map(|[_, address, ..]| address) {
            Some(address) if address.starts_with("/run/k3s/") => {
                &["k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"]
            }
            _ => &["containerd.service", "snap.k8s.containerd.service"],
        }
    }

    fn stands_on(key: &str, state: &ContainerImageState) -> Vec<String> {
        let program = parts(key).filter(|_| *state != ContainerImageState::Absent);
        program.map(|[program, ..]| program.to_owned()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};

    /// A containerd whose images are lines `NAME [LABELS]` of one file. Archives are text: the names that they bring.
    const CTR: &str = r#"#!/bin/sh
here=${0%/*}
[ ! -e "$here/down" ] || { echo 'connection refused' >&2; exit 1; }
echo "$*" >>"$here/log"
[ "$1 $2 $3 $4" = '--address /run/c.sock --namespace k8s.io' ] || exit 9
shift 4
touch "$here/images"
case $1/$2 in
images/list) echo 'REF TYPE DIGEST SIZE PLATFORMS LABELS'; while read -r name labels; do echo "$name application/x sha256:1 305.8 KiB linux/amd64 ${labels:--}"; done <"$here/images" ;;
images/import) cat "$3" >>"$here/images" ;;
images/remove) grep -v "^$3 *" "$here/images" >"$here/new"; mv "$here/new" "$here/images" ;;
images/label) grep -v "^$3 *" "$here/images" >"$here/new"; case $4 in *=) echo "$3" ;; *) echo "$3 io.cri-containerd.image=managed,$4" ;; esac >>"$here/new"; mv "$here/new" "$here/images" ;;
*) exit 9 ;;
esac
"#;

    fn key(image: &str) -> String {
        image_id("ctr", "/run/c.sock", "k8s.io", image).unwrap().key
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for line in ["absent", "present", "pinned"] {
            let state = ContainerImageState::try_from(State::from_line(line)).unwrap();
            assert_eq!(State::from(state).line(), line);
        }
        assert!(ContainerImageState::try_from(State::from_line("pinned x")).is_err());
        assert_eq!(image_id("ctr", "/run/c.sock", "k8s.io", "a b"), None);
        assert_eq!(image_id("ctr", "/run/c.sock", "a/b", "c"), None);
        assert!(ContainerImage::served_by(&key("a:1")).contains(&"containerd.service"));
        let of_k3s = image_id("ctr", "/run/k3s/containerd/containerd.sock", "k8s.io", "a:1").unwrap();
        assert!(ContainerImage::served_by(&of_k3s.key).contains(&"k3s.service"));
        let drifts = ContainerImage::drifts(&key("registry.example/a:1"), &ContainerImageState::Pinned);
        assert!(
            drifts[0].script.contains("--namespace k8s.io images label registry.example/a:1 "),
            "{drifts:?}"
        );
    }

    #[test]
    fn images_are_imported_pinned_and_given_back_in_every_shell() {
        use ContainerImageState::{Absent, Pinned, Present};
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            let root = tempfile::tempdir().unwrap();
            let tools = fake_tool(root.path(), "ctr", CTR);
            let file = |name: &str| std::path::Path::new(&tools).join(name);
            let with = |script: &str| format!("PATH='{tools}':$PATH; export PATH; {script}");
            let (a, b) = (key("registry.example/a:1"), key("registry.example/b:2"));
            let see = |key: &str| {
                let answer = shell.good(root.path(), &with("cv_see_container_image \"$@\""), &[key], b"");
                crate::testing::parse::<ContainerImage>(&[key], &answer).remove(key).unwrap()
            };
            let is = |key: &str| ContainerImageState::try_from(see(key).unwrap().state).unwrap();
            std::fs::write(file("down"), "").unwrap();
            assert_eq!(see(&a).unwrap_err().0, "containerd does not answer at /run/c.sock", "{}", shell.name);
            std::fs::remove_file(file("down")).unwrap();
            assert_eq!((is(&a), is(&b)), (Absent, Absent));
            // Both come from one archive, whose path has a blank.
            let archive = root.path().join("both of them.tar");
            std::fs::write(&archive, "registry.example/a:1\nregistry.example/b:2\n").unwrap();
            let steps = ContainerImage::steps(&[(&a, Absent, Pinned), (&b, Absent, Pinned)]);
            assert_eq!(steps.len(), 1);
            assert_eq!(steps[0].title, "import and pin the image registry.example/a:1 and 1 more");
            let lines = format!("registry.example/a:1 {0}\nregistry.example/b:2 {0}", archive.display());
            let script = format!("CV_IMAGE_ARCHIVES={}; {}", quote(&lines), steps[0].script);
            shell.good(root.path(), &with(&script), &[], b"");
            assert_eq!((is(&a), is(&b)), (Pinned, Pinned), "{}", shell.name);
            assert_eq!(std::fs::read_to_string(file("log")).unwrap().matches("images import").count(), 1);
            let restore = |key: &str, line: &str| {
                shell.good(root.path(), &with("cv_restore_container_image \"$@\""), &[key, line], b"");
            };
            restore(&a, "present");
            assert_eq!(is(&a), Present, "{}", shell.name);
            restore(&a, "absent");
            assert_eq!((is(&a), is(&b)), (Absent, Pinned), "{}", shell.name);
            // Nothing says where it would come from; an archive that lacks it is named.
            for (archives, says) in [
                (String::new(), "no archive is named that has the image registry.example/c:3".to_owned()),
                (
                    format!(
                        "CV_IMAGE_ARCHIVES={}; ",
                        quote(&format!("registry.example/c:3 {}", archive.display()))
                    ),
                    format!("{} was imported, and brought no image registry.example/c:3", archive.display()),
                ),
            ] {
                let script = with(&format!("{archives}cv_apply_container_image \"$1\" pinned"));
                let output = shell.run(root.path(), &script, &[&key("registry.example/c:3")], b"");
                let reply = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(!output.status.success() && reply.contains(&says), "{}: {reply}", shell.name);
            }
        }
    }

    #[test]
    fn archives_say_what_they_hold_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("image archives");
            std::fs::create_dir_all(folder.join("empty")).unwrap();
            let make = |archive: &str, member: &str, text: &str| {
                std::fs::write(root.path().join(member), text).unwrap();
                let made = std::process::Command::new("tar")
                    .arg("-C")
                    .arg(root.path())
                    .arg("-cf")
                    .args([folder.join(archive).as_os_str(), member.as_ref()])
                    .status();
                assert!(made.unwrap().success());
            };
            make("a.tar", "manifest.json", "[{\"RepoTags\":\n[\"a:1\"]}]\n");
            make("b.tar", "index.json", "{\"manifests\":[]}");
            make("c.tar", "other", "x");
            let places = [
                folder.display().to_string() + "/",
                folder.join("empty").display().to_string(),
                folder.join("b.tar").display().to_string(),
            ];
            let places: Vec<&str> = places.iter().map(String::as_str).collect();
            let reply = shell.good(root.path(), "cv_container_image_archives \"$@\"", &places, b"");
            let reply = reply.lines().map(|line| match line.split_once(' ').unwrap() {
                (word @ ("archive" | "missing"), path) => {
                    let path = converge_resource::decode_field(path).unwrap();
                    format!("{word} {}", path.rsplit('/').next().unwrap())
                }
                _ => line.to_owned(),
            });
            let reply: Vec<String> = reply.collect();
            let index = "index {\"manifests\":[]}";
            assert_eq!(
                reply,
                [
                    "archive a.tar",
                    "manifest [{\"RepoTags\":[\"a:1\"]}]",
                    "archive b.tar",
                    index,
                    "archive c.tar",
                    "missing empty",
                    "archive b.tar",
                    index
                ],
                "{}",
                shell.name
            );
        }
    }
}
