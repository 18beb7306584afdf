//! Facts that a task of the role gathers: from there on, its answer stands for them.

use crate::convert::{GatheredFact, SELINUX, gathered_by};
use crate::expression::{ImportProblem, RegisteredResult};
use crate::results::JsonAnswer;
use crate::role::Build;
use crate::task::Task;
use crate::written::{ConvertedResource, RoleEntry};
use crate::yaml::made;
use converge_syntax::Node;
use std::collections::BTreeMap;

impl Build<'_> {
    /// A fact that was gathered and is gathered again under conditions is an older one where they do not hold.
    pub(crate) fn gathers_for_all(&self, task: &Task, when: &[Node]) -> Result<(), ImportProblem> {
        let known = gathered_by(task);
        let is_again = known.is_some_and(|known| self.names.gathered.contains_key(known.fact));
        if is_again && (!when.is_empty() || self.conditions.iter().any(|one| !one.is_empty())) {
            return Err(ImportProblem::new(
                "it gathers again what was gathered, where its conditions hold",
                "write `query`, and read its answer",
            ));
        }
        Ok(())
    }

    /// Asks for SELinux in the beginning, where tasks or templates read it; a default or a variable of the role has its value before.
    pub(crate) fn asks_for_selinux(&mut self, tasks: &[Task], values: &str) {
        let GatheredFact { fact, register, run, .. } = SELINUX;
        let names = [
            format!("ansible_{fact}"),
            format!("facts.{fact}"),
            format!("facts['{fact}']"),
            format!("facts[\"{fact}\"]"),
        ];
        let reads = |text: &str| names.iter().any(|name| text.contains(name));
        let mut is_read = false;
        for task in tasks {
            task.each(&mut |task| is_read |= task.foreign.is_none() && reads(&task.text));
        }
        if !is_read || reads(values) || self.names.registered.contains_key(register) {
            return;
        }
        self.names.registered.insert(register.to_owned(), RegisteredResult::Query(BTreeMap::new()));
        self.names.gathered.insert(fact, format!("{register}.json"));
        let resource = ConvertedResource {
            name: self.unique("SELinux of the host"),
            kind: "query".to_owned(),
            params: vec![("run".to_owned(), made(run)), ("json".to_owned(), made(true))],
            register: Some(register.to_owned()),
            ..ConvertedResource::default()
        };
        self.taken.insert(resource.name.clone());
        self.written.resources.push(RoleEntry::Resource(Box::new(resource)));
    }

    /// The name under which a task that gathers a fact registers its answer, and from here on reads it.
    pub(crate) fn gathers(&mut self, task: &Task) -> Option<String> {
        let known = gathered_by(task)?;
        let numbered = |number: usize| match number {
            1 => known.register.to_owned(),
            _ => format!("{}_{number}", known.register),
        };
        let register = (1..).map(numbered).find(|name| !self.names.registered.contains_key(name))?;
        let here = format!("{register}.json");
        self.names.registered.insert(register.clone(), RegisteredResult::Query(BTreeMap::new()));
        if !self.names.declared.contains(known.fact) {
            let answer = JsonAnswer { path: "", here: here.clone(), known: BTreeMap::new() };
            self.names.registered.insert(known.fact.to_owned(), RegisteredResult::Json(answer));
        }
        self.names.gathered.insert(known.fact, here);
        Some(register)
    }
}
