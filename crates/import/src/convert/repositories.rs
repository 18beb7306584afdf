//! apt_repository, deb822_repository.

use super::params::param;
use super::{Context, Conversion, Params};
use crate::expression::ImportProblem;
use crate::task::split_words;
use crate::yaml::texts;

const KEY: &str = "write `apt_repository` with `fingerprint` and `key_url`, `key_source` or `key`: `gpg --show-keys --with-fingerprint FILE` prints the fingerprint";

/// A name of letters, digits, dashes, dots.
fn name_of(text: &str) -> String {
    let text: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    text.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-").to_lowercase()
}

pub(super) fn apt_repository(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&[
        "update_cache",
        "update_cache_retries",
        "update_cache_retry_max_delay",
        "mode",
        "codename",
        "validate_certs",
        "install_python_apt",
    ]);
    let repo = params.needed(&["repo"])?;
    let file = params.text(&["filename"]);
    let absent = params.text(&["state"]).as_deref() == Some("absent");
    params.finish("apt_repository")?;
    if repo.starts_with("ppa:") {
        return Err(ImportProblem::new("the key of a PPA is asked for at Launchpad", KEY));
    }
    let words = split_words(&repo).unwrap_or_default();
    let mut rest = words.as_slice();
    let types = match rest.split_first() {
        Some((word, after)) if word == "deb" || word == "deb-src" => {
            rest = after;
            word.clone()
        }
        _ => {
            return Err(ImportProblem::new(
                format!("`{repo}` cannot be taken apart"),
                "write `uris`, `suites` and `components`",
            ));
        }
    };
    // Options in brackets; a template may stand among them.
    let mut options: Vec<String> = Vec::new();
    if rest.first().is_some_and(|word| word.starts_with('[')) {
        let end = rest.iter().position(|word| word.ends_with(']'));
        let end =
            end.ok_or_else(|| ImportProblem::new("the options are not closed", "write `uris` and `suites`"))?;
        let inside = rest.get(..=end).unwrap_or_default().join(" ");
        let inside = inside.trim_start_matches('[').trim_end_matches(']').to_owned();
        options = split_words(&inside).unwrap_or_default();
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    let [uri, suite, components @ ..] = rest else {
        return Err(ImportProblem::new(
            format!("`{repo}` cannot be taken apart"),
            "write `uris`, `suites` and `components`",
        ));
    };
    let host = uri.split("://").nth(1).unwrap_or(uri);
    let name = name_of(file.as_deref().unwrap_or(host));
    if name.is_empty() || file.as_deref().unwrap_or(uri).contains("{{") {
        return Err(ImportProblem::new(
            "the name of the file is not known",
            "write `name` of `apt_repository`",
        ));
    }
    if absent {
        return Ok(Conversion::one("apt_repository", vec![param("name", name), param("state", "absent")])
            .remark("an entry in a `.list` file stays: write `absent` for it"));
    }
    let mut out = vec![param("name", name), param("uris", uri.as_str()), param("suites", suite.as_str())];
    if !components.is_empty() {
        out.push(("components".to_owned(), texts(components)));
    }
    if types != "deb" {
        out.push(param("types", types));
    }
    let mut signed = false;
    for option in &options {
        match option.split_once('=') {
            Some(("arch", value)) => out.push(("architectures".to_owned(), texts(value.split(',')))),
            Some(("signed-by", value)) => {
                signed = true;
                out.push(param("signed_by", value));
            }
            _ => return Err(ImportProblem::new(format!("the option `{option}` has no counterpart"), KEY)),
        }
    }
    if !signed {
        return Err(ImportProblem::new("nothing says which key signs the repository", KEY));
    }
    Ok(Conversion::one("apt_repository", out)
        .remark("an entry for the same repository that Ansible wrote into a `.list` file stays: write `absent` for it"))
}

pub(super) fn deb822_repository(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["mode", "install_python_debian", "enabled", "date_max_future", "pdiffs", "by_hash"]);
    let mut out = vec![param("name", name_of(&params.needed(&["name"])?))];
    if params.text(&["state"]).as_deref() == Some("absent") {
        out.push(param("state", "absent"));
        return Ok(Conversion::one("apt_repository", out));
    }
    params.same(
        &[
            ("types", "types"),
            ("uris", "uris"),
            ("suites", "suites"),
            ("components", "components"),
            ("architectures", "architectures"),
        ],
        &mut out,
    );
    let key = params.text(&["signed_by"]);
    params.finish("apt_repository")?;
    match key {
        Some(key) if key.starts_with('/') => out.push(param("signed_by", key)),
        _ => return Err(ImportProblem::new("nothing says the fingerprint of the key", KEY)),
    }
    Ok(Conversion::one("apt_repository", out))
}
