//! A world in which the role `k8s` makes a cluster: bare hosts, signed repositories, and a project with an inventory.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use crate::{Error, Ran, World, exec, link_roles, snaps, until};
use converge_lab::kube::{Part, Repositories, ensure, versions};
use converge_lab::{Host, Lab, LabError, LabOptions};
use serde_json::{Map, Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lab with bare hosts, what a cluster is installed from, and a project: h1 is the control plane, the others are workers.
pub struct Cluster {
    // Before the lab whose network it is served on: fields are dropped in their order.
    repositories: Repositories,
    /// The hosts and the project.
    pub world: World,
    _turn: MutexGuard<'static, ()>,
}

/// Two clusters at once are more than a small machine can start in time.
static TURN: Mutex<()> = Mutex::new(());

const PLAYBOOK: &str = "- hosts: k8s_control_plane\n  roles: [k8s]\n- hosts: k8s_workers\n  roles: [k8s]\n";

impl Cluster {
    /// So many hosts, in a lab of this name.
    ///
    /// # Panics
    /// The lab cannot be made.
    pub fn new(name: &str, hosts: u8) -> Self {
        Self::open(name, hosts, Repositories::serve)
    }

    /// The same, with packages and images of the older version too.
    ///
    /// # Panics
    /// The lab cannot be made.
    pub fn with_older(name: &str, hosts: u8) -> Self {
        Self::open(name, hosts, Repositories::serve_with_older)
    }

    fn open(name: &str, hosts: u8, serve: impl Fn(&Lab) -> Result<Repositories, LabError>) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let options = LabOptions::new(format!("{name}-{}", std::process::id())).kube();
        let world = World::open(options, hosts).unwrap();
        let repositories = serve(world.lab()).unwrap();
        let own = Self { repositories, world, _turn: turn };
        link_roles(own.world.dir()).unwrap();
        own.world.write("playbooks/site.yaml", PLAYBOOK).unwrap();
        own.write_inventory(&json!({}));
        own
    }

    /// The host of this number; the first is 1.
    ///
    /// # Panics
    /// There is none.
    pub fn host(&self, number: usize) -> &Host {
        self.world.hosts().get(number - 1).unwrap()
    }

    /// Writes the inventory, with more variables for all.
    ///
    /// # Panics
    /// The repositories lack something.
    pub fn write_inventory(&self, more: &Value) {
        self.write_inventory_of(&[1], more, &json!({}));
    }

    /// The same with these control planes, the first host of them first, and with variables of single hosts.
    ///
    /// # Panics
    /// The repositories lack something.
    pub fn write_inventory_of(&self, control_planes: &[usize], more: &Value, of_hosts: &Value) {
        let host = |number: usize| {
            let host = self.host(number);
            let mut vars = json!({"ansible_host": host.address().to_string()});
            if let (Some(vars), Some(own)) = (vars.as_object_mut(), of_hosts.get(host.name())) {
                vars.extend(own.as_object().cloned().unwrap_or_default());
            }
            (host.name().to_owned(), vars)
        };
        let mut vars = self.world.lab().variables();
        vars.extend(self.repositories.role_variables(self.host(1)).unwrap());
        // A login may wait behind the parts of several clusters, and an upgrade of a control plane takes minutes on a machine that has more to do.
        vars.insert("ansible_timeout".to_owned(), json!(30));
        vars.insert("k8s_wait_seconds".to_owned(), json!(300));
        vars.extend(more.as_object().unwrap().clone());
        let all = 1..=self.world.hosts().len();
        let workers: Map<_, _> = all.filter(|n| !control_planes.contains(n)).map(host).collect();
        let first: Map<_, _> = control_planes.iter().copied().map(host).collect();
        let inventory = json!({"all": {
            "vars": vars,
            "children": {"k8s_control_plane": {"hosts": first}, "k8s_workers": {"hosts": workers}},
        }});
        self.world.write("hosts.yaml", &inventory.to_string()).unwrap();
    }

    /// Lets a host install the snap k8s, which is made of the repositories' packages in the layout of the real one: by Debian's snapd, or where that cannot
    /// run by programs of the names `snap` and `k8s`. The answer is whether snapd is there.
    ///
    /// # Errors
    /// The files cannot be written, or snapd cannot be installed.
    pub fn offer_snap(&self, host: &Host) -> Result<bool, Error> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("stand_ins/k8s_snap");
        for entry in std::fs::read_dir(&here)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            snaps::put(host, &format!("/opt/k8s-snap/{name}"), &path)?;
        }
        let packages = self.repositories.snap_packages().join("\n") + "\n";
        host.exec_with_input("cat >/opt/k8s-snap/packages", packages.as_bytes())?;
        host.exec_with_input("cat >/opt/k8s-snap/sandbox", self.repositories.sandbox_image().as_bytes())?;
        exec(host, &format!("ln -sfn {} /opt/k8s-snap/images", Repositories::IMAGES));
        if snaps::offer_snapd(self.world.lab(), host, &here.join("snap"), &[("k8s", &here.join("pack"))])? {
            return Ok(true);
        }
        // That program unpacks the snap by itself.
        exec(host, "rm /usr/local/bin/snap");
        Ok(false)
    }

    /// Turns a host into one of an RPM distribution, where dnf finds the packages of Kubernetes and containerd; the role's variables for it.
    ///
    /// # Errors
    /// The packages cannot be made.
    pub fn become_rpm(&self, host: &Host) -> Result<Value, Error> {
        const MAKE: &str = include_str!("../stand_ins/k8s_rpm/make");
        let unpack = self.repositories.snap_packages().iter().fold(String::new(), |script, url| {
            let file = url.rsplit('/').next().unwrap_or_default();
            let (name, version) = file.split_once('_').unwrap_or((file, ""));
            let version = version.split('-').next().unwrap_or_default();
            format!("{script}curl -fsS -o deb '{url}'; dpkg-deb -x deb {name}; echo {version} >{name}.version; rm deb\n")
        });
        exec(host, &format!("set -e; mkdir -p /opt/k8s-rpm; cd /opt/k8s-rpm\n{unpack}"));
        host.become_rpm()?;
        exec(host, &format!("set -e; cd /opt/k8s-rpm\n{MAKE}\nrm -rf /opt/k8s-rpm"));
        let repository = json!({"baseurl": "file:///srv/k8s-rpm", "gpgcheck": false, "repo_gpgcheck": true,
            "fingerprint": exec(host, "cat /srv/k8s-rpm/fingerprint"), "key": exec(host, "cat /srv/k8s-rpm/key.asc") + "\n"});
        Ok(
            json!({"k8s_rpm": repository, "k8s_containerd_rpm": {}, "k8s_containerd_version": format!("{}-1.el9", versions::CONTAINERD)}),
        )
    }

    /// Writes an inventory of hosts that the role `k8s_snap` makes nodes of, with its playbook.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write_snap_inventory(&self, name: &str, control_planes: &[usize], workers: &[usize]) {
        self.world.write("playbooks/snap.yaml", &PLAYBOOK.replace("[k8s]", "[k8s_snap]")).unwrap();
        let hosts = |numbers: &[usize]| -> Map<_, _> {
            let host = |n: &usize| self.host(*n);
            let vars = |h: &Host| json!({"ansible_host": h.address().to_string()});
            numbers.iter().map(host).map(|h| (h.name().to_owned(), vars(h))).collect()
        };
        let mut vars = self.world.lab().variables();
        vars.insert("converge_playbook".to_owned(), json!("playbooks/snap.yaml"));
        vars.insert("ansible_timeout".to_owned(), json!(30));
        vars.insert("k8s_snap_channel".to_owned(), json!("1.36-classic/stable"));
        // On the disk: no overlay lies on the overlay that the rest of a test host is.
        vars.insert("k8s_snap_containerd_base".to_owned(), json!("/var/lib/containerd"));
        let inventory = json!({"all": {
            "vars": vars,
            "children": {"k8s_control_plane": {"hosts": hosts(control_planes)}, "k8s_workers": {"hosts": hosts(workers)}},
        }});
        self.world.write(name, &inventory.to_string()).unwrap();
    }

    /// The variables of the older version: itself, and its repository. `older` of [`Cluster::with_older`] alone has them.
    ///
    /// # Panics
    /// There is none.
    pub fn older(&self) -> Value {
        self.repositories.older_role_variables().unwrap().into()
    }

    /// The snapshots of etcd that are kept on this machine, oldest first. Each is for its owner alone, and etcdutl takes it.
    ///
    /// # Panics
    /// One is not so.
    pub fn snapshots(&self) -> Vec<PathBuf> {
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let name = format!("{}_6443", self.host(1).address());
        let folder = self.world.dir().join(".local/state/converge/backups").join(name);
        let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        found.sort();
        assert_eq!(mode(&folder), 0o700);
        let etcdutl = ensure(&[Part::EtcdTools]).unwrap().program("etcdutl").unwrap();
        for path in &found {
            assert_eq!(mode(path), 0o600, "{}", path.display());
            let reply = Command::new(&etcdutl).args(["snapshot", "status"]).arg(path).output().unwrap();
            assert!(reply.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&reply.stderr));
        }
        found
    }

    /// Starts a run and kills its controller as soon as this holds.
    ///
    /// # Panics
    /// It does not within two minutes.
    pub fn killed_when(&self, what: &str, arguments: &[&str], holds: impl FnMut() -> bool) {
        let mut run = self.world.command(arguments).unwrap();
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until(what, 120, holds);
        run.kill().unwrap();
        run.wait().unwrap();
    }

    /// A run after one whose controller is gone: the hosts give their lock back once they have noticed that.
    ///
    /// # Panics
    /// They do not within three minutes.
    pub fn converge_once_free(&self, arguments: &[&str]) -> Ran {
        let mut ran = self.world.converge(arguments).unwrap();
        until("the end of the lock", 180, || {
            let is_held = ran.code == Some(4);
            if is_held {
                ran = self.world.converge(arguments).unwrap();
            }
            !is_held
        });
        ran
    }

    /// The output of kubectl on the first host.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn kubectl(&self, arguments: &str) -> String {
        exec(self.host(1), &format!("kubectl --kubeconfig /etc/kubernetes/admin.conf {arguments}"))
    }

    /// Whether the API says so of a node. It may not answer just now, or not know it yet.
    pub fn is_ready(&self, node: &str) -> bool {
        let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
        self.says(&format!("get node {node} -o '{path}'"), "True")
    }

    /// Whether kubectl says this on the first host. The API may not answer just now.
    pub fn says(&self, arguments: &str, what: &str) -> bool {
        let script =
            format!("kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=5s {arguments}");
        self.host(1).exec(&script).is_ok_and(|reply| reply.success() && reply.stdout.trim() == what)
    }
}
