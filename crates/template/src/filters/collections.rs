//! Lists and maps: `combine`, `dict2items`, `items2dict`, `flatten`, set operations.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, Value};

use super::{arguments, invalid};
use crate::bounds::charge;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("combine", combine);
    env.add_filter("dict2items", dict2items);
    env.add_filter("items2dict", items2dict);
    env.add_filter("flatten", flatten);
    env.add_filter("union", |a: Value, b: Value| distinct(items(&a)?.into_iter().chain(items(&b)?)));
    env.add_filter("intersect", |a: Value, b: Value| filtered(&a, &b, true));
    env.add_filter("difference", |a: Value, b: Value| filtered(&a, &b, false));
    env.add_filter("symmetric_difference", |a: Value, b: Value| {
        let mut all = filtered(&a, &b, false)?;
        all.extend(filtered(&b, &a, false)?);
        distinct(all)
    });
}

/// The items of a list, or the keys of a map.
pub(super) fn items(value: &Value) -> Result<Vec<Value>, Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => value.try_iter()?.checked().collect(),
        kind => Err(invalid(format!("a list is wanted, not a {kind}"))),
    }
}

pub(super) fn entries(value: &Value, what: &str) -> Result<Vec<(Value, Value)>, Error> {
    if value.kind() != ValueKind::Map {
        return Err(invalid(format!("{what}: a map is wanted, not a {}", value.kind())));
    }
    value
        .try_iter()?
        .checked()
        .map(|key| key.and_then(|key| Ok((key.clone(), value.get_item(&key)?))))
        .collect()
}

/// Counts a search through a list as work of the template: a few comparisons are a unit.
fn searched(list: usize) -> Result<(), Error> {
    charge(list / 4)
}

fn distinct(values: impl IntoIterator<Item = Value>) -> Result<Vec<Value>, Error> {
    let mut observed: Vec<Value> = Vec::new();
    for value in values {
        searched(observed.len())?;
        if !observed.contains(&value) {
            observed.push(value);
        }
    }
    Ok(observed)
}

fn filtered(a: &Value, b: &Value, keep: bool) -> Result<Vec<Value>, Error> {
    let (a, b) = (items(a)?, items(b)?);
    let mut retained = Vec::new();
    for value in a {
        searched(b.len())?;
        if b.contains(&value) == keep {
            retained.push(value);
        }
    }
    distinct(retained)
}

/// How `combine` treats the values of a key that two maps have.
struct Merge {
    /// Whether maps in maps are merged.
    recursive: bool,
    /// The treatment of lists.
    lists: String,
    /// The entry by which the maps of two lists are merged.
    by: Option<String>,
}

/// Later maps win; `recursive` goes into maps, `list_merge` says what becomes of lists, and `by` merges lists of maps by one of their entries.
fn combine(base: Value, more: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let (more, kwargs) = arguments(more)?;
    let mut maps = vec![base];
    for value in more {
        if value.kind() == ValueKind::Seq {
            maps.extend(items(&value)?);
        } else {
            maps.push(value);
        }
    }
    let recursive = kwargs.get::<Option<bool>>("recursive")?.unwrap_or(false);
    let lists = kwargs.get::<Option<String>>("list_merge")?.unwrap_or_else(|| "replace".to_owned());
    let by = kwargs.get::<Option<String>>("by")?;
    kwargs.assert_all_used()?;
    if !["replace", "keep", "append", "prepend", "append_rp", "prepend_rp"].contains(&lists.as_str()) {
        return Err(invalid(format!("combine: list_merge cannot be `{lists}`")));
    }
    let merge = Merge { recursive, lists, by };
    let mut maps = maps.into_iter();
    let first = maps.next().unwrap_or_default();
    let mut all = entries(&first, "combine")?;
    for map in maps {
        all = merged(all, entries(&map, "combine")?, &merge)?;
    }
    Ok(Value::from_pairs(all))
}

fn merged(
    low: Vec<(Value, Value)>,
    high: Vec<(Value, Value)>,
    merge: &Merge,
) -> Result<Vec<(Value, Value)>, Error> {
    let mut all = low;
    for (key, value) in high {
        searched(all.len())?;
        match all.iter_mut().find(|(known, _)| *known == key) {
            None => all.push((key, value)),
            Some((_, known)) => {
                *known = match (known.kind(), value.kind()) {
                    (ValueKind::Map, ValueKind::Map) if merge.recursive => both(known, &value, merge)?,
                    (ValueKind::Seq, ValueKind::Seq) => {
                        let (low, high) = (items(known)?, items(&value)?);
                        match &merge.by {
                            Some(by) if !low.is_empty() && keys(&low, by).iter().all(Option::is_some) => {
                                by_entry(low, high, by, &key, merge)?.into()
                            }
                            _ => merged_lists(low, high, &merge.lists).into(),
                        }
                    }
                    _ => value,
                };
            }
        }
    }
    Ok(all)
}

fn both(low: &Value, high: &Value, merge: &Merge) -> Result<Value, Error> {
    Ok(Value::from_pairs(merged(entries(low, "combine")?, entries(high, "combine")?, merge)?))
}

/// The entry `by` of each map of a list.
fn keys(list: &[Value], by: &str) -> Vec<Option<Value>> {
    let key = |value: &Value| {
        let key = (value.kind() == ValueKind::Map).then(|| value.get_attr(by).ok())??;
        (!key.is_undefined() && !key.is_none()).then_some(key)
    };
    list.iter().map(key).collect()
}

/// Lays one list of maps over another: a map with a known entry `by` over the one that has it, any other behind them.
fn by_entry(
    low: Vec<Value>,
    high: Vec<Value>,
    by: &str,
    of: &Value,
    merge: &Merge,
) -> Result<Vec<Value>, Error> {
    let mut all = low;
    for (value, key) in high.iter().zip(keys(&high, by)) {
        searched(all.len())?;
        let Some(key) = key else {
            // Replacing the whole list instead would drop what it is laid over.
            return Err(invalid(format!(
                "combine: each item of the list `{of}` needs an entry `{by}`, by which it is merged"
            )));
        };
        match keys(&all, by).iter().position(|known| known.as_ref() == Some(&key)) {
            Some(at) => {
                if let Some(slot) = all.get_mut(at) {
                    *slot = both(slot, value, merge)?;
                }
            }
            None => all.push(value.clone()),
        }
    }
    Ok(all)
}

fn merged_lists(low: Vec<Value>, high: Vec<Value>, how: &str) -> Vec<Value> {
    let without = |list: Vec<Value>, other: &[Value]| -> Vec<Value> {
        list.into_iter().filter(|value| !other.contains(value)).collect()
    };
    match how {
        "keep" => low,
        "append" => low.into_iter().chain(high).collect(),
        "prepend" => high.into_iter().chain(low).collect(),
        "append_rp" => without(low, &high).into_iter().chain(high).collect(),
        "prepend_rp" => {
            let low = without(low, &high);
            high.into_iter().chain(low).collect()
        }
        _ => high,
    }
}

fn names(kwargs: &Kwargs) -> Result<(String, String), Error> {
    let name = |key: &str, default: &str| {
        Ok::<_, Error>(kwargs.get::<Option<String>>(key)?.unwrap_or_else(|| default.to_owned()))
    };
    let names = (name("key_name", "key")?, name("value_name", "value")?);
    kwargs.assert_all_used()?;
    Ok(names)
}

fn dict2items(value: Value, kwargs: Kwargs) -> Result<Vec<Value>, Error> {
    let (key_name, value_name) = names(&kwargs)?;
    let all = entries(&value, "dict2items")?;
    Ok(all
        .into_iter()
        .map(|(key, value)| Value::from_pairs([(key_name.as_str(), key), (value_name.as_str(), value)]))
        .collect())
}

fn items2dict(value: Value, kwargs: Kwargs) -> Result<Value, Error> {
    let (key_name, value_name) = names(&kwargs)?;
    let mut all: Vec<(Value, Value)> = Vec::new();
    for item in items(&value)? {
        searched(all.len())?;
        let (key, value) = (item.get_attr(&key_name)?, item.get_attr(&value_name)?);
        if key.is_undefined() || value.is_undefined() {
            return Err(invalid(format!(
                "items2dict: every item needs the keys `{key_name}` and `{value_name}`"
            )));
        }
        all.retain(|(known, _)| *known != key);
        all.push((key, value));
    }
    Ok(Value::from_pairs(all))
}

fn flatten(value: Value, levels: Option<i64>, kwargs: Kwargs) -> Result<Vec<Value>, Error> {
    let levels = kwargs.get::<Option<i64>>("levels")?.or(levels);
    let skip_nulls = kwargs.get::<Option<bool>>("skip_nulls")?.unwrap_or(true);
    kwargs.assert_all_used()?;
    let mut flat = Vec::new();
    add_flat(&value, levels, skip_nulls, &mut flat)?;
    Ok(flat)
}

fn add_flat(list: &Value, levels: Option<i64>, skip_nulls: bool, flat: &mut Vec<Value>) -> Result<(), Error> {
    for item in items(list)? {
        if skip_nulls && (item.is_none() || matches!(item.as_str(), Some("None" | "null"))) {
            continue;
        }
        let deeper = levels.is_none_or(|levels| levels >= 1);
        if item.kind() == ValueKind::Seq && deeper {
            add_flat(&item, levels.map(|levels| levels - 1), skip_nulls, flat)?;
        } else {
            flat.push(item);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    #[test]
    fn maps() {
        table(&[
            ("{'a': 1, 'b': 2} | combine({'b': 3, 'c': 4})", "{a: 1, b: 3, c: 4}"),
            ("{'a': {'x': 1}} | combine({'a': {'y': 2}})", "{a: {y: 2}}"),
            ("{'a': {'x': 1}} | combine({'a': {'y': 2}}, recursive=true)", "{a: {x: 1, y: 2}}"),
            ("{'a': [1, 2]} | combine({'a': [2, 3]}, list_merge='append')", "{a: [1, 2, 2, 3]}"),
            ("{'a': [1, 2]} | combine({'a': [2, 3]}, list_merge='append_rp')", "{a: [1, 2, 3]}"),
            ("{'a': [1, 2]} | combine({'a': [2, 3]}, list_merge='prepend_rp')", "{a: [2, 3, 1]}"),
            ("{'a': [1, 2]} | combine({'a': [2, 3]}, list_merge='keep')", "{a: [1, 2]}"),
            ("{'a': [1]} | combine({}, list_merge='mix')", "!list_merge cannot be `mix`"),
            ("{'a': 1} | combine([{'b': 2}, {'c': 3}])", "{a: 1, b: 2, c: 3}"),
            // A list of maps, by an entry.
            (
                "{'e': [{'name': 'x', 'v': 1}, {'name': 'y', 'v': 2}]} | combine({'e': [{'name': 'z'}, {'name': 'x', 'w': 3}]}, by='name')",
                "{e: [{name: x, v: 1, w: 3}, {name: y, v: 2}, {name: z}]}",
            ),
            (
                "{'t': {'e': [{'name': 'x', 'v': 1}]}} | combine({'t': {'e': [{'name': 'x', 'v': 2}]}}, recursive=true, by='name')",
                "{t: {e: [{name: x, v: 2}]}}",
            ),
            ("{'e': [{'name': 'x'}]} | combine({'e': []}, by='name')", "{e: [{name: x}]}"),
            ("{'e': [1, 2]} | combine({'e': [3]}, by='name')", "{e: [3]}"),
            ("{'e': []} | combine({'e': [3]}, by='name')", "{e: [3]}"),
            (
                "{'e': [{'name': 'x'}]} | combine({'e': [{'nam': 'y'}]}, by='name')",
                "!each item of the list `e` needs an entry `name`",
            ),
            (
                "{'e': [{'name': 'x'}]} | combine({'e': ['y']}, by='name')",
                "!each item of the list `e` needs an entry `name`",
            ),
            ("'a' | combine({})", "!a map is wanted"),
            ("{'a': 1} | dict2items", "[{key: a, value: 1}]"),
            ("{'a': 1} | dict2items(key_name='k', value_name='v')", "[{k: a, v: 1}]"),
            ("[{'key': 'a', 'value': 1}, {'key': 'b', 'value': 2}] | items2dict", "{a: 1, b: 2}"),
            ("[{'key': 'a'}] | items2dict", "!needs the keys"),
            ("{'b': 1, 'a': 2}.items() | list", "[[b, 1], [a, 2]]"),
        ]);
    }

    #[test]
    fn lists() {
        table(&[
            ("[1, [2, [3, none]]] | flatten", "[1, 2, 3]"),
            ("[1, [2, [3]]] | flatten(1)", "[1, 2, [3]]"),
            ("[1, [none]] | flatten(skip_nulls=false)", "[1, null]"),
            ("[3, 1, 3] | union([1, 2])", "[3, 1, 2]"),
            ("[1, 2, 2, 3] | intersect([3, 2])", "[2, 3]"),
            ("[1, 2, 2, 3] | difference([3])", "[1, 2]"),
            ("[1, 2] | symmetric_difference([2, 3])", "[1, 3]"),
            ("1 | union([2])", "!a list is wanted"),
            ("[3, 1, 3, 2] | unique", "[3, 1, 2]"),
            ("['a', 'b'] | join(',')", "'a,b'"),
            ("['a', 'b'] | map('upper') | list", "[A, B]"),
            ("[{'n': 1}, {'n': 2}] | map(attribute='n') | list", "[1, 2]"),
            ("[1, 2, 3] | select('odd') | list", "[1, 3]"),
            ("[1, 2, 3] | reject('odd') | list", "[2]"),
            ("[{'n': 1}, {'n': 2}] | selectattr('n', 'eq', 2) | list", "[{n: 2}]"),
            ("[{'n': 1}, {'n': 2}] | rejectattr('n', 'eq', 2) | map(attribute='n') | first", "1"),
            ("[{'n': 'ab'}, {'n': 'b'}] | selectattr('n', 'match', 'a') | list", "[{n: ab}]"),
            ("['10.0.0.1'] | map('regex_replace', '^10', '11') | list", "[11.0.0.1]"),
        ]);
    }
}
