use super::*;
use converge_planner::{Member, Rules};
use converge_resource::Disruption;
use converge_resource::{MinAvailable, Share};

fn state(open: bool, failed: bool) -> RoleState {
    RoleState { open, failed }
}

fn item(role: &str, disruption: Disruption) -> Item {
    Item {
        role: role.to_owned(),
        disruption,
        ..crate::apply::lane::tests::item(1, role, &[], converge_planner::Outcome::Unchanged)
    }
}

fn roles(list: &[(&str, RoleState)]) -> BTreeMap<String, RoleState> {
    list.iter().map(|(n, s)| ((*n).to_owned(), *s)).collect()
}

fn gates(everywhere: bool, turns: Vec<Turns>) -> Gates {
    let required = RequiredRole { role: "db".to_owned(), everywhere };
    let all = |roles: &[&str]| roles.iter().map(|r| ((*r).to_owned(), 0)).collect::<BTreeMap<_, _>>();
    let declared = BTreeMap::from([
        ("h1".to_owned(), all(&["db"])),
        ("h2".to_owned(), all(&["app"])),
        ("h3".to_owned(), all(&["app", "db"])),
    ]);
    let gates = Gates::new(BTreeMap::from([("app".to_owned(), vec![required])]), declared, turns);
    gates.report("h1", roles(&[("db", state(true, false))]));
    gates.report("h2", roles(&[("app", state(true, false))]));
    gates.report("h3", roles(&[("app", state(true, false)), ("db", state(true, false))]));
    gates
}

#[test]
fn an_item_waits_for_facts_that_another_host_alters() {
    let gates = gates(false, Vec::new());
    let wait = ("h1".to_owned(), "name/it".to_owned());
    let reader = Item { waits_for_others: BTreeSet::from([wait]), ..item("other", Disruption::None) };
    assert_eq!(gates.permit("h2", &reader), Permit::Go, "nothing is altered there");
    let alters = || gates.alters("h1", BTreeSet::from(["name/it".to_owned()]));
    alters();
    let on = "facts of h1 that `name/it` alters".to_owned();
    assert_eq!(gates.permit("h2", &reader), Permit::Wait(on.clone(), on));
    assert_eq!(gates.altering("h1"), ["name/it"]);
    gates.altered("h1", "name/it", None);
    assert_eq!(gates.permit("h2", &reader), Permit::Go);
    assert!(!gates.is_to_alter("h1", "name/it"));
    // A fact that never comes is waited for no longer.
    alters();
    gates.altered("h1", "name/it", Some("failed"));
    let never = |why: &str| Permit::Never(format!("it reads facts of h1 that `name/it` alters, which {why}"));
    assert_eq!(gates.permit("h2", &reader), never("failed"));
    assert!(gates.altering("h1").is_empty() && gates.is_to_alter("h1", "name/it"));
    alters();
    gates.lose("h1");
    assert_eq!(gates.permit("h2", &reader), never("was not run: the connection to the host was lost"));
}

#[test]
fn a_role_waits_for_hosts_on_which_its_required_role_runs() {
    let app = item("app", Disruption::None);
    let gates = gates(false, Vec::new());
    let on = "role db on h1, h3".to_owned();
    assert_eq!(gates.permit("h2", &app), Permit::Wait(on.clone(), on));
    assert_eq!(gates.permit("h3", &app), Permit::Go, "it has the role itself");
    // Nothing of it is to be done there, and it has the role nevertheless.
    gates.report("h3", roles(&[("app", state(true, false))]));
    assert_eq!(gates.permit("h3", &app), Permit::Go);
    gates.report("h1", roles(&[("db", state(false, true))]));
    assert_eq!(gates.permit("h2", &app), Permit::Never("role `db` failed on h1".to_owned()));
    gates.lose("h1");
    assert_eq!(gates.permit("h2", &app), Permit::Go, "a host that is gone holds up nobody");
}

#[test]
fn an_edge_over_the_fleet_waits_for_all_hosts() {
    let gates = gates(true, Vec::new());
    let on = "role db on h1, h3".to_owned();
    assert_eq!(gates.permit("h3", &item("app", Disruption::None)), Permit::Wait(on.clone(), on));
}

/// A prune of a part comes before the release that the required role upgrades on the same target: that role waits for the prune.
#[test]
fn a_prune_waits_for_a_required_role_on_other_targets_alone() {
    let gates = gates(true, Vec::new());
    let prune = Item { origin: ItemOrigin::Prune, ..item("app", Disruption::None) };
    let on = "role db on h1".to_owned();
    assert_eq!(gates.permit("h3", &prune), Permit::Wait(on.clone(), on));
    gates.report("h1", roles(&[("db", state(false, false))]));
    assert_eq!(gates.permit("h3", &prune), Permit::Go);
    assert_ne!(gates.permit("h3", &item("app", Disruption::None)), Permit::Go);
}

#[test]
fn a_lane_that_plans_again_waits_for_roles_on_other_targets_alone() {
    let gates = gates(true, Vec::new());
    let reason = |host: &str| match gates.before(host).remove("app") {
        Some(OtherTargets::Open(wait)) => wait.reason,
        other => format!("{other:?}"),
    };
    assert_eq!(reason("h2"), "role db on h1, h3 first");
    assert_eq!(reason("h3"), "role db on h1 first", "its own is a matter of its plan");
    gates.report("h1", roles(&[("db", state(false, false))]));
    assert_eq!(reason("h3"), "None");
}

#[test]
fn lanes_that_wait_for_each_other_go_on_one_by_one() {
    let rules = Rules {
        play: "p".to_owned(),
        serial: Vec::new(),
        max_fail_percentage: None,
        any_errors_fatal: false,
        min_available: MinAvailable::Share(Share::Percent(95.0)),
    };
    let member =
        |host: &str| Member { host: host.to_owned(), work: true, disruptive: true, ..Member::default() };
    // h2 goes first and waits for the role of h1, which waits for its turn after h2.
    let turns = Turns::new(rules, vec![member("h2"), member("h1")]);
    let gates = gates(false, vec![turns]);
    let (app, db) = (item("app", Disruption::Restarts), item("db", Disruption::Restarts));
    gates.enter("h1");
    gates.enter("h2");
    assert!(matches!(gates.permit("h2", &app), Permit::Wait(..)));
    gates.wait("h2", gates.news());
    assert!(matches!(gates.permit("h1", &db), Permit::Wait(..)));
    gates.wait("h1", gates.news() - 1);
    assert!(matches!(gates.permit("h1", &db), Permit::Wait(..)), "it may not have seen the last news");
    gates.wait("h1", gates.news());
    assert_eq!(gates.permit("h1", &db), Permit::Go);
    assert!(matches!(gates.permit("h2", &app), Permit::Wait(..)));
}
