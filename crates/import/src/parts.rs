//! The parts of a role beside its tasks: templates and files, `meta`, `vars`.

use crate::files::role_name;
use crate::report::{ImportFinding, TaskVerdict};
use crate::role::{Build, ImportedContent, ImportedFile};
use crate::task::comments_above;
use crate::written::CommentedValue;
use crate::yaml::{made, map};
use converge_syntax::Node;

impl Build<'_> {
    /// Templates, rewritten, and files as they are.
    pub(crate) fn copies(&mut self) -> Vec<ImportedFile> {
        let mut all = Vec::new();
        for path in self.files.below("templates") {
            let full = format!("templates/{path}");
            self.context.files.insert(full.clone());
            let content = match self.files.text(&full).map(|text| (text, self.names.template(text))) {
                Some((text, Ok(new))) if new != text => {
                    if new.contains("Managed by converge") && !text.contains("Managed by converge") {
                        self.find_file(
                            &full,
                            TaskVerdict::Remark,
                            "`ansible_managed` became the text `Managed by converge`",
                            None,
                        );
                    }
                    ImportedContent::Text(new)
                }
                Some((_, Err(problem))) => {
                    self.context.bad_templates.insert(path.clone(), problem);
                    ImportedContent::Copy(full.clone())
                }
                _ => ImportedContent::Copy(full.clone()),
            };
            all.push(ImportedFile { path: full, content });
        }
        for path in self.files.below("files") {
            let full = format!("files/{path}");
            self.context.files.insert(full.clone());
            let mut folder = path.as_str();
            while let Some((above, _)) = folder.rsplit_once('/') {
                self.context.folders.insert(above.to_owned());
                folder = above;
            }
            all.push(ImportedFile { path: full.clone(), content: ImportedContent::Copy(full) });
        }
        all
    }

    /// Templates read variables by the names that they have at the end: nothing reads an older value.
    pub(crate) fn rename_in_templates(&self, outputs: &mut [ImportedFile]) {
        for output in outputs.iter_mut().filter(|output| output.path.starts_with("templates/")) {
            let text = match &output.content {
                ImportedContent::Text(text) => text,
                ImportedContent::Copy(from) => match self.files.text(from) {
                    Some(text) => text,
                    None => continue,
                },
            };
            let new = self.names.with_new_names(text);
            if new != *text {
                output.content = ImportedContent::Text(new);
            }
        }
    }

    fn find_file(&mut self, path: &str, verdict: TaskVerdict, why: &str, write: Option<String>) {
        self.findings.push(ImportFinding {
            file: format!("{}{path}", self.files.shown),
            line: 1,
            name: path.to_owned(),
            module: "template".to_owned(),
            verdict,
            became: path.to_owned(),
            why: vec![why.to_owned()],
            write,
            is_task: false,
            is_handler: false,
        });
    }

    /// Summary and required roles, of `meta/main.yml`.
    pub(crate) fn head(&mut self, meta: Option<&Node>) {
        let info = meta.and_then(|meta| meta.get("galaxy_info"));
        let text = info.and_then(|info| info.get("description")).and_then(Node::scalar_text);
        let text = text
            .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|text| !text.is_empty());
        self.written.summary =
            Some(text.unwrap_or_else(|| format!("{}, imported from Ansible", self.files.name)));
        let needed =
            meta.and_then(|meta| meta.get("dependencies")).and_then(Node::as_list).unwrap_or_default();
        for one in needed {
            let name = one.as_str().map(str::to_owned).or_else(|| {
                ["role", "name", "src"].iter().find_map(|key| one.get(key)).and_then(Node::scalar_text)
            });
            let Some(name) = name.filter(|name| !name.contains("{{")) else { continue };
            let name = role_name(&name);
            let given: Vec<String> = one
                .as_map()
                .unwrap_or_default()
                .iter()
                .filter_map(|(key, _)| key.scalar_text())
                .filter(|key| !matches!(key.as_str(), "role" | "name" | "src" | "version" | "scm"))
                .collect();
            if !given.is_empty() {
                let why = format!(
                    "the role `{name}` is given {}: write it at the role in the play",
                    given.join(", ")
                );
                self.find_file("meta/main.yml", TaskVerdict::Remark, &why, None);
            }
            if !self.written.requires.contains(&name) && name != self.files.name {
                self.written.requires.push(name);
            }
        }
    }

    /// `vars/main.yml` as expressions; one that needs a decision becomes an input that has to be given.
    pub(crate) fn role_vars(&mut self, vars: &[(Node, Node)]) {
        for (key, value) in vars {
            let name = key.scalar_text().unwrap_or_default();
            let comments = comments_above(&key.span.source, key.span.line());
            if self.inputs.contains(&name) {
                // A variable of the role stands above a default, and nobody sets it from outside.
                self.written.inputs.retain(|input| input.name != name);
                self.inputs.remove(&name);
            }
            match self.names.node(value) {
                Ok(value) => self.written.vars.push(CommentedValue { comments, name, value }),
                Err(problem) => {
                    let value = map([("type", made("str")), ("required", made(true))]);
                    self.written.inputs.push(CommentedValue { comments, name: name.clone(), value });
                    self.inputs.insert(name.clone());
                    self.findings.push(ImportFinding {
                        file: key.span.source.name().to_owned(),
                        line: key.span.line(),
                        name,
                        module: "vars".to_owned(),
                        verdict: TaskVerdict::Open,
                        became: "input".to_owned(),
                        why: vec![problem.why],
                        write: Some(format!(
                            "{}, in `vars` of the role, in place of the input",
                            problem.write
                        )),
                        is_task: false,
                        is_handler: false,
                    });
                }
            }
        }
    }
}
