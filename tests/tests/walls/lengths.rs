//! No file of Rust or shell is so long that nobody reads it to its end.

/// The most lines of a file.
const MOST: usize = 500;

#[test]
fn no_file_is_longer_than_five_hundred_lines() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<_> = ["crates", "xtask", "tests"].iter().map(|folder| root.join(folder)).collect();
    let (mut files, mut long) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "sh") {
                files += 1;
                let lines = std::fs::read_to_string(&path).unwrap().lines().count();
                if lines > MOST {
                    long.push(format!("{}: {lines} lines", path.display()));
                }
            }
        }
    }
    assert!(files > 500, "{files} files");
    assert!(long.is_empty(), "divide it by what its parts are about: {long:#?}");
}
