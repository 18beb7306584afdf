//! `converge docs`: the reference pages that are generated.

use crate::args::{self, DocsArgs};
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::settings;
use converge_resources::{KINDS, reference_page};
use std::collections::BTreeMap;

pub fn run(args: DocsArgs, console: &Console) -> Result<u8, Failure> {
    let failed = |e: std::io::Error| Failure::failed(e.to_string());
    let mut stale = Vec::new();
    for (name, page) in pages() {
        let path = args.out.join(&name);
        if args.check {
            if fs_err::read_to_string(&path).ok().as_ref() != Some(&page) {
                stale.push(name);
            }
            continue;
        }
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder).map_err(failed)?;
        }
        fs_err::write(&path, page).map_err(failed)?;
    }
    if stale.is_empty() {
        return Ok(code::DONE);
    }
    console.write(&stale.iter().map(|n| format!("{n} is not up to date\n")).collect::<String>());
    Err(Failure::failed("generated pages are not up to date"))
}

/// All pages by their path.
fn pages() -> BTreeMap<String, String> {
    let mut pages: BTreeMap<String, String> = KINDS
        .iter()
        .filter_map(|k| Some((format!("kinds/{}.md", k.kind), reference_page(k.kind)?)))
        .collect();
    pages.insert("commands.md".to_owned(), commands());
    for (name, schema) in super::schema::all() {
        pages.insert(format!("schemas/{name}.json"), format!("{schema:#}\n"));
    }
    pages.insert("ansible.md".to_owned(), converge_model::ansible_page());
    pages.insert("settings.md".to_owned(), settings::page());
    pages.insert("facts.md".to_owned(), converge_engine::facts_page());
    pages
}

/// The help of every command.
fn commands() -> String {
    let mut page =
        "# Commands\n\nWritten by `cargo xtask generate` from the help of the binary.\n".to_owned();
    let mut top = args::definition().term_width(100).disable_version_flag(true);
    top.build();
    let mut add = |title: &str, command: &mut clap::Command| {
        let help = command.render_long_help().to_string();
        let help: String = help.lines().map(|l| format!("{}\n", l.trim_end())).collect();
        page.push_str(&format!("\n## `{title}`\n\n```text\n{}```\n", help.trim_start()));
    };
    add("converge", &mut top);
    for command in top.get_subcommands_mut() {
        if command.is_hide_set() || command.get_name() == "help" {
            continue;
        }
        let title = format!("converge {}", command.get_name());
        add(&title, command);
    }
    page
}
