//! Plan files of older versions, brought to the form of the next one.

use serde_json::{Map, Value, json};

/// How version 3 said that the inventory had taken a host out: by the text of its message.
const MAINTENANCE: &str = "the inventory says `maintenance: true`: nothing looked at it";

/// From version 3 to 4: `{message, unreachable, login}` of a host without a plan becomes a `TargetError`. Where an item is written was
/// called its origin; what it stems from was the word of its kind.
pub(super) fn from_3(body: &mut Value) {
    for host in hosts(body) {
        if let Some(lost) = host.pointer_mut("/result/lost") {
            *lost = target_error(lost);
        }
        for item in items(host) {
            if let Some(location) = item.remove("origin") {
                item.insert("location".to_owned(), location);
            }
            let origin = match item.get("kind").and_then(Value::as_str) {
                Some("rollback") => "rollback",
                Some("prune") => "prune",
                _ => "declared",
            };
            item.insert("origin".to_owned(), json!(origin));
        }
    }
}

/// From version 4 to 5: an item of a prune that only takes objects out of the records had the outcome of one that adopts them.
pub(super) fn from_4(body: &mut Value) {
    for item in hosts(body).flat_map(items) {
        let prunes = item.get("origin").and_then(Value::as_str) == Some("prune");
        let outcome = item.get_mut("outcome").and_then(Value::as_object_mut).filter(|_| prunes);
        if let Some(outcome) = outcome
            && let Some(changes) = outcome.remove("adopt")
        {
            outcome.insert("forget".to_owned(), changes);
        }
    }
}

/// The targets of a plan.
fn hosts(body: &mut Value) -> impl Iterator<Item = &mut Value> {
    body.pointer_mut("/plan/hosts").and_then(Value::as_array_mut).into_iter().flatten()
}

/// The items of a target that has a plan.
fn items(host: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let items = host.pointer_mut("/result/planned/items").and_then(Value::as_array_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn target_error(lost: &Value) -> Value {
    let message = lost.get("message").and_then(Value::as_str).unwrap_or_default();
    let is = |name| lost.get(name).and_then(Value::as_bool).unwrap_or_default();
    if message == MAINTENANCE {
        json!("maintenance")
    } else if is("login") {
        json!({ "login_refused": message })
    } else if is("unreachable") {
        json!({ "unreachable": message })
    } else {
        json!({ "refused": message })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FORMAT, load, save_with};
    use super::*;
    use crate::{FleetPlan, HostEntry, HostResult, TargetError};
    use converge_planner::{HostPlan, Item, ItemOrigin, Outcome};
    use converge_resource::{Change, ObjectId, State};
    use converge_store::{Sealer, write_document};

    #[test]
    fn a_plan_file_of_version_3_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("a.plan")).unwrap();
        let lost = |host: &str, message: &str, unreachable: bool, login: bool| {
            let why = json!({"message": message, "help": null, "unreachable": unreachable, "login": login});
            json!({"host": host, "result": {"lost": why}})
        };
        let item = |id: u32, kind: &str, origin: &str| {
            json!({
                "id": id, "address": "r/x", "name": "x", "role": "r", "kind": kind, "origin": origin, "needs": [], "claims": [],
                "outcome": "unchanged", "notes": [], "sensitive": false, "settings": [], "params": null,
            })
        };
        let plan = json!({
            "id": "01935a2e", "purpose": "converge", "created": "2026-11-21T04:05:06Z", "clusters": [], "warnings": [],
            "order": [],
            "hosts": [
                lost("a", MAINTENANCE, true, false),
                lost("b", "no answer", true, false),
                lost("c", "no key is taken", true, true),
                lost("d", "the host key has changed", false, false),
                {"host": "e", "result": {"planned": {"host": "e", "base": [], "items": [
                    item(0, "file", "roles/r/role.yaml:4"), item(1, "prune", ""), item(2, "rollback", ""),
                ]}}},
            ],
        });
        let body = json!({"arguments": {"x": 1}, "plan": plan});
        write_document(&path, FORMAT, 3, body.clone()).unwrap();
        let read = load(&path).unwrap();
        let found: Vec<_> = read.plan.hosts.iter().map(|host| &host.result).collect();
        let lost = |error| HostResult::Lost(error);
        assert_eq!(
            found[..4],
            [
                &lost(TargetError::Maintenance),
                &lost(TargetError::Unreachable("no answer".to_owned())),
                &lost(TargetError::LoginRefused("no key is taken".to_owned())),
                &lost(TargetError::Refused("the host key has changed".to_owned())),
            ]
        );
        let HostResult::Planned(planned) = found[4] else { panic!("{:?}", found[4]) };
        let origins: Vec<_> = planned.items.iter().map(|i| (i.origin, i.location.as_str())).collect();
        assert_eq!(
            origins,
            [
                (ItemOrigin::Declared, "roles/r/role.yaml:4"),
                (ItemOrigin::Prune, ""),
                (ItemOrigin::Rollback, "")
            ]
        );
        assert_eq!(read.arguments, json!({"x": 1}));
        // An older one is refused with a reason.
        write_document(&path, FORMAT, 2, body).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("of version 2"));
    }

    #[test]
    fn what_a_prune_forgets_is_no_adoption_since_version_5() {
        let dir = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("a.plan")).unwrap();
        let sealer = Sealer::open_at(path.with_file_name("key")).unwrap();
        let changes = || {
            vec![Change { object: ObjectId::new("path", "/x"), from: State::absent(), to: State::absent() }]
        };
        let item = |origin: ItemOrigin, outcome: Outcome| Item { origin, outcome, ..Item::default() };
        let items = vec![
            item(ItemOrigin::Declared, Outcome::Adopt(changes())),
            item(ItemOrigin::Prune, Outcome::Forget(changes())),
            item(ItemOrigin::Prune, Outcome::Unchanged),
        ];
        let host = HostPlan { host: "h".to_owned(), items, ..HostPlan::default() };
        let entry = HostEntry {
            host: "h".to_owned(),
            result: HostResult::Planned(host),
            took: std::time::Duration::ZERO,
        };
        let plan = FleetPlan { hosts: vec![entry], ..FleetPlan::default() };
        save_with(&plan, json!({}), &path, &sealer).unwrap();
        assert_eq!(load(&path).unwrap().plan, plan);
        // Version 4 wrote the same plan with one word for both.
        let mut body = serde_json::to_value(load(&path).unwrap()).unwrap();
        let forgets = body.pointer_mut("/plan/hosts/0/result/planned/items/1/outcome").unwrap();
        *forgets = json!({"adopt": forgets["forget"].take()});
        write_document(&path, FORMAT, 4, body).unwrap();
        assert_eq!(load(&path).unwrap().plan, plan);
    }

    #[test]
    fn a_reason_is_read_as_it_was_saved() {
        let dir = tempfile::tempdir().unwrap();
        let path = camino::Utf8PathBuf::from_path_buf(dir.path().join("a.plan")).unwrap();
        let sealer = Sealer::open_at(path.with_file_name("key")).unwrap();
        let result = HostResult::Lost(TargetError::Locked("run 1 is at work".to_owned()));
        let entry = HostEntry { host: "h".to_owned(), result, took: std::time::Duration::ZERO };
        let plan = FleetPlan { hosts: vec![entry], ..FleetPlan::default() };
        save_with(&plan, json!({}), &path, &sealer).unwrap();
        assert_eq!(load(&path).unwrap().plan, plan);
    }
}
