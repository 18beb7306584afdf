//! `converge validate`: everything that can be known without contact to a host.

use crate::args::ValidateArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use converge_engine::{Engine, EventSink, Options};

pub fn run(args: ValidateArgs, console: &Console) -> Result<u8, Failure> {
    if !console.human() {
        return Err(Failure::usage(
            "this command has no JSON form",
            "use the exit code: 0 for no errors, 64 for errors",
        ));
    }
    let project = project::load(args.target.as_deref(), &args.select, console)?;
    let engine = Engine::new(project.clone(), Options::default(), EventSink::default())?;
    let found = engine.validate();
    if found.has_errors() {
        return Err(found.into());
    }
    if !found.is_empty() {
        console.complain(&found);
    }
    let count = |n: usize, noun: &str| format!("{n} {noun}{}", if n == 1 { "" } else { "s" });
    let clusters = project.clusters().count();
    let hosts = project.hosts().iter().filter(|name| project.entry_hosts(name).is_none()).count();
    let mut all = vec![count(hosts, "host")];
    all.extend((clusters > 0).then(|| count(clusters, "cluster")));
    all.push(count(project.roles().count(), "role"));
    console.write(&format!("{}: no errors\n", all.join(", ")));
    Ok(code::DONE)
}
