//! `block`

use crate::attrs::{Attrs, Mode};
use crate::body::{check_validate, validate_setting};
use crate::edit::Edit;
use crate::kinds::line::{insert, stop};
use crate::lines::Insert;
use crate::look::{check_path, path_id};
use crate::presence::Presence;
use converge_resource::{Claim, ParamError, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// Several lines of a text file between two marker lines, as Ansible's `blockinfile`.
///
/// The resource manages the lines between the markers and leaves all others alone. An existing block keeps its place. Give
/// each block of one file a `marker` of its own. A begin marker without its end marker is refused. New lines end as
/// most lines of the file do, with LF or with CRLF.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// The absolute path of the file.
    path: String,
    /// The lines. Needed for `state: present`.
    block: Option<String>,
    /// The marker line: `{mark}` in it becomes `BEGIN` or `END`.
    #[serde(default = "default_marker")]
    marker: String,
    /// Whether the block is to be there.
    #[serde(default)]
    state: Presence,
    /// Insert after the last line that matches this regular expression, or after `EOF`, the end.
    insert_after: Option<String>,
    /// Insert before the last line that matches this regular expression, or before `BOF`, the beginning.
    insert_before: Option<String>,
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

fn default_marker() -> String {
    "# {mark} CONVERGE MANAGED BLOCK".to_owned()
}

impl Block {
    fn attrs(&self) -> Attrs<'_> {
        Attrs { mode: self.mode, owner: self.owner.as_deref(), group: self.group.as_deref() }
    }

    fn insert(&self) -> Result<Insert, ParamError> {
        insert(self.insert_after.as_deref(), self.insert_before.as_deref())
    }

    fn markers(&self) -> (String, String) {
        (self.marker.replace("{mark}", "BEGIN"), self.marker.replace("{mark}", "END"))
    }

    fn change(&self, text: &str, place: &Insert) -> Result<String, Stop> {
        let (begin, end) = self.markers();
        let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        let found = |marker: &str| {
            lines
                .iter()
                .enumerate()
                .filter(|(_, l)| l.trim_end_matches(['\r', '\n']) == marker)
                .map(|(i, _)| i)
                .collect()
        };
        let (begins, ends): (Vec<usize>, Vec<usize>) = (found(&begin), found(&end));
        let at = match (begins.as_slice(), ends.as_slice()) {
            ([], []) if self.state == Presence::Absent => return Ok(text.to_owned()),
            ([], []) => place.index(&lines, false),
            ([first], [last]) if first < last => {
                lines.drain(*first..=*last);
                *first
            }
            _ => {
                let number = begins.first().or(ends.first()).map_or(0, |i| i + 1);
                return Err(Stop::invalid_help(
                    "/marker",
                    format!(
                        "{} has no pair of one `{begin}` and one `{end}` after it: see line {number}",
                        self.path
                    ),
                    "correct the markers in the file, or give this block a `marker` of its own",
                ));
            }
        };
        if self.state == Presence::Present {
            let block = self.block.as_deref().unwrap_or_default();
            let newline = if block.is_empty() || block.ends_with('\n') { "" } else { "\n" };
            // The block itself does not count: with a shorter one the same edit could come to another result.
            let others = lines.concat();
            let ending = crate::lines::ending(if others.contains('\n') { &others } else { text });
            crate::lines::end_line_before(&mut lines, at, ending);
            let new = format!("{begin}\n{block}{newline}{end}\n");
            let new = if ending == "\n" { new } else { new.replace("\r\n", "\n").replace('\n', ending) };
            lines.insert(at.min(lines.len()), new);
        }
        Ok(lines.concat())
    }
}

impl Resource for Block {
    const KIND: &'static str = "block";
    const EXAMPLE: &'static str = "\
- name: names of the cluster
  block:
    path: /etc/hosts
    marker: '# {mark} cluster'
    block: |
      10.0.0.1 api.cluster
      10.0.0.2 registry.cluster
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        check_path("/path", &self.path, &mut errors);
        self.attrs().validate(&mut errors);
        check_validate(self.validate.as_ref(), &mut errors);
        errors.extend(self.insert().err());
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        if !self.marker.contains("{mark}") || self.marker.contains(['\n', '\r']) {
            wrong(
                "/marker",
                "the marker is not one line with `{mark}` in it",
                "write it as `# {mark} my block`",
            );
        }
        let (begin, end) = self.markers();
        match (&self.block, self.state) {
            (None, Presence::Present) => wrong("", "`block` is missing", "say which lines are to be there"),
            (Some(block), _) if block.lines().any(|l| l == begin || l == end) => {
                wrong("/block", "a marker line stands in the block itself", "give another `marker`");
            }
            _ => {}
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
        let place = self.insert().map_err(stop)?;
        let edit = Edit {
            path: &self.path,
            create: self.create,
            removes: self.state == Presence::Absent,
            attrs: self.attrs(),
            culprit: "/block",
        };
        let mut wanted = edit.plan(view, &|text| self.change(text, &place))?;
        wanted.settings.extend(validate_setting(self.validate.as_ref()));
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn params(more: Value) -> Value {
        let mut all = json!({"path": "/etc/x", "marker": "# {mark} m", "block": "1\n2"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    }

    fn edited(more: Value, text: &str) -> String {
        settle(&read::<Block>(params(more)), FakeView::new().file("/etc/x", 0o644, text)).text("/etc/x")
    }

    #[test]
    fn the_examples_of_blockinfile() {
        let block = "# BEGIN m\n1\n2\n# END m\n";
        assert_eq!(edited(json!({}), "a\n"), format!("a\n{block}"));
        assert_eq!(edited(json!({}), "a"), format!("a\n{block}"));
        assert_eq!(edited(json!({}), ""), block);
        assert_eq!(edited(json!({"insert_after": "<body>"}), "<body>\nz\n"), format!("<body>\n{block}z\n"));
        assert_eq!(edited(json!({"insert_before": "^z"}), "a\nz\nb\nz\n"), format!("a\nz\nb\n{block}z\n"));
        assert_eq!(edited(json!({"insert_before": "BOF"}), "a\n"), format!("{block}a\n"));
        assert_eq!(edited(json!({"insert_after": "none"}), "a\n"), format!("a\n{block}"));
        let old = "a\n# BEGIN m\nold\n# END m\nb\n";
        assert_eq!(edited(json!({"insert_before": "BOF"}), old), format!("a\n{block}b\n"));
        assert_eq!(edited(json!({"state": "absent"}), old), "a\nb\n");
        assert_eq!(edited(json!({"state": "absent"}), "a\nb"), "a\nb");
        assert_eq!(edited(json!({"block": ""}), "a\n"), "a\n# BEGIN m\n# END m\n");
    }

    #[test]
    fn the_lines_end_as_those_of_the_file() {
        assert_eq!(edited(json!({}), "a\r\n"), "a\r\n# BEGIN m\r\n1\r\n2\r\n# END m\r\n");
        let old = "a\r\n# BEGIN m\n1\n2\n# END m\nb\r\nc\r\nd\r\ne\r\n";
        assert_eq!(edited(json!({}), old), "a\r\n# BEGIN m\r\n1\r\n2\r\n# END m\r\nb\r\nc\r\nd\r\ne\r\n");
        assert_eq!(edited(json!({"state": "absent"}), old), "a\r\nb\r\nc\r\nd\r\ne\r\n");
    }

    #[test]
    fn the_lines_of_the_block_have_no_say_in_how_lines_end() {
        let old = "a\r\nb\r\nc\r\n# BEGIN m\n0\n1\n2\n3\n# END m\n";
        let new = edited(json!({}), old);
        assert_eq!(new, "a\r\nb\r\nc\r\n# BEGIN m\r\n1\r\n2\r\n# END m\r\n");
        assert_eq!(edited(json!({}), &new), new);
        let alone = "# BEGIN m\r\n0\r\n# END m\r\n";
        assert_eq!(edited(json!({}), alone), "# BEGIN m\r\n1\r\n2\r\n# END m\r\n");
    }

    #[test]
    fn a_torn_block_is_refused() {
        for text in ["# BEGIN m\na\n", "# END m\n", "# END m\n# BEGIN m\n", "# BEGIN m\n# BEGIN m\n# END m\n"]
        {
            let kind = read::<Block>(params(json!({})));
            let stop = kind.plan(&FakeView::new().file("/etc/x", 0o644, text)).unwrap_err();
            assert!(
                matches!(&stop, Stop::Invalid { pointer, .. } if pointer == "/marker"),
                "{text}: {stop:?}"
            );
        }
    }

    #[test]
    fn a_missing_file() {
        let kind = read::<Block>(params(json!({})));
        assert!(matches!(kind.plan(&FakeView::new()), Err(Stop::Invalid { .. })));
        let create = read::<Block>(params(json!({"create": true})));
        assert_eq!(settle(&create, FakeView::new()).text("/etc/x"), "# BEGIN m\n1\n2\n# END m\n");
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Block>(json!({"path": "/x"})), [""]);
        assert_eq!(wrong::<Block>(json!({"path": "/x", "block": "a", "marker": "m"})), ["/marker"]);
        assert_eq!(wrong::<Block>(params(json!({"block": "a\n# END m\n"}))), ["/block"]);
        assert_eq!(wrong::<Block>(params(json!({"insert_after": "("}))), ["/insert_after"]);
    }

    proptest! {
        #[test]
        fn what_was_there_stays_and_comes_back(
            text in "([ab]{0,2}(\n|\r\n)){0,5}",
            block in "([ab#]{0,2}\n){0,3}[ab]{0,1}",
            place in prop_oneof![Just(json!({})), Just(json!({"insert_after": "^a"})), Just(json!({"insert_before": "b"}))],
        ) {
            let view = FakeView::new().file("/etc/x", 0o644, &text);
            let mut with = params(place);
            with["block"] = json!(block);
            let there = settle(&read::<Block>(with), view);
            let gone = settle(&read::<Block>(params(json!({"state": "absent"}))), there);
            prop_assert_eq!(gone.text("/etc/x"), text);
        }
    }
}
