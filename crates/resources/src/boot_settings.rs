//! The kernel parameters that the files of `/etc/sysctl.d` and its sibling directories set at boot, in the order of
//! sysctl.d(5).

use crate::look::path;
use converge_objects::PathState;
use converge_resource::{Probe, Stop, View};
use std::collections::BTreeMap;

/// A file hides those of the same name in the directories after its own.
const DIRECTORIES: [&str; 5] =
    ["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"];

/// A line that sets a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootSetting {
    /// The file that an editor would open: a link among the files is resolved.
    pub file: String,
    pub value: String,
}

/// The read-only question: `file PATH`, `real PATH`, and `set LINE` for each line that is no comment, of each file in turn.
pub fn boot_files_probe() -> Probe {
    let patterns = DIRECTORIES.map(|dir| format!("{dir}/*.conf")).join(" ");
    Probe::run(format!(
        "for f in {patterns}; do
[ -e \"$f\" ] || continue
printf 'file %s\\nreal %s\\n' \"$f\" \"$(readlink -f -- \"$f\")\"
[ ! -f \"$f\" ] || awk '/^[ \\t]*[^#; \\t]/ {{ print \"set \" $0 }}' \"$f\"
done"
    ))
}

/// The setting of the parameter `name` that is read last at boot, where that is after the file `own`, and from another file.
pub fn later_setting(view: &dyn View, name: &str, own: &str) -> Result<Option<BootSetting>, Stop> {
    let answer = view.run(&boot_files_probe())?;
    let mut files = files_of(&answer.stdout);
    for (object, _) in view.determined("path") {
        refresh(view, &mut files, &object.key)?;
    }
    Ok(last_after(files, name, own))
}

#[derive(Clone, Default)]
struct BootFile {
    path: String,
    real: String,
    lines: Vec<String>,
}

fn files_of(answer: &str) -> Vec<BootFile> {
    let mut files: Vec<BootFile> = Vec::new();
    for line in answer.lines() {
        match (line.split_once(' '), files.last_mut()) {
            (Some(("file", path)), _) => {
                files.push(BootFile { path: path.to_owned(), ..BootFile::default() })
            }
            (Some(("real", path)), Some(file)) => file.real = path.to_owned(),
            (Some(("set", text)), Some(file)) => file.lines.push(text.to_owned()),
            _ => {}
        }
    }
    files
}

/// An earlier item of this run determines this path: what it leaves counts.
fn refresh(view: &dyn View, files: &mut Vec<BootFile>, changed: &str) -> Result<(), Stop> {
    let is_read = |path: &str| {
        path.rsplit_once('/').is_some_and(|(dir, name)| DIRECTORIES.contains(&dir) && name.ends_with(".conf"))
    };
    if !is_read(changed) && files.iter().all(|file| file.real != changed) {
        return Ok(());
    }
    let lines = match path(view, changed)? {
        PathState::File { digest, .. } => {
            let content = view.content(changed, &digest)?;
            content.text().unwrap_or_default().lines().map(str::to_owned).collect()
        }
        PathState::Link { .. } => return Ok(()),
        _ => Vec::new(),
    };
    if files.iter().all(|file| file.path != changed) && is_read(changed) {
        files.push(BootFile { path: changed.to_owned(), real: changed.to_owned(), lines: Vec::new() });
    }
    for file in files.iter_mut().filter(|file| file.real == changed) {
        file.lines.clone_from(&lines);
    }
    Ok(())
}

fn last_after(files: Vec<BootFile>, name: &str, own: &str) -> Option<BootSetting> {
    let rank = |file: &BootFile| DIRECTORIES.iter().position(|dir| file.path.starts_with(&format!("{dir}/")));
    let base = |path: &str| path.rsplit_once('/').map_or(path, |(_, base)| base).to_owned();
    let mut read: BTreeMap<String, BootFile> = BTreeMap::new();
    for file in files {
        let hidden = read.get(&base(&file.path)).is_some_and(|other| rank(other) <= rank(&file));
        if !hidden {
            read.insert(base(&file.path), file);
        }
    }
    // A link may give the own file a later name, as Debian's 99-sysctl.conf does with /etc/sysctl.conf.
    let is_own = |file: &BootFile| file.path == own || file.real == own;
    let named = read.iter().rev().find(|(_, file)| is_own(file)).map(|(base, _)| base.clone());
    let turn = named.unwrap_or_else(|| base(own));
    let wanted = key_of(name);
    let after = read.into_iter().filter(|(base, file)| *base > turn && !is_own(file));
    let settings = after.flat_map(|(_, file)| {
        let values = file.lines.iter().filter_map(|line| setting(line)).filter(|(key, _)| *key == wanted);
        values.map(|(_, value)| BootSetting { file: file.real.clone(), value }).collect::<Vec<_>>()
    });
    settings.last()
}

/// Key and value of a line; `None` for one that sets nothing.
fn setting(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    let (key, value) = line.split_once('=')?;
    let key = key.trim();
    let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    Some((key_of(key.strip_prefix('-').unwrap_or(key)), value))
}

/// The parameter's path below `/proc/sys`: where the first separator is a dot, dots separate and slashes stand for dots.
fn key_of(name: &str) -> String {
    let name = name.trim();
    if name.find(['.', '/']).is_some_and(|at| name[at..].starts_with('/')) {
        return name.to_owned();
    }
    let swap = |c: char| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeView;
    use crate::look::path_id;

    const OWN: &str = "/etc/sysctl.d/99-converge-net.ipv4.ip_forward.conf";

    fn later(view: FakeView, name: &str, own: &str) -> Option<BootSetting> {
        later_setting(&view, name, own).unwrap()
    }

    fn view_of(text: &str) -> FakeView {
        FakeView::strict().answer(&boot_files_probe(), 0, text)
    }

    fn found(file: &str, value: &str) -> Option<BootSetting> {
        Some(BootSetting { file: file.to_owned(), value: value.to_owned() })
    }

    #[test]
    fn only_what_is_read_afterwards_counts() {
        let text = "file /etc/sysctl.d/10-a.conf\nreal /etc/sysctl.d/10-a.conf\nset net.ipv4.ip_forward = 5\n\
                    file /etc/sysctl.d/zz.conf\nreal /etc/sysctl.d/zz.conf\nset net/ipv4/ip_forward=0\nset a.b = 1\n\
                    file /usr/lib/sysctl.d/zz.conf\nreal /usr/lib/sysctl.d/zz.conf\nset net.ipv4.ip_forward = 7\n\
                    file /usr/lib/sysctl.d/zy.conf\nreal /usr/lib/sysctl.d/zy.conf\nset -net.ipv4.ip_forward =  8   9\n";
        assert_eq!(later(view_of(text), "net.ipv4.ip_forward", OWN), found("/etc/sysctl.d/zz.conf", "0"));
        assert_eq!(later(view_of(text), "net.ipv4.ip_forward", "/etc/sysctl.d/zz.conf"), None);
        assert_eq!(later(view_of(text), "a.c", OWN), None);
        let masked = "file /etc/sysctl.d/zy.conf\nreal /dev/null\nfile /usr/lib/sysctl.d/zy.conf\nreal /usr/lib/sysctl.d/zy.conf\n\
                      set net.ipv4.ip_forward = 8\n";
        assert_eq!(later(view_of(masked), "net.ipv4.ip_forward", OWN), None);
        assert_eq!(later(view_of(""), "net.ipv4.ip_forward", OWN), None);
    }

    #[test]
    fn a_link_is_the_file_that_it_leads_to() {
        let text = "file /etc/sysctl.d/99-sysctl.conf\nreal /etc/sysctl.conf\nset net.ipv4.ip_forward = 0\n";
        assert_eq!(later(view_of(text), "net.ipv4.ip_forward", OWN), found("/etc/sysctl.conf", "0"));
        assert_eq!(later(view_of(text), "net.ipv4.ip_forward", "/etc/sysctl.conf"), None);
    }

    #[test]
    fn what_an_earlier_item_leaves_counts() {
        let text = "file /etc/sysctl.d/99-sysctl.conf\nreal /etc/sysctl.conf\nset net.ipv4.ip_forward = 0\n";
        let view = |path: &str, bytes: &str| {
            let with = view_of(text).file(path, 0o644, bytes);
            let state = with.observed(&path_id(path)).unwrap().state;
            with.determines(path_id(path), state)
        };
        assert_eq!(
            later(view("/etc/sysctl.conf", "# net.ipv4.ip_forward = 0\n"), "net.ipv4.ip_forward", OWN),
            None
        );
        let new = view("/etc/sysctl.d/zz.conf", "net.ipv4.ip_forward = 3\n");
        assert_eq!(later(new, "net.ipv4.ip_forward", OWN), found("/etc/sysctl.d/zz.conf", "3"));
        let gone = view_of(text).determines(path_id("/etc/sysctl.conf"), PathState::Absent);
        assert_eq!(later(gone, "net.ipv4.ip_forward", OWN), None);
        let elsewhere = view("/etc/motd", "net.ipv4.ip_forward = 3\n");
        assert_eq!(later(elsewhere, "net.ipv4.ip_forward", OWN), found("/etc/sysctl.conf", "0"));
    }

    #[test]
    fn keys_have_one_form() {
        assert_eq!(key_of("net.ipv4.conf.eth0/7.rp_filter"), key_of("net/ipv4/conf/eth0.7/rp_filter"));
        assert_eq!(key_of("kernel.pid_max"), "kernel/pid_max");
    }
}
