//! Mutations of roles: each takes a safeguard away that one of the reference systems taught, and the scenario beside it must fail.
//!
//! `docs/reference-systems.md` lists all these traps. Those whose safeguard is no text of a role have tests that make the fault, and stand there alone.

use crate::mutate::{End, Mutation, copy_workspace, mutated, mutation, shown};
use crate::process::{Result, cargo, limited, run as run_command, target_dir};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A safeguard of a role, and the scenario of the role that holds it.
struct Safeguard {
    scenario: &'static str,
    /// The end of the safeguard, in a file below `roles/`.
    mutation: Mutation,
}

impl Safeguard {
    /// The folder of the role.
    fn role(&self) -> &'static str {
        self.mutation.file.split('/').next().unwrap_or_default()
    }
}

const fn safeguard(
    file: &'static str,
    scenario: &'static str,
    from: &'static str,
    to: &'static str,
) -> Safeguard {
    Safeguard { scenario, mutation: mutation(file, from, to) }
}

const SAFEGUARDS: &[Safeguard] = &[
    // The toolkit reads a dump of a higher version than the file's, and containerd refuses the drop-in.
    safeguard("gpu_operator/role.yaml", "install", "    - {name: RUNTIME_CONFIG_SOURCE, value: file}\n", ""),
    // A list of the user takes the place of the role's.
    safeguard(
        "gpu_operator/role.yaml",
        "install",
        "combine(gpu_operator_values, recursive=true, by='name')",
        "combine(gpu_operator_values, recursive=true)",
    ),
    // GPUs before Volta get parts that do not run on them.
    safeguard(
        "gpu_operator/role.yaml",
        "install",
        "            nvidia.com/gpu.deploy.device-plugin: \"false\"\n",
        "",
    ),
    // Two operators fight for one policy.
    safeguard("gpu_operator/role.yaml", "refused", "!= 'gpu-operator' ||", "== 'gpu-operator' ||"),
    // An upgrade undoes the version, and apt goes to no older one by itself.
    safeguard("nvidia_container_toolkit/role.yaml", "downgrade", "          hold: true\n", ""),
    safeguard("nvidia_container_toolkit/role.yaml", "downgrade", "          allow_downgrade: true\n", ""),
    // dockerd does not read `args`.
    safeguard(
        "docker_runtime/role.yaml",
        "beside",
        "'runtimeArgs': docker_runtime_args}}",
        "'args': docker_runtime_args}}",
    ),
    // A running plugin does not notice new profiles.
    safeguard("time_slicing/role.yaml", "operator", "          restart_on: [time-slicing profiles]\n", ""),
    // A profile that is not there is passed over without a word.
    safeguard(
        "time_slicing/role.yaml",
        "refused",
        "that: \"{{ gpu_time_slicing_unknown == [] }}\"",
        "that: true",
    ),
    // A share of a GPU is one at least, and not shared means no section.
    safeguard(
        "time_slicing/templates/profiles.yaml.j2",
        "profiles",
        "{% if replicas > 1 %}",
        "{% if replicas > 0 %}",
    ),
    // A host without a driver that works.
    safeguard(
        "gpu_host/role.yaml",
        "no_driver",
        "that: \"{{ facts.nvidia.present and not facts.nvidia.problem }}\"",
        "that: true",
    ),
    // The modules stay loaded under a process, and the programs no longer fit them.
    safeguard("nvidia_driver/role.yaml", "in_use", "[ -z \"$pids\" ] && exit 0", "exit 0"),
    // A taint that the plugin does not tolerate takes it from the node.
    safeguard(
        "node_profile/role.yaml",
        "dedicated",
        "set: \"{{ lookup('template', 'tolerations.yaml.j2') | from_yaml }}\"",
        "set: {/metadata/annotations/tolerates: nothing}",
    ),
    // The operator adopts a class that somebody else has made, and takes it along when it goes.
    safeguard("runtime_class/role.yaml", "operator", "when: runtime_class_owner == 'role'", "when: true"),
    // A runtime that asks for no GPU gets NVIDIA's class too.
    safeguard(
        "trainer_runtimes/role.yaml",
        "runtimes",
        "default: \"$..limits['nvidia.com/gpu']\"",
        "default: $.spec",
    ),
    // Two programs write one file of containerd.
    safeguard(
        "gpu_runtime/role.yaml",
        "default",
        "nvidia-ctk runtime configure --runtime=containerd --config={{ gpu_runtime_config }}\n            --drop-in-config={{ gpu_runtime_drop_in }}",
        "nvidia-ctk runtime configure --runtime=containerd --config={{ gpu_runtime_config }}\n            ",
    ),
    // The path of a template, or of another containerd, is not what the running one reads.
    safeguard(
        "gpu_runtime/role.yaml",
        "k8s_snap",
        "{{ facts.containerd.unit or 'containerd' }}",
        "containerd",
    ),
    // The toolkit leaves its programs and its runtime behind.
    safeguard(
        "gpu_runtime/role.yaml",
        "leftovers",
        "absent: {path: /usr/local/nvidia, recursive: true}",
        "absent: {path: /usr/local/nvidia-none, recursive: true}",
    ),
    // Two controllers of runners, of which the sets' chart does not know which to trust.
    safeguard("arc_controller/role.yaml", "second", "[?metadata.namespace != `", "[?metadata.namespace == `"),
    safeguard(
        "arc_runner_set/templates/values.yaml.j2",
        "two_sets",
        "controllerServiceAccount: {namespace: {{ arc_controller_namespace }}, name: {{ arc_controller_account }}}\n",
        "",
    ),
    // AMD's own manifest starts the plugin on every node.
    safeguard(
        "amd_device_plugin/templates/device-plugin.yaml.j2",
        "nodes",
        "      nodeSelector:\n        {{ amd_device_plugin_node_label }}: \"true\"\n",
        "",
    ),
    safeguard("amd_gpu_operator/role.yaml", "beside_plugin", "amd_plain_plugin is none and", "true and"),
    // A taint with another value than the toleration's.
    safeguard(
        "device_plugin/role.yaml",
        "nodes",
        "default: [{key: nvidia.com/gpu, operator: Exists,",
        "default: [{key: nvidia.com/gpu, operator: Equal, value: \"true\",",
    ),
];

/// The most that one scenario may take: a wait that ends in vain counts as a failure.
const LIMIT: Duration = Duration::from_secs(600);

/// Takes the safeguards away one at a time in a copy of the project, and runs the scenario of each there; with `filter` those whose role has it in
/// its name.
///
/// Errors when a scenario holds nevertheless.
pub fn run(filter: &str) -> Result<()> {
    run_command(&mut cargo(&["build", "--locked", "-p", "converge-cli"]))?;
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("project");
    copy_workspace(&copy, &["roles", "inventories", "playbooks", "tests/stand_ins", "tests/charts"])?;
    let mut bad = Vec::new();
    for safeguard in SAFEGUARDS.iter().filter(|safeguard| safeguard.role().contains(filter)) {
        let (Safeguard { mutation, scenario }, role) = (safeguard, safeguard.role());
        let begun = Instant::now();
        let path = copy.join("roles").join(mutation.file);
        let text = fs_err::read_to_string(&path)?;
        fs_err::write(&path, mutated(&text, mutation)?)?;
        let mut test = Command::new(target_dir().join("debug/converge"));
        test.current_dir(&copy).args(["test", &format!("roles/{role}"), "--scenario", scenario]);
        let ended = limited(&test, LIMIT).stdin(Stdio::null()).output()?;
        fs_err::write(&path, text)?;
        let end = if ended.status.success() { End::Survived } else { End::Caught };
        let name = format!("{role}/tests/{scenario}.yaml: {}: {}", mutation.file, shown(mutation));
        println!("{end:?} in {} s  {name}", begun.elapsed().as_secs());
        for line in String::from_utf8_lossy(&ended.stdout).lines().filter(|line| line.contains('✗')).take(3)
        {
            println!("    {}", line.trim());
        }
        if end == End::Survived {
            bad.push(name);
        }
    }
    if bad.is_empty() {
        println!("every safeguard is held");
        return Ok(());
    }
    Err(format!("the scenario holds without the safeguard\n  {}", bad.join("\n  ")).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::workspace;

    #[test]
    fn every_safeguard_has_its_place_in_a_role_and_its_scenario() {
        for safeguard in SAFEGUARDS {
            let (Safeguard { mutation, scenario }, role) = (safeguard, safeguard.role());
            let path = workspace().join("roles").join(mutation.file);
            let text = fs_err::read_to_string(path).unwrap();
            mutated(&text, mutation).unwrap_or_else(|error| panic!("{error}"));
            assert!(
                workspace().join(format!("roles/{role}/tests/{scenario}.yaml")).is_file(),
                "{role}/{scenario}"
            );
        }
    }
}
