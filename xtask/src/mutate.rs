//! Mutations of `crates/ledger`, which decides what a rollback and a prune do: each is one wrong rule, and a test of the crate must catch it.
//!
//! A table of our own in the place of `cargo-mutants`: what is seeded are wrong rules of a rollback, chosen by what each would do to a host, and
//! the same ones each time. A tool that draws every operator of the crate seeds some that change nothing, and takes hours with 10,000 sequences each.

use crate::process::{AnyError, Result, cargo, limited, workspace};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One edit of a file, at the one place where `from` stands.
pub struct Mutation {
    /// Its path: here below `crates/ledger/src`.
    pub file: &'static str,
    from: &'static str,
    to: &'static str,
}

/// That `from` becomes `to` in this file.
pub const fn mutation(file: &'static str, from: &'static str, to: &'static str) -> Mutation {
    Mutation { file, from, to }
}

const MUTATIONS: &[Mutation] = &[
    mutation("compose.rs", "undo.left = change.after.clone();", "undo.left = change.before.clone();"),
    mutation(
        "compose.rs",
        "before: change.before.clone(),\n                between",
        "before: change.after.clone(),\n                between",
    ),
    mutation("compose.rs", "undos.reverse();", ""),
    mutation("compose.rs", "*place = next;", ""),
    mutation("compose.rs", "join_leads(&mut undos, &led);", ""),
    mutation(
        "compose.rs",
        "undo.states.extend(also.iter().map(|state| known(state, false, Some(change.after.clone()))));",
        "",
    ),
    mutation("compose.rs", "below_nothing(&mut undos);", ""),
    mutation("compose.rs", "self.left = now.clone();", ""),
    mutation("compose.rs", "known.is_planned && fulfils", "fulfils"),
    mutation("compose.rs", "self.between.truncate(known.pairs);", ""),
    mutation(
        "stacks.rs",
        "step.also.retain(|(run, _)| *run != by);",
        "step.also.retain(|(run, _)| *run == by);",
    ),
    mutation("stacks.rs", "!roles && run.finished &&", "!roles &&"),
    mutation("stacks.rs", "!roles && run.finished &&", "run.finished &&"),
    mutation(
        "stacks.rs",
        "SavedOutcome::Done | SavedOutcome::Moved)",
        "SavedOutcome::Done | SavedOutcome::Moved | SavedOutcome::Failed)",
    ),
    mutation("stacks.rs", " && run.planned.iter().all(begun)", ""),
    mutation(
        "stacks.rs",
        "|| (change.outcome != SavedOutcome::Unknown && to.as_ref() == Some(&change.after));",
        "|| to.is_some();",
    ),
    mutation(
        "stacks.rs",
        "[(at, change.before.clone()), (at, change.after.clone())]",
        "[(at, change.after.clone())]",
    ),
    mutation(
        "stacks.rs",
        "earlier.filter(|(_, r)| named(r)).map(|(n, _)| n).rev()",
        "earlier.filter(|(_, r)| named(r)).map(|(n, _)| n)",
    ),
    mutation("stacks.rs", "stack.retain(|s| s.run != *target);", ""),
    mutation("stacks.rs", "stack.retain(|s| !effect.given.iter().any(|g| g.is(s)));", ""),
    mutation("stacks.rs", "stack.extend(effect.taken.iter().cloned());", ""),
    mutation("stacks.rs", "stack.sort_by_key(|s| (s.run, s.change));", ""),
    mutation(
        "stacks.rs",
        "self.is_of(*at, project) && self.in_force(*at, goes_back)",
        "self.in_force(*at, goes_back)",
    ),
    mutation("stacks.rs", "|first| first.min(candidate)", "|first| first.max(candidate)"),
    mutation(
        "stacks.rs",
        "s.run >= start && self.is_of(s.run, project)",
        "s.run > start && self.is_of(s.run, project)",
    ),
    mutation("stacks.rs", "s.run >= start && self.is_of(s.run, project)", "s.run >= start"),
    mutation(
        "stacks.rs",
        "(target..self.runs.len()).filter(|at| self.is_of(*at, project))",
        "(target..self.runs.len())",
    ),
    mutation("stacks.rs", "self.is_led_back(thing, change) || ", ""),
    mutation("stacks.rs", "if !self.is_hidden(&thing, &targets)", "if !targets.is_empty()"),
    mutation("stacks.rs", "self.drop_what_came_back(by, object, targets);", ""),
    mutation("stacks/others.rs", "effects.for_each(|effect| effect.retain(&stays));", ""),
    mutation("stacks/others.rs", "s.run > after && !own(s.run)", "s.run < after && !own(s.run)"),
    mutation("stacks/others.rs", "first.before == last.after", "first.before != last.after"),
    mutation("stacks/others.rs", " && steps.iter().all(|s| s.also.is_empty())", ""),
    mutation("stacks/others.rs", ".filter(|(_, last)| last.outcome != SavedOutcome::Unknown)", ""),
    mutation("newest.rs", "runs.iter().rev().skip(1)", "runs.iter().rev().skip(9)"),
    mutation("newest.rs", "from.into_iter().min_by_key", "from.into_iter().max_by_key"),
    mutation(
        "managed.rs",
        "(change.is_known() && change.after == thing.before) || put_back",
        "change.after == thing.before || put_back",
    ),
    mutation("managed.rs", "let put_back = as_planned", "let put_back = true"),
    mutation("managed.rs", "known.is_none() && run.purpose", "run.purpose"),
    mutation("managed.rs", "if folded.insert(run.id.clone()) {", "folded.insert(run.id.clone());\n        {"),
    mutation(
        "base.rs",
        "OwnedObject { between, ..thing.clone() }",
        "OwnedObject { between, before: thing.left.clone(), ..thing.clone() }",
    ),
    mutation("base.rs", "flags.push_str(\",by\");", ""),
    mutation("base.rs", "open: rest.get(2)", "open: rest.get(9)"),
    mutation("records.rs", "(a.seq, &a.id).cmp(&(b.seq, &b.id))", "a.id.cmp(&b.id)"),
    mutation(
        "record.rs",
        "self.outcome == SavedOutcome::Unknown || self.before != self.after",
        "self.outcome != SavedOutcome::Unknown && self.before != self.after",
    ),
    mutation(
        "record.rs",
        "[\"close\", \"cut-off\", ..] => self.record.closed = true,",
        "[\"close\", \"cut-off\", ..] => (self.record.finished, self.record.closed) = (true, true),",
    ),
    mutation("record.rs", "if line.starts_with('!') {", "if line.starts_with(\"!!\") {"),
];

/// The most that the tests of one mutation may take. An endless loop counts as caught.
const LIMIT: Duration = Duration::from_secs(1200);

/// The end of a mutation.
#[derive(PartialEq, Eq, Debug)]
pub enum End {
    /// A test fails.
    Caught,
    /// No test fails.
    Survived,
    /// It does not compile, so it tests nothing.
    Void,
}

/// Applies the mutations one at a time to a copy of the workspace, and runs the crate's tests there.
///
/// Errors when one survives, or the tests fail without any.
pub fn run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("workspace");
    copy_workspace(&copy, &["Cargo.toml", "Cargo.lock", "crates", "docs", "tests", "xtask"])?;
    let target = folder.path().join("target");
    if !tests(&copy, &target, &[])? {
        return Err("the tests of converge-ledger fail without a mutation".into());
    }
    let mut bad = Vec::new();
    for (n, mutation) in MUTATIONS.iter().enumerate() {
        let begun = Instant::now();
        let path = copy.join("crates/ledger/src").join(mutation.file);
        let text = fs_err::read_to_string(&path)?;
        fs_err::write(&path, mutated(&text, mutation)?)?;
        let end = judge(&copy, &target)?;
        fs_err::write(&path, text)?;
        let name = format!("{}: {}", mutation.file, shown(mutation));
        println!("{:2} of {} {end:?} in {} s  {name}", n + 1, MUTATIONS.len(), begun.elapsed().as_secs());
        if end != End::Caught {
            bad.push(name);
        }
    }
    if bad.is_empty() {
        println!("all {} mutations are caught", MUTATIONS.len());
        return Ok(());
    }
    Err(format!("no test catches\n  {}", bad.join("\n  ")).into())
}

/// The drawn sequences first: of most mutations they need no more than a few.
fn judge(copy: &Path, target: &Path) -> Result<End> {
    let mut build = ledger(copy, target, "test");
    build.arg("--no-run");
    if !quiet(&build)? {
        return Ok(End::Void);
    }
    for which in [&["--test", "model"][..], &["--lib", "--test", "stacks"]] {
        if !tests(copy, target, which)? {
            return Ok(End::Caught);
        }
    }
    Ok(End::Survived)
}

fn tests(copy: &Path, target: &Path, which: &[&str]) -> Result<bool> {
    let mut command = ledger(copy, target, "test");
    command.args(which);
    quiet(&command)
}

fn ledger(copy: &Path, target: &Path, verb: &str) -> Command {
    let mut command = cargo(&[verb, "--quiet", "--offline", "--package", "converge-ledger"]);
    // That it fails is enough: the smallest sequence is not looked for.
    command.current_dir(copy).env("CARGO_TARGET_DIR", target).env("PROPTEST_MAX_SHRINK_ITERS", "0");
    command
}

fn quiet(command: &Command) -> Result<bool> {
    let mut command = limited(command, LIMIT);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    Ok(status.success())
}

/// Copies what of these paths is in the workspace and git knows, as it is now. Of the crates all, since cargo reads the manifests of all its members.
pub fn copy_workspace(to: &Path, paths: &[&str]) -> Result<()> {
    let from = workspace();
    let mut list = Command::new("git");
    list.current_dir(&from).args(["ls-files", "-z", "--"]).args(paths);
    let listed = crate::process::output(&mut list)?;
    let files: BTreeSet<&str> = listed.split('\0').filter(|name| !name.is_empty()).collect();
    for name in files {
        let (source, copied) = (from.join(name), to.join(name));
        // Git still lists a file that was removed without a commit.
        if !source.is_file() {
            continue;
        }
        fs_err::create_dir_all(copied.parent().unwrap_or(to))?;
        fs_err::copy(&source, &copied)?;
    }
    Ok(())
}

/// The text with the mutation.
pub fn mutated(text: &str, mutation: &Mutation) -> Result<String> {
    match text.matches(mutation.from).count() {
        1 => Ok(text.replacen(mutation.from, mutation.to, 1)),
        times => {
            let reported = format!(
                "{} holds `{}` {times} times: bring the table of the mutations up to date",
                mutation.file, mutation.from
            );
            Err(AnyError::from(reported))
        }
    }
}

/// The mutation in one line.
pub fn shown(mutation: &Mutation) -> String {
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("`{}` becomes `{}`", line(mutation.from), line(mutation.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_has_its_place_in_the_ledger() {
        for mutation in MUTATIONS {
            let path = workspace().join("crates/ledger/src").join(mutation.file);
            let text = fs_err::read_to_string(path).unwrap();
            let changed = mutated(&text, mutation).unwrap_or_else(|error| panic!("{error}"));
            assert_ne!(changed, text, "{}", shown(mutation));
        }
    }
}
