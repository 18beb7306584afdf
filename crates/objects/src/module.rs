//! A kernel module. Its key is the name with underscores, as the kernel shows it: `br_netfilter`.

use crate::programs::{not_known, of_module};
use converge_resource::{
    AlteredFact, BroughtObjects, DriftScript, DynEffects, DynNeeds, Effects, ErasedObject, Facets, Footprint,
    Needs, Object, Traits, quote, state_of_words,
};

/// Whether the kernel has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleState {
    /// Not loaded (`absent`).
    Absent,
    /// Loaded (`loaded`).
    Loaded,
    /// A fixed part of this kernel (`builtin`).
    Builtin,
}

impl ModuleState {
    fn word(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Loaded => "loaded",
            Self::Builtin => "builtin",
        }
    }

    fn words(self) -> Vec<String> {
        vec![self.word().to_owned()]
    }

    fn read(words: &[&str]) -> Option<Self> {
        [Self::Absent, Self::Loaded, Self::Builtin].into_iter().find(|s| words == [s.word()])
    }
}

state_of_words!(ModuleState);

/// The object.
pub struct Module;

impl Object for Module {
    const KIND: &'static str = "module";
    const SHELL: &'static str = include_str!("module.sh");
    const TRAITS: Traits = Traits { footprint: Footprint::Named, ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    type State = ModuleState;

    fn title(key: &str, _: &ModuleState, to: &ModuleState) -> String {
        format!("{} {key}", if *to == ModuleState::Absent { "unload" } else { "load" })
    }

    fn facets(state: &ModuleState) -> Facets {
        match state {
            ModuleState::Absent => Vec::new(),
            present => vec![("module", present.word().to_owned())],
        }
    }

    fn drifts(key: &str, state: &ModuleState) -> Vec<DriftScript> {
        let module = quote(key);
        match state {
            // The kernel keeps a module that is in use, and code that is compiled in.
            ModuleState::Loaded => {
                vec![DriftScript::new("loaded", "unloaded", format!("modprobe -r -- {module} || exit 3"))]
            }
            ModuleState::Absent => {
                vec![DriftScript::new("loaded", "loaded", format!("modprobe -- {module} || exit 3"))]
            }
            ModuleState::Builtin => Vec::new(),
        }
    }
}

impl Effects for Module {
    fn may_bring(_: &ModuleState, to: &ModuleState) -> Option<BroughtObjects> {
        (*to == ModuleState::Loaded).then_some(BroughtObjects { verb: "loading", kinds: &["sysctl"] })
    }

    fn alters(key: &str, _: &ModuleState, _: &ModuleState) -> Vec<AlteredFact> {
        not_known(of_module(key))
    }

    fn may_alter(key: &str) -> Vec<&'static str> {
        of_module(key)
    }
}

impl Needs for Module {
    fn stands_on(_: &str, state: &ModuleState) -> Vec<String> {
        if *state == ModuleState::Loaded { vec!["modprobe".to_owned()] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};
    use converge_resource::State;

    const MODPROBE: &str = r#"#!/bin/sh
for last; do :; done
[ "$last" != stuck ] || { echo "modprobe: FATAL: Module stuck is in use." >&2; exit 1; }
case $1 in -r) rm -r "$CV_SYS_MODULE/$last" ;; *) mkdir "$CV_SYS_MODULE/$last"; : >"$CV_SYS_MODULE/$last/initstate" ;; esac
"#;

    #[test]
    fn a_module_is_loaded_and_unloaded_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let tools = fake_tool(dir.path(), "modprobe", MODPROBE);
        for shell in shells(dir.path()) {
            let sys = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(sys.path().join("loop")).unwrap();
            std::fs::create_dir_all(sys.path().join("stuck/holders/user")).unwrap();
            std::fs::write(sys.path().join("stuck/initstate"), "live\n").unwrap();
            std::fs::write(sys.path().join("list"), "listed 16384 0 - Live 0x0\n").unwrap();
            let with = |script: &str| {
                let here = sys.path().display();
                format!(
                    "PATH='{tools}':$PATH; export CV_SYS_MODULE='{here}' CV_PROC_MODULES='{here}/list'; {script}"
                )
            };
            let keys = ["overlay", "loop", "stuck", "listed"];
            let see = || {
                let observed = crate::testing::parse::<Module>(
                    &keys,
                    &shell.good(dir.path(), &with("cv_see_module \"$@\""), &keys, b""),
                );
                keys.map(|k| observed[k].clone().unwrap().state.line().to_owned())
            };
            assert_eq!(see(), ["absent", "builtin", "loaded", "loaded"], "{}", shell.name);
            let go = |key: &str, from, to| with(&Module::steps(&[(key, from, to)])[0].script);
            shell.good(dir.path(), &go("overlay", ModuleState::Absent, ModuleState::Loaded), &[], b"");
            assert_eq!(see()[0], "loaded", "{}", shell.name);
            shell.good(dir.path(), &with("cv_restore_module overlay absent"), &[], b"");
            assert_eq!(see()[0], "absent", "{}", shell.name);
            let output =
                shell.run(dir.path(), &go("stuck", ModuleState::Loaded, ModuleState::Absent), &[], b"");
            assert!(!output.status.success());
            assert!(String::from_utf8_lossy(&output.stderr).contains("used by: user"), "{}", shell.name);
        }
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        for state in [ModuleState::Absent, ModuleState::Loaded, ModuleState::Builtin] {
            assert_eq!(ModuleState::try_from(State::from(state)), Ok(state));
        }
        assert!(ModuleState::try_from(State::from_line("loaded twice")).is_err());
        assert!(Module::may_bring(&ModuleState::Absent, &ModuleState::Loaded).is_some());
    }
}
