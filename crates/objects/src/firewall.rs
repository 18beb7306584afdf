//! The host's firewall, by ufw. There is one: its key is `ufw`.

use converge_resource::{DriftScript, DynNeeds, ErasedObject, Facets, Needs, Object, state_of_words};

/// The state of the firewall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirewallState {
    /// ufw is not installed (`absent`).
    Absent,
    /// `ufw active|inactive INCOMING OUTGOING ROUTED RULE…`
    Ufw {
        /// Whether it is on, now and at boot.
        active: bool,
        /// The policy for what no rule names: `allow`, `deny` or `reject`.
        incoming: String,
        /// The same for what the host sends.
        outgoing: String,
        /// The same for what it forwards.
        routed: String,
        /// The rules as `ufw show added` prints them, without the leading `ufw`. The first that matches decides.
        rules: Vec<String>,
    },
}

impl FirewallState {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Absent => vec!["absent".to_owned()],
            Self::Ufw { active, incoming, outgoing, routed, rules } => {
                let active = if *active { "active" } else { "inactive" };
                let fixed = ["ufw", active, incoming, outgoing, routed];
                fixed.into_iter().map(str::to_owned).chain(rules.iter().cloned()).collect()
            }
        }
    }

    fn read(words: &[&str]) -> Option<Self> {
        match words {
            ["absent"] => Some(Self::Absent),
            ["ufw", active @ ("active" | "inactive"), incoming, outgoing, routed, rules @ ..] => {
                Some(Self::Ufw {
                    active: *active == "active",
                    incoming: (*incoming).to_owned(),
                    outgoing: (*outgoing).to_owned(),
                    routed: (*routed).to_owned(),
                    rules: rules.iter().map(|r| (*r).to_owned()).collect(),
                })
            }
            _ => None,
        }
    }
}

state_of_words!(FirewallState);

/// The object.
pub struct Firewall;

impl Object for Firewall {
    const KIND: &'static str = "firewall";
    const SHELL: &'static str = include_str!("firewall.sh");
    const SECONDS: u64 = 300;
    const NEEDS: &'static dyn DynNeeds = &ErasedObject::<Self>::new();
    type State = FirewallState;

    /// Without ufw nothing is filtered; that the program is still there is the package's matter.
    fn fulfils(now: &FirewallState, planned: &FirewallState) -> bool {
        let off = matches!(now, FirewallState::Ufw { active: false, .. });
        now == planned || (off && *planned == FirewallState::Absent)
    }

    fn title(_: &str, from: &FirewallState, to: &FirewallState) -> String {
        let active = |s: &FirewallState| matches!(s, FirewallState::Ufw { active: true, .. });
        match (active(from), active(to)) {
            (false, true) => "turn the firewall on",
            (true, false) => "turn the firewall off",
            _ => "change the firewall",
        }
        .to_owned()
    }

    fn facets(state: &FirewallState) -> Facets {
        match state {
            FirewallState::Absent => Vec::new(),
            FirewallState::Ufw { active, incoming, outgoing, routed, rules } => vec![
                ("firewall", if *active { "on" } else { "off" }.to_owned()),
                ("incoming", incoming.clone()),
                ("outgoing", outgoing.clone()),
                ("routed", routed.clone()),
                ("rules", rules.join("; ")),
            ],
        }
    }

    fn drifts(_: &str, state: &FirewallState) -> Vec<DriftScript> {
        let FirewallState::Ufw { active, incoming, .. } = state else { return Vec::new() };
        let policy = if incoming == "allow" { "deny" } else { "allow" };
        let mut drifts = vec![DriftScript::new(
            "incoming",
            format!("policy {policy}"),
            format!("ufw default {policy} incoming >/dev/null"),
        )];
        if *active {
            drifts.push(DriftScript::new("enabled", "switched off", "ufw --force disable >/dev/null"));
        }
        drifts
    }
}

impl Needs for Firewall {
    fn stands_on(_: &str, state: &FirewallState) -> Vec<String> {
        if matches!(state, FirewallState::Ufw { .. }) { vec!["ufw".to_owned()] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fake_tool, shells};
    use converge_resource::State;

    /// ufw 0.36 as far as it is used: a list of rules, IPv6 last, and a switch.
    const UFW: &str = r#"#!/bin/sh
rules=$CV_UFW_DEFAULTS.rules on=$CV_UFW_DEFAULTS.on
case "$1 $2" in
'status '*) if [ -e "$on" ]; then echo 'Status: active'; else echo 'Status: inactive'; fi ;;
'show added')
  echo "Added user rules (see 'ufw status' for running firewall):"
  [ -s "$rules" ] || echo '(None)'
  { grep -v '::' "$rules"; grep '::' "$rules"; } | sed 's/^/ufw /' ;;
'--force enable') : >"$on" ;;
'disable '*) rm "$on" ;;
'default '*)
  case $2 in allow) p=ACCEPT ;; deny) p=DROP ;; *) p=REJECT ;; esac
  case $3 in incoming) w=INPUT ;; outgoing) w=OUTPUT ;; *) w=FORWARD ;; esac
  sed -i "s/^DEFAULT_${w}_POLICY=.*/DEFAULT_${w}_POLICY=\"$p\"/" "$CV_UFW_DEFAULTS" ;;
*)
  delete=
  [ "$1" != delete ] || { delete=yes; shift; }
  text=
  for word; do case $word in *' '*) word="'$word'" ;; esac; text="$text${text:+ }$word"; done
  if [ -n "$delete" ]; then
    grep -qxF -- "$text" "$rules" || { echo "Could not delete non-existent rule"; exit 1; }
    grep -vxF -- "$text" "$rules" >"$rules.n"; mv "$rules.n" "$rules"
  else
    printf '%s\n' "$text" >>"$rules"
  fi ;;
esac
"#;

    #[test]
    fn rules_policies_and_the_switch_are_set_in_every_shell() {
        let dir = tempfile::tempdir().unwrap();
        let tools = fake_tool(dir.path(), "ufw", UFW);
        for shell in shells(dir.path()) {
            let root = tempfile::tempdir().unwrap();
            let defaults = root.path().join("defaults");
            let policy = "DEFAULT_INPUT_POLICY=\"DROP\"\nDEFAULT_OUTPUT_POLICY=\"ACCEPT\"\nDEFAULT_FORWARD_POLICY=\"DROP\"\n";
            std::fs::write(&defaults, policy).unwrap();
            std::fs::write(root.path().join("defaults.rules"), "allow 80/tcp\n").unwrap();
            let with = |script: &str| {
                format!("PATH='{tools}':$PATH; export CV_UFW_DEFAULTS='{}'; {script}", defaults.display())
            };
            let see = || {
                let answer = shell.good(root.path(), &with("cv_see_firewall ufw"), &[], b"");
                FirewallState::try_from(
                    crate::testing::parse::<Firewall>(&["ufw"], &answer)["ufw"].clone().unwrap().state,
                )
                .unwrap()
            };
            let state = |active, incoming: &str, rules: &[&str]| FirewallState::Ufw {
                active,
                incoming: incoming.to_owned(),
                outgoing: "allow".to_owned(),
                routed: "deny".to_owned(),
                rules: rules.iter().map(|r| (*r).to_owned()).collect(),
            };
            let first = state(false, "deny", &["allow 80/tcp"]);
            assert_eq!(see(), first, "{}", shell.name);
            for next in [
                state(
                    true,
                    "reject",
                    &["allow 80/tcp", "limit 22/tcp comment 'ssh of operators'", "allow 'Nginx Full'"],
                ),
                state(
                    true,
                    "reject",
                    &["limit 22/tcp comment 'ssh of operators'", "allow 443/tcp", "allow from fd00::/8"],
                ),
                state(true, "deny", &["deny from 10.0.0.9", "limit 22/tcp comment 'ssh of operators'"]),
                first,
            ] {
                let steps = Firewall::steps(&[("ufw", see(), next.clone())]);
                shell.good(root.path(), &with(&steps[0].script), &[], b"");
                assert_eq!(see(), next, "{}", shell.name);
            }
            let none = shell.good(root.path(), "PATH=/nowhere; cv_see_firewall ufw", &[], b"");
            assert!(none == "- absent\n" || std::path::Path::new("/usr/sbin/ufw").exists(), "{none}");
        }
    }

    #[test]
    fn states_are_lines_and_lines_are_states() {
        let line = r"ufw active deny allow deny \0141\0154\0154\0157\0167\0040\0062\0062";
        let state = FirewallState::try_from(State::from_line(line)).unwrap();
        assert!(matches!(&state, FirewallState::Ufw { rules, .. } if rules == &["allow 22"]));
        assert_eq!(State::from(state).line(), line);
        assert!(FirewallState::try_from(State::from_line("ufw maybe deny allow deny")).is_err());
    }
}
