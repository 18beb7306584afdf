//! Objects of the records that no role declares any more, what goes with them, and what covers them. Pure.

use super::Declares;
use crate::revert::order::is_dir;
use crate::revert::order::namespaces::goes_along;
use crate::revert::paths::above;
use crate::revert::undo::{fulfils, text_of};
use crate::revert::{self, layers, releases};
use converge_ledger::{KnownState, OwnedObject, ProjectScope, Undo, UnrecordedRuns, turns_link};
use converge_objects::path::{is_led, led_to, link_target, within};
use converge_objects::{action_of, api_ref, is_action, release_of, traits_of};
use converge_planner::{HostPlan, Item, Knowledge};
use converge_resource::{Change, Naming, ObjectId, Probe, RunAnswer, State, quote};
use std::collections::{BTreeMap, BTreeSet};

/// The things of this scope that are no longer declared, in the order in which they became managed. A command whose text alone has changed is no such
/// thing: its `undo` would take away what the present one has made, or need not make.
pub(super) fn orphaned<'a>(
    things: &'a [OwnedObject],
    scope: &ProjectScope,
    declares: &Declares,
) -> Vec<&'a OwnedObject> {
    let guard = |object: &ObjectId| action_of(object).guard(&object.key);
    let guards: BTreeSet<String> = declares.objects.iter().filter_map(guard).collect();
    let is_declared = |t: &OwnedObject| {
        let runs_otherwise = || guard(&t.object).is_some_and(|guard| guards.contains(&guard));
        declares.objects.contains(&t.object) || runs_otherwise()
    };
    things
        .iter()
        .filter(|t| remains(t) && scope.is(&t.scope) && !is_declared(t))
        .filter(|t| !t.by_product || is_left_alone(t, things))
        .filter(|t| t.roles.iter().all(|r| declares.surely_without(r)))
        .collect()
}

/// Whether there is something to manage: a command without `undo` is an action, of which nothing can be taken back.
pub(super) fn remains(thing: &OwnedObject) -> bool {
    let change =
        || Change { object: thing.object.clone(), from: thing.before.clone(), to: thing.left.clone() };
    !is_action(&thing.object) || revert::undo::irreversible(change()).is_none()
}

/// Whether it is a package that came along, and nothing is managed any more for which it came: a prune has left it because another one needed it.
fn is_left_alone(thing: &OwnedObject, things: &[OwnedObject]) -> bool {
    let brought = |t: &OwnedObject| !t.by_product && t.item == thing.item && t.scope == thing.scope;
    thing.object.kind == "package" && thing.before.is_absent() && !things.iter().any(brought)
}

/// Whether a prune or a rollback that was cut off has led the object to the state before: its record does not say so.
pub(super) fn is_given_back(thing: &OwnedObject, known: &Knowledge) -> bool {
    thing.open.is_some()
        && thing.left == thing.before
        && layers::is_visible(&thing.lies_in, known)
        && known.observed(&thing.object).is_ok_and(|found| found.state == thing.before)
}

/// Probes for declared objects that may be one of these by another name.
pub(super) fn other_names<'a>(
    going: &'a [&OwnedObject],
    declares: &'a Declares,
) -> impl Iterator<Item = Probe> + 'a {
    let may_be = |object: &&ObjectId| {
        traits_of(object).naming != Naming::One && going.iter().any(|t| t.object.kind == object.kind)
    };
    declares.objects.iter().filter(may_be).cloned().map(Probe::Object)
}

/// Packages that came with these and that nothing else would need. One whose removal had begun is among them: apt took its mark first.
pub(super) fn companions<'a>(
    things: &'a [OwnedObject],
    going: &[&OwnedObject],
    autoremovable: &BTreeSet<String>,
) -> Vec<&'a OwnedObject> {
    let with = |t: &&OwnedObject| {
        t.by_product
            && t.object.kind == "package"
            && t.before.is_absent()
            && (autoremovable.contains(&t.object.key) || (t.open.is_some() && t.left.is_absent()))
            && going.iter().any(|g| g.object.kind == "package" && g.item == t.item && g.scope == t.scope)
    };
    things.iter().filter(with).collect()
}

/// Files and directories that went with one of these: they come back with it.
pub(super) fn contents<'a>(things: &'a [OwnedObject], going: &[&OwnedObject]) -> Vec<&'a OwnedObject> {
    let below = |t: &OwnedObject, g: &OwnedObject| {
        let inside = || t.object.key.strip_prefix(&g.object.key).is_some_and(|rest| rest.starts_with('/'));
        is_dir(&g.before) && g.item == t.item && g.scope == t.scope && inside()
    };
    let went = |t: &&OwnedObject| t.by_product && t.object.kind == "path" && t.left.is_absent();
    things.iter().filter(went).filter(|t| going.iter().any(|g| below(t, g))).collect()
}

/// The path above this object that is declared and, after this plan, leads to no directory or to another one; and whether this plan changes it.
pub(super) fn covered<'p>(
    object: &'p ObjectId,
    plan: &HostPlan,
    declares: &Declares,
    known: &Knowledge,
) -> Option<(&'p str, bool)> {
    let is_path = object.kind == "path";
    above(&object.key).filter(|_| is_path).find_map(|dir| {
        let id = ObjectId::new("path", dir);
        declares.objects.get(&id)?;
        let changes = plan.items.iter().flat_map(Item::changes).any(|c| c.change.object == id);
        let end = end_of(&id, plan, known)?;
        let (was, is) = (known.observed(&id).ok().and_then(|now| link_target(&now.state)), link_target(&end));
        (was != is || (is.is_none() && !is_dir(&end))).then_some((dir, changes))
    })
}

/// The reason why an object stays above which the plan mounts or unmounts something: it is out of sight then, or gone with it.
pub(super) fn hidden(object: &ObjectId, plan: &HostPlan, known: &Knowledge) -> Option<String> {
    let changes = plan.items.iter().flat_map(Item::changes).map(|c| &c.change);
    let mut places = changes.filter_map(converge_objects::covered).filter(|_| traits_of(object).at_path);
    let real = known.real(object);
    let lies_in = |place: &ObjectId| {
        object.key.starts_with(&place.key) || real.is_some_and(|real| real.starts_with(&place.key))
    };
    let place = places.find(lies_in)?;
    Some(format!(
        "the plan changes what is mounted at {} first, and it is out of sight then: prune it before, or take that mount out of the role",
        place.key.trim_end_matches('/')
    ))
}

/// Objects that the plan leaves there and that would go with this one: those in a namespace, those of the kind that a definition brings, and those that helm
/// deletes with a release.
pub(super) fn goes_with<'d>(
    object: &ObjectId,
    plan: &HostPlan,
    declares: &'d Declares,
    known: &Knowledge,
) -> Vec<&'d ObjectId> {
    let stays = |inner: &&ObjectId| end_of(inner, plan, known).is_none_or(|state| !state.is_absent());
    let Some(outer) = api_ref(object) else {
        let now = known.observed(object).ok().filter(|_| release_of(object).is_some());
        let goes = |from: State| Change { object: object.clone(), from, to: State::absent() };
        let Some(goes) = now.map(|now| goes(now.state)) else { return Vec::new() };
        let Some((namespace, manifests)) = releases::taken_with(&goes, known) else { return Vec::new() };
        let inside =
            declares.objects.iter().filter(|inner| releases::goes_with(&manifests, namespace, inner));
        return inside.filter(stays).collect();
    };
    let now = known.observed(object).ok().filter(|_| outer.kind == "CustomResourceDefinition");
    let text = now.and_then(|now| text_of(object, &now.state, known));
    let inside = declares.objects.iter().filter(|inner| goes_along(&outer, text.as_ref(), inner));
    inside.filter(stays).collect()
}

/// The declared paths behind a link that goes back to another end, also through a second link: another object would be visible there.
pub(super) fn behind<'d>(undo: &Undo, declares: &'d Declares, known: &Knowledge) -> Vec<&'d ObjectId> {
    if !turns_link(&undo.object, &undo.left, &undo.before) {
        return Vec::new();
    }
    let target = link_target(&undo.left).and_then(|target| led_to(&undo.object.key, &target));
    let is_behind = |inner: &&ObjectId| {
        let by_link =
            || target.as_ref().zip(known.real(inner)).is_some_and(|(to, real)| is_led(&inner.key, real, to));
        let is_other = traits_of(inner).at_path && **inner != undo.object;
        is_other && (within(&inner.key, &undo.object.key) || by_link())
    };
    declares.objects.iter().filter(is_behind).collect()
}

/// The state of an object after the declared items.
pub(super) fn end_of(object: &ObjectId, plan: &HostPlan, known: &Knowledge) -> Option<State> {
    let mut changes = plan.items.iter().flat_map(Item::changes).map(|c| &c.change);
    let end = changes.rfind(|change| change.object == *object).map(|change| change.to.clone());
    end.or_else(|| known.observed(object).ok().map(|present| present.state))
}

/// Asks apt what would go with these packages; `None` when none of them is a package.
pub(super) fn autoremove_probe(going: &[&OwnedObject]) -> Option<Probe> {
    let names: Vec<String> =
        going.iter().filter(|t| t.object.kind == "package").map(|t| quote(&t.object.key)).collect();
    (!names.is_empty()).then(|| {
        Probe::run(format!(
            "if cv_is_dnf; then cv_rpm unneeded {0}; exit; fi; for p in {0}; do dpkg-query -s -- \"$p\" >/dev/null 2>&1 && set -- \"$@\" \"$p\"; done; [ $# -gt 0 ] || exit 0; \
             apt-get -s -q $CV_APT_LOOKS --auto-remove purge -- \"$@\" </dev/null",
            names.join(" ")
        ))
    })
}

pub(super) fn autoremovable(answer: &RunAnswer) -> BTreeSet<String> {
    let name = |line: &str| {
        let mut words = line.split(' ');
        matches!(words.next(), Some("Purg" | "Remv")).then(|| words.next().map(str::to_owned)).flatten()
    };
    answer.stdout.lines().filter_map(name).collect()
}

/// The revert of one of the things that go; `others` are the objects that other projects manage. The state before that foreign code of its run made counts only while what brought it stays.
pub(crate) fn undo_of(
    thing: &OwnedObject,
    going: &[&OwnedObject],
    others: &BTreeSet<&ObjectId>,
    known: &Knowledge,
) -> Undo {
    let brings = |by: &str| {
        let of_item = |t: &&&OwnedObject| t.item == by && t.scope == thing.scope && t.object != thing.object;
        going.iter().filter(of_item).any(|t| t.before.is_absent() || is_action(&t.object))
    };
    let moved = thing.moved.as_ref().filter(|m| brings(&m.by));
    let mut left = thing.left.clone();
    // A package that was originally absent is managed in any version: updates come by themselves. One that another project's run changed is not.
    if thing.object.kind == "package"
        && !others.contains(&thing.object)
        && thing.before.is_absent()
        && let Ok(found) = known.observed(&thing.object)
        && found.state.line().starts_with("present ")
        && left.line().starts_with("present ")
    {
        left = found.state;
    }
    let is_planned = thing.open.is_some();
    let known_left = KnownState { state: left.clone(), pairs: thing.between.len(), is_planned, undone: None };
    Undo {
        object: thing.object.clone(),
        layer: thing.layer.clone(),
        lies_in: thing.lies_in.clone(),
        led_in: Vec::new(),
        made_in: thing.made_in.iter().map(|dir| (0, dir.clone())).collect(),
        left,
        before: moved.map_or(&thing.before, |m| &m.before).clone(),
        between: thing.between.clone(),
        open: thing.open.clone(),
        moved_by: moved.map(|m| m.by.clone()),
        inputs_stay: false,
        states: vec![known_left],
        theirs: None,
        sealed: false,
        since: Vec::new(),
        is_heir: thing.heir_by.is_some(),
        // The base has every run, also those that are not recorded any more.
        unrecorded: UnrecordedRuns::default(),
        item: thing.item.clone(),
        comes_back: false,
        sensitive: thing.sensitive || known.is_secret(&thing.object),
        run: thing.run.clone(),
        lost: thing.no_snapshot.clone(),
        node_removal: thing.node_removal.clone(),
        // A prune gives back what runs have taken, and takes nothing.
        owners: Vec::new(),
        guard: thing.guard.clone(),
    }
}

/// Names the project that has changed an object since, by the first of its runs that did.
pub(super) fn name_other_projects(
    undos: &mut [Undo],
    things: &[OwnedObject],
    scope: &ProjectScope,
    known: &Knowledge,
) {
    let mut others: BTreeMap<&ObjectId, Vec<&OwnedObject>> = BTreeMap::new();
    for thing in things.iter().filter(|thing| !scope.is(&thing.scope)) {
        others.entry(&thing.object).or_default().push(thing);
    }
    for undo in undos.iter_mut().filter(|undo| undo.theirs.is_none()) {
        let (Ok(now), Some(others)) = (known.observed(&undo.object), others.get(&undo.object)) else {
            continue;
        };
        let as_left = |t: &&&OwnedObject| t.layer == undo.layer && fulfils(&t.object, &now.state, &t.left);
        let other = others.iter().find(as_left);
        undo.theirs = other.filter(|_| now.state != undo.left).map(|other| {
            format!(
                "another project manages it too, since run {} ({}), and has changed it: it is left as it is",
                other.run, other.scope
            )
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_ledger::ProjectName;
    use converge_objects::{Command, CommandGuard, Surroundings};
    use converge_resource::State;
    use std::collections::BTreeMap;

    fn thing(key: &str, roles: &[&str]) -> OwnedObject {
        OwnedObject {
            object: ObjectId::new("path", key),
            layer: converge_ledger::MountLayer::default(),
            lies_in: Vec::new(),
            made_in: BTreeSet::new(),
            uid: None,
            heir_by: None,
            scope: ProjectName { playbook: "p".to_owned(), inventory: "i".to_owned() },
            roles: roles.iter().map(|r| (*r).to_owned()).collect(),
            item: "r/x".to_owned(),
            since: String::new(),
            run: "1".to_owned(),
            adopted_by: None,
            before: State::absent(),
            moved: None,
            left: State::from_line("dir 755 root root"),
            between: Vec::new(),
            sensitive: false,
            by_product: false,
            no_snapshot: None,
            node_removal: None,
            open: None,
            guard: None,
            parts: Vec::new(),
        }
    }

    #[test]
    fn only_what_is_surely_not_wanted_is_undeclared() {
        let mut other = thing("/other", &["a"]);
        other.scope.inventory = "another".to_owned();
        let mut with = thing("/with", &["a"]);
        with.by_product = true;
        let things = [
            thing("/wanted", &["a"]),
            thing("/left", &["a"]),
            thing("/narrow", &["b"]),
            thing("/both", &["a", "b"]),
            thing("/gone", &["gone"]),
            thing("/renamed", &["old"]),
            other,
            with,
        ];
        let mut declares = Declares {
            objects: BTreeSet::from([ObjectId::new("path", "/wanted")]),
            roles: BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), false)]),
            renamed: BTreeMap::from([("old".to_owned(), "b".to_owned())]),
            ..Declares::default()
        };
        let scope = ProjectScope(things[0].scope.clone());
        let keys = |declares: &Declares| -> Vec<String> {
            orphaned(&things, &scope, declares).iter().map(|t| t.object.key.clone()).collect()
        };
        assert_eq!(keys(&declares), ["/left", "/gone"]);
        declares.narrowed = true;
        assert_eq!(keys(&declares), ["/left"]);
        declares.renamed = BTreeMap::from([("old".to_owned(), "a".to_owned())]);
        assert_eq!(keys(&declares), ["/left", "/renamed"]);
    }

    #[test]
    fn a_command_with_another_text_has_taken_the_place_of_the_one_before() {
        let command = |guard: CommandGuard, run: &str| {
            let command = Command {
                guard,
                run: run.to_owned(),
                undo: Some("rm -f /key".to_owned()),
                user: None,
                timeout: None,
                surroundings: Surroundings::default(),
            };
            ObjectId::new("command", command.key())
        };
        let creates = |path: &str, run: &str| command(CommandGuard::Creates(path.to_owned()), run);
        let mut old = thing("/key", &["a"]);
        old.object = creates("/key", "make one");
        (old.before, old.left) = (State::from_line("pending"), State::from_line("done"));
        let things = [old];
        let scope = ProjectScope(things[0].scope.clone());
        let left = |object: ObjectId| {
            let declares = Declares {
                objects: BTreeSet::from([object]),
                roles: BTreeMap::from([("a".to_owned(), true)]),
                ..Declares::default()
            };
            orphaned(&things, &scope, &declares).len()
        };
        assert_eq!(left(creates("/key", "make another")), 0);
        assert_eq!(left(creates("/other", "make one")), 1);
        assert_eq!(left(command(CommandGuard::Unless("/key".to_owned()), "make one")), 1);
    }

    #[test]
    fn apt_says_what_nothing_else_needs() {
        let stdout = "Reading\nRemv a [1]\nPurg nginx-common [1.2]\nInst x\n".to_owned();
        let names = autoremovable(&RunAnswer { status: 0, stdout, stderr: String::new() });
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "nginx-common"]);
    }
}
