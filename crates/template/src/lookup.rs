//! `lookup()`: values from the controller's environment and files.

use std::io::Read;
use std::path::{Path, PathBuf};

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, Value};

use crate::filters::{arguments, invalid};
use crate::frame;

/// Largest file that `lookup('file', …)` reads.
const MAX_BYTES: u64 = 16 << 20;

pub(crate) fn install(env: &mut Environment<'static>) {
    env.add_function("lookup", |name: String, terms: Rest<ValueOrKwargs>| {
        let values = look_up(&name, terms)?;
        // One term gives its value, several are joined, as in Ansible.
        Ok::<_, Error>(match values.as_slice() {
            [one] => one.clone(),
            many => Value::from(many.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
        })
    });
    env.add_function("query", |name: String, terms: Rest<ValueOrKwargs>| look_up(&name, terms));
}

fn look_up(name: &str, terms: Rest<ValueOrKwargs>) -> Result<Vec<Value>, Error> {
    let (terms, options) = arguments(terms)?;
    let names: Vec<String> = terms.iter().map(ToString::to_string).collect();
    let short = name.strip_prefix("ansible.builtin.").unwrap_or(name);
    let values = match short {
        "env" => {
            let default = options.get::<Option<Value>>("default")?.unwrap_or_else(|| Value::from(""));
            names.iter().map(|name| Ok(environment(name, &default))).collect::<Result<_, Error>>()?
        }
        "file" => {
            let strip = |name: &str| options.get::<Option<bool>>(name);
            let (right, left) = (strip("rstrip")?.unwrap_or(true), strip("lstrip")?.unwrap_or(false));
            names.iter().map(|name| file(name, right, left)).collect::<Result<_, Error>>()?
        }
        _ => return Err(invalid(format!("there is no lookup `{name}`; known are env and file"))),
    };
    options.assert_all_used()?;
    Ok(values)
}

fn environment(name: &str, default: &Value) -> Value {
    frame::note(|notes| notes.reached.insert(format!("lookup.env.{name}")));
    match std::env::var(name) {
        Ok(value) => Value::from(value),
        Err(_) => default.clone(),
    }
}

fn file(name: &str, strip_end: bool, strip_start: bool) -> Result<Value, Error> {
    frame::note(|notes| notes.reached.insert(format!("lookup.file.{name}")));
    let folder = frame::current_scope().and_then(|scope| scope.files().map(Path::to_path_buf));
    let tried: Vec<PathBuf> = match folder {
        _ if Path::new(name).is_absolute() => vec![PathBuf::from(name)],
        Some(folder) => vec![folder.join("files").join(name), folder.join(name)],
        None => vec![PathBuf::from(name)],
    };
    let Some(path) = tried.iter().find(|path| path.is_file()) else {
        let list: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
        return Err(invalid(format!("lookup('file'): there is no file {}", list.join(" or "))));
    };
    let failed = |why: String| invalid(format!("lookup('file'): {}: {why}", path.display()));
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failed(format!("larger than {} MiB", MAX_BYTES >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|_| failed("not UTF-8 text".to_owned()))?;
    let text = if strip_end { text.trim_end() } else { &text };
    Ok(Value::from(if strip_start { text.trim_start() } else { text }))
}
