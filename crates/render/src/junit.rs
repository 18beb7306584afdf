//! JUnit's XML, as build servers read it: a suite a host, a case an item.

use crate::change::title;
use crate::events::skip_reason;
use crate::events::verdict;
use crate::plan::label;
use crate::text::steers;
use converge_engine::{ApplyReport, FleetPlan, HostResult, HostVerify, ItemResult, TargetError};
use converge_planner::{Item, Outcome};
use std::fmt::Write as _;
use std::time::Duration;

/// All suites of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suites {
    /// The name of the command.
    pub name: String,
    /// One a host, or a role.
    pub suites: Vec<Suite>,
}

/// Cases that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suite {
    /// The host, or the role.
    pub name: String,
    /// The duration.
    pub took: Duration,
    /// Its cases, in order.
    pub cases: Vec<JunitCase>,
}

/// One case.
#[derive(Clone, Debug, PartialEq)]
pub struct JunitCase {
    /// The class by the dots of JUnit: the role.
    pub class: String,
    /// Its name.
    pub name: String,
    /// The duration.
    pub took: Duration,
    /// The result.
    pub end: JunitEnd,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JunitEnd {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed {
        /// One line.
        message: String,
        /// More; may be empty.
        text: String,
    },
    /// It could not be tried.
    Error {
        /// One line.
        message: String,
    },
    /// It was left out.
    Skipped {
        /// The reason.
        why: String,
    },
}

impl Suites {
    /// The document.
    pub fn xml(&self) -> String {
        let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
        let all = || self.suites.iter().flat_map(|s| &s.cases);
        let took: Duration = self.suites.iter().map(|s| s.took).sum();
        let _infallible = writeln!(out, "<testsuites name=\"{}\" {}>", esc(&self.name), counts(all(), took));
        for suite in &self.suites {
            let _infallible = writeln!(
                out,
                "  <testsuite name=\"{}\" {}>",
                esc(&suite.name),
                counts(suite.cases.iter(), suite.took)
            );
            suite.cases.iter().for_each(|case| push_case(&mut out, case));
            out.push_str("  </testsuite>\n");
        }
        out.push_str("</testsuites>\n");
        out
    }
}

fn counts<'a>(cases: impl Iterator<Item = &'a JunitCase> + Clone, took: Duration) -> String {
    let of = |is: fn(&JunitEnd) -> bool| cases.clone().filter(|c| is(&c.end)).count();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        of(|_| true),
        of(|e| matches!(e, JunitEnd::Failed { .. })),
        of(|e| matches!(e, JunitEnd::Error { .. })),
        of(|e| matches!(e, JunitEnd::Skipped { .. })),
        took.as_secs_f64()
    )
}

fn push_case(out: &mut String, case: &JunitCase) {
    let _infallible = write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
        esc(&case.class),
        esc(&case.name),
        case.took.as_secs_f64()
    );
    let _infallible = match &case.end {
        JunitEnd::Passed => writeln!(out, "/>"),
        JunitEnd::Failed { message, text } => writeln!(
            out,
            ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
            esc(message),
            esc(text)
        ),
        JunitEnd::Error { message } => {
            writeln!(out, ">\n      <error message=\"{}\"/>\n    </testcase>", esc(message))
        }
        JunitEnd::Skipped { why } => {
            writeln!(out, ">\n      <skipped message=\"{}\"/>\n    </testcase>", esc(why))
        }
    };
}

/// Text for XML 1.0, which knows no control characters.
fn esc(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push('\t'),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c if steers(c) => {
                let _infallible = write!(out, "&#x{:x};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

fn lost_suite(host: &str, lost: &TargetError) -> Suite {
    let end = JunitEnd::Error { message: lost.to_string() };
    let case =
        JunitCase { class: "connection".into(), name: "reach the host".into(), took: Duration::ZERO, end };
    Suite { name: host.to_owned(), took: Duration::ZERO, cases: vec![case] }
}

fn case(item: &Item, took: Duration, end: JunitEnd) -> JunitCase {
    JunitCase { class: item.role.clone(), name: label(item).to_owned(), took, end }
}

/// A plan: an item that differs from its declaration is a failure.
pub fn plan_junit(plan: &FleetPlan) -> Suites {
    let suite = |host: &str, items: &[Item], took: Duration| {
        let cases = items
            .iter()
            .map(|item| {
                let end = match &item.outcome {
                    Outcome::Unchanged | Outcome::Adopt(_) | Outcome::Forget(_) => JunitEnd::Passed,
                    Outcome::Changed(changes) => {
                        let titles: Vec<String> =
                            changes.iter().map(|c| title(&c.change, item.sensitive)).collect();
                        JunitEnd::Failed {
                            message: "differs from what is declared".into(),
                            text: titles.join("\n"),
                        }
                    }
                    Outcome::Deferred { wait, .. } => JunitEnd::Failed {
                        message: format!("deferred: {}", wait.reason),
                        text: String::new(),
                    },
                    Outcome::Skipped(why) => JunitEnd::Skipped { why: why.clone() },
                    Outcome::Failed(problem) => JunitEnd::Error { message: problem.message.clone() },
                    Outcome::Refused(why) => JunitEnd::Error { message: why.clone() },
                };
                case(item, Duration::ZERO, end)
            })
            .collect();
        Suite { name: host.to_owned(), took, cases }
    };
    let suites = plan
        .hosts
        .iter()
        .map(|entry| match &entry.result {
            HostResult::Planned(plan) => suite(&plan.host, &plan.items, entry.took),
            HostResult::Lost(lost) => lost_suite(&entry.host, lost),
        })
        .collect();
    Suites { name: "converge plan".into(), suites }
}

/// An apply: what did not end well is a failure. Of a rollback also the `checks` after it, in a suite `HOST: checks` for each host.
pub fn apply_junit(report: &ApplyReport, checks: &[HostVerify]) -> Suites {
    let suites = report
        .hosts
        .iter()
        .map(|host| {
            let mut suite = match &host.lost {
                Some(lost) => lost_suite(&host.host, lost),
                None => Suite { name: host.host.clone(), ..Suite::default() },
            };
            suite.took = host.took;
            for (item, result) in &host.items {
                let (_, word, _) = verdict(result);
                let end = match result {
                    ItemResult::Changed | ItemResult::Unchanged => JunitEnd::Passed,
                    ItemResult::Failed { message, output } => JunitEnd::Failed {
                        message: message.clone(),
                        text: if item.sensitive { String::new() } else { output.clone() },
                    },
                    ItemResult::PutBack { message, output } => JunitEnd::Failed {
                        message: format!("{word}: {message}"),
                        text: if item.sensitive { String::new() } else { output.clone() },
                    },
                    ItemResult::Refused { message } | ItemResult::Unknown { message } => {
                        JunitEnd::Failed { message: format!("{word}: {message}"), text: String::new() }
                    }
                    ItemResult::NotApplicable { why } => JunitEnd::Skipped { why: why.clone() },
                    ItemResult::Skipped { because } => JunitEnd::Skipped { why: skip_reason(because) },
                    ItemResult::Stopped => JunitEnd::Skipped { why: "the run was stopped".into() },
                };
                suite.cases.push(case(item, host.times.get(&item.address).copied().unwrap_or_default(), end));
            }
            for difference in &host.differences {
                let end = JunitEnd::Failed { message: difference.clone(), text: String::new() };
                let name = "verification".to_owned();
                suite.cases.push(JunitCase { class: "verify".into(), name, took: Duration::ZERO, end });
            }
            suite
        })
        .chain(
            verify_junit(checks)
                .suites
                .into_iter()
                .map(|suite| Suite { name: format!("{}: checks", suite.name), ..suite }),
        )
        .collect();
    Suites { name: "converge apply".into(), suites }
}

/// The live checks.
pub fn verify_junit(all: &[HostVerify]) -> Suites {
    let suites = all
        .iter()
        .map(|host| {
            if let Some(lost) = &host.lost {
                return lost_suite(&host.host, lost);
            }
            let cases = host.checks.iter().map(|(address, why)| {
                let (class, name) = address.split_once('/').unwrap_or(("", address));
                let end = match why {
                    None => JunitEnd::Passed,
                    Some(why) => JunitEnd::Failed { message: why.to_string(), text: String::new() },
                };
                JunitCase { class: class.to_owned(), name: name.to_owned(), took: Duration::ZERO, end }
            });
            Suite { name: host.host.clone(), took: Duration::ZERO, cases: cases.collect() }
        })
        .collect();
    Suites { name: "converge verify".into(), suites }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{fleet, lost, rich};

    #[test]
    fn a_plan_for_a_build_server() {
        let mut plan = fleet(vec![rich("web1")]);
        plan.hosts.push(lost("db2", true));
        let xml = plan_junit(&plan).xml();
        assert!(!xml.contains("hunter2"), "{xml}");
        insta::assert_snapshot!(xml);
    }

    #[test]
    fn an_apply_for_a_build_server() {
        let xml = apply_junit(&crate::report::sample(), &[]).xml();
        insta::assert_snapshot!(xml);
    }

    #[test]
    fn what_a_host_says_is_text() {
        let text = "a<b>&\"c\"\u{1b}[2J\u{0}\n";
        let end = JunitEnd::Failed { message: text.into(), text: text.into() };
        let case =
            JunitCase { class: text.into(), name: text.into(), took: Duration::from_millis(1500), end };
        let suite = Suite { name: text.into(), took: Duration::ZERO, cases: vec![case] };
        let xml = Suites { name: "x".into(), suites: vec![suite] }.xml();
        assert!(xml.contains("message=\"a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}[2J\u{fffd}&#10;\""), "{xml}");
        assert!(xml.contains("time=\"1.500\""));
        assert!(!xml.contains('\u{1b}'));
    }
}
