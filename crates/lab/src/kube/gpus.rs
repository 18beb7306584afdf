//! Simulated GPUs: a library that answers NVML's calls from a text file, under NVIDIA's own unmodified programs.

use super::image::Image;
use super::kubectl::expect;
use super::part::Part;
use super::parts;
use super::repositories::show_image;
use super::versions as v;
use crate::command;
use crate::error::Result;
use crate::host::Host;
use crate::inner::Inner;
use crate::session::Lab;
use fs_err as fs;
use sha2::{Digest as _, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARY: &str = include_str!("../../fake-nvml/fake-nvml.c");
const TOOL: &str = include_str!("../../fake-nvml/nvidia-smi");
/// The library's name, which is what NVIDIA's programs look for.
const NAME: &str = "libnvidia-ml.so.1";
const LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu";

/// The folder on a host that holds its GPUs, as the file `fake-gpus`: what a pod mounts to see them.
pub const FAKE_GPUS: &str = "/etc/lab-gpus";
/// NVIDIA's device plugin, feature discovery and configuration manager, and the library that plays the GPUs. In a pod they see those of the
/// host when [`FAKE_GPUS`] is mounted at the same path.
pub const DEVICE_PLUGIN_IMAGE: &str = "nvcr.io/nvidia/k8s-device-plugin:v0.19.3";

impl Host {
    /// Gives the host these GPUs, or other ones: lines `count=4`, `name=NVIDIA H200`, `absent.1=1`, `lost.1=1`, `xid.0=79`, `driver=none`
    /// and more, see `fake-nvml.c`; `""` is one H200. With them come `libnvidia-ml.so.1` and `nvidia-smi`.
    ///
    /// Programs on the host see the change with their next question.
    pub fn fake_gpus(&self, lines: &str) -> Result<()> {
        let library = library(self.inner(), &|_| ())?;
        let shared = self.share(&library)?;
        self.write("/usr/bin/nvidia-smi", "755", TOOL)?;
        // Replaced whole: a program must never read half of it.
        let script = format!(
            "install -D -m 644 {shared} {LIBRARIES}/{NAME}.new && mv {LIBRARIES}/{NAME}.new {LIBRARIES}/{NAME} && ldconfig && \
             mkdir -p {FAKE_GPUS} && cat > {FAKE_GPUS}/.new && mv {FAKE_GPUS}/.new {FAKE_GPUS}/fake-gpus && \
             ln -sfn {FAKE_GPUS}/fake-gpus /etc/fake-gpus"
        );
        expect(self.exec_with_input(&script, lines.as_bytes())?, "giving fake GPUs").map(drop)
    }
}

/// Shows the programs of parts to a lab's hosts, as `/run/lab/PROGRAM`.
pub fn show_programs(lab: &Lab, wanted: &[Part]) -> Result<()> {
    let parts = parts::ensure_in(lab.cache(), wanted, &|line| lab.say(line))?;
    for part in wanted {
        for name in part.programs() {
            lab.share(&parts.folder(*part)?.join(name), "")?;
        }
    }
    Ok(())
}

/// Makes [`DEVICE_PLUGIN_IMAGE`] when the cache has none and shows it to the lab's hosts; says where they have it.
pub fn device_plugin_image(lab: &Lab) -> Result<String> {
    let say = |line: &str| lab.say(line);
    let parts = parts::ensure_in(lab.cache(), &[Part::DevicePlugin], &say)?;
    let library = library(lab.inner(), &say)?;
    let root = parts::cache_folder(lab.cache());
    fs::create_dir_all(&root)?;
    let lock = fs::File::create(root.join("device-plugin-image.lock"))?;
    lock.file().lock()?;
    let archive = root.join(format!("gpus-{}", digest())).join("nvidia-device-plugin.tar");
    if !archive.exists() {
        if let Some(folder) = archive.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut image = Image::new(DEVICE_PLUGIN_IMAGE)
            .entrypoint("nvidia-device-plugin")
            .variable("FAKE_GPUS", &format!("{FAKE_GPUS}/fake-gpus"))
            .file(&library, &format!("{LIBRARIES}/{NAME}"));
        for name in Part::DevicePlugin.programs() {
            let program = parts.program(name)?;
            image = image.file(&program, &format!("/usr/bin/{name}")).libraries_of(&program)?;
        }
        // Libraries that the programs open by name, or that the library links to.
        for name in ["libdl.so.2", "libpthread.so.0", "librt.so.1", "libc.so.6"] {
            let path = Path::new("/lib/x86_64-linux-gnu").join(name);
            image = image.file(&path, &path.to_string_lossy());
        }
        image.write(&archive)?;
    }
    show_image(lab, &archive)
}

/// The compiled library, from the cache or made now.
fn library(lab: &Inner, say: &dyn Fn(&str)) -> Result<PathBuf> {
    let folder = parts::cache_folder(lab.cache()).join(format!("gpus-{}", digest()));
    let path = folder.join(NAME);
    if path.exists() {
        return Ok(path);
    }
    fs::create_dir_all(&folder)?;
    lab.tools(&["gcc", "libc6-dev"], say)?;
    let new = tempfile(&folder);
    let source = new.with_extension("c");
    fs::write(&source, LIBRARY)?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", &format!("-Wl,-soname,{NAME}"), "-o"]).arg(&new).arg(&source);
    command::checked(&mut cc)?;
    fs::remove_file(&source)?;
    // Two tests may have compiled it: it is the same.
    fs::rename(new, &path)?;
    Ok(path)
}

/// A name that no other process or thread uses.
fn tempfile(folder: &Path) -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    folder.join(format!("new-{}-{number}", std::process::id()))
}

fn digest() -> String {
    let mut hash = Sha256::new();
    for text in [LIBRARY, include_str!("gpus.rs"), include_str!("image.rs"), v::DEVICE_PLUGIN] {
        hash.update(text);
    }
    hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_has_the_plugins_version() {
        assert!(DEVICE_PLUGIN_IMAGE.ends_with(&format!(":v{}", v::DEVICE_PLUGIN)));
    }
}
