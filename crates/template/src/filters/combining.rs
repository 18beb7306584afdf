//! Lists made of lists: `product`, `combinations`, `permutations`, `zip_longest`, `subelements`, `extract`, `rekey_on_member`.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, State, Value};

use super::collections::{entries, items};
use super::{arguments, defined, invalid};
use crate::bounds::ELEMENTS;
use crate::registry::Registry;

/// The longest product or list of combinations: far above the needs of a role, far below the size that fills the memory.
const MOST: usize = 100_000;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("product", product);
    env.add_filter("combinations", |list: Value, size: usize| choose(&list, size, false));
    env.add_filter("permutations", |list: Value, size: Option<usize>| {
        let size = size.map_or_else(|| items(&list).map(|all| all.len()), Ok)?;
        choose(&list, size, true)
    });
    env.add_filter("zip_longest", zip_longest);
    env.add_filter("subelements", subelements);
    env.add_filter("extract", extract);
    env.add_filter("rekey_on_member", rekey_on_member);
}

/// The items of a list, the characters of a text.
fn parts(value: &Value) -> Result<Vec<Value>, Error> {
    match value.as_str() {
        Some(text) => Ok(text.chars().map(|c| Value::from(c.to_string())).collect()),
        None => items(value),
    }
}

fn too_many(name: &str) -> Error {
    invalid(format!("{name}: more than {MOST} lists"))
}

fn product(first: Value, more: Rest<ValueOrKwargs>) -> Result<Vec<Value>, Error> {
    let (more, options) = arguments(more)?;
    let repeat = options.get::<Option<usize>>("repeat")?.unwrap_or(1);
    options.assert_all_used()?;
    let lists = std::iter::once(&first).chain(&more).map(parts).collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<Vec<Value>> = vec![Vec::new()];
    for _ in 0..repeat {
        for list in &lists {
            if all.len().saturating_mul(list.len()) > MOST {
                return Err(too_many("product"));
            }
            let longer = |head: &Vec<Value>, last: &Value| head.iter().chain([last]).cloned().collect();
            all = all.iter().flat_map(|head| list.iter().map(move |last| longer(head, last))).collect();
        }
    }
    Ok(all.into_iter().map(Value::from).collect())
}

/// Every choice of `size` items, in the order of Python's `itertools`.
fn choose(list: &Value, size: usize, ordered: bool) -> Result<Vec<Value>, Error> {
    let all = parts(list)?;
    let name = if ordered { "permutations" } else { "combinations" };
    // Each place of a choice may leave one open for each item, as long as what was chosen by then.
    let open_at_once = all.len().saturating_mul(size).saturating_mul(size);
    crate::bounds::check(&format!("{name}: elements"), open_at_once, 10 * ELEMENTS)?;
    let mut found: Vec<Value> = Vec::new();
    // Every open choice is a list of places; the last is looked at first.
    let mut open: Vec<Vec<usize>> = vec![Vec::new()];
    while let Some(chosen) = open.pop() {
        if chosen.len() == size {
            if found.len() == MOST {
                return Err(too_many(name));
            }
            crate::bounds::check(&format!("{name}: elements"), found.len().saturating_mul(size), ELEMENTS)?;
            found.push(chosen.iter().filter_map(|at| all.get(*at).cloned()).collect());
            continue;
        }
        let start = if ordered { 0 } else { chosen.last().map_or(0, |last| last + 1) };
        let next = (start..all.len()).rev().filter(|at| !chosen.contains(at));
        open.extend(next.map(|at| chosen.iter().copied().chain([at]).collect::<Vec<_>>()));
    }
    Ok(found)
}

fn zip_longest(first: Value, more: Rest<ValueOrKwargs>) -> Result<Vec<Value>, Error> {
    let (more, options) = arguments(more)?;
    let fill = options.get::<Option<Value>>("fillvalue")?.unwrap_or_else(|| Value::from(()));
    options.assert_all_used()?;
    let lists = std::iter::once(&first).chain(&more).map(parts).collect::<Result<Vec<_>, _>>()?;
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let row = |at: usize| -> Value {
        let one = |list: &Vec<Value>| list.get(at).cloned().unwrap_or_else(|| fill.clone());
        lists.iter().map(one).collect()
    };
    Ok((0..longest).map(row).collect())
}

/// Each item with each element of the list under a key of it.
fn subelements(list: Value, path: Value, skip: Option<bool>, options: Kwargs) -> Result<Vec<Value>, Error> {
    let skip = options.get::<Option<bool>>("skip_missing")?.or(skip).unwrap_or(false);
    options.assert_all_used()?;
    let keys: Vec<String> = match path.as_str() {
        Some(path) => path.split('.').map(str::to_owned).collect(),
        None => items(&path)?.iter().map(ToString::to_string).collect(),
    };
    let list = match list.kind() {
        ValueKind::Map => entries(&list, "subelements")?.into_iter().map(|(_, value)| value).collect(),
        _ => items(&list)?,
    };
    let mut all = Vec::new();
    for item in list {
        let mut inner = item.clone();
        for key in &keys {
            inner = inner.get_attr(key)?;
            if inner.is_undefined() {
                break;
            }
        }
        if inner.is_undefined() {
            if skip {
                continue;
            }
            return Err(invalid(format!(
                "subelements: an item has no `{}`; skip_missing=true leaves it out",
                keys.join(".")
            )));
        }
        if !matches!(inner.kind(), ValueKind::Seq | ValueKind::Iterable) {
            return Err(invalid(format!(
                "subelements: `{}` is a {}, not a list",
                keys.join("."),
                inner.kind()
            )));
        }
        all.extend(items(&inner)?.into_iter().map(|element| Value::from(vec![item.clone(), element])));
    }
    Ok(all)
}

/// `key | extract(container, morekeys)`: what the container has under the key; for `map('extract', container)`.
fn extract(
    state: &State<'_, '_>,
    key: Value,
    container: Value,
    more: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let more = options.get::<Option<Value>>("morekeys")?.or(more);
    options.assert_all_used()?;
    defined(state, &container)?;
    let more = match more {
        None => Vec::new(),
        Some(list) if list.kind() == ValueKind::Seq => items(&list)?,
        Some(one) => vec![one],
    };
    std::iter::once(key)
        .chain(more)
        .try_fold(container, |value, key| if value.is_undefined() { Ok(value) } else { value.get_item(&key) })
}

/// A list of maps, or a map of maps, as a map by one of their keys.
fn rekey_on_member(
    data: Value,
    key: String,
    duplicates: Option<String>,
    options: Kwargs,
) -> Result<Value, Error> {
    let duplicates =
        options.get::<Option<String>>("duplicates")?.or(duplicates).unwrap_or_else(|| "error".to_owned());
    options.assert_all_used()?;
    if !matches!(duplicates.as_str(), "error" | "overwrite") {
        return Err(invalid(format!(
            "rekey_on_member: duplicates cannot be `{duplicates}`; write error or overwrite"
        )));
    }
    let list = match data.kind() {
        ValueKind::Map => entries(&data, "rekey_on_member")?.into_iter().map(|(_, value)| value).collect(),
        _ => items(&data)?,
    };
    let mut all: Vec<(Value, Value)> = Vec::new();
    for item in list {
        let name = if item.kind() == ValueKind::Map { item.get_attr(&key)? } else { Value::UNDEFINED };
        if name.is_undefined() {
            return Err(invalid(format!("rekey_on_member: an item is no map with the key `{key}`")));
        }
        match all.iter_mut().find(|(known, _)| *known == name) {
            None => all.push((name, item)),
            Some((_, known)) if duplicates == "overwrite" => *known = item,
            Some(_) => return Err(invalid(format!("rekey_on_member: `{name}` stands there twice"))),
        }
    }
    Ok(Value::from_pairs(all))
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    #[test]
    fn what_cannot_be_made_is_reported() {
        table(&[
            ("[{'a': 1}] | subelements('b')", "!an item has no `b`"),
            ("[{'a': 1}] | subelements('a')", "!not a list"),
            ("[{'a': 1}, {'a': 1}] | rekey_on_member('a')", "!stands there twice"),
            ("[1] | rekey_on_member('a')", "!no map with the key"),
            ("range(400) | list | product(range(400) | list) | length", "!more than"),
            ("range(40) | list | combinations(20) | length", "!more than"),
            ("[0] | map('extract', nope) | list", "!`nope` is undefined"),
        ]);
    }
}
