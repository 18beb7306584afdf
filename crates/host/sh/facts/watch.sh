# Facts as foreign code may move them: one digest for each name. POSIX shell; reads only.

# cv_see_fact NAME...: a line `NAME DIGEST` each.
cv_see_fact() (
  unset IFS
  set +f
  base=
  for name; do
    case $name in
    nvidia | amd | containerd | docker | kubelet | kubernetes) said=$("cv_fact_watch_$name" </dev/null | cv_fact_lasting) ;;
    *)
      [ -n "$base" ] || base=$(cv_fact_watch_base </dev/null | cv_fact_lasting)
      said=$(printf '%s\n' "$base" | cv_fact_of "$name")
      ;;
    esac
    said=$(printf '%s\n' "$said" | sha256sum)
    printf '%s %s\n' "$name" "${said%% *}"
  done
)

# cv_line_fact NAME: prints the line of a fact; see cv_see_fact.
cv_line_fact() { cv_line_of "$(cv_see_fact "$1")"; }

# cv_save_fact: keeps nothing. A fact is read only.
cv_save_fact() { :; }

# Without what moves by itself: free space, the time left of addresses and routes, numbers of processes, the clock.
cv_fact_lasting() {
  sed -e '/^df=/d' -e '/\.MainPID=/d' -e '/^kubernetes\.now=/d' -e '/^ip=/s/ *valid_lft.*//' -e '/^route/s/ expires [0-9]*sec//'
}

# cv_fact_of NAME: of all that the host says, what belongs to this fact. With an unknown name, all of it.
cv_fact_of() {
  case $1 in
  hostname | kernel | arch) sed -n '/^uname=/p' ;;
  os) sed -n '/^os\./p' ;;
  dpkg_arch | package_manager | init | cpus | selinux) sed -n "/^$1=/p" ;;
  cpu) sed -n -e '/^core=/p' -e '/^model name/p' ;;
  memory_mib) sed -n '/^mem\.MemTotal/p' ;;
  swap_mib) sed -n '/^mem\.SwapTotal/p' ;;
  huge_pages) sed -n '/^mem\.Huge/p' ;;
  ufw | firewalld | snapd) sed -n "/^$1\\./p" ;;
  machine) sed -n '/^machine\./p' ;;
  virtualisation) sed -n '/^virt\./p' ;;
  disks) sed -n '/^disk=/p' ;;
  mounts) sed -n '/^mount=/p' ;;
  network) sed -n -e '/^net=/p' -e '/^ip=/p' -e '/^route/p' -e '/^dns\./p' ;;
  accelerators) sed -n '/^pci=/p' ;;
  *) cat ;;
  esac
}
