//! Mistakes that concern single hosts, and have their cause on this machine: they stop a run before any host is contacted.

use std::collections::BTreeSet;

use camino::Utf8Path;
use converge_syntax::{Diagnostic, Diagnostics};

use crate::inventory::{ConnectionSettings, ConnectionType};
use crate::project::Project;

/// The variables that name a key file.
const KEY_FILES: [&str; 2] = ["ansible_private_key_file", "ansible_ssh_private_key_file"];

impl Project {
    /// Errors of the connection variables of this run's hosts: an unknown method, a key file that is not there. Each once.
    #[must_use]
    pub fn connection_errors(&self) -> Diagnostics {
        let mut observed = BTreeSet::new();
        let mut found = Diagnostics::new();
        for host in self.hosts().iter().filter(|host| self.entry_hosts(host).is_none()) {
            if !self.in_maintenance(host) {
                found.extend(self.connection_errors_of(host));
            }
        }
        found.into_iter().filter(|problem| observed.insert(problem.to_string())).collect()
    }

    fn connection_errors_of(&self, host: &str) -> Diagnostics {
        let complaints = std::cell::RefCell::new(Diagnostics::new());
        let lookup = |name: &str| match self.host_var(host, name) {
            Ok(node) => node,
            Err(more) => {
                complaints.borrow_mut().extend(more);
                None
            }
        };
        let resolved = ConnectionSettings::resolve(host, lookup, |node| Ok(node.clone()));
        let mut found = complaints.into_inner();
        match resolved {
            Err(more) => found.extend(more),
            // An agent may hold the key nevertheless, and a password needs none.
            Ok((connection, _))
                if connection.transport == ConnectionType::Ssh
                    && connection.password.is_none()
                    && !has_agent() =>
            {
                let named = KEY_FILES.iter().find_map(|name| Some((*name, self.host_var(host, name).ok()??)));
                if let Some((name, node)) = named
                    && let Some(path) = node.as_str()
                    && let Err(error) = std::fs::File::open(converge_store::from_home(Utf8Path::new(path)))
                {
                    found.push(
                        Diagnostic::error("no-key-file", format!("`{name}` cannot be read: {path}: {error}"))
                            .label(&node.span, "named here")
                            .help("name a private key on this machine, or take it out: the agent and ssh's usual keys are tried"),
                    );
                }
            }
            Ok(_) => {}
        }
        found
    }
}

fn has_agent() -> bool {
    std::env::var_os("SSH_AUTH_SOCK").is_some_and(|socket| !socket.is_empty())
}
