//! The virtual host: what was seen, with the results of earlier items laid over it.

use crate::Knowledge;
use converge_resource::{
    Answer, ApiProbe, Change, Content, Digest, Named, ObjectId, Observed, Probe, RunAnswer, State, Stop,
    View, Wait,
};
use std::collections::{BTreeMap, BTreeSet};

/// Where Debian packages ship no files (Debian Policy 9.1, FHS): a path there is not brought by a package.
const NOT_PACKAGED: &[&str] =
    &["/root/", "/home/", "/srv/", "/usr/local/", "/tmp/", "/var/tmp/", "/run/", "/mnt/", "/media/"];

/// What `restart_on` may name.
#[derive(Clone, Debug)]
struct Done {
    /// Its objects, and whether their states count.
    objects: Vec<(ObjectId, bool)>,
    /// What counts in their place.
    basis: Vec<String>,
    changed: bool,
    deferred: Option<Wait>,
}

/// A host as it will be when the next item's turn comes.
pub struct VirtualHost<'a> {
    known: &'a Knowledge,
    overlay: BTreeMap<ObjectId, State>,
    contents: BTreeMap<Digest, Content>,
    /// Objects that a deferred item may touch.
    unknown: BTreeMap<ObjectId, Wait>,
    /// Objects that a pending command says it may make.
    promised: BTreeMap<ObjectId, Wait>,
    /// Objects that earlier items change.
    changed: BTreeMap<ObjectId, Wait>,
    /// By kind of object: what may bring one.
    bringers: BTreeMap<&'static str, Wait>,
    pending: Option<Wait>,
    /// Questions of earlier items are still open.
    open: bool,
    done: BTreeMap<(String, String), Done>,
    role: String,
}

impl<'a> VirtualHost<'a> {
    /// The host as it was seen.
    pub fn new(known: &'a Knowledge) -> Self {
        Self {
            known,
            overlay: BTreeMap::new(),
            contents: BTreeMap::new(),
            unknown: BTreeMap::new(),
            promised: BTreeMap::new(),
            changed: BTreeMap::new(),
            bringers: BTreeMap::new(),
            pending: None,
            open: false,
            done: BTreeMap::new(),
            role: String::new(),
        }
    }

    /// The role whose items come next: names of `restart_on` belong to it.
    pub fn enter_role(&mut self, role: &str) {
        self.role = role.to_owned();
    }

    /// Lays a result over the host.
    pub fn set(&mut self, object: ObjectId, state: State) {
        self.unknown.remove(&object);
        self.promised.remove(&object);
        let kind = converge_objects::object(&object.kind);
        let content = kind.and_then(|k| k.content(&state)).and_then(|d| self.contents.get(&d));
        let brought = kind.map(|k| k.brings(&object.key, &state, content)).unwrap_or_default();
        self.overlay.insert(object, state);
        for (object, state) in brought {
            let Ok(seen) = self.observed(&object) else { continue };
            let goes = || converge_objects::object(&object.kind).is_some_and(|k| k.bare(&seen.state));
            if seen.state.is_absent() || (state.is_absent() && goes()) {
                self.overlay.insert(object, state);
            }
        }
    }

    /// An item is not known yet: it may turn out to change something.
    pub fn leave_open(&mut self) {
        self.open = true;
    }

    /// Makes new content known.
    pub fn add_content(&mut self, content: Content) {
        self.contents.insert(content.digest().clone(), content);
    }

    /// Remembers that an item changes something.
    pub fn note_change(&mut self, address: &str, changes: &[Change]) {
        let wait = |reason: String| Wait { item: address.to_owned(), reason };
        self.pending = Some(wait(format!("`{address}` changes this host first")));
        let mut names: BTreeMap<(&str, &str, &str), Vec<&str>> = BTreeMap::new();
        for change in changes.iter().filter(|c| c.from != c.to) {
            self.changed.insert(change.object.clone(), wait(format!("`{address}` changes it first")));
            let object = converge_objects::object(&change.object.kind);
            let Some(bringer) = object.and_then(|o| o.may_bring(change)) else { continue };
            for kind in bringer.kinds {
                names.entry((kind, bringer.verb, &change.object.kind)).or_default().push(&change.object.key);
            }
        }
        for ((kind, verb, what), names) in names {
            let list = if names.len() > 3 { format!("{} {what}s", names.len()) } else { names.join(", ") };
            self.bringers.insert(kind, wait(format!("{verb} {list}")));
        }
    }

    /// Remembers that a pending item may make this object, though nothing can know.
    pub fn promise(&mut self, object: ObjectId, address: &str) {
        let reason = format!("`{address}` may make {}", object.key);
        self.promised.insert(object, Wait { item: address.to_owned(), reason });
    }

    /// Remembers a deferred item: what it claims is unknown from here on.
    pub fn defer(&mut self, address: &str, objects: &[ObjectId]) {
        let wait = Wait { item: address.to_owned(), reason: format!("`{address}` is deferred itself") };
        for object in objects {
            self.unknown.insert(object.clone(), wait.clone());
            let offers = converge_objects::object(&object.kind).map(|o| o.offers()).unwrap_or_default();
            let offered =
                Wait { item: address.to_owned(), reason: format!("`{address}`, which is deferred,") };
            self.bringers.extend(offers.iter().map(|kind| (*kind, offered.clone())));
        }
        self.pending = Some(wait);
    }

    /// Remembers a resource for `restart_on`: its objects, and what stands for them where it says so itself.
    pub fn finish(
        &mut self,
        name: &str,
        (objects, basis): (Vec<ObjectId>, Option<String>),
        changed: bool,
        deferred: bool,
    ) {
        let wait = Wait { item: name.to_owned(), reason: format!("`{name}` is deferred itself") };
        let entry = self.done.entry((self.role.clone(), name.to_owned())).or_insert_with(|| Done {
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

    /// All content that earlier items made.
    pub fn into_contents(self) -> BTreeMap<Digest, Content> {
        self.contents
    }
}

impl View for VirtualHost<'_> {
    fn observed(&self, object: &ObjectId) -> Result<Observed, Stop> {
        if let Some(wait) = self.unknown.get(object) {
            return Err(Stop::Deferred(wait.clone()));
        }
        if let Some(state) = self.overlay.get(object) {
            // What this run is about to write is newer than anything that was seen.
            return Ok(Observed { state: state.clone(), moment: None });
        }
        self.known.observed(object)
    }

    fn content(&self, path: &str, digest: &Digest) -> Result<Content, Stop> {
        if let Some(content) = self.contents.get(digest).or_else(|| self.known.content(digest)) {
            return Ok(content.clone());
        }
        let probe = Probe::Content(path.to_owned());
        match self.known.answer(&probe) {
            None => Err(Stop::Ask(vec![probe])),
            Some(Answer::Content(None)) => Err(Stop::Failed(format!(
                "{path} is above {} KiB: too large to be edited",
                Probe::CONTENT_LIMIT / 1024
            ))),
            Some(Answer::Failed(why)) => Err(Stop::Failed(format!("cannot read {path}: {why}"))),
            Some(_) => Err(Stop::Failed(format!("{path} changed while it was looked at; run again"))),
        }
    }

    fn run(&self, probe: &Probe) -> Result<RunAnswer, Stop> {
        match self.known.answer(probe) {
            None => Err(Stop::Ask(vec![probe.clone()])),
            Some(Answer::Run(answer)) => Ok(answer.clone()),
            Some(Answer::Failed(why)) => Err(Stop::Failed(why.clone())),
            Some(_) => Err(Stop::Failed("the answer is of another sort".to_owned())),
        }
    }

    fn api(&self, probe: &ApiProbe) -> Result<serde_json::Value, Stop> {
        if let Some(wait) = self.known.absent() {
            return Err(Stop::Deferred(wait.clone()));
        }
        let probe = Probe::Api(probe.clone());
        match self.known.answer(&probe) {
            None => Err(Stop::Ask(vec![probe])),
            Some(Answer::Api(answer)) => Ok(answer.clone()),
            Some(Answer::Failed(why)) => Err(Stop::Failed(why.clone())),
            Some(_) => Err(Stop::Failed("the answer is of another sort".to_owned())),
        }
    }

    fn may_appear(&self, object: &ObjectId) -> Option<Wait> {
        if let Some(wait) = self.promised.get(object).or_else(|| self.known.coming(object)) {
            return Some(wait.clone());
        }
        let bringer = self.bringers.get(object.kind.as_str())?;
        let outside = object.kind == "path"
            && NOT_PACKAGED.iter().any(|dir| format!("{}/", object.key).starts_with(dir));
        (!outside).then(|| Wait {
            item: bringer.item.clone(),
            reason: format!("{} may bring {}", bringer.reason, object.key),
        })
    }

    fn changed(&self, object: &ObjectId) -> Option<Wait> {
        self.changed.get(object).cloned()
    }

    fn settled(&self) -> bool {
        !self.open
    }

    fn pending(&self) -> Option<Wait> {
        self.pending.clone()
    }

    fn named(&self, name: &str) -> Result<Named, Stop> {
        let Some(done) = self.done.get(&(self.role.clone(), name.to_owned())) else {
            let known: BTreeSet<&str> =
                self.done.keys().filter(|(role, _)| *role == self.role).map(|(_, n)| n.as_str()).collect();
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Stop::invalid_help(
                "",
                format!("no earlier resource of this role is called `{name}`"),
                format!("name one of: {known}"),
            ));
        };
        if let Some(wait) = &done.deferred {
            return Err(Stop::Deferred(wait.clone()));
        }
        let mut lines = String::new();
        let mut newest = None;
        for (object, counts) in &done.objects {
            let observed = self.observed(object)?;
            if *counts {
                lines.push_str(&format!("{}:{}\t{}\n", object.kind, object.key, observed.state));
            }
            newest = newest.max(observed.moment);
        }
        done.basis.iter().for_each(|basis| lines.push_str(&format!("={basis}\n")));
        Ok(Named { digest: Digest::of(lines.as_bytes()).to_string(), changed: done.changed, newest })
    }
}
