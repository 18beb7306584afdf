//! `to_uuid`, `urlsplit`, and `split` with its arguments as in Python.

use minijinja::value::Kwargs;
use minijinja::{Error, Value};
use uuid::Uuid;

use super::invalid;
use crate::registry::Registry;

/// The namespace of Ansible's names.
const NAMESPACE: Uuid = Uuid::from_u128(0x361e_6d51_faec_444a_9079_3413_86da_8e2e);

pub(super) fn install(env: &mut Registry<'_>) {
    env.add_filter("to_uuid", to_uuid);
    env.add_filter("urlsplit", urlsplit);
}

fn to_uuid(name: String, namespace: Option<String>, options: Kwargs) -> Result<String, Error> {
    let namespace = options.get::<Option<String>>("namespace")?.or(namespace);
    options.assert_all_used()?;
    let namespace = match namespace {
        None => NAMESPACE,
        Some(text) => text.parse().map_err(|_| invalid(format!("to_uuid: `{text}` is no UUID")))?,
    };
    Ok(Uuid::new_v5(&namespace, name.as_bytes()).to_string())
}

/// The parts of a URL, as Python's `urllib.parse.urlsplit` takes them apart.
fn urlsplit(url: String, wanted: Option<String>, options: Kwargs) -> Result<Value, Error> {
    let wanted = options.get::<Option<String>>("query")?.or(wanted).filter(|wanted| !wanted.is_empty());
    options.assert_all_used()?;
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let (scheme, rest) = match url.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_lowercase(), rest),
        _ => (String::new(), url.as_str()),
    };
    let (netloc, rest) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len())),
        None => ("", rest),
    };
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (user, address) = match netloc.rsplit_once('@') {
        Some((user, address)) => (Some(user), address),
        None => (None, netloc),
    };
    let (name, password) = match user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
        Some((name, password)) => (Some(name), user.filter(|user| user.contains(':')).map(|_| password)),
        None => (None, None),
    };
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':').unwrap_or("")),
        None => address.split_once(':').unwrap_or((address, "")),
    };
    let port = match port {
        "" => Value::from(()),
        port => Value::from(
            port.parse::<u16>().map_err(|_| invalid(format!("urlsplit: `{port}` is not a port")))?,
        ),
    };
    let text = |text: Option<&str>| text.map_or_else(|| Value::from(()), Value::from);
    let parts = Value::from_pairs([
        ("fragment", Value::from(fragment)),
        ("hostname", text(Some(host.to_lowercase()).filter(|host| !host.is_empty()).as_deref())),
        ("netloc", Value::from(netloc)),
        ("password", text(password)),
        ("path", Value::from(path)),
        ("port", port),
        ("query", Value::from(query)),
        ("scheme", Value::from(scheme)),
        ("username", text(name)),
    ]);
    match wanted {
        None => Ok(parts),
        Some(part) => {
            let value = parts.get_attr(&part)?;
            if value.is_undefined() {
                Err(invalid(format!("urlsplit: there is no part `{part}`")))
            } else {
                Ok(value)
            }
        }
    }
}
