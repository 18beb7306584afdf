//! `converge explain`: the reference pages.

use crate::args::Explain;
use crate::console::Console;
use crate::failure::Failure;
use converge_resources::{KINDS, reference_page};
use converge_syntax::did_you_mean;

pub fn run(args: Explain, console: &Console) -> Result<u8, Failure> {
    let names = || KINDS.iter().map(|k| k.kind);
    let Some(name) = args.kind else {
        let list: String = names().map(|n| format!("{n}\n")).collect();
        console.write(&list);
        return Ok(0);
    };
    let Some(page) = reference_page(&name) else {
        let near = did_you_mean(&name, names()).map(|n| format!("did you mean `{n}`?"));
        let all = names().collect::<Vec<_>>().join(", ");
        return Err(Failure::usage(
            format!("there is no kind `{name}`"),
            near.unwrap_or_else(|| format!("the kinds are {all}")),
        ));
    };
    console.write(&page);
    Ok(0)
}
