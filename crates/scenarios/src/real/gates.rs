//! The gates on real hosts: each a pure question to the hosts, asked again after every step.

use super::{AS_ADMINISTRATOR, CaseRun, Findings, GateFindings, LIMIT, Site};
use crate::cluster::{self};
use crate::expect::{self};
use crate::given;
use crate::judge::{InitialState, InitialStates, applied, as_before};
use crate::project::{self};
use crate::report::{Gate, Mismatch};
use crate::snapshot::{self, is_among};
use crate::{drift, leftovers, whole};
use converge_engine::{Engine, FleetPlan, ItemResult, StopSwitch, TargetError, exit_code};
use converge_planner::Outcome as Planned;
use converge_resource::{ObjectId, State};
use std::collections::{BTreeMap, BTreeSet};

pub(super) async fn starts(
    engine: &Engine,
    site: &Site<'_>,
    plan: &FleetPlan,
) -> Result<InitialStates, TargetError> {
    let mut out = InitialStates::new();
    for host in site.all() {
        let claims = engine.claims(host).await?;
        let mut objects: BTreeSet<ObjectId> =
            claims.iter().flat_map(|i| &i.claims).map(|c| c.object.clone()).collect();
        let planned = plan.planned().filter(|p| p.host == *host).flat_map(|p| &p.items);
        objects.extend(planned.flat_map(|i| i.claims.clone()));
        let states = engine.states(host, &objects).await?;
        out.insert(host.clone(), InitialState { claims, states });
    }
    Ok(out)
}

/// A plan that has nothing to do.
pub(super) async fn next_plan(engine: &Engine) -> GateFindings {
    let plan = match engine.plan().await {
        Ok(plan) => plan,
        Err(found) => return Ok(expect::complaints(&found).into()),
    };
    let items = || plan.planned().flat_map(|p| &p.items);
    let open: Vec<&str> =
        items().filter(|i| i.is_pending() || i.only_records()).map(|i| i.address.as_str()).collect();
    if plan.is_empty() && open.is_empty() && plan.exit_code() == exit_code::DONE {
        return Ok(Findings::default());
    }
    let found = format!("{} to do: {}", open.len(), open.join(", "));
    let mismatch = Mismatch::new("the role has changes just after it was applied");
    Ok(vec![mismatch.but("nothing to change", found).plan(&plan, &open)].into())
}

/// A second run, and that it left the hosts alone.
pub(super) async fn again(engine: &Engine, site: &Site<'_>) -> GateFindings {
    for host in site.names {
        snapshot::take(engine, host, "again", true, &site.noise()).await?;
    }
    let before = site.api.map(cluster::at_rest).transpose();
    let plan = match engine.plan().await {
        Ok(plan) => plan,
        Err(found) => return Ok(expect::complaints(&found).into()),
    };
    let report = engine.apply(plan.clone(), StopSwitch::new()).await;
    let mut wrong = applied(&report, &plan);
    for host in &report.hosts {
        for (item, _) in host.items.iter().filter(|(_, r)| *r == ItemResult::Changed) {
            wrong.push(
                Mismatch::new(format!("`{}` on {}", item.address, host.host))
                    .but("the second run changes nothing", "it was changed again")
                    .plan(&plan, &[&item.address]),
            );
        }
    }
    wrong.extend(untouched(engine, site, "again", "the second run changed the host").await?.wrong);
    if let Some(api) = site.api {
        let differ = before.and_then(|before| {
            Ok(cluster::differences(&before.unwrap_or_default().exact, &cluster::list(api)?.exact))
        });
        wrong.extend(as_before(differ, "the second run changed the cluster"));
    }
    Ok(wrong.into())
}

/// Whether no path was written since the list of this label was taken.
pub(super) async fn untouched(engine: &Engine, site: &Site<'_>, label: &str, what: &str) -> GateFindings {
    let mut findings = Findings::default();
    for host in site.names {
        let written = snapshot::compare(engine, host, label, true, &site.noise()).await?;
        let written: Vec<String> = written.iter().map(snapshot::Difference::shown).collect();
        if !written.is_empty() {
            let found = format!("{} written", written.len());
            findings.wrong.push(
                Mismatch::new(format!("{host}: {what}")).but("no path is written", found).lines(written),
            );
        }
    }
    Ok(findings)
}

impl CaseRun<'_> {
    pub(super) async fn given(&mut self, engine: &Engine, site: &Site<'_>) -> GateFindings {
        let mut findings = Findings::default();
        for host in site.names {
            engine.keep_all_runs(host).await?;
            for (what, script) in given::scripts(&self.case.scenario.before) {
                self.doing(Gate::Given, what.clone());
                let answer = engine.script(host, &script, LIMIT).await?;
                if answer.status != 0 {
                    let output = format!("{}{}", answer.stdout, answer.stderr);
                    let lines: Vec<String> = output.lines().map(str::to_owned).collect();
                    let tail = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().to_vec();
                    findings.wrong.push(
                        Mismatch::new(format!("{host}: cannot {what} (status {})", answer.status))
                            .lines(tail),
                    );
                }
            }
            self.doing(Gate::Given, "lists the file system");
            snapshot::take(engine, host, "start", false, &site.noise()).await?;
        }
        if let Some(api) = site.api {
            self.doing(Gate::Given, "lists the objects of the cluster");
            self.objects = cluster::at_rest(api).map_err(|fault| TargetError::Refused(fault.to_string()))?;
        }
        Ok(findings)
    }

    pub(super) async fn verify(&self, engine: &Engine, site: &Site<'_>) -> GateFindings {
        let mut findings = Findings::default();
        let mut checks = 0;
        for host in engine.verify().await {
            if let Some(lost) = host.lost {
                return Err(lost);
            }
            checks += host.checks.len();
            for (address, why) in host.checks.into_iter().filter_map(|(a, why)| Some((a, why?))) {
                let what = format!("`{address}` does not hold on {}", host.host);
                findings.wrong.push(Mismatch::new(what).lines(why.to_string().lines().map(str::to_owned)));
            }
        }
        for after in &self.case.scenario.expect.after {
            for host in site.names {
                // Lets it ask the cluster.
                let script = match (site.api, site.whole) {
                    (None, _) => after.value.clone(),
                    (Some(_), true) => format!("export KUBECONFIG={}; {}", whole::KUBECONFIG, after.value),
                    (Some(_), false) => format!("{AS_ADMINISTRATOR}{}", after.value),
                };
                let answer = engine.script(host, &script, LIMIT).await?;
                checks += 1;
                if answer.status != 0 {
                    let output = format!("{}{}", answer.stdout, answer.stderr);
                    let mut mismatch = Mismatch::new(format!("a command of `after` failed on {host}"))
                        .but(format!("`{}` succeeds", after.value), format!("status {}", answer.status))
                        .lines(output.lines().map(str::to_owned));
                    mismatch.at = project::place(after);
                    findings.wrong.push(mismatch);
                }
            }
        }
        findings.note(match checks {
            0 => "the role has no live check".to_owned(),
            1 => "1 check".to_owned(),
            n => format!("{n} checks"),
        });
        Ok(findings)
    }

    pub(super) async fn drift(
        &self,
        engine: &Engine,
        site: &Site<'_>,
        start: &InitialStates,
        first: &FleetPlan,
    ) -> GateFindings {
        let mut findings = Findings::default();
        let mut corrected = 0;
        for host in site.all() {
            let before = start.get(host).cloned().unwrap_or_default();
            let api = site.api.filter(|_| site.clusters.contains(host));
            for role in self.case.tested_roles() {
                let doing = |what: String| self.doing(Gate::Drift, what);
                let results = drift::all(engine, host, api, role, &before, first, doing).await?;
                corrected += results.corrected;
                findings.wrong.extend(results.wrong);
                findings.notes.extend(results.left.into_iter().map(|l| format!("no drift: {l}")));
            }
        }
        let things = if corrected == 1 { "object" } else { "objects" };
        findings.notes.insert(0, format!("drift injected, detected, corrected in {corrected} {things}"));
        Ok(findings)
    }

    pub(super) async fn rollback(
        &self,
        engine: &Engine,
        site: &Site<'_>,
        run: &str,
        start: &InitialStates,
    ) -> GateFindings {
        let mut findings = Findings::default();
        let plan = match engine.plan_rollback(Some(run), &[]).await {
            Ok(plan) => plan,
            Err(found) => return Ok(expect::complaints(&found).into()),
        };
        for item in plan.planned().flat_map(|p| &p.items) {
            let why = match &item.outcome {
                Planned::Failed(problem) => problem.message.clone(),
                Planned::Refused(why) => why.clone(),
                _ => continue,
            };
            findings.wrong.push(Mismatch::new(format!("`{}` cannot be reverted", item.address)).lines([why]));
        }
        let mut packages = BTreeMap::new();
        for host in site.names {
            let before = start.get(host).cloned().unwrap_or_default();
            packages.insert(host, leftovers::installed(engine, host, &before).await?);
        }
        let report = engine.apply(plan.clone(), StopSwitch::new()).await;
        findings.wrong.extend(applied(&report, &plan));
        if let Some(api) = site.api {
            self.doing(Gate::Rollback, "compares the objects of the cluster");
            let left = cluster::left(api, &self.objects.meant);
            findings.wrong.extend(as_before(left, "the cluster is not as it was"));
        }
        for host in site.names {
            self.doing(Gate::Rollback, "compares the file system");
            let before = start.get(host).cloned().unwrap_or_default();
            let objects: BTreeSet<ObjectId> = before.states.keys().cloned().collect();
            let now = engine.states(host, &objects).await?;
            for (object, was) in &before.states {
                let is = now.get(object).map_or("unknown", State::line);
                if is != was.line() {
                    findings.wrong.push(
                        Mismatch::new(format!("{object} on {host} is not as it was")).but(was.line(), is),
                    );
                }
            }
            let leaves: Vec<&str> = self.case.scenario.leaves.iter().map(|l| l.value.as_str()).collect();
            let (meant, left): (Vec<_>, Vec<_>) =
                snapshot::compare(engine, host, "start", false, &site.noise())
                    .await?
                    .into_iter()
                    .partition(|d| is_among(&d.path, leaves.iter().copied()));
            let own = packages.remove(host).unwrap_or_default();
            let (theirs, left) = leftovers::of_packages(engine, host, &own, left, &site.noise()).await?;
            if !left.is_empty() {
                findings.wrong.push(
                    Mismatch::new(format!("the file system of {host} is not as it was"))
                        .but("every path as before the first run", format!("{} that differ", left.len()))
                        .lines(left.iter().map(snapshot::Difference::shown)),
                );
            }
            let left_again = |d: &snapshot::Difference| {
                format!("left by the scripts of packages, whoever removes them: {}", d.shown())
            };
            findings.notes.extend(theirs.iter().map(left_again));
            findings.notes.extend(meant.iter().map(|d| format!("left, as the scenario says: {}", d.shown())));
        }
        Ok(findings)
    }
}
