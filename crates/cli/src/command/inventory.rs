//! `converge inventory`: what `ansible-inventory` prints.

use crate::args::InventoryArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project::sources;
use camino::Utf8Path;
use converge_model::inventory::{Inventory, OutputOptions};
use converge_syntax::{Diagnostic, Diagnostics, did_you_mean};
use std::collections::HashSet;

pub fn run(args: InventoryArgs, console: &Console) -> Result<u8, Failure> {
    let sources = sources(args.target.as_deref(), &args.inventories)?;
    // As for ansible-inventory, the working folder stands in for that of a playbook.
    let folder = args.playbook_dir.as_deref().unwrap_or(Utf8Path::new("."));
    let (inventory, mut warnings) = Inventory::read(&sources, Some(folder), &args.vault.vault()?)?;
    if args.playbook_dir.is_none() {
        warnings.extend(beside_playbook());
    }
    if inventory.hosts().next().is_none() {
        warnings.push(Diagnostic::warning("empty-inventory", "the inventory has no hosts"));
    }
    let limit = match &args.limit {
        None => None,
        Some(pattern) if pattern.trim().is_empty() => {
            return Err(Diagnostics::from(converge_model::blank_limit()).into());
        }
        Some(pattern) => {
            let selection = inventory.select_limit(pattern, Utf8Path::new("."))?;
            warnings.extend(selection.warnings);
            Some(selection.hosts.into_iter().collect())
        }
    };
    let hosts = inventory.hosts().map(|host| host.name());
    let found = match (&args.host, &args.graph) {
        (Some(host), _) => inventory.problems_of([host.as_str()]),
        (None, Some(_)) if !args.vars => Diagnostics::new(),
        (None, None) if !args.export => {
            let limit: Option<&HashSet<String>> = limit.as_ref();
            inventory.problems_of(hosts.filter(|host| limit.is_none_or(|limit| limit.contains(*host))))
        }
        _ => inventory.problems(),
    };
    if found.has_errors() {
        return Err(found.into());
    }
    warnings.extend(found);
    if !warnings.is_empty() {
        console.complain(&warnings);
    }
    let options = OutputOptions {
        yaml: args.yaml,
        export: args.export,
        vars: args.vars,
        limit,
        working_folder: args.playbook_dir.is_none(),
    };
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
    Ok(code::DONE)
}

/// Variables beside the usual playbook count in a run, and not here unless somebody asks for them.
fn beside_playbook() -> Option<Diagnostic> {
    let folder = Utf8Path::new("playbooks");
    let vars =
        ["group_vars", "host_vars"].map(|name| folder.join(name)).into_iter().find(|path| path.is_dir())?;
    Some(
        Diagnostic::warning("not-shown", format!("`{vars}` counts in a run, and is not shown here"))
            .help(format!("--playbook-dir {folder} shows it")),
    )
}

/// A name that the inventory does not have.
pub fn unknown<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> Failure {
    let help = match did_you_mean(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`converge inventory INVENTORY --graph` shows what there is".to_owned(),
    };
    Failure::usage(format!("the inventory has no {what} `{name}`"), help)
}
