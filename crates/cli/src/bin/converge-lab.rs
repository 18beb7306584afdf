//! The program `converge-lab`: the disposable hosts of `converge test`, and a lab by hand (`converge-lab up 3`).

use clap::{Parser, Subcommand};
use converge_lab::kube::{ApiOptions, ApiServer, NodeSpec, Part, Repositories, ensure};
use converge_lab::{Host, Lab, LabError, LabOptions, default_cache_dir, forward_with_delay, wipe};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Disposable real Debian hosts on this machine.
#[derive(Parser)]
#[command(name = "converge-lab", version)]
struct LabArguments {
    /// The name of the lab.
    #[arg(long, default_value = "hand", global = true)]
    name: String,
    #[command(subcommand)]
    action: LabCommand,
}

#[derive(Subcommand)]
enum LabCommand {
    /// Start hosts h1 to hN, fresh, and leave them running.
    Up {
        /// The number of hosts.
        #[arg(default_value_t = 1)]
        count: u8,
        /// Hosts that can become nodes of a Kubernetes cluster.
        #[arg(long)]
        kube: bool,
        /// Hosts with Debian's snapd, without a store.
        #[arg(long)]
        snapd: bool,
    },
    /// Stop all hosts, delete their disks, remove every trace.
    Down,
    /// One line a host.
    Status,
    /// A login on a host over ssh, or a command there.
    Ssh {
        /// Host name.
        host: String,
        /// The command; without one a shell is opened.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// A shell command as root inside a host, without network.
    Exec {
        /// Host name.
        host: String,
        /// Shell command.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Boot hosts fresh.
    Reset {
        /// Host names; none for all.
        hosts: Vec<String>,
    },
    /// Power cut.
    Kill {
        /// Host name.
        host: String,
    },
    /// Boot a host from the disk it has.
    Start {
        /// Host name.
        host: String,
    },
    /// Add round-trip time to every host.
    Rtt {
        /// Milliseconds; 0 for none.
        milliseconds: u64,
    },
    /// Start an API server with controllers and simulated nodes in a host, and leave it running.
    KubeApi {
        /// Host name.
        #[arg(default_value = "h1")]
        host: String,
        /// Simulated nodes with GPUs.
        #[arg(long, default_value_t = 0)]
        nodes: u32,
        /// GPUs of each.
        #[arg(long, default_value_t = 8)]
        gpus: u32,
    },
    /// Serve packages and images of a Kubernetes cluster to the hosts, until it is interrupted.
    KubeRepositories,
    /// Build the programs that Kubernetes tests use; for programs that are built already only the folder is printed.
    KubeParts {
        /// Which; none for all.
        names: Vec<String>,
    },
    /// Delete the cached base too.
    Wipe,
    /// `converge test` hands itself over to this: all arguments are those of converge.
    #[command(hide = true)]
    Converge {
        /// The version of the calling converge.
        version: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    #[command(hide = true)]
    Delay { a: String, b: String, micros: u64 },
}

fn main() -> ExitCode {
    let arguments = LabArguments::parse();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            // Nothing can be done about a closed standard error.
            drop(writeln!(std::io::stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes a line to standard output. If the reader has closed it, the output is dropped and the work continues.
fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

/// Starts hosts and leaves them running.
fn up(options: LabOptions, count: u8, snapd: bool) -> Result<(), LabError> {
    let lab = Lab::open(options)?;
    for host in lab.up(count)? {
        if snapd {
            lab.install_snapd(&host)?;
        }
        say(&format!("{} {}", host.name(), host.address()));
    }
    say(&format!("ssh -F {} h1", lab.ssh_config().display()));
    lab.leave_running()
}

fn run(arguments: &LabArguments) -> Result<ExitCode, LabError> {
    let options = LabOptions::new(&arguments.name);
    let host = |name: &str| -> Result<(Lab, Host), LabError> {
        let lab = Lab::attach(options.clone())?;
        let host = lab.host(name).ok_or_else(|| LabError::HostDown(name.to_owned()))?;
        Ok((lab, host))
    };
    match &arguments.action {
        LabCommand::Up { count, kube, snapd } => {
            up(if *kube { options.kube() } else { options }, *count, *snapd)?
        }
        LabCommand::Down => Lab::attach(options)?.down()?,
        LabCommand::Status => {
            for host in Lab::attach(options)?.hosts() {
                let state = host.leader().map_or("down".to_owned(), |pid| format!("up, pid {pid}"));
                say(&format!("{:8} {:15} {state}", host.name(), host.address()));
            }
        }
        LabCommand::Ssh { host: name, command } => {
            let (lab, host) = host(name)?;
            return Err(lab.ssh_command("root", &host).args(command).exec().into());
        }
        LabCommand::Exec { host: name, command } => {
            let (_lab, host) = host(name)?;
            return Err(host.exec_command(&command.join(" "))?.exec().into());
        }
        LabCommand::Reset { hosts } => {
            let lab = Lab::attach(options)?;
            let chosen = lab
                .hosts()
                .into_iter()
                .filter(|host| hosts.is_empty() || hosts.iter().any(|name| name == host.name()));
            lab.reset_hosts(&chosen.collect::<Vec<_>>())?;
        }
        LabCommand::Kill { host: name } => host(name)?.1.kill()?,
        LabCommand::Start { host: name } => host(name)?.1.start()?,
        LabCommand::Rtt { milliseconds } => {
            let lab = Lab::attach(options)?;
            // The previous delay line ends by itself when its devices go.
            if let Some([a, b]) = lab.prepare_rtt(*milliseconds)? {
                let mut line = Command::new("setsid");
                line.arg(std::env::current_exe()?).args(["delay", &a, &b, &(milliseconds * 500).to_string()]);
                line.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
            }
        }
        LabCommand::KubeApi { host: name, nodes, gpus } => {
            let (_lab, host) = host(name)?;
            let api = ApiServer::start(&host, ApiOptions::new().kwok())?;
            if *nodes > 0 {
                api.nodes(&NodeSpec::new("cpu", 1))?;
                api.nodes(&NodeSpec::new("gpu", *nodes).gpus(*gpus))?;
            }
            say(&format!("converge-lab --name {} exec {name} '{}'", arguments.name, api.kubectl_line()));
            api.leave_running();
        }
        LabCommand::KubeRepositories => {
            let served = Repositories::serve(&Lab::attach(options)?)?;
            say(&format!("kubernetes: {} /", served.kubernetes_url()));
            say(&format!("  key {}\n  {}", served.kubernetes_key_url(), served.kubernetes_fingerprint()?));
            say(&format!("containerd: {} bookworm stable", served.containerd_url()));
            say(&format!("  key {}\n  {}", served.containerd_key_url(), served.containerd_fingerprint()?));
            say(&format!("images: {}/*.tar", Repositories::IMAGES));
            loop {
                std::thread::park();
            }
        }
        LabCommand::KubeParts { names } => {
            for part in Part::ALL {
                if names.is_empty() || names.iter().any(|name| name == part.name()) {
                    say(&format!("{:14} {}", part.name(), ensure(&[*part])?.folder(*part)?.display()));
                }
            }
        }
        LabCommand::Converge { version, arguments } => {
            return Ok(converge_cli::converge_test(version, arguments.iter().cloned()));
        }
        LabCommand::Wipe => wipe(&default_cache_dir())?,
        LabCommand::Delay { a, b, micros } => {
            forward_with_delay(a, b, Duration::from_micros(*micros), &|| false)?
        }
    }
    Ok(ExitCode::SUCCESS)
}
