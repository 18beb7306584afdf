//! service, systemd, sysvinit.

use super::params::param;
use super::{Context, Conversion, ConvertedPart, Params};
use crate::expression::{ImportProblem, whole_expression};

pub(super) fn service(mut params: Params, context: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["use", "no_block", "sleep", "pattern", "runlevel", "runlevels", "arguments", "force"]);
    let reload = params.flag(&["daemon_reload", "daemon-reload", "daemon_reexec"])? == Some(true);
    if params.text(&["scope"]).is_some_and(|scope| scope != "system") {
        return Err(ImportProblem::new(
            "the unit is one of a user",
            "write `command` with `unless: systemctl --user is-active NAME`",
        ));
    }
    let Some(name) = params.text(&["name", "service", "unit"]) else {
        params.finish("service")?;
        if reload {
            return Ok(Conversion {
                left_out: Some("left out"),
                remarks: Vec::new(),
                ..Conversion::default()
            });
        }
        return Err(ImportProblem::new("no unit is named", "write `service` with its `name`"));
    };
    let mut out = vec![param("name", name)];
    let state = params.text(&["state"]);
    let mut follows = None;
    match state.as_deref() {
        Some(state @ ("started" | "stopped")) => out.push(param("state", state)),
        Some("running") => out.push(param("state", "started")),
        Some("restarted") => follows = Some("restart_on"),
        Some("reloaded") => follows = Some("reload_on"),
        Some(other) if other.contains("{{") => return dynamic(params, out, other, context),
        Some(other) => {
            return Err(ImportProblem::new(
                format!("`state: {other}` has no counterpart"),
                "write `started` or `stopped`; `restart_on` names what it is restarted for",
            ));
        }
        None => {}
    }
    params.same(&[("enabled", "enabled"), ("masked", "masked")], &mut out);
    params.finish("service")?;
    if follows.is_some() && context.follows.is_empty() {
        return Err(ImportProblem::new(
            "it is restarted in each run, whatever has changed",
            "write `service` with `state: started`, and name in `restart_on` what it is restarted for",
        ));
    }
    let mut made = ConvertedPart::new("service", out);
    made.follows = follows;
    Ok(Conversion { made: vec![made], ..Conversion::default() })
}

/// A state that a variable holds. Of a handler it is a restart or a reload, each where the variable says so.
fn dynamic(
    mut params: Params,
    mut out: Vec<(String, converge_syntax::Node)>,
    state: &str,
    context: &Context,
) -> Result<Conversion, ImportProblem> {
    let variable = whole_expression(state);
    let known = variable.and_then(|name| context.literals.get(name)).map(String::as_str);
    if context.is_handler {
        let (Some(variable), Some("restarted" | "reloaded")) = (variable, known) else {
            return Err(ImportProblem::new(
                format!("the host only knows whether `{state}` is a restart or a reload"),
                "write `service` with `restart_on` or with `reload_on`",
            ));
        };
        params.finish("service")?;
        let part = |word: &str, suffix: &'static str, follows: &'static str| ConvertedPart {
            suffix,
            follows: Some(follows),
            when: Some(format!("{variable} == '{word}'")),
            ..ConvertedPart::new("service", out.clone())
        };
        let made = vec![part("restarted", "restart", "restart_on"), part("reloaded", "reload", "reload_on")];
        return Ok(Conversion { made, ..Conversion::default() });
    }
    out.push(param("state", state));
    params.same(&[("enabled", "enabled"), ("masked", "masked")], &mut out);
    params.finish("service")?;
    // Another value than that of the role itself is an error of the plan, and changes nothing.
    let is_known = matches!(known, Some("started" | "stopped"));
    Ok(Conversion::one("service", out)
        .remark_if(!is_known, "`state` takes `started` and `stopped`; another value is an error of the plan"))
}
