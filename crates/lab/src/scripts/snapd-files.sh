# The files of hosts with snapd, made in a disposable host: Debian's packages, the snap `snapd` and a base.  Arguments: newer-suite
set -eu
newer=$1 out=/var/lib/lab-snapd
export DEBIAN_FRONTEND=noninteractive
mkdir -p "$out/partial"
cd "$out"
# Lists of a few packages alone (CONVERGE_LAB_PACKAGES=few) have the date of the whole ones: apt would leave them.
find /var/lib/apt/lists -type f -delete
apt-get update -qq
apt-get install -y -qq --no-install-recommends --download-only -o Dir::Cache::archives="$out" snapd squashfs-tools squashfuse fuse3 >/dev/null
rm -r "$out/partial" "$out/lock"
apt-get install -y -qq --no-install-recommends squashfs-tools patchelf >/dev/null

# The newer release's snapd and C library, by lists of their own.
work=$(mktemp -d)
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/tree"
sed -n "1s/ [a-z]* main\$/ $newer main/p" /etc/apt/sources.list >"$work/sources.list"
# newer ARGUMENTS: apt-get for the newer release. Reads work; prints what apt-get prints.
newer() {
  apt-get -qq -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$work/lists" \
    -o Dir::Cache="$work/cache" -o Acquire::Languages=none -o APT::Sandbox::User=root "$@"
}
newer update
cd "$work"
newer download snapd libc6
for deb in ./*.deb; do dpkg-deb -x "$deb" "tree/$(dpkg-deb -f "$deb" Package)"; done

# The snap `snapd`, as the store has it for every release: from a newer snapd than Debian's, with the C library for its programs in C.
lib=usr/lib/x86_64-linux-gnu
mkdir -p snapd/meta snapd/usr/bin "snapd/$lib"
cp -a tree/snapd/usr/lib/snapd snapd/usr/lib/
cp -a tree/snapd/usr/bin/snap* snapd/usr/bin/
cp -a "tree/libc6/$lib/ld-linux-x86-64.so.2" "tree/libc6/$lib/libc.so.6" "snapd/$lib/"
for program in snap-confine snap-discard-ns snap-device-helper; do
  patchelf --set-interpreter "/snap/snapd/current/$lib/ld-linux-x86-64.so.2" --set-rpath "/snap/snapd/current/$lib" "snapd/usr/lib/snapd/$program"
done
version=$(sed -n 's/^VERSION=\([0-9.]*\).*/\1/p' snapd/usr/lib/snapd/info)
printf 'name: snapd\nversion: "%s"\ntype: snapd\nsummary: snapd\ndescription: snapd of Debian %s\n' "$version" "$newer" >snapd/meta/snap.yaml

# A base without a system of its own: snaps of classic confinement, which alone can run on it, see the host's.
mkdir -p base/meta
printf 'name: lab-base\nversion: "1"\ntype: base\nsummary: a base\ndescription: a base\n' >base/meta/snap.yaml
for name in bin dev etc home lib media mnt opt proc root run snap sys tmp usr/lib/snapd usr/src var/lib var/log var/snap var/tmp; do
  mkdir -p "base/$name"
done
for name in snapd base; do mksquashfs "$name" "$out/$name.snap" -quiet -no-progress -noappend -comp lz4 -all-root -no-xattrs; done
chmod 644 "$out"/*
