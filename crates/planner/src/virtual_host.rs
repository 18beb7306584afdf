//! The virtual host: the states that were read, overlaid with the results of earlier items.

mod relinked;
mod view;

use crate::names::ObjectNames;
use crate::{AlteredFacts, Knowledge};
use converge_objects::{chooses_packages, traits_of};
use converge_resource::{
    Answer, Change, Claim, Content, Digest, ObjectId, Observation, PackedContents, Probe, RunsWith, State,
    Stop, View, Wait,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Directories in which Debian packages ship no files (Debian Policy 9.1, FHS): a package does not bring a path there.
const NOT_PACKAGED: &[&str] =
    &["/root/", "/home/", "/srv/", "/usr/local/", "/tmp/", "/var/tmp/", "/run/", "/mnt/", "/media/"];

/// Whether a Debian package may ship a file at this path.
pub fn may_be_packaged(path: &str) -> bool {
    !NOT_PACKAGED.iter().any(|dir| path.starts_with(dir))
}

/// A planned item that `restart_on` and `reload_on` may name.
#[derive(Clone, Debug)]
struct RestartCause {
    /// Its objects, and whether their states count.
    objects: Vec<(ObjectId, bool)>,
    /// The text that counts instead of the states.
    basis: Vec<String>,
    changed: bool,
    deferred: Option<Wait>,
}

/// The directories above an object that lies at a path, from the lowest one up.
pub(crate) fn above(object: &ObjectId) -> impl Iterator<Item = ObjectId> {
    let at_path = traits_of(object).at_path;
    let ends = object.key.rmatch_indices('/').filter(move |(at, _)| at_path && *at > 0);
    ends.filter_map(|(at, _)| Some(ObjectId::new(&object.kind, object.key.get(..at)?)))
}

/// The template of an object that is an instance of one, or one itself.
fn template(object: &ObjectId) -> Option<ObjectId> {
    converge_objects::object(&object.kind)?.links().template(&object.key)
}

/// Whether an object in the state `found` gets the state `made` with the one that brings it: it is absent, or exists only because
/// of that one and is removed with it.
fn follows(object: &ObjectId, found: &State, made: &State) -> bool {
    let bare = || converge_objects::object(&object.kind).is_some_and(|kind| kind.links().bare(found));
    found.is_absent() || (made.is_absent() && bare())
}

/// The key of an item in the record of a unit's inputs.
fn key_of(address: &str) -> String {
    Digest::of(address.as_bytes()).as_str().chars().take(12).collect()
}

/// A host as it will be when the next item's turn comes.
pub struct VirtualHost<'a> {
    known: &'a Knowledge,
    overlay: BTreeMap<ObjectId, State>,
    /// The facets that items decide, by their claims or by changes.
    given: BTreeSet<(ObjectId, String)>,
    /// Objects of the overlay that no item determines: their states follow from changes of others.
    followed: BTreeSet<ObjectId>,
    /// The states that instances of these templates get with them.
    templates: BTreeMap<ObjectId, State>,
    /// Objects that answers showed besides those that were asked for, in their state before this run.
    incidental: BTreeMap<ObjectId, State>,
    /// The parts of a question that some items ask together, and the index of the present item's part.
    stages: Vec<String>,
    stage: Option<usize>,
    contents: BTreeMap<Digest, Content>,
    /// Contents that earlier items unpack, as far as later ones have to know them.
    packed: Vec<PackedContents>,
    /// Those that later items have read.
    unpacked: RefCell<BTreeMap<Digest, Content>>,
    names: ObjectNames,
    /// Objects that a deferred item may touch.
    unknown: BTreeMap<ObjectId, Wait>,
    /// Objects that a pending command declares that it may create.
    promised: BTreeMap<ObjectId, Wait>,
    /// Objects that earlier items change.
    changed: BTreeMap<ObjectId, Wait>,
    /// The reason why an object of a kind may be brought.
    bringers: BTreeMap<&'static str, Wait>,
    pending: Option<Wait>,
    foreign: Option<Wait>,
    /// Objects that were or may be changed, in order: the object, whether foreign code does it, and by which item.
    acts: Vec<(ObjectId, bool, Wait)>,
    /// Facts that differ from those that were read.
    altered: AlteredFacts,
    /// Directories below which every path becomes another one, with the reason.
    covered: Vec<(String, Wait)>,
    /// Links that earlier items lead elsewhere or replace.
    relinked: Vec<relinked::RelinkedPath>,
    /// The states that earlier items manage, changed or not.
    settled: BTreeMap<ObjectId, State>,
    /// Questions of earlier items are still open.
    open: bool,
    done: BTreeMap<(String, String), RestartCause>,
    role: String,
    /// The address of the present item, and whether it is guarded: a guarded item makes its restarts itself.
    item: String,
    guarded: bool,
    /// All items of the run that restart a unit, in order.
    restarters: BTreeMap<ObjectId, Vec<String>>,
    /// The inputs that the planned ones among them have the unit run with.
    runs_with: BTreeMap<ObjectId, Vec<UnitInput>>,
}

/// The inputs that a planned item has a unit run with.
#[derive(Clone, Debug)]
struct UnitInput {
    /// Its key in the record.
    key: String,
    /// Its role: the names belong to it.
    role: String,
    with: RunsWith,
}

impl<'a> VirtualHost<'a> {
    /// The host in the state that was read.
    pub fn new(known: &'a Knowledge) -> Self {
        Self {
            known,
            overlay: BTreeMap::new(),
            given: BTreeSet::new(),
            followed: BTreeSet::new(),
            templates: BTreeMap::new(),
            incidental: BTreeMap::new(),
            stages: Vec::new(),
            stage: None,
            contents: BTreeMap::new(),
            packed: Vec::new(),
            unpacked: RefCell::default(),
            names: ObjectNames::default(),
            unknown: BTreeMap::new(),
            promised: BTreeMap::new(),
            changed: BTreeMap::new(),
            bringers: BTreeMap::new(),
            pending: None,
            foreign: None,
            acts: Vec::new(),
            altered: AlteredFacts::default(),
            covered: Vec::new(),
            relinked: Vec::new(),
            settled: BTreeMap::new(),
            open: false,
            done: BTreeMap::new(),
            role: String::new(),
            item: String::new(),
            guarded: false,
            restarters: BTreeMap::new(),
            runs_with: BTreeMap::new(),
        }
    }

    /// Sets the items that restart each unit in this run, as far as they are known.
    #[must_use]
    pub fn with_restarters(self, restarters: BTreeMap<ObjectId, Vec<String>>) -> Self {
        Self { restarters, ..self }
    }

    /// Sets the next item.
    pub fn enter_item(&mut self, address: &str) {
        address.clone_into(&mut self.item);
        self.guarded = false;
    }

    /// Marks the present item as guarded, since it names a guarded one.
    pub fn guard(&mut self) {
        self.guarded = true;
    }

    /// Records inputs that the present item has the unit run with.
    pub fn runs_with(&mut self, unit: ObjectId, with: RunsWith) {
        let input = UnitInput { key: key_of(&self.item), role: self.role.clone(), with };
        self.runs_with.entry(unit).or_default().push(input);
    }

    /// Sets the role of the next items: names of `restart_on` belong to it.
    pub fn enter_role(&mut self, role: &str) {
        self.role = role.to_owned();
    }

    /// Sets the parts of a question that some items ask together.
    pub fn ask_together(&mut self, stages: Vec<String>) {
        self.stages = stages;
    }

    /// Sets the part of the present item, if it has one.
    pub fn enter_stage(&mut self, stage: Option<usize>) {
        self.stage = stage;
    }

    /// Takes objects that an answer showed besides the one that was asked for.
    pub fn add_incidental(&mut self, incidental: Vec<(ObjectId, State)>) {
        self.incidental.extend(incidental);
    }

    /// Lays a result over the host.
    pub fn set(&mut self, object: ObjectId, state: State) {
        self.unknown.remove(&object);
        self.promised.remove(&object);
        self.followed.remove(&object);
        self.relink(&object, &state);
        let kind = converge_objects::object(&object.kind);
        let content = kind.and_then(|k| k.content(&state)).and_then(|d| self.contents.get(&d));
        let content =
            content.or_else(|| kind.and_then(|k| k.content(&state)).and_then(|d| self.known.content(&d)));
        self.names.set(self.known, &object, &state, content);
        let brought = kind.map(|k| k.links().brings(&object.key, &state, content)).unwrap_or_default();
        self.is_here(&object);
        self.overlay.insert(object, state);
        for (object, state) in brought {
            if template(&object).as_ref() == Some(&object) {
                self.templates.insert(object, state);
                continue;
            }
            let Ok(found) = self.observed(&object) else { continue };
            if follows(&object, &found.state, &state) {
                self.overlay.insert(object, state);
            }
        }
    }

    /// The reason to wait if a path above this one is not known yet: it may be a link to an existing directory.
    fn unknown_above(&self, object: &ObjectId) -> Option<&Wait> {
        above(object).find_map(|directory| self.unknown.get(&directory))
    }

    /// The earlier item that changes a directory above this object.
    fn changed_above(&self, object: &ObjectId) -> Option<&Wait> {
        above(object).find_map(|directory| self.changed.get(&directory))
    }

    /// Records an item that is not known yet: it may turn out to change something.
    pub fn leave_open(&mut self) {
        self.open = true;
    }

    /// Records the names that an item uses for the objects that it manages.
    pub fn call(&mut self, claims: &[Claim]) {
        for claim in claims {
            self.names.call(self.known, &claim.object);
            self.given.insert((self.one(&claim.object), claim.facet.to_owned()));
        }
    }

    /// The name that the run uses for an object.
    pub fn one(&self, object: &ObjectId) -> ObjectId {
        self.names.one(self.known, object)
    }

    /// The real name of an object.
    pub(crate) fn real(&self, object: &ObjectId) -> ObjectId {
        self.names.real(self.known, object)
    }

    /// Claims, with objects under the names that the run uses.
    pub fn on_one(&self, mut claims: Vec<Claim>) -> Vec<Claim> {
        for claim in &mut claims {
            claim.object = self.one(&claim.object);
        }
        claims
    }

    /// Adds new content.
    pub fn add_content(&mut self, content: Content) {
        self.contents.insert(content.digest().clone(), content);
    }

    /// Adds contents that an item unpacks on the host.
    pub fn add_packed(&mut self, packed: PackedContents) {
        self.packed.push(packed);
    }

    /// Records that an item changes something.
    pub fn note_change(&mut self, address: &str, changes: &[Change]) {
        let wait = |reason: String| Wait { item: address.to_owned(), reason };
        let first = wait(format!("`{address}` changes this host first"));
        self.pending = Some(first.clone());
        self.altered.by_changes(address, changes);
        for change in changes.iter().filter(|c| c.from != c.to) {
            self.follow(change);
            let attributes = converge_objects::object(&change.object.kind).map(|o| o.attributes(change));
            let facets = attributes.into_iter().flatten().map(|a| (change.object.clone(), a.name));
            self.given.extend(facets);
        }
        for change in changes {
            let opaque = converge_objects::object(&change.object.kind).is_none_or(|o| o.opaque(change));
            self.acts.push((change.object.clone(), opaque, first.clone()));
        }
        let mut names: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
        for change in changes.iter().filter(|c| c.from != c.to) {
            self.changed.insert(change.object.clone(), wait(format!("`{address}` changes it first")));
            if chooses_packages(&change.object) {
                self.bringers.insert(
                    "package",
                    wait(format!("the change of {}, by which packages are chosen,", change.object.key)),
                );
            }
            let object = converge_objects::object(&change.object.kind);
            if object.is_none_or(|o| o.opaque(change)) {
                self.foreign = Some(wait(format!("`{address}` runs package scripts or commands first")));
            }
            let Some(bringer) = object.and_then(|o| o.effects().may_bring(change)) else { continue };
            for kind in bringer.kinds {
                names.entry((kind, bringer.verb, &change.object.kind)).or_default().push(&change.object.key);
            }
        }
        for ((kind, verb, what), names) in names {
            let list = if names.len() > 3 { format!("{} {what}s", names.len()) } else { names.join(", ") };
            self.bringers.insert(kind, wait(format!("{verb} {list}")));
        }
    }

    /// Records that a pending item may create this object.
    pub fn promise(&mut self, object: ObjectId, address: &str) {
        let reason = format!("`{address}` may make {}", object.key);
        self.altered.by_deferred(address, std::slice::from_ref(&object));
        self.promised.insert(object, Wait { item: address.to_owned(), reason });
    }

    /// Records a deferred item: the states that it claims are unknown from here on.
    pub fn defer(&mut self, address: &str, objects: &[ObjectId]) {
        let wait = Wait { item: address.to_owned(), reason: format!("`{address}` is deferred itself") };
        self.altered.by_deferred(address, objects);
        for object in objects {
            self.acts.push((object.clone(), !traits_of(object).runs_no_code, wait.clone()));
            self.unknown.insert(object.clone(), wait.clone());
            self.names.defer(object, &wait);
            let offered =
                Wait { item: address.to_owned(), reason: format!("`{address}`, which is deferred,") };
            let offers =
                traits_of(object).offers.iter().copied().chain(chooses_packages(object).then_some("package"));
            self.bringers.extend(offers.map(|kind| (kind, offered.clone())));
        }
        if objects.is_empty() || !objects.iter().all(|object| traits_of(object).runs_no_code) {
            self.foreign = Some(wait.clone());
        }
        self.pending = Some(wait);
    }

    /// Remembers a resource for `restart_on`: its objects, and the text that counts instead of their states, if it has one.
    pub fn finish(
        &mut self,
        name: &str,
        (objects, basis): (Vec<ObjectId>, Option<String>),
        changed: bool,
        deferred: bool,
    ) {
        let wait = Wait { item: name.to_owned(), reason: format!("`{name}` is deferred itself") };
        let entry = self.done.entry((self.role.clone(), name.to_owned())).or_insert_with(|| RestartCause {
            objects: Vec::new(),
            basis: Vec::new(),
            changed: false,
            deferred: None,
        });
        entry.objects.extend(objects.into_iter().map(|object| (object, basis.is_none())));
        entry.basis.extend(basis);
        entry.changed |= changed;
        if deferred {
            entry.deferred = Some(wait);
        }
    }

    /// Records a state that an item manages.
    pub fn settle(&mut self, object: &ObjectId, state: &State) {
        self.followed.remove(object);
        self.settled.insert(object.clone(), state.clone());
    }

    /// Applies the effects that a change of one object has on others.
    fn follow(&mut self, change: &Change) {
        let Some(object) = converge_objects::object(&change.object.kind) else { return };
        if let Some(place) = object.links().covers(change) {
            let reason = format!("`{}` changes what is mounted at {place} first", self.item);
            self.covered.push((format!("{place}/"), Wait { item: self.item.clone(), reason }));
        }
        if !converge_objects::is_followed(change) {
            return;
        }
        let found = self.known.answers().filter_map(|(probe, answer)| match (probe, answer) {
            (Probe::Object(id), Answer::Object(found)) if !self.overlay.contains_key(id) => {
                Some((id, &found.state))
            }
            _ => None,
        });
        let all = found.chain(&self.overlay).filter(|(id, _)| **id != change.object);
        let followed: Vec<(ObjectId, State)> = all
            .filter_map(|(id, state)| Some((id.clone(), converge_objects::follows(id, state, change)?)))
            .collect();
        let determined = |id: &ObjectId| self.overlay.contains_key(id) || self.settled.contains_key(id);
        let new: Vec<ObjectId> =
            followed.iter().map(|(id, _)| id.clone()).filter(|id| !determined(id)).collect();
        self.followed.extend(new);
        self.overlay.extend(followed);
    }

    /// The facts that earlier items alter.
    pub fn altered(&self) -> &AlteredFacts {
        &self.altered
    }

    /// All content that earlier items made, and what was read of it.
    pub fn into_contents(self) -> BTreeMap<Digest, Content> {
        let mut all = self.contents;
        all.extend(self.unpacked.into_inner());
        all
    }

    /// The state of an object, whether or not there is a way to it.
    pub(crate) fn found(&self, object: &ObjectId) -> Result<Observation, Stop> {
        let led = self.led_elsewhere(object)?;
        let object = &self.one(object);
        if let Some(wait) = self.unknown.get(object) {
            return Err(Stop::Deferred(wait.clone()));
        }
        if object.kind == "path"
            && let Some((_, wait)) =
                self.covered.iter().rev().find(|(place, _)| object.key.starts_with(place.as_str()))
        {
            return Err(Stop::Deferred(wait.clone()));
        }
        if let Some(state) = self.overlay.get(object) {
            // A state that this run is about to write is newer than any that was read.
            return Ok(Observation::new(state.clone(), None));
        }
        let made = template(object).and_then(|template| self.templates.get(&template));
        match (led.map_or_else(|| self.known.observed(object), Ok), self.incidental.get(object)) {
            (Ok(found), _) if made.is_some_and(|made| follows(object, &found.state, made)) => {
                Ok(Observation::new(made.cloned().unwrap_or(found.state), None))
            }
            (Err(Stop::Ask(_)), Some(state)) => Ok(Observation::new(state.clone(), None)),
            (Ok(found), _) if found.state.is_absent() => {
                match self.names.open(object).or(self.unknown_above(object)) {
                    Some(wait) => Err(Stop::Deferred(wait.clone())),
                    None => Ok(found),
                }
            }
            // A directory above it is set right first, by an item of this run: another owner, or no longer a link.
            (Err(Stop::Failed(why)), _) => Err(match self.changed_above(object) {
                Some(wait) => Stop::Deferred(Wait { reason: why, ..wait.clone() }),
                None => Stop::Failed(why),
            }),
            (found, _) => found,
        }
    }
}
