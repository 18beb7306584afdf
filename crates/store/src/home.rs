//! The home folder of who runs converge.

use camino::{Utf8Path, Utf8PathBuf};

/// A path of this machine: `~/` at its beginning stands for the home folder, where there is one.
pub fn from_home(path: &Utf8Path) -> Utf8PathBuf {
    let home = std::env::var("HOME").ok().filter(|home| !home.is_empty());
    below(path, home.as_deref())
}

fn below(path: &Utf8Path, home: Option<&str>) -> Utf8PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => Utf8Path::new(home).join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_first_step_stands_for_the_home_folder() {
        for (path, wanted) in
            [("~/k", "/h/k"), ("~", "/h/"), ("~k/f", "~k/f"), ("a/~/k", "a/~/k"), ("/k", "/k")]
        {
            assert_eq!(below(Utf8Path::new(path), Some("/h")), wanted);
        }
        assert_eq!(below(Utf8Path::new("~/k"), None), "~/k");
    }
}
