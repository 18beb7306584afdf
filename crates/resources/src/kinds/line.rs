//! `line`

use crate::attrs::{Attrs, Mode};
use crate::body::{check_validate, validate_setting};
use crate::edit::Edit;
use crate::lines::{Insert, LineEdit, without};
use crate::look::{check_path, path_id};
use crate::presence::Presence;
use converge_resource::{Claim, ParamError, Resource, Stop, View, WantedStates};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

/// One line of a text file, as Ansible's `lineinfile`.
///
/// With `regexp` the last line that matches is replaced. Where none matches, nothing is done if a line is equal
/// to `line`; else it is inserted where `insert_after` or `insert_before` says, or at the end. Other lines keep
/// their line endings; a line that is written ends as most lines of the file do, with LF or with CRLF. Regular
/// expressions are searched anywhere in a line, without its ending; look-around is not known. An edit that would change its own result again is refused: it would never be done.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TextLine {
    /// The absolute path of the file.
    path: String,
    /// The line, without its newline. Needed for `state: present`.
    line: Option<String>,
    /// Which lines to replace or remove.
    regexp: Option<String>,
    /// Whether the line is to be there.
    #[serde(default)]
    state: Presence,
    /// Insert after the last line that matches this regular expression, or after `EOF`, the end.
    insert_after: Option<String>,
    /// Insert before the last line that matches this regular expression, or before `BOF`, the beginning.
    insert_before: Option<String>,
    /// The first line that matches counts, instead of the last.
    #[serde(default)]
    first_match: bool,
    /// Fill `\1` and `\g<name>` in `line` from the match of `regexp`. Where nothing matches, nothing is done.
    #[serde(default)]
    backrefs: bool,
    /// Make the file when it does not exist.
    #[serde(default)]
    create: bool,
    /// Octal digits in quotes, as `"0644"`, or all of it in symbols, as `"u=rw,g=r,o="`. A new file has 0644 without it.
    mode: Option<Mode>,
    /// The owner's name.
    owner: Option<String>,
    /// The group's name.
    group: Option<String>,
    /// A command that checks the new content before it replaces the old: `%s` is the candidate file.
    validate: Option<String>,
}

/// Reads a regular expression of a parameter.
pub fn regexp(pointer: &str, text: &str) -> Result<Regex, ParamError> {
    Regex::new(text).map_err(|e| {
        let reason = match &e {
            regex::Error::Syntax(text) => {
                text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
            }
            other => other.to_string(),
        };
        let help =
            "look-around and back-references are not known; a literal `{`, `(` or `.` needs a backslash";
        ParamError::new(pointer, format!("`{text}` is not a regular expression: {reason}"), help)
    })
}

/// Where a new line goes, from the two parameters.
pub fn insert(after: Option<&str>, before: Option<&str>) -> Result<Insert, ParamError> {
    match (after, before) {
        (Some(_), Some(_)) => Err(ParamError::new(
            "/insert_before",
            "`insert_after` and `insert_before` are both given",
            "keep one of them",
        )),
        (None, None) | (Some("EOF"), None) | (None, Some("EOF")) => Ok(Insert::End),
        (Some("BOF"), None) | (None, Some("BOF")) => Ok(Insert::Begin),
        (Some(text), None) => regexp("/insert_after", text).map(Insert::After),
        (None, Some(text)) => regexp("/insert_before", text).map(Insert::Before),
    }
}

/// A wrong parameter that was not refused before, as a stop.
pub fn stop(error: ParamError) -> Stop {
    Stop::Invalid { pointer: error.pointer, message: error.message, help: error.help, open: None }
}

impl TextLine {
    fn attrs(&self) -> Attrs<'_> {
        Attrs { mode: self.mode, owner: self.owner.as_deref(), group: self.group.as_deref() }
    }

    fn insert(&self) -> Result<Insert, ParamError> {
        insert(self.insert_after.as_deref(), self.insert_before.as_deref())
    }
}

impl Resource for TextLine {
    const KIND: &'static str = "line";
    const EXAMPLE: &'static str = "\
- name: no login with a password
  line:
    path: /etc/ssh/sshd_config
    regexp: '^#?PasswordAuthentication\\b'
    line: PasswordAuthentication no
    validate: sshd -t -f %s
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        self.attrs().validate(&mut errors);
        check_validate(self.validate.as_ref(), &mut errors);
        if let Some(text) = &self.regexp {
            errors.extend(regexp("/regexp", text).err());
        }
        errors.extend(self.insert().err());
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        match (self.state, &self.line, &self.regexp) {
            (Presence::Present, None, _) => wrong("", "`line` is missing", "say which line is to be there"),
            (Presence::Absent, None, None) => {
                wrong("", "nothing is said to be removed", "give `line` or `regexp`")
            }
            _ => {}
        }
        if self.line.as_ref().is_some_and(|l| l.contains(['\n', '\r'])) {
            wrong("/line", "`line` has a line break in it", "use the kind `block` for several lines");
        }
        if self.backrefs && self.regexp.is_none() {
            wrong(
                "/backrefs",
                "`backrefs` needs `regexp`",
                "give the regular expression that they come from",
            );
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let id = path_id(&self.path);
        let mut claims = vec![Claim::edit(id.clone(), "content")];
        if self.state == Presence::Present {
            claims.push(Claim::shared(id.clone(), "presence", "file"));
        }
        claims.extend(self.attrs().claims(&id));
        claims
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let pattern = self.regexp.as_deref().map(|t| regexp("/regexp", t)).transpose().map_err(stop)?;
        let insert = self.insert().map_err(stop)?;
        let removes = self.state == Presence::Absent;
        let edit = Edit {
            path: &self.path,
            create: self.create,
            removes,
            attrs: self.attrs(),
            culprit: if self.regexp.is_some() { "/regexp" } else { "/line" },
        };
        let mut wanted = edit.plan(view, &|text| {
            if removes {
                return Ok(without(text, self.line.as_deref(), pattern.as_ref()));
            }
            let edit = LineEdit {
                line: self.line.as_deref().unwrap_or_default(),
                regexp: pattern.as_ref(),
                insert: insert.clone(),
                backrefs: self.backrefs,
                first_match: self.first_match,
            };
            Ok(edit.present(text))
        })?;
        wanted.settings.extend(validate_setting(self.validate.as_ref()));
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use proptest::prelude::*;
    use serde_json::json;

    fn edited(params: serde_json::Value, text: &str) -> String {
        settle(&read::<TextLine>(params), FakeView::new().file("/etc/x", 0o640, text)).text("/etc/x")
    }

    #[test]
    fn the_examples_of_lineinfile() {
        let cases = [
            (
                json!({"path": "/etc/x", "regexp": "^SELINUX=", "line": "SELINUX=enforcing"}),
                "SELINUX=no\n",
                "SELINUX=enforcing\n",
            ),
            (json!({"path": "/etc/x", "state": "absent", "regexp": "^%wheel"}), "a\n%wheel ALL\n", "a\n"),
            (json!({"path": "/etc/x", "state": "absent", "line": "b"}), "a\nb\nb2\n", "a\nb2\n"),
            (
                json!({"path": "/etc/x", "regexp": r"^127\.0\.0\.1", "line": "127.0.0.1 localhost"}),
                "::1 l\n",
                "::1 l\n127.0.0.1 localhost\n",
            ),
            (
                json!({"path": "/etc/x", "regexp": "^Listen ", "insert_after": "^#Listen ", "line": "Listen 8080"}),
                "#Listen 80\nz\n",
                "#Listen 80\nListen 8080\nz\n",
            ),
            (
                json!({"path": "/etc/x", "regexp": "^www.*80/tcp", "insert_before": "^# port", "line": "www 80/tcp"}),
                "# port for http\nz\n",
                "www 80/tcp\n# port for http\nz\n",
            ),
            (json!({"path": "/etc/x", "insert_before": "BOF", "line": "# Added"}), "a\n", "# Added\na\n"),
            (
                json!({"path": "/etc/x", "regexp": "^(.*)Xms(\\d+)m(.*)$", "line": r"\1Xms${xms}m\3", "backrefs": true}),
                "-Xms32m -x\n",
                "-Xms${xms}m -x\n",
            ),
        ];
        for (params, before, after) in cases {
            assert_eq!(edited(params.clone(), before), after, "{params}");
        }
    }

    #[test]
    fn a_missing_file() {
        let kind = |p| read::<TextLine>(p);
        let params = json!({"path": "/etc/x", "line": "a"});
        assert!(matches!(kind(params.clone()).plan(&FakeView::new()), Err(Stop::Invalid { .. })));
        let later = FakeView::new().may(path_id("/etc/x"));
        assert!(matches!(kind(params).plan(&later), Err(Stop::Deferred(_))));
        let create = json!({"path": "/etc/x", "line": "a", "create": true, "mode": "0600"});
        let after = settle(&kind(create), FakeView::new());
        assert!(after.line(&path_id("/etc/x")).starts_with("file 600 root root 2 "));
        let gone = kind(json!({"path": "/etc/x", "line": "a", "state": "absent"}));
        assert_eq!(settle(&gone, FakeView::new()).line(&path_id("/etc/x")), "absent");
    }

    #[test]
    fn edits_follow_each_other() {
        let view = FakeView::new().file("/etc/x", 0o644, "a\n");
        let view = settle(&read::<TextLine>(json!({"path": "/etc/x", "line": "b"})), view);
        let view =
            settle(&read::<TextLine>(json!({"path": "/etc/x", "line": "c", "insert_after": "^b"})), view);
        assert_eq!(view.text("/etc/x"), "a\nb\nc\n");
    }

    #[test]
    fn an_edit_that_is_never_done_is_refused() {
        let view = FakeView::new().file("/etc/x", 0o644, "a=1\na=2\n");
        let kind = read::<TextLine>(json!({"path": "/etc/x", "regexp": "^a=", "line": "b"}));
        let stop = kind.plan(&view).unwrap_err();
        assert!(matches!(&stop, Stop::Invalid { pointer, .. } if pointer == "/regexp"), "{stop:?}");
    }

    #[test]
    fn what_is_no_text_is_not_edited() {
        let kind = read::<TextLine>(json!({"path": "/etc/x", "line": "a"}));
        let view = FakeView::new().file("/etc/x", 0o644, [0xff, 0xfe, b'\n']);
        assert!(matches!(kind.plan(&view), Err(Stop::Failed(_))));
        let view = FakeView::new().link("/etc/x", "/run/x");
        assert!(matches!(kind.plan(&view), Err(Stop::Invalid { .. })));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<TextLine>(json!({"path": "/x"})), [""]);
        assert_eq!(wrong::<TextLine>(json!({"path": "/x", "line": "a\nb"})), ["/line"]);
        assert_eq!(wrong::<TextLine>(json!({"path": "/x", "line": "a", "regexp": "(?=a)"})), ["/regexp"]);
        assert_eq!(wrong::<TextLine>(json!({"path": "/x", "line": "a", "backrefs": true})), ["/backrefs"]);
        let both = json!({"path": "/x", "line": "a", "insert_after": "a", "insert_before": "b"});
        assert_eq!(wrong::<TextLine>(both), ["/insert_before"]);
    }

    proptest! {
        #[test]
        fn a_second_run_changes_nothing(
            text in "([ab=#]{0,3}(\n|\r\n)){0,5}[ab]{0,2}",
            line in "[ab=#]{1,3}",
            pattern in proptest::option::of(prop_oneof![Just("^a"), Just("b$"), Just("="), Just("^#?a=")]),
            at in 0usize..5,
            absent: bool,
            first: bool,
        ) {
            let mut params = json!({"path": "/etc/x", "line": line, "first_match": first});
            if let Some(pattern) = pattern {
                params["regexp"] = json!(pattern);
            }
            match at {
                1 => params["insert_after"] = json!("^b"),
                2 => params["insert_before"] = json!("^b"),
                3 => params["insert_before"] = json!("BOF"),
                4 => params["insert_after"] = json!("a"),
                _ => {}
            }
            if absent {
                params["state"] = json!("absent");
            }
            let kind = read::<TextLine>(params);
            let view = FakeView::new().file("/etc/x", 0o644, &text);
            match kind.plan(&view) {
                // Refused: the edit would change its own result.
                Err(Stop::Invalid { pointer, .. }) => prop_assert_eq!(pointer, "/regexp"),
                _ => {
                    let after = settle(&kind, view).text("/etc/x");
                    let there = after.lines().any(|l| l == line);
                    if !absent {
                        prop_assert!(there);
                    } else if pattern.is_none() {
                        prop_assert!(!there);
                    }
                }
            }
        }
    }
}
