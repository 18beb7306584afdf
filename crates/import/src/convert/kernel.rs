//! sysctl, modprobe, mount, hostname, timezone, locale_gen.

use super::params::param;
use super::{Context, Conversion, Params};
use crate::expression::ImportProblem;
use converge_syntax::Value;

pub(super) fn sysctl(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["reload", "sysctl_set"]);
    let name = params.needed(&["name", "key"])?;
    if params.text(&["state"]).as_deref() == Some("absent") {
        return Err(ImportProblem::new(
            format!("the line of `{name}` is taken out of the file, and the value stays until the next boot"),
            "write `line` with `state: absent`, or the value that it is to have with `sysctl`",
        ));
    }
    let ignores = params.flag(&["ignoreerrors"])? == Some(true);
    let value = params
        .take(&["value", "val"])
        .ok_or_else(|| ImportProblem::new("no value is given", "write `value`"))?;
    let file = params.text(&["sysctl_file"]).unwrap_or_else(|| "/etc/sysctl.conf".to_owned());
    params.finish("sysctl")?;
    let value = match &value.value {
        Value::Bool(value) => crate::yaml::made(i64::from(*value)),
        _ => value,
    };
    let out = vec![param("name", name), ("value".to_owned(), value), param("file", file)];
    Ok(Conversion::one("sysctl", out)
        .remark_if(ignores, "a parameter that the kernel does not have is an error"))
}

pub(super) fn modprobe(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    let name = params.needed(&["name"])?;
    let state = params.text(&["state"]).unwrap_or_else(|| "present".to_owned());
    let mut out = vec![param("name", name)];
    match state.as_str() {
        "present" => {}
        "absent" => out.push(param("state", "absent")),
        other => {
            return Err(ImportProblem::new(
                format!("`state: {other}` has no counterpart"),
                "write `present` or `absent`",
            ));
        }
    }
    match params.text(&["persistent"]).as_deref() {
        Some("present") => {}
        Some("absent" | "disabled") | None => out.push(param("boot", false)),
        Some(other) => {
            return Err(ImportProblem::new(
                format!("`persistent: {other}` has no counterpart"),
                "write `boot`",
            ));
        }
    }
    if let Some(options) = params.text(&["params"]).filter(|text| !text.is_empty()) {
        out.push(("options".to_owned(), crate::yaml::texts(options.split_whitespace())));
    }
    params.finish("kernel_module")?;
    Ok(Conversion::one("kernel_module", out))
}

pub(super) fn mount(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["backup"]);
    if params.take(&["fstab"]).is_some() {
        return Err(ImportProblem::new(
            "another file than /etc/fstab is written",
            "write `line` for that file",
        ));
    }
    let mut out = vec![param("path", params.needed(&["path", "name"])?)];
    params.same(
        &[("src", "source"), ("fstype", "fstype"), ("opts", "options"), ("dump", "dump"), ("passno", "pass")],
        &mut out,
    );
    let mut remark = false;
    match params.needed(&["state"])?.as_str() {
        "mounted" => {}
        "present" => out.push(param("now", false)),
        "ephemeral" => out.push(param("boot", false)),
        "absent" => {
            out.retain(|(key, _)| key == "path");
            out.push(param("state", "absent"));
            remark = true;
        }
        other => {
            return Err(ImportProblem::new(
                format!("`state: {other}` has no counterpart"),
                "write `mount` with what it is to be: now, at boot, or neither",
            ));
        }
    }
    // Numbers of the last fields may be texts in Ansible.
    for (key, value) in &mut out {
        if matches!(key.as_str(), "dump" | "pass")
            && let Some(number) = value.as_str().and_then(|text| text.parse::<i64>().ok())
        {
            *value = crate::yaml::made(number);
        }
    }
    params.finish("mount")?;
    Ok(Conversion::one("mount", out).remark_if(remark, "the directory stays: write `absent` for it"))
}

pub(super) fn hostname(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    params.ignore(&["use"]);
    let out = vec![param("name", params.needed(&["name"])?)];
    params.finish("hostname")?;
    Ok(Conversion::one("hostname", out))
}

pub(super) fn timezone(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    let clock = params.take(&["hwclock"]).is_some();
    let out = vec![param("name", params.needed(&["name"])?)];
    params.finish("timezone")?;
    Ok(Conversion::one("timezone", out).remark_if(clock, "the hardware clock is left as it is"))
}

pub(super) fn locale_gen(mut params: Params, _: &Context) -> Result<Conversion, ImportProblem> {
    let names =
        params.take(&["name"]).ok_or_else(|| ImportProblem::new("no locale is given", "write `name`"))?;
    let mut out = vec![("names".to_owned(), names)];
    params.same(&[("state", "state")], &mut out);
    params.finish("locale")?;
    Ok(Conversion::one("locale", out))
}
