//! Paths of the controller as they are: filters and tests that look at its file system, as Ansible's do.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::collections::items;
use super::invalid;
use crate::frame;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("normpath", |path: String| normal(&path));
    env.add_filter("expanduser", |path: String| expanded(&path));
    env.add_filter("expandvars", |path: String| with_variables(&path));
    env.add_filter("realpath", |path: String| {
        looked(&path);
        let full = absolute(&path);
        std::fs::canonicalize(&full).map_or_else(|_| normal(&full), |path| path.display().to_string())
    });
    env.add_filter("relpath", |path: String, start: Option<String>| {
        relative(&absolute(&path), &absolute(start.as_deref().unwrap_or(".")))
    });
    env.add_filter("commonpath", commonpath);
    env.add_filter("win_basename", |path: String| windows(&path).2);
    env.add_filter("win_dirname", |path: String| {
        let (drive, head, _) = windows(&path);
        drive + &head
    });
    env.add_filter("win_splitdrive", |path: String| {
        let (drive, _, _) = windows(&path);
        let rest = path.get(drive.len()..).unwrap_or_default().to_owned();
        vec![drive, rest]
    });
    env.add_test("file", |path: String| looked(&path).is_file());
    env.add_test("directory", |path: String| looked(&path).is_dir());
    env.add_test("exists", |path: String| looked(&path).exists());
    env.add_test("link", |path: String| looked(&path).is_symlink());
    env.add_test("link_exists", |path: String| looked(&path).symlink_metadata().is_ok());
    env.add_test("abs", |path: String| path.starts_with('/'));
    env.add_test("same_file", |path: String, other: String| {
        let id = |path: &str| looked(path).metadata().map(|meta| (meta.dev(), meta.ino())).ok();
        id(&path).is_some() && id(&path) == id(&other)
    });
    env.add_test("mount", |path: String| {
        let path = looked(&path);
        let id = |path: &Path| path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        let (here, above) = (id(&path), id(&path.join("..")));
        !path.is_symlink() && here.is_some() && (here.map(|id| id.0) != above.map(|id| id.0) || here == above)
    });
}

/// A path that is looked at, noted as what the value was made of.
fn looked(path: &str) -> PathBuf {
    frame::note(|notes| notes.lookups.insert(format!("test.file.{path}")));
    PathBuf::from(path)
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    std::env::current_dir().map_or_else(|_| path.to_owned(), |dir| dir.join(path).display().to_string())
}

/// As Python's `os.path.normpath`.
fn normal(path: &str) -> String {
    let root = match path {
        path if path.starts_with("//") && !path.starts_with("///") => "//",
        path if path.starts_with('/') => "/",
        _ => "",
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match part {
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if !root.is_empty() => {}
            part => parts.push(part),
        }
    }
    let path = format!("{root}{}", parts.join("/"));
    if path.is_empty() { ".".to_owned() } else { path }
}

fn expanded(path: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    match path.strip_prefix('~') {
        Some(rest) if (rest.is_empty() || rest.starts_with('/')) && !home.is_empty() => {
            frame::note(|notes| notes.lookups.insert("lookup.env.HOME".to_owned()));
            format!("{}{rest}", home.trim_end_matches('/'))
        }
        _ => path.to_owned(),
    }
}

/// `$NAME` and `${NAME}`; unknown ones stay.
fn with_variables(path: &str) -> String {
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
        let (name, tail, written) = match braced {
            Some((name, tail)) => (name, tail, format!("${{{name}}}")),
            None => {
                let (name, tail) = after.split_at(end);
                (name, tail, format!("${name}"))
            }
        };
        frame::note(|notes| notes.lookups.insert(format!("lookup.env.{name}")));
        out.push_str(&std::env::var(name).unwrap_or(written));
        rest = tail;
    }
    out.push_str(rest);
    out
}

fn relative(path: &str, start: &str) -> String {
    let (path, start) = (normal(path), normal(start));
    let parts = |path: &str| -> Vec<String> {
        let named = Path::new(path).components().filter(|part| matches!(part, Component::Normal(_)));
        named.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let (path, start) = (parts(&path), parts(&start));
    let same = path.iter().zip(&start).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..", start.len() - same);
    let all: Vec<&str> = up.chain(path.iter().skip(same).map(String::as_str)).collect();
    if all.is_empty() { ".".to_owned() } else { all.join("/") }
}

fn commonpath(paths: Value) -> Result<String, Error> {
    if !matches!(paths.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Err(invalid(format!("commonpath: a list is wanted, not a {}", paths.kind())));
    }
    let paths: Vec<String> = items(&paths)?.iter().map(ToString::to_string).collect();
    let rooted = paths.iter().filter(|path| path.starts_with('/')).count();
    if paths.is_empty() || (rooted > 0 && rooted < paths.len()) {
        return Err(invalid("commonpath: the paths must be all absolute or all relative, and one at least"));
    }
    let parts: Vec<Vec<&str>> = paths
        .iter()
        .map(|path| path.split('/').filter(|part| !part.is_empty() && *part != ".").collect())
        .collect();
    let first = parts.first().cloned().unwrap_or_default();
    let same =
        (0..first.len()).take_while(|at| parts.iter().all(|other| other.get(*at) == first.get(*at))).count();
    let joined = first.iter().take(same).copied().collect::<Vec<_>>().join("/");
    Ok(if rooted > 0 { format!("/{joined}") } else { joined })
}

/// Drive, folder and last name of a path of Windows.
fn windows(path: &str) -> (String, String, String) {
    let (drive, rest) = match path.char_indices().nth(1) {
        Some((1, ':')) => path.split_at(2),
        _ => ("", path),
    };
    let at = rest.rfind(['\\', '/']).map_or(0, |at| at + 1);
    let (head, tail) = rest.split_at(at);
    let trimmed = head.trim_end_matches(['\\', '/']);
    let head = if trimmed.is_empty() { head } else { trimmed };
    (drive.to_owned(), head.to_owned(), tail.to_owned())
}
