//! Declares the roles of one host, in the order of the playbook.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use converge_syntax::{Diagnostics, Node, Span, Value};
use converge_template::{HostScopes, Variable};

use crate::declare::{ConditionAnswer, HostDeclarations, RegisteredResults, UseContext, declare, gate};
use crate::item::Item;
use crate::loaded::Inner;
use crate::scope::{Facts, host_scope, hostvars, role_scope};
use crate::vars::role_layers;

impl Inner {
    pub(crate) fn host_plan(
        self: Arc<Self>,
        host: &str,
        facts: &Facts,
        registered: &RegisteredResults,
    ) -> HostDeclarations {
        let hosts = self.hostvars(facts);
        let mut errors = Diagnostics::new();
        let mut uses = Vec::new();
        let name = host;
        let host = self.clusters.speaker(name);
        for used in self.hosts.get(name).into_iter().flatten() {
            let Some((play, role_ref)) = self.play_use(used) else {
                continue;
            };
            let role = &used.role;
            let layers = role_layers(&self.shared.inventory, &self.shared.set, host, play, role_ref, role);
            let made = role_scope(&self.shared, facts, &hosts, host, role, &layers, &role_ref.role.span);
            errors.extend(made.problems.clone());
            let mut when_lookups = BTreeSet::new();
            let context = UseContext {
                role,
                play: play.title(),
                span: &role_ref.role.span,
                when: gate(&self, &role_ref.when, &made.scope, &mut when_lookups),
                conditions: role_ref.when.clone(),
                when_lookups,
                tags: used.tags.clone(),
                layers,
                role_selected: self.only_roles.is_empty() || self.only_roles.contains(&role.name),
            };
            uses.push((context, made));
        }
        let names: Vec<&str> =
            uses.iter().filter(|(c, _)| self.takes_part(c)).map(|(c, _)| c.role.name.as_str()).collect();
        let names = role_names(&names);
        let mut roles = Vec::new();
        for (context, mut made) in uses {
            made.scope.set("role_names", Variable::Data(names.clone()));
            roles.push(declare(&self, host, context, made, registered));
        }
        let scope = host_scope(&self.shared, facts, &hosts, host);
        HostDeclarations { host: name.to_owned(), roles, errors, scope }
    }

    /// Whether the run goes through a role on its host: neither narrowed away nor switched off by the `when` of its use.
    fn takes_part(&self, used: &UseContext<'_>) -> bool {
        let selected = |item: &Item| {
            let tags: Vec<String> = used.tags.iter().chain(&item.tags).cloned().collect();
            self.filter.selects(&tags)
        };
        used.role_selected && !matches!(used.when, ConditionAnswer::No(_)) && used.role.items().any(selected)
    }

    fn hostvars(&self, facts: &Facts) -> Arc<dyn HostScopes> {
        let mut last = self.hostvars.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, hosts)) if known.is_same_as(facts) => hosts.clone(),
            _ => {
                let hosts = hostvars(&self.shared, facts);
                *last = Some((facts.clone(), hosts.clone()));
                hosts
            }
        }
    }
}

/// The magic variable `role_names`.
fn role_names(names: &[&str]) -> Arc<Node> {
    let span = Span::nowhere("converge");
    let names = names.iter().map(|name| Node::new(*name, span.clone())).collect();
    Arc::new(Node { value: Value::List(names), span, tag: None })
}
