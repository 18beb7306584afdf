//! `firewall`

use crate::look::{package_id, state};
use crate::ufw::{self, ClientConnection, Rule};
use converge_objects::FirewallState;
use converge_resource::{Claim, ObjectId, ParamError, Probe, Resource, Stop, View, WantedStates};
use schemars::JsonSchema;
use serde::Deserialize;

/// The host's firewall by ufw: rules, the policies for what no rule names, and whether it is on.
///
/// The first rule that matches decides, in the order in which rules were made; new ones come last. Rules that are not listed stay, unless `only` is
/// given. A plan that would shut out the ssh connection in use, by its client's address and the server's port, is refused. The host needs the
/// package `ufw`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Firewall {
    /// The rules, in order. Each has an `action` (`allow`, which is the default, `deny`, `reject`, or `limit`, which drops an address that comes six
    /// times in 30 seconds), and says whom it is about: `port` (`22/tcp`, `53`, `8000:8010/tcp`, `80,443/tcp`, or an application of ufw such as
    /// `OpenSSH`), `from` and `to` (an address or a network), `interface`, `direction` (`in`, which is the default, or `out`). It may have a `comment`;
    /// with `absent: true` such a rule is taken away.
    #[serde(default)]
    rules: Vec<Rule>,
    /// Remove rules that are not listed here.
    #[serde(default)]
    only: bool,
    /// The policy for connections to the host that no rule matches.
    incoming: Option<Policy>,
    /// The policy for connections from the host that no rule matches.
    outgoing: Option<Policy>,
    /// The policy for connections through the host that no rule matches.
    routed: Option<Policy>,
    /// Whether the firewall is on, now and at boot. Left out it stays as it is.
    enabled: Option<bool>,
}

/// The policy for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// It is let through.
    Allow,
    /// Packets are dropped.
    Deny,
    /// Packets are refused with an answer.
    Reject,
}

fn id() -> ObjectId {
    ObjectId::new("firewall", "ufw")
}

/// The word of a policy or an action for ufw.
fn word(policy: Policy) -> &'static str {
    match policy {
        Policy::Allow => "allow",
        Policy::Deny => "deny",
        Policy::Reject => "reject",
    }
}

impl Firewall {
    /// The ssh connection in use: `CLIENT PORT SERVER PORT`, of this process or of the nearest one above it that has it (sudo clears it).
    fn probe() -> Probe {
        Probe::run(
            "pid=$$ turns=0\n\
             while [ \"${pid:-0}\" -gt 1 ] && [ $turns -lt 20 ]; do\n\
             found=$(tr '\\0' '\\n' <\"/proc/$pid/environ\" 2>/dev/null | sed -n 's/^SSH_CONNECTION=//p' | head -n 1)\n\
             [ -z \"$found\" ] || { printf '%s\\n' \"$found\"; exit 0; }\n\
             pid=$(sed -n 's/^PPid:[^0-9]*//p' \"/proc/$pid/status\" 2>/dev/null) turns=$((turns + 1))\n\
             done",
        )
    }

    fn rules(&self, now: &[String]) -> Vec<String> {
        let listed: Vec<String> = self.rules.iter().filter(|r| !r.absent).map(ufw::text).collect();
        let gone: Vec<String> = self.rules.iter().filter(|r| r.absent).map(ufw::text).collect();
        let same = |a: &str, b: &str| ufw::bare(a) == ufw::bare(b);
        let mut out: Vec<String> = if self.only {
            listed.clone()
        } else {
            let retained = now.iter().filter(|n| !gone.iter().any(|g| same(g, n)));
            // A rule whose comment changes stays in its place.
            retained.map(|n| listed.iter().find(|l| same(l, n)).unwrap_or(n).clone()).collect()
        };
        for rule in listed {
            if !out.iter().any(|o| same(o, &rule)) {
                out.push(rule);
            }
        }
        // ufw lists rules of IPv6 alone after all others.
        out.sort_by_key(|rule| ufw::is_v6(rule));
        out
    }
}

impl Resource for Firewall {
    const KIND: &'static str = "firewall";
    const EXAMPLE: &'static str = "\
- name: ssh, and the metrics for the monitoring
  firewall:
    rules:
      - {action: limit, port: 22/tcp}
      - {port: 9100/tcp, from: 10.20.0.0/16, comment: node exporter}
    incoming: deny
    enabled: true
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        for (n, rule) in self.rules.iter().enumerate() {
            for (field, message, help) in ufw::complaints(rule) {
                errors.push(ParamError::new(&format!("/rules/{n}{field}"), message, help));
            }
        }
        if self.rules.is_empty()
            && !self.only
            && self.enabled.is_none()
            && self.incoming.is_none()
            && self.outgoing.is_none()
            && self.routed.is_none()
        {
            errors.push(ParamError::new(
                "",
                "nothing is said about the firewall",
                "give `rules`, a policy or `enabled`",
            ));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        let policy = |facet, policy: Option<Policy>| policy.map(|p| Claim::shared(id(), facet, word(p)));
        let enabled = self.enabled.map(|e| Claim::shared(id(), "enabled", e.to_string()));
        let rules = if self.only { Claim::exclusive(id(), "rules") } else { Claim::edit(id(), "rules") };
        [
            Some(rules),
            policy("incoming", self.incoming),
            policy("outgoing", self.outgoing),
            policy("routed", self.routed),
            enabled,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        let (active, now_in, now_out, now_routed, now) = match state::<FirewallState>(view, &id())? {
            FirewallState::Ufw { active, incoming, outgoing, routed, rules } => {
                (active, incoming, outgoing, routed, rules)
            }
            FirewallState::Absent => {
                // Its rules and policies are what the package brings.
                return Err(match view.pending() {
                    Some(wait) if !view.raw(&package_id("ufw"))?.is_absent() => Stop::Deferred(wait),
                    _ => Stop::invalid_help(
                        "",
                        "this host has no ufw",
                        "install it before: `package: {name: ufw}`",
                    ),
                });
            }
        };
        let policy = |wish: Option<Policy>, now: String| wish.map_or(now, |p| word(p).to_owned());
        let (active, incoming) = (self.enabled.unwrap_or(active), policy(self.incoming, now_in));
        let rules = self.rules(&now);
        if active {
            let answer = view.run(&Self::probe())?;
            if let Some(connection) = ClientConnection::read(&answer.stdout)
                && !ufw::lets_in(&rules, &incoming, &connection)
            {
                return Err(Stop::invalid_help(
                    "/rules",
                    format!(
                        "the firewall would shut out the connection in use, from {} to port {}",
                        connection.client, connection.port
                    ),
                    format!(
                        "let it in, before any rule that denies it: `{{action: limit, port: {}/tcp}}`",
                        connection.port
                    ),
                ));
            }
        }
        let to = FirewallState::Ufw {
            active,
            incoming,
            outgoing: policy(self.outgoing, now_out),
            routed: policy(self.routed, now_routed),
            rules,
        };
        Ok(WantedStates::one(id(), to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeView, read, settle, wrong};
    use converge_resource::State;
    use serde_json::json;

    fn host(rules: &[&str]) -> FakeView {
        let fixed = ["ufw", "inactive", "deny", "allow", "deny"];
        let state = State::from_words(fixed.iter().chain(rules));
        FakeView::new().has(id(), state).answer(&Firewall::probe(), 0, "10.0.0.7 50000 10.0.0.1 22\n")
    }

    fn rules(view: &FakeView) -> Vec<String> {
        match FirewallState::try_from(State::from_line(&view.line(&id()))).unwrap() {
            FirewallState::Ufw { rules, .. } => rules,
            FirewallState::Absent => panic!("no firewall"),
        }
    }

    #[test]
    fn rules_are_added_left_and_removed() {
        let kind = read::<Firewall>(json!({
            "rules": [
                {"action": "limit", "port": "22/tcp"},
                {"port": "9100/tcp", "from": "10.0.0.0/8", "comment": "metrics"},
                {"port": "80", "absent": true},
            ],
            "enabled": true,
        }));
        let after = settle(
            &kind,
            host(&["allow 80", "allow from fd00::/8", "allow from 10.0.0.0/8 to any port 9100 proto tcp"]),
        );
        assert_eq!(
            rules(&after),
            [
                "allow from 10.0.0.0/8 to any port 9100 proto tcp comment 'metrics'",
                "limit 22/tcp",
                "allow from fd00::/8",
            ]
        );
        assert!(after.line(&id()).starts_with("ufw active deny allow deny "));
        let only =
            read::<Firewall>(json!({"rules": [{"port": "22/tcp"}], "only": true, "incoming": "reject"}));
        let after = settle(&only, after);
        assert_eq!(
            (rules(&after), after.line(&id()).split(' ').nth(2)),
            (vec!["allow 22/tcp".to_owned()], Some("reject"))
        );
    }

    #[test]
    fn the_connection_in_use_is_never_shut_out() {
        for (params, good) in [
            (json!({"enabled": true}), false),
            (json!({"enabled": true, "incoming": "allow"}), true),
            (json!({"enabled": true, "rules": [{"port": "22/tcp", "from": "10.0.0.0/24"}]}), true),
            (json!({"enabled": true, "rules": [{"port": "22/tcp", "from": "10.1.0.0/24"}]}), false),
            (
                json!({"enabled": true, "rules": [{"action": "deny", "from": "10.0.0.7"}, {"port": "22/tcp"}]}),
                false,
            ),
            (json!({"enabled": true, "rules": [{"port": "OpenSSH"}]}), true),
            (json!({"enabled": false, "rules": [{"port": "2222/tcp"}]}), true),
        ] {
            let kind = read::<Firewall>(params.clone());
            match kind.plan(&host(&[])) {
                Ok(_) => assert!(good, "{params}"),
                Err(Stop::Invalid { message, .. }) => {
                    assert!(!good && message.contains("from 10.0.0.7 to port 22"), "{params}: {message}");
                }
                other => panic!("{other:?}"),
            }
        }
        // Without ssh, as on this very machine, there is nothing to shut out.
        let kind = read::<Firewall>(json!({"enabled": true}));
        settle(&kind, host(&[]).answer(&Firewall::probe(), 0, ""));
    }

    #[test]
    fn without_ufw_it_is_refused_or_waited_for() {
        let kind = read::<Firewall>(json!({"enabled": false}));
        assert!(matches!(kind.plan(&FakeView::new()), Err(Stop::Invalid { .. })));
        let coming = FakeView::new().has(package_id("ufw"), State::from_line("present 1 manual -")).pending();
        assert!(matches!(kind.plan(&coming), Err(Stop::Deferred(_))));
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert_eq!(wrong::<Firewall>(json!({})), [""]);
        assert_eq!(
            wrong::<Firewall>(json!({"rules": [
                {"port": "ssh"}, {"from": "here"}, {"interface": "-i", "comment": "it's"}, {"action": "pass"}
            ]})),
            ["parse /rules/3/action"]
        );
        assert_eq!(
            wrong::<Firewall>(json!({"rules": [
                {"port": "ssh"}, {"from": "here"}, {"interface": "-i", "comment": "it's"}, {"port": "80,443"}, {}
            ]})),
            [
                "/rules/0/port",
                "/rules/1/from",
                "/rules/2/interface",
                "/rules/2/comment",
                "/rules/3/port",
                "/rules/4"
            ]
        );
    }
}
