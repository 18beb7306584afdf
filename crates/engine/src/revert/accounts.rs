//! Names and numbers of accounts. A host shows the owner of a file by the name of the account that has its number now, and by the number where none has it: a
//! state that was recorded in other words may be the same. Pure.

use crate::revert::undo::Verdict;
use converge_ledger::Undo;
use converge_objects::{PathState, UserState, account_number};
use converge_planner::{Item, Knowledge};
use converge_resource::{Answer, Change, ObjectId, Probe, State};
use std::collections::{BTreeMap, BTreeSet};

/// The numbers that the records of a host give to accounts.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    numbers: BTreeMap<ObjectId, BTreeSet<u32>>,
}

impl Accounts {
    /// The numbers in these states of objects.
    pub fn of<'a>(states: impl Iterator<Item = (&'a ObjectId, &'a State)>) -> Self {
        let mut numbers: BTreeMap<ObjectId, BTreeSet<u32>> = BTreeMap::new();
        for (object, state) in states {
            if let Some(number) = account_number(object, state) {
                numbers.entry(object.clone()).or_default().insert(number);
            }
        }
        Self { numbers }
    }

    /// The accounts that own paths now which the records name in other words: their numbers decide.
    pub fn probes(undos: &[Undo], known: &Knowledge) -> BTreeSet<Probe> {
        let mut probes = BTreeSet::new();
        for undo in undos {
            let Some(now) =
                known.observed(&undo.object).ok().and_then(|present| owners(&undo.object, &present.state))
            else {
                continue;
            };
            let recorded: Vec<_> = states(undo).filter_map(|state| owners(&undo.object, state)).collect();
            let asked = |account: &&ObjectId| {
                let index = usize::from(account.kind == "group");
                recorded.iter().any(|owners| owners.get(index) != Some(account)) && number(account).is_none()
            };
            probes.extend(now.iter().filter(asked).map(|account| Probe::Object(account.clone())));
        }
        probes.retain(|probe| !known.knows(probe));
        probes
    }

    /// Gives the recorded states of paths the words that the host shows now, where they mean the same owners.
    pub fn translate(&self, undos: &mut [Undo], known: &Knowledge) {
        follow_later_accounts(undos, known);
        for undo in undos {
            let Ok(now) = known.observed(&undo.object) else { continue };
            let Some(now) = owners(&undo.object, &now.state) else { continue };
            let object = undo.object.clone();
            let between = undo.between.iter_mut().flat_map(|(left, found)| [left, found]);
            let all = [&mut undo.left, &mut undo.before].into_iter().chain(&mut undo.open);
            for state in all.chain(undo.states.iter_mut().map(|known| &mut known.state)).chain(between) {
                if let Some(translated) = self.translated(&object, state, &now, known) {
                    *state = translated;
                }
            }
        }
    }

    fn translated(
        &self,
        object: &ObjectId,
        state: &State,
        now: &[ObjectId; 2],
        known: &Knowledge,
    ) -> Option<State> {
        let recorded = owners(object, state)?;
        let [owner, group] = [0, 1].map(|index| {
            let (now, recorded) = (now.get(index)?, recorded.get(index)?);
            Some(if self.mean_one(now, recorded, known) { now } else { recorded })
        });
        let (new_owner, new_group) = (&owner?.key, &group?.key);
        let mut state = PathState::try_from(state.clone()).ok()?;
        if let PathState::File { owner, group, .. }
        | PathState::Dir { owner, group, .. }
        | PathState::Link { owner, group, .. } = &mut state
        {
            owner.clone_from(new_owner);
            group.clone_from(new_group);
        }
        Some(state.into())
    }

    /// Whether the account that a path shows now has the number that a recorded one had.
    fn mean_one(&self, now: &ObjectId, recorded: &ObjectId, known: &Knowledge) -> bool {
        let of_now = || {
            let present = known.observed(now).ok();
            number(now).or_else(|| present.and_then(|present| account_number(now, &present.state)))
        };
        let had = |wanted: u32| {
            number(recorded) == Some(wanted)
                || self.numbers.get(recorded).is_some_and(|numbers| numbers.contains(&wanted))
        };
        now == recorded || of_now().is_some_and(had)
    }
}

/// Writes the owners in the states before the runs as the host shows them now, where an account has got another number since the runs first touched the path:
/// a name in such a state means the number that the account had then. The objects come in the reverse of the order in which the runs first touched them.
fn follow_later_accounts(undos: &mut [Undo], known: &Knowledge) {
    let mut later = AccountChanges::default();
    for undo in undos {
        later.follow(&undo.object, &mut undo.before);
        let Ok(now) = known.observed(&undo.object) else { continue };
        let change = Change { object: undo.object.clone(), from: undo.before.clone(), to: now.state };
        let has_two_numbers = !change.from.is_absent() && !change.to.is_absent();
        if has_two_numbers && converge_objects::is_followed(&change) {
            later.0.insert(0, change);
        }
    }
}

/// The number that stands for an account.
fn number(account: &ObjectId) -> Option<u32> {
    account.key.parse().ok()
}

/// The owner and the group of a path in this state.
fn owners(object: &ObjectId, state: &State) -> Option<[ObjectId; 2]> {
    if object.kind != "path" {
        return None;
    }
    match PathState::try_from(state.clone()).ok()? {
        PathState::File { owner, group, .. }
        | PathState::Dir { owner, group, .. }
        | PathState::Link { owner, group, .. } => {
            Some([ObjectId::new("user", owner), ObjectId::new("group", group)])
        }
        PathState::Absent | PathState::Other { .. } => None,
    }
}

/// All states in which the records know an object.
fn states(undo: &Undo) -> impl Iterator<Item = &State> {
    let between = undo.between.iter().flat_map(|(left, found)| [left, found]);
    let all = [&undo.left, &undo.before].into_iter().chain(&undo.open);
    all.chain(undo.states.iter().map(|known| &known.state)).chain(between)
}

/// Asks which users have which group as their primary one.
pub(crate) fn users_probe() -> Probe {
    Probe::run("cv_group_users")
}

/// Lets the groups stay that are the primary ones of users once all is reverted: no tool removes such a group.
pub(crate) fn leave_groups_of_users(undos: &[Undo], verdicts: &mut [Verdict], known: &Knowledge) {
    let Some(Answer::Run(answer)) = known.answer(&users_probe()) else { return };
    let now: BTreeMap<&str, Vec<&str>> = answer
        .stdout
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.collect()))
        })
        .collect();
    let goes_back = |(undo, verdict): (&Undo, &Verdict)| match verdict {
        Verdict::Back(change) if undo.object.kind == "user" => {
            let group = match UserState::try_from(change.to.clone()).ok()? {
                UserState::User { group, .. } => Some(group),
                UserState::Absent => None,
            };
            Some((undo.object.key.clone(), group))
        }
        _ => None,
    };
    let then: BTreeMap<String, Option<String>> =
        undos.iter().zip(verdicts.iter()).filter_map(goes_back).collect();
    for verdict in verdicts {
        let Verdict::Back(change) = verdict else { continue };
        if change.object.kind != "group" || !change.to.is_absent() {
            continue;
        }
        let group = change.object.key.as_str();
        let stays = now.get(group).into_iter().flatten().copied().filter(|user| !then.contains_key(*user));
        let comes = then.iter().filter(|(_, primary)| primary.as_deref() == Some(group));
        if let Some(user) = stays.chain(comes.map(|(user, _)| user.as_str())).next() {
            *verdict =
                Verdict::Stays(format!("it is the primary group of {user}, a user that is not removed"));
        }
    }
}

/// Changes of accounts, in their order: a path shows its owner in other words after them.
#[derive(Debug, Default)]
pub(crate) struct AccountChanges(Vec<Change>);

impl AccountChanges {
    /// Those of a plan's items.
    pub fn of<'a>(items: impl IntoIterator<Item = &'a Item>) -> Self {
        let mut all = Self::default();
        items.into_iter().flat_map(Item::changes).for_each(|planned| all.take(&planned.change));
        all
    }

    /// Takes a change that comes after the others, if it is one of an account.
    pub fn take(&mut self, change: &Change) {
        if converge_objects::is_followed(change) {
            self.0.push(change.clone());
        }
    }

    /// Writes a state as the host shows it after these changes.
    pub fn follow(&self, object: &ObjectId, state: &mut State) {
        for account in &self.0 {
            if let Some(after) = converge_objects::follows(object, state, account) {
                *state = after;
            }
        }
    }
}

/// Gives the changes of paths the words that the host shows at their turn, behind the accounts that come, go or get another number before.
pub(crate) fn follow(order: &[Vec<usize>], verdicts: &mut [Verdict], mut before: AccountChanges) {
    for at in order.iter().flatten() {
        let Some(Verdict::Back(change)) = verdicts.get_mut(*at) else { continue };
        before.follow(&change.object, &mut change.from);
        before.follow(&change.object, &mut change.to);
        before.take(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revert::tests::undo;
    use converge_resource::Observation;

    /// The states from and to which a rollback brings each object, in its order, where all is as the runs left it.
    fn back(mut undos: Vec<Undo>) -> Vec<(String, String)> {
        let mut known = Knowledge::default();
        for undo in &undos {
            let observed = Observation::new(undo.left.clone(), None);
            known.learn(Probe::Object(undo.object.clone()), Answer::Object(observed));
        }
        let states: Vec<_> =
            undos.iter().flat_map(|u| [&u.before, &u.left].map(|s| (u.object.clone(), s.clone()))).collect();
        Accounts::of(states.iter().map(|(object, state)| (object, state))).translate(&mut undos, &known);
        let groups = crate::revert::arrange(undos, &mut known, &[]);
        let members = groups.into_iter().flat_map(|group| group.members);
        let ends = members.map(|judged| match judged.verdict {
            Verdict::Back(change) => (change.from.line().to_owned(), change.to.line().to_owned()),
            other => panic!("{other:?}"),
        });
        ends.collect()
    }

    /// In a record, a name means the number that its account had at that time.
    #[test]
    fn a_file_goes_back_to_the_number_that_its_owner_had_when_the_file_was_changed() {
        let user = |uid: u16| format!("user {uid} u \\ /home/u /bin/sh locked");
        let dir = |owner: &str, group: &str| format!("dir 755 {owner} {group}");
        let of = |kind: &str, key: &str, left: &str, before: &str| undo(kind, key, left, before);
        let pair = |a: String, b: String| (a, b);
        // A rollback of a rollback, which had taken back the path and then the number.
        let account = of("user", "u", &user(4201), &user(4301));
        let path = of("path", "/srv/d", &dir("root", "root"), &dir("u", "root"));
        assert_eq!(
            back(vec![account.clone(), path.clone()]),
            [pair(user(4201), user(4301)), pair(dir("root", "root"), dir("u", "root"))]
        );
        // The account got its number before the path was given to it.
        assert_eq!(
            back(vec![path, account.clone()]),
            [pair(dir("root", "root"), dir("u", "root")), pair(user(4201), user(4301))]
        );
        // The rollback had left the path with the old number.
        let path = of("path", "/srv/d", &dir("4201", "root"), &dir("u", "root"));
        let found = back(vec![account.clone(), path]);
        assert_eq!(found.last().unwrap().1, dir("u", "root"), "{found:?}");
        // It is the number of the account now.
        let path = of("path", "/srv/d", &dir("root", "root"), &dir("4201", "root"));
        let found = back(vec![account, path]);
        assert_eq!(found.last().unwrap().1, dir("4201", "root"), "{found:?}");
        // The same of a group.
        let account = of("group", "g", "group 4201", "group 4301");
        let path = of("path", "/srv/d", "absent", &dir("root", "g"));
        assert_eq!(
            back(vec![account, path]),
            [pair("group 4201".into(), "group 4301".into()), pair("absent".into(), dir("root", "g"))]
        );
    }
}
