//! Facts that tasks of a role gather, before any of them is converted.

use crate::convert::{GATHERED, gathered_by};
use crate::expression::{ExpressionNames, ImportProblem, RegisteredResult};
use crate::task::Task;
use std::collections::BTreeSet;

/// Notes the facts that tasks gather, which have no value before. Those that something reads.
pub(crate) fn note(
    tasks: &[Task],
    handlers: &[Task],
    others: &[String],
    names: &mut ExpressionNames,
) -> BTreeSet<&'static str> {
    let mut read = BTreeSet::new();
    for known in GATHERED {
        let (mut gathers, mut reads) = (false, others.iter().any(|text| text.contains(known.fact)));
        for task in tasks.iter().chain(handlers) {
            task.each(&mut |task| {
                let is_own = gathered_by(task).is_some_and(|own| own.fact == known.fact);
                gathers |= is_own && task.foreign.is_none();
                reads |=
                    !is_own && task.block.is_empty() && !task.only_says() && task.text.contains(known.fact);
                // The condition of a block stands in the text of the block alone.
                reads |= !task.block.is_empty()
                    && task
                        .keyword("when")
                        .is_some_and(|when| when.to_json().to_string().contains(known.fact));
            });
        }
        if gathers && reads {
            read.insert(known.fact);
        }
        // Ansible has a variable of the name without a prefix too.
        if gathers && !names.declared.contains(known.fact) {
            let problem = ImportProblem::new(
                format!("`{}` is read before `{}` gathers it", known.fact, known.module),
                crate::task::instead(known.module),
            );
            names.registered.insert(known.fact.to_owned(), RegisteredResult::Unknown(problem));
        }
    }
    read
}
