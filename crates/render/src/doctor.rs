//! The findings of `converge doctor`: hosts with equal findings together, each failure with its cause and its remedy.

use crate::names::fold_names;
use crate::plan::machines;
use crate::text::{Line, Text, Tone};
use converge_engine::{Finding, Health, HostDoctor};

/// The column at which findings begin.
const COLUMN: usize = 14;

/// The findings. Steps that are well are shown of hosts that are not, or with `verbose`.
pub fn doctor(all: &[HostDoctor], verbose: bool) -> Text {
    let mut text = Text::new();
    let mut groups: Vec<(Vec<Finding>, Vec<&HostDoctor>)> = Vec::new();
    for host in all {
        let own = comparable(host);
        match groups.iter_mut().find(|(findings, _)| *findings == own) {
            Some((_, hosts)) => hosts.push(host),
            None => groups.push((own, vec![host])),
        }
    }
    // Those that need somebody come last, where the eye is.
    groups.sort_by_key(|(_, hosts)| hosts.first().map(|host| rank(host.health())));
    for (common, hosts) in &groups {
        let Some(first) = hosts.first() else { continue };
        text.gap();
        let names: Vec<&str> = hosts.iter().map(|host| host.host.as_str()).collect();
        let (tone, word) = match first.health() {
            Health::Well => (Tone::Good, "healthy"),
            Health::Odd if first.cluster => (Tone::Warn, "healthy, with warnings"),
            Health::Odd => (Tone::Warn, "usable, with warnings"),
            Health::Ill if first.findings.iter().any(|f| f.health == Health::Ill && f.step == "login") => {
                (Tone::Bad, "refuses the login")
            }
            Health::Ill if first.unreachable => (Tone::Bad, "cannot be reached"),
            Health::Ill if first.cluster => (Tone::Bad, "unhealthy"),
            // Nothing that converge itself needs is missing.
            Health::Ill if first.findings.iter().all(|f| f.health != Health::Ill || f.cause.is_some()) => {
                (Tone::Bad, "unhealthy")
            }
            Health::Ill => (Tone::Bad, "unusable"),
        };
        text.push(Line::at(0).say(Tone::Strong, fold_names(&names)).faint(" · ").say(tone, word).fold(2));
        // One host is shown in full; of several, only the findings that they share.
        let findings = if hosts.len() == 1 { &first.findings } else { common };
        for finding in findings {
            if finding.health != Health::Well || verbose || first.health() == Health::Ill {
                push(&mut text, finding);
            }
        }
    }
    if all.len() > 1 {
        text.gap();
        let ill = all.iter().filter(|host| host.health() == Health::Ill).count();
        let clusters = all.iter().filter(|host| host.cluster).count();
        text.push(Line::at(0).say(Tone::Strong, format!("{}: ", machines(all.len(), clusters))).plain(
            if ill == 0 {
                format!("{} healthy", all.len())
            } else {
                format!("{} healthy, {ill} unhealthy", all.len() - ill)
            },
        ));
    }
    text
}

fn rank(health: Health) -> u8 {
    match health {
        Health::Well => 0,
        Health::Odd => 1,
        Health::Ill => 2,
    }
}

fn push(text: &mut Text, finding: &Finding) {
    let (tone, sign) = match finding.health {
        Health::Well => (Tone::Good, "✓ "),
        Health::Odd => (Tone::Warn, "! "),
        Health::Ill => (Tone::Bad, "✗ "),
    };
    let gap = " ".repeat(COLUMN.saturating_sub(4 + finding.step.len()).max(1));
    let mut lines = finding.found.lines();
    let first = lines.next().unwrap_or_default();
    text.push(Line::at(2).say(tone, sign).plain(format!("{}{gap}", finding.step)).plain(first).fold(COLUMN));
    for line in lines {
        text.push(Line::at(COLUMN).plain(line));
    }
    if let Some(cause) = &finding.cause {
        text.prose(COLUMN, Tone::Plain, "cause: ", cause);
    }
    if let Some(help) = &finding.help {
        text.prose(COLUMN, Tone::Plain, "help: ", help);
    }
    if let Some(role) = finding.role {
        text.push(Line::at(COLUMN).plain("role: ").say(Tone::Strong, role));
    }
}

/// The findings of a host without its own properties: name, address, times, keys, disk space.
fn comparable(host: &HostDoctor) -> Vec<Finding> {
    host.findings
        .iter()
        .map(|finding| {
            let found = match (finding.health, finding.step) {
                (Health::Well, "ssh" | "become" | "shell") => finding.found.clone(),
                (Health::Well, _) => "as it must be".to_owned(),
                _ => [&host.address, &host.host]
                    .into_iter()
                    .filter(|own| !own.is_empty())
                    .fold(finding.found.clone(), |text, own| without_word(&text, own)),
            };
            Finding { found, ..finding.clone() }
        })
        .collect()
}

/// The text with `HOST` for each such word. What only happens to hold its letters, as a fingerprint may, is another word.
fn without_word(text: &str, word: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    let part = |c: char| c.is_alphanumeric();
    while let Some((before, after)) = rest.split_once(word) {
        out.push_str(before);
        let inside = before.ends_with(part) || after.starts_with(part);
        out.push_str(if inside { word } else { "HOST" });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_word() {
        assert_eq!(without_word("h3 and h33d, 7h3; h3.", "h3"), "HOST and h33d, 7h3; HOST.");
    }
    use crate::text::Look;

    fn host(
        name: &str,
        address: &str,
        findings: &[(&'static str, Health, &str, Option<&str>)],
    ) -> HostDoctor {
        let finding = |(step, health, found, help): &(&'static str, Health, &str, Option<&str>)| Finding {
            step,
            health: *health,
            found: (*found).to_owned(),
            cause: None,
            help: help.map(str::to_owned),
            role: None,
        };
        HostDoctor {
            host: name.to_owned(),
            address: address.to_owned(),
            findings: findings.iter().map(finding).collect(),
            unreachable: findings.iter().any(|f| f.0 == "tcp" && f.1 == Health::Ill),
            cluster: false,
        }
    }

    /// A host and a cluster.
    pub(crate) fn sample() -> Vec<HostDoctor> {
        let well = host("h", "192.0.2.1", &[("tcp", Health::Well, "answers", None)]);
        let ill = host("c", "", &[("helm", Health::Ill, "a release is stuck", Some("roll it back"))]);
        vec![well, HostDoctor { cluster: true, ..ill }]
    }

    #[test]
    fn equal_hosts_are_folded_whatever_their_addresses_are() {
        let well = |name, address: &str| {
            host(
                name,
                address,
                &[
                    ("tcp", Health::Well, &format!("{address}:22 answers (1 ms)"), None),
                    ("apt", Health::Well, "ready", None),
                ],
            )
        };
        let dead = |name, address: &str| {
            host(
                name,
                address,
                &[("tcp", Health::Ill, &format!("cannot reach {address}:22 (refused)"), Some("is sshd up?"))],
            )
        };
        let all =
            [well("g1", "10.0.0.1"), dead("g2", "10.0.0.2"), well("g3", "10.0.0.3"), dead("g4", "10.0.0.4")];
        let drawn = doctor(&all, false).draw(&Look::PLAIN);
        assert_eq!(drawn.matches("cannot reach HOST:22 (refused)").count(), 1, "{drawn}");
        assert_eq!(drawn.matches("cannot be reached").count(), 1, "{drawn}");
        assert!(
            drawn.contains("help: is sshd up?") && drawn.contains("4 hosts: 2 healthy, 2 unhealthy"),
            "{drawn}"
        );
        let one = doctor(&[dead("g2", "10.0.0.2")], false).draw(&Look::PLAIN);
        assert!(one.contains("cannot reach 10.0.0.2:22"), "{one}");
    }
}
