//! Injects drift into one managed object after another; a plan must detect it and name nothing else, and an apply must
//! correct it.

use crate::drift_cluster;
use crate::injected::{InjectedDrift, shown};
use crate::judge::InitialState;
use crate::report::Mismatch;
use converge_engine::{ApplyReport, Engine, FleetPlan, ItemClaims, StopSwitch, TargetError};
use converge_lab::kube::Kubectl;
use converge_objects::{is_of_api, release_of};
use converge_planner::{Item, Outcome};
use converge_resource::{Claim, ClaimMode, ObjectId, State, quote};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Status of a script that cannot change this object here.
const NOT_HERE: i32 = 3;
const LIMIT: Duration = Duration::from_secs(300);

/// The result of the drift gate for one target.
#[derive(Debug, Default)]
pub(crate) struct DriftResults {
    /// The number of drifts that were detected and corrected.
    pub corrected: usize,
    /// Drifts that could not be injected, and why.
    pub left: Vec<String>,
    /// Drifts that were not detected or not corrected.
    pub wrong: Vec<Mismatch>,
}

/// Adds items that claimed something before the first run and do not claim it now: they are skipped as long as everything is as
/// declared, and must come back when it is not.
fn with_hidden(mut now: Vec<ItemClaims>, first: &[ItemClaims]) -> Vec<ItemClaims> {
    let hidden = first.iter().filter(|item| !now.iter().any(|known| known.address == item.address));
    let hidden: Vec<ItemClaims> = hidden.cloned().collect();
    now.extend(hidden);
    now
}

/// Injects drift into everything that the role claims on a host. `start` holds its claims before the first run, `first` the
/// plan of that run.
pub(crate) async fn all(
    engine: &Engine,
    host: &str,
    api: Option<&Kubectl>,
    role: &str,
    start: &InitialState,
    first: &FleetPlan,
    mut doing: impl FnMut(String),
) -> Result<DriftResults, TargetError> {
    let claims = with_hidden(engine.claims(host).await?, &start.claims);
    let objects: BTreeSet<ObjectId> =
        claims.iter().flat_map(|i| &i.claims).map(|c| c.object.clone()).collect();
    let converged = engine.states(host, &objects).await?;
    let mut out = DriftResults::default();
    let drifts = match api {
        Some(_) => {
            let taken = drift_cluster::taken(engine, host, first).await;
            drift_cluster::drifts(&claims, role, &taken, &start.states, &mut out.left)
        }
        None => drifts(&claims, role, &converged, &start.states, &mut out.left),
    };
    let total = drifts.len();
    for (number, drift) in drifts.into_iter().enumerate() {
        doing(format!("{}/{total} {}: {}", number + 1, shown(&drift.object), drift.what));
        let answer = match api {
            Some(api) => drift_cluster::inject(api, &drift),
            None => engine.script(host, &drift.script, LIMIT).await?,
        };
        if answer.status != 0 {
            let why = if answer.status == NOT_HERE {
                "something else needs it is".to_owned()
            } else {
                format!("status {}: {}", answer.status, answer.stderr.trim())
            };
            out.left.push(format!("{}, {}: {why}", shown(&drift.object), drift.what));
            continue;
        }
        let now = engine.states(host, &objects).await?;
        if now.get(&drift.object) == converged.get(&drift.object) {
            out.left.push(format!("{}, {}: it made no difference", shown(&drift.object), drift.what));
            continue;
        }
        let moved: BTreeSet<&ObjectId> =
            objects.iter().filter(|o| now.get(*o) != converged.get(*o)).collect();
        let plan = match engine.plan().await {
            Ok(plan) => plan,
            Err(found) => {
                out.wrong.push(Mismatch::new("no plan can be made any more").lines([found.to_string()]));
                return Ok(out);
            }
        };
        let before = out.wrong.len();
        out.wrong.extend(found_by(&plan, host, &drift, &claims, &moved));
        let report = engine.apply(plan.clone(), StopSwitch::new()).await;
        let lines = not_corrected(&report, &claims);
        if !lines.is_empty() {
            let what = format!(
                "{} on {host} was changed ({}) and is not corrected",
                shown(&drift.object),
                drift.what
            );
            out.wrong.push(Mismatch::new(what).lines(lines).plan(&plan, &[]));
            let rest = total.saturating_sub(number + 1);
            if rest > 0 {
                out.left.push(format!("{rest} more: not tried on a host that is not corrected"));
            }
            return Ok(out);
        }
        out.corrected += usize::from(out.wrong.len() == before);
    }
    Ok(out)
}

/// The failures of a run that was to correct a drift of these claims, and what differs after it.
fn not_corrected(report: &ApplyReport, claims: &[ItemClaims]) -> Vec<String> {
    let mut lines = Vec::new();
    for applied in &report.hosts {
        for (item, result) in applied.items.iter().filter(|(_, r)| r.is_bad()) {
            lines.push(format!("{}: {}", item.address, crate::judge::ended(result)));
        }
        // Live checks are no resources: they have a gate of their own.
        let resource = |d: &&String| {
            claims.iter().any(|c| d.strip_prefix(&c.address).is_some_and(|r| r.starts_with(": ")))
        };
        let differences = applied.differences.iter().filter(resource);
        lines.extend(differences.map(|d| format!("verification failed: {d}")));
        lines.extend(applied.lost.iter().map(ToString::to_string));
    }
    lines
}

/// The drifts that can be injected into the claims of the role's items, each facet once.
fn drifts(
    items: &[ItemClaims],
    role: &str,
    converged: &BTreeMap<ObjectId, State>,
    start: &BTreeMap<ObjectId, State>,
    left: &mut Vec<String>,
) -> Vec<InjectedDrift> {
    let mut drifts: Vec<InjectedDrift> = Vec::new();
    let mut observed = BTreeSet::new();
    // An item that edits a file does not bring it back: what it made goes with the edit.
    let edited: BTreeSet<&ObjectId> = items
        .iter()
        .flat_map(|i| &i.claims)
        .filter(|c| c.mode == ClaimMode::Edit && c.facet == "content")
        .map(|c| &c.object)
        .collect();
    for claim in items.iter().filter(|i| i.role == role).flat_map(|i| &i.claims) {
        let Claim { object, facet, mode } = claim;
        if *facet == "presence" && edited.contains(object) {
            continue;
        }
        if *facet == "may-create" || !observed.insert((object.clone(), *facet)) {
            continue;
        }
        let Some(state) = converged.get(object) else {
            left.push(format!("{}: its state cannot be read", shown(object)));
            continue;
        };
        // A role does not give back what was there before it: nor may its test take that away.
        let installed = |state: &State| object.kind == "package" && state.line().starts_with("present ");
        if *facet == "presence" && installed(state) && start.get(object).is_some_and(installed) {
            left.push(format!("{}: it was there before the role", shown(object)));
            continue;
        }
        let all =
            converge_objects::object(&object.kind).map(|o| o.drifts(&object.key, state)).unwrap_or_default();
        let own: Vec<_> = all.into_iter().filter(|s| s.facet == *facet).collect();
        if *mode == ClaimMode::Edit && object.kind == "unit" {
            // The role restarts the unit if it runs, and does not declare that it should run.
            continue;
        }
        if *mode == ClaimMode::Edit && (object.kind == "path" || own.is_empty()) {
            // Only a part of it is managed: it goes back to its state before the first run.
            match start.get(object) {
                Some(before) if before != state => drifts.push(InjectedDrift {
                    object: object.clone(),
                    facet,
                    what: "as it was before the role".to_owned(),
                    script: format!(
                        "cv_restore_{} {} {} </dev/null",
                        object.kind,
                        quote(&object.key),
                        quote(before.line())
                    ),
                }),
                _ => left.push(format!("{}, {facet}: the role edits it and changed nothing", shown(object))),
            }
            continue;
        }
        if own.is_empty() {
            left.push(format!("{}, {facet}: no way to inject drift is known", shown(object)));
        }
        drifts.extend(own.into_iter().map(|s| InjectedDrift {
            object: object.clone(),
            facet: s.facet,
            what: s.what,
            script: s.script,
        }));
    }
    // A package brings other objects, and its correction is slow: it comes last.
    drifts.sort_by_key(|w| converge_objects::traits_of(&w.object).one_transaction);
    drifts
}

/// The mismatches of a plan that should name the changed object and nothing else.
fn found_by(
    plan: &FleetPlan,
    host: &str,
    drift: &InjectedDrift,
    claims: &[ItemClaims],
    moved: &BTreeSet<&ObjectId>,
) -> Vec<Mismatch> {
    let what =
        |rest: &str| format!("{} on {host} was changed ({}): {rest}", shown(&drift.object), drift.what);
    let claims_of = |item: &Item| claims.iter().find(|c| c.address == item.address);
    let pending: Vec<&Item> = plan
        .planned()
        .filter(|p| p.host == host)
        .flat_map(|p| &p.items)
        .filter(|i| i.is_pending() || matches!(i.outcome, Outcome::Failed(_)))
        .collect();
    let names_it = |item: &&Item| {
        claims_of(item).is_some_and(|c| {
            c.claims.iter().any(|claim| claim.object == drift.object && claim.facet == drift.facet)
        })
    };
    let mut wrong = Vec::new();
    if !pending.iter().any(names_it) {
        let owners: Vec<String> = claims
            .iter()
            .filter(|c| {
                c.claims.iter().any(|claim| claim.object == drift.object && claim.facet == drift.facet)
            })
            .map(|c| format!("`{}`", c.address))
            .collect();
        let found = if pending.is_empty() {
            "nothing".to_owned()
        } else {
            pending.iter().map(|i| format!("`{}`", i.address)).collect::<Vec<_>>().join(", ")
        };
        // An item that looks at something else to see whether it is needed does not see its own drift.
        let items = plan.planned().filter(|p| p.host == host).flat_map(|p| &p.items);
        let skipped = items.filter(names_it).filter_map(|item| match &item.outcome {
            Outcome::Skipped(why) => Some(format!("`{}` is skipped: {why}", item.address)),
            _ => None,
        });
        wrong.push(
            Mismatch::new(what("the plan does not find it"))
                .but(format!("the plan names {}", owners.join(" or ")), format!("it names {found}"))
                .lines(skipped)
                .plan(plan, &[]),
        );
    }
    let touched: Vec<&ItemClaims> =
        claims.iter().filter(|c| c.claims.iter().any(|claim| moved.contains(&claim.object))).collect();
    for item in &pending {
        let own = touched.iter().any(|c| c.address == item.address);
        // A restart follows from what it depends on, and what waits for the item is no finding of its own.
        let follows = claims_of(item).is_some_and(|c| {
            c.restart_on.iter().any(|name| {
                touched.iter().any(|t| t.role == c.role && t.address.ends_with(&format!("/{name}")))
            })
        });
        // The object of a release that another role patches is the release's too.
        let holds = is_of_api(&drift.object)
            && claims_of(item)
                .is_some_and(|c| c.claims.iter().any(|claim| release_of(&claim.object).is_some()));
        let waits = matches!(item.outcome, Outcome::Deferred { .. } | Outcome::Failed(_));
        if !own && !follows && !holds && !waits {
            wrong.push(
                Mismatch::new(what("the plan names something else too"))
                    .but("only the injected drift", format!("`{}` is to change as well", item.address))
                    .plan(plan, &[&item.address]),
            );
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_is_skipped_now_counts_with_what_it_claimed_before() {
        let item = |address: &str, path: &str| ItemClaims {
            address: address.to_owned(),
            role: "r".to_owned(),
            claims: vec![Claim::exclusive(ObjectId::new("path", path), "content")],
            sensitive: false,
            restart_on: Vec::new(),
        };
        let all = with_hidden(vec![item("r/a", "/new")], &[item("r/a", "/old"), item("r/b", "/b")]);
        let claimed: Vec<(&str, &str)> =
            all.iter().map(|i| (i.address.as_str(), i.claims[0].object.key.as_str())).collect();
        assert_eq!(claimed, [("r/a", "/new"), ("r/b", "/b")]);
    }
}
