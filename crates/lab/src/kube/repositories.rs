//! The sources from which a role installs a cluster: two signed apt repositories in the shape of the vendors', and the
//! images, made here.

use super::control_plane::LONG_LIVED;
use super::go;
use super::image::Image;
use super::part::Part;
use super::parts::{self, Parts};
use super::server::Server;
use super::versions as v;
use crate::command;
use crate::error::{LabError, Result};
use crate::machine::Missing;
use crate::packages;
use crate::session::{Lab, default_cache_dir};
use fs_err as fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

const REPOSITORY: &str = include_str!("../scripts/kube-repository.sh");
const PAUSE: &str = include_str!("../scripts/pause.c");
/// Where the images' names begin, as kubeadm has them.
const REGISTRY: &str = "registry.k8s.io";
/// Images that only a control plane runs, by the beginnings of their files' names.
const CONTROL_PLANE: &[&str] = &["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// The port on the lab's gateway.
const PORT: u16 = 8036;
/// The packages that a build needs.
const TOOLS: &[&str] = &["gcc", "libc6-dev", "gnupg", "dpkg", "gzip", "iptables"];
const IPTABLES: &[&str] = &[
    "iptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
    "iptables-nft",
    "iptables-nft-save",
    "iptables-nft-restore",
];
const BUSYBOX: &[&str] = &[
    "sh", "timeout", "ls", "cat", "echo", "sleep", "wget", "httpd", "nc", "ip", "ps", "hostname", "nslookup",
    "date", "id", "env", "mount", "mkdir", "rm", "grep", "test", "true", "false",
];

/// Repositories and images, served to a lab's hosts as long as this value lives.
pub struct Repositories {
    folder: PathBuf,
    address: SocketAddr,
    _server: Server,
}

impl Repositories {
    /// Makes the repositories and images when the cache has none, serves them on the lab's gateway, and shows the images to its
    /// hosts, in [`Repositories::IMAGES`].
    pub fn serve(lab: &Lab) -> Result<Self> {
        Self::with(lab, false)
    }

    /// Like [`Repositories::serve`], with the older Kubernetes too: its packages, and its images as `NAME-VERSION.tar`.
    pub fn serve_with_older(lab: &Lab) -> Result<Self> {
        Self::with(lab, true)
    }

    /// Where the lab's hosts see the images, as docker-archive files; read-only.
    pub const IMAGES: &str = "/run/lab/images";
    /// The same without those that only a control plane runs: two thirds of all.
    pub const WORKER_IMAGES: &str = "/run/lab/worker-images";
    /// A small image with a shell, for workloads of tests.
    pub const BUSYBOX_IMAGE: &str = "lab.local/busybox:1";

    fn with(lab: &Lab, older: bool) -> Result<Self> {
        let folder = ensure(lab, older)?;
        for entry in fs::read_dir(folder.join("images"))? {
            show_image(lab, &entry?.path())?;
        }
        let (server, address) = serve(&folder, lab.gateway())?;
        Ok(Self { folder, address, _server: server })
    }

    /// The apt address of Kubernetes; its suite is `/`, without components.
    pub fn kubernetes_url(&self) -> String {
        self.url_of(v::KUBERNETES)
    }

    /// The apt address of the older Kubernetes: each minor version has its own. Both have one key.
    pub fn older_kubernetes_url(&self) -> String {
        self.url_of(v::KUBERNETES_OLDER)
    }

    fn url_of(&self, version: &str) -> String {
        format!("http://{}/core:/stable:/v{}/deb/", self.address, minor(version))
    }

    /// Where the key of [`Repositories::kubernetes_url`] is served, in ASCII armour.
    pub fn kubernetes_key_url(&self) -> String {
        format!("{}Release.key", self.kubernetes_url())
    }

    /// Its text.
    pub fn kubernetes_key(&self) -> Result<String> {
        self.served(&format!("core:/stable:/v{}/deb/Release.key", minor(v::KUBERNETES)))
    }

    /// The fingerprint of that key.
    pub fn kubernetes_fingerprint(&self) -> Result<String> {
        self.fingerprint("kubernetes")
    }

    /// The apt address of containerd; its suite is `bookworm`, its component `stable`.
    pub fn containerd_url(&self) -> String {
        format!("http://{}/linux/debian", self.address)
    }

    /// Where the key of [`Repositories::containerd_url`] is served, in ASCII armour.
    pub fn containerd_key_url(&self) -> String {
        format!("{}/gpg", self.containerd_url())
    }

    /// Its text.
    pub fn containerd_key(&self) -> Result<String> {
        self.served("linux/debian/gpg")
    }

    /// The fingerprint of that key.
    pub fn containerd_fingerprint(&self) -> Result<String> {
        self.fingerprint("containerd")
    }

    fn fingerprint(&self, name: &str) -> Result<String> {
        self.served(&format!("{name}.fingerprint"))
    }

    /// The text of a file that is served.
    fn served(&self, path: &str) -> Result<String> {
        Ok(fs::read_to_string(self.folder.join("repository").join(path))?.trim().to_owned())
    }

    /// The version of the packages kubelet, kubeadm and kubectl.
    pub fn kubernetes_package_version() -> String {
        format!("{}-1.1", v::KUBERNETES)
    }

    /// The version of the package containerd.io.
    pub fn containerd_package_version() -> String {
        format!("{}-1~debian.12~bookworm", v::CONTAINERD)
    }

    /// The addresses of the packages of kubectl, kubelet, kubeadm, the network plugins and containerd.
    pub fn snap_packages(&self) -> Vec<String> {
        let kubernetes = self.kubernetes_url();
        let of = |name: &str, version: &str| format!("{kubernetes}amd64/{name}_{version}_amd64.deb");
        let mut all: Vec<String> = ["kubectl", "kubelet", "kubeadm"]
            .map(|name| of(name, &Self::kubernetes_package_version()))
            .into();
        all.push(of("kubernetes-cni", &format!("{}-1.1", v::CNI)));
        let containerd = Self::containerd_package_version();
        all.push(format!("{}/pool/containerd.io_{containerd}_amd64.deb", self.containerd_url()));
        all
    }

    /// The image that holds a pod together.
    pub fn sandbox_image(&self) -> String {
        format!("{REGISTRY}/pause:{}", v::PAUSE)
    }

    /// The files of the images on this machine.
    pub fn images(&self) -> Result<Vec<PathBuf>> {
        let mut out = fs::read_dir(self.folder.join("images"))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<Vec<PathBuf>>>()?;
        out.sort();
        Ok(out)
    }
}

/// `1.36`.
fn minor(version: &str) -> &str {
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

fn serve(folder: &Path, gateway: Ipv4Addr) -> Result<(Server, SocketAddr)> {
    let server = Server::start(&folder.join("repository"), SocketAddr::from((gateway, PORT)))?;
    let address = server.address();
    Ok((server, address))
}

/// The parts of a whole cluster.
fn wanted(older: bool) -> Vec<Part> {
    let mut wanted = vec![
        Part::Kubernetes,
        Part::Kubeadm,
        Part::Etcd,
        Part::EtcdTools,
        Part::Containerd,
        Part::Coredns,
        Part::Cni,
    ];
    if older {
        wanted.push(Part::Older);
    }
    wanted
}

/// The name and the folder of the repositories and images.
fn names(root: &Path, older: bool) -> (&'static str, PathBuf) {
    let name = if older { "cluster-older" } else { "cluster" };
    (name, root.join(format!("{name}-{}", recipe())))
}

/// Everything that [`Repositories::serve`] needs on this machine and lacks, with [`super::device_plugin_image`] on request; nothing is changed.
pub fn missing(gpus: bool) -> Vec<Missing> {
    let cache = default_cache_dir();
    let mut parts = wanted(false);
    if gpus {
        parts.push(Part::DevicePlugin);
    }
    let lacking = parts::lacking(&cache, &parts);
    let mut out = Vec::new();
    if !lacking.is_empty() && !go::can_be_had(&cache) {
        let what = "the programs of Kubernetes".to_owned();
        out.push(Missing { what, help: parts::instead_of_go(&lacking) });
    }
    let (_, made) = names(&parts::cache_folder(&cache), false);
    if !made.is_dir() {
        let packages = packages::missing(TOOLS);
        out.extend(packages.iter().map(|name| Missing {
            what: format!("the package {name}"),
            help: format!("install it: apt-get install {name}"),
        }));
    }
    out
}

/// Shows an image to the lab's hosts, in [`Repositories::IMAGES`] and, where workers run it too, in [`Repositories::WORKER_IMAGES`]; its path
/// in the first.
pub(crate) fn show_image(lab: &Lab, archive: &Path) -> Result<String> {
    let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !CONTROL_PLANE.iter().any(|own| name.starts_with(own)) {
        lab.share(archive, "worker-images")?;
    }
    lab.share(archive, "images")
}

/// The folder with `repository` and `images`, from the cache or made now.
fn ensure(lab: &Lab, older: bool) -> Result<PathBuf> {
    let (cache, say) = (lab.cache(), |line: &str| lab.say(line));
    let parts = parts::ensure_in(cache, &wanted(older), &say)?;
    let root = parts::cache_folder(cache);
    fs::create_dir_all(&root)?;
    let (name, folder) = names(&root, older);
    let lock = fs::File::create(root.join(format!("{name}.lock")))?;
    lock.file().lock()?;
    if folder.is_dir() {
        return Ok(folder);
    }
    lab.tools(TOOLS)?;
    say("making the cluster's packages and images (half a minute, once)");
    let work = root.join(format!("{name}.building"));
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    let out = work.join("out");
    fs::create_dir_all(out.join("images"))?;
    let runc = debian(&work, "runc", "usr/sbin/runc")?;
    let busybox = debian(&work, "busybox", "bin/busybox")?;
    images(&parts, &out.join("images"), None)?;
    if older {
        images(&parts, &out.join("images"), Some(v::KUBERNETES_OLDER))?;
    }
    few_images(&parts, &work, &busybox, &out.join("images"))?;
    repository(&parts, &work, &runc, older)?;
    fs::rename(&out, &folder)?;
    fs::remove_dir_all(&work)?;
    Ok(folder)
}

/// Changes with the recipe.
fn recipe() -> String {
    use sha2::{Digest as _, Sha256};
    let mut hash = Sha256::new();
    for text in [REPOSITORY, PAUSE, LONG_LIVED, include_str!("repositories.rs"), include_str!("image.rs")] {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// A file of a Debian package that is not installed here.
fn debian(work: &Path, package: &str, file: &str) -> Result<PathBuf> {
    let folder = work.join(package);
    fs::create_dir_all(&folder)?;
    let download = || {
        let mut apt = Command::new("apt-get");
        command::checked(apt.args(["download", "-qq", package]).current_dir(&folder))
    };
    if download().is_err() {
        command::run("apt-get", &["update", "-qq"])?;
        download()?;
    }
    let mut unpack = Command::new("sh");
    command::checked(unpack.args(["-c", "dpkg-deb -x ./*.deb tree"]).current_dir(&folder))?;
    Ok(folder.join("tree").join(file))
}

/// The four images of Kubernetes itself.
fn images(parts: &Parts, to: &Path, other: Option<&str>) -> Result<()> {
    let (version, suffix) = match other {
        None => (v::KUBERNETES, String::new()),
        Some(version) => (version, format!("-{version}")),
    };
    let program = |name: &str| match other {
        None => parts.program(name),
        Some(_) => Ok(parts.folder(Part::Older)?.join(name)),
    };
    for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let image = Image::new(format!("{REGISTRY}/{name}:v{version}"));
        let image = image.file(program(name)?, &format!("/usr/local/bin/{name}"));
        image.write(&to.join(format!("{name}{suffix}.tar")))?;
    }
    // kube-proxy runs iptables: this machine's own, with its extensions and what they link to.
    let tool = find("iptables")?;
    let mut image = Image::new(format!("{REGISTRY}/kube-proxy:v{version}"))
        .file(program("kube-proxy")?, "/usr/local/bin/kube-proxy")
        .file(&tool, "/usr/sbin/xtables-nft-multi")
        .libraries_of(&tool)?;
    for name in IPTABLES {
        image = image.link("xtables-nft-multi", &format!("/usr/sbin/{name}"));
    }
    for entry in fs::read_dir("/usr/lib/x86_64-linux-gnu/xtables")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "so") {
            image = image.file(&path, &path.to_string_lossy()).libraries_of(&path)?;
        }
    }
    for file in ["/etc/protocols", "/etc/services", "/etc/nsswitch.conf"] {
        if Path::new(file).exists() {
            image = image.file(file, file);
        }
    }
    image.write(&to.join(format!("kube-proxy{suffix}.tar")))
}

fn find(name: &str) -> Result<PathBuf> {
    let folders = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    let path = found.ok_or_else(|| LabError::Part {
        part: "images",
        why: format!("there is no `{name}` on this machine to put into an image"),
    })?;
    Ok(fs::canonicalize(path)?)
}

/// The images that are of one version only.
fn few_images(parts: &Parts, work: &Path, busybox: &Path, to: &Path) -> Result<()> {
    let mut etcd = Image::new(format!("{REGISTRY}/etcd:{}-0", v::ETCD));
    for name in ["etcd", "etcdctl", "etcdutl"] {
        etcd = etcd.file(parts.program(name)?, &format!("/usr/local/bin/{name}"));
    }
    etcd.write(&to.join("etcd.tar"))?;
    let dns = Image::new(format!("{REGISTRY}/coredns/coredns:v{}", v::COREDNS)).entrypoint("/coredns");
    dns.file(parts.program("coredns")?, "/coredns").write(&to.join("coredns.tar"))?;
    let (source, pause) = (work.join("pause.c"), work.join("pause"));
    fs::write(&source, PAUSE)?;
    let mut cc = Command::new("cc");
    command::checked(cc.args(["-Os", "-static", "-s", "-o"]).arg(&pause).arg(&source))?;
    let image = Image::new(format!("{REGISTRY}/pause:{}", v::PAUSE)).entrypoint("/pause");
    image.file(&pause, "/pause").write(&to.join("pause.tar"))?;
    // The static one could look up no names: they need the C library's own files.
    let mut image =
        Image::new(Repositories::BUSYBOX_IMAGE).file(busybox, "/bin/busybox").libraries_of(busybox)?;
    for name in BUSYBOX {
        image = image.link("busybox", &format!("/bin/{name}"));
    }
    image.write(&to.join("busybox.tar"))
}

fn repository(parts: &Parts, work: &Path, runc: &Path, older: bool) -> Result<()> {
    let bin = work.join("bin");
    for folder in [&bin, &bin.join("cni"), &bin.join("older")] {
        fs::create_dir_all(folder)?;
    }
    let link = |from: PathBuf, to: PathBuf| fs::os::unix::fs::symlink(from, to);
    for name in ["kubectl", "kubelet", "kubeadm", "containerd", "containerd-shim-runc-v2", "ctr"] {
        link(parts.program(name)?, bin.join(name))?;
    }
    link(runc.to_owned(), bin.join("runc"))?;
    for name in Part::Cni.programs() {
        link(parts.program(name)?, bin.join("cni").join(name))?;
    }
    if older {
        for name in ["kubectl", "kubelet", "kubeadm"] {
            link(parts.folder(Part::Older)?.join(name), bin.join("older").join(name))?;
        }
    }
    let gpg = work.join("gpg");
    fs::create_dir(&gpg)?;
    fs::set_permissions(&gpg, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    let mut script = Command::new("sh");
    script.args(["-c", REPOSITORY, "converge-lab-repository"]).arg(work).arg(work.join("out/repository"));
    script.args([v::KUBERNETES, if older { v::KUBERNETES_OLDER } else { "" }, v::CNI, v::CONTAINERD]);
    command::checked(&mut script).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inner::SHARE;

    #[test]
    fn hosts_see_the_images_where_it_says() {
        assert_eq!(Repositories::IMAGES, format!("{SHARE}/images"));
        assert_eq!(Repositories::WORKER_IMAGES, format!("{SHARE}/worker-images"));
    }

    #[test]
    fn versions_are_those_of_the_packages() {
        assert_eq!(minor(v::KUBERNETES), "1.36");
        assert_eq!(Repositories::kubernetes_package_version(), "1.36.2-1.1");
        assert_eq!(Repositories::containerd_package_version(), "2.2.9-1~debian.12~bookworm");
    }
}
