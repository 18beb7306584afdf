//! The results of role tests: for people, as JSON, as JUnit.

use crate::documents::{TestsDocument, to_json};
use crate::junit::{JunitCase, JunitEnd, Suite, Suites};
use crate::plan::plan;
use crate::text::{Line, Look, Text, Tone};
use converge_scenarios::{CaseReport, GateOutcome, GateReport, Mismatch};
use serde_json::Value;
use std::time::Duration;

/// Lines of one mismatch that are shown without `-v`.
const SHOWN: usize = 30;

/// Notes that are only counted without `-v`: how they begin, and what they are called then.
const DETAILS: &[(&str, &str)] =
    &[("no drift: ", "without drift"), ("taken for absent: ", "not recorded, taken for absent")];

fn is_detail(note: &str) -> bool {
    DETAILS.iter().any(|(lead, _)| note.starts_with(lead))
}

/// `0.4 s`
pub(crate) fn seconds(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    if seconds < 0.0995 { format!("{:.0} ms", seconds * 1000.0) } else { format!("{seconds:.1} s") }
}

fn mark(outcome: GateOutcome) -> (&'static str, Tone) {
    match outcome {
        GateOutcome::Passed => ("✓", Tone::Good),
        GateOutcome::Failed => ("✗", Tone::Bad),
        GateOutcome::NotRun => ("·", Tone::Faint),
    }
}

/// One scenario: its gates, and everything that is not as it should be.
pub fn case_report(case: &CaseReport, look: &Look) -> Text {
    let mut text = Text::new();
    let (sign, tone) = mark(if case.passed() { GateOutcome::Passed } else { GateOutcome::Failed });
    let head = Line::at(0)
        .say(tone, format!("{sign} "))
        .say(Tone::Strong, format!("{}/{}", case.role, case.scenario))
        .faint(format!(" · {} · {}", case.file, seconds(case.took)));
    text.push(head.fold(2));
    for gate in &case.gates {
        push_gate(&mut text, gate, look);
    }
    let not_run: Vec<&GateReport> = case.gates.iter().filter(|g| g.outcome == GateOutcome::NotRun).collect();
    if let Some(first) = not_run.first() {
        let why = first.notes.first().map_or("", String::as_str);
        let names: Vec<&str> = not_run.iter().map(|g| g.gate.name()).collect();
        text.push(Line::at(2).faint(format!("· not run ({why}): {}", names.join(", "))).fold(4));
    }
    if let Some(remaining_hosts) = &case.remaining_hosts {
        text.push(Line::at(2).say(Tone::Warn, "the hosts are left as they are. To get in:"));
        for login in &remaining_hosts.logins {
            text.push(Line::at(4).plain(login.clone()));
        }
        text.push(Line::at(2).plain("To take them away: ").plain(remaining_hosts.remove.clone()));
    }
    text
}

fn push_gate(text: &mut Text, gate: &GateReport, look: &Look) {
    let (sign, tone) = mark(gate.outcome);
    if gate.outcome == GateOutcome::NotRun {
        return;
    }
    let line = Line::at(2).say(tone, format!("{sign} ")).plain(gate.gate.title());
    let mut line = line.faint(format!(" · {}", seconds(gate.took))).fold(4);
    for note in gate.notes.iter().filter(|n| !is_detail(n)) {
        line = line.faint(format!(" · {note}"));
    }
    for (lead, words) in DETAILS {
        let count = gate.notes.iter().filter(|n| n.starts_with(lead)).count();
        if count > 0 && !look.verbose {
            line = line.faint(format!(" · {count} {words} (-v lists them)"));
        }
    }
    text.push(line);
    if look.verbose {
        for note in gate.notes.iter().filter(|n| is_detail(n)) {
            text.prose(6, Tone::Faint, "", note);
        }
    }
    for mismatch in &gate.mismatches {
        push_mismatch(text, mismatch, look);
    }
}

fn push_mismatch(text: &mut Text, mismatch: &Mismatch, look: &Look) {
    text.prose(4, Tone::Bad, "✗ ", &mismatch.what);
    if let Some(at) = &mismatch.at {
        text.push(Line::at(8).faint(format!("at {at}")));
    }
    if let Some(expected) = &mismatch.expected {
        text.prose(8, Tone::Plain, "expected: ", expected);
    }
    if let Some(found) = &mismatch.found {
        text.prose(8, Tone::Plain, "found:    ", found);
    }
    let most = if look.verbose { usize::MAX } else { SHOWN };
    for line in mismatch.lines.iter().take(most) {
        text.prose(8, Tone::Plain, "", line);
    }
    let more = mismatch.lines.len().saturating_sub(most);
    if more > 0 {
        text.push(Line::at(8).faint(format!("and {more} more lines (-v shows them)")));
    }
    if let Some(fleet) = &mismatch.plan {
        text.push(Line::at(8).faint("the plan said:"));
        for line in plan(fleet, look).draw(&Look { color: false, width: None, ..*look }).lines() {
            let tone = match line.trim_start().chars().next() {
                Some('+') => Tone::Add,
                Some('-') => Tone::Remove,
                Some('~') => Tone::Change,
                _ => Tone::Plain,
            };
            text.push(Line::at(10).say(tone, line.to_owned()));
        }
    }
}

/// The number of scenarios by result.
pub fn test_summary(cases: &[CaseReport], took: Duration) -> Text {
    let mut text = Text::new();
    let failed = cases.iter().filter(|c| !c.passed()).count();
    let passed = cases.len() - failed;
    let noun = if cases.len() == 1 { "scenario" } else { "scenarios" };
    let mut line = Line::at(0).say(Tone::Strong, format!("{} {noun}: ", cases.len()));
    if passed > 0 {
        line = line.say(Tone::Good, format!("{passed} passed"));
    }
    if failed > 0 {
        line = line.plain(if passed > 0 { ", " } else { "" }).say(Tone::Bad, format!("{failed} failed"));
    }
    text.push(line.faint(format!(" · {}", seconds(took))));
    let names: Vec<String> =
        cases.iter().filter(|c| !c.passed()).map(|c| format!("{}/{}", c.role, c.scenario)).collect();
    if failed > 0 && cases.len() > 1 {
        text.push(Line::at(0).say(Tone::Bad, "failed: ").plain(names.join(", ")).fold(8));
    }
    if cases.iter().any(|c| c.pure) {
        let what = "Recorded answers stood for hosts: of the gates only the input and the plan were held.";
        text.push(Line::at(0).faint(what).fold(0));
    }
    text
}

/// All of it as one JSON document.
pub fn tests_json(cases: &[CaseReport], took: Duration) -> Value {
    to_json(&TestsDocument::of(cases, took))
}

/// All of it as JUnit's XML: a suite a scenario, a case a gate.
pub fn tests_junit(cases: &[CaseReport]) -> Suites {
    let suites = cases.iter().map(|case| Suite {
        name: format!("{}/{}", case.role, case.scenario),
        took: case.took,
        cases: case.gates.iter().map(|gate| junit_case(case, gate)).collect(),
    });
    Suites { name: "converge test".to_owned(), suites: suites.collect() }
}

fn junit_case(case: &CaseReport, gate: &GateReport) -> JunitCase {
    let end = match gate.outcome {
        GateOutcome::Passed => JunitEnd::Passed,
        GateOutcome::NotRun => JunitEnd::Skipped { why: gate.notes.first().cloned().unwrap_or_default() },
        GateOutcome::Failed => {
            let message = gate.mismatches.first().map_or(gate.gate.title(), |m| m.what.as_str());
            let mut text = Text::new();
            let look = Look { verbose: true, ..Look::PLAIN };
            gate.mismatches.iter().for_each(|m| push_mismatch(&mut text, m, &look));
            JunitEnd::Failed { message: message.to_owned(), text: text.draw(&look) }
        }
    };
    let class = format!("{}.{}", case.role, case.scenario);
    JunitCase { class, name: gate.gate.name().to_owned(), took: gate.took, end }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::samples::{fleet, small};
    use converge_scenarios::{Gate, RemainingHosts};

    pub(crate) fn cases() -> Vec<CaseReport> {
        let gate = |gate: Gate, outcome: GateOutcome, mismatches: Vec<Mismatch>| GateReport {
            gate,
            outcome,
            mismatches,
            notes: match outcome {
                GateOutcome::NotRun => vec!["an earlier gate failed".into()],
                _ if gate == Gate::Drift => {
                    vec![
                        "drift injected, detected, corrected in 12 objects".into(),
                        "no drift: group:x".into(),
                    ]
                }
                _ => Vec::new(),
            },
            took: Duration::from_millis(1234),
        };
        let case =
            |scenario: &str, gates: Vec<GateReport>, remaining_hosts: Option<RemainingHosts>| CaseReport {
                role: "base".into(),
                scenario: scenario.into(),
                file: format!("roles/base/tests/{scenario}.yaml"),
                gates,
                remaining_hosts,
                pure: false,
                took: Duration::from_secs(9),
            };
        let wrong = Mismatch {
            at: Some("roles/base/tests/bad.yaml:4:5".into()),
            ..Mismatch::new("`base/time zone` on h1").but("it is deferred", "it is change")
        }
        .plan(&fleet(vec![small("h1")]), &[]);
        let lines =
            Mismatch::new("the file system is not as it was").lines(["+ /etc/left & <\u{1b}>".into()]);
        let remaining_hosts = RemainingHosts {
            logins: vec!["ssh -F x h1".into()],
            remove: "converge test --remove-kept".into(),
        };
        vec![
            case(
                "good",
                vec![
                    gate(Gate::Plan, GateOutcome::Passed, vec![]),
                    gate(Gate::Drift, GateOutcome::Passed, vec![]),
                ],
                None,
            ),
            case(
                "bad",
                vec![
                    gate(Gate::Plan, GateOutcome::Failed, vec![wrong]),
                    gate(Gate::Drift, GateOutcome::NotRun, vec![]),
                    gate(Gate::Rollback, GateOutcome::Failed, vec![lines]),
                ],
                Some(remaining_hosts),
            ),
        ]
    }

    #[test]
    fn gates_failures_and_what_is_left() {
        let mut text = Text::new();
        cases().iter().for_each(|c| text.append(case_report(c, &Look::PLAIN)));
        text.append(test_summary(&cases(), Duration::from_secs(12)));
        insta::assert_snapshot!(text.draw(&Look::PLAIN));
    }

    #[test]
    fn junit_has_a_case_a_gate() {
        let text = tests_junit(&cases()).xml();
        assert!(text.contains("<testsuites name=\"converge test\" tests=\"5\" failures=\"2\""), "{text}");
        assert!(text.contains("+ /etc/left &amp; &lt;"), "{text}");
        assert!(text.contains("<skipped message=\"an earlier gate failed\"/>"), "{text}");
    }

    #[test]
    fn the_document_names_its_format() {
        let document = tests_json(&cases(), Duration::from_secs(12));
        assert_eq!(document["format"], "converge-tests");
        assert_eq!(document["passed"], false);
        assert_eq!(document["scenarios"][1]["gates"][0]["mismatches"][0]["expected"], "it is deferred");
        assert_eq!(document["scenarios"][1]["gates"][1]["result"], "not_run");
    }
}
