//! From a task to its resources, each checked against its kind.

use crate::convert::{Context, Conversion, ConvertedPart, Params, convert};
use crate::emit::holds_on_targets;
use crate::expression::{ExpressionNames, ImportProblem, RegisteredResult, whole_expression};
use crate::includes::listed;
use crate::keywords::{Common, common, special};
use crate::loops::loop_of;
use crate::report::TaskVerdict;
use crate::role::Build;
use crate::targets::{DecidedFor, decided};
use crate::task::Task;
use crate::written::{ConvertedResource, RoleEntry, Sections};
use crate::yaml::{made, texts};
use converge_syntax::Node;

impl Build<'_> {
    /// Converts a task that becomes resources.
    pub(crate) fn resources(&mut self, task: &Task) -> Vec<RoleEntry> {
        match self.converted(task, Vec::new()) {
            Ok((entries, checks)) => {
                self.written.check.extend(checks);
                entries
            }
            Err((problem, when)) => {
                self.result_is_open(task);
                self.open(task, problem, &when)
            }
        }
    }

    /// Notes that the result of an open task is not known.
    pub(crate) fn result_is_open(&mut self, task: &Task) {
        let Some(name) = task.keyword("register").and_then(Node::scalar_text) else { return };
        let unknown = ImportProblem::new(
            format!("the task that gives `{name}` is open"),
            "decide about that task first",
        );
        self.names.registered.insert(name, RegisteredResult::Unknown(unknown));
    }

    /// Converts a task or a handler; `notified` are the resources that notify it.
    pub(crate) fn converted(
        &mut self,
        task: &Task,
        notified: Vec<String>,
    ) -> Result<Sections, (ImportProblem, Vec<Node>)> {
        let is_handler = !notified.is_empty();
        if task.only_says() {
            self.find(task, TaskVerdict::Exact, "left out", Vec::new(), None);
            return Ok(Sections::default());
        }
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
        // A condition of all that notifies it is one of the handler too.
        context.is_sure = notified.iter().any(|name| !self.conditional.contains(name));
        context.follows = notified;
        context.follows.extend(read.follows.clone());
        context.when.clone_from(&read.when);
        context.written_when.clone_from(&read.written_when);
        let register = task.keyword("register").and_then(Node::scalar_text);
        context.is_query = register.as_ref().is_some_and(|name| {
            matches!(
                self.names.registered.get(name),
                Some(RegisteredResult::Query(_) | RegisteredResult::Json(_))
            )
        });
        special(task, &names, &mut context, &mut read).map_err(fail)?;
        let args = if task.module == "assert" {
            self.assert_args(task, &names).map_err(fail)?
        } else {
            names.node(&task.args).map_err(fail)?
        };
        let free = task.free.as_deref().map(|text| names.template(text)).transpose().map_err(fail)?;
        let converted =
            convert(&task.module, Params::new(&task.module, &args, free.clone()), &context).map_err(fail)?;
        can_be_expressed(task, &read, &converted, &context).map_err(fail)?;
        let notifies = self.handlers_of(task).map_err(fail)?;
        let made =
            self.made(task, &converted, &read, each.map(|each| each.each), &context.follows).map_err(fail)?;
        self.note_query(task, converted.question.as_deref(), &args);
        let mut remarks = read.remarks.clone();
        remarks.extend(converted.remarks.iter().cloned());
        if self.has_logins && crate::logins::is_of_login(task, &converted.made) {
            remarks.push(crate::logins::AS_LOGIN.to_owned());
        }
        let kinds: Vec<&str> = converted.made.iter().map(|made| made.kind).collect();
        let became = converted.left_out.map_or_else(|| kinds.join(", "), str::to_owned);
        let resources: Vec<String> = made.iter().map(|(resource, _)| resource.name.clone()).collect();
        if resources.is_empty() && !notifies.is_empty() {
            remarks.push("nothing stands for it that could restart anything".to_owned());
        }
        let is_conditional = !read.when.iter().chain(self.conditions.iter().flatten()).all(holds_on_targets);
        for name in &resources {
            self.positions.insert(name.clone(), self.top);
            if is_conditional {
                self.conditional.insert(name.clone());
            }
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
    fn assert_args(&self, task: &Task, names: &ExpressionNames) -> Result<Node, ImportProblem> {
        let entries = task.args.as_map().unwrap_or_default().iter().map(|(key, value)| {
            let value = if key.as_str() == Some("that") {
                let known = |one: &Node| {
                    one.as_str().is_some_and(|text| {
                        let bare = whole_expression(text).unwrap_or(text);
                        decided(bare, DecidedFor::Hosts) == Some(true)
                    })
                };
                let open = listed(value).into_iter().filter(|one| !known(one));
                let all = open.map(|one| match one.as_str() {
                    Some(text) => {
                        let bare = whole_expression(text).unwrap_or(text).trim().to_owned();
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
        converted: &Conversion,
        read: &Common,
        each: Option<Node>,
        follows: &[String],
    ) -> Result<Vec<(ConvertedResource, bool)>, ImportProblem> {
        self.gathers_for_all(task, &read.when)?;
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
            let mut resource = ConvertedResource {
                comments: if index == 0 { task.comments.clone() } else { Vec::new() },
                name,
                when: when.map(|(_, when)| when.clone()).chain(one.when.as_deref().map(made)).collect(),
                for_each: each.clone(),
                tags: read.tags.clone(),
                kind: one.kind.to_owned(),
                params,
                register: one.registers_as.clone().or_else(|| {
                    task.keyword("register").and_then(Node::scalar_text).filter(|_| one.registers)
                }),
                become_user: read.become_user.clone(),
                sensitive: read.sensitive,
            };
            self.in_home_of_root(&mut resource, task);
            // The answer of a check is known before all else, and so are the conditions around it.
            let around = self.conditions.iter().flatten().cloned().collect();
            let around = ConvertedResource { when: around, ..ConvertedResource::default() };
            let is_check = one.is_check && !self.reads_results(&resource) && !self.reads_results(&around);
            let resource = self.fitting(resource, task)?;
            self.claim(&resource)?;
            note_path(self, one);
            let is_always = read.when.is_empty()
                && self.conditions.iter().flatten().all(holds_on_targets)
                && one.when.is_none();
            if is_always {
                note_packages(self, one);
            }
            all.push((resource, is_check));
        }
        for (resource, _) in &all {
            self.taken.insert(resource.name.clone());
        }
        if let Some((resource, _)) = all.first_mut()
            && let Some(register) = self.gathers(task)
        {
            resource.register = Some(register);
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
}

/// Whether the resources mean what the task does: as which user, and when.
fn can_be_expressed(
    task: &Task,
    read: &Common,
    converted: &Conversion,
    context: &Context,
) -> Result<(), ImportProblem> {
    if read.become_user.is_some()
        && !converted.made.iter().all(|made| matches!(made.kind, "command" | "query"))
    {
        return Err(ImportProblem::new(
            format!("`become_user` goes to `{}`", task.module),
            "write `owner` at a file, `user` at `git`; a `command` takes `become_user`",
        ));
    }
    let has_change = converted.made.is_empty() || converted.made.iter().any(|made| made.follows.is_some());
    let holds_anyway = context.is_sure && is_settled(converted, context.is_handler);
    if !(context.follows.is_empty() || has_change || holds_anyway) {
        return Err(ImportProblem::new(
            "it is done only when another task has changed something",
            "write what the host has to be in any case, or `command` with `on_change`",
        ));
    }
    Ok(())
}

/// Whether a handler's resource says what the host has in any case: a unit that runs, say.
fn is_settled(converted: &Conversion, is_handler: bool) -> bool {
    is_handler
        && converted.made.iter().all(|made| matches!(made.kind, "service" | "wait_for" | "query" | "assert"))
}

/// Remembers the packages that a resource installs, without their versions.
fn note_packages(build: &mut Build<'_>, made: &ConvertedPart) {
    let value = |key: &str| made.params.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let is_absent = value("state").is_some_and(|state| !matches!(state.as_str(), Some("present" | "latest")));
    if let Some(names) = value("name").filter(|_| made.kind == "package" && !is_absent) {
        let all = listed(names).into_iter().filter_map(|name| name.scalar_text());
        build.context.packages.extend(all.map(|name| name.split('=').next().unwrap_or_default().to_owned()));
    }
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
