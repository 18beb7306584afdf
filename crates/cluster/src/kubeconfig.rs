//! The check of a kubeconfig before it is used. Pure.

use crate::certificate;
use crate::login::{Login, LoginError, program};
use kube::config::{ExecInteractiveMode, Kubeconfig};
use serde_json::Value;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a kubeconfig cannot be used, and the correction. Nothing of its values is reported: it holds keys.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum KubeconfigError {
    /// It is no YAML; the parser names the line.
    #[error("line {0} is not valid YAML")]
    NotYamlAt(u64),
    /// It is no YAML.
    #[error("it is not valid YAML")]
    NotYaml,
    /// It is YAML of something else.
    #[error("it is not a kubeconfig (`kind: Config` with clusters, users and contexts)")]
    NotKubeconfig,
    /// No context is chosen: those that it has.
    #[error("it names no current context; choose one of these: {}", .0.join(", "))]
    NoCurrentContext(Vec<String>),
    /// The chosen context is not in it.
    #[error("it has no context `{name}`; it has: {}", known.join(", "))]
    NoContext {
        /// The chosen one.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// Its user logs in with a program that does not run, or that failed.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// Its user has an `auth-provider`.
    #[error(
        "its user logs in through an `auth-provider`, which converge does not do; use a client certificate or a token"
    )]
    AuthProvider,
    /// Its cluster is behind a proxy.
    #[error("its cluster is behind `proxy-url`; reach it through a host of the inventory instead")]
    Proxy,
    /// It names a file of another machine, or relative to it.
    #[error(
        "its `{field}` names the file {file}; hold the content itself in it (`kubectl config view --flatten --raw`)"
    )]
    File {
        /// The field of the kubeconfig.
        field: &'static str,
        /// The file.
        file: String,
    },
    /// The library makes no client of it: its message.
    #[error("{0}")]
    Client(String),
}

/// A kubeconfig that may be used.
#[derive(Debug)]
pub(crate) struct UsableKubeconfig {
    /// The kubeconfig; its `exec` names the program by its absolute path.
    pub config: Kubeconfig,
    /// The moment at which its client certificate ends.
    pub expires: Option<jiff::Timestamp>,
    /// Its user's name, and the program that logs in.
    pub login: Option<(String, PathBuf)>,
}

/// The kubeconfig. `login`: the programs that it may run; none for one that was read off a host. What would run others, or read files behind our
/// back, is refused.
pub(crate) fn check(
    text: &str,
    context: Option<&str>,
    login: Option<&Login>,
) -> Result<UsableKubeconfig, KubeconfigError> {
    // A parser's message may quote the text, which holds keys: only the place is reported.
    let mut parsed = Kubeconfig::from_yaml(text).map_err(|_| match serde_yaml::from_str::<Value>(text) {
        Err(error) => match error.location() {
            Some(at) => KubeconfigError::NotYamlAt(at.line() as u64),
            None => KubeconfigError::NotYaml,
        },
        Ok(_) => KubeconfigError::NotKubeconfig,
    })?;
    let names = || parsed.contexts.iter().map(|c| c.name.clone()).collect();
    let chosen = context.or(parsed.current_context.as_deref().filter(|c| !c.is_empty()));
    let chosen = chosen.ok_or_else(|| KubeconfigError::NoCurrentContext(names()))?;
    let entry = parsed
        .contexts
        .iter()
        .find(|c| c.name == chosen)
        .and_then(|c| c.context.as_ref())
        .ok_or_else(|| KubeconfigError::NoContext { name: chosen.to_owned(), known: names() })?;
    let cluster = parsed.clusters.iter().find(|c| c.name == entry.cluster).and_then(|c| c.cluster.as_ref());
    let named = entry.user.clone().unwrap_or_default();
    let user = parsed.auth_infos.iter().find(|u| u.name == named);
    let user = user.and_then(|u| u.auth_info.as_ref());
    let runs = match user.and_then(|u| u.exec.as_ref()) {
        None => None,
        Some(exec) => {
            let program = program(exec.command.as_deref(), login)?;
            if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
                return Err(LoginError::Interactive(program.display().to_string()).into());
            }
            Some(program)
        }
    };
    if user.is_some_and(|u| u.auth_provider.is_some()) {
        return Err(KubeconfigError::AuthProvider);
    }
    if cluster.is_some_and(|c| c.proxy_url.is_some()) {
        return Err(KubeconfigError::Proxy);
    }
    let files = [
        ("certificate-authority", cluster.and_then(|c| c.certificate_authority.as_deref())),
        ("client-certificate", user.and_then(|u| u.client_certificate.as_deref())),
        ("client-key", user.and_then(|u| u.client_key.as_deref())),
        ("tokenFile", user.and_then(|u| u.token_file.as_deref())),
    ];
    for (field, file) in files {
        match file {
            Some(file) if login.is_none() || !file.starts_with('/') => {
                return Err(KubeconfigError::File { field, file: file.to_owned() });
            }
            _ => {}
        }
    }
    let expires = user.and_then(|u| u.client_certificate_data.as_deref()).and_then(pem);
    if let Some(program) = &runs {
        let users = parsed.auth_infos.iter_mut().filter(|u| u.name == named);
        for exec in users.filter_map(|u| u.auth_info.as_mut()?.exec.as_mut()) {
            exec.command = Some(program.display().to_string());
            exec.interactive_mode = Some(ExecInteractiveMode::Never);
        }
    }
    Ok(UsableKubeconfig { config: parsed, expires, login: runs.map(|program| (named, program)) })
}

fn pem(data: &str) -> Option<jiff::Timestamp> {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(data.trim()).ok()?;
    certificate::expires(std::str::from_utf8(&bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(user: &str, cluster: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:6443'{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        )
    }

    fn refused(text: &str, context: Option<&str>, far: bool) -> String {
        let login = (!far).then(Login::default);
        check(text, context, login.as_ref()).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_would_run_programs_or_read_files_is_refused() {
        let exec = config(
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}",
            "",
        );
        assert!(refused(&exec, None, true).contains("read off a host runs no program"));
        assert!(refused(&exec, None, false).contains("converge_kubeconfig_exec: [/usr/local/bin/aws]"));
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let login = Login { file: file.clone(), programs: vec![file.clone()] };
        let listed = exec.replace("command: aws", "command: Cargo.toml");
        let checked = check(&listed, None, Some(&login)).unwrap();
        assert_eq!(checked.login, Some(("u".to_owned(), file.clone())));
        let user = checked.config.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.exec.as_ref().unwrap().command, Some(file.display().to_string()));
        let asks = listed.replace("Never", "Always");
        assert!(matches!(
            check(&asks, None, Some(&login)).unwrap_err(),
            KubeconfigError::Login(LoginError::Interactive(_))
        ));
        let file = config("client-key: /etc/key", "");
        assert!(refused(&file, None, true).contains("--flatten"));
        assert_eq!(refused(&file, None, false), "");
        assert!(refused(&config("tokenFile: token", ""), None, false).contains("tokenFile"));
        assert!(refused(&config("token: x", ", proxy-url: 'http://p'"), None, false).contains("proxy-url"));
    }

    #[test]
    fn a_context_is_named_or_current() {
        let text = config("token: x", "");
        assert!(check(&text, None, None).is_ok());
        assert_eq!(refused(&text, Some("b"), true), "it has no context `b`; it has: a");
        assert!(
            refused(&text.replace("current-context: a", "current-context: ''"), None, true)
                .contains("these: a")
        );
    }

    #[test]
    fn a_bad_kubeconfig_is_never_quoted() {
        for bad in ["token: [s3cret", "s3cret", "clusters: s3cret"] {
            let why = refused(bad, None, true);
            assert!(!why.is_empty() && !why.contains("s3cret"), "{why}");
        }
    }
}
