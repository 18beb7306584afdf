//! `converge init`: the first project of the README.

use crate::args::InitArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::settings;
use camino::Utf8Path;

/// The files of the README's first role, by their path in the project.
pub const FILES: [(&str, &str); 5] = [
    (settings::FILE, include_str!("../first_project/converge.toml")),
    ("inventories/hosts.yaml", include_str!("../first_project/hosts.yaml")),
    ("playbooks/site.yaml", include_str!("../first_project/site.yaml")),
    ("roles/hello/role.yaml", include_str!("../first_project/role.yaml")),
    ("roles/hello/templates/site.conf.j2", include_str!("../first_project/site.conf.j2")),
];
/// The address and the user of the README's host.
const ADDRESS: &str = "192.0.2.10";
const USER: &str = "deploy";
/// The folder of the schemas that the first lines of the files name for editors.
const SCHEMAS: &str = ".converge";
/// The schema of each file that a language server for YAML checks; the first line of the settings is in their text.
const SETTINGS: &str = "settings";
const SCHEMA_OF: [(&str, &str); 3] = [
    ("inventories/hosts.yaml", "inventory"),
    ("playbooks/site.yaml", "playbook"),
    ("roles/hello/role.yaml", "role"),
];

pub fn run(args: InitArgs, console: &Console) -> Result<u8, Failure> {
    let there: Vec<&str> =
        FILES.iter().map(|(path, _)| *path).filter(|path| args.dir.join(path).exists()).collect();
    if !there.is_empty() {
        return Err(Failure::usage(
            format!("nothing was written, these files are there already: {}", there.join(", ")),
            "name another folder: converge init DIR",
        ));
    }
    for (name, value) in [("--address", &args.address), ("--user", &args.user)] {
        if !value.chars().all(|c| c.is_alphanumeric() || ".:-_%".contains(c)) || value.is_empty() {
            return Err(Failure::usage(
                format!("{name}: `{value}` is not a name or an address"),
                "write it as `ssh` takes it",
            ));
        }
    }
    let mut text = String::new();
    for (path, content) in FILES {
        let text_of = format!("{}{}", modeline(path), filled(content, &args));
        write(&args.dir.join(path), &text_of).map_err(|e| Failure::failed(e.to_string()))?;
        text.push_str(&format!("wrote {}\n", args.dir.join(path)));
    }
    for (name, schema) in super::schema::all() {
        let path = args.dir.join(SCHEMAS).join(format!("{name}.json"));
        // Whoever has the schemas of this or another version keeps them.
        if (name == SETTINGS || SCHEMA_OF.iter().any(|(_, of)| *of == name)) && !path.exists() {
            write(&path, &format!("{schema:#}\n")).map_err(|e| Failure::failed(e.to_string()))?;
            text.push_str(&format!("wrote {path}\n"));
        }
    }
    let change = if args.dir.as_str() == "." { String::new() } else { format!("  cd {}\n", args.dir) };
    text.push_str(&format!(
        "\nThen:\n{change}  converge plan    # what would change; nothing does\n  \
         converge apply   # plan, ask, apply, look again, verify\n"
    ));
    console.write(&text);
    Ok(code::DONE)
}

/// The line at the top of a file that names its schema for language servers: by a path from the file, without any network.
fn modeline(path: &str) -> String {
    let of = SCHEMA_OF.iter().find(|(file, _)| *file == path);
    let up = "../".repeat(path.matches('/').count());
    of.map_or_else(String::new, |(_, name)| {
        format!("# yaml-language-server: $schema={up}{SCHEMAS}/{name}.json\n")
    })
}

/// The file for this host. A colon in an address would end a plain scalar of a map on one line.
fn filled(content: &str, args: &InitArgs) -> String {
    let address =
        if args.address.contains(':') { format!("\"{}\"", args.address) } else { args.address.clone() };
    content
        .replace(&format!("ansible_host: {ADDRESS}"), &format!("ansible_host: {address}"))
        .replace(&format!("ansible_user: {USER}"), &format!("ansible_user: {}", args.user))
}

fn write(path: &Utf8Path, content: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    // Never over a file that has come in between.
    let mut file = fs_err::OpenOptions::new().write(true).create_new(true).open(path)?;
    std::io::Write::write_all(&mut file, content.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_name_the_schema_and_the_inventory_that_are_written() {
        let text = FILES.iter().find(|(path, _)| *path == settings::FILE).map_or("", |(_, text)| text);
        assert!(text.starts_with(&format!("#:schema ./{SCHEMAS}/{SETTINGS}.json\n")), "{text}");
        assert!(FILES.iter().any(|(path, _)| text.contains(&format!("inventory = \"{path}\"\n"))), "{text}");
    }

    #[test]
    fn the_files_are_those_of_the_readme() {
        let readme = include_str!("../../../../README.md");
        for (path, content) in FILES {
            assert!(readme.contains(&format!("\n{content}```\n")), "{path}");
        }
        let hosts = FILES.iter().find(|(path, _)| path.ends_with("hosts.yaml")).map_or("", |(_, text)| text);
        assert!(
            hosts.contains(&format!("ansible_host: {ADDRESS}"))
                && hosts.contains(&format!("ansible_user: {USER}"))
        );
    }
}
