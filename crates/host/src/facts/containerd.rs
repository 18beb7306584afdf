//! containerd: which of those that run is meant, and what its effective configuration says.

use super::parse::{AnswerLines, program, text, version};
use super::shape::{Containerd, Runtime};

/// One containerd that runs.
#[derive(Default)]
struct Process<'a> {
    exe: &'a str,
    words: Vec<&'a str>,
    version: Option<&'a str>,
    cgroup: &'a str,
    dump: Vec<&'a str>,
}

impl Process<'_> {
    /// The value of an option of the command line.
    fn option(&self, names: &[&str]) -> Option<String> {
        self.words.iter().enumerate().find_map(|(at, word)| {
            names.iter().find_map(|name| match word.strip_prefix(name)? {
                "" => self.words.get(at + 1).and_then(|value| text(value)),
                rest => rest.strip_prefix('=').and_then(text),
            })
        })
    }

    /// Whose it is. Nothing but its program and its files tells.
    fn flavour(&self) -> &'static str {
        let config = self.option(&["--config", "-c"]).unwrap_or_default();
        let has = |part: &str| self.exe.contains(part) || config.contains(part);
        if has("/snap/k8s/") || has("/k8s-containerd/") {
            "k8s-snap"
        } else if has("/rancher/k3s/") {
            "k3s"
        } else if has("/rancher/rke2/") {
            "rke2"
        } else if config.contains("/docker/containerd/") {
            "docker"
        } else {
            "package"
        }
    }

    /// The unit in whose control group it runs: an agent of k3s has another one than a server.
    fn unit(&self) -> Option<String> {
        let unit = self.cgroup.split('/').find_map(|part| part.strip_suffix(".service"));
        unit.and_then(text)
    }
}

/// The one that Kubernetes uses comes first.
const ORDER: [&str; 5] = ["k8s-snap", "k3s", "rke2", "package", "docker"];

/// The facts of containerd.
pub(super) fn read(reply: &AnswerLines<'_>) -> Containerd {
    let installed = program(reply, "containerd", &["--config", "-c"], "/etc/containerd/config.toml");
    let (mut processes, mut idle) = (Vec::<Process<'_>>::new(), Vec::new());
    for (name, value) in reply.below("containerd.") {
        match (name, processes.last_mut()) {
            ("runs", _) => processes.push(Process { exe: value, ..Process::default() }),
            ("word", Some(last)) => last.words.push(value),
            ("cgroup", Some(last)) => last.cgroup = value,
            ("runs_version", Some(last)) => last.version = Some(value),
            ("dump", Some(last)) => last.dump.push(value),
            ("dump", None) => idle.push(value),
            _ => {}
        }
    }
    let place = |process: &Process<'_>| ORDER.iter().position(|name| *name == process.flavour());
    let Some(process) = processes.iter().min_by_key(|process| place(process)) else {
        let effective = Effective::read(&idle);
        return Containerd {
            present: installed.present,
            path: installed.path,
            version: installed.version,
            active: installed.active,
            config: installed.config,
            flavour: installed.present.then(|| "package".to_owned()),
            unit: installed.present.then(|| "containerd".to_owned()),
            socket: effective.socket.clone(),
            ..effective.facts()
        };
    };
    let flavour = process.flavour();
    let effective = Effective::read(&process.dump);
    // The usual file of another flavour is not this one's.
    let config =
        process.option(&["--config", "-c"]).or_else(|| installed.config.filter(|_| flavour == "package"));
    Containerd {
        present: true,
        path: text(process.exe).or(installed.path),
        version: process.version.and_then(version).or(installed.version),
        active: true,
        config,
        flavour: Some(flavour.to_owned()),
        unit: process.unit(),
        socket: process.option(&["--address", "-a"]).or_else(|| effective.socket.clone()),
        ..effective.facts()
    }
}

/// The parts of an effective configuration that matter.
#[derive(Default)]
struct Effective {
    socket: Option<String>,
    default_runtime: Option<String>,
    runtimes: Vec<Runtime>,
}

/// The runtimes of an effective configuration that are kept.
const RUNTIMES: usize = 64;

impl Effective {
    /// Reads sections (`[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]`) and their values. containerd writes the
    /// file itself, each value on a line of its own.
    fn read(lines: &[&str]) -> Self {
        let (mut found, mut section) = (Self::default(), Vec::<String>::new());
        for line in lines {
            if let Some(name) = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = parts(name);
                found.begin(&section);
            } else if let Some((key, value)) = line.split_once('=') {
                found.set(&section, key.trim(), value.trim());
            }
        }
        found.runtimes.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// The name of the runtime whose section or options these are.
    fn runtime(section: &[String]) -> Option<&str> {
        let at = section.iter().position(|part| part == "runtimes")?;
        let beside = section.get(at.checked_sub(1)?)? == "containerd";
        section.get(at + 1).map(String::as_str).filter(|_| beside)
    }

    fn begin(&mut self, section: &[String]) {
        let Some(name) = Self::runtime(section).and_then(text) else { return };
        if self.runtimes.len() < RUNTIMES && !self.runtimes.iter().any(|one| one.name == name) {
            self.runtimes.push(Runtime { name, cgroup_driver: "cgroupfs".to_owned(), ..Runtime::default() });
        }
    }

    fn set(&mut self, section: &[String], key: &str, value: &str) {
        let plain = text(value.trim_matches(['\'', '"']));
        if key == "address" && section == ["grpc"] {
            self.socket = plain;
        } else if key == "default_runtime_name" {
            self.default_runtime = plain;
        } else if let Some(name) = Self::runtime(section) {
            let Some(runtime) = self.runtimes.iter_mut().find(|one| one.name == name) else { return };
            match key {
                "runtime_type" => runtime.sort = plain,
                "BinaryName" => runtime.binary = plain,
                "SystemdCgroup" if value == "true" => runtime.cgroup_driver = "systemd".to_owned(),
                _ => {}
            }
        }
    }

    fn facts(self) -> Containerd {
        let driver = |name: &String| self.runtimes.iter().find(|one| one.name == *name);
        Containerd {
            cgroup_driver: self
                .default_runtime
                .as_ref()
                .and_then(driver)
                .map(|one| one.cgroup_driver.clone()),
            default_runtime: self.default_runtime.clone(),
            runtimes: self.runtimes,
            ..Containerd::default()
        }
    }
}

/// The parts of a section's name: dots inside quotes divide nothing.
fn parts(name: &str) -> Vec<String> {
    let (mut parts, mut quote) = (vec![String::new()], None);
    for c in name.chars() {
        match (c, quote) {
            ('.', None) => parts.push(String::new()),
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (c, _) => parts.last_mut().into_iter().for_each(|part| part.push(c)),
        }
    }
    parts
}

#[cfg(test)]
#[path = "containerd_tests.rs"]
mod tests;
