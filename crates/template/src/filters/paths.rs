//! Paths of POSIX systems, as Python's `os.path` takes them apart.

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::invalid;
use crate::registry::Registry;

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("basename", |path: String| split(&path).1.to_owned());
    env.add_filter("dirname", |path: String| split(&path).0.to_owned());
    env.add_filter("splitext", splitext);
    env.add_filter("path_join", path_join);
}

/// Folder and last name.
fn split(path: &str) -> (&str, &str) {
    let Some(at) = path.rfind('/') else { return ("", path) };
    let (head, tail) = path.split_at(at + 1);
    let trimmed = head.trim_end_matches('/');
    (if trimmed.is_empty() { head } else { trimmed }, tail)
}

fn splitext(path: String) -> Vec<String> {
    let name = split(&path).1;
    let bare = name.trim_start_matches('.');
    match bare.rfind('.') {
        Some(at) => {
            let end = path.len() - (bare.len() - at);
            let (root, extension) = path.split_at(end);
            vec![root.to_owned(), extension.to_owned()]
        }
        None => vec![path, String::new()],
    }
}

/// Joins the parts; one that starts with `/` starts over.
fn path_join(parts: Value) -> Result<String, Error> {
    let parts: Vec<String> = match parts.kind() {
        ValueKind::String => return Ok(parts.to_string()),
        ValueKind::Seq | ValueKind::Iterable => parts
            .try_iter()?
            .checked()
            .map(|part| part.map(|part| part.to_string()))
            .collect::<Result<_, _>>()?,
        kind => return Err(invalid(format!("path_join: a list is wanted, not a {kind}"))),
    };
    Ok(parts.into_iter().fold(String::new(), |mut path, part| {
        if part.starts_with('/') {
            return part;
        }
        if !path.is_empty() && !path.ends_with('/') {
            path.push('/');
        }
        path.push_str(&part);
        path
    }))
}

#[cfg(test)]
mod tests {
    use crate::filters::check::table;

    #[test]
    fn paths() {
        table(&[
            ("'/etc/ssh/sshd_config' | basename", "sshd_config"),
            ("'/etc/' | basename", "''"),
            ("'/etc/ssh/sshd_config' | dirname", "/etc/ssh"),
            ("'/etc' | dirname", "/"),
            ("'etc' | dirname", "''"),
            ("'/a//b' | dirname", "/a"),
            ("'/a/b.tar.gz' | splitext", "[/a/b.tar, .gz]"),
            ("'/a.d/.bashrc' | splitext", "[/a.d/.bashrc, '']"),
            ("['/etc', 'a', 'b.conf'] | path_join", "/etc/a/b.conf"),
            ("['/etc/', '/opt', ''] | path_join", "/opt/"),
            ("'/etc' | path_join", "/etc"),
            ("1 | path_join", "!a list is wanted"),
        ]);
    }
}
