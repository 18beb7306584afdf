//! Hand-built plans for the tests of the renderers.

use converge_engine::{FleetPlan, HostEntry, HostResult, Purpose, TargetError};
use converge_objects::{
    Command, CommandGuard, CommandState, PackageState, PathState, Surroundings, UnitState, object,
};
use converge_planner::{HostPlan, Item, Outcome, PlannedChange, Problem};
use converge_resource::{Change, Content, ObjectId, Reversibility, State, Wait};
use std::time::Duration;

pub(crate) fn item(id: u32, role: &str, name: &str, kind: &str, outcome: Outcome) -> Item {
    Item {
        id,
        address: format!("{role}/{name}"),
        name: name.into(),
        role: role.into(),
        kind: kind.into(),
        location: format!("roles/{role}/role.yaml:{}", 4 + 3 * id),
        outcome,
        ..Item::default()
    }
}

pub(crate) fn change(kind: &str, key: &str, from: impl Into<State>, to: impl Into<State>) -> PlannedChange {
    let change = Change { object: ObjectId::new(kind, key), from: from.into(), to: to.into() };
    let opaque = object(kind).is_some_and(|o| o.opaque(&change));
    PlannedChange { change, reversibility: Reversibility::Reversible, opaque }
}

pub(crate) fn file(content: &Content, mode: u32) -> PathState {
    PathState::File {
        digest: content.digest().clone(),
        size: Some(content.bytes().len() as u64),
        mode,
        owner: "root".into(),
        group: "root".into(),
    }
}

pub(crate) fn package(version: &str, auto: bool) -> PackageState {
    PackageState::Present { version: version.into(), auto, hold: false }
}

pub(crate) fn unit(enabled: &str, active: &str, started: Option<&str>) -> UnitState {
    UnitState::Unit { enabled: enabled.into(), active: active.into(), started: started.map(Into::into) }
}

/// A host with one of everything.
pub(crate) fn rich(host: &str) -> HostPlan {
    let old = Content::new(*b"Welcome.\nThis is web1.\nTake care.\n");
    let new = Content::new(*b"Welcome.\nThis is web1, converged.\nTake care.\n");
    let fresh = Content::new(*b"[Service]\nLimitNOFILE=65536\n");
    let blob = Content::new([0u8, 159, 146, 150].repeat(700));
    let secret = Content::new(*b"hunter2\n");
    let dir = PathState::Dir { mode: 0o755, owner: "demo".into(), group: "demo".into() };
    let reload = Command {
        guard: CommandGuard::OnChange("nginx/reload".into()),
        run: "systemctl daemon-reload\nsystemctl is-system-running".into(),
        undo: None,
        user: None,
        timeout: None,
        surroundings: Surroundings::default(),
    };
    let mut run = change(
        "command",
        &reload.key(),
        CommandState::Ran { digest: None },
        CommandState::Ran { digest: Some("0".repeat(64)) },
    );
    run.reversibility = Reversibility::Irreversible("the command has no `undo`".into());
    let mut password = item(
        7,
        "nginx",
        "password file",
        "file",
        Outcome::Changed(vec![change("path", "/etc/nginx/htpasswd", State::absent(), file(&secret, 0o600))]),
    );
    password.sensitive = true;
    let mut problem = Problem::new("the group `wheel` does not exist, and no earlier item makes it");
    problem.help = Some("add a `group` before this item, or name another group".into());
    problem.pointer = "/group".into();
    problem.at = Some("roles/app/role.yaml:31:14".into());
    let mut packages = item(
        4,
        "nginx",
        "web server",
        "package",
        Outcome::Changed(vec![
            change("package", "nginx", State::absent(), package("1.22.1-9", false)),
            change("package", "nginx-common", State::absent(), package("1.22.1-9", true)),
            change("package", "curl", package("7.88.1-10", false), package("7.88.1-12", false)),
            change(
                "package",
                "apache2",
                package("2.4.57-2", false),
                PackageState::Config { version: "2.4.57-2".into() },
            ),
        ]),
    );
    packages.notes.push("apt keeps the conffile /etc/nginx/mime.types".into());
    HostPlan {
        host: host.into(),
        base: vec![],
        items: vec![
            item(
                1,
                "motd",
                "greeting",
                "file",
                Outcome::Changed(vec![change("path", "/etc/motd", file(&old, 0o644), file(&new, 0o640))]),
            ),
            item(
                2,
                "motd",
                "state directory",
                "directory",
                Outcome::Changed(vec![change("path", "/var/lib/demo", State::absent(), dir)]),
            ),
            item(3, "motd", "time zone", "link", Outcome::Unchanged),
            packages,
            item(
                5,
                "nginx",
                "limits",
                "file",
                Outcome::Changed(vec![change(
                    "path",
                    "/etc/systemd/system/nginx.service.d/limits.conf",
                    State::absent(),
                    file(&fresh, 0o644),
                )]),
            ),
            item(
                6,
                "nginx",
                "logo",
                "file",
                Outcome::Changed(vec![change(
                    "path",
                    "/srv/logo.png",
                    PathState::link("/old.png"),
                    file(&blob, 0o644),
                )]),
            ),
            password,
            item(8, "nginx", "reload", "command", Outcome::Changed(vec![run])),
            item(
                9,
                "nginx",
                "runs",
                "service",
                Outcome::Changed(vec![change(
                    "unit",
                    "nginx.service",
                    unit("disabled", "inactive", None),
                    unit("enabled", "active", Some("abc")),
                )]),
            ),
            item(
                10,
                "nginx",
                "site[main]",
                "line",
                Outcome::Deferred {
                    wait: Wait {
                        item: "nginx/web server".into(),
                        reason: "the package may bring /etc/nginx/nginx.conf".into(),
                    },
                    objects: vec![ObjectId::new("path", "/etc/nginx/nginx.conf")],
                },
            ),
            item(11, "nginx", "old unit", "service", Outcome::Adopt(vec![])),
            item(12, "app", "configuration", "file", Outcome::Failed(problem)),
            item(13, "app", "tuning", "sysctl", Outcome::Skipped("`when` is false".into())),
        ],
        contents: [old, new, fresh, blob].into_iter().map(|c| (c.digest().clone(), c)).collect(),
        ..HostPlan::default()
    }
}

/// A host with one small change.
pub(crate) fn small(host: &str) -> HostPlan {
    let mut plan = rich(host);
    plan.items.truncate(3);
    plan.items.remove(0);
    plan
}

/// A host with nothing to do.
pub(crate) fn idle(host: &str) -> HostPlan {
    let mut plan = rich(host);
    plan.items = vec![plan.items.remove(2)];
    plan
}

pub(crate) fn lost(host: &str, unreachable: bool) -> HostEntry {
    let lost = if unreachable {
        TargetError::Unreachable("no route to 10.0.0.9:22 within 10 s".into())
    } else {
        TargetError::Refused("the host key of 10.0.0.8 has changed".into())
    };
    HostEntry { host: host.into(), result: HostResult::Lost(lost), took: Duration::ZERO }
}

pub(crate) fn fleet(plans: Vec<HostPlan>) -> FleetPlan {
    FleetPlan {
        id: "01935a2e-0000-7000-8000-000000000001".into(),
        purpose: Purpose::Converge,
        created: "2026-11-21T04:30:00Z".into(),
        hosts: plans
            .into_iter()
            .map(|p| HostEntry { host: p.host.clone(), result: HostResult::Planned(p), took: Duration::ZERO })
            .collect(),
        clusters: vec![],
        order: vec![],
        returns: vec![],
        warnings: vec![],
    }
}
