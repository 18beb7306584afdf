//! The files of a crate do not use each other in a circle.
//!
//! A file and the files in the folder of its name are one thing: they may use each other. A name that a file only re-exports belongs to
//! the file that defines it.

use super::code::without_tests;
use super::table;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Circles that stay: the crate, its files, and why.
const JUSTIFIED: &[(&str, &[&str], &str)] = &[
    (
        "ssh",
        &["connect", "jump"],
        "a host behind a jump host connects through it, and a jump host is connected as a host",
    ),
    (
        "template",
        &[
            "ansible", "bounds", "chain", "compiled", "engine", "explain", "files", "filters", "frame",
            "guards", "include", "lookup", "measure", "registry", "scope", "slices",
        ],
        "a filter renders templates, and the engine has the filters: the files are one recursive evaluator",
    ),
];

/// The place of a name: `["a", "b", "Name"]`.
type Path = Vec<String>;

/// A `use` item, with its visibility.
static USE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*(pub(?:\([^)]*\))?\s+)?use\s+([\w\s:,{}*]+);").unwrap());

/// The beginning of an item, with its name.
static DEFINITION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:fn|struct|enum|trait|type|const|static|macro_rules!)\s+(\w+)").unwrap()
});

/// A path of several parts.
static PATH: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\w+(?:::\w+)+").unwrap());

/// A file of a crate: its words, the paths in it, what it defines, and the names that its `use` items bring, each with its path as written and
/// whether it is re-exported.
struct Module {
    words: BTreeSet<String>,
    paths: BTreeSet<Path>,
    defined: BTreeSet<String>,
    names: BTreeMap<String, (Path, bool)>,
}

fn path_of(text: &str) -> Path {
    text.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// The names of a `use` item, each with its path.
fn names_of(tree: &str, before: &[String], found: &mut Vec<(String, Path)>) {
    let path = |text: &str| before.iter().cloned().chain(path_of(text)).collect::<Path>();
    let Some((lead, rest)) = tree.split_once('{') else {
        let (text, alias) = tree.split_once(" as ").map_or((tree, None), |(text, alias)| (text, Some(alias)));
        let mut path = path(text);
        path.pop_if(|last| last == "self");
        if let Some(name) = alias.map(str::trim).or(path.last().map(String::as_str)) {
            found.push((name.to_owned(), path.clone()));
        }
        return;
    };
    let lead = path(lead);
    let (mut depth, mut part) = (0_usize, String::new());
    for c in rest.chars() {
        match c {
            ',' if depth == 0 => names_of(&std::mem::take(&mut part), &lead, found),
            '}' if depth == 0 => break,
            c => {
                depth = if c == '{' { depth + 1 } else { depth - usize::from(c == '}') };
                part.push(c);
            }
        }
    }
    names_of(&part, &lead, found);
}

impl Module {
    fn new(text: &str) -> Self {
        let code = without_tests(text);
        let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n");
        let mut names = BTreeMap::new();
        for found in USE.captures_iter(&code) {
            let mut brought = Vec::new();
            names_of(&found[2], &[], &mut brought);
            let again = found.get(1).is_some();
            names.extend(brought.into_iter().map(|(name, path)| (name, (path, again))));
        }
        let code = USE.replace_all(&code, "");
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
        Self {
            words: words.map(str::to_owned).collect(),
            paths: PATH.find_iter(&code).map(|found| path_of(found.as_str())).collect(),
            defined: DEFINITION.captures_iter(&code).map(|found| found[1].to_owned()).collect(),
            names,
        }
    }
}

/// The files of a crate by their modules; `[]` is the crate itself.
fn modules_of(name: &str) -> BTreeMap<Path, Module> {
    let source = super::root().join("crates").join(name).join("src");
    let mut found = BTreeMap::new();
    for file in super::files(&source, super::is_code) {
        let own = file.strip_prefix(&source).unwrap().with_extension("");
        let mut own: Path = own.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        own.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
        found.insert(own, Module::new(&std::fs::read_to_string(&file).unwrap()));
    }
    found
}

/// The path from the crate's root of one that is written in this module; none where it leads out of the crate.
fn absolute(modules: &BTreeMap<Path, Module>, own: &[String], path: &[String]) -> Option<Path> {
    let first = path.first()?.as_str();
    let ups = path.iter().take_while(|part| *part == "super").count();
    let child = || modules.contains_key(&[own, &path[..1]].concat());
    match first {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([own, &path[1..]].concat()),
        "super" => Some([own.get(..own.len().checked_sub(ups)?)?, &path[ups..]].concat()),
        _ if child() => Some([own, path].concat()),
        _ => None,
    }
}

/// The file that defines what such a path names.
fn home(modules: &BTreeMap<Path, Module>, own: &[String], path: &[String], depth: usize) -> Option<Path> {
    let full = absolute(modules, own, path)?;
    let at = (0..=full.len()).rev().find(|at| modules.contains_key(&full[..*at]))?;
    let (file, rest) = full.split_at(at);
    if let Some(name) = rest.first().filter(|_| depth < 6)
        && let Some((path, _)) = modules[file].names.get(name)
        && !modules[file].defined.contains(name)
        && let Some(found) = home(modules, file, &[path, &rest[1..]].concat(), depth + 1)
    {
        return Some(found);
    }
    Some(file.to_vec())
}

/// The other files of the crate that each file uses.
fn uses(modules: &BTreeMap<Path, Module>) -> BTreeMap<Path, BTreeSet<Path>> {
    let of = |own: &Path, module: &Module| {
        let mut paths = module.paths.clone();
        for (name, (path, again)) in &module.names {
            // A re-export that the file does not use itself is no use.
            if !again || module.words.contains(name) {
                paths.insert(path.clone());
            }
            // `module::name`, where the module is brought by a `use`.
            let inner: Vec<Path> =
                paths.iter().filter(|inner| inner[0] == *name).map(|inner| inner[1..].to_vec()).collect();
            paths.extend(inner.into_iter().map(|inner| [path.clone(), inner].concat()));
        }
        let family = |other: &Path| other.starts_with(own) || own.starts_with(other);
        let found = paths.iter().filter_map(|path| home(modules, own, path, 0));
        found.filter(|other| !family(other)).collect::<BTreeSet<Path>>()
    };
    modules.iter().map(|(own, module)| (own.clone(), of(own, module))).collect()
}

/// The files that use each other in circles, each group once.
fn circles(uses: &BTreeMap<Path, BTreeSet<Path>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &Path| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(next) = open.pop().and_then(|at| uses.get(at)) {
            open.extend(next.iter().filter(|next| found.insert((*next).clone())));
        }
        found
    };
    let reachable: BTreeMap<&Path, BTreeSet<Path>> = uses.keys().map(|own| (own, reached(own))).collect();
    let circle = |own: &Path| {
        let others =
            reachable[own].iter().filter(|other| reachable.get(other).is_some_and(|back| back.contains(own)));
        others.map(|other| other.join("::")).collect::<BTreeSet<String>>()
    };
    uses.keys().map(circle).filter(|circle| !circle.is_empty()).collect()
}

/// The same between modules: a file stands for the first part of its path.
fn between_modules(uses: &BTreeMap<Path, BTreeSet<Path>>) -> BTreeMap<Path, BTreeSet<Path>> {
    let module = |file: &Path| file.first().map(|first| vec![first.clone()]);
    let mut found: BTreeMap<Path, BTreeSet<Path>> = BTreeMap::new();
    for (own, others) in uses {
        let Some(own) = module(own) else { continue };
        let others = others.iter().filter_map(module).filter(|other| *other != own);
        found.entry(own.clone()).or_default().extend(others);
    }
    found
}

fn crate_of(files: &[(&str, &str)]) -> BTreeMap<Path, Module> {
    files.iter().map(|(name, text)| (path_of(name), Module::new(text))).collect()
}

#[test]
fn a_circle_is_found_by_every_form_of_a_path() {
    let found = |files: &[(&str, &str)]| circles(&uses(&crate_of(files)));
    let ab = BTreeSet::from([BTreeSet::from(["a".to_owned(), "b".to_owned()])]);
    let lib = ("", "mod a;\nmod b;\npub use b::B;\npub use a::{self, A as C};\n");
    let b = ("b", "use crate::{a::{A}};\npub struct B(A);\n");
    for text in [
        "use crate::b::B;\npub struct A;",
        "use crate::B;\npub struct A;",
        "use super::{b, c as d};\npub struct A;\nfn f() { b::B::new() }",
        "pub struct A;\nfn f() -> super::B {}",
        "pub struct A;\nfn f() { crate::b::g() }",
    ] {
        assert_eq!(found(&[lib, ("a", text), b]), ab, "{text}");
    }
    for text in [
        "// crate::b::B\npub struct A;",
        "pub use crate::b::B;\npub struct A;",
        "pub struct A;\n#[cfg(test)]\nuse crate::B;\n",
        "use other::b::B;\npub struct A(B);",
    ] {
        assert_eq!(found(&[lib, ("a", text), b]), BTreeSet::new(), "{text}");
    }
    // A file and its parts are one thing; two parts are not.
    let parts = [
        ("a", "mod x;\nmod y;\npub struct A;\nfn f() { x::g() }"),
        ("a::x", "use super::A;\nuse super::y::Y;\nfn g() {}"),
    ];
    assert_eq!(found(&[lib, parts[0], parts[1], ("a::y", "pub struct Y;")]), BTreeSet::new());
    let back = ("a::y", "pub struct Y;\nfn h() { super::x::g() }");
    let xy = BTreeSet::from([BTreeSet::from(["a::x".to_owned(), "a::y".to_owned()])]);
    assert_eq!(found(&[lib, parts[0], parts[1], back]), xy);
}

#[test]
fn files_do_not_use_each_other_in_a_circle() {
    let mut found = BTreeSet::new();
    for name in table().into_iter().map(|row| row.name) {
        let modules = modules_of(&name);
        assert!(!modules.is_empty(), "{name}");
        let uses = uses(&modules);
        let engine =
            |(own, others): (&Path, &BTreeSet<Path>)| !own.is_empty() && others.contains(&path_of("engine"));
        assert!(name != "engine" || !uses.iter().any(engine), "{name}: engine.rs is for users of the crate");
        found.extend(circles(&uses).into_iter().map(|circle| (name.clone(), circle)));
    }
    let names = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect::<BTreeSet<String>>();
    let justified: BTreeSet<(String, BTreeSet<String>)> =
        JUSTIFIED.iter().map(|(name, files, _)| ((*name).to_owned(), names(files))).collect();
    assert_eq!(
        found, justified,
        "move what both sides need into a file of its own (left: found, right: justified)"
    );
}

/// A folder of the engine is one step of a run: what two steps need stands below both.
#[test]
fn modules_of_the_engine_do_not_use_each_other_in_a_circle() {
    let files = [
        ("", "mod a;\nmod b;\nmod c;"),
        ("a::x", "use crate::b::y::Y;"),
        ("b::y", "pub struct Y;"),
        ("b::z", "use crate::c::C;"),
        ("c", "use crate::a::w::W;\npub struct C;"),
        ("a::w", "pub struct W;"),
        ("a", "mod x;\nmod w;"),
        ("b", "mod y;\nmod z;"),
    ];
    let abc = BTreeSet::from(["a", "b", "c"].map(str::to_owned));
    let used = uses(&crate_of(&files));
    assert_eq!(circles(&used), BTreeSet::new(), "no files of these do");
    assert_eq!(circles(&between_modules(&used)), BTreeSet::from([abc]));
    let found = circles(&between_modules(&uses(&modules_of("engine"))));
    assert_eq!(found, BTreeSet::new(), "move what both sides need below both");
}
