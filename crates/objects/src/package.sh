# --- package ---

CV_APT_AUTO=${CV_APT_AUTO:-/var/lib/apt/extended_states}

cv_see_package() (
  [ $# -gt 0 ] || return 0
  cv_manager_to
  case $CV_MANAGER in
  dnf)
    cv_rpm_see "$@"
    return
    ;;
  none)
    cv_fail_all "$(cv_no_manager)" "$@"
    return 0
    ;;
  esac
  # dpkg itself is of the host's own architecture.
  known=$(dpkg-query ${CV_DPKG_DIR:+--admindir="$CV_DPKG_DIR"} -W -f '${Package}\t${Architecture}\t${db:Status-Want}\t${db:Status-Eflag}\t${db:Status-Status}\t${Version}\n' dpkg "$@" 2>/dev/null)
  [ $? -le 1 ] || {
    cv_fail_all "dpkg-query: $(dpkg-query -W dpkg 2>&1 >/dev/null | tail -n 1)" "$@"
    return 0
  }
  [ -r "$CV_APT_AUTO" ] || CV_APT_AUTO=/dev/null
  {
    printf '%s\n' "$known"
    echo
    printf '%s\n' "$@"
  } | awk -F '\t' -v marks="$CV_APT_AUTO" '
    BEGIN {
      while ((getline line < marks) > 0) {
        if (line ~ /^Package: /) p = substr(line, 10)
        else if (line ~ /^Architecture: /) a = substr(line, 15)
        else if (line ~ /^Auto-Installed: 1/) auto[p ":" a] = 1
      }
    }
    keys {
      if (!($0 in state)) print "- absent"
      else print state[$0]
      next
    }
    $0 == "" {
      # The answers come sorted by name, so dpkg itself may be anywhere.
      for (i = 1; i <= rows; i++) {
        split(row[i], f, "\t")
        key = (f[2] == native || f[2] == "all" || f[2] == "") ? f[1] : f[1] ":" f[2]
        arch = (f[2] == "all") ? native : f[2]
        if (f[4] != "ok") state[key] = "- broken " f[4]
        else if (f[5] == "not-installed") state[key] = "- absent"
        else if (f[5] == "config-files") state[key] = "- config " f[6]
        else if (f[5] == "installed")
          state[key] = "- present " f[6] " " (((f[1] ":" arch) in auto) ? "auto" : "manual") " " (f[3] == "hold" ? "hold" : "-")
        else state[key] = "- broken " f[5]
      }
      keys = 1
      next
    }
    {
      if ($1 == "dpkg") native = $2
      row[++rows] = $0
    }'
)

cv_line_package() { cv_line_of "$(cv_see_package "$1")"; }

# cv_apt_get ARGUMENTS...: apt-get that asks nothing, keeps edited configuration files and waits for the lock.
cv_apt_get() {
  DEBIAN_FRONTEND=noninteractive DEBIAN_PRIORITY=critical APT_LISTCHANGES_FRONTEND=none NEEDRESTART_SUSPEND=1 \
    UCF_FORCE_CONFFOLD=1 apt-get -q -y -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold \
    -o APT::Get::AutomaticRemove=false -o APT::Install-Recommends=false -o APT::Install-Suggests=false \
    -o Dpkg::Lock::Timeout="${CV_LOCK_TIMEOUT:-120}" "$@"
}

# For apt that only looks: it takes no lock, writes no log of its planner (/var/log/apt/eipp.log.xz) and no cache. The cache of
# the lists is read where it is current; that of the installed packages is named where nobody can write, which keeps apt from
# writing either.
CV_APT_LOOKS='-o Debug::NoLocking=true -o Dir::Log::Planner= -o Dir::Log::Solver= -o Dir::Cache::pkgcache=/proc/converge/pkgcache.bin'

# cv_simulate_package ARGUMENTS...: what `apt-get ARGUMENTS` would do, a line each, in its order:
# `inst NAME VERSION`, `remv NAME`, `conf NAME`. Needs no privilege. Status and messages are those of apt-get.
# shellcheck disable=SC2086
cv_simulate_package() (
  if cv_is_dnf; then
    cv_rpm_simulate "$@"
    return
  fi
  IFS=' '
  out=$(cv_apt_get -s $CV_APT_LOOKS "$@" 2>&1)
  status=$?
  [ $status -eq 0 ] || {
    printf '%s\n' "$out" | sed -n '/^[EW]:/p;/^ /p;/dpkg was interrupted/p;/is a virtual package/p' >&2
    return $status
  }
  printf '%s\n' "$out" | awk '
    $1 == "Inst" { v = ($3 ~ /^\[/) ? $4 : $3; sub(/^\(/, "", v); print "inst " $2 " " v }
    $1 == "Remv" || $1 == "Purg" { print "remv " $2 }
    $1 == "Conf" { print "conf " $2 }'
)

# cv_deb_to NAME VERSION: where the .deb, or the .rpm, of a saved version lies, in CV_DEB; status 1 when there is none.
cv_deb_to() {
  if cv_is_dnf; then
    CV_DEB="$CV_ROOT/rpms/$1=$2.rpm"
    [ -f "$CV_DEB" ]
    return
  fi
  cv_d_version=$(printf %s "$2" | sed 's/:/%3a/g')
  for CV_DEB in "$CV_ROOT/debs/${1%:*}_${cv_d_version}_"*.deb; do
    [ ! -f "$CV_DEB" ] || return 0
  done
  return 1
}

# cv_offered_package NAME...: the names whose installed version can be had again: it is saved, cached or offered by a
# repository. A change of another installed package cannot be undone.
# shellcheck disable=SC2086
cv_offered_package() (
  set -f
  IFS=$CV_NL
  there= names=
  for cv_o_line in $(cv_see_package "$@"); do
    case $cv_o_line in
    '- present '*)
      cv_o_version=${cv_o_line#- present }
      there="$there$1 ${cv_o_version%% *}$CV_NL"
      names="$names $1"
      ;;
    esac
    shift
  done
  [ -n "$there" ] || return 0
  IFS=' '
  cv_o_offers="$CV_NL$(apt-cache $CV_APT_LOOKS madison $names 2>/dev/null | tr -d ' ')"
  IFS=$CV_NL
  set +f
  for cv_o_line in $there; do
    cv_o_name=${cv_o_line%% *} cv_o_version=${cv_o_line#* }
    case $cv_o_offers in
    *"$CV_NL${cv_o_name%:*}|$cv_o_version|"*) printf '%s\n' "$cv_o_name" ;;
    *) if cv_deb_to "$cv_o_name" "$cv_o_version" || cv_deb_cached "$cv_o_name" "$cv_o_version"; then printf '%s\n' "$cv_o_name"; fi ;;
    esac
  done
)

# cv_deb_cached NAME VERSION: its file in the cache of apt, in CV_DEB; status 1 where there is none.
cv_deb_cached() {
  cv_d_version=$(printf %s "$2" | sed 's/:/%3a/g')
  for CV_DEB in "/var/cache/apt/archives/${1%:*}_${cv_d_version}_"*.deb; do
    [ ! -f "$CV_DEB" ] || return 0
  done
  return 1
}

# Keeps the .deb of the installed version when the change (to the line CV_AFTER) replaces or removes it.
# CV_IRREVERSIBLE=yes: the plan has said that it cannot be had; status 3 then.
cv_save_package() (
  case $2 in 'present '*) ;; *) return 0 ;; esac
  version=${2#present }
  version=${version%% *}
  case ${CV_AFTER:-} in "present $version "*) return 0 ;; esac
  cv_deb_to "$1" "$version" && return 0
  umask 077
  mkdir -p "$CV_ROOT/debs" || return 1
  if cv_is_dnf; then
    ! cv_rpm_save "$1" "$version" || return 0
  elif cv_deb_cached "$1" "$version"; then
    cp "$CV_DEB" "$CV_ROOT/debs/.new" && mv -f "$CV_ROOT/debs/.new" "$CV_ROOT/debs/${CV_DEB##*/}" && return 0
  elif cd "$CV_ROOT/debs" && cv_bounded 120 apt-get -q -q -o APT::Sandbox::User=root download "$1=$version" >/dev/null 2>&1 &&
    cv_deb_to "$1" "$version"; then
    return 0
  fi
  cv_say "$1: the package file of version $version cannot be had, so its replacement could not be undone"
  [ "${CV_IRREVERSIBLE:-}" = yes ] && return 3
  return 1
)

# cv_amid_package FOUND FROM TO: whether an interrupted step between these states may leave that one; as in package.rs.
cv_amid_package() {
  case $1 in
  # Marks move no package.
  'broken '*) [ "${2% * *}" != "${3% * *}" ] && return 0 ;;
  'config '* | 'present '*)
    cv_a_version=${1#* }
    cv_a_version=${cv_a_version%% *}
    for cv_a_end in "$2 " "$3 "; do
      case $cv_a_end in "config $cv_a_version "* | "present $cv_a_version "*) return 0 ;; esac
    done
    ;;
  esac
  return 1
}

# cv_shows_package FOUND BEFORE LEFT: whether the package still shows what the run made of it; as in package.rs.
cv_shows_package() {
  case "$1 from $3" in 'present '*' from broken '*) return 0 ;; esac
  [ "$1" = "$3" ]
}

# cv_keeps_package LINE: a package that dpkg had left half done before the run, and that it has configured since, stays configured.
cv_keeps_package() { case $1 in 'broken '*) return 0 ;; *) return 1 ;; esac }

cv_restore_package() { cv_apply_packages "$1" "$2"; }

# While the transaction runs, policy-rc.d denies starts. It looks whether the lock of its maker is still held: after a
# kill -9 it denies nothing, and the next run takes it away. A policy-rc.d of someone else is kept aside and comes back.
CV_POLICY=${CV_POLICY:-/usr/sbin/policy-rc.d}

# cv_policy_clean: takes away the policy-rc.d that a transaction which was cut off has left. Reads CV_POLICY.
cv_policy_clean() {
  if grep -qs '^# converge: deny starts' "$CV_POLICY" && flock -n "$CV_ROOT/policy.lock" true; then
    if [ -e "$CV_POLICY.before-converge" ] || [ -L "$CV_POLICY.before-converge" ]; then
      mv -f "$CV_POLICY.before-converge" "$CV_POLICY"
    else
      rm -f "$CV_POLICY"
    fi
  fi
}

# cv_policy_deny: no package starts a service until the lock CV_ROOT/policy.lock is free. Writes CV_POLICY.
cv_policy_deny() (
  if [ -e "$CV_POLICY" ] || [ -L "$CV_POLICY" ]; then
    mv -f "$CV_POLICY" "$CV_POLICY.before-converge" || return 1
  fi
  umask 022
  cv_quote_to "$CV_ROOT/policy.lock"
  lock=$CV_QUOTED
  cv_quote_to "$CV_POLICY.before-converge"
  {
    echo '#!/bin/sh'
    echo '# converge: deny starts while a package transaction of converge runs.'
    echo "flock -n $lock true || exit 101"
    echo "[ ! -x $CV_QUOTED ] || exec $CV_QUOTED \"\$@\""
    echo 'exit 0'
  } >"$CV_POLICY.new" && chmod 755 "$CV_POLICY.new" && mv -f "$CV_POLICY.new" "$CV_POLICY"
)

# cv_apply_packages [NAME LINE]...: brings the packages to the states of the lines in one transaction, with exact
# versions and marks. Status 70 and nothing changed when apt would do anything else than the list.
cv_apply_packages() (
  cv_packages_ready "$@" || return $?
  cv_phase change
  cv_packages_do
)

# cv_packages_ready [NAME LINE]...: the first half, which changes no package: works out what apt is to be asked for. What
# it finds is in variables of this shell, for cv_packages_do. It leaves IFS a space. A package that an interrupted dpkg has left half done
# goes like any other.
# shellcheck disable=SC2086
cv_packages_ready() {
  PATH=$PATH:/usr/sbin:/sbin
  export PATH
  IFS=' '
  names= wanted= request= purge=--purge leftovers= hold= unhold= auto= manual= expect= confs= force=
  while [ $# -ge 2 ]; do
    names="$names $1"
    wanted="$wanted$1 $2$CV_NL"
    shift 2
  done
  cv_dpkg_catch_up
  now=$(cv_see_package $names)
  rest=$wanted
  case $wanted in *" config "*) purge= ;; esac
  IFS=$CV_NL
  for line in $now; do
    IFS=' '
    want=${rest%%"$CV_NL"*}
    rest=${rest#*"$CV_NL"}
    name=${want%% *}
    want=${want#* }
    line=${line#* }
    case $want:$line in
    *:'broken '*reinst* | 'present '*:'broken half-installed')
      cv_say "$name is ${line#broken }: on the host, 'apt-get install --reinstall $name' puts it right, or 'dpkg --remove --force-remove-reinstreq $name' takes it away"
      return 70
      ;;
    *' hold') force=--allow-change-held-packages ;;
    esac
    case $want in
    'present '*)
      set -- $want
      version=$2 mark=$3 held=$4
      set -- $line
      if [ "$1" = broken ] && [ "$(dpkg-query -W -f '${Version}' "$name")" = "$version" ]; then
        # It is unpacked: apt only configures it.
        request="$request $name=$version"
        confs="${confs}conf $name$CV_NL"
        [ "$mark" = manual ] || auto="$auto $name"
        [ "$mark" = auto ] || manual="$manual $name"
      elif [ "$1" != present ] || [ "$2" != "$version" ]; then
        if cv_deb_to "$name" "$version"; then request="$request $CV_DEB"; else request="$request $name=$version"; fi
        expect="${expect}inst $name $version$CV_NL"
        # Packages that apt installs by name are marked as manual.
        [ "$mark" = manual ] || auto="$auto $name"
        [ "$mark" = auto ] || manual="$manual $name"
      elif [ "$3" != "$mark" ]; then
        if [ "$mark" = auto ]; then auto="$auto $name"; else manual="$manual $name"; fi
      fi
      if [ "$held" = hold ]; then
        hold="$hold $name"
      else
        case $line in *' hold') unhold="$unhold $name" ;; esac
      fi
      ;;
    absent)
      # dpkg forgets a hold with its package, versionlock does not.
      case $line in *' hold') ! cv_is_dnf || unhold="$unhold $name" ;; esac
      case $line in
      'present '* | 'config '* | 'broken '*)
        case "$line $purge" in
        'config '*' ') leftovers="$leftovers $name" ;;
        *)
          request="$request $name-"
          expect="${expect}remv $name$CV_NL"
          # apt purges nothing that is half installed: it only removes it.
          case "$line $purge" in *' ' | 'broken half-installed '*) leftovers="$leftovers $name" ;; esac
          ;;
        esac
        ;;
      esac
      ;;
    'config '*)
      case $line in
      'present '* | 'broken '*)
        request="$request $name-"
        expect="${expect}remv $name$CV_NL"
        ;;
      absent)
        cv_say "$name: configuration files without their package cannot be made"
        return 1
        ;;
      esac
      ;;
    *)
      cv_say "$name: cannot be made: $want"
      return 1
      ;;
    esac
    IFS=$CV_NL
  done
  IFS=' '
  options="install --allow-downgrades $force $purge"
}

# cv_packages_do: the second half. Status 70: apt would do something else, and nothing was changed. Where the transaction fails, what did arrive
# gets its marks nevertheless.
# shellcheck disable=SC2086
cv_packages_do() (
  IFS=' '
  failed=0
  if [ -n "$request" ]; then { cv_packages_bound && cv_packages_asked $options $request; } || failed=$?; fi
  [ $failed -ne 70 ] || return 70
  if [ $failed -ne 0 ]; then
    auto=$(cv_packages_there $auto) manual=$(cv_packages_there $manual) unhold=$(cv_packages_there $unhold) hold=$(cv_packages_there $hold)
  else
    leftovers=$(cv_packages_left $leftovers)
    [ -z "$leftovers" ] || cv_apt_transaction purge $leftovers || return $?
  fi
  # apt has set most marks of what it installed: to ask for them again costs as much as a look at all packages.
  auto=$(cv_packages_unlike auto $auto) manual=$(cv_packages_unlike manual $manual)
  { cv_packages_mark auto $auto && cv_packages_mark manual $manual && cv_packages_mark unhold $unhold && cv_packages_mark hold $hold; } ||
    [ $failed -ne 0 ] || failed=1
  return $failed
)

# cv_packages_mark WORD NAME...
cv_packages_mark() {
  [ $# -ge 2 ] || return 0
  if cv_is_dnf; then cv_rpm mark "$@"; else apt-mark -qq "$@" >/dev/null; fi
}

# cv_packages_there NAME...: those of them that are installed, though perhaps not configured yet, in one line.
cv_packages_there() (
  cv_see_package "$@" | while IFS= read -r line; do
    case $line in '- present '* | '- broken '*) printf '%s ' "$1" ;; esac
    shift
  done
)

# cv_packages_unlike MARK NAME...: those of them that are there without this mark, auto or manual, in one line.
cv_packages_unlike() (
  mark=$1
  shift
  cv_see_package "$@" | while IFS= read -r line; do
    case $line in '- present '*" $mark "*) ;; *) printf '%s ' "$1" ;; esac
    shift
  done
)

# cv_packages_left NAME...: those of them of which configuration files are left, in one line. apt may not know the others any more.
cv_packages_left() (
  cv_see_package "$@" | while IFS= read -r line; do
    case $line in '- config '*) printf '%s ' "$1" ;; esac
    shift
  done
)

# cv_apt_transaction ARGUMENTS...: apt-get behind the denying policy-rc.d. The lock of that file is held by apt-get
# itself, so that it denies as long as apt-get lives, whatever becomes of this shell. CV_SERVICES=start: nothing is denied.
cv_apt_transaction() (
  umask 022
  mkdir -p "$CV_ROOT" || return 1
  exec 7>>"$CV_ROOT/policy.lock" || return 1
  flock -w 5 7 || {
    cv_say 'another package transaction of converge is running'
    return 1
  }
  exec 7>&-
  cv_policy_clean
  exec 7>>"$CV_ROOT/policy.lock"
  flock -n 7 || return 1
  trap 'exec 7>&-; cv_policy_clean' EXIT
  trap 'exit 1' HUP INT TERM
  [ "${CV_SERVICES:-}" = start ] || cv_policy_deny || {
    cv_say "cannot write $CV_POLICY"
    return 1
  }
  cv_dists_ready
  out=$("${CV_APT_TOOL:-cv_apt_get}" "$@" </dev/null 2>&1)
  status=$?
  cv_dists_done
  if [ $status -ne 0 ]; then
    # The output of apt comes last: that is what is shown first.
    dpkg --audit >&2
    printf '%s\n' "$out" | tail -n 60 >&2
    case $out in *'404  Not Found'* | *'404 Not Found'*)
      cv_say "the repository has no such package file any more (404): the package index of this host is stale. \`max_age: 3600\` at the package resource refreshes it"
      ;;
    esac
    return $status
  fi
  printf '%s\n' "$out"
  cv_dists_written | while IFS= read -r file; do cv_note "kept the edited ${file%.dpkg-dist}; the package's is beside it as $file"; done
  return 0
)

# cv_dists: the FILE.dpkg-dist that dpkg has written beside edited configuration files, each behind the time of its last change.
cv_dists() { find /etc -xdev -name '*.dpkg-dist' -type f -printf '%C@ %p\n' 2>/dev/null; }

# cv_dists_written: those that were written since cv_dists_ready.
cv_dists_written() {
  cv_dists | while IFS= read -r cv_d_line; do
    case $cv_d_before in *"$CV_NL$cv_d_line$CV_NL"*) ;; *) printf '%s\n' "${cv_d_line#* }" ;; esac
  done
}

# Before a transaction: those that are there, and those that the run which is being reverted has left and nobody has edited.
cv_dists_ready() {
  cv_d_before=$CV_NL$(cv_dists)$CV_NL cv_d_left=
  cv_d_saved=$CV_ROOT/runs/${CV_FROM_RUN:-none}/saved/dists
  [ -f "$cv_d_saved" ] || return 0
  cv_d_left=$(
    while IFS=' ' read -r sum path; do
      cv_dec_to "$path"
      cv_is_safe "${CV_DEC%/*}" || continue
      if [ -f "$CV_DEC" ] && [ ! -L "$CV_DEC" ]; then
        got=$(sha256sum <"$CV_DEC") && [ "${got%% *}" = "$sum" ] || continue
      elif [ -e "$CV_DEC" ] || [ -L "$CV_DEC" ]; then
        continue
      fi
      printf '%s\n' "$CV_DEC"
    done <"$cv_d_saved"
  )
}

# Behind it those go, also where the transaction has written them anew; what it has left is noted with the run.
cv_dists_done() (
  umask 077
  IFS=$CV_NL
  set -f
  for cv_d_path in $cv_d_left; do rm -f "$cv_d_path"; done
  [ -n "${CV_RUN:-}" ] || return 0
  for cv_d_path in $(cv_dists_written); do
    case $cv_d_before in *" $cv_d_path$CV_NL"*) continue ;; esac
    cv_d_sum=$(sha256sum <"$cv_d_path") || continue
    cv_enc_to "$cv_d_path"
    mkdir -p "$CV_ROOT/runs/$CV_RUN/saved" && printf '%s %s\n' "${cv_d_sum%% *}" "$CV_ENC" >>"$CV_ROOT/runs/$CV_RUN/saved/dists"
  done
)
