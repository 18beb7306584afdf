//! A virtual host for tests: observations, by hand.

use converge_objects::{GroupState, PathState, UserState};
use converge_resource::{
    ApiProbe, Content, Digest, LocalProbe, NamedResource, ObjectId, Observation, Probe, RunAnswer, State,
    Stop, View, Wait, WantedStates, parse_params,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Default)]
pub struct FakeView {
    states: BTreeMap<ObjectId, Observation>,
    contents: BTreeMap<Digest, Content>,
    answers: BTreeMap<Probe, RunAnswer>,
    api: BTreeMap<ApiProbe, Value>,
    local: BTreeMap<LocalProbe, Value>,
    may: BTreeSet<ObjectId>,
    changed: BTreeSet<ObjectId>,
    pending: bool,
    acts: Vec<(ObjectId, bool)>,
    foreign: bool,
    stages: Option<(Vec<String>, usize)>,
    determined: BTreeMap<ObjectId, State>,
    named: BTreeMap<String, NamedResource>,
    strict: bool,
}

fn wait() -> Wait {
    Wait { item: "role/earlier".into(), reason: "an earlier resource may bring it".into() }
}

impl FakeView {
    /// A host with `/` only; everything else is absent.
    pub fn new() -> Self {
        Self::default().dir("/").dir("/etc")
    }
    /// A host that must be asked for everything that is not said.
    pub fn strict() -> Self {
        Self { strict: true, ..Self::new() }
    }
    pub fn has(mut self, id: ObjectId, state: impl Into<State>) -> Self {
        self.states.insert(id, Observation::new(state.into(), None));
        self
    }
    pub fn at(mut self, id: ObjectId, moment: i64) -> Self {
        self.states.get_mut(&id).unwrap().moment = Some(moment);
        self
    }
    pub fn dir(self, path: &str) -> Self {
        self.has(
            ObjectId::new("path", path),
            PathState::Dir { mode: 0o755, owner: "root".into(), group: "root".into() },
        )
    }
    pub fn link(self, path: &str, target: &str) -> Self {
        self.has(ObjectId::new("path", path), PathState::link(target))
    }
    pub fn file(mut self, path: &str, mode: u32, bytes: impl AsRef<[u8]>) -> Self {
        let content = Content::new(bytes.as_ref());
        let state = crate::body::file_state(&content, (mode, "root".into(), "root".into()));
        self.contents.insert(content.digest().clone(), content);
        self.has(ObjectId::new("path", path), state)
    }
    pub fn user(self, name: &str, uid: u32) -> Self {
        let state = UserState::User {
            uid: Some(uid),
            group: name.into(),
            gecos: String::new(),
            home: format!("/home/{name}"),
            shell: "/bin/sh".into(),
            locked: true,
            password: None,
            expires: None,
            groups: BTreeSet::new(),
        };
        self.has(ObjectId::new("user", name), state)
    }
    pub fn group(self, name: &str, gid: u32) -> Self {
        self.has(ObjectId::new("group", name), GroupState::Group { gid: Some(gid) })
    }
    pub fn answer(mut self, probe: &Probe, status: i32, stdout: &str) -> Self {
        self.answers
            .insert(probe.clone(), RunAnswer { status, stdout: stdout.into(), stderr: String::new() });
        self
    }
    pub fn complains(mut self, probe: &Probe, status: i32, stderr: &str) -> Self {
        self.answers
            .insert(probe.clone(), RunAnswer { status, stdout: String::new(), stderr: stderr.into() });
        self
    }
    /// Sets an answer of a cluster's API.
    pub fn says(mut self, probe: ApiProbe, answer: Value) -> Self {
        self.api.insert(probe, answer);
        self
    }
    /// Content that a state names.
    pub fn tells(mut self, probe: LocalProbe, answer: Value) -> Self {
        self.local.insert(probe, answer);
        self
    }
    pub fn knows(mut self, content: Content) -> Self {
        self.contents.insert(content.digest().clone(), content);
        self
    }
    pub fn may(mut self, id: ObjectId) -> Self {
        self.may.insert(id);
        self
    }
    /// An earlier item changes it.
    pub fn changes(mut self, id: ObjectId) -> Self {
        self.changed.insert(id);
        self
    }
    /// An earlier item runs foreign code.
    pub fn runs_foreign(mut self) -> Self {
        self.foreign = true;
        self.pending()
    }
    /// Sets the parts of a question that the items of this kind ask together, and the index of this item's part.
    pub fn together(mut self, stages: &[String], at: usize) -> Self {
        self.stages = Some((stages.to_vec(), at));
        self
    }
    /// An earlier item determines it.
    pub fn determines(mut self, id: ObjectId, state: impl Into<State>) -> Self {
        let state = state.into();
        self.determined.insert(id.clone(), state.clone());
        self.has(id, state)
    }
    /// An earlier item changes it, by foreign code or not.
    pub fn acts(mut self, id: ObjectId, foreign: bool) -> Self {
        self.acts.push((id, foreign));
        self
    }
    pub fn pending(mut self) -> Self {
        self.pending = true;
        self
    }
    pub fn named(mut self, name: &str, digest: &str, changed: bool, newest: Option<i64>) -> Self {
        self.named.insert(name.into(), NamedResource { digest: digest.into(), changed, newest });
        self
    }
    /// The host after these targets.
    pub fn after(mut self, wanted: &WantedStates) -> Self {
        for content in &wanted.contents {
            self.contents.insert(content.digest().clone(), content.clone());
        }
        for (id, state) in wanted.targets.iter().chain(&wanted.adopt) {
            self.states.insert(id.clone(), Observation::new(state.clone(), None));
            self.may.remove(id);
        }
        self
    }
    /// The state of an object, absent when it was never said.
    pub fn line(&self, id: &ObjectId) -> String {
        self.states.get(id).map_or("absent".into(), |o| o.state.line().to_owned())
    }
    /// The text of a file.
    pub fn text(&self, path: &str) -> String {
        let state = self.states[&ObjectId::new("path", path)].state.clone();
        match PathState::try_from(state).unwrap() {
            PathState::File { digest, .. } => {
                String::from_utf8(self.contents[&digest].bytes().to_vec()).unwrap()
            }
            other => panic!("{path} is {other:?}"),
        }
    }
}

impl View for FakeView {
    fn stages(&self) -> Option<(&[String], usize)> {
        self.stages.as_ref().map(|(all, at)| (all.as_slice(), *at))
    }
    fn foreign(&self) -> Option<Wait> {
        self.foreign.then(wait)
    }
    fn observed(&self, object: &ObjectId) -> Result<Observation, Stop> {
        match self.states.get(object) {
            Some(found) => Ok(found.clone()),
            None if self.strict => Err(Stop::Ask(vec![Probe::Object(object.clone())])),
            None => Ok(Observation::new(State::absent(), None)),
        }
    }
    fn content(&self, path: &str, digest: &Digest) -> Result<Content, Stop> {
        self.contents.get(digest).cloned().ok_or_else(|| Stop::Ask(vec![Probe::Content(path.into())]))
    }
    fn run(&self, probe: &Probe) -> Result<RunAnswer, Stop> {
        if let Some(answer) = self.answers.get(probe) {
            return Ok(answer.clone());
        }
        // Nobody has a number that is not said.
        let number = |script: &str| {
            let words: Vec<&str> = script.split(' ').collect();
            matches!(words.as_slice(), ["getent", _, n] if n.bytes().all(|b| b.is_ascii_digit()))
        };
        match probe {
            Probe::Run { script, .. } if !self.strict && number(script) => {
                Ok(RunAnswer { status: 2, stdout: String::new(), stderr: String::new() })
            }
            _ => Err(Stop::Ask(vec![probe.clone()])),
        }
    }
    fn api(&self, probe: &ApiProbe) -> Result<Value, Stop> {
        // Nobody manages the fields of an object of which nothing more is said.
        let bare = |probe: &ApiProbe| match probe {
            ApiProbe::Get(object) => self.states.contains_key(&object.object()).then_some(Value::Null),
            // The server keeps each value as it is.
            ApiProbe::Back { .. } => Some(Value::Null),
            _ => None,
        };
        let answer = self.api.get(probe).cloned().or_else(|| bare(probe));
        answer.ok_or_else(|| Stop::Ask(vec![Probe::Api(probe.clone())]))
    }
    fn local(&self, probe: &LocalProbe) -> Result<Value, Stop> {
        self.local.get(probe).cloned().ok_or_else(|| Stop::Ask(vec![Probe::Local(probe.clone())]))
    }
    fn may_appear(&self, object: &ObjectId) -> Option<Wait> {
        self.may.contains(object).then(wait)
    }
    fn changed(&self, object: &ObjectId) -> Option<Wait> {
        self.changed.contains(object).then(wait)
    }
    fn pending(&self) -> Option<Wait> {
        (self.pending || !self.acts.is_empty()).then(wait)
    }
    fn pending_act(&self, matters: &dyn Fn(&ObjectId, bool) -> bool) -> Option<Wait> {
        let any = self.pending || self.acts.iter().any(|(object, foreign)| matters(object, *foreign));
        any.then(wait)
    }
    fn determined(&self, kind: &str) -> Vec<(ObjectId, State)> {
        let own = self.determined.iter().filter(|(object, _)| object.kind == kind);
        own.map(|(object, state)| (object.clone(), state.clone())).collect()
    }
    fn named(&self, name: &str) -> Result<NamedResource, Stop> {
        self.named.get(name).cloned().ok_or_else(|| Stop::invalid("", format!("no `{name}`")))
    }
}

/// Reads parameters that are known to be right.
pub fn read<R: converge_resource::Resource>(params: Value) -> R {
    let kind: R = parse_params(&params).unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(kind.validate(), [], "{params}");
    kind
}

/// The pointers of the invalid parameters.
pub fn wrong<R: converge_resource::Resource>(params: Value) -> Vec<String> {
    match parse_params::<R>(&params) {
        Ok(kind) => kind.validate().into_iter().map(|e| e.pointer).collect(),
        Err(error) => vec![format!("parse {}", error.pointer)],
    }
}

/// Plans, lays the result over the host, and plans again: the second plan must want no change.
pub fn settle<R: converge_resource::Resource>(kind: &R, view: FakeView) -> FakeView {
    let wanted = kind.plan(&view).unwrap_or_else(|e| panic!("{e:?}"));
    let mut after = view.after(&wanted);
    // The next run changes nothing before this item.
    after.named.values_mut().for_each(|named| named.changed = false);
    let again = kind.plan(&after).unwrap_or_else(|e| panic!("second plan: {e:?}"));
    for (id, state) in again.targets.iter().chain(&again.adopt) {
        assert_eq!(after.line(id), state.line(), "the second plan changes {id}");
    }
    after
}
