//! The file system of a host, listed before and after: what differs, and what differs on every host all the time.

use converge_engine::{Engine, TargetError};
use converge_resource::quote;
use std::collections::BTreeMap;
use std::time::Duration;

/// Paths that are not compared: the kernel, logins, timers and the package manager write there by themselves. A path that
/// ends with `/` stands for everything below it.
pub const NOISE: &[&str] = &[
    "/proc/",
    "/sys/",
    "/dev/",
    "/run/",
    "/tmp/",
    "/var/tmp/",
    "/var/log/",
    "/var/cache/",
    "/var/backups/",
    "/var/lib/apt/",
    "/var/lib/dpkg/",
    "/var/lib/systemd/",
    "/var/lib/sudo/",
    "/var/lib/private/",
    // Our own records of runs.
    "/var/lib/converge/",
    "/var/lib/converge",
    "/etc/.pwd.lock",
    "/etc/ld.so.cache",
    // The account tools keep the file as it was before their last change.
    "/etc/passwd-",
    "/etc/group-",
    "/etc/shadow-",
    "/etc/gshadow-",
    "/etc/subuid-",
    "/etc/subgid-",
    // The API server of a disposable host, and what kubectl remembers.
    "/var/lib/converge-lab-etcd/",
    "/root/.kube/",
    "/root/.kube",
];

/// Paths that differ at most, before it is only said that there are more.
const MOST: usize = 500;
const LIMIT: Duration = Duration::from_secs(300);

/// One path that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path.
    pub path: String,
    /// Before: `file 644 root root 12 DIGEST`; `None` if there was nothing.
    pub before: Option<String>,
    /// After; `None` if it is gone.
    pub after: Option<String>,
}

impl Difference {
    /// `+ /etc/x (file 644 root root)`, `- /etc/x`, `~ /etc/x (mode 644 → 600)`
    pub fn shown(&self) -> String {
        let brief = |state: &str| state.split('\t').take(4).collect::<Vec<_>>().join(" ");
        match (&self.before, &self.after) {
            (None, Some(after)) => format!("+ {} ({})", self.path, brief(after)),
            (Some(before), None) => format!("- {} ({})", self.path, brief(before)),
            (Some(before), Some(after)) => {
                let names = ["type", "mode", "owner", "group", "target", "content"];
                let parts: Vec<String> = names
                    .iter()
                    .zip(before.split('\t').zip(after.split('\t')))
                    .filter(|(_, (a, b))| a != b)
                    .map(|(name, (a, b))| match *name {
                        "content" => "content".to_owned(),
                        name => format!("{name} {a} → {b}"),
                    })
                    .collect();
                let what = if parts.is_empty() { "was written".to_owned() } else { parts.join(", ") };
                format!("~ {} ({what})", self.path)
            }
            (None, None) => self.path.clone(),
        }
    }
}

/// Keeps in a file one line a path: path, type, mode, owner, group, target, digest (BLAKE2: a third of the time of SHA-256). Owners and
/// groups are numbers: find would read the file with their names for each path, in four times the time. With `times`
/// the last is the time of the last change instead, which is quick and sees every write; without, that list is made by the same walk
/// and lies beside the other.
fn list_script(file: &str, times: bool, noise: &[&str]) -> String {
    let mut skip = String::new();
    for path in noise {
        let path = path.trim_end_matches('/');
        skip.push_str(&format!(" -o -path {}", quote(path)));
    }
    let skip = skip.trim_start_matches(" -o ");
    let changed = if times { file.to_owned() } else { beside(file) };
    // A directory's time moves with everything in it; its entries are listed themselves.
    let mut walk = format!(
        "cd / && find / -xdev \\( {skip} \\) -prune -o \\( -type d -fprintf {changed} '%p\\t%y\\t%m\\t%U\\t%G\\t\\t-\\n' \
         -o -fprintf {changed} '%p\\t%y\\t%m\\t%U\\t%G\\t%l\\t%C@\\n' \\)"
    );
    if !times {
        walk.push_str(&format!(
            " \\( -type f -fprint0 {file}.files -o -true \\) -fprintf {file}.paths '%p\\t%y\\t%m\\t%U\\t%G\\t%l\\n'; \
             {{ LC_ALL=C sort -z {file}.files | xargs -0 -r b2sum -z -- | tr '\\n\\0' '\\001\\n' \
             | sed 's/^\\([0-9a-f]*\\)  \\(.*\\)$/\\2\\t#\\1/'; cat {file}.paths; }} | LC_ALL=C sort \
             | awk -F '\\t' '$2 ~ /^#/ {{ path = $1; sum = $2; next }} {{ print $0 \"\\t\" ($1 == path ? sum : \"-\") }}' >{file} \
             && rm {file}.files {file}.paths"
        ));
    }
    // A file that vanishes meanwhile makes find fail.
    format!("{walk}; LC_ALL=C sort -o {changed} {changed}")
}

/// The list of times that is made with a list of digests, by label or file.
pub(crate) fn beside(list: &str) -> String {
    format!("{list}.times")
}

fn list_path(label: &str) -> String {
    format!("/run/converge-test/{label}")
}

/// Lists the file system without this noise, and keeps the list on the host, in `/run`; without `times` the one [`beside`] it too.
pub(crate) async fn take(
    engine: &Engine,
    host: &str,
    label: &str,
    times: bool,
    noise: &[&str],
) -> Result<(), TargetError> {
    let file = list_path(label);
    let script = format!(
        "umask 077; mkdir -p /run/converge-test && {} && [ \"$(wc -l <{file})\" -gt 100 ]",
        list_script(&file, times, noise)
    );
    let answer = engine.script(host, &script, LIMIT).await?;
    if answer.status == 0 {
        return Ok(());
    }
    let message = format!(
        "{host}: its file system cannot be listed (GNU find, sort and awk are needed): {}",
        answer.stderr.trim()
    );
    Err(TargetError::Refused(message))
}

/// Gives owners and groups their names, in what `comm -3` prints.
const NAMED: &str = r#"
BEGIN {
  FS = OFS = "\t"
  while (("getent passwd" | getline line) > 0) { split(line, part, ":"); user[part[3]] = part[1] }
  while (("getent group" | getline line) > 0) { split(line, part, ":"); group[part[3]] = part[1] }
}
{
  at = $1 == "" ? 5 : 4
  if ($at in user) $at = user[$at]
  if ($(at + 1) in group) $(at + 1) = group[$(at + 1)]
  print
}"#;

/// Lists again and says what differs from the list of this label.
pub(crate) async fn compare(
    engine: &Engine,
    host: &str,
    label: &str,
    times: bool,
    noise: &[&str],
) -> Result<Vec<Difference>, TargetError> {
    let now = format!("{label}-now");
    take(engine, host, &now, times, noise).await?;
    let (before, after) = (list_path(label), list_path(&now));
    let script = format!("LC_ALL=C comm -3 {before} {after} | head -n {} | awk '{NAMED}'", MOST * 2);
    let answer = engine.script(host, &script, LIMIT).await?;
    let mut found = differences(&answer.stdout);
    found.retain(|difference| !is_among(&difference.path, noise.iter().copied()));
    Ok(found)
}

/// Removes all lists.
pub(crate) async fn forget(engine: &Engine, host: &str) {
    // A host that no longer answers loses them at its next boot.
    let _gone = engine.script(host, "rm -rf /run/converge-test", LIMIT).await;
}

/// Reads what `comm -3` prints: lines of the second list begin with a tab.
fn differences(text: &str) -> Vec<Difference> {
    let mut found: BTreeMap<String, (Option<String>, Option<String>)> = BTreeMap::new();
    for line in text.lines() {
        let (later, line) = line.strip_prefix('\t').map_or((false, line), |rest| (true, rest));
        let Some((path, state)) = line.split_once('\t') else { continue };
        let entry = found.entry(path.to_owned()).or_default();
        if later {
            entry.1 = Some(state.to_owned());
        } else {
            entry.0 = Some(state.to_owned());
        }
    }
    found.into_iter().map(|(path, (before, after))| Difference { path, before, after }).collect()
}

/// Whether a path is one of these; one that ends with `/` stands for all below it.
pub(crate) fn is_among<'a>(path: &str, list: impl IntoIterator<Item = &'a str>) -> bool {
    list.into_iter().any(|known| match known.strip_suffix('/') {
        Some(above) => path == above || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')),
        None => path == known,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_say_what_changed() {
        let found = differences(
            "/a\tf\t644\troot\troot\t\t#1\n\t/a\tf\t600\troot\troot\t\t#2\n/gone\td\t755\troot\troot\t\t-\n\
             \t/new\tl\t777\troot\troot\t/x\t-\n",
        );
        let shown: Vec<String> = found.iter().map(Difference::shown).collect();
        assert_eq!(
            shown,
            ["~ /a (mode 644 → 600, content)", "- /gone (d 755 root root)", "+ /new (l 777 root root)"]
        );
    }

    #[test]
    fn owners_are_shown_by_name_where_they_have_one() {
        let script =
            format!(r"printf '/a\tf\t644\t0\t987654\t\t#1\n\t/a\tf\t644\t987654\t0\t\t#1\n' | awk '{NAMED}'");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let found = differences(&String::from_utf8_lossy(&output.stdout));
        let shown: Vec<String> = found.iter().map(Difference::shown).collect();
        assert_eq!(shown, ["~ /a (owner root → 987654, group 987654 → root)"], "{output:?}");
    }

    #[test]
    fn a_slash_at_the_end_means_all_below() {
        assert!(is_among("/srv/x/y", ["/srv/x/"]));
        assert!(is_among("/srv/x", ["/srv/x/"]));
        assert!(!is_among("/srv/xy", ["/srv/x/"]));
        assert!(!is_among("/srv/x/y", ["/srv/x"]));
    }

    /// The real tools, on this machine: what the script is for, on a small tree.
    #[test]
    fn the_list_has_a_line_a_path_with_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a b"), "x\n").unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::os::unix::fs::symlink("to", dir.path().join("l")).unwrap();
        let root = dir.path().to_str().unwrap();
        let noise = NOISE.iter().find(|n| format!("{root}/").starts_with(*n)).unwrap().trim_end_matches('/');
        for times in [false, true] {
            let lists = tempfile::tempdir().unwrap();
            let file = lists.path().join("list").display().to_string();
            let script = list_script(&file, times, NOISE)
                .replace("find / -xdev", &format!("find {root} -xdev"))
                .replace(&format!("-path {noise}"), "-path /nowhere");
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            let fields: Vec<Vec<&str>> = text.lines().map(|l| l.split('\t').collect()).collect();
            let text_beside = std::fs::read_to_string(beside(&file)).ok();
            assert_eq!(text_beside.map(|t| t.lines().count()), (!times).then_some(4));
            assert_eq!(fields.len(), 4, "{text}{}", String::from_utf8_lossy(&output.stderr));
            assert!(fields.iter().all(|f| f.len() == 7), "{text}");
            let file = fields.iter().find(|f| f[0].ends_with("/a b")).unwrap();
            assert_eq!(file[6].starts_with('#'), !times, "{text}");
            assert_eq!(fields.iter().find(|f| f[0].ends_with("/l")).unwrap()[5], "to");
        }
    }
}
