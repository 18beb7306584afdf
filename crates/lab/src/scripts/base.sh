# The additions to the base root file system after its packages; runs in it.  Standard input: this script.
# Arguments: deploy-user operator-user operator-password packages-of-hosts-with-rpm prefetched-package..
set -eu
deploy=$1 operator=$2 password=$3 rpm=$4
shift 4
export DEBIAN_FRONTEND=noninteractive
# Lists and package files lie ready, so that an installation on a host needs no network.
apt-get update -qq
apt-get install -y -qq --no-install-recommends --download-only "$@" >/dev/null
# Those of hosts with rpm lie elsewhere: apt is not to know them.
mkdir -p /usr/share/lab/rpm/partial
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends --download-only -o Dir::Cache::archives=/usr/share/lab/rpm $rpm >/dev/null
rm -r /usr/share/lab/rpm/partial /usr/share/lab/rpm/lock
# The folder that is laid over a host's disk where its apt is to know these packages alone: with all of Debian's it reads lists of 50 MB.
lists=/var/lib/apt/lists few=/usr/share/lab/few
mkdir -p "$few$lists" "$few/var/cache/apt" "$few/etc/apt/apt.conf.d" /run/all
echo 'Acquire::Languages "none";' >"$few/etc/apt/apt.conf.d/90lab-few"
{
  dpkg-query -W -f '${Package}\n'
  for file in /var/cache/apt/archives/*.deb; do file=${file##*/} && echo "${file%%_*}"; done
} >/run/names
for list in "$lists"/*_Packages; do
  awk 'BEGIN { while ((getline name < "/run/names") > 0) known[name] } /^Package: / { keep = $2 in known } keep' "$list" >"$few$list"
done
mv "$lists"/*_Packages /run/all/
cp -a "$few/." /
apt-cache gencaches -qq
mv /var/cache/apt/*.bin "$few/var/cache/apt/"
rm /etc/apt/apt.conf.d/90lab-few
mv /run/all/*_Packages "$lists/"
rm -r /run/all /run/names
apt-cache gencaches -qq
rm -f /etc/ssh/ssh_host_*
: >/etc/machine-id
useradd --create-home --shell /bin/bash "$deploy"
# Debian has a group `operator`: this user's own group is `users`.
useradd --create-home --shell /bin/bash --no-user-group --gid users "$operator"
printf '%s:%s\n' "$operator" "$password" | chpasswd
printf '%s ALL=(ALL:ALL) NOPASSWD: ALL\n' "$deploy" >/etc/sudoers.d/deploy
printf '%s ALL=(ALL:ALL) ALL\n' "$operator" >/etc/sudoers.d/operator
chmod 440 /etc/sudoers.d/deploy /etc/sudoers.d/operator
for user in "$deploy" "$operator"; do
  install -d -m 700 -o "$user" -g "$(id -gn "$user")" "/home/$user/.ssh"
  install -m 600 -o "$user" -g "$(id -gn "$user")" /root/.ssh/authorized_keys "/home/$user/.ssh/authorized_keys"
done
# No name server is reachable: without one named, a look-up is refused at once instead of hanging.
echo '# a lab host has no name server' >/etc/resolv.conf
echo 'LANG=C.UTF-8' >/etc/default/locale
# No timer runs apt behind a test's back; no getty waits on a console that nobody has.
for unit in apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
  dpkg-db-backup.timer systemd-tmpfiles-clean.timer console-getty.service getty.target \
  systemd-networkd-wait-online.service systemd-update-utmp.service systemd-update-utmp-runlevel.service; do
  ln -sf /dev/null "/etc/systemd/system/$unit"
done
systemctl -q enable systemd-networkd ssh
