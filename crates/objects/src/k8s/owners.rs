//! The owners of fields, as the server records them in `metadata.managedFields`.

use super::field_set::FieldSet;
use super::fields::Segment;
use serde_json::Value;

/// The owners of a field, by the server's own record. Who owns a map or a list without what is in it (the manager that made it) owns none of that.
pub fn owners(object: &Value, path: &[Segment]) -> Vec<String> {
    let all = entries(object).map(FieldSet::of).collect();
    holders(object, &|set| !set.touching(path, object, &all).is_empty())
}

/// The same, without those that own a list as a whole in which the field lies: such a list has one owner, the last to write it, whoever laid its items
/// there (the taints of a node).
pub fn owners_of_part(object: &Value, path: &[Segment]) -> Vec<String> {
    if path.iter().any(|segment| matches!(segment, Segment::Item(..))) {
        return holders(object, &|set| !set.within(path, object).is_empty());
    }
    owners(object, path)
}

/// The entries of an object's managers.
pub fn entries(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten()
}

/// Says that fields stay as they are: what else is to be said of them, and to whom they belong too.
pub fn staying(fields: &[String], and: Option<&str>, managers: &[&str]) -> String {
    let names = match fields.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, more)) => format!("{} and {last}", more.join(", ")),
        None => String::new(),
    };
    let [stay, are, belong] = match fields.len() {
        1 => ["stays as it is", "and is", "it belongs"],
        _ => ["stay as they are", "and are", "they belong"],
    };
    let and = and.map(|and| format!(", {are} {and}")).unwrap_or_default();
    let whose = if managers.is_empty() {
        String::new()
    } else {
        format!(": {belong} to {} too", managers.join(", "))
    };
    format!("{names} {stay}{and}{whose}")
}

/// Whether it is an entry of this manager, of the object itself.
pub fn is_own(entry: &Value, manager: &str) -> bool {
    entry.get("manager").and_then(Value::as_str) == Some(manager) && entry.get("subresource").is_none()
}

fn holders(object: &Value, holds: &dyn Fn(&FieldSet) -> bool) -> Vec<String> {
    // The number of replicas is written through a resource of its own, by people and by autoscalers.
    let counts = |part: Option<&Value>| part.is_none_or(|part| part.as_str() == Some("scale"));
    let holds_it = |entry: &&Value| counts(entry.get("subresource")) && holds(&FieldSet::of(entry));
    let manager = |entry: &Value| entry.get("manager").and_then(Value::as_str).map(str::to_owned);
    entries(object).filter(holds_it).filter_map(manager).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_made_a_map_owns_nothing_that_others_lay_into_it() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "fieldsV1": fields});
        let made = entry("kubectl-create", json!({"f:data": {}, "f:args": {}}));
        let object = json!({"data": {"y": "1"}, "args": ["1"], "metadata": {"managedFields": [made, entry("converge", json!({"f:data": {"f:y": {}}}))]}});
        let of = |keys: &[&str]| {
            let path: Vec<Segment> = keys.iter().map(|key| Segment::Key((*key).to_owned())).collect();
            owners(&object, &path)
        };
        assert_eq!(of(&["data", "y"]), ["converge"]);
        assert_eq!(of(&["args"]), ["kubectl-create"]);
        assert_eq!(of(&["data"]), ["kubectl-create", "converge"]);
    }

    #[test]
    fn fields_that_stay_are_all_named() {
        let fields = [".a", ".b", ".c"].map(str::to_owned);
        assert_eq!(staying(&fields[..1], None, &["x"]), ".a stays as it is: it belongs to x too");
        assert_eq!(
            staying(&fields[..1], Some("this project's again"), &[]),
            ".a stays as it is, and is this project's again"
        );
        assert_eq!(
            staying(&fields, None, &["x", "y"]),
            ".a, .b and .c stay as they are: they belong to x, y too"
        );
    }

    #[test]
    fn who_wrote_a_whole_list_last_owns_no_single_item_of_it() {
        let wrote = json!({"manager": "kubectl-taint", "fieldsV1": {"f:spec": {"f:taints": {}}}});
        let object = json!({"spec": {"taints": [{"key": "a"}]}, "metadata": {"managedFields": [wrote]}});
        let list = [Segment::Key("spec".to_owned()), Segment::Key("taints".to_owned())];
        let item = [&list[..], &[Segment::Item("key".to_owned(), "\"a\"".to_owned())]].concat();
        assert_eq!(owners_of_part(&object, &list), ["kubectl-taint"]);
        assert_eq!(owners_of_part(&object, &item), Vec::<String>::new());
        assert_eq!(owners(&object, &item), ["kubectl-taint"]);
    }
}
