//! The differences between a cluster and the manifests of a release, with the owners of the fields.

use crate::hands::is_hand;
use crate::look::Asks;
use crate::manifest::present;
use crate::target::in_namespace;
use converge_objects::K8sState;
use converge_objects::k8s;
use converge_objects::k8s::fields::{self, Field};
use converge_objects::k8s::owners::owners;
use converge_objects::release;
use converge_resource::{
    ApiCall, ApiProbe, ApiRef, Content, ObjectId, PreservedField, State, Stop, View, Wanted,
};
use serde_json::{Value, json};

/// The drift of a release.
#[derive(Debug, Default)]
pub struct ReleaseDrift {
    /// Objects that are missing, and objects with fields that only helm owns, in their wanted state.
    pub targets: Vec<(ObjectId, State)>,
    /// The contents that these states name.
    pub contents: Vec<Content>,
    /// The calls that create the missing objects again.
    pub calls: Vec<ApiCall>,
    /// Fields that others own.
    pub theirs: Vec<Their>,
    /// The objects that are there, as they are.
    live: Vec<(ApiRef, Value)>,
    /// The role takes these fields from their owners.
    force: bool,
    /// Objects as they are with the fields that are taken from others, and nothing else changed.
    taken: Wanted,
}

/// A field that another manager owns.
#[derive(Debug)]
pub struct Their {
    /// The object.
    pub object: ApiRef,
    /// `before` is the live value, `after` that of the chart.
    pub field: Field,
    /// The other manager.
    pub owner: String,
}

impl Their {
    fn by_hand(&self) -> bool {
        is_hand(&self.owner)
    }
}

/// Managers whose fields follow from what others say.
const FOLLOWERS: [&str; 4] = ["kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver"];
/// The manager of what helm writes.
const HELM: &str = "helm";
/// The greatest number of notes that is useful to a reader.
const SHOWN: usize = 8;

/// A release.
pub struct InstalledRelease<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Fields of others are taken from them.
    pub force: bool,
}

impl InstalledRelease<'_> {
    /// Compares the manifests with the live objects; a dry run tells the result of each.
    ///
    /// # Errors
    /// `Stop::Ask` until all that it needs is known.
    pub fn drift(&self, view: &dyn View, manifests: &[Value]) -> Result<ReleaseDrift, Stop> {
        let mut asks = Asks::default();
        let mut drift = ReleaseDrift { force: self.force, ..ReleaseDrift::default() };
        for manifest in manifests.iter().filter(|m| !is_hook(m)) {
            let manifest = self.marked(manifest);
            let Some(object) = ApiRef::of(&manifest) else { continue };
            let live = readable(&mut asks, view.api(&ApiProbe::Get(object.clone())))?;
            let probe = ApiProbe::Apply { manifest: manifest.to_string(), force: true };
            let made = readable(&mut asks, view.api(&probe))?;
            let base = asks.take(present(view, &object))?;
            let (Some(live), Some(made), Some(base)) = (live, made, base) else { continue };
            // A manifest that the server refuses says nothing about the live object.
            let Some(made) = made.get("object").map(k8s::normalised) else { continue };
            match base {
                Some(base) if !live.is_null() => {
                    drift.changed(&object, &live, &made, &base)?;
                    drift.live.push((object, live));
                }
                Some(_) => {}
                None => drift.missing(&object, manifest, &made),
            }
        }
        asks.finish()?;
        Ok(drift)
    }

    /// The manifest as helm lays it: in the namespace of the release, marked as its own.
    fn marked(&self, manifest: &Value) -> Value {
        let mut manifest = manifest.clone();
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let placed = in_namespace(text("/apiVersion"), text("/kind"));
        if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
            if placed == Some(true) && !metadata.contains_key("namespace") {
                metadata.insert("namespace".to_owned(), json!(self.namespace));
            }
            let mut mark = |part: &str, name: &str, value: &str| {
                let entry = metadata.entry(part).or_insert(Value::Null);
                if entry.is_null() {
                    *entry = json!({});
                }
                if let Some(map) = entry.as_object_mut() {
                    map.insert(name.to_owned(), json!(value));
                }
            };
            mark("labels", "app.kubernetes.io/managed-by", "Helm");
            mark("annotations", "meta.helm.sh/release-name", self.name);
            mark("annotations", "meta.helm.sh/release-namespace", self.namespace);
        }
        manifest
    }
}

impl ReleaseDrift {
    /// Puts live values of others into the manifests; returns these fields.
    ///
    /// # Errors
    /// A manifest has no place for it.
    pub fn keep(
        &self,
        namespace: &str,
        manifests: &mut [Value],
    ) -> Result<Vec<PreservedField>, fields::FieldError> {
        let mut preserved = Vec::new();
        for their in &self.theirs {
            let own = |m: &&mut Value| release::is(m, &their.object, namespace);
            let Some(manifest) = manifests.iter_mut().find(own) else { continue };
            fields::write(manifest, &their.field.path, their.field.before.clone())?;
            preserved.push(PreservedField { object: their.object.clone(), path: their.field.path.clone() });
        }
        Ok(preserved)
    }

    /// The manifests with the values of the revision in force where the live field is another's. One that is not in force then has something of
    /// helm's own to change.
    ///
    /// # Errors
    /// A manifest has no place for it.
    pub fn as_in_force(
        &self,
        namespace: &str,
        manifests: &[Value],
        in_force: &[Value],
    ) -> Result<Vec<Value>, fields::FieldError> {
        let mut manifests = manifests.to_vec();
        for (object, live) in &self.live {
            let is = |m: &Value| release::is(m, object, namespace);
            let Some(then) = in_force.iter().find(|m| is(m)) else { continue };
            let Some(manifest) = manifests.iter_mut().find(|m| is(m)) else { continue };
            let of_others = |field: &Field| {
                let owners = owners(live, &field.path);
                field.after.is_some() && !follows(&owners) && owners.iter().any(|o| o != HELM)
            };
            for field in fields::leaf_differences(then, manifest).into_iter().filter(of_others) {
                fields::write(manifest, &field.path, field.before)?;
            }
        }
        Ok(manifests)
    }

    /// Declared fields that a user has changed by hand, where they are not taken back.
    ///
    /// # Errors
    /// There are some.
    pub fn conflict(&self) -> Result<(), Stop> {
        let by_hand: Vec<&Their> = self.theirs.iter().filter(|t| !self.force && t.by_hand()).collect();
        if by_hand.is_empty() {
            return Ok(());
        }
        let one = |their: &&Their| {
            let way = fields::shown(&their.field.path);
            format!("{}: {way} was changed by `{}`", their.object.shown(), their.owner)
        };
        let mut shown: Vec<String> = by_hand.iter().take(SHOWN).map(one).collect();
        if by_hand.len() > SHOWN {
            shown.push(format!("and {} more fields", by_hand.len() - SHOWN));
        }
        Err(Stop::invalid_help(
            "",
            format!("what the release declares is not what is live: {}", shown.join("; ")),
            "write `force_conflicts: true` to take these fields back, or declare what is live",
        ))
    }

    /// The changes to make before helm runs.
    pub fn taken(&self) -> Wanted {
        if self.force { self.taken.clone() } else { Wanted::default() }
    }

    /// The notes on fields of others, not too many.
    pub fn notes(&self) -> Vec<String> {
        let note = |their: &Their| {
            let way = fields::shown(&their.field.path);
            let verb = match (self.force, their.object.kind == "Secret") {
                (true, false) => "taken, by `force_conflicts`",
                // Values of Secrets are not known here.
                (true, true) => {
                    "laid anew by helm's next upgrade; delete the object to have it made anew now"
                }
                (false, _) => "left as it is",
            };
            format!("{}: {way} belongs to `{}`: {verb}", their.object.shown(), their.owner)
        };
        let mut notes: Vec<String> = self.theirs.iter().take(SHOWN).map(note).collect();
        if self.theirs.len() > SHOWN {
            notes.push(format!("and {} more fields of others", self.theirs.len() - SHOWN));
        }
        notes
    }

    fn changed(&mut self, object: &ApiRef, live: &Value, made: &Value, base: &Value) -> Result<(), Stop> {
        let (mut managed_here, mut taken) = (Vec::new(), Vec::new());
        // Fields that helm does not set are not compared.
        let named =
            fields::differences(&k8s::normalised(live), made).into_iter().filter(|f| f.after.is_some());
        for field in named {
            let owners = owners(live, &field.path);
            if follows(&owners) {
                continue;
            }
            let other = owners.into_iter().find(|o| o != HELM);
            if self.force || other.is_none() {
                managed_here.push(field.clone());
            }
            if let Some(owner) = other {
                taken.push(field.clone());
                self.theirs.push(Their { object: object.clone(), field, owner });
            }
        }
        // The values of a Secret are not known here: only helm can set them again.
        if object.kind == "Secret" {
            return Ok(());
        }
        if !taken.is_empty() {
            let mut only = Self::default();
            only.want(object, &fields::with(base, &taken).map_err(Stop::failed)?);
            self.taken.targets.extend(only.targets);
            self.taken.contents.extend(only.contents);
            self.taken.calls.extend(only.calls);
        }
        if !managed_here.is_empty() {
            self.want(object, &fields::with(base, &managed_here).map_err(Stop::failed)?);
        }
        Ok(())
    }

    fn missing(&mut self, object: &ApiRef, manifest: Value, made: &Value) {
        // The cluster itself removes Jobs and Pods that are finished.
        if ["Job", "Pod"].contains(&object.kind.as_str()) {
            return;
        }
        self.want(object, made);
        self.calls.push(ApiCall::Apply { manifest, force: false });
    }

    fn want(&mut self, object: &ApiRef, new: &Value) {
        let content = Content::new(k8s::text(&k8s::normalised(new)).into_bytes());
        self.targets.push((object.object(), K8sState::Present(content.digest().clone()).into()));
        self.contents.push(content);
        // Under our own name it would be another's the next time, and a new value would not reach it.
        self.calls.push(ApiCall::As { object: object.clone(), manager: HELM.to_owned() });
    }
}

fn follows(owners: &[String]) -> bool {
    owners.iter().any(|owner| FOLLOWERS.iter().any(|follower| owner.starts_with(follower)))
}

fn is_hook(manifest: &Value) -> bool {
    manifest.pointer("/metadata/annotations").is_some_and(|a| a.get("helm.sh/hook").is_some())
}

/// An answer; `None` where it must be asked first or where the server cannot say.
fn readable(asks: &mut Asks, answer: Result<Value, Stop>) -> Result<Option<Value>, Stop> {
    match answer {
        Err(Stop::Failed(_)) => Ok(None),
        other => asks.take(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeView;

    const RELEASE: InstalledRelease<'_> = InstalledRelease { name: "r", namespace: "ns", force: false };

    fn manifest(replicas: u32) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "a:1"}]}}}})
    }

    fn live(replicas: u32, image: &str, manager: &str) -> Value {
        let mut object = RELEASE.marked(&manifest(replicas));
        object["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        object["metadata"]["managedFields"] = json!([
            {"manager": "helm", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": manager, "fieldsV1": {"f:spec": {"f:template": {"f:spec": {"f:containers":
                {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}}}}}},
            {"manager": "other", "subresource": "status", "fieldsV1": {"f:spec": {}}}]);
        object
    }

    fn view(object: Option<&Value>) -> FakeView {
        let wish = RELEASE.marked(&manifest(2));
        let id = ApiRef::of(&wish).unwrap();
        let view = FakeView::new()
            .says(ApiProbe::Get(id.clone()), object.cloned().unwrap_or_default())
            .says(ApiProbe::Apply { manifest: wish.to_string(), force: true }, json!({"object": wish}));
        match object {
            None => view,
            Some(object) => {
                let (state, content) = K8sState::of(object);
                view.has(id.object(), state).knows(content)
            }
        }
    }

    fn found(object: Option<&Value>) -> ReleaseDrift {
        RELEASE.drift(&view(object), &[manifest(2)]).unwrap()
    }

    #[test]
    fn what_is_helms_is_set_back() {
        let none = found(Some(&live(2, "a:1", "helm")));
        assert!(none.targets.is_empty() && none.theirs.is_empty(), "{none:?}");
        let drift = found(Some(&live(5, "a:1", "helm")));
        assert!(drift.contents[0].text().unwrap().contains("replicas: 2"), "{drift:?}");
        let own = |call: &ApiCall| matches!(call, ApiCall::As { manager, .. } if manager == "helm");
        assert!(drift.calls.iter().all(own), "{drift:?}");
    }

    #[test]
    fn what_belongs_to_others_is_theirs() {
        let drift = found(Some(&live(2, "a:9", "some-operator")));
        assert!(drift.targets.is_empty() && drift.conflict().is_ok() && drift.taken().targets.is_empty());
        assert_eq!(
            drift.notes(),
            [
                "deployment ns/x: .spec.template.spec.containers[name=c].image belongs to `some-operator`: left as it is"
            ]
        );
        let follower = found(Some(&live(2, "a:9", "kube-controller-manager")));
        assert!(follower.targets.is_empty() && follower.theirs.is_empty(), "{follower:?}");
    }

    #[test]
    fn a_field_of_others_alone_makes_no_revision() {
        let image = |image: &str, replicas: u32| {
            let mut manifest = manifest(replicas);
            manifest["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
            manifest
        };
        let with = |manager: &str, image: &str, then: &Value| {
            let drift = found(Some(&live(2, image, manager)));
            drift.as_in_force("ns", &[manifest(2)], std::slice::from_ref(then)).unwrap().remove(0)
        };
        // Whether an upgrade has laid the value of another into the revision, or the patch is newer, or says what the chart says.
        for (live, then) in [("a:9", "a:1"), ("a:9", "a:9"), ("a:9", "a:8"), ("a:1", "a:9")] {
            assert_eq!(with("converge", live, &image(then, 2)), image(then, 2), "{live} {then}");
        }
        assert_eq!(with("converge", "a:9", &image("a:8", 3)), image("a:8", 2), "helm's own");
        assert_eq!(with("helm", "a:9", &image("a:8", 2)), manifest(2));
        assert_eq!(with("kube-controller-manager", "a:9", &image("a:8", 2)), manifest(2));
    }

    #[test]
    fn what_somebody_changed_by_hand_is_drift() {
        for tool in ["kubectl-set", "kubectl-edit", "kubectl", "k9s", "OpenAPI-Generator", "kubectl1.36"] {
            let drift = found(Some(&live(2, "a:9", tool)));
            let Err(Stop::Invalid { message, help, .. }) = drift.conflict() else {
                panic!("{tool}: {drift:?}")
            };
            assert!(
                message.contains(&format!("containers[name=c].image was changed by `{tool}`")),
                "{message}"
            );
            assert!(help.unwrap().contains("force_conflicts: true") && !message.contains("a:9"));
        }
        assert!(found(Some(&live(2, "a:9", "octavia-controller"))).conflict().is_ok());
        assert!(found(Some(&live(2, "a:1", "kubectl-edit"))).conflict().is_ok(), "as declared");
        let forced = InstalledRelease { force: true, ..RELEASE };
        let taken = forced.drift(&view(Some(&live(3, "a:9", "kubectl-edit"))), &[manifest(2)]).unwrap();
        let text = taken.contents[0].text().unwrap();
        assert!(text.contains("a:1") && text.contains("replicas: 2") && taken.theirs.len() == 1, "{taken:?}");
        assert!(taken.conflict().is_ok() && taken.notes()[0].ends_with("taken, by `force_conflicts`"));
        // Before an upgrade only what others took.
        let first = taken.taken();
        let text = first.contents[0].text().unwrap();
        assert!(text.contains("a:1") && text.contains("replicas: 3"), "{text}");
    }

    /// `kubectl scale` and autoscalers write through a resource of its own.
    #[test]
    fn who_scales_is_known() {
        let scaled = |manager: &str| {
            let mut object = live(7, "a:1", "nobody");
            object["metadata"]["managedFields"][0] = json!(
                {"manager": manager, "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
            found(Some(&object))
        };
        assert!(scaled("kubectl").conflict().is_err());
        let autoscaled = scaled("kube-controller-manager");
        assert!(autoscaled.targets.is_empty() && autoscaled.theirs.is_empty(), "{autoscaled:?}");
    }

    #[test]
    fn what_is_missing_is_made_as_helm_would() {
        let drift = found(None);
        assert_eq!(drift.targets.len(), 1);
        let [ApiCall::As { .. }, ApiCall::Apply { manifest, force: false }] = &drift.calls[..] else {
            panic!("{drift:?}")
        };
        assert_eq!(manifest["metadata"]["annotations"]["meta.helm.sh/release-name"], "r");
        assert_eq!(manifest["metadata"]["namespace"], "ns");
        let hook = json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "h", "annotations": {"helm.sh/hook": "pre-upgrade"}}});
        assert!(RELEASE.drift(&FakeView::new(), &[hook]).unwrap().targets.is_empty());
    }

    #[test]
    fn items_are_known_by_the_keys_of_the_server() {
        let object = json!({"metadata": {"managedFields": [{"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:ports": {
            "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:targetPort": {}}}, "f:args": {}}}}]},
            "spec": {"ports": [{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 81, "protocol": "TCP"}]}});
        let way = |text: &str| crate::pointer::single(text).unwrap();
        assert_eq!(owners(&object, &way("/spec/ports/[name=a]/targetPort")), ["kubectl-edit"]);
        assert_eq!(owners(&object, &way("/spec/ports/[name=b]/targetPort")), Vec::<String>::new());
        assert_eq!(owners(&object, &way("/spec/ports/[name=a]/nodePort")), Vec::<String>::new());
        assert_eq!(owners(&object, &way("/spec/args/[key=x]/value")), ["kubectl-edit"]);
    }

    #[test]
    fn all_is_asked_in_one_round() {
        let two = [manifest(2), json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})];
        let Err(Stop::Ask(probes)) = RELEASE.drift(&FakeView::strict(), &two) else { panic!() };
        assert_eq!(probes.len(), 6);
    }
}
