//! Who does a task: root, or the user of the login.

use crate::convert::ConvertedPart;
use crate::task::Task;

/// The remark for a task that the login's user does in Ansible.
pub(crate) const AS_LOGIN: &str = "other tasks say `become: true` and this one does not: in Ansible it is done as the user of the login where the play does not say it; here as root";

/// Modules that only root can use: where one of them has no `become`, the play has it.
const OF_ROOT: &[&str] = &[
    "apt",
    "package",
    "dnf",
    "yum",
    "service",
    "systemd",
    "systemd_service",
    "user",
    "group",
    "sysctl",
    "modprobe",
    "mount",
    "hostname",
    "timezone",
    "apt_repository",
    "deb822_repository",
    "apt_key",
    "locale_gen",
    "ufw",
];

/// Kinds that make what belongs to the one who makes it.
const OF_MAKER: &[&str] =
    &["file", "directory", "link", "command", "git", "archive", "download", "block", "line"];

pub(crate) fn says_become(task: &Task) -> bool {
    task.keyword("become").is_some_and(|value| value.as_bool() == Some(true) || value.as_str() == Some("yes"))
}

/// Whether some tasks say `become: true`, and nothing shows that the others have it from their play.
pub(crate) fn is_mixed(tasks: &[Task]) -> bool {
    let (mut some, mut of_play) = (false, false);
    walk(tasks, false, &mut |task, becomes| {
        some |= becomes;
        of_play |= !becomes && task.foreign.is_none() && OF_ROOT.contains(&task.module.as_str());
    });
    some && !of_play
}

/// Whether a task without `become` needs root: then the play has it, for all.
pub(crate) fn is_of_root(tasks: &[Task]) -> bool {
    let mut found = false;
    walk(tasks, false, &mut |task, becomes| {
        found |= !becomes && task.foreign.is_none() && OF_ROOT.contains(&task.module.as_str());
    });
    found
}

fn walk(tasks: &[Task], outer: bool, visit: &mut impl FnMut(&Task, bool)) {
    for task in tasks {
        let becomes = outer || says_become(task);
        visit(task, becomes);
        walk(&task.block, becomes, visit);
    }
}

/// Whether a task without `become` makes something that belongs to its maker.
pub(crate) fn is_of_login(task: &Task, made: &[ConvertedPart]) -> bool {
    let has_owner = |part: &ConvertedPart| part.params.iter().any(|(key, _)| key == "owner" || key == "user");
    task.keyword("become").is_none()
        && made.iter().any(|part| OF_MAKER.contains(&part.kind) && !has_owner(part))
}
