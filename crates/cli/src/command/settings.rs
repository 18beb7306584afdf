//! `converge settings`: each setting with its value and its source.

use crate::args::SettingsArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::settings::{FILE, FILE_VARIABLE, KEYS, Origin, SettingKey, Settings};
use converge_render::{Line, Text, Tone};
use serde_json::{Value, json};

pub fn run(_args: SettingsArgs, settings: &Settings, console: &Console) -> Result<u8, Failure> {
    if console.json {
        console.print_json(&document(settings));
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
fn document(settings: &Settings) -> Value {
    let all: Vec<Value> = KEYS
        .iter()
        .map(|key| {
            let (value, source, place) = match settings.get(key.name) {
                Some((value, Origin::File(at))) => (value.json(key), "file", Some(at.to_string())),
                Some((value, Origin::Variable(name))) => (value.json(key), "environment", Some(name.clone())),
                None => (Value::Null, "default", None),
            };
            json!({
                "name": key.key,
                "value": value,
                "source": source,
                "at": place,
                "default": key.default,
                "ignored_at": settings.ignored(key.name).map(ToString::to_string),
            })
        })
        .collect();
    json!({
        "format": "converge-settings",
        "version": 1,
        "file": settings.file,
        "named_by": std::env::var(FILE_VARIABLE).ok().filter(|name| !name.is_empty()).map(|_| FILE_VARIABLE),
        "settings": all,
        "ansible": settings.ansible.as_ref().map(|file| json!({
            "file": file,
            "variables": settings.variables.iter()
                .map(|one| json!({"name": one.name, "value": one.value, "at": one.at.to_string()}))
                .collect::<Vec<_>>(),
            "ignored": settings.passed_over.iter()
                .map(|(key, at)| json!({"key": key, "at": at.to_string()}))
                .collect::<Vec<_>>(),
        })),
    })
}
