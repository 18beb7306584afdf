//! The view of the virtual host that resources plan with.

use super::{UnitInput, VirtualHost, key_of, may_be_packaged};
use crate::OtherTargets;
use converge_resource::{
    Answer, ApiProbe, Content, Digest, LocalProbe, NamedResource, ObjectId, Observation, PackedContents,
    PreservedField, Probe, Restarters, RunAnswer, RunsWith, State, Stop, View, Wait,
};
use std::collections::{BTreeMap, BTreeSet};

impl View for VirtualHost<'_> {
    fn observed(&self, object: &ObjectId) -> Result<Observation, Stop> {
        self.need_ancestors(object)?;
        self.found(object)
    }

    fn pruned_fields(&self) -> &[PreservedField] {
        self.known.pruned_fields()
    }

    fn stages(&self) -> Option<(&[String], usize)> {
        Some((&self.stages, self.stage?))
    }

    fn content(&self, path: &str, digest: &Digest) -> Result<Content, Stop> {
        if let Some(content) = self.contents.get(digest).or_else(|| self.known.content(digest)) {
            return Ok(content.clone());
        }
        if let Some(probe) = self.packed.iter().rev().find_map(|packed| packed.probe(digest)) {
            let answer = self.run(&probe)?;
            let content = PackedContents::read(&answer, digest).ok_or_else(|| {
                let reply = answer.stderr.trim().lines().last().unwrap_or("it is not UTF-8 text");
                Stop::Failed(format!("cannot edit what the archive has of {path}: {reply}"))
            })?;
            self.unpacked.borrow_mut().insert(digest.clone(), content.clone());
            return Ok(content);
        }
        let written = || self.changed.get(&ObjectId::new("path", path));
        let probe = Probe::Content(path.to_owned());
        match self.known.answer(&probe) {
            None => Err(Stop::Ask(vec![probe])),
            // The content on the host, if there is one, is not the one that is edited.
            Some(Answer::Content(_)) if let Some(by) = written() => Err(Stop::invalid_help(
                "/path",
                format!("{path} is written by `{}`, and the content is not known before", by.item),
                "write it with a `file` resource that has the edited content",
            )),
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

    fn local(&self, probe: &LocalProbe) -> Result<serde_json::Value, Stop> {
        let probe = Probe::Local(probe.clone());
        match self.known.answer(&probe) {
            None => Err(Stop::Ask(vec![probe])),
            Some(Answer::Local(answer)) => Ok(answer.clone()),
            Some(Answer::Failed(why)) => Err(Stop::Failed(why.clone())),
            Some(_) => Err(Stop::Failed("the answer is of another sort".to_owned())),
        }
    }

    fn may_appear(&self, object: &ObjectId) -> Option<Wait> {
        let object = &self.one(object);
        if let Some(wait) = self.promised.get(object).or_else(|| self.known.coming(object)) {
            return Some(wait.clone());
        }
        let bringer = self.bringers.get(object.kind.as_str())?;
        let outside = object.kind == "path" && !may_be_packaged(&format!("{}/", object.key));
        (!outside).then(|| Wait {
            item: bringer.item.clone(),
            reason: format!("{} may bring {}", bringer.reason, object.key),
        })
    }

    fn changed(&self, object: &ObjectId) -> Option<Wait> {
        self.changed.get(&self.one(object)).cloned()
    }

    fn gives(&self, object: &ObjectId, facet: &str) -> bool {
        self.given.iter().any(|(given, name)| name == facet && given == object)
    }

    fn settled(&self) -> bool {
        !self.open
    }

    fn pending(&self) -> Option<Wait> {
        self.pending.clone()
    }

    fn other_targets(&self) -> Option<Wait> {
        match self.known.other_targets(&self.role)? {
            OtherTargets::Open(wait) => Some(wait.clone()),
            OtherTargets::NotPlanned => Some(Wait {
                item: String::new(),
                reason: "the roles before it on other targets are not planned yet".to_owned(),
            }),
        }
    }

    fn foreign(&self) -> Option<Wait> {
        self.foreign.clone()
    }

    fn pending_act(&self, matters: &dyn Fn(&ObjectId, bool) -> bool) -> Option<Wait> {
        let act = self.acts.iter().rev().find(|(object, opaque, _)| matters(object, *opaque));
        act.map(|(_, _, wait)| wait.clone())
    }

    fn determined(&self, kind: &str) -> Vec<(ObjectId, State)> {
        let own = self.settled.iter().chain(&self.overlay);
        let own = own.filter(|(object, _)| object.kind == kind && !self.followed.contains(object));
        let all: BTreeMap<&ObjectId, &State> = own.collect();
        all.into_iter().map(|(object, state)| (object.clone(), state.clone())).collect()
    }

    fn restarters(&self, unit: &ObjectId) -> Result<Restarters, Stop> {
        let unit = &self.one(unit);
        let all = self.restarters.get(unit).map(Vec::as_slice).unwrap_or_default();
        let later = all.last().filter(|last| **last != self.item && all.contains(&self.item));
        let later = later.filter(|_| !self.guarded).cloned();
        let earlier = self.runs_with.get(unit).into_iter().flatten();
        let earlier = earlier
            .map(|input| Ok((input.key.clone(), self.runs_with_now(input)?)))
            .collect::<Result<_, _>>()?;
        Ok(Restarters { key: key_of(&self.item), earlier, later })
    }

    fn named(&self, name: &str) -> Result<NamedResource, Stop> {
        self.named_of(&self.role, name)
    }
}

impl VirtualHost<'_> {
    /// The inputs of an earlier item as they are now: others may have changed them since its turn.
    fn runs_with_now(&self, input: &UnitInput) -> Result<RunsWith, Stop> {
        let mut inputs = input.with.inputs.clone();
        if let Some(own) = &mut inputs.own {
            let found = self.observed(&own.object)?;
            own.changed |= found.state != own.state;
            own.state = found.state;
        }
        inputs.read(&|name| self.named_of(&input.role, name))
    }

    /// The resource of this role that has this name.
    fn named_of(&self, role: &str, name: &str) -> Result<NamedResource, Stop> {
        let Some(done) = self.done.get(&(role.to_owned(), name.to_owned())) else {
            let known: BTreeSet<&str> =
                self.done.keys().filter(|(of, _)| of == role).map(|(_, n)| n.as_str()).collect();
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
        let (mut changed, mut newest) = (done.changed, None);
        for (object, counts) in &done.objects {
            let observed = self.observed(object)?;
            if *counts {
                // Another item may have changed it.
                changed |= self.changed(object).is_some();
                lines.push_str(&format!("{}:{}\t{}\n", object.kind, object.key, observed.state));
            }
            newest = newest.max(observed.moment);
        }
        done.basis.iter().for_each(|basis| lines.push_str(&format!("={basis}\n")));
        Ok(NamedResource { digest: Digest::of(lines.as_bytes()).to_string(), changed, newest })
    }
}
