//! Facts of the hosts of a run.

use crate::context::RunContext;
use crate::plan::other_hosts::{OtherHosts, UnavailableHost};
use crate::tasks::on_each;
use crate::{Event, HostAnswer, TargetError};
use converge_executor::{Executor as _, FactGroups as Groups, Questions};
use converge_host::HostConnection;
use converge_host::facts::FACT_GROUPS;
use converge_model::{FactNeeds, Facts};
use converge_planner::Summary;
use std::collections::BTreeSet;
use std::sync::Arc;

/// So many hosts are asked at once for one target.
const AT_ONCE: usize = 32;

/// The facts of these hosts, as far as they were asked.
pub(crate) async fn facts(context: &RunContext, hosts: impl Fn(&str) -> bool) -> Facts {
    let links = context.pool.links.lock().await;
    let links = links.values().filter(|link| hosts(&link.host));
    let facts_of_run =
        links.filter_map(|link| link.facts_of_run().map(|facts_of_run| (link.host.clone(), facts_of_run)));
    Facts::in_a_run(facts_of_run.map(|(host, (now, before))| (host, now, before)))
}

/// The groups of facts that a host is asked for by one that has these needs: those that others in the run read of it come with them.
pub(crate) fn groups_of(context: &RunContext, host: &str, needs: &FactNeeds) -> Groups {
    let all = context.project.fact_names_of(host);
    FACT_GROUPS.into_iter().filter(|group| all.has(group) || needs.fact_names.has(group)).collect()
}

/// Asks a host for facts with these groups, if it was not asked yet.
pub(crate) async fn facts_of(
    context: &RunContext,
    host: &str,
    groups: &Groups,
) -> Result<Arc<HostConnection>, TargetError> {
    let link = crate::connect::sessions::link(context, host).await?;
    let door = Arc::clone(context.pool.askers.lock().await.entry(host.to_owned()).or_default());
    let _one_at_a_time = door.lock().await;
    if let Some(groups) = link.unknown_facts(groups) {
        let probes = BTreeSet::new();
        let questions = Questions { facts: Some(&groups), ..Questions::of(&probes) };
        if let Some(facts) = link.observe(questions).await?.facts {
            link.learn_facts(facts, &groups);
        }
    }
    Ok(link)
}

/// Asks other hosts for the facts that a target reads of them. A host that cannot be asked is noted: only items that read its facts fail.
pub(crate) async fn ask_others(
    context: &RunContext,
    needs: &FactNeeds,
    hosts: BTreeSet<String>,
    others: &mut OtherHosts,
) {
    let shared = Arc::new(context.clone());
    let new: Vec<String> = hosts.into_iter().filter(|host| others.asked.insert(host.clone())).collect();
    for some in new.chunks(AT_ONCE) {
        let answers = on_each(&shared, some, |context, host| {
            let groups = groups_of(&context, &host, needs);
            async move {
                let lost = context.pool.lost().get(&host).cloned();
                let error = match lost {
                    Some(error) => Some(error),
                    None => facts_of(&context, &host, &groups).await.err(),
                };
                (host, error)
            }
        });
        for (host, error) in answers.await {
            let Some(error) = error else { continue };
            // In the middle of a run the facts that it gave before count: its own lane tells when it is lost.
            if context.pool.links.lock().await.get(&host).is_some_and(|link| link.facts_of_run().is_some()) {
                continue;
            }
            context.pool.lost().insert(host.clone(), error.clone());
            let in_run = context.targets().contains(&host) || context.machines().contains(&host);
            others.lost.insert(host, UnavailableHost { error, in_run });
        }
    }
}

/// Reads the facts of a host again that anything in the run reads of it, in the middle of the run. Returns all that are known.
pub(crate) async fn read_again(
    context: &RunContext,
    link: &Arc<HostConnection>,
) -> Result<serde_json::Value, TargetError> {
    let mut groups = link.known_groups();
    // After a restart of the host its session is a new one, which was not asked for anything.
    for needs in context.targets().iter().map(|target| context.project.needs(target)) {
        if needs.facts_of_others || needs.facts_of.contains(&link.host) {
            groups.extend(groups_of(context, &link.host, &needs));
        }
    }
    let probes = BTreeSet::new();
    let questions = Questions { facts: Some(&groups), ..Questions::of(&probes) };
    if let Some(facts) = link.observe(questions).await?.facts {
        link.learn_facts(facts, &groups);
    }
    Ok(link.known_facts().unwrap_or_default())
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
            let _permit = context.permit(&host).await;
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
