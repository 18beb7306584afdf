//! From the inventory's connection variables and ssh's configuration to targets of the SSH executor. The inventory wins.

use crate::Options;
use crate::session::endpoint::{Endpoint, EndpointError};
use camino::{Utf8Path, Utf8PathBuf};
use converge_model::inventory::{BecomeMethod, ConnectionSettings, ConnectionType, Hop, HostKeyChecking};
use converge_ssh::{Become, ClientConfig, Method, SshEndpoint};
use std::pin::Pin;
use std::time::Duration;

/// Jump hosts that are reached through jump hosts, and so on.
const DEPTH: usize = 8;

/// Gives the connection variables of a host of the inventory; nothing for other names.
pub(crate) type ConnectionLookup<'a> =
    dyn Fn(&str) -> Option<Result<ConnectionSettings, EndpointError>> + Sync + 'a;

/// Where and as whom.
pub(crate) async fn access(
    host: &str,
    connection: &ConnectionSettings,
    inventory: &ConnectionLookup<'_>,
    options: &Options,
    ssh: &converge_ssh::SessionOptions,
) -> Endpoint {
    if let Some(mode @ (HostKeyChecking::Off | HostKeyChecking::AcceptNew)) = connection.host_key_checking {
        let setting = if mode == HostKeyChecking::Off { "off" } else { "accept-new" };
        return Err(EndpointError::HostKeyChecking(setting));
    }
    let target = match connection.transport {
        ConnectionType::Local => SshEndpoint::local(host),
        ConnectionType::Ssh => target(host, connection, inventory, ssh, 0).await?,
    };
    let become_ = match (&options.become_user, &connection.become_user) {
        (Some(user), _) if target.user.as_ref() == Some(user) => Become::None,
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

/// A host with the hosts on the way to it.
fn target<'a>(
    name: &'a str,
    connection: &'a ConnectionSettings,
    inventory: &'a ConnectionLookup<'_>,
    ssh: &'a converge_ssh::SessionOptions,
    depth: usize,
) -> Pin<Box<dyn Future<Output = Result<SshEndpoint, EndpointError>> + Send + 'a>> {
    Box::pin(async move {
        let user = connection.user.as_deref();
        let config = ClientConfig::of(&connection.address, user, connection.port, ssh).await;
        let mut target = plain(name, connection, &config, ssh.home.as_deref());
        let hops = match (&connection.jumps, &config.proxy_jump) {
            (Some(hops), _) => hops.clone(),
            (None, Some(text)) => {
                Hop::parse_list(text).ok_or_else(|| EndpointError::ProxyJump(text.clone()))?
            }
            (None, None) => {
                target.proxy_command = config.proxy_command;
                return Ok(target);
            }
        };
        // A jump host that the variables of a group or a `Host *` send through itself is reached directly, as by ssh.
        let itself =
            |hop: &Hop| hop.host == name || hop.host == connection.address || hop.host == target.address;
        if hops.iter().any(itself) {
            return Ok(target);
        }
        if depth >= DEPTH {
            return Err(EndpointError::TooManyJumps(DEPTH));
        }
        let mut jumps: Vec<SshEndpoint> = Vec::new();
        for hop in &hops {
            let own = match inventory(&hop.host) {
                Some(own) => own.map_err(|error| EndpointError::JumpHost {
                    host: hop.host.clone(),
                    error: Box::new(error),
                })?,
                None => ConnectionSettings::plain(&hop.host),
            };
            let own = ConnectionSettings {
                user: hop.user.clone().or(own.user.clone()),
                port: hop.port.or(own.port),
                // Only the first one is dialled from here, and may need a way of its own.
                jumps: if jumps.is_empty() { own.jumps.clone() } else { Some(Vec::new()) },
                ..own
            };
            let mut via = self::target(&hop.host, &own, inventory, ssh, depth + 1).await?;
            jumps.append(&mut via.jumps);
            if via.known_hosts.is_empty() && via.host_keys.is_empty() {
                via.known_hosts.clone_from(&target.known_hosts);
            }
            if via.key_files.is_empty() {
                via.key_files.clone_from(&target.key_files);
                via.certificate_files.clone_from(&target.certificate_files);
            }
            jumps.push(via);
        }
        target.jumps = jumps;
        Ok(target)
    })
}

/// A host without the way to it.
fn plain(
    name: &str,
    access: &ConnectionSettings,
    config: &ClientConfig,
    home: Option<&Utf8Path>,
) -> SshEndpoint {
    let path = |text: &String| converge_ssh::expand(Utf8Path::new(text), home);
    let paths = |own: &[String], other: &[Utf8PathBuf]| -> Vec<Utf8PathBuf> {
        if own.is_empty() { other.to_vec() } else { own.iter().map(path).collect() }
    };
    let known_hosts = match &access.known_hosts {
        // No file at all: nothing is known, and the usual files do not count.
        Some(files) if files.is_empty() => vec![Utf8PathBuf::from("/dev/null")],
        Some(files) => files.iter().map(path).collect(),
        None => config.known_hosts.clone(),
    };
    SshEndpoint {
        address: config.host_name.clone().unwrap_or_else(|| access.address.clone()),
        port: access.port.or(config.port).unwrap_or(22),
        user: access.user.clone().or_else(|| config.user.clone()),
        key_files: paths(&access.key_files, &config.key_files),
        certificate_files: paths(&access.certificate_files, &config.certificate_files),
        identities_only: access.identities_only || (access.key_files.is_empty() && config.identities_only),
        password: access.password.clone(),
        host_key_alias: access.host_key_alias.clone().or_else(|| config.host_key_alias.clone()),
        known_hosts,
        host_keys: access.host_keys.clone(),
        connect_timeout: Duration::from_secs(access.timeout.unwrap_or(10)),
        ..SshEndpoint::ssh(name)
    }
}
