//! Packages that are to be removed and that others need, who are not: dpkg's own records of who depends on whom. Pure.

use converge_resource::{Probe, RunAnswer};
use std::collections::{BTreeMap, BTreeSet};

/// Asks for all installed packages with what they depend on and what they provide, a line each, without versions.
pub(crate) fn probe() -> Probe {
    Probe::run(
        "dpkg-query -W -f '${db:Status-Status}\\t${Package}\\t${Pre-Depends}, ${Depends}\\t${Provides}\\n' 2>/dev/null | \
         sed -n 's/ *([^)]*)//g; s/^installed\\t//p'",
    )
}

struct Installed<'a> {
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

fn read(answer: &str) -> Vec<Installed<'_>> {
    let one = |line| {
        let fields: Vec<&str> = str::split(line, '\t').collect();
        let [name, depends, provides] = fields[..] else { return None };
        let clauses = depends.split(',').map(|clause| list(clause, '|').collect::<Vec<_>>());
        let depends = clauses.filter(|alternatives| !alternatives.is_empty()).collect();
        Some(Installed { name: plain(name), depends, provides: list(provides, ',').collect() })
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
                let meets = |going: &&Installed<'_>| {
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
