//! The ways to the hosts: worked out once for each, and the keys on them that need a passphrase.

use crate::context::RunContext;
use crate::session::endpoint::{Endpoint, EndpointError};
use crate::tasks::side_by_side;
use crate::{Event, TargetError};
use camino::Utf8PathBuf;
use converge_executor::without_name;
use converge_model::inventory::{ConnectionSettings, ConnectionType};
use converge_ssh::{ConnectError, Mark, Session, SshEndpoint, Trust};
use converge_syntax::{Diagnostics, Node, Span};

/// Where a host is reached and as whom.
pub(crate) async fn endpoint(context: &RunContext, host: &str) -> Endpoint {
    if let Some(access) = context.pool.endpoints.lock().await.get(host) {
        return access.clone();
    }
    let inventory = |name: &str| {
        let known = context.project.inventory().host(name).is_some();
        known.then(|| connection(context, name).map_err(EndpointError::Variables))
    };
    let access = match connection(context, host) {
        Ok(own) => {
            crate::connect::endpoint::access(host, &own, &inventory, &context.options, &context.pool.ssh)
                .await
        }
        Err(found) => Err(EndpointError::Variables(found)),
    };
    context.pool.endpoints.lock().await.insert(host.to_owned(), access.clone());
    access
}

/// The variables of a host's connection.
fn connection(context: &RunContext, host: &str) -> Result<ConnectionSettings, Diagnostics> {
    let complaints = std::cell::RefCell::new(Diagnostics::new());
    let lookup = |name: &str| match context.project.host_var(host, name) {
        Ok(None) => {
            let default = context.options.connection_defaults.get(name);
            default.map(|value| Node::new(value.as_str(), Span::nowhere("ansible.cfg")))
        }
        Ok(node) => node,
        Err(found) => {
            complaints.borrow_mut().extend(found.0);
            None
        }
    };
    let (mut connection, _warnings) = ConnectionSettings::resolve(host, lookup, |node| Ok(node.clone()))?;
    if connection.transport == ConnectionType::Ssh && connection.user.is_none() {
        connection.user.clone_from(&context.options.login_user);
    }
    complaints.into_inner().or_value(connection)
}

/// Connects to a host. The steps that were taken come beside, those before a failure too.
pub(crate) async fn enter(
    context: &RunContext,
    host: &str,
    target: &SshEndpoint,
) -> (Vec<Mark>, Result<Session, ConnectError>) {
    let (trail, session) = Session::explore(target, &context.pool.ssh).await;
    for mark in &trail {
        match mark {
            Mark::HostKey { algorithm, fingerprint, trust: Trust::New(file) } => {
                context.events.send(Event::HostKeyRecorded {
                    host: host.to_owned(),
                    key: format!("{algorithm} {fingerprint}"),
                    file: file.clone(),
                });
            }
            Mark::RsaKeyFile { path } => {
                context.events.send(Event::RsaKeyFile { host: host.to_owned(), file: path.clone() });
            }
            _ => {}
        }
    }
    (trail, session)
}

/// Key files on the ways to the hosts of this run that need a passphrase, and are not in the ssh-agent. Contacts no host.
pub(crate) async fn locked_keys(context: &RunContext) -> Vec<Utf8PathBuf> {
    let hosts = context.machines();
    let accesses = side_by_side(hosts.iter().map(|host| endpoint(context, host)).collect()).await;
    let targets: Vec<SshEndpoint> = accesses.into_iter().flatten().map(|(target, _)| target).collect();
    let all = targets.iter().flat_map(|target| target.jumps.iter().chain([target]));
    let mut files = Vec::new();
    for target in all {
        if target.key_files.is_empty() {
            // As ssh: the usual keys, where no agent has something better.
            if let (Some(home), None) = (&context.pool.ssh.home, &context.pool.ssh.agent) {
                files.extend(["id_ed25519", "id_ecdsa", "id_rsa"].map(|name| home.join(".ssh").join(name)));
            }
        } else {
            files.extend(target.key_files.iter().cloned());
        }
    }
    files.sort();
    files.dedup();
    converge_ssh::locked_keys(files, context.pool.ssh.agent.as_deref()).await
}

/// The reason why a host that cannot be connected to is excluded from the run.
pub(crate) fn no_session(host: &str, error: &ConnectError) -> TargetError {
    let message = without_name(host, &error.to_string());
    if error.is_refused_login() {
        TargetError::LoginRefused(message)
    } else if error.is_unreachable() {
        TargetError::Unreachable(message)
    } else {
        TargetError::Refused(message)
    }
}
