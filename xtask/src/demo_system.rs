//! One of the reference systems before your eyes: its roles on a bare host and a real API server, as its scenario has them.

use crate::process::{Result, cargo, run as run_command, shown, target_dir, workspace};
use std::process::{Command, Stdio};

/// A reference system: the folder of the role with its scenario, and the scenario's name.
#[derive(Clone, Copy)]
pub struct System {
    role: &'static str,
    scenario: &'static str,
}

/// Thinkube: the GPU operator, GPUs shared by product, a control plane with GPUs.
pub const THINKUBE: System = System { role: "roles/gpu_ready", scenario: "thinkube" };
/// Smart Scaler: the hosts' toolkit beside the operator, a model, scaled by its GPUs.
pub const SMART_SCALER: System = System { role: "roles/gpu_ready", scenario: "smart_scaler" };
/// Kubeflow's trainer: two shares a GPU, and runtimes with the class.
pub const TRAINER: System = System { role: "roles/trainer_runtimes", scenario: "trainer_ci" };
/// PyTorch's CI: device plugin, runners, metrics.
pub const PYTORCH: System = System { role: "roles/arc_runner_set", scenario: "pytorch_cloud" };
/// MI300 runners: AMD's device plugin, its validation, runners.
pub const AMD: System = System { role: "roles/arc_runner_set", scenario: "amd_mi300" };

/// Plans the system on a bare host, applies it, plans and applies it again, injects drift, corrects it, rolls back; the report has a line for each.
pub fn run(system: System) -> Result<()> {
    println!("== building converge");
    run_command(&mut cargo(&["build", "--locked", "-p", "converge-cli"]))?;
    let mut command = Command::new(target_dir().join("debug/converge"));
    command.args(["test", system.role, "--scenario", system.scenario]);
    command.current_dir(workspace()).stdin(Stdio::null());
    println!("== {}/tests/{}.yaml\n$ {}", system.role, system.scenario, shown(&command));
    run_command(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_its_scenario_and_its_inventory() {
        let all = [
            (THINKUBE, "thinkube"),
            (SMART_SCALER, "smart-scaler"),
            (TRAINER, "trainer-ci"),
            (PYTORCH, "pytorch-cloud"),
            (AMD, "amd-mi300"),
        ];
        for (system, inventory) in all {
            let scenario = format!("{}/tests/{}.yaml", system.role, system.scenario);
            let text = std::fs::read_to_string(workspace().join(&scenario)).unwrap();
            let inventory = format!("inventories/{inventory}.yaml");
            assert!(text.contains(&inventory), "{scenario} does not name {inventory}");
            assert!(workspace().join(&inventory).is_file(), "{inventory}");
        }
    }
}
