//! From tasks to the entries of a role.

use crate::convert::{Converted, ConvertedPart, Params, convert};
use crate::expression::{ImportProblem, RegisteredResult};
use crate::includes::{CASE, included_name, listed};
use crate::keywords::{Common, asks_for_change, common, conditions, special};
use crate::loops::loop_of;
use crate::names::plain_name;
use crate::registers::has_loop;
use crate::report::{ImportFinding, TaskVerdict};
use crate::role::Build;
use crate::task::Task;
use crate::written::{ConvertedResource, EntryGroup, RoleEntry, Sections};
use crate::yaml::{made, texts};
use converge_syntax::Node;

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
        if let Some(problem) = &task.broken {
            return self.open(task, problem.clone(), &[]);
        }
        if let Err(problem) = self.task_vars(task) {
            return self.open(task, problem, &[]);
        }
        let result = match task.module.as_str() {
            "block" => Ok(self.block(task)),
            "include_tasks" => self.include(task),
            CASE => Ok(self.group(task, false)),
            "meta" => self.meta(task),
            "set_fact" => self.set_fact(task).map(|()| Vec::new()),
            "include_vars" => self.include_vars(task).map(|()| Vec::new()),
            "include_role" | "import_role" => self.other_role(task).map(|()| Vec::new()),
            _ => return self.resources(task),
        };
        result.unwrap_or_else(|problem| self.open(task, problem, &[]))
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
                    if task.module != "block" {
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
    fn group(&mut self, task: &Task, push_down: bool) -> Vec<RoleEntry> {
        let mut read = Common::default();
        let mut inner: Vec<Task> = task.block.clone();
        let mut inherited: Vec<(String, Node)> = task
            .keywords
            .iter()
            .filter(|(key, value)| INHERITED.contains(&key.as_str()) && !value.is_null())
            .cloned()
            .collect();
        let mut tags = task.words("tags");
        if task.module == "include_tasks" {
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
        inherited.clear();
        self.depth += 1;
        self.conditions.push(read.when.clone());
        let entries = self.tasks(&inner);
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
            if !matches!(task.module.as_str(), "block" | CASE) {
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
            "flush_handlers"
                if self.conditions.iter().all(Vec::is_empty) && task.keyword("when").is_none() =>
            {
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
        let name = crate::role::role_name(&name);
        if !self.written.requires.contains(&name) {
            self.written.requires.push(name);
        }
        let why = "it comes before all resources of this role, and must stand in the play";
        self.find(task, TaskVerdict::Remark, "requires", vec![why.to_owned()], None);
        Ok(())
    }

    /// Converts a task that becomes resources.
    fn resources(&mut self, task: &Task) -> Vec<RoleEntry> {
        match self.converted(task, Vec::new()) {
            Ok((entries, checks)) => {
                self.written.check.extend(checks);
                entries
            }
            Err((problem, when)) => {
                if let Some(name) = task.keyword("register").and_then(Node::scalar_text) {
                    let unknown = ImportProblem::new(
                        format!("the task that gives `{name}` is open"),
                        "decide about that task first",
                    );
                    self.names.registered.insert(name, RegisteredResult::Unknown(unknown));
                }
                self.open(task, problem, &when)
            }
        }
    }

    /// Converts a task or a handler; `notified` are the resources that notify it.
    pub(crate) fn converted(
        &mut self,
        task: &Task,
        notified: Vec<String>,
    ) -> Result<Sections, (ImportProblem, Vec<Node>)> {
        let is_handler = !notified.is_empty();
        let fail = |problem: ImportProblem| (problem, Vec::new());
        let each = loop_of(task, &self.names).map_err(fail)?;
        let mut names = self.names.clone();
        names.element = each.as_ref().and_then(|each| each.element.clone());
        let mut read = common(task, &names).map_err(fail)?;
        let when = read.when.clone();
        let fail = |problem: ImportProblem| (problem, when.clone());
        let mut context = self.context.clone();
        context.is_handler = is_handler;
        context.has_loop = each.is_some();
        context.follows = notified;
        context.follows.extend(read.follows.clone());
        context.when.clone_from(&read.when);
        context.written_when.clone_from(&read.written_when);
        let register = task.keyword("register").and_then(Node::scalar_text);
        context.is_query = register
            .as_ref()
            .is_some_and(|name| matches!(self.names.registered.get(name), Some(RegisteredResult::Query(_))));
        special(task, &names, &mut context, &mut read).map_err(fail)?;
        let args = if task.module == "assert" {
            self.assert_args(task, &names).map_err(fail)?
        } else {
            names.node(&task.args).map_err(fail)?
        };
        let free = task.free.as_deref().map(|text| names.template(text)).transpose().map_err(fail)?;
        let converted =
            convert(&task.module, Params::new(&task.module, &args, free.clone()), &context).map_err(fail)?;
        if read.become_user.is_some()
            && !converted.made.iter().all(|made| matches!(made.kind, "command" | "query"))
        {
            return Err(fail(ImportProblem::new(
                format!("`become_user` goes to `{}`", task.module),
                "write `owner` at a file, `user` at `git`; a `command` takes `become_user`",
            )));
        }
        if !context.follows.is_empty()
            && !converted.made.is_empty()
            && !converted.made.iter().any(|made| made.follows.is_some())
            && !is_settled(&converted, is_handler)
        {
            return Err(fail(ImportProblem::new(
                "it is done only when another task has changed something",
                "write what the host has to be in any case, or `command` with `on_change`",
            )));
        }
        let notifies = self.handlers_of(task).map_err(fail)?;
        let made =
            self.made(task, &converted, &read, each.map(|each| each.each), &context.follows).map_err(fail)?;
        self.note_query(task, free.as_deref(), &args);
        let mut remarks = read.remarks.clone();
        remarks.extend(converted.remarks.iter().cloned());
        let kinds: Vec<&str> = converted.made.iter().map(|made| made.kind).collect();
        let became = converted.left_out.map_or_else(|| kinds.join(", "), str::to_owned);
        let resources: Vec<String> = made.iter().map(|(resource, _)| resource.name.clone()).collect();
        if resources.is_empty() && !notifies.is_empty() {
            remarks.push("nothing stands for it that could restart anything".to_owned());
        }
        for name in &resources {
            self.positions.insert(name.clone(), self.top);
        }
        for handler in notifies {
            self.notified.entry(handler).or_default().extend(resources.iter().cloned());
        }
        if let Some(name) = register
            .filter(|name| matches!(self.names.registered.get(name), Some(RegisteredResult::Changes(_))))
        {
            self.names.registered.insert(name, RegisteredResult::Changes(resources));
        }
        let verdict = if remarks.is_empty() { TaskVerdict::Exact } else { TaskVerdict::Remark };
        self.find(task, verdict, &became, remarks, None);
        let (checks, entries): (Vec<_>, Vec<_>) = made.into_iter().partition(|(_, is_check)| *is_check);
        let entry = |(resource, _): (ConvertedResource, bool)| RoleEntry::Resource(Box::new(resource));
        let outer: Vec<Node> = self.conditions.iter().flatten().cloned().collect();
        let checks = checks
            .into_iter()
            .map(|(mut resource, _)| {
                resource.when.splice(0..0, outer.iter().cloned());
                RoleEntry::Resource(Box::new(resource))
            })
            .collect();
        Ok((entries.into_iter().map(entry).collect(), checks))
    }

    /// Conditions of `assert` are bare expressions.
    fn assert_args(
        &self,
        task: &Task,
        names: &crate::expression::ExpressionNames,
    ) -> Result<Node, ImportProblem> {
        let entries = task.args.as_map().unwrap_or_default().iter().map(|(key, value)| {
            let value = if key.as_str() == Some("that") {
                let all = listed(value).into_iter().map(|one| match one.as_str() {
                    Some(text) => {
                        let bare =
                            crate::expression::whole_expression(text).unwrap_or(text).trim().to_owned();
                        Ok(made(names.expression(&bare)?))
                    }
                    None => Ok(one),
                });
                made(converge_syntax::Value::List(all.collect::<Result<_, ImportProblem>>()?))
            } else {
                names.node(value)?
            };
            Ok((key.clone(), value))
        });
        let entries = entries.collect::<Result<Vec<_>, ImportProblem>>()?;
        Ok(Node { value: converge_syntax::Value::Map(entries), span: task.args.span.clone(), tag: None })
    }

    /// The resources of a task, each checked against its kind.
    fn made(
        &mut self,
        task: &Task,
        converted: &Converted,
        read: &Common,
        each: Option<Node>,
        follows: &[String],
    ) -> Result<Vec<(ConvertedResource, bool)>, ImportProblem> {
        let mut all: Vec<(ConvertedResource, bool)> = Vec::new();
        for (index, one) in converted.made.iter().enumerate() {
            let title = match one.suffix {
                "" => task.title(),
                suffix => format!("{}: {suffix}", task.title()),
            };
            let name = self.unique(&title);
            let mut params = one.params.clone();
            if let Some(key) = one.follows {
                let first: Vec<String> =
                    all.first().map(|(first, _)| first.name.clone()).into_iter().collect();
                let names = if index > 0 && follows.is_empty() { &first[..] } else { follows };
                params.push((key.to_owned(), texts(names)));
            }
            let when = read.when.iter().enumerate().filter(|(at, _)| !converted.dropped_when.contains(at));
            let resource = ConvertedResource {
                comments: if index == 0 { task.comments.clone() } else { Vec::new() },
                name,
                when: when.map(|(_, when)| when.clone()).collect(),
                for_each: each.clone(),
                tags: read.tags.clone(),
                kind: one.kind.to_owned(),
                params,
                register: task.keyword("register").and_then(Node::scalar_text).filter(|_| one.registers),
                become_user: read.become_user.clone(),
                sensitive: read.sensitive,
            };
            let is_check = one.is_check && !self.reads_results(&resource);
            let resource = self.fitting(resource, task)?;
            self.claim(&resource)?;
            note_path(self, one);
            all.push((resource, is_check));
        }
        for (resource, _) in &all {
            self.taken.insert(resource.name.clone());
        }
        Ok(all)
    }

    /// The resource as its kind takes it. Ansible takes a text for a number, the only form that `key=value` has.
    fn fitting(&self, resource: ConvertedResource, task: &Task) -> Result<ConvertedResource, ImportProblem> {
        let Err(problem) = self.check_resource(&resource, task) else { return Ok(resource) };
        let mut numbers = resource;
        for (_, value) in &mut numbers.params {
            let number = value
                .as_str()
                .filter(|text| !text.starts_with('0') || *text == "0")
                .and_then(|text| text.parse::<i64>().ok());
            if let Some(number) = number {
                *value = made(number);
            }
        }
        self.check_resource(&numbers, task).map_err(|_| problem)?;
        Ok(numbers)
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

/// Whether a handler's resource says what the host has in any case: a unit that runs, say.
fn is_settled(converted: &Converted, is_handler: bool) -> bool {
    is_handler
        && converted.made.iter().all(|made| matches!(made.kind, "service" | "wait_for" | "query" | "assert"))
}

/// Remembers the path that a resource makes, for a later `file` without `state`.
fn note_path(build: &mut Build<'_>, made: &ConvertedPart) {
    if let "file" | "directory" = made.kind
        && let Some((_, path)) = made.params.iter().find(|(key, _)| key == "path")
        && let Some(path) = path.as_str()
    {
        build.context.paths.insert(path.trim_end_matches('/').to_owned(), made.kind);
    }
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
