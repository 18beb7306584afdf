//! Lines of `/etc/fstab`.

use crate::attrs::Attrs;
use crate::edit::Edit;
use converge_resource::{Stop, View, WantedStates};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::collections::BTreeMap;

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

/// The mount point, or the swap space, to which a line belongs.
fn key(fields: &[String]) -> Option<String> {
    match fields {
        [source, _, kind, ..] if kind == "swap" => Some(source.clone()),
        [_, point, ..] => Some(crate::look::normal(point)),
        _ => None,
    }
}

/// The lines of each mount point and swap space, as they are written.
fn by_key(text: &str) -> BTreeMap<String, Vec<&str>> {
    let mut lines: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in text.split_inclusive('\n') {
        if let Some(key) = fields(line).as_deref().and_then(key) {
            lines.entry(key).or_default().push(line);
        }
    }
    lines
}

/// A line of a run that is not as the run left it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the line of {0} in it was changed by someone else since")]
pub struct ChangedLine(pub String);

/// The place in the second text of each line of the first one that is in both, in one order.
fn places(first: &[&str], second: &[&str]) -> Vec<Option<usize>> {
    let bare = |lines: &[&str]| -> Vec<String> {
        lines.iter().map(|line| line.trim_end_matches('\n').to_owned()).collect()
    };
    let mut places = vec![None; first.len()];
    for op in capture_diff_slices(Algorithm::Myers, &bare(first), &bare(second)) {
        if let DiffOp::Equal { old_index, new_index, len } = op {
            let those = places.iter_mut().skip(old_index).take(len);
            those.zip(new_index..).for_each(|(place, at)| *place = Some(at));
        }
    }
    places
}

/// Appends a line, on a line of its own.
fn put(out: &mut String, line: &str) {
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(line);
}

/// Lines that come back and have no place in a text.
type UnplacedLines<'a> = BTreeMap<&'a str, &'a [&'a str]>;

/// The text without the comments and empty lines that a change has added; those that it has removed, and the missing lines that it has, stand again
/// behind what was before them.
fn around_taken_back(now: &str, (before, after): (&str, &str), missing: &mut UnplacedLines<'_>) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let stayed = places(&old, &new);
    let is_added = |at: usize, line: &str| fields(line).is_none() && !stayed.contains(&Some(at));
    let present: Vec<&str> = now.split_inclusive('\n').collect();
    let added = places(&new, &present).into_iter().zip(&new).enumerate();
    let added: Vec<usize> =
        added.filter(|(at, (_, line))| is_added(*at, line)).filter_map(|(_, (place, _))| place).collect();
    let retained = present.iter().enumerate().filter(|(at, _)| !added.contains(at));
    let retained: Vec<&str> = retained.map(|(_, line)| *line).collect();
    let (was, is) = (by_key(before), by_key(after));
    let comes = |key: &str, lines: &[&str]| {
        was.get(key).map(Vec::as_slice) == Some(lines) && is.get(key).map(Vec::as_slice) != Some(lines)
    };
    let come: Vec<&str> =
        missing.iter().filter(|(key, lines)| comes(key, lines)).map(|(key, _)| *key).collect();
    let mut behind: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let mut last = 0;
    for ((line, place), stayed) in old.iter().zip(places(&old, &retained)).zip(&stayed) {
        let returns = match fields(line).as_deref().and_then(key) {
            Some(key) => come.contains(&key.as_str()),
            None => stayed.is_none(),
        };
        match place {
            Some(place) => last = place + 1,
            None if returns => behind.entry(last).or_default().push(line),
            None => {}
        }
    }
    missing.retain(|key, _| !come.contains(key));
    let mut out = String::new();
    for at in 0..=retained.len() {
        behind.remove(&at).into_iter().flatten().for_each(|line| put(&mut out, line));
        retained.get(at).into_iter().for_each(|line| put(&mut out, line));
    }
    out
}

/// The changes of `/etc/fstab`: for each mount point and swap space, its lines before them and after them; and the changes, for what stands
/// around these lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinesChanged<'a> {
    of: BTreeMap<String, (Vec<&'a str>, Vec<&'a str>)>,
    changes: Vec<(&'a str, &'a str)>,
}

impl<'a> LinesChanged<'a> {
    /// By these changes of the text, from the first to the last. Others may have changed it in between.
    pub fn by(changes: &[(&'a str, &'a str)]) -> Self {
        let mut of: BTreeMap<String, (Vec<&str>, Vec<&str>)> = BTreeMap::new();
        for (before, after) in changes {
            let (mut was, mut is) = (by_key(before), by_key(after));
            let keys: Vec<String> = was.keys().chain(is.keys()).cloned().collect();
            for key in keys {
                let (old, new) = (was.remove(&key).unwrap_or_default(), is.remove(&key).unwrap_or_default());
                if old != new {
                    of.entry(key).or_insert_with(|| (old, Vec::new())).1 = new;
                }
            }
        }
        of.retain(|_, (old, new)| old != new);
        Self { of, changes: changes.to_vec() }
    }

    /// Whether they changed a line of this mount point or swap space.
    pub fn has(&self, key: &str) -> bool {
        self.of.contains_key(key)
    }

    /// The lines of one mount point or swap space alone.
    #[must_use]
    pub fn only(mut self, key: &str) -> Self {
        self.of.retain(|own, _| own == key);
        self.changes.clear();
        self
    }

    /// The same without the lines of these mount points and swap spaces.
    #[must_use]
    pub fn without(mut self, keys: &[&str]) -> Self {
        self.of.retain(|own, _| !keys.contains(&own.as_str()));
        self
    }

    /// The present text with these lines as they were before, and all others as they are.
    ///
    /// # Errors
    /// One of the lines is neither as it was before nor as it was left.
    pub fn taken_back(&self, now: &str) -> Result<String, ChangedLine> {
        let present = by_key(now);
        let mut back: UnplacedLines<'_> = BTreeMap::new();
        for (key, (old, new)) in &self.of {
            let is = |lines: &[&str]| {
                let read = |lines: &[&str]| lines.iter().map(|line| fields(line)).collect::<Vec<_>>();
                read(present.get(key).map(Vec::as_slice).unwrap_or_default()) == read(lines)
            };
            if is(new) {
                back.insert(key, old);
            } else if !is(old) {
                return Err(ChangedLine(key.clone()));
            }
        }
        let mut out = String::new();
        for line in now.split_inclusive('\n') {
            match fields(line).as_deref().and_then(key) {
                // The first one gives its place to all, and the others find none left.
                Some(key) if self.of.contains_key(&key) && back.contains_key(key.as_str()) => {
                    let lines = back.insert(self.of.get_key_value(&key).map_or("", |(key, _)| key), &[]);
                    lines.into_iter().flatten().for_each(|line| put(&mut out, line));
                }
                _ => put(&mut out, line),
            }
        }
        back.retain(|_, lines| !lines.is_empty());
        for change in self.changes.iter().rev() {
            out = around_taken_back(&out, *change, &mut back);
        }
        back.values().copied().flatten().for_each(|line| put(&mut out, line));
        Ok(out)
    }
}

fn render(entry: &[String]) -> String {
    let fields: Vec<String> = entry.iter().map(|f| encode(f)).collect();
    format!("{}\n", fields.join(" "))
}

/// Plans the file with this line.
pub fn plan(view: &dyn View, which: Which<'_>, entry: Option<&[String]>) -> Result<WantedStates, Stop> {
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
    fn one_line_is_set_and_the_rest_is_preserved() {
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

    #[test]
    fn changes_of_lines_are_taken_back_and_those_of_others_stay() {
        let line = |at: &str, options: &str| format!("tmpfs {at} tmpfs {options} 0 0\n");
        let (a, b, b2, c) = (line("/a", "ro"), line("/b", "nosuid"), line("/b", "nodev"), line("/c", "ro"));
        let steps =
            [format!("# d\n{c}"), format!("# d\n{c}{b}"), format!("# d\n{c}{b}{a}"), format!("# d\n{b2}{a}")];
        let [s0, s1, s2, s3] = steps.each_ref().map(String::as_str);
        let all = LinesChanged::by(&[(s0, s1), (s2, s3)]);
        assert!(all.has("/b") && all.has("/c") && !all.has("/a"));
        assert_eq!(all.taken_back(s3).unwrap(), format!("# d\n{c}{a}"));
        let last = LinesChanged::by(&[(s2, s3)]);
        assert_eq!(last.taken_back(s3).unwrap(), s2);
        assert_eq!(last.clone().only("/b").taken_back(s3).unwrap(), format!("# d\n{b}{a}"));
        // A line that is back already stays as it is; so do comments and a last line without its newline.
        assert_eq!(last.taken_back(&format!("{c}{b}# e")).unwrap(), format!("{c}{b}# e"));
        assert_eq!(last.taken_back(b2.trim_end()).unwrap(), format!("{c}{b}"));
        let other = line("/b", "noexec");
        assert_eq!(last.taken_back(&other), Err(ChangedLine("/b".to_owned())));
        // Swap that was commented out comes back.
        let off = with(TEXT, Which::AllSwap, None);
        let swap = LinesChanged::by(&[(TEXT, &off)]).taken_back(&off).unwrap();
        assert_eq!(swap, TEXT);
    }

    #[test]
    fn what_stands_around_the_lines_goes_and_comes_with_them() {
        let block = "# BEGIN\n# hello\n\ntmpfs /b tmpfs ro 0 0\n# END\n";
        let (a, c) = ("# a\ntmpfs /a tmpfs ro 0 0\n", "tmpfs /c tmpfs ro 0 0\n# c\n");
        let (found, left) = (format!("# orig\n{a}"), format!("# orig\n{a}{block}"));
        let added = LinesChanged::by(&[(&found, &left)]);
        let now = format!("# orig\n{block}{c}");
        assert_eq!(added.taken_back(&now).unwrap(), format!("# orig\n{c}"));
        assert_eq!(added.taken_back(&format!("# orig\n{c}")).unwrap(), format!("# orig\n{c}"));
        // A block that a run has removed comes back as one, whatever others have put there since.
        let removed = LinesChanged::by(&[(&left, &found)]);
        let now = format!("# orig\n{a}{c}");
        let back = removed.taken_back(&now).unwrap();
        assert_eq!(back, format!("# orig\n{a}{block}{c}"));
        assert_eq!(removed.taken_back(&back).unwrap(), back);
        // A comment that a run has changed gets its place again.
        let other = left.replace("hello", "hullo");
        let changed = LinesChanged::by(&[(&left, &other)]);
        assert_eq!(changed.taken_back(&format!("{c}{other}")).unwrap(), format!("{c}{left}"));
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
