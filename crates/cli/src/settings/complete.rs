//! Fills the arguments that a command line leaves open.

use super::{Name, SettingValue, Settings};
use crate::args::{
    CommandArgs, ConnectionArgs, FactsArgs, ReadArgs, SelectArgs, StateAction, StateMoveArgs, VaultAction,
    VaultArgs,
};
use crate::command::apply::is_plan_file;
use camino::{Utf8Path, Utf8PathBuf};

impl Settings {
    /// Whether settings mean anything to a command.
    pub fn concern(command: &CommandArgs) -> bool {
        !matches!(
            command,
            CommandArgs::Init(_)
                | CommandArgs::Import(_)
                | CommandArgs::Schema(_)
                | CommandArgs::Man(_)
                | CommandArgs::Completions(_)
                | CommandArgs::Complete(_)
                | CommandArgs::Docs(_)
        )
    }

    /// Fills the arguments that the command line leaves open.
    pub fn complete(&self, command: &mut CommandArgs) {
        match command {
            CommandArgs::Apply(a) => {
                // A saved plan holds its own choice of all but these.
                if !a.target.as_deref().is_some_and(is_plan_file) {
                    self.select(a.target.is_some(), &mut a.select);
                }
                self.connection(&mut a.connection);
                a.reports = self.path(Name::Reports);
            }
            CommandArgs::Plan(a) => {
                self.select(a.target.is_some(), &mut a.select);
                self.connection(&mut a.connection);
            }
            CommandArgs::Drift(a) => {
                self.select(a.target.is_some(), &mut a.select);
                self.connection(&mut a.connection);
            }
            CommandArgs::Rollback(a) => {
                self.inventory(a.target.is_some(), &mut a.inventories);
                self.playbook(&mut a.playbook);
                self.roles_path(&mut a.roles_path);
                self.vault(&mut a.vault);
                self.connection(&mut a.connection);
                a.reports = self.path(Name::Reports);
            }
            CommandArgs::Snapshots(a) | CommandArgs::Verify(a) => {
                self.select(a.target.is_some(), &mut a.select);
                self.connection(&mut a.connection);
            }
            CommandArgs::State(a) => {
                match &mut a.action {
                    StateAction::Adopt(a) => self.take_resource(&mut a.reading, &mut a.resources),
                    StateAction::Forget(a) => self.take_resource(&mut a.read.reading, &mut a.resources),
                    StateAction::Move(args) => self.take_old_name(args),
                    StateAction::List(_) | StateAction::Show(_) | StateAction::Diff(_) => {}
                }
                let a = a.action.reading();
                self.select(a.target.is_some(), &mut a.select);
                self.connection(&mut a.connection);
            }
            CommandArgs::Doctor(a) => {
                self.inventory(a.target.is_some(), &mut a.hosts.inventories);
                self.vault(&mut a.hosts.vault);
                self.connection(&mut a.hosts.connection);
            }
            CommandArgs::Facts(a) => {
                self.inventory(a.target.is_some() && !names_a_fact(a), &mut a.hosts.inventories);
                self.vault(&mut a.hosts.vault);
                self.connection(&mut a.hosts.connection);
            }
            CommandArgs::Run(a) => {
                self.inventory(false, &mut a.inventories);
                self.vault(&mut a.vault);
                self.connection(&mut a.connection);
            }
            // Disposable hosts are the default there, and no setting makes them hosts that somebody has.
            CommandArgs::Test(a) => self.vault(&mut a.vault),
            CommandArgs::Inventory(a) => {
                self.inventory(a.target.is_some(), &mut a.inventories);
                self.vault(&mut a.vault);
            }
            CommandArgs::Vars(a) => self.select(false, &mut a.select),
            CommandArgs::Validate(a) => self.select(a.target.is_some(), &mut a.select),
            CommandArgs::Graph(a) => self.select(a.target.is_some(), &mut a.select),
            CommandArgs::Explain(a) => {
                self.select(a.target.is_some(), &mut a.select);
                // From a folder below the project its roles are named too.
                let folder = self.file.as_deref().and_then(Utf8Path::parent).filter(|dir| dir.as_str() != "");
                a.select.roles_path.extend(folder.map(|dir| dir.join("roles")).filter(|dir| dir.is_dir()));
            }
            CommandArgs::Vault(a) => match &mut a.action {
                VaultAction::Encrypt(a) => self.vault(&mut a.vault),
                VaultAction::EncryptString(a) => self.vault(&mut a.vault),
                VaultAction::Decrypt(a) | VaultAction::View(a) => self.vault(&mut a.vault),
                VaultAction::Edit(a) => self.vault(&mut a.vault),
                VaultAction::Rekey(a) => self.vault(&mut a.vault),
            },
            CommandArgs::Settings(_)
            | CommandArgs::Init(_)
            | CommandArgs::Import(_)
            | CommandArgs::Schema(_)
            | CommandArgs::Man(_)
            | CommandArgs::Completions(_)
            | CommandArgs::Complete(_)
            | CommandArgs::Docs(_) => {}
        }
    }

    /// The first word of `state forget` and `state adopt` is a resource where the inventory is known without it.
    fn take_resource(&self, reading: &mut ReadArgs, resources: &mut Vec<String>) {
        let is_known = !reading.select.inventories.is_empty() || self.get(Name::Inventory).is_some();
        if let Some(word) = reading.target.take_if(|word| is_known && names_a_resource(word)) {
            resources.insert(0, word);
        }
    }

    /// The first of two words of `state move` is a name where the inventory is known without it.
    fn take_old_name(&self, args: &mut StateMoveArgs) {
        let is_known = !args.reading.select.inventories.is_empty() || self.get(Name::Inventory).is_some();
        let is_name = is_known && args.names.len() == 1;
        if let Some(word) = args.reading.target.take_if(|_| is_name) {
            args.names.insert(0, word);
        }
    }

    fn texts(&self, name: Name) -> Vec<String> {
        self.get(name).map(|(value, _)| value.texts().to_vec()).unwrap_or_default()
    }

    fn path(&self, name: Name) -> Option<Utf8PathBuf> {
        self.get(name).and_then(|(value, _)| value.paths().into_iter().next())
    }

    fn select(&self, target: bool, select: &mut SelectArgs) {
        self.inventory(target, &mut select.inventories);
        self.playbook(&mut select.playbook);
        self.roles_path(&mut select.roles_path);
        self.vault(&mut select.vault);
    }

    /// One inventory on the command line takes the place of all.
    fn inventory(&self, target: bool, inventories: &mut Vec<String>) {
        if !target && inventories.is_empty() {
            *inventories = self.texts(Name::Inventory);
        }
    }

    fn playbook(&self, playbook: &mut Option<Utf8PathBuf>) {
        if playbook.is_none() {
            *playbook = self.path(Name::Playbook);
        }
    }

    fn roles_path(&self, dirs: &mut Vec<Utf8PathBuf>) {
        if dirs.is_empty() {
            *dirs = self.get(Name::RolesPath).map(|(value, _)| value.paths()).unwrap_or_default();
        }
    }

    /// One option for passwords takes the place of the setting.
    fn vault(&self, vault: &mut VaultArgs) {
        if *vault == VaultArgs::default() {
            vault.ids = self.texts(Name::VaultIds);
        }
    }

    fn connection(&self, connection: &mut ConnectionArgs) {
        if let (None, Some((SettingValue::Forks(number), _))) = (connection.forks, self.get(Name::Forks)) {
            connection.forks = Some(*number);
        }
        connection.defaults =
            self.variables.iter().map(|one| (one.name.to_owned(), one.value.clone())).collect();
        if connection.user.is_none() {
            connection.user = self.texts(Name::User).into_iter().next();
        }
    }
}

/// `converge facts os.id`: the one word is a fact, not an inventory.
fn names_a_fact(args: &FactsArgs) -> bool {
    let is_inventory = |word: &str| word.contains('/') || looks_like_an_inventory(word);
    args.name.is_none() && args.target.as_deref().is_some_and(|word| !is_inventory(word))
}

/// `converge state forget web/page`, or `path:/etc/motd`: the word is a resource or an object, not an inventory.
fn names_a_resource(word: &str) -> bool {
    let is_kind = |kind: &str| kind.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    let is_object = word.split_once(':').is_some_and(|(kind, _)| is_kind(kind));
    is_object || (word.contains('/') && !looks_like_an_inventory(word))
}

fn looks_like_an_inventory(word: &str) -> bool {
    let ending = Utf8Path::new(word).extension();
    word.contains(',')
        || matches!(ending, Some("yaml" | "yml" | "ini" | "json"))
        || Utf8Path::new(word).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, definition};
    use clap::FromArgMatches;

    fn settings() -> Settings {
        let mut settings = Settings::default();
        let texts = |all: &[&str]| SettingValue::Texts(all.iter().map(|text| (*text).to_owned()).collect());
        settings.add_environment(vec![
            (Name::Inventory, texts(&["set.yaml", "more.yaml"])),
            (Name::Playbook, texts(&["set-playbook.yaml"])),
            (Name::RolesPath, texts(&["set-roles"])),
            (Name::VaultIds, texts(&["set@key"])),
            (Name::Forks, SettingValue::Forks(7)),
            (Name::User, texts(&["set-user"])),
            (Name::Reports, texts(&["set-reports"])),
        ]);
        settings
    }

    /// The arguments of a command line with all settings there are, as text.
    fn completed(line: &str) -> String {
        let matches = definition().try_get_matches_from(line.split(' ')).unwrap();
        let mut command = Cli::from_arg_matches(&matches).unwrap().command;
        assert!(Settings::concern(&command), "{line}");
        settings().complete(&mut command);
        format!("{command:?}")
    }

    #[test]
    fn every_command_takes_the_settings_that_it_has_options_for() {
        const INVENTORY: &str = r#"["set.yaml", "more.yaml"]"#;
        const PROJECT: [&str; 4] = [INVENTORY, "set-playbook.yaml", "set-roles", "set@key"];
        const HOSTS: [&str; 2] = [r#"forks: Some(7)"#, "set-user"];
        let all = [&PROJECT[..], &HOSTS[..]].concat();
        let run = [&all[..], &["set-reports"][..]].concat();
        let hosts = [&[INVENTORY, "set@key"][..], &HOSTS[..]].concat();
        for (line, has) in [
            ("converge apply", &run[..]),
            ("converge plan", &all),
            ("converge drift", &all),
            ("converge rollback", &run),
            ("converge snapshots", &all),
            ("converge state list", &all),
            ("converge state forget web/page", &all),
            ("converge state forget path:/etc/motd.ini web/page", &all),
            ("converge state move web nginx", &all),
            ("converge state adopt web/page", &all),
            ("converge verify", &all),
            ("converge doctor", &hosts),
            ("converge facts", &hosts),
            ("converge facts os.id", &hosts),
            ("converge run all -- true", &hosts),
            ("converge inventory --list", &[INVENTORY, "set@key"]),
            ("converge vars web1", &PROJECT),
            ("converge validate", &PROJECT),
            ("converge graph", &PROJECT),
            ("converge explain web/page", &PROJECT),
            ("converge vault view x", &["set@key"]),
            ("converge test --all", &["set@key"]),
        ] {
            let made = completed(line);
            for text in has {
                assert!(made.contains(text), "{line}: no {text} in {made}");
            }
            let count = made.matches("set-").count() + made.matches("set.yaml").count();
            let wanted = has.iter().filter(|text| text.contains("set-") || **text == INVENTORY).count();
            assert_eq!(count, wanted, "{line}: {made}");
        }
        assert!(!completed("converge test --all").contains("set.yaml"), "a test takes no hosts unasked");
    }

    #[test]
    fn the_command_line_comes_first() {
        for line in [
            "converge plan own.yaml",
            "converge plan -i own.yaml",
            "converge facts own.yaml",
            "converge facts h1, os.id",
            "converge state forget own.yaml web/page",
        ] {
            assert!(!completed(line).contains("set.yaml"), "{line}");
        }
        let made = completed("converge plan --playbook own --roles-path own -f 3 -u own --vault-id own@x");
        for text in ["set-playbook", "set-roles", "Some(7)", "set-user", "set@key"] {
            assert!(!made.contains(text), "{text} in {made}");
        }
        assert!(made.contains("set.yaml") && made.contains("forks: Some(3)"));
        assert!(!completed("converge plan -J").contains("set@key"), "one option for passwords is all");
    }

    #[test]
    fn some_commands_need_no_settings() {
        for line in ["converge init", "converge schema", "converge man x", "converge completions bash"] {
            let matches = definition().try_get_matches_from(line.split(' ')).unwrap();
            let command = Cli::from_arg_matches(&matches).unwrap().command;
            assert!(!Settings::concern(&command), "{line}: a mistake in converge.toml must not stop it");
        }
    }
}
