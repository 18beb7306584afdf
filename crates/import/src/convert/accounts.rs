//! user, group, authorized_key.

use super::params::param;
use super::{Context, Conversion, Params};
use crate::expression::{ImportProblem, whole_expression};
use crate::yaml::{made, texts};
use converge_syntax::Value;

pub(super) fn user(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["non_unique", "move_home", "skeleton", "local", "umask"]);
    let mut out = vec![param("name", params.needed(&["name", "user"])?)];
    if params.text(&["state"]).as_deref() == Some("absent") {
        let removes = params.flag(&["remove"])? == Some(true);
        out.push(param("state", "absent"));
        return Ok(Conversion::one("user", out)
            .remark_if(removes, "the home directory stays: write `absent` for it")
            .remark("the user's group stays: write `group` with `state: absent` for it"));
    }
    params.ignore(&["remove"]);
    params.same(&[("uid", "uid"), ("group", "group")], &mut out);
    if let Some(groups) = params.take(&["groups"]) {
        let groups = match &groups.value {
            // Ansible takes a list, and names with commas between them.
            Value::String(text) if whole_expression(text).is_some() => {
                let inside = whole_expression(text).unwrap_or_default();
                made(format!("{{{{ ({inside}) if ({inside}) is not string else ({inside}).split(',') }}}}"))
            }
            Value::String(text) => texts(text.split(',').map(str::trim).filter(|name| !name.is_empty())),
            _ => groups.clone(),
        };
        out.push(("groups".to_owned(), groups));
    }
    params.same(
        &[("append", "append"), ("home", "home"), ("shell", "shell"), ("comment", "comment")],
        &mut out,
    );
    let creates = params.flag(&["create_home", "createhome"])?;
    if let Some(creates) = creates {
        out.push(param("create_home", creates));
    }
    params.same(&[("system", "system")], &mut out);
    let lock = params.flag(&["password_lock"])?;
    let update = params.text(&["update_password"]);
    let mut locked = lock;
    match params.text(&["password"]) {
        Some(password) if matches!(password.as_str(), "!" | "*" | "!!" | "!*") => locked = Some(true),
        Some(_) if update.as_deref() == Some("on_create") => {
            return Err(ImportProblem::new(
                "the password is given to a new user only",
                "write `password_hash`, which is kept in every run, or leave it to keys",
            ));
        }
        Some(password) => out.push(param("password_hash", password)),
        None => {}
    }
    if let Some(locked) = locked {
        out.push(param("locked", locked));
    }
    params.finish("user")?;
    let has_home = creates.unwrap_or_else(|| !out.iter().any(|(key, _)| key == "system"));
    Ok(Conversion::one("user", out)
        .remark_if(has_home, "a new home directory has mode 0700, and nothing is copied from /etc/skel"))
}

pub(super) fn group(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["local", "non_unique", "force"]);
    let mut out = vec![param("name", params.needed(&["name"])?)];
    params.same(&[("gid", "gid"), ("system", "system")], &mut out);
    if let Some(state) = params.text(&["state"]).filter(|state| state != "present") {
        out.push(param("state", state));
    }
    params.finish("group")?;
    Ok(Conversion::one("group", out))
}

pub(super) fn authorized_key(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["manage_dir", "validate_certs", "follow"]);
    let mut out = vec![param("user", params.needed(&["user"])?)];
    let key = params.needed(&["key"])?;
    if key.starts_with("http://") || key.starts_with("https://") {
        return Err(ImportProblem::new(
            "the keys are fetched from an address in each run",
            "write the keys themselves, or put them into a file below files/ and use lookup('file', NAME)",
        ));
    }
    let lines: Vec<&str> = key.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    out.push(("key".to_owned(), if lines.len() > 1 { texts(lines) } else { made(key.trim()) }));
    params.same(&[("key_options", "options"), ("path", "path")], &mut out);
    if params.flag(&["exclusive"])? == Some(true) {
        out.push(param("exclusive", true));
    }
    params.ignore(&["comment"]);
    if let Some(state) = params.text(&["state"]).filter(|state| state != "present") {
        out.push(param("state", state));
    }
    params.finish("authorized_key")?;
    Ok(Conversion::one("authorized_key", out))
}
