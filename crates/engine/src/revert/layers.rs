//! Objects below places at which runs mount file systems, and below links that they lead elsewhere: one that lies in another file system than the
//! present one, or where the link led before, is out of sight. Pure.

use crate::revert::lead::{Lead, lead, led_elsewhere};
use crate::revert::order::above;
use crate::revert::undo::{fulfils, lost};
use converge_ledger::{Undo, file_system};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, Probe};

/// Whether the host shows the object of which the records speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Now.
    Now,
    /// Once this plan has mounted or unmounted what is above it. The host compares it then.
    Later,
    /// Another object goes by its path, and this plan does not change that: why.
    Never(String),
}

/// The object that is mounted at a place.
pub(crate) fn mount(place: &str) -> ObjectId {
    ObjectId::new("mount", place)
}

/// The questions what is mounted above an object.
pub(crate) fn probes(lies_in: &[(String, String)]) -> impl Iterator<Item = Probe> + '_ {
    lies_in.iter().map(|(place, _)| Probe::Object(mount(place)))
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
pub(crate) fn is_seen(lies_in: &[(String, String)], known: &Knowledge) -> bool {
    elsewhere(lies_in, known).next().is_none()
}

/// A path that runs have led elsewhere.
struct LedLink<'a> {
    path: &'a str,
    /// Its place among the reverts.
    place: usize,
    /// Where it led before, where the runs left it, and now.
    before: Lead,
    left: Lead,
    now: Option<Lead>,
    /// It was a directory, and nothing brings back what was in it.
    is_lost: bool,
}

fn links<'a>(undos: &'a [Undo], known: &Knowledge) -> Vec<LedLink<'a>> {
    let comes_back =
        |by: &str| undos.iter().any(|u| u.object.kind == "command" && u.item == by && lost(u).is_none());
    let link = |(place, undo): (usize, &'a Undo)| {
        let moved_by = undo.moved_by.as_deref();
        let (before, left) = led_elsewhere(&undo.object, &undo.before, &undo.left, moved_by.is_some())?;
        let now = known.observed(&undo.object).ok().and_then(|found| lead(&found.state));
        let is_lost = before == Lead::Here && !moved_by.is_some_and(comes_back);
        Some(LedLink { path: &undo.object.key, place, before, left, now, is_lost })
    };
    (0..).zip(undos).filter_map(link).collect()
}

/// The sight of an object at this place of the reverts, below links. What was changed after them lies where they lead since, all else where they led
/// before.
fn behind(links: &[LedLink<'_>], at: usize, key: &str) -> Sight {
    let mut sight = Sight::Now;
    for link in links.iter().filter(|link| above(key).any(|dir| dir == link.path)) {
        let LedLink { path, place, before, left, now, is_lost } = link;
        // The newest are the first.
        let is_newer = at < *place;
        let lies_in = if is_newer { left } else { before };
        if now.as_ref() == Some(lies_in) {
            continue;
        }
        if is_newer || *is_lost || now.as_ref() != Some(left) {
            return Sight::Never(match lies_in {
                Lead::To(target) => format!(
                    "it lies where {path} led to {target}, and the link leads elsewhere now: lead it there, then roll back again"
                ),
                Lead::Here => format!("it lies in the directory that was at {path}: {PUT_BACK}"),
            });
        }
        sight = Sight::Later;
    }
    // The directory itself.
    if let Some(link) = links.iter().find(|link| link.place == at && link.is_lost)
        && link.now.as_ref() == Some(&link.left)
    {
        return Sight::Never(format!("a command put a link in the place of this directory: {PUT_BACK}"));
    }
    sight
}

const PUT_BACK: &str = "put that directory back, then roll back again";

/// Whether the host shows each of these objects now, or will among these reverts.
pub(crate) fn sights(undos: &[Undo], known: &Knowledge) -> Vec<Sight> {
    let links = links(undos, known);
    let one = |(at, undo): (usize, &Undo)| sight(undo, undos, behind(&links, at, &undo.object.key), known);
    (0..).zip(undos).map(one).collect()
}

/// Where an object that the host shows now is back in an older state of the runs, what came after that counts as reverted already.
pub(crate) fn settle_what_is_seen(undos: &mut [Undo], known: &Knowledge) {
    let sights = sights(undos, known);
    for (undo, _) in undos.iter_mut().zip(sights).filter(|(_, sight)| *sight == Sight::Now) {
        if let Ok(found) = known.observed(&undo.object) {
            undo.settle(&found.state, &fulfils);
        }
    }
}

/// The sight of one, from that below links.
fn sight(undo: &Undo, undos: &[Undo], mut sight: Sight, known: &Knowledge) -> Sight {
    if matches!(sight, Sight::Never(_)) {
        return sight;
    }
    for (place, system) in elsewhere(&undo.lies_in, known) {
        let comes = |u: &Undo| u.object == mount(place) && file_system(&u.before) == system;
        // Of a step that was cut off it is not known which state is to be compared.
        if undo.open.is_some() || !undos.iter().any(comes) {
            return Sight::Never(if system == "-" {
                format!(
                    "it lies below the file system that is mounted at {place}, out of sight: unmount that, then roll back again"
                )
            } else {
                format!(
                    "it lies in {system}, which is not mounted at {place} now: mount it, then roll back again"
                )
            });
        }
        sight = Sight::Later;
    }
    sight
}

#[cfg(test)]
mod tests {
    use crate::revert::tests::{plan_seen, undo};
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
        let changes = plan_seen(&undos(), &now);
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
        // Somebody has unmounted it: the file below is seen, the one in it is not.
        let now = [(FILE, "link a"), ("/srv/m", "absent")];
        let plan = plan_seen(&undos(), &now);
        assert_eq!(plan.len(), 2, "{plan:?}");
        assert!(plan[0].contains("/dev/b, which is not mounted at /srv/m now"), "{plan:?}");
        assert_eq!(plan[1], "path:/srv/m/file link a -> absent");
        // The mount is not among the reverts, and the file in it looks like the one below it.
        let now = [(FILE, "link a"), ("/srv/m", "mount /dev/b ext4 rw -")];
        let plan = plan_seen(&undos()[2..], &now);
        assert!(plan[0].contains("below the file system that is mounted at /srv/m"), "{plan:?}");
    }
}
