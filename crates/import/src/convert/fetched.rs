//! get_url, uri, unarchive, git.

use super::params::param;
use super::places::{in_directory, is_file};
use super::{Context, Conversion, ConvertedPart, Params, shell_text};
use crate::expression::ImportProblem;
use crate::yaml::made;
use converge_syntax::Value;

pub(super) fn get_url(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&[
        "backup",
        "timeout",
        "tmp_dest",
        "use_proxy",
        "validate_certs",
        "decompress",
        "ciphers",
        "use_gssapi",
        "unredirected_headers",
    ]);
    for secret in [
        "headers",
        "url_username",
        "url_password",
        "username",
        "password",
        "client_cert",
        "client_key",
        "http_agent",
    ] {
        if params.take(&[secret]).is_some() {
            return Err(ImportProblem::new(
                format!("`{secret}` goes with the request"),
                "write `command` with curl, a guard and the secret in `env`",
            ));
        }
    }
    let url = params.needed(&["url"])?;
    let mut dest = in_directory(&params.needed(&["dest"])?, context);
    if dest.ends_with('/') {
        let name = url.rsplit('/').next().unwrap_or_default().to_owned();
        if name.is_empty() || name.contains(['{', '}', '?', '%']) {
            return Err(ImportProblem::new(
                "the name of the file is not known",
                "write the whole path in `path`",
            ));
        }
        dest.push_str(&name);
    }
    let force = params.flag(&["force"])? == Some(true);
    let checksum = params.text(&["checksum"]).filter(|text| !text.is_empty());
    let checksum = checksum
        .or_else(|| params.text(&["sha256sum"]).filter(|t| !t.is_empty()).map(|sum| format!("sha256:{sum}")));
    let mut attributes = Vec::new();
    params.attributes(&mut attributes)?;
    params.finish("download")?;
    if let Some(checksum) = checksum {
        let sum = checksum.strip_prefix("sha256:").unwrap_or_default();
        let is_sum = sum.contains("{{") || (sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_hexdigit()));
        if (!is_sum && !checksum.starts_with("{{")) || sum.contains("://") {
            return Err(ImportProblem::new(
                format!("the checksum `{checksum}` is no SHA-256"),
                "write `download` with `checksum: sha256:…` and its 64 digits",
            ));
        }
        let mut out = vec![param("url", url), param("path", dest), param("checksum", checksum)];
        out.append(&mut attributes);
        return Ok(Conversion::one("download", out));
    }
    if force {
        return Err(ImportProblem::new(
            "it is fetched in each run, and nothing says what it has to be",
            "write `download` with the `checksum` of the file",
        ));
    }
    // Without a checksum Ansible fetches what is missing, and never looks again. Each host with apt has the last of these programs.
    let file = shell_text::word(&dest);
    let (part, url) = (shell_text::word(&format!("{dest}.part")), shell_text::word(&url));
    let run = format!(
        "if command -v curl >/dev/null; then curl -fsSL -o {part} {url}\n\
         elif command -v wget >/dev/null; then wget -qO {part} {url}\n\
         else /usr/lib/apt/apt-helper download-file {url} {part}; fi && mv -T {part} {file}"
    );
    // A directory in its place is an error of the command, and no sign that the file is there.
    let guard = match is_file(&dest, context) {
        true => param("creates", dest.as_str()),
        false => param("unless", format!("test -f {file}")),
    };
    let mut all = Conversion::one("command", vec![param("run", run), guard]);
    if !attributes.is_empty() {
        attributes.insert(0, param("path", dest));
        let mut file = ConvertedPart::new("file", attributes);
        file.suffix = "owner and mode";
        all.made.push(file);
    }
    Ok(all)
}

pub(super) fn uri(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["return_content", "follow_redirects", "use_proxy", "force", "http_agent"]);
    let url = params.needed(&["url"])?;
    let method = params.text(&["method"]).unwrap_or_else(|| "GET".to_owned());
    let is_read = method == "GET" || method == "HEAD";
    if !is_read || context.register.is_some() && context.until.is_none() {
        let why = if is_read { "its answer is used" } else { "it changes something behind the address" };
        return Err(ImportProblem::new(
            why,
            "write `query` with curl for an answer, `command` with curl and a guard for a change",
        ));
    }
    let mut out = vec![param("url", url)];
    match params.take(&["status_code"]).map(|node| node.value) {
        None => {}
        Some(Value::List(items)) if items.len() == 1 => {
            out.extend(items.into_iter().map(|item| ("status".to_owned(), item)))
        }
        Some(Value::String(text)) if text.parse::<i64>().is_ok() => {
            out.push(param("status", text.parse::<i64>().unwrap_or(200)))
        }
        Some(value @ Value::Int(_)) => out.push(param("status", value)),
        Some(_) => {
            return Err(ImportProblem::new(
                "more than one status is an answer",
                "write `wait_for` with one, or `query` with curl",
            ));
        }
    }
    if params.flag(&["validate_certs"])? == Some(false) {
        out.push(param("insecure", true));
    }
    let timeout = params.take(&["timeout"]);
    params.finish("wait_for")?;
    if let Some(until) = &context.until {
        let text = until.scalar_text().unwrap_or_default();
        let register = context.register.clone().unwrap_or_default();
        let asks = [
            format!("{register}.status == 200"),
            format!("{register} is succeeded"),
            format!("{register} is success"),
            format!("{register} is not failed"),
        ];
        if !asks.contains(&text) {
            return Err(ImportProblem::new(
                "`until` asks for more than the status",
                "write `wait_for` with `url` and `contains`",
            ));
        }
        let every = context.delay.unwrap_or(5);
        out.push(param("timeout", every.saturating_mul(context.retries.unwrap_or(3)).max(1)));
        out.push(param("every", every));
    } else {
        out.push(("timeout".to_owned(), timeout.unwrap_or_else(|| made(30i64))));
    }
    Ok(Conversion::one("wait_for", out).remark_if(
        context.until.is_none(),
        "it waits for the answer up to this time, and does not ask only once",
    ))
}

pub(super) fn unarchive(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["keep_newer", "list_files", "validate_certs", "decrypt", "io_buffer_size"]);
    let source = params.needed(&["src"])?;
    let on_host = params.flag(&["remote_src"])? == Some(true) || params.flag(&["copy"])? == Some(false);
    // A variable of that name holds an address, whatever it is called with.
    let is_address = source.starts_with("{{") && source.to_lowercase().contains("url");
    if source.contains("://") || is_address {
        return Err(ImportProblem::new(
            "the archive is fetched from an address, and nothing says what it has to be",
            "write `download` with its `checksum`, then `archive` with `on_host`",
        ));
    }
    let mut out = vec![
        param(if on_host { "on_host" } else { "source" }, source),
        param("path", params.needed(&["dest"])?),
    ];
    params.same(
        &[("creates", "creates"), ("owner", "owner"), ("group", "group"), ("include", "only")],
        &mut out,
    );
    if let Some(options) = params.take(&["extra_opts"]) {
        let words: Vec<String> = match &options.value {
            Value::List(items) => items.iter().filter_map(converge_syntax::Node::scalar_text).collect(),
            _ => options.scalar_text().unwrap_or_default().split_whitespace().map(str::to_owned).collect(),
        };
        let joined = words
            .join(" ")
            .replace("--strip-components ", "--strip-components=")
            .replace("--strip ", "--strip-components=");
        let strip = joined.strip_prefix("--strip-components=").or_else(|| joined.strip_prefix("--strip="));
        let strip = strip.and_then(|number| number.parse::<i64>().ok());
        let strip = strip.ok_or_else(|| {
            ImportProblem::new(
                format!("the options `{joined}` of tar have no counterpart"),
                "write `strip` and `only`, or `command` with `creates`",
            )
        })?;
        out.push(param("strip", strip));
    }
    if params.take(&["mode"]).is_some() {
        return Err(ImportProblem::new(
            "all that is unpacked gets one mode",
            "write `file` for those files whose mode matters",
        ));
    }
    params.finish("archive")?;
    Ok(Conversion::one("archive", out))
}

pub(super) fn git(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&[
        "accept_hostkey",
        "accept_newhostkey",
        "clone",
        "remote",
        "track_submodules",
        "single_branch",
    ]);
    let mut out =
        vec![param("repo", params.needed(&["repo", "name"])?), param("dest", params.needed(&["dest"])?)];
    params.same(&[("version", "version"), ("depth", "depth"), ("key_file", "ssh_key")], &mut out);
    if params.flag(&["update"])? == Some(false) {
        return Err(ImportProblem::new(
            "a checkout that is there is left at any version",
            "write `git` with a fixed `version`",
        ));
    }
    if params.flag(&["force"])? == Some(true) {
        out.push(param("force", true));
    }
    let recursive = params.flag(&["recursive"])?;
    params.finish("git")?;
    Ok(Conversion::one("git", out).remark_if(recursive.is_none(), "submodules are not fetched"))
}
