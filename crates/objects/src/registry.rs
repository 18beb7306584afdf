//! All objects: one line each.

use crate::{MountState, PathState};
use crate::{
    apt_index, apt_lists, boot, certificates, command, condition, container_image, dpkg, fetched, filesystem,
    firewall, git, group, hostname, k8s, k8s_snap, kubeadm, kubeadm_certificates, kubeadm_config,
    kubeadm_control_plane, kubeadm_upgrade, locale, module, mount, package, path, release, rpm_key,
    rpm_metadata, snap, swap, sysctl, unit, user, workload,
};
use converge_resource::{
    ApiRef, Change, DynActionPart, DynObject, ErasedObject, Nothing, ObjectId, State, Traits,
};

static OBJECTS: &[&dyn DynObject] = &[
    &ErasedObject::<path::Path>::new(),
    &ErasedObject::<package::Package>::new(),
    &ErasedObject::<unit::Unit>::new(),
    &ErasedObject::<user::User>::new(),
    &ErasedObject::<group::Group>::new(),
    &ErasedObject::<sysctl::Sysctl>::new(),
    &ErasedObject::<apt_index::AptIndex>::new(),
    &ErasedObject::<apt_lists::AptLists>::new(),
    &ErasedObject::<boot::Boot>::new(),
    &ErasedObject::<command::Command>::new(),
    &ErasedObject::<condition::Condition>::new(),
    &ErasedObject::<container_image::ContainerImage>::new(),
    &ErasedObject::<dpkg::Dpkg>::new(),
    &ErasedObject::<fetched::Fetched>::new(),
    &ErasedObject::<firewall::Firewall>::new(),
    &ErasedObject::<git::Git>::new(),
    &ErasedObject::<hostname::Hostname>::new(),
    &ErasedObject::<k8s::K8s>::new(),
    &ErasedObject::<k8s_snap::K8sSnap>::new(),
    &ErasedObject::<kubeadm::Kubeadm>::new(),
    &ErasedObject::<kubeadm_certificates::KubeadmCertificates>::new(),
    &ErasedObject::<kubeadm_config::KubeadmConfig>::new(),
    &ErasedObject::<kubeadm_control_plane::KubeadmControlPlane>::new(),
    &ErasedObject::<kubeadm_upgrade::KubeadmUpgrade>::new(),
    &ErasedObject::<locale::Locale>::new(),
    &ErasedObject::<module::Module>::new(),
    &ErasedObject::<mount::Mount>::new(),
    &ErasedObject::<release::Release>::new(),
    &ErasedObject::<rpm_key::RpmKey>::new(),
    &ErasedObject::<rpm_metadata::RpmMetadata>::new(),
    &ErasedObject::<snap::Snap>::new(),
    &ErasedObject::<filesystem::Filesystem>::new(),
    &ErasedObject::<swap::Swap>::new(),
    &ErasedObject::<workload::Workload>::new(),
];

/// All objects.
pub fn objects() -> &'static [&'static dyn DynObject] {
    OBJECTS
}

/// The object of this kind.
pub fn object(kind: &str) -> Option<&'static dyn DynObject> {
    OBJECTS.iter().copied().find(|o| o.kind() == kind)
}

/// The properties of an object that depend on no state; none of an object that is not known.
pub fn traits_of(id: &ObjectId) -> Traits {
    object(&id.kind).map_or(Traits::NONE, |object| object.traits())
}

/// The action that an object is; nothing where it is none, or is not known.
pub fn action_of(id: &ObjectId) -> &'static dyn DynActionPart {
    object(&id.kind).map_or(&Nothing, |object| object.action())
}

/// Whether this is an action.
pub fn is_action(id: &ObjectId) -> bool {
    action_of(id).is_action()
}

/// Whether this is an object of a cluster's API itself.
pub fn is_of_api(id: &ObjectId) -> bool {
    object(&id.kind).is_some_and(|o| o.cluster().of_api())
}

/// The place in the API of an object that [is of it](is_of_api).
pub fn api_ref(id: &ObjectId) -> Option<ApiRef> {
    object(&id.kind).filter(|o| o.cluster().of_api())?.cluster().api(&id.key)
}

/// An object for people: one of the API by its kind and name (`configmap default/a`), any other by its ID.
pub fn title_of(id: &ObjectId) -> String {
    api_ref(id).map_or_else(|| id.to_string(), |object| object.shown())
}

/// The namespace and the name of a release of helm; none of any other object.
pub fn release_of(id: &ObjectId) -> Option<(&str, &str)> {
    object(&id.kind)?.cluster().release(&id.key)
}

/// All paths below the place at which this change mounts or unmounts something: one of them is another file before it than after it.
pub fn covered(change: &Change) -> Option<ObjectId> {
    object(&change.object.kind)?.links().covers(change).map(|place| below(&place))
}

/// Whether other objects may show something else after this change: a file another word for its owner.
pub fn is_followed(change: &Change) -> bool {
    object(&change.object.kind).is_some_and(|object| object.relations().is_followed(change))
}

/// The state that an object shows after this change of another one, where that is not the one it had.
pub fn follows(id: &ObjectId, state: &State, change: &Change) -> Option<State> {
    object(&id.kind)?.relations().follows(&id.key, state, change)
}

/// All paths below this one, as one object that covers them.
pub fn below(path: &str) -> ObjectId {
    ObjectId::new("path", format!("{}/", path.trim_end_matches('/')))
}

/// File systems whose content is nowhere else.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs"];

/// Whether an object in this state holds other ones that go when it does: a directory, a file system in memory.
pub fn is_container(object: &ObjectId, state: &State) -> bool {
    match object.kind.as_str() {
        "path" => matches!(PathState::try_from(state.clone()), Ok(PathState::Dir { .. })),
        "mount" => {
            matches!(MountState::try_from(state.clone()), Ok(MountState::Mount { fstype, .. }) if IN_MEMORY.contains(&fstype.as_str()))
        }
        _ => false,
    }
}

/// The shell functions of all objects and the helpers that they share, file by file; see [`converge_resource::Object::SHELL`].
pub fn shell_texts() -> Vec<&'static str> {
    let shared = [include_str!("common.sh"), include_str!("walk.sh"), certificates::KUBEADM_FILES];
    shared.into_iter().chain(OBJECTS.iter().map(|object| object.shell())).collect()
}

/// The same as one text.
#[cfg(test)]
pub(crate) fn shell_library() -> String {
    shell_texts().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shells;
    use converge_resource::Place;

    /// Without the constant in its `impl Object`, nothing would use the implementation.
    #[test]
    fn every_trait_that_an_object_implements_is_named_in_its_contract() {
        let traits = [
            ("Links", "LINKS"),
            ("Relations", "RELATIONS"),
            ("Effects", "EFFECTS"),
            ("SharedObject", "SHARED"),
            ("NodePart", "NODE"),
            ("ClusterPart", "CLUSTER"),
            ("Needs", "NEEDS"),
            ("ActionPart", "ACTION"),
        ];
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
        let mut implemented = 0;
        for path in files.map(|f| f.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "rs")) {
            let text = std::fs::read_to_string(&path).unwrap();
            for (name, constant) in traits {
                let times = text.matches(&format!("\nimpl {name} for ")).count();
                let named = text.matches(&format!("    const {constant}: &'static dyn Dyn{name} =")).count();
                assert_eq!(times, named, "{name} in {}", path.display());
                implemented += times;
            }
        }
        assert!(implemented > 20, "{implemented}");
    }

    #[test]
    fn every_object_is_listed_and_defines_its_functions_in_every_shell() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
        let mut kinds: Vec<String> = files
            .map(|f| f.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "sh") && p.with_extension("rs").exists())
            .map(|p| p.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        kinds.sort();
        let on_hosts = objects().iter().filter(|o| o.place() == Place::Host);
        let mut listed: Vec<&str> = on_hosts.map(|o| o.kind()).collect();
        listed.sort_unstable();
        assert_eq!(listed, kinds);
        let dir = tempfile::tempdir().unwrap();
        for shell in shells(dir.path()) {
            for kind in &kinds {
                let script =
                    "for f in see line save restore; do command -v cv_${f}_$1 >/dev/null || echo $f; done";
                assert_eq!(shell.good(dir.path(), script, &[kind], b""), "", "{}: {kind}", shell.name);
            }
            assert_eq!(shell.good(dir.path(), ":", &[], b""), "", "the library says or does something");
        }
        assert!(object("nothing").is_none());
    }

    /// A second function of a name takes the place of the first one, for all objects.
    #[test]
    fn no_function_is_defined_twice() {
        let library = shell_library();
        let mut names: Vec<&str> =
            library.lines().filter_map(|line| line.split_once("()").map(|(name, _)| name)).collect();
        names.retain(|name| name.starts_with("cv_") && !name.contains(' '));
        assert!(names.len() > 300, "{}", names.len());
        names.sort_unstable();
        let twice: Vec<&str> =
            names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        assert_eq!(twice, Vec::<&str>::new());
    }

    /// The tests of roles inject drift into the objects that roles manage. An object into which no drift can be injected is
    /// named here.
    #[test]
    fn every_object_declares_its_drifts() {
        // apt_index, apt_lists, rpm_metadata: apt and dnf fetch them by themselves. dpkg: only items of packages find an interrupted run. boot:
        // a restart cannot be undone. kubeadm, k8s_snap: the next run does not repair a host that was taken out of its cluster, or
        // half of it. kubeadm_certificates: a certificate that ends soon is made by hand. kubeadm_upgrade: no upgrade is
        // taken back, and a cordon of others stays. fetched: it lies on the machine that runs converge.
        let exempt = [
            "apt_index",
            "apt_lists",
            "boot",
            "dpkg",
            "fetched",
            "k8s_snap",
            "kubeadm",
            "kubeadm_certificates",
            "kubeadm_upgrade",
            "rpm_metadata",
        ];
        let on_hosts = objects().iter().filter(|o| o.place() == Place::Host);
        for object in on_hosts.filter(|o| !exempt.contains(&o.kind())) {
            let file = format!("{}/src/{}.rs", env!("CARGO_MANIFEST_DIR"), object.kind());
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(text.contains("fn drifts("), "{file}: write `Object::drifts`");
        }
    }
}
