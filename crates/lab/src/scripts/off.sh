# Power cut of one host.  Arguments: cgroup link [host-directory: throw its disk away too]
set -u
cgroup=$1 link=$2
if [ -d "$cgroup" ]; then
  echo 1 >"$cgroup/cgroup.kill"
  # PID 1 included: a dying one would pass for a running host.
  tries=0
  while grep -q '^populated 1' "$cgroup/cgroup.events"; do
    tries=$((tries + 1))
    [ "$tries" -lt 1000 ] || {
      echo "processes of $cgroup do not die" >&2
      exit 1
    }
    sleep 0.02
  done
fi
# The network namespace dies a moment after its last process; the next boot needs the name.
tries=0
while [ -e "/sys/class/net/$link" ] && [ "$tries" -lt 50 ]; do
  sleep 0.02
  tries=$((tries + 1))
done
[ ! -e "/sys/class/net/$link" ] || ip link del "$link"
lab=${cgroup%/*}
for own in "$cgroup" /sys/fs/cgroup/*/"${lab##*/}/${cgroup##*/}"; do
  [ ! -d "$own" ] || find "$own" -type d -delete 2>/dev/null
done
if [ -n "${3:-}" ]; then
  ! mountpoint -q "$3/root" || umount "$3/root" || exit 1
  ! mountpoint -q "$3/node" || umount "$3/node" || exit 1
  rm -rf --one-file-system "$3/upper" "$3/work" "$3/made" "$3/node" "$3/node.img"
fi
exit 0
