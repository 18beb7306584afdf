//! `converge inventory`: what `ansible-inventory` prints.

use crate::args::InventoryArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::project::sources;
use camino::Utf8Path;
use converge_model::inventory::{Inventory, OutputOptions};
use converge_syntax::did_you_mean;

pub fn run(args: InventoryArgs, console: &Console) -> Result<u8, Failure> {
    let sources = sources(args.target.as_deref(), &args.inventories)?;
    let (inventory, mut warnings) =
        Inventory::load(&sources, args.playbook_dir.as_deref(), &args.vault.vault()?)?;
    let limit = match &args.limit {
        None => None,
        Some(pattern) => {
            let selection = inventory.select_limit(pattern, Utf8Path::new("."))?;
            warnings.extend(selection.warnings);
            Some(selection.hosts.into_iter().collect())
        }
    };
    if !warnings.is_empty() {
        console.complain(&warnings);
    }
    let options = OutputOptions { yaml: args.yaml, export: args.export, vars: args.vars, limit };
    let printed = if let Some(host) = &args.host {
        let names = inventory.hosts().map(|h| h.name());
        inventory.print_host(host, &options).ok_or_else(|| unknown("host", host, names))?
    } else if let Some(group) = &args.graph {
        let names = inventory.groups().map(|g| g.name());
        inventory.print_graph(group, &options).ok_or_else(|| unknown("group", group, names))?
    } else {
        inventory.print_list(&options)
    };
    console.write(&format!("{}\n", printed.trim_end_matches('\n')));
    Ok(0)
}

/// A name that the inventory does not have.
pub fn unknown<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> Failure {
    let help = match did_you_mean(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`converge inventory INVENTORY --graph` shows what there is".to_owned(),
    };
    Failure::usage(format!("the inventory has no {what} `{name}`"), help)
}
