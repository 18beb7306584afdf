//! No file of Rust or shell is so long that nobody reads it to its end.

use super::{ends, files, root};
use std::path::Path;

/// The most lines of a file.
const MOST: usize = 500;

#[test]
fn no_file_is_longer_than_five_hundred_lines() {
    let is_code = |path: &Path| ends(path, "rs") || ends(path, "sh");
    let folders = ["crates", "xtask", "tests"].iter();
    let code: Vec<_> = folders.flat_map(|folder| files(root().join(folder), is_code)).collect();
    let mut long = Vec::new();
    for path in &code {
        let lines = std::fs::read_to_string(path).unwrap().lines().count();
        if lines > MOST {
            long.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(code.len() > 500, "{} files", code.len());
    assert!(long.is_empty(), "divide it by what its parts are about: {long:#?}");
}
