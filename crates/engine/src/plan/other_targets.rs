//! Roles on other targets that come before a role: a resource that waits for something is not asked while one of them has something to do.

use crate::context::RunContext;
use crate::{HostEntry, HostResult};
use converge_planner::{EdgeScope, HostPlan, OtherTargets, OtherTargetsByRole, RoleGraph};
use converge_resource::Wait;
use std::collections::{BTreeMap, BTreeSet};

/// A role that comes before another.
#[derive(Clone, Debug)]
struct Earlier {
    role: String,
    /// The edge reaches over all targets, also where the target itself has the role.
    everywhere: bool,
}

/// The progress of the plans of a run, by role and target.
#[derive(Debug, Default)]
pub(crate) struct OtherRoles {
    /// Target → its roles.
    roles: BTreeMap<String, BTreeSet<String>>,
    /// Role → the roles before it, on this way or another.
    earlier: BTreeMap<String, Vec<Earlier>>,
    /// Role → the targets on which its plan is not made.
    not_planned: BTreeMap<String, BTreeSet<String>>,
    /// Role → the targets on which it has something to do, with the reason to wait.
    open: BTreeMap<String, BTreeMap<String, Wait>>,
}

impl OtherRoles {
    /// Before any plan is made.
    pub fn new(context: &RunContext) -> Self {
        let names =
            |target: &String| context.project.roles_of(target).into_iter().map(str::to_owned).collect();
        let targets = context.targets().iter();
        Self::of(targets.map(|target| (target.clone(), names(target))).collect(), &context.graph)
    }

    fn of<S: Clone>(roles: BTreeMap<String, BTreeSet<String>>, graph: &RoleGraph<S>) -> Self {
        let mut not_planned: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (target, roles) in &roles {
            for role in roles {
                not_planned.entry(role.clone()).or_default().insert(target.clone());
            }
        }
        let before = |role: &String| {
            let earlier = not_planned.keys().filter(|first| graph.comes_before(first, role));
            earlier
                .map(|first| Earlier {
                    role: first.clone(),
                    everywhere: graph.edge_scope(first, role) == EdgeScope::Fleet,
                })
                .collect()
        };
        let earlier = not_planned.keys().map(|role| (role.clone(), before(role))).collect();
        Self { roles, earlier, not_planned, open: BTreeMap::new() }
    }

    /// The roles on other targets that come before each role of this target.
    pub fn before(&self, target: &str) -> OtherTargetsByRole {
        let own = self.roles.get(target);
        let before = |role: &String| {
            let earlier = self.earlier.get(role).into_iter().flatten();
            let earlier = earlier.filter(|e| e.everywhere || !own.is_some_and(|own| own.contains(&e.role)));
            let mut found = None;
            for first in earlier {
                let mut open = self.open.get(&first.role).into_iter().flatten();
                if let Some((_, wait)) = open.find(|(other, _)| *other != target) {
                    return Some(OtherTargets::Open(wait.clone()));
                }
                let mut others = self.not_planned.get(&first.role).into_iter().flatten();
                if others.any(|other| other != target) {
                    found = Some(OtherTargets::NotPlanned);
                }
            }
            found
        };
        let roles = own.into_iter().flatten();
        roles.filter_map(|role| Some((role.clone(), before(role)?))).collect()
    }

    /// Takes the plan of a target, but not of roles that wait for plans themselves.
    pub fn take_plan(&mut self, plan: &HostPlan, waiting: &OtherTargetsByRole) {
        let waits = |role: &str| waiting.get(role) == Some(&OtherTargets::NotPlanned);
        for role in self.roles.get(&plan.host).into_iter().flatten().filter(|role| !waits(role)) {
            if let Some(targets) = self.not_planned.get_mut(role) {
                targets.remove(&plan.host);
            }
            let open = self.open.entry(role.clone()).or_default();
            match plan.items.iter().find(|item| item.role == *role && item.is_pending()) {
                Some(item) => {
                    let reason = format!("role `{role}` on {} comes first", plan.host);
                    open.insert(plan.host.clone(), Wait { item: item.address.clone(), reason });
                }
                // A plan that went on may have found nothing to do.
                None => drop(open.remove(&plan.host)),
            }
        }
    }

    /// Takes the end of a target's plan. For a target that is excluded nobody waits.
    pub fn take(&mut self, entry: &HostEntry) {
        match &entry.result {
            HostResult::Planned(plan) => self.take_plan(plan, &OtherTargetsByRole::new()),
            HostResult::Lost(_) => {
                for targets in self.not_planned.values_mut() {
                    targets.remove(&entry.host);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converge_planner::{Item, Outcome};
    use converge_resource::RoleEdge;

    /// `driver` and `kubelet` on hosts, `operator` and `ready` on the cluster, in this order.
    fn roles() -> OtherRoles {
        let edge = |from: &str, to: &str| RoleEdge { from: from.to_owned(), to: to.to_owned(), span: () };
        let edges = vec![edge("kubelet", "driver"), edge("operator", "kubelet"), edge("ready", "operator")];
        let graph = RoleGraph::new(&[], edges).unwrap();
        let graph = graph.on_clusters(["operator".to_owned(), "ready".to_owned()]);
        let target = |name: &str, roles: &[&str]| {
            (name.to_owned(), roles.iter().map(|role| (*role).to_owned()).collect())
        };
        let targets = [
            target("h1", &["driver", "kubelet"]),
            target("h2", &["kubelet"]),
            target("c", &["operator", "ready"]),
        ];
        OtherRoles::of(targets.into_iter().collect(), &graph)
    }

    fn plan(host: &str, pending: &[&str]) -> HostPlan {
        let item = |role: &&str| Item {
            role: (*role).to_owned(),
            address: format!("{role}/item"),
            outcome: Outcome::Changed(Vec::new()),
            ..Item::default()
        };
        HostPlan { host: host.to_owned(), items: pending.iter().map(item).collect(), ..HostPlan::default() }
    }

    fn open(role: &str, host: &str) -> OtherTargets {
        let reason = format!("role `{role}` on {host} comes first");
        OtherTargets::Open(Wait { item: format!("{role}/item"), reason })
    }

    fn by_role(all: &[(&str, OtherTargets)]) -> OtherTargetsByRole {
        all.iter().map(|(role, state)| ((*role).to_owned(), state.clone())).collect()
    }

    #[test]
    fn a_role_waits_for_what_others_have_to_do_before_it() {
        let mut roles = roles();
        let unknown = OtherTargets::NotPlanned;
        assert_eq!(
            roles.before("h1"),
            OtherTargetsByRole::new(),
            "an edge between host roles concerns the host that has both"
        );
        assert_eq!(roles.before("h2"), by_role(&[("kubelet", unknown.clone())]));
        assert_eq!(roles.before("c"), by_role(&[("operator", unknown.clone()), ("ready", unknown.clone())]));
        roles.take_plan(&plan("h1", &["driver"]), &OtherTargetsByRole::new());
        assert_eq!(roles.before("h2"), by_role(&[("kubelet", open("driver", "h1"))]));
        let driver = || open("driver", "h1");
        assert_eq!(roles.before("c"), by_role(&[("operator", driver()), ("ready", driver())]));
    }

    #[test]
    fn a_role_waits_for_nothing_when_others_have_nothing_to_do_or_are_lost() {
        let mut roles = roles();
        roles.take_plan(&plan("h1", &[]), &OtherTargetsByRole::new());
        roles.take_plan(&plan("h2", &[]), &OtherTargetsByRole::new());
        assert_eq!(roles.before("c"), OtherTargetsByRole::new());
        let mut roles = self::roles();
        for host in ["h1", "h2"] {
            let result = HostResult::Lost(crate::TargetError::Refused("away".to_owned()));
            roles.take(&HostEntry { host: host.to_owned(), result, took: std::time::Duration::ZERO });
        }
        assert_eq!(roles.before("c"), OtherTargetsByRole::new());
    }

    #[test]
    fn a_plan_that_waits_tells_what_it_knows() {
        let mut roles = roles();
        let waiting = by_role(&[("kubelet", OtherTargets::NotPlanned)]);
        roles.take_plan(&plan("h2", &["kubelet"]), &waiting);
        assert_eq!(roles.before("c")["operator"], OtherTargets::NotPlanned);
        roles.take_plan(&plan("h1", &[]), &OtherTargetsByRole::new());
        roles.take_plan(&plan("h2", &["kubelet"]), &roles.before("h2"));
        assert_eq!(roles.before("c")["operator"], open("kubelet", "h2"));
        roles.take_plan(&plan("h2", &[]), &roles.before("h2"));
        assert_eq!(roles.before("c"), OtherTargetsByRole::new(), "it went on, and has nothing to do");
    }
}
