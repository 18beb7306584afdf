//! `lookup()` and `query()`: values from the controller's environment, files and templates.

use std::path::{Path, PathBuf};

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, Value};

use crate::filters::{arguments, invalid};
use crate::registry::Registry;
use crate::{files, frame};

/// Every lookup there is, for suggestions.
pub(crate) const LOOKUPS: &[&str] =
    &["env", "file", "first_found", "password", "template", "unvault", "vars"];

pub(crate) fn install(env: &mut Registry<'_>) {
    env.add_function("lookup", |name: String, terms: Rest<ValueOrKwargs>| {
        let (values, wantlist) = look_up(&name, terms)?;
        // One term gives its value, several are joined, as in Ansible.
        Ok::<_, Error>(match values.as_slice() {
            many if wantlist || many.is_empty() => Value::from(values),
            [one] => one.clone(),
            many => Value::from(many.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
        })
    });
    for name in ["query", "q"] {
        env.add_function(name, |name: String, terms: Rest<ValueOrKwargs>| {
            Ok::<_, Error>(look_up(&name, terms)?.0)
        });
    }
}

fn look_up(name: &str, terms: Rest<ValueOrKwargs>) -> Result<(Vec<Value>, bool), Error> {
    let (terms, options) = arguments(terms)?;
    let wantlist = options.get::<Option<bool>>("wantlist")?.unwrap_or(false);
    let names: Vec<String> = terms.iter().map(ToString::to_string).collect();
    let short = name.strip_prefix("ansible.builtin.").unwrap_or(name);
    let each = |one: &dyn Fn(&str) -> Result<Value, Error>| {
        names.iter().map(|name| one(name)).collect::<Result<Vec<_>, _>>()
    };
    let values: Vec<Value> = match short {
        "env" => {
            let default = options.get::<Option<Value>>("default")?.unwrap_or_else(|| Value::from(""));
            each(&|name| Ok(environment(name, &default)))?
        }
        "file" => {
            let strip = |name: &str| options.get::<Option<bool>>(name);
            let (right, left) = (strip("rstrip")?.unwrap_or(true), strip("lstrip")?.unwrap_or(false));
            each(&|name| file(name, "file", right, left))?
        }
        // The text stays as it is.
        "unvault" => each(&|name| file(name, "unvault", false, false))?,
        "template" => each(&template)?,
        "vars" => {
            let default = options.get::<Option<Value>>("default")?;
            each(&|name| variable(name, default.as_ref()))?
        }
        "password" => each(&password)?,
        "first_found" => first_found(&terms, &options)?,
        _ => return Err(crate::ansible::no_lookup(short)),
    };
    options.assert_all_used()?;
    Ok((values, wantlist))
}

fn environment(name: &str, default: &Value) -> Value {
    frame::note(|notes| notes.lookups.insert(format!("lookup.env.{name}")));
    match std::env::var(name) {
        Ok(value) => Value::from(value),
        Err(_) => default.clone(),
    }
}

/// The places of a file: a folder of the role, then the role itself.
fn places(name: &str, folders: &[&str]) -> Vec<PathBuf> {
    let role = frame::current_scope().and_then(|scope| scope.files().map(Path::to_path_buf));
    match role {
        _ if Path::new(name).is_absolute() => vec![PathBuf::from(name)],
        Some(role) => {
            folders.iter().map(|folder| role.join(folder).join(name)).chain([role.join(name)]).collect()
        }
        None => vec![PathBuf::from(name)],
    }
}

fn found(name: &str, lookup: &str, folders: &[&str]) -> Result<PathBuf, Error> {
    frame::note(|notes| notes.lookups.insert(format!("lookup.{lookup}.{name}")));
    let tried = places(name, folders);
    tried.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let list: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
        invalid(format!("lookup('{lookup}'): there is no file {}", list.join(" or ")))
    })
}

fn file(name: &str, lookup: &str, strip_end: bool, strip_start: bool) -> Result<Value, Error> {
    let path = found(name, lookup, &["files"])?;
    let source = files::read(&path)
        .map_err(|why| invalid(format!("lookup('{lookup}'): {}: {why}", path.display())))?;
    let text = source.content();
    let text = if strip_end { text.trim_end() } else { text };
    Ok(Value::from(if strip_start { text.trim_start() } else { text }))
}

fn template(name: &str) -> Result<Value, Error> {
    let path = found(name, "template", &["templates"])?;
    let source = files::read(&path)
        .map_err(|why| invalid(format!("lookup('template'): {}: {why}", path.display())))?;
    let Some(scope) = frame::current_scope() else {
        return Err(invalid("lookup('template'): there are no variables here"));
    };
    within(&path, || scope.engine().render_inner(&source, &scope)).map(Value::from)
}

/// Templates that look each other up may go this deep.
const MOST: usize = 20;

thread_local! {
    // The templates that are looked up at the moment; an evaluation never leaves its thread.
    static OPEN: std::cell::RefCell<Vec<PathBuf>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Renders a template, unless that one is being rendered already or too many are.
fn within<T>(path: &Path, render: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let open = OPEN.with_borrow(Vec::clone);
    if open.len() >= MOST || open.iter().any(|open| open == path) {
        let names: Vec<String> = open.iter().map(|open| open.display().to_string()).collect();
        let chain = format!("{} → {}", names.join(" → "), path.display());
        return Err(invalid(format!(
            "lookup('template'): templates look each other up without end: {chain}"
        )));
    }
    OPEN.with_borrow_mut(|open| open.push(path.to_path_buf()));
    let done = crate::bounds::stack(render);
    OPEN.with_borrow_mut(Vec::pop);
    done
}

fn variable(name: &str, default: Option<&Value>) -> Result<Value, Error> {
    let found = frame::current_scope().and_then(|scope| scope.look_up(name, ""));
    match (found.filter(|value| !value.is_undefined()), default) {
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => Err(invalid(format!("lookup('vars'): nothing sets `{name}`"))),
    }
}

/// The password in a file that Ansible's lookup made. No password is made here: a plan writes nothing, and the next run must
/// have the same result.
fn password(term: &str) -> Result<Value, Error> {
    frame::note(|notes| notes.sensitive = true);
    let name = term.split_whitespace().next().unwrap_or_default();
    if name == "/dev/null" {
        return Err(invalid(
            "lookup('password'): a password that is kept nowhere is another one in every run; keep it in a file or a vault",
        ));
    }
    let tried = places(name, &["files"]);
    let Some(path) = tried.iter().find(|path| path.is_file()) else {
        return Err(invalid(format!(
            "lookup('password'): there is no file {name}, and a plan makes none; \
             make it once: (umask 077; head -c 15 /dev/urandom | base64 > {name})"
        )));
    };
    let source =
        files::read(path).map_err(|why| invalid(format!("lookup('password'): {}: {why}", path.display())))?;
    // Ansible keeps a salt behind the password.
    let line = source.content().trim_end();
    Ok(Value::from(line.split_once(" salt=").map_or(line, |(password, _)| password)))
}

/// The first file that is there: names, lists of them, or maps with `files`, `paths` and `skip`.
fn first_found(terms: &[Value], options: &Kwargs) -> Result<Vec<Value>, Error> {
    let mut names = Vec::new();
    let mut folders = listed(options.get::<Option<Value>>("paths")?)?;
    let mut skip = options.get::<Option<bool>>("skip")?.unwrap_or(false);
    names.extend(listed(options.get::<Option<Value>>("files")?)?);
    for term in terms {
        if term.kind() == ValueKind::Map {
            let part =
                |name: &str| Ok::<_, Error>(Some(term.get_attr(name)?).filter(|part| !part.is_undefined()));
            names.extend(listed(part("files")?)?);
            folders.extend(listed(part("paths")?)?);
            skip |= part("skip")?.is_some_and(|skip| skip.is_true());
        } else {
            names.extend(listed(Some(term.clone()))?);
        }
    }
    let joined: Vec<String> = match folders.is_empty() {
        true => names,
        false => folders
            .iter()
            .flat_map(|folder| {
                names.iter().map(move |name| Path::new(folder).join(name).display().to_string())
            })
            .collect(),
    };
    for name in &joined {
        frame::note(|notes| notes.lookups.insert(format!("lookup.first_found.{name}")));
        if let Some(path) = places(name, &["files", "templates", "vars"]).iter().find(|path| path.exists()) {
            return Ok(vec![Value::from(path.display().to_string())]);
        }
    }
    if skip {
        return Ok(Vec::new());
    }
    Err(invalid(format!("lookup('first_found'): none of these files is there: {}", joined.join(", "))))
}

fn listed(value: Option<Value>) -> Result<Vec<String>, Error> {
    match value {
        None => Ok(Vec::new()),
        Some(value) if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) => {
            value.try_iter()?.checked().map(|item| item.map(|item| item.to_string())).collect()
        }
        Some(value) => Ok(value.to_string().split([',', ';']).map(|part| part.trim().to_owned()).collect()),
    }
}
