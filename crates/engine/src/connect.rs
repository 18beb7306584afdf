//! From the inventory's connection variables to a target of the SSH executor.

use crate::Options;
use camino::Utf8PathBuf;
use converge_model::inventory::{BecomeMethod, Connection, HostKeyChecking, Transport};
use converge_ssh::{Become, Method, Target};
use std::time::Duration;

/// Where and as whom.
pub(crate) fn target(host: &str, way: &Connection, options: &Options) -> Result<(Target, Become), String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let path = |text: &String| match text.strip_prefix("~/") {
        Some(rest) => Utf8PathBuf::from(&home).join(rest),
        None => Utf8PathBuf::from(text),
    };
    if let Some(mode @ (HostKeyChecking::Off | HostKeyChecking::AcceptNew)) = way.host_key_checking {
        let said = if mode == HostKeyChecking::Off { "off" } else { "accept-new" };
        return Err(format!(
            "host key checking is set to {said}; converge always checks host keys. Remove the setting and add the host's key \
             to known_hosts (`ssh-keyscan`, compared with the host's console)"
        ));
    }
    let target = Target {
        address: way.address.clone(),
        port: way.port.unwrap_or(22),
        user: way.user.clone(),
        key_files: way.key_files.iter().map(path).collect(),
        identities_only: way.identities_only,
        password: way.password.clone(),
        host_key_alias: way.host_key_alias.clone(),
        known_hosts: way.known_hosts.iter().flatten().map(path).collect(),
        connect_timeout: Duration::from_secs(way.timeout.unwrap_or(10)),
        transport: match way.transport {
            Transport::Ssh => converge_ssh::Transport::Ssh,
            Transport::Local => converge_ssh::Transport::Local,
        },
        ..Target::ssh(host)
    };
    let become_ = match (&options.become_user, &way.become_user) {
        (Some(user), _) if way.user.as_ref() == Some(user) => Become::None,
        (Some(user), None) => Become::User {
            method: Method::Sudo,
            user: user.clone(),
            password: options.become_password.clone(),
        },
        (None, None) => Become::None,
        (asked, Some(b)) => Become::User {
            method: match b.method {
                BecomeMethod::Sudo => Method::Sudo,
                BecomeMethod::Su => Method::Su,
                BecomeMethod::Doas => Method::Doas,
            },
            user: asked.as_ref().unwrap_or(&b.user).clone(),
            password: b.password.clone().or_else(|| options.become_password.clone()),
        },
    };
    Ok((target, become_))
}
