//! `converge.toml`: its text to settings, with all diagnostics. No I/O.

use super::keys::{Form, KEYS, Name, SettingKey, SettingValue};
use converge_syntax::{Diagnostic, Diagnostics, Source, Span, did_you_mean};
use std::ops::Range;
use std::sync::Arc;
use toml_edit::{Document, Item};

/// Keys of ansible.cfg, and those of converge.
const OTHERS: [(&str, &str); 5] = [
    ("remote_user", "user"),
    ("vault_identity_list", "vault_ids"),
    ("vault_password_file", "vault_ids"),
    ("vault_password_files", "vault_ids"),
    ("roles", "roles_path"),
];

/// A setting of the file, with the place of its key.
#[derive(Debug)]
pub struct WrittenSetting {
    /// The setting.
    pub name: Name,
    /// The value as written: paths are relative to the folder of the file.
    pub value: SettingValue,
    /// The place.
    pub at: Span,
}

/// Reads the text of a settings file.
///
/// # Errors
/// Text that is not TOML, unknown keys, values of a wrong type: all of them.
pub fn read(source: &Arc<Source>) -> Result<Vec<WrittenSetting>, Diagnostics> {
    let span = |range: Option<Range<usize>>| {
        let range = range.unwrap_or_default();
        Span::new(source.clone(), range.start, range.end)
    };
    let document = Document::parse(source.text()).map_err(|error| syntax(source, &error))?;
    let mut found = Diagnostics::new();
    let mut settings = Vec::new();
    for (name, item) in document.as_table() {
        let key_at = document.as_table().key(name).and_then(toml_edit::Key::span);
        let at = span(key_at.or_else(|| item.span()));
        let Some(key) = KEYS.iter().find(|key| key.key == name) else {
            found.push(unknown(name, &at));
            continue;
        };
        let value_at = item.span().map_or_else(|| at.clone(), |range| span(Some(range)));
        match value(key, item, &span) {
            Ok(value) => settings.push(WrittenSetting { name: key.name, value, at }),
            Err(Mistake { why, at: inner }) => {
                let message = format!("`{}` must be {}, {why}", key.key, key.form.expected());
                found.push(
                    Diagnostic::error("wrong-type", message)
                        .label(&inner.unwrap_or(value_at), format!("expected {}", key.form.expected()))
                        .help(format!("write {} = {}", key.key, key.example)),
                );
            }
        }
    }
    found.or_value(settings)
}

/// The error for text that is not TOML.
fn syntax(source: &Arc<Source>, error: &toml_edit::TomlError) -> Diagnostic {
    let range = error.span().unwrap_or_default();
    let at = Span::new(source.clone(), range.start, range.end);
    let (before, rest) = source.text().split_at_checked(range.start).unwrap_or_default();
    let begins = |c: char| c.is_alphabetic() || "/.~".contains(c);
    // The parser takes `inventories/a.yaml` for the start of `inf`.
    if before.trim_end().ends_with(['=', '[', ',']) && rest.starts_with(begins) {
        let word: String = rest.chars().take_while(|c| !c.is_whitespace() && !"#,]".contains(*c)).collect();
        return Diagnostic::error("syntax", "a text stands without quotes")
            .at(&at)
            .help(format!("put it between double quotes: \"{word}\""));
    }
    let message = error.message().trim().replace('\n', ", ");
    let help = match message.as_str() {
        "duplicate key" => "keep one of the two",
        _ => "settings are written KEY = VALUE, texts between double quotes",
    };
    Diagnostic::error("syntax", format!("this is not TOML: {message}")).at(&at).help(help)
}

fn unknown(name: &str, at: &Span) -> Diagnostic {
    let names = || KEYS.iter().map(|key| key.key);
    let other = OTHERS.iter().find(|(other, _)| *other == name).map(|(_, own)| *own);
    let help = match other.or_else(|| did_you_mean(name, names())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("settings are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Diagnostic::error("unknown-key", format!("there is no setting `{name}`"))
        .label(at, "unknown key")
        .help(help)
}

struct Mistake {
    why: String,
    at: Option<Span>,
}

fn value(
    key: &SettingKey,
    item: &Item,
    span: &dyn Fn(Option<Range<usize>>) -> Span,
) -> Result<SettingValue, Mistake> {
    let wrong = |item: &Item| Mistake { why: format!("found {}", described(item)), at: None };
    if key.form == Form::Number {
        return item.as_integer().and_then(SettingValue::forks).ok_or_else(|| wrong(item));
    }
    let text = |value: &toml_edit::Value| {
        let at = Some(span(value.span()));
        let found = || format!("found {}", described(&Item::Value(value.clone())));
        let Some(text) = value.as_str() else { return Err(Mistake { why: found(), at }) };
        match key.form.mistake(text) {
            Some(_) if text.is_empty() => Err(Mistake { why: "found an empty text".to_owned(), at }),
            Some(mistake) => Err(Mistake { why: format!("and `{text}` is not: {mistake}"), at }),
            None => Ok(text.to_owned()),
        }
    };
    let texts = match item.as_value() {
        Some(toml_edit::Value::Array(list)) if key.is_list() => {
            if list.is_empty() {
                return Err(Mistake { why: "found an empty list".to_owned(), at: None });
            }
            list.iter().map(text).collect::<Result<_, _>>()?
        }
        Some(one) => vec![text(one)?],
        None => return Err(wrong(item)),
    };
    Ok(SettingValue::Texts(texts))
}

/// A value for messages.
fn described(item: &Item) -> String {
    match item {
        Item::Value(toml_edit::Value::String(text)) => format!("the string `{}`", text.value()),
        Item::Value(toml_edit::Value::Integer(number)) => format!("the integer {}", number.value()),
        Item::Value(toml_edit::Value::Float(number)) => format!("the number {}", number.value()),
        Item::Value(toml_edit::Value::Boolean(truth)) => format!("the boolean {}", truth.value()),
        Item::Value(toml_edit::Value::Datetime(_)) => "a date".to_owned(),
        Item::Value(toml_edit::Value::Array(_)) => "a list".to_owned(),
        _ => "a table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<(Name, SettingValue)>, Vec<String>> {
        match read(&Source::new("converge.toml", text)) {
            Ok(all) => Ok(all.into_iter().map(|one| (one.name, one.value)).collect()),
            Err(found) => Err(found.iter().map(ToString::to_string).collect()),
        }
    }

    fn texts(all: &[&str]) -> SettingValue {
        SettingValue::Texts(all.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn every_setting_is_read_in_each_of_its_forms() {
        let all = "inventory = \"a.yaml\"\nplaybook = 'p.yaml'\nroles_path = [\"x\", \"y\"]\nvault_ids = \"prod@~/key\"\nforks = 1_000\n\
                   user = \"deploy\"\nreports = \"out\" # comment\n";
        let wanted = vec![
            (Name::Inventory, texts(&["a.yaml"])),
            (Name::Playbook, texts(&["p.yaml"])),
            (Name::RolesPath, texts(&["x", "y"])),
            (Name::VaultIds, texts(&["prod@~/key"])),
            (Name::Forks, SettingValue::Forks(1000)),
            (Name::User, texts(&["deploy"])),
            (Name::Reports, texts(&["out"])),
        ];
        assert_eq!(parsed(all), Ok(wanted));
        assert_eq!(KEYS.len(), 7);
        assert_eq!(parsed(""), Ok(vec![]));
        assert_eq!(
            parsed("inventory = [\n  \"h1,h2,\", # two\n  \"b\"\n]"),
            Ok(vec![(Name::Inventory, texts(&["h1,h2,", "b"]))])
        );
    }

    #[test]
    fn all_mistakes_are_reported_at_once_with_their_places() {
        let found = parsed(
            "inventry = \"a\"\nforks = \"20\"\nplaybook = [\"a\"]\nroles_path = [\"x\", 7]\nremote_user = \"x\"\nuser = \"-o x\"\n[ssh]\nport = 1\n",
        )
        .unwrap_err();
        let starts = [
            "error[unknown-key]: there is no setting `inventry`\n  --> converge.toml:1:1: unknown key\n  help: did you mean `inventory`?",
            "error[wrong-type]: `forks` must be an integer from 1 to 1000, found the string `20`\n  --> converge.toml:2:9: expected",
            "error[wrong-type]: `playbook` must be a path, found a list\n  --> converge.toml:3:12",
            "error[wrong-type]: `roles_path` must be a folder or a list of folders, found the integer 7\n  --> converge.toml:4:20",
            "error[unknown-key]: there is no setting `remote_user`\n  --> converge.toml:5:1: unknown key\n  help: did you mean `user`?",
            "error[wrong-type]: `user` must be the name of a user, and `-o x` is not",
            "error[unknown-key]: there is no setting `ssh`\n  --> converge.toml:7:2: unknown key\n  help: settings are inventory, ",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}\nwanted {start}");
        }
    }

    #[test]
    fn each_value_that_cannot_be_is_refused() {
        for text in [
            "forks = 0",
            "forks = 1001",
            "forks = 1.5",
            "forks = [1]",
            "inventory = []",
            "inventory = \"\"",
            "inventory = true",
            "inventory = {}",
            "user = \"a b\"",
            "vault_ids = \"prod@\"",
            "reports = \"a\\u0000b\"",
            "playbook = 1979-05-27",
        ] {
            let found = parsed(text).unwrap_err();
            assert!(
                found.len() == 1 && found[0].contains(" must be ") && found[0].contains("help: write "),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn text_that_is_not_toml_has_a_place() {
        for (text, place) in [
            (
                "forks = 20\ninventory = hosts.yaml # x\n",
                "converge.toml:2:13\n  help: put it between double quotes: \"hosts.yaml\"",
            ),
            (
                "inventory = [\"a\", inventories/b]\n",
                "converge.toml:1:19\n  help: put it between double quotes: \"inventories/b\"",
            ),
            ("forks = 1\nforks = 2\n", "converge.toml:2:1\n  help: keep one"),
            ("inventory: hosts.yaml\n", "converge.toml:1:12"),
        ] {
            let found = parsed(text).unwrap_err();
            assert_eq!(found.len(), 1);
            assert!(found[0].starts_with("error[syntax]: ") && found[0].contains(place), "{text}: {found:?}");
        }
    }

    #[test]
    fn examples_and_names_of_others_are_right() {
        for key in &KEYS {
            assert!(parsed(&format!("{} = {}", key.key, key.example)).is_ok(), "{}", key.key);
        }
        for (other, own) in OTHERS {
            assert!(KEYS.iter().any(|key| key.key == own) && KEYS.iter().all(|key| key.key != other));
        }
    }
}
