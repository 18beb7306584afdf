//! The paths over which the host comes to an object, those among them to which only a link leads.

use crate::TargetError;
use crate::connect::target::Target;
use converge_objects::path::link_target;
use converge_planner::Knowledge;
use converge_resource::{ObjectId, Probe};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// So many links does the kernel follow.
const LINKS: usize = 40;

/// Where each path leads that was looked at; `None` for what is not a link.
type Leads = BTreeMap<String, Option<String>>;

/// All paths that are passed on the route to each of these objects, by names or by links.
pub(super) async fn routes(
    target: &Target,
    objects: &[ObjectId],
) -> Result<BTreeMap<ObjectId, BTreeSet<String>>, TargetError> {
    let mut leads = Leads::new();
    // One look for each link of the longest route.
    for _ in 0..LINKS {
        let open: BTreeSet<String> = objects.iter().flat_map(|id| route(&id.key, &leads).1).collect();
        if open.is_empty() {
            break;
        }
        let object = |path: &String| ObjectId::new("path", path);
        let mut known = Knowledge::default();
        target.look(&open.iter().map(|path| Probe::Object(object(path))).collect(), &mut known).await?;
        leads.extend(open.into_iter().map(|path| {
            let found = known.observed(&object(&path));
            (path, found.ok().and_then(|found| link_target(&found.state)))
        }));
    }
    Ok(objects.iter().map(|id| (id.clone(), route(&id.key, &leads).0)).collect())
}

/// The paths on the route to one, and those of which it is not known yet whether they are links.
fn route(key: &str, leads: &Leads) -> (BTreeSet<String>, BTreeSet<String>) {
    let names = |path: &str| path.split('/').map(str::to_owned).collect::<VecDeque<String>>();
    let mut passed = BTreeSet::new();
    let mut rest = names(key);
    // The path itself is not followed.
    rest.pop_back();
    let (mut at, mut links) = (String::new(), 0);
    while let Some(name) = rest.pop_front() {
        match name.as_str() {
            "" | "." => continue,
            ".." => {
                at.truncate(at.rfind('/').unwrap_or_default());
                continue;
            }
            _ => {}
        }
        let path = format!("{at}/{name}");
        passed.insert(path.clone());
        match leads.get(&path) {
            None => {
                let mut open = BTreeSet::from([path.clone()]);
                let mut below = path;
                for name in rest.iter().take_while(|name| *name != "..").filter(|name| !name.is_empty()) {
                    below = format!("{below}/{name}");
                    open.insert(below.clone());
                }
                return (passed, open);
            }
            Some(None) => at = path,
            Some(Some(_)) if links == LINKS => break,
            Some(Some(target)) => {
                links += 1;
                if target.starts_with('/') {
                    at.clear();
                }
                let mut through = names(target);
                through.append(&mut rest);
                rest = through;
            }
        }
    }
    (passed, BTreeSet::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_goes_over_all_links_that_the_host_follows() {
        let links = [("/k", "d/../l"), ("/l", "/srv/A"), ("/loop", "loop")];
        let mut leads: Leads = links.map(|(path, target)| (path.to_owned(), Some(target.to_owned()))).into();
        let text = |paths: BTreeSet<String>| paths.into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(text(route("/k/x", &leads).1), "/d");
        leads.extend(["/d", "/srv", "/srv/A"].map(|path| (path.to_owned(), None)));
        let (passed, open) = route("/k/x", &leads);
        assert_eq!((text(passed), text(open)), ("/d /k /l /srv /srv/A".to_owned(), String::new()));
        assert_eq!(text(route("/loop/x", &leads).0), "/loop");
        assert_eq!(text(route("/srv/b/c", &leads).1), "/srv/b");
    }
}
