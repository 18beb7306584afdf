//! The sources of charts: the address of a repository, the login to it, and the version, for the kinds of helm.

use converge_resource::{ChartLogin, ParamError, REFUSED, Stop};
use serde_json::Value;

/// Checks the address of a repository. helm gets it as an argument, which all users of this machine can read.
pub(crate) fn check_repository(pointer: &str, url: &str, errors: &mut Vec<ParamError>) {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if !rest.is_some_and(|rest| is_open_address(pointer, rest, errors)) {
        let help = "write it as `https://charts.example.org`";
        errors.push(ParamError::fixed(pointer, "this is no address of a repository", help));
    }
}

/// Checks the address of a chart in an OCI registry, which helm gets as an argument too.
pub(crate) fn check_registry(pointer: &str, url: &str, errors: &mut Vec<ParamError>) {
    let rest = url.strip_prefix("oci://").filter(|rest| !rest.ends_with('/'));
    if !rest.is_some_and(|rest| is_open_address(pointer, rest, errors)) {
        let help = "write it as `oci://registry.example.org/charts/name`";
        errors.push(ParamError::fixed(pointer, "this is no chart of an OCI registry", help));
    }
}

/// Whether this is HOST, with PORT and a path if need be. A login in it is an error of its own; a password with a slash looks like a port.
fn is_open_address(pointer: &str, rest: &str, errors: &mut Vec<ParamError>) -> bool {
    let place = rest.split('/').next().unwrap_or_default();
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    let is_port = port.is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()));
    if rest.contains('@') && (place.contains('@') || !is_port) {
        errors.push(ParamError::fixed(
            pointer,
            "the address holds a login, which all users of this machine could read",
            "give `login` with `username` and `password`, and leave both out of the address",
        ));
        return true;
    }
    !host.is_empty() && is_port && !rest.contains(char::is_whitespace)
}

/// Checks a login: helm sends none whose name or password is empty, and HTTP has no place for a colon in the name.
pub(crate) fn check_login(login: Option<&ChartLogin>, errors: &mut Vec<ParamError>) {
    let Some(login) = login else { return };
    if login.username.is_empty() || login.username.contains(|c: char| c == ':' || c.is_control()) {
        let help = "write the name that the repository knows, as `ann` or `$oauthtoken`";
        errors.push(ParamError::fixed("/login/username", "this is no name of a user", help));
    }
    if login.password.is_empty() || login.password.contains(char::is_control) {
        let help = "give one line, without its end: a file that is looked up may end with one (`| trim`)";
        errors.push(ParamError::fixed("/login/password", "this is no password", help));
    }
}

/// The error of a repository or registry from which the chart does not come: it refuses the login, is not reached, has no such version. `source` is the
/// parameter with its address. Its words hold no secret.
pub(crate) fn source_stop(answer: &Value, source: &str) -> Option<Stop> {
    let refused = answer.get(REFUSED)?;
    let word = |key: &str| refused.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = word("message");
    let pointer = match word("parameter").as_str() {
        "" => source.to_owned(),
        name => format!("/{name}"),
    };
    Some(Stop::invalid_help(&pointer, &message, word("help")).openly(message))
}

/// A version that names one chart: no range, no `latest`.
pub(crate) fn exact(version: &str) -> bool {
    let bare = version.strip_prefix('v').unwrap_or(version);
    let numbers: Vec<&str> = bare.split(['-', '+']).next().unwrap_or_default().split('.').collect();
    let good = |b: u8| b.is_ascii_alphanumeric() || b".-+".contains(&b);
    numbers.len() == 3
        && numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        && bare.bytes().all(good)
}

/// `gpu-operator` of `charts/gpu-operator-v25.10.0.tgz`.
pub(crate) fn archive_name(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    let ends = |at: &usize| {
        let rest = file.get(at + 1..).unwrap_or_default();
        rest.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit())
    };
    let at = file.match_indices('-').map(|(at, _)| at).find(ends);
    at.and_then(|at| file.get(..at)).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pointers(check: impl Fn(&mut Vec<ParamError>)) -> Vec<String> {
        let mut errors = Vec::new();
        check(&mut errors);
        assert!(errors.iter().all(|error| error.holds_no_value), "{errors:?}");
        errors.into_iter().map(|error| error.pointer).collect()
    }

    #[test]
    fn an_address_holds_no_login() {
        for (url, bad) in [
            ("https://charts.example.org/a@b", false),
            ("http://127.0.0.1:8080", false),
            ("https://ann:hunter2@charts.example.org", true),
            ("charts.example.org", true),
            ("https://ann:hunter/2@charts.example.org", true),
            ("https://token@charts.example.org", true),
            ("https://[::1]:8443/charts", false),
            ("https://charts.example.org /x", true),
        ] {
            assert_eq!(!pointers(|e| check_repository("/url", url, e)).is_empty(), bad, "{url}");
        }
        for (url, bad) in [
            ("oci://registry.example.org:5000/charts/app", false),
            ("oci://registry.example.org/charts/app@sha256:0", false),
            ("oci://ann:hunter2@registry.example.org/charts/app", true),
            ("oci://registry.example.org/charts/", true),
            ("registry.example.org/charts/app", true),
        ] {
            assert_eq!(!pointers(|e| check_registry("/oci", url, e)).is_empty(), bad, "{url}");
        }
    }

    #[test]
    fn a_login_has_both_parts_on_one_line() {
        let login = |username: &str, password: &str| {
            let login = ChartLogin { username: username.to_owned(), password: password.to_owned() };
            pointers(|e| check_login(Some(&login), e))
        };
        assert_eq!(login("$oauthtoken", "x:y z"), [""; 0]);
        assert_eq!(login("a:b", ""), ["/login/username", "/login/password"]);
        assert_eq!(login("", "x\n"), ["/login/username", "/login/password"]);
    }

    #[test]
    fn a_refusal_is_shown_where_the_resource_is_sensitive_too() {
        let answer =
            json!({REFUSED: {"message": "it asks for a login", "help": "give one", "parameter": "login"}});
        let Some(Stop::Invalid { pointer, message, open, .. }) = source_stop(&answer, "/url") else {
            panic!()
        };
        assert_eq!((pointer.as_str(), open), ("/login", Some(message)));
        assert_eq!(source_stop(&json!({"manifests": []}), "/url"), None);
    }
}
