//! Packages that are to be removed and that others need, who are not, by the records of dpkg or rpm of who depends on whom; packages that apt or dnf would not bring
//! back without others.

use crate::TargetError;
use crate::connect::target::Target;
use crate::revert::RevertGroup;
use crate::revert::undo::Verdict;
use converge_objects::{chooses_packages, is_action};
use converge_planner::{Item, Knowledge, Outcome};
use converge_resource::{Answer, Change, Probe, RunAnswer, quote};
use std::collections::{BTreeMap, BTreeSet};

/// Asks for all installed packages with what they depend on and what they provide, a line each, without versions.
pub(crate) fn probe() -> Probe {
    Probe::run(
        "if cv_is_dnf; then rpm -qa --qf '%{NAME}\\t[%{REQUIRENAME}, ]\\t[%{PROVIDENAME}, ]\\n'; else \
         dpkg-query -W -f '${db:Status-Status}\\t${Package}\\t${Pre-Depends}, ${Depends}\\t${Provides}\\n' 2>/dev/null | \
         sed -n 's/ *([^)]*)//g; s/^installed\\t//p'; fi",
    )
}

struct InstalledPackages<'a> {
    name: &'a str,
    /// Each is met by one of its alternatives.
    depends: Vec<Vec<&'a str>>,
    provides: BTreeSet<&'a str>,
}

/// A name without an architecture: `python3:any`.
fn plain(name: &str) -> &str {
    let name = name.trim();
    name.split_once(':').map_or(name, |(name, _)| name)
}

fn list(text: &str, at: char) -> impl Iterator<Item = &str> {
    text.split(at).map(plain).filter(|name| !name.is_empty())
}

fn read(answer: &str) -> Vec<InstalledPackages<'_>> {
    let one = |line| {
        let fields: Vec<&str> = str::split(line, '\t').collect();
        let [name, depends, provides] = fields[..] else { return None };
        let clauses = depends.split(',').map(|clause| list(clause, '|').collect::<Vec<_>>());
        let depends = clauses.filter(|alternatives| !alternatives.is_empty()).collect();
        Some(InstalledPackages { name: plain(name), depends, provides: list(provides, ',').collect() })
    };
    answer.lines().filter_map(one).collect()
}

/// Of the packages that are to go, those that must stay, each with the package that needs it. Versions do not count: what apt makes of them it says itself
/// when it is asked to remove.
pub(crate) fn needed(answer: &RunAnswer, going: &BTreeSet<String>) -> BTreeMap<String, String> {
    let installed = read(&answer.stdout);
    let goes = |name: &str, stay: &BTreeMap<String, String>| {
        going.iter().any(|key| plain(key) == name) && !stay.contains_key(name)
    };
    let mut stay: BTreeMap<String, String> = BTreeMap::new();
    loop {
        let there = installed.iter().filter(|package| !goes(package.name, &stay));
        let met: BTreeSet<&str> = there
            .clone()
            .flat_map(|package| package.provides.iter().copied().chain([package.name]))
            .collect();
        let mut found = BTreeMap::new();
        for package in there {
            for alternatives in
                package.depends.iter().filter(|all| !all.iter().any(|name| met.contains(name)))
            {
                let meets = |going: &&InstalledPackages<'_>| {
                    goes(going.name, &stay)
                        && alternatives
                            .iter()
                            .any(|name| going.name == *name || going.provides.contains(name))
                };
                if let Some(needed) = installed.iter().find(meets) {
                    found.insert(needed.name.to_owned(), package.name.to_owned());
                }
            }
        }
        if found.is_empty() {
            break;
        }
        stay.extend(found);
    }
    let full = |name: &String| going.iter().find(|key| plain(key) == name).cloned();
    stay.iter().filter_map(|(name, by)| Some((full(name)?, by.clone()))).collect()
}

/// A package that another one needs, which is not reverted, stays.
pub(crate) fn leave_what_others_need(verdicts: &mut [Verdict], known: &Knowledge) {
    let Some(Answer::Run(answer)) = known.answer(&probe()) else { return };
    let goes = |verdict: &Verdict| match verdict {
        Verdict::Back(change)
            if change.object.kind == "package" && !change.to.line().starts_with("present ") =>
        {
            Some(change.object.key.clone())
        }
        _ => None,
    };
    let stay = needed(answer, &verdicts.iter().filter_map(goes).collect());
    for verdict in verdicts {
        if let Some(by) = goes(verdict).and_then(|name| stay.get(&name)) {
            *verdict = Verdict::Stays(format!("the package {by} needs it, and is not reverted"));
        }
    }
}

/// Asks whether apt would bring the packages there without others: a line for each that it would not, its name and the reason. Not where what comes
/// before may change the answer: sources and settings of apt, the scripts of commands, and packages that the items `before` change.
fn transaction_probe(groups: &[RevertGroup], before: &[Item]) -> Option<Probe> {
    let changes =
        || groups.iter().flat_map(|group| &group.members).filter_map(|member| change(&member.verdict));
    let decides = |change: &Change| chooses_packages(&change.object) || is_action(&change.object);
    let declared = before.iter().flat_map(Item::changes).map(|planned| &planned.change);
    let is_open = before.iter().any(|item| matches!(item.outcome, Outcome::Deferred { .. }));
    let mut declared = declared.filter(|change| change.object.kind == "package" || decides(change));
    if is_open || changes().any(decides) || declared.next().is_some() {
        return None;
    }
    let words = changes().filter(|change| change.object.kind == "package");
    let words: Vec<String> =
        words.map(|change| format!(" {} {}", quote(&change.object.key), quote(change.to.line()))).collect();
    let script = format!("cv_packages_alone{}", words.concat());
    (!words.is_empty()).then_some(Probe::Run { script, user: None, timeout: 180 })
}

fn change(verdict: &Verdict) -> Option<&Change> {
    match verdict {
        Verdict::Back(change) => Some(change),
        _ => None,
    }
}

/// Lets the packages stay that apt would not bring there without others, which no run has changed: one that comes back needs a package that has gone.
pub(crate) async fn leave_what_takes_others_along(
    target: &Target,
    groups: &mut [RevertGroup],
    before: &[Item],
    known: &mut Knowledge,
) -> Result<(), TargetError> {
    let Some(probe) = transaction_probe(groups, before) else { return Ok(()) };
    target.look(&BTreeSet::from([probe.clone()]), known).await?;
    let Some(Answer::Run(answer)) = known.answer(&probe) else { return Ok(()) };
    let alone: BTreeMap<&str, &str> =
        answer.stdout.lines().filter_map(|line| line.split_once('\t')).collect();
    if alone.is_empty() {
        return Ok(());
    }
    for judged in groups.iter_mut().flat_map(|group| &mut group.members) {
        let package = change(&judged.verdict).filter(|change| change.object.kind == "package");
        if let Some(why) = package.and_then(|change| alone.get(change.object.key.as_str())) {
            judged.verdict = Verdict::Stays((*why).to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_stays_and_so_does_what_that_needs() {
        let stdout = "ours\tlib\tvirtual\nlib\t, base\t\nbase\t\t\nadmins\t, virtual | elsewhere, python3:any\t\nfree\tlib\t\n\
                      python3\t\t\nold\t, gone-long-ago\t\n"
            .to_owned();
        let answer = RunAnswer { status: 0, stdout, stderr: String::new() };
        let going = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|n| (*n).to_owned()).collect() };
        let stay = needed(&answer, &going(&["ours", "lib", "base", "free", "python3:amd64"]));
        let pairs: Vec<(&str, &str)> = stay.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            pairs,
            [("base", "lib"), ("lib", "ours"), ("ours", "admins"), ("python3:amd64", "admins")]
        );
        assert_eq!(needed(&answer, &going(&["ours", "lib", "base", "free", "admins"])), BTreeMap::new());
        assert_eq!(needed(&answer, &going(&["free"])), BTreeMap::new());
    }
}
