//! `converge schema`: JSON Schemas for editors and for readers of our documents.

use crate::args::SchemaArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::{schemas, settings};
use converge_syntax::did_you_mean;
use serde_json::Value;

/// All schemas by name: what a user writes, then what `--output json` gives.
pub fn all() -> Vec<(&'static str, Value)> {
    let authored = schemas::authored().into_iter().chain([("settings", settings::schema())]);
    authored.chain(converge_render::documents::schemas()).collect()
}

pub fn run(args: SchemaArgs, console: &Console) -> Result<u8, Failure> {
    let all = all();
    let Some(name) = args.name else {
        console.write(&all.iter().map(|(name, _)| format!("{name}\n")).collect::<String>());
        return Ok(code::DONE);
    };
    // `report` is what people call the document of an apply.
    let wanted = if name == "report" { "apply" } else { &name };
    let Some((_, schema)) = all.iter().find(|(n, _)| *n == wanted) else {
        let names = || all.iter().map(|(n, _)| *n);
        let help = match did_you_mean(&name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known names: {}", names().collect::<Vec<_>>().join(", ")),
        };
        return Err(Failure::usage(format!("there is no schema `{name}`"), help));
    };
    console.print_json(schema);
    Ok(code::DONE)
}
