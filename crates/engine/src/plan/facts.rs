//! Facts of the hosts of a run.

use crate::context::RunContext;
use crate::tasks::on_each;
use crate::{Event, HostAnswer, TargetError};
use converge_executor::{Executor as _, FactGroups as Groups, Questions};
use converge_host::Link;
use converge_host::facts::FACT_GROUPS;
use converge_model::{Facts, Needs};
use converge_planner::Summary;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The facts of all hosts that were asked so far.
pub(crate) async fn facts(context: &RunContext) -> Facts {
    let links = context.pool.links.lock().await;
    let told = links.values().filter_map(|link| link.told().map(|told| (link.host.clone(), told)));
    Facts::in_a_run(told.map(|(host, (now, before))| (host, now, before)))
}

/// The groups of facts that a host is asked for by one that has these needs: those that others in the run read of it come with them.
pub(crate) fn groups_of(context: &RunContext, host: &str, needs: &Needs) -> Groups {
    let all = context.project.fact_names_of(host);
    FACT_GROUPS.into_iter().filter(|group| all.has(group) || needs.fact_names.has(group)).collect()
}

/// Asks a host for facts with these groups, if it was not asked yet.
pub(crate) async fn facts_of(
    context: &RunContext,
    host: &str,
    groups: &Groups,
) -> Result<Arc<Link>, TargetError> {
    let link = crate::connect::sessions::link(context, host).await?;
    if let Some(groups) = link.unknown_facts(groups) {
        let probes = BTreeSet::new();
        let questions = Questions { facts: Some(&groups), ..Questions::of(&probes) };
        if let Some(facts) = link.observe(questions).await?.facts {
            link.learn_facts(facts, &groups);
        }
    }
    Ok(link)
}

/// The facts of all hosts of this run, those of [`crate::FACT_GROUPS`] for which `wanted` holds among them. Changes nothing.
pub(crate) async fn gather_facts(
    context: &Arc<RunContext>,
    wanted: impl Fn(&str) -> bool,
) -> Vec<HostAnswer> {
    let groups: Groups = FACT_GROUPS.into_iter().filter(|group| wanted(group)).collect();
    on_each(context, &context.machines(), |context, host| {
        let groups = groups.clone();
        async move {
            let _permit = context.permit().await;
            let result = facts_of(&context, &host, &groups).await;
            let result = result.map(|link| link.known_facts().unwrap_or_default());
            context.events.send(match &result {
                Err(lost) => Event::Lost { host: host.clone(), message: lost.to_string() },
                Ok(_) => Event::Planned { host: host.clone(), summary: Summary::default() },
            });
            HostAnswer { host, result }
        }
    })
    .await
}
