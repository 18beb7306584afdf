//! `converge explain`: the reference page of a kind, what a role is for, why a resource is as it is on a host.

use crate::args::ExplainArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project;
use camino::{Utf8Path, Utf8PathBuf};
use converge_model::{
    AnsibleSort, DeclaredItem, Facts, InputType, Item, ItemGroup, Project, Ready, RegisteredResults,
    Resolution, Role, RolePath, RoleUse, ansible_instead,
};
use converge_render::{Line, Text, Tone};
use converge_resource::ClaimMode;
use converge_resources::{KINDS, reference_page};
use converge_syntax::{Diagnostics, Node, did_you_mean};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names of Ansible that somebody may ask about.
const ANSIBLE: [AnsibleSort; 6] = [
    AnsibleSort::Module,
    AnsibleSort::Keyword,
    AnsibleSort::Filter,
    AnsibleSort::Test,
    AnsibleSort::Lookup,
    AnsibleSort::Variable,
];

pub fn run(args: ExplainArgs, console: &Console) -> Result<u8, Failure> {
    let roles = RolePath { dirs: folders(&args) };
    let Some(name) = args.name.clone() else {
        console.print(&list(&roles.names()));
        return Ok(code::DONE);
    };
    if let Some(page) = reference_page(&name) {
        console.write(&page);
    } else if let Some(folder) = role_folder(&name, &roles) {
        console.print(&of_role(&folder)?);
    } else if let Some(parent) = in_roles(&name, &roles) {
        return Err(no_role(&name, parent));
    } else if name.contains('/') {
        console.print(&resource(&args, &name, console)?);
    } else if let Some(instead) = ansible_instead(&ANSIBLE, &name) {
        console.write(&format!("`{name}` is a name of Ansible's: {instead}\n"));
        let mut named =
            instead.split('`').skip(1).step_by(2).filter(|word| converge_resources::kind(word).is_some());
        if let Some(kind) = named.next() {
            console.write(&format!(
                "`converge explain {kind}` shows the parameters, docs/ansible.md all names\n"
            ));
        }
    } else {
        let known: Vec<String> = KINDS.iter().map(|k| k.kind.to_owned()).chain(roles.names()).collect();
        let help = match did_you_mean(&name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`converge explain` lists both; a resource is written role/name".to_owned(),
        };
        return Err(Failure::usage(format!("there is no kind and no role `{name}`"), help));
    }
    Ok(code::DONE)
}

/// The folder of the role of this name, or at this path.
fn role_folder(name: &str, roles: &RolePath) -> Option<Utf8PathBuf> {
    let path = Utf8PathBuf::from(name.trim_end_matches('/'));
    let named = roles.dirs.iter().map(|dir| dir.join(name)).filter(|_| !name.contains('/'));
    let at_path = Some(path).filter(|_| name.contains('/'));
    named.chain(at_path).find(|folder| folder.join("role.yaml").is_file())
}

fn of_role(folder: &Utf8Path) -> Result<Text, Failure> {
    let mut found = Diagnostics::new();
    let name = folder.file_name().unwrap_or_default();
    match Role::load(name, folder, &project::catalog(), &mut found) {
        Some(role) if !found.has_errors() => Ok(role_text(&role)),
        _ => Err(found.into()),
    }
}

/// The folder of roles in which this path would name a role.
fn in_roles<'a>(name: &str, roles: &'a RolePath) -> Option<&'a Utf8Path> {
    let parent = Utf8Path::new(name.trim_end_matches('/')).parent()?;
    roles.dirs.iter().map(Utf8PathBuf::as_path).find(|dir| *dir == parent && !parent.as_str().is_empty())
}

fn no_role(name: &str, folder: &Utf8Path) -> Failure {
    let role = Utf8Path::new(name.trim_end_matches('/')).file_name().unwrap_or_default();
    let all = RolePath { dirs: vec![folder.to_owned()] }.names();
    let help = match did_you_mean(role, all.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`converge explain` lists kinds and roles".to_owned(),
    };
    Failure::usage(
        format!("there is no role `{role}` in {folder}: {folder}/{role}/role.yaml is not there"),
        help,
    )
}

/// Where roles are looked for without a project: beside here, and beside the playbook.
fn folders(args: &ExplainArgs) -> Vec<Utf8PathBuf> {
    let mut dirs = vec![Utf8PathBuf::from("roles")];
    if let Some(folder) = args.select.playbook.as_ref().and_then(|p| p.parent()) {
        dirs.push(folder.join("roles"));
        dirs.push(folder.join("../roles"));
    }
    dirs.extend(args.select.roles_path.iter().cloned());
    dirs
}

fn list(roles: &[String]) -> Text {
    let mut text = Text::new();
    text.push(Line::at(0).say(Tone::Strong, "kinds"));
    let width = KINDS.iter().map(|kind| kind.kind.len()).max().unwrap_or_default() + 2;
    for kind in KINDS {
        let schema = (kind.schema)();
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let line = about.lines().next().unwrap_or_default();
        let first = line.split(". ").next().unwrap_or_default().trim_end_matches('.');
        text.push(Line::at(2).plain(format!("{:<width$}", kind.kind)).faint(first));
    }
    if !roles.is_empty() {
        text.gap();
        text.push(Line::at(0).say(Tone::Strong, "roles"));
        for role in roles {
            text.push(Line::at(2).plain(role.as_str()));
        }
    }
    text
}

fn role_text(role: &Role) -> Text {
    let mut text = Text::new();
    let summary = role.summary.as_deref().unwrap_or("no summary");
    text.push(Line::at(0).say(Tone::Strong, role.name.as_str()).faint(" · ").plain(summary).fold(2));
    text.push(Line::at(0).faint(format!("{}/role.yaml", role.dir)));
    if !role.requires.is_empty() {
        let names: Vec<&str> = role.requires.iter().map(|r| r.value.as_str()).collect();
        text.push(Line::at(0).faint("comes after ").plain(names.join(", ")).fold(2));
    }
    push_inputs(&mut text, role);
    push_expressions(&mut text, role);
    for (title, items) in [
        ("checks beforehand", &role.check),
        ("resources", &role.resources),
        ("checks afterwards", &role.verify),
    ] {
        if items.is_empty() {
            continue;
        }
        text.gap();
        text.push(Line::at(0).say(Tone::Strong, title));
        push_items(&mut text, items);
    }
    text
}

fn push_inputs(text: &mut Text, role: &Role) {
    if role.inputs.is_empty() {
        return;
    }
    text.gap();
    text.push(Line::at(0).say(Tone::Strong, "inputs"));
    let width = role.inputs.keys().map(|n| n.chars().count()).max().unwrap_or(0);
    for input in role.inputs.values() {
        let kind = match &input.ty {
            InputType::Enum(_) => input.ty.describe(),
            ty => ty.describe().trim_start_matches("an ").trim_start_matches("a ").to_owned(),
        };
        let mut facts = vec![kind];
        facts.extend(input.min.map(|n| format!("at least {n}")));
        facts.extend(input.max.map(|n| format!("at most {n}")));
        facts.extend(input.pattern.as_ref().map(|p| format!("like {}", p.as_str())));
        match &input.default {
            Some(default) if !input.sensitive => facts.push(format!("default {}", shown(default))),
            Some(_) => facts.push("default (sensitive)".to_owned()),
            None if input.required => facts.push("required".to_owned()),
            None => {}
        }
        if input.sensitive {
            facts.push("sensitive".to_owned());
        }
        let line = Line::at(2).plain(format!("{:<width$}  ", input.name)).faint(facts.join(", "));
        text.push(line.fold(width + 6));
        if let Some(help) = &input.help {
            text.prose(width + 4, Tone::Plain, "", help);
        }
    }
}

fn push_expressions(text: &mut Text, role: &Role) {
    if role.vars.is_empty() {
        return;
    }
    text.gap();
    text.push(Line::at(0).say(Tone::Strong, "expressions"));
    let width = role.vars.keys().map(|n| n.chars().count()).max().unwrap_or(0);
    for expression in role.vars.values() {
        let line = Line::at(2).plain(format!("{:<width$}  ", expression.name));
        text.push(line.faint(short(&shown(&expression.node))).fold(width + 6));
    }
}

/// Items in order, those of a group below a line of the group.
fn push_items(text: &mut Text, items: &[Item]) {
    let mut open: &[Arc<ItemGroup>] = &[];
    for item in items {
        let same = open.iter().zip(&item.groups).take_while(|(a, b)| Arc::ptr_eq(a, b)).count();
        for (depth, group) in item.groups.iter().enumerate().skip(same) {
            let name = group.name.as_deref().unwrap_or("group");
            let line = Line::at(2 + 2 * depth).plain(name).plain(":");
            text.push(with_conditions(line, &group.when).fold(6 + 2 * depth));
        }
        open = &item.groups;
        push_item(text, item);
    }
}

fn with_conditions(line: Line, conditions: &[Node]) -> Line {
    conditions.iter().fold(line, |line, condition| line.faint(format!("  when {}", shown(condition))))
}

fn push_item(text: &mut Text, item: &Item) {
    let at = 2 + 2 * item.groups.len();
    let line =
        Line::at(at).plain(item.name.value.as_str()).faint(format!("  {}", item.kind.value)).fold(at + 4);
    let line = match &item.id {
        Some(id) => line.faint(format!("  id {}", id.value)),
        None => line,
    };
    let shared = item.groups.iter().map(|group| group.when.len()).sum();
    let mut line = with_conditions(line, item.when.get(shared..).unwrap_or_default());
    if let Some(each) = &item.for_each {
        line = line.faint(format!("  for each of {}", shown(each)));
    }
    text.push(line);
}

fn shown(node: &Node) -> String {
    node.scalar_text().unwrap_or_else(|| node.to_json().to_string())
}

/// One resource on one host: what it claims, its values, and where they come from.
fn resource(args: &ExplainArgs, address: &str, console: &Console) -> Result<Text, Failure> {
    let Some((role_name, _)) = address.split_once('/') else { return Ok(Text::new()) };
    let project = project::load(args.target.as_deref(), &args.select, console)?;
    let hosts = project.hosts_of_role(role_name);
    let host = match (&args.host, hosts.first()) {
        (Some(host), _) if hosts.contains(&host.as_str()) => host.clone(),
        (Some(host), _) => {
            let help = format!("it runs on {}", hosts.join(", "));
            return Err(Failure::usage(format!("the role `{role_name}` does not run on `{host}`"), help));
        }
        (None, Some(first)) => (*first).to_owned(),
        (None, None) => {
            let names: Vec<String> = project.roles().map(|r| r.name.clone()).collect();
            let help = match did_you_mean(role_name, names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}/…`?"),
                None => format!("roles of the playbook: {}", names.join(", ")),
            };
            return Err(Failure::usage(format!("no host of the playbook has the role `{role_name}`"), help));
        }
    };
    let plan = project.host_plan(&host, &Facts::none(), &RegisteredResults::new());
    let used = plan.role(role_name);
    let Some((used, item)) = used.and_then(|u| Some((u, u.all().find(|i| i.is_at(address))?))) else {
        let names: Vec<&str> = used.iter().flat_map(|u| u.all()).map(|i| i.address.as_str()).collect();
        let help = match did_you_mean(address, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known names: {}", names.join(", ")),
        };
        return Err(Failure::usage(format!("there is no resource `{address}` on {host}"), help));
    };
    Ok(resource_text(&project, &host, used, item))
}

fn resource_text(project: &Project, host: &str, used: &RoleUse, item: &DeclaredItem) -> Text {
    let mut text = Text::new();
    text.push(
        Line::at(0).say(Tone::Strong, item.address.as_str()).faint(format!(" · {}", item.kind)).fold(2),
    );
    if let Some(id) = &item.item.id {
        text.push(Line::at(0).faint("id ").plain(id.value.as_str()));
    }
    let place = item.span.to_string();
    text.push(Line::at(0).faint(format!("{place}, on {host} through the play {}", used.play)).fold(2));
    let groups: Vec<&str> = item.item.groups.iter().filter_map(|group| group.name.as_deref()).collect();
    if !groups.is_empty() {
        text.push(Line::at(0).faint("in the group ").plain(groups.join(" / ")).fold(2));
    }
    for condition in &item.item.when {
        text.push(Line::at(0).faint("when ").plain(shown(condition)).fold(2));
    }
    match used.resolve(item, &RegisteredResults::new()) {
        Resolution::Skipped { why } => text.push(Line::at(0).say(Tone::Warn, format!("skipped: {why}"))),
        Resolution::Unknown { names, .. } => {
            let names: Vec<String> = names.into_iter().collect();
            text.push(
                Line::at(0)
                    .say(Tone::Change, format!("it waits for {}", names.join(", ")))
                    .faint(": `converge plan` asks the host")
                    .fold(2),
            );
        }
        Resolution::Invalid(found) => {
            for complaint in found.iter() {
                text.prose(0, Tone::Bad, "error: ", &complaint.to_string());
            }
        }
        Resolution::Ready(ready) => push_ready(&mut text, project, host, used, item, &ready),
    }
    text
}

fn push_ready(
    text: &mut Text,
    project: &Project,
    host: &str,
    used: &RoleUse,
    item: &DeclaredItem,
    ready: &Ready,
) {
    let parsed = converge_resources::kind(&item.kind).map(|kind| (kind.parse)(&ready.params));
    if let Some(Ok(resource)) = parsed {
        let mut objects: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for claim in resource.claims() {
            let hidden = ready.sensitive && converge_objects::traits_of(&claim.object).key_is_text;
            let object = if hidden { "the command".to_owned() } else { claim.object.to_string() };
            let how = match claim.mode {
                ClaimMode::Exclusive => String::new(),
                ClaimMode::Edit => " (a part of it)".to_owned(),
                ClaimMode::Shared(_) => " (others may want the same)".to_owned(),
            };
            objects.entry(object).or_default().push(format!("{}{how}", claim.facet));
        }
        text.gap();
        text.push(Line::at(0).say(Tone::Strong, "manages"));
        for (object, facets) in objects {
            text.push(Line::at(2).plain(object).faint(format!("  {}", facets.join(", "))).fold(4));
        }
    }
    text.gap();
    text.push(Line::at(0).say(Tone::Strong, "parameters"));
    if ready.sensitive {
        text.push(Line::at(2).say(Tone::Change, "sensitive: they are not shown"));
    }
    for (name, value) in ready.params.as_object().into_iter().flatten().filter(|_| !ready.sensitive) {
        let value = match value {
            _ if ready.unrecorded.contains(name) => "not shown".to_owned(),
            // A file of the role is known by its path.
            Value::Object(file)
                if file.contains_key("path") && (file.contains_key("text") || file.contains_key("hex")) =>
            {
                file.get("path").and_then(Value::as_str).unwrap_or_default().to_owned()
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        text.prose(2, Tone::Plain, &format!("{name}: "), &short(&value));
    }
    let mut why: Vec<(String, String, String)> = Vec::new();
    for name in &ready.lookups {
        for report in project.vars(host, Some(name)) {
            let role = Some(used.role.name.as_str());
            let wins = |r: &Option<String>| r.as_deref() == role;
            let winner = report.winners.iter().find(|w| wins(&w.role)).or_else(|| report.winners.first());
            let Some((winner, candidate)) =
                winner.and_then(|w| Some((w, report.candidates.get(w.candidate)?)))
            else {
                continue;
            };
            let value = match &winner.value {
                _ if candidate.sensitive => "(sensitive)".to_owned(),
                Some(value) => short(&shown(value)),
                None => winner.why.clone().unwrap_or_default(),
            };
            why.push((report.name.clone(), value, format!("{} at {}", candidate.layer, candidate.key)));
        }
    }
    if !why.is_empty() {
        text.gap();
        text.push(Line::at(0).say(Tone::Strong, "made of"));
        for (name, value, place) in why {
            text.push(Line::at(2).plain(format!("{name} = {value}")).faint(format!("  {place}")).fold(4));
        }
    }
}

/// The first lines of a long value.
fn short(value: &str) -> String {
    let lines: Vec<&str> = value.trim_end().lines().collect();
    let cut: Vec<String> = lines.iter().take(12).map(|l| l.chars().take(160).collect()).collect();
    let more = lines.len().saturating_sub(12);
    if more > 0 { format!("{}\n… {more} more lines", cut.join("\n")) } else { cut.join("\n") }
}
