//! Objects below places at which runs mount file systems, and below links that they lead elsewhere: one that lies in another file system than the
//! present one, or where the link led before, is out of sight. Pure.

use crate::revert::made_in;
use crate::revert::movers::nearest_older;
use crate::revert::paths::above;
use crate::revert::sight::Sight;
use crate::revert::undo::{fulfils, lost};
use converge_ledger::{Lead, MountLayer, Undo, file_system, lead, led_elsewhere, turns_link};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, Probe};
use std::collections::BTreeSet;

/// The object that is mounted at a place.
pub(crate) fn mount(place: &str) -> ObjectId {
    ObjectId::new("mount", place)
}

/// The questions what is mounted above an object.
pub(crate) fn probes(lies_in: &[(String, String)]) -> impl Iterator<Item = Probe> + '_ {
    lies_in.iter().map(|(place, _)| Probe::Object(mount(place)))
}

/// The questions where the paths above an object lead that runs have led elsewhere.
pub(crate) fn probes_of_links(undo: &Undo) -> impl Iterator<Item = Probe> + '_ {
    undo.led_in.iter().map(|led| Probe::Object(ObjectId::new("path", &led.path)))
}

/// The places above an object at which another file system is mounted now.
fn elsewhere<'a>(
    lies_in: &'a [(String, String)],
    known: &'a Knowledge,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    lies_in.iter().filter_map(|(place, system)| {
        // The host refuses to look only where nothing is mounted.
        let now = known.observed(&mount(place));
        let now = now.as_ref().map_or("-", |found| file_system(&found.state));
        (now != system).then_some((place.as_str(), system.as_str()))
    })
}

/// Whether the host shows it now.
pub(crate) fn is_visible(lies_in: &[(String, String)], known: &Knowledge) -> bool {
    elsewhere(lies_in, known).next().is_none()
}

/// The step back of a path that runs have led elsewhere: where it leads before the step and after it.
struct LedStep<'a> {
    path: &'a str,
    /// Where the path itself lies, as [`Undo::layer`].
    layer: &'a MountLayer,
    /// Its place among the reverts.
    place: usize,
    from: Option<Lead>,
    to: Option<Lead>,
    /// It makes the path, which the runs have removed.
    makes: bool,
    is_led: bool,
    /// It was a directory, and nothing brings back what was in it.
    is_lost: bool,
}

/// The steps back of these paths, the newest first.
fn steps<'a>(undos: &'a [Undo]) -> Vec<LedStep<'a>> {
    let comes_back = |at: usize, by: &str| {
        let is_by = |u: &Undo| converge_objects::is_action(&u.object) && u.item == by;
        let commands = (0..).zip(undos).filter(|(_, u)| is_by(u));
        let mover = nearest_older(at, commands.map(|(command, _)| command)).and_then(|at| undos.get(at));
        mover.is_some_and(|command| lost(command).is_none())
    };
    let led = |undo: &Undo| led_elsewhere(&undo.object, &undo.before, &undo.left, undo.moved_by.is_some());
    let above = undos.iter().flat_map(|undo| &undo.led_in).map(|led| led.path.as_str());
    let own = undos.iter().filter(|undo| led(undo).is_some()).map(|undo| undo.object.key.as_str());
    // One that was taken away and made anew goes back in two steps too.
    let mut once = BTreeSet::new();
    let links = undos.iter().filter(|undo| turns_link(&undo.object, &undo.before, &undo.left));
    let twice = links.filter(|undo| !once.insert((&undo.object, &undo.layer)));
    let twice = twice.map(|undo| undo.object.key.as_str());
    let paths: BTreeSet<&str> = above.chain(own).chain(twice).collect();
    let all = (0..).zip(undos).filter(|(_, undo)| undo.object.kind == "path");
    let step = |(place, undo): (usize, &'a Undo)| {
        let path = *paths.get(undo.object.key.as_str())?;
        let led = led(undo);
        let was_dir = matches!(led, Some((Lead::Here, _)));
        let is_lost = was_dir && !undo.moved_by.as_deref().is_some_and(|by| comes_back(place, by));
        let (from, to) = (lead(&undo.left), lead(&undo.before));
        let makes = undo.left.is_absent();
        Some(LedStep { path, layer: &undo.layer, place, from, to, makes, is_led: led.is_some(), is_lost })
    };
    all.filter_map(step).collect()
}

/// The place of an object below a path that runs have led elsewhere.
struct Below<'a> {
    path: &'a str,
    lies_in: Option<&'a Lead>,
    /// Where the records say that the path leads now, where they say it.
    recorded: Option<&'a Lead>,
}

/// Where an object at this place of the reverts lies. The records say it; of what is managed its place does: what was changed after a step lies where
/// the path leads since, all else where it led before.
fn below<'a>(undo: &'a Undo, at: usize, steps: &'a [LedStep<'a>]) -> Vec<Below<'a>> {
    let recorded = undo.led_in.iter().map(|led| Below {
        path: &led.path,
        lies_in: Some(&led.lies_in),
        recorded: Some(&led.now),
    });
    let is_known = |path: &str| undo.led_in.iter().any(|led| led.path == path);
    let by_place = above(&undo.object.key).filter(|path| !is_known(path)).filter_map(|path| {
        let own = || steps.iter().filter(|step| step.path == path && step.is_led);
        let newer = own().rfind(|step| step.place < at).map(|step| step.to.as_ref());
        let lies_in = newer.or_else(|| own().next().map(|step| step.from.as_ref()))?;
        Some(Below { path, lies_in, recorded: None })
    });
    recorded.chain(by_place).collect()
}

/// Whether these steps lead a path there, from where it leads now.
fn comes<'a>(path: &str, mut now: Option<&'a Lead>, wanted: Option<&Lead>, steps: &'a [LedStep<'a>]) -> bool {
    for step in steps.iter().filter(|step| step.path == path) {
        if step.from.as_ref() == now && !step.is_lost {
            now = step.to.as_ref();
        }
        if now == wanted {
            return true;
        }
    }
    false
}

/// Where a path leads now.
pub(super) fn leads(path: &str, known: &Knowledge) -> Option<Lead> {
    lead(&known.observed(&ObjectId::new("path", path)).ok()?.state)
}

/// The sight of an object at this place of the reverts, below links.
fn behind(undo: &Undo, at: usize, steps: &[LedStep<'_>], known: &Knowledge) -> Sight {
    // By the records nothing of theirs is left there.
    let is_back = undo.open.is_none() && undo.left == undo.before;
    let mut sight = Sight::Now;
    for Below { path, lies_in, recorded } in below(undo, at, steps) {
        let now = leads(path, known);
        // Also one that is back already: what lies behind it is not what is visible now.
        let is_led = steps.iter().any(|step| step.path == path);
        // Where somebody else has led it since, and nothing here leads it back, nobody can tell.
        if now.as_ref() == lies_in || (!is_led && now.as_ref() != recorded) {
            continue;
        }
        if !is_back && !comes(path, now.as_ref(), lies_in, steps) {
            return Sight::Never(match lies_in {
                Some(Lead::To(target)) => format!(
                    "it lies where {path} led to {target}, and the link leads elsewhere now: lead it there, then roll back again"
                ),
                _ => format!("it lies in the directory that was at {path}: {PUT_BACK}"),
            });
        }
        sight = Sight::Later;
    }
    // The path itself: steps that are newer come first.
    let is_own = |step: &&LedStep<'_>| {
        undo.object.kind == "path" && step.path == undo.object.key && *step.layer == undo.layer
    };
    let mut own = steps.iter().filter(is_own).take_while(|step| step.place <= at).peekable();
    if own.peek().is_none() {
        return sight;
    }
    let now = leads(&undo.object.key, known);
    let is_gone = known.observed(&undo.object).is_ok_and(|found| found.state.is_absent());
    let begins = |step: &&LedStep<'_>| if now.is_some() { step.from == now } else { is_gone && step.makes };
    let moves = own.filter(|step| step.from != step.to);
    let mut open = moves.skip_while(|step| !begins(step)).peekable();
    let is_later = open.peek().is_some_and(|step| step.place < at);
    if open.any(|step| step.is_lost) {
        return Sight::Never(format!("a command put a link in the place of this directory: {PUT_BACK}"));
    }
    if is_later { Sight::Later } else { sight }
}

const PUT_BACK: &str = "put that directory back, then roll back again";

/// Whether the host shows each of these objects now, or will among these reverts.
pub(crate) fn sights(undos: &[Undo], known: &Knowledge) -> Vec<Sight> {
    let steps = steps(undos);
    let one = |(at, undo): (usize, &Undo)| sight((undo, at), undos, behind(undo, at, &steps, known), known);
    (0..).zip(undos).map(one).collect()
}

/// Where an object that the host shows now is back in an older state of the runs, what came after that counts as reverted already.
pub(crate) fn settle_observed_layers(undos: &mut [Undo], known: &Knowledge) {
    settle_steps(undos, known);
    let sights = sights(undos, known);
    for (undo, _) in undos.iter_mut().zip(sights).filter(|(_, sight)| *sight == Sight::Now) {
        if let Ok(found) = known.observed(&undo.object) {
            undo.settle(&found.state, &fulfils);
        }
    }
}

/// The same for a path that goes back in several steps: those are reverted already that came after the state which the host shows.
fn settle_steps(undos: &mut [Undo], known: &Knowledge) {
    let parts = |undos: &[Undo], at: usize| -> Option<usize> {
        let undo = undos.get(at)?;
        let same = |older: &Undo| older.object == undo.object && older.layer == undo.layer;
        undos.iter().skip(at + 1).position(same).map(|more| at + 1 + more)
    };
    let paths: BTreeSet<String> = steps(undos).iter().map(|step| step.path.to_owned()).collect();
    for at in 0..undos.len() {
        let Some(undo) = undos.get(at).filter(|u| u.object.kind == "path" && paths.contains(&u.object.key))
        else {
            continue;
        };
        let Ok(found) = known.observed(&undo.object) else { continue };
        let shows =
            |undo: &Undo| undo.left == found.state || undo.states.iter().any(|s| s.state == found.state);
        // Nothing of the path is back yet where it is as its newest step left it.
        let is_as_left = || {
            undos.iter().take(at).any(|newer| {
                newer.object == undo.object && newer.layer == undo.layer && newer.left == found.state
            })
        };
        let mut older = (!shows(undo) && !is_as_left()).then(|| parts(undos, at)).flatten();
        while let Some(place) = older {
            if undos.get(place).is_some_and(shows) {
                if let Some(undo) = undos.get_mut(at) {
                    (undo.left, undo.before, undo.open) = (found.state.clone(), found.state.clone(), None);
                }
                break;
            }
            older = parts(undos, place);
        }
    }
}

/// The sight of one, from that below links.
fn sight((undo, at): (&Undo, usize), undos: &[Undo], mut sight: Sight, known: &Knowledge) -> Sight {
    if matches!(sight, Sight::Never(_)) {
        return sight;
    }
    for (place, system) in elsewhere(&undo.lies_in, known) {
        let comes = |u: &Undo| u.object == mount(place) && file_system(&u.before) == system;
        // Of a step that was cut off it is not known which state is to be compared.
        if undo.open.is_some() || !undos.iter().any(comes) {
            return Sight::Never(if system == "-" {
                format!(
                    "it is hidden by the file system that is mounted at {place}: unmount that, then roll back again"
                )
            } else {
                format!(
                    "it lies in {system}, which is not mounted at {place} now: mount it, then roll back again"
                )
            });
        }
        sight = Sight::Later;
    }
    let mut links = undos.iter().enumerate();
    match sight {
        _ if links.any(|(place, link)| is_replaced_by(undo, link, place < at, known)) => Sight::Later,
        Sight::Now => made_in::sight(undo, undos, known),
        other => other,
    }
}

/// Whether this object was removed, by the same item or before, when an item put that link in the place of a directory above it, where the link still is: what
/// is visible through the link is another object.
fn is_replaced_by(undo: &Undo, link: &Undo, is_newer: bool, known: &Knowledge) -> bool {
    let (before, left) = (lead(&link.before), lead(&link.left));
    undo.left.is_absent()
        && undo.object.kind == "path"
        && link.object.kind == "path"
        && link.moved_by.is_none()
        && (link.item == undo.item || is_newer)
        && link.layer == undo.layer
        && matches!((&before, &left), (Some(Lead::Here), Some(Lead::To(_))))
        && above(&undo.object.key).any(|path| path == link.object.key)
        && leads(&link.object.key, known) == left
}

#[cfg(test)]
mod tests {
    use crate::revert::tests::{plan_observed, undo};
    use converge_ledger::Undo;

    const FILE: &str = "/srv/m/file";

    /// A run has written a file; a later one has mounted something above it and edited the file of that name there.
    fn undos() -> Vec<Undo> {
        let at = |system: &str, run: &str, undo: Undo| Undo {
            lies_in: vec![("/srv/m".to_owned(), system.to_owned())],
            run: run.to_owned(),
            ..undo
        };
        vec![
            at("/dev/b", "r2", undo("path", FILE, "link c", "link b")),
            Undo { run: "r2".to_owned(), ..undo("mount", "/srv/m", "mount /dev/b ext4 rw -", "absent") },
            at("-", "r1", undo("path", FILE, "link a", "absent")),
        ]
    }

    #[test]
    fn each_file_of_one_name_goes_back_while_it_is_in_sight() {
        let now = [(FILE, "link c"), ("/srv/m", "mount /dev/b ext4 rw -")];
        let changes = plan_observed(&undos(), &now);
        assert_eq!(
            changes,
            [
                "path:/srv/m/file link c -> link b",
                "mount:/srv/m mount /dev/b ext4 rw - -> absent",
                "path:/srv/m/file link a -> absent"
            ]
        );
    }

    #[test]
    fn what_stays_out_of_sight_is_left_and_named() {
        // Somebody has unmounted it: the file below is visible, the one in it is not.
        let now = [(FILE, "link a"), ("/srv/m", "absent")];
        let plan = plan_observed(&undos(), &now);
        assert_eq!(plan.len(), 2, "{plan:?}");
        assert!(plan[0].contains("/dev/b, which is not mounted at /srv/m now"), "{plan:?}");
        assert_eq!(plan[1], "path:/srv/m/file link a -> absent");
        // The mount is not among the reverts, and the file in it looks like the one below it.
        let now = [(FILE, "link a"), ("/srv/m", "mount /dev/b ext4 rw -")];
        let plan = plan_observed(&undos()[2..], &now);
        assert!(plan[0].contains("hidden by the file system that is mounted at /srv/m"), "{plan:?}");
    }
}
