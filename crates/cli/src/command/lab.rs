//! `converge test` in the program `converge`: it becomes `converge-lab`, which has the disposable hosts.

use crate::args::TestArgs;
use crate::console::Console;
use crate::failure::Failure;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program.
const PROGRAM: &str = "converge-lab";

/// Returns only when the program cannot be started. The arguments have been checked; the program reads them again.
pub fn run(_args: TestArgs, _console: &Console) -> Result<u8, Failure> {
    let own =
        std::env::current_exe().map_err(|e| Failure::failed(format!("its own program is not found: {e}")))?;
    let program = beside(&own).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let error = Command::new(&program).args(["converge", env!("CARGO_PKG_VERSION")]).args(arguments).exec();
    if error.kind() == ErrorKind::NotFound {
        let folder = own.parent().unwrap_or(&own).display().to_string();
        return Err(Failure::refused(
            format!("`converge test` needs the program {PROGRAM}, which is neither in {folder} nor on PATH"),
            "install both programs: `cargo install --path crates/cli`, or copy converge-lab beside converge",
        ));
    }
    Err(Failure::failed(format!("cannot start {}: {error}", program.display())))
}

/// The program in the folder of this one.
fn beside(own: &Path) -> Option<PathBuf> {
    own.parent().map(|folder| folder.join(PROGRAM)).filter(|path| path.is_file())
}
