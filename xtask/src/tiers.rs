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

/// Programs of unit tests that take minutes: the unit tier runs a part of each, in one shell ([`UNIT_ENVIRONMENT`]); the host tier runs them whole. With
/// each the module that the unit tier leaves out; none of ssh's, nor of the model test, which draws fewer cases.
const LONG: &[(&str, &str, Option<&str>)] = &[
    ("converge-host", "converge_host", Some("records::tests::")),
    ("converge-objects", "converge_objects", Some("::attack_tests::")),
    ("converge-ssh", "all", None),
    ("converge-ledger", "model", None),
];

/// The environment of the unit tier: the shells in which the shell of hosts runs, and the number of cases that a model test draws.
pub const UNIT_ENVIRONMENT: &[(&str, &str)] = &[("CONVERGE_SHELLS", "sh"), ("CONVERGE_CASES", "250")];

/// The needs of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Tier {
    /// Nothing: they run as any user, in a minute; what takes longer is of the tier `host` as well, and whole there. With `openssh-server` those of ssh ask a real sshd, on a port of their own.
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
    /// Only tests whose name, or whose program's name, contains this: `converge-ssh`, `a_lost_host`; of a program that has this name, `k8s_role`, nothing
    /// else is built.
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
    /// These tests.
    Some(Vec<String>),
    /// Nothing.
    None,
}

impl TestChoice {
    /// Whether it is every test, with all other checks.
    pub fn is_all(&self) -> bool {
        self.filter.is_none() && self.tier.is_none()
    }

    /// The command of cargo that builds what it may need.
    ///
    /// Errors when the folders of tests cannot be read.
    pub fn build(&self) -> Result<Vec<String>> {
        // Of the whole workspace nevertheless: a few packages alone have other features, and more would be compiled once more.
        let mut words = vec!["test", "--no-run", "--workspace"];
        let programs = match self.named_program()? {
            Some(program) => {
                // `cargo test` would build a binary as tests of itself.
                words = vec!["build", "--workspace", "--bin", "converge", "--bin", "converge-lab"];
                vec![program]
            }
            None if self.tier == Some(Tier::Unit) => {
                words.extend(["--lib", "--bins"]);
                let programs = programs()?.into_iter();
                programs
                    .filter(|(package, name)| tier(package, name) == Tier::Unit)
                    .map(|(_, name)| name)
                    .collect()
            }
            None => Vec::new(),
        };
        let programs = programs.into_iter().flat_map(|name| ["--test".to_owned(), name]);
        Ok(words.into_iter().map(str::to_owned).chain(programs).collect())
    }

    /// The program whose name the filter is: nothing else is meant by it.
    fn named_program(&self) -> Result<Option<String>> {
        let Some(filter) = &self.filter else { return Ok(None) };
        Ok(programs()?.into_iter().map(|(_, name)| name).find(|name| name == filter))
    }

    /// The part of this program that runs; `list` lists its tests if they matter.
    pub fn part(
        &self,
        package: &str,
        program: &str,
        list: impl FnOnce() -> Result<Vec<String>>,
    ) -> Result<ProgramPart> {
        let long = LONG.iter().find(|(of, name, _)| (*of, *name) == (package, program));
        let is_wanted = |wanted| wanted == tier(package, program) || (wanted == Tier::Host && long.is_some());
        if self.tier.is_some_and(|wanted| !is_wanted(wanted)) {
            return Ok(ProgramPart::None);
        }
        let left_out = long.and_then(|(.., module)| *module).filter(|_| self.tier == Some(Tier::Unit));
        let full_name = format!("{package} {program}");
        let filter = self.filter.as_deref().filter(|filter| !full_name.contains(filter));
        if filter.is_none() && left_out.is_none() {
            return Ok(ProgramPart::Whole);
        }
        let mut tests = list()?;
        tests.retain(|test| {
            filter.is_none_or(|filter| test.contains(filter))
                && left_out.is_none_or(|module| !test.contains(module))
        });
        Ok(if tests.is_empty() { ProgramPart::None } else { ProgramPart::Some(tests) })
    }
}

/// The packages and names of all programs of tests that are not unit tests of a crate: `tests/PROGRAM.rs` in a package, or a folder of it with `main.rs`.
fn programs() -> Result<Vec<(String, String)>> {
    let mut packages = vec![(HOSTS.to_owned(), workspace().join("tests"))];
    for entry in fs::read_dir(workspace().join("crates"))? {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        packages.push((format!("converge-{name}"), folder.clone()));
    }
    let mut found = Vec::new();
    for (package, folder) in packages {
        let tests = folder.join("tests");
        if !tests.is_dir() {
            continue;
        }
        for entry in fs::read_dir(tests)? {
            let path = entry?.path();
            let is_program =
                path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").is_file();
            if is_program {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                found.push((package.clone(), name));
            }
        }
    }
    found.sort();
    Ok(found)
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
        let programs = programs().unwrap();
        let has = |package: &str, name: &str| programs.contains(&(package.to_owned(), name.to_owned()));
        assert!(has("converge-ssh", "all") && has(HOSTS, "walls") && has(HOSTS, "k8s_role"), "{programs:?}");
        assert!(!programs.iter().any(|(_, name)| name == "common"), "{programs:?}");
        for (package, name, module) in LONG {
            assert_eq!(tier(package, name), Tier::Unit, "{name}");
            assert!(has(package, name) || name.replace('_', "-") == *package, "{name}");
            let file = module.map(|module| module.trim_matches(':').replace("::", "/"));
            let source = workspace().join("crates").join(package.trim_start_matches("converge-")).join("src");
            let found = file.is_none_or(|file| {
                [source.join(&file), source.join("path").join(&file)].iter().any(|folder| folder.is_dir())
            });
            assert!(found, "{package} has no module {module:?}");
        }
    }

    #[test]
    fn what_the_unit_tier_leaves_out_is_of_the_host_tier() {
        let tests = ["records::tests::undo::a", "records::tests::b", "facts::tests::c"];
        let part = |tier, filter: Option<&str>| {
            let choice = TestChoice { filter: filter.map(str::to_owned), tier };
            let list = || Ok(tests.map(str::to_owned).into());
            choice.part("converge-host", "converge_host", list).unwrap()
        };
        let some = |name: &str| ProgramPart::Some(vec![name.to_owned()]);
        assert_eq!(part(Some(Tier::Unit), None), some(tests[2]));
        assert_eq!(part(Some(Tier::Unit), Some("undo")), ProgramPart::None);
        assert_eq!(part(Some(Tier::Host), None), ProgramPart::Whole);
        assert_eq!(part(Some(Tier::Host), Some("undo")), some(tests[0]));
        assert_eq!(part(Some(Tier::Cluster), None), ProgramPart::None);
        assert_eq!(part(None, None), ProgramPart::Whole);
    }

    #[test]
    fn of_a_program_that_the_filter_names_nothing_else_is_built() {
        let build = |filter: Option<&str>, tier| {
            TestChoice { filter: filter.map(str::to_owned), tier }.build().unwrap().join(" ")
        };
        let named = "build --workspace --bin converge --bin converge-lab --test k8s_role";
        assert_eq!(build(Some("k8s_role"), None), named);
        assert_eq!(build(Some("a_lost_host"), None), "test --no-run --workspace");
        let unit = build(None, Some(Tier::Unit));
        assert!(unit.contains("--test inventory_oracle") && unit.contains("--test walls"), "{unit}");
        assert!(!unit.contains("--test tunnel") && !unit.contains("--test prune"), "{unit}");
    }

    #[test]
    fn a_filter_takes_programs_and_tests_by_name() {
        let choice = |filter: &str, tier| TestChoice { filter: Some(filter.to_owned()), tier };
        let tests = || -> Result<Vec<String>> { Ok(vec!["keys::an_rsa_key_is_warned_about".to_owned()]) };
        let part = |choice: TestChoice| choice.part("converge-ssh", "all", tests).unwrap();
        assert_eq!(part(TestChoice::default()), ProgramPart::Whole);
        assert_eq!(part(choice("ssh all", None)), ProgramPart::Whole);
        let some = ProgramPart::Some(tests().unwrap());
        assert_eq!(part(choice("rsa_key", None)), some);
        assert_eq!(part(choice("rsa_key", Some(Tier::Unit))), some);
        assert_eq!(part(choice("rsa_key", Some(Tier::Cluster))), ProgramPart::None);
        assert_eq!(part(choice("no such", None)), ProgramPart::None);
    }
}
