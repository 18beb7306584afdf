//! `converge settings`: each setting with its value and its source.

use crate::args::SettingsArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::settings::{ConnectionDefault, FILE, FILE_VARIABLE, KEYS, Origin, SettingKey, Settings};
use camino::Utf8PathBuf;
use converge_render::documents::{
    AnsibleSettings, AnsibleVariable, IgnoredKey, One, SettingEntry, SettingSource, SettingsDocument,
    SettingsFormat, to_json,
};
use converge_render::{Line, Text, Tone};
use serde_json::Value;

pub fn run(_args: SettingsArgs, settings: &Settings, console: &Console) -> Result<u8, Failure> {
    if console.json {
        console.print_json(&to_json(&document(settings)));
    } else {
        console.print(&text(settings));
    }
    Ok(code::DONE)
}

fn text(settings: &Settings) -> Text {
    let mut text = Text::new();
    text.push(match &settings.file {
        Some(file) => Line::at(0).plain(file.as_str()),
        None => Line::at(0).faint(format!("no {FILE} in this folder and above it")),
    });
    text.gap();
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or_default();
    let shown =
        |key: &SettingKey| settings.get(key.name).map_or_else(|| "-".to_owned(), |(value, _)| value.shown());
    let names = width(&mut KEYS.iter().map(|key| key.key.len()));
    let values = width(&mut KEYS.iter().map(|key| shown(key).chars().count())).min(40);
    for key in &KEYS {
        let set = settings.get(key.name);
        let tone = if set.is_some() { Tone::Strong } else { Tone::Faint };
        let line = Line::at(0)
            .plain(format!("{:<names$}  ", key.key))
            .say(tone, format!("{:<values$}  ", shown(key)));
        let source = match set {
            Some((_, Origin::File(at))) => at.to_string(),
            Some((_, Origin::Variable(name))) => name.clone(),
            None => format!("default: {}", key.default),
        };
        text.push(line.faint(source).fold(names + 2));
        if let Some(at) = settings.ignored(key.name) {
            text.push(
                Line::at(names + 2).say(Tone::Warn, format!("ignored at {at}: others may write the file")),
            );
        }
    }
    let Some(file) = &settings.ansible else { return text };
    text.gap();
    text.push(Line::at(0).plain(file.as_str()).faint(", below all that the inventory sets"));
    let names = width(&mut settings.variables.iter().map(|one| one.name.len()));
    for one in &settings.variables {
        let line = Line::at(0)
            .plain(format!("{:<names$}  ", one.name))
            .say(Tone::Strong, format!("{}  ", one.value));
        text.push(line.faint(one.at.to_string()).fold(names + 2));
    }
    for (key, at) in &settings.passed_over {
        text.push(Line::at(0).faint(format!("{key}: ignored, it means nothing here  {at}")));
    }
    text
}

/// The document of `--output json`.
fn document(settings: &Settings) -> SettingsDocument {
    let setting = |key: &SettingKey| {
        let (value, source, at) = match settings.get(key.name) {
            Some((value, Origin::File(at))) => (value.json(key), SettingSource::File, Some(at.to_string())),
            Some((value, Origin::Variable(name))) => {
                (value.json(key), SettingSource::Environment, Some(name.clone()))
            }
            None => (Value::Null, SettingSource::Default, None),
        };
        SettingEntry {
            name: key.key.to_owned(),
            value,
            source,
            at,
            default: key.default.to_owned(),
            ignored_at: settings.ignored(key.name).map(ToString::to_string),
        }
    };
    let variable = |one: &ConnectionDefault| AnsibleVariable {
        name: one.name.to_owned(),
        value: one.value.clone(),
        at: one.at.to_string(),
    };
    let ansible = |file: &Utf8PathBuf| AnsibleSettings {
        file: file.to_string(),
        variables: settings.variables.iter().map(variable).collect(),
        ignored: settings
            .passed_over
            .iter()
            .map(|(key, at)| IgnoredKey { key: key.clone(), at: at.to_string() })
            .collect(),
    };
    let is_named = std::env::var(FILE_VARIABLE).is_ok_and(|name| !name.is_empty());
    SettingsDocument {
        format: SettingsFormat,
        version: One,
        file: settings.file.as_ref().map(ToString::to_string),
        named_by: is_named.then(|| FILE_VARIABLE.to_owned()),
        settings: KEYS.iter().map(setting).collect(),
        ansible: settings.ansible.as_ref().map(ansible),
    }
}
