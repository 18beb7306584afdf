//! An item of a role as the fold takes it: evaluated with the facts and results of its moment.

use super::evaluated::EvaluatedItem;
use super::{HostSource, registered};
use converge_model::{DeclaredItem, EMPTY_LIST, NOT_KNOWN, Resolution};
use converge_planner::{
    AlteredFacts, ItemDeclaration as Item, ItemSource, Outputs, Problem, ResolvedParameters, RunPosition,
};
use converge_resource::{Claim, Wait, encode_field};
use converge_syntax::Diagnostic;
use std::collections::BTreeSet;

/// The claims of an item, by the parameters that are known. A parameter that must be known to be read is left out
/// where it may be; nothing is claimed whose name is not known.
fn outlined_claims(kind: &str, mut params: serde_json::Value) -> Vec<Claim> {
    let Some(kind) = converge_resources::kind(kind) else { return Vec::new() };
    loop {
        let fault = match (kind.parse)(&params) {
            Ok(resource) => {
                // Keys such as a command's hold their parts encoded.
                let encoded = encode_field(NOT_KNOWN);
                let unknown = |key: &str| key.contains(NOT_KNOWN) || key.contains(&encoded);
                let known = |claim: &Claim| !unknown(&claim.object.key);
                return resource.claims().into_iter().filter(known).collect();
            }
            Err(fault) => fault,
        };
        let unknown = params.pointer(&fault.pointer).is_some_and(|v| v.as_str() == Some(NOT_KNOWN));
        let at = fault.pointer.rsplit_once('/').filter(|_| unknown);
        let parent = at.and_then(|(parent, name)| Some((params.pointer_mut(parent)?.as_object_mut()?, name)));
        match parent {
            Some((parent, name)) => drop(parent.remove(name)),
            None => return Vec::new(),
        }
    }
}

/// The first names of the facts of this host among names that an evaluation has reached.
fn facts_among<'n>(reached: impl IntoIterator<Item = &'n String>, host: &str) -> BTreeSet<String> {
    let others = format!("hostvars.{host}.facts.");
    let names = reached.into_iter().filter_map(|name| {
        let fact = name.strip_prefix("facts.").or_else(|| name.strip_prefix(&others))?;
        fact.split('.').next()
    });
    names.map(str::to_owned).collect()
}

impl HostSource<'_> {
    /// A list that is made of facts which an earlier item alters: its elements are not known yet.
    fn altered_list(item: &DeclaredItem, wait: &str) -> ResolvedParameters {
        ResolvedParameters::Invalid(Problem {
            message: format!("the list of its `for_each` must be known when the plan is made: {wait}"),
            help: Some(
                "once that is done, the next run knows the list; or make it of `facts_before`, the facts before this run".to_owned(),
            ),
            pointer: String::new(),
            at: Some(item.span.to_string()),
            blocked: false,
        })
    }
}

impl ItemSource for HostSource<'_> {
    fn items(&self) -> &[Item] {
        &self.items
    }

    fn facts_read(&self, index: usize) -> BTreeSet<String> {
        self.reads.borrow().get(&index).cloned().unwrap_or_default()
    }

    fn resolve(&self, index: usize, outputs: &Outputs, altered: &AlteredFacts) -> ResolvedParameters {
        let Some((declared, item)) = self.at(index) else {
            return ResolvedParameters::Invalid(Problem::new("the resource is gone"));
        };
        let used = self.use_with(index, altered);
        let role = used.as_deref().unwrap_or(declared);
        let evaluated = self.evaluated(index, (declared, item), used.clone(), outputs);
        let EvaluatedItem { resolution, read, .. } = &*evaluated;
        let unknown = match resolution {
            Resolution::Unknown { names, .. } => names.clone(),
            _ => BTreeSet::new(),
        };
        let reader = self.reader(index, role);
        let mut of_others: BTreeSet<String> = read.union(&unknown).cloned().collect();
        if used.is_some() && !unknown.is_empty() {
            // It stops at the first fact that is altered. With the facts as they were read it shows the others too.
            let again = declared.resolve_reading(item, &registered(outputs), &mut of_others);
            if let Resolution::Unknown { names, .. } = again {
                of_others.extend(names);
            }
        }
        self.others_read.note(reader, &self.others, of_others.iter());
        if let Some(problem) = self.others_read.lost(reader, &self.others, unknown.iter()) {
            return ResolvedParameters::Invalid(Problem { at: Some(item.span.to_string()), ..problem });
        }
        let read = facts_among(read, &role.host);
        let list = facts_among(item.list_lookups().into_iter().flatten(), &role.host);
        self.reads.borrow_mut().insert(index, read);
        let own = list.iter().find(|fact| altered.has(fact)).map(|fact| {
            altered.wait(fact).map_or_else(|| format!("facts.{fact} changes first"), |w| w.reason.clone())
        });
        let of_other = || self.others.altered_among(reader, item.list_lookups().into_iter().flatten());
        if let Some(wait) = own.or_else(of_other)
            && !matches!(resolution, Resolution::Skipped { why } if why != EMPTY_LIST)
        {
            return Self::altered_list(item, &wait);
        }
        match resolution {
            Resolution::Skipped { why } => ResolvedParameters::Skipped(why.clone()),
            Resolution::Unknown { names, outline } => ResolvedParameters::Unknown {
                names: names.iter().cloned().collect(),
                claims: outlined_claims(&item.kind, outline.params.clone()),
                sensitive: outline.sensitive,
            },
            Resolution::Invalid(found) => {
                let first = found.iter().next();
                let problem = Problem {
                    message: first.map_or_else(|| "it is invalid".to_owned(), |d| d.message.clone()),
                    help: first.and_then(|d| d.help.clone()),
                    pointer: String::new(),
                    at: first.and_then(Diagnostic::span).map(ToString::to_string),
                    blocked: false,
                };
                self.complain(index, found.iter().cloned());
                ResolvedParameters::Invalid(problem)
            }
            Resolution::Ready(ready) => self.ready(index, item, ready.clone()),
        }
    }

    fn moment(&self, index: usize) -> RunPosition {
        self.moments.get(index).copied().unwrap_or_default()
    }

    fn waits_for_others(&self, index: usize) -> BTreeSet<(String, String)> {
        self.others_read.waits(index)
    }

    fn wait_for_other(&self, index: usize, name: &str) -> Option<Wait> {
        let (role, _) = self.at(index)?;
        self.others.wait(self.reader(index, role), name)
    }

    fn remarks(&self, index: usize) -> Vec<String> {
        self.others_read.remarks(index)
    }

    fn ordered(&self, a: &str, b: &str) -> bool {
        self.graph.comes_before(a, b)
    }

    fn stage(&self, index: usize, outputs: &Outputs) -> Option<String> {
        // Only these ask together: the others need not be evaluated twice.
        if self.items.get(index)?.kind != "package" {
            return None;
        }
        match self.resolve(index, outputs, &AlteredFacts::default()) {
            ResolvedParameters::Ready { resource, .. } => resource.stage(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Two commands whose texts are not known are not one command.
    #[test]
    fn nothing_is_claimed_whose_name_is_not_known() {
        let claims = |params| outlined_claims("command", params).len();
        assert_eq!(claims(json!({"run": NOT_KNOWN, "unless": NOT_KNOWN})), 0);
        assert_eq!(claims(json!({"run": "true", "unless": format!("test {NOT_KNOWN}")})), 0);
        assert_eq!(claims(json!({"run": "true", "unless": "false"})), 1);
    }
}
