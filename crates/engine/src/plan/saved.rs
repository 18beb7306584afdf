//! Plans in files: what was shown is what is applied, or it is refused by name.
//!
//! A saved plan holds no content and no secret. `converge apply FILE` looks and renders again and applies what comes out the
//! same; every item that does not is refused. See `docs/adr`.

mod upgrade;

use crate::{FleetPlan, HostEntry, HostResult};
use camino::Utf8Path;
use converge_planner::{EarlierRuns, HostPlan, Item, Outcome, PlannedChange};
use converge_resource::{Digest, ObjectId, State};
use converge_store::{DocumentError, SealError, Sealer, read_document, write_document};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const FORMAT: &str = "converge-plan";
/// Since 2 the arguments hold the moment of the plan; since 3 deferred items are bound by what they are made of; since 4 the reason why a
/// target has no plan and the origin of an item have types; since 5 what a prune only takes out of the records has an outcome of its own.
const VERSION: u32 = 5;
/// The oldest version that is read.
const OLDEST: u32 = 3;

/// The reason why a plan cannot be saved or read.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The file.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The key.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// The file holds no plan of converge.
    #[error("{path}: {why}")]
    Content {
        /// The file.
        path: String,
        /// The problem.
        why: String,
    },
}

/// A plan as it was saved, with what its maker was called with.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedPlan {
    /// Arguments from which the same project is loaded again, as the command line defines them.
    pub arguments: serde_json::Value,
    /// The plan, its sensitive parts sealed.
    plan: FleetPlan,
}

/// Writes a plan. `arguments` are given back by [`load`].
///
/// # Errors
/// The file system's, or no key to seal with.
pub fn save(plan: &FleetPlan, arguments: serde_json::Value, path: &Utf8Path) -> Result<(), SaveError> {
    save_with(plan, arguments, path, &Sealer::open()?)
}

fn save_with(
    plan: &FleetPlan,
    arguments: serde_json::Value,
    path: &Utf8Path,
    sealer: &Sealer,
) -> Result<(), SaveError> {
    let mut plan = plan.clone();
    for entry in &mut plan.hosts {
        if let HostResult::Planned(host) = &mut entry.result {
            *host = seal_host(host, sealer)?;
        }
    }
    let body = serde_json::to_value(SavedPlan { arguments, plan })
        .map_err(|e| SaveError::Content { path: path.to_string(), why: e.to_string() })?;
    Ok(write_document(path, FORMAT, VERSION, body)?)
}

/// Reads a plan.
///
/// # Errors
/// A file that is no plan, or of another version.
pub fn load(path: &Utf8Path) -> Result<SavedPlan, SaveError> {
    let (version, mut body) = read_document(path, FORMAT, OLDEST..=VERSION)?;
    if version <= 3 {
        upgrade::from_3(&mut body);
    }
    if version <= 4 {
        upgrade::from_4(&mut body);
    }
    serde_json::from_value(body).map_err(|e| SaveError::Content {
        path: path.to_string(),
        why: format!("not a plan of converge: {e}"),
    })
}

impl SavedPlan {
    /// When it was made, RFC 3339 UTC.
    pub fn created(&self) -> &str {
        &self.plan.created
    }

    /// The targets that were planned for and that a plan made just now does not have: they have left the inventory, or go by another name.
    pub fn missing(&self, fresh: &FleetPlan) -> Vec<String> {
        let names = self.plan.hosts.iter().map(|entry| &entry.host);
        names.filter(|name| !fresh.hosts.iter().any(|entry| entry.host == **name)).cloned().collect()
    }

    /// Lays the saved plan over one that was made just now: what is the same stays, the rest is refused.
    ///
    /// # Errors
    /// No key to compare sealed parts with.
    pub fn bind(&self, fresh: FleetPlan) -> Result<FleetPlan, SaveError> {
        self.bind_with(fresh, &Sealer::open()?)
    }

    fn bind_with(&self, fresh: FleetPlan, sealer: &Sealer) -> Result<FleetPlan, SaveError> {
        let mut bound = FleetPlan { hosts: Vec::new(), ..fresh.clone() };
        for entry in fresh.hosts {
            let saved = self.plan.hosts.iter().find(|h| h.host == entry.host);
            let result = match (saved.map(|s| &s.result), entry.result) {
                // A host that is not in the plan is not touched.
                (None, _) => continue,
                (_, HostResult::Lost(lost)) => HostResult::Lost(lost),
                (Some(HostResult::Lost(_)), HostResult::Planned(plan)) => {
                    HostResult::Planned(refuse_all(plan, "the host was not reachable when the plan was made"))
                }
                (Some(HostResult::Planned(saved)), HostResult::Planned(plan)) => {
                    HostResult::Planned(bind_host(saved, plan, sealer)?)
                }
            };
            bound.hosts.push(HostEntry { host: entry.host, result, took: entry.took });
        }
        Ok(bound)
    }
}

fn refuse_all(mut plan: HostPlan, why: &str) -> HostPlan {
    for item in plan.items.iter_mut().filter(|i| i.is_pending()) {
        item.outcome = Outcome::Refused(why.to_owned());
    }
    plan
}

fn bind_host(saved: &HostPlan, mut fresh: HostPlan, sealer: &Sealer) -> Result<HostPlan, SaveError> {
    let mut known: BTreeMap<&str, &Item> = saved.items.iter().map(|i| (i.address.as_str(), i)).collect();
    for item in &mut fresh.items {
        let was = known.remove(item.address.as_str());
        if let Some(why) = objection(was, &seal_item(item, sealer)?) {
            item.outcome = Outcome::Refused(why);
        }
    }
    refuse_another_order(saved, &mut fresh);
    for gone in known.into_values().filter(|i| i.is_pending()) {
        let mut item = gone.clone();
        item.outcome = Outcome::Refused("it is no longer declared; plan again".to_owned());
        item.id = u32::try_from(fresh.items.len()).unwrap_or(u32::MAX).saturating_add(1_000_000);
        fresh.items.push(item);
    }
    Ok(fresh)
}

/// An item that comes before one that the saved plan has before it.
fn refuse_another_order(saved: &HostPlan, fresh: &mut HostPlan) {
    let place: BTreeMap<&str, usize> =
        saved.items.iter().enumerate().map(|(place, item)| (item.address.as_str(), place)).collect();
    // The earliest place of all that still come.
    let mut first = usize::MAX;
    for item in fresh.items.iter_mut().rev().filter(|item| item.is_pending()) {
        let Some(place) = place.get(item.address.as_str()) else { continue };
        if first < *place {
            item.outcome = Outcome::Refused("it comes earlier than in the saved plan; plan again".to_owned());
        }
        first = first.min(*place);
    }
}

/// The settings that tell what an item comes to.
fn decisive(item: &Item) -> impl Iterator<Item = &(String, String)> {
    item.settings.iter().filter(|(name, _)| !converge_objects::APT_CHOICE.contains(&name.as_str()))
}

/// The reason why an item of the fresh plan may not be applied.
fn objection(saved: Option<&Item>, fresh: &Item) -> Option<String> {
    let Some(saved) = saved else {
        return fresh.is_pending().then(|| "it is not in the saved plan; plan again".to_owned());
    };
    match (&saved.outcome, &fresh.outcome) {
        (Outcome::Changed(was), Outcome::Changed(now))
            if same(was, now) && decisive(saved).eq(decisive(fresh)) =>
        {
            None
        }
        (Outcome::Changed(was), Outcome::Changed(now)) => Some(difference(was, now)),
        (Outcome::Changed(_), Outcome::Refused(_)) => None,
        // A login is no longer accepted: no object has changed.
        (Outcome::Changed(_), Outcome::Failed(problem)) if problem.pointer.starts_with("/login") => {
            let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
            Some(format!("{}{help}", problem.message))
        }
        // It could be done when the plan was made: a user has changed the host since.
        (Outcome::Changed(was), Outcome::Failed(problem)) => {
            Some(format!("{} changed since the plan: {}", names(was), problem.message))
        }
        (Outcome::Changed(_), Outcome::Deferred { wait, .. }) => Some(format!(
            "it was resolved in the saved plan and is deferred now: {}; plan again",
            wait.reason
        )),
        (Outcome::Changed(was), _) => {
            Some(format!("{} changed since the plan: nothing is left to change", names(was)))
        }
        (Outcome::Deferred { objects: was, .. }, Outcome::Deferred { objects: now, .. }) => {
            if was != now {
                return Some("it may touch other objects than the saved plan says; plan again".to_owned());
            }
            (saved.bound != fresh.bound).then(|| {
                "the role or one of its values has changed since the plan was made; plan again".to_owned()
            })
        }
        (Outcome::Deferred { .. }, Outcome::Changed(_)) => {
            Some("it was deferred in the saved plan and is resolved now; plan again".to_owned())
        }
        (_, Outcome::Changed(now)) => Some(format!("{} changed since the plan", names(now))),
        (_, Outcome::Deferred { .. }) => {
            Some("it had nothing to do when the plan was made; plan again".to_owned())
        }
        _ => None,
    }
}

/// The objects of these changes, for a message.
fn names(changes: &[PlannedChange]) -> String {
    let objects: Vec<String> = changes.iter().map(|c| c.change.object.to_string()).collect();
    objects.join(", ")
}

fn same(was: &[PlannedChange], now: &[PlannedChange]) -> bool {
    was.len() == now.len() && was.iter().zip(now).all(|(a, b)| a.change == b.change)
}

fn difference(was: &[PlannedChange], now: &[PlannedChange]) -> String {
    for planned in now {
        let object = &planned.change.object;
        match was.iter().find(|c| c.change.object == *object) {
            None => return format!("{object} would be changed too; it is not in the saved plan"),
            Some(saved) if saved.change.from != planned.change.from => {
                return format!(
                    "{object} changed since the plan: planned against `{}`, found `{}`",
                    saved.change.from, planned.change.from
                );
            }
            Some(saved) if saved.change.to != planned.change.to => {
                return format!("the planned state of {object} differs from the saved plan; plan again");
            }
            Some(_) => {}
        }
    }
    let gone: Vec<String> = was
        .iter()
        .map(|planned| &planned.change.object)
        .filter(|object| !now.iter().any(|c| c.change.object == **object))
        .map(ToString::to_string)
        .collect();
    if gone.is_empty() {
        return format!("the way in which {} is changed differs from the saved plan; plan again", names(was));
    }
    format!("{} changed since the plan: nothing of it is left to change", gone.join(", "))
}

fn seal_host(plan: &HostPlan, sealer: &Sealer) -> Result<HostPlan, SaveError> {
    let mut sealed = plan.clone();
    sealed.items = plan.items.iter().map(|i| seal_item(i, sealer)).collect::<Result<_, _>>()?;
    let claims = |sensitive: bool| {
        let items = plan.items.iter().filter(move |item| item.sensitive == sensitive);
        items.flat_map(|item| &item.claims).collect::<BTreeSet<&ObjectId>>()
    };
    let (secret, open) = (claims(true), claims(false));
    // The key of a command holds its text, and one that no item claims may be that of a sensitive item of an earlier run.
    sealed.base.retain(|(object, _)| {
        !secret.contains(object)
            && (!converge_objects::traits_of(object).key_is_text || open.contains(object))
    });
    // The records of earlier runs are read again, too: they may hold an orphaned command of a sensitive item.
    sealed.earlier_runs = EarlierRuns::default();
    Ok(sealed)
}

/// A sensitive item without anything that a reader of the plan could guess from.
fn seal_item(item: &Item, sealer: &Sealer) -> Result<Item, SaveError> {
    let mut item = item.clone();
    // Parameters are rendered again; what they were is no one's business.
    item.params = None;
    if let Some(source) = &item.source {
        item.bound = Some(match source.sensitive {
            true => sealer.seal(&source.text)?,
            false => Digest::of(source.text.as_bytes()).to_string(),
        });
    }
    if !item.sensitive {
        return Ok(item);
    }
    let seal_object = |object: &ObjectId| -> Result<ObjectId, SaveError> {
        // Paths, packages and units name things; a command's key holds its text.
        if converge_objects::traits_of(object).key_is_text {
            return Ok(ObjectId::new(&object.kind, format!("sealed {}", sealer.seal(&object.key)?)));
        }
        Ok(object.clone())
    };
    item.notes.clear();
    for (_, value) in &mut item.settings {
        *value = sealer.seal(value)?;
    }
    for claim in &mut item.claims {
        *claim = seal_object(claim)?;
    }
    match &mut item.outcome {
        Outcome::Changed(changes) => {
            for planned in changes {
                let change = &mut planned.change;
                change.object = seal_object(&change.object)?;
                change.from = State::from_line(&sealer.seal(change.from.line())?);
                change.to = State::from_line(&sealer.seal(change.to.line())?);
            }
        }
        Outcome::Adopt(changes) | Outcome::Forget(changes) => {
            for change in changes {
                change.object = seal_object(&change.object)?;
                change.from = State::from_line(&sealer.seal(change.from.line())?);
                change.to = State::from_line(&sealer.seal(change.to.line())?);
            }
        }
        Outcome::Deferred { objects, .. } => {
            for object in objects {
                *object = seal_object(object)?;
            }
        }
        Outcome::Failed(problem) => {
            "error on this host".clone_into(&mut problem.message);
            problem.help = None;
        }
        Outcome::Unchanged | Outcome::Skipped(_) | Outcome::Refused(_) => {}
    }
    Ok(item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_planner::{Fate, Orphan, Problem, SourceText};
    use converge_resource::{Change, Reversibility, Wait};

    fn change(key: &str, from: &str, to: &str) -> Outcome {
        Outcome::Changed(vec![PlannedChange {
            change: Change {
                object: ObjectId::new("path", key),
                from: State::from_line(from),
                to: State::from_line(to),
            },
            reversibility: Reversibility::Reversible,
            opaque: false,
        }])
    }

    fn item(address: &str, sensitive: bool, outcome: Outcome) -> Item {
        Item {
            address: address.to_owned(),
            name: address.to_owned(),
            role: "r".to_owned(),
            kind: "file".to_owned(),
            claims: vec![ObjectId::new("path", "/a")],
            outcome,
            sensitive,
            ..Item::default()
        }
    }

    fn fleet(items: Vec<Item>) -> FleetPlan {
        let plan = HostPlan { host: "h".to_owned(), items, ..HostPlan::default() };
        let entry = HostEntry {
            host: "h".to_owned(),
            result: HostResult::Planned(plan),
            took: std::time::Duration::ZERO,
        };
        FleetPlan { hosts: vec![entry], ..FleetPlan::default() }
    }

    fn round(saved: Vec<Item>, fresh: Vec<Item>) -> (Vec<Outcome>, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("a.plan")).unwrap();
        let sealer = Sealer::open_at(path.with_file_name("key")).unwrap();
        save_with(&fleet(saved), serde_json::json!({"x": 1}), &path, &sealer).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let bound = load(&path).unwrap().bind_with(fleet(fresh), &sealer).unwrap();
        (bound.planned().flat_map(|p| p.items.iter().map(|i| i.outcome.clone())).collect(), text)
    }

    #[test]
    fn what_comes_out_the_same_is_applied_and_the_rest_refused() {
        let same = || item("r/a", false, change("/a", "x", "y"));
        let (bound, _) = round(vec![same()], vec![same()]);
        assert_eq!(bound, [same().outcome]);
        let failed = |why: &str, pointer: &str| {
            let problem = Problem { pointer: pointer.to_owned(), ..Problem::new(why) };
            item("r/a", false, Outcome::Failed(problem))
        };
        for (saved, fresh, why) in [
            (vec![same()], vec![item("r/a", false, change("/a", "z", "y"))], "found `z`"),
            (vec![same()], vec![item("r/a", false, change("/a", "x", "w"))], "differs from the saved plan"),
            (vec![same()], vec![item("r/a", false, Outcome::Unchanged)], "nothing is left"),
            // It can be done no more: a unit is masked, a package held.
            (
                vec![same()],
                vec![failed("it is masked", "/state")],
                "path:/a changed since the plan: it is masked",
            ),
            (vec![same()], vec![failed("the registry refuses the login", "/login")], "the registry refuses"),
            (vec![item("r/a", false, Outcome::Unchanged)], vec![same()], "changed since"),
            (vec![], vec![same()], "not in the saved plan"),
            (vec![same()], vec![], "no longer declared"),
        ] {
            let (bound, _) = round(saved, fresh);
            let [Outcome::Refused(reply)] = bound.as_slice() else { panic!("{bound:?}") };
            assert!(reply.contains(why), "{reply}");
        }
    }

    #[test]
    fn an_item_that_comes_earlier_than_planned_is_refused() {
        let [a, b, c] = ["r/a", "r/b", "r/c"].map(|address| item(address, false, change("/a", "x", "y")));
        let idle = item("r/b", false, Outcome::Unchanged);
        let refused = |saved: &[&Item], fresh: &[&Item]| -> Vec<bool> {
            let copies = |items: &[&Item]| items.iter().map(|i| (*i).clone()).collect();
            let (bound, _) = round(copies(saved), copies(fresh));
            bound.iter().map(|outcome| matches!(outcome, Outcome::Refused(_))).collect()
        };
        assert_eq!(refused(&[&a, &b, &c], &[&a, &b, &c]), [false; 3]);
        assert_eq!(refused(&[&a, &b, &c], &[&c, &a, &b]), [true, false, false]);
        assert_eq!(refused(&[&a, &b, &c], &[&a, &c, &b]), [false, true, false]);
        assert_eq!(refused(&[&a, &idle, &c], &[&idle, &a, &c]), [false; 3], "it does nothing");
    }

    #[test]
    fn a_deferred_item_is_bound_by_what_it_is_made_of() {
        let deferred = |text: &str, sensitive: bool| {
            let wait = Wait { item: "r/q".to_owned(), reason: "q is not known yet".to_owned() };
            let objects = vec![ObjectId::new("path", "/a")];
            let source = Some(SourceText { text: text.to_owned(), sensitive });
            Item { source, ..item("r/a", sensitive, Outcome::Deferred { wait, objects }) }
        };
        for sensitive in [false, true] {
            let (bound, text) =
                round(vec![deferred("hunter2", sensitive)], vec![deferred("hunter2", sensitive)]);
            assert!(matches!(bound.as_slice(), [Outcome::Deferred { .. }]), "{bound:?}");
            assert!(!text.contains("hunter2"));
            let guessed = text.contains(Digest::of(b"hunter2").as_str());
            assert_eq!(guessed, !sensitive, "nobody can guess a secret from a digest");
            let (bound, _) = round(vec![deferred("hunter2", sensitive)], vec![deferred("other", sensitive)]);
            let [Outcome::Refused(reply)] = bound.as_slice() else { panic!("{bound:?}") };
            assert!(reply.contains("has changed since the plan was made"), "{reply}");
        }
    }

    #[test]
    fn a_saved_plan_holds_no_secret() {
        let digest = Digest::of(b"hunter2");
        let line = format!("file 600 root root 7 {digest}");
        let secret = || item("r/a", true, change("/a", "absent", &line));
        let mut with_notes = secret();
        with_notes.notes.push("hunter2".to_owned());
        with_notes.settings.push(("CV_VALIDATE".to_owned(), "hunter2".to_owned()));
        let (_, text) = round(vec![with_notes], vec![secret()]);
        assert!(!text.contains("hunter2") && !text.contains(digest.as_str()), "{text}");
        let (bound, _) = round(vec![secret()], vec![secret()]);
        assert_eq!(bound, [secret().outcome], "the same secret is applied");
        let other = item("r/a", true, change("/a", "absent", "file 600 root root 7 other"));
        assert!(matches!(round(vec![secret()], vec![other]).0.as_slice(), [Outcome::Refused(_)]));
    }
    /// The key of a command holds its scripts, and these may hold a secret of a run before.
    #[test]
    fn a_saved_plan_holds_no_orphaned_command() {
        let command = || ObjectId::new("command", "creates /x hunter2");
        let mut fleet = fleet(vec![item("r/a", false, change("/a", "absent", "link /b"))]);
        let HostResult::Planned(plan) = &mut fleet.hosts[0].result else { panic!() };
        plan.base = vec![(command(), State::absent()), (ObjectId::new("path", "/a"), State::absent())];
        plan.earlier_runs.undeclared.push(Orphan {
            parts: None,
            object: command(),
            role: "r".to_owned(),
            item: "r/c".to_owned(),
            since: String::new(),
            fate: Fate::Removed,
        });
        let dir = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("a.plan")).unwrap();
        let sealer = Sealer::open_at(path.with_file_name("key")).unwrap();
        save_with(&fleet, serde_json::json!({}), &path, &sealer).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hunter2") && text.contains("/a"), "{text}");
    }
}
