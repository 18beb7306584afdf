//! Facts: what a host can tell about itself. They travel in the batch of the first questions, and are data: nothing in them is
//! ever a template, a path on the controller or code.

mod containerd;
mod gpu;
mod page;
mod parse;
mod shape;

pub use page::facts_page;
pub use shape::HostFacts;

use converge_objects::KUBEADM_FILES;
use parse::AnswerLines;
use serde_json::Value;

/// The script of the facts that every host answers in a few milliseconds.
const BASE: &str = include_str!("../sh/facts/base.sh");

/// The groups of facts that take longer or need a program of their own, by the name of the fact: asked where something reads it.
pub const FACT_GROUPS: [&str; 6] = ["nvidia", "amd", "containerd", "docker", "kubelet", "kubernetes"];

/// Names out of [`FACT_GROUPS`].
pub(crate) type Groups = converge_executor::FactGroups;

/// The script that prints them: POSIX shell, no changes.
pub fn script(groups: &Groups) -> String {
    let mut script = BASE.to_owned();
    if ["containerd", "docker", "kubelet"].iter().any(|g| groups.contains(g)) {
        script.push_str(include_str!("../sh/facts/programs.sh"));
    }
    for group in groups {
        if *group == "kubernetes" {
            script.push_str(KUBEADM_FILES);
        }
        script.push_str(match *group {
            "nvidia" => include_str!("../sh/facts/nvidia.sh"),
            "amd" => include_str!("../sh/facts/amd.sh"),
            "containerd" => include_str!("../sh/facts/containerd.sh"),
            "docker" => include_str!("../sh/facts/docker.sh"),
            "kubelet" => include_str!("../sh/facts/kubelet.sh"),
            "kubernetes" => include_str!("../sh/facts/kubernetes.sh"),
            _ => "",
        });
    }
    script
}

/// The script with which the host looks for facts that foreign code has changed: `cv_see_fact NAME…` prints a digest of what each says, without what
/// moves by itself.
pub fn watch_script() -> String {
    const NAMED: [(&str, &str); 6] = [
        ("nvidia", include_str!("../sh/facts/nvidia.sh")),
        ("amd", include_str!("../sh/facts/amd.sh")),
        ("containerd", include_str!("../sh/facts/containerd.sh")),
        ("docker", include_str!("../sh/facts/docker.sh")),
        ("kubelet", include_str!("../sh/facts/kubelet.sh")),
        ("kubernetes", include_str!("../sh/facts/kubernetes.sh")),
    ];
    let mut script = format!("cv_fact_watch_base() (\n{BASE}\n)\n{KUBEADM_FILES}\n");
    for (name, text) in NAMED {
        let head = BASE.split_once("\n{\n").map_or("", |(head, _)| head);
        let programs = include_str!("../sh/facts/programs.sh");
        script.push_str(&format!("cv_fact_watch_{name}() (\n{head}\n{programs}\n{text}\n)\n"));
    }
    script.push_str(include_str!("../sh/facts/watch.sh"));
    script
}

/// Makes facts of the answer. What is missing or odd is `null`.
pub fn parse(answer: &str, groups: &Groups) -> Value {
    let reply = AnswerLines::new(answer);
    let mut facts = parse::base(&reply);
    for group in groups {
        match *group {
            "nvidia" => facts.nvidia = Some(gpu::nvidia(&reply, &facts.accelerators)),
            "amd" => facts.amd = Some(gpu::amd(&reply, &facts.accelerators)),
            "containerd" => facts.containerd = Some(containerd::read(&reply)),
            "docker" => {
                let usual = "/etc/docker/daemon.json";
                facts.docker = Some(parse::program(&reply, "docker", &["--config-file"], usual));
            }
            "kubelet" => {
                let usual = "/var/lib/kubelet/config.yaml";
                facts.kubelet = Some(parse::program(&reply, "kubelet", &["--config"], usual));
            }
            "kubernetes" => facts.kubernetes = Some(parse::kubernetes(&reply)),
            _ => {}
        }
    }
    // Structs of texts, numbers and lists always have a JSON form.
    serde_json::to_value(&facts).unwrap_or_default()
}

/// The JSON Schema of the facts.
pub fn facts_schema() -> Value {
    schemars::schema_for!(HostFacts).to_value()
}

#[cfg(test)]
#[path = "facts/tests.rs"]
mod tests;
