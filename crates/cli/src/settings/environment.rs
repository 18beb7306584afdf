//! `CONVERGE_INVENTORY` and its like: environment variables of the settings' names. No I/O.

use super::keys::{Form, KEYS, Name, SettingKey, SettingValue};
use converge_syntax::{Diagnostic, Diagnostics, did_you_mean};
use std::ffi::OsString;

/// Variables of converge that are no settings.
const OTHERS: [&str; 2] = ["CONVERGE_LOG", super::FILE_VARIABLE];

/// The settings of the environment. An empty variable counts as unset. Warnings name variables that are probably misspelt.
///
/// # Errors
/// Values that cannot be, all of them.
pub fn read(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(Vec<(Name, SettingValue)>, Diagnostics), Diagnostics> {
    let (mut settings, mut found) = (Vec::new(), Diagnostics::new());
    let mut all: Vec<(OsString, OsString)> = variables.into_iter().collect();
    all.sort();
    for (variable, value) in all {
        let Some(variable) = variable.to_str().filter(|name| name.starts_with("CONVERGE_")) else { continue };
        let Some(key) = KEYS.iter().find(|key| key.variable() == variable) else {
            found.extend(misspelt(variable));
            continue;
        };
        if value.is_empty() {
            continue;
        }
        let read = value.to_str().ok_or(Wrong::NotText).and_then(|text| parse(key, text));
        match read {
            Ok(value) => settings.push((key.name, value)),
            Err(why) => {
                let message =
                    format!("the variable `{variable}` must be {}, and it is {why}", key.form.expected());
                found.push(
                    Diagnostic::error("wrong-type", message)
                        .help(format!("correct it, or unset it: unset {variable}")),
                );
            }
        }
    }
    found.clone().or_value((settings, found))
}

/// The reason why a variable has no value for its setting; what it is, for a sentence.
#[derive(Debug, thiserror::Error)]
enum Wrong {
    #[error("not UTF-8")]
    NotText,
    #[error("`{0}`")]
    Other(String),
    #[error("`{0}`: {1}")]
    Piece(String, String),
}

fn parse(key: &SettingKey, text: &str) -> Result<SettingValue, Wrong> {
    let pieces: Vec<&str> = match key.form {
        Form::Number => {
            let number = text.trim().parse().ok().and_then(SettingValue::forks);
            return number.ok_or_else(|| Wrong::Other(text.to_owned()));
        }
        // Names of hosts with commas are one inventory.
        Form::Inventories if text.contains(',') => vec![text],
        Form::Inventories | Form::Paths => text.split(':').filter(|piece| !piece.is_empty()).collect(),
        Form::VaultIds => text.split(',').map(str::trim).filter(|piece| !piece.is_empty()).collect(),
        Form::Path | Form::User => vec![text],
    };
    match pieces.iter().find_map(|piece| key.form.mistake(piece)) {
        Some(mistake) => Err(Wrong::Piece(text.to_owned(), mistake.to_string())),
        None if pieces.is_empty() => Err(Wrong::Other(text.to_owned())),
        None => Ok(SettingValue::Texts(pieces.into_iter().map(str::to_owned).collect())),
    }
}

fn misspelt(variable: &str) -> Option<Diagnostic> {
    if OTHERS.contains(&variable) {
        return None;
    }
    let names: Vec<String> = KEYS.iter().map(SettingKey::variable).collect();
    // The beginning that all have does not make them alike.
    let short = |name: &str| name.trim_start_matches("CONVERGE_").to_owned();
    let shorts: Vec<String> = names.iter().map(|name| short(name)).collect();
    let near = did_you_mean(&short(variable), shorts.iter().map(String::as_str))?;
    let message = format!("the variable `{variable}` is no setting");
    Some(Diagnostic::warning("unknown-variable", message).help(format!("did you mean `CONVERGE_{near}`?")))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = Result<(Vec<(Name, SettingValue)>, Vec<String>), Vec<String>>;

    fn parsed(variables: &[(&str, &str)]) -> Read {
        let strings = |found: Diagnostics| found.iter().map(ToString::to_string).collect::<Vec<_>>();
        read(variables.iter().map(|(name, value)| (name.into(), value.into())))
            .map(|(all, found)| (all, strings(found)))
            .map_err(strings)
    }

    fn one(name: &str, value: &str) -> SettingValue {
        parsed(&[(name, value)]).unwrap().0.remove(0).1
    }

    #[test]
    fn lists_have_their_own_separators() {
        let texts = |all: &[&str]| SettingValue::Texts(all.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(one("CONVERGE_INVENTORY", "a.yaml:b"), texts(&["a.yaml", "b"]));
        assert_eq!(one("CONVERGE_INVENTORY", "h1,fe80::1,"), texts(&["h1,fe80::1,"]));
        assert_eq!(one("CONVERGE_ROLES_PATH", "/a::b:"), texts(&["/a", "b"]));
        assert_eq!(one("CONVERGE_VAULT_IDS", "prod@~/a, b"), texts(&["prod@~/a", "b"]));
        assert_eq!(one("CONVERGE_PLAYBOOK", "a:b"), texts(&["a:b"]));
        assert_eq!(one("CONVERGE_FORKS", "7"), SettingValue::Forks(7));
    }

    #[test]
    fn an_empty_variable_is_unset_and_others_are_passed_over() {
        let none = parsed(&[
            ("CONVERGE_USER", ""),
            ("CONVERGE_LOG", "debug"),
            ("CONVERGE_SETTINGS", "x"),
            ("CONVERGE_LAB_DIR", "x"),
            ("PATH", "/bin"),
        ]);
        assert_eq!(none, Ok((vec![], vec![])));
    }

    #[test]
    fn mistakes_are_reported_together() {
        let found =
            parsed(&[("CONVERGE_FORKS", "many"), ("CONVERGE_USER", "a b"), ("CONVERGE_ROLES_PATH", ":")])
                .unwrap_err();
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[0].contains("`CONVERGE_FORKS` must be an integer from 1 to 1000, and it is `many`"));
        let (_, warned) = parsed(&[("CONVERGE_INVENTROY", "x")]).unwrap();
        assert!(warned[0].contains("did you mean `CONVERGE_INVENTORY`?"), "{warned:?}");
    }
}
