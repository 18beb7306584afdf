# Debian's snapd on a host of the lab, with the snap `snapd` and a base; runs on the host.  Arguments: folder-of-the-files
set -eu
files=$1
export DEBIAN_FRONTEND=noninteractive
# In a container snapd mounts snaps by squashfuse, where /dev/fuse is there. A host has it from now on at each boot, before snaps are mounted.
cat >/etc/systemd/system/lab-fuse.service <<'END'
[Unit]
Description=lab: /dev/fuse
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c '[ -e /dev/fuse ] || mknod -m 666 /dev/fuse c 10 229'
[Install]
WantedBy=sysinit.target
END
systemctl -q enable --now lab-fuse
# No udevd runs in a container, whose /sys is read-only, and snapd gives up where udevd does not take its rules.
cat >/usr/local/sbin/udevadm <<'END'
#!/bin/sh
case ${1:-} in control | trigger | settle) exit 0 ;; esac
exec /usr/bin/udevadm "$@"
END
chmod 755 /usr/local/sbin/udevadm
# snapd asks the store for the names of all snaps unless it did so lately, and installs nothing meanwhile: 30 s for a host without a store.
mkdir -p /var/cache/snapd
touch /var/cache/snapd/names
dpkg -i --force-unsafe-io "$files"/*.deb >/dev/null
snap wait system seed.loaded
# A snap whose base is not `core` needs the snap `snapd`. The daemon and the program `snap` go on as those of that snap, which is newer.
snap install --dangerous "$files/snapd.snap" >/dev/null
snap install --dangerous "$files/base.snap" >/dev/null
snap version
