//! `converge doctor`: why a host cannot be reached, logged into or worked on. Step by step, changing nothing on the host.

mod cluster;
mod host;
mod login;
mod tables;
mod view;

use crate::Event;
use crate::context::RunContext;
use crate::tasks::on_each;
use converge_ledger::{FORMAT, reads_format};
use converge_objects::KUBEADM_FILES;
use converge_planner::Summary;
use converge_ssh::{Batch, Become, Session, ShellError, ShellItem};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The questions to a host, run after [`KUBEADM_FILES`].
const SCRIPT: &str = include_str!("doctor.sh");
/// The free share that `converge` needs in the file system of `/var/lib/converge`, in per cent.
const ROOM: u64 = 10;
/// KiB of a disk that are enough, whatever share of it they are.
const ENOUGH: u64 = 10 << 20;
/// A clock that is further off breaks certificates and the package index, in seconds.
const SKEW: u64 = 30;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// As it must be.
    Well,
    /// It works; something is odd.
    Odd,
    /// It does not work.
    Ill,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The step: `name`, `tcp`, `ssh`, `host key`, `login`, `shell`, `become` …; of a cluster the diagnosis: `handler`, `helm` …
    pub step: &'static str,
    /// Its result.
    pub health: Health,
    /// The observation.
    pub found: String,
    /// The cause, where the observation does not show it.
    pub cause: Option<String>,
    /// The correction.
    pub help: Option<String>,
    /// the role that corrects it.
    pub role: Option<&'static str>,
}

impl Finding {
    pub(crate) fn new(step: &'static str, health: Health, found: impl Into<String>) -> Self {
        Self { step, health, found: found.into(), cause: None, help: None, role: None }
    }

    fn because(self, cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..self }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    fn role(self, role: &'static str) -> Self {
        Self { role: Some(role), ..self }
    }
}

/// The findings of one host, in the order of the connection's steps, or of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostDoctor {
    /// The inventory's name.
    pub host: String,
    /// Its address; hosts are compared without it.
    pub address: String,
    /// The steps, up to the first that does not work.
    pub findings: Vec<Finding>,
    /// True when nobody could be asked: not reached, or not let in (exit code 3).
    pub unreachable: bool,
    /// True for a cluster.
    pub cluster: bool,
}

impl HostDoctor {
    /// The worst of its findings.
    pub fn health(&self) -> Health {
        let is = |health| self.findings.iter().any(|finding| finding.health == health);
        match (is(Health::Ill), is(Health::Odd)) {
            (true, _) => Health::Ill,
            (false, true) => Health::Odd,
            (false, false) => Health::Well,
        }
    }

    fn say(&mut self, step: &'static str, health: Health, found: impl Into<String>, help: Option<&str>) {
        self.findings.push(Finding { help: help.map(str::to_owned), ..Finding::new(step, health, found) });
    }
}

/// Looks at the way into every host of this run, and at what a run needs there; then at the clusters that are reached through
/// these hosts. Changes nothing.
pub(crate) async fn doctor(context: &Arc<RunContext>) -> Vec<HostDoctor> {
    let (hosts, clusters) = (context.machines(), context.project.clusters().map(str::to_owned));
    let clusters: Vec<String> = clusters.collect();
    let hosts = on_each(context, &hosts, |context, host| async move { examine(&context, &host).await });
    let clusters = on_each(context, &clusters, |context, name| async move {
        cluster::examine_cluster(&context, &name).await
    });
    let (mut all, clusters) = tokio::join!(hosts, clusters);
    all.extend(clusters);
    all
}

async fn examine(context: &RunContext, host: &str) -> HostDoctor {
    let _permit = context.permit(host).await;
    let mut chart = HostDoctor {
        host: host.to_owned(),
        address: String::new(),
        findings: Vec::new(),
        unreachable: false,
        cluster: false,
    };
    match crate::connect::endpoints::endpoint(context, host).await {
        Err(error) => {
            chart.say("inventory", Health::Ill, error.to_string(), None);
        }
        Ok((target, become_)) => {
            chart.address.clone_from(&target.address);
            let (trail, session) = crate::connect::endpoints::enter(context, host, &target).await;
            login::tell_trail(&mut chart, &trail);
            match session {
                Ok(session) => inside(&mut chart, &session, &become_).await,
                Err(error) => {
                    chart.unreachable = error.is_unreachable() || error.is_refused_login();
                    login::tell_refusal(&mut chart, &target, &trail, &error);
                }
            }
        }
    }
    context.events.send(Event::Planned { host: host.to_owned(), summary: Summary::default() });
    chart
}

/// Asks the host about itself, as the login user and as the user who does the work.
async fn inside(chart: &mut HostDoctor, session: &Session, become_: &Become) {
    match ask(session, &Become::None, "login").await {
        Err(error) => {
            chart.say("shell", Health::Ill, error.to_string(), Some("does `ssh HOST true` work? A login shell that prints, asks or ends at once (nologin, a menu, ForceCommand) is in the way"));
            return;
        }
        Ok(answer) => {
            tell_tools(chart, &answer);
            let root = answer.get("uid").is_some_and(|uid| uid == "0");
            if matches!(become_, Become::None) && !root {
                let user = answer.get("user").map_or("?", String::as_str);
                chart.say(
                    "become",
                    Health::Ill,
                    format!("works as {user}, who may not change the machine"),
                    Some("set ansible_become: true, or log in as root"),
                );
            }
        }
    }
    let answer = match ask(session, become_, "work").await {
        Ok(answer) => answer,
        Err(error) => {
            let help = match &error {
                ShellError::PasswordNeeded { .. } => {
                    Some("-K, --become-password-file or ansible_become_password")
                }
                ShellError::WrongPassword { .. } => None,
                ShellError::BecomeFailed { .. } => Some(
                    "on the host: may the login user do this (`sudo -l -U USER`, /etc/doas.conf, group `wheel` of pam_wheel)? Is the program installed?",
                ),
                ShellError::NoChannel { .. } => Some("MaxSessions in the host's sshd_config"),
                _ => Some("on the host: `journalctl -u ssh`"),
            };
            chart.say("become", Health::Ill, error.to_string(), help);
            return;
        }
    };
    if let Become::User { method, .. } = become_ {
        let user = answer.get("user").map_or("?", String::as_str);
        chart.say("become", Health::Well, format!("{user}, through {method}"), None);
        if answer.get("uid").is_some_and(|uid| uid != "0") {
            chart.say(
                "become",
                Health::Ill,
                format!("{user} may not change the machine"),
                Some("become root, and write `become_user` at the commands that another user is to run"),
            );
        }
    }
    tell_state(chart, &answer);
    chart.findings.extend(host::diagnose(&answer, jiff::Timestamp::now()));
}

type CheckAnswers = BTreeMap<String, String>;

async fn ask(session: &Session, become_: &Become, what: &str) -> Result<CheckAnswers, ShellError> {
    let shell = session.shell(become_).await?;
    let item = ShellItem {
        timeout: Some(Duration::from_secs(60)),
        ..ShellItem::new(1, format!("CV_WHAT={what}\n{KUBEADM_FILES}{SCRIPT}"))
    };
    let before = SystemTime::now();
    let (results, error) = shell.run_to_end(&Batch::of(vec![item])).await?;
    let after = SystemTime::now();
    shell.close().await;
    if let Some(error) = error {
        return Err(error);
    }
    let reply = results
        .first()
        .map(|result| String::from_utf8_lossy(&result.output).into_owned())
        .unwrap_or_default();
    let mut answer: CheckAnswers = reply
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(key, value)| (key.to_owned(), value.trim().chars().filter(|c| !c.is_control()).collect()))
        .collect();
    if !answer.contains_key("end") {
        return Err(ShellError::NotStarted {
            reply: format!("the questions were not answered: {}", reply.trim()),
        });
    }
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_secs());
    if let Some(now) = answer.get("now").and_then(|now| now.parse::<u64>().ok()) {
        // Behind the first moment or ahead of the last one: what lies between them is the way there and back.
        let off = seconds(before).saturating_sub(now + 1).max(now.saturating_sub(seconds(after) + 1));
        let direction = if now > seconds(after) { "ahead" } else { "behind" };
        answer.insert("skew".to_owned(), format!("{off} {direction}"));
    }
    Ok(answer)
}

fn tell_tools(chart: &mut HostDoctor, answer: &CheckAnswers) {
    let shell = answer.get("shell").filter(|shell| !shell.is_empty()).map_or("sh", String::as_str);
    match answer.get("missing").map(|missing| missing.trim()).filter(|missing| !missing.is_empty()) {
        None => chart.say("shell", Health::Well, format!("{shell}, with all tools that converge runs"), None),
        Some(missing) => chart.say(
            "shell",
            Health::Ill,
            format!("{shell}, without {}", missing.replace(' ', ", ")),
            Some("install them (coreutils, findutils, grep, sed, mawk, util-linux)"),
        ),
    }
}

/// A value that the host has reported, unless it is empty.
fn answered<'a>(answer: &'a CheckAnswers, key: &str) -> Option<&'a str> {
    answer.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

fn tell_state(chart: &mut HostDoctor, answer: &CheckAnswers) {
    let get = |key: &str| answered(answer, key);
    let is_root = get("uid") == Some("0");
    tell_records(chart, answer);
    match get("locked") {
        Some(holder) => chart.say(
            "lock",
            Health::Odd,
            format!("held by a run: {holder}"),
            Some("wait for it, or look whose it is: `converge snapshots`"),
        ),
        None if is_root => chart.say("lock", Health::Well, "free", None),
        None => {}
    }
    for (key, unit) in [("disk", "room"), ("inodes", "files")] {
        let numbers: Vec<u64> =
            get(key).unwrap_or_default().split(' ').map_while(|word| word.parse().ok()).collect();
        let [free, all, ..] = numbers.as_slice() else { continue };
        let percent = free.saturating_mul(100).checked_div(*all).unwrap_or(100);
        let found = if key == "disk" {
            format!("{} MiB free, {percent} %", free / 1024)
        } else {
            format!("{percent} % of the {unit} that it can hold are free")
        };
        if percent < ROOM && (key != "disk" || *free < ENOUGH) {
            chart.say("disk", Health::Ill, found, Some("a change is refused where saving the old state would leave less than 10 %, or 10 GiB, free: `du -xsh /var/*`"));
        } else if key == "disk" {
            chart.say("disk", Health::Well, found, None);
        }
    }
    if let Some((off, direction)) = get("skew").and_then(|skew| skew.split_once(' ')) {
        if off.parse::<u64>().unwrap_or(0) > SKEW {
            chart.say(
                "clock",
                Health::Odd,
                format!("{off} s {direction} of this machine"),
                Some("`timedatectl` on both: certificates and apt need the right time"),
            );
        } else {
            chart.say("clock", Health::Well, "as here", None);
        }
    }
    match get("init") {
        Some("systemd") | None => {}
        Some(other) => chart.say(
            "init",
            Health::Odd,
            format!("{other}, not systemd"),
            Some("resources of the kinds `unit` and `service` need systemd"),
        ),
    }
    tell_packages(chart, answer);
}

/// Whether runs can be recorded on the host.
fn tell_records(chart: &mut HostDoctor, answer: &CheckAnswers) {
    let get = |key: &str| answered(answer, key);
    let is_root = get("uid") == Some("0");
    if get("readonly").is_some() {
        chart.say(
            "records",
            Health::Ill,
            "the file system of /var/lib/converge is mounted read-only",
            Some("`dmesg` shows the reason: a broken disk as a rule"),
        );
    } else if get("foreign").is_some() && is_root {
        chart.say(
            "records",
            Health::Ill,
            "/var/lib/converge belongs to someone else",
            Some("see what it is and move it away"),
        );
    } else if get("writable") == Some("yes") {
        chart.say("records", Health::Well, "/var/lib/converge can be written", None);
    } else if is_root {
        chart.say(
            "records",
            Health::Ill,
            "/var/lib/converge cannot be written",
            Some("`ls -ld /var/lib/converge`, `lsattr -d /var/lib`"),
        );
    }
    if let Some(version) = get("version").filter(|version| !reads_format(version)) {
        chart.say(
            "records",
            Health::Ill,
            format!("the records have format {version}, this converge writes format {FORMAT}"),
            Some("use the converge that wrote them"),
        );
    }
}

fn tell_packages(chart: &mut HostDoctor, answer: &CheckAnswers) {
    let Some(audit) = answer.get("audit") else { return };
    let mut well = true;
    if !audit.is_empty() {
        well = false;
        chart.say(
            "apt",
            Health::Ill,
            format!("dpkg was interrupted: {audit}"),
            Some("on the host: `dpkg --configure -a`"),
        );
    }
    if let Some(holder) = answer.get("aptlock") {
        well = false;
        let (lock, who) = holder.split_once(' ').unwrap_or((holder, "?"));
        let (pid, name) = who.split_once(' ').unwrap_or((who, "?"));
        chart.say(
            "apt",
            Health::Odd,
            format!("{lock} is held by {name} (process {pid})"),
            Some("a package resource waits for it up to its deadline"),
        );
    }
    if answer.get("lists").is_some_and(|lists| lists == "0") {
        well = false;
        chart.say(
            "apt",
            Health::Odd,
            "there is no package index",
            Some("`apt-get update`, or leave it to the first run that installs a package"),
        );
    }
    if well {
        chart.say("apt", Health::Well, "ready", None);
    }
}
