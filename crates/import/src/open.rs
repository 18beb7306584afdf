//! Open items: decisions that a person must take before a plan goes on.

use crate::expression::ImportProblem;
use crate::names::plain_name;
use crate::report::TaskVerdict;
use crate::role::Build;
use crate::task::Task;
use crate::written::{ConvertedResource, RoleEntry};
use crate::yaml::made;
use converge_syntax::Node;

/// Most lines of a task that its open item repeats.
const MAX_LINES: usize = 60;

impl Build<'_> {
    /// An open item in the place of a task: a comment there, and a check that refuses the role.
    pub(crate) fn open(&mut self, task: &Task, problem: ImportProblem, when: &[Node]) -> Vec<RoleEntry> {
        self.open_as(task, problem, when, true)
    }

    /// As [`Build::open`], with or without a line of the report.
    pub(crate) fn open_as(
        &mut self,
        task: &Task,
        problem: ImportProblem,
        when: &[Node],
        counts: bool,
    ) -> Vec<RoleEntry> {
        self.open_items += 1;
        let number = self.open_items;
        let title = plain_name(&task.title());
        let place = format!("{}:{}", task.span.source.name(), task.span.line());
        let mut lines = task.comments.clone();
        lines.push(format!("# Open item {number}, {place}: {title}"));
        lines.push(format!("#   {}: {}", one_line(&problem.why), one_line(&problem.write)));
        lines.extend(
            task.text.lines().take(MAX_LINES).map(|line| format!("#   {line}").trim_end().to_owned()),
        );
        // A condition on facts, inputs and expressions says where the decision is needed; one on results is not known in a check.
        let mut all: Vec<Node> = self.conditions.iter().flatten().cloned().collect();
        all.extend(when.iter().cloned());
        let mut check = ConvertedResource {
            name: self.unique(&format!("open item {number}: {title}")),
            kind: "assert".to_owned(),
            ..ConvertedResource::default()
        };
        let is_known = |one: &Node| {
            let resource = ConvertedResource { when: vec![one.clone()], ..ConvertedResource::default() };
            !self.reads_results(&resource) && !one.as_str().is_some_and(reads_item)
        };
        // One condition that is not known here leaves the others: the check refuses on more hosts, never on fewer.
        check.when = all.into_iter().filter(is_known).collect();
        let message = format!(
            "{place}: {}; {}. Decide, and remove this check",
            one_line(&problem.why),
            one_line(&problem.write)
        );
        check.params = vec![("that".to_owned(), made(false)), ("message".to_owned(), made(message))];
        self.taken.insert(check.name.clone());
        if self.check_resource(&check, task).is_err() {
            check.when.clear();
        }
        self.written.check.push(RoleEntry::Resource(Box::new(check)));
        if counts {
            self.find(task, TaskVerdict::Open, "open item", vec![problem.why], Some(problem.write));
        }
        vec![RoleEntry::Open(lines)]
    }
}

fn reads_item(text: &str) -> bool {
    crate::tokens::tokens(text).iter().any(|token| token.text == "item")
}

/// Text for a comment and a message: one line, no template.
fn one_line(text: &str) -> String {
    let text = text.replace("{{", "{ {").replace("{%", "{ %").replace("}}", "} }").replace("{#", "{ #");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
