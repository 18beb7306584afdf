//! The diff renderer: what a plan, an apply and the other commands say, for people and as JSON.
//!
//! Renderers turn data into [`Text`], which is drawn as the [`Look`] wants it. Nothing here talks to a host.

mod change;
mod diff;
mod doctor;
pub mod documents;
mod earlier_runs;
mod events;
mod facts;
mod graph;
mod html;
mod import;
mod json;
mod junit;
mod live;
mod managed;
mod names;
mod packages;
mod plan;
mod progress;
mod ran;
mod report;
mod role_tests;
mod runs;
#[cfg(test)]
mod samples;
mod svg;
mod test_progress;
mod text;
mod timings;
mod vars;
mod waiting;

pub use doctor::doctor;
pub use facts::{FactPath, fact, facts};
pub use graph::{graph_dot, graph_mermaid, graph_text};
pub use html::{About, html_report};
pub use import::{edited, import_json, imported};
pub use json::{
    apply_json, doctor_json, fact_json, facts_json, json_text, plan_json, snapshots_json, vars_json,
    verify_json,
};
pub use junit::{JunitCase, JunitEnd, Suite, Suites, apply_junit, plan_junit, verify_junit};
pub use managed::{Detail, amended, managed, managed_json, to_adopt, to_move};
pub use plan::plan;
pub use progress::{Progress, TerminalSize};
pub use ran::{ran, ran_json, ran_total};
pub use report::applied;
pub use role_tests::{case_report, test_summary, tests_json, tests_junit};
pub use runs::{snapshots, verified};
pub use svg::graph_svg;
pub use test_progress::TestProgress;
pub use text::{Line, Look, Stream, Text, Tone, visible};
pub use timings::{Slow, Timings};
pub use vars::vars;
