//! apt, package, snap, dpkg_selections.

use super::params::param;
use super::{Context, Conversion, ConvertedPart, Params};
use crate::expression::{ImportProblem, whole_expression};
use crate::yaml::texts;
use converge_syntax::{Node, Value};

/// apt's own ways with what it installs: recommended packages come along, where its settings do not say otherwise, and services of new
/// packages are started.
pub(super) fn as_apt_does(recommends: Option<bool>) -> Vec<(String, Node)> {
    let word = match recommends {
        Some(true) => Some("always"),
        Some(false) => None,
        None => Some("as_configured"),
    };
    let starts = param("starts_services", true);
    word.map(|word| param("recommends", word)).into_iter().chain([starts]).collect()
}

/// Names as one text or a list; `a,b` is two.
fn names(node: &Node) -> Result<Node, ImportProblem> {
    let mut all: Vec<String> = Vec::new();
    let items = match &node.value {
        Value::List(items) => items.clone(),
        _ => vec![node.clone()],
    };
    for item in &items {
        let text = item.scalar_text().unwrap_or_default();
        if text.contains("{{") {
            all.push(text);
            continue;
        }
        all.extend(text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()));
    }
    if let Some(bad) = all.iter().find(|name| name.contains(['*', '/']) && !name.contains("{{")) {
        return Err(ImportProblem::new(
            format!("`{bad}` is not a valid name of a package"),
            "name each package; one of a release is `package` with `version`",
        ));
    }
    if items.iter().any(|item| item.as_str().is_some_and(|text| text.contains("{{"))) && all.len() > 1 {
        // Each element may be a list in Ansible, and is a text here.
        let plain = all.iter().all(|text| !text.trim().starts_with("{{") || !text.trim().ends_with("}}"));
        if !plain {
            let parts: Vec<String> = all
                .iter()
                .map(|text| match whole_expression(text) {
                    Some(expression) => expression.to_owned(),
                    None => format!("'{text}'"),
                })
                .collect();
            return Ok(crate::yaml::made(format!("{{{{ [{}] | flatten }}}}", parts.join(", "))));
        }
    }
    Ok(match all.as_slice() {
        [one] => crate::yaml::made(one.as_str()),
        all => texts(all),
    })
}

pub(super) fn apt(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["force_apt_get", "lock_timeout", "allow_change_held_packages", "fail_on_autoremove"]);
    if params.take(&["deb"]).is_some() {
        return Err(ImportProblem::new(
            "a package file is installed",
            "write `apt_repository` and `package`, or `download` and `command` with `unless: dpkg -s NAME`",
        ));
    }
    if params.flag(&["only_upgrade"])? == Some(true) {
        return Err(ImportProblem::new(
            "it only touches packages that are installed",
            "write `package` with `state: latest`, and `when` with the answer of a `query` that asks dpkg",
        ));
    }
    let edited = params
        .text(&["dpkg_options"])
        .filter(|text| !text.split(',').all(|one| ["force-confold", "force-confdef"].contains(&one.trim())));
    if let Some(options) = edited {
        return Err(ImportProblem::new(
            format!("`dpkg_options: {options}` decides what becomes of edited files"),
            "an edited configuration file stays here: write `file` with the content that it is to have",
        ));
    }
    let denied = params.text(&["policy_rc_d"]).is_some_and(|code| code == "101");
    let update = params.flag(&["update_cache"])? == Some(true);
    let age = params.take(&["cache_valid_time"]);
    let recommends = params.flag(&["install_recommends", "install-recommends"])?;
    let upgrade = params.text(&["upgrade"]).filter(|word| !matches!(word.as_str(), "no" | "false" | "none"));
    if let Some(upgrade) = upgrade {
        return Err(ImportProblem::new(
            format!("`upgrade: {upgrade}` raises all packages, and names none"),
            "write `package` with `state: latest` for those that matter",
        ));
    }
    let autoremove = params.flag(&["autoremove"])? == Some(true);
    let clean = params.flag(&["autoclean", "clean"])? == Some(true);
    let Some(list) = params.take(&["name", "pkg", "package"]) else {
        params.finish("package")?;
        let fetches = update || age.is_some();
        return Ok(without_packages(fetches, update && !autoremove && !clean && !context.follows.is_empty()));
    };
    let list = names(&list)?;
    let mut out = vec![("name".to_owned(), list)];
    let state = params.text(&["state"]).unwrap_or_else(|| "present".to_owned());
    let is_absent = matches!(state.as_str(), "absent" | "removed");
    match state.as_str() {
        "present" | "installed" => {}
        "latest" => out.push(param("state", "latest")),
        "absent" | "removed" => out.push(param("state", "absent")),
        other if recommends.is_none() && !denied && by_state(out.clone(), other, context).is_some() => {
            out.extend(max_age(age, update));
            params.finish("package")?;
            return Ok(by_state(out, other, context).unwrap_or_default());
        }
        other => {
            return Err(ImportProblem::new(
                format!("`state: {other}` has no counterpart"),
                "write `present`, `latest` or `absent`; dependencies come by themselves",
            ));
        }
    }
    if params.flag(&["purge"])? == Some(true) && is_absent {
        out.push(param("purge", true));
    }
    if params.flag(&["allow_downgrade", "allow-downgrade"])? == Some(true) {
        out.push(param("allow_downgrade", true));
    }
    if let Some(release) = params.text(&["default_release"]) {
        return Err(ImportProblem::new(
            format!("the packages come from the release `{release}`"),
            "write the `version`, or a file in /etc/apt/preferences.d",
        ));
    }
    if !is_absent {
        out.extend(max_age(age, update));
    }
    let is_unsafe = params.flag(&["force", "allow_unauthenticated"])? == Some(true);
    if !is_absent {
        out.extend(
            as_apt_does(recommends).into_iter().filter(|(key, _)| !denied || key != "starts_services"),
        );
    }
    params.finish("package")?;
    Ok(Conversion::one("package", out)
        .remark_if(autoremove || clean, "packages that nothing needs and archives are left as they are")
        .remark_if(is_unsafe, "packages without a signature are refused"))
}

/// An `apt` that names no package: it fetches the index, or takes packages and archives away that nothing needs. The index of a new repository is
/// missing here, and is fetched where a package needs it.
fn without_packages(fetches: bool, is_of_new_repository: bool) -> Conversion {
    if is_of_new_repository {
        return Conversion { left_out: Some("left out"), ..Conversion::default() };
    }
    Conversion::nothing(if fetches {
        "a missing package index is fetched where a package needs it; `max_age` of `package` bounds its age"
    } else {
        "packages that nothing needs and archives are left as they are"
    })
}

/// The greatest age of the package index, where a task says one.
fn max_age(age: Option<Node>, update: bool) -> Option<(String, Node)> {
    age.map(|age| ("max_age".to_owned(), age)).or_else(|| update.then(|| param("max_age", 0i64)))
}

/// Packages whose state a variable holds: recommended ones and services are for those that are installed. Another value than those of the kind is
/// an error of the plan, and changes nothing.
fn by_state(list: Vec<(String, Node)>, state: &str, context: &Context) -> Option<Conversion> {
    let variable = whole_expression(state)?;
    let known = context.literals.get(variable)?;
    if !matches!(known.as_str(), "present" | "latest" | "absent") {
        return None;
    }
    let mut installed = list.clone();
    installed.push(param("state", state));
    installed.extend(as_apt_does(None));
    let removed: Vec<(String, Node)> = list.into_iter().filter(|(key, _)| key == "name").collect();
    let part = |params, when: &str, suffix| ConvertedPart {
        suffix,
        when: Some(format!("{variable} {when} 'absent'")),
        ..ConvertedPart::new("package", params)
    };
    let removed = removed.into_iter().chain([param("state", "absent")]).collect();
    Some(Conversion {
        made: vec![part(installed, "!=", "installed"), part(removed, "==", "removed")],
        ..Conversion::default()
    })
}

pub(super) fn package(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["use"]);
    let list = params
        .take(&["name", "pkg"])
        .ok_or_else(|| ImportProblem::new("no package is named", "write `name`"))?;
    let mut out = vec![("name".to_owned(), names(&list)?)];
    let state = params.text(&["state"]).unwrap_or_else(|| "present".to_owned());
    match state.as_str() {
        "present" | "installed" => {}
        "latest" | "absent" => out.push(param("state", state.as_str())),
        other if other.contains("{{") => {}
        other => {
            return Err(ImportProblem::new(
                format!("`state: {other}` has no counterpart"),
                "write `present`, `latest` or `absent`",
            ));
        }
    }
    if params.flag(&["allow_downgrade"])? == Some(true) {
        out.push(param("allow_downgrade", true));
    }
    if params.flag(&["update_cache"])? == Some(true) {
        out.push(param("max_age", 0i64));
    }
    params.finish("package")?;
    let is_dynamic = state.contains("{{");
    if is_dynamic {
        if let Some(all) = by_state(out.clone(), &state, context) {
            return Ok(all);
        }
        out.push(param("state", state.as_str()));
    }
    if !is_dynamic && state != "absent" {
        out.extend(as_apt_does(None));
    }
    Ok(Conversion::one("package", out)
        .remark_if(is_dynamic, "recommended packages are not installed along, and a new package starts no service: `recommends` and `starts_services` are for `state: present`"))
}

pub(super) fn dpkg_selections(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    let name = params.needed(&["name"])?;
    let hold = match params.needed(&["selection"])?.as_str() {
        "hold" => true,
        "install" => false,
        other => {
            return Err(ImportProblem::new(
                format!("the selection `{other}` has no counterpart"),
                "write `package` with `hold` or with `state: absent`",
            ));
        }
    };
    params.finish("package")?;
    let is_there = context.packages.contains(&name);
    Ok(Conversion::one("package", vec![param("name", name), param("hold", hold)])
        .remark_if(!is_there, "the package is installed where it is missing"))
}

pub(super) fn snap(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    let mut out = Vec::new();
    params.same(&[("name", "name"), ("channel", "channel"), ("classic", "classic")], &mut out);
    if params.text(&["state"]).as_deref() == Some("absent") {
        out.push(param("state", "absent"));
    }
    params.finish("snap")?;
    Ok(Conversion::one("snap", out))
}
