# Facts that every host gives cheaply: `name=value` lines. POSIX shell; reads only. Each list repeats its name.
cv_fact_line() { [ -r "$2" ] && IFS= read -r cvf_v <"$2" && printf '%s=%s\n' "$1" "$cvf_v"; }
# cv_fact_file FILE: its first line in cvf_v, which is empty where it cannot be read (status 1).
cv_fact_file() {
  cvf_v=
  [ -r "$1" ] && IFS= read -r cvf_v <"$1"
}
# cv_fact_has PROGRAM: whether this host has it.
cv_fact_has() { command -v "$1" >/dev/null; }
{
  printf 'uname=%s\n' "$(uname -nrm)"
  [ ! -r /etc/os-release ] || while IFS='=' read -r cvf_k cvf_v; do
    case $cvf_k in ID | ID_LIKE | VERSION_ID | VERSION_CODENAME | PRETTY_NAME) printf 'os.%s=%s\n' "$cvf_k" "$cvf_v" ;; esac
  done </etc/os-release
  while read -r cvf_k cvf_v cvf_u; do
    case $cvf_k in MemTotal: | SwapTotal: | HugePages_Total: | Hugepagesize:) printf 'mem.%s%s\n' "${cvf_k%:}=" "$cvf_v" ;; esac
  done </proc/meminfo
  printf 'cpus=%s\n' "$(grep -c '^processor' /proc/cpuinfo)"
  grep -m 1 '^model name' /proc/cpuinfo
  for cvf_c in /sys/devices/system/cpu/cpu[0-9]*; do
    cv_fact_file "$cvf_c/topology/physical_package_id"
    cvf_p=$cvf_v
    cv_fact_file "$cvf_c/topology/core_id"
    [ -z "$cvf_p$cvf_v" ] || printf 'core=%s %s\n' "$cvf_p" "$cvf_v"
  done
  cv_fact_line init /proc/1/comm
  cv_fact_line machine.vendor /sys/class/dmi/id/sys_vendor
  cv_fact_line machine.product /sys/class/dmi/id/product_name
  for cvf_p in apt-get dnf microdnf yum apk zypper pacman; do
    if cv_fact_has $cvf_p; then
      printf 'package_manager=%s\n' $cvf_p
      break
    fi
  done
  if cv_fact_has ufw; then
    echo ufw.present=yes
    if grep -qs '^ENABLED=yes' /etc/ufw/ufw.conf; then echo ufw.enabled=yes; fi
  fi
  if cv_fact_has firewall-cmd; then
    echo firewalld.present=yes
    if systemctl -q is-active firewalld; then echo firewalld.active=yes; fi
  fi
  cv_fact_file /sys/fs/selinux/enforce
  case $cvf_v in 1) echo selinux=enforcing ;; 0) echo selinux=permissive ;; *) echo selinux=disabled ;; esac
  if cv_fact_has snap; then echo snapd.present=yes; fi
  if [ -S /run/snapd.socket ]; then echo snapd.listens=yes; fi
  if cv_fact_has dpkg; then printf 'dpkg_arch=%s\n' "$(dpkg --print-architecture)"; fi
  if cv_fact_has systemd-detect-virt; then
    printf 'virt.machine=%s\nvirt.container=%s\n' "$(systemd-detect-virt --vm)" "$(systemd-detect-virt --container)"
  else
    if grep -q '^flags.* hypervisor' /proc/cpuinfo; then echo virt.machine=other; fi
    if [ -e /.dockerenv ]; then echo virt.container=docker; fi
  fi
  for cvf_d in /sys/block/*; do
    cvf_n=${cvf_d##*/}
    case $cvf_n in '*' | loop* | ram* | zram* | sr* | fd* | dm-*) continue ;; esac
    cv_fact_file "$cvf_d/size"
    cvf_s=$cvf_v
    cv_fact_file "$cvf_d/queue/rotational"
    cvf_r=$cvf_v
    cv_fact_file "$cvf_d/removable"
    cvf_m=$cvf_v
    cv_fact_file "$cvf_d/device/model"
    printf 'disk=%s|%s|%s|%s|%s\n' "$cvf_n" "$cvf_s" "$cvf_r" "$cvf_m" "$cvf_v"
  done
  while read -r cvf_d cvf_p cvf_t cvf_o cvf_u; do
    case "$cvf_d $cvf_p" in /dev/* | *' /') printf 'mount=%s %s %s %s\n' "$cvf_d" "$cvf_p" "$cvf_t" "$cvf_o" ;; esac
  done </proc/self/mounts
  { df -Plk || df -Pk; } | while read -r cvf_d cvf_s cvf_u cvf_a cvf_c cvf_p; do
    case "$cvf_d $cvf_p" in /dev/* | *' /') printf 'df=%s %s %s\n' "$cvf_s" "$cvf_a" "$cvf_p" ;; esac
  done
  for cvf_d in /sys/class/net/*; do
    cvf_n=${cvf_d##*/}
    case $cvf_n in '*' | veth* | cali* | lxc* | bonding_masters) continue ;; esac
    cv_fact_file "$cvf_d/address"
    cvf_a=$cvf_v
    cv_fact_file "$cvf_d/mtu"
    cvf_m=$cvf_v
    cv_fact_file "$cvf_d/operstate"
    cvf_o=$cvf_v
    cv_fact_file "$cvf_d/type"
    cvf_t=$cvf_v
    cv_fact_file "$cvf_d/speed"
    printf 'net=%s|%s|%s|%s|%s|%s\n' "$cvf_n" "$cvf_a" "$cvf_m" "$cvf_o" "$cvf_t" "$cvf_v"
  done
  if cv_fact_has ip; then
    ip -o addr show | while IFS= read -r cvf_v; do
      case $cvf_v in *:' veth'* | *:' cali'* | *:' lxc'*) ;; *) printf 'ip=%s\n' "$cvf_v" ;; esac
    done
    ip -4 route show default | while IFS= read -r cvf_v; do printf 'route4=%s\n' "$cvf_v"; done
    ip -6 route show default | while IFS= read -r cvf_v; do printf 'route6=%s\n' "$cvf_v"; done
  fi
  [ ! -r /etc/resolv.conf ] || while read -r cvf_k cvf_v; do
    case $cvf_k in nameserver | search) printf 'dns.%s=%s\n' "$cvf_k" "$cvf_v" ;; esac
  done </etc/resolv.conf
  # Display controllers and processing accelerators.
  for cvf_d in /sys/bus/pci/devices/*; do
    cv_fact_file "$cvf_d/class"
    case $cvf_v in 0x0300* | 0x0302* | 0x0380* | 0x1200*) ;; *) continue ;; esac
    cv_fact_file "$cvf_d/vendor"
    cvf_m=$cvf_v
    cv_fact_file "$cvf_d/device"
    cvf_r=
    [ ! -e "$cvf_d/driver" ] || cvf_r=$(readlink "$cvf_d/driver")
    printf 'pci=%s %s %s %s\n' "${cvf_d##*/}" "$cvf_m" "$cvf_v" "${cvf_r##*/}"
  done
} 2>/dev/null
echo end=base
