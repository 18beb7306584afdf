//! A package of dpkg and apt. Its key is the package's name, with `:ARCH` only for a foreign architecture.

use converge_resource::{
    AnswerError, Disruption, Facets, MayBring, Object, Reversibility, Spoil, State, Step, quote,
    state_of_words,
};

/// The state of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackageState {
    /// Not installed, nothing left of it (`absent`).
    Absent,
    /// Removed, its configuration files are still there (`config VERSION`).
    Config {
        /// The version that was removed.
        version: String,
    },
    /// Installed (`present VERSION auto|manual hold|-`).
    Present {
        /// The exact version, as dpkg prints it.
        version: String,
        /// Installed as a dependency: `apt-get autoremove` may take it.
        auto: bool,
        /// Held at its version.
        hold: bool,
    },
    /// Half installed or half configured (`broken STATUS`): an interrupted dpkg. Never mended in silence.
    Broken {
        /// As dpkg names it: `half-configured`.
        status: String,
    },
}

impl PackageState {
    fn words(&self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Absent => &["absent"],
            Self::Config { version } => &["config", version],
            Self::Present { version, auto, hold } => {
                let mark = if *auto { "auto" } else { "manual" };
                &["present", version, mark, if *hold { "hold" } else { "-" }]
            }
            Self::Broken { status } => &["broken", status],
        };
        words.iter().map(|w| (*w).to_owned()).collect()
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["config", version] => Some(Self::Config { version: (*version).to_owned() }),
            ["present", version, mark @ ("auto" | "manual"), hold @ ("hold" | "-")] => Some(Self::Present {
                version: (*version).to_owned(),
                auto: *mark == "auto",
                hold: *hold == "hold",
            }),
            ["broken", status] => Some(Self::Broken { status: (*status).to_owned() }),
            _ => None,
        }
    }
}

state_of_words!(PackageState);

/// The object.
pub struct Package;

impl Object for Package {
    const KIND: &'static str = "package";
    const SHELL: &'static str = include_str!("package.sh");
    const OFFERS: &'static [&'static str] = &["path", "unit", "user", "group", "sysctl"];
    type State = PackageState;

    fn title(key: &str, from: &PackageState, to: &PackageState) -> String {
        title(&[(key, from.clone(), to.clone())])
    }

    /// One apt transaction for all.
    fn steps(changes: &[(&str, PackageState, PackageState)]) -> Vec<Step> {
        if changes.is_empty() {
            return Vec::new();
        }
        let mut script = "cv_apply_packages".to_owned();
        for (key, _, to) in changes {
            let line = State::from(to.clone());
            script.push_str(&format!(" {} {}", quote(key), quote(line.line())));
        }
        vec![Step::new(title(changes), script).within(1800)]
    }

    /// A version that is replaced or removed is fetched and kept beforehand; where it cannot be had the change is
    /// refused on the host unless the item sets `CV_IRREVERSIBLE=yes` (see `cv_offered_package`).
    fn reversibility(_: &str, from: &PackageState, to: &PackageState) -> Reversibility {
        match (from, to) {
            (PackageState::Config { .. }, PackageState::Absent) => Reversibility::Irreversible(
                "the configuration files that a removed package left are not kept".to_owned(),
            ),
            (PackageState::Broken { status }, _) => {
                Reversibility::Irreversible(format!("the state before is {status}"))
            }
            _ => Reversibility::Reversible,
        }
    }

    fn opaque(from: &PackageState, to: &PackageState) -> bool {
        // Marks are no one's code.
        !matches!(
            (from, to),
            (PackageState::Present { version: a, .. }, PackageState::Present { version: b, .. }) if a == b
        )
    }

    /// Programs that run lose the files that they were started from. A new package disturbs nobody.
    fn disruption(from: &PackageState, to: Option<&PackageState>) -> Disruption {
        let replaced = match (from, to) {
            (PackageState::Present { version: a, .. }, Some(PackageState::Present { version: b, .. })) => {
                a != b
            }
            (PackageState::Present { .. }, _) => true,
            _ => false,
        };
        if replaced { Disruption::Restarts } else { Disruption::None }
    }

    fn may_bring(_: &PackageState, to: &PackageState) -> Option<MayBring> {
        matches!(to, PackageState::Present { .. })
            .then_some(MayBring { verb: "installing", kinds: Self::OFFERS })
    }

    fn facets(state: &PackageState) -> Facets {
        match state {
            PackageState::Absent => Vec::new(),
            PackageState::Config { version } => {
                vec![("status", "configuration only".to_owned()), ("version", version.clone())]
            }
            PackageState::Present { version, auto, hold } => vec![
                ("status", "installed".to_owned()),
                ("version", version.clone()),
                ("mark", if *auto { "auto" } else { "manual" }.to_owned()),
                ("hold", if *hold { "held" } else { "no" }.to_owned()),
            ],
            PackageState::Broken { status } => vec![("status", status.clone())],
        }
    }

    fn spoils(key: &str, state: &PackageState) -> Vec<Spoil> {
        let PackageState::Present { hold, .. } = state else { return Vec::new() };
        let package = quote(key);
        let mark = if *hold { "unhold" } else { "hold" };
        vec![
            Spoil::new("hold", mark, format!("apt-mark -q {mark} -- {package} >/dev/null")),
            // It goes alone: where others need it, it stays.
            Spoil::new(
                "presence",
                "removed",
                format!("dpkg --remove -- {package} >/dev/null 2>&1 || exit 3"),
            ),
        ]
    }
}

fn title(changes: &[(&str, PackageState, PackageState)]) -> String {
    let names = |wanted: bool| {
        changes
            .iter()
            .filter(|(_, _, to)| matches!(to, PackageState::Present { .. }) == wanted)
            .map(|(key, ..)| *key)
            .collect::<Vec<_>>()
            .join(" ")
    };
    match (names(true), names(false)) {
        (install, remove) if remove.is_empty() => format!("install {install}"),
        (install, remove) if install.is_empty() => format!("remove {remove}"),
        (install, remove) => format!("install {install}, remove {remove}"),
    }
}

/// One line of `cv_simulate_package`: what apt would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AptAction {
    /// Install or change to this version.
    Install {
        /// The package's key.
        name: String,
        /// The exact version.
        version: String,
    },
    /// Remove.
    Remove {
        /// The package's key.
        name: String,
    },
    /// Configure a package that is unpacked already, or that this transaction unpacks.
    Configure {
        /// The package's key.
        name: String,
    },
}

/// Reads the output of the shell function `cv_simulate_package ARGUMENTS…` (arguments as for `apt-get`:
/// `install curl=8.1-1 nano-`).
///
/// # Errors
/// A line of another form.
pub fn parse_simulation(output: &str) -> Result<Vec<AptAction>, AnswerError> {
    output
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["inst", name, version] => {
                Ok(AptAction::Install { name: (*name).to_owned(), version: (*version).to_owned() })
            }
            ["remv", name] => Ok(AptAction::Remove { name: (*name).to_owned() }),
            ["conf", name] => Ok(AptAction::Configure { name: (*name).to_owned() }),
            _ => Err(AnswerError(format!("apt's simulation is not understood: {line}"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::shells;
    use std::os::unix::fs::PermissionsExt;

    fn present(version: &str, auto: bool, hold: bool) -> PackageState {
        PackageState::Present { version: version.to_owned(), auto, hold }
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        let broken = PackageState::Broken { status: "half-configured".to_owned() };
        let config = PackageState::Config { version: "1:2~rc-1".to_owned() };
        for (state, line) in [
            (PackageState::Absent, "absent"),
            (config, "config 1:2~rc-1"),
            (present("1.2+b1", true, true), "present 1.2+b1 auto hold"),
            (present("1", false, false), "present 1 manual -"),
            (broken, "broken half-configured"),
        ] {
            assert_eq!(State::from(state.clone()).line(), line);
            assert_eq!(PackageState::try_from(State::from_line(line)), Ok(state));
        }
        assert!(PackageState::try_from(State::from_line("present 1 manual")).is_err());
        assert!(PackageState::try_from(State::from_line("present 1 manual no")).is_err());
    }

    #[test]
    fn all_packages_of_an_item_are_one_transaction() {
        let steps = Package::steps(&[
            ("curl", PackageState::Absent, present("8-1", false, false)),
            ("libcurl4:i386", PackageState::Absent, present("8-1", true, false)),
            ("wget", present("1", false, false), PackageState::Absent),
        ]);
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].title, "install curl libcurl4:i386, remove wget");
        let words = "curl 'present 8-1 manual -' libcurl4:i386 'present 8-1 auto -' wget absent";
        assert_eq!(steps[0].script, format!("cv_apply_packages {words}"));
        assert_eq!(Package::steps(&[]), []);
    }

    #[test]
    fn marks_are_no_foreign_code_and_versions_are() {
        assert!(!Package::opaque(&present("1", true, false), &present("1", false, true)));
        assert!(Package::opaque(&present("1", false, false), &present("2", false, false)));
        assert!(Package::opaque(&present("1", false, false), &PackageState::Absent));
        let shown = Package::attributes(&present("1", true, false), &present("1", false, false));
        assert_eq!(shown.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["mark"]);
    }

    #[test]
    fn a_simulation_is_read() {
        let install = AptAction::Install { name: "a".to_owned(), version: "1:2-3".to_owned() };
        let remove = AptAction::Remove { name: "b:i386".to_owned() };
        let configure = AptAction::Configure { name: "a".to_owned() };
        assert_eq!(
            parse_simulation("inst a 1:2-3\nremv b:i386\nconf a\n"),
            Ok(vec![install, remove, configure])
        );
        assert!(parse_simulation("inst a\n").is_err());
    }

    /// A dpkg-query that knows a few packages, as dpkg prints them: sorted, so that `dpkg` itself is not the first.
    const QUERY: &str = "#!/bin/sh\nprintf '%s\\t%s\\t%s\\t%s\\t%s\\t%s\\n' \\
adduser all install ok installed 3.134 \\
curl amd64 install ok installed 7.88-1 \\
dpkg amd64 install ok installed 1.21 \\
libc6 amd64 hold ok installed 2.36-9 \\
libc6 i386 install ok installed 2.36-9 \\
tzdata all install ok installed 2024a \\
oldconf amd64 deinstall ok config-files 1:0.1 \\
half amd64 install ok half-configured 3 \\
reinst amd64 install reinstreq installed 3 \\
virtual '' unknown ok not-installed ''\nexit 1\n";

    #[test]
    fn dpkg_is_read_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let tools = dir.path().join("tools");
        std::fs::create_dir(&tools).unwrap();
        std::fs::write(tools.join("dpkg-query"), QUERY).unwrap();
        std::fs::set_permissions(tools.join("dpkg-query"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let marks = "Package: tzdata\nArchitecture: amd64\nAuto-Installed: 1\n\nPackage: libc6\nArchitecture: i386\n\
                     Auto-Installed: 1\n\nPackage: curl\nArchitecture: amd64\nAuto-Installed: 0\n";
        std::fs::write(dir.path().join("extended_states"), marks).unwrap();
        let keys = [
            "adduser",
            "curl",
            "libc6",
            "libc6:i386",
            "tzdata",
            "oldconf",
            "half",
            "reinst",
            "virtual",
            "gone",
        ];
        let wanted = [
            "present 3.134 manual -",
            "present 7.88-1 manual -",
            "present 2.36-9 manual hold",
            "present 2.36-9 auto -",
            "present 2024a auto -",
            "config 1:0.1",
            "broken half-configured",
            "broken reinstreq",
            "absent",
            "absent",
        ];
        for shell in shells(dir.path()) {
            let script = format!(
                "PATH='{}':$PATH; CV_APT_AUTO='{}'; cv_see_package \"$@\"",
                tools.display(),
                dir.path().join("extended_states").display()
            );
            let seen = Package::parse(&keys, &shell.good(dir.path(), &script, &keys, b""));
            for (key, line) in keys.iter().zip(wanted) {
                assert_eq!(seen[*key].as_ref().unwrap().state.line(), line, "{}: {key}", shell.name);
            }
        }
    }
}
