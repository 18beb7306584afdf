//! `converge man`: manual pages.

use crate::args::{self, ManArgs};
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::settings::{FILE, FILE_VARIABLE, KEYS};
use fs_err as fs;

/// A command line and its purpose.
type Example = (&'static str, &'static str);

/// The examples of a page, by command; that of the whole program has no name.
const EXAMPLES: &[(&str, &[Example])] = &[
    (
        "",
        &[
            ("converge plan", "Show what would change on the hosts of the project."),
            ("converge apply", "Plan, ask, change, look again, verify."),
            ("converge rollback", "Revert the last run."),
        ],
    ),
    (
        "apply",
        &[
            ("converge apply --limit web1 --tags config", "One host, and resources with one tag."),
            ("converge apply release.plan --yes", "A saved plan, without a question."),
            ("converge apply --prune", "Also remove what no role declares any more."),
        ],
    ),
    (
        "plan",
        &[
            ("converge plan inventories/prod.yaml --out release.plan", "Save the plan for a later apply."),
            ("converge plan --output junit", "For a build server."),
        ],
    ),
    (
        "drift",
        &[("converge drift --output json", "For cron and CI: the exit status is 2 when something differs.")],
    ),
    (
        "rollback",
        &[("converge rollback --to 0197f3c2 --limit web1", "One host, to the state before this run.")],
    ),
    ("snapshots", &[("converge snapshots", "The runs that can be reverted.")]),
    (
        "state",
        &[
            ("converge state list --limit web1", "The managed objects of one host."),
            ("converge state diff --resource nginx/site", "Whether what a resource left is still as it was."),
            (
                "converge state forget --resource nginx/site",
                "Leave what a resource made as it is, and manage it no more.",
            ),
            ("converge state adopt nginx/site", "Manage objects that match the role already."),
            ("converge state move web nginx", "The role `web` is named `nginx` now."),
        ],
    ),
    ("verify", &[("converge verify --role nginx", "The live checks of one role.")]),
    ("doctor", &[("converge doctor --limit web1", "The reason why a host cannot be reached.")]),
    ("facts", &[("converge facts os.id", "One fact of all hosts; identical output is grouped.")]),
    (
        "test",
        &[
            ("converge test roles/nginx", "The scenarios of one role, on disposable hosts."),
            ("converge test --all --pure", "All roles, on recorded answers."),
        ],
    ),
    (
        "run",
        &[("converge run web:!web3 -- systemctl is-active nginx", "A command on the hosts of a pattern.")],
    ),
    ("inventory", &[("converge inventory --graph", "The tree of groups and hosts.")]),
    (
        "vars",
        &[("converge vars web1 site_port", "Every place that gives this variable a value, and the winner.")],
    ),
    (
        "vault",
        &[("converge vault encrypt-string --name db_password", "Encrypt one value for a file of variables.")],
    ),
    ("validate", &[("converge validate", "All mistakes that can be known without contact to a host.")]),
    ("settings", &[("converge settings --output json", "Each setting with its value and its source.")]),
    ("init", &[("converge init web --address 192.0.2.10 --user deploy", "A first project in a new folder.")]),
    (
        "import",
        &[(
            "converge import roles/chrony --out .",
            "A role of Ansible, as a role of converge, with a report.",
        )],
    ),
    ("graph", &[("converge graph --format svg", "A picture of the order of the roles.")]),
    (
        "explain",
        &[
            ("converge explain file", "The page of a kind."),
            ("converge explain hello/page --host web1", "What a resource claims on a host, and why."),
        ],
    ),
    ("schema", &[("converge schema role", "The JSON Schema of role.yaml, for an editor.")]),
    ("completions", &[("converge completions bash", "A script for the completion folder of the shell.")]),
    ("man", &[("converge man man1", "Write the pages.")]),
];

/// Files of the page of the program, with their purposes.
const FILES: &[(&str, &str)] = &[
    (FILE, "Settings of the project, from the working folder upwards."),
    ("playbooks/site.yaml", "The playbook that is used when no other is named."),
    ("roles/NAME/role.yaml", "A role."),
    ("~/.ssh/config, ~/.ssh/known_hosts", "Connections and host keys, as for ssh(1)."),
    ("~/.local/state/converge", "The key of saved plans, and snapshots of etcd."),
    ("/var/lib/converge", "On a host: the records of runs, and what a rollback restores."),
];

pub fn run(args: ManArgs, console: &Console) -> Result<u8, Failure> {
    let failed = |e: std::io::Error| Failure::failed(e.to_string());
    fs::create_dir_all(&args.dir).map_err(failed)?;
    // One page a command; hidden commands have none.
    clap_mangen::generate_to(args::definition(), &args.dir).map_err(failed)?;
    for (command, examples) in EXAMPLES {
        let name = if command.is_empty() { "converge.1".to_owned() } else { format!("converge-{command}.1") };
        let path = args.dir.join(name);
        let mut page = fs::read_to_string(&path).map_err(failed)?;
        page.push_str(&section(
            "EXAMPLES",
            examples.iter().map(|(line, why)| ((*line).to_owned(), (*why).to_owned())),
        ));
        if command.is_empty() {
            page.push_str(&section("ENVIRONMENT", environment()));
            page.push_str(&section(
                "FILES",
                FILES.iter().map(|(path, why)| ((*path).to_owned(), (*why).to_owned())),
            ));
        }
        fs::write(&path, page).map_err(failed)?;
    }
    console.write(&format!("The pages are in {0}; to read one: man {0}/converge.1\n", args.dir));
    Ok(code::DONE)
}

/// The variables that converge reads.
fn environment() -> Vec<(String, String)> {
    let settings = KEYS.iter().map(|key| (key.variable(), format!("The setting {}. {}.", key.key, key.help)));
    let others = [
        (FILE_VARIABLE, "The settings file, in place of the nearest converge.toml."),
        ("CONVERGE_LOG", "The level of the log on standard error: debug."),
        ("ANSIBLE_VAULT_PASSWORD_FILE, ANSIBLE_VAULT_IDENTITY_LIST", "Vault passwords, as for Ansible."),
        ("NO_COLOR", "No colour."),
    ];
    settings.chain(others.map(|(name, why)| (name.to_owned(), why.to_owned()))).collect()
}

/// A section of tagged paragraphs.
fn section(title: &str, entries: impl IntoIterator<Item = (String, String)>) -> String {
    let mut text = format!(".SH {title}\n");
    for (tag, paragraph) in entries {
        text.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", escaped(&tag), escaped(&paragraph)));
    }
    text
}

/// Text that roff prints as it is. A dot or an apostrophe at the start of a line would be a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_examples_that_it_takes() {
        let definition = args::definition();
        let commands = definition.get_subcommands().filter(|command| !command.is_hide_set());
        let named: Vec<&str> = commands.map(clap::Command::get_name).chain([""]).collect();
        for name in &named {
            assert!(EXAMPLES.iter().any(|(command, _)| command == name), "`{name}` has no example");
        }
        assert_eq!(EXAMPLES.len(), named.len());
        for (command, examples) in EXAMPLES {
            for (line, _) in *examples {
                let parsed = args::definition().try_get_matches_from(line.split(' '));
                let found = parsed.map(|matches| matches.subcommand_name().map(str::to_owned));
                let is_own =
                    found.as_ref().is_ok_and(|name| command.is_empty() || name.as_deref() == Some(*command));
                assert!(is_own, "{line}: {found:?}");
            }
        }
    }

    #[test]
    fn requests_of_roff_are_text() {
        assert_eq!(escaped(".a-b\\"), "\\&.a\\-b\\e");
        assert_eq!(section("FILES", [("a".to_owned(), "b".to_owned())]), ".SH FILES\n.TP\n\\fBa\\fR\nb\n");
    }
}
