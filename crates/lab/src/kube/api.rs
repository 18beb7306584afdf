//! A real API server, inside a lab host.

use super::control_plane::{Administrator, ApiOptions, Component, ETC, Layout, POD_LOG, Ports, log_text};
use super::kubectl::{self, Kubectl, expect};
use super::parts::{self, Parts};
use super::pki::{self, PKI};
use super::supervisor::Supervisor;
use crate::error::{LabError, Result};
use crate::host::{ExecOutput, Host};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time that a start may take, on a loaded machine too.
const START: Duration = Duration::from_secs(90);
/// etcd's data on a host.
const DATA: &str = "/var/lib/converge-lab-etcd";

/// The stages on a host.
const STAGES_AT: &str = "/etc/kubernetes/kwok-stages.yaml";

/// etcd and kube-apiserver, on request with controllers and kwok. In a lab host they are units that listen on 127.0.0.1:6443 and
/// `/etc/kubernetes/admin.conf` is there, as on a kubeadm control plane. They survive a reboot and a power cut of the host.
///
/// Dropping it stops the processes and deletes their data.
pub struct ApiServer {
    place: ApiServerPlace,
    options: ApiOptions,
    layout: Layout,
    clean: bool,
}

pub(crate) enum ApiServerPlace {
    Host(Host),
    Local(Supervisor),
}

impl ApiServer {
    /// Starts an API server in a host and waits until it answers; what an earlier one left there goes first.
    ///
    /// Errors when the programs cannot be had, or when a process does not get ready.
    pub fn start(host: &Host, options: ApiOptions) -> Result<Self> {
        let parts = parts::ensure(&options.parts())?;
        let layout =
            Layout { etc: ETC.into(), data: DATA.into(), stages: STAGES_AT.into(), ports: Ports::USUAL };
        let api = Self { place: ApiServerPlace::Host(host.clone()), options, layout, clean: true };
        api.clean_host(host)?;
        host.share(&parts.program("kubectl")?)?;
        for component in api.options.components() {
            api.install(host, component, &parts)?;
        }
        api.certificates(api.options.administrator)?;
        host.write(STAGES_AT, "600", &api.layout.stages_text())?;
        api.set_pod_log(POD_LOG)?;
        expect(host.exec("systemctl daemon-reload")?, "systemctl daemon-reload")?;
        api.start_again()?;
        Ok(api)
    }

    pub(crate) fn on_loopback(supervisor: Supervisor, options: ApiOptions, layout: Layout) -> Result<Self> {
        let api = Self { place: ApiServerPlace::Local(supervisor), options, layout, clean: true };
        api.start_again()?;
        Ok(api)
    }

    fn install(&self, host: &Host, component: Component, parts: &Parts) -> Result<()> {
        let program = host.share(&parts.program(component.program())?)?;
        let unit = component.unit(Path::new(&program), &self.layout, &self.options);
        let name = component.unit_name();
        host.write(&format!("/etc/systemd/system/{name}"), "644", &unit)?;
        let wanted = "/etc/systemd/system/multi-user.target.wants";
        let script = format!("mkdir -p {wanted} && ln -sf ../{name} {wanted}/{name}");
        expect(host.exec(&script)?, &script).map(drop)
    }

    fn clean_host(&self, host: &Host) -> Result<()> {
        let script = format!(
            "systemctl kill -s KILL 'lab-kube-*.service'; systemctl stop 'lab-kube-*.service'; rm -rf {DATA} {ETC} /etc/systemd/system/lab-kube-*.service \
             /etc/systemd/system/multi-user.target.wants/lab-kube-*.service; systemctl daemon-reload"
        );
        expect(host.exec(&script)?, "cleaning the host").map(drop)
    }

    /// Makes missing certificates, and always that of the administrator.
    fn certificates(&self, administrator: Administrator) -> Result<()> {
        let (etc, port) = (self.layout.etc.display().to_string(), self.layout.ports.api);
        match &self.place {
            ApiServerPlace::Host(host) => {
                let line = format!("sh -s -- {etc} {port} {}", administrator.days());
                expect(host.exec_with_input(&line, PKI.as_bytes())?, "making certificates").map(drop)
            }
            ApiServerPlace::Local(_) => pki::certificates(&self.layout, administrator),
        }
    }

    /// Replaces `admin.conf` with such a certificate; the lab's own access does not depend on it.
    pub fn administrator(&self, administrator: Administrator) -> Result<()> {
        self.certificates(administrator)
    }

    /// Starts everything, with the data kept, and waits until it answers.
    pub fn start_again(&self) -> Result<()> {
        for component in self.options.components() {
            self.start_one(component)?;
            if component == Component::ApiServer {
                self.wait_until_ready()?;
            }
        }
        if self.options.controllers {
            // Made by a controller, and asked for by every pod.
            let wait = ["wait", "--for=create", "serviceaccount/default", "--timeout=60s"];
            expect(self.kubectl(&wait)?, "waiting for the default service account")?;
        }
        Ok(())
    }

    /// Starts one process that was stopped or killed; it may take a moment to answer.
    pub fn start_one(&self, component: Component) -> Result<()> {
        self.control(component, "START")
    }

    /// Stops all processes in good order; the data stays.
    pub fn stop(&self) -> Result<()> {
        self.options.components().into_iter().rev().try_for_each(|component| self.control(component, "TERM"))
    }

    /// Kills one process; it stays dead until [`ApiServer::start_one`].
    pub fn kill(&self, component: Component) -> Result<()> {
        self.control(component, "KILL")
    }

    /// Freezes one process: connections are taken and never answered.
    pub fn pause(&self, component: Component) -> Result<()> {
        self.control(component, "STOP")
    }

    /// Ends [`ApiServer::pause`].
    pub fn resume(&self, component: Component) -> Result<()> {
        self.control(component, "CONT")
    }

    fn control(&self, component: Component, verb: &str) -> Result<()> {
        match &self.place {
            ApiServerPlace::Host(host) => {
                let unit = component.unit_name();
                let script = match verb {
                    "START" => format!("systemctl start {unit}"),
                    "TERM" => format!("systemctl stop {unit}"),
                    // The second command keeps systemd from starting it again.
                    "KILL" => format!("systemctl kill -s KILL {unit}; systemctl stop {unit}"),
                    // Until the thread that takes the signal runs, the others work on.
                    "STOP" => format!(
                        "systemctl kill -s STOP {unit}; pid=$(systemctl show -P MainPID {unit})\n\
                         while grep -qs '^State:.[^T]' /proc/$pid/task/*/status; do sleep 0.01; done"
                    ),
                    signal => format!("systemctl kill -s {signal} {unit}"),
                };
                expect(host.exec(&script)?, &script).map(drop)
            }
            ApiServerPlace::Local(supervisor) => supervisor.control(component.name(), verb),
        }
    }

    /// Waits until `/readyz` says ok.
    pub fn wait_until_ready(&self) -> Result<()> {
        self.wait_for("kube-apiserver's start", || Ok(self.is_ready()))
    }

    /// Whether `/readyz` says ok now.
    pub fn is_ready(&self) -> bool {
        // kubectl's own limit does not end a handshake that hangs.
        let asked = self.kubectl_within(3, &["get", "--raw=/readyz"], "");
        asked.is_ok_and(|output| output.success() && output.stdout.trim() == "ok")
    }

    pub(crate) fn wait_for(&self, what: &str, done: impl Fn() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + START;
        loop {
            let begun = Instant::now();
            if done()? {
                return Ok(());
            }
            if begun > deadline {
                let what = format!("waiting for {what}: {}", self.log_tail());
                return Err(LabError::Stuck { what, seconds: START.as_secs() });
            }
            crate::pause(begun);
        }
    }

    /// The last lines of the processes' logs.
    fn log_tail(&self) -> String {
        match &self.place {
            ApiServerPlace::Host(host) => {
                let output = host.exec("journalctl -q --no-pager -n 15 -u 'lab-kube-*'");
                output.map(|output| output.stdout).unwrap_or_default()
            }
            ApiServerPlace::Local(supervisor) => supervisor.log_tail(),
        }
    }

    /// The port that it listens on, on loopback of where it runs.
    pub fn port(&self) -> u16 {
        self.layout.ports.api
    }

    /// Runs kubectl as the lab's own administrator, whose certificate is always valid; a failing command is no error.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<ExecOutput> {
        self.kubectl_with_input(arguments, "")
    }

    /// Like [`ApiServer::kubectl`], with this standard input.
    pub fn kubectl_with_input(&self, arguments: &[&str], input: &str) -> Result<ExecOutput> {
        self.kubectl_within(kubectl::LIMIT, arguments, input)
    }

    /// The command with which a person asks it, where it runs.
    pub fn kubectl_line(&self) -> String {
        let kubeconfig = self.layout.etc.join("super-admin.conf").display().to_string();
        let program = match &self.place {
            ApiServerPlace::Host(host) => host.shared("kubectl"),
            ApiServerPlace::Local(supervisor) => supervisor.kubectl.display().to_string(),
        };
        format!("{program} --kubeconfig={kubeconfig} get nodes")
    }

    fn kubectl_within(&self, seconds: u32, arguments: &[&str], input: &str) -> Result<ExecOutput> {
        match &self.place {
            ApiServerPlace::Host(host) => Kubectl::of_api_server(host).within(seconds, arguments, input),
            ApiServerPlace::Local(supervisor) => {
                let kubeconfig = self.layout.etc.join("super-admin.conf").display().to_string();
                supervisor.kubectl(seconds, &kubeconfig, arguments, input)
            }
        }
    }

    /// Applies YAML or JSON from the server's side, as the manager `lab` and with `--force-conflicts`.
    ///
    /// Errors with what kubectl said when it fails.
    pub fn apply(&self, manifests: &str) -> Result<()> {
        expect(self.kubectl_with_input(&kubectl::APPLY, manifests)?, "kubectl apply").map(drop)
    }

    /// `kubectl get … -o json`, read.
    ///
    /// Errors with what kubectl said when it fails.
    pub fn get(&self, arguments: &[&str]) -> Result<Value> {
        let all = [&["get", "--output=json"], arguments].concat();
        let output = expect(self.kubectl(&all)?, &format!("kubectl get {}", arguments.join(" ")))?;
        serde_json::from_str(&output.stdout).map_err(|error| LabError::Io(error.into()))
    }

    pub(crate) fn has_controllers(&self) -> bool {
        self.options.controllers
    }

    pub(crate) fn kwok_port(&self) -> u16 {
        self.layout.ports.kwok
    }

    /// Sets the log of every simulated container; initially it ends with `Test PASSED`.
    pub fn set_pod_log(&self, text: &str) -> Result<()> {
        let path = self.layout.pod_log();
        match &self.place {
            ApiServerPlace::Host(host) => host.write(&path.display().to_string(), "600", &log_text(text)),
            ApiServerPlace::Local(_) => Ok(fs_err::write(path, log_text(text))?),
        }
    }

    /// Leaves it running after this value.
    pub fn leave_running(mut self) {
        self.clean = false;
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        // A local one goes with its supervisor; a host that is down has nothing to stop.
        if let (true, ApiServerPlace::Host(host)) = (self.clean, &self.place) {
            drop(self.clean_host(host));
        }
    }
}
