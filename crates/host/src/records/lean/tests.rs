use super::lean;
use crate::records::{library, readable_library};
use std::process::Command;

/// A host without dnf gets this text in a run. It only may grow for a reason.
const MOST_SENT: usize = 258_000;

/// Bash has read this: each function as it prints it, and the variables.
fn as_bash_reads(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("library");
    std::fs::write(&library, text).unwrap();
    let script = ". \"$1\"; declare -f; for name in $(compgen -v CV_); do declare -p \"$name\"; done";
    let output = Command::new("bash").args(["-c", script, "bash"]).arg(&library).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bash_reads_the_same_functions_in_what_is_sent_as_in_what_people_read() {
    let (sent, readable) = (as_bash_reads(&library(true)), as_bash_reads(&readable_library()));
    assert!(readable.matches("cv_order ()").count() == 1 && readable.len() > 200_000);
    for (sent, readable) in sent.lines().zip(readable.lines()) {
        assert_eq!(sent, readable);
    }
    assert_eq!(sent.len(), readable.len());
}

#[test]
fn what_is_sent_has_no_comments_and_no_indentation_and_is_short() {
    let (sent, readable) = (library(false), readable_library());
    let sent = sent.as_str();
    assert!(sent.len() <= MOST_SENT, "{} of {} bytes", sent.len(), readable.len());
    let comments = |text: &str| text.lines().filter(|line| line.trim_start().starts_with('#')).count();
    // Those that are left stand in programs of awk and sed.
    assert!(comments(sent) * 20 < comments(&readable), "{}", comments(sent));
    assert_eq!(lean(sent), sent);
}

#[test]
fn quotes_and_documents_stay_as_they_are() {
    let rows = [
        ("# a\n\nf() {\n  # b\n  c # d's\n}\n", "f() {\nc # d's\n}\n"),
        ("  a '\n  # b\n'\n  # c\n", "a '\n  # b\n'\n"),
        ("  a \"\n  # 'b\n\"\n  c\n", "a \"\n  # 'b\n\"\nc\n"),
        (
            "  a \"$(\n    b '\n      c'\n    # d)\"'\n  )\n  e\"\n  f\n",
            "a \"$(\nb '\n      c'\n)\n  e\"\nf\n",
        ),
        ("  a <<E <<'F'\n  # b's\n E\nE\n  \"\n\nF\n  c\n", "a <<E <<'F'\n  # b's\n E\nE\n  \"\n\nF\nc\n"),
        ("  a <<-E\n\t b\n\tE\n  c\n", "a <<-E\n\t b\n\tE\nc\n"),
        (
            "x=$(\n  case a in\n    a | (b)) c ;;\n    'd)') (e) ;;\n  esac\n)\n  f\n",
            "x=$(\ncase a in\na | (b)) c ;;\n'd)') (e) ;;\nesac\n)\nf\n",
        ),
        ("a() { case b in c) d ;; esac }\n  e\n", "a() { case b in c) d ;; esac }\ne\n"),
        ("  a \\\n    b\\\n  c\n", "a \\\n    b\\\n  c\n"),
        ("  a=${b#\"'\"}${c%'}'}$#${#d}\n  e\n", "a=${b#\"'\"}${c%'}'}$#${#d}\ne\n"),
        ("  a=\"${b:-it's}${c#'\"'}\"\n  d\n", "a=\"${b:-it's}${c#'\"'}\"\nd\n"),
        ("  a=$((1 << (2 + $(\n    b))))\n  c\n", "a=$((1 << (2 + $(\nb))))\nc\n"),
        ("  a `\n  # b\n`\n  c\\'d # '\n  e\n", "a `\n  # b\n`\nc\\'d # '\ne\n"),
        ("  a#b é \"\\\"\n  c\"\n  d", "a#b é \"\\\"\n  c\"\nd"),
        // A text that is not understood stays whole.
        ("  a 'b\n  c\n", "  a 'b\n  c\n"),
        ("  a)\n  b\n", "  a)\n  b\n"),
        ("  a <<E\n  b\n", "  a <<E\n  b\n"),
        ("  a <<$(b)\n  c\n", "  a <<$(b)\n  c\n"),
    ];
    for (text, expected) in rows {
        assert_eq!(lean(text), expected, "{text}");
    }
}

proptest::proptest! {
    /// No text makes it fail, and what it leaves out is blanks, comments and empty lines.
    #[test]
    fn any_text_is_read(text in "([a-f #\\\\'\"`$(){}<\n\t;|-]|case x in|esac|é){0,60}") {
        let sent = lean(&text);
        proptest::prop_assert_eq!(&lean(&sent), &sent);
        let mut rest = text.lines();
        for line in sent.lines() {
            proptest::prop_assert!(rest.any(|all| all.trim_start() == line.trim_start()), "{:?} {:?}", line, text);
        }
    }
}
