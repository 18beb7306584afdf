# --- dpkg ---

CV_DPKG_UPDATES=${CV_DPKG_UPDATES:-/var/lib/dpkg/updates}

# cv_dpkg_left WORD: what an interrupted dpkg has left, a name a line: what it has to configure (unpacked), or packages of which the removal was cut
# off (removal, each behind `deinstall` or `purge`). apt removes these with whatever else it does, also where dpkg died and not apt: such a package is
# to be installed by the records.
cv_dpkg_left() {
  dpkg-query -W -f '${db:Status-Want}\t${db:Status-Eflag}\t${db:Status-Status}\t${binary:Package}\n' 2>/dev/null | awk -F '\t' -v word="$1" '
    word == "unpacked" && ($3 == "unpacked" || $3 == "half-configured" || $3 == "triggers-awaited" || $3 == "triggers-pending") { print $4 }
    word == "removal" && $3 == "half-installed" && $2 == "ok" && $1 != "hold" { print ($1 == "purge" ? $1 : "deinstall"), $4 }'
}

# cv_dpkg_state [WORD]: `settled`, or what an interrupted run of dpkg has left to be configured or removed (of the one WORD of cv_dpkg_left alone):
# `unfinished NAME,NAME`.
cv_dpkg_state() (
  set +f
  left=$({ cv_dpkg_left unpacked && if [ "${1:-}" != unpacked ]; then cv_dpkg_left removal; fi; } | sed 's/.* //; s/:.*//' | LC_ALL=C sort -u | tr '\n' ',')
  for file in "$CV_DPKG_UPDATES"/[0-9]*; do
    if [ -e "$file" ]; then left="${left}updates,"; fi
    break
  done
  if [ -n "$left" ]; then printf 'unfinished %s\n' "${left%,}"; else echo settled; fi
)

# The only key is `packages`.
cv_see_dpkg() (
  command -v dpkg-query >/dev/null 2>&1 || {
    cv_fail_all 'this host has no dpkg' "$@"
    return 0
  }
  for key; do printf -- '- %s\n' "$(cv_dpkg_state)"; done
)

cv_line_dpkg() { cv_line_of "$(cv_see_dpkg "$1")"; }

# A half-configured state is not restored.
cv_save_dpkg() { :; }
cv_restore_dpkg() { :; }
cv_same_dpkg() { [ "$3" != settled ]; }

# cv_apply_dpkg KEY LINE
# shellcheck disable=SC2086
cv_apply_dpkg() (
  PATH=$PATH:/usr/sbin:/sbin
  export PATH
  # dpkg configures nothing that is to go: a removal that was cut off is taken back.
  CV_DPKG_INPUT=$(dpkg-query -W -f '${db:Status-Want}\t${db:Status-Status}\t${binary:Package}\n' 2>/dev/null | awk -F '\t' '
    ($1 == "deinstall" || $1 == "purge") && ($2 == "unpacked" || $2 == "half-configured") { print $3 " install" }')
  [ -z "$CV_DPKG_INPUT" ] || cv_dpkg_configure --set-selections >&2 || return $?
  CV_DPKG_INPUT=
  CV_APT_TOOL=cv_dpkg_configure
  # One of which files are gone already has no way back.
  cv_d_goes=$(cv_dpkg_left removal | sed -n 's/^deinstall //p' | tr '\n' ' ') cv_d_purged=$(cv_dpkg_left removal | sed -n 's/^purge //p' | tr '\n' ' ')
  { [ -z "$cv_d_goes" ] || cv_apt_transaction --remove $cv_d_goes; } && { [ -z "$cv_d_purged" ] || cv_apt_transaction --purge $cv_d_purged; } || return $?
  cv_apt_transaction --configure -a
)

# cv_dpkg_catch_up: the journal of a dpkg that was cut off comes into the list of packages, as at the next dpkg of any kind. apt does not
# read that journal.
cv_dpkg_catch_up() {
  case $(cv_dpkg_state) in *updates) cv_dpkg_configure --set-selections >&2 ;; esac
}

# cv_dpkg_configure ARGUMENTS...: dpkg with the answers of cv_apt_get; it reads CV_DPKG_INPUT. It has no wait for the lock of its own.
cv_dpkg_configure() {
  cv_d_left=${CV_LOCK_TIMEOUT:-120}
  while :; do
    cv_d_out=$(printf %s "${CV_DPKG_INPUT:+$CV_DPKG_INPUT$CV_NL}" |
      DEBIAN_FRONTEND=noninteractive DEBIAN_PRIORITY=critical UCF_FORCE_CONFFOLD=1 dpkg --force-confold "$@" 2>&1)
    cv_d_status=$?
    case $cv_d_out in *'locked by another process'*) [ "$cv_d_left" -gt 0 ] ;; *) false ;; esac || break
    sleep 3
    cv_d_left=$((cv_d_left - 3))
  done
  printf '%s\n' "$cv_d_out"
  return "$cv_d_status"
}

# cv_keeps_dpkg: packages that were configured stay so.
cv_keeps_dpkg() { :; }
