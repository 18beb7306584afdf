//! `structured`

use crate::attrs::{Attrs, Mode};
use crate::body::{check_validate, validate_setting};
use crate::edit::Edit;
use crate::look::{check_path, path_id};
use crate::structured::{Format, Wishes, edit, leaves, parse_pointer};
use converge_resource::{Claim, Content, ParamError, Resource, Stop, View, WantedStates, pointer_word};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Values in a JSON, TOML, YAML or INI file, set and removed by their place.
///
/// Only the named values change. Foreign values, comments, order and indentation stay as they are, so several roles and people
/// may share a file. Places are JSON pointers: `/runtimes/nvidia/path`; a `/` in a key is written `~1`, a `~` is written `~0`.
/// Mappings above a place are made where they are missing. `set` gives the exact value: a mapping that is set has the given keys
/// and no others; to keep others, name the keys below it one by one.
///
/// The text is read again after the edit, and one that cannot be made without loss is refused: the file stays as it is. That
/// holds for a key that stands twice, values with a YAML anchor, alias or tag, several YAML documents, and INI values on several
/// lines. In an INI file all values are text, and the places are `/section/key`, or `/key` before the first section.
///
/// The resources are edits, as `line` and `block` are: they may follow a `file` resource for the same path and each other. Where `restart_on` or
/// `on_change` names one, its values count and not the whole file: what others write beside them restarts nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Structured {
    /// The absolute path of the file.
    path: String,
    /// The format. Needed where the end of the name does not tell it (`.json`, `.toml`, `.yaml`, `.yml`, `.ini`).
    format: Option<Format>,
    /// JSON pointer → the exact value there.
    #[serde(default)]
    set: Map<String, Value>,
    /// A mapping that is laid over the file: each value in it that is not a mapping is set at its place, and what the file has beside it
    /// stays.
    #[serde(default)]
    merge: Map<String, Value>,
    /// JSON pointers of what is not to be there.
    #[serde(default)]
    remove: Vec<String>,
    /// JSON pointer of a list → values that it has; what is missing is appended.
    #[serde(default)]
    include: Map<String, Value>,
    /// JSON pointer of a list → values that it has not.
    #[serde(default)]
    exclude: Map<String, Value>,
    /// Make the file when it does not exist.
    #[serde(default)]
    create: bool,
    /// Octal digits in quotes, as `"0644"`, or all of it in symbols, as `"u=rw,g=r,o="`. A new file has 0644 without it.
    mode: Option<Mode>,
    /// The owner's name.
    owner: Option<String>,
    /// The group's name.
    group: Option<String>,
    /// A command that checks the new content before it replaces the old: `%s` is the candidate file.
    validate: Option<String>,
}

/// The list of values, or the one.
fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    }
}

fn under(parameter: &str, key: &str) -> String {
    format!("/{parameter}/{}", pointer_word(key))
}

impl Structured {
    fn attrs(&self) -> Attrs<'_> {
        Attrs { mode: self.mode, owner: self.owner.as_deref(), group: self.group.as_deref() }
    }

    fn format(&self) -> Option<Format> {
        self.format.or_else(|| Format::of_path(&self.path))
    }

    /// The wanted values, with their errors.
    fn wishes(&self) -> (Wishes, Vec<ParamError>) {
        let mut wishes = Wishes::default();
        let mut errors = Vec::new();
        let mut read = |at: String, text: &str| {
            let path = parse_pointer(text);
            path.map_err(|e| errors.push(ParamError::new(&at, e, "write it as `/key/key`"))).ok()
        };
        for (key, value) in &self.set {
            wishes.set.extend(read(under("set", key), key).map(|path| (path, value.clone())));
        }
        leaves(&[], &self.merge, &mut wishes.set);
        for (n, key) in self.remove.iter().enumerate() {
            wishes.remove.extend(read(format!("/remove/{n}"), key));
        }
        for (key, value) in &self.include {
            wishes.include.extend(read(under("include", key), key).map(|path| (path, list(value))));
        }
        for (key, value) in &self.exclude {
            wishes.exclude.extend(read(under("exclude", key), key).map(|path| (path, list(value))));
        }
        (wishes, errors)
    }

    /// Two wanted values of one resource that exclude each other.
    fn contradictions(&self, wishes: &Wishes, errors: &mut Vec<ParamError>) {
        let below = |a: &[String], b: &[String]| a.starts_with(b);
        for ((text, _), (path, _)) in self.set.iter().zip(&wishes.set) {
            for (n, gone) in wishes.remove.iter().enumerate().filter(|(_, gone)| below(path, gone)) {
                let message =
                    format!("`{}` is removed, and `{text}` is set", crate::structured::pointer(gone));
                errors.push(ParamError::new(&format!("/remove/{n}"), message, "leave one of them out"));
            }
            let inner =
                wishes.set.iter().take(self.set.len()).find(|(other, _)| other != path && below(other, path));
            if let Some((inner, _)) = inner {
                let message = format!(
                    "`{text}` is set as a whole, and `{}` in it too",
                    crate::structured::pointer(inner)
                );
                errors.push(ParamError::new(
                    &under("set", text),
                    message,
                    "write the inner value into the outer one",
                ));
            }
        }
        for (path, _) in wishes.set.iter().skip(self.set.len()) {
            let text = crate::structured::pointer(path);
            let mut others =
                wishes.set.iter().take(self.set.len()).map(|(other, _)| other).chain(&wishes.remove);
            if others.any(|other| below(path, other) || below(other, path)) {
                let message = format!("`{text}` is in `merge`, and is set or removed by its place too");
                errors.push(ParamError::new(&format!("/merge{text}"), message, "leave one of them out"));
            }
        }
        for (path, values) in &wishes.include {
            let both = wishes
                .exclude
                .iter()
                .any(|(other, gone)| other == path && values.iter().any(|v| gone.contains(v)));
            let text = crate::structured::pointer(path);
            if both {
                let message = format!("a value of `{text}` is included and excluded");
                errors.push(ParamError::new(&under("include", &text), message, "leave one of them out"));
            }
        }
    }
}

impl Resource for Structured {
    const KIND: &'static str = "structured";
    const EXAMPLE: &'static str = "\
- name: containers may use the GPUs
  structured:
    path: /etc/docker/daemon.json
    create: true
    set:
      /runtimes/nvidia: {path: nvidia-container-runtime, runtimeArgs: []}
      /log-opts/max-size: 100m
    include:
      /exec-opts: native.cgroupdriver=systemd
    remove: [/userland-proxy]
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        self.attrs().validate(&mut errors);
        check_validate(self.validate.as_ref(), &mut errors);
        if self.format().is_none() {
            errors.push(ParamError::new(
                "/path",
                format!("the name `{}` does not say what the file is written in", self.path),
                "add `format: json`, `toml`, `yaml` or `ini`",
            ));
        }
        let (wishes, wrong) = self.wishes();
        if wrong.is_empty() {
            self.contradictions(&wishes, &mut errors);
        }
        errors.extend(wrong);
        let lists = self.remove.is_empty() && self.include.is_empty() && self.exclude.is_empty();
        if self.set.is_empty() && self.merge.is_empty() && lists {
            errors.push(ParamError::new(
                "",
                "nothing is said about the file's values",
                "give `set`, `merge`, `remove`, `include` or `exclude`",
            ));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = path_id(&self.path);
        let mut claims = vec![Claim::edit(id.clone(), "content")];
        if !self.set.is_empty() || !self.merge.is_empty() || !self.include.is_empty() {
            claims.push(Claim::shared(id.clone(), "presence", "file"));
        }
        claims.extend(self.attrs().claims(&id));
        claims
    }

    /// The values that it wants in the file: others may rewrite the rest.
    fn basis(&self) -> Option<String> {
        let mut wishes =
            serde_json::json!([self.path, self.set, self.remove, self.include, self.exclude]).to_string();
        if !self.merge.is_empty() {
            wishes.push_str(&Value::Object(self.merge.clone()).to_string());
        }
        Some(Content::new(wishes.into_bytes()).digest().to_string())
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let Some(format) = self.format() else {
            return Err(Stop::invalid("/format", "the format is not known"));
        };
        let (wishes, _) = self.wishes();
        let frame = Edit {
            path: &self.path,
            create: self.create,
            removes: wishes.set.is_empty() && wishes.include.is_empty(),
            attrs: self.attrs(),
            culprit: "",
        };
        let mut wanted = frame.plan(view, &|text| {
            edit(format, text, &wishes).map_err(|refusal| {
                let written = [("set", &self.set), ("include", &self.include), ("exclude", &self.exclude)]
                    .into_iter()
                    .find(|(_, places)| places.contains_key(&refusal.at));
                Stop::Invalid {
                    pointer: written.map_or_else(String::new, |(name, _)| under(name, &refusal.at)),
                    message: format!("{}: {}", self.path, refusal.message),
                    help: refusal.help,
                    open: None,
                }
            })
        })?;
        wanted.settings.extend(validate_setting(self.validate.as_ref()));
        Ok(wanted)
    }
}

#[cfg(test)]
#[path = "structured_tests.rs"]
mod tests;
