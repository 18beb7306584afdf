# One host's disk: an overlay over the base, with what makes it this host.  Standard input: its /etc/hosts.
# Arguments: host-directory base name address gateway cgroup
set -eu
umask 022
directory=$1 base=$2 name=$3 address=$4 gateway=$5 cgroup=$6
upper=$directory/upper
mkdir -p "$upper" "$directory/work" "$directory/root" "$cgroup"
if [ ! -e "$directory/made" ]; then
  mkdir -p "$upper/etc/ssh" "$upper/etc/systemd/network"
  echo "$name" > "$upper/etc/hostname"
  cat > "$upper/etc/hosts"
  printf '[Match]\nName=host0\n[Network]\nAddress=%s/24\nGateway=%s\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
    "$address" "$gateway" > "$upper/etc/systemd/network/10-lab.network"
  # A host keeps its key over a reset, which spares changes of known_hosts.
  [ -e "$directory/ssh_key" ] || ssh-keygen -q -t ed25519 -N '' -C "root@$name" -f "$directory/ssh_key"
  install -m 600 "$directory/ssh_key" "$upper/etc/ssh/ssh_host_ed25519_key"
  install -m 644 "$directory/ssh_key.pub" "$upper/etc/ssh/ssh_host_ed25519_key.pub"
  touch "$directory/made"
fi
mountpoint -q "$directory/root" ||
  mount -t overlay converge-lab -o "lowerdir=$base,upperdir=$upper,workdir=$directory/work" "$directory/root"
