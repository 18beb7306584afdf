//! One lab: from opening to the last trace gone.

mod cache;

use crate::command;
use crate::delay;
use crate::error::{LabError, Result};
use crate::host::{Host, is_name};
use crate::inner::{DelayLine, Inner};
use crate::mirror::Mirror;
use crate::net::Net;
use crate::{base, packages};
use cache::{cgroup2_mount, check_name, clean, free_address, gone, lock, start_guard};
pub use cache::{default_cache_dir, make_cache, wipe};
use fs_err as fs;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of file watchers that the machine allows a user where hosts can become nodes.
const WATCHERS: u32 = 2048;

type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// The options of a lab.
#[derive(Clone)]
pub struct LabOptions {
    name: String,
    cache: PathBuf,
    number: Option<u8>,
    install: bool,
    kube: bool,
    say: Say,
}

impl LabOptions {
    /// A lab of this name, with a subnet of its own; progress goes to standard error.
    pub fn new(name: impl Into<String>) -> Self {
        let say: Say = Arc::new(|line| {
            // Nothing can be done about a closed standard error.
            drop(writeln!(io::stderr(), "lab: {line}"));
        });
        Self { name: name.into(), cache: default_cache_dir(), number: None, install: true, kube: false, say }
    }

    /// The folder of the base and the hosts' disks, instead of [`default_cache_dir`].
    #[must_use]
    pub fn cache_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.cache = path.into();
        self
    }

    /// A fixed subnet 10.`number`.0.0/24, 77 to 99, instead of the next free one.
    #[must_use]
    pub fn subnet(mut self, number: u8) -> Self {
        self.number = Some(number.clamp(77, 99));
        self
    }

    /// Debian packages that are missing on this machine are not installed: opening the lab fails then. See [`crate::missing`].
    #[must_use]
    pub fn install_nothing(mut self) -> Self {
        self.install = false;
        self
    }

    /// Hosts that can become nodes of a Kubernetes cluster: with the machine's cgroup controllers, `/dev/kmsg`, the capabilities of a
    /// kubelet, and room of their own for what it and containerd keep. Nothing is installed in them.
    #[must_use]
    pub fn kube(mut self) -> Self {
        self.kube = true;
        self
    }

    /// Where lines about slow steps go.
    #[must_use]
    pub fn on_progress(mut self, say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.say = Arc::new(say);
        self
    }
}

/// A running lab. Dropping it takes everything down, its hosts' disks included.
pub struct Lab {
    inner: Arc<Inner>,
    name: String,
    say: Say,
    /// Takes the lab down when its standard input ends.
    guard: Option<Child>,
    _lock: Option<fs::File>,
}

impl Lab {
    /// Opens a lab with no hosts. Leftovers of an earlier lab of the same name are taken down first; missing Debian packages
    /// are installed, and the base is built when there is none.
    ///
    /// Errors when another living process holds the lab, or when the machine cannot run it.
    pub fn open(options: LabOptions) -> Result<Self> {
        let LabOptions { name, cache, number, install, kube, say } = options;
        check_name(&name)?;
        if install {
            packages::ensure(packages::LAB_TOOLS, &*say)?;
        }
        make_cache(&cache)?;
        let lock = lock(&cache, &name)?;
        let state = cache.join(&name);
        let cgroup2 = cgroup2_mount();
        clean(&state, &cgroup2)?;
        let mirror = Mirror::find()?;
        let base = base::ensure(&cache, &mirror, &*say)?;
        fs::create_dir_all(state.join("hosts"))?;
        fs::create_dir_all(state.join("share"))?;
        let net = Net::claim(number, &state.to_string_lossy())?;
        let guard = start_guard(net, &cgroup2, &state, &lock)?;
        let inner = Inner {
            net,
            base,
            state,
            cgroup2,
            mirror: mirror.endpoints(),
            kube,
            install,
            hosts: Mutex::default(),
            delay: Mutex::default(),
        };
        // From here on a failure drops the lab, which takes it down.
        let lab = Self { inner: Arc::new(inner), name, say, guard: Some(guard), _lock: Some(lock) };
        if kube {
            allow_watchers()?;
        }
        net.configure(&lab.inner.mirror)?;
        fs::write(lab.inner.state.join("bridge"), net.bridge())?;
        if kube {
            fs::write(lab.inner.state.join("kube"), "")?;
        }
        fs::write(lab.inner.state.join("base"), lab.inner.base.to_string_lossy().as_bytes())?;
        let key = cache.join("id_lab");
        for (from, to) in
            [(key.clone(), lab.identity()), (key.with_extension("pub"), lab.identity().with_extension("pub"))]
        {
            fs::copy(from, to)?;
        }
        Ok(lab)
    }

    /// Attaches to a lab that was left running by [`Lab::leave_running`]; dropping the value leaves it running still.
    pub fn attach(options: LabOptions) -> Result<Self> {
        let LabOptions { name, cache, say, .. } = options;
        check_name(&name)?;
        let state = cache.join(&name);
        let net = Net::find(&state.to_string_lossy()).ok_or_else(|| LabError::NotRunning(name.clone()))?;
        let base = PathBuf::from(fs::read_to_string(state.join("base"))?);
        let mut hosts = BTreeMap::new();
        for entry in fs::read_dir(state.join("hosts"))? {
            let path = entry?.path();
            let last = fs::read_to_string(path.join("last")).ok().and_then(|text| text.parse().ok());
            if let (Some(last), Some(name)) = (last, path.file_name()) {
                hosts.insert(name.to_string_lossy().into_owned(), last);
            }
        }
        let mirror = Mirror::find().map(|mirror| mirror.endpoints()).unwrap_or_default();
        let kube = state.join("kube").exists();
        let inner = Inner {
            net,
            base,
            state,
            cgroup2: cgroup2_mount(),
            mirror,
            kube,
            install: true,
            hosts: Mutex::new(hosts),
            delay: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner), name, say, guard: None, _lock: None })
    }

    /// The lab's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts hosts `h1` to `hN` (with the addresses .11, .12 …) side by side and waits until each answers.
    pub fn up(&self, count: u8) -> Result<Vec<Host>> {
        let names: Vec<String> = (1..=count).map(|number| format!("h{number}")).collect();
        self.start_hosts(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Starts hosts, a few side by side, and waits until each answers; one that runs already is left as it is.
    pub fn start_hosts(&self, names: &[&str]) -> Result<Vec<Host>> {
        let hosts: Vec<Host> = names.iter().map(|name| self.define(name)).collect::<Result<_>>()?;
        // More at once only slow each other down, until one takes too long.
        let at_once = std::thread::available_parallelism().map_or(4, |n| n.get() * 2);
        let mut results: Vec<Result<()>> = Vec::new();
        for group in hosts.chunks(at_once) {
            results.extend(std::thread::scope(|scope| {
                let running: Vec<_> = group.iter().map(|host| scope.spawn(move || host.start())).collect();
                running
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(|_| Err(lost_thread())))
                    .collect::<Vec<_>>()
            }));
        }
        results.into_iter().collect::<Result<()>>()?;
        self.write_ssh_files()?;
        Ok(hosts)
    }

    /// Resets hosts side by side: see [`Host::reset`].
    pub fn reset_hosts(&self, hosts: &[Host]) -> Result<()> {
        let results: Vec<Result<()>> = std::thread::scope(|scope| {
            let running: Vec<_> = hosts.iter().map(|host| scope.spawn(move || host.reset())).collect();
            running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(lost_thread()))).collect()
        });
        results.into_iter().collect()
    }

    fn define(&self, name: &str) -> Result<Host> {
        if !is_name(name) {
            return Err(LabError::Name(name.to_owned(), "host"));
        }
        let mut hosts = locked(&self.inner.hosts);
        let last = match hosts.get(name) {
            Some(last) => *last,
            None => free_address(name, &hosts).ok_or_else(|| LabError::Name(name.to_owned(), "host"))?,
        };
        hosts.insert(name.to_owned(), last);
        let host = Host::new(Arc::clone(&self.inner), name, last);
        fs::create_dir_all(host.directory())?;
        fs::write(host.directory().join("last"), last.to_string())?;
        Ok(host)
    }

    /// The hosts that were started so far, by name.
    pub fn hosts(&self) -> Vec<Host> {
        let hosts = locked(&self.inner.hosts);
        hosts.iter().map(|(name, last)| Host::new(Arc::clone(&self.inner), name, *last)).collect()
    }

    /// The host of this name, when it was started.
    pub fn host(&self, name: &str) -> Option<Host> {
        let last = *locked(&self.inner.hosts).get(name)?;
        Some(Host::new(Arc::clone(&self.inner), name, last))
    }

    /// The private key that root, `deploy` and `operator` of every host accept.
    pub fn identity(&self) -> PathBuf {
        self.inner.state.join("id_lab")
    }

    /// A `known_hosts` file with every host's key, by name and address.
    pub fn known_hosts(&self) -> PathBuf {
        self.inner.state.join("known_hosts")
    }

    /// A configuration for `ssh -F`, with every host by name.
    pub fn ssh_config(&self) -> PathBuf {
        self.inner.state.join("ssh_config")
    }

    /// The lab's own directory: gone when the lab is down.
    pub fn state_dir(&self) -> &Path {
        &self.inner.state
    }

    /// This machine's address on the lab's network, as its hosts reach it.
    pub fn gateway(&self) -> Ipv4Addr {
        self.inner.net.gateway()
    }

    /// Shows a file of this machine to all hosts, read-only, in a folder (`""` for none) below `/run/lab`; says where they have it.
    pub fn share(&self, file: &Path, folder: &str) -> Result<String> {
        self.inner.share(file, folder)
    }

    pub(crate) fn cache(&self) -> &Path {
        self.inner.cache()
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// See [`Inner::tools`].
    pub(crate) fn tools(&self, names: &[&str]) -> Result<()> {
        self.inner.tools(names, &|line| self.say(line))
    }

    /// Variables of an inventory with which its hosts are entered: as root, with the lab's key and what it knows of their keys.
    pub fn variables(&self) -> serde_json::Map<String, serde_json::Value> {
        let known = self.known_hosts();
        let arguments = format!("-o UserKnownHostsFile={} -o StrictHostKeyChecking=yes", known.display());
        let variables = [
            ("ansible_user", "root".to_owned()),
            ("ansible_ssh_private_key_file", self.identity().display().to_string()),
            ("ansible_ssh_common_args", arguments),
        ];
        variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    }

    pub(crate) fn say(&self, line: &str) {
        (self.say)(line);
    }

    /// Writes [`Lab::known_hosts`] and [`Lab::ssh_config`] again; starting hosts does it too.
    pub fn write_ssh_files(&self) -> Result<()> {
        let (mut known, mut config) = (String::new(), String::new());
        for host in self.hosts() {
            let (name, address) = (host.name(), host.address());
            // Writing to a string cannot fail.
            let _ = writeln!(known, "{name},{address} {}", host.public_key()?);
            let _ = writeln!(config, "Host {name}\n  HostName {address}");
        }
        let _ = write!(
            config,
            "Host *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  \
             StrictHostKeyChecking yes\n  ConnectTimeout 10\n",
            self.identity().display(),
            self.known_hosts().display()
        );
        fs::write(self.known_hosts(), known)?;
        fs::write(self.ssh_config(), config)?;
        Ok(())
    }

    /// The system's `ssh` with the lab's configuration, for `user@host`.
    pub fn ssh_command(&self, user: &str, host: &Host) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(self.ssh_config()).args(["-l", user, host.name()]);
        command
    }

    /// Adds `milliseconds` of round-trip time to every host, also to those started later; 0 takes it away. It lasts as long
    /// as this value.
    pub fn rtt(&self, milliseconds: u64) -> Result<()> {
        self.stop_delay()?;
        let Some([a, b]) = self.prepare_rtt(milliseconds)? else { return Ok(()) };
        let stop = Arc::new(AtomicBool::new(false));
        let observed = Arc::clone(&stop);
        let delay = Duration::from_micros(milliseconds.saturating_mul(500));
        let taps = delay::Taps::open(&a, &b)?;
        let thread = std::thread::Builder::new().name("lab-delay".to_owned()).spawn(move || {
            prefer_this_thread();
            taps.forward(delay, &|| observed.load(Ordering::Relaxed))
        })?;
        *locked(&self.inner.delay) = Some(DelayLine { stop, thread });
        Ok(())
    }

    /// Moves all hosts behind a delay line and returns its two ends, between which the caller runs
    /// [`crate::forward_with_delay`] with half the round-trip time; with 0 moves them back and returns nothing.
    pub fn prepare_rtt(&self, milliseconds: u64) -> Result<Option<[String; 2]>> {
        let net = self.inner.net;
        net.drop_delay_line()?;
        let bridge = if milliseconds == 0 { net.bridge() } else { net.far_bridge() };
        if milliseconds != 0 {
            net.make_delay_line()?;
        }
        fs::write(self.inner.state.join("bridge"), &bridge)?;
        for host in self.hosts() {
            host.join_bridge(&bridge)?;
        }
        Ok((milliseconds != 0).then(|| net.taps()))
    }

    fn stop_delay(&self) -> Result<()> {
        let Some(line) = locked(&self.inner.delay).take() else { return Ok(()) };
        line.stop.store(true, Ordering::Relaxed);
        line.thread.join().unwrap_or_else(|_| Err(io::Error::other("the delay line's thread died")))?;
        Ok(())
    }

    /// Leaves the lab running after this process; [`Lab::attach`] finds it, [`Lab::open`] of the same name ends it.
    pub fn leave_running(mut self) -> Result<()> {
        if let Some(mut guard) = self.guard.take() {
            if let Some(mut pipe) = guard.stdin.take() {
                pipe.write_all(b"keep\n")?;
            }
            guard.wait()?;
        }
        Ok(())
    }

    /// Takes the lab down and says whether a trace is left; dropping the value does the same in silence.
    pub fn down(mut self) -> Result<()> {
        (self.say)(&format!("taking {} down", self.name));
        self.stop_delay()?;
        let state = self.inner.state.clone();
        if self.guard.is_none() {
            return clean(&state, &self.inner.cgroup2);
        }
        self.release()?;
        gone(&state)
    }

    fn release(&mut self) -> Result<()> {
        if let Some(mut guard) = self.guard.take() {
            drop(guard.stdin.take());
            guard.wait()?;
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.guard.is_some() {
            // The guard cleans up even if this fails: its standard input ends with this process at the latest.
            drop(self.stop_delay());
            drop(self.release());
        }
    }
}

/// Every kubelet, containerd and kube-proxy watches files, and all hosts share the machine's one limit: the usual 128 is too little for
/// two nodes. It is raised, never lowered.
fn allow_watchers() -> Result<()> {
    let file = "/proc/sys/fs/inotify/max_user_instances";
    let now: u32 = fs::read_to_string(file)?.trim().parse().unwrap_or(0);
    if now >= WATCHERS {
        return Ok(());
    }
    command::run("sysctl", &["-qw", &format!("fs.inotify.max_user_instances={WATCHERS}")])
}

/// A busy processor must not add to the delay.
fn prefer_this_thread() {
    let Ok(link) = fs::read_link("/proc/thread-self") else { return };
    if let Some(thread) = link.file_name() {
        // Without the right to do so the delay is a little longer under load.
        drop(command::checked(command::root("chrt").args(["-r", "-p", "10"]).arg(thread)));
    }
}

fn lost_thread() -> LabError {
    LabError::Io(io::Error::other("a thread of the lab died"))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::cache::TEARDOWN;
    use super::*;

    #[test]
    fn addresses_follow_names() {
        let mut taken = BTreeMap::new();
        assert_eq!(free_address("h1", &taken), Some(11));
        assert_eq!(free_address("h89", &taken), Some(99));
        assert_eq!(free_address("h01", &taken), Some(100));
        taken.insert("db".to_owned(), 100);
        assert_eq!(free_address("h90", &taken), Some(101));
    }

    /// The guard of a lab that is down tears down once more, and its number may be another's by then.
    #[test]
    fn a_tear_down_leaves_another_lab_alone() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: a lab is claimed and torn down by root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (mine, other) = (dir.path().join("mine"), dir.path().join("other"));
        let net = Net::claim(None, &mine.to_string_lossy()).unwrap();
        let tear_down = |state: &Path| {
            let mut teardown = command::root("sh");
            teardown.args(["-c", TEARDOWN, "converge-lab", &net.number.to_string()]);
            command::checked(teardown.arg(cgroup2_mount()).arg(state)).unwrap();
            crate::net::is_link(&net.bridge())
        };
        assert!(tear_down(&other));
        assert!(!tear_down(&mine));
    }

    #[test]
    fn names_of_the_cache_are_refused() {
        assert!(check_name("t-lab").is_ok());
        for bad in ["base-1", "kube-0", "target-1", "tools", "../x", "", "Ab", "a b", "1a"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_lab_is_held_by_one_process() {
        let cache = tempfile::tempdir().unwrap();
        let held = lock(cache.path(), "t").unwrap();
        let error = lock(cache.path(), "t").map(drop).unwrap_err();
        assert!(matches!(error, LabError::Busy { .. }), "{error}");
        drop(held);
        assert!(lock(cache.path(), "t").is_ok());
    }
}
