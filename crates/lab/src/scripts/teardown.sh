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
exec > /dev/null 2>&1
cgroup=$cgroup2/converge-lab-$number
[ ! -e "$cgroup/cgroup.kill" ] || echo 1 > "$cgroup/cgroup.kill"
tries=0
while grep -q '^populated 1' "$cgroup/cgroup.events" && [ "$tries" -lt 400 ]; do sleep 0.05; tries=$((tries + 1)); done
for link in /sys/class/net/vb-c"$number"-* /sys/class/net/clab"$number"a /sys/class/net/clab"$number"b /sys/class/net/clab"$number"r; do
  [ ! -e "$link" ] || ip link del "${link##*/}"
done
for chain in FORWARD INPUT; do
  while iptables -w -D "$chain" -j "clab$number-$chain"; do :; done
  iptables -w -F "clab$number-$chain"
  iptables -w -X "clab$number-$chain"
done
while iptables -w -t nat -D POSTROUTING -j "clab$number"; do :; done
iptables -w -t nat -F "clab$number"
iptables -w -t nat -X "clab$number"
for own in "$cgroup" /sys/fs/cgroup/*/"converge-lab-$number"; do
  find "$own" -depth -type d -exec rmdir {} \;
done
for mount in "$state"/hosts/*/root "$state"/hosts/*/node; do
  [ ! -e "$mount" ] || umount "$mount" || umount -l "$mount"
done
# A mount that is left would let the deletion reach what lies below it.
grep -q " $state/" /proc/self/mountinfo || rm -rf --one-file-system "$state"
# The bridge is the lab's claim on its number: it goes last.
ip link del "clab$number"
[ "${4:-}" != guard ] || rm -f "$state.lock"
exit 0
