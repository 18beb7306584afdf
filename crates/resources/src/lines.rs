//! Edits of lines, as Ansible's `lineinfile` makes them. Pure text.

use regex::{Captures, Regex};

/// The position of a new line.
#[derive(Clone, Debug)]
pub enum Insert {
    /// After the last line.
    End,
    /// Before the first line.
    Begin,
    /// After the last line that matches; else after the last line.
    After(Regex),
    /// Before the last line that matches; else after the last line.
    Before(Regex),
}

impl Insert {
    /// Before which line the new text goes.
    pub fn index(&self, lines: &[String], first_match: bool) -> usize {
        let matching = |r: &Regex| {
            let found = positions(lines, |l| search(r, l).is_some());
            if first_match { found.first().copied() } else { found.last().copied() }
        };
        match self {
            Self::Begin => 0,
            Self::End => lines.len(),
            Self::After(r) => matching(r).map_or(lines.len(), |i| i + 1),
            Self::Before(r) => matching(r).unwrap_or(lines.len()),
        }
    }
}

/// The line ending of a text: that of most of its lines; of as many of either sort, that of the first.
pub fn ending(text: &str) -> &'static str {
    let lines = || text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let is_crlf = |line: &&str| line.ends_with("\r\n");
    let (crlf, all) = (lines().filter(is_crlf).count(), lines().count());
    let first = lines().next().is_some_and(|line| is_crlf(&line));
    if crlf * 2 > all || (crlf * 2 == all && first) { "\r\n" } else { "\n" }
}

/// Ends the line before this one, or new text would be glued to it.
pub fn end_line_before(lines: &mut [String], at: usize, ending: &str) {
    if let Some(before) = at.checked_sub(1).and_then(|i| lines.get_mut(i)) {
        *before = ended(before, ending);
    }
}

/// One wanted line.
#[derive(Clone, Debug)]
pub struct LineEdit<'a> {
    pub line: &'a str,
    pub regexp: Option<&'a Regex>,
    pub insert: Insert,
    /// Fill `\1` and `\g<name>` from the match; without a match change nothing.
    pub backrefs: bool,
    /// The first match counts instead of the last.
    pub first_match: bool,
}

/// Searches a line as Python's `re.search` does in a line with its newline: `$` also stands before that newline. Here this holds for CRLF too.
fn search<'t>(regexp: &Regex, line: &'t str) -> Option<Captures<'t>> {
    let without = |ending: &str| line.strip_suffix(ending).and_then(|line| regexp.captures(line));
    without("\r\n").or_else(|| without("\n")).or_else(|| regexp.captures(line))
}

fn bare(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

fn ended(line: &str, ending: &str) -> String {
    if line.ends_with('\n') { line.to_owned() } else { format!("{line}{ending}") }
}

impl LineEdit<'_> {
    /// The text with the line in it.
    pub fn present(&self, text: &str) -> String {
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        let ending = ending(text);
        let matching: Vec<usize> = match self.regexp {
            Some(r) => positions(&lines, |l| search(r, l).is_some()),
            None => Vec::new(),
        };
        let matched = if self.first_match { matching.first() } else { matching.last() }.copied();
        let equal = || positions(&lines, |l| bare(l) == self.line).last().copied();
        let new = match (matched.and_then(|at| lines.get(at)), self.regexp) {
            (Some(old), Some(r)) if self.backrefs => search(r, old).map(|c| expand(self.line, &c)),
            _ => None,
        };
        let new = ended(new.as_deref().unwrap_or(self.line), ending);
        if let Some(old) = matched.or_else(equal).and_then(|at| lines.get_mut(at)) {
            *old = new;
            return lines.concat();
        }
        if self.backrefs {
            return text.to_owned();
        }
        let at = self.insert.index(&lines, self.first_match);
        end_line_before(&mut lines, at, ending);
        lines.insert(at.min(lines.len()), new);
        lines.concat()
    }
}

/// The text without the lines that match; without a regular expression, without the lines that are equal.
pub fn without(text: &str, line: Option<&str>, regexp: Option<&Regex>) -> String {
    let goes = |l: &&str| match regexp {
        Some(r) => search(r, l).is_some(),
        None => line == Some(bare(l)),
    };
    text.split_inclusive('\n').filter(|l| !goes(l)).collect()
}

fn positions(lines: &[String], wanted: impl Fn(&str) -> bool) -> Vec<usize> {
    lines.iter().enumerate().filter(|(_, l)| wanted(l)).map(|(i, _)| i).collect()
}

/// Python's `match.expand`: `\1`, `\g<1>`, `\g<name>`, `\n`, `\t`, `\\`; other escapes stay as they are.
fn expand(template: &str, captures: &Captures<'_>) -> String {
    let group = |name: &str| match name.parse::<usize>() {
        Ok(number) => captures.get(number),
        Err(_) => captures.name(name),
    };
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let digits = after.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let (number, tail) = after.split_at(digits);
            out.push_str(group(number).map_or("", |m| m.as_str()));
            rest = tail;
        } else if let Some((name, tail)) = after.strip_prefix("g<").and_then(|a| a.split_once('>')) {
            out.push_str(group(name).map_or("", |m| m.as_str()));
            rest = tail;
        } else {
            let mut chars = after.chars();
            match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('\\') => out.push('\\'),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            }
            rest = chars.as_str();
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit<'a>(line: &'a str, regexp: Option<&'a Regex>) -> LineEdit<'a> {
        LineEdit { line, regexp, insert: Insert::End, backrefs: false, first_match: false }
    }

    fn re(text: &str) -> Regex {
        Regex::new(text).unwrap()
    }

    // The cases of lineinfile's documentation and of its source, one each.
    #[test]
    fn the_last_match_is_replaced() {
        let r = re("^SELINUX=");
        assert_eq!(
            edit("SELINUX=x", Some(&r)).present("SELINUX=a\nb\nSELINUX=c\n"),
            "SELINUX=a\nb\nSELINUX=x\n"
        );
        let first = LineEdit { first_match: true, ..edit("SELINUX=x", Some(&r)) };
        assert_eq!(first.present("SELINUX=a\nb\nSELINUX=c\n"), "SELINUX=x\nb\nSELINUX=c\n");
    }

    #[test]
    fn a_line_that_is_there_stays_where_it_is() {
        assert_eq!(edit("b", None).present("a\nb\nc\n"), "a\nb\nc\n");
        let r = re("^nothing");
        let after = LineEdit { insert: Insert::After(re("^c")), ..edit("b", Some(&r)) };
        assert_eq!(after.present("a\nb\nc\n"), "a\nb\nc\n");
    }

    #[test]
    fn a_new_line_goes_to_its_place() {
        let r = re("^Listen ");
        let line = edit("Listen 8080", Some(&r));
        let with = |insert| LineEdit { insert, ..line.clone() }.present("a\n#Listen 80\nb\n#Listen 81\nc\n");
        assert_eq!(with(Insert::End), "a\n#Listen 80\nb\n#Listen 81\nc\nListen 8080\n");
        assert_eq!(with(Insert::Begin), "Listen 8080\na\n#Listen 80\nb\n#Listen 81\nc\n");
        assert_eq!(with(Insert::After(re("^#Listen "))), "a\n#Listen 80\nb\n#Listen 81\nListen 8080\nc\n");
        assert_eq!(with(Insert::Before(re("^#Listen "))), "a\n#Listen 80\nb\nListen 8080\n#Listen 81\nc\n");
        assert_eq!(with(Insert::Before(re("^none"))), "a\n#Listen 80\nb\n#Listen 81\nc\nListen 8080\n");
        let first = LineEdit { first_match: true, insert: Insert::After(re("^#Listen ")), ..line.clone() };
        assert_eq!(first.present("#Listen 80\n#Listen 81\n"), "#Listen 80\nListen 8080\n#Listen 81\n");
    }

    #[test]
    fn a_missing_last_newline_is_added_before_the_new_line() {
        assert_eq!(edit("b", None).present("a"), "a\nb\n");
        assert_eq!(edit("b", None).present(""), "b\n");
        let after = LineEdit { insert: Insert::After(re("^a")), ..edit("b", None) };
        assert_eq!(after.present("a"), "a\nb\n");
    }

    #[test]
    fn other_lines_keep_their_line_endings() {
        let r = re("^k=");
        assert_eq!(edit("k=2", Some(&r)).present("a\nk=1\nb\r\n"), "a\nk=2\nb\r\n");
        assert_eq!(without("a\r\nk=1\r\nb", Some("k=1"), None), "a\r\nb");
    }

    #[test]
    fn new_lines_end_as_those_of_the_file() {
        let r = re("^k=");
        assert_eq!(edit("k=2", Some(&r)).present("a\r\nk=1\r\nb\r\n"), "a\r\nk=2\r\nb\r\n");
        assert_eq!(edit("c", None).present("a\r\nb"), "a\r\nb\r\nc\r\n");
        assert_eq!(edit("b", None).present("a\r\nb\r\n"), "a\r\nb\r\n", "it is there");
        let back = re(r"^k=(.*)$");
        let with_match = LineEdit { backrefs: true, ..edit(r"k=[\1]", Some(&back)) };
        assert_eq!(with_match.present("k=1\r\n"), "k=[1]\r\n");
        for (text, wanted) in
            [("", "\n"), ("a", "\n"), ("a\r\nb\n", "\r\n"), ("a\nb\r\n", "\n"), ("a\nb\r\nc\r\n", "\r\n")]
        {
            assert_eq!(ending(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn back_references_need_a_match() {
        let r = re(r"^(\s*)port=(?P<n>\d+)$");
        let line = LineEdit { backrefs: true, ..edit(r"\1port=\g<n>0 \\", Some(&r)) };
        assert_eq!(line.present("  port=80\n"), "  port=800 \\\n");
        assert_eq!(line.present("nothing\n"), "nothing\n");
    }

    #[test]
    fn dollar_stands_before_the_newline() {
        let r = re("^a$");
        assert_eq!(edit("b", Some(&r)).present("a\n"), "b\n");
        assert_eq!(without("a\nab\n", None, Some(&r)), "ab\n");
        assert_eq!(without("a\nab\n", None, Some(&re(r"a\s"))), "ab\n");
    }
}
