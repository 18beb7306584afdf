//! The name that the running kernel goes by. There is one: its key is `running`. The name at boot is the file `/etc/hostname`.

use converge_resource::{
    AlteredFact, DriftScript, DynEffects, Effects, ErasedObject, Facets, Footprint, Object, Traits,
    state_of_words,
};

/// The running name (`name NAME`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostnameState(pub String);

impl HostnameState {
    fn words(&self) -> Vec<String> {
        vec!["name".to_owned(), self.0.clone()]
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["name", name] => Some(Self((*name).to_owned())),
            _ => None,
        }
    }
}

state_of_words!(HostnameState);

/// The object.
pub struct Hostname;

impl Object for Hostname {
    const KIND: &'static str = "hostname";
    const SHELL: &'static str = include_str!("hostname.sh");
    const TRAITS: Traits = Traits { footprint: Footprint::Named, runs_no_code: true, ..Traits::NONE };
    const EFFECTS: &'static dyn DynEffects = &ErasedObject::<Self>::new();
    type State = HostnameState;

    fn title(_: &str, _: &HostnameState, to: &HostnameState) -> String {
        format!("name this host {}", to.0)
    }

    fn facets(state: &HostnameState) -> Facets {
        vec![("name", state.0.clone())]
    }

    fn drifts(_: &str, _: &HostnameState) -> Vec<DriftScript> {
        vec![DriftScript::new("name", "another name", "hostname drifted || exit 3")]
    }
}

impl Effects for Hostname {
    fn alters(_: &str, _: &HostnameState, to: &HostnameState) -> Vec<AlteredFact> {
        vec![("hostname", Some(to.0.clone().into()))]
    }

    fn may_alter(_: &str) -> Vec<&'static str> {
        vec!["hostname"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};

    #[test]
    fn the_name_is_read_and_set_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let tools = fake_tool(dir.path(), "hostname", "#!/bin/sh\nprintf '%s\\n' \"$1\" >\"$CV_HOSTNAME\"\n");
        for shell in shells(dir.path()) {
            let file = dir.path().join("name");
            std::fs::write(&file, "h1\n").unwrap();
            let with = |script: &str| {
                format!("PATH='{tools}':$PATH; export CV_HOSTNAME='{}'; {script}", file.display())
            };
            let see = || shell.good(dir.path(), &with("cv_line_hostname running"), &[], b"");
            assert_eq!(see(), "name h1\n");
            let (from, to) = (HostnameState("h1".to_owned()), HostnameState("gpu-1.lab".to_owned()));
            shell.good(dir.path(), &with(&Hostname::steps(&[("running", from, to)])[0].script), &[], b"");
            assert_eq!(see(), "name gpu-1.lab\n", "{}", shell.name);
        }
    }
}
