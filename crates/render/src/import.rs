//! The report of an import.

use crate::diff::hunks;
use crate::text::{Line, Look, Text, Tone};
use converge_import::{ImportFinding, ImportReport, TaskVerdict};
use converge_resource::counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The report for people: open items, remarks that many tasks share, all tasks where more is wanted, counts.
#[must_use]
pub fn imported(report: &ImportReport, files: &[String], out: &str, look: &Look) -> Text {
    let mut text = Text::new();
    let open: Vec<&ImportFinding> = report.open().collect();
    if look.verbose {
        for finding in &report.findings {
            line_of(&mut text, finding);
        }
        text.gap();
    }
    if !open.is_empty() {
        text.push(Line::at(0).say(Tone::Strong, "Open items: a plan refuses the role until each is decided"));
        for finding in &open {
            let head = format!("{}:{} {} · {}", finding.file, finding.line, finding.module, finding.name);
            text.push(Line::at(2).say(Tone::Bad, "✗ ").plain(head).fold(4));
            text.prose(4, Tone::Faint, "why: ", &finding.why.join("; "));
            if let Some(write) = &finding.write {
                text.prose(4, Tone::Plain, "write: ", write);
            }
        }
        text.gap();
    }
    let shared = remarks(report);
    if !shared.is_empty() {
        text.push(Line::at(0).say(Tone::Strong, "Remarks"));
        for (remark, places) in shared {
            text.prose(2, Tone::Change, "~ ", remark);
            let more =
                if places.len() > 4 { format!(" and {} more", places.len() - 4) } else { String::new() };
            let shown: Vec<&str> = places.iter().take(4).map(String::as_str).collect();
            text.prose(4, Tone::Faint, "", &format!("{}{more}", shown.join(", ")));
        }
        text.gap();
    }
    let counts = report.counts();
    text.push(Line::at(0).plain(format!("{} written below {out}", counted(files.len(), "file"))));
    text.push(Line::at(0).plain(format!(
        "{}: {} exact, {} with a remark, {} open",
        counted(counts.tasks, "task"),
        counts.exact,
        counts.remark,
        counts.open
    )));
    text
}

fn line_of(text: &mut Text, finding: &ImportFinding) {
    let (sign, tone) = match finding.verdict {
        TaskVerdict::Exact => ("= ", Tone::Good),
        TaskVerdict::Remark => ("~ ", Tone::Change),
        TaskVerdict::Open => ("✗ ", Tone::Bad),
    };
    let words = format!("{}:{} {} · {}", finding.file, finding.line, finding.module, finding.name);
    text.push(Line::at(2).say(tone, sign).plain(words).faint(format!(" → {}", finding.became)).fold(4));
}

/// Each remark with the places that it holds for, in the order in which they come first.
fn remarks(report: &ImportReport) -> Vec<(&str, Vec<String>)> {
    let mut order: Vec<&str> = Vec::new();
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for finding in report.findings.iter().filter(|finding| finding.verdict == TaskVerdict::Remark) {
        for remark in &finding.why {
            if !places.contains_key(remark.as_str()) {
                order.push(remark);
            }
            places.entry(remark).or_default().push(format!("{}:{}", finding.file, finding.line));
        }
    }
    order.into_iter().map(|remark| (remark, places.remove(remark).unwrap_or_default())).collect()
}

/// The difference between a file as a person left it and as an import would write it.
#[must_use]
pub fn edited(path: &str, present: &str, new: &str, look: &Look) -> Text {
    let mut text = Text::new();
    text.push(Line::at(0).say(Tone::Strong, path));
    text.append(hunks(present, new, 2, look));
    text
}

/// The report as a document.
#[must_use]
pub fn import_json(report: &ImportReport, files: &[String]) -> Value {
    json!({
        "format": "converge-import-report",
        "version": 1,
        "counts": report.counts(),
        "findings": report.findings,
        "files": files,
    })
}
