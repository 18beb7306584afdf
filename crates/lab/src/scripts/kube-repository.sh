# Two signed apt repositories of the vendors' shape from programs that were built here. The units and relations of the packages are
# those that a kubeadm role meets; the keys are made here and worth nothing.
# Arguments: work-directory out-directory kubernetes-version older-version-or-nothing cni-version containerd-version
# The work directory has bin/NAME, bin/cni/NAME, bin/older/NAME and gpg/; all below out/ is what a server shows.
set -eu
umask 022
work=$1 out=$2 version=$3 older=$4 cni=$5 containerd=$6
bin=$work/bin
GNUPGHOME=$work/gpg
export GNUPGHOME
# The same inputs give the same packages.
SOURCE_DATE_EPOCH=1767225600
export SOURCE_DATE_EPOCH
debian=$out/linux/debian
mkdir -p "$debian/pool"

# put FROM TO [MODE]: copies a file, with its folders; 755 without a mode.
put() { install -D -m "${3:-755}" "$1" "$2"; }
# pack NAME VERSION FOLDER [FIELD..]: makes a package in FOLDER from $work/tree/NAME, which it removes. Sets name, number and folder.
pack() {
  name=$1 number=$2 folder=$3
  shift 3
  mkdir -p "$work/tree/$name/DEBIAN"
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: lab <lab@localhost>\n' "$name" "$number"
    printf 'Section: admin\nPriority: optional\nDescription: %s, built in a lab\n' "$name"
    [ $# = 0 ] || printf '%s\n' "$@"
  } >"$work/tree/$name/DEBIAN/control"
  dpkg-deb -Zgzip -z1 --root-owner-group -b "$work/tree/$name" "$folder/${name}_${number}_amd64.deb" >/dev/null
  rm -rf "$work/tree/$name"
}
# script NAME WHICH: writes standard input as the maintainer script WHICH into $work/tree/NAME.
script() {
  mkdir -p "$work/tree/$1/DEBIAN"
  cat >"$work/tree/$1/DEBIAN/$2"
  chmod 755 "$work/tree/$1/DEBIAN/$2"
}

# three PROGRAMS VERSION: packs kubectl, kubelet and kubeadm into the repository of the minor version. Reads $out and $work, sets kubernetes
# (that repository), and what `pack` sets.
three() {
  kubernetes=$out/core:/stable:/v${2%.*}/deb
  mkdir -p "$kubernetes/amd64"
  put "$1/kubectl" "$work/tree/kubectl/usr/bin/kubectl"
  pack kubectl "$2-1.1" "$kubernetes/amd64"

  put "$1/kubelet" "$work/tree/kubelet/usr/bin/kubelet"
  mkdir -p "$work/tree/kubelet/usr/lib/systemd/system" "$work/tree/kubelet/etc/default" \
    "$work/tree/kubelet/etc/kubernetes/manifests" "$work/tree/kubelet/DEBIAN"
  cat >"$work/tree/kubelet/usr/lib/systemd/system/kubelet.service" <<'END'
[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
END
  echo KUBELET_EXTRA_ARGS= >"$work/tree/kubelet/etc/default/kubelet"
  echo /etc/default/kubelet >"$work/tree/kubelet/DEBIAN/conffiles"
  script kubelet postinst <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl enable kubelet > /dev/null 2>&1 || true
  [ -z "$2" ] || systemctl try-restart kubelet || true
fi
END
  script kubelet prerm <<'END'
#!/bin/sh
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now kubelet > /dev/null 2>&1 || true
fi
END
  pack kubelet "$2-1.1" "$kubernetes/amd64" \
    'Depends: iptables (>= 1.4.21), kubernetes-cni (>= 1.2.0), iproute2, util-linux, mount, ethtool, conntrack'

  put "$1/kubeadm" "$work/tree/kubeadm/usr/bin/kubeadm"
  mkdir -p "$work/tree/kubeadm/usr/lib/systemd/system/kubelet.service.d"
  cat >"$work/tree/kubeadm/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf" <<'END'
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
END
  pack kubeadm "$2-1.1" "$kubernetes/amd64" 'Depends: cri-tools (>= 1.30.0)'
}
# others VERSION: packs the dependencies of the three into $kubernetes. Reads $bin, $cni and $work, sets plugin, and what `pack` sets.
others() {
  # Empty: kubeadm runs no crictl any more, but its package asks for this one.
  pack cri-tools "${1%.*}.0-1.1" "$kubernetes/amd64"
  for plugin in "$bin"/cni/*; do put "$plugin" "$work/tree/kubernetes-cni/opt/cni/bin/${plugin##*/}"; done
  pack kubernetes-cni "$cni-1.1" "$kubernetes/amd64"
}
[ -z "$older" ] || {
  three "$bin/older" "$older"
  others "$older"
}
three "$bin" "$version"
others "$version"

for program in containerd containerd-shim-runc-v2 ctr runc; do
  put "$bin/$program" "$work/tree/containerd.io/usr/bin/$program"
done
mkdir -p "$work/tree/containerd.io/usr/lib/systemd/system" "$work/tree/containerd.io/etc/containerd" \
  "$work/tree/containerd.io/DEBIAN"
# As the vendor ships it: CRI is switched off.
printf 'disabled_plugins = ["cri"]\n\n#root = "/var/lib/containerd"\n#state = "/run/containerd"\n' \
  >"$work/tree/containerd.io/etc/containerd/config.toml"
echo /etc/containerd/config.toml >"$work/tree/containerd.io/DEBIAN/conffiles"
cat >"$work/tree/containerd.io/usr/lib/systemd/system/containerd.service" <<'END'
[Unit]
Description=containerd container runtime
Documentation=https://containerd.io
After=network.target dbus.service local-fs.target

[Service]
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
END
script containerd.io postinst <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl enable containerd > /dev/null 2>&1 || true
  if [ -z "$2" ]; then systemctl start containerd || true; else systemctl try-restart containerd || true; fi
fi
END
pack containerd.io "$containerd-1~debian.12~bookworm" "$debian/pool" 'Depends: libc6 (>= 2.34), libseccomp2 (>= 2.5.0)' \
  'Provides: containerd, runc' 'Conflicts: containerd, runc' 'Replaces: containerd, runc'

# index: prints the text of Packages for all packages below the present directory.
index() {
  find . -name '*.deb' | sort | while read -r file; do
    file=${file#./}
    dpkg-deb -f "$file"
    printf 'Filename: %s\nSize: %s\nSHA256: %s\n\n' "$file" "$(stat -c %s "$file")" "$(sha256sum <"$file" | cut -d' ' -f1)"
  done
}
# sign USER: reads the head of a Release file from standard input and writes Release (with date and sums of all Packages), InRelease and
# Release.gpg into the present directory.
sign() {
  {
    cat
    echo "Date: $(LC_ALL=C date -Ru)"
    echo SHA256:
    find . -name 'Packages*' | sort | while read -r file; do
      file=${file#./}
      printf ' %s %s %s\n' "$(sha256sum <"$file" | cut -d' ' -f1)" "$(stat -c %s "$file")" "$file"
    done
  } >Release.new
  mv Release.new Release
  gpg -q --batch --yes --local-user "$1" --clearsign -o InRelease Release
  gpg -q --batch --yes --local-user "$1" -abs -o Release.gpg Release
}
for user in kubernetes@lab containerd@lab; do
  gpg -q --batch --list-keys "$user" >/dev/null 2>&1 ||
    gpg -q --batch --passphrase '' --quick-gen-key "disposable key <$user>" ed25519 sign never
done
for kubernetes in "$out"/core:/stable:/*/deb; do
  cd "$kubernetes"
  index >Packages
  gzip -9nkf Packages
  printf 'Origin: lab\nLabel: kubernetes\nSuite: deb\nArchitectures: amd64\n' | sign kubernetes@lab
  gpg --batch --armor --export kubernetes@lab >Release.key
done
cd "$debian"
suite=dists/bookworm
mkdir -p $suite/stable/binary-amd64
index >$suite/stable/binary-amd64/Packages
gzip -9nkf $suite/stable/binary-amd64/Packages
# shellcheck disable=SC2094 # the program and the file of its name
gpg --batch --armor --export containerd@lab >gpg
cd $suite
printf 'Origin: lab\nLabel: containerd\nSuite: bookworm\nCodename: bookworm\nArchitectures: amd64\nComponents: stable\n' |
  sign containerd@lab
for user in kubernetes containerd; do
  gpg --batch --with-colons --list-keys $user@lab | sed -n 's/^fpr:*\([0-9A-F]*\):*$/\1/p' | head -n 1 >"$out/$user.fingerprint"
done
gpgconf --kill gpg-agent
rm -rf "$work/tree"
