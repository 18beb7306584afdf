//! Values that other places give to expressions of roles: none may.

use std::sync::Arc;

use converge_syntax::{Diagnostic, Diagnostics, Span};
use indexmap::IndexMap;

use crate::expressions::Expression;
use crate::inventory::Inventory;
use crate::play::Playbook;
use crate::role::Role;
use crate::vars::{SET, SetVars};

/// Complains about every layer that gives a value to an expression of a role: an inventory, a play, the use of the role, `--set`.
pub(crate) fn not_set_elsewhere(
    playbook: &Playbook,
    inventory: &Inventory,
    set: &SetVars,
    roles: &IndexMap<String, Arc<Role>>,
    diags: &mut Diagnostics,
) {
    let complaint = |role: &Role, expression: &Expression| {
        let message = format!(
            "`{}` is an expression of the role `{}`: no other place sets it",
            expression.name, role.name
        );
        let help = if role.inputs.is_empty() {
            format!("take it out, or make it an input of the role `{}`", role.name)
        } else {
            let inputs: Vec<&str> = role.inputs.keys().map(String::as_str).collect();
            format!("take it out, or set one of the role's inputs: {}", inputs.join(", "))
        };
        Diagnostic::error("not-settable", message).help(help)
    };
    for play in &playbook.plays {
        for used in &play.roles {
            let Some(role) = roles.get(&used.role.value).filter(|role| !role.vars.is_empty()) else {
                continue;
            };
            for var in play.vars.iter().chain(&used.vars) {
                if let Some(expression) = role.vars.get(&var.name) {
                    diags.push(
                        complaint(role, expression)
                            .label(&var.key, "set here")
                            .label(&expression.span, "declared here"),
                    );
                }
            }
            // A wrong pattern is reported where the play is read.
            let hosts = inventory.select(&play.hosts).map(|selection| selection.hosts).unwrap_or_default();
            for found in hosts.iter().flat_map(|host| inventory.host_vars(host)) {
                if let Some(expression) = role.vars.get(&found.name) {
                    diags.push(
                        complaint(role, expression)
                            .label(&found.key, "set here")
                            .label(&expression.span, "declared here"),
                    );
                }
            }
        }
    }
    for role in roles.values() {
        for expression in set.names().filter_map(|name| role.vars.get(name)) {
            diags.push(
                complaint(role, expression).at(&Span::nowhere(SET)).label(&expression.span, "declared here"),
            );
        }
    }
}
