//! `vars` of a role: named expressions. A template evaluates them where it uses them, and nothing outside the role sets them.

use std::collections::{BTreeMap, BTreeSet};

use converge_syntax::{Diagnostic, Diagnostics, Node, Span};
use converge_template::TemplateEngine;
use indexmap::IndexMap;

use crate::fields::{is_identifier, wrong_type};
use crate::input::Input;
use crate::magic::MAGIC;

/// A named expression of a role.
#[derive(Clone, Debug)]
pub struct Expression {
    /// Its name.
    pub name: String,
    /// The place of the name.
    pub span: Span,
    /// The value as written.
    pub node: Node,
}

/// Complains about a name that a template cannot use or that converge sets; `what` is "an input".
pub(crate) fn check_name(key: &Node, what: &str, diags: &mut Diagnostics) -> Option<String> {
    let Some(name) = key.as_str() else {
        let quoted = format!("write it in quotes, \"{}\", or choose another name", key.span.text());
        diags.push(wrong_type(key, &format!("the name of {what}"), "a string").help(quoted));
        return None;
    };
    if !is_identifier(name) {
        let fixed: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let help = if is_identifier(&fixed) {
            format!("write `{fixed}`")
        } else {
            "letters, digits and underscores; no digit first".to_owned()
        };
        diags.push(
            Diagnostic::error("bad-name", format!("`{name}` cannot be the name of {what}"))
                .label(&key.span, "not usable in templates")
                .help(help),
        );
    } else if MAGIC.contains(&name) {
        diags.push(
            Diagnostic::error("bad-name", format!("`{name}` is set by converge and cannot be {what}"))
                .label(&key.span, "taken"),
        );
    }
    Some(name.to_owned())
}

/// Reads `vars` of a role, with every diagnostic about them.
pub(crate) fn read(
    role: &Node,
    inputs: &IndexMap<String, Input>,
    diags: &mut Diagnostics,
) -> IndexMap<String, Expression> {
    let mut found = IndexMap::new();
    let Some(declared) = role.get("vars").filter(|vars| !vars.is_null()) else {
        return found;
    };
    let Some(entries) = declared.as_map() else {
        diags
            .push(wrong_type(declared, "`vars`", "a map").help("write `vars: {name: \"{{ expression }}\"}`"));
        return found;
    };
    for (key, value) in entries {
        let Some(name) = check_name(key, "an expression", diags) else { continue };
        if let Some(input) = inputs.get(&name) {
            diags.push(
                Diagnostic::error("duplicate-name", format!("`{name}` is an input of the role"))
                    .label(&key.span, "taken")
                    .label(&input.span, "here")
                    .help("an input has a `default`; an expression has another name"),
            );
        }
        let expression = Expression { name: name.clone(), span: key.span.clone(), node: value.clone() };
        found.insert(name, expression);
    }
    circles(&found, diags);
    found
}

/// Complains about each circle of expressions once, also where no item uses it.
fn circles(expressions: &IndexMap<String, Expression>, diags: &mut Diagnostics) {
    if expressions.is_empty() {
        return;
    }
    let engine = TemplateEngine::new();
    let uses: BTreeMap<&str, BTreeSet<String>> =
        expressions.values().map(|e| (e.name.as_str(), engine.references(&e.node))).collect();
    let mut done = BTreeSet::new();
    for name in expressions.keys() {
        follow(name, &uses, &mut done, expressions, diags);
    }
}

/// Goes along all that an expression uses. No function calls itself here: a chain may be as long as a file has room for.
fn follow<'e>(
    first: &'e str,
    uses: &'e BTreeMap<&'e str, BTreeSet<String>>,
    done: &mut BTreeSet<&'e str>,
    expressions: &'e IndexMap<String, Expression>,
    diags: &mut Diagnostics,
) {
    let next_of = |name: &str| uses.get(name).into_iter().flatten();
    if done.contains(first) {
        return;
    }
    // The expressions on the way, each with those that it uses and that are still to be looked at.
    let mut path = vec![(first, next_of(first))];
    let mut places = BTreeMap::from([(first, 0)]);
    while let Some((name, open)) = path.last_mut() {
        let Some(next) = open.next() else {
            done.insert(*name);
            places.remove(*name);
            path.pop();
            continue;
        };
        let Some((next, _)) = expressions.get_key_value(next) else { continue };
        if let Some(at) = places.get(next.as_str()) {
            let circle: Vec<&str> = path.iter().skip(*at).map(|(name, _)| *name).collect();
            diags.push(circle_of(&circle, expressions));
        } else if !done.contains(next.as_str()) {
            places.insert(next, path.len());
            path.push((next, next_of(next)));
        }
    }
}

fn circle_of(circle: &[&str], expressions: &IndexMap<String, Expression>) -> Diagnostic {
    let names: Vec<&str> = circle.iter().chain(circle.first()).copied().collect();
    let message = format!("expressions refer to each other in a circle: {}", names.join(" → "));
    let mut diagnostic = Diagnostic::error("variable-cycle", message);
    for (index, own) in circle.iter().enumerate() {
        if let (Some(own), Some(next)) = (expressions.get(*own), names.get(index + 1)) {
            diagnostic = diagnostic.label(&own.node.span, format!("refers to `{next}`"));
        }
    }
    diagnostic.help("break the circle: one of them must not refer to the others")
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_syntax::{Dialect, Source, parse_yaml};

    fn complaints(vars: &str) -> Vec<String> {
        let role = parse_yaml(Source::new("role.yaml", format!("vars:\n{vars}")), Dialect::Native).unwrap();
        let mut diags = Diagnostics::new();
        read(role.first().unwrap(), &IndexMap::new(), &mut diags);
        diags.iter().map(|found| found.message.clone()).collect()
    }

    #[test]
    fn a_chain_may_be_long_and_circles_are_found_once() {
        let chain: String = (0..20_000).map(|n| format!("  v{n}: '{{{{ v{} }}}}'\n", n + 1)).collect();
        assert_eq!(complaints(&format!("{chain}  v20000: x\n")), Vec::<String>::new());
        let circle = "expressions refer to each other in a circle:";
        assert_eq!(
            complaints("  a: '{{ b }}'\n  b: '{{ c ~ d }}'\n  c: '{{ b }}'\n  d: '{{ d }}'\n"),
            [format!("{circle} b → c → b"), format!("{circle} d → d")]
        );
        let found = complaints(&format!("{chain}  v20000: '{{{{ v19999 }}}}'\n"));
        assert_eq!(found, [format!("{circle} v19999 → v20000 → v19999")]);
    }
}
