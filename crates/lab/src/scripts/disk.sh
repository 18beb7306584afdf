# One host's disk: an overlay over the base, with what makes it this host.  Standard input: its /etc/hosts.
# Arguments: host-directory base name address gateway cgroup packages [boot-script runc-wrapper: the host may become a node]
set -eu
umask 022
directory=$1 base=$2 name=$3 address=$4 gateway=$5 cgroup=$6 packages=$7 boot=${8:-} runc=${9:-}
upper=$directory/upper
mkdir -p "$upper" "$directory/work" "$directory/root" "$cgroup"
if [ ! -e "$directory/made" ]; then
  mkdir -p "$upper/etc/ssh" "$upper/etc/systemd/network"
  echo "$name" >"$upper/etc/hostname"
  cat >"$upper/etc/hosts"
  printf '[Match]\nName=host0\n[Network]\nAddress=%s/24\nGateway=%s\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
    "$address" "$gateway" >"$upper/etc/systemd/network/10-lab.network"
  # A host keeps its key over a reset, which spares changes of known_hosts.
  [ -e "$directory/ssh_key" ] || ssh-keygen -q -t ed25519 -N '' -C "root@$name" -f "$directory/ssh_key"
  install -m 600 "$directory/ssh_key" "$upper/etc/ssh/ssh_host_ed25519_key"
  install -m 644 "$directory/ssh_key.pub" "$upper/etc/ssh/ssh_host_ed25519_key.pub"
  [ "$packages" != few ] || cp -a "$base/usr/share/lab/few/." "$upper/"
  if [ -n "$boot" ]; then
    printf '%s\n' "$boot" >"$directory/lab-kube"
    install -D -m 755 "$directory/lab-kube" "$upper/usr/local/sbin/lab-kube"
    mkdir -p "$upper/etc/systemd/system/sysinit.target.wants" "$upper/etc/systemd/journald.conf.d" "$upper/etc/systemd/system.conf.d"
    printf '[Unit]\nDescription=lab: what a kubelet needs of its machine\nDefaultDependencies=no\nBefore=sysinit.target\n
[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/usr/local/sbin/lab-kube\n' >"$upper/etc/systemd/system/lab-kube.service"
    ln -sf ../lab-kube.service "$upper/etc/systemd/system/sysinit.target.wants/lab-kube.service"
    # /dev/kmsg is the whole machine's: it is for the kubelet, not for the journal.
    printf '[Journal]\nReadKMsg=no\n' >"$upper/etc/systemd/journald.conf.d/lab.conf"
    # As in control_plane.rs: the kubelet and containerd trade memory for time.
    printf '[Manager]\nDefaultEnvironment=GOGC=300\n' >"$upper/etc/systemd/system.conf.d/lab.conf"
    # Nothing listens there, so that a look-up is refused at once; CoreDNS wants to see a name server.
    echo "nameserver $gateway" >"$upper/etc/resolv.conf"
    # Bit 24 of the bounding set: CAP_SYS_RESOURCE.
    bounding=$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status)
    if [ $((0x$bounding >> 24 & 1)) = 0 ]; then
      printf '%s\n' "$runc" >"$directory/runc"
      install -m 755 "$directory/runc" "$upper/usr/local/sbin/runc"
    fi
  fi
  touch "$directory/made"
fi
# An overlay takes no other overlay as its upper layer, and a kubelet evicts pods by what is free: what it and containerd keep lies on
# a disk of the host's own. Where there are no loop devices it is a folder of the machine's disk.
if [ -n "$boot" ]; then
  mkdir -p "$directory/node" "$upper/var/lib/containerd" "$upper/var/lib/kubelet"
  if [ ! -e "$directory/node.img" ]; then
    truncate -s 16G "$directory/node.new"
    mkfs.ext4 -q -F -m 0 -O ^has_journal -E lazy_itable_init=1,nodiscard "$directory/node.new"
    mv "$directory/node.new" "$directory/node.img"
  fi
  mountpoint -q "$directory/node" || mount -o loop "$directory/node.img" "$directory/node" 2>/dev/null || :
  mkdir -p "$directory/node/containerd" "$directory/node/kubelet"
fi
mountpoint -q "$directory/root" ||
  mount -t overlay converge-lab -o "lowerdir=$base,upperdir=$upper,workdir=$directory/work" "$directory/root"
