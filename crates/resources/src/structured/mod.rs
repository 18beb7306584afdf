//! Edits of structured text (JSON, TOML, YAML, INI) that keep what they do not name: foreign values, comments, order,
//! indentation.
//!
//! One driver for all formats. The text is read to plain data; the wanted values are laid over that data; the difference becomes a few
//! small edits of the text; and the result is read again. When it is not exactly what was wished, the edit is refused: so
//! what a format's editor cannot do without loss never reaches a file.

mod ini;
mod json;
mod toml;
mod yaml;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JSON; comments and trailing commas are tolerated and kept.
    Json,
    /// TOML.
    Toml,
    /// YAML, one document.
    Yaml,
    /// Sections in brackets, `key = value` below them; all values are text.
    Ini,
}

impl Format {
    /// The format that a file's name says.
    pub fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name.rsplit_once('.')?.1 {
            "json" | "jsonc" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            "yaml" | "yml" => Some(Self::Yaml),
            "ini" => Some(Self::Ini),
            _ => None,
        }
    }

    fn editor(self) -> &'static dyn Editor {
        match self {
            Self::Json => &json::Json,
            Self::Toml => &toml::Toml,
            Self::Yaml => &yaml::Yaml,
            Self::Ini => &ini::Ini,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
            Self::Ini => "INI",
        }
    }
}

/// Keys and list indices from the root down.
pub type KeyPath = Vec<String>;

/// The wanted result of an edit.
#[derive(Debug, Default)]
pub struct Wishes {
    /// The value at each place; missing mappings above it are made.
    pub set: Vec<(KeyPath, Value)>,
    /// Places at which nothing is to be.
    pub remove: Vec<KeyPath>,
    /// Values that the list at each place has; missing ones are appended.
    pub include: Vec<(KeyPath, Vec<Value>)>,
    /// Values that the list at each place has not.
    pub exclude: Vec<(KeyPath, Vec<Value>)>,
}

/// The reason why an edit cannot be made.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The place, as a JSON pointer; empty for the whole text.
    pub at: String,
    /// The error.
    pub message: String,
    /// The correction.
    pub help: Option<String>,
}

impl Refusal {
    fn new(at: &[String], message: impl Into<String>) -> Self {
        Self { at: pointer(at), message: message.into(), help: None }
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// One format.
trait Editor {
    /// The text as plain data. What JSON has no word for (a date, an alias) becomes a mapping that no wish can equal.
    fn read(&self, text: &str) -> Result<Value, Refusal>;
    /// The value as this format can hold it.
    fn fit(&self, at: &[String], value: &Value) -> Result<Value, Refusal>;
    /// Sets the value at a place of which all above is there.
    fn put(&self, text: &str, at: &[String], value: &Value) -> Result<String, Refusal>;
    /// Takes a key out of its mapping.
    fn take(&self, text: &str, at: &[String]) -> Result<String, Refusal>;
    /// Appends a value to a list.
    fn append(&self, text: &str, at: &[String], value: &Value) -> Result<String, Refusal>;
}

/// The reason why a text is not JSON pointer to one place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    #[error("`{0}` is not a JSON pointer: it starts with `/`, as in `/a/b`")]
    NoSlash(String),
    #[error("`{0}`: a `~` in a JSON pointer is written `~0`, and a `/` in a key is written `~1`")]
    Tilde(String),
    #[error("`{0}`: `-` would append again in every run")]
    Append(String),
}

/// Reads a JSON pointer.
///
/// # Errors
/// The text is none: see [`PointerError`].
pub fn parse_pointer(text: &str) -> Result<KeyPath, PointerError> {
    let Some(rest) = text.strip_prefix('/') else {
        return Err(PointerError::NoSlash(text.to_owned()));
    };
    let mut path = KeyPath::new();
    for word in rest.split('/') {
        let mut plain = String::new();
        let mut chars = word.chars();
        while let Some(c) = chars.next() {
            match (c, if c == '~' { chars.next() } else { None }) {
                ('~', Some('0')) => plain.push('~'),
                ('~', Some('1')) => plain.push('/'),
                ('~', _) => return Err(PointerError::Tilde(text.to_owned())),
                (c, _) => plain.push(c),
            }
        }
        if plain == "-" {
            return Err(PointerError::Append(text.to_owned()));
        }
        path.push(plain);
    }
    Ok(path)
}

/// Writes a JSON pointer.
pub fn pointer(path: &[String]) -> String {
    path.iter().map(|word| format!("/{}", converge_resource::pointer_word(word))).collect()
}

/// All values in a mapping that are none themselves, with their places.
pub fn leaves(above: &[String], mapping: &Map<String, Value>, found: &mut Vec<(KeyPath, Value)>) {
    for (key, value) in mapping {
        let mut at = above.to_vec();
        at.push(key.clone());
        match value {
            Value::Object(inner) => leaves(&at, inner, found),
            value => found.push((at, value.clone())),
        }
    }
}

/// The text as plain data.
///
/// # Errors
/// It is not of this format.
pub fn read(format: Format, text: &str) -> Result<Value, Refusal> {
    format.editor().read(text)
}

/// The text with the wanted values in it. Equal to the text itself if it has them already.
///
/// # Errors
/// The text cannot be read, or cannot be edited without loss.
pub fn edit(format: Format, text: &str, wishes: &Wishes) -> Result<String, Refusal> {
    let editor = format.editor();
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let now = editor.read(body)?;
    let wanted = lay(editor, &now, wishes)?;
    let mut moves = Vec::new();
    differ(&mut Vec::new(), &now, &wanted, &mut moves);
    let mut new = body.to_owned();
    for step in &moves {
        new = match step {
            Move::Put(at, value) => editor.put(&new, at, value)?,
            Move::Take(at) => editor.take(&new, at)?,
            Move::Append(at, value) => editor.append(&new, at, value)?,
        };
    }
    let reached = editor.read(&new);
    if reached.as_ref() != Ok(&wanted) {
        let at = moves.first().map_or(&[][..], |m| m.at());
        return Err(Refusal::new(
            at,
            format!("this {} text cannot be edited at `{}` without loss", format.word(), pointer(at)),
        )
        .help(
            "write the place in plain form by hand first, or give the whole content with the kind `file`",
        ));
    }
    Ok(format!("{mark}{new}"))
}

/// One small edit.
#[derive(Debug, PartialEq)]
enum Move {
    Put(KeyPath, Value),
    Take(KeyPath),
    Append(KeyPath, Value),
}

impl Move {
    fn at(&self) -> &[String] {
        match self {
            Self::Put(at, _) | Self::Take(at) | Self::Append(at, _) => at,
        }
    }
}

/// The data with the wanted values laid over it.
fn lay(editor: &dyn Editor, now: &Value, wishes: &Wishes) -> Result<Value, Refusal> {
    let mut data = now.clone();
    for path in &wishes.remove {
        if let Some((last, above)) = path.split_last() {
            match at(&mut data, above) {
                Some(Value::Object(map)) => {
                    map.shift_remove(last);
                }
                Some(Value::Array(_)) => {
                    return Err(Refusal::new(path, "an item of a list is not removed by its number: the next run would remove the next one")
                        .help("name the value itself with `exclude`"));
                }
                _ => {}
            }
        }
    }
    for (path, values) in &wishes.exclude {
        match at(&mut data, path) {
            Some(Value::Array(list)) => {
                for value in values {
                    let value = editor.fit(path, value)?;
                    list.retain(|v| *v != value);
                }
            }
            None | Some(Value::Null) => {}
            Some(_) => return Err(no_list(path)),
        }
    }
    for (path, value) in &wishes.set {
        let value = editor.fit(path, value)?;
        *make(&mut data, path)? = value;
    }
    for (path, values) in &wishes.include {
        let place = make(&mut data, path)?;
        if place.is_null() {
            *place = editor.fit(path, &Value::Array(Vec::new()))?;
        }
        let Value::Array(list) = place else { return Err(no_list(path)) };
        for value in values {
            let value = editor.fit(path, value)?;
            if !list.contains(&value) {
                list.push(value);
            }
        }
    }
    Ok(data)
}

fn no_list(path: &[String]) -> Refusal {
    Refusal::new(path, format!("the value at `{}` is not a list", pointer(path))).help("use `set`")
}

/// The value at a place, if there is one.
fn at<'a>(data: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(data, |here, word| match here {
        Value::Object(map) => map.get_mut(word),
        Value::Array(list) => list.get_mut(word.parse::<usize>().ok()?),
        _ => None,
    })
}

/// The value at a place, made with all above it where it is missing.
fn make<'a>(data: &'a mut Value, path: &[String]) -> Result<&'a mut Value, Refusal> {
    let mut here = data;
    for (depth, word) in path.iter().enumerate() {
        let above = path.get(..depth).unwrap_or_default();
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
        here = match here {
            Value::Object(map) => map.entry(word.clone()).or_insert(Value::Null),
            Value::Array(list) => {
                let length = list.len();
                let item = word.parse::<usize>().ok().and_then(|n| list.get_mut(n));
                item.ok_or_else(|| {
                    Refusal::new(
                        path,
                        format!(
                            "the list at `{}` has {} and no `{word}`",
                            pointer(above),
                            converge_resource::counted(length, "item")
                        ),
                    )
                    .help("give the whole list, or append with `include`")
                })?
            }
            _ => {
                return Err(Refusal::new(
                    path,
                    format!("the value at `{}` is neither a mapping nor a list", pointer(above)),
                )
                .help(format!("set `{}` itself, to a mapping", pointer(above))));
            }
        };
    }
    Ok(here)
}

/// The small edits that lead from one value to another.
fn differ(at: &mut KeyPath, now: &Value, wanted: &Value, moves: &mut Vec<Move>) {
    match (now, wanted) {
        (a, b) if a == b => {}
        (Value::Object(a), Value::Object(b)) if !a.is_empty() && !b.is_empty() => {
            for (key, value) in b {
                at.push(key.clone());
                match a.get(key) {
                    Some(old) => differ(at, old, value, moves),
                    None => moves.push(Move::Put(at.clone(), value.clone())),
                }
                at.pop();
            }
            // Last: a mapping that is empty in between would be gone in some formats.
            for key in a.keys().filter(|k| !b.contains_key(*k)) {
                moves.push(Move::Take([at.as_slice(), std::slice::from_ref(key)].concat()));
            }
        }
        (Value::Array(a), Value::Array(b)) if !a.is_empty() && b.starts_with(a) => {
            moves.extend(b.iter().skip(a.len()).map(|v| Move::Append(at.clone(), v.clone())));
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (n, (old, new)) in a.iter().zip(b).enumerate() {
                at.push(n.to_string());
                differ(at, old, new, moves);
                at.pop();
            }
        }
        _ => moves.push(Move::Put(at.clone(), wanted.clone())),
    }
}

#[cfg(test)]
mod tests;
