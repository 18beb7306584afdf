//! The differences between a cluster and the manifests of a release, with the owners of the fields.

use crate::hands::is_hand;
use crate::look::Asks;
use crate::manifest::present;
use crate::target::in_namespace;
use converge_objects::K8sState;
use converge_objects::k8s;
use converge_objects::k8s::fields::{self, Field};
use converge_objects::k8s::owners::{owners, owners_of_part};
use converge_objects::release;
use converge_resource::{
    ApiCall, ApiProbe, ApiRef, Content, FIELD_MANAGER, ObjectId, PreservedField, Segment, State, Stop, View,
    WantedStates,
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
    /// The fields that this run prunes: they are the release's own when helm runs.
    pruned: Vec<PreservedField>,
    /// The role takes these fields from their owners.
    force: bool,
    /// Objects as they are with the fields that are taken from others, and nothing else changed.
    taken: WantedStates,
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
        let pruned = view.pruned_fields().to_vec();
        let mut drift = ReleaseDrift { force: self.force, pruned, ..ReleaseDrift::default() };
        for manifest in manifests.iter().filter(|m| !is_hook(m)) {
            let Some(is_namespaced) = is_namespaced(&mut asks, view, manifest)? else { continue };
            let manifest = self.marked(manifest, is_namespaced);
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

    /// Whether this run prunes fields that these manifests declare.
    pub fn gets_pruned_fields(&self, view: &dyn View, manifests: &[Value]) -> bool {
        let declares = |field: &PreservedField, manifest: &Value| {
            release::is(manifest, &field.object, self.namespace)
                && fields::read(manifest, &field.path).is_some()
        };
        view.pruned_fields().iter().any(|field| manifests.iter().any(|manifest| declares(field, manifest)))
    }

    /// The manifest as helm lays it: in the namespace of the release, marked as its own.
    fn marked(&self, manifest: &Value, is_namespaced: bool) -> Value {
        let mut manifest = manifest.clone();
        if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
            if is_namespaced && !metadata.contains_key("namespace") {
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
    /// The fields of these manifests that others own.
    pub fn keep(&self, namespace: &str, manifests: &[Value]) -> Vec<PreservedField> {
        let is_here = |their: &&Their| manifests.iter().any(|m| release::is(m, &their.object, namespace));
        let field =
            |their: &Their| PreservedField { object: their.object.clone(), path: their.field.path.clone() };
        self.theirs.iter().filter(is_here).map(field).collect()
    }

    /// The fields of others that the revision in force declares and these manifests do not: helm would take them away.
    ///
    /// # Errors
    /// A manifest has no place for one.
    pub fn keep_dropped(
        &self,
        namespace: &str,
        manifests: &[Value],
        in_force: &[Value],
    ) -> Result<Vec<PreservedField>, fields::FieldError> {
        let (mut preserved, mut manifests) = (Vec::new(), manifests.to_vec());
        self.each_difference(namespace, in_force, &mut manifests, |object, live, manifest, field| {
            if !self.is_pruned(object, &field) && is_dropped_of_others(&field, live, manifest) {
                fields::write(manifest, &field.path, fields::read(live, &field.path).cloned())?;
                preserved.push(PreservedField { object: object.clone(), path: field.path });
            }
            Ok(())
        })?;
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
        self.each_difference(namespace, in_force, &mut manifests, |object, live, manifest, field| {
            let is_declared = || field.after.is_some() && !of_others(live, &field).is_empty();
            let is_others = is_declared() || is_dropped_of_others(&field, live, manifest);
            if is_others && !self.is_pruned(object, &field) {
                fields::write(manifest, &field.path, field.before)?;
            }
            Ok(())
        })?;
        Ok(manifests)
    }

    /// Whether this run prunes a field.
    fn is_pruned(&self, object: &ApiRef, field: &Field) -> bool {
        self.pruned.iter().any(|pruned| pruned.object == *object && field.path.starts_with(&pruned.path))
    }

    /// Goes over the fields in which manifests differ from those of the revision in force: each with its object, that as it is, and its manifest.
    fn each_difference(
        &self,
        namespace: &str,
        in_force: &[Value],
        manifests: &mut [Value],
        mut with: impl FnMut(&ApiRef, &Value, &mut Value, Field) -> Result<(), fields::FieldError>,
    ) -> Result<(), fields::FieldError> {
        for (object, live) in &self.live {
            let is = |m: &Value| release::is(m, object, namespace);
            let Some(then) = in_force.iter().find(|m| is(m)) else { continue };
            let Some(manifest) = manifests.iter_mut().find(|m| is(m)) else { continue };
            for field in fields::leaf_differences(then, manifest) {
                with(object, live, manifest, field)?;
            }
        }
        Ok(())
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
    pub fn taken(&self) -> WantedStates {
        if self.force { self.taken.clone() } else { WantedStates::default() }
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
            if follows(&owners) || self.is_pruned(object, &field) {
                continue;
            }
            let other = owners.into_iter().find(|o| o != HELM);
            if self.force || other.is_none() {
                managed_here.push(field.clone());
            }
            if let Some(owner) = other {
                taken.push(field.clone());
                let field = match whole_list(live, &field.path, &owner) {
                    Some(path) => Field {
                        before: fields::read(live, path).cloned(),
                        after: fields::read(made, path).cloned(),
                        path: path.to_vec(),
                    },
                    None => field,
                };
                let is_new = |their: &Their| their.object != *object || their.field.path != field.path;
                if self.theirs.iter().all(is_new) {
                    self.theirs.push(Their { object: object.clone(), field, owner });
                }
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

/// The path of the list that this manager owns as a whole, if the field lies in one, as the tolerations of a pod: a part of it cannot be left to that manager.
/// A patch of converge's is: it declares this part, and the chart the others.
fn whole_list<'p>(live: &Value, path: &'p [Segment], owner: &str) -> Option<&'p [Segment]> {
    if owner.starts_with(FIELD_MANAGER) {
        return None;
    }
    let is_item = |at: &usize| matches!(path.get(*at), Some(Segment::Item(..)));
    let owns = |item: &[Segment]| owners_of_part(live, item).iter().any(|own| own == owner);
    let list = (0..path.len()).filter(is_item).find(|at| path.get(..=*at).is_some_and(|item| !owns(item)));
    list.and_then(|at| path.get(..at))
}

fn follows(owners: &[String]) -> bool {
    owners.iter().any(|owner| FOLLOWERS.iter().any(|follower| owner.starts_with(follower)))
}

/// The managers of a live field beside helm; none where one of them follows what others say.
fn of_others(live: &Value, field: &Field) -> Vec<String> {
    let mut owners = owners(live, &field.path);
    if follows(&owners) {
        owners.clear();
    }
    owners.retain(|owner| owner != HELM);
    owners
}

/// Whether a manifest leaves out a field that another program than helm owns, and still has the items of lists in which it stands.
fn is_dropped_of_others(field: &Field, live: &Value, manifest: &Value) -> bool {
    let is_item = |at: &usize| matches!(field.path.get(*at), Some(Segment::Item(..)));
    let has_item = |at: usize| {
        let item = field.path.get(..=at).filter(|item| item.len() < field.path.len());
        item.is_some_and(|item| fields::read(manifest, item).is_some())
    };
    let owners = of_others(live, field);
    field.after.is_none()
        && !owners.is_empty()
        && !owners.iter().any(|owner| is_hand(owner))
        && (0..field.path.len()).filter(is_item).all(has_item)
}

fn is_hook(manifest: &Value) -> bool {
    manifest.pointer("/metadata/annotations").is_some_and(|a| a.get("helm.sh/hook").is_some())
}

/// Whether the object of a manifest lives in a namespace; `None` where this must be asked first: the server knows the kinds that others define.
fn is_namespaced(asks: &mut Asks, view: &dyn View, manifest: &Value) -> Result<Option<bool>, Stop> {
    let text =
        |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    if let Some(known) = in_namespace(&api_version, &kind) {
        return Ok(Some(known));
    }
    // Of a kind that is not there no object is.
    let answer = asks.take(view.api(&ApiProbe::Namespaced { api_version, kind }))?;
    Ok(answer.map(|answer| answer == Value::Bool(true)))
}

/// An answer; `None` where it must be asked first or where the server cannot say.
fn readable(asks: &mut Asks, answer: Result<Value, Stop>) -> Result<Option<Value>, Stop> {
    match answer {
        Err(Stop::Failed(_)) => Ok(None),
        other => asks.take(other),
    }
}

#[cfg(test)]
#[path = "release_drift_tests.rs"]
mod tests;
