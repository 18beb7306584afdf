//! A package of dpkg and apt, or of rpm and dnf. Its key is the package's name, with `:ARCH` (dpkg) or `.ARCH` (rpm) only for a foreign architecture.

use crate::programs::{OF_PROGRAMS, not_known, of_package};
use converge_resource::{
    AlteredFact, BroughtObjects, Contents, Disruption, DriftScript, DynEffects, DynSharedObject, Effects,
    ErasedObject, Facets, Footprint, Object, ObjectId, Past, Reversibility, SharedObject, State, Step,
    Traits, quote, state_of_words,
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
    /// Half installed or half configured (`broken STATUS`): an interrupted dpkg. Never repaired without a word.
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

/// The settings of an item by which the host knows whether apt still chooses as it did at the plan (see `cv_packages_bound`): what it chose by, and
/// what it was asked, one question a line. They tell nothing of what the item comes to.
pub const APT_CHOICE: [&str; 2] = ["CV_APT_CHOICE", "CV_APT_STAGES"];

/// The directories that package managers read before they decide: their sources, keys, pins and settings.
const CHOSEN_BY: &[&str] =
    &["/etc/apt/", "/usr/share/keyrings/", "/etc/yum.repos.d/", "/etc/dnf/", "/etc/pki/rpm-gpg/"];

/// Whether a change of this object may change which versions of packages are offered and chosen.
pub fn chooses_packages(object: &ObjectId) -> bool {
    object.kind == "path" && CHOSEN_BY.iter().any(|dir| object.key.starts_with(dir))
}

/// The object.
pub struct Package;

impl Object for Package {
    const KIND: &'static str = "package";
    const SHELL: &'static str = concat!(
        include_str!("package.sh"),
        include_str!("package_ask.sh"),
        include_str!("package_plan.sh"),
        include_str!("package_files.sh"),
        include_str!("package_rpm.sh"),
        "\nCV_RPM_PROGRAM='",
        include_str!("package_rpm_kept.py"),
        include_str!("package_rpm_marks.py"),
        include_str!("package_rpm.py"),
        "'\n"
    );
    const TRAITS: Traits = Traits {
        offers: &["path", "unit", "user", "group", "sysctl"],
        footprint: Footprint::Packaged,
        one_transaction: true,
        ..Traits::NONE
    };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const SHARED: &'static dyn DynSharedObject = &ErasedObject::<Self>::new();
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

    /// Running programs lose the files that they were started from. A new package disrupts nothing.
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

    /// Removed, and not purged yet; or there, and not marked yet; or as dpkg leaves it that was cut off.
    fn amid(before: &PackageState, after: &PackageState, now: &PackageState) -> bool {
        let version = |state: &PackageState| match state {
            PackageState::Config { version } | PackageState::Present { version, .. } => Some(version.clone()),
            PackageState::Absent | PackageState::Broken { .. } => None,
        };
        let is_half_done =
            matches!(now, PackageState::Broken { .. }) && before != after && Self::opaque(before, after);
        is_half_done || (version(now).is_some() && [version(before), version(after)].contains(&version(now)))
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

    fn drifts(key: &str, state: &PackageState) -> Vec<DriftScript> {
        let PackageState::Present { hold, .. } = state else { return Vec::new() };
        let package = quote(key);
        let mark = if *hold { "unhold" } else { "hold" };
        vec![
            DriftScript::new("hold", mark, format!("apt-mark -q {mark} -- {package} >/dev/null")),
            // It goes alone: where others need it, it stays.
            DriftScript::new(
                "presence",
                "removed",
                format!(
                    "if cv_is_dnf; then rpm -e -- {package}; else dpkg --remove -- {package}; fi >/dev/null 2>&1 || exit 3"
                ),
            ),
        ]
    }
}

impl Effects for Package {
    /// Marks bring nothing.
    fn may_bring(from: &PackageState, to: &PackageState) -> Option<BroughtObjects> {
        (matches!(to, PackageState::Present { .. }) && Self::opaque(from, to))
            .then_some(BroughtObjects { verb: "installing", kinds: Self::TRAITS.offers })
    }

    /// Marks alter nothing; what maintainer scripts do besides is looked at.
    fn alters(key: &str, from: &PackageState, to: &PackageState) -> Vec<AlteredFact> {
        if Self::opaque(from, to) { not_known(of_package(key)) } else { Vec::new() }
    }

    /// Which packages come along is not known yet either.
    fn may_alter(_: &str) -> Vec<&'static str> {
        OF_PROGRAMS.to_vec()
    }
}

impl SharedObject for Package {
    /// A package that a run has left half done is its own when dpkg has configured it since, whoever called that: nobody has chosen anything.
    fn shows(now: &PackageState, past: &Past<'_, PackageState>, _: &Contents<'_>) -> bool {
        now == past.left
            || matches!((past.left, now), (PackageState::Broken { .. }, PackageState::Present { .. }))
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

#[cfg(test)]
#[path = "package_tests.rs"]
mod tests;
