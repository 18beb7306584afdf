//! The answers of a host so far.

use converge_resource::{Answer, Content, Digest, ObjectId, Observation, PreservedField, Probe, Stop, Wait};
use std::collections::{BTreeMap, BTreeSet};

/// The roles on other targets that come before a role of this target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OtherTargets {
    /// Their plans are not made yet.
    NotPlanned,
    /// One of them has something to do: the reason to wait.
    Open(Wait),
}

/// By role of one target, the roles on other targets that come before it.
pub type OtherTargetsByRole = BTreeMap<String, OtherTargets>;

/// Answers by question, and content by digest.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    answers: BTreeMap<Probe, Answer>,
    contents: BTreeMap<Digest, Content>,
    /// The reason why nothing can be asked yet: the cluster does not exist.
    absent: Option<Wait>,
    /// Objects that something else will create in this run, with the reason to wait.
    coming: BTreeMap<ObjectId, Wait>,
    /// By role of this target; a role that waits for no other target is not here.
    other_targets: BTreeMap<String, OtherTargets>,
    /// Objects of which a record says that a sensitive item changed them.
    secrets: BTreeSet<ObjectId>,
    /// The fields of objects of a cluster that this run prunes.
    pruned_fields: Vec<PreservedField>,
}

impl Knowledge {
    /// The knowledge about a target that does not exist yet: none, and the reason to wait.
    pub fn until(wait: Wait) -> Self {
        Self { absent: Some(wait), ..Self::default() }
    }

    /// The reason why nothing can be asked yet.
    pub fn absent(&self) -> Option<&Wait> {
        self.absent.as_ref()
    }

    /// Notes that something else will create this object in this run: an item that needs it waits.
    pub fn expect(&mut self, object: ObjectId, wait: Wait) {
        self.coming.insert(object, wait);
    }

    /// The reason to wait for an object that something else will create.
    pub fn coming(&self, object: &ObjectId) -> Option<&Wait> {
        self.coming.get(object)
    }

    /// Sets the roles on other targets that come before each role.
    pub fn set_other_targets(&mut self, roles: BTreeMap<String, OtherTargets>) {
        self.other_targets = roles;
    }

    /// The roles on other targets that come before a role.
    pub fn other_targets(&self, role: &str) -> Option<&OtherTargets> {
        self.other_targets.get(role)
    }

    /// The same, by role of this target.
    pub fn all_other_targets(&self) -> &BTreeMap<String, OtherTargets> {
        &self.other_targets
    }

    /// Sets the fields of objects of a cluster that this run prunes.
    pub fn set_pruned_fields(&mut self, fields: Vec<PreservedField>) {
        self.pruned_fields = fields;
    }

    /// The fields of objects of a cluster that this run prunes.
    pub fn pruned_fields(&self) -> &[PreservedField] {
        &self.pruned_fields
    }

    /// Sets the objects of which a record says that a sensitive item changed them.
    pub fn set_secrets(&mut self, secrets: BTreeSet<ObjectId>) {
        self.secrets = secrets;
    }

    /// Whether a record says, of this object or of what the host calls it, that a sensitive item changed it: its content is not shown.
    pub fn is_secret(&self, object: &ObjectId) -> bool {
        let real = || self.real(object).map(|real| ObjectId::new(&object.kind, real));
        !self.secrets.is_empty()
            && (self.secrets.contains(object) || real().is_some_and(|real| self.secrets.contains(&real)))
    }

    /// Takes one answer.
    pub fn learn(&mut self, probe: Probe, answer: Answer) {
        if let Answer::Content(Some(content)) = &answer {
            self.contents.insert(content.digest().clone(), content.clone());
        }
        self.answers.insert(probe, answer);
    }

    /// Takes content that an observed state names.
    pub fn learn_content(&mut self, content: Content) {
        self.contents.insert(content.digest().clone(), content);
    }

    /// True if the question has an answer or an error.
    pub fn knows(&self, probe: &Probe) -> bool {
        self.answers.contains_key(probe)
    }

    /// The answer to a question.
    pub fn answer(&self, probe: &Probe) -> Option<&Answer> {
        self.answers.get(probe)
    }

    /// Content that some answer held.
    pub fn content(&self, digest: &Digest) -> Option<&Content> {
        self.contents.get(digest)
    }

    /// The observed state of an object.
    ///
    /// # Errors
    /// `Stop::Ask` when it was not asked; `Stop::Failed` when it could not be read.
    pub fn observed(&self, object: &ObjectId) -> Result<Observation, Stop> {
        if let Some(wait) = &self.absent {
            return Err(Stop::Deferred(wait.clone()));
        }
        let probe = Probe::Object(object.clone());
        match self.answers.get(&probe) {
            Some(Answer::Object(observed)) => Ok(observed.clone()),
            Some(Answer::Failed(why)) => Err(Stop::Failed(format!("cannot look at {object}: {why}"))),
            Some(_) => Err(Stop::Failed(format!("the answer about {object} is of another sort"))),
            None => Err(Stop::Ask(vec![probe])),
        }
    }

    /// The name that the host gives an object, where it is another.
    pub fn real(&self, object: &ObjectId) -> Option<&str> {
        match self.answers.get(&Probe::Object(object.clone()))? {
            Answer::Object(observed) => observed.real.as_deref(),
            _ => None,
        }
    }

    /// All questions with their answers.
    pub fn answers(&self) -> impl Iterator<Item = (&Probe, &Answer)> {
        self.answers.iter()
    }
}
