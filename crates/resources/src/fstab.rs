//! Lines of `/etc/fstab`.

use crate::attrs::Attrs;
use crate::edit::Edit;
use converge_resource::{Stop, View, Wanted};

/// The file that lists mounts and swap of the boot.
pub const FSTAB: &str = "/etc/fstab";

/// The fields of a line that is no comment, decoded; fields that are left out are as fstab(5) says.
fn fields(line: &str) -> Option<Vec<String>> {
    let text = line.trim();
    if text.is_empty() || text.starts_with('#') {
        return None;
    }
    let mut out: Vec<String> = text.split_ascii_whitespace().map(decode).collect();
    for missing in ["none", "none", "auto", "defaults", "0", "0"].iter().skip(out.len()) {
        out.push((*missing).to_owned());
    }
    Some(out)
}

fn decode(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

fn encode(field: &str) -> String {
    field.replace('\\', "\\134").replace(' ', "\\040").replace('\t', "\\011").replace('\n', "\\012")
}

/// The identity of a line.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// The mount point.
    MountPoint(&'a str),
    /// Swap on this file or device.
    Swap(&'a str),
    /// All swap.
    AllSwap,
}

impl Which<'_> {
    fn is(&self, fields: &[String]) -> bool {
        match (self, fields) {
            (Self::MountPoint(at), [_, point, kind, ..]) => {
                kind != "swap" && crate::look::normal(point) == crate::look::normal(at)
            }
            (Self::Swap(path), [source, _, kind, ..]) => kind == "swap" && source == path,
            (Self::AllSwap, [_, _, kind, ..]) => kind == "swap",
            _ => false,
        }
    }
}

/// The text with this one line for `which`, or with none. Other lines, comments and spacing stay; a line that says the same stays
/// as it is written. Lines of swap that go are commented out.
pub fn with(text: &str, which: Which<'_>, entry: Option<&[String]>) -> String {
    let mut out = String::new();
    let mut put = entry.is_none();
    for line in text.split_inclusive('\n') {
        match fields(line) {
            Some(found) if which.is(&found) => {
                match entry {
                    Some(entry) if !put && found == entry => out.push_str(line),
                    Some(entry) if !put => out.push_str(&render(entry)),
                    None if matches!(which, Which::AllSwap) => out.push_str(&format!("# {line}")),
                    _ => {}
                }
                put = true;
            }
            _ => out.push_str(line),
        }
    }
    if let (false, Some(entry)) = (put, entry) {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&render(entry));
    }
    out
}

fn render(entry: &[String]) -> String {
    let fields: Vec<String> = entry.iter().map(|f| encode(f)).collect();
    format!("{}\n", fields.join(" "))
}

/// Plans the file with this line.
pub fn plan(view: &dyn View, which: Which<'_>, entry: Option<&[String]>) -> Result<Wanted, Stop> {
    let attrs = Attrs { mode: None, owner: None, group: None };
    let edit = Edit { path: FSTAB, create: true, removes: entry.is_none(), attrs, culprit: "" };
    edit.plan(view, &|text| Ok(with(text, which, entry)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "# the disks\nUUID=1  /      ext4 errors=remount-ro 0 1\n/dev/sdb1\t/my\\040data xfs\n\
        /swapfile none swap sw 0 0\nUUID=9 none swap sw 0 0\n";

    fn entry(fields: [&str; 6]) -> Vec<String> {
        fields.map(str::to_owned).to_vec()
    }

    #[test]
    fn one_line_is_set_and_the_rest_is_kept() {
        let same = entry(["/dev/sdb1", "/my data", "xfs", "defaults", "0", "0"]);
        assert_eq!(with(TEXT, Which::MountPoint("/my data/"), Some(&same)), TEXT);
        let other = entry(["/dev/sdc1", "/my data", "xfs", "noatime", "0", "2"]);
        let new = with(TEXT, Which::MountPoint("/my data"), Some(&other));
        assert!(new.contains("/dev/sdc1 /my\\040data xfs noatime 0 2\n") && !new.contains("sdb1"), "{new}");
        assert!(new.starts_with("# the disks\nUUID=1  /      ext4"));
        assert!(!with(TEXT, Which::MountPoint("/"), None).contains("UUID=1"));
        assert_eq!(
            with("a", Which::MountPoint("/x"), Some(&entry(["a", "/x", "b", "c", "0", "0"]))),
            "a\na /x b c 0 0\n"
        );
    }

    #[test]
    fn swap_is_commented_out() {
        let off = with(TEXT, Which::AllSwap, None);
        assert!(off.contains("\n# /swapfile none swap sw 0 0\n# UUID=9 none swap sw 0 0\n"), "{off}");
        assert_eq!(with(&off, Which::AllSwap, None), off);
        assert!(!with(TEXT, Which::Swap("/swapfile"), None).contains("swapfile"));
    }

    proptest! {
        #[test]
        fn an_edit_of_its_own_result_changes_nothing(
            text in "(#? ?[a/\\\\ ]{0,9}( [/b]{1,3}( swap| xfs)?( ro)?)?\n){0,5}",
            at in "/[ab]{0,2}",
            set: bool,
        ) {
            let line = entry(["src", &at, "xfs", "ro", "0", "0"]);
            for which in [Which::MountPoint(&at), Which::AllSwap] {
                let wish = set.then_some(line.as_slice()).filter(|_| matches!(which, Which::MountPoint(_)));
                let once = with(&text, which, wish);
                prop_assert_eq!(with(&once, which, wish), once);
            }
        }
    }
}
