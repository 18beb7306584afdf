# --- path ---

# hex type and bits, octal mode, uid, gid, size, mtime and number of names, owner, group, name. No name of a user holds a colon.
CV_STAT='%f:%a:%u:%g:%s:%Y+%h:%U:%G:%n'

# The names of the regular files among the lines of stat, each with a NUL.
cv_path_regular() {
  cv_p_ifs=$IFS
  set -f
  IFS=$CV_NL
  for cv_p_line in $1; do
    case $cv_p_line in 8???:*) printf '%s\0' "/${cv_p_line#*:/}" ;; esac
  done
  IFS=$cv_p_ifs
  set +f
}

cv_see_path() (cv_path_look "$@")

# The same for a caller that is a subshell already: a fork costs half a millisecond, and every item looks twice. One stat says
# what is at the paths and what is above them; what lies in no safe directory is then looked at from inside (cv_path_far).
# shellcheck disable=SC2086
cv_path_look() {
  [ $# -gt 0 ] || return 0
  cv_above "$@"
  cv_split_by "$CV_NL"
  set -- $CV_ABOVE "$@"
  cv_split_end
  # Output that is printed in one go is not mixed with the reasons.
  cv_p_all="$*"
  if [ $((${#cv_p_all} + 48 * $#)) -lt 1000 ]; then
    stats=$(stat -c "$CV_STAT" -- "$@" 2>&1)
    reasons=yes
  elif [ $# -le 100 ]; then
    stats=$(stat -c "$CV_STAT" -- "$@" 2>/dev/null)
    reasons=
  else
    stats=$(printf '%s\0' "$@" | xargs -0 stat -c "$CV_STAT" -- 2>/dev/null)
    reasons=
  fi
  set -f
  IFS=$CV_NL
  for line in $CV_ABOVE; do shift; done
  # A name that stat leaves out is absent only if the reason is ENOENT or ENOTDIR.
  absent=yes
  if [ -n "$reasons" ]; then
    cv_p_all=$stats stats=
    for line in $cv_p_all; do
      case $line in
      stat:*': No such file or directory' | stat:*': Not a directory') ;;
      stat:*) absent=no ;;
      *) stats=$stats$line$CV_NL ;;
      esac
    done
  fi
  unset IFS
  set +f
  cv_judge "$CV_ABOVE" "$stats"
  set -f
  IFS=$CV_NL
  # Those in safe directories; the directories of the others.
  stats= have=0 files=0 near=0 beyond= last= how=
  for line in $CV_LEFT; do
    name=/${line#*:/}
    if [ "${name%/*}" != "$last" ] || [ -z "$how" ]; then
      last=${name%/*}
      case $CV_SAFE in *"$CV_NL${last:-/}$CV_NL"*) how=near ;; *) how=far ;; esac
    fi
    [ $how = near ] || continue
    stats=$stats$line$CV_NL
    have=$((have + 1))
    case $line in 8???:*) files=$((files + 1)) one=$name ;; esac
  done
  last= how=
  for name; do
    if [ "${name%/*}" != "$last" ] || [ -z "$how" ]; then
      last=${name%/*}
      case $CV_SAFE in *"$CV_NL${last:-/}$CV_NL"*) how=near ;; *) how=far beyond=yes ;; esac
    fi
    [ $how = far ] || near=$((near + 1))
  done
  sums= summed=0
  if [ $files -eq 1 ]; then
    sums=$(sha256sum -- "$one" 2>/dev/null)
  elif [ $files -gt 1 ]; then
    sums=$(cv_path_regular "$stats" | xargs -0 -r sha256sum -- 2>/dev/null)
    set -f
    IFS=$CV_NL
  fi
  for line in $sums; do summed=$((summed + 1)); done
  if [ $have -lt $near ] && { [ -z "$reasons" ] || [ -n "$beyond" ]; }; then
    absent=yes reasons=0
    for line in $(printf '%s\0' "$@" | xargs -0 stat -c %f -- 2>&1 >/dev/null); do
      reasons=$((reasons + 1))
      case $line in
      *': No such file or directory' | *': Not a directory') ;;
      *) absent=no ;;
      esac
    done
    [ -n "$beyond" ] || [ $((have + reasons)) -eq $# ] || absent=no
  fi
  set -- "$@" ""
  for line in $stats; do
    name=/${line#*:/}
    while [ -n "$1" ] && [ "$1" != "$name" ]; do
      cv_path_unseen "$@"
      shift $cv_p_took
    done
    [ -n "$1" ] || return 0
    digest=
    case $line in
    8???:*)
      if [ $files -eq $summed ]; then
        digest=${sums%%"$CV_NL"*}
        sums=${sums#*"$CV_NL"}
      fi
      ;;
    esac
    cv_path_answer "$line" "$name" "$digest"
    shift
  done
  while [ -n "$1" ]; do
    cv_path_unseen "$@"
    shift $cv_p_took
  done
  unset IFS
  set +f
}

# The first of these paths, which the one stat has not settled, and those after it that lie in the same unsafe directory: so many in cv_p_took.
cv_path_unseen() {
  cv_p_took=1
  cv_p_dir=${1%/*}
  case $CV_SAFE in
  *"$CV_NL${cv_p_dir:-/}$CV_NL"*)
    cv_path_missing "$1"
    return
    ;;
  esac
  cv_p_name=$1
  cv_p_took=0
  cv_p_far=
  for cv_p_name; do
    [ "${cv_p_name%/*}" = "$cv_p_dir" ] && [ -n "$cv_p_name" ] || break
    cv_p_took=$((cv_p_took + 1))
    cv_p_name=${cv_p_name##*/}
    # A slash at the end: the directory itself.
    cv_p_far=$cv_p_far${cv_p_name:-.}$CV_NL
  done
  (cv_path_far "$cv_p_dir" "$cv_p_far")
}

# cv_path_far DIR NAMES: what these are (one a line) in a directory that is not safe. IFS is a newline, and no word a pattern.
cv_path_far() {
  cv_go "$1"
  cv_p_how=$?
  cv_p_real=
  # Links lead there: the names that its files go by really.
  [ $cv_p_how -ne 0 ] || [ "$CV_AT_DIR" = "$1" ] || cv_p_real=$CV_AT_DIR/
  # Links lead there, and to nothing: the names that its files would go by.
  if [ $cv_p_how -eq 2 ] && [ "$cv_g_hops" -gt 0 ]; then
    cv_p_real=${CV_AT_DIR%/}/
    [ -z "$CV_FAR" ] || cv_p_real=$CV_AT_DIR/$cv_g_part/${cv_g_rest:+$cv_g_rest/}
    case $cv_p_real in *//* | */./* | */../*) cv_p_real= ;; esac
  fi
  if [ $cv_p_how -eq 0 ] && [ -z "$CV_FAR" ]; then
    # Links led to a safe directory.
    for cv_p_name in $2; do cv_path_called "$1/$cv_p_name" "$cv_p_name"; done
    return
  fi
  for cv_p_name in $2; do
    case $cv_p_how in
    0) cv_path_called "./$cv_p_name" "$cv_p_name" ;;
    1)
      cv_enc_to "$CV_WHY"
      printf '! %s\n' "$CV_ENC"
      ;;
    *)
      if [ -n "$cv_p_real" ]; then
        cv_enc_to "$cv_p_real$cv_p_name"
        printf -- '-=%s absent\n' "$CV_ENC"
      else
        echo '- absent'
      fi
      ;;
    esac
  done
}

# cv_path_called PATH NAME: what is there, with the real name of it where links lead to cv_p_real.
cv_path_called() {
  [ -n "$cv_p_real" ] || {
    cv_path_there "$1"
    return
  }
  cv_p_line=$(cv_path_there "$1")
  case $cv_p_line in
  '! '*) ;;
  *)
    cv_enc_to "$cv_p_real$2"
    cv_p_line="${cv_p_line%% *}=$CV_ENC ${cv_p_line#* }"
    ;;
  esac
  printf '%s\n' "$cv_p_line"
}

# One path, by itself.
cv_path_there() {
  cv_p_line=$(stat -c "$CV_STAT" -- "$1" 2>&1) || {
    case $cv_p_line in
    *': No such file or directory' | *': Not a directory') echo '- absent' ;;
    *)
      cv_enc_to "$cv_p_line"
      printf '! %s\n' "$CV_ENC"
      ;;
    esac
    return
  }
  cv_p_sum=
  case $1:$cv_p_line in
  .*:8???:*)
    cv_p_sum=$(cv_open "$1" sha256sum 2>/dev/null || printf '%s' "$CV_WHY")
    case ${cv_p_sum%% *} in
    ????????????????????????????????????????????????????????????????) ;;
    *)
      cv_enc_to "$cv_p_sum"
      printf '! %s\n' "$CV_ENC"
      return
      ;;
    esac
    ;;
  esac
  cv_path_answer "$cv_p_line" "$1" "$cv_p_sum"
}

# A path that stat said nothing of. Reads `absent` of cv_see_path.
cv_path_missing() {
  if [ "$absent" = yes ]; then
    echo '- absent'
    return
  fi
  cv_p_why=$(stat -c '%f' -- "$1" 2>&1 >/dev/null) && cv_p_why='it has just appeared'
  case $cv_p_why in
  *': No such file or directory' | *': Not a directory') echo '- absent' ;;
  *)
    cv_enc_to "$cv_p_why"
    printf '! %s\n' "$CV_ENC"
    ;;
  esac
}

# LINE-OF-STAT NAME LINE-OF-SHA256SUM
# shellcheck disable=SC2086
cv_path_answer() {
  IFS=:
  set -- "$2" "$3" $1
  IFS=$CV_NL
  # $1 name, $2 sum, $3 raw, $4 mode, $5 uid, $6 gid, $7 size, $8 mtime and number of names, $9 owner, $10 group
  # Only of a file several names are told.
  cv_p_time=$8
  case $3:$8 in 8???:*+1 | [!8]*) cv_p_time=${8%+*} ;; esac
  cv_p_owner=$9 cv_p_group=${10}
  [ "$cv_p_owner" != UNKNOWN ] || cv_p_owner=$5
  [ "$cv_p_group" != UNKNOWN ] || cv_p_group=$6
  cv_enc_to "$cv_p_owner"
  cv_p_owner=$CV_ENC
  cv_enc_to "$cv_p_group"
  cv_p_group=$CV_ENC
  case $3 in
  8???)
    # sha256sum marks a name that it had to escape with a leading backslash.
    cv_p_sum=${2#\\}
    cv_p_sum=${cv_p_sum%% *}
    if [ ${#cv_p_sum} -ne 64 ]; then
      if cv_p_sum=$(sha256sum -- "$1" 2>&1); then
        cv_p_sum=${cv_p_sum#\\}
        cv_p_sum=${cv_p_sum%% *}
      else
        cv_enc_to "$cv_p_sum"
        printf '! %s\n' "$CV_ENC"
        return
      fi
    fi
    printf '%s file %s %s %s %s %s\n' "$cv_p_time" "$4" "$cv_p_owner" "$cv_p_group" "$7" "$cv_p_sum"
    ;;
  4???) printf '%s dir %s %s %s\n' "$cv_p_time" "$4" "$cv_p_owner" "$cv_p_group" ;;
  a???)
    cv_p_target=$(readlink -- "$1" && echo .)
    cv_p_target=${cv_p_target%"$CV_NL".}
    cv_enc_to "$cv_p_target"
    case "$cv_p_owner $cv_p_group" in
    'root root') printf '%s link %s\n' "$cv_p_time" "$CV_ENC" ;;
    *) printf '%s link %s %s %s\n' "$cv_p_time" "$CV_ENC" "$cv_p_owner" "$cv_p_group" ;;
    esac
    ;;
  c???) printf '%s other socket\n' "$cv_p_time" ;;
  1???) printf '%s other fifo\n' "$cv_p_time" ;;
  2???) printf '%s other char\n' "$cv_p_time" ;;
  6???) printf '%s other block\n' "$cv_p_time" ;;
  *) printf '%s other unknown\n' "$cv_p_time" ;;
  esac
}

# cv_path_below DIR LIMIT: so many of the paths in a directory and below it, the deepest first. Status 3: a name has a newline; 4: another
# file system is mounted there.
cv_path_below() (
  CV_WHY="$1 is not there"
  # Listed from inside: its path may lead elsewhere by now.
  cv_go "$1" || {
    cv_say "$CV_WHY"
    return 1
  }
  [ -z "$(find . -name "*$CV_NL*" 2>/dev/null | head -n 1)" ] || return 3
  [ "$(find . -xdev | wc -l)" = "$(find . | wc -l)" ] || return 4
  find . -depth | head -n "$2" | while IFS= read -r name; do
    if [ "$name" = . ]; then printf '%s\n' "$1"; else printf '%s/%s\n' "$1" "${name#./}"; fi
  done
)

# The size of what the host is to fetch is open in the plan; the digest says it all.
cv_same_path() {
  case $3 in
  'file '*' ~ '*)
    cv_p_digest=${2##* } cv_p_left=${2% *}
    [ "${cv_p_left% *} ~ $cv_p_digest" = "$3" ]
    ;;
  *) return 1 ;;
  esac
}

cv_line_path() { cv_line_of "$(cv_path_look "$1")"; }
