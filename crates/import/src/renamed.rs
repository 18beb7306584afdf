//! Variables that tasks set over a default of the role, or where something read them before: from there on they have another name.

use crate::expression::{ImportProblem, uses, whole_expression};
use crate::facts_set::grown;
use crate::role::{Build, ConditionalValue};
use crate::yaml::made;
use converge_syntax::Node;
use std::collections::BTreeSet;

impl Build<'_> {
    /// Gives a variable that a task sets another name from here on: an input keeps what users give, and what was read before its value.
    pub(crate) fn rename_input(&mut self, name: &str) -> Result<(), ImportProblem> {
        let others = self.written.inputs.iter().chain(&self.written.vars).filter(|one| one.name != name);
        let of_others = others.map(|one| one.value.to_json().to_string());
        let of_sets = self.sets.iter().flat_map(|(_, sets)| sets).map(|set| set.value.to_json().to_string());
        let mut found = BTreeSet::new();
        of_others.chain(of_sets).for_each(|text| uses(&text, name, false, &mut found));
        let around = self.asked_again.iter().filter_map(Node::scalar_text);
        around.for_each(|text| uses(&text, name, true, &mut found));
        if !found.is_empty() {
            return Err(ImportProblem::new(
                format!(
                    "`{name}` has another value before, and other variables or conditions are made of it"
                ),
                "write the expression under another name in `vars`, and read that one from here on",
            ));
        }
        let is_taken = |other: &str| {
            self.inputs.contains(other)
                || self.names.declared.contains(other)
                || self.names.set_by_tasks.contains(other)
                || self.names.registered.contains_key(other)
        };
        let numbered = |number: usize| match number {
            1 => format!("{name}_here"),
            _ => format!("{name}_here_{number}"),
        };
        let Some(fresh) = (1..).map(numbered).find(|other| !is_taken(other)) else { return Ok(()) };
        let given = ConditionalValue {
            when: Vec::new(),
            value: made(format!("{{{{ {name} }}}}")),
            is_default: false,
        };
        self.sets.push((fresh.clone(), vec![given]));
        self.names.renamed.insert(name.to_owned(), fresh);
        Ok(())
    }

    /// Conditions that ask for the variable itself ask for its value so far.
    pub(crate) fn with_earlier(&self, name: &str, when: Vec<String>) -> Result<Vec<String>, ImportProblem> {
        let Some((_, sets)) = self.sets.iter().find(|(own, sets)| own == name && !sets.is_empty()) else {
            return Ok(when);
        };
        let earlier = |one: String| {
            let mut found = BTreeSet::new();
            uses(&one, name, true, &mut found);
            if found.is_empty() {
                return Ok(one);
            }
            let grown = grown(name, &made(format!("{{{{ {one} }}}}")), sets)?;
            Ok(grown.as_str().and_then(whole_expression).unwrap_or_default().trim().to_owned())
        };
        when.into_iter().map(earlier).collect()
    }
}
