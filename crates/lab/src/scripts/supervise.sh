# One host's "hardware", in a mount namespace of its own: runs the machine, and again when it reboots (exit status 133).
# Arguments: cgroup2-mount host-cgroup root-directory machine host-name uuid file-that-names-the-bridge
set -eu
cgroup2=$1 cgroup=$2 directory=$3 machine=$4 name=$5 uuid=$6 bridge=$7
echo $$ > "$cgroup/cgroup.procs"
# Where cgroup v1 and v2 are mounted side by side: show nspawn cgroup2 only, so that hosts get the unified hierarchy.
if [ "$cgroup2" != /sys/fs/cgroup ]; then
  umount -R -l /sys/fs/cgroup
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
while :; do
  status=0
  systemd-nspawn --quiet --keep-unit --register=no --boot --directory="$directory" --machine="$machine" \
    --hostname="$name" --uuid="$uuid" --network-bridge="$(cat "$bridge")" --console=read-only \
    --resolv-conf=off --timezone=off --link-journal=no --settings=no || status=$?
  [ "$status" = 133 ] || exit "$status"
done
