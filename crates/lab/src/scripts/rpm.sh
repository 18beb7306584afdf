# Turns a host into one of an RPM distribution, as far as Debian ships its programs; runs on the host.
set -eu
# Their files alone: dpkg goes anyway.
for deb in /usr/share/lab/rpm/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x -C / --keep-directory-symlink; done
ldconfig
# Of dnf's plugins only versionlock: on RHEL each is a package of its own, and the one for local repositories is on no server.
find /usr/lib/python3/dist-packages/dnf-plugins -name '*.py' ! -name versionlock.py -delete
# From here on nothing of dpkg and apt is left but the files of the system.
rm -rf /usr/bin/apt* /usr/bin/dpkg* /usr/sbin/dpkg* /etc/apt /etc/dpkg /var/lib/apt /var/lib/dpkg /var/cache/apt /usr/share/lab
# Debian's rpm keeps its database at the user's.
mkdir -p /etc/rpm /etc/yum.repos.d
echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
rpm --initdb
cat >/etc/os-release.new <<'END'
NAME="Lab Linux"
VERSION="9.4"
ID="lab"
ID_LIKE="rhel centos fedora"
VERSION_ID="9.4"
PRETTY_NAME="Lab Linux 9.4"
END
rm -f /etc/os-release
mv /etc/os-release.new /etc/os-release
# As on Rocky: dnf fails where a repository does, and takes the newest version or none.
printf '[main]\ngpgcheck=True\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\n' >/etc/dnf/dnf.conf
# The package of the release, by which dnf knows what $releasever is; the system's shell is in no other one.
made=$(mktemp -d)
cat >"$made/release.spec" <<'END'
Name: lab-release
Version: 9.4
Release: 1
Summary: The release of the lab
License: MIT
BuildArch: noarch
Provides: system-release = 9.4, system-release(releasever) = 9, /bin/sh
%description
The release of the lab.
%files
END
rpmbuild -bb --quiet --define "_topdir $made" --define "_rpmdir $made" "$made/release.spec"
rpm -i --force-debian "$made"/noarch/*.rpm
rm -r "$made"
