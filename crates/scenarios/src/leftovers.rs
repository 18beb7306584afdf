//! Paths that remain after a rollback because packages leave them: proven by another installation and removal of these packages, outside
//! every run.

use crate::judge::InitialState;
use crate::snapshot::{self, Difference};
use converge_engine::{Engine, TargetError};
use converge_resource::{ObjectId, State, quote};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);
/// The end of the name of a path that is out of the way during the proof.
const ASIDE: &str = ".converge-test-aside";

/// The packages that the role has installed on a host, with their states: to be asked for before the rollback.
pub(crate) async fn installed(
    engine: &Engine,
    host: &str,
    start: &InitialState,
) -> Result<BTreeMap<ObjectId, State>, TargetError> {
    let absent = |(object, state): &(&ObjectId, &State)| object.kind == "package" && state.line() == "absent";
    let objects: BTreeSet<ObjectId> =
        start.states.iter().filter(absent).map(|(object, _)| object.clone()).collect();
    if objects.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut states = engine.states(host, &objects).await?;
    states.retain(|_, state| state.line().starts_with("present "));
    Ok(states)
}

/// Splits the differences that remain after a rollback: those that the packages leave by themselves, and the others. The new paths are moved
/// aside, the packages are installed and purged, and what is there again exactly as before is theirs. Everything is then restored.
pub(crate) async fn of_packages(
    engine: &Engine,
    host: &str,
    packages: &BTreeMap<ObjectId, State>,
    left: Vec<Difference>,
    noise: &[&str],
) -> Result<(Vec<Difference>, Vec<Difference>), TargetError> {
    let tops = tops(&left);
    if packages.is_empty() || tops.is_empty() {
        return Ok((Vec::new(), left));
    }
    let made = engine.script(host, &again_script(packages, &tops), LIMIT).await?;
    let found = if made.status == 0 {
        snapshot::compare(engine, host, "start", false, noise).await?
    } else {
        Vec::new()
    };
    let back = engine.script(host, &back_script(&tops), LIMIT).await?;
    if back.status != 0 {
        let problem = format!("{host}: paths moved aside did not come back: {}", back.stderr.trim());
        return Err(TargetError::Refused(problem));
    }
    Ok(left.into_iter().partition(|difference| difference.before.is_none() && found.contains(difference)))
}

/// The installed packages, a line each.
const INSTALLED: &str =
    r"dpkg-query -W -f '${db:Status-Status} ${binary:Package}\n' | sed -n 's/^installed //p'";

/// The new paths that no other new path contains.
fn tops(left: &[Difference]) -> Vec<&str> {
    let mut tops: Vec<&str> = Vec::new();
    let mut new: Vec<&str> = left.iter().filter(|d| d.before.is_none()).map(|d| d.path.as_str()).collect();
    new.sort_unstable();
    for path in new {
        let inside = |top: &&str| path.strip_prefix(*top).is_some_and(|rest| rest.starts_with('/'));
        if !tops.iter().any(inside) {
            tops.push(path);
        }
    }
    tops
}

fn again_script(packages: &BTreeMap<ObjectId, State>, tops: &[&str]) -> String {
    let mut script = String::new();
    for path in tops {
        script.push_str(&format!("mv -- {} {} || exit 1\n", quote(path), quote(&format!("{path}{ASIDE}"))));
    }
    script.push_str(&format!("cv_before=$({INSTALLED})\ncv_apt_transaction install"));
    for (object, state) in packages {
        let version = state.line().split(' ').nth(1).unwrap_or_default();
        script.push_str(&format!(" {}", quote(&format!("{}={version}", object.key))));
    }
    // The packages that came along go with them.
    script.push_str(&format!(
        " >&2 || exit 1\ncv_new=$({{ printf '%s\\n' \"$cv_before\"; {INSTALLED}; }} | LC_ALL=C sort | uniq -u)\n\
         # shellcheck disable=SC2086\ncv_apt_transaction purge $cv_new >&2 || exit 1\n"
    ));
    script
}

fn back_script(tops: &[&str]) -> String {
    let mut script = String::from("cv_back=0\n");
    for path in tops {
        let (path, aside) = (quote(path), quote(&format!("{path}{ASIDE}")));
        script.push_str(&format!(
            "if [ -e {aside} ] || [ -L {aside} ]; then rm -rf -- {path} && mv -- {aside} {path} || cv_back=1; fi\n"
        ));
    }
    script.push_str("exit $cv_back");
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outermost_new_paths_are_moved() {
        let path = |path: &str, before: Option<&str>| Difference {
            path: path.to_owned(),
            before: before.map(str::to_owned),
            after: Some("f".to_owned()),
        };
        let left = [
            path("/etc/x", Some("f")),
            path("/srv/a-b", None),
            path("/srv/a/c", None),
            path("/srv/a", None),
            path("/srv/a/c/d", None),
        ];
        assert_eq!(tops(&left), ["/srv/a", "/srv/a-b"]);
    }
}
