//! Links that the run makes, leads elsewhere or replaces: a path below one is another file from then on.

use super::VirtualHost;
use converge_objects::path::{is_led, led_to, link_target, within};
use converge_objects::traits_of;
use converge_resource::{ObjectId, Observation, State, Stop, Wait};
use std::collections::BTreeSet;

/// A path that was a link before, or is one from then on.
#[derive(Clone, Debug)]
pub(super) struct RelinkedPath {
    path: String,
    /// The place to which it led; none where it was no link.
    was: Option<String>,
    is_link: bool,
    wait: Wait,
    /// Objects with these names were determined in the place to which it led.
    elsewhere: BTreeSet<ObjectId>,
}

impl VirtualHost<'_> {
    /// Takes the state that an object gets, before it gets it.
    pub(super) fn relink(&mut self, object: &ObjectId, to: &State) {
        if object.kind != "path" {
            return;
        }
        let from = match self.overlay.get(object) {
            Some(state) => state.clone(),
            None => match self.known.observed(object) {
                Ok(found) => found.state,
                Err(_) => return,
            },
        };
        let (was, now) = (link_target(&from), link_target(to));
        if was == now {
            return;
        }
        let was = was.and_then(|target| led_to(&object.key, &target));
        let was = was.map(|place| self.real(&ObjectId::new("path", place)).key);
        let through = |other: &ObjectId| {
            let led = |place: &String| is_led(&other.key, &self.real(other).key, place);
            is_below(other, &object.key) || (traits_of(other).at_path && was.as_ref().is_some_and(led))
        };
        let elsewhere: BTreeSet<ObjectId> =
            self.overlay.keys().filter(|other| *other != object && through(other)).cloned().collect();
        let wait = Wait {
            item: self.item.clone(),
            reason: format!("`{}` changes where {} leads first", self.item, object.key),
        };
        let path = object.key.clone();
        self.relinked.push(RelinkedPath { path, was, is_link: now.is_some(), wait, elsewhere });
    }

    /// Takes an object that an item determines where its path leads now.
    pub(super) fn is_here(&mut self, object: &ObjectId) {
        self.relinked.iter_mut().for_each(|relinked| {
            relinked.elsewhere.remove(object);
        });
    }

    /// The state of an object below a link that the run changes, where the host's answer is about another place; `None` elsewhere.
    pub(super) fn led_elsewhere(&self, object: &ObjectId) -> Result<Option<Observation>, Stop> {
        if self.relinked.is_empty() || !traits_of(object).at_path {
            return Ok(None);
        }
        for relinked in self.relinked.iter().rev() {
            let wait = || Err(Stop::Deferred(relinked.wait.clone()));
            if relinked.elsewhere.contains(object) {
                return wait();
            }
            if self.overlay.contains_key(&self.one(object)) {
                continue;
            }
            let found = self.known.observed(object);
            if !is_below(object, &relinked.path) {
                let real = found.ok().and_then(|found| found.real);
                let led = |place: &String| real.as_ref().is_some_and(|real| is_led(&object.key, real, place));
                if relinked.was.as_ref().is_some_and(led) {
                    return wait();
                }
                continue;
            }
            let absent = || Ok(Some(Observation::new(State::absent(), None)));
            if !relinked.is_link {
                return absent();
            }
            let place = ObjectId::new(&object.kind, self.real(&ObjectId::new("path", &object.key)).key);
            if found.is_ok_and(|found| found.real.as_ref() == Some(&place.key)) {
                continue;
            }
            // A target with a step up in it is known to the host alone.
            if place == *object || self.relinked.iter().any(|other| is_below(&place, &other.path)) {
                return wait();
            }
            return match self.known.observed(&place) {
                Ok(there) if there.state.is_absent() => absent(),
                // The host refuses the same below the link.
                Err(Stop::Failed(why)) if self.changed_above(&place).is_none() => Err(Stop::Failed(why)),
                Err(Stop::Ask(probes)) => Err(Stop::Ask(probes)),
                _ => wait(),
            };
        }
        Ok(None)
    }
}

fn is_below(object: &ObjectId, path: &str) -> bool {
    traits_of(object).at_path && object.key != path && within(&object.key, path)
}
