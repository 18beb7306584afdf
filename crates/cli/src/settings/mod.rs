//! Settings of a project: `converge.toml` and environment variables, and which of them counts.
//!
//! The order is: command line, environment, file, `ansible.cfg`, default. [`Settings::complete`] fills in the arguments that the command line leaves open.

mod ansible_cfg;
mod complete;
mod environment;
mod file;
mod keys;
mod page;
mod schema;

pub use ansible_cfg::{ANSIBLE_FILE, ConnectionDefault};
pub use keys::{KEYS, Name, SettingKey, SettingValue};
pub use page::page;
pub use schema::schema;

use crate::failure::Failure;
use camino::{Utf8Path, Utf8PathBuf};
use converge_store::trust;
use converge_syntax::{Diagnostic, Diagnostics, Source, Span};
use std::collections::BTreeMap;
use std::io::Read;

/// The name of the file.
pub const FILE: &str = "converge.toml";
/// The variable that names a file, which then counts in whole, whoever may write it.
pub const FILE_VARIABLE: &str = "CONVERGE_SETTINGS";
/// A larger file is no settings file.
const MAX_BYTES: u64 = 1 << 20;

/// The place that a value comes from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// A line of the file.
    File(Span),
    /// An environment variable.
    Variable(String),
}

/// The settings that are in force.
#[derive(Debug, Default)]
pub struct Settings {
    /// The file, where there is one.
    pub file: Option<Utf8PathBuf>,
    values: BTreeMap<Name, (SettingValue, Origin)>,
    /// Settings of the file that do not count because others may write it, with their places.
    ignored: BTreeMap<Name, Span>,
    /// The `ansible.cfg`, where there is one that counts.
    pub ansible: Option<Utf8PathBuf>,
    /// Variables of connections that it sets, below all that an inventory sets.
    pub variables: Vec<ConnectionDefault>,
    /// Its keys about connections that mean nothing here.
    pub passed_over: Vec<(String, Span)>,
}

/// A file that was found: its path as messages show it, and whether it counts whoever may write it.
struct FoundFile {
    path: Utf8PathBuf,
    named: bool,
}

impl Settings {
    /// Reads the file and the environment. The second value holds warnings.
    ///
    /// # Errors
    /// A file that cannot be read, and all mistakes in it and in the environment.
    pub fn load() -> Result<(Self, Diagnostics), Failure> {
        let mut complaints = Diagnostics::new();
        let environment = complaints.take(environment::read(std::env::vars_os()));
        let (mut settings, mut warnings) = (Self::default(), Diagnostics::new());
        let file = find()?;
        if let Some(found) = find_ansible(file.as_ref().and_then(|found| found.path.parent())) {
            let (source, distrust) = open(&found, ansible_cfg::ANSIBLE_VARIABLE)?;
            match distrust {
                Some(distrust) => warnings.push(untrusted_ansible(&found, &distrust)),
                None => {
                    let folder = found.path.parent().unwrap_or(Utf8Path::new(""));
                    if let Some(all) = complaints.take(ansible_cfg::read(&source, folder)) {
                        settings.add_ansible(all, &found.path);
                    }
                }
            }
        }
        if let Some(found) = file {
            let (source, distrust) = open(&found, FILE_VARIABLE)?;
            let folder = found.path.parent().unwrap_or(Utf8Path::new(""));
            if let Some(written) = complaints.take(file::read(&source)) {
                warnings.extend(settings.add_file(written, folder, distrust.as_ref()));
            }
            settings.file = Some(found.path);
        }
        if complaints.has_errors() {
            return Err(complaints.into());
        }
        if let Some((variables, misspelt)) = environment {
            warnings.extend(misspelt);
            settings.add_environment(variables);
        }
        Ok((settings, warnings))
    }

    /// Takes what an `ansible.cfg` says, below all else.
    fn add_ansible(&mut self, all: ansible_cfg::AnsibleCfg, path: &Utf8Path) {
        let folder = path.parent().unwrap_or(Utf8Path::new(""));
        for one in all.settings {
            let value = one.value.below(key(one.name).form, folder);
            self.values.insert(one.name, (value, Origin::File(one.at)));
        }
        self.variables = all.variables;
        self.passed_over = all.ignored;
        self.ansible = Some(path.to_owned());
    }

    /// Takes the settings of a file in this folder; those that need trust only where there is no reason against it.
    fn add_file(
        &mut self,
        written: Vec<file::WrittenSetting>,
        folder: &Utf8Path,
        distrust: Option<&trust::Distrust>,
    ) -> Option<Diagnostic> {
        for one in written {
            let key = key(one.name);
            if distrust.is_some() && key.needs_trust {
                self.ignored.insert(one.name, one.at);
            } else {
                let value = one.value.below(key.form, folder);
                self.values.insert(one.name, (value, Origin::File(one.at)));
            }
        }
        let distrust = distrust.filter(|_| !self.ignored.is_empty())?;
        let names: Vec<String> = self.ignored.keys().map(|name| format!("`{}`", key(*name).key)).collect();
        let message = format!(
            "ignored: {}, because {}, and these settings decide which programs run and which files are written",
            names.join(", "),
            distrust.why
        );
        let file = self.ignored.values().next().map(|at| at.source.name().to_owned()).unwrap_or_default();
        let help = format!("{}; or, if you trust the file as it is: {FILE_VARIABLE}={file}", distrust.fix);
        let warning = Diagnostic::warning("untrusted-settings", message).help(help);
        Some(self.ignored.values().fold(warning, |warning, at| warning.at(at)))
    }

    /// Takes the settings of the environment, which come before those of a file.
    fn add_environment(&mut self, variables: Vec<(Name, SettingValue)>) {
        for (name, value) in variables {
            let key = key(name);
            let value = value.below(key.form, Utf8Path::new(""));
            self.values.insert(name, (value, Origin::Variable(key.variable())));
        }
    }

    /// The value of a setting and its origin.
    pub fn get(&self, name: Name) -> Option<&(SettingValue, Origin)> {
        self.values.get(&name)
    }

    /// A failure with the places of the settings that it names.
    pub fn placed(&self, failure: Failure) -> Failure {
        // A user may bear the name of something else.
        let files = self.values.iter().filter(|(name, _)| **name != Name::User);
        let places: Vec<(&str, &Span)> = files
            .filter_map(|(name, (value, origin))| match origin {
                Origin::File(at) => Some((*name, value, at)),
                Origin::Variable(_) => None,
            })
            .flat_map(|(name, value, at)| {
                let file = move |text| if name == Name::VaultIds { crate::vault::source(text) } else { text };
                value.texts().iter().map(move |text| (file(text.as_str()), at))
            })
            .collect();
        let quoted = |message: &str, text: &str| message.contains(&format!("`{text}`"));
        match failure {
            Failure::Input(mut found) => {
                for one in &mut found.0 {
                    // The name of a file that could not be read stands in place of a place.
                    let named = |text: &str| {
                        quoted(&one.message, text)
                            || one
                                .span()
                                .is_some_and(|at| at.source.text().is_empty() && at.source.name() == text)
                    };
                    let place = places.iter().find(|(text, _)| named(text));
                    one.labels.extend(place.map(|(_, at)| ((*at).clone(), "set here".to_owned())));
                }
                Failure::Input(found)
            }
            Failure::Message { code, message, help } => {
                let place = places.iter().find(|(text, _)| quoted(&message, text));
                let message = match place {
                    Some((_, at)) => format!("{message} (set at {at})"),
                    None => message,
                };
                Failure::Message { code, message, help }
            }
        }
    }

    /// The place at which the file has a setting that does not count.
    pub fn ignored(&self, name: Name) -> Option<&Span> {
        self.ignored.get(&name)
    }
}

/// The row of a setting.
fn key(name: Name) -> &'static SettingKey {
    KEYS.iter().find(|key| key.name == name).unwrap_or(&KEYS[0])
}

/// The file that the environment names; else the nearest `converge.toml` from the working folder upwards.
fn find() -> Result<Option<FoundFile>, Failure> {
    match std::env::var(FILE_VARIABLE) {
        Ok(named) if !named.is_empty() => return Ok(Some(FoundFile { path: named.into(), named: true })),
        _ => {}
    }
    // Of a folder that is gone, or whose name is not text, there is no project.
    let here = std::env::current_dir().ok().and_then(|dir| Utf8PathBuf::from_path_buf(dir).ok());
    let folders = here.iter().flat_map(|here| here.ancestors());
    Ok(folders.enumerate().find_map(|(up, folder)| {
        let there = fs_err::metadata(folder.join(FILE)).is_ok_and(|found| found.is_file());
        // As the user would type it.
        let path = || format!("{}{FILE}", "../".repeat(up)).into();
        there.then(|| FoundFile { path: path(), named: false })
    }))
}

/// The `ansible.cfg` that Ansible's variable names; else that of the working folder, or the one beside the settings of the project.
fn find_ansible(project: Option<&Utf8Path>) -> Option<FoundFile> {
    if let Some(path) = std::env::var(ansible_cfg::ANSIBLE_VARIABLE).ok().filter(|path| !path.is_empty()) {
        let path = converge_store::from_home(Utf8Path::new(&path));
        let path = if path.is_dir() { path.join(ANSIBLE_FILE) } else { path };
        return path.is_file().then_some(FoundFile { path, named: true });
    }
    let places = std::iter::once(Utf8Path::new("")).chain(project);
    let mut paths = places.map(|folder| folder.join(ANSIBLE_FILE));
    paths.find(|path| path.is_file()).map(|path| FoundFile { path, named: false })
}

/// Ansible passes such a file over too.
fn untrusted_ansible(found: &FoundFile, distrust: &trust::Distrust) -> Diagnostic {
    let message = format!("{} is ignored, because {}", found.path, distrust.why);
    let help = format!(
        "{}; or, if you trust the file as it is: {}={}",
        distrust.fix,
        ansible_cfg::ANSIBLE_VARIABLE,
        found.path
    );
    Diagnostic::warning("untrusted-settings", message).help(help)
}

/// The text of a file, and the reason not to trust it. What is compared and what is read are one open file.
fn open(
    found: &FoundFile,
    variable: &str,
) -> Result<(std::sync::Arc<Source>, Option<trust::Distrust>), Failure> {
    let path = &found.path;
    let wrong = |why: String| {
        let help = if found.named {
            format!("correct the variable {variable}, or unset it")
        } else {
            format!("make {path} a text file that you can read, or remove it")
        };
        Failure::usage(format!("the settings: {why}"), help)
    };
    let file = fs_err::File::open(path).map_err(|e| wrong(e.to_string()))?;
    let about = file.metadata().map_err(|e| wrong(e.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| wrong(e.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(wrong(format!("{path} is larger than 1 MiB")));
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong(format!("{path} is not UTF-8 text")))?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    let distrust = if found.named { None } else { trust::of_file(path, &about) };
    Ok((Source::new(path.as_str(), text), distrust))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: Name, text: &str) -> file::WrittenSetting {
        let source = Source::new("../converge.toml", "inventory = 1\n");
        let value = SettingValue::Texts(vec![text.to_owned()]);
        file::WrittenSetting { name, value, at: Span::new(source, 0, 9) }
    }

    fn shown(settings: &Settings, name: Name) -> String {
        settings.get(name).map(|(value, _)| value.shown()).unwrap_or_default()
    }

    #[test]
    fn paths_are_those_of_the_files_folder() {
        let mut settings = Settings::default();
        let all = [
            written(Name::Inventory, "inventories/a.yaml"),
            written(Name::Playbook, "/abs/p.yaml"),
            written(Name::User, "deploy"),
            written(Name::VaultIds, "prod@keys/prod"),
        ];
        assert!(settings.add_file(all.into(), "..".into(), None).is_none());
        assert_eq!(shown(&settings, Name::Inventory), "../inventories/a.yaml");
        assert_eq!(shown(&settings, Name::Playbook), "/abs/p.yaml");
        assert_eq!(shown(&settings, Name::User), "deploy");
        assert_eq!(shown(&settings, Name::VaultIds), "prod@../keys/prod");
        for (written_as, placed) in [
            ("key", "default@../key"),
            ("a@prompt", "a@prompt"),
            ("a@~/key", "a@~/key"),
            ("a@/key", "a@/key"),
        ] {
            let mut settings = Settings::default();
            settings.add_file(vec![written(Name::VaultIds, written_as)], "..".into(), None);
            assert_eq!(shown(&settings, Name::VaultIds), placed);
        }
        let mut hosts = Settings::default();
        hosts.add_file(vec![written(Name::Inventory, "h1,h2,")], "..".into(), None);
        assert_eq!(shown(&hosts, Name::Inventory), "h1,h2,");
    }

    #[test]
    fn the_environment_comes_before_the_file_and_is_of_the_working_folder() {
        let mut settings = Settings::default();
        settings.add_file(
            vec![written(Name::Playbook, "file.yaml"), written(Name::User, "file")],
            "..".into(),
            None,
        );
        settings.add_environment(vec![(Name::Playbook, SettingValue::Texts(vec!["env.yaml".to_owned()]))]);
        assert_eq!(shown(&settings, Name::Playbook), "env.yaml");
        assert_eq!(shown(&settings, Name::User), "file");
        assert!(
            matches!(settings.get(Name::Playbook), Some((_, Origin::Variable(name))) if name == "CONVERGE_PLAYBOOK")
        );
    }

    #[test]
    fn failures_name_the_place_of_the_setting() {
        let mut settings = Settings::default();
        settings.add_file(
            vec![
                written(Name::Inventory, "a.yaml"),
                written(Name::VaultIds, "x@k"),
                written(Name::User, "web"),
                written(Name::Playbook, "p@q.yaml"),
            ],
            "".into(),
            None,
        );
        let reported = |failure| match settings.placed(failure) {
            Failure::Input(found) => found.to_string(),
            Failure::Message { message, .. } => message,
        };
        let found = |message: &str| Failure::Input(Diagnostic::error("x", message).into());
        assert!(reported(found("there is no `a.yaml`")).ends_with("--> ../converge.toml:1:1: set here"));
        assert_eq!(reported(found("there is no `b.yaml`")), "error[x]: there is no `b.yaml`");
        let unread = Diagnostic::error("x", "cannot read").at(&Span::nowhere("a.yaml"));
        assert!(reported(Failure::Input(unread.into())).contains("../converge.toml:1:1: set here"));
        assert_eq!(reported(Failure::failed("no `k`")), "no `k` (set at ../converge.toml:1:1)");
        assert_eq!(reported(Failure::failed("no `x`")), "no `x`");
        assert_eq!(reported(Failure::failed("no role `web`")), "no role `web`");
        assert!(reported(Failure::failed("no `p@q.yaml`")).contains("set at"));
        let inside = Diagnostic::error("x", "wrong").at(&Span::new(Source::new("a.yaml", "all:"), 4, 4));
        assert!(!reported(Failure::Input(inside.into())).contains("set here"));
    }

    #[test]
    fn without_trust_only_harmless_settings_count() {
        let distrust =
            trust::Distrust { why: "others may write it".to_owned(), fix: "chmod o-w x".to_owned() };
        for key in &KEYS {
            let mut settings = Settings::default();
            let warning = settings.add_file(vec![written(key.name, "x")], "".into(), Some(&distrust));
            assert_eq!(settings.get(key.name).is_none(), key.needs_trust, "{}", key.key);
            assert_eq!(settings.ignored(key.name).is_some(), key.needs_trust);
            let text = warning.map(|warning| warning.to_string()).unwrap_or_default();
            assert_eq!(
                text.contains(&format!("ignored: `{}`, because others may write it", key.key)),
                key.needs_trust
            );
            assert_eq!(text.contains("CONVERGE_SETTINGS=../converge.toml"), key.needs_trust);
        }
        let harmless: Vec<&str> = KEYS.iter().filter(|key| !key.needs_trust).map(|key| key.key).collect();
        assert_eq!(harmless, ["forks", "user"]);
    }
}
