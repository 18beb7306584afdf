//! A model of what `docs/snapshots.md` says of managed objects, which shares no code with the ledger. Objects are numbers, their states are values.

/// The effect of a run on one object.
#[derive(Clone, Debug)]
pub struct Event<V> {
    pub project: usize,
    /// Of a rollback: the runs that it set out to take back.
    pub takes: Vec<usize>,
    pub changes: Vec<Change<V>>,
    /// The object that it gave out of management in the end, as it was.
    pub disowned: Option<usize>,
}

#[derive(Clone, Debug)]
pub struct Change<V> {
    pub key: usize,
    pub found: V,
    /// The state that it left, or meant to leave when it was cut off.
    pub left: V,
    /// It is known to have ended as planned.
    pub done: bool,
    /// It was cut off: it is not known whether it happened.
    pub cut: bool,
    /// An item of a role made it.
    pub of_role: bool,
}

/// The state of one object before it came to be managed by a project, and as its runs left it; nothing when it is not managed.
pub fn managed<V: Clone + Eq>(events: &[Event<V>], project: usize, key: usize) -> Option<(V, V)> {
    managed_in(events, project, key, &|_| false)
}

/// The same of an object that may be shared by its fields in some states: what a role declares there stays the project's where that was there before.
pub fn managed_in<V: Clone + Eq>(
    events: &[Event<V>],
    project: usize,
    key: usize,
    is_shared: &dyn Fn(&V) -> bool,
) -> Option<(V, V)> {
    let is_held = |story: &Option<(usize, V, V)>, given_back_by: Option<usize>| {
        let as_before = |(_, before, left): &(usize, V, V)| before == left && is_shared(left);
        given_back_by.is_none() && story.as_ref().is_some_and(as_before)
    };
    // The run with which it began, what that found, and what was left last.
    let mut story: Option<(usize, V, V)> = None;
    let mut given_back_by: Option<usize> = None;
    for (at, run) in events.iter().enumerate() {
        for change in run.changes.iter().filter(|c| c.key == key && c.found != c.left) {
            if run.project != project {
                // Somebody else's run takes nothing but the object as a whole, and gives that again when it is taken back.
                if let Some((_, before, _)) = &story {
                    match given_back_by {
                        None if !change.cut && change.left == *before && !is_held(&story, given_back_by) => {
                            given_back_by = Some(at)
                        }
                        Some(by) if change.left != *before && run.takes.contains(&by) => given_back_by = None,
                        _ => {}
                    }
                }
                continue;
            }
            if change.of_role && (story.is_none() || given_back_by.is_some()) {
                story = Some((at, change.found.clone(), change.found.clone()));
                given_back_by = None;
            }
            let Some((first, before, left)) = &mut story else { continue };
            match given_back_by {
                Some(by) if *before != change.found && !run.takes.contains(&by) => continue,
                _ => left.clone_from(&change.left),
            }
            // A rollback of later runs ends where a role has declared it so.
            let returned = !run.takes.is_empty() && !run.takes.contains(first);
            let declared = is_shared(left) && (change.of_role || returned);
            let back = (!change.cut && *left == *before) || (change.done && run.takes.contains(first));
            given_back_by = (back && !declared).then_some(at);
        }
        if run.disowned == Some(key) && run.project == project {
            (story, given_back_by) = (None, None);
        }
    }
    story.filter(|_| given_back_by.is_none()).map(|(_, before, left)| (before, left))
}
