//! Handlers: what is notified becomes `restart_on`, `reload_on` or `on_change`.

use crate::expression::ImportProblem;
use crate::notices::{is_called, notified};
use crate::report::TaskVerdict;
use crate::role::Build;
use crate::targets::NOT_APPLIED;
use crate::task::Task;
use crate::written::{ConvertedResource, RoleEntry};
use crate::yaml::texts;
use converge_syntax::{Node, Value};

impl Build<'_> {
    /// The indices of the handlers that a task notifies, with those that these notify in turn.
    pub(crate) fn handlers_of(&self, task: &Task) -> Result<Vec<usize>, ImportProblem> {
        let mut found: Vec<usize> = Vec::new();
        let mut words: Vec<String> = notified(task);
        let mut next = 0;
        while let Some(word) = words.get(next).cloned() {
            next += 1;
            let word = if word.contains("{{") { self.constant(&word).unwrap_or(word) } else { word };
            let all: Vec<usize> = self
                .handlers
                .iter()
                .enumerate()
                .filter(|(_, handler)| is_called(handler, &word))
                .map(|(at, _)| at)
                .collect();
            if all.is_empty() {
                let why = if word.contains("{{") {
                    "the host only knows which handler"
                } else {
                    "no handler of this role"
                };
                return Err(ImportProblem::new(
                    format!("it notifies `{word}`: {why}"),
                    "write the resource, and name it in `restart_on` or `reload_on` of the service",
                ));
            }
            for at in all {
                let is_foreign = self.handlers.get(at).is_some_and(|handler| handler.foreign.is_some());
                if !is_foreign && !found.contains(&at) {
                    found.push(at);
                    words.extend(self.handlers.get(at).map(notified).unwrap_or_default());
                }
            }
        }
        Ok(found)
    }

    /// The entries for all handlers that were notified since the last time, in the order in which they are written.
    pub(crate) fn flush(&mut self) -> Vec<RoleEntry> {
        let pending = std::mem::take(&mut self.notified);
        let mut entries = Vec::new();
        self.in_handlers = true;
        for (at, notifiers) in pending {
            let Some(handler) = self.handlers.get(at).cloned() else { continue };
            if notifiers.is_empty() {
                continue;
            }
            let is_again = !self.used_handlers.insert(at);
            if handler.module == "meta" || handler.module == "block" || handler.module == "include_tasks" {
                entries.extend(self.open(
                    &handler,
                    ImportProblem::new(
                        "a handler of several tasks",
                        "write each as a resource with `on_change` or `restart_on`",
                    ),
                    &[],
                ));
                continue;
            }
            let mut handler = handler;
            handler.keywords.retain(|(key, _)| key != "notify" && key != "listen");
            let before = self.findings.len();
            match self.converted(&handler, notifiers.clone()) {
                Ok((made, checks)) => {
                    self.written.check.extend(checks);
                    let merged = self.merged(&made, &notifiers);
                    match merged {
                        Some(name) => {
                            let key = follows_of(&made);
                            if let Some(finding) = self.findings.get_mut(before) {
                                finding.became = format!("{key} of `{name}`");
                            }
                        }
                        None => entries.extend(made),
                    }
                }
                Err((problem, when)) => entries.extend(self.open(&handler, problem, &when)),
            }
            if is_again {
                // One handler is one task, however often it is written.
                self.findings.truncate(before);
            }
        }
        self.in_handlers = false;
        entries
    }

    /// Lays a handler over a later resource of the same unit; the name of that one.
    fn merged(&mut self, made: &[RoleEntry], notifiers: &[String]) -> Option<String> {
        let [RoleEntry::Resource(handler)] = made else { return None };
        let key = follows_of(made);
        let only_follows = handler.params.iter().all(|(name, _)| name == "name" || name == key);
        if handler.kind != "service" || key.is_empty() || !only_follows || handler.for_each.is_some() {
            return None;
        }
        let last =
            notifiers.iter().map(|name| self.positions.get(name).copied().unwrap_or(usize::MAX)).max()?;
        let unit = |resource: &ConvertedResource| {
            resource.params.iter().find(|(name, _)| name == "name").map(|(_, value)| value.clone())
        };
        let wanted = unit(handler);
        let when = handler.when.clone();
        let resources = self.written.resources.iter_mut().enumerate();
        for (at, entry) in resources.rev() {
            let RoleEntry::Resource(resource) = entry else { continue };
            let starts = resource
                .params
                .iter()
                .any(|(name, value)| name == "state" && value.as_str() == Some("started"));
            let fits = resource.kind == "service"
                && unit(resource) == wanted
                && starts
                && resource.for_each.is_none()
                && resource.when == when;
            if !fits || at <= last {
                continue;
            }
            match resource.params.iter_mut().find(|(name, _)| name == key) {
                Some((_, Node { value: Value::List(all), .. })) => {
                    let more = notifiers
                        .iter()
                        .filter(|name| !all.iter().any(|own| own.as_str() == Some(name)))
                        .map(|name| crate::yaml::made(name.as_str()));
                    let more: Vec<Node> = more.collect();
                    all.extend(more);
                }
                _ => resource.params.push((key.to_owned(), texts(notifiers))),
            }
            self.taken.remove(&handler.name);
            return Some(resource.name.clone());
        }
        None
    }

    /// Whether no task of the role can notify a handler: it never runs for this role. A task of another role that does is open there.
    fn is_unheard(&self, handler: &Task) -> bool {
        let of_tasks = self.notices.keys().all(|word| !word.contains("{{") && !is_called(handler, word));
        let of_handlers = self
            .handlers
            .iter()
            .flat_map(notified)
            .all(|word| !word.contains("{{") && !is_called(handler, &word));
        // A role that is used in the middle of this one may notify what it knows to be here.
        of_tasks && of_handlers && !self.uses_roles
    }

    /// The handlers that nothing notifies are left out.
    pub(crate) fn unused_handlers(&mut self) {
        self.in_handlers = true;
        for (at, handler) in self.handlers.clone().iter().enumerate() {
            let words = self.notices.iter().filter(|(word, _)| is_called(handler, word));
            let lives: Vec<bool> = words.map(|(_, is_live)| *is_live).collect();
            let of_others = !lives.is_empty() && lives.iter().all(|is_live| !is_live);
            if handler.foreign.is_some() || (of_others && !self.used_handlers.contains(&at)) {
                let why = match &handler.foreign {
                    Some(foreign) => {
                        format!("`{}` holds on no host that converge works on", foreign.condition)
                    }
                    None => "only tasks notify it that do not apply".to_owned(),
                };
                self.find(handler, TaskVerdict::Exact, NOT_APPLIED, vec![why], None);
            } else if !self.used_handlers.contains(&at) {
                let (verdict, why) = if self.is_unheard(handler) {
                    (TaskVerdict::Exact, "no task notifies it")
                } else {
                    (TaskVerdict::Remark, "no task of this role that stands here notifies it")
                };
                self.find(handler, verdict, "left out", vec![why.to_owned()], None);
            }
        }
        self.in_handlers = false;
    }
}

fn follows_of(made: &[RoleEntry]) -> &'static str {
    let [RoleEntry::Resource(resource)] = made else { return "" };
    ["restart_on", "reload_on"]
        .into_iter()
        .find(|key| resource.params.iter().any(|(name, _)| name == key))
        .unwrap_or("")
}
