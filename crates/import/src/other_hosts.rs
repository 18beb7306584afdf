//! Variables and facts of other hosts.

use crate::expression::{CONNECTION, ExpressionNames, ImportProblem};
use crate::paths::{closing, name_behind};
use crate::tokens::Token;

impl ExpressionNames {
    /// Rewrites `hostvars[HOST].NAME`, the variable or the fact of another host. The place after it, or `None` where no name follows.
    pub(crate) fn of_other_host(
        &self,
        all: &[Token<'_>],
        at: usize,
        out: &mut String,
    ) -> Result<Option<usize>, ImportProblem> {
        let Some(close) = all.get(at + 1).filter(|sign| sign.is("[")).and_then(|_| closing(all, at + 1))
        else {
            return Ok(None);
        };
        let inside: String =
            all.get(at + 2..close).unwrap_or_default().iter().map(|token| token.text).collect();
        let host = format!("hostvars[{}]", self.expression(&inside)?);
        let Some((name, end)) = name_behind(all, close + 1) else {
            out.push_str(&host);
            return Ok(Some(close + 1));
        };
        if self.registered.contains_key(name) || self.set_by_tasks.contains(name) {
            return Err(ImportProblem::new(
                format!("`{name}` of another host is read, which a task there sets"),
                "write it as a variable of the inventory, or ask for it where it is needed",
            ));
        }
        let (fact, end) = match name.strip_prefix("ansible_") {
            Some("facts") => match name_behind(all, end) {
                Some((fact, end)) => (fact.strip_prefix("ansible_").unwrap_or(fact), end),
                None => ("facts", end),
            },
            Some(fact) if !CONNECTION.contains(&fact) => (fact, end),
            _ => {
                out.push_str(&host);
                return Ok(Some(close + 1));
            }
        };
        let none = ExpressionNames::default();
        let mut written = String::new();
        let end = none.fact(fact, all, end, &mut written)?;
        if !written.starts_with("facts.") || written.matches("facts.").count() > 1 {
            return Err(ImportProblem::new(
                format!("a fact of another host is read: `ansible_{fact}`"),
                "write `hostvars[HOST].facts`, see docs/facts.md",
            ));
        }
        out.push_str(&format!("{host}.{written}"));
        Ok(Some(end))
    }
}
