//! Where nobody watches live rows: which hosts a look still waits for, and what came of the others meanwhile.

use crate::events::span;
use crate::names::fold_names;
use crate::plan::push_counts;
use crate::text::{Line, Text, Tone};
use converge_engine::Event;
use converge_planner::Summary;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A look that is over sooner says nothing.
const FIRST: Duration = Duration::from_secs(10);

/// The hosts of one look.
pub(crate) struct WaitingHosts {
    began: Instant,
    /// In the inventory's order.
    hosts: Vec<String>,
    over: BTreeSet<String>,
    /// The events of hosts that were not reported yet, in order.
    news: Vec<(String, HostNews)>,
    /// When it is said next, after the beginning: each time twice as late.
    next: Duration,
}

#[derive(PartialEq, Eq)]
enum HostNews {
    Planned(Summary),
    Lost(String),
}

impl WaitingHosts {
    pub fn new(hosts: &[String], began: Instant) -> Self {
        Self { began, hosts: hosts.to_vec(), over: BTreeSet::new(), news: Vec::new(), next: FIRST }
    }

    pub fn event(&mut self, event: &Event) {
        let (host, came) = match event {
            Event::Planned { host, summary } => (host, HostNews::Planned(*summary)),
            Event::Lost { host, message } => (host, HostNews::Lost(message.clone())),
            _ => return,
        };
        if self.hosts.contains(host) && self.over.insert(host.clone()) {
            self.news.push((host.clone(), came));
        }
    }

    /// The lines to report now, if there are any.
    pub fn due(&mut self, now: Instant) -> Text {
        let mut text = Text::new();
        let took = now.saturating_duration_since(self.began);
        let open: Vec<&str> =
            self.hosts.iter().filter(|h| !self.over.contains(*h)).map(String::as_str).collect();
        if took < self.next || open.is_empty() {
            return text;
        }
        self.next *= 2;
        let mut news = std::mem::take(&mut self.news);
        while !news.is_empty() {
            // Hosts of which the same is said are one line.
            let (same, other) = {
                let first = news.remove(0);
                let (mut same, other): (Vec<_>, Vec<_>) = news.into_iter().partition(|(_, c)| *c == first.1);
                same.insert(0, first);
                (same, other)
            };
            news = other;
            let names: Vec<&str> = same.iter().map(|(host, _)| host.as_str()).collect();
            let line = Line::at(0).say(Tone::Strong, fold_names(&names)).plain("  ");
            match same.first() {
                Some((_, HostNews::Planned(summary))) => text.push(push_counts(line, *summary, &[]).fold(4)),
                Some((_, HostNews::Lost(message))) => {
                    text.push(line.say(Tone::Bad, "✗ excluded"));
                    text.prose(4, Tone::Plain, "", message);
                }
                None => {}
            }
        }
        let line = Line::at(0).plain(format!("waiting since {} for ", span(took)));
        text.push(line.say(Tone::Strong, fold_names(&open)).plain(", then the whole plan follows").fold(2));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Look;

    #[test]
    fn who_is_waited_for_is_reported_after_a_while_and_then_more_and_more_rarely() {
        let began = Instant::now();
        let hosts: Vec<String> = ["h1", "h2", "h3", "h4", "h5"].map(str::to_owned).to_vec();
        let mut waiting = WaitingHosts::new(&hosts, began);
        let at = |waiting: &mut WaitingHosts, seconds: u64| {
            waiting.due(began + Duration::from_secs(seconds)).draw(&Look::PLAIN)
        };
        let summary = |changed| Summary { changed, ..Summary::default() };
        for (host, changed) in [("h3", 2), ("h1", 2), ("h2", 1)] {
            waiting.event(&Event::Planned { host: host.to_owned(), summary: summary(changed) });
        }
        assert_eq!(at(&mut waiting, 9), "");
        assert_eq!(
            at(&mut waiting, 10),
            "h3, h1  2 to change\nh2  1 to change\nwaiting since 10s for h4, h5, then the whole plan follows\n"
        );
        assert_eq!(at(&mut waiting, 19), "");
        waiting.event(&Event::Lost { host: "h4".to_owned(), message: "no route".to_owned() });
        // The host through which a cluster is reached is none of them.
        waiting.event(&Event::Lost { host: "jump".to_owned(), message: "no".to_owned() });
        assert_eq!(
            at(&mut waiting, 21),
            "h4  ✗ excluded\n    no route\nwaiting since 21s for h5, then the whole plan follows\n"
        );
        assert_eq!(at(&mut waiting, 39), "");
        assert_eq!(at(&mut waiting, 40), "waiting since 40s for h5, then the whole plan follows\n");
        waiting.event(&Event::Planned { host: "h5".to_owned(), summary: summary(0) });
        assert_eq!(at(&mut waiting, 1000), "", "the plan says it");
    }
}
