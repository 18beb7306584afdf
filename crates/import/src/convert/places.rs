//! Paths of hosts of which it is known whether they are files or directories.

use super::Context;
use crate::expression::whole_expression;
use converge_syntax::{Node, Value};

/// Directories that every host has.
const DIRECTORIES: &[&str] = &[
    "/bin",
    "/boot",
    "/etc",
    "/etc/apt/apt.conf.d",
    "/etc/apt/keyrings",
    "/etc/apt/preferences.d",
    "/etc/apt/sources.list.d",
    "/etc/cron.d",
    "/etc/cron.daily",
    "/etc/cron.hourly",
    "/etc/cron.monthly",
    "/etc/cron.weekly",
    "/etc/default",
    "/etc/init.d",
    "/etc/ld.so.conf.d",
    "/etc/logrotate.d",
    "/etc/modprobe.d",
    "/etc/modules-load.d",
    "/etc/pam.d",
    "/etc/profile.d",
    "/etc/rsyslog.d",
    "/etc/security/limits.d",
    "/etc/ssh",
    "/etc/ssh/sshd_config.d",
    "/etc/ssl/certs",
    "/etc/sudoers.d",
    "/etc/sysctl.d",
    "/etc/systemd/system",
    "/etc/tmpfiles.d",
    "/etc/udev/rules.d",
    "/etc/update-motd.d",
    "/home",
    "/lib/systemd/system",
    "/opt",
    "/root",
    "/sbin",
    "/srv",
    "/tmp",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib/systemd/system",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/local/share/ca-certificates",
    "/usr/local/src",
    "/usr/sbin",
    "/usr/share",
    "/usr/share/keyrings",
    "/usr/src",
    "/var/lib",
    "/var/log",
    "/var/tmp",
];

/// The path, with a slash behind a directory: one that an earlier task makes, or that every host has.
pub(super) fn in_directory(dest: &str, context: &Context) -> String {
    let literal = whole_expression(dest).and_then(|name| context.literals.get(name));
    if literal.is_some_and(|path| DIRECTORIES.contains(&path.as_str())) {
        return format!("{dest}/");
    }
    match context.paths.get(dest) {
        Some(&"directory") => format!("{dest}/"),
        None if DIRECTORIES.contains(&dest) => format!("{dest}/"),
        _ => dest.to_owned(),
    }
}

/// Whether the name of a path is that of a file: it has an extension, or is a program, or an earlier task makes it.
pub(super) fn is_file(path: &str, context: &Context) -> bool {
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    name.contains('.') || above.ends_with("bin") || context.paths.get(path) == Some(&"file")
}

/// The kind of a path that gets attributes and whose `state` is not given: Ansible takes what is there. Where a variable holds another path than
/// the default of the role, the other kind is an error of the plan, and changes nothing.
pub(super) fn kind_of(path: &str, mode: Option<&Node>, context: &Context) -> Option<&'static str> {
    let literal = |text: &str| whole_expression(text).and_then(|name| context.literals.get(name)).cloned();
    let path = literal(path).unwrap_or_else(|| path.to_owned());
    let bare = path.trim_end_matches('/');
    if let Some(known) = context.paths.get(bare) {
        return Some(known);
    }
    if path.ends_with('/') || DIRECTORIES.contains(&bare) {
        return Some("directory");
    }
    let name = bare.rsplit('/').next().unwrap_or(bare);
    if name.contains("sock") || name.ends_with(".d") {
        return None;
    }
    let mode = mode.map(|mode| match &mode.value {
        Value::String(text) => literal(text).unwrap_or_else(|| text.clone()),
        _ => mode.span.text().to_owned(),
    });
    // A directory that nobody may enter is none.
    let never_entered = mode.is_some_and(|mode| {
        (3..=4).contains(&mode.len()) && mode.bytes().all(|digit| matches!(digit, b'0' | b'2' | b'4' | b'6'))
    });
    (never_entered || is_file(&path, context)).then_some("file")
}
