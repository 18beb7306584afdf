//! The preconditions of a scenario, as shell text for a host.

use crate::scenario::{Before, BeforeFile};
use converge_resource::quote;

/// The umask of a session: files are readable only for their owner.
const UMASK: &str = "umask 022; ";

/// The scripts that set up the preconditions on a host, each with its description. They do not depend on the tested role.
pub(crate) fn scripts(before: &Before) -> Vec<(String, String)> {
    let mut out = Vec::new();
    if !before.packages.is_empty() {
        let names: Vec<String> = before.packages.iter().map(|p| quote(p)).collect();
        let names = names.join(" ");
        out.push((
            format!("install {names}"),
            format!(
                "if command -v apt-get >/dev/null; then export DEBIAN_FRONTEND=noninteractive; \
                 apt-get install -y -q {names} || {{ apt-get update -q && apt-get install -y -q {names}; }}; \
                 elif command -v dnf >/dev/null; then dnf install -y -q {names}; \
                 else echo 'neither apt-get nor dnf is here' >&2; exit 1; fi"
            ),
        ));
    }
    for user in &before.users {
        out.push((format!("make the user {user}"), format!("useradd -m -- {}", quote(user))));
    }
    out.extend(before.all_files().map(|(path, file)| (format!("make {path}"), make(path, &file))));
    out.extend(before.run.iter().map(|run| (format!("run: {run}"), format!("{UMASK}{run}"))));
    out
}

/// Makes a file, or a directory.
fn make(path: &str, file: &BeforeFile) -> String {
    let quoted = quote(path);
    let mut script = String::from(UMASK);
    if file.directory {
        script.push_str(&format!("mkdir -p -- {quoted}"));
    } else {
        let text = quote(file.content.as_deref().unwrap_or_default());
        let above = quote(path.rsplit_once('/').map_or("/", |(above, _)| above));
        script.push_str(&format!("mkdir -p -- {above}/ && printf %s {text} >{quoted}"));
    }
    if let Some(mode) = &file.mode {
        script.push_str(&format!(" && chmod {mode} -- {quoted}"));
    }
    if let Some(owner) = &file.owner {
        script.push_str(&format!(" && chown {} -- {quoted}", quote(owner)));
    }
    if let Some(group) = &file.group {
        script.push_str(&format!(" && chgrp {} -- {quoted}", quote(group)));
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use converge_syntax::{Diagnostics, Source};

    #[test]
    fn what_is_given_is_shell_text_in_order() {
        let text = "before:\n  run: [touch /y]\n  users: [eve]\n  packages: [tree]\n  \
                    files: {/etc/a b: \"it's\", /srv/d: {directory: true, mode: \"0700\", owner: eve}}\n";
        let mut diags = Diagnostics::new();
        let scenario = Scenario::parse("x.yaml".into(), Source::new("x.yaml", text), &mut diags);
        assert!(diags.is_empty(), "{diags}");
        let scripts = scripts(&scenario.unwrap().before);
        let titles: Vec<&str> = scripts.iter().map(|(t, _)| t.as_str()).collect();
        assert_eq!(
            titles,
            ["install tree", "make the user eve", "make /etc/a b", "make /srv/d", "run: touch /y"]
        );
        assert_eq!(scripts[2].1, "umask 022; mkdir -p -- /etc/ && printf %s 'it'\\''s' >'/etc/a b'");
        assert_eq!(
            scripts[3].1,
            "umask 022; mkdir -p -- /srv/d && chmod 0700 -- /srv/d && chown eve -- /srv/d"
        );
    }
}
