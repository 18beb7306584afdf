//! `converge vars`: where values come from.

use super::inventory::unknown;
use crate::args::VarsArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use converge_render as render;

pub fn run(args: VarsArgs, console: &Console) -> Result<u8, Failure> {
    let project = project::load(None, &args.select, console)?;
    if project.inventory().host(&args.host).is_none() && project.entry_hosts(&args.host).is_none() {
        return Err(unknown("host", &args.host, project.inventory().hosts().map(|h| h.name())));
    }
    let reports = project.vars(&args.host, args.name.as_deref());
    if let (Some(name), true) = (&args.name, reports.is_empty()) {
        let all = project.vars(&args.host, None);
        let near = converge_syntax::did_you_mean(name, all.iter().map(|r| r.name.as_str()));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`converge vars {}` lists all", args.host),
        };
        return Err(Failure::usage(format!("nothing sets `{name}` for {}", args.host), help));
    }
    if console.json {
        console.print_json(&render::vars_json(&args.host, &reports));
    } else {
        console.print(&render::vars(&reports));
    }
    Ok(code::DONE)
}
