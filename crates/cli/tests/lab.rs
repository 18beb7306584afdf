//! `converge test` runs in the program `converge-lab`.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

use std::process::Command;

fn reply(command: &mut Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn without_the_lab_beside_it_converge_says_how_to_install_it() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("converge");
    std::fs::copy(env!("CARGO_BIN_EXE_converge"), &alone).unwrap();
    let (code, text) =
        reply(Command::new(&alone).args(["test", "--pure", "roles/any"]).env("PATH", folder.path()));
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("needs the program converge-lab") && text.contains("cargo install"), "{text}");
    // A wrong command line is known without it.
    let (code, text) = reply(Command::new(&alone).args(["test", "--no-such"]).env("PATH", folder.path()));
    assert_eq!(code, Some(64), "{text}");
}

#[test]
fn the_lab_of_another_version_is_refused() {
    let (code, text) =
        reply(Command::new(env!("CARGO_BIN_EXE_converge-lab")).args(["converge", "0.0.1", "test", "--pure"]));
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("converge 0.0.1"), "{text}");
}

/// ADR 26: the names of the lab's functions are in the lab's program alone. They are in a binary that is not stripped, as those of tests are. In the name of
/// a function the length stands before that of the crate; without it the linker's list of files has the crate too.
#[test]
fn converge_holds_nothing_of_the_lab() {
    let holds = |program: &str| {
        let search =
            |name: &str| Command::new("grep").args(["-qaF", name, program]).status().unwrap().success();
        [search("12converge_lab"), search("15converge_engine")]
    };
    assert_eq!(holds(env!("CARGO_BIN_EXE_converge-lab")), [true, true]);
    assert_eq!(holds(env!("CARGO_BIN_EXE_converge")), [false, true]);
}
