//! Shared parts of the tests: shells to try, a real sshd on a loopback port.
pub mod sshd;

use converge_ssh::{Become, Session, SessionOptions, Shell, SshEndpoint};
use std::process::Command;

/// The three shells that hosts have; dash alone where `CONVERGE_SHELLS` is `sh`. A missing one is reported, and on CI it is a failure.
pub fn shells() -> Vec<Vec<String>> {
    let all: [&[&str]; 4] = [&["dash"], &["bash", "--posix"], &["busybox", "ash"], &["bash"]];
    let is_one = std::env::var("CONVERGE_SHELLS").is_ok_and(|names| names == "sh");
    let wanted = if is_one { &all[..1] } else { &all };
    let mut found = Vec::new();
    for words in wanted {
        let there = Command::new(words[0])
            .args(&words[1..])
            .args(["-c", "true"])
            .output()
            .is_ok_and(|out| out.status.success());
        if there {
            found.push(words.iter().map(|word| (*word).to_owned()).collect());
        } else {
            missing(words[0]);
        }
    }
    assert!(!found.is_empty(), "no shell to test with");
    found
}

/// Says that something the tests need is not installed; fails on CI.
pub fn missing(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "{what} is not installed, and CI must test with it");
    eprintln!("NOT TESTED: {what} is not installed on this machine");
}

/// Options without the surroundings of the user who runs the tests.
pub fn options() -> SessionOptions {
    SessionOptions { agent: None, ..SessionOptions::default() }
}

/// A local shell of this kind.
pub async fn local(shell: &[String]) -> Shell {
    with(SessionOptions { shell: shell.to_vec(), ..options() }).await
}

/// A local shell with these options.
pub async fn with(options: SessionOptions) -> Shell {
    let session = Session::connect(&SshEndpoint::local("here"), &options).await.unwrap();
    session.shell(&Become::None).await.unwrap()
}
