//! copy, template, file.

use super::params::param;
use super::places::{in_directory, is_file, kind_of};
use super::{Context, Conversion, ConvertedPart, Params};
use crate::expression::{ImportProblem, whole_expression};
use converge_syntax::Node;

/// The last part of a path; empty where the path ends with a slash.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The path of the file itself: a name that ends with a slash is a directory.
fn target(dest: &str, source: &str) -> String {
    match whole_expression(source) {
        _ if !dest.ends_with('/') => dest.to_owned(),
        Some(expression) => format!("{dest}{{{{ ({}) | basename }}}}", expression.trim()),
        None => format!("{dest}{}", base(source)),
    }
}

const NOT_FORCED: &str = "`force: false` makes the file only where it is missing";

pub(super) fn copy(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["backup", "decrypt", "follow", "local_follow", "checksum", "directory_mode"]);
    if params.flag(&["remote_src"])? == Some(true) {
        return copied_on_host(params, context);
    }
    let is_preserved = params.flag(&["force"])? == Some(false);
    if is_preserved && let Some(content) = params.clone().text(&["content"]) {
        params.ignore(&["content"]);
        return made_once(params, content);
    }
    if is_preserved {
        return Err(ImportProblem::new(
            NOT_FORCED,
            "write `file` where its content is to be kept, else `command` with `creates`",
        ));
    }
    let dest = params.needed(&["dest"])?;
    let content = params.take(&["content"]);
    let source = params.text(&["src"]);
    let mut out = Vec::new();
    let mut is_unknown = false;
    match (content, source) {
        (Some(content), _) => {
            let text = content.scalar_text().ok_or_else(|| {
                ImportProblem::new("the content is not text", "write `content: \"{{ VALUE | to_json }}\"`")
            })?;
            if dest.ends_with('/') {
                return Err(ImportProblem::new(
                    "`dest` with `content` is a directory",
                    "write the path of the file",
                ));
            }
            out.push(param("path", dest));
            out.push(param("content", text));
        }
        (None, Some(source)) => {
            let source = source.trim_start_matches("./").to_owned();
            let source = source.strip_prefix("files/").unwrap_or(&source).to_owned();
            if source.starts_with('/') || source.contains("../") {
                return Err(ImportProblem::new(
                    format!("`{source}` is outside of the role"),
                    "put the file below files/ of the role",
                ));
            }
            let folder = source.trim_end_matches('/');
            if context.folders.contains(folder) {
                return copied_folder(params, folder, &source, &dest);
            }
            if !source.contains("{{") && !context.files.contains(&format!("files/{source}")) {
                return Err(ImportProblem::new(
                    format!("the role has no file files/{source}"),
                    format!("put it to files/{source} of the role"),
                ));
            }
            // A path that a variable begins may be any path of the controller.
            if source.starts_with("{{") && source.contains("}}/") {
                return Err(ImportProblem::new(
                    format!("`{source}`: the folder of the file is known on the host only"),
                    "put the file below files/ of the role, and name it there",
                ));
            }
            // A variable may hold the path of a directory too, but for one that the role itself gives a file.
            let known = whole_expression(&source).map(|name| context.literals.get(name));
            is_unknown = known.is_some_and(|known| {
                !context.has_loop
                    && !known.is_some_and(|path| context.files.contains(&format!("files/{path}")))
            });
            out.push(param("path", target(&in_directory(&dest, context), &source)));
            out.push(param("source", source));
        }
        (None, None) => {
            return Err(ImportProblem::new(
                "neither `src` nor `content` is given",
                "write `content` or `source`",
            ));
        }
    }
    params.attributes(&mut out)?;
    params.same(&[("validate", "validate")], &mut out);
    params.finish("file")?;
    Ok(Conversion::one("file", out)
        .remark_if(is_unknown, "it is taken for a file below files/: a directory is an error of the plan"))
}

/// A file that gets its content, its owner and its mode where it is missing: one that is there keeps all of them.
fn made_once(mut params: Params, content: String) -> Result<Conversion, ImportProblem> {
    let path = params.needed(&["dest"])?;
    if path.ends_with('/') || content.contains("omit") {
        return Err(ImportProblem::new(NOT_FORCED, "write `command` with `creates`"));
    }
    let mut attributes = Vec::new();
    params.attributes(&mut attributes)?;
    params.finish("command")?;
    let file = super::shell_text::word(&path);
    let write = if content.is_empty() { format!(": >{file}") } else { format!("cat >{file}") };
    let mut out = vec![param("run", with_attributes(&write, &file, &attributes)?)];
    if !content.is_empty() {
        out.push(param("stdin", content));
    }
    out.push(param("unless", format!("test -f {file}")));
    Ok(Conversion::one("command", out))
}

/// The text of a command that makes a file, and gives it its owner and its mode.
fn with_attributes(make: &str, file: &str, attributes: &[(String, Node)]) -> Result<String, ImportProblem> {
    let mut all = vec![make.to_owned()];
    let mut mode = None;
    for (key, value) in attributes {
        let text = value.scalar_text().unwrap_or_default();
        if text.contains("omit") {
            return Err(ImportProblem::new(
                format!("`{key}` is left out where a variable says so"),
                "write `command` with `creates`, and `file` for owner and mode",
            ));
        }
        let value = super::shell_text::word(&text);
        match key.as_str() {
            "owner" => all.push(format!("chown {value} {file}")),
            "group" => all.push(format!("chgrp {value} {file}")),
            _ => mode = Some(format!("chmod {value} {file}")),
        }
    }
    let mask = if mode.is_some() { "umask 077; " } else { "" };
    all.extend(mode);
    Ok(format!("{mask}{}", all.join(" && ")))
}

/// A file of the host, copied there. A new one has the mode that it would have in Ansible; one that is there keeps it where none is given.
fn copied_on_host(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    let source = params.needed(&["src"])?;
    let dest = target(&params.needed(&["dest"])?, &source);
    let keeps = params.flag(&["force"])? == Some(false);
    let is_directory = |path: &str| in_directory(path, context).ends_with('/');
    if is_directory(&source) || is_directory(&dest) {
        return Err(ImportProblem::new(
            "it copies into or from a directory of the host",
            "write the path of each file, or `command` with a guard",
        ));
    }
    let preserves = params.clone().text(&["mode"]).as_deref() == Some("preserve");
    if preserves {
        params.ignore(&["mode"]);
    }
    let mut attributes = vec![param("path", dest.clone())];
    params.attributes(&mut attributes)?;
    params.finish("command")?;
    let (from, to) = (super::shell_text::word(&source), super::shell_text::word(&dest));
    let has_mode = attributes.iter().any(|(key, _)| key == "mode");
    let run = match (preserves, has_mode) {
        (true, _) => format!("cp -f --preserve=mode -- {from} {to}"),
        // Its mode comes with the next resource.
        (false, true) if !keeps => format!("umask 077; cp -f --no-preserve=mode -- {from} {to}"),
        _ => format!("cp -f --no-preserve=mode -- {from} {to}"),
    };
    let guard =
        if keeps { param("creates", dest.clone()) } else { param("unless", format!("cmp -s {from} {to}")) };
    // One that is there keeps its owner and its mode too.
    let run = if keeps { with_attributes(&run, &to, attributes.get(1..).unwrap_or_default())? } else { run };
    let mut all = Conversion::one("command", vec![param("run", run), guard]);
    if attributes.len() > 1 && !keeps {
        let mut part = ConvertedPart::new("file", attributes);
        part.suffix = "owner and mode";
        all.made.push(part);
    }
    let is_file = |path: &str| is_file(path, context);
    Ok(all
        .remark_if(
            !is_file(&source) && !is_file(&dest),
            "it is taken for a file: a directory is an error of the command",
        )
        .remark_if(preserves, "a file with the right content and another mode stays as it is"))
}

fn copied_folder(
    mut params: Params,
    folder: &str,
    source: &str,
    dest: &str,
) -> Result<Conversion, ImportProblem> {
    let path = if source.ends_with('/') {
        dest.trim_end_matches('/').to_owned()
    } else {
        format!("{}/{}", dest.trim_end_matches('/'), base(folder))
    };
    let mut out = vec![param("folder", folder), param("path", path.clone())];
    params.same(&[("owner", "owner"), ("group", "group")], &mut out);
    if params.take(&["mode"]).is_some() {
        return Err(ImportProblem::new(
            "all files of a folder get one mode",
            "give the files their mode below files/ of the role, and write `archive` with `folder`",
        ));
    }
    params.finish("archive")?;
    let mut directory = ConvertedPart::new("directory", vec![param("path", path), param("parents", true)]);
    directory.suffix = "the directory";
    let mut all = Conversion::one("archive", out);
    all.made.insert(0, directory);
    Ok(all.remark("the files have the modes that they have below files/ of the role"))
}

pub(super) fn template(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["backup", "follow", "output_encoding"]);
    if params.flag(&["force"])? == Some(false) {
        return Err(ImportProblem::new(
            NOT_FORCED,
            "write `file` where its content is to be kept, else `command` with `creates`",
        ));
    }
    if params.flag(&["lstrip_blocks"])? == Some(true) || params.flag(&["trim_blocks"])? == Some(false) {
        return Err(ImportProblem::new(
            "the template has its own rules for blanks around blocks",
            "write `{%-` and `-%}` in the template where blanks are to go",
        ));
    }
    let source = params.needed(&["src"])?;
    let dest = params.needed(&["dest"])?;
    let source = source.trim_start_matches("./").to_owned();
    let source = source.strip_prefix("templates/").unwrap_or(&source).to_owned();
    if source.starts_with('/') || source.contains("../") {
        return Err(ImportProblem::new(
            format!("`{source}` is outside of the role"),
            "put the template below templates/ of the role",
        ));
    }
    if let Some(problem) = context.bad_templates.get(&source) {
        return Err(ImportProblem::new(
            format!("templates/{source}: {}", problem.why),
            problem.write.clone(),
        ));
    }
    if !source.contains("{{") && !context.files.contains(&format!("templates/{source}")) {
        return Err(ImportProblem::new(
            format!("the role has no template templates/{source}"),
            format!("put it to templates/{source} of the role"),
        ));
    }
    let bare = source.strip_suffix(".j2").unwrap_or(&source).to_owned();
    let mut out =
        vec![param("path", target(&in_directory(&dest, context), &bare)), param("template", source)];
    params.attributes(&mut out)?;
    params.same(&[("validate", "validate")], &mut out);
    params.finish("file")?;
    Ok(Conversion::one("file", out))
}

/// `recurse`: all that is below the directory gets its owner, its group and its mode, as the links in it say where they lead.
fn below(params: &Params, path: &str) -> Result<Option<ConvertedPart>, ImportProblem> {
    let mut params = params.clone();
    let mut attributes = Vec::new();
    params.attributes_of(&mut attributes, true)?;
    let is_optional = |(_, value): &(String, Node)| value.as_str().is_some_and(|text| text.contains("omit"));
    let symbols = attributes.iter().any(|(key, value)| {
        key == "mode" && value.as_str().is_none_or(|text| !text.bytes().all(|digit| digit.is_ascii_digit()))
    });
    if symbols || attributes.iter().any(is_optional) {
        return Err(ImportProblem::new(
            "all that is below the directory gets the owner and the mode",
            "write a resource for each path that matters",
        ));
    }
    if attributes.is_empty() {
        return Ok(None);
    }
    // A new owner takes bits of the mode away.
    attributes.sort_by_key(|(key, _)| key == "mode");
    let place = super::shell_text::word(path);
    // A link has an owner of its own; its mode is that of the file behind it.
    let (mut own, mut behind, mut acts) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in &attributes {
        let value = super::shell_text::word(&value.scalar_text().unwrap_or_default());
        let (test, program) = match key.as_str() {
            "owner" => (format!("! -user {value}"), "chown"),
            "group" => (format!("! -group {value}"), "chgrp"),
            _ => (format!("! -perm {value}"), "chmod"),
        };
        if key != "mode" {
            acts.push(format!("find {place} {test} -exec {program} -h {value} {{}} +"));
            own.push(test.clone());
        }
        acts.push(format!("find -L {place} ! -type l {test} -exec {program} {value} {{}} +"));
        behind.push(test);
    }
    let mut looks = vec![format!("find -L {place} ! -type l \\( {} \\) -print -quit", behind.join(" -o "))];
    if !own.is_empty() {
        looks.push(format!("find {place} \\( {} \\) -print -quit", own.join(" -o ")));
    }
    let looks: Vec<String> =
        looks.iter().map(|look| format!("found=$({look}) && test -z \"$found\"")).collect();
    let mut part = ConvertedPart::new(
        "command",
        vec![param("run", acts.join(" &&\n")), param("unless", looks.join(" &&\n"))],
    );
    part.suffix = "all below it";
    Ok(Some(part))
}

pub(super) fn file(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["follow"]);
    let path = params.needed(&["path", "dest", "name"])?;
    let state = params.text(&["state"]);
    let force = params.flag(&["force"])? == Some(true);
    let recurses = params.flag(&["recurse"])? == Some(true);
    let below = if recurses { below(&params, &path)? } else { None };
    let state = match state {
        Some(state) => state,
        None => {
            let kind = kind_of(&path, params.clone().take(&["mode"]).as_ref(), context);
            let problem = ImportProblem::new(
                "without `state` it may be a file or a directory",
                "write `file` for a file, `directory` for a directory",
            );
            kind.ok_or(problem)?.to_owned()
        }
    };
    let mut out = vec![param("path", path.clone())];
    match state.as_str() {
        "directory" => {
            params.ignore(&["src"]);
            out.push(param("parents", true));
            params.attributes_of(&mut out, true)?;
            params.finish("directory")?;
            let special = out.iter().any(|(key, value)| {
                key == "owner" || key == "group" || (key == "mode" && value.as_str() != Some("0755"))
            });
            let parent = path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
            let usual = [
                "",
                "/etc",
                "/opt",
                "/srv",
                "/var/lib",
                "/var/log",
                "/var/cache",
                "/usr/local/bin",
                "/usr/share",
                "/run",
                "/home",
            ];
            let is_known =
                path.starts_with('/') && usual.contains(&parent) || context.paths.contains_key(parent);
            if is_known {
                out.retain(|(key, _)| key != "parents");
            }
            if special && !is_known {
                out.insert(2, param("parents_alike", true));
            }
            let mut all = Conversion::one("directory", out);
            all.made.extend(below);
            Ok(all)
        }
        "absent" => {
            params.ignore(&["src", "mode", "owner", "group", "recurse"]);
            params.finish("absent")?;
            out.push(param("recursive", true));
            Ok(Conversion::one("absent", out))
        }
        "link" => {
            out.push(param("target", params.needed(&["src"])?));
            if force {
                out.push(param("force", true));
            }
            let has_attributes = ["owner", "group", "mode"].iter().any(|name| params.take(&[name]).is_some());
            params.finish("link")?;
            Ok(Conversion::one("link", out).remark_if(
                has_attributes,
                "owner and mode of what the link points to are not set: write a resource for it",
            ))
        }
        "file" => {
            params.ignore(&["src"]);
            params.attributes(&mut out)?;
            params.finish("file")?;
            Ok(Conversion::one("file", out))
        }
        "touch" => {
            let preserves =
                |params: &mut Params, name: &str| params.text(&[name]).as_deref() == Some("preserve");
            let is_preserved =
                preserves(&mut params, "access_time") & preserves(&mut params, "modification_time");
            params.attributes(&mut out)?;
            params.finish("file")?;
            let quoted = super::shell_text::word(&path);
            let mut all = Conversion::one(
                "command",
                vec![param("run", format!("touch {quoted}")), param("creates", path)],
            );
            if out.len() > 1 {
                let mut attributes = ConvertedPart::new("file", out);
                attributes.suffix = "owner and mode";
                all.made.push(attributes);
            }
            Ok(all.remark_if(!is_preserved, "a file that is there keeps its times"))
        }
        other => Err(ImportProblem::new(
            format!("`state: {other}` has no counterpart"),
            crate::task::instead("file"),
        )),
    }
}
