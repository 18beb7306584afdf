//! The runs that have taken objects of a cluster away: with a release, a namespace or the definition of a kind, or by themselves.

use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::releases::goes_by;
use crate::revert::undo::{Verdict, changed_by, forget};
use crate::revert::{JudgedUndo, RevertGroup};
use converge_ledger::{Ledger, ProjectScope, RunRecord, SavedChange};
use converge_objects::{api_ref, release_of, title_of};
use converge_planner::Knowledge;
use converge_resource::{Change, Digest, ObjectId, Probe};
use std::collections::{BTreeMap, BTreeSet};

/// The records of a cluster, as a project sees them.
#[derive(Clone, Copy)]
pub(crate) struct ProjectRuns<'r, 'l> {
    pub runs: &'r [RunRecord],
    pub ledger: &'l Ledger<'r>,
    pub project: &'l ProjectScope,
}

impl ProjectRuns<'_, '_> {
    /// The run that took each of these objects away last, for people, as far as the records and helm's own history tell. Each comes with a run before that.
    pub async fn takers(
        self,
        target: &Target,
        gone: &BTreeMap<ObjectId, String>,
        known: &mut Knowledge,
    ) -> Result<BTreeMap<ObjectId, String>, TargetError> {
        if gone.is_empty() {
            return Ok(BTreeMap::new());
        }
        let changes =
            || self.runs.iter().flat_map(|run| &run.changes).filter(|c| release_of(&c.object).is_some());
        let releases = changes().map(|change| Probe::Object(change.object.clone()));
        let releases: BTreeSet<Probe> = releases.filter(|probe| !known.knows(probe)).collect();
        target.look(&releases, known).await?;
        let content = |change: &SavedChange| {
            let object = converge_objects::object(&change.object.kind)?;
            Some([object.content(&change.before), object.content(&change.after)])
        };
        let digests = changes().filter_map(content).flatten().flatten();
        let wanted: BTreeSet<Digest> = digests.filter(|digest| known.content(digest).is_none()).collect();
        target.learn_recorded(&wanted, known).await?;
        let found = gone
            .iter()
            .filter_map(|(object, since)| Some((object.clone(), self.taker(object, since, known)?)));
        Ok(found.collect())
    }

    /// The run after `since` that took an object away last.
    fn taker(self, object: &ObjectId, since: &str, known: &Knowledge) -> Option<String> {
        let since = self.ledger.place(since)?;
        let later = self.runs.iter().enumerate().skip(since).rev();
        let mut changes =
            later.flat_map(|(at, run)| run.changes.iter().rev().map(move |change| (at, change)));
        let takes = |change: &SavedChange| {
            let alone = change.object == *object && change.after.is_absent() && !change.before.is_absent();
            let (of, from, to) = (change.object.clone(), change.before.clone(), change.after.clone());
            alone || goes_by(&Change { object: of, from, to }, object, known)
        };
        let (at, change) = changes.find(|(_, change)| change.may_have_happened() && takes(change))?;
        let run = self.runs.get(at)?;
        let whose = match self.ledger.is_of(at, self.project) {
            true => String::new(),
            false => format!(", of another project ({}),", run.named_project()),
        };
        let with = match change.object == *object {
            true => String::new(),
            false => format!(" with {}", title_of(&change.object)),
        };
        Some(format!("it was taken away by run {}{whose}{with}, and is not made again", run.id))
    }
}

/// Whether an object of the API stays since somebody has taken it away.
fn is_taken_away(judged: &JudgedUndo, known: &Knowledge) -> bool {
    let JudgedUndo { undo, verdict, .. } = judged;
    let is_gone = || known.observed(&undo.object).is_ok_and(|now| now.state.is_absent());
    let is_reported = || matches!(verdict, Verdict::Stays(why) if *why == changed_by(undo, known));
    api_ref(&undo.object).is_some() && is_gone() && is_reported()
}

/// The objects that stay since somebody has taken them away, each with the run of the project that changed it first.
pub(crate) fn taken_away(groups: &[RevertGroup], known: &Knowledge) -> BTreeMap<ObjectId, String> {
    let members = groups.iter().flat_map(|group| &group.members);
    let taken = members.filter(|judged| is_taken_away(judged, known));
    taken.map(|judged| (judged.undo.object.clone(), judged.undo.run.clone())).collect()
}

/// Names the runs that took objects away.
pub(crate) fn name_takers(groups: &mut [RevertGroup], takers: &BTreeMap<ObjectId, String>) {
    for judged in groups.iter_mut().flat_map(|group| &mut group.members) {
        if let Some(taker) = takers.get(&judged.undo.object) {
            judged.verdict = Verdict::Stays(format!("{taker}: {}", forget(&judged.undo.object)));
        }
    }
}
