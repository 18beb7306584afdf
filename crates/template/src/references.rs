//! The names that a template reads, as its text has them.

use std::collections::BTreeSet;

use converge_syntax::{Node, Source, UNSAFE_TAG, Value as Data};

use crate::engine::TemplateEngine;
use crate::text::is_template;
use crate::{bounds, panics};

impl TemplateEngine {
    /// The variables that a node's templates read: names (`facts`) and dotted paths (`facts.os.family`). Those that are
    /// reached through other variables are not among them.
    pub fn references(&self, node: &Node) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.collect(node, false, &mut found);
        found
    }

    /// As [`TemplateEngine::references`], for a `when`: strings are bare expressions.
    pub fn condition_references(&self, node: &Node) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.collect(node, true, &mut found);
        found
    }

    /// As [`TemplateEngine::references`], for a template file.
    pub fn file_references(&self, source: &Source) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.add_references(source.content(), false, &mut found);
        found
    }

    fn collect(&self, node: &Node, bare: bool, found: &mut BTreeSet<String>) {
        match &node.value {
            Data::String(text) if node.tag.as_deref() != Some(UNSAFE_TAG) => {
                self.add_references(text, bare, found);
            }
            Data::List(items) => items.iter().for_each(|item| self.collect(item, bare, found)),
            Data::Map(entries) => entries.iter().for_each(|(_, value)| self.collect(value, bare, found)),
            _ => {}
        }
    }

    fn add_references(&self, text: &str, bare: bool, found: &mut BTreeSet<String>) {
        if bounds::too_deep(text, bare && !is_template(text)).is_some() {
            return;
        }
        let paths = panics::caught(|| {
            if bare && !is_template(text) {
                self.env.compile_expression(text).map(|expression| expression.undeclared_variables(true)).ok()
            } else if is_template(text) {
                self.env.template_from_str(text).map(|template| template.undeclared_variables(true)).ok()
            } else {
                None
            }
        });
        // A text that does not parse reads nothing; rendering it reports the error.
        for path in paths.ok().flatten().into_iter().flatten() {
            let root = path.split('.').next().unwrap_or(&path).to_owned();
            if self.env.globals().any(|(name, _)| name == root) {
                continue;
            }
            found.insert(root);
            found.insert(path);
        }
    }
}
