//! A GPU cluster before your eyes: from two bare Debian hosts to time-slicing, on disposable hosts.

use crate::process::{Result, cargo, run as run_command, shown, target_dir, workspace};
use converge_lab::kube::{DEVICE_PLUGIN_IMAGE, FAKE_GPUS, Repositories, device_plugin_image};
use converge_lab::{Lab, LabOptions};
use fs_err as fs;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LAB: &str = "gpudemo";
/// The host with GPUs.
const GPU_NODE: &str = "h2";
const PLAYBOOK: &str = "playbooks/demo_cluster.yaml";
const ALLOCATABLE: &str =
    "kubectl get nodes -o custom-columns=NODE:.metadata.name,GPUS:.status.allocatable.nvidia\\\\.com/gpu";

struct ClusterDemo {
    lab: Lab,
    inventory: PathBuf,
    done: Vec<String>,
}

/// Plans bare hosts, converges them to a cluster with shared GPUs, corrects drift, rolls back; cleans up, also after a
/// failure.
pub fn run() -> Result<()> {
    println!("== building converge");
    run_command(&mut cargo(&["build", "--locked", "-p", "converge-cli", "--bin", "converge"]))?;
    println!("== starting two bare Debian hosts (the parts of Kubernetes are built once, and kept)");
    let start = Instant::now();
    let lab = Lab::open(LabOptions::new(LAB).kube().on_progress(|line| println!("   {line}")))?;
    let repositories = Repositories::serve(&lab)?;
    device_plugin_image(&lab)?;
    let ready = Instant::now();
    for host in lab.up(2)? {
        println!("   {} {}", host.name(), host.address());
        if host.name() == GPU_NODE {
            // NVIDIA's own device plugin runs here, unmodified; the GPUs under it are played by a library.
            host.fake_gpus("count=4\nname=NVIDIA H200\n")?;
        }
    }
    lab.write_ssh_files()?;
    let folder = tempfile::tempdir()?;
    let inventory = folder.path().join("demo-cluster.yaml");
    fs::write(&inventory, inventory_of(&lab, &repositories)?)?;
    let mut demo = ClusterDemo { lab, inventory, done: Vec::new() };
    let result = demo.show();
    println!("\n== cleaning up");
    let ClusterDemo { lab, done, .. } = demo;
    drop(repositories);
    lab.down()?;
    println!("\n== what you saw");
    for line in &done {
        println!("   {line}");
    }
    result?;
    let (parts, all) = ((ready - start).as_secs_f64(), ready.elapsed().as_secs_f64());
    println!("   all of it took {all:.0} s, after {parts:.0} s for the parts");
    Ok(())
}

/// The hosts, and where the role `k8s` finds its packages and images.
fn inventory_of(lab: &Lab, from: &Repositories) -> Result<String> {
    let hosts = lab.hosts();
    let first = hosts.first().ok_or("the lab has no host")?;
    let own = |name: &str| -> Result<Value> {
        let host = hosts.iter().find(|h| h.name() == name).ok_or_else(|| format!("the lab lacks {name}"))?;
        Ok(json!({name: {"ansible_host": host.address().to_string()}}))
    };
    let mut vars = lab.variables();
    vars.extend(from.role_variables(first)?);
    vars.insert("demo_plugin_image".to_owned(), DEVICE_PLUGIN_IMAGE.into());
    vars.insert("demo_fake_gpus".to_owned(), FAKE_GPUS.into());
    let groups = json!({"k8s_control_plane": {"hosts": own("h1")?}, "gpu_nodes": {"hosts": own(GPU_NODE)?}});
    Ok(json!({"all": {"vars": vars, "children": {"k8s": {"children": groups}}}}).to_string())
}

impl ClusterDemo {
    fn show(&mut self) -> Result<()> {
        self.converge("Look: one plan from bare hosts to shared GPUs; nothing is changed yet", &["plan"], 2)?;
        self.converge("Converge", &["apply", "--yes"], 0)?;
        self.look("the nodes", "kubectl get nodes -o wide")?;
        self.look("what GPUs each node offers", ALLOCATABLE)?;
        self.converge("Again: a second run changes nothing", &["apply", "--yes"], 0)?;
        self.damage()?;
        self.converge("The drift is found, on a host and in the cluster", &["plan"], 2)?;
        self.converge("And corrected", &["apply", "--yes"], 0)?;
        self.converge(
            "Four shares a GPU become two: the plugin is restarted, since it does not notice by itself",
            &["apply", "--yes", "--set", "gpu_time_slicing_replicas=2"],
            0,
        )?;
        self.look("what GPUs each node offers", ALLOCATABLE)?;
        self.converge("Revert that: four shares, and a plugin that knows it", &["rollback", "--yes"], 0)?;
        // A node tells of it up to ten seconds later.
        self.until_shared(16)?;
        self.look("what GPUs each node offers", ALLOCATABLE)?;
        self.converge("What can be rolled back to", &["snapshots"], 0)
    }

    /// Runs the real binary as a person would, and checks its exit code.
    fn converge(&mut self, what: &str, arguments: &[&str], expected: i32) -> Result<()> {
        let mut command = Command::new(target_dir().join("debug/converge"));
        let (verb, more) = arguments.split_first().ok_or("no command")?;
        command.arg(verb).arg(&self.inventory).args(more).current_dir(workspace()).stdin(Stdio::null());
        command.args(["--playbook", PLAYBOOK]);
        println!("\n== {what}\n$ {}", shown(&command));
        let start = Instant::now();
        let status = command.status()?;
        let took = start.elapsed().as_secs_f64();
        if status.code() != Some(expected) {
            let shown = shown(&command);
            return Err(format!("{shown}: {status}, but exit code {expected} was expected").into());
        }
        println!("   (exit code {expected}, {took:.1} s)");
        self.done.push(format!("{:72} {took:5.1} s, exit code {expected}", what));
        Ok(())
    }

    /// Shows the output of a command on the control plane.
    fn look(&mut self, what: &str, script: &str) -> Result<()> {
        let reply = self.on("h1", &format!("KUBECONFIG=/etc/kubernetes/admin.conf {script}"))?;
        println!("\n== {what}\n$ ssh h1 {script}\n{reply}");
        Ok(())
    }

    fn on(&self, name: &str, script: &str) -> Result<String> {
        let host = self.lab.host(name).ok_or_else(|| format!("the lab lacks {name}"))?;
        let output = host.exec(script)?;
        match output.success() {
            true => Ok(output.stdout.trim_end().to_owned()),
            false => Err(format!("{name}: {script}: {}", output.stderr).into()),
        }
    }

    /// Waits until the node with GPUs offers so many.
    fn until_shared(&self, gpus: u32) -> Result<()> {
        let script =
            format!("KUBECONFIG=/etc/kubernetes/admin.conf {ALLOCATABLE} | grep -q '^{GPU_NODE} .* {gpus}$'");
        let end = Instant::now() + Duration::from_secs(60);
        while self.on("h1", &script).is_err() {
            if Instant::now() > end {
                return Err(format!("{GPU_NODE} does not offer {gpus} GPUs").into());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(())
    }

    fn damage(&mut self) -> Result<()> {
        let file = "rm /etc/containerd/conf.d/00-k8s-runc.toml";
        let object = "KUBECONFIG=/etc/kubernetes/admin.conf kubectl -n nvidia-device-plugin delete configmap time-slicing-config";
        println!(
            "\n== Drift: somebody changes a file on h2 and an object of the cluster\n$ ssh h2 {file}\n$ ssh h1 {object}"
        );
        self.on(GPU_NODE, file)?;
        self.on("h1", object)?;
        Ok(())
    }
}
