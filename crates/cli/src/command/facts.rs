//! `converge facts`: what hosts say about themselves.

use super::plan::inventory_names;
use super::snapshots::lost_code;
use crate::args::FactsArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::project;
use crate::session::{CommandSession, SessionRequest};
use converge_engine::{Engine, HostAnswer};
use converge_render::{self as render, FactPath};
use converge_syntax::did_you_mean;
use serde_json::Value;

pub async fn run(args: FactsArgs, console: &Console) -> Result<u8, Failure> {
    let mut name = args.name;
    let mut target = args.target;
    let (select, connection) = args.hosts.split();
    // `converge facts -i h1, nvidia`: the one plain word is a fact.
    let is_file = target.as_ref().is_some_and(|word| std::path::Path::new(word).exists());
    if name.is_none() && !select.inventories.is_empty() && !is_file {
        name = target.take();
    }
    let path = name.as_deref().map(read_path).transpose()?;
    let project = project::load_inventory(target.as_deref(), &select, console)?;
    let names = inventory_names(target.as_deref(), &select);
    let mut session = CommandSession::open(SessionRequest::new(project, &connection, &names), console)?;
    let wanted = |group: &str| path.as_ref().is_none_or(|path| path.first() == group);
    let found = session.look(async |engine: &Engine| engine.gather_facts(wanted).await).await?;
    session.close().await;
    match &path {
        None if console.json => console.print_json(&render::facts_json(&found)),
        None => console.print(&render::facts(&found)),
        Some(path) => {
            let values = one(&found, path)?;
            if console.json {
                console.print_json(&render::fact_json(name.as_deref().unwrap_or_default(), &values, &found));
            } else {
                console.print(&render::fact(&values, &found));
            }
        }
    }
    Ok(lost_code(found.iter().filter_map(|h| h.result.as_ref().err())))
}

fn one(found: &[HostAnswer], path: &FactPath) -> Result<Vec<(String, Value)>, Failure> {
    let answered = found.iter().filter_map(|h| Some((h.host.clone(), h.result.as_ref().ok()?)));
    answered
        .map(|(host, facts)| match path.of(facts) {
            Ok(value) => Ok((host, value)),
            Err((name, known)) => Err(unknown(&name, &known)),
        })
        .collect()
}

/// A path whose first name is a fact's.
fn read_path(text: &str) -> Result<FactPath, Failure> {
    let path = FactPath::parse(text).ok_or_else(|| {
        Failure::usage(
            format!("`{text}` names no fact"),
            "write it as `os.id`, `nvidia.gpus[0].name` or `network.interfaces[].name`",
        )
    })?;
    let schema = converge_engine::facts_schema();
    let all = schema.get("properties").and_then(Value::as_object);
    let known: Vec<String> = all.into_iter().flat_map(|p| p.keys().cloned()).collect();
    if known.iter().any(|k| k == path.first()) { Ok(path) } else { Err(unknown(path.first(), &known)) }
}

fn unknown(name: &str, known: &[String]) -> Failure {
    let help = match did_you_mean(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "`converge facts INVENTORY` shows all".to_owned(),
        None => format!("known names: {}", known.join(", ")),
    };
    Failure::usage(format!("there is no fact `{name}`"), help)
}
