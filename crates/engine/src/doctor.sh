# The questions of `converge doctor` to a host. POSIX shell; it changes nothing. Lines of KEY<tab>VALUE.
# $CV_WHAT: `login` (as the login user) or `work` (as the user who does the work).
cv_doctor_say() { printf '%s\t%s\n' "$1" "$2"; }
cv_doctor_say uid "$(id -u)"
cv_doctor_say user "$(id -un 2>/dev/null)"
cv_doctor_say now "$(date +%s)"
missing=
for tool in cat chmod chown cut date df dd find grep head ln mv rm sed sha256sum sort stat sync tail tr awk flock timeout; do
  command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
cv_doctor_say missing "$missing"
cv_doctor_say shell "$(readlink /proc/$$/exe 2>/dev/null)"
if [ "$CV_WHAT" = work ]; then
  root=/var/lib/converge
  at=$root
  while [ ! -d "$at" ]; do
    at=${at%/*}
    [ -n "$at" ] || at=/
  done
  if [ -w "$at" ]; then cv_doctor_say writable yes; else cv_doctor_say writable no; fi
  read -r options <<EOF
$(awk -v p="$at" '{ if (index(p "/", $5 "/") == 1 || $5 == "/") if (length($5) >= n) { n = length($5); o = $6 "," $NF } } END { print o }' /proc/self/mountinfo 2>/dev/null)
EOF
  case ",$options," in *,ro,*) cv_doctor_say readonly yes ;; esac
  cv_doctor_say disk "$(df -Pk "$at" 2>/dev/null | awk 'NR == 2 { print $4, $2, $6 }')"
  cv_doctor_say inodes "$(df -Pi "$at" 2>/dev/null | awk 'NR == 2 { print $4, $2 }')"
  if [ -e "$root/version" ]; then cv_doctor_say version "$(head -c 64 "$root/version")"; fi
  if [ -d "$root" ] && [ ! -O "$root" ]; then cv_doctor_say foreign yes; fi
  if [ -e "$root/lock" ] && command -v flock >/dev/null && ! flock -n "$root/lock" true; then
    cv_doctor_say locked "$(head -c 300 "$root/lock" | head -n 1 | tr '\t' ' ')"
  fi
  if [ -d /run/systemd/system ]; then cv_doctor_say init systemd; else cv_doctor_say init "$(head -c 64 /proc/1/comm 2>/dev/null)"; fi
  if command -v dpkg >/dev/null; then
    cv_doctor_say audit "$(dpkg --audit 2>&1 | head -n 1)"
    for lock in /var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock; do
      [ -e "$lock" ] || continue
      inode=$(stat -c %i "$lock")
      pid=$(awk -v i="$inode" '{ split($6, p, ":"); if (p[3] == i && $2 != "->") print $5 }' /proc/locks | head -n 1)
      [ -z "$pid" ] || cv_doctor_say aptlock "$lock $pid $(head -c 64 "/proc/$pid/comm" 2>/dev/null)"
    done
    cv_doctor_say lists "$(find /var/lib/apt/lists -maxdepth 1 -name '*_Packages*' 2>/dev/null | wc -l)"
  fi
  # The parts of a node with GPUs; each only where it is there.
  cv_doctor_quick() { timeout 10 "$@"; }
  # Of the programs on stdin, those that are not there.
  cv_doctor_missing() {
    while IFS= read -r program; do command -v "$program" >/dev/null 2>&1 || printf '%s ' "$program"; done
  }
  # The containerd of the pods is the one that runs, with its own configuration: that of k8s-snap, k3s or RKE2 before a package's. dockerd's is for
  # docker alone. Where none runs it is the one on PATH.
  ctd= ctd_config=/etc/containerd/config.toml
  for process in /proc/[0-9]*; do
    read -r name <"$process/comm" && [ "$name" = containerd ] && [ "$(readlink "$process/ns/pid")" = "$(readlink /proc/self/ns/pid)" ] || continue
    config=$(tr '\000' '\n' <"$process/cmdline" | awk 'next_one { print; exit } /^(--config|-c)$/ { next_one = 1 } sub(/^(--config|-c)=/, "") { print; exit }')
    case $(readlink "$process/exe")$config in
    */docker/containerd/*) continue ;;
    */snap/k8s/* | */k8s-containerd/* | */rancher/*) ;;
    *) [ -z "$ctd" ] || continue ;;
    esac
    ctd=$process/exe ctd_config=${config:-/etc/containerd/config.toml}
  done 2>/dev/null
  [ -n "$ctd" ] || ! command -v containerd >/dev/null || ctd=containerd
  if [ -n "$ctd" ] && [ -e "$ctd_config" ]; then
    dump=$(cv_doctor_quick "$ctd" --config "$ctd_config" config dump 2>&1)
    if [ $? -eq 0 ]; then
      cv_doctor_say ctd_default "$(printf '%s\n' "$dump" | sed -n "s/^ *default_runtime_name = ['\"]\(.*\)['\"]$/\1/p" | head -n 1)"
      cv_doctor_say ctd_runtimes "$(printf '%s\n' "$dump" | tr -d "'\"" | awk '
        /^ *\[/ { gsub(/[][ ]/, ""); n = ""; if (match($0, /\.containerd\.runtimes\./)) { split(substr($0, RSTART + RLENGTH), p, "."); n = p[1]; if (!(n in v)) { v[n] = "false"; o[++k] = n } } }
        n != "" && $1 == "SystemdCgroup" { v[n] = $3 }
        END { for (i = 1; i <= k; i++) printf "%s%s:%s", (i > 1 ? " " : ""), o[i], v[o[i]] }')"
    else
      cv_doctor_say ctd_error "$(printf '%s\n' "$dump" | tail -n 1 | head -c 300)"
    fi
    # cv_doctor_version_of FILE: prints the number of the format that a file of settings names, or nothing.
    cv_doctor_version_of() { sed -n 's/^ *version *= *\([0-9]*\).*/\1/p' "$1" | head -n 1; }
    cv_doctor_say ctd_root "$(cv_doctor_version_of "$ctd_config")"
    # Files that it imports, and files that lie where a toolkit writes though nobody imports them.
    imports=$(sed -n 's/^ *imports *= *\[\(.*\)\].*/\1/p' "$ctd_config" | tr -d "'\"," | tr ' ' '\n')
    files= drop_ins=
    # shellcheck disable=SC2086
    for file in /etc/containerd/conf.d/*.toml $imports; do
      [ -f "$file" ] || continue
      case " $drop_ins " in *" $file "*) continue ;; esac
      files="$files $file=$(cv_doctor_version_of "$file")" drop_ins="$drop_ins $file"
    done
    cv_doctor_say ctd_files "${files# }"
    if [ -z "${dump##*BinaryName*}" ]; then
      cv_doctor_say ctd_missing "$(printf '%s\n' "$dump" | tr -d "'\"" | awk '$1 == "BinaryName" && $3 != "" { print $3 }' | sort -u | cv_doctor_missing)"
    fi
    # shellcheck disable=SC2086
    cv_doctor_say ctd_cgroup "$(awk '$1 == "SystemdCgroup" { print FILENAME "=" $3 }' "$ctd_config" $drop_ins 2>/dev/null | sort -u | tr '\n' ' ')"
  fi
  if [ -e /var/lib/kubelet/config.yaml ]; then
    cv_doctor_say kubelet_cgroup "$(sed -n 's/^cgroupDriver: *"*\([a-z]*\).*/\1/p' /var/lib/kubelet/config.yaml)"
  fi
  if [ -e /var/snap/k8s/common/args/kubelet ]; then
    cv_doctor_say kubelet_cgroup "$(sed -n 's/^--cgroup-driver=["'"'"']*\([a-z]*\).*/\1/p' /var/snap/k8s/common/args/kubelet)"
  fi
  if [ -e /etc/kubernetes/manifests/kube-apiserver.yaml ]; then
    cv_doctor_say kube_open "$(cv_fact_open /etc/kubernetes /var/lib/kubelet | sed -n 's/^kube-apiserver has //p' | awk '{ printf "%s%s", (NR > 1 ? ", " : ""), $0 }')"
  fi
  gpus=0 amd=0
  for device in /sys/bus/pci/devices/*; do
    read -r vendor <"$device/vendor" && read -r class <"$device/class" || continue
    case "$vendor $class" in
    '0x10de 0x03'*) gpus=$((gpus + 1)) ;;
    # Accelerators; a display of AMD's is no GPU to compute with.
    '0x1002 0x12'* | '0x1002 0x0380'*) amd=$((amd + 1)) ;;
    esac
  done 2>/dev/null
  cv_doctor_say gpu_pci "$gpus"
  cv_doctor_say amd_pci "$amd"
  if [ -d /sys/module/amdgpu ]; then cv_doctor_say amdgpu yes; fi
  if [ -e /dev/kfd ]; then cv_doctor_say kfd yes; fi
  if [ -e /sys/module/nvidia/version ]; then cv_doctor_say driver_loaded "$(head -c 64 /sys/module/nvidia/version)"; fi
  if [ "$gpus" -gt 0 ] && [ -d /sys/module/nouveau ] && [ ! -d /sys/module/nvidia ]; then cv_doctor_say nouveau yes; fi
  if command -v nvidia-smi >/dev/null; then
    smi=$(cv_doctor_quick nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>&1)
    if [ $? -eq 0 ]; then cv_doctor_say driver "$(printf '%s\n' "$smi" | head -n 1)"; else cv_doctor_say driver_error "$(printf '%s\n' "$smi" | head -n 1 | head -c 300)"; fi
  fi
  if command -v docker >/dev/null; then
    cv_doctor_say docker "$(cv_doctor_quick docker info --format '{{range $name, $x := .Runtimes}}{{$name}} {{end}}' 2>/dev/null)"
    cv_doctor_say docker_missing "$(cv_doctor_quick docker info --format '{{range .Runtimes}}{{println .Path}}{{end}}' 2>/dev/null | sed '/^$/d' | sort -u | cv_doctor_missing)"
    if grep -q '"nvidia"' /etc/docker/daemon.json 2>/dev/null; then cv_doctor_say docker_file yes; fi
  fi
  if command -v nvidia-ctk >/dev/null; then
    cv_doctor_say toolkit "$(cv_doctor_quick nvidia-ctk --version 2>/dev/null | sed -n 's/.*version \([0-9.]*\).*/\1/p' | head -n 1)"
  fi
  cv_doctor_say nvkind "$(command -v nvkind)"
  if command -v ufw >/dev/null && cv_doctor_quick ufw status 2>/dev/null | grep -q '^Status: active'; then
    cv_doctor_say ufw_forward "$(sed -n 's/^DEFAULT_FORWARD_POLICY="*\([A-Z]*\).*/\1/p' /etc/default/ufw)"
  fi
  if command -v openssl >/dev/null; then
    certificates=$(
      ls /etc/kubernetes/pki/*.crt /etc/kubernetes/pki/etcd/*.crt /var/lib/kubelet/pki/kubelet-client-current.pem \
        /etc/kubernetes/admin.conf /etc/kubernetes/super-admin.conf /etc/kubernetes/controller-manager.conf /etc/kubernetes/scheduler.conf 2>/dev/null
    )
    cv_fact_ends "$certificates" 2>/dev/null | while read -r end && read -r file <&3; do
      case $end in '' | -) ;; *) cv_doctor_say "cert $file" "$(date -d "$end" +%s)" ;; esac
    done 3<<EOF
$certificates
EOF
  fi
fi
cv_doctor_say end .
