# One host's "hardware", in a mount namespace of its own: runs the machine, and again when it reboots (exit status 133).
# Arguments: cgroup2-mount host-cgroup root-directory machine host-name uuid file-that-names-the-bridge shared-directory [kube]
set -eu
cgroup2=$1 cgroup=$2 directory=$3 machine=$4 name=$5 uuid=$6 bridge=$7 share=$8 kube=${9:-}
echo $$ >"$cgroup/cgroup.procs"
host=$(dirname "$directory")
v1=
if [ "$kube" = kube ] && [ "$cgroup2" != /sys/fs/cgroup ]; then
  # A kubelet needs the controllers, which are here in cgroup v1: each host gets a subtree of its own.
  for controllers in cpu cpuacct cpuset memory devices freezer blkio pids; do
    lab=/sys/fs/cgroup/$controllers/$(basename "$(dirname "$cgroup")")
    [ -d "${lab%/*}" ] || continue
    own=$lab/$name
    mkdir -p "$own"
    if [ "$controllers" = cpuset ]; then
      for file in cpuset.cpus cpuset.mems; do
        cat "${lab%/*}/$file" >"$lab/$file"
        cat "$lab/$file" >"$own/$file"
      done
    fi
    echo $$ >"$own/cgroup.procs"
    v1="$v1 $own"
  done
elif [ "$cgroup2" != /sys/fs/cgroup ]; then
  # Where cgroup v1 and v2 are mounted side by side: show nspawn cgroup2 only, so that hosts get the unified hierarchy.
  umount -R -l /sys/fs/cgroup
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
set --
if [ "$kube" = kube ]; then
  set -- --capability=CAP_SYSLOG --system-call-filter='@keyring bpf perf_event_open kcmp' --bind=/dev/kmsg \
    --bind="$host/node/containerd:/var/lib/containerd" --bind="$host/node/kubelet:/var/lib/kubelet"
fi
while :; do
  # A machine starts with no cgroups: cAdvisor spends seconds on each that an earlier boot left.
  for own in $v1; do
    find "$own" -mindepth 1 -type d -delete 2>/dev/null || true
  done
  status=0
  systemd-nspawn --quiet --keep-unit --register=no --boot --directory="$directory" --machine="$machine" \
    --hostname="$name" --uuid="$uuid" --network-bridge="$(cat "$bridge")" --console=read-only \
    --resolv-conf=off --timezone=off --link-journal=no --settings=no --bind-ro="$share:/run/lab" "$@" || status=$?
  [ "$status" = 133 ] || exit "$status"
done
