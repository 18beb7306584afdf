# Takes a lab down, whatever state it is in; safe to run twice.
# Arguments: lab-number cgroup2-mount state-directory [guard]
# With `guard`: first wait until standard input ends (the owner died or is done); the word `keep` there means: leave it all.
set -u
number=$1 cgroup2=$2 state=$3
if [ "${4:-}" = guard ]; then
  word=
  read -r word
  [ "$word" != keep ] || exit 0
fi
# The guard's standard output is the lab's lock. It is held to the end: a new owner of the name whose lab this tear-down found halfway would lose it.
exec 9>&1 >/dev/null 2>&1
cgroup=$cgroup2/converge-lab-$number bridge=clab$number
# own: whether the lab is still this owner's; prints nothing. Reads $bridge and $state.
# The bridge is the lab's claim on its number, and it goes last: once it is gone, or another's, a second tear-down has nothing to do there.
own() {
  if [ -e "/sys/class/net/$bridge" ]; then [ "$(cat "/sys/class/net/$bridge/ifalias")" = "converge-lab $state" ]; else [ -e "$state" ]; fi
}
if own; then
  [ ! -e "$cgroup/cgroup.kill" ] || echo 1 >"$cgroup/cgroup.kill"
  tries=0
  while grep -q '^populated 1' "$cgroup/cgroup.events" && [ "$tries" -lt 400 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  for link in /sys/class/net/vb-c"$number"-* /sys/class/net/"$bridge"a /sys/class/net/"$bridge"b /sys/class/net/"$bridge"r; do
    [ ! -e "$link" ] || ip link del "${link##*/}"
  done
  for chain in FORWARD INPUT; do
    while iptables -w -D "$chain" -j "$bridge-$chain"; do :; done
    iptables -w -F "$bridge-$chain"
    iptables -w -X "$bridge-$chain"
  done
  while iptables -w -t nat -D POSTROUTING -j "$bridge"; do :; done
  iptables -w -t nat -F "$bridge"
  iptables -w -t nat -X "$bridge"
  for folder in "$cgroup" /sys/fs/cgroup/*/"converge-lab-$number"; do
    find "$folder" -type d -delete
  done
fi
for mount in "$state"/hosts/*/root "$state"/hosts/*/node; do
  [ ! -e "$mount" ] || umount "$mount" || umount -l "$mount"
done
# A mount that is left would let the deletion reach what lies below it.
grep -q " $state/" /proc/self/mountinfo || rm -rf --one-file-system "$state"
! own || ip link del "$bridge"
[ "${4:-}" != guard ] || rm -f "$state.lock"
exit 0
