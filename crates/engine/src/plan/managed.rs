//! Orphaned objects of a host, and the plan that removes them or restores their original states.
//!
//! A thing counts as no longer declared when no item of any role claims it and every role that made it was evaluated
//! completely for that host. Whatever is not known for sure leaves it alone.

use crate::TargetError;
use crate::connect::target::Target;
use crate::context::RunContext;
use crate::plan::source::HostSource;
use crate::revert::accounts::Accounts;
use crate::revert::undo::{Verdict, fulfils, go_with_what_brought_them, owners_probe};
use crate::revert::{self, Group, Judged, holders, layers};
use converge_ledger::{KnownState, Owned, OwnedRecords, Project, RunRecord, SavedChange, SavedOutcome, Undo};
use converge_objects::PathState;
use converge_planner::{CutOff, Fate, HostPlan, Item, ItemOrigin, Knowledge, Outcome, Undeclared};
use converge_resource::{Change, Naming, ObjectId, Probe, RunAnswer, State, quote};
use std::collections::{BTreeMap, BTreeSet};

/// The declarations of the project for a host, whatever the run is narrowed to.
#[derive(Debug, Default)]
pub(crate) struct Declares {
    /// The objects that some item claims.
    pub objects: BTreeSet<ObjectId>,
    /// The host's roles, and whether each was evaluated completely.
    pub roles: BTreeMap<String, bool>,
    /// Former names of roles.
    pub renamed: BTreeMap<String, String>,
    /// True when the run is narrowed to some roles or tags: roles that are gone were not looked for.
    pub narrowed: bool,
}

impl Declares {
    /// Reads the items of a host.
    pub fn of(source: &HostSource<'_>, outputs: &converge_planner::Outputs, narrowed: bool) -> Self {
        let (mut objects, roles, renamed) = source.declares(outputs);
        // A unit whose file is declared is there through it, and goes with it.
        let through = |object: &ObjectId| {
            let links = converge_objects::object(&object.kind)?.links();
            Some(links.brings(&object.key, &State::absent(), None).into_iter().map(|(brought, _)| brought))
        };
        let brought: Vec<ObjectId> = objects.iter().filter_map(through).flatten().collect();
        objects.extend(brought);
        Self { objects, roles, renamed, narrowed }
    }

    fn name<'a>(&'a self, role: &'a str) -> &'a str {
        self.renamed.get(role).map_or(role, String::as_str)
    }

    /// Whether it is known for sure that this role does not want the thing.
    fn surely_without(&self, role: &str) -> bool {
        self.roles.get(self.name(role)).copied().unwrap_or(!self.narrowed)
    }
}

/// The things of this scope that are no longer declared, in the order in which they became ours.
fn undeclared<'a>(things: &'a [Owned], scope: &Project, declares: &Declares) -> Vec<&'a Owned> {
    things
        .iter()
        .filter(|t| {
            remains(t) && !t.by_product && scope.is(&t.scope) && !declares.objects.contains(&t.object)
        })
        .filter(|t| t.roles.iter().all(|r| declares.surely_without(r)))
        .collect()
}

/// Whether there is something to manage: a command without `undo` is an action, of which nothing can be taken back.
fn remains(thing: &Owned) -> bool {
    let change =
        || Change { object: thing.object.clone(), from: thing.before.clone(), to: thing.left.clone() };
    thing.object.kind != "command" || revert::undo::irreversible(change()).is_none()
}

/// Probes for declared objects that may be one of these by another name.
fn other_names<'a>(going: &'a [&Owned], declares: &'a Declares) -> impl Iterator<Item = Probe> + 'a {
    let may_be = |object: &&ObjectId| {
        let named = converge_objects::object(&object.kind).is_some_and(|o| o.traits().naming != Naming::One);
        named && going.iter().any(|t| t.object.kind == object.kind)
    };
    declares.objects.iter().filter(may_be).cloned().map(Probe::Object)
}

/// Packages that came with these and that nothing else would need. One whose removal had begun is among them: apt took its mark first.
fn companions<'a>(things: &'a [Owned], going: &[&Owned], orphans: &BTreeSet<String>) -> Vec<&'a Owned> {
    let with = |t: &&Owned| {
        t.by_product
            && t.object.kind == "package"
            && t.before.is_absent()
            && (orphans.contains(&t.object.key) || (t.open.is_some() && t.left.is_absent()))
            && going.iter().any(|g| g.object.kind == "package" && g.item == t.item && g.scope == t.scope)
    };
    things.iter().filter(with).collect()
}

/// Files and directories that went with one of these: they come back with it.
fn contents<'a>(things: &'a [Owned], going: &[&Owned]) -> Vec<&'a Owned> {
    let below = |t: &Owned, g: &Owned| {
        let inside = || t.object.key.strip_prefix(&g.object.key).is_some_and(|rest| rest.starts_with('/'));
        is_dir(&g.before) && g.item == t.item && g.scope == t.scope && inside()
    };
    let went = |t: &&Owned| t.by_product && t.object.kind == "path" && t.left.is_absent();
    things.iter().filter(went).filter(|t| going.iter().any(|g| below(t, g))).collect()
}

fn is_dir(state: &State) -> bool {
    matches!(PathState::try_from(state.clone()), Ok(PathState::Dir { .. }))
}

/// The path above this object that is declared and, after this plan, no directory; and whether this plan changes it.
fn covered<'p>(
    object: &'p ObjectId,
    plan: &HostPlan,
    declares: &Declares,
    known: &Knowledge,
) -> Option<(&'p str, bool)> {
    let mut path = object.key.as_str();
    while let Some((above, _)) =
        path.rsplit_once('/').filter(|(above, _)| object.kind == "path" && !above.is_empty())
    {
        let id = ObjectId::new("path", above);
        if declares.objects.contains(&id) {
            let mut changes = plan.items.iter().flat_map(Item::changes).map(|c| &c.change);
            let change = changes.rfind(|change| change.object == id);
            let state = change.map(|c| c.to.clone()).or_else(|| Some(known.observed(&id).ok()?.state));
            if state.is_some_and(|state| !is_dir(&state)) {
                return Some((above, change.is_some()));
            }
        }
        path = above;
    }
    None
}

/// Asks apt what would go with these packages; `None` when none of them is a package.
fn orphans_probe(going: &[&Owned]) -> Option<Probe> {
    let names: Vec<String> =
        going.iter().filter(|t| t.object.kind == "package").map(|t| quote(&t.object.key)).collect();
    (!names.is_empty()).then(|| {
        Probe::run(format!(
            "for p in {}; do dpkg-query -s -- \"$p\" >/dev/null 2>&1 && set -- \"$@\" \"$p\"; done; [ $# -gt 0 ] || exit 0; \
             apt-get -s -q $CV_APT_LOOKS --auto-remove purge -- \"$@\" </dev/null",
            names.join(" ")
        ))
    })
}

fn orphans(answer: &RunAnswer) -> BTreeSet<String> {
    let name = |line: &str| {
        let mut words = line.split(' ');
        matches!(words.next(), Some("Purg" | "Remv")).then(|| words.next().map(str::to_owned)).flatten()
    };
    answer.stdout.lines().filter_map(name).collect()
}

/// The revert of one of the things that go. The state before that foreign code of its run made counts only while what brought it stays.
fn undo_of(thing: &Owned, going: &[&Owned], known: &Knowledge) -> Undo {
    let brings = |by: &str| {
        let of_item = |t: &&&Owned| t.item == by && t.scope == thing.scope && t.object != thing.object;
        going.iter().filter(of_item).any(|t| t.before.is_absent() || t.object.kind == "command")
    };
    let moved = thing.moved.as_ref().filter(|m| brings(&m.by));
    let mut left = thing.left.clone();
    // A package that was not there before us is ours in any version: updates come by themselves.
    if thing.object.kind == "package"
        && thing.before.is_absent()
        && let Ok(seen) = known.observed(&thing.object)
        && seen.state.line().starts_with("present ")
        && left.line().starts_with("present ")
    {
        left = seen.state;
    }
    let is_planned = thing.open.is_some();
    let known_left = KnownState { state: left.clone(), pairs: thing.between.len(), is_planned };
    let mut undo = Undo {
        object: thing.object.clone(),
        layer: thing.layer.clone(),
        lies_in: thing.lies_in.clone(),
        left,
        before: moved.map_or(&thing.before, |m| &m.before).clone(),
        between: thing.between.clone(),
        open: thing.open.clone(),
        moved_by: moved.map(|m| m.by.clone()),
        states: vec![known_left],
        theirs: None,
        item: thing.item.clone(),
        comes_back: false,
        sensitive: thing.sensitive,
        run: thing.run.clone(),
        lost: thing.unsaved.clone(),
        way_back: thing.way_back.clone(),
        guard: thing.guard.clone(),
    };
    if let Ok(seen) = known.observed(&thing.object)
        && layers::is_seen(&thing.lies_in, known)
    {
        undo.settle(&seen.state, &fulfils);
    }
    undo
}

/// Adds to a plan what the host's records say: what is no longer declared, how it would go, and a run that did not end.
pub(crate) async fn own(
    context: &RunContext,
    target: &Target,
    plan: &mut HostPlan,
    records: OwnedRecords,
    declares: &Declares,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let scope = context.project_of(target.name());
    plan.ours.remarks.clone_from(&records.broken);
    let mut going = undeclared(&records.things, &scope, declares);
    plan.ours.owned =
        records.things.iter().filter(|t| remains(t) && !t.by_product && scope.is(&t.scope)).count();
    let prune = context.options.prune;
    let mut probes: BTreeSet<Probe> =
        going.iter().map(|t| Probe::Object(t.object.clone())).chain(open_probes(&records)).collect();
    probes.extend(going.iter().flat_map(|t| layers::probes(&t.lies_in)));
    probes.extend(other_names(&going, declares));
    probes.extend(going.iter().filter_map(|t| owners_probe(&t.object, &t.before)));
    let apt = orphans_probe(&going).filter(|_| prune);
    if apt.is_some() {
        let with = records.things.iter().filter(|t| t.by_product && t.object.kind == "package");
        probes.extend(with.map(|t| Probe::Object(t.object.clone())));
    }
    probes.extend(contents(&records.things, &going).into_iter().map(|t| Probe::Object(t.object.clone())));
    probes.extend(apt.clone());
    probes.retain(|p| !known.knows(p));
    if !probes.is_empty() {
        target.look(&probes, known).await?;
    }
    let real =
        |object: &ObjectId| converge_planner::real_name(known, object).unwrap_or_else(|| object.clone());
    let declared: BTreeSet<ObjectId> = declares.objects.iter().map(real).collect();
    going.retain(|t| !declared.contains(&real(&t.object)));
    plan.ours.cut_off = records.cut_off.as_ref().map(|run| Box::new(cut_off(run, records.busy, known)));
    let with = match apt.as_ref().and_then(|probe| known.answer(probe)) {
        Some(converge_resource::Answer::Run(answer)) => companions(&records.things, &going, &orphans(answer)),
        _ => Vec::new(),
    };
    let inside = contents(&records.things, &going);
    let leaving: BTreeSet<&ObjectId> = going.iter().chain(&with).chain(&inside).map(|t| &t.object).collect();
    // In the order of the records, the last first.
    let leaving: Vec<&Owned> = records.things.iter().rev().filter(|t| leaving.contains(&t.object)).collect();
    let mut undos: Vec<Undo> = leaving.iter().map(|t| undo_of(t, &leaving, known)).collect();
    go_with_what_brought_them(&mut undos);
    let mut later: BTreeSet<ObjectId> = BTreeSet::new();
    for undo in &mut undos {
        let Some((above, changes)) = covered(&undo.object, plan, declares, known) else { continue };
        undo.lost.get_or_insert(format!("{above}, in which it lies, is declared otherwise"));
        if changes {
            later.insert(undo.object.clone());
        }
    }
    holders::leave_those_that_remain_needed(&mut undos, plan, &records.things, known);
    let asked: BTreeSet<_> = revert::probes(&undos).into_iter().filter(|probe| !known.knows(probe)).collect();
    if prune && !asked.is_empty() {
        target.look(&asked, known).await?;
    }
    let states = records.things.iter().flat_map(|t| [(&t.object, &t.before), (&t.object, &t.left)]);
    let accounts = Accounts::of(states);
    let asked = Accounts::probes(&undos, known);
    if !asked.is_empty() {
        target.look(&asked, known).await?;
    }
    accounts.translate(&mut undos, known);
    target.saved_contents(undos.iter(), known).await?;
    let groups = revert::arrange(undos, known, &context.options.allow_destroy);
    let since: BTreeMap<&ObjectId, &Owned> = going.iter().map(|t| (&t.object, *t)).collect();
    plan.ours.undeclared = groups
        .iter()
        .flat_map(|group| &group.members)
        .filter_map(|judged| {
            let thing = since.get(&judged.undo.object)?;
            let role = thing.roles.first().map(|r| declares.name(r).to_owned()).unwrap_or_default();
            Some(Undeclared {
                object: judged.undo.object.clone(),
                role,
                item: thing.item.clone(),
                since: thing.since.clone(),
                fate: fate(judged),
            })
        })
        .collect();
    if prune && !groups.is_empty() {
        let groups = without(groups, &later);
        add_prune_items(context, target, plan, groups, declares, known).await?;
    }
    Ok(())
}

/// The groups without what this run removes first: the next one takes it out of the records.
fn without(mut groups: Vec<Group>, later: &BTreeSet<ObjectId>) -> Vec<Group> {
    for group in &mut groups {
        group.members.retain(|judged| !later.contains(&judged.undo.object));
    }
    groups
}

async fn add_prune_items(
    context: &RunContext,
    target: &Target,
    plan: &mut HostPlan,
    groups: Vec<Group>,
    declares: &Declares,
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let mut own = HostPlan { host: plan.host.clone(), ..HostPlan::default() };
    // Where the item of each group stands, so that those behind it can wait for it.
    let mut item_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (number, Group { address, members, after }) in groups.into_iter().enumerate() {
        let (forget, undo): (Vec<Judged>, Vec<Judged>) =
            members.into_iter().partition(|judged| matches!(fate(judged), Fate::Forgotten(_)));
        let role = declares.name(revert::undo::role_of(&address)).to_owned();
        let name = address.split_once('/').map_or(address.as_str(), |(_, name)| name);
        for (members, forgets) in [(forget, true), (undo, false)].into_iter().filter(|(m, _)| !m.is_empty()) {
            let mut item =
                if forgets { forget_item(&members, known) } else { revert::item(0, &address, members) };
            item.origin = ItemOrigin::Prune;
            "prune".clone_into(&mut item.kind);
            item.role.clone_from(&role);
            let what = if forgets { "no longer managed" } else { "orphaned" };
            item.address = format!("{role}/{what}: {name}");
            item.name = format!("{what}: {name}");
            item.id = u32::try_from(own.items.len()).unwrap_or(u32::MAX);
            let after = after.iter().filter_map(|group| item_of.get(group).copied()).collect();
            item.needs = revert::needs(&own.items, &item, &after);
            if !forgets {
                item_of.insert(number, own.items.len());
            }
            own.items.push(item);
        }
    }
    converge_planner::join_guarded(&mut own.items, &BTreeSet::new());
    revert::releases::releases_back(target, &mut own, known).await?;
    crate::plan::backup_notes::note_backups(&mut own);
    own.base = revert::undo::base_of(&own, known);
    revert::undo::take_contents(&mut own, known);
    if context.options.diffs {
        crate::plan::contents::contents_for_diffs(target, &mut own, known).await?;
    }
    join(plan, own);
    Ok(())
}

/// Lays the items that give something back behind the declared ones. They wait for all that is to be done before.
fn join(plan: &mut HostPlan, own: HostPlan) {
    let matters =
        |i: &&Item| !matches!(i.outcome, Outcome::Unchanged | Outcome::Skipped(_) | Outcome::Adopt(_));
    let before: Vec<u32> = plan.items.iter().filter(matters).map(|i| i.id).collect();
    let next = plan.items.iter().map(|i| i.id).max().map_or(0, |id| id.saturating_add(1));
    plan.items.extend(own.items.into_iter().map(|mut item| {
        item.id = item.id.saturating_add(next);
        let own_needs = item.needs.iter().map(|need| need.saturating_add(next));
        item.needs = before.iter().copied().chain(own_needs).collect();
        item
    }));
    plan.base.extend(own.base);
    plan.contents.extend(own.contents);
}

/// The items that give something back, for a plan that was made anew in the middle of a run.
pub(crate) fn carry_over(fresh: &mut HostPlan, items: Vec<Item>, address_of: &BTreeMap<u32, String>) {
    let mut ids: BTreeMap<String, u32> = fresh.items.iter().map(|i| (i.address.clone(), i.id)).collect();
    let mut next = fresh.items.iter().map(|i| i.id).max().map_or(0, |id| id.saturating_add(1));
    for mut item in items {
        item.needs = item
            .needs
            .iter()
            .filter_map(|n| address_of.get(n).and_then(|address| ids.get(address)).copied())
            .collect();
        item.id = next;
        ids.insert(item.address.clone(), next);
        next = next.saturating_add(1);
        fresh.items.push(item);
    }
}

/// The effect of `--prune` on an object.
fn fate(judged: &Judged) -> Fate {
    let cannot = |why: &str| Fate::Forgotten(format!("cannot be restored: {why}"));
    match (&judged.verdict, revert::undo::lost(&judged.undo)) {
        (Verdict::Same, _) => Fate::Forgotten("it is as it was before us already".to_owned()),
        (Verdict::Lost(why), _) => cannot(why),
        (Verdict::Stays(_), Some(why)) => cannot(&why),
        (Verdict::Stays(why) | Verdict::Kept(why), _) => Fate::LeftAlone(why.clone()),
        (Verdict::Back(_), _) if judged.undo.before.is_absent() || judged.undo.object.kind == "command" => {
            Fate::Removed
        }
        (Verdict::Back(_), _) => Fate::GivenBack,
    }
}

/// One item that only takes things out of the record.
fn forget_item(members: &[Judged], known: &Knowledge) -> Item {
    let mut item = revert::item(0, "", Vec::new());
    let members: Vec<&Undo> = members.iter().map(|judged| &judged.undo).collect();
    let now = |u: &Undo| known.observed(&u.object).map(|seen| seen.state).unwrap_or_else(|_| u.left.clone());
    let changes: Vec<Change> = members
        .iter()
        .map(|u| Change { object: u.object.clone(), from: now(u), to: u.before.clone() })
        .collect();
    item.claims = members.iter().map(|u| u.object.clone()).collect();
    item.sensitive = members.iter().any(|u| u.sensitive);
    item.notes = members
        .iter()
        .filter_map(|u| {
            let now = now(u);
            (now != u.before).then(|| {
                let why = revert::undo::lost(u).unwrap_or_default();
                format!("{} stays as it is: {why}", u.object)
            })
        })
        .collect();
    item.outcome = Outcome::Adopt(changes);
    item
}

/// The objects that must be observed to describe an unfinished run.
fn open_probes(records: &OwnedRecords) -> Vec<Probe> {
    let changes = records.cut_off.iter().flat_map(|r| &r.changes);
    changes.filter(|c| c.outcome == SavedOutcome::Unknown).map(|c| Probe::Object(c.object.clone())).collect()
}

/// Describes an unfinished run: what it did, did not begin, and what the host shows of the rest.
fn cut_off(run: &RunRecord, busy: bool, known: &Knowledge) -> CutOff {
    let mut items: Vec<(&str, Vec<&SavedChange>)> = Vec::new();
    for change in run.changes.iter().filter(|c| c.outcome != SavedOutcome::Moved) {
        match items.iter_mut().find(|(item, _)| *item == change.item) {
            Some((_, changes)) => changes.push(change),
            None => items.push((&change.item, vec![change])),
        }
    }
    let begun: BTreeSet<&str> = items.iter().map(|(item, _)| *item).collect();
    let not_begun = run.planned.iter().filter(|a| !begun.contains(a.as_str())).cloned().collect();
    let (mut done, mut unknown, mut put_back) = (Vec::new(), Vec::new(), Vec::new());
    for (item, changes) in items {
        if changes.iter().any(|c| c.outcome == SavedOutcome::PutBack) {
            let stays = changes.iter().filter(|c| c.outcome == SavedOutcome::PutBack && !is_back(c));
            let stays: Vec<String> = stays.map(|c| c.object.to_string()).collect();
            if stays.is_empty() {
                put_back.push(item.to_owned());
            } else {
                let cause = run.not_put_back.as_ref().map_or(String::new(), |why| format!(" ({why})"));
                let why = format!(
                    "not as it was before, the host could not revert it{cause}: {}",
                    stays.join(", ")
                );
                unknown.push((item.to_owned(), why));
            }
            continue;
        }
        let open: Vec<String> = changes
            .iter()
            .filter(|c| c.outcome == SavedOutcome::Unknown)
            .map(|c| format!("{} {}", c.object, found(c, known)))
            .collect();
        if open.is_empty() {
            done.push(item.to_owned());
        } else {
            unknown.push((item.to_owned(), open.join("; ")));
        }
    }
    CutOff {
        run: run.id.clone(),
        time: run.time.clone(),
        operator: run.operator.clone(),
        busy,
        put_back: run.put_back.clone().map(|why| (why, put_back)),
        done,
        unknown,
        not_begun,
    }
}

/// Whether the automatic revert has led to the state before.
fn is_back(change: &SavedChange) -> bool {
    change.after == change.before
        || converge_objects::object(&change.object.kind)
            .is_some_and(|object| object.fulfils(&change.after, &change.before))
}

fn found(change: &SavedChange, known: &Knowledge) -> &'static str {
    let restart = converge_objects::object(&change.object.kind).is_some_and(|o| o.traits().restarts_host);
    match known.observed(&change.object) {
        Ok(seen) if restart && seen.state == change.after => "is over: the host has restarted",
        Ok(seen) if restart && seen.state == change.before => "is open: the host has not restarted",
        Ok(seen) if fulfils(&change.object, &seen.state, &change.after) => "was changed as planned",
        Ok(seen) if seen.state == change.before => "is as it was before",
        Ok(_) => "is neither as before nor as planned",
        Err(_) => "cannot be looked at",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_ledger::Scope;
    use converge_resource::State;

    fn thing(key: &str, roles: &[&str]) -> Owned {
        Owned {
            object: ObjectId::new("path", key),
            layer: converge_ledger::Layer::default(),
            lies_in: Vec::new(),
            uid: None,
            scope: Scope { playbook: "p".to_owned(), inventory: "i".to_owned() },
            roles: roles.iter().map(|r| (*r).to_owned()).collect(),
            item: "r/x".to_owned(),
            since: String::new(),
            run: "1".to_owned(),
            before: State::absent(),
            moved: None,
            left: State::from_line("dir 755 root root"),
            between: Vec::new(),
            sensitive: false,
            by_product: false,
            unsaved: None,
            way_back: None,
            open: None,
            guard: None,
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
            narrowed: false,
        };
        let scope = Project(things[0].scope.clone());
        let keys = |declares: &Declares| -> Vec<String> {
            undeclared(&things, &scope, declares).iter().map(|t| t.object.key.clone()).collect()
        };
        assert_eq!(keys(&declares), ["/left", "/gone"]);
        declares.narrowed = true;
        assert_eq!(keys(&declares), ["/left"]);
        declares.renamed = BTreeMap::from([("old".to_owned(), "a".to_owned())]);
        assert_eq!(keys(&declares), ["/left", "/renamed"]);
    }

    #[test]
    fn apt_says_what_nothing_else_needs() {
        let stdout = "Reading\nRemv a [1]\nPurg nginx-common [1.2]\nInst x\n".to_owned();
        let names = orphans(&RunAnswer { status: 0, stdout, stderr: String::new() });
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "nginx-common"]);
    }
}
