//! TOML, by `toml_edit`: the same crate that `cargo add` edits manifests with.

use super::{Editor, Refusal, pointer};
use serde_json::{Map, Number, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value as Toml_};

pub struct Toml;

fn parse(text: &str) -> Result<DocumentMut, Refusal> {
    text.parse().map_err(|e: toml_edit::TomlError| {
        Refusal::new(&[], format!("the text is not TOML: {}", e.to_string().trim_end()))
    })
}

/// A value that JSON cannot express: no wish equals it.
fn foreign(text: impl ToString) -> Value {
    Value::Object(Map::from_iter([("\u{0}toml".to_owned(), Value::String(text.to_string()))]))
}

fn item_data(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => value_data(value),
        Item::Table(table) => {
            Value::Object(table.iter().map(|(k, v)| (k.to_owned(), item_data(v))).collect())
        }
        Item::ArrayOfTables(tables) => Value::Array(
            tables
                .iter()
                .map(|t| Value::Object(t.iter().map(|(k, v)| (k.to_owned(), item_data(v))).collect()))
                .collect(),
        ),
    }
}

fn value_data(value: &Toml_) -> Value {
    match value {
        Toml_::String(s) => Value::String(s.value().clone()),
        Toml_::Integer(n) => Value::Number((*n.value()).into()),
        Toml_::Float(x) => Number::from_f64(*x.value()).map_or_else(|| foreign(x.value()), Value::Number),
        Toml_::Boolean(b) => Value::Bool(*b.value()),
        Toml_::Datetime(t) => foreign(t.value()),
        Toml_::Array(list) => Value::Array(list.iter().map(value_data).collect()),
        Toml_::InlineTable(table) => {
            Value::Object(table.iter().map(|(k, v)| (k.to_owned(), value_data(v))).collect())
        }
    }
}

/// A value as it is written on one line. The driver has made it fit: there is no null in it.
fn inline(value: &Value) -> Toml_ {
    match value {
        Value::Null => Toml_::from(""),
        Value::Bool(b) => Toml_::from(*b),
        Value::Number(n) => {
            n.as_i64().map_or_else(|| Toml_::from(n.as_f64().unwrap_or_default()), Toml_::from)
        }
        Value::String(s) => Toml_::from(s.as_str()),
        Value::Array(list) => Toml_::Array(list.iter().map(inline).collect::<Array>()),
        Value::Object(map) => {
            Toml_::InlineTable(map.iter().map(|(k, v)| (k.as_str(), inline(v))).collect::<InlineTable>())
        }
    }
}

/// A value as it is written under a header of its own, where it is a mapping.
fn item(value: &Value) -> Item {
    match value {
        Value::Object(map) => {
            let mut table = Table::new();
            table.set_implicit(!map.is_empty() && map.values().all(Value::is_object));
            for (key, value) in map {
                table.insert(key, item(value));
            }
            Item::Table(table)
        }
        other => Item::Value(inline(other)),
    }
}

fn lost(at: &[String]) -> Refusal {
    Refusal::new(at, "the place cannot be found again in the text")
}

/// A mapping or list above the place of an edit.
enum Here<'a> {
    Table(&'a mut Table),
    Inline(&'a mut InlineTable),
    Array(&'a mut Array),
    Tables(&'a mut toml_edit::ArrayOfTables),
}

fn of_item(item: &mut Item) -> Option<Here<'_>> {
    match item {
        Item::Table(t) => Some(Here::Table(t)),
        Item::ArrayOfTables(t) => Some(Here::Tables(t)),
        Item::Value(v) => of_value(v),
        Item::None => None,
    }
}

fn of_value(value: &mut Toml_) -> Option<Here<'_>> {
    match value {
        Toml_::Array(a) => Some(Here::Array(a)),
        Toml_::InlineTable(t) => Some(Here::Inline(t)),
        _ => None,
    }
}

fn down<'a>(document: &'a mut DocumentMut, path: &[String]) -> Option<Here<'a>> {
    let mut here = Here::Table(document.as_table_mut());
    for word in path {
        here = match here {
            Here::Table(t) => of_item(t.get_mut(word)?)?,
            Here::Inline(t) => of_value(t.get_mut(word)?)?,
            Here::Array(a) => of_value(a.get_mut(word.parse().ok()?)?)?,
            Here::Tables(t) => Here::Table(t.get_mut(word.parse().ok()?)?),
        };
    }
    Some(here)
}

/// Replaces a value, with the blanks and the comment beside it kept.
fn replace(old: &mut Toml_, value: &Value) {
    let decor = old.decor().clone();
    *old = inline(value);
    *old.decor_mut() = decor;
}

impl Editor for Toml {
    fn read(&self, text: &str) -> Result<Value, Refusal> {
        Ok(item_data(parse(text)?.as_item()))
    }

    fn fit(&self, at: &[String], value: &Value) -> Result<Value, Refusal> {
        match value {
            Value::Null => {
                Err(Refusal::new(at, format!("TOML has no null, which `{}` is set to", pointer(at)))
                    .help("take the key out with `remove`"))
            }
            Value::Number(n) if n.is_u64() && n.as_i64().is_none() => {
                Err(Refusal::new(at, format!("TOML has no integer as large as {n}")))
            }
            Value::Array(list) => {
                Ok(Value::Array(list.iter().map(|v| self.fit(at, v)).collect::<Result<_, _>>()?))
            }
            Value::Object(map) => Ok(Value::Object(
                map.iter().map(|(k, v)| self.fit(at, v).map(|v| (k.clone(), v))).collect::<Result<_, _>>()?,
            )),
            other => Ok(other.clone()),
        }
    }

    fn put(&self, text: &str, at: &[String], value: &Value) -> Result<String, Refusal> {
        let mut document = parse(text)?;
        let Some((last, above)) = at.split_last() else {
            // The whole text, which is empty or is to become so.
            let Value::Object(map) = value else { return Err(Refusal::new(at, "TOML's root is a mapping")) };
            let table = document.as_table_mut();
            table.clear();
            for (key, value) in map {
                table.insert(key, item(value));
            }
            return Ok(document.to_string());
        };
        match down(&mut document, above).ok_or_else(|| lost(at))? {
            Here::Table(table) => {
                let dotted = table.is_dotted();
                match table.get_mut(last) {
                    Some(Item::Value(old)) if !value.is_object() => replace(old, value),
                    _ if dotted => {
                        table.insert(last, Item::Value(inline(value)));
                    }
                    _ => {
                        table.insert(last, item(value));
                    }
                }
            }
            Here::Inline(table) => match table.get_mut(last) {
                Some(old) => replace(old, value),
                None => {
                    table.insert(last, inline(value));
                }
            },
            Here::Array(array) => {
                let old = last.parse().ok().and_then(|n: usize| array.get_mut(n)).ok_or_else(|| lost(at))?;
                replace(old, value);
            }
            Here::Tables(_) => return Err(lost(at)),
        }
        Ok(document.to_string())
    }

    fn take(&self, text: &str, at: &[String]) -> Result<String, Refusal> {
        let mut document = parse(text)?;
        let (last, above) = at.split_last().ok_or_else(|| lost(at))?;
        match down(&mut document, above).ok_or_else(|| lost(at))? {
            Here::Table(table) => drop(table.remove(last)),
            Here::Inline(table) => drop(table.remove(last)),
            Here::Array(_) | Here::Tables(_) => return Err(lost(at)),
        }
        Ok(document.to_string())
    }

    fn append(&self, text: &str, at: &[String], value: &Value) -> Result<String, Refusal> {
        let mut document = parse(text)?;
        match down(&mut document, at).ok_or_else(|| lost(at))? {
            Here::Array(array) => {
                // As the item before stands: on a line of its own, or after a blank.
                let prefix = array
                    .iter()
                    .last()
                    .and_then(|v| v.decor().prefix().and_then(|p| p.as_str()))
                    .filter(|p| p.trim().is_empty() && p.contains('\n'))
                    .map(str::to_owned);
                match prefix {
                    Some(prefix) => {
                        let mut new = inline(value);
                        new.decor_mut().set_prefix(prefix);
                        array.push_formatted(new);
                    }
                    None => array.push(inline(value)),
                }
            }
            Here::Tables(tables) => match item(value) {
                Item::Table(mut table) => {
                    table.set_implicit(false);
                    tables.push(table);
                }
                _ => return Err(Refusal::new(at, "a list of tables takes mappings only")),
            },
            Here::Table(_) | Here::Inline(_) => return Err(lost(at)),
        }
        Ok(document.to_string())
    }
}
