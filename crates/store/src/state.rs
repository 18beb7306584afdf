//! Where converge keeps what is its own on this machine.

use camino::Utf8PathBuf;

/// `$XDG_STATE_HOME/converge`, by default `~/.local/state/converge`; `None` where neither is set.
pub(crate) fn state_folder() -> Option<Utf8PathBuf> {
    let absolute = |name: &str| std::env::var(name).ok().filter(|path| path.starts_with('/'));
    let base =
        absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| format!("{home}/.local/state")));
    base.map(|base| Utf8PathBuf::from(base).join("converge"))
}
