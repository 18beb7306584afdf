//! The parameters of a module: each is used once, and an unused one becomes an open item.

use crate::expression::ImportProblem;
use crate::yaml::made;
use converge_syntax::{Node, Value};
use converge_template::ansible_parameter;
use std::collections::BTreeMap;

/// The parameters of a task, rewritten.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    entries: Vec<(String, Node)>,
    /// The text of a command.
    pub free: Option<String>,
    pub module: String,
}

impl Params {
    pub(crate) fn new(module: &str, args: &Node, free: Option<String>) -> Self {
        let entries = args.as_map().unwrap_or_default().iter();
        let entries = entries.filter_map(|(key, value)| Some((key.scalar_text()?, value.clone())));
        Self {
            entries: entries.filter(|(_, value)| !value.is_null()).collect(),
            free,
            module: module.to_owned(),
        }
    }

    /// Takes the first of these parameters that is there.
    pub(crate) fn take(&mut self, names: &[&str]) -> Option<Node> {
        let found = names.iter().find_map(|name| self.entries.iter().position(|(key, _)| key == name))?;
        Some(self.entries.remove(found).1)
    }

    pub(crate) fn text(&mut self, names: &[&str]) -> Option<String> {
        self.take(names).and_then(|node| node.scalar_text())
    }

    /// A parameter that must be there.
    pub(crate) fn needed(&mut self, names: &[&str]) -> Result<String, ImportProblem> {
        let name = names.first().copied().unwrap_or_default();
        self.text(names).filter(|text| !text.is_empty()).ok_or_else(|| {
            ImportProblem::new(
                format!("`{}` has no `{name}` that is a text", self.module),
                crate::task::instead(&self.module),
            )
        })
    }

    /// A switch; `None` where it is not given.
    ///
    /// # Errors
    /// It is a template.
    pub(crate) fn flag(&mut self, names: &[&str]) -> Result<Option<bool>, ImportProblem> {
        let Some(node) = self.take(names) else { return Ok(None) };
        let word = node.scalar_text().unwrap_or_default().to_lowercase();
        match word.as_str() {
            "true" | "yes" | "on" | "1" | "y" | "t" => Ok(Some(true)),
            "false" | "no" | "off" | "0" | "n" | "f" => Ok(Some(false)),
            _ => Err(ImportProblem::new(
                format!(
                    "`{}` is `{word}`, which is known on the host only",
                    names.first().copied().unwrap_or_default()
                ),
                "write a resource for each of the two cases, with `when`",
            )),
        }
    }

    /// Drops parameters that mean nothing here.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        self.entries.retain(|(key, _)| !names.contains(&key.as_str()));
    }

    /// Moves parameters that have the same name and meaning, in this order: Ansible's name, then that of converge.
    pub(crate) fn same(&mut self, names: &[(&str, &str)], out: &mut Vec<(String, Node)>) {
        for (theirs, own) in names {
            if let Some(value) = self.take(&[theirs]) {
                out.push(((*own).to_owned(), value));
            }
        }
    }

    /// Owner, group and mode of a file.
    pub(crate) fn attributes(&mut self, out: &mut Vec<(String, Node)>) -> Result<(), ImportProblem> {
        self.attributes_of(out, false)
    }

    /// Owner, group and mode; `X` is `x` at a directory.
    pub(crate) fn attributes_of(
        &mut self,
        out: &mut Vec<(String, Node)>,
        is_directory: bool,
    ) -> Result<(), ImportProblem> {
        self.ignore(&["seuser", "serole", "selevel", "setype", "unsafe_writes"]);
        if let Some(mode) = self.take(&["mode"]) {
            let mode = match mode.as_str().filter(|text| is_directory && !text.contains("{{")) {
                Some(text) => made(text.replace('X', "x")),
                None => mode,
            };
            out.push(("mode".to_owned(), self::mode(&mode)?));
        }
        self.same(&[("owner", "owner"), ("group", "group")], out);
        Ok(())
    }

    /// Fails if a parameter is unused.
    pub(crate) fn finish(self, kind: &str) -> Result<(), ImportProblem> {
        let Some((name, _)) = self.entries.first() else { return Ok(()) };
        let write = ansible_parameter(kind, name).map_or_else(
            || format!("write what `{name}` is for: `converge explain {kind}` lists the parameters"),
            str::to_owned,
        );
        Err(ImportProblem::new(format!("`{name}` of `{}` has no counterpart", self.module), write))
    }
}

/// A parameter of a resource.
pub(crate) fn param(name: &str, value: impl Into<Value>) -> (String, Node) {
    (name.to_owned(), made(value))
}

/// A mode as it is written here: octal digits as text.
fn mode(node: &Node) -> Result<Node, ImportProblem> {
    let bad = |why: String| ImportProblem::new(why, "write the whole mode in octal digits, as \"0644\"");
    match &node.value {
        Value::Int(number) => {
            // YAML 1.1 reads a leading zero as octal; without it Ansible takes the number for decimal.
            let written = node.span.text();
            if !written.starts_with('0') || *number < 0 {
                return Err(bad(format!("the mode {number} is decimal, not octal")));
            }
            Ok(made(format!("{number:04o}")))
        }
        Value::String(text) if text.contains("{{") => Ok(node.clone()),
        Value::String(text) => {
            let digits = text.trim_start_matches("0o");
            if (1..=4).contains(&digits.trim_start_matches('0').len())
                && digits.bytes().all(|b| (b'0'..b'8').contains(&b))
            {
                return Ok(made(format!("{:0>4}", digits.trim_start_matches('0'))));
            }
            match whole_mode(text) {
                Some(all) => Ok(made(all)),
                None => Err(bad(format!("the mode `{text}` changes a part of what is there"))),
            }
        }
        _ => Err(bad("the mode is not text".to_owned())),
    }
}

/// A mode in symbols that says all bits of the owner, the group and the others: what adds all of them, or takes all of them away, says them as
/// well as `=` does.
fn whole_mode(text: &str) -> Option<String> {
    let mut given: BTreeMap<char, &str> = BTreeMap::new();
    for part in text.split(',') {
        let (who, rest) = part.split_at(part.find(['=', '+', '-'])?);
        let (sign, bits) = rest.split_at(1);
        let is_full = bits.len() == 3 && "rwx".chars().all(|bit| bits.contains(bit));
        let bits = match sign {
            "=" if bits.chars().all(|bit| "rwxst".contains(bit)) => bits,
            "+" if is_full => bits,
            "-" if is_full => "",
            _ => return None,
        };
        for who in if who == "a" { "ugo" } else { who }.chars() {
            if !"ugo".contains(who) || given.insert(who, bits).is_some() {
                return None;
            }
        }
    }
    let all: Option<Vec<String>> =
        ['u', 'g', 'o'].iter().map(|who| given.get(who).map(|bits| format!("{who}={bits}"))).collect();
    all.map(|all| all.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_in_symbols_say_all_bits_or_are_refused() {
        for (text, expected) in [
            ("u=rw,g=r,o=r", Some("u=rw,g=r,o=r")),
            ("u+rwx,g+rwx,o=rx", Some("u=rwx,g=rwx,o=rx")),
            ("u+rwX,g+rwX,o=rX", None),
            ("u=rwx,go=rx", Some("u=rwx,g=rx,o=rx")),
            ("u=rw,g=r,o-rwx", Some("u=rw,g=r,o=")),
            ("a=r", Some("u=r,g=r,o=r")),
            ("u=rw,go-w", None),
            ("u+x", None),
            ("u=rwX,g-rwX,o=", None),
            ("g=u,u=rw,o=r", None),
            ("", None),
        ] {
            assert_eq!(whole_mode(text).as_deref(), expected, "{text}");
        }
    }
}
