//! Records on hosts and plan files of earlier versions are read, or refused with the reason. The fixtures are theirs: see
//! `fixtures/formats/README.md`.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use converge_lab::Host;
use converge_tests::{World, exec};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The role of the fixtures, and what only its version 2 has.
const ROLE: &str = r#"
summary: An application
resources:
  - name: group
    group: {name: gpuops, gid: 4100}
  - name: folder
    directory: {path: /etc/app, mode: "0750"}
  - name: settings
    file: {path: /etc/app/settings, content: "version VERSION\n", mode: "0640", group: gpuops}
  - name: password
    file: {path: /etc/app/password, content: "secret VERSION\n", mode: "0600"}
    sensitive: true
  - name: was there
    file: {path: /etc/app-was-there, content: "of version VERSION\n"}
  - name: list
    line: {path: /etc/app-list, line: "level = VERSION", regexp: "^level = "}
  - name: current
    link: {path: /etc/app-current, target: /srv/VERSION}
  - name: made
    command: {run: "mkdir /srv/made", creates: /srv/made, undo: "rmdir /srv/made"}
"#;
const MORE: &str = "  - {name: more, file: {path: /etc/app/more, content: more}}\n";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/formats").join(name)
}

/// The number of formats of hosts that have a fixture: all but the present one.
fn old_formats() -> usize {
    let names = std::fs::read_dir(fixture("")).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("host-")).count()
}

/// A host with what a run of the old version left on it, and a project that is the old one in another folder.
struct Old<'a> {
    world: &'a World,
    host: &'a Host,
    project: String,
}

impl<'a> Old<'a> {
    fn new(world: &'a World, format: usize) -> Self {
        let host = &world.hosts()[format - 1];
        let files = std::fs::read(fixture(&format!("host-{format}.tar.gz"))).unwrap();
        assert!(
            host.exec_with_input("groupadd -g 4100 gpuops && tar -C / -xzpf -", &files).unwrap().success()
        );
        assert_eq!(exec(host, "cat /var/lib/converge/version"), format.to_string());
        let old = Self { world, host, project: format!("p{format}") };
        let inventory = world
            .inventory("")
            .lines()
            .filter(|line| !line.contains("ansible_host:") || line.contains(&format!(" {}:", host.name())))
            .fold(String::new(), |text, line| text + line + "\n");
        old.write("inventories/hosts.yaml", &inventory);
        old.write("playbooks/site.yaml", "- {name: all, hosts: all, roles: [app]}\n");
        old
    }

    fn write(&self, path: &str, text: &str) {
        self.world.write(&format!("{}/{path}", self.project), text).unwrap();
    }

    fn folder(&self) -> PathBuf {
        self.world.dir().join(&self.project)
    }

    /// The project as its version was.
    fn version(&self, version: u8) -> &Self {
        let more = if version == 2 { MORE } else { "" };
        self.write("roles/app/role.yaml", &(ROLE.replace("VERSION", &version.to_string()) + more));
        self
    }

    #[track_caller]
    fn converge(&self, code: i32, args: &[&str]) -> String {
        let mut command = self.world.command(args).unwrap();
        converge_tests::ran(command.current_dir(self.folder())).unwrap().expect(code).all()
    }

    /// Applies the fixture of a saved plan.
    #[track_caller]
    fn apply_plan(&self, version: u8) {
        let plan = std::fs::read_to_string(fixture(&format!("plan-{version}.json"))).unwrap();
        let (format, folder) = (version + 1, self.folder());
        let plan = plan.replace(&format!("/srv/formats/f{format}"), folder.to_str().unwrap());
        self.write("saved.plan", &plan);
        self.converge(0, &["apply", "saved.plan", "--yes"]);
    }

    #[track_caller]
    fn rollback(&self) {
        self.converge(0, &["rollback", "inventories/hosts.yaml", "--yes"]);
    }

    #[track_caller]
    fn stands_at(&self, version: u8) {
        let there = exec(
            self.host,
            "cat /etc/app/settings /etc/app/password /etc/app-was-there /etc/app-list; readlink /etc/app-current; \
             stat -c '%n %A %G' /etc/app /etc/app/* /srv/made",
        );
        let more = if version == 2 { "/etc/app/more -rw-r--r-- root\n" } else { "" };
        let expected = format!(
            "version {version}\nsecret {version}\nof version {version}\na\nlevel = {version}\nb\n/srv/{version}\n\
             /etc/app drwxr-x--- root\n{more}/etc/app/password -rw------- root\n/etc/app/settings -rw-r----- gpuops\n\
             /srv/made drwxr-xr-x root"
        );
        assert_eq!(there, expected, "{}", self.host.name());
    }

    #[track_caller]
    fn stands_as_before(&self) {
        let there = exec(
            self.host,
            "cat /etc/app-was-there /etc/app-list; stat -c %a /etc/app-list; ls -d /etc/app* /srv/*; getent group gpuops || :",
        );
        assert_eq!(
            there,
            "before\na\nlevel = 0\nb\n600\n/etc/app-list\n/etc/app-was-there",
            "{}",
            self.host.name()
        );
    }
}

#[test]
fn records_of_every_format_are_read_and_rolled_back() {
    let formats = old_formats();
    let world = World::new("formats", u8::try_from(formats).unwrap()).unwrap();
    let state = world.dir().join(".local/state/converge");
    std::fs::create_dir_all(&state).unwrap();
    let key = state.join("plan.key");
    std::fs::copy(fixture("plan.key"), &key).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::thread::scope(|scope| {
        for format in 1..=formats {
            let world = &world;
            scope.spawn(move || {
                let old = Old::new(world, format);
                let inventory = "inventories/hosts.yaml";
                let snapshots = old.version(2).converge(0, &["snapshots", inventory]);
                assert_eq!(snapshots.matches("converge ·").count(), 3, "{snapshots}");
                assert_eq!(snapshots.matches("rolled back by").count(), 1, "{snapshots}");
                old.converge(0, &["plan", inventory]);
                // Orphans are known from the old records; those of format 1 name no project.
                let orphaned = old.version(1).converge(2, &["plan", "--prune", inventory]);
                assert_eq!(orphaned.contains("/etc/app/more"), format > 1, "{orphaned}");
                match format {
                    4 => plan_of_version_3_is_applied(&old),
                    5 => plan_of_version_4_is_applied(&old),
                    _ => {}
                }
                old.stands_at(2);
                old.rollback();
                old.stands_at(1);
                old.rollback();
                old.stands_as_before();
                // A new run goes on in the present format, and back.
                old.version(3).converge(0, &["apply", inventory, "--yes"]);
                old.stands_at(3);
                let present = exec(old.host, "cat /var/lib/converge/version");
                assert_eq!(
                    present,
                    (formats + 1).to_string(),
                    "a new format brings a fixture of the one before it"
                );
                old.rollback();
                old.stands_as_before();
            });
        }
    });
    for version in [1, 2] {
        let plan = fixture(&format!("plan-{version}.json"));
        let refused = world.converge(&["apply", plan.to_str().unwrap(), "--yes"]).unwrap().expect(64).all();
        assert!(
            refused.contains(&format!("of version {version}")) && refused.contains("make the plan again"),
            "{refused}"
        );
    }
}

/// Format 4 of records was written by a version that saved plans in version 3.
fn plan_of_version_3_is_applied(old: &Old) {
    old.version(3).apply_plan(3);
    assert_eq!(exec(old.host, "cat /etc/app/settings /etc/app/password"), "version 3\nsecret 3");
    old.rollback();
}

/// Format 5 of records was written by a version that saved plans in version 4. This one prunes: it takes an object out of the records that a user has
/// removed already.
fn plan_of_version_4_is_applied(old: &Old) {
    exec(old.host, "rm /etc/app/more");
    old.version(3).apply_plan(4);
    assert_eq!(exec(old.host, "cat /etc/app/settings /etc/app/password"), "version 3\nsecret 3");
    let managed = old.converge(0, &["state", "list", "inventories/hosts.yaml"]);
    assert!(managed.contains("path:/etc/app/settings") && !managed.contains("/etc/app/more"), "{managed}");
    old.rollback();
    exec(old.host, "printf more > /etc/app/more");
}
