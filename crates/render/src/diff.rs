//! Unified diffs of text, with the changed words of a line marked.

use crate::text::{Line, Look, Text, Tone, columns, visible};
use converge_resource::counted;
use similar::{ChangeTag, DiffOp, InlineChangeOptions, TextDiff};
use std::time::Duration;

/// Lines of equal text around a change.
const CONTEXT: usize = 3;
/// After this long the diff is no longer the smallest one, but still right.
const PATIENCE: Duration = Duration::from_secs(2);
/// New or removed files show this many lines, unless verbose.
const WHOLE: usize = 40;
/// Lines of a diff that are shown.
const DIFF: usize = 200;
/// Characters of equal text, and of changed text, that are shown at either end of a longer stretch.
const EQUAL_ENDS: usize = 80;
const CHANGED_ENDS: usize = 200;

/// The diff as plain text, without markers of words: what `diff -u` prints below its file names.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    diff.unified_diff().context_radius(CONTEXT).to_string()
}

/// The diff for people, indented. Changed words are underlined, or marked in a line `?` below where there is no colour.
pub(crate) fn hunks(old: &str, new: &str, indent: usize, look: &Look) -> Text {
    let mut text = Text::new();
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    let mut hidden = 0;
    for group in diff.grouped_ops(CONTEXT) {
        if hidden > 0 {
            hidden += group.iter().map(|op| op.old_range().len().max(op.new_range().len())).sum::<usize>();
            continue;
        }
        text.push(Line::at(indent).say(Tone::Place, header(&group)));
        for op in &group {
            let mut options = InlineChangeOptions::new();
            options.semantic_cleanup(true);
            if text.lines().len() > DIFF && !whole_wanted(look) {
                hidden += op.old_range().len().max(op.new_range().len());
                continue;
            }
            for change in diff.iter_inline_changes_with_options(op, options) {
                let words: Vec<(bool, &str)> = change.values().iter().map(|(e, s)| (*e, *s)).collect();
                push_line(&mut text, change.tag(), &words, change.missing_newline(), indent, look);
            }
        }
    }
    // One stretch may be longer than all that is shown.
    if !whole_wanted(look) {
        hidden += text.keep(DIFF + CONTEXT);
    }
    if hidden > 0 {
        text.push(
            Line::at(indent)
                .faint(format!("… {} of the diff left out ({ALL})", counted(hidden, "more line"))),
        );
    }
    text
}

const ALL: &str = "--full-diff shows all";

fn whole_wanted(look: &Look) -> bool {
    look.full_diff || look.verbose
}

/// A stretch of a line, its middle left out where it is very long.
fn shortened(words: &str, ends: usize) -> Option<String> {
    let long = words.chars().count();
    if long <= 3 * ends {
        return None;
    }
    let head: String = words.chars().take(ends).collect();
    let tail: String = words.chars().skip(long - ends).collect();
    Some(format!("{head} … {} characters … {tail}", long - 2 * ends))
}

/// All lines of a file that comes or goes.
pub(crate) fn whole(content: &str, tag: ChangeTag, indent: usize, look: &Look) -> Text {
    let mut text = Text::new();
    let lines: Vec<&str> = content.split_inclusive('\n').collect();
    // A few lines more are better than a line that says so.
    let shown = if whole_wanted(look) || lines.len() <= WHOLE + 5 { lines.len() } else { WHOLE };
    for line in lines.iter().take(shown) {
        push_line(&mut text, tag, &[(false, line)], !line.ends_with('\n'), indent, look);
    }
    if shown < lines.len() {
        let more = lines.len() - shown;
        text.push(Line::at(indent).faint(format!("… {more} more lines ({ALL})")));
    }
    text
}

/// `@@ -1,3 +1,4 @@`, counted as `diff -u` counts.
fn header(group: &[DiffOp]) -> String {
    let range = |start: usize, end: usize| match end.saturating_sub(start) {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        n => format!("{},{n}", start + 1),
    };
    match (group.first(), group.last()) {
        (Some(first), Some(last)) => {
            let old = range(first.old_range().start, last.old_range().end);
            let new = range(first.new_range().start, last.new_range().end);
            format!("@@ -{old} +{new} @@")
        }
        _ => "@@".to_owned(),
    }
}

fn push_line(
    text: &mut Text,
    tag: ChangeTag,
    words: &[(bool, &str)],
    unended: bool,
    indent: usize,
    look: &Look,
) {
    let (sign, tone, word_tone) = match tag {
        ChangeTag::Equal => (" ", Tone::Plain, Tone::Plain),
        ChangeTag::Delete => ("-", Tone::Remove, Tone::RemoveWord),
        ChangeTag::Insert => ("+", Tone::Add, Tone::AddWord),
    };
    let mut line = Line::at(indent).say(tone, sign);
    let mut marks = String::new();
    let mut marked = false;
    let mut unmarked = false;
    for (emphasised, word) in words {
        let word = word.strip_suffix('\n').unwrap_or(word);
        let ends = if *emphasised { CHANGED_ENDS } else { EQUAL_ENDS };
        let short = if whole_wanted(look) { None } else { shortened(word, ends) };
        let word = short.as_deref().unwrap_or(word);
        line = line.say(if *emphasised { word_tone } else { tone }, word);
        marked |= *emphasised && !word.is_empty();
        unmarked |= !*emphasised && !word.trim().is_empty();
        for c in visible(word).chars() {
            match c {
                '\t' => marks.push('\t'),
                _ if *emphasised => marks.extend(std::iter::repeat_n('^', columns(&c.to_string()))),
                _ => marks.extend(std::iter::repeat_n(' ', columns(&c.to_string()))),
            }
        }
    }
    text.push(line);
    // As in Python's ndiff. A line that changed altogether needs no marks.
    if marked && unmarked && !look.color {
        text.push(Line::at(indent).say(Tone::Faint, "?").faint(marks.trim_end()));
    }
    if unended {
        text.push(Line::at(indent).faint("\\ No newline at end of file"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_words_are_marked_without_colour() {
        let old = "a\nb\nc\nd\nkeepalive 65;\ne\n";
        let new = "a\nb\nc\nd\nkeepalive 30;\ne\nf";
        insta::assert_snapshot!(hunks(old, new, 2, &Look::PLAIN).draw(&Look::PLAIN));
    }

    #[test]
    fn changed_words_are_underlined_with_colour() {
        let look = Look { color: true, ..Look::PLAIN };
        let drawn = hunks("x 1\n", "x 2\n", 0, &look).draw(&look);
        assert!(drawn.contains("\u{1b}[32mx \u{1b}[0m\u{1b}[32;1;4m2"), "{drawn:?}");
        assert!(!drawn.contains('^'));
    }

    #[test]
    fn an_added_line_end_is_shown() {
        let drawn = hunks("a\r\n", "a\n", 0, &Look::PLAIN).draw(&Look::PLAIN);
        assert!(drawn.contains("-a\u{240d}\n"), "{drawn}");
        assert_eq!(unified("a\n", "b\n"), "@@ -1 +1 @@\n-a\n+b\n");
    }

    #[test]
    fn huge_diffs_are_cut_and_say_so() {
        let lines = |word: &str| -> String { (0..3000).map(|n| format!("{word} {n}\n")).collect() };
        let drawn = hunks(&lines("old"), &lines("new"), 0, &Look::PLAIN).draw(&Look::PLAIN);
        assert!(drawn.lines().count() < 260, "{}", drawn.lines().count());
        assert!(drawn.ends_with("of the diff left out (--full-diff shows all)\n"), "{drawn}");
        let full = Look { full_diff: true, ..Look::PLAIN };
        assert!(hunks(&lines("old"), &lines("new"), 0, &full).draw(&full).lines().count() >= 6000);
    }

    #[test]
    fn of_a_very_long_line_the_change_is_visible() {
        let line = |word: &str| {
            format!(
                "{{\"a\": \"{}\", \"key\": {word}, \"z\": \"{}\"}}\n",
                "x".repeat(20_000),
                "y".repeat(20_000)
            )
        };
        let drawn = hunks(&line("1"), &line("2"), 0, &Look::PLAIN).draw(&Look::PLAIN);
        assert!(drawn.len() < 3000, "{}", drawn.len());
        assert!(drawn.contains("\"key\": 1") && drawn.contains("\"key\": 2"), "{drawn}");
        assert!(drawn.contains("characters …"), "{drawn}");
        let whole = whole(&line("1"), ChangeTag::Insert, 0, &Look::PLAIN).draw(&Look::PLAIN);
        assert!(whole.len() < 700, "{}", whole.len());
    }

    #[test]
    fn long_new_files_are_cut_unless_verbose() {
        let long: String = (0..100).map(|n| format!("{n}\n")).collect();
        let cut = whole(&long, ChangeTag::Insert, 0, &Look::PLAIN).draw(&Look::PLAIN);
        assert!(cut.ends_with("+39\n… 60 more lines (--full-diff shows all)\n"), "{cut}");
        let verbose = Look { verbose: true, ..Look::PLAIN };
        assert!(whole(&long, ChangeTag::Insert, 0, &verbose).draw(&verbose).ends_with("+99\n"));
    }
}
