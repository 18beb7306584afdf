//! Facts that a task of the role gathers: from there on, its answer stands for them.

use crate::convert::GATHERED;
use crate::expression::{ImportProblem, RegisteredResult};
use crate::results::JsonAnswer;
use crate::role::Build;
use crate::task::Task;
use converge_syntax::Node;
use std::collections::BTreeMap;

impl Build<'_> {
    /// A fact that was gathered and is gathered again under conditions is an older one where they do not hold.
    pub(crate) fn gathers_for_all(&self, task: &Task, when: &[Node]) -> Result<(), ImportProblem> {
        let known = GATHERED.iter().find(|known| known.module == task.module);
        let is_again = known.is_some_and(|known| self.names.gathered.contains_key(known.fact));
        if is_again && (!when.is_empty() || self.conditions.iter().any(|one| !one.is_empty())) {
            return Err(ImportProblem::new(
                "it gathers again what was gathered, where its conditions hold",
                "write `query`, and read its answer",
            ));
        }
        Ok(())
    }

    /// The name under which a task that gathers a fact registers its answer, and from here on reads it.
    pub(crate) fn gathers(&mut self, task: &Task) -> Option<String> {
        let known = GATHERED.iter().find(|known| known.module == task.module)?;
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
