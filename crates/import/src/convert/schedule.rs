//! cron, wait_for.

use super::params::param;
use super::{Context, Conversion, Params};
use crate::expression::ImportProblem;

pub(super) fn cron(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["backup"]);
    let title = params.needed(&["name"])?;
    if params.flag(&["disabled"])? == Some(true) || params.flag(&["env"])? == Some(true) {
        return Err(ImportProblem::new(
            "the entry is no job that runs",
            "write `cron` with `environment`, or leave out what is disabled",
        ));
    }
    let file = params.text(&["cron_file"]);
    let user = params.text(&["user"]);
    let word = |text: &str| {
        let text: String =
            text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        text.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
    };
    let name = file.clone().unwrap_or_else(|| title.clone());
    if name.contains("{{") || name.starts_with('/') {
        return Err(ImportProblem::new(
            "the name of the job is no plain word",
            "write `cron` with a `name` of letters, digits and dashes",
        ));
    }
    let mut out = vec![param("name", if file.is_some() { name } else { word(&name) })];
    let absent = params.text(&["state"]).as_deref() == Some("absent");
    let parts = ["minute", "hour", "day", "month", "weekday"];
    let parts: Vec<String> =
        parts.iter().map(|part| params.text(&[part]).unwrap_or_else(|| "*".to_owned())).collect();
    let special = params.text(&["special_time"]);
    let job = params.text(&["job"]);
    params.finish("cron")?;
    if absent {
        out.push(param("state", "absent"));
    } else {
        out.push(param("schedule", special.map_or_else(|| parts.join(" "), |word| format!("@{word}"))));
        let job = job.ok_or_else(|| ImportProblem::new("no job is given", "write `run`"))?;
        if job.contains("\\%") {
            return Err(ImportProblem::new("the job holds `\\%`", "write `%`: the kind `cron` escapes it"));
        }
        out.push(param("run", job));
    }
    if let Some(user) = user {
        out.push(param("user", user));
    }
    if file.is_none() {
        out.push(param("in_crontab", true));
        return Ok(Conversion::one("cron", out)
            .remark("an entry of the same job that Ansible wrote into the crontab stays: take it out once"));
    }
    Ok(Conversion::one("cron", out))
}

pub(super) fn wait_for(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["connect_timeout", "delay", "msg", "active_connection_states", "exclude_hosts"]);
    let mut out = Vec::new();
    params.same(&[("port", "port"), ("path", "file"), ("search_regex", "contains")], &mut out);
    let local = ["localhost", "127.0.0.1", "0.0.0.0"];
    if let Some(host) = params.text(&["host"]).filter(|host| !local.contains(&host.as_str())) {
        out.push(param("host", host));
    }
    if out.is_empty() {
        return Err(ImportProblem::new(
            "a fixed pause proves nothing",
            "write `wait_for` for what you wait for",
        ));
    }
    match params.text(&["state"]).as_deref() {
        None | Some("started" | "present") => {}
        Some("stopped" | "absent") => out.push(param("gone", true)),
        Some(other) => {
            return Err(ImportProblem::new(
                format!("`state: {other}` has no counterpart"),
                "write `command` with the question",
            ));
        }
    }
    let timeout = params.take(&["timeout"]).unwrap_or_else(|| crate::yaml::made(300i64));
    out.push(("timeout".to_owned(), timeout));
    params.same(&[("sleep", "every")], &mut out);
    params.finish("wait_for")?;
    Ok(Conversion::one("wait_for", out))
}
