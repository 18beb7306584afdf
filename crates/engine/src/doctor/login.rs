//! The way in to a host: the steps that were taken, and the one at which it ended.

use super::{Health, HostDoctor};
use converge_executor::without_name as bare;
use converge_ssh::{ConnectError, ConnectPhase, Mark, SshEndpoint, Trust};
use std::time::Duration;

/// The steps that were taken, with their durations.
pub(super) fn tell_trail(chart: &mut HostDoctor, trail: &[Mark]) {
    let ms = |took: &Duration| format!("{} ms", took.as_millis());
    for mark in trail {
        match mark {
            Mark::Resolved { name, addresses } => {
                let found = if addresses.len() == 1 && addresses.first() == Some(name) {
                    format!("{name} is an address")
                } else {
                    format!("{name} is {}", addresses.join(", "))
                };
                chart.say("name", Health::Well, found, None);
            }
            Mark::Through { hop, to, took } => {
                chart.say("jump host", Health::Well, format!("{hop} leads to {to} ({})", ms(took)), None);
            }
            Mark::Dialled { address, took } => {
                chart.say("tcp", Health::Well, format!("{address} answers ({})", ms(took)), None);
            }
            Mark::Greeted { line } => chart.say("ssh", Health::Well, line.as_str(), None),
            Mark::HostKey { algorithm, fingerprint, trust } => {
                let why = match trust {
                    Trust::Recorded(at) => format!("recorded at {at}"),
                    Trust::Certified(at) => format!("signed by the authority at {at}"),
                    Trust::New(file) => format!("new, now recorded in {file}"),
                };
                chart.say("host key", Health::Well, format!("{algorithm} {fingerprint}, {why}"), None);
            }
            Mark::RsaKeyFile { path } => chart.say(
                "login",
                Health::Odd,
                format!("an RSA key from the file {path} signed it"),
                Some("add the key to the ssh-agent, or log in with an ed25519 key"),
            ),
            Mark::LoggedIn { user } => {
                let with = trail.iter().find_map(|mark| match mark {
                    Mark::Tried { what, taken: true } => Some(what.as_str()),
                    _ => None,
                });
                let found = format!("{user}, with {}", with.unwrap_or("nothing at all"));
                chart.say("login", Health::Well, found, None);
                let refused =
                    trail.iter().filter(|mark| matches!(mark, Mark::Tried { taken: false, .. })).count();
                if refused >= 3 {
                    chart.say(
                        "login",
                        Health::Odd,
                        format!(
                            "{refused} keys were refused before that; sshd gives up after MaxAuthTries (6)"
                        ),
                        Some("name the key with ansible_ssh_private_key_file"),
                    );
                }
            }
            _ => {}
        }
    }
}

/// The step at which the way in ended, why, and what to do.
pub(super) fn tell_refusal(
    chart: &mut HostDoctor,
    target: &SshEndpoint,
    trail: &[Mark],
    error: &ConnectError,
) {
    let found = bare(&target.name, &error.to_string());
    let connected = trail.iter().any(|mark| matches!(mark, Mark::Dialled { .. } | Mark::Through { .. }));
    let (step, help): (&'static str, Option<String>) = match error {
        ConnectError::Dns { address, .. } => {
            ("name", Some(format!("`getent hosts {address}` asks the same question")))
        }
        ConnectError::Unreachable { address, port, .. } if target.jumps.is_empty() => (
            "tcp",
            Some(format!(
                "`nc -vz {address} {port}` asks the same question; on the host: `systemctl status ssh`, `ss -ltn`"
            )),
        ),
        ConnectError::Unreachable { .. } => {
            ("tcp", Some("look from the jump host: can it reach this address and port?".to_owned()))
        }
        ConnectError::Timeout { .. } if !connected => (
            "tcp",
            Some("is the host on, is the address right, does a firewall drop the packets?".to_owned()),
        ),
        ConnectError::Timeout { during: ConnectPhase::Login, .. } => {
            ("login", Some("on the host: `journalctl -u ssh` (a slow PAM module, UseDNS?)".to_owned()))
        }
        ConnectError::Timeout { .. } | ConnectError::HungUp { .. } => {
            ("ssh", Some("on the host's console: `systemctl status ssh`, `journalctl -u ssh`".to_owned()))
        }
        ConnectError::Protocol { .. } => ("ssh", Some("is ansible_port the port of sshd?".to_owned())),
        ConnectError::NoCommonAlgorithm { .. } => {
            ("ssh", Some("converge offers what a current OpenSSH does: update the host's sshd".to_owned()))
        }
        ConnectError::RefusedLogin { user, .. } => (
            "login",
            Some(format!(
                "is one of these keys in ~{user}/.ssh/authorized_keys there, and may {user} log in (AllowUsers, PermitRootLogin)? \
                 `journalctl -u ssh` on the host says why it refused"
            )),
        ),
        ConnectError::Jump { .. } => ("jump host", None),
        _ => ("host key", None),
    };
    if step == "login" {
        for mark in trail {
            if let Mark::Tried { what, taken: false } = mark {
                chart.say("login", Health::Odd, format!("refused: {what}"), None);
            }
        }
    }
    chart.say(step, Health::Ill, found, help.as_deref());
}
