//! The surroundings of a script, as a user writes them: directory, environment, standard input.

use crate::above::need_directory;
use crate::look::{check_path, normal};
use crate::text_or_number::TextOrNumber;
use converge_objects::Surroundings;
use converge_resource::{ParamError, Stop, View};
use std::collections::BTreeMap;

/// Bytes of the environment and the input of a script: they are a part of the records of a run.
const LIMIT: usize = 64 << 10;

/// Environment variables by their names.
pub type Env = BTreeMap<String, TextOrNumber<true>>;

/// The parameters of a script's surroundings.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredSurroundings<'a> {
    pub chdir: Option<&'a String>,
    pub env: &'a Env,
    pub stdin: Option<&'a String>,
}

impl DeclaredSurroundings<'_> {
    pub fn validate(&self, errors: &mut Vec<ParamError>) {
        if let Some(dir) = self.chdir {
            check_path("/chdir", dir, errors);
        }
        let mut wrong = |p: &str, m: String, h: &str| errors.push(ParamError::new(p, m, h));
        for (name, value) in self.env {
            if !is_name(name) {
                let help = "write a name of letters, digits and `_` that begins with none of the digits";
                wrong("/env", format!("`{name}` is not the name of an environment variable"), help);
            }
            if value.0.contains('\0') {
                wrong("/env", format!("the value of {name} has a NUL in it"), "take it out");
            }
        }
        if self.env.iter().map(|(name, value)| name.len() + value.0.len()).sum::<usize>() > LIMIT {
            wrong("/env", "the environment has more than 64 KiB".to_owned(), "put the values into a file");
        }
        match self.stdin {
            Some(input) if input.contains('\0') => {
                wrong("/stdin", "the input has a NUL in it".to_owned(), "take it out");
            }
            Some(input) if input.len() > LIMIT => {
                let help = "put it into a file with a resource before this one, and write `CMD <FILE`";
                wrong("/stdin", "the input has more than 64 KiB".to_owned(), help);
            }
            _ => {}
        }
    }

    pub fn surroundings(&self) -> Surroundings {
        Surroundings {
            chdir: self.chdir.map(|dir| normal(dir)),
            env: self.env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect(),
            stdin: self.stdin.filter(|input| !input.is_empty()).cloned(),
        }
    }

    /// Makes sure that the directory is there when the item's turn comes, or may be. A user's own rights are not known here.
    pub fn need_dir(&self, view: &dyn View) -> Result<(), Stop> {
        let Some(dir) = self.chdir else { return Ok(()) };
        need_directory(view, "/chdir", &normal(dir))
    }
}

/// Whether a shell can export it.
fn is_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(good) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}
