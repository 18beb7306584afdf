//! Rules in the spelling of `ufw show added`, and whom they let in.

use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;

/// The action of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UfwAction {
    /// It lets through.
    #[default]
    Allow,
    /// It drops.
    Deny,
    /// It refuses with an answer.
    Reject,
    /// It lets through, but drops an address that comes six times in 30 seconds.
    Limit,
}

/// The direction of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the host.
    #[default]
    In,
    /// They leave it.
    Out,
}

/// One rule.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The action.
    #[serde(default)]
    pub action: UfwAction,
    /// The port on the receiving side: `22/tcp`, `53`, `8000:8010/tcp`, `80,443/tcp`, or an application of ufw such as `OpenSSH`. Left
    /// out: all.
    pub port: Option<String>,
    /// Where connections come from: an address or a network. Left out: anywhere.
    pub from: Option<String>,
    /// Where they go to. Left out: any address.
    pub to: Option<String>,
    /// Only on this network interface.
    pub interface: Option<String>,
    /// Whether connections come in or go out.
    #[serde(default)]
    pub direction: Direction,
    /// A remark that ufw keeps with the rule.
    pub comment: Option<String>,
    /// Take such a rule away.
    #[serde(default)]
    pub absent: bool,
}

/// A connection to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConnection {
    pub client: IpAddr,
    /// The server's port.
    pub port: u16,
}

impl ClientConnection {
    /// Takes the value of `SSH_CONNECTION`: `CLIENT PORT SERVER PORT`.
    pub fn read(text: &str) -> Option<Self> {
        match text.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
            [client, _, _, port] => Some(Self { client: client.parse().ok()?, port: port.parse().ok()? }),
            _ => None,
        }
    }
}

/// An address and how many of its first bits count.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |b| b.parse().ok().filter(|b| *b <= most))?;
    Some((address, bits))
}

fn contains((network, bits): (IpAddr, u8), address: IpAddr) -> bool {
    let shifted =
        |value: u128, width: u8| value.checked_shr(u32::from(width.saturating_sub(bits))).unwrap_or(0);
    match (network, address) {
        (IpAddr::V4(n), IpAddr::V4(a)) => {
            shifted(u128::from(n.to_bits()), 32) == shifted(u128::from(a.to_bits()), 32)
        }
        (IpAddr::V6(n), IpAddr::V6(a)) => shifted(n.to_bits(), 128) == shifted(a.to_bits(), 128),
        _ => false,
    }
}

/// The numbers of `22`, `8000:8010` or `80,443`.
fn ports(text: &str) -> Option<Vec<(u16, u16)>> {
    let port = |t: &str| t.parse::<u16>().ok().filter(|n| *n > 0 && !t.starts_with('+'));
    text.split(',')
        .map(|part| match part.split_once(':') {
            Some((low, high)) => port(low).zip(port(high)).filter(|(l, h)| l < h),
            None => port(part).map(|p| (p, p)),
        })
        .collect()
}

/// A port as it is written: the numbers with their protocol, or the name of an application.
enum Port<'a> {
    Numbers(&'a str, Option<&'a str>),
    Application(&'a str),
}

fn port(text: &str) -> Option<Port<'_>> {
    let (numbers, protocol) = text.split_once('/').map_or((text, None), |(n, p)| (n, Some(p)));
    if let Some(list) = ports(numbers) {
        let many = list.len() > 1 || list.iter().any(|(low, high)| low != high);
        let known = matches!(protocol, Some("tcp" | "udp")) || (protocol.is_none() && !many);
        return known.then_some(Port::Numbers(numbers, protocol));
    }
    // ufw turns names of /etc/services, which are in lower case, into numbers; names of applications begin with a capital.
    let good = |b: u8| b.is_ascii_alphanumeric() || b" -_.+".contains(&b);
    (text.starts_with(|c: char| c.is_ascii_uppercase()) && text.bytes().all(good))
        .then_some(Port::Application(text))
}

/// The errors of a rule: the pointer of the field, the message, the correction.
pub fn complaints(rule: &Rule) -> Vec<(&'static str, String, &'static str)> {
    let mut found = Vec::new();
    if let Some(text) = rule.port.as_ref().filter(|p| port(p).is_none()) {
        found.push((
            "/port",
            format!("`{text}` is not a port"),
            "write a number with its protocol, as `22/tcp`, or an application such as `OpenSSH`",
        ));
    }
    for (pointer, field) in [("/from", &rule.from), ("/to", &rule.to)] {
        if let Some(text) = field.as_ref().filter(|a| network(a).is_none()) {
            found.push((
                pointer,
                format!("`{text}` is no address and no network"),
                "write it as `10.0.0.0/8`",
            ));
        }
    }
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if let Some(text) =
        rule.interface.as_ref().filter(|i| i.is_empty() || i.starts_with('-') || !i.bytes().all(good))
    {
        found.push((
            "/interface",
            format!("`{text}` is no network interface"),
            "write it as `ip link` shows it",
        ));
    }
    if rule
        .comment
        .as_ref()
        .is_some_and(|c| c.is_empty() || c.chars().any(|c| c.is_control() || c == '\'' || !c.is_ascii()))
    {
        found.push(("/comment", "ufw takes no such comment".to_owned(), "use ASCII without single quotes"));
    }
    if rule.port.is_none() && rule.from.is_none() && rule.to.is_none() && rule.interface.is_none() {
        found.push((
            "",
            "the rule is about everything".to_owned(),
            "say so with a policy: `incoming: allow`",
        ));
    }
    found
}

/// The rule as `ufw show added` prints it, without the leading `ufw`.
pub fn text(rule: &Rule) -> String {
    let mut out = match rule.action {
        UfwAction::Allow => "allow",
        UfwAction::Deny => "deny",
        UfwAction::Reject => "reject",
        UfwAction::Limit => "limit",
    }
    .to_owned();
    let quoted = |name: &str| if name.contains(' ') { format!("'{name}'") } else { name.to_owned() };
    let outward = rule.direction == Direction::Out;
    let written = rule.port.as_deref().and_then(port);
    if let (None, None, None, Some(written)) = (&rule.from, &rule.to, &rule.interface, &written) {
        if outward {
            out.push_str(" out");
        }
        match written {
            Port::Numbers(numbers, None) => out.push_str(&format!(" {numbers}")),
            Port::Numbers(numbers, Some(protocol)) => out.push_str(&format!(" {numbers}/{protocol}")),
            Port::Application(name) => out.push_str(&format!(" {}", quoted(name))),
        }
    } else {
        match &rule.interface {
            Some(interface) => {
                out.push_str(&format!(" {} on {interface}", if outward { "out" } else { "in" }))
            }
            None if outward => out.push_str(" out"),
            None => {}
        }
        if let Some(from) = &rule.from {
            out.push_str(&format!(" from {from}"));
        }
        match &written {
            Some(Port::Numbers(numbers, protocol)) => {
                out.push_str(&format!(" to {} port {numbers}", rule.to.as_deref().unwrap_or("any")));
                if let Some(protocol) = protocol {
                    out.push_str(&format!(" proto {protocol}"));
                }
            }
            Some(Port::Application(name)) => {
                out.push_str(&format!(" to {} app {}", rule.to.as_deref().unwrap_or("any"), quoted(name)));
            }
            None => out.push_str(&rule.to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default()),
        }
    }
    if let Some(comment) = &rule.comment {
        out.push_str(&format!(" comment '{comment}'"));
    }
    out
}

/// The rule without its comment.
pub fn bare(rule: &str) -> &str {
    rule.split_once(" comment '").map_or(rule, |(rule, _)| rule)
}

/// Whether the rule is about IPv6 alone.
pub fn is_v6(rule: &str) -> bool {
    bare(rule).split(' ').any(|word| network(word).is_some_and(|(address, _)| address.is_ipv6()))
}

/// Whether these rules, of which the first that matches decides, let a new connection like this one in. What cannot be judged (an interface, an
/// application but OpenSSH) counts where it denies and does not count where it allows.
pub fn lets_in(rules: &[String], incoming: &str, connection: &ClientConnection) -> bool {
    for rule in rules {
        let words: Vec<&str> = bare(rule).split(' ').collect();
        let Some((action, rest)) = words.split_first() else { continue };
        if *action == "route" || rest.contains(&"out") {
            continue;
        }
        let allows = matches!(*action, "allow" | "limit");
        match matches(rest, connection) {
            Some(true) => return allows,
            None if !allows => return false,
            _ => {}
        }
    }
    incoming == "allow"
}

/// Whether a rule's words match the connection; `None` when that cannot be known.
fn matches(words: &[&str], connection: &ClientConnection) -> Option<bool> {
    let mut sure = true;
    let mut words = words.iter().copied();
    let is_port = |numbers: &str| {
        ports(numbers).map(|list| list.iter().any(|(l, h)| (*l..=*h).contains(&connection.port)))
    };
    // The server's own address is not looked up: a rule for one address of the host may be for another.
    let mut side = "";
    while let Some(word) = words.next() {
        match word {
            "in" | "log" | "log-all" | "any" => {}
            "on" => {
                words.next();
                sure = false;
            }
            "from" | "to" => side = word,
            "port" if side == "from" => {
                words.next();
                sure = false;
            }
            "port" => {
                if !is_port(words.next()?)? {
                    return Some(false);
                }
            }
            "proto" => {
                if words.next()? != "tcp" {
                    return Some(false);
                }
            }
            "app" => {}
            "OpenSSH" => {
                if connection.port != 22 {
                    return Some(false);
                }
            }
            other => match (network(other), port(other)) {
                (Some(net), _) if side == "from" => {
                    if !contains(net, connection.client) {
                        return Some(false);
                    }
                }
                (Some(_), _) if side == "to" => sure = false,
                (_, Some(Port::Numbers(numbers, protocol))) => {
                    if protocol == Some("udp") || !is_port(numbers)? {
                        return Some(false);
                    }
                }
                _ => sure = false,
            },
        }
    }
    sure.then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Output of ufw 0.36.2 for these rules.
    #[test]
    fn rules_are_spelt_as_ufw_spells_them() {
        for (params, spelt) in [
            (
                json!({"port": "22/tcp", "from": "10.0.0.0/8"}),
                "allow from 10.0.0.0/8 to any port 22 proto tcp",
            ),
            (json!({"port": "80,443/tcp", "to": "10.1.1.1"}), "allow to 10.1.1.1 port 80,443 proto tcp"),
            (json!({"action": "deny", "from": "192.168.1.5"}), "deny from 192.168.1.5"),
            (json!({"action": "reject", "port": "25", "direction": "out"}), "reject out 25"),
            (json!({"interface": "eth0"}), "allow in on eth0"),
            (json!({"interface": "eth0", "port": "80"}), "allow in on eth0 to any port 80"),
            (json!({"port": "53"}), "allow 53"),
            (
                json!({"port": "60000:61000/udp", "comment": "mosh here"}),
                "allow 60000:61000/udp comment 'mosh here'",
            ),
            (json!({"port": "OpenSSH"}), "allow OpenSSH"),
            (json!({"action": "limit", "port": "22/tcp"}), "limit 22/tcp"),
        ] {
            let rule: Rule = serde_json::from_value(params).unwrap();
            assert_eq!(complaints(&rule), [], "{spelt}");
            assert_eq!(text(&rule), spelt);
        }
        assert!(
            is_v6("allow from 2001:db8::/32 to any port 22 proto tcp")
                && !is_v6("allow 60000:61000/udp comment '::1'")
        );
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let connection = ClientConnection::read("10.0.0.7 50000 10.0.0.1 22").unwrap();
        for (rules, policy, good) in [
            (vec![], "deny", false),
            (vec![], "allow", true),
            (vec!["allow 22"], "deny", true),
            (vec!["allow 22/udp"], "deny", false),
            (vec!["allow 20:30/tcp"], "deny", true),
            (vec!["allow 80,443/tcp"], "reject", false),
            (vec!["deny from 10.0.0.0/8", "allow 22"], "deny", false),
            (vec!["deny from 10.1.0.0/16", "limit 22/tcp"], "deny", true),
            (vec!["allow in on eth0"], "deny", false),
            (vec!["deny in on eth0 to any port 22"], "allow", false),
            (vec!["allow from 10.0.0.7"], "deny", true),
            (vec!["allow from any to any port 22 proto tcp"], "deny", true),
            (vec!["deny out 22", "route deny 22", "allow 'Open Thing'", "allow OpenSSH"], "deny", true),
            (vec!["allow from 2001:db8::/32 to any port 22 proto tcp"], "deny", false),
            (vec!["allow to 10.0.0.1 port 22 proto tcp"], "deny", false),
        ] {
            let rules: Vec<String> = rules.into_iter().map(str::to_owned).collect();
            assert_eq!(lets_in(&rules, policy, &connection), good, "{rules:?} {policy}");
        }
        let six = ClientConnection::read("2001:db8::7 1 2001:db8::1 22").unwrap();
        assert!(lets_in(&["allow from 2001:db8::/32 to any port 22 proto tcp".to_owned()], "deny", &six));
        assert_eq!(ClientConnection::read("nobody"), None);
    }
}
