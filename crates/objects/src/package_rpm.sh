# --- package, where the packages are rpm's and dnf 4 changes them ---
#
# The program that asks dnf is package_rpm.py; it runs in the Python in which dnf itself does.

# cv_manager_to: which package manager this host has, in CV_MANAGER: apt or dnf, else none; the Python of dnf in CV_RPM_PYTHON.
cv_manager_to() {
  [ -z "${CV_MANAGER:-}" ] || return 0
  CV_MANAGER=none CV_RPM_PYTHON=
  if command -v dpkg-query >/dev/null 2>&1; then
    CV_MANAGER=apt
  elif command -v rpm >/dev/null 2>&1 && command -v dnf >/dev/null 2>&1; then
    # dnf 5 is no Python.
    { IFS= read -r CV_RPM_PYTHON <"$(command -v dnf)"; } 2>/dev/null
    case $CV_RPM_PYTHON in '#!'*python*) CV_RPM_PYTHON=${CV_RPM_PYTHON#??} CV_MANAGER=dnf ;; esac
  fi
}

# cv_is_dnf: whether dnf changes the packages of this host.
cv_is_dnf() {
  cv_manager_to
  [ "$CV_MANAGER" = dnf ]
}

# cv_no_manager: the words for a host without a package manager that is known.
cv_no_manager() (
  has=
  for tool in dnf5 dnf microdnf tdnf yum zypper apk pacman; do
    if command -v "$tool" >/dev/null 2>&1; then has=" (it has $tool)" && break; fi
  done
  printf '%s\n' "this host has neither apt nor dnf 4, the package managers that converge knows$has"
)

# cv_rpm MODE WORD...: see package_rpm.py.
# shellcheck disable=SC2086
cv_rpm() (
  unset IFS
  set -f
  LC_ALL=C.UTF-8
  export LC_ALL CV_ROOT
  exec $CV_RPM_PYTHON -c "$CV_RPM_PROGRAM" "$@" </dev/null
)

# cv_rpm_see NAME...: the answers of cv_see_package.
cv_rpm_see() (
  IFS=$CV_NL
  set -f
  known=$(rpm -q --qf '%{NAME}\t%{ARCH}\t%|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE}\n' -- "$@" 2>&1)
  case $CV_NL$known in *"${CV_NL}error: "*)
    cv_fail_all "rpm: $(printf '%s\n' "$known" | grep -m 1 '^error: ')" "$@"
    return 0
    ;;
  esac
  known=$(printf '%s\n' "$known" | grep "$CV_TAB")
  marks=
  if [ -n "$known" ]; then
    # shellcheck disable=SC2046
    marks=$(cv_rpm marks $(printf '%s\n' "$known" | awk -F '\t' '{ print $1 "." $2 }')) || {
      cv_fail_all "dnf cannot say which packages were asked for" "$@"
      return 0
    }
  fi
  {
    printf '%s\n' "$known" = "$marks" =
    printf '%s\n' "$@"
  } | awk -F '\t' -v native="$(uname -m)" '
    $0 == "" { next }
    $0 == "=" { part++; next }
    !part {
      row = $1 "." $2
      key = ($2 == native || $2 == "noarch") ? $1 : row
      sub(/^0:/, "", $3)
      if (key in version) several[key]
      version[key] = $3
      of[row] = key
      next
    }
    part == 1 { split($0, f, " "); mark[of[f[1]]] = f[2] " " f[3]; next }
    $0 in several { print "several " $0; next }
    $0 in version { print "- present " version[$0] " " mark[$0]; next }
    { print "- absent" }' | while IFS= read -r line; do
    case $line in
    'several '*)
      why=$(cv_rpm several "${line#several }" 2>&1)
      cv_fail_all "${why:-${line#several } is there in several versions}" "${line#several }"
      ;;
    *) printf '%s\n' "$line" ;;
    esac
  done
)

# cv_rpm_plan STAGE...: as cv_plan_packages.
cv_rpm_plan() (
  said=$(cv_rpm plan "$@") || return $?
  printf '%s\n' "$said" | sed '/^closure /d'
  unset IFS
  set -f
  # shellcheck disable=SC2046
  set -- $(printf '%s\n' "$said" | sed -n 's/^closure //p')
  [ $# -gt 0 ] || return 0
  cv_rpm_see "$@" | while IFS= read -r line; do
    case $line in '- '*) printf 'was %s %s\n' "$1" "${line#- }" ;; esac
    shift
  done
)

# cv_rpm_simulate ARGUMENTS...: as cv_simulate_package.
cv_rpm_simulate() { cv_rpm simulate "$@"; }

# cv_rpm_save NAME VERSION: keeps the file of the installed version. Status 1: it cannot be had.
cv_rpm_save() (
  umask 077
  mkdir -p "$CV_ROOT/rpms" || return 1
  cv_rpm fetch "$1" "$2" "$CV_ROOT/rpms" >/dev/null 2>&1
)

# cv_rpm_asked ARGUMENTS...: as cv_packages_asked: dnf begins only where its transaction is the one in `expect`. Reads `auto` too: what is to be marked as a dependency.
cv_rpm_asked() (
  umask 077
  mkdir -p "$CV_ROOT" && printf '%s' "$expect" >"$CV_ROOT/transaction.planned" || return 1
  umask 022
  got=$(CV_RPM_AUTO=$auto && export CV_RPM_AUTO CV_RUN CV_FROM_RUN && cv_rpm apply "$CV_ROOT/transaction.planned" "$@" 2>"$CV_ROOT/transaction.said")
  status=$?
  said=$(cat "$CV_ROOT/transaction.said")
  rm -f "$CV_ROOT/transaction.planned" "$CV_ROOT/transaction.said"
  if [ $status -eq 70 ]; then
    cv_packages_other
    return 70
  fi
  [ -z "$said" ] || printf '%s\n' "$said" | tail -n 60 >&2
  printf '%s\n' "$got" | sed -n 's/^note //p' | while IFS= read -r line; do cv_note "$line"; done
  return $status
)

# cv_rpm_index KEY...: as cv_see_apt_index.
cv_rpm_index() {
  cv_x_said=$(cv_rpm index "$@" 2>&1) || cv_x_said=$(cv_fail_all "dnf: $cv_x_said" "$@")
  printf '%s\n' "$cv_x_said"
}

# cv_rpm_refresh: fetches the metadata of all repositories.
cv_rpm_refresh() (
  out=$(cv_bounded 600 dnf -q -y makecache --refresh </dev/null 2>&1) || {
    status=$?
    printf '%s\n' "$out" | tail -n 20 >&2
    cv_say 'dnf makecache failed: the package index cannot be refreshed'
    return "$status"
  }
  [ -z "$out" ] || printf '%s\n' "$out" | tail -n 5 | while IFS= read -r line; do cv_note "dnf makecache: $line"; done
)
