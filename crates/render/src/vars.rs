//! The sources of a variable's value.

use crate::text::{Line, Text, Tone};
use converge_model::{Candidate, VarReport};

/// Every variable with all its candidates, the highest layer first; `>` marks the winner.
pub fn vars(reports: &[VarReport]) -> Text {
    let mut text = Text::new();
    for report in reports {
        text.gap();
        text.push(Line::at(0).say(Tone::Strong, report.name.as_str()));
        let layer = |c: &Candidate| match &c.within {
            Some(within) => format!("{} ({within})", c.layer),
            None => c.layer.to_string(),
        };
        let width = report.candidates.iter().map(|c| layer(c).chars().count()).max().unwrap_or(0);
        for (index, candidate) in report.candidates.iter().enumerate().rev() {
            let winners: Vec<_> = report.winners.iter().filter(|w| w.candidate == index).collect();
            let wins = !winners.is_empty();
            let (sign, tone) = if wins { ("> ", Tone::Good) } else { ("  ", Tone::Faint) };
            let line = Line::at(2).say(tone, sign).plain(format!("{:<width$}  ", layer(candidate)));
            let line = line.say(if wins { Tone::Plain } else { Tone::Faint }, written(candidate));
            text.push(line.faint(format!("  {}", candidate.key)));
            for winner in winners {
                let mut line = Line::at(6);
                if let Some(role) = &winner.role {
                    line = line.faint(format!("in role {role} "));
                }
                match (&winner.value, &winner.why) {
                    // A value without templates is not said twice.
                    (Some(value), _) if candidate.node.to_json() != value.to_json() => {
                        text.push(line.faint("is ").plain(value.to_json().to_string()));
                    }
                    (None, Some(why)) => text.push(line.faint(format!("is not shown: {why}"))),
                    _ if winner.role.is_some() => text.push(line.faint("too")),
                    _ => {}
                }
            }
        }
    }
    text
}

fn written(candidate: &Candidate) -> String {
    if candidate.sensitive { "(sensitive)".to_owned() } else { candidate.node.to_json().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::vars_json;
    use crate::text::Look;
    use converge_model::{Layer, Winner};
    use converge_syntax::{Node, Source, Span};

    fn candidate(layer: Layer, text: &str, at: usize, sensitive: bool) -> Candidate {
        let source = Source::new("inventories/prod.yaml", "a: 1\nport: 80\nport: 8080\ntoken: x\n");
        let span = Span::new(source, at, at + 4);
        Candidate { layer, within: None, node: Node::new(text, span.clone()), key: span, sensitive }
    }

    fn reports() -> Vec<VarReport> {
        let value = Node::new("8080", Span::nowhere("test"));
        let mut low = candidate(Layer::Default, "80", 5, false);
        low.within = Some("web".into());
        vec![
            VarReport {
                name: "port".into(),
                candidates: vec![low, candidate(Layer::Group("all".into()), "{{ base + 80 }}", 14, false)],
                winners: vec![
                    Winner { role: None, candidate: 1, value: Some(value), why: None },
                    Winner {
                        role: Some("db".into()),
                        candidate: 0,
                        value: None,
                        why: Some("it waits for the host".into()),
                    },
                ],
            },
            VarReport {
                name: "token".into(),
                candidates: vec![candidate(Layer::Host, "hunter2", 25, true)],
                winners: vec![Winner {
                    role: None,
                    candidate: 0,
                    value: None,
                    why: Some("sensitive".into()),
                }],
            },
        ]
    }

    #[test]
    fn the_winner_and_every_other_candidate_with_their_places() {
        insta::assert_snapshot!(vars(&reports()).draw(&Look::PLAIN));
    }

    #[test]
    fn a_secret_variable_is_named_only() {
        assert!(!vars(&reports()).draw(&Look::PLAIN).contains("hunter2"));
        let json = vars_json("web1", &reports()).to_string();
        assert!(!json.contains("hunter2") && json.contains("inventories/prod.yaml:3:1"), "{json}");
    }
}
