//! `--report FILE.html`: a plan and the results of its apply as one page, without anything from a network.
//!
//! The code that shows items on a terminal shows them here too, so secrets are hidden in the same way.

use crate::events::span;
use crate::names::fold_names;
use crate::plan::{item_summary, item_text, label, lost_why};
use crate::report::outcome_text;
use crate::text::{Look, Text, visible};
use converge_engine::{ApplyReport, FleetPlan, HostApply, HostResult, ItemResult, Purpose};
use converge_planner::{Item, Outcome};
use converge_resource::{Content, Digest, counted};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// The header of a page.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The inventories as the operator named them.
    pub inventory: String,
    /// The playbook's path.
    pub playbook: String,
    /// The operator, `user@machine`.
    pub operator: String,
    /// The version of converge.
    pub version: String,
    /// Roles in order, each with those that it requires.
    pub roles: Vec<(String, Vec<String>)>,
}

/// One item as some hosts have it.
struct ItemEntry<'a> {
    item: &'a Item,
    outcome: &'static str,
    body: Text,
    what: String,
    hosts: Vec<&'a str>,
    longest: Duration,
}

/// The page. Without an apply it shows the plan alone.
pub fn html_report(plan: &FleetPlan, apply: Option<&ApplyReport>, about: &About) -> String {
    let look = Look { color: true, width: None, ..Look::PLAIN };
    let entries = entries(plan, apply, &look);
    let mut out = String::new();
    let title = match (&plan.purpose, apply.is_some()) {
        (Purpose::Converge, true) => "Changes",
        (Purpose::Converge, false) => "Planned changes",
        (Purpose::Rollback(_) | Purpose::RollbackOf { .. }, true) => "Rollback",
        (Purpose::Rollback(_) | Purpose::RollbackOf { .. }, false) => "Planned rollback",
    };
    head(&mut out, title, plan, apply, about);
    tiles(&mut out, plan, apply, &entries);
    role_table(&mut out, apply, about, &entries);
    host_table(&mut out, plan, apply);
    items(&mut out, about, &entries);
    let _infallible = writeln!(
        out,
        "<footer>Written by converge {}. Secrets are not in this file; other configuration of the hosts is.</footer></main>\
         <script>{}</script></body></html>",
        esc(&about.version),
        include_str!("html/report.js")
    );
    out
}

/// Text for HTML, in element content and in quoted attributes.
fn esc(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Many names for one attribute: a line each.
fn names(hosts: &[&str]) -> String {
    hosts.iter().map(|h| esc(h)).collect::<Vec<_>>().join("&#10;")
}

fn planned(item: &Item) -> &'static str {
    match &item.outcome {
        Outcome::Unchanged | Outcome::Adopt(_) | Outcome::Forget(_) => "unchanged",
        Outcome::Changed(_) => "to change",
        Outcome::Deferred { .. } => "deferred",
        Outcome::Skipped(_) => "skipped",
        Outcome::Failed(problem) if problem.blocked => "blocked",
        Outcome::Failed(_) => "error",
        Outcome::Refused(_) => "refused",
    }
}

fn done(result: &ItemResult) -> &'static str {
    match result {
        ItemResult::Changed => "changed",
        ItemResult::Unchanged => "unchanged",
        ItemResult::NotApplicable { .. } => "skipped",
        ItemResult::Failed { .. } => "failed",
        ItemResult::Refused { .. } => "refused",
        ItemResult::Skipped { .. } => "blocked",
        ItemResult::Stopped => "not begun",
        ItemResult::PutBack { .. } => "reverted",
        ItemResult::Unknown { .. } => "unknown",
    }
}

fn entries<'a>(plan: &'a FleetPlan, apply: Option<&'a ApplyReport>, look: &Look) -> Vec<ItemEntry<'a>> {
    let mut all: Vec<ItemEntry<'a>> = Vec::new();
    let mut add = |host: &'a str, item: &'a Item, outcome: &'static str, body: Text, took: Duration| {
        let what = item_summary(item);
        let same = |e: &&mut ItemEntry<'a>| {
            e.item.address == item.address && e.outcome == outcome && e.body == body && e.what == what
        };
        match all.iter_mut().find(same) {
            Some(entry) => {
                entry.hosts.push(host);
                entry.longest = entry.longest.max(took);
            }
            None => all.push(ItemEntry { item, outcome, body, what, hosts: vec![host], longest: took }),
        }
    };
    for host in plan.planned() {
        let applied: Option<&HostApply> = apply.and_then(|a| a.hosts.iter().find(|h| h.host == host.host));
        for item in &host.items {
            // The result of an item tells more than its plan.
            if applied.is_some_and(|a| a.items.iter().any(|(i, _)| i.address == item.address)) {
                continue;
            }
            let body = match item.outcome {
                Outcome::Unchanged => Text::new(),
                _ => item_text(item, &host.contents, look).below_head(),
            };
            add(&host.host, item, planned(item), body, Duration::ZERO);
        }
        for (item, result) in applied.map(|a| a.items.as_slice()).unwrap_or_default() {
            let contents: &BTreeMap<Digest, Content> = applied.map_or(&host.contents, |a| &a.contents);
            let mut body = outcome_text(item, result);
            body.append(item_text(item, contents, look).below_head());
            let took = applied.and_then(|a| a.times.get(&item.address)).copied().unwrap_or_default();
            add(&host.host, item, done(result), body, took);
        }
    }
    // The variants of one item on different hosts stand together.
    let mut order: Vec<&str> = Vec::new();
    for entry in &all {
        if !order.contains(&entry.item.address.as_str()) {
            order.push(&entry.item.address);
        }
    }
    all.sort_by_key(|entry| order.iter().position(|address| *address == entry.item.address));
    all
}

fn head(out: &mut String, title: &str, plan: &FleetPlan, apply: Option<&ApplyReport>, about: &About) {
    let _infallible = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · {inventory}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\
         <style>{css}</style></head><body><main><h1>{title}</h1><p class=\"meta\">",
        title = esc(title),
        inventory = esc(&about.inventory),
        css = include_str!("html/report.css"),
    );
    let mut facts = vec![about.inventory.clone(), about.playbook.clone(), about.operator.clone()];
    facts.push(plan.created.clone());
    facts.push(format!("run {}", plan.id));
    if let Some(apply) = apply {
        facts.push(format!("took {}", span(apply.took)));
    }
    facts.retain(|f| !f.is_empty());
    out.push_str(&facts.iter().map(|f| esc(f)).collect::<Vec<_>>().join(" · "));
    out.push_str("</p>");
    for warning in &plan.warnings {
        let _infallible = write!(out, "<p class=\"t-warn\">warning: {}</p>", esc(warning));
    }
}

fn tiles(out: &mut String, plan: &FleetPlan, apply: Option<&ApplyReport>, entries: &[ItemEntry<'_>]) {
    let lost = plan.hosts.iter().filter(|h| matches!(h.result, HostResult::Lost(_))).count();
    let dropped = apply.map_or(lost, |a| a.hosts.iter().filter(|h| h.lost.is_some()).count());
    let off = apply.map_or(0, |a| a.hosts.iter().filter(|h| !h.differences.is_empty()).count());
    let sum =
        |outcome: &str| entries.iter().filter(|e| e.outcome == outcome).map(|e| e.hosts.len()).sum::<usize>();
    out.push_str("<div class=\"tiles\">");
    let mut tile = |tone: &str, n: usize, word: &str| {
        let _infallible = write!(out, "<div class=\"tile {tone}\"><b>{n}</b><span>{word}</span></div>");
    };
    tile("", plan.hosts.len(), if plan.hosts.len() == 1 { "host" } else { "hosts" });
    for (outcome, tone) in OUTCOMES {
        let n = sum(outcome);
        if n > 0 {
            tile(tone, n, outcome);
        }
    }
    for (n, word) in [(dropped, "excluded"), (off, "verification failed")] {
        if n > 0 {
            tile("bad", n, word);
        }
    }
    out.push_str("</div>");
}

const OUTCOMES: [(&str, &str); 11] = [
    ("to change", "warn"),
    ("deferred", "warn"),
    ("changed", "good"),
    ("failed", "bad"),
    ("error", "bad"),
    ("blocked", "bad"),
    ("refused", "bad"),
    ("unknown", "bad"),
    ("not begun", "warn"),
    ("unchanged", ""),
    ("skipped", ""),
];

fn role_table(out: &mut String, apply: Option<&ApplyReport>, about: &About, entries: &[ItemEntry<'_>]) {
    out.push_str(
        "<h2>Roles</h2><div class=\"scroll\"><table><tr><th>role</th><th>after</th><th class=\"n\">hosts</th>\
        <th class=\"n\">resources</th><th class=\"n\">changes</th><th class=\"n\">errors</th>",
    );
    if apply.is_some() {
        out.push_str("<th class=\"n\">slowest host</th>");
    }
    out.push_str("</tr>");
    for role in role_names(about, entries) {
        let own = || entries.iter().filter(|e| e.item.role == role);
        let mut hosts: Vec<&str> = own().flat_map(|e| e.hosts.iter().copied()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let sum = |words: &[&str]| {
            own().filter(|e| words.contains(&e.outcome)).map(|e| e.hosts.len()).sum::<usize>()
        };
        let items: usize = own().map(|e| e.hosts.len()).sum();
        let after =
            about.roles.iter().find(|(r, _)| *r == role).map(|(_, a)| a.join(", ")).unwrap_or_default();
        let _infallible = write!(
            out,
            "<tr><td class=\"name\">{}</td><td class=\"dim\">{}</td><td class=\"n\">{}</td><td class=\"n\">{items}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td>",
            esc(&role),
            esc(&after),
            hosts.len(),
            sum(&["changed", "to change", "deferred"]),
            sum(&["failed", "error", "blocked", "refused", "unknown"]),
        );
        if let Some(apply) = apply {
            let on = |host: &HostApply| -> Duration {
                host.items
                    .iter()
                    .filter(|(i, _)| i.role == role)
                    .filter_map(|(i, _)| host.times.get(&i.address))
                    .sum()
            };
            let longest = apply.hosts.iter().map(on).max().unwrap_or_default();
            let _infallible = write!(
                out,
                "<td class=\"n\">{}</td>",
                if longest.is_zero() { String::new() } else { span(longest) }
            );
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>");
}

fn host_table(out: &mut String, plan: &FleetPlan, apply: Option<&ApplyReport>) {
    out.push_str("<h2>Hosts</h2><div class=\"scroll\"><table><tr><th>host</th><th>outcome</th><th class=\"n\">time</th></tr>");
    for entry in &plan.hosts {
        let applied = apply.and_then(|a| a.hosts.iter().find(|h| h.host == entry.host));
        let mut words: Vec<(String, &str)> = Vec::new();
        let mut add = |list: Vec<&'static str>| {
            for (outcome, _) in OUTCOMES {
                let n = list.iter().filter(|o| **o == outcome).count();
                if n > 0 {
                    words.push((format!("{n} {outcome}"), outcome));
                }
            }
        };
        match (&entry.result, applied) {
            (HostResult::Planned(plan), Some(a)) => {
                let rest = plan.items.iter().filter(|i| !a.items.iter().any(|(d, _)| d.address == i.address));
                add(a.items.iter().map(|(_, r)| done(r)).chain(rest.map(planned)).collect());
            }
            (HostResult::Planned(plan), None) => add(plan.items.iter().map(planned).collect()),
            (HostResult::Lost(_), _) => {}
        }
        let mut cell: Vec<String> = words
            .iter()
            .map(|(text, outcome)| {
                format!("<span class=\"o-{}\">{}</span>", outcome.replace(' ', "-"), esc(text))
            })
            .collect();
        let lost = match &entry.result {
            HostResult::Lost(lost) => Some(lost),
            HostResult::Planned(_) => applied.and_then(|a| a.lost.as_ref()),
        };
        if let Some(lost) = lost {
            let word = if lost.is_unreachable() { "unreachable" } else { "refused" };
            cell.push(format!(
                "<span class=\"o-{word}\">{word}</span><div class=\"pre\">{}</div>",
                body_html(&lost_why(lost, 0))
            ));
        }
        for difference in applied.map(|a| a.differences.as_slice()).unwrap_or_default() {
            cell.push(format!("<span class=\"o-failed\">verification failed: {}</span>", esc(difference)));
        }
        let took = applied.map_or(entry.took, |a| a.took);
        let took = if took.is_zero() { String::new() } else { span(took) };
        let _infallible = write!(
            out,
            "<tr data-host=\"{0}\"><td class=\"name\">{0}</td><td>{1}</td><td class=\"n\">{took}</td></tr>",
            esc(&entry.host),
            if cell.is_empty() { "nothing to do".to_owned() } else { cell.join(", ") },
        );
    }
    out.push_str("</table></div>");
}

fn role_names(about: &About, entries: &[ItemEntry<'_>]) -> Vec<String> {
    let mut names: Vec<String> = about.roles.iter().map(|(name, _)| name.clone()).collect();
    for entry in entries {
        if !names.contains(&entry.item.role) {
            names.push(entry.item.role.clone());
        }
    }
    names.retain(|name| entries.iter().any(|e| e.item.role == *name));
    names
}

fn items(out: &mut String, about: &About, entries: &[ItemEntry<'_>]) {
    out.push_str("<h2>Resources</h2><div id=\"filter\"><input type=\"search\" id=\"host\" placeholder=\"host\" aria-label=\"host\">");
    for (outcome, _) in OUTCOMES.iter().filter(|(o, _)| entries.iter().any(|e| e.outcome == *o)) {
        let quiet = matches!(*outcome, "unchanged" | "skipped");
        let _infallible = write!(
            out,
            "<label><input type=\"checkbox\" value=\"{outcome}\"{}> {outcome}</label>",
            if quiet { "" } else { " checked" }
        );
    }
    out.push_str("<button type=\"button\" id=\"open\">expand all</button><span id=\"shown\"></span></div>");
    for role in role_names(about, entries) {
        let _infallible = write!(out, "<section class=\"role\"><h3>{}</h3>", esc(&role));
        for entry in entries.iter().filter(|e| e.item.role == role) {
            push_entry(out, entry);
        }
        out.push_str("</section>");
    }
}

fn push_entry(out: &mut String, entry: &ItemEntry<'_>) {
    let class = entry.outcome.replace(' ', "-");
    let mut on = if entry.hosts.len() > 1 {
        format!("{} · {}", counted(entry.hosts.len(), "host"), fold_names(&entry.hosts))
    } else {
        entry.hosts.concat()
    };
    if !entry.longest.is_zero() {
        on.push_str(&format!(
            " · {}{}",
            if entry.hosts.len() > 1 { "at most " } else { "" },
            span(entry.longest)
        ));
    }
    let line = format!(
        "<span class=\"tag o-{class}\">{}</span><span class=\"name\">{}</span><span class=\"what\">{}</span><span class=\"on\">{}</span>",
        entry.outcome,
        esc(label(entry.item)),
        esc(&entry.what),
        esc(&on)
    );
    let data = format!("data-outcome=\"{}\" data-hosts=\"{}\"", entry.outcome, names(&entry.hosts));
    if entry.body.is_empty() {
        let _infallible = write!(out, "<div class=\"item\" {data}>{line}</div>");
    } else {
        let open =
            if matches!(entry.outcome, "failed" | "refused" | "unknown" | "error") { " open" } else { "" };
        let _infallible = write!(
            out,
            "<details class=\"item\" {data}{open}><summary>{line}</summary><div class=\"pre\">{}</div></details>",
            body_html(&entry.body)
        );
    }
}

/// Toned lines as HTML.
fn body_html(text: &Text) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let _infallible = write!(out, "<div style=\"padding-left:{}ch\">", line.start());
        for (tone, words) in line.spans() {
            match tone.class() {
                "" => out.push_str(&esc(words)),
                class => {
                    let _infallible = write!(out, "<span class=\"t-{class}\">{}</span>", esc(words));
                }
            }
        }
        out.push_str("</div>");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{fleet, idle, lost, rich};

    fn about() -> About {
        About {
            inventory: "inventories/prod.yaml".into(),
            playbook: "playbooks/site.yaml".into(),
            operator: "ada@desk".into(),
            version: "0.1.0".into(),
            roles: vec![("motd".into(), vec![]), ("nginx".into(), vec!["motd".into()])],
        }
    }

    fn page() -> String {
        let mut hostile = rich("web1");
        hostile.items[0].name = "<script>alert(1)</script>".into();
        hostile.items[0].address = "motd/<script>alert(1)</script>".into();
        let mut plan = fleet(vec![hostile, rich("web2"), rich("web3"), idle("db1")]);
        plan.hosts.push(lost("db2", true));
        html_report(&plan, None, &about())
    }

    #[test]
    fn nothing_comes_from_a_network_and_nothing_runs_but_our_own() {
        let page = page();
        assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("src="), "{page}");
        assert_eq!(page.matches("<script>").count(), 1);
        assert!(page.contains("&lt;script&gt;alert(1)"));
    }

    #[test]
    fn equal_items_of_hosts_stand_together() {
        let page = page();
        assert!(page.contains("data-hosts=\"web2&#10;web3\""), "{page}");
        assert!(page.contains("unreachable") && page.contains("no route to 10.0.0.9:22"));
    }

    #[test]
    fn nothing_of_a_secret_is_in_it() {
        let digest = Digest::of(b"hunter2\n");
        let page = page();
        assert!(page.contains("content is sensitive: changes"));
        assert!(!page.contains("hunter2") && !page.contains(digest.short()));
    }

    #[test]
    fn what_was_done_has_times_and_reasons() {
        let report = crate::report::sample();
        let plan = fleet(vec![rich("web1"), rich("db1")]);
        let page = html_report(&plan, Some(&report), &about());
        assert!(page.contains("mkdir ended with status 1"), "{page}");
        assert!(page.contains("took 12s") && page.contains(">changed</span>"), "{page}");
    }
}
