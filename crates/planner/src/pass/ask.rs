//! Claims on contents and records: what is asked for in the next round.

use super::Pass;

use converge_resource::{Claim, ClaimMode, ObjectId, Probe, State};

/// The objects of these claims, each once.
pub(super) fn objects_of(claims: &[Claim]) -> Vec<ObjectId> {
    let mut objects = Vec::new();
    for claim in claims.iter().filter(|c| !is_promise(c)) {
        if !objects.contains(&claim.object) {
            objects.push(claim.object.clone());
        }
    }
    objects
}

/// A claim that only declares that the item's steps may create this object.
pub(super) fn is_promise(claim: &Claim) -> bool {
    claim.facet == "may-create"
}

pub(super) fn content_of(object: &ObjectId, state: &State) -> Option<converge_resource::Digest> {
    converge_objects::object(&object.kind).and_then(|o| o.content(state))
}

impl Pass<'_> {
    /// The claims of an item, under the names that the run uses; objects are read under either name.
    pub(super) fn called(&mut self, claims: Vec<Claim>, notes: &mut Vec<String>) -> Vec<Claim> {
        self.ask_for_claims(&claims);
        self.virtual_host.call(&claims);
        let one = self.virtual_host.on_one(claims.clone());
        for (claim, one) in claims.iter().zip(&one).filter(|(claim, one)| claim.object != one.object) {
            let note = format!("{} is another name of {}", claim.object.key, one.object.key);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        self.ask_for_claims(&one);
        one
    }

    /// Claimed objects are always read, and so are edited files, in the first round already.
    pub(super) fn ask_for_claims(&mut self, claims: &[Claim]) {
        if self.known.absent().is_some() {
            return;
        }
        for claim in claims {
            let mut probes = vec![Probe::Object(claim.object.clone())];
            if claim.mode == ClaimMode::Edit && claim.facet == "content" && claim.object.kind == "path" {
                probes.push(Probe::Content(claim.object.key.clone()));
            }
            self.out.asks.extend(probes.into_iter().filter(|p| !self.known.knows(p)));
        }
    }

    /// For changed files: the old content, for the diff.
    pub(crate) fn ask_for_diffs(&mut self) {
        let mut found = Vec::new();
        for item in &self.out.plan.items {
            for planned in item.changes() {
                let change = &planned.change;
                let Some(digest) = content_of(&change.object, &change.from) else { continue };
                if change.object.kind != "path" {
                    // The content of an object of a cluster came with its state; fields are compared later.
                    found.extend(self.known.content(&digest).cloned());
                    continue;
                }
                if item.sensitive {
                    continue;
                }
                match self.known.content(&digest) {
                    Some(content) => found.push(content.clone()),
                    None => {
                        let probe = Probe::Content(change.object.key.clone());
                        let predicted = content_of(&change.object, &change.to).as_ref() == Some(&digest);
                        if !predicted && !self.known.knows(&probe) {
                            self.out.diff_asks.insert(probe);
                        }
                    }
                }
            }
        }
        for content in found {
            self.out.plan.contents.insert(content.digest().clone(), content);
        }
    }
}
