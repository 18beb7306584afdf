//! Objects with several names: a unit with its aliases, a path through links.

use crate::conflict::Conflict;
use crate::{ItemDeclaration, Knowledge, Problem};
use converge_objects::traits_of;
use converge_resource::{Change, Content, Naming, ObjectId, State, Wait};
use std::collections::BTreeMap;

/// The greatest number of names that may follow from one another, as for the links of a path.
const MOST: usize = 40;

/// The names of objects in one run.
#[derive(Default)]
pub(crate) struct ObjectNames {
    /// Names that the new state of an earlier item gives: the name, with the object that it leads to and the object that has
    /// that state.
    given: BTreeMap<ObjectId, (ObjectId, ObjectId)>,
    /// Names that the host gave and that earlier items have replaced: they were links and are no more.
    taken: Vec<ObjectId>,
    /// The name under which the run first used an object, by the object's real name.
    first: BTreeMap<ObjectId, ObjectId>,
    /// The reason why objects of a kind may still get names.
    open: BTreeMap<&'static str, Wait>,
}

impl ObjectNames {
    /// Takes the names that follow from another state of an object.
    pub(crate) fn set(
        &mut self,
        known: &Knowledge,
        object: &ObjectId,
        state: &State,
        content: Option<&Content>,
    ) {
        let Some(kind) = converge_objects::object(&object.kind) else { return };
        self.given.retain(|_, (_, by)| by != object);
        let was_name = known.observed(object).is_ok_and(|present| {
            let names = kind.links().names(&object.key, &present.state, None);
            names.iter().any(|(name, _)| name == object)
        });
        if was_name {
            self.taken.push(object.clone());
        }
        for (name, real) in kind.links().names(&object.key, state, content) {
            // An object that exists under this name by itself keeps the name.
            let its_own = name != real
                && name != *object
                && known
                    .observed(&name)
                    .is_ok_and(|present| !present.state.is_absent() && present.real.is_none());
            if !its_own {
                self.given.insert(name, (real, object.clone()));
            }
        }
    }

    /// Records that a deferred item may give names by this object.
    pub(crate) fn defer(&mut self, object: &ObjectId, wait: &Wait) {
        let kind = converge_objects::object(&object.kind).and_then(|kind| kind.links().may_name(&object.key));
        self.open.extend(kind.map(|kind| (kind, wait.clone())));
    }

    /// The reason why it is not known yet whether this name, which means no object by itself, is another name of one.
    pub(crate) fn open(&self, object: &ObjectId) -> Option<&Wait> {
        self.open.get(object.kind.as_str()).filter(|_| !self.given.contains_key(object))
    }

    /// Records that an item uses this name.
    pub(crate) fn call(&mut self, known: &Knowledge, object: &ObjectId) {
        if naming(object) == Naming::First {
            self.first.entry(self.real(known, object)).or_insert_with(|| object.clone());
        }
    }

    /// The name that the run uses for an object.
    pub(crate) fn one(&self, known: &Knowledge, object: &ObjectId) -> ObjectId {
        match naming(object) {
            Naming::One => object.clone(),
            Naming::Real => self.real(known, object),
            Naming::First => {
                let real = self.real(known, object);
                self.first.get(&real).unwrap_or(object).clone()
            }
        }
    }

    /// The real name of an object, by the host's answer and the results of earlier items.
    pub(crate) fn real(&self, known: &Knowledge, object: &ObjectId) -> ObjectId {
        let mut real = object.clone();
        for _ in 0..MOST {
            match self.step(known, &real) {
                Some(next) if next != real => real = next,
                _ => break,
            }
        }
        real
    }

    fn step(&self, known: &Knowledge, object: &ObjectId) -> Option<ObjectId> {
        if traits_of(object).at_path {
            return self.step_of_path(known, object);
        }
        match self.given.get(object) {
            Some((real, _)) => Some(real.clone()),
            None => real_name(known, object),
        }
    }

    fn step_of_path(&self, known: &Knowledge, object: &ObjectId) -> Option<ObjectId> {
        let above = |id: &&ObjectId| {
            id.kind == object.kind
                && object.key.strip_prefix(&id.key).is_some_and(|rest| rest.starts_with('/'))
        };
        if let Some((link, (to, _))) = self.given.iter().rfind(|(id, _)| above(id)) {
            let rest = object.key.get(link.key.len()..)?;
            return Some(ObjectId::new(&object.kind, format!("{}{rest}", to.key)));
        }
        if self.taken.iter().any(|id| above(&id)) { None } else { real_name(known, object) }
    }
}

fn naming(object: &ObjectId) -> Naming {
    traits_of(object).naming
}

/// The real name of an object, by the host's answer.
pub fn real_name(known: &Knowledge, object: &ObjectId) -> Option<ObjectId> {
    if naming(object) == Naming::One {
        return None;
    }
    let real = known.observed(object).ok()?.real?;
    Some(ObjectId::new(&object.kind, real))
}

/// Items that manage one object under two names: the error of each. Under one name such a conflict shows without a host.
pub(crate) fn contested(conflicts: &[Conflict], items: &[ItemDeclaration]) -> BTreeMap<usize, Problem> {
    let mut found = BTreeMap::new();
    for conflict in conflicts.iter().filter(|c| c.named.0 != c.named.1) {
        let (first, second) = conflict.items;
        let (Some(a), Some(b)) = (items.get(first), items.get(second)) else { continue };
        let (one, other) = (&conflict.named.0.key, &conflict.named.1.key);
        let problem = Problem {
            help: Some(
                "keep one of them, or let one role require the other and edit what it made".to_owned(),
            ),
            ..Problem::new(format!(
                "two-owners: {one} and {other} are one {}, and two resources manage its {}: `{}` and `{}`",
                conflict.object.kind, conflict.facet, a.address, b.address
            ))
        };
        found.entry(first).or_insert_with(|| problem.clone());
        found.entry(second).or_insert(problem);
    }
    found
}

/// The effect of a change on other names of the object (hard links), of which there are `names` in all.
pub(crate) fn severed(change: &Change, names: Option<u64>) -> Option<String> {
    let names = names.filter(|n| *n > 1)?;
    let severs =
        converge_objects::object(&change.object.kind).is_some_and(|kind| kind.links().severs(change));
    severs.then(|| {
        format!(
            "{} has {names} names (hard links): a new file takes its place, and the other names keep the old one",
            change.object.key
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_resource::{Answer, Observation, Probe};

    fn unit(name: &str) -> ObjectId {
        ObjectId::new("unit", name)
    }

    fn path(path: &str) -> ObjectId {
        ObjectId::new("path", path)
    }

    fn known(present: &[(ObjectId, &str, Option<&str>)]) -> Knowledge {
        let mut known = Knowledge::default();
        for (object, line, real) in present {
            let present = Observation {
                real: real.map(str::to_owned),
                ..Observation::new(State::from_line(line), None)
            };
            known.learn(Probe::Object(object.clone()), Answer::Object(present));
        }
        known
    }

    #[test]
    fn a_unit_goes_by_its_real_name_as_the_host_says() {
        let known = known(&[(unit("sshd.service"), "unit enabled active -", Some("ssh.service"))]);
        let mut names = ObjectNames::default();
        names.call(&known, &unit("sshd.service"));
        assert_eq!(names.one(&known, &unit("sshd.service")), unit("ssh.service"));
        assert_eq!(names.one(&known, &unit("ssh.service")), unit("ssh.service"));
    }

    #[test]
    fn a_unit_file_of_the_run_names_its_unit() {
        let text = "[Service]\nAlias=no.service\n[Install]\nAlias=b.service c.service\nAlias=%i.service own.service\n";
        let content = Content::new(text.as_bytes().to_vec());
        let file = State::from_line(&format!("file 644 root root 9 {}", content.digest()));
        let known = known(&[
            (unit("b.service"), "absent", None),
            (unit("own.service"), "unit static active -", None),
        ]);
        let mut names = ObjectNames::default();
        let object = path("/etc/systemd/system/a.service");
        names.set(&known, &object, &file, Some(&content));
        for (name, real) in [("a", "a"), ("b", "a"), ("c", "a"), ("no", "no"), ("own", "own")] {
            let of = |name: &str| unit(&format!("{name}.service"));
            assert_eq!(names.one(&known, &of(name)), of(real), "{name}");
        }
        names.set(&known, &object, &State::absent(), None);
        assert_eq!(names.one(&known, &unit("b.service")), unit("b.service"));
        names.set(
            &known,
            &path("/etc/systemd/system/l.service"),
            &State::from_line("link ../x/ssh.service"),
            None,
        );
        assert_eq!(names.one(&known, &unit("l.service")), unit("ssh.service"));
    }

    #[test]
    fn a_deferred_unit_file_may_give_any_name() {
        let mut names = ObjectNames::default();
        let wait = Wait { item: "r/unit".to_owned(), reason: "it is deferred".to_owned() };
        names.defer(&path("/etc/conf"), &wait);
        assert_eq!(names.open(&unit("b.service")), None);
        names.defer(&path("/etc/systemd/system/a.service"), &wait);
        assert_eq!(names.open(&unit("b.service")), Some(&wait));
        assert_eq!(names.open(&path("/etc/b")), None);
    }

    #[test]
    fn a_path_keeps_the_first_name_that_is_used() {
        let known = known(&[
            (path("/opt/link/z"), "absent", Some("/opt/real/z")),
            (path("/opt/link"), "link real", None),
        ]);
        let mut names = ObjectNames::default();
        names.call(&known, &path("/opt/link/z"));
        names.call(&known, &path("/opt/real/z"));
        assert_eq!(names.one(&known, &path("/opt/real/z")), path("/opt/link/z"));
        assert_eq!(names.one(&known, &path("/opt/real")), path("/opt/real"));
        // A directory replaces the link: the two names are two objects from then on.
        names.set(&known, &path("/opt/link"), &State::from_line("dir 755 root root"), None);
        let mut names = ObjectNames { first: BTreeMap::new(), ..names };
        names.call(&known, &path("/opt/link/z"));
        assert_eq!(names.one(&known, &path("/opt/real/z")), path("/opt/real/z"));
    }

    #[test]
    fn links_of_the_run_lead_on() {
        let known = Knowledge::default();
        let mut names = ObjectNames::default();
        for (link, target) in [("/opt/a", "/srv/b"), ("/srv/b", "./c/d"), ("/opt/round", "round")] {
            names.set(&known, &path(link), &State::from_line(&format!("link {target}")), None);
        }
        names.call(&known, &path("/srv/c/d/x"));
        assert_eq!(names.one(&known, &path("/opt/a/x")), path("/srv/c/d/x"));
        // A link itself is not another name of its target.
        assert_eq!(names.one(&known, &path("/opt/a")), path("/opt/a"));
        assert_eq!(names.one(&known, &path("/opt/ab/x")), path("/opt/ab/x"));
        names.one(&known, &path("/opt/round/x"));
    }
}
