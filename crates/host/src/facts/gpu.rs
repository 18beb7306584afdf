//! GPUs: what NVIDIA's and AMD's tools and kernel modules say.

use super::parse::{AnswerLines, number, text, version};
use super::shape::{Accelerator, Amd, AmdGpu, MigDevice, Nvidia, NvidiaGpu};
use serde_json::Value;

/// A value of nvidia-smi; none where it writes that the GPU does not have or does not report it.
fn reported(value: Option<&str>) -> Option<&str> {
    let value = value?.trim();
    let bare = value.trim_start_matches('[').trim_end_matches(']');
    let unknown = ["N/A", "Not Supported", "Not Available", "Unknown Error", "Insufficient Permissions", ""];
    (!unknown.contains(&bare)).then_some(value)
}

/// NVIDIA's part of an answer.
pub(super) fn nvidia(reply: &AnswerLines<'_>, on_bus: &[Accelerator]) -> Nvidia {
    let mut found = Nvidia {
        driver: reply.raw("nvidia.proc").and_then(module_version),
        cuda: reported(reply.raw("nvidia.cuda")).and_then(text),
        problem: reply.text("nvidia.problem"),
        container_toolkit: reply.raw("nvidia.ctk").and_then(version),
        ..Nvidia::default()
    };
    for line in reply.all("nvidia.gpu") {
        let Some((gpu, driver)) = queried(line) else { continue };
        found.driver = found.driver.or(driver);
        found.gpus.push(gpu);
    }
    if found.gpus.is_empty() {
        found.gpus = informed(reply);
    }
    mig_devices(reply, &mut found.gpus);
    if !reply.ended("nvidia") && found.problem.is_none() {
        found.problem = Some("the questions about GPUs were not answered to their end".to_owned());
    }
    found.count = u64::try_from(found.gpus.len()).unwrap_or(u64::MAX);
    found.mig = found.gpus.iter().any(|g| g.mig == Some(true));
    found.present = found.count > 0 || on_bus.iter().any(|a| a.vendor == "nvidia");
    found
}

/// `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build …`
fn module_version(line: &str) -> Option<String> {
    line.split_whitespace().find_map(|word| {
        let numbers = word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
        if numbers { text(word) } else { None }
    })
}

/// The names of the fields, then their values; the last may hold commas.
fn queried(line: &str) -> Option<(NvidiaGpu, Option<String>)> {
    let (fields, values) = line.split_once(",name,")?;
    let fields: Vec<&str> = fields.split(',').chain(["name"]).collect();
    let values: Vec<&str> = values.splitn(fields.len(), ',').collect();
    let value = |field: &str| {
        reported(fields.iter().position(|f| *f == field).and_then(|at| values.get(at).copied()))
    };
    let memory_mib = value("memory.total").and_then(number);
    // A GPU without memory of its own says so; one that may not tell says something else.
    let raw = fields.iter().position(|f| *f == "memory.total").and_then(|at| values.get(at));
    let none = raw.is_some_and(|v| matches!(v.trim().trim_matches(['[', ']']), "N/A" | "Not Supported"));
    let gpu = NvidiaGpu {
        index: value("index").and_then(number)?,
        name: value("name").and_then(text),
        uuid: value("uuid").and_then(text),
        bus_id: value("pci.bus_id").and_then(text),
        memory_mib,
        unified_memory: none,
        compute_capability: value("compute_cap").and_then(text),
        mig: value("mig.mode.current").map(|m| m == "Enabled"),
        mig_devices: Vec::new(),
    };
    Some((gpu, value("driver_version").and_then(text)))
}

/// Without nvidia-smi: `/proc/driver/nvidia/gpus/*/information`, in the order of the bus.
fn informed(reply: &AnswerLines<'_>) -> Vec<NvidiaGpu> {
    let mut gpus: Vec<NvidiaGpu> = Vec::new();
    for line in reply.all("nvidia.info") {
        let Some((key, value)) = line.split_once(':') else { continue };
        if key == "Slot" {
            let index = u64::try_from(gpus.len()).unwrap_or(u64::MAX);
            gpus.push(NvidiaGpu { index, bus_id: text(value), ..NvidiaGpu::default() });
        }
        let Some(gpu) = gpus.last_mut() else { continue };
        match key {
            "Model" => gpu.name = reported(Some(value)).and_then(text),
            // Without rights it is `GPU-????????-…`.
            "GPU UUID" => gpu.uuid = reported(Some(value)).and_then(text).filter(|u| !u.contains('?')),
            _ => {}
        }
    }
    gpus
}

/// `nvidia-smi -L`: `GPU 0: …` and below it `  MIG 1g.18gb  Device  0: (UUID: MIG-…)`.
fn mig_devices(reply: &AnswerLines<'_>, gpus: &mut [NvidiaGpu]) {
    let mut index = None;
    for line in reply.all("nvidia.list") {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("GPU ") {
            index = rest.split(':').next().and_then(number);
        } else if let Some(rest) = line.strip_prefix("MIG ") {
            let uuid = rest.split("UUID: ").nth(1).and_then(|u| text(u.trim_end_matches(')')));
            let profile = rest.split_whitespace().next().and_then(text);
            if let (Some(gpu), Some(profile)) = (gpus.iter_mut().find(|g| Some(g.index) == index), profile) {
                gpu.mig_devices.push(MigDevice { profile, uuid });
            }
        }
    }
}

/// AMD's part of an answer.
pub(super) fn amd(reply: &AnswerLines<'_>, on_bus: &[Accelerator]) -> Amd {
    let mut gpus: Vec<AmdGpu> = reply.all("amd.card").filter_map(card).collect();
    gpus.sort_by(|a, b| a.bus_id.cmp(&b.bus_id));
    for line in reply.all("amd.node") {
        let mut words = line.split(' ').map(number);
        let (Some(Some(target)), Some(Some(domain)), Some(Some(location))) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        // A location is bus, device and function: 8, 5 and 3 bits.
        let bus_id = format!(
            "{domain:04x}:{:02x}:{:02x}.{:x}",
            (location >> 8) & 0xff,
            (location >> 3) & 0x1f,
            location & 7
        );
        if let Some(gpu) = gpus.iter_mut().find(|g| g.bus_id.as_deref() == Some(&bus_id)) {
            gpu.gfx = Some(gfx(target));
        }
    }
    names(reply, &mut gpus);
    Amd {
        present: !gpus.is_empty() || on_bus.iter().any(|a| a.vendor == "amd"),
        driver: reply.text("amd.driver"),
        rocm: reply.text("amd.rocm"),
        count: u64::try_from(gpus.len()).unwrap_or(u64::MAX),
        gpus,
    }
}

fn card(line: &str) -> Option<AmdGpu> {
    let mut parts = line.split('|').skip(1);
    Some(AmdGpu {
        bus_id: text(parts.next()?),
        device: parts.next().and_then(text),
        memory_mib: parts.next().and_then(number).map(|bytes| bytes >> 20),
        unique_id: parts.next().and_then(text),
        name: parts.next().and_then(text),
        gfx: None,
    })
}

/// 90402 is gfx942, 90010 is gfx90a, 100300 is gfx1030: minor and step are one hexadecimal digit each.
fn gfx(target: u64) -> String {
    format!("gfx{}{:x}{:x}", target / 10_000, (target / 100) % 100, target % 100)
}

/// Names by bus address, from the tools' JSON.
fn names(reply: &AnswerLines<'_>, gpus: &mut [AmdGpu]) {
    let json = |name: &str| reply.raw(name).and_then(|t| serde_json::from_str::<Value>(t).ok());
    let mut named: Vec<(String, String)> = Vec::new();
    if let Some(smi) = json("amd.smi") {
        let list = smi.as_array().or_else(|| smi.get("gpu_data").and_then(Value::as_array));
        for gpu in list.into_iter().flatten() {
            let field = |pointer: &str| gpu.pointer(pointer).and_then(Value::as_str);
            if let (Some(bus), Some(name)) = (field("/bus/bdf"), field("/asic/market_name")) {
                named.push((bus.to_lowercase(), name.to_owned()));
            }
        }
    } else if let Some(Value::Object(cards)) = json("amd.rocm_smi") {
        for card in cards.values() {
            let field = |name: &str| card.get(name).and_then(Value::as_str);
            let name = field("Card Series").or_else(|| field("Card series"));
            if let (Some(bus), Some(name)) = (field("PCI Bus"), name) {
                named.push((bus.to_lowercase(), name.to_owned()));
            }
        }
    }
    for gpu in gpus {
        let own = named.iter().find(|(bus, _)| gpu.bus_id.as_deref() == Some(bus.as_str()));
        if let Some(name) = own.and_then(|(_, name)| text(name)) {
            gpu.name = Some(name);
        }
    }
}
