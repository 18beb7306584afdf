//! A package of dpkg and apt. Its key is the package's name, with `:ARCH` only for a foreign architecture.

use converge_resource::{BadState, State};

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
        /// The exact version. `~` in a planned state: whatever the host's package lists offer at its turn.
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

impl From<PackageState> for State {
    fn from(state: PackageState) -> Self {
        match state {
            PackageState::Absent => Self::absent(),
            PackageState::Config { version } => Self::from_words(["config", &version]),
            PackageState::Present { version, auto, hold } => Self::from_words([
                "present",
                &version,
                if auto { "auto" } else { "manual" },
                if hold { "hold" } else { "-" },
            ]),
            PackageState::Broken { status } => Self::from_words(["broken", &status]),
        }
    }
}

impl TryFrom<State> for PackageState {
    type Error = BadState;

    fn try_from(state: State) -> Result<Self, BadState> {
        let words = state.words()?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["absent"] => Ok(Self::Absent),
            ["config", version] => Ok(Self::Config { version: (*version).to_owned() }),
            ["present", version, mark @ ("auto" | "manual"), hold @ ("hold" | "-")] => Ok(Self::Present {
                version: (*version).to_owned(),
                auto: *mark == "auto",
                hold: *hold == "hold",
            }),
            ["broken", status] => Ok(Self::Broken { status: (*status).to_owned() }),
            _ => Err(BadState(state.line().to_owned())),
        }
    }
}
