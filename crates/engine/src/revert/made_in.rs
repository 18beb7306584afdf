//! The directories in which changes were made, where links led there: what is reverted at another place would be another object. Pure.

use crate::revert::JudgedUndo;
use crate::revert::sight::Sight;
use crate::revert::undo::{Verdict, forget, same};
use converge_ledger::{Undo, turns_link};
use converge_planner::Knowledge;
use converge_resource::{ObjectId, Probe, encode_field};
use std::collections::BTreeSet;

/// The reason why an object stays whose path leads to another directory than the one in which it was changed.
pub(crate) fn leads_elsewhere(made_in: &str, now: &str) -> String {
    format!(
        "it was changed in {made_in}, and its path leads to {now} now: lead the link above it back there and try again, or restore it there by hand"
    )
}

/// The questions where the paths of these objects lead now, and what is in the directories in which they were changed.
pub(crate) fn probes(undos: &[Undo]) -> impl Iterator<Item = Probe> + '_ {
    let made = undos.iter().filter(|undo| undo.dir().is_some());
    let paths = made.flat_map(|undo| undo.real_path().into_iter().chain([undo.object.key.clone()]));
    paths.map(|path| Probe::Object(ObjectId::new("path", path)))
}

/// The sight of an object that is seen by its path: it is another one there where that leads to another directory than the one in which the object was changed.
pub(crate) fn sight(undo: &Undo, undos: &[Undo], known: &Knowledge) -> Sight {
    let place = || Some((undo.dir()?, undo.real_path()?, directory(&undo.object.key, known)?));
    let Some((made_in, there, now)) = place().filter(|(made_in, _, now)| made_in != now) else {
        return Sight::Now;
    };
    // The directory may have been moved, and its path be a link to it: but not to one in which the path was changed besides.
    let is_of_another = undos.iter().any(|other| other.object == undo.object && other.dir() == Some(&now));
    if !is_of_another && directory(&there, known).as_ref() == Some(&now) {
        return Sight::Now;
    }
    let there = known.observed(&ObjectId::new("path", there)).ok().filter(|_| undo.object.kind == "path");
    let is_back = match there {
        Some(found) => same(&undo.object, &found.state, &undo.before),
        None => undo.open.is_none() && undo.left == undo.before,
    };
    if is_back { Sight::AsBefore } else { Sight::Elsewhere(leads_elsewhere(made_in, &now)) }
}

/// Leaves the objects that were changed in several directories, and those that the host shows in another one while nothing in the plan leads their paths
/// back. Of all others the host compares the directory just before it reverts them.
pub(crate) fn leave_what_is_elsewhere(undos: &[Undo], sights: &mut [Sight], verdicts: &mut [Verdict]) {
    let is_plain = |verdict: &Verdict| match verdict {
        Verdict::Back(change) => {
            change.object.kind == "path" && !turns_link(&change.object, &change.from, &change.to)
        }
        _ => true,
    };
    let mut others =
        sights.iter().zip(verdicts.iter()).filter(|(sight, _)| !matches!(sight, Sight::Elsewhere(_)));
    let links_stay = others.all(|(_, verdict)| is_plain(verdict));
    for ((undo, sight), verdict) in undos.iter().zip(sights).zip(verdicts) {
        let dirs = dirs(undo);
        let mut dirs = dirs.into_iter();
        let several = dirs.next().zip(dirs.next()).filter(|_| !matches!(verdict, Verdict::Stays(_)));
        if let Some((first, second)) = several {
            *verdict = Verdict::Stays(format!(
                "it was changed in {first} and in {second}, where links led one after the other: lead the link to the directory of each and restore it there by hand ({})",
                forget(&undo.object)
            ));
        }
        *sight = match sight {
            Sight::Elsewhere(why) if links_stay => {
                *verdict = Verdict::Stays(why.clone());
                Sight::Never(why.clone())
            }
            Sight::Elsewhere(_) | Sight::AsBefore => Sight::Later,
            _ => continue,
        };
    }
}

/// The variable for the host with the directories of these objects.
pub(crate) fn setting(members: &[JudgedUndo]) -> Option<(String, String)> {
    let lines = members.iter().filter(|m| matches!(m.verdict, Verdict::Back(_))).flat_map(|m| {
        let object = &m.undo.object;
        let line = |dir| format!("{}\t{}\t{}", object.kind, encode_field(&object.key), encode_field(dir));
        dirs(&m.undo).into_iter().map(line)
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| ("CV_MADE_AT".to_owned(), lines.join("\n")))
}

fn dirs(undo: &Undo) -> BTreeSet<&str> {
    undo.made_in.iter().map(|(_, dir)| dir.as_str()).collect()
}

/// The directory in which the host shows a path now, or would.
fn directory(path: &str, known: &Knowledge) -> Option<String> {
    let object = ObjectId::new("path", path);
    known.observed(&object).ok()?;
    let (dir, _) = known.real(&object).unwrap_or(path).rsplit_once('/')?;
    Some(if dir.is_empty() { "/" } else { dir }.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revert::tests::undo;
    use crate::revert::{arrange, item};
    use converge_planner::Outcome;
    use converge_resource::{Answer, Observation, Probe, State};

    const X: &str = "/srv/l/x";

    const OLD: &str = "dir 755 root root";
    const NEW: &str = "dir 700 root root";

    /// A path with changes in these directories.
    fn made(dirs: &[&str]) -> Undo {
        let made_in = (0..).zip(dirs).map(|(pairs, dir)| (pairs, (*dir).to_owned())).collect();
        Undo { made_in, ..undo("path", X, NEW, OLD) }
    }

    /// The plan of these paths, which the host shows so (KEY STATE REAL, the last one `-` where no link leads there), beside another object.
    fn planned(
        files: Vec<Undo>,
        shown: &[(&str, &str, &str)],
        beside: Option<Undo>,
    ) -> Vec<(Outcome, Option<String>)> {
        let mut known = Knowledge::default();
        let mut learn = |object: ObjectId, state: &str, real: &str| {
            let real = (real != "-").then(|| real.to_owned());
            let observed = Observation { real, ..Observation::new(State::from_line(state), None) };
            known.learn(Probe::Object(object), Answer::Object(observed));
        };
        shown.iter().for_each(|(key, state, real)| learn(ObjectId::new("path", *key), state, real));
        beside.iter().for_each(|undo| learn(undo.object.clone(), undo.left.line(), "-"));
        let undos = files.into_iter().chain(beside).collect();
        let groups = arrange(undos, &mut known, &[]);
        let items = groups.into_iter().map(|group| item(0, &group.address, group.members));
        let own = items.filter(|item| item.claims.iter().any(|claim| claim.key == X));
        own.map(|item| {
            let setting = item.settings.into_iter().find(|(name, _)| name == "CV_MADE_AT");
            (item.outcome, setting.map(|(_, lines)| lines))
        })
        .collect()
    }

    fn refused(planned: &[(Outcome, Option<String>)]) -> &str {
        match planned {
            [(Outcome::Refused(why), None)] => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_change_is_taken_back_in_the_directory_in_which_it_was_made() {
        let plan = |dirs: &[&str], real: &str| planned(vec![made(dirs)], &[(X, NEW, real)], None);
        let in_b = plan(&["/srv/B", "/srv/B"], "/srv/B/x");
        assert!(matches!(in_b[0].0, Outcome::Changed(_)), "{in_b:?}");
        assert_eq!(in_b[0].1.as_deref(), Some("path\t/srv/l/x\t/srv/B"));
        let elsewhere = plan(&["/srv/B"], "/srv/A/x");
        assert!(refused(&elsewhere).contains("in /srv/B, and its path leads to /srv/A now"), "{elsewhere:?}");
        let directory = plan(&["/srv/B"], "-");
        assert!(refused(&directory).contains("its path leads to /srv/l now"), "{directory:?}");
        // A managed object is one at its path.
        let two = plan(&["/srv/A", "/srv/B"], "/srv/B/x");
        assert!(refused(&two).contains("it was changed in /srv/A and in /srv/B"), "{two:?}");
        // Without a record of it nothing is compared.
        let old = plan(&[], "/srv/A/x");
        assert!(matches!(old[0], (Outcome::Changed(_), None)), "{old:?}");
    }

    /// The state behind the path speaks for the directory to which it leads, and for no other.
    #[test]
    fn the_state_in_another_directory_is_not_that_of_the_object() {
        for there in [NEW, "dir 711 root root"] {
            for now in [OLD, "absent", NEW, "link c"] {
                let shown = [(X, now, "/srv/A/x"), ("/srv/B/x", there, "-")];
                let plan = planned(vec![made(&["/srv/B"])], &shown, None);
                assert!(refused(&plan).contains("it was changed in /srv/B"), "{there} {now}: {plan:?}");
            }
        }
        // The link is gone.
        let gone = planned(vec![made(&["/srv/B"])], &[(X, "absent", "-"), ("/srv/B/x", NEW, "-")], None);
        assert!(refused(&gone).contains("leads to /srv/l now"), "{gone:?}");
        // Somebody has restored it there.
        let back = planned(vec![made(&["/srv/B"])], &[(X, NEW, "/srv/A/x"), ("/srv/B/x", OLD, "-")], None);
        assert!(matches!(back[..], [(Outcome::Unchanged, None)]), "{back:?}");
    }

    #[test]
    fn of_two_directories_in_which_runs_changed_a_path_the_visible_one_goes_back() {
        let both = || vec![made(&["/srv/B"]), made(&["/srv/A"])];
        let shown = [(X, NEW, "/srv/A/x"), ("/srv/A/x", NEW, "-"), ("/srv/B/x", NEW, "-")];
        let plan = planned(both(), &shown, None);
        assert!(matches!(plan[0].0, Outcome::Changed(_)), "{plan:?}");
        assert_eq!(plan[0].1.as_deref(), Some("path\t/srv/l/x\t/srv/A"));
        assert!(refused(&plan[1..]).contains("in /srv/B, and its path leads to /srv/A now"), "{plan:?}");
        // The directory of the one became a link to that of the other.
        let shown = [(X, NEW, "/srv/A/x"), ("/srv/A/x", NEW, "-"), ("/srv/B/x", NEW, "/srv/A/x")];
        let plan = planned(both(), &shown, None);
        assert!(refused(&plan[1..]).contains("in /srv/B"), "{plan:?}");
    }

    #[test]
    fn a_directory_that_was_moved_and_has_a_link_in_its_place_is_followed() {
        let shown = [(X, NEW, "/srv/B2/x"), ("/srv/B/x", NEW, "/srv/B2/x")];
        let plan = planned(vec![made(&["/srv/B"])], &shown, None);
        assert!(matches!(plan[0].0, Outcome::Changed(_)) && plan[0].1.is_some(), "{plan:?}");
    }

    /// Where something else in the plan may lead the path back, the host says it.
    #[test]
    fn the_host_compares_where_the_plan_moves_links() {
        for now in [NEW, OLD] {
            let link = undo("path", "/srv/k", "link A", "link B");
            let shown = [(X, now, "/srv/A/x"), ("/srv/B/x", NEW, "-")];
            let later = planned(vec![made(&["/srv/B"])], &shown, Some(link));
            assert!(matches!(later[0].0, Outcome::Changed(_)) && later[0].1.is_some(), "{later:?}");
        }
    }
}
