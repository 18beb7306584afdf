# --- what apt would do for all items of packages of a host ---

# cv_plan_packages STAGE...: each STAGE is one item, in their order: `STATE FLAGS INDEX NAME[=VERSION]...`, where STATE is present,
# latest or absent, FLAGS has h (held packages may change), p (purge), r (recommended packages come along) and c (they do where apt's settings
# say so), and INDEX is the key of the package index (see apt_index.sh). Each is simulated on what those before it leave. For a stage with something to do it prints, after `stage N`:
# `index INDEX STATE`, `dpkg STATE`, `choice DIGEST` (see cv_apt_choice), the lines of cv_simulate_package, `leaves NAME` of removed packages that leave something behind,
# or `err TEXT` and `near NAME CANDIDATE...`, and `end STATUS` (72: there is no package index). In the end `was NAME STATE` and
# `offered NAME` for every package in any of them.
#
# Items that only install are simulated at once, and what comes along is the first item's that depends on it: apt takes its time for
# every look. Nothing on disk changes. Behind a stage that does something the packages are listed in a folder in memory, which goes
# with the shell.
# shellcheck disable=SC2086
cv_plan_packages() (
  PATH=$PATH:/usr/sbin:/sbin
  export PATH
  set -f
  IFS=' '
  cv_manager_to
  case $CV_MANAGER in
  dnf)
    cv_rpm_plan "$@"
    exit
    ;;
  none)
    cv_no_manager >&2
    exit 1
    ;;
  esac
  CV_DPKG_DIR= CV_P_CLOSURE=' ' CV_P_ASKED=' ' CV_P_NAMES= cv_p_number=0
  trap '[ -z "$CV_DPKG_DIR" ] || rm -rf "$CV_DPKG_DIR"' EXIT
  trap 'exit 1' HUP INT TERM
  printf 'arch %s\n' "$(dpkg --print-architecture 2>/dev/null)"
  for cv_p_stage; do cv_plan_names $cv_p_stage; done
  cv_plan_see
  while [ $# -gt 0 ]; do
    cv_p_run=0
    for cv_p_stage; do
      case $cv_p_stage in 'present - '* | 'latest - '*) cv_p_run=$((cv_p_run + 1)) ;; *) break ;; esac
    done
    if [ "$cv_p_run" -gt 1 ] && cv_plan_joint "$cv_p_run" "$@"; then
      shift "$cv_p_run"
      continue
    fi
    [ "$cv_p_run" -gt 1 ] || cv_p_run=1
    while [ "$cv_p_run" -gt 0 ]; do
      cv_p_stage=$1
      shift
      cv_p_run=$((cv_p_run - 1)) cv_p_number=$((cv_p_number + 1)) CV_P_LEFT=$#
      printf 'stage %s\n' "$cv_p_number"
      cv_plan_stage $cv_p_stage
    done
  done
  [ "$CV_P_CLOSURE" != ' ' ] || exit 0
  cv_p_dir=$CV_DPKG_DIR
  CV_DPKG_DIR=
  set -- $CV_P_CLOSURE
  cv_see_package "$@" | while IFS= read -r cv_p_line; do
    case $cv_p_line in '- '*) printf 'was %s %s\n' "$1" "${cv_p_line#- }" ;; esac
    shift
  done
  cv_offered_package "$@" | sed 's/^/offered /'
  CV_DPKG_DIR=$cv_p_dir
)

# cv_apt_choice: a digest of what apt chooses versions by: its settings, pins and sources, and the package lists, by name, size and time of change.
cv_apt_choice() (
  sum=$(find -L "$CV_APT_ETC/apt.conf" "$CV_APT_ETC/apt.conf.d" "$CV_APT_ETC/preferences" "$CV_APT_ETC/preferences.d" "$CV_APT_ETC/sources.list" \
    "$CV_APT_ETC/sources.list.d" "$CV_APT_LISTS" -maxdepth 1 -type f ! -name lock -exec env TZ=UTC0 stat -L -c '%n %s %z' {} + 2>/dev/null | LC_ALL=C sort | sha256sum)
  printf '%s\n' "${sum%% *}"
)

# cv_apt_recommends: whether the settings of apt on this host bring recommended packages along; apt does where nothing is set.
cv_apt_recommends() (
  value=$(apt-config dump --format '%v' APT::Install-Recommends 2>/dev/null)
  printf '%s\n' "${value:-true}"
)

# cv_plan_names STATE FLAGS INDEX NAME[=VERSION]...
cv_plan_names() {
  shift 3
  for cv_p_word; do CV_P_NAMES="$CV_P_NAMES ${cv_p_word%%=*}"; done
}

# cv_plan_see: dpkg's answers for all names, in CV_P_KNOWN: lines of NAME and the answer of cv_see_package.
# shellcheck disable=SC2086
cv_plan_see() {
  set -- $CV_P_NAMES
  CV_P_KNOWN=$CV_NL$(cv_see_package "$@" | while IFS= read -r cv_p_line; do
    printf '%s %s\n' "$1" "$cv_p_line"
    shift
  done)$CV_NL
}

# cv_plan_request STATE FLAGS INDEX NAME[=VERSION]...: what apt is to be asked for, in cv_p_request (empty: nothing is to be done), and
# what is to go, in cv_p_goes.
cv_plan_request() {
  cv_p_state=$1 cv_p_flags=$2 cv_p_index=$3
  shift 3
  cv_p_request= cv_p_goes=
  for cv_p_word; do
    cv_p_name=${cv_p_word%%=*}
    cv_p_line=${CV_P_KNOWN#*"$CV_NL$cv_p_name "}
    cv_p_line=${cv_p_line%%"$CV_NL"*}
    case $cv_p_state:$cv_p_line in
    absent:'- present '*) cv_p_request="$cv_p_request $cv_p_name-" cv_p_goes="$cv_p_goes $cv_p_name" ;;
    absent:*) ;;
    present:'- present '*)
      cv_p_line=${cv_p_line#- present }
      case $cv_p_word in
      *=*) [ "${cv_p_word#*=}" = "${cv_p_line%% *}" ] || cv_p_request="$cv_p_request $cv_p_word" ;;
      esac
      ;;
    *) cv_p_request="$cv_p_request $cv_p_word" ;;
    esac
  done
  [ -n "$cv_p_request" ] || return 0
  # Told once.
  case $CV_P_ASKED in
  *' dpkg '*) ;;
  *)
    printf 'choice %s\ndpkg %s\n' "$(cv_apt_choice)" "$(cv_dpkg_state)"
    CV_P_ASKED="${CV_P_ASKED}dpkg "
    ;;
  esac
  [ "$cv_p_state" != absent ] || return 0
  case $CV_P_ASKED in
  *" $cv_p_index "*) ;;
  *)
    printf 'index %s %s\n' "$cv_p_index" "$(cv_line_apt_index "$cv_p_index")"
    CV_P_ASKED="$CV_P_ASKED$cv_p_index "
    ;;
  esac
}

# cv_plan_joint COUNT STAGE...: the first stages at once. Status 1, and nothing of them said: each must be asked for alone.
# shellcheck disable=SC2086
cv_plan_joint() {
  cv_p_left=$1 cv_p_at=$cv_p_number cv_p_all= cv_p_roots=
  CV_P_LEFT=$(($# - 1 - cv_p_left))
  shift
  while [ "$cv_p_left" -gt 0 ]; do
    cv_p_left=$((cv_p_left - 1)) cv_p_at=$((cv_p_at + 1))
    cv_plan_request $1
    shift
    cv_p_all="$cv_p_all$cv_p_request"
    cv_p_roots="${cv_p_roots}root $cv_p_at$CV_NL"
    for cv_p_word in $cv_p_request; do cv_p_roots="${cv_p_roots}root $cv_p_at ${cv_p_word%%=*}$CV_NL"; done
  done
  cv_p_out= cv_p_shown=
  if [ -n "$cv_p_all" ]; then
    cv_apt_has_lists || return 1
    cv_p_out=$(cv_simulate_package install --allow-downgrades $cv_p_all 2>/dev/null) || return 1
    case $CV_NL$cv_p_out in *"${CV_NL}remv "*) return 1 ;; esac
    cv_plan_show "$cv_p_out"
  fi
  printf '%s%s\n\001\n%s\n\n' "$cv_p_roots" "$cv_p_out" "$cv_p_shown" | awk '
    $0 == "\001" { shown = 1; next }
    !shown && $1 == "root" { if (!first) first = $2; last = $2; if ($3 != "") { roots[$2] = roots[$2] " " $3; asks[$2] = 1 }; next }
    !shown && $1 == "inst" { name[++n] = $2; line[n] = $0; new[$2] = 1; next }
    !shown && $1 == "conf" { conf[++c] = $2; next }
    !shown { next }
    $0 == "" { p = ""; next }
    $1 == "Package:" { p = $2; next }
    $1 == "Architecture:" { if (!(p in new) && ((p ":" $2) in new)) p = p ":" $2; next }
    $1 == "Depends:" || $1 == "Pre-Depends:" { needs[p] = needs[p] " " words($0); next }
    $1 == "Provides:" { k = split(words($0), w, " "); for (i = 1; i <= k; i++) by[w[i]] = by[w[i]] " " p; next }
    END {
      for (s = first; s <= last; s++) take(s, roots[s])
      for (i = 1; i <= n; i++) if (!(name[i] in owner)) { failed = 1; exit 1 }
      for (s = first; s <= last; s++) {
        print "stage " s
        if (!(s in asks)) continue
        for (i = 1; i <= n; i++) if (owner[name[i]] == s) print line[i]
        for (i = 1; i <= c; i++) if (owner[conf[i]] == s || (!(conf[i] in owner) && !told[conf[i]]++)) print "conf " conf[i]
        print "end 0"
      }
    }
    # The names in a field, without versions and architectures.
    function words(text) {
      sub(/^[^:]*:/, "", text)
      gsub(/\([^)]*\)/, " ", text)
      gsub(/:[a-z0-9-]+/, " ", text)
      gsub(/[|,]/, " ", text)
      return text
    }
    function take(s, list,   k, w, i) {
      k = split(list, w, " ")
      for (i = 1; i <= k; i++) {
        if ((w[i] in new) && !(w[i] in owner)) {
          owner[w[i]] = s
          take(s, needs[w[i]])
        }
        if (w[i] in by && !((s, w[i]) in gone)) {
          gone[s, w[i]] = 1
          take(s, by[w[i]])
        }
      }
    }' || return 1
  cv_p_number=$cv_p_at
  cv_plan_took "$cv_p_out" "$cv_p_shown"
}

# cv_plan_show OUTPUT: what apt says of the packages that are installed, in cv_p_shown.
# shellcheck disable=SC2086
cv_plan_show() {
  cv_p_new=$(printf '%s\n' "$1" | sed -n 's/^inst \([^ ]*\) \(.*\)/\1=\2/p' | tr '\n' ' ')
  cv_p_shown=
  [ -z "$cv_p_new" ] || cv_p_shown=$(apt-cache $CV_APT_LOOKS show $cv_p_new 2>/dev/null)
}

# cv_plan_took OUTPUT [SHOWN]: these packages are told of in the end, and are as this leaves them for what follows.
cv_plan_took() {
  for cv_p_name in $(printf '%s\n' "$1" | sed -n 's/^inst \([^ ]*\) .*/\1/p; s/^remv //p' | tr '\n' ' '); do
    case $CV_P_CLOSURE in *" $cv_p_name "*) ;; *) CV_P_CLOSURE="$CV_P_CLOSURE$cv_p_name " ;; esac
  done
  if [ "$CV_P_LEFT" -gt 0 ] && [ -n "$1" ]; then
    [ $# -gt 1 ] || cv_plan_show "$1"
    cv_plan_derive "$1" "$cv_p_shown"
    cv_plan_see
  fi
}

# cv_plan_stage STAGE, as words
# shellcheck disable=SC2086
cv_plan_stage() {
  cv_plan_request "$@"
  [ -n "$cv_p_request" ] || return 0
  if [ "$cv_p_state" != absent ] && ! cv_apt_has_lists; then
    echo 'end 72'
    return 0
  fi
  cv_p_options='install --allow-downgrades'
  case $cv_p_flags in *h*) cv_p_options="$cv_p_options --allow-change-held-packages" ;; esac
  case $cv_p_flags in *p*) cv_p_options="$cv_p_options --purge" ;; esac
  case $cv_p_flags in
  *r*) cv_p_options="-o APT::Install-Recommends=true $cv_p_options" ;;
  *c*) cv_p_options="-o APT::Install-Recommends=$(cv_apt_recommends) $cv_p_options" ;;
  esac
  cv_p_out=$(cv_simulate_package $cv_p_options $cv_p_request 2>&1)
  cv_p_status=$?
  [ "$cv_p_status" -eq 0 ] || {
    printf '%s\n' "$cv_p_out" | sed 's/^/err /'
    cv_plan_near "$cv_p_out"
    echo "end $cv_p_status"
    return 0
  }
  [ -z "$cv_p_out" ] || printf '%s\n' "$cv_p_out"
  for cv_p_name in $cv_p_goes; do
    # dpkg forgets a removed package at once unless it has configuration files or a postrm script.
    if [ -n "$(dpkg-query -W -f '${Conffiles}' "$cv_p_name" 2>/dev/null)" ] || [ -n "$(dpkg-query -c "$cv_p_name" postrm 2>/dev/null)" ]; then
      echo "leaves $cv_p_name"
    fi
  done
  echo 'end 0'
  cv_plan_took "$cv_p_out"
}

# cv_plan_near ERRORS: packages of about the names that apt does not know.
# shellcheck disable=SC2086
cv_plan_near() {
  for cv_p_name in $(printf '%s\n' "$1" | sed -n 's/^E: Unable to locate package //p' | tr '\n' ' '); do
    cv_p_rest=${cv_p_name#??}
    printf 'near %s %s\n' "$cv_p_name" "$(
      apt-cache $CV_APT_LOOKS pkgnames -- "${cv_p_name%"$cv_p_rest"}" 2>/dev/null |
        awk -v n="${#cv_p_name}" 'length($0) >= n - 2 && length($0) <= n + 2' | LC_ALL=C sort -u | sed -n 1,400p | tr '\n' ' '
    )"
  done
}

# cv_plan_derive OUTPUT SHOWN: from here on apt and dpkg-query see the packages as this leaves them.
cv_plan_derive() {
  if [ -z "$CV_DPKG_DIR" ]; then
    CV_DPKG_DIR=$(mktemp -d /run/converge-plan.XXXXXX 2>/dev/null || mktemp -d /dev/shm/converge-plan.XXXXXX) || {
      cv_say 'there is no space in /run and /dev/shm to plan several packages'
      exit 1
    }
    cp "${CV_DPKG_STATUS:-/var/lib/dpkg/status}" "$CV_DPKG_DIR/status" || exit 1
    mkdir "$CV_DPKG_DIR/updates" "$CV_DPKG_DIR/info"
    CV_APT_LOOKS="$CV_APT_LOOKS -o Dir::State::status=$CV_DPKG_DIR/status"
  fi
  {
    printf '%s\n' "$1" | sed -n 's/^inst \([^ ]*\) .*/\1/p; s/^remv //p'
    echo
    printf '%s\n\n' "$2"
    printf '\001\n'
    cat "$CV_DPKG_DIR/status"
  } | awk '
    # The names, then what apt says of the new ones, then the packages as they were.
    names { if ($0 == "") { names = 0; fresh = 1 } else goes[$0] = 1; next }
    $0 == "\001" { fresh = 0; next }
    fresh {
      if ($0 ~ /^(Filename|Size|MD5sum|SHA[0-9]*|Description[^:]*|Status|Conffiles|Tag|Task):/) { skip = 1; next }
      if (($0 ~ /^ / && skip) || ($0 == "" && !open)) next
      skip = 0
      open = ($0 != "")
      print
      if ($0 ~ /^Package:/) print "Status: install ok installed"
      next
    }
    $0 == "" { flush(); next }
    {
      text = text $0 "\n"
      if ($1 == "Package:") p = $2
      else if ($1 == "Architecture:") a = $2
    }
    END { flush() }
    function flush() {
      if (text != "" && !(p in goes) && !((p ":" a) in goes)) printf "%s\n", text
      text = p = a = ""
    }
    BEGIN { names = 1 }' >"$CV_DPKG_DIR/status.new" && mv -f "$CV_DPKG_DIR/status.new" "$CV_DPKG_DIR/status" || exit 1
}
