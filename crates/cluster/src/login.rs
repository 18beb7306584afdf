//! The program with which the user of a kubeconfig logs in (`exec`), as `aws eks get-token` is one. It runs on this machine, so it must be listed.

use converge_store::trust::{Owner, RunningUser, other_exchanger, other_writer};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The programs that a kubeconfig of this machine may run to log in.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The file of the kubeconfig.
    pub file: PathBuf,
    /// The programs, by their absolute paths.
    pub programs: Vec<PathBuf>,
}

/// The reason why the program of a kubeconfig does not run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoginError {
    /// The kubeconfig was read off a host.
    #[error(
        "its user runs {0} to log in (`exec`), and a kubeconfig that was read off a host runs no program on this machine; use a client certificate or a token of a service account, or a kubeconfig of this machine (`converge_kubeconfig`)"
    )]
    Far(String),
    /// Nobody has listed it.
    #[error(
        "its user runs {0} to log in (`exec`); where that is meant, list the program by its absolute path: `converge_kubeconfig_exec: [{1}]`"
    )]
    NotListed(String, String),
    /// An entry of the list is no absolute path.
    #[error("converge_kubeconfig_exec: `{}` is no absolute path", .0.display())]
    Relative(PathBuf),
    /// The kubeconfig has no command.
    #[error("its user logs in with `exec`, which names no `command`")]
    NoCommand,
    /// It would ask questions at the terminal.
    #[error(
        "its user logs in with {0}, which asks at the terminal (`interactiveMode: Always`): converge has none for it"
    )]
    Interactive(String),
    /// The program, or the kubeconfig, is not there.
    #[error("{path}: {why}", path = .0.display(), why = .1)]
    Missing(PathBuf, String),
    /// Others may change the program, the kubeconfig or a directory above them.
    #[error("{} may be changed by others than root and this user, and it decides what runs on this machine; remove their permission to write", .0.display())]
    Open(PathBuf),
    /// The program failed: the first line that it wrote to stderr.
    #[error("{path}, with which its user logs in, failed: {why}", path = .0.display(), why = .1)]
    Failed(PathBuf, String),
    /// It did not end in time.
    #[error("{path}, with which its user logs in, did not end within {seconds} s", path = .0.display(), seconds = .1)]
    Slow(PathBuf, u64),
}

/// The program that logs in: listed, and such that nobody else can change it.
pub(crate) fn program(command: Option<&str>, login: Option<&Login>) -> Result<PathBuf, LoginError> {
    let command = command.filter(|command| !command.is_empty()).ok_or(LoginError::NoCommand)?;
    let Some(login) = login else { return Err(LoginError::Far(command.to_owned())) };
    if let Some(relative) = login.programs.iter().find(|program| !program.is_absolute()) {
        return Err(LoginError::Relative(relative.clone()));
    }
    let wanted = Path::new(command);
    let is_meant = |program: &&PathBuf| {
        *program == wanted
            || (wanted.components().count() == 1 && program.file_name() == Some(wanted.as_os_str()))
    };
    let example = if wanted.is_absolute() { command.to_owned() } else { format!("/usr/local/bin/{command}") };
    let program = login
        .programs
        .iter()
        .find(is_meant)
        .ok_or_else(|| LoginError::NotListed(command.to_owned(), example))?;
    let user = RunningUser::current();
    guarded(&login.file, &user)?;
    guarded(program, &user)?;
    Ok(program.clone())
}

/// Refuses a file that somebody else may change, or put another one in the place of, through its links too.
fn guarded(file: &Path, user: &RunningUser) -> Result<(), LoginError> {
    let missing = |e: &std::io::Error| LoginError::Missing(file.to_owned(), e.to_string());
    let real = file.canonicalize().map_err(|e| missing(&e))?;
    for at in file.ancestors().chain(real.ancestors()).filter(|at| !at.as_os_str().is_empty()) {
        let found = at.symlink_metadata().map_err(|e| missing(&e))?;
        let owner = Owner::from(&found);
        let other = if found.is_dir() { other_exchanger(owner, user) } else { other_writer(owner, user) };
        if other.is_some() {
            return Err(LoginError::Open(at.to_owned()));
        }
    }
    Ok(())
}

/// Gives the `exec` of a user of a kubeconfig this program, and the environment of this process where helm runs it: helm itself sees next to none of it.
pub(crate) fn for_helm(config: &mut Value, user: &str, program: &Path) {
    let users = config.get_mut("users").and_then(Value::as_array_mut).into_iter().flatten();
    for entry in users.filter(|entry| crate::object::text(entry, "/name") == user) {
        let Some(exec) = entry.pointer_mut("/user/exec").and_then(Value::as_object_mut) else { continue };
        exec.insert("command".to_owned(), json!(program.display().to_string()));
        exec.insert("interactiveMode".to_owned(), json!("Never"));
        let mut env = exec.get("env").and_then(Value::as_array).cloned().unwrap_or_default();
        let given: Vec<String> = env.iter().map(|one| crate::object::text(one, "/name").to_owned()).collect();
        let own = std::env::vars_os()
            .filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
        env.extend(
            own.filter(|(name, _)| !given.contains(name))
                .map(|(name, value)| json!({"name": name, "value": value})),
        );
        exec.insert("env".to_owned(), Value::Array(env));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn login(file: &Path, programs: &[&Path]) -> Login {
        Login { file: file.to_owned(), programs: programs.iter().map(|p| (*p).to_owned()).collect() }
    }

    #[test]
    fn only_a_listed_program_that_nobody_else_can_change_runs() {
        let dir = tempfile::tempdir().unwrap();
        let (config, aws) = (dir.path().join("config"), dir.path().join("aws"));
        for file in [&config, &aws] {
            std::fs::write(file, "").unwrap();
        }
        let path = aws.display().to_string();
        let listed = login(&config, &[&aws]);
        assert_eq!(program(Some("aws"), Some(&listed)), Ok(aws.clone()));
        assert_eq!(program(Some(&path), Some(&listed)), Ok(aws.clone()));
        assert_eq!(program(Some("aws"), None), Err(LoginError::Far("aws".to_owned())));
        assert_eq!(program(None, Some(&listed)), Err(LoginError::NoCommand));
        let not_listed = program(Some("gcloud"), Some(&listed)).unwrap_err().to_string();
        assert!(not_listed.contains("converge_kubeconfig_exec: [/usr/local/bin/gcloud]"), "{not_listed}");
        // Another program of the same name, and a path that only ends alike.
        for other in ["/opt/aws", "./aws", "bin/aws"] {
            assert!(matches!(program(Some(other), Some(&listed)), Err(LoginError::NotListed(..))), "{other}");
        }
        let relative = login(&config, &[Path::new("aws")]);
        assert!(matches!(program(Some("aws"), Some(&relative)), Err(LoginError::Relative(_))));
        let missing = login(&config, &[Path::new("/nowhere/aws")]);
        assert!(matches!(program(Some("aws"), Some(&missing)), Err(LoginError::Missing(..))));
        for open in [&config, &aws] {
            std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o666)).unwrap();
            assert_eq!(program(Some("aws"), Some(&listed)), Err(LoginError::Open(open.clone())));
            std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        // A group of which it is not known that nobody else is in it.
        std::fs::set_permissions(&aws, std::fs::Permissions::from_mode(0o664)).unwrap();
        // Only root gives a file to a group in which it is not.
        if std::os::unix::fs::chown(&aws, None, Some(54_321)).is_ok() {
            assert_eq!(program(Some("aws"), Some(&listed)), Err(LoginError::Open(aws.clone())));
        }
        std::fs::set_permissions(&aws, std::fs::Permissions::from_mode(0o644)).unwrap();
        // A link to a program in a folder of everybody.
        let everybody = dir.path().join("everybody");
        std::fs::create_dir(&everybody).unwrap();
        std::fs::write(everybody.join("real"), "").unwrap();
        std::fs::set_permissions(&everybody, std::fs::Permissions::from_mode(0o777)).unwrap();
        let link = dir.path().join("gke");
        std::os::unix::fs::symlink(everybody.join("real"), &link).unwrap();
        let linked = program(Some("gke"), Some(&login(&config, &[&link]))).unwrap_err();
        assert!(matches!(&linked, LoginError::Open(at) if at.ends_with("everybody")), "{linked}");
    }

    #[test]
    fn helm_runs_the_same_program_with_the_environment_of_this_process() {
        let mut config = json!({"users": [
            {"name": "u", "user": {"exec": {"command": "aws", "env": [{"name": "PATH", "value": "/own"}]}}},
            {"name": "other", "user": {"exec": {"command": "aws"}}},
        ]});
        for_helm(&mut config, "u", Path::new("/opt/aws"));
        let exec = &config["users"][0]["user"]["exec"];
        assert_eq!(exec["command"], "/opt/aws");
        let paths: Vec<&Value> =
            exec["env"].as_array().unwrap().iter().filter(|one| one["name"] == "PATH").collect();
        assert_eq!(paths, [&json!({"name": "PATH", "value": "/own"})]);
        assert!(exec["env"].as_array().unwrap().iter().any(|one| one["name"] == "HOME"));
        assert_eq!(config["users"][1]["user"]["exec"]["command"], "aws");
    }
}
