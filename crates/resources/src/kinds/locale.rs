//! `locale`

use crate::attrs::Attrs;
use crate::edit::Edit;
use crate::lines::{Insert, LineEdit};
use crate::look::{Asks, path, path_id, state};
use crate::names::Names;
use crate::presence::Presence;
use converge_objects::{LocaleState, PathState, listed_locale};
use converge_resource::{Claim, ObjectId, ParamError, Resource, Stop, View, WantedStates};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Locales: generated, and the default of logins and services.
///
/// A locale is generated as `locale-gen` does it, and has its line in `/etc/locale.gen`, so that upgrades of the C library generate it again. Other locales and lines are left alone.
/// The names are those of `/usr/share/i18n/SUPPORTED`, of the package `locales`: install that in a resource before this one. `state: absent` removes the locales and comments their lines out.
/// Where there is no such list (RHEL and its relatives), locales come with packages such as `glibc-langpack-de`: a name that the host has already is unchanged, another one is refused.
///
/// The default is kept in `/etc/default/locale`; in `/etc/locale.conf` where the first is a link to it (Debian 13), or only it exists. Other variables and lines of the file are left alone. Sessions and
/// services that run keep their locale: name this resource in the `restart_on` of a `service`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Locale {
    /// The locales that are generated, or removed: one name or a list.
    #[serde(default)]
    names: Names,
    /// Whether the locales of `names` are there.
    #[serde(default)]
    state: Presence,
    /// The default locale, `LANG`. One of `names`, or one that the host has: `C.UTF-8` always is.
    default: Option<String>,
    /// Locales of single categories: `LC_TIME: de_DE.UTF-8`.
    #[serde(default)]
    categories: BTreeMap<String, String>,
}

const SUPPORTED: &str = "/usr/share/i18n/SUPPORTED";
const SUPPORTED_HERE: &str = "/usr/local/share/i18n/SUPPORTED";
const GENERATED: &str = "/etc/locale.gen";
const DEBIAN: &str = "/etc/default/locale";
const CONF: &str = "/etc/locale.conf";
const LANG: &str = "LANG";

/// The categories of locale(7).
const CATEGORIES: &[&str] = &[
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
];

fn id(name: &str) -> ObjectId {
    ObjectId::new("locale", name)
}

/// Locales that are a part of the C library.
fn is_built_in(name: &str) -> bool {
    ["C", "POSIX", "C.utf8"].contains(&listed_locale(name).as_str())
}

/// The edit of a file whose owner and mode stay.
fn edit<'a>(file: &'a str, create: bool, removes: bool, culprit: &'a str) -> Edit<'a> {
    Edit { path: file, create, removes, attrs: Attrs { mode: None, owner: None, group: None }, culprit }
}

fn regex(pattern: &str) -> Result<Regex, Stop> {
    Regex::new(pattern).map_err(|e| Stop::Failed(e.to_string()))
}

/// The text of a file, if it is one.
fn text_of(view: &dyn View, file: &str) -> Result<Option<String>, Stop> {
    match path(view, file)? {
        PathState::File { digest, .. } => Ok(view.content(file, &digest)?.text().map(str::to_owned)),
        _ => Ok(None),
    }
}

/// The character sets of the locales that the host can generate, by their names.
fn charsets(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, set)| (name, set.trim())).collect()
}

/// A text in which a variable has this value. One in quotes is as good.
fn assigned(text: &str, variable: &str, value: &str) -> Result<String, Stop> {
    let pattern = regex(&format!(r"^\s*{variable}\s*="))?;
    let now = text.lines().rfind(|line| pattern.is_match(line)).and_then(|line| line.split_once('='));
    if now.is_some_and(|(_, now)| now.trim().trim_matches(['"', '\'']) == value) {
        return Ok(text.to_owned());
    }
    let line = format!("{variable}={value}");
    Ok(put(text, &line, &pattern))
}

/// A text with this line in place of the last one that matches, or at its end.
fn put(text: &str, line: &str, pattern: &Regex) -> String {
    let wish =
        LineEdit { line, regexp: Some(pattern), insert: Insert::End, backrefs: false, first_match: false };
    wish.present(text)
}

impl Locale {
    fn present(&self) -> bool {
        self.state == Presence::Present
    }

    /// The wanted state of the locales.
    fn wanted(&self) -> LocaleState {
        if self.present() { LocaleState::Generated } else { LocaleState::Absent }
    }

    /// The variables of the default with their values, and the parameter of each.
    fn variables(&self) -> impl Iterator<Item = (&str, &str, String)> {
        let default = self.default.as_deref().map(|value| (LANG, value, "/default".to_owned()));
        let category = |(name, value)| {
            let (name, value): (&String, &String) = (name, value);
            (name.as_str(), value.as_str(), format!("/categories/{name}"))
        };
        default.into_iter().chain(self.categories.iter().map(category))
    }

    /// Locales that the host does not have now are those that it can generate.
    fn known(&self, view: &dyn View, supported: &BTreeMap<&str, &str>) -> Result<(), Stop> {
        let mut asks = Asks::default();
        for name in self.names.0.iter().filter(|name| !supported.contains_key(name.as_str())) {
            let Some(now) = asks.take(state::<LocaleState>(view, &id(name)))? else { continue };
            if now == self.wanted() || !self.present() {
                continue;
            }
            let may_come =
                [SUPPORTED, SUPPORTED_HERE].iter().find_map(|list| view.may_appear(&path_id(list)));
            if let Some(wait) = may_come.or_else(|| view.may_appear(&id(name))) {
                return Err(Stop::Deferred(wait));
            }
            let alike = supported.keys().find(|other| listed_locale(other) == listed_locale(name));
            let help = match alike {
                Some(other) => format!("write it as `{other}`"),
                None if supported.is_empty() => {
                    "install the package `locales` in a resource before this one (on RHEL the package `glibc-langpack-` with the language)".to_owned()
                }
                None => format!("correct the name: {SUPPORTED} lists all"),
            };
            return Err(Stop::invalid_help("/names", format!("this host knows no locale {name}"), help));
        }
        asks.finish()
    }

    /// The list of the locales that are generated, as it is to be. A link is that of Debian's choice "all locales".
    fn list(&self, view: &dyn View, supported: &BTreeMap<&str, &str>) -> Result<WantedStates, Stop> {
        match path(view, GENERATED)? {
            PathState::Link { target, .. } if self.present() && target == SUPPORTED => {
                return Ok(WantedStates::default());
            }
            PathState::Absent if supported.is_empty() && view.may_appear(&path_id(GENERATED)).is_none() => {
                return Ok(WantedStates::default());
            }
            PathState::Link { target, .. } => {
                return Err(Stop::invalid_help(
                    "/names",
                    format!("{GENERATED} is a link to {target}"),
                    "put a file in its place with a `file` resource before this one",
                ));
            }
            _ => {}
        }
        edit(GENERATED, true, !self.present(), "/names").plan(view, &|text| {
            self.names.0.iter().try_fold(text.to_owned(), |text, name| {
                let set = supported.get(name.as_str()).copied();
                let plain = regex::escape(name);
                let Some(set) = set.filter(|_| self.present()) else {
                    let active = regex(&format!(r"(?m)^[ \t]*({plain}[ \t].*)$"))?;
                    let text =
                        if self.present() { text } else { active.replace_all(&text, "# $1").into_owned() };
                    return Ok(text);
                };
                let line = format!("{name} {set}");
                let active = regex(&format!(r"(?m)^[ \t]*{plain}[ \t]+{}[ \t]*\r?$", regex::escape(set)))?;
                if active.is_match(&text) {
                    return Ok(text);
                }
                let pattern = regex(&format!(r"^[# \t]*{plain}[ \t]+{}[ \t]*$", regex::escape(set)))?;
                Ok(put(&text, &line, &pattern))
            })
        })
    }

    /// Each locale of the default is there when the turn of the resource comes.
    fn usable(&self, view: &dyn View) -> Result<(), Stop> {
        let mut asks = Asks::default();
        for (_, value, pointer) in self.variables() {
            if is_built_in(value) || (self.present() && self.names.0.iter().any(|name| name == value)) {
                continue;
            }
            match asks.take(state::<LocaleState>(view, &id(value)))? {
                None | Some(LocaleState::Generated) => {}
                Some(LocaleState::Absent) => {
                    return Err(view.may_appear(&id(value)).map_or_else(
                        || {
                            Stop::invalid_help(
                                &pointer,
                                format!("this host does not have the locale {value}"),
                                "add it to `names`, so that it is generated",
                            )
                        },
                        Stop::Deferred,
                    ));
                }
            }
        }
        asks.finish()
    }

    /// The file of the default, as it is to be.
    fn settings(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let file = match path(view, DEBIAN)? {
            PathState::Link { target, .. } if target.ends_with("/locale.conf") => CONF,
            PathState::Absent if matches!(path(view, CONF)?, PathState::File { .. }) => CONF,
            _ => DEBIAN,
        };
        edit(file, true, false, "/default").plan(view, &|text| {
            self.variables()
                .try_fold(text.to_owned(), |text, (variable, value, _)| assigned(&text, variable, value))
        })
    }
}

impl Resource for Locale {
    const KIND: &'static str = "locale";
    const EXAMPLE: &'static str = "\
- name: the locales of the site
  locale:
    names: [en_US.UTF-8, de_DE.UTF-8]
    default: en_US.UTF-8
    categories: {LC_TIME: de_DE.UTF-8}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        let mut wrong = |p: &str, m: String, h: &str| errors.push(ParamError::new(p, m, h));
        let is_name = |name: &str| {
            name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.@-".contains(&b))
        };
        let example = "write it as `de_DE.UTF-8`";
        for (at, name) in self.names.0.iter().enumerate() {
            if !is_name(name) {
                wrong(&format!("/names/{at}"), format!("`{name}` is not the name of a locale"), example);
            } else if is_built_in(name) && !self.present() {
                let message = format!("{name} is a part of the C library and cannot be removed");
                wrong(&format!("/names/{at}"), message, "leave it out");
            }
        }
        for (_, value, pointer) in self.variables().filter(|(_, value, _)| !is_name(value)) {
            wrong(&pointer, format!("`{value}` is not the name of a locale"), example);
        }
        for (name, _) in self.categories.iter().filter(|(name, _)| !CATEGORIES.contains(&name.as_str())) {
            let help = "write one of those in locale(7), as `LC_TIME`; `LANG` is `default`";
            wrong(&format!("/categories/{name}"), format!("`{name}` is not a category of locales"), help);
        }
        let is_default = self.variables().next().is_some();
        if self.names.0.is_empty() && !is_default {
            wrong("", "nothing is said about locales".to_owned(), "add `names` or `default`");
        }
        if !self.present() && is_default {
            let message = "removed locales and a default are two resources".to_owned();
            wrong("/state", message, "write a `locale` resource for each");
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        if !self.names.0.is_empty() {
            claims.push(Claim::edit(path_id(GENERATED), "content"));
        }
        claims.extend(self.names.0.iter().map(|n| Claim::shared(id(n), "locale", self.wanted().word())));
        if self.variables().next().is_some() {
            claims.extend([DEBIAN, CONF].map(|file| Claim::edit(path_id(file), "content")));
        }
        let facets = CATEGORIES.iter().chain([&LANG]);
        claims.extend(facets.filter_map(|facet| {
            let (_, value, _) = self.variables().find(|(name, _, _)| name == facet)?;
            Some(Claim::shared(path_id(DEBIAN), facet, value))
        }));
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let mut asks = Asks::default();
        let texts = [SUPPORTED, SUPPORTED_HERE].map(|list| asks.take(text_of(view, list)));
        let mut text = String::new();
        for part in texts {
            text.push_str(&part?.flatten().unwrap_or_default());
            text.push('\n');
        }
        let settings = if self.variables().next().is_some() { asks.take(self.settings(view))? } else { None };
        asks.finish()?;
        let mut asks = Asks::default();
        let supported = charsets(&text);
        let mut wanted = WantedStates::default();
        if !self.names.0.is_empty() {
            asks.take(self.known(view, &supported))?;
            let list = asks.take(self.list(view, &supported))?;
            for name in &self.names.0 {
                asks.take(state::<LocaleState>(view, &id(name)))?;
            }
            wanted = list.unwrap_or_default();
        }
        asks.take(self.usable(view))?;
        asks.finish()?;
        wanted.targets.extend(self.names.0.iter().map(|name| (id(name), self.wanted().into())));
        let settings = settings.unwrap_or_default();
        wanted.targets.extend(settings.targets);
        wanted.contents.extend(settings.contents);
        Ok(wanted)
    }

    fn basis(&self) -> Option<String> {
        Some(serde_json::json!([self.names.0, self.present(), self.default, self.categories]).to_string())
    }
}

#[cfg(test)]
#[path = "locale_tests.rs"]
mod tests;
