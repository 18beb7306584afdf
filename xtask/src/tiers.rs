//! Which tests are wanted: by what they need, and by their names.

use crate::process::{Result, workspace};
use fs_err as fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The package whose tests start hosts.
pub const HOSTS: &str = "converge-tests";
/// The package whose programs of tests, its unit tests aside, each start an API server.
const CLUSTERS: &str = "converge-cluster";
/// Of [`HOSTS`] those that start clusters: they need the parts of Kubernetes.
const ON_CLUSTERS: &[&str] = &[
    "cluster",
    "cluster_scenarios",
    "doctor_cluster",
    "gpu_faults",
    "k8s_nodes",
    "k8s_role",
    "kube_tiers",
    "role_tests",
];
/// Of [`HOSTS`] those that start nothing.
const ON_NOTHING: &[&str] = &["walls"];

/// The needs of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Tier {
    /// Nothing: they run as any user. With `openssh-server` those of ssh ask a real sshd, on a port of their own.
    Unit,
    /// Root, for disposable hosts.
    Host,
    /// Root, and the programs of Kubernetes.
    Cluster,
}

/// The tier of a program of tests. Unit tests have the name of their crate.
pub fn tier(package: &str, program: &str) -> Tier {
    let is_unit = program.replace('_', "-") == package || ON_NOTHING.contains(&program);
    match package {
        HOSTS if is_unit => Tier::Unit,
        HOSTS if ON_CLUSTERS.contains(&program) => Tier::Cluster,
        HOSTS => Tier::Host,
        CLUSTERS if !is_unit => Tier::Cluster,
        _ => Tier::Unit,
    }
}

/// Which tests to run; all of them, with every other check, where nothing is said.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TestChoice {
    /// Only tests whose name, or whose program's name, contains this: `k8s_role`, `converge-ssh`, `a_lost_host`.
    pub filter: Option<String>,
    /// Only tests that need this.
    #[arg(long, value_enum)]
    pub tier: Option<Tier>,
}

/// The part of a program of tests that runs.
#[derive(Debug, PartialEq, Eq)]
pub enum ProgramPart {
    /// All.
    Whole,
    /// The tests whose names contain the filter.
    Some,
    /// Nothing.
    None,
}

impl TestChoice {
    /// Whether it is every test, with all other checks.
    pub fn is_all(&self) -> bool {
        self.filter.is_none() && self.tier.is_none()
    }

    /// The targets to build for it, as words for cargo.
    ///
    /// Errors when the folders of tests cannot be read.
    pub fn targets(&self) -> Result<Vec<String>> {
        // Of the whole workspace all the same: a few packages alone have other features, and more would be compiled once more.
        let mut words = vec!["--workspace".to_owned()];
        if self.tier == Some(Tier::Unit) {
            words.extend(["--lib", "--bins"].map(str::to_owned));
            for name in unit_programs(&workspace().join("crates"))? {
                words.extend(["--test".to_owned(), name]);
            }
        }
        Ok(words)
    }

    /// The part of this program that runs; `list` lists its tests if they matter.
    pub fn part(
        &self,
        package: &str,
        program: &str,
        list: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<ProgramPart> {
        if self.tier.is_some_and(|wanted| wanted != tier(package, program)) {
            return Ok(ProgramPart::None);
        }
        match &self.filter {
            None => Ok(ProgramPart::Whole),
            Some(filter) if format!("{package} {program}").contains(filter.as_str()) => {
                Ok(ProgramPart::Whole)
            }
            Some(filter) if list()?.iter().any(|name| name.contains(filter.as_str())) => {
                Ok(ProgramPart::Some)
            }
            Some(_) => Ok(ProgramPart::None),
        }
    }
}

/// The programs of the unit tier that are not unit tests of a crate: `crates/NAME/tests/PROGRAM.rs`, or a folder of it with `main.rs`.
fn unit_programs(crates: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> = ON_NOTHING.iter().map(|name| (*name).to_owned()).collect();
    for entry in fs::read_dir(crates)? {
        let folder = entry?.path();
        let package = format!("converge-{}", folder.file_name().unwrap_or_default().to_string_lossy());
        let tests = folder.join("tests");
        if !tests.is_dir() {
            continue;
        }
        for entry in fs::read_dir(tests)? {
            let path = entry?.path();
            let is_program =
                path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").is_file();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if is_program && tier(&package, &name) == Tier::Unit {
                names.push(name);
            }
        }
    }
    names.sort();
    Ok(names)
}

/// The names of a program's tests.
pub fn list(program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program).arg("--list").stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_of_the_tier_of_what_it_needs() {
        assert_eq!(tier("converge-ssh", "converge_ssh"), Tier::Unit);
        assert_eq!(tier("converge-ssh", "all"), Tier::Unit);
        assert_eq!(tier("converge-cli", "converge"), Tier::Unit);
        assert_eq!(tier("xtask", "xtask"), Tier::Unit);
        assert_eq!(tier("converge-cluster", "converge_cluster"), Tier::Unit);
        assert_eq!(tier("converge-cluster", "objects"), Tier::Cluster);
        assert_eq!(tier(HOSTS, "converge_tests"), Tier::Unit);
        assert_eq!(tier(HOSTS, "walls"), Tier::Unit);
        assert_eq!(tier(HOSTS, "rollback"), Tier::Host);
        assert_eq!(tier(HOSTS, "k8s_role"), Tier::Cluster);
    }

    #[test]
    fn the_programs_that_are_named_are_there() {
        let tests = workspace().join("tests/tests");
        for name in ON_CLUSTERS.iter().chain(ON_NOTHING) {
            let there =
                tests.join(format!("{name}.rs")).is_file() || tests.join(name).join("main.rs").is_file();
            assert!(there, "{name}");
        }
        let unit = unit_programs(&workspace().join("crates")).unwrap();
        for name in ["all", "cli", "inventory_oracle", "walls"] {
            assert!(unit.iter().any(|there| there == name), "{name}: {unit:?}");
        }
        assert!(!unit.iter().any(|name| name == "tunnel" || name == "common"), "{unit:?}");
    }

    #[test]
    fn a_filter_takes_programs_and_tests_by_name() {
        let choice = |filter: &str, tier| TestChoice { filter: Some(filter.to_owned()), tier };
        let tests = || Ok(vec!["keys::an_rsa_key_is_warned_about".to_owned()]);
        let part = |choice: TestChoice| choice.part("converge-ssh", "all", tests).unwrap();
        assert_eq!(part(TestChoice::default()), ProgramPart::Whole);
        assert_eq!(part(choice("ssh all", None)), ProgramPart::Whole);
        assert_eq!(part(choice("rsa_key", None)), ProgramPart::Some);
        assert_eq!(part(choice("rsa_key", Some(Tier::Unit))), ProgramPart::Some);
        assert_eq!(part(choice("rsa_key", Some(Tier::Host))), ProgramPart::None);
        assert_eq!(part(choice("no such", None)), ProgramPart::None);
    }
}
