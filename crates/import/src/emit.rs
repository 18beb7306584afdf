//! From tasks to the entries of a role: blocks, includes and tasks that steer others.

use crate::expression::ImportProblem;
use crate::includes::{CASE, listed};
use crate::keywords::{Common, asks_for_change, conditions};
use crate::loops::reads_outer_element;
use crate::names::plain_name;
use crate::registers::has_loop;
use crate::report::{ImportFinding, TaskVerdict};
use crate::role::Build;
use crate::targets::{DecidedFor, NOT_APPLIED, decided};
use crate::task::{Foreign, OUTER, Task, included_name};
use crate::written::{ConvertedResource, EntryGroup, RoleEntry};
use crate::yaml::made;
use converge_syntax::Node;

/// The message of the check that refuses other systems.
const ONLY_TARGETS: &str = "the tasks for systems other than Debian and Ubuntu were left out of this role";

/// Keywords that the tasks of a block inherit.
const INHERITED: &[&str] = &[
    "become",
    "become_user",
    "no_log",
    "ignore_errors",
    "environment",
    "delegate_to",
    "run_once",
    "notify",
    "module_defaults",
    "check_mode",
    "connection",
    "remote_user",
];

impl Build<'_> {
    /// Converts a list of tasks to entries.
    pub(crate) fn tasks(&mut self, tasks: &[Task]) -> Vec<RoleEntry> {
        let mut entries = Vec::new();
        for task in tasks {
            if self.depth == 0 {
                self.top = self.written.resources.len() + entries.len();
            }
            entries.extend(self.task(task));
        }
        entries
    }

    fn task(&mut self, task: &Task) -> Vec<RoleEntry> {
        if let Some(foreign) = &task.foreign {
            self.foreign(task, foreign);
            return Vec::new();
        }
        if let Some(problem) = &task.broken {
            return self.open(task, problem.clone(), &[]);
        }
        if !self.names.declared.contains("item") && !task.only_says() && reads_outer_element(task) {
            let problem = ImportProblem::new(
                "`item` is the element of a loop around this file or role",
                "write what it is into the role, or a resource with `for_each`",
            );
            self.result_is_open(task);
            return if task.block.is_empty() {
                self.open(task, problem, &[])
            } else {
                self.open_below(task, problem)
            };
        }
        if !matches!(task.module.as_str(), "include_vars" | OUTER)
            && let Err(problem) = self.task_vars(task)
        {
            return self.open(task, problem, &[]);
        }
        self.passed.push(passed(task));
        let result = match task.module.as_str() {
            "block" => Ok(self.block(task)),
            "include_tasks" => self.include(task),
            CASE => Ok(self.group(task, false)),
            OUTER => self.outer_role(task),
            "meta" => self.meta(task),
            "set_fact" => self.set_fact(task).map(|()| Vec::new()),
            "include_vars" => self.include_vars(task).map(|()| Vec::new()),
            "include_role" | "import_role" => self.other_role(task).map(|()| Vec::new()),
            _ => return self.resources(task),
        };
        result.unwrap_or_else(|problem| match task.module.as_str() {
            OUTER => {
                // The tasks of the other role are not here.
                task.block.iter().for_each(|inner| inner.each(&mut |inner| self.result_is_open(inner)));
                self.open(task, problem, &[])
            }
            _ => self.open(task, problem, &[]),
        })
    }

    /// A task for no host that converge works on, with the tasks below it: nothing stands for them.
    fn foreign(&mut self, task: &Task, foreign: &Foreign) {
        self.is_of_targets |= foreign.by_system;
        let why = format!("`{}` holds on no host that converge works on", foreign.condition);
        task.each(&mut |task| {
            if !matches!(task.module.as_str(), "block" | CASE) {
                self.find(task, TaskVerdict::Exact, NOT_APPLIED, vec![why.clone()], None);
            }
            for section in ["rescue", "always"].iter().filter_map(|key| task.keyword(key)) {
                for one in crate::task::read_tasks(section) {
                    self.foreign(&one, foreign);
                }
            }
        });
    }

    /// A role without its tasks for other systems refuses those.
    pub(crate) fn only_targets(&mut self) {
        if !self.is_of_targets {
            return;
        }
        let check = ConvertedResource {
            name: self.unique("a system that the import is for"),
            kind: "assert".to_owned(),
            params: vec![
                ("that".to_owned(), made("{{ facts.package_manager == 'apt' }}")),
                ("message".to_owned(), made(ONLY_TARGETS)),
            ],
            ..ConvertedResource::default()
        };
        self.taken.insert(check.name.clone());
        self.written.check.insert(0, RoleEntry::Resource(Box::new(check)));
    }

    /// Variables of a task become expressions of the role, where nothing else has the name.
    fn task_vars(&mut self, task: &Task) -> Result<(), ImportProblem> {
        let Some(vars) = task.keyword("vars").and_then(Node::as_map) else { return Ok(()) };
        for (key, value) in vars {
            let name = key.scalar_text().unwrap_or_default();
            let value = self.names.node(value)?;
            self.variable(&name, value, task)?;
        }
        Ok(())
    }

    fn block(&mut self, task: &Task) -> Vec<RoleEntry> {
        let mut entries = self.group(task, asks_for_change(task, &self.names));
        for key in ["rescue", "always"] {
            let Some(list) = task.keyword(key) else { continue };
            let inner = crate::task::read_tasks(list);
            if key == "rescue" && fails_anyway(&inner) {
                inner
                    .iter()
                    .for_each(|task| self.find(task, TaskVerdict::Exact, "left out", Vec::new(), None));
                continue;
            }
            let write = converge_template::ansible_instead(&[converge_template::AnsibleSort::Keyword], key);
            let problem =
                ImportProblem::new(format!("`{key}` has no counterpart"), write.unwrap_or("leave it out"));
            let mut section = task.clone();
            section.name = Some(format!("{key} of {}", task.title()));
            section.text = inner.iter().map(|task| task.text.clone()).collect::<Vec<_>>().join("\n");
            section.keywords.retain(|(name, _)| name == "when");
            entries.extend(self.open_as(&section, problem.clone(), &[], false));
            for task in &inner {
                task.each(&mut |task| {
                    if task.only_says() {
                        self.find(task, TaskVerdict::Exact, "left out", Vec::new(), None);
                    } else if task.module != "block" {
                        self.find(
                            task,
                            TaskVerdict::Open,
                            "open item",
                            vec![problem.why.clone()],
                            Some(problem.write.clone()),
                        );
                    }
                });
            }
        }
        entries
    }

    /// The tasks below a task as a group, or side by side where it has neither conditions nor tags.
    pub(crate) fn group(&mut self, task: &Task, push_down: bool) -> Vec<RoleEntry> {
        let mut read = Common::default();
        let mut inner: Vec<Task> = task.block.clone();
        let inherited: Vec<(String, Node)> = task
            .keywords
            .iter()
            .filter(|(key, value)| INHERITED.contains(&key.as_str()) && !value.is_null())
            .cloned()
            .collect();
        let mut tags = task.words("tags");
        if matches!(task.module.as_str(), "include_tasks" | OUTER) {
            // Only the include itself has the tags of a dynamic one; those of `apply` are given on.
            tags.extend(
                task.args
                    .get("apply")
                    .and_then(|apply| apply.get("tags"))
                    .map(|tags| listed(tags).iter().filter_map(Node::scalar_text).collect::<Vec<_>>())
                    .unwrap_or_default(),
            );
        }
        if push_down {
            for child in &mut inner {
                let mut when = task.keyword("when").map(listed).unwrap_or_default();
                when.extend(child.keyword("when").map(listed).unwrap_or_default());
                child.keywords.retain(|(key, _)| key != "when");
                child.keywords.push(("when".to_owned(), made(converge_syntax::Value::List(when))));
            }
        } else if let Err(problem) = conditions(task, &self.names, &mut read) {
            return self.open_below(task, problem);
        }
        for child in &mut inner {
            let missing: Vec<(String, Node)> = inherited
                .iter()
                .filter(|(key, _)| key == "notify" || child.keyword(key).is_none())
                .cloned()
                .collect();
            child.keywords.extend(missing);
        }
        self.depth += 1;
        self.conditions.push(read.when.clone());
        // The condition of an include that is no import is asked once, before its tasks.
        let is_once = task.full_name.ends_with("include_tasks") && task.module == "include_tasks"
            || task.full_name.ends_with("include_role");
        let around = self.asked_again.clone();
        if is_once {
            self.asked_again.clear();
        } else {
            self.asked_again.extend(read.when.iter().cloned());
        }
        let asked_before = self.asked_before;
        if is_once || task.module == CASE {
            self.asked_before = self.conditions.iter().flatten().count();
        }
        let entries = self.tasks(&inner);
        self.asked_before = asked_before;
        self.asked_again = around;
        self.conditions.pop();
        self.depth -= 1;
        tags.retain(|tag| !tag.contains("{{"));
        if entries.is_empty() {
            return entries;
        }
        if read.when.is_empty() && tags.is_empty() {
            // The comments of the block go to its first entry.
            return with_comments(entries, &task.comments);
        }
        let name = task.name.as_deref().map(plain_name);
        vec![RoleEntry::Group(EntryGroup {
            comments: task.comments.clone(),
            name,
            when: read.when,
            tags,
            entries,
        })]
    }

    /// Open items for a group whose condition cannot be written.
    fn open_below(&mut self, task: &Task, problem: ImportProblem) -> Vec<RoleEntry> {
        let entries = self.open_as(task, problem.clone(), &[], false);
        task.each(&mut |task| {
            self.result_is_open(task);
            if task.only_says() {
                self.find(task, TaskVerdict::Exact, "left out", Vec::new(), None);
            } else if !matches!(task.module.as_str(), "block" | CASE) {
                self.find(
                    task,
                    TaskVerdict::Open,
                    "open item",
                    vec![format!("its block: {}", problem.why)],
                    Some(problem.write.clone()),
                );
            }
        });
        entries
    }

    fn include(&mut self, task: &Task) -> Result<Vec<RoleEntry>, ImportProblem> {
        let name = included_name(task).unwrap_or_default();
        if has_loop(task) {
            return Err(ImportProblem::new(
                "a file of tasks is included for each element of a loop",
                "write a resource with `for_each` for each task of it",
            ));
        }
        if !task.included {
            let known = if name.contains("{{") {
                "its name is known on the host only"
            } else {
                "the file is not there"
            };
            return Err(ImportProblem::new(
                format!("`{name}`: {known}"),
                crate::task::instead("include_tasks"),
            ));
        }
        self.find(task, TaskVerdict::Exact, "its tasks", Vec::new(), None);
        let push_down = asks_for_change(task, &self.names);
        Ok(self.group(task, push_down))
    }

    fn meta(&mut self, task: &Task) -> Result<Vec<RoleEntry>, ImportProblem> {
        let word = task.free.clone().unwrap_or_default();
        match word.as_str() {
            // Ansible asks no condition of the task itself, of blocks and of imports here, but for those of an include.
            "flush_handlers" if self.is_always_reached() => {
                self.find(task, TaskVerdict::Exact, "its place", Vec::new(), None);
                Ok(self.flush())
            }
            "noop" | "reset_connection" | "clear_facts" | "refresh_inventory" => {
                self.find(task, TaskVerdict::Exact, "left out", Vec::new(), None);
                Ok(Vec::new())
            }
            _ => Err(ImportProblem::new(
                format!("`meta: {word}` has no counterpart"),
                crate::task::instead("meta"),
            )),
        }
    }

    /// Whether no include with a condition is around the present task.
    fn is_always_reached(&self) -> bool {
        self.conditions.iter().flatten().take(self.asked_before).all(holds_on_targets)
    }

    fn other_role(&mut self, task: &Task) -> Result<(), ImportProblem> {
        let name = task
            .args
            .get("name")
            .or_else(|| task.args.get("role"))
            .and_then(Node::scalar_text)
            .unwrap_or_default();
        let is_plain = !name.is_empty() && !name.contains("{{");
        let more =
            ["tasks_from", "vars_from", "defaults_from"].iter().any(|key| task.args.get(key).is_some());
        if !is_plain
            || more
            || has_loop(task)
            || task.keyword("when").is_some()
            || task.keyword("vars").is_some()
            || self.depth > 0
        {
            return Err(ImportProblem::new(
                format!("the role `{name}` is used in a way of its own"),
                crate::task::instead("include_role"),
            ));
        }
        let name = crate::files::role_name(&name);
        if !self.written.requires.contains(&name) {
            self.written.requires.push(name);
        }
        let why = "it comes before all resources of this role, and must stand in the play";
        self.find(task, TaskVerdict::Remark, "requires", vec![why.to_owned()], None);
        Ok(())
    }

    /// Adds a finding.
    pub(crate) fn find(
        &mut self,
        task: &Task,
        verdict: TaskVerdict,
        became: &str,
        why: Vec<String>,
        write: Option<String>,
    ) {
        self.findings.push(ImportFinding {
            file: task.span.source.name().to_owned(),
            line: task.span.line(),
            name: task.title(),
            module: task.full_name.clone(),
            verdict,
            became: became.to_owned(),
            why,
            write,
            is_task: true,
            is_handler: self.in_handlers,
        });
    }
}

/// A task without those below it, which are passed by themselves.
fn passed(task: &Task) -> Task {
    let mut own = task.clone();
    own.block.clear();
    own.keywords.retain(|(key, _)| !matches!(key.as_str(), "block" | "rescue" | "always"));
    own
}

/// Whether all that a `rescue` does is to fail again, perhaps with messages before: a failure of its block is one here as it is.
fn fails_anyway(tasks: &[Task]) -> bool {
    let at = tasks.iter().position(|task| task.module == "fail" && task.keyword("when").is_none());
    at.and_then(|at| tasks.get(..at)).is_some_and(|before| before.iter().all(Task::only_says))
}

/// Whether a condition holds on every host that converge works on.
pub(crate) fn holds_on_targets(condition: &Node) -> bool {
    condition.as_str().is_some_and(|text| decided(text, DecidedFor::Systems) == Some(true))
}

fn with_comments(mut entries: Vec<RoleEntry>, comments: &[String]) -> Vec<RoleEntry> {
    let own = match entries.first_mut() {
        Some(RoleEntry::Resource(resource)) => Some(&mut resource.comments),
        Some(RoleEntry::Group(group)) => Some(&mut group.comments),
        _ => None,
    };
    if let Some(own) = own {
        own.splice(0..0, comments.iter().cloned());
    }
    entries
}
