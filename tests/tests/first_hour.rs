//! docs/first-hour.md, run as it is printed on fresh hosts; its output is held against the output shown there.

use converge_tests::guide::{Step, shows, steps};
use converge_tests::{World, root};

/// The addresses that the document gives its reader.
const ADDRESSES: [&str; 2] = ["192.0.2.10", "192.0.2.11"];

#[test]
fn every_command_does_what_is_printed() {
    let world = World::new(&format!("first-hour-{}", std::process::id()), 2).unwrap();
    let hosts = world.hosts();
    world.known_as(&[(ADDRESSES[0], &hosts[0]), (ADDRESSES[1], &hosts[1])]).unwrap();
    let document = std::fs::read_to_string(root().join("docs/first-hour.md")).unwrap();
    let mut folder = world.dir().join("work");
    std::fs::create_dir(&folder).unwrap();
    let mut differences = Vec::new();
    for step in steps(&document) {
        match step {
            Step::File { path, text } => {
                let path = folder.join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Step::Command { line, shown, exit } => {
                if let Some(into) = line.strip_prefix("cd ") {
                    folder.push(into);
                    continue;
                }
                println!("$ {line}");
                let ran = world.typed(&folder, &line).unwrap();
                // The terminal shows the answer that waits for the first question.
                let output = ran.stdout.strip_prefix("y\r\n").unwrap_or(&ran.stdout);
                println!("{output}");
                if ran.code != Some(exit) {
                    differences.push(format!("`{line}` ends with {:?}, not {exit}", ran.code));
                }
                if let Err(line_shown) = shows(&shown, output) {
                    differences.push(format!("`{line}` does not print: {line_shown}"));
                }
            }
        }
    }
    assert_eq!(differences, Vec::<String>::new());
}
