//! All files of shell: their form (shfmt, by `.editorconfig`), what is wrong in them (shellcheck, by `.shellcheckrc`), and their names.

use crate::process::{Result, output, workspace};
use crate::tools;
use fs_err as fs;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where shell lies.
const FOLDERS: &[&str] = &["crates", "bench", "tests", "xtask"];
/// Programs of bash; all other shell is POSIX.
const BASH: &[&str] = &[".ci/run", "crates/cli/src/command/complete/converge.bash"];
/// Shell that hosts run: a function of it is named so, whichever file it is in.
const SENT: &[&str] = &["crates/objects/", "crates/host/", "crates/engine/"];
const PREFIX: &str = "cv_";
/// Of it the files that are one program, of which each uses what others set.
const ONE: &[&str] = &["crates/objects/", "crates/host/"];
/// The prefix of variables that a caller may set.
const GLOBAL: &str = "CV_";

/// Checks them all; how many there are.
///
/// Errors with all that is wrong.
pub fn check() -> Result<usize> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        find(&workspace().join(folder), "sh", &mut files)?;
    }
    files.sort();
    let relative = |path: &PathBuf| path.strip_prefix(workspace()).unwrap_or(path).to_owned();
    let files: Vec<PathBuf> = files.iter().map(relative).collect();
    let (shfmt, shellcheck) = (tools::shfmt()?, tools::shellcheck()?);
    let mut wrong = Vec::new();
    let mut command = |program: &Path, words: &[&str], files: &[PathBuf]| {
        let mut command = Command::new(program);
        if let Err(error) = output(command.current_dir(workspace()).args(words).args(files)) {
            wrong.push(without_files(&error.to_string()));
        }
    };
    let bash: Vec<PathBuf> = BASH.iter().map(PathBuf::from).collect();
    command(&shfmt, &["--diff"], &[files.as_slice(), &bash].concat());
    command(&shellcheck, &["--shell=sh"], &files);
    command(&shellcheck, &["--shell=bash"], &bash);
    let sent = |folders: &[&str]| -> Result<Vec<(&PathBuf, String)>> {
        let files = files.iter().filter(|file| folders.iter().any(|folder| file.starts_with(folder)));
        files.map(|file| Ok((file, fs::read_to_string(workspace().join(file))?))).collect()
    };
    for (file, text) in sent(SENT)? {
        wrong.extend(badly_named(&text).into_iter().map(|(line, name)| {
            format!("{}:{line}: `{name}`: functions that hosts run begin with `{PREFIX}`", file.display())
        }));
    }
    for file in files.iter().chain(&bash) {
        let text = fs::read_to_string(workspace().join(file))?;
        let kind = file.file_stem().unwrap_or_default().to_string_lossy();
        wrong.extend(undescribed(&text, &kind).into_iter().map(|(line, name)| {
            format!("{}:{line}: `{name}`: no comment says what it reads, sets and prints", file.display())
        }));
    }
    let one: String = sent(ONE)?.into_iter().map(|(_, text)| text).collect();
    let all = tempfile::Builder::new().prefix("all-shell-of-hosts-").suffix(".sh").tempfile()?;
    fs::write(all.path(), &one)?;
    // The rules of `.shellcheckrc` are for single files.
    let words = ["--shell=sh", "--norc", "--include=SC2154"];
    if let Err(error) = output(Command::new(&shellcheck).args(words).arg(all.path())) {
        wrong.push(format!("a variable that nothing sets: {error}"));
    }
    // Settings of items come from `crates/resources`.
    let rust = rust_text(&["crates"])?;
    wrong.extend(undeclared(&one, &rust).into_iter().map(|name| {
        format!("{name}: neither the shell of {} nor any Rust sets it, and it has no default", ONE.join(", "))
    }));
    wrong.extend(inputs_set_twice(&one).into_iter().map(|(name, function)| {
        format!("{function}: it sets {name}, which another function takes as an input, and so do others: its comment names it")
    }));
    if wrong.is_empty() { Ok(files.len() + bash.len()) } else { Err(wrong.join("\n").into()) }
}

/// The output of a program, without its command line, which names all files.
fn without_files(error: &str) -> String {
    let (line, reply) = error.split_once('\n').unwrap_or((error, ""));
    format!("{}:\n{reply}", line.split(' ').next().unwrap_or_default())
}

/// The files below a folder whose names end so.
fn find(folder: &Path, end: &str, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            find(&path, end, into)?;
        } else if path.extension().is_some_and(|own| own == end) {
            into.push(path);
        }
    }
    Ok(())
}

/// All Rust below these folders.
fn rust_text(folders: &[&str]) -> Result<String> {
    let mut files = Vec::new();
    for folder in folders {
        find(&workspace().join(folder), "rs", &mut files)?;
    }
    let texts: std::io::Result<Vec<String>> = files.iter().map(fs::read_to_string).collect();
    Ok(texts?.concat())
}

/// The global variables that shell reads without a default, and that neither it nor this Rust sets.
fn undeclared<'a>(shell: &'a str, rust: &str) -> BTreeSet<&'a str> {
    let lines = || shell.lines().filter(|line| !line.trim_start().starts_with('#'));
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    // Each place where one stands, with what is before and behind it.
    let places = |line: &'a str| -> Vec<(&'a str, &'a str, &'a str)> {
        let places = line.match_indices(GLOBAL).map(|(at, _)| {
            let (before, rest) = line.split_at(at);
            let (name, behind) = rest.split_at(rest.find(|c: char| !is_name(c)).unwrap_or(rest.len()));
            (before, name, behind)
        });
        places.collect()
    };
    let all: Vec<_> = lines().flat_map(places).collect();
    let is_set = |(before, _, behind): &(&str, &str, &str)| {
        let read = before.rsplit([';', '|', '{', '&']).next().is_some_and(|words| words.contains("read -r "));
        let looped = before.ends_with("for ");
        !before.ends_with('$') && (behind.starts_with('=') || behind.starts_with(":=") || read || looped)
    };
    let set: BTreeSet<&str> = all.iter().filter(|place| is_set(place)).map(|(_, name, _)| *name).collect();
    let used = all.iter().filter(|(before, _, behind)| {
        before.ends_with('$') || (before.ends_with("${") && !behind.starts_with([':', '-']))
    });
    used.map(|(_, name, _)| *name).filter(|name| !set.contains(name) && !rust.contains(name)).collect()
}

/// A function of shell: its comment, and its lines.
struct Function<'a> {
    name: &'a str,
    comment: String,
    body: Vec<&'a str>,
}

/// All functions that begin a line.
fn functions(shell: &str) -> Vec<Function<'_>> {
    let (mut found, mut comment, mut is_open) = (Vec::<Function>::new(), String::new(), false);
    for line in shell.lines() {
        let head = line.split_once("() ").filter(|(name, _)| name.starts_with(PREFIX) && !name.contains(' '));
        if let (false, Some((name, body))) = (is_open, head) {
            is_open = !body.trim_end().ends_with(['}', ')']);
            found.push(Function { name, comment: std::mem::take(&mut comment), body: vec![body] });
        } else if let (true, Some(last)) = (is_open, found.last_mut()) {
            last.body.push(line);
            is_open = line != "}" && line != ")";
        } else if line.starts_with('#') {
            comment.push_str(line);
        } else {
            comment.clear();
        }
    }
    found
}

/// Variables that a function reads with a default (`${x:-}`) before it sets them, and that several functions set: each with such a function whose
/// comment does not name it. Two meanings of one name show nowhere else.
fn inputs_set_twice(shell: &str) -> BTreeSet<(&str, &str)> {
    let functions = functions(shell);
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut inputs, mut setters) = (BTreeSet::new(), BTreeMap::<&str, Vec<&Function>>::new());
    for function in &functions {
        let mut own = BTreeSet::new();
        for line in &function.body {
            for (at, _) in line.match_indices(PREFIX) {
                let (before, rest) = line.split_at(at);
                let (name, behind) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
                let is_set = behind.starts_with('=') && !before.ends_with(is_name);
                if is_set || before.ends_with("for ") || before.ends_with("read -r ") {
                    own.insert(name);
                } else if before.ends_with("${")
                    && [":-", ":+", "-", "+"].iter().any(|sign| behind.starts_with(sign))
                    && !own.contains(name)
                {
                    inputs.insert(name);
                }
            }
        }
        own.into_iter().for_each(|name| setters.entry(name).or_default().push(function));
    }
    let several = setters.into_iter().filter(|(name, by)| by.len() > 1 && inputs.contains(name));
    let silent = several.flat_map(|(name, by)| by.into_iter().map(move |function| (name, function)));
    silent.filter(|(name, by)| !by.comment.contains(*name)).map(|(name, by)| (name, by.name)).collect()
}

/// The name of the function that begins in a line, inside another one or not.
fn defined(line: &str) -> Option<&str> {
    let (name, rest) = line.trim_start().split_once("()")?;
    let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (word && rest.trim_start().starts_with(['{', '('])).then_some(name)
}

/// Functions without the prefix, with their lines.
fn badly_named(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().zip(1..).filter_map(|(line, number)| Some((number, defined(line)?)));
    lines.filter(|(_, name)| !name.starts_with(PREFIX)).collect()
}

/// The functions that every object defines; `converge_resource::Object::SHELL` and `docs/adding-a-kind.md` describe them.
const OF_OBJECTS: &[&str] = &["see", "line", "save", "apply", "adopt", "restore", "same", "keeps"];

/// Functions without a comment above them, with their lines.
fn undescribed<'a>(text: &'a str, kind: &str) -> Vec<(usize, &'a str)> {
    let own = |name: &str| OF_OBJECTS.iter().any(|verb| name == format!("{PREFIX}{verb}_{kind}"));
    let mut described = false;
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        found.extend(defined(line).filter(|name| !described && !own(name)).map(|name| (number, name)));
        let line = line.trim_start();
        // A directive of shellcheck describes nothing, and may stand between.
        described = line.starts_with('#') && (described || !line.starts_with("# shellcheck"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_the_prefix_is_found() {
        let text = "cv_a() {\n  has() { true; }\n}\nb_2() (\n)\ncase x() in\nawk 'end_of_run()'\n";
        assert_eq!(badly_named(text), [(2, "has"), (4, "b_2")]);
    }

    #[test]
    fn a_function_without_a_comment_is_found() {
        let text = "# What.\n# shellcheck disable=SC2086\ncv_a() {\n}\ncv_b() {\n}\n# shellcheck disable=SC2086\ncv_c() (\n)\ncv_see_x() {\n}\ncv_see_y() {\n}\n# What.\nd() {\n  e() { true; }\n  # What.\n  f() { end_of_run(); }\n  end()\n}";
        assert_eq!(undescribed(text, "x"), [(5, "cv_b"), (8, "cv_c"), (12, "cv_see_y"), (16, "e")]);
    }

    #[test]
    fn a_global_that_nothing_sets_is_found() {
        let shell = "# $CV_A\necho \"$CV_B ${CV_C#x} ${CV_D:-1} ${CV_E-}\"\nCV_B=1\nread -r CV_F x\nfor CV_I; do :; done\necho $CV_F ${CV_G} $CV_H $CV_I";
        assert_eq!(undeclared(shell, "CV_H="), BTreeSet::from(["CV_C", "CV_G"]));
    }

    #[test]
    fn an_input_that_two_functions_set_is_found() {
        let asks = "cv_asks() { cv_x=$1; }\n";
        let takes = "# cv_takes: sets cv_x for its own calls.\ncv_takes() {\n  [ -z \"${cv_x:-}\" ] || return 1\n  cv_x=yes cv_y=1\n  echo ${cv_y:-}\n}\ncv_y() { cv_y=2; }\n";
        assert!(inputs_set_twice(takes).is_empty());
        assert_eq!(inputs_set_twice(&format!("{asks}{takes}")), BTreeSet::from([("cv_x", "cv_asks")]));
    }

    #[test]
    fn a_complaint_does_not_name_all_files() {
        assert_eq!(
            without_files("shellcheck --shell=sh a.sh b.sh: exit status: 1\nin a.sh:\nx"),
            "shellcheck:\nin a.sh:\nx"
        );
    }

    #[test]
    fn shell_is_found_where_it_lies() {
        let mut files = Vec::new();
        find(&workspace().join("crates/objects"), "sh", &mut files).unwrap();
        assert!(files.iter().any(|file| file.ends_with("src/common.sh")), "{files:?}");
        assert!(files.iter().all(|file| file.extension().unwrap() == "sh"));
    }
}
