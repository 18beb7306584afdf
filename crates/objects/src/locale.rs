//! A locale of the C library. Its key is the name as `/usr/share/i18n/SUPPORTED` and `/etc/locale.gen` have it: `de_DE.UTF-8`.

use converge_resource::{DriftScript, DynNeeds, ErasedObject, Facets, Needs, Object, quote, state_of_words};

/// Whether programs find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocaleState {
    /// The C library does not have it (`absent`).
    Absent,
    /// It is generated (`generated`).
    Generated,
}

impl LocaleState {
    /// The word of this state.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Generated => "generated",
        }
    }

    fn words(self) -> Vec<String> {
        vec![self.word().to_owned()]
    }

    fn read(words: &[&str]) -> Option<Self> {
        [Self::Absent, Self::Generated].into_iter().find(|s| words == [s.word()])
    }
}

state_of_words!(LocaleState);

/// The name as the C library lists it: `de_DE.utf8`.
#[must_use]
pub fn listed_locale(name: &str) -> String {
    let Some((language, rest)) = name.split_once('.') else { return name.to_owned() };
    let (set, modifier) = rest.find('@').map_or((rest, ""), |at| rest.split_at(at));
    let set: String =
        set.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let iso = if set.bytes().all(|b| b.is_ascii_digit()) && !set.is_empty() { "iso" } else { "" };
    format!("{language}.{iso}{set}{modifier}")
}

/// The object.
pub struct Locale;

impl Object for Locale {
    const KIND: &'static str = "locale";
    const SHELL: &'static str = include_str!("locale.sh");
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    type State = LocaleState;

    fn title(key: &str, _: &LocaleState, to: &LocaleState) -> String {
        match to {
            LocaleState::Generated => format!("generate the locale {key}"),
            LocaleState::Absent => format!("remove the locale {key}"),
        }
    }

    fn facets(state: &LocaleState) -> Facets {
        match state {
            LocaleState::Absent => Vec::new(),
            LocaleState::Generated => vec![("locale", state.word().to_owned())],
        }
    }

    fn drifts(key: &str, state: &LocaleState) -> Vec<DriftScript> {
        match state {
            LocaleState::Absent => Vec::new(),
            LocaleState::Generated => {
                let listed = quote(&listed_locale(key));
                let script = format!("localedef --delete-from-archive {listed} || exit 3");
                vec![DriftScript::new("locale", "removed from the archive", script)]
            }
        }
    }
}

impl Needs for Locale {
    fn stands_on(_: &str, state: &LocaleState) -> Vec<String> {
        if *state == LocaleState::Generated { vec!["locale-gen".to_owned()] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, parse, shells};
    use converge_resource::State;

    const LOCALEDEF: &str = r#"#!/bin/sh
case $1 in
--list-archive) cat "$CV_LOCALE_ARCHIVE" ;;
--delete-from-archive)
  grep -qx "$2" "$CV_LOCALE_ARCHIVE" || exit 1
  grep -vx "$2" "$CV_LOCALE_ARCHIVE" >"$CV_LOCALE_ARCHIVE.new"
  mv "$CV_LOCALE_ARCHIVE.new" "$CV_LOCALE_ARCHIVE"
  ;;
*)
  echo "$*" >>"$CV_I18N/log"
  case $2 in broken) echo "broken: no source" >&2; exit 4 ;; esac
  case $6 in
  *.UTF-8) echo "${6%.UTF-8}.utf8" ;;
  de_DE@euro) printf '%s\n' de_DE.iso885915@euro de_DE@euro ;;
  esac >>"$CV_LOCALE_ARCHIVE"
  echo "a warning" >&2
  exit 1
  ;;
esac
"#;
    const LOCALE: &str =
        "#!/bin/sh\nprintf '%s\\n' C C.utf8 POSIX de_AT.utf8\ncat \"$CV_LOCALE_ARCHIVE\" 2>/dev/null || :\n";
    const SUPPORTED: &str = "de_DE.UTF-8 UTF-8\nde_DE@euro ISO-8859-15\nde_AT.UTF-8 UTF-8\nbroken UTF-8\n";

    #[test]
    fn a_locale_is_generated_and_removed_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        fake_tool(dir.path(), "locale", LOCALE);
        let tools = fake_tool(dir.path(), "localedef", LOCALEDEF);
        for shell in shells(dir.path()) {
            let i18n = tempfile::tempdir().unwrap();
            let (here, archive) = (i18n.path().display(), i18n.path().join("archive"));
            std::fs::create_dir(i18n.path().join("locales")).unwrap();
            std::fs::write(i18n.path().join("SUPPORTED"), SUPPORTED).unwrap();
            let with = |script: &str| {
                format!(
                    "PATH='{tools}':$PATH; export CV_I18N='{here}' CV_I18N_LOCAL='{here}/none' CV_LOCALE_ARCHIVE='{here}/archive'; {script}"
                )
            };
            let keys = ["C.UTF-8", "de_DE.UTF-8", "de_DE@euro"];
            let see = || {
                let answer = shell.good(dir.path(), &with("cv_see_locale \"$@\""), &keys, b"");
                let observed = parse::<Locale>(&keys, &answer);
                keys.map(|k| observed[k].clone().unwrap().state.line().to_owned())
            };
            assert_eq!(see(), ["generated", "absent", "absent"], "{}", shell.name);
            let go = |key: &str, to: LocaleState| {
                with(&Locale::steps(&[(key, LocaleState::Absent, to)])[0].script)
            };
            for key in ["de_DE.UTF-8", "de_DE@euro"] {
                shell.good(dir.path(), &go(key, LocaleState::Generated), &[], b"");
                shell.good(dir.path(), &go(key, LocaleState::Generated), &[], b"");
            }
            assert_eq!(see(), ["generated", "generated", "generated"], "{}", shell.name);
            let log = std::fs::read_to_string(i18n.path().join("log")).unwrap();
            assert_eq!(
                log, "-i de_DE -c -f UTF-8 de_DE.UTF-8\n-i de_DE@euro -c -f ISO-8859-15 de_DE@euro\n",
                "{}",
                shell.name
            );
            shell.good(dir.path(), &go("de_DE@euro", LocaleState::Absent), &[], b"");
            assert_eq!(std::fs::read_to_string(&archive).unwrap(), "de_DE.utf8\n", "{}", shell.name);
            shell.good(dir.path(), &with("cv_restore_locale de_DE.UTF-8 absent"), &[], b"");
            assert!(!archive.exists(), "{}: an empty archive stays", shell.name);
            for (key, to, why) in [
                ("xx_XX.UTF-8", LocaleState::Generated, "is not in"),
                ("broken", LocaleState::Generated, "no source"),
                ("de_AT.UTF-8", LocaleState::Absent, "remove the package"),
            ] {
                let output = shell.run(dir.path(), &go(key, to), &[], b"");
                assert!(!output.status.success(), "{}: {key}", shell.name);
                let reply = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(reply.contains(why), "{}: {key}: {reply}", shell.name);
            }
        }
    }

    #[test]
    fn names_are_spelled_alike_here_and_on_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let names =
            ["de_DE", "de_DE.UTF-8", "de_DE@euro", "de_DE.ISO-8859-15@euro", "ja_JP.eucJP", "x.8859-1"];
        let rust: Vec<String> = names.iter().map(|name| listed_locale(name)).collect();
        assert_eq!(rust[3], "de_DE.iso885915@euro");
        for shell in shells(dir.path()) {
            let host = shell.good(dir.path(), "printf '%s\\n' \"$@\" | cv_locale_listed", &names, b"");
            assert_eq!(host.lines().collect::<Vec<_>>(), rust, "{}", shell.name);
        }
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for state in [LocaleState::Absent, LocaleState::Generated] {
            assert_eq!(LocaleState::try_from(State::from(state)), Ok(state));
        }
        assert!(LocaleState::try_from(State::from_line("generated twice")).is_err());
    }
}
