//! Objects of a cluster that a role writes in full: planned by the server's own dry run.

use crate::hands::{hand, is_hand};
use crate::normal_form::Patch;
use crate::presence::Presence;
use crate::target::missing_kind_help;
use converge_objects::K8sState;
use converge_objects::k8s::owners::{owners, staying};
use converge_objects::k8s::{self, fields};
use converge_resource::{
    ApiCall, ApiProbe, ApiRef, Claim, Content, FIELD_MANAGER, ObjectId, ParamError, Stop, View, Wait,
    WantedStates, pointer_word,
};
use serde_json::Value;

/// The claims of an item that decides a whole object.
pub fn whole_claims(object: &ObjectId, state: Presence) -> Vec<Claim> {
    match state {
        Presence::Present => vec![
            Claim::exclusive(object.clone(), "content"),
            Claim::shared(object.clone(), "presence", "present"),
        ],
        Presence::Absent => vec![Claim::shared(object.clone(), "presence", "absent")],
    }
}

/// The claims of an item that changes some fields of an object.
pub fn edit_claims(object: &ObjectId) -> Vec<Claim> {
    vec![Claim::edit(object.clone(), "content"), Claim::shared(object.clone(), "presence", "present")]
}

/// Refuses what can be no name of an object.
pub fn check_name(pointer: &str, name: &str, errors: &mut Vec<ParamError>) {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.:".contains(&b);
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    let ends = ends(bytes.first()) && ends(bytes.last());
    if !ends || name.len() > 253 || !name.bytes().all(good) {
        let help = "write lower-case letters, digits, `-` and `.`";
        errors.push(ParamError::new(pointer, format!("`{name}` is not a valid name of an object"), help));
    }
}

/// Checks a manifest, as far as no cluster is needed.
pub fn check_manifest(manifest: &Value, errors: &mut Vec<ParamError>) {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut wrong = |pointer: &str, message: &'static str, help: &'static str| {
        errors.push(ParamError::fixed(pointer, message, help));
    };
    if manifest.pointer("/metadata/generateName").is_some() {
        let help = "give it a fixed `name`: a generated one makes another object with every run";
        wrong("/metadata/generateName", "the name would be another one with every run", help);
    }
    if manifest.get("status").is_some() {
        let help = "leave `status` out";
        wrong("/status", "the status is the server's to say", help);
    }
    if text("/kind").ends_with("List") || manifest.get("items").is_some() {
        wrong("/kind", "a list is no object", "write a resource for each object");
    }
    // One that a controller fills has none, and what is live there is shown as digests.
    let values = ["data", "stringData"].into_iter().filter_map(|key| manifest.get(key)?.as_object());
    if text("/apiVersion") == "v1"
        && text("/kind") == "Secret"
        && values.map(serde_json::Map::len).sum::<usize>() > 0
    {
        let help = "use the kind `secret`: it keeps the values out of plans, diffs and records";
        wrong("/kind", "a Secret's values would stand in the plan", help);
    }
    for key in ["managedFields", "resourceVersion", "uid", "creationTimestamp"] {
        let pointer = format!("/metadata/{key}");
        if manifest.pointer(&pointer).is_some_and(|v| !v.is_null()) {
            wrong(&pointer, "this is the server's to say", "leave it out");
        }
    }
    if manifest.pointer("/metadata/name").and_then(Value::as_str).is_none() {
        wrong("/metadata/name", "the object has no name", "add `metadata: {name: NAME}`");
    } else {
        let mut found = Vec::new();
        check_name("/metadata/name", text("/metadata/name"), &mut found);
        errors.extend(found);
        let whole = ApiRef::of(manifest);
        if whole.as_ref().and_then(|r| ApiRef::from_key(&r.key())) != whole || whole.is_none() {
            let help = "write them as `apiVersion: apps/v1` and `kind: DaemonSet`";
            errors.push(ParamError::fixed("", "`apiVersion` or `kind` is no version or kind", help));
        }
    }
}

/// The content of an object that is there, as it will be when the item's turn comes; `None` when it is not there.
pub fn present(view: &dyn View, object: &ApiRef) -> Result<Option<Value>, Stop> {
    let id = object.object();
    match view.state::<k8s::K8s>(&id.key)? {
        K8sState::Absent => Ok(None),
        K8sState::Present(digest) => {
            let content = view.content(&id.key, &digest)?;
            let read = k8s::from_text(&content);
            read.map(Some).ok_or_else(|| Stop::Failed(format!("{}: its text is no object", object.shown())))
        }
    }
}

/// The reason why an object that is missing is not there yet, or that nothing brings it.
pub fn missing(view: &dyn View, pointer: &str, object: &ApiRef) -> Stop {
    match view.may_appear(&object.object()) {
        Some(wait) => Stop::Deferred(wait),
        None => Stop::invalid_help(
            pointer,
            format!("{} is not there, and nothing before this resource brings it", object.shown()),
            "correct the name, or bring it with an earlier resource or a role in `requires`",
        ),
    }
}

/// The same wait with another reason.
fn because(wait: Wait, reason: String) -> Stop {
    Stop::Deferred(Wait { reason, ..wait })
}

/// Leaves out the values that the server assigns with this change, which differ with every dry run, unless the manifest sets them: the object keeps those
/// that it had. `now` is the object before, null for a new one.
fn without_assigned(made: Value, now: &Value, manifest: &Value) -> Value {
    let named = |path: &fields::FieldPath| fields::read(manifest, path).is_some();
    let mut known = made;
    for path in assigned(&known).into_iter().filter(|path| !named(path)) {
        // Where the server takes a value away, there is none to leave out.
        if fields::read(&known, &path).is_some() {
            // Where there is no such place, there is nothing to take away.
            let _nothing = fields::write(&mut known, &path, fields::read(now, &path).cloned());
        }
    }
    known
}

/// Where an object of this kind has values that the server draws.
fn assigned(object: &Value) -> Vec<fields::FieldPath> {
    let key = |name: &str| fields::Segment::Key(name.to_owned());
    match object.get("kind").and_then(Value::as_str) {
        Some("Service") => {
            let own =
                ["clusterIP", "clusterIPs", "healthCheckNodePort"].map(|name| vec![key("spec"), key(name)]);
            let ports = object.pointer("/spec/ports").and_then(Value::as_array).map(Vec::as_slice);
            let ports = fields::items(ports.unwrap_or_default()).unwrap_or_default();
            let ports = ports.into_iter().map(|port| vec![key("spec"), key("ports"), port, key("nodePort")]);
            own.into_iter().chain(ports).collect()
        }
        Some("Job") => {
            let labels = [key("spec"), key("template"), key("metadata"), key("labels")];
            let label = |name: &str| labels.iter().cloned().chain([key(name)]).collect();
            let names = ["controller-uid", "batch.kubernetes.io/controller-uid"];
            names.map(label).into_iter().chain([vec![key("spec"), key("selector")]]).collect()
        }
        _ => Vec::new(),
    }
}

/// Applies a whole manifest.
pub struct Apply<'a> {
    /// The manifest.
    pub manifest: &'a Value,
    /// Take fields from other managers.
    pub force: bool,
}

impl Apply<'_> {
    /// The object as the server would make it.
    pub fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let object = ApiRef::of(self.manifest)
            .ok_or_else(|| Stop::invalid("", "`apiVersion`, `kind` or `metadata.name` is missing"))?;
        let id = object.object();
        let now = view.state::<k8s::K8s>(&id.key)?;
        let manifest = self.manifest.to_string();
        let answer = view.api(&ApiProbe::Apply { manifest, force: self.force })?;
        let made = match answer.get("object") {
            Some(made) => k8s::normalised(made),
            None => return Err(self.refused(view, &object, &answer)),
        };
        let before = match assigned(&made).as_slice() {
            [] => Value::Null,
            _ => present(view, &object)?.unwrap_or_default(),
        };
        let made = without_assigned(made, &before, self.manifest);
        let made = match now {
            K8sState::Absent => made,
            K8sState::Present(_) => self.over_earlier(view, &object, made)?,
        };
        let content = Content::new(k8s::text(&made).into_bytes());
        let state = K8sState::Present(content.digest().clone());
        let mut wanted = WantedStates::one(id.clone(), state.clone()).with(content);
        let given_up = if now == K8sState::Absent { Vec::new() } else { gives_up(&answer) };
        if state == now && !given_up.is_empty() {
            wanted.owners_only.push(id);
        }
        wanted.notes.extend(given_up.iter().cloned());
        wanted.parts.push((object.object(), Vec::new()));
        if state != now || !given_up.is_empty() {
            wanted.calls = vec![ApiCall::Apply { manifest: self.manifest.clone(), force: self.force }];
            if self.force && now != K8sState::Absent {
                wanted.notes.extend(self.taken(view, &object, &made)?);
            }
        }
        Ok(wanted)
    }

    /// Names the managers of fields that are taken from them.
    fn taken(&self, view: &dyn View, object: &ApiRef, made: &Value) -> Result<Vec<String>, Stop> {
        let answer = view.api(&ApiProbe::Others(object.clone()))?;
        let Some(live) = answer.get("object") else { return Ok(Vec::new()) };
        let own = [answer.get("manager").and_then(Value::as_str).unwrap_or(FIELD_MANAGER), FIELD_MANAGER];
        let mut declared = fields::leaf_differences(&k8s::normalised(live), made);
        declared.retain(|field| fields::read(self.manifest, &field.path).is_some());
        let note = |field: fields::Field| {
            let path = fields::shown(&field.path);
            let by = owners(live, &field.path).into_iter().find(|by| !own.contains(&by.as_str()))?;
            let way = if is_hand(&by) { "was changed by" } else { "belongs to" };
            Some(format!("{}: {path} {way} `{by}`", object.shown()))
        };
        Ok(declared.into_iter().filter_map(note).collect())
    }

    /// The server answers for the object as it is now. What earlier items of this run change of it stays changed.
    fn over_earlier(&self, view: &dyn View, object: &ApiRef, made: Value) -> Result<Value, Stop> {
        if view.pending().is_none() {
            return Ok(made);
        }
        let live = match view.api(&ApiProbe::Get(object.clone()))? {
            Value::Null => Value::Null,
            live => k8s::normalised(&live),
        };
        let Some(base) = present(view, object)? else { return Ok(made) };
        if base == live {
            return Ok(made);
        }
        let changes = if live.is_null() {
            // An earlier item makes it: of what it makes, only what the manifest says becomes another.
            let mut found = fields::differences(&base, &k8s::normalised(self.manifest));
            found.retain(|field| field.after.is_some());
            found
        } else {
            fields::differences(&live, &made)
        };
        fields::with(&base, &changes).map(|new| k8s::normalised(&new)).map_err(Stop::failed)
    }

    /// The reason why the server would not make it.
    fn refused(&self, view: &dyn View, object: &ApiRef, answer: &Value) -> Stop {
        let shown = object.shown();
        let wait = view.may_appear(&object.object());
        if answer.get("no_kind").is_some() {
            let (version, kind) = (&object.api_version, &object.kind);
            return match wait {
                Some(wait) => because(wait, format!("the kind {kind} of {version} is not there yet")),
                None => Stop::invalid_help(
                    "/kind",
                    format!("the server knows no kind {kind} of {version}"),
                    missing_kind_help(version, kind),
                ),
            };
        }
        if answer.get("no_namespace").is_some() {
            let name = object.namespace.as_deref().unwrap_or_default();
            return match namespace_comes(view, name).or(wait) {
                Some(wait) => because(wait, format!("the namespace {name} is not there yet")),
                None => Stop::invalid_help(
                    "/metadata/namespace",
                    format!("there is no namespace {name}"),
                    format!("make it with an earlier resource: `namespace: {{name: {name}}}`"),
                ),
            };
        }
        if let Some(conflicts) = answer.get("conflicts").and_then(Value::as_array) {
            let text = |c: &Value, key: &str| c.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
            let owned: Vec<String> = conflicts
                .iter()
                .map(|c| format!("{} belongs to `{}`", text(c, "field"), text(c, "manager")))
                .collect();
            let own = answer.get("manager").and_then(Value::as_str).unwrap_or(FIELD_MANAGER);
            let words = |owned: &[String]| {
                format!("{shown}: `{own}` would take fields of others: {}", owned.join(", "))
            };
            let open: Vec<String> = conflicts
                .iter()
                .map(|c| {
                    format!(
                        "{} belongs to `{}`",
                        without_values(object, &text(c, "field")),
                        text(c, "manager")
                    )
                })
                .collect();
            let help = "leave these fields out, or write `force_conflicts: true` to take them";
            return Stop::invalid_help("", words(&owned), help).openly(words(&open));
        }
        match answer.get("invalid") {
            Some(reply) => {
                let reply = reply.as_str().map_or_else(|| reply.to_string(), str::to_owned);
                Stop::invalid("", format!("the server refuses {shown}: {reply}"))
            }
            None => Stop::Failed(format!("{shown}: the answer of the server is not understood")),
        }
    }
}

/// The fields of an object that an apply gives up, for people: they that stay, and are no longer the project's. Those of the same managers are named together.
fn gives_up(answer: &Value) -> Vec<String> {
    let fields = answer.get("gives_up").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut by_managers: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    for field in fields {
        let managers = field.get("managers").and_then(Value::as_array).into_iter().flatten();
        let managers: Vec<&str> = managers.filter_map(Value::as_str).collect();
        let name = field.get("field").and_then(Value::as_str).unwrap_or_default().to_owned();
        match by_managers.iter_mut().find(|(of, _)| *of == managers) {
            Some((_, names)) => names.push(name),
            None => by_managers.push((managers, vec![name])),
        }
    }
    let note = |(managers, names): &(Vec<&str>, Vec<String>)| {
        staying(names, Some("no longer this project's"), managers)
    };
    by_managers.iter().map(note).collect()
}

/// The part of a path that can hold no value. The names of a Secret's keys are none; of other objects only the first name is surely the kind's own.
fn without_values(object: &ApiRef, path: &str) -> String {
    let names = path.split('[').next().unwrap_or_default();
    let own = if object.kind == "Secret" { usize::MAX } else { 2 };
    names.split('.').take(own).collect::<Vec<_>>().join(".")
}

/// Whether an earlier item of this run makes the namespace, or may make it.
pub fn namespace_comes(view: &dyn View, name: &str) -> Option<Wait> {
    let id = ObjectId::new("k8s", format!("v1/Namespace/{name}"));
    let made = || view.state::<k8s::K8s>(&id.key).is_ok_and(|s| s != K8sState::Absent);
    view.may_appear(&id).or_else(|| view.pending().filter(|_| made()))
}

/// Sets fields of an object that is there, or takes them away (`None`); all else of it stays as it is.
pub fn set_fields(
    view: &dyn View,
    pointer: &str,
    object: &ApiRef,
    changes: &[(fields::FieldPath, Option<Value>)],
) -> Result<WantedStates, Stop> {
    let Some(now) = present(view, object)? else { return Err(missing(view, pointer, object)) };
    let mut new = now.clone();
    for (path, value) in changes {
        let field = fields::shown(path);
        let wrong = |why| Stop::invalid(pointer, format!("{}: {field} cannot be set: {why}", object.shown()));
        fields::write(&mut new, path, value.clone()).map_err(wrong)?;
        if value.is_none() {
            drop_empty(&mut new, path).map_err(wrong)?;
        }
    }
    if !fields::differences(&now, &new).is_empty() {
        new = Patch { object, pointer, now: &now, new }.retained(view)?;
    }
    // Items of a list in another order are no difference.
    let differ = !fields::differences(&now, &new).is_empty();
    let notes = if differ { by_hand(view, object, &now, &new, changes)? } else { Vec::new() };
    let new = if differ { k8s::normalised(&new) } else { now };
    let content = Content::new(k8s::text(&new).into_bytes());
    let wanted =
        WantedStates::one(object.object(), K8sState::Present(content.digest().clone())).with(content);
    let parts = changes.iter().map(|(path, _)| (object.object(), path.clone())).collect();
    Ok(WantedStates { notes, parts, ..wanted })
}

/// Names the tools with which people have changed these fields, where they differ from the wanted ones.
fn by_hand(
    view: &dyn View,
    object: &ApiRef,
    now: &Value,
    new: &Value,
    changes: &[(fields::FieldPath, Option<Value>)],
) -> Result<Vec<String>, Stop> {
    let same = |path: &fields::FieldPath| match (fields::read(now, path), fields::read(new, path)) {
        (Some(now), Some(new)) => fields::differences(now, new).is_empty(),
        (now, new) => now.is_none() && new.is_none(),
    };
    let live = view.api(&ApiProbe::Get(object.clone()))?;
    let note = |path: &fields::FieldPath| {
        let tool = hand(&live, path)?;
        Some(format!("{}: {} was changed by `{tool}`", object.shown(), fields::shown(path)))
    };
    Ok(changes.iter().map(|(path, _)| path).filter(|path| !same(path)).filter_map(note).collect())
}

/// A value as it is with all that is wanted in it: what the server or others add to a map, and to items of a list that have a key, stays.
pub fn merged(now: Option<&Value>, wanted: &Value) -> Value {
    match (now, wanted) {
        (now, Value::Object(wanted)) => {
            let mut all = now.and_then(Value::as_object).cloned().unwrap_or_default();
            for (key, value) in wanted {
                if value.is_null() {
                    all.shift_remove(key);
                } else {
                    let new = merged(all.get(key), value);
                    all.insert(key.clone(), new);
                }
            }
            Value::Object(all)
        }
        (Some(Value::Array(now)), Value::Array(list)) => {
            let (Some(old), Some(new)) = (fields::items(now), fields::items(list)) else {
                return wanted.clone();
            };
            let before = |key: &fields::Segment| old.iter().position(|o| o == key).and_then(|at| now.get(at));
            Value::Array(new.iter().zip(list).map(|(key, value)| merged(before(key), value)).collect())
        }
        _ => wanted.clone(),
    }
}

/// The server keeps no empty list and no empty map of labels: they go with the last entry.
fn drop_empty(object: &mut Value, path: &[fields::Segment]) -> Result<(), fields::FieldError> {
    let Some((_, parent)) = path.split_last() else { return Ok(()) };
    let empty = match (fields::read(object, parent), parent.last()) {
        (Some(Value::Array(list)), _) => list.is_empty(),
        (Some(Value::Object(map)), Some(fields::Segment::Key(name))) => {
            map.is_empty() && ["labels", "annotations", "data", "nodeSelector"].contains(&name.as_str())
        }
        _ => false,
    };
    if empty { fields::write(object, parent, None) } else { Ok(()) }
}

/// Labels or annotations by name; what has no value is taken away.
pub type Marks = std::collections::BTreeMap<String, Option<String>>;

/// The paths to these labels or annotations, with their values.
pub fn marks(part: &str, marks: &Marks) -> Vec<(fields::FieldPath, Option<Value>)> {
    let key = |name: &str| fields::Segment::Key(name.to_owned());
    let way = |name: &str| vec![key("metadata"), key(part), key(name)];
    marks.iter().map(|(name, value)| (way(name), value.clone().map(Value::String))).collect()
}

/// Those of them that are to be there, as a manifest has them.
pub fn given(marks: &Marks) -> Value {
    let there = marks.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?.into())));
    Value::Object(there.collect())
}

/// Refuses what can be no name of a label or an annotation, and values that no label can have.
pub fn check_marks(part: &str, marks: &Marks, errors: &mut Vec<ParamError>) {
    let word = |text: &str, most: usize| {
        let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        let ends = [text.bytes().next(), text.bytes().last()];
        let ends = ends.into_iter().all(|b| b.is_some_and(|b| b.is_ascii_alphanumeric()));
        text.len() <= most && ends && text.bytes().all(good)
    };
    for (name, value) in marks {
        let pointer = format!("/{part}/{}", pointer_word(name));
        let (prefix, rest) = name.split_once('/').map_or((None, name.as_str()), |(p, r)| (Some(p), r));
        if !word(rest, 63) || prefix.is_some_and(|p| !word(p, 253)) {
            let help = "write it as `example.org/name`";
            errors.push(ParamError::new(&pointer, format!("`{name}` is not a valid name of a label"), help));
        }
        let bad = |v: &String| part == "labels" && !v.is_empty() && !word(v, 63);
        if value.as_ref().is_some_and(bad) {
            let help = "at most 63 letters, digits, `-`, `_` and `.`; a longer text is an annotation";
            errors.push(ParamError::new(&pointer, "a label cannot have this value", help));
        }
    }
}
