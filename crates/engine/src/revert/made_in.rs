//! The directories in which changes were made, where links led there: what is reverted at another place would be another object. Pure.

use crate::revert::JudgedUndo;
use crate::revert::layers::Sight;
use crate::revert::undo::{Verdict, forget};
use converge_ledger::{Undo, turns_link};
use converge_planner::Knowledge;
use converge_resource::encode_field;
use std::collections::BTreeSet;

/// The reason why an object stays whose path leads to another directory than the one in which it was changed.
pub(crate) fn leads_elsewhere(made_in: &str, now: &str) -> String {
    format!(
        "it was changed in {made_in}, and its path leads to {now} now: lead the link above it back there and try again, or restore it there by hand"
    )
}

/// Leaves the objects that were changed in several directories, and those that the host shows in another one while nothing in the plan leads their paths
/// back. Of all others the host compares the directory just before it reverts them.
pub(crate) fn leave_what_is_elsewhere(
    undos: &[Undo],
    sights: &[Sight],
    verdicts: &mut [Verdict],
    known: &Knowledge,
) {
    let is_plain = |verdict: &Verdict| match verdict {
        Verdict::Back(change) => {
            change.object.kind == "path" && !turns_link(&change.object, &change.from, &change.to)
        }
        _ => true,
    };
    let links_stay = verdicts.iter().all(is_plain);
    for ((undo, sight), verdict) in undos.iter().zip(sights).zip(verdicts) {
        if !matches!(verdict, Verdict::Back(_)) {
            continue;
        }
        let dirs = dirs(undo);
        let mut dirs = dirs.into_iter();
        let (Some(first), second) = (dirs.next(), dirs.next()) else { continue };
        let now = (links_stay && *sight == Sight::Now).then(|| directory(undo, known)).flatten();
        let why = match (second, now) {
            (Some(second), _) => format!(
                "it was changed in {first} and in {second}, where links led one after the other: roll back run by run while the link leads to the directory of each, or restore it there by hand ({})",
                forget(&undo.object)
            ),
            (None, Some(now)) if now != first => leads_elsewhere(first, &now),
            _ => continue,
        };
        *verdict = Verdict::Stays(why);
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

/// The directory in which the host shows a path now. Of one that is absent the host may not say it.
fn directory(undo: &Undo, known: &Knowledge) -> Option<String> {
    let is_there = undo.object.kind == "path"
        && known.observed(&undo.object).is_ok_and(|found| !found.state.is_absent());
    let path = is_there.then(|| known.real(&undo.object).unwrap_or(&undo.object.key))?;
    let (dir, _) = path.rsplit_once('/')?;
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

    /// The plan of a file with changes in these directories, whose real path is this one, beside another object.
    fn planned(dirs: &[&str], real: Option<&str>, beside: Option<Undo>) -> Vec<(Outcome, Option<String>)> {
        let made_in = (0..).zip(dirs).map(|(pairs, dir)| (pairs, (*dir).to_owned())).collect();
        let file = Undo { made_in, ..undo("path", X, "dir 700 root root", "dir 755 root root") };
        let mut known = Knowledge::default();
        let mut undos = vec![file];
        undos.extend(beside);
        for undo in &undos {
            let state = State::from_line(undo.left.line());
            let real = real.filter(|_| undo.object.key == X).map(str::to_owned);
            let observed = Observation { real, ..Observation::new(state, None) };
            known.learn(Probe::Object(undo.object.clone()), Answer::Object(observed));
        }
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
        let in_b = planned(&["/srv/B", "/srv/B"], Some("/srv/B/x"), None);
        assert!(matches!(in_b[0].0, Outcome::Changed(_)), "{in_b:?}");
        assert_eq!(in_b[0].1.as_deref(), Some("path\t/srv/l/x\t/srv/B"));
        let elsewhere = planned(&["/srv/B"], Some("/srv/A/x"), None);
        assert!(refused(&elsewhere).contains("in /srv/B, and its path leads to /srv/A now"), "{elsewhere:?}");
        let directory = planned(&["/srv/B"], None, None);
        assert!(refused(&directory).contains("its path leads to /srv/l now"), "{directory:?}");
        let two = planned(&["/srv/A", "/srv/B"], Some("/srv/B/x"), None);
        assert!(refused(&two).contains("it was changed in /srv/A and in /srv/B"), "{two:?}");
        // Without a record of it nothing is compared.
        let old = planned(&[], Some("/srv/A/x"), None);
        assert!(matches!(old[0], (Outcome::Changed(_), None)), "{old:?}");
    }

    /// Where something else in the plan may lead the path back, the host says it.
    #[test]
    fn the_host_compares_where_the_plan_moves_links() {
        let link = undo("path", "/srv/k", "link A", "link B");
        let later = planned(&["/srv/B"], Some("/srv/A/x"), Some(link));
        assert!(matches!(later[0].0, Outcome::Changed(_)) && later[0].1.is_some(), "{later:?}");
    }
}
