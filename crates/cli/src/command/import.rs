//! `converge import`: a role or a playbook of Ansible, written as one of converge.

use crate::args::ImportArgs;
use crate::console::Console;
use crate::failure::{Failure, code};
use crate::project::catalog;
use camino::{Utf8Path, Utf8PathBuf};
use converge_import::{
    EditConflict, ImportFinding, ImportRecord, ImportRecordError, ImportReport, ImportedContent,
    ImportedFile, PresentFile, RoleFile, RoleFiles, TaskVerdict, compare, import_playbook, import_role,
    role_name,
};
use converge_render::Tone;
use converge_syntax::Source;
use std::collections::{BTreeMap, BTreeSet};

/// The record of what was written, in the folder of the output.
const RECORD: &str = ".converge/import.json";
/// The folders of a role that are looked into.
const FOLDERS: [&str; 7] = ["defaults", "vars", "tasks", "handlers", "meta", "templates", "files"];
/// Most files of a role.
const MAX_FILES: usize = 5000;
/// Most other roles whose tasks a role includes.
const MAX_OUTER: usize = 100;
/// The largest file that is read as text.
const MAX_TEXT: u64 = 4 << 20;
/// The largest file that is copied: what `file` takes.
const MAX_COPY: u64 = 64 << 20;

/// A file to write: its path below the output, and its bytes.
struct OutputFile {
    path: String,
    bytes: Vec<u8>,
}

/// All that an import comes to.
#[derive(Default)]
struct WholeImport {
    report: ImportReport,
    outputs: Vec<OutputFile>,
}

pub fn run(args: ImportArgs, console: &Console) -> Result<u8, Failure> {
    let mut whole = WholeImport::default();
    if args.path.is_dir() {
        if !FOLDERS.iter().any(|folder| args.path.join(folder).is_dir()) {
            return Err(Failure::usage(
                format!("{} is not a role: it has none of the folders {}", args.path, FOLDERS.join(", ")),
                "name a role's folder or a playbook",
            ));
        }
        let full = args
            .path
            .canonicalize_utf8()
            .map_err(|e| Failure::usage(e.to_string(), "name a role's folder"))?;
        let name = full.file_name().unwrap_or("role").to_owned();
        role(&mut whole, &role_files(&role_name(&name), &args.path)?, &args.path)?;
    } else {
        playbook(&mut whole, &args.path)?;
    }
    let record = written(&args.out, &whole.outputs, console)?;
    write(&args.out, &whole.outputs, record)?;
    let files: Vec<String> = whole.outputs.iter().map(|output| output.path.clone()).collect();
    if console.json {
        console.print_json(&converge_render::import_json(&whole.report, &files));
    } else {
        console.print(&converge_render::imported(&whole.report, &files, args.out.as_str(), &console.look));
    }
    Ok(code::DONE)
}

/// The path in front of those of a folder's files.
fn shown(folder: &Utf8Path) -> String {
    format!("{}/", folder.as_str().trim_end_matches('/'))
}

/// A role with its files, and the collection that it is a part of.
fn role_files(name: &str, folder: &Utf8Path) -> Result<RoleFiles, Failure> {
    let mut files = RoleFiles::new(name, shown(folder), read_role(folder)?);
    let roles = folder.canonicalize_utf8().ok().and_then(|full| full.parent().map(Utf8Path::to_owned));
    let collection = roles.filter(|roles| roles.file_name() == Some("roles"));
    let galaxy = collection.and_then(|roles| roles.parent().map(|above| above.join("galaxy.yml")));
    let text = galaxy.filter(|path| fs_err::metadata(path).is_ok_and(|found| found.len() <= MAX_TEXT));
    let text = text.and_then(|path| fs_err::read_to_string(path).ok());
    if let Some(text) = text {
        files = files.in_collection(&text);
    }
    outer(&mut files, folder)?;
    Ok(files)
}

/// Reads the other roles whose tasks a role includes, as far as they stand below the same folder `roles`.
fn outer(files: &mut RoleFiles, folder: &Utf8Path) -> Result<(), Failure> {
    let full = folder.canonicalize_utf8().unwrap_or_default();
    let Some(top) = full.ancestors().filter(|above| above.file_name() == Some("roles")).last() else {
        return Ok(());
    };
    let mut tried = BTreeSet::new();
    loop {
        let wanted: Vec<String> =
            files.outer_folders().into_iter().filter(|outer| tried.insert(outer.clone())).collect();
        if wanted.is_empty() || tried.len() > MAX_OUTER {
            return Ok(());
        }
        for outer in wanted {
            let place = folder.join(&outer);
            if place.canonicalize_utf8().is_ok_and(|full| full.starts_with(top) && full.is_dir()) {
                files.add_outer(&outer, read_role(&place)?);
            }
        }
    }
}

/// The files of a role. A link is read where it leads to a file of the same role: another one may lead anywhere.
fn read_role(folder: &Utf8Path) -> Result<BTreeMap<String, RoleFile>, Failure> {
    let mut files = BTreeMap::new();
    let Ok(root) = folder.canonicalize_utf8() else { return Ok(files) };
    for name in FOLDERS {
        let below = folder.join(name);
        if below.is_dir() && !below.is_symlink() {
            read_below(&below, name, &root, &mut files)?;
        }
    }
    Ok(files)
}

fn read_below(
    folder: &Utf8Path,
    lead: &str,
    root: &Utf8Path,
    files: &mut BTreeMap<String, RoleFile>,
) -> Result<(), Failure> {
    let failed =
        |e: std::io::Error| Failure::usage(format!("{folder}: {e}"), "name a folder that can be read");
    for entry in folder.read_dir_utf8().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = format!("{lead}/{}", entry.file_name());
        let kind = entry.file_type().map_err(failed)?;
        let is_link = kind.is_symlink();
        let leads_to_own = || {
            let target = entry.path().canonicalize_utf8();
            target.is_ok_and(|target| target.starts_with(root) && target.is_file())
        };
        if is_link && !leads_to_own() {
            return Err(Failure::usage(
                format!("{} is a link that leads to no file of the role, and is not followed", entry.path()),
                "put the file itself there",
            ));
        }
        if kind.is_dir() {
            read_below(entry.path(), &path, root, files)?;
            continue;
        }
        if !kind.is_file() && !is_link {
            continue;
        }
        if files.len() >= MAX_FILES {
            return Err(Failure::usage(
                format!("{folder}: the role has more than {MAX_FILES} files"),
                "import the role without them",
            ));
        }
        let size = fs_err::metadata(entry.path()).map_err(failed)?.len();
        let is_read = !path.starts_with("files/") && size <= MAX_TEXT;
        let text = if is_read {
            fs_err::read(entry.path()).ok().and_then(|bytes| String::from_utf8(bytes).ok())
        } else {
            None
        };
        files.insert(path, text.map_or(RoleFile::Other, RoleFile::Text));
    }
    Ok(())
}

/// Imports a role, with its files below `roles/NAME`.
fn role(whole: &mut WholeImport, files: &RoleFiles, folder: &Utf8Path) -> Result<Vec<String>, Failure> {
    let made = import_role(files, &catalog())?;
    for ImportedFile { path, content } in made.files {
        let bytes = match content {
            ImportedContent::Text(text) => text.into_bytes(),
            ImportedContent::Copy(from) => copied(&folder.join(from))?,
        };
        whole.outputs.push(OutputFile { path: format!("roles/{}/{path}", files.name), bytes });
    }
    whole.report.findings.extend(made.findings);
    Ok(made.requires)
}

fn copied(path: &Utf8Path) -> Result<Vec<u8>, Failure> {
    let failed = |e: std::io::Error| Failure::usage(e.to_string(), "name a role whose files can be read");
    if fs_err::metadata(path).map_err(failed)?.len() > MAX_COPY {
        return Err(Failure::usage(
            format!("{path} is larger than {} MiB", MAX_COPY >> 20),
            "let hosts fetch it with `download`",
        ));
    }
    fs_err::read(path).map_err(failed)
}

fn playbook(whole: &mut WholeImport, path: &Utf8Path) -> Result<(), Failure> {
    let source = Source::read(path.as_std_path()).map_err(|e| {
        Failure::usage(format!("cannot read {path}: {e}"), "name a role's folder or a playbook")
    })?;
    let folder = path.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let stem = path.file_stem().unwrap_or("site");
    let above = folder.join("..");
    let find = |name: &str| -> Option<Utf8PathBuf> {
        [folder.join("roles"), above.join("roles")]
            .into_iter()
            .flat_map(|roles| [roles.join(name), roles.join(role_name(name))])
            .find(|role| role.is_dir())
    };
    let beside = read_role(folder)?;
    let made = import_playbook(source, stem, &shown(folder), &beside, &BTreeSet::new())?;
    whole.report.findings.extend(made.findings);
    let mut done = BTreeSet::new();
    let mut names: Vec<(String, Option<String>)> =
        made.roles.iter().map(|name| (name.clone(), None)).collect();
    let in_play: BTreeSet<String> = made.roles.iter().map(|name| role_name(name)).collect();
    let mut at = 0;
    while let Some((name, needed_by)) = names.get(at).cloned() {
        at += 1;
        let short = role_name(&name);
        if let Some(by) = needed_by.filter(|_| !in_play.contains(&short)) {
            let why = format!("the role `{by}` requires `{name}`, which no play has");
            whole.report.findings.push(missing(path, &name, why, "name it in the play, before that role"));
        }
        if !done.insert(short.clone()) {
            continue;
        }
        let Some(found) = find(&name) else {
            let why = format!("there is no folder roles/{name}");
            whole.report.findings.push(missing(path, &name, why, "fetch the role, and import it too"));
            continue;
        };
        let requires = role(whole, &role_files(&short, &found)?, &found)?;
        names.extend(requires.into_iter().map(|required| (required, Some(short.clone()))));
    }
    for own in &made.own {
        role(whole, own, folder)?;
    }
    let name = path.file_name().unwrap_or("site.yaml").replace(".yml", ".yaml");
    whole.outputs.push(OutputFile { path: format!("playbooks/{name}"), bytes: made.text.into_bytes() });
    Ok(())
}

/// An open finding about a role that a playbook names.
fn missing(path: &Utf8Path, name: &str, why: String, write: &str) -> ImportFinding {
    ImportFinding {
        file: path.to_string(),
        line: 1,
        name: name.to_owned(),
        module: "role".to_owned(),
        verdict: TaskVerdict::Open,
        became: "open item".to_owned(),
        why: vec![why],
        write: Some(write.to_owned()),
        is_task: false,
        is_handler: false,
    }
}

/// The record for what will be written; refused where a person's edits would be lost.
fn written(out: &Utf8Path, outputs: &[OutputFile], console: &Console) -> Result<ImportRecord, Failure> {
    let path = out.join(RECORD);
    let mut record = match fs_err::read_to_string(&path) {
        Ok(text) => ImportRecord::read(&text).map_err(|error| {
            let why = match error {
                ImportRecordError::Unreadable(why) => format!("{path} cannot be read: {why}"),
                ImportRecordError::Unknown { format, version } => {
                    format!("{path} is `{format}` of version {version}, which this program does not know")
                }
            };
            Failure::usage(why, "name another folder with --out")
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => ImportRecord::default(),
        Err(error) => return Err(Failure::failed(error)),
    };
    let mut edited = Vec::new();
    for output in outputs {
        let path = out.join(&output.path);
        let present = match fs_err::read(&path) {
            Ok(bytes) => PresentFile::Bytes(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => PresentFile::Missing,
            Err(error) => return Err(Failure::failed(error)),
        };
        if let Some(conflict) = compare(&record, &output.path, &present, &output.bytes) {
            show(&path, conflict, &present, output, console);
            edited.push(output.path.clone());
        }
        record.note(&output.path, &output.bytes);
    }
    if edited.is_empty() {
        return Ok(record);
    }
    Err(Failure::refused(
        format!("nothing was written: edited since the last import: {}", edited.join(", ")),
        "import into another folder with --out, and take over what you want",
    ))
}

fn show(
    path: &Utf8Path,
    conflict: EditConflict,
    present: &PresentFile,
    output: &OutputFile,
    console: &Console,
) {
    match (conflict, present, std::str::from_utf8(&output.bytes)) {
        (EditConflict::Removed, ..) => {
            console.remark(Tone::Change, "", &format!("{path} was removed since the last import"))
        }
        (EditConflict::Edited, PresentFile::Bytes(bytes), Ok(new)) => {
            let present = String::from_utf8_lossy(bytes);
            console.remark_text(&converge_render::edited(path.as_str(), &present, new, &console.error_look));
        }
        (EditConflict::Edited, ..) => {
            console.remark(Tone::Change, "", &format!("{path} was edited since the last import"))
        }
    }
}

fn write(out: &Utf8Path, outputs: &[OutputFile], record: ImportRecord) -> Result<(), Failure> {
    let put = |path: &str, bytes: &[u8]| {
        let path = out.join(path);
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder)?;
        }
        fs_err::write(path, bytes)
    };
    for output in outputs {
        put(&output.path, &output.bytes).map_err(Failure::failed)?;
    }
    put(RECORD, record.write().as_bytes()).map_err(Failure::failed)
}
