//! ufw, firewalld.

use super::params::param;
use super::{Context, Conversion, ConvertedPart, Params, shell_text};
use crate::expression::{ImportProblem, whole_expression};
use crate::tokens::{TokenSort, tokens};
use crate::yaml::{made, map};
use converge_syntax::{Node, Value};

const BY_HAND: &str = "write `command` with `unless`: a question that is true once it is done";

pub(super) fn ufw(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    let mut out = Vec::new();
    if let Some(rule) = rule(&mut params)? {
        out.push(param("rules", Value::List(vec![rule])));
    }
    if let Some(policy) = params.text(&["default", "policy"]) {
        let direction = params.text(&["direction"]).unwrap_or_else(|| "incoming".to_owned());
        if !matches!(direction.as_str(), "incoming" | "outgoing" | "routed") {
            return Err(ImportProblem::new(
                format!("the policy is one of `{direction}`"),
                "write `incoming`, `outgoing` or `routed` of `firewall`",
            ));
        }
        out.push(param(&direction, policy));
    }
    match params.text(&["state"]).as_deref() {
        None => {}
        Some("enabled") => out.push(param("enabled", true)),
        Some("disabled") => out.push(param("enabled", false)),
        Some(other) => match chosen(other) {
            Some(expression) => out.push(param("enabled", expression)),
            None => {
                return Err(ImportProblem::new(
                    format!("`state: {other}` has no counterpart"),
                    "write `firewall` with `enabled`: it loads its rules itself",
                ));
            }
        },
    }
    params.finish("firewall")?;
    Ok(Conversion::one("firewall", out))
}

/// Whether an expression chooses between the two states that are kept, and nothing else: the switch for it.
fn chosen(state: &str) -> Option<String> {
    let expression = whole_expression(state)?.trim();
    let all = tokens(expression);
    let texts: Vec<&str> =
        all.iter().filter(|token| token.sort == TokenSort::Text).filter_map(|token| token.quoted()).collect();
    let words: Vec<&str> =
        all.iter().filter(|token| token.sort != TokenSort::Blank).map(|token| token.text).collect();
    let is_choice = matches!(words.as_slice(), [_, "if", condition @ .., "else", _] if condition.iter().all(|word| *word != "if"));
    (is_choice && texts.len() == 2 && texts.iter().all(|text| matches!(*text, "enabled" | "disabled")))
        .then(|| format!("{{{{ ({expression}) == 'enabled' }}}}"))
}

/// The rule of a task. A `direction` without one is that of a policy.
fn rule(params: &mut Params) -> Result<Option<Node>, ImportProblem> {
    let Some(action) = params.text(&["rule"]) else { return Ok(None) };
    let anywhere = |text: &String| text != "any";
    let mut rule: Vec<(&str, Node)> = Vec::new();
    if action != "allow" {
        rule.push(("action", made(action)));
    }
    let port = params.text(&["to_port", "port"]);
    let application = params.text(&["name", "app"]);
    let protocol = params.text(&["proto", "protocol"]).filter(anywhere);
    let port = match (port.or(application), protocol) {
        (Some(port), Some(protocol)) => Some(format!("{port}/{protocol}")),
        (Some(port), None) => Some(port),
        (None, None) => None,
        (None, Some(_)) => {
            return Err(ImportProblem::new("a rule is for one protocol and all of its ports", BY_HAND));
        }
    };
    rule.extend(port.map(|port| ("port", made(port))));
    rule.extend(params.text(&["from_ip", "from", "src"]).filter(anywhere).map(|from| ("from", made(from))));
    rule.extend(params.text(&["to_ip", "to", "dest"]).filter(anywhere).map(|to| ("to", made(to))));
    let direction = params.text(&["direction"]);
    let (mut interface, mut direction) = (params.text(&["interface", "if"]), direction);
    for (name, way) in [("interface_in", "in"), ("interface_out", "out")] {
        if let Some(one) = params.text(&[name, if way == "in" { "if_in" } else { "if_out" }]) {
            if interface.is_some() {
                return Err(ImportProblem::new("a rule is for two interfaces", BY_HAND));
            }
            (interface, direction) = (Some(one), Some(way.to_owned()));
        }
    }
    rule.extend(interface.map(|interface| ("interface", made(interface))));
    match direction.as_deref() {
        None | Some("in") => {}
        Some("out") => rule.push(("direction", made("out"))),
        Some(other) => return Err(ImportProblem::new(format!("a rule goes `{other}`"), BY_HAND)),
    }
    rule.extend(params.text(&["comment"]).map(|comment| ("comment", made(comment))));
    if params.flag(&["delete"])? == Some(true) {
        rule.push(("absent", made(true)));
    }
    for name in ["route", "log"] {
        if params.flag(&[name])? == Some(true) {
            return Err(ImportProblem::new(format!("`{name}` of a rule has no counterpart"), BY_HAND));
        }
    }
    if rule.iter().any(|(_, value)| value.as_str().is_some_and(|text| text.contains("omit"))) {
        return Err(ImportProblem::new(
            "parts of the rule are left out where a variable says so",
            "write `rules` of `firewall` as a list of maps",
        ));
    }
    Ok(Some(map(rule)))
}

/// The sorts of entries of a zone, and the word of `firewall-cmd` for each.
const ENTRIES: &[(&str, &str)] = &[
    ("service", "service"),
    ("port", "port"),
    ("source", "source"),
    ("protocol", "protocol"),
    ("rich_rule", "rich-rule"),
    ("icmp_block", "icmp-block"),
];

pub(super) fn firewalld(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    let open = |why: String| ImportProblem::new(why, BY_HAND);
    let state = params.needed(&["state"])?;
    let is_enabled = match state.as_str() {
        "enabled" => true,
        "disabled" => false,
        other => return Err(open(format!("`state: {other}` has no counterpart"))),
    };
    let is_permanent = params.flag(&["permanent"])? == Some(true);
    let is_immediate = params.flag(&["immediate"])? == Some(true) || !is_permanent;
    let zone = params.text(&["zone"]).map(|zone| format!(" --zone={}", shell_text::word(&zone)));
    let mut entries: Vec<String> = Vec::new();
    for (name, word) in ENTRIES {
        if let Some(value) = params.text(&[name]) {
            entries.push(format!("{word}={}", shell_text::word(&value)));
        }
    }
    if params.flag(&["masquerade"])? == Some(true) {
        entries.push("masquerade".to_owned());
    }
    params.finish("command")?;
    let [entry] = entries.as_slice() else {
        return Err(open("it is for something else than one entry of a zone".to_owned()));
    };
    if entry.contains("omit") || zone.as_ref().is_some_and(|zone| zone.contains("omit")) {
        return Err(open("parts are left out where a variable says so".to_owned()));
    }
    let zone = zone.unwrap_or_default();
    let verb = if is_enabled { "add" } else { "remove" };
    let (mut acts, mut looks) = (Vec::new(), Vec::new());
    let scopes = [(is_permanent, " --permanent"), (is_immediate, "")];
    for (_, scope) in scopes.into_iter().filter(|(is_wanted, _)| *is_wanted) {
        acts.push(format!("firewall-cmd -q{scope}{zone} --{verb}-{entry}"));
        // 1 is `no`; another status is a failure of the question, and no answer.
        let look = format!("firewall-cmd -q{scope}{zone} --query-{entry}");
        looks.push(if is_enabled { look } else { format!("{{ {look}; [ $? = 1 ]; }}") });
    }
    let made = ConvertedPart::new(
        "command",
        vec![param("run", acts.join(" &&\n")), param("unless", looks.join(" && "))],
    );
    Ok(Conversion { made: vec![made], ..Conversion::default() })
}
