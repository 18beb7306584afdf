#!/bin/sh
# In a lab host that may become a node, before sysinit.target: what a kubelet needs of its machine.
# It sets sysctls that belong to no namespace. Files lie over them: it reads back what it wrote, and the machine keeps its own.
mkdir -p /run/lab-sysctl
while read -r name value; do
  echo "$value" >"/run/lab-sysctl/$name"
  mount --bind "/run/lab-sysctl/$name" "/proc/sys/$(echo "$name" | tr . /)"
done <<END
vm.overcommit_memory 1
vm.panic_on_oom 0
kernel.panic 10
kernel.panic_on_oops 1
kernel.keys.root_maxkeys 1000000
kernel.keys.root_maxbytes 25000000
END
# The v1 hierarchies are mounted read-only; what a host sees of them is its own subtree.
for hierarchy in /sys/fs/cgroup/*; do
  ! mountpoint -q "$hierarchy" || mount -o remount,rw,bind "$hierarchy"
done
exit 0
