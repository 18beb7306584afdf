//! Selections that come to nothing: an empty `--limit`, a pattern or a tag without a match, an inventory without hosts.
//!
//! Where the options ask for it they are errors: a run that does nothing, with exit code 0, looks like one that is done.

use converge_syntax::{Diagnostic, Diagnostics, Severity, Span};

use crate::inventory::Inventory;
use crate::options::LoadOptions;
use crate::play::Playbook;

const LIMIT: &str = "--limit";
const ALLOW: &str = "--allow-empty allows it";

/// Whether `--limit` is there and names nothing.
pub(crate) fn is_blank(limit: &str) -> bool {
    limit.chars().all(|c| c.is_whitespace() || matches!(c, ',' | ':'))
}

/// The error for a `--limit` that names nothing.
#[must_use]
pub fn blank_limit() -> Diagnostic {
    Diagnostic::error("empty-limit", "`--limit` is empty, and would select no host")
        .at(&Span::nowhere(LIMIT))
        .help("leave it out for all hosts; a variable of the shell in it may be unset")
}

/// The error for an inventory without hosts.
fn no_hosts() -> Diagnostic {
    let help = format!("name hosts below `all: hosts:`, or with commas: `-i h1,h2,`; {ALLOW}");
    Diagnostic::error("empty-inventory", "the inventory has no hosts").help(help)
}

/// Complains about plays that select no host because nothing has the name of their pattern, and about a run without any target.
pub(crate) fn refuse(
    options: &LoadOptions,
    inventory: &Inventory,
    playbook: &Playbook,
    (hosts, selected): (&[&str], &[String]),
    diags: &mut Diagnostics,
    warnings: &mut Diagnostics,
) {
    if options.limit.as_deref().is_some_and(is_blank) {
        return diags.push(blank_limit());
    }
    if inventory.hosts().next().is_none() && selected.is_empty() {
        return diags.push(no_hosts());
    }
    for play in &playbook.plays {
        let Ok(selection) = inventory.select(&play.hosts) else { continue };
        if !selection.hosts.is_empty() {
            continue;
        }
        for problem in selection.warnings.into_iter().filter(|problem| problem.code == "unknown-host") {
            let text = problem.to_string();
            warnings.0.retain(|known| known.to_string() != text);
            let help = format!("a group may be empty, but must be in the inventory; {ALLOW}");
            let help = problem.help.clone().unwrap_or(help);
            diags.push(Diagnostic { severity: Severity::Error, help: Some(help), ..problem });
        }
    }
    let hosts = hosts.join(", ");
    if selected.is_empty() && !diags.has_errors() {
        // The remark about the limit says which hosts there are.
        let known = warnings.0.iter().position(|problem| problem.code == "no-hosts");
        let problem = match known.map(|at| warnings.0.remove(at)) {
            Some(problem) => {
                let help = format!(
                    "hosts of the plays: {}; {ALLOW}",
                    if hosts.is_empty() { "none" } else { &hosts }
                );
                Diagnostic { severity: Severity::Error, help: Some(help), ..problem }
            }
            None => Diagnostic::error("no-hosts", "no host is selected").help(format!(
                "the groups of the plays{} have no hosts; {ALLOW}",
                if options.limit.is_some() { " and of --limit" } else { "" }
            )),
        };
        diags.push(problem);
    }
}

/// The diagnostic about a tag that nothing has: to select by it selects nothing, to leave it out changes nothing.
pub(crate) fn unknown_tag(options: &LoadOptions, flag: &str, tag: &str, nearest: String) -> Diagnostic {
    let message = format!("nothing has the tag `{tag}`");
    if options.refuse_empty && flag == "--tags" {
        Diagnostic::error("unknown-tag", message).at(&Span::nowhere(flag)).help(format!("{nearest}; {ALLOW}"))
    } else {
        Diagnostic::warning("unknown-tag", message).at(&Span::nowhere(flag)).help(nearest)
    }
}
