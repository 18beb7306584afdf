//! `wait_for`

use crate::look::{check_deadline, check_path};
use crate::restart::{check_unit_name, full_name};
use converge_resource::{Claim, ParamError, Probe, Resource, Stop, View, WantedStates, quote, unlisted};
use schemars::JsonSchema;
use serde::Deserialize;

/// Waits until a port listens, a file is there, a unit runs, a command ends well, or a URL answers.
///
/// It changes nothing, and belongs in `resources` and `verify`. Where an earlier resource of the run changes this host, the plan defers it to its turn;
/// else it is looked at by the plan already. What does not come before the deadline fails, with what was observed last, and stops the resources after it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitFor {
    /// Until this TCP port listens on the host; with `host`, until it takes a connection from the host.
    port: Option<u16>,
    /// The machine whose `port` is meant, as the host reaches it.
    host: Option<String>,
    /// Until this path is there.
    file: Option<String>,
    /// With `file` or `url`: until a line matches this extended regular expression (`grep -E`).
    contains: Option<String>,
    /// Until this systemd unit is active.
    unit: Option<String>,
    /// Until this read-only script ends with status 0.
    command: Option<String>,
    /// Until this HTTP or HTTPS address answers. It needs `curl` or `wget` on the host.
    url: Option<String>,
    /// The HTTP status that counts.
    #[serde(default = "ok")]
    status: u16,
    /// Do not check the certificate of `url`.
    #[serde(default)]
    insecure: bool,
    /// Wait for the opposite: the port is closed, the file is gone, the unit does not run, the command fails.
    #[serde(default)]
    gone: bool,
    /// Seconds after which the wait has failed.
    #[serde(default = "a_minute")]
    timeout: u32,
    /// Seconds between two looks.
    #[serde(default = "one")]
    every: u32,
}

fn ok() -> u16 {
    200
}

fn a_minute() -> u32 {
    60
}

fn one() -> u32 {
    1
}

impl WaitFor {
    fn given(&self) -> Vec<&'static str> {
        [
            self.port.map(|_| "/port"),
            self.file.as_ref().map(|_| "/file"),
            self.unit.as_ref().map(|_| "/unit"),
            self.command.as_ref().map(|_| "/command"),
            self.url.as_ref().map(|_| "/url"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The condition, for people.
    fn what(&self) -> String {
        let verb = |here: &'static str, gone: &'static str| if self.gone { gone } else { here };
        match (self.port, &self.host, &self.file, &self.unit, &self.url) {
            (Some(port), Some(host), ..) => {
                format!("{host}:{port} {}", verb("to accept connections", "to accept no connection"))
            }
            (Some(port), ..) => format!("port {port} {}", verb("to listen", "to be closed")),
            (_, _, Some(file), ..) => match &self.contains {
                Some(text) => format!("{file} {} {text}", verb("to contain", "to lose")),
                None => format!("{file} {}", verb("to exist", "to be gone")),
            },
            (_, _, _, Some(unit), _) => {
                format!("{} {}", full_name(unit), verb("to be active", "to be inactive"))
            }
            (_, _, _, _, Some(url)) => {
                format!("{url} {} {}", verb("to answer with", "to stop answering with"), self.status)
            }
            _ => format!("the command {}", verb("to succeed", "to fail")),
        }
    }

    /// A shell function `look`: status 0 when it is so now, and what was observed in `why`. Status 2: it can never be known.
    fn look(&self) -> String {
        if let (Some(port), Some(host)) = (self.port, &self.host) {
            let host = quote(host);
            return format!(
                "why='no connection'\n\
                 if command -v bash >/dev/null 2>&1; then\n\
                 timeout 5 bash -c 'exec 3<>\"/dev/tcp/$0/$1\"' {host} {port} 2>/dev/null && why='it takes connections'\n\
                 elif command -v nc >/dev/null 2>&1; then nc -z -w 5 {host} {port} >/dev/null 2>&1 && why='it takes connections'\n\
                 else why='the host has neither bash nor nc to try it with'; return 2; fi"
            );
        }
        if let Some(port) = self.port {
            return format!(
                "why='nothing listens there'\n\
                 cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | \
                 awk '$4 == \"0A\" && substr($2, length($2) - 4) == \":{port:04X}\" {{ f = 1 }} END {{ exit !f }}' && \
                 why='something listens there'"
            );
        }
        if let Some(file) = &self.file {
            let file = quote(file);
            return match &self.contains {
                Some(text) => format!(
                    "why='the file is not there'\n[ -e {file} ] || return 1\nwhy='no line matches'\n\
                     grep -Eq -- {} {file} 2>/dev/null && why='a line matches'",
                    quote(text)
                ),
                None => format!("why='it is not there'\n[ -e {file} ] && why='it is there'"),
            };
        }
        if let Some(unit) = &self.unit {
            let unit = quote(&full_name(unit));
            return format!(
                "why=\"it is $(systemctl show -p LoadState -p ActiveState -p SubState -p Result -- {unit} | tr '\\n' ' ')\"\n\
                 systemctl is-active -q -- {unit}"
            );
        }
        if let Some(url) = &self.url {
            let insecure = if self.insecure { "-k " } else { "" };
            let unchecked = if self.insecure { "--no-check-certificate " } else { "" };
            let (url, status) = (quote(url), self.status);
            let body = match &self.contains {
                Some(text) => format!(
                    "printf '%s\\n' \"$said\" | grep -Eq -- {} || {{ why='no line of the answer matches'; return 1; }}",
                    quote(text)
                ),
                None => "return 0".to_owned(),
            };
            return format!(
                "if command -v curl >/dev/null 2>&1; then\n\
                 said=$(cv_curl {url} -sS {insecure}--max-time 10 -w '\\n%{{http_code}}' 2>&1)\n\
                 code=${{said##*$nl}} said=${{said%$nl*}}\n\
                 case $code in 000) why=$(printf '%s' \"$said\" | tail -n 1) ;; *) why=\"it answers with $code\" ;; esac\n\
                 elif command -v wget >/dev/null 2>&1; then\n\
                 why='it does not answer' code=000\n\
                 said=$(cv_wget {url} -q {unchecked}-T 10 -O - 2>&1) && code=200 why='it answers with 200'\n\
                 else why='the host has neither curl nor wget'; return 2; fi\n\
                 [ \"$code\" = {status} ] || return 1\n{body}"
            );
        }
        format!(
            "said=$({} 2>&1)\nstatus=$?\n\
             why=\"it ended with status $status: $(printf '%s' \"$said\" | tail -n 1 | cut -c1-200)\"\n\
             [ $status -eq 0 ]",
            unlisted("timeout 60", self.command.as_deref().unwrap_or("false"))
        )
    }

    fn probe(&self) -> Probe {
        let here = if self.gone { "[ $seen -eq 1 ]" } else { "[ $seen -eq 0 ]" };
        let script = format!(
            "nl='\n'\nlook() {{\n{}\n}}\n\
             end=$(($(date +%s) + {}))\n\
             while :; do\n\
             look; seen=$?\n\
             [ $seen -eq 0 ] || [ $seen -eq 2 ] || seen=1\n\
             {here} && exit 0\n\
             [ $seen -ne 2 ] && [ \"$(date +%s)\" -lt $end ] || break\n\
             sleep {}\n\
             done\n\
             printf '%s\\n' \"$why\"; exit 1",
            self.look(),
            self.timeout,
            self.every
        );
        // A look that hangs is ended after a minute.
        Probe::Run { script, user: None, timeout: u64::from(self.timeout) + 75 }
    }
}

impl Resource for WaitFor {
    const KIND: &'static str = "wait_for";
    const READ_ONLY: bool = true;
    const EXAMPLE: &'static str = "\
- name: the web server answers
  wait_for: {url: \"http://127.0.0.1:8080/healthz\", timeout: 30}
";

    fn validate(&self) -> Vec<ParamError> {
        let mut errors = Vec::new();
        if let Some(file) = &self.file {
            check_path("/file", file, &mut errors);
        }
        if let Some(unit) = &self.unit {
            let mut found = Vec::new();
            check_unit_name(unit, &mut found);
            errors.extend(found.into_iter().map(|e| ParamError { pointer: "/unit".to_owned(), ..e }));
        }
        let mut wrong = |p: &str, m: &str, h: &str| errors.push(ParamError::new(p, m, h));
        match self.given().as_slice() {
            [] => {
                wrong("", "nothing is waited for", "give one of `port`, `file`, `unit`, `command` and `url`")
            }
            [_] => {}
            [_, second, ..] => wrong(second, "two things are waited for", "write a resource for each"),
        }
        if self.port == Some(0) {
            wrong("/port", "this is not a port", "write 1 to 65535");
        }
        let good = |b: u8| b.is_ascii_alphanumeric() || b".:-_".contains(&b);
        if self.host.as_ref().is_some_and(|h| h.is_empty() || h.starts_with('-') || !h.bytes().all(good)) {
            wrong("/host", "this is not a valid name or address of a machine", "write it as `10.0.0.5`");
        }
        if self.host.is_some() && self.port.is_none() {
            wrong("/host", "`host` says whose port is meant", "give `port` too");
        }
        if self.contains.is_some() && self.file.is_none() && self.url.is_none() {
            wrong("/contains", "only a file or an answer contains something", "give `file` or `url`");
        }
        let http = |u: &String| u.starts_with("http://") || u.starts_with("https://");
        if self.url.as_ref().is_some_and(|u| !http(u) || u.chars().any(|c| c.is_control() || c == ' ')) {
            wrong("/url", "this is no address of HTTP", "write it as `http://127.0.0.1:8080/`");
        }
        if !(100..=599).contains(&self.status) {
            wrong("/status", "this is no status of HTTP", "write 100 to 599");
        }
        if self.command.as_ref().is_some_and(|c| c.trim().is_empty() || c.contains('\0')) {
            wrong("/command", "the script is empty or has a NUL in it", "write what must end well");
        }
        check_deadline("/timeout", self.timeout.into(), 3600, &mut errors);
        if !(1..=60).contains(&self.every) {
            errors.push(ParamError::new("/every", "this is out of range", "write 1 to 60 seconds"));
        }
        errors
    }

    fn claims(&self) -> Vec<Claim> {
        Vec::new()
    }

    fn plan(&self, view: &dyn View) -> Result<WantedStates, Stop> {
        view.after_all()?;
        let answer = view.run(&self.probe())?;
        if answer.status == 0 {
            return Ok(WantedStates::default());
        }
        let reply = if answer.stdout.trim().is_empty() { &answer.stderr } else { &answer.stdout };
        Err(Stop::Failed(format!(
            "timed out after {} s waiting for {}: {}",
            self.timeout,
            self.what(),
            reply.trim()
        )))
    }
}

#[cfg(test)]
#[path = "wait_for_tests.rs"]
mod tests;
