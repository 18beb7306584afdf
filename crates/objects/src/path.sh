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
    *) echo '- absent' ;;
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

# Status 3: not kept on purpose, because it is too large.
cv_save_path() {
  case $2 in
  'file '*)
    cv_p_size=${2% *}
    cv_p_size=${cv_p_size##* }
    # Of a content above the limit nothing needs to be kept where it stays.
    case ${CV_AFTER:-} in
    'file '*" ${2##* }") [ "$cv_p_size" -le "${CV_SAVE_LIMIT:-104857600}" ] || return 0 ;;
    esac
    cv_blob_save "$1" "${2##* }" "$cv_p_size" || return $?
    # A file that goes leaves its attributes with the run; one that is replaced gives them to the next.
    case ${CV_AFTER:-file } in file\ *) ;; *) [ -z "${CV_SAVED:-}" ] || cv_path_keep "$1" ;; esac
    ;;
  esac
}

# cv_path_keep PATH: keeps its ACL and extended attributes below CV_SAVED. Sets nothing.
cv_path_keep() (
  umask 077
  cv_path_kept "$1"
  new=${CV_SAVED%/saved}/$CV_KEPT
  mkdir -p "${new%/*}" && rm -f "$new" && : >"$new" || return 1
  # A cp that cannot do it has nothing to keep.
  cv_read "$1" cp --attributes-only --preserve=mode,xattr /proc/self/fd/0 "$new" 2>/dev/null || rm -f "$new"
)

# A content that is there still stays: then owner and mode are all that was changed, of all names of the file.
# shellcheck disable=SC2086
cv_restore_path() {
  case $2 in
  'file '*)
    cv_p_line=$(cv_line_path "$1") || cv_p_line=
    case $cv_p_line in 'file '*) ;; *) cv_p_line= ;; esac
    if [ -n "$cv_p_line" ] && [ "${cv_p_line##* }" = "${2##* }" ]; then
      cv_split_by ' '
      set -- "$1" $2
      cv_split_end
      cv_dec_to "$4"
      cv_a_owner=$CV_DEC
      cv_dec_to "$5"
      cv_own_path "$1" "$3" "$cv_a_owner" "$CV_DEC" "$7"
      return
    fi
    ;;
  esac
  cv_apply_path "$1" "$2" </dev/null
}

# cv_blob_whole SHA256: whether the content of that digest is saved, undamaged. What is damaged counts as not saved, and it says so.
cv_blob_whole() {
  [ -f "$CV_ROOT/blobs/$1" ] || return 1
  cv_b_got=$(sha256sum <"$CV_ROOT/blobs/$1")
  [ "${cv_b_got%% *}" != "$1" ] || return 0
  cv_say "the saved content $CV_ROOT/blobs/$1 is damaged: it is not used"
  return 1
}

# cv_blob_room FILE SIZE: whether so many bytes of it may be kept. The caller is a subshell.
# shellcheck disable=SC2046
cv_blob_room() {
  file=$1 size=$2
  # The heading has seven words; then come device, blocks, used, free.
  set -- $(df -Pk "$CV_ROOT/blobs")
  least=$((${9:-0} / 100 * ${CV_MIN_FREE:-10})) said="${CV_MIN_FREE:-10} %"
  # Of a large disk a tenth is more than anybody needs.
  [ -n "${CV_MIN_FREE:-}" ] || [ "$least" -le 10485760 ] || least=10485760 said='10 GiB'
  [ "$((${11:-0} - size / 1024))" -ge "$least" ] || {
    cv_say "saving $file ($size bytes) would leave less than $said of the file system of $CV_ROOT free"
    return 1
  }
}

# cv_blob_save FILE SHA256 SIZE: keeps a file's content under its digest. Status 3: it is too large to be kept.
cv_blob_save() (
  umask 077
  file=$1 digest=$2 size=$3
  ! cv_blob_whole "$digest" || return 0
  [ "$size" -le "${CV_SAVE_LIMIT:-104857600}" ] || {
    cv_say "$file: $size bytes are above the limit of what is saved"
    return 3
  }
  [ -d "$CV_ROOT/blobs" ] || mkdir -p "$CV_ROOT/blobs" || return 1
  cv_blob_room "$file" "$size" || return 1
  new=$CV_ROOT/blobs/.$digest.new
  if cv_read "$file" dd bs=65536 conv=fsync 2>/dev/null >"$new" && got=$(sha256sum <"$new") &&
    [ "${got%% *}" = "$digest" ] && mv -f "$new" "$CV_ROOT/blobs/$digest"; then
    return 0
  fi
  rm -f "$new"
  cv_say "$file: cannot save its content (no disk space, or it is changing)"
  return 1
)

# cv_apply_path PATH LINE: brings the path to the state of the line, from any other. The content of a file comes from
# the saved blob of its digest, where there is one, else from standard input.
# shellcheck disable=SC2086
cv_apply_path() {
  cv_a_path=$1 cv_a_line=$2
  set -f
  IFS=' '
  set -- $cv_a_line
  unset IFS
  set +f
  case $1 in
  absent) cv_remove_path "$cv_a_path" ;;
  link)
    cv_dec_to "$2"
    cv_a_target=$CV_DEC
    cv_dec_to "${3:-root}"
    cv_a_owner=$CV_DEC
    cv_dec_to "${4:-root}"
    cv_link_path "$cv_a_path" "$cv_a_target" "$cv_a_owner" "$CV_DEC"
    ;;
  file | dir)
    cv_dec_to "$3"
    cv_a_owner=$CV_DEC
    cv_dec_to "$4"
    if [ "$1" = dir ]; then
      cv_mkdir_path "$cv_a_path" "$2" "$cv_a_owner" "$CV_DEC"
    else
      cv_put_path "$cv_a_path" "$2" "$cv_a_owner" "$CV_DEC" "$6"
    fi
    ;;
  *)
    cv_say "$cv_a_path: cannot be made: $cv_a_line"
    return 1
    ;;
  esac
}

# systemd reads its unit files again, where it runs.
cv_reload_units() { [ ! -d "${CV_SYSTEMD:-/run/systemd/system}" ] || systemctl daemon-reload; }

# cv_path_own TARGET OWNER GROUP MODE [OLD]: the target is a path of ours or /proc/self/fd/8. It gets the ACL, capabilities and extended
# attributes of OLD, after its owner (a change of which takes capabilities) and before its mode (which sets an ACL's mask).
cv_path_own() {
  if [ "$2:$3" != "$CV_ME" ] || [ ! -O "$1" ] || [ ! -G "$1" ]; then chown "$2:$3" "$1" || return 1; fi
  [ -z "${5:-}" ] || cv_path_attributes "$5" "$1" || return 1
  # With fewer than five digits GNU chmod would keep the setgid bit of a directory.
  chmod "0000$4" "$1"
}

# cv_path_attributes OLD NEW: the ACL, capabilities and extended attributes of the one (./NAME where others may exchange it) for the other.
cv_path_attributes() {
  case $1 in
  ./*) cv_p_why=$(cv_open "$1" cp --attributes-only --preserve=mode,xattr /proc/self/fd/0 "$2" 2>&1) && return 0 ;;
  *) cv_p_why=$(cp --attributes-only --preserve=mode,xattr -- "$1" "$2" 2>&1) && return 0 ;;
  esac
  case $cv_p_why in
  *unrecognized* | *'invalid option'* | *'unknown option'*)
    # busybox. What cannot be seen here cannot be set here either.
    cv_p_why=
    if command -v getfattr >/dev/null 2>&1; then cv_p_why=$(getfattr -d -m '^(user|system.posix_acl|security.capability)' -- "$1" 2>/dev/null); fi
    [ -n "$cv_p_why" ] || return 0
    cv_p_why="the cp of this host (busybox) cannot carry them over; install coreutils"
    ;;
  esac
  cv_say "$1: cannot keep its ACL and extended attributes: ${cv_p_why:-$CV_WHY}"
  return 1
}

# cv_path_kept PATH: where a run keeps the attributes of a file that it has removed, below its directory.
cv_path_kept() {
  CV_KEPT=$(printf %s "$1" | sha256sum)
  CV_KEPT=saved/attributes/${CV_KEPT%% *}
}

# cv_path_refused PATH AT: after the host has refused to change it (AT is what it is called by here): whether it or its directory has a mark under which
# nobody may, and how that is taken off.
cv_path_refused() {
  command -v lsattr >/dev/null 2>&1 || return 1
  cv_m_shown=$1
  for cv_m_at in "$2" "${2%/*}"; do
    cv_m_marks=$(lsattr -d -- "${cv_m_at:-/}" 2>/dev/null) || cv_m_marks=
    case ${cv_m_marks%% *} in
    *i*) cv_m_marks=i cv_m_said='immutable (chattr +i)' ;;
    *a*) cv_m_marks=a cv_m_said='append-only (chattr +a)' ;;
    *) cv_m_marks= ;;
    esac
    [ -z "$cv_m_marks" ] || {
      cv_quote_to "${cv_m_shown:-/}"
      cv_say "${cv_m_shown:-/} is marked as $cv_m_said, so that not even root may change it; this takes the mark off: chattr -$cv_m_marks -- $CV_QUOTED"
      return 0
    }
    cv_m_shown=${1%/*}
  done
  return 1
}

# cv_path_unwritten PATH: says why no file can be made beside it, in the words of the system. Reads CV_NEW.
cv_path_unwritten() {
  cv_m_why=$({ true >"$CV_NEW"; } 2>&1)
  cv_say "$1: no file can be made beside it (${cv_m_why##*: })"
}

# cv_path_swap NEW PATH: renames; a link is replaced, not followed; a directory goes first, when it is empty.
cv_path_swap() {
  if [ -d "$2" ] && [ ! -L "$2" ]; then rmdir "$2" || return 1; fi
  if [ -n "$CV_FAR" ] || [ -L "$2" ] || [ "$1" -ef "$2" ]; then
    cv_rename "$1" "$2"
  else
    mv -f "$1" "$2"
  fi
}

# cv_path_new PATH: a name for a temporary file beside the path, in CV_NEW. What a killed run left there goes.
cv_path_new() {
  cv_path_sweep "$1"
  CV_NEW=$CV_NEW$$
  # Where others may write, nobody guesses the name.
  [ -z "$CV_FAR" ] || CV_NEW=$CV_NEW$(od -A n -N 12 -t u4 /dev/urandom | tr -d ' \n')
}

# cv_path_sweep PATH: removes the temporary files that a step for this path left beside it when it was killed; the start of their names is in
# CV_NEW. The lock is held: nobody is at work on them.
cv_path_sweep() {
  cv_n_name=${1##*/}
  [ ${#cv_n_name} -le 200 ] || cv_n_name=
  CV_NEW=${1%/*}/.$cv_n_name.cv-
  for cv_n_old in "$CV_NEW"[0-9]*; do
    case ${cv_n_old#"$CV_NEW"} in *[!0-9]*) continue ;; esac
    if [ -f "$cv_n_old" ] || [ -L "$cv_n_old" ]; then
      rm -f "$cv_n_old"
    elif [ -O "$cv_n_old" ]; then
      cv_path_sweep_dir "$cv_n_old"
    fi
  done
}

# cv_path_sweep_dir DIR: removes the directory in which a killed step made a link that it gave away (cv_link_given): our own, of mode 0700, with nothing
# in it but such a link. It is entered before it is looked into: who may write to the directory above can exchange it, and nothing that it holds.
cv_path_sweep_dir() {
  (
    seen=$(stat -c '%f:%d:%i:%u:%a' -- "$1")
    case $seen in 4???:*:"$CV_UID":700 | 4???:*:"$CV_UID":2700) ;; *) exit 1 ;; esac
    cd -P -- "$1" && [ "$(stat -c '%f:%d:%i:%u:%a' .)" = "$seen" ] || exit 1
    for cv_n_in in ./* ./.[!.]* ./..?*; do
      [ -e "$cv_n_in" ] || [ -L "$cv_n_in" ] || continue
      case ${cv_n_in#./} in *[!0-9]*) exit 1 ;; esac
      [ -L "$cv_n_in" ] || exit 1
    done
    for cv_n_in in ./*; do [ ! -L "$cv_n_in" ] || rm -f "$cv_n_in"; done
  ) 2>/dev/null && rmdir "$1" 2>/dev/null
  return 0
}

# cv_put_path PATH MODE OWNER GROUP [SHA256] <CONTENT
# A temporary file (0600, O_EXCL) in the same directory gets content, owner, mode and the check CV_VALIDATE, in which
# %s stands for its path; then it is renamed over PATH. A link at PATH is replaced, never followed; a directory is
# removed only when it is empty. All is done through the open file, so that who may write to the directory
# cannot turn it to another file. The file that it replaces gives it its extended attributes and its ACL; one that comes back has those
# that the run which removed it has kept.
cv_put_path() (
  umask 077
  cv_at "$1" || return 1
  at=$CV_AT
  [ -z "$CV_FAR" ] || cv_path_gift "$1" || return 1
  if [ -e "$at" ] && [ ! -f "$at" ] && [ ! -L "$at" ] && [ ! -d "$at" ]; then
    cv_say "$1: is neither file, link nor directory: left alone"
    return 1
  fi
  old=
  if [ -f "$at" ] && [ ! -L "$at" ]; then
    # Where others may write, what another user has allowed is not carried over.
    [ -n "$CV_FAR" ] && [ "$(stat -c %U -- "$at")" != "$3" ] || old=$at
  elif [ -d "$CV_ROOT/runs/${CV_FROM_RUN:-none}/saved/attributes" ]; then
    cv_path_kept "$1"
    old=$CV_ROOT/runs/$CV_FROM_RUN/$CV_KEPT
    [ -f "$old" ] || old=
  fi
  fetch=
  if [ -n "${5:-}" ] && cv_blob_whole "$5"; then
    exec <"$CV_ROOT/blobs/$5"
  elif [ -n "${CV_ARCHIVE:-}" ]; then
    (cd / && cv_unpacked) || return 1
    exec <"$CV_ROOT/runs/$CV_RUN/unpacked/$CV_ARCHIVE_SUM/$5" || return 1
  else
    fetch=${CV_FETCH:-}
  fi
  cv_path_new "$at"
  set -C
  # A failed exec would end the shell here.
  { command exec 8>"$CV_NEW"; } 2>/dev/null || {
    cv_path_refused "$1" "$at" || cv_path_unwritten "$1"
    return 1
  }
  set +C
  trap 'rm -f "$CV_NEW"' EXIT
  trap 'exit 1' HUP INT TERM
  own=/proc/self/fd/8 named=$CV_NEW
  if [ -n "$CV_FAR" ]; then
    # By any other name it may be another file by now.
    named=/proc/$(exec sh -c 'echo $PPID')/fd/8
    [ -e "$own" ] && [ -e "$named" ] || {
      cv_say "$1: without /proc nothing is written where others than root may write"
      return 1
    }
  elif [ ! -e "$own" ]; then
    own=$CV_NEW
  fi
  if [ -n "$fetch" ]; then
    (cd / && cv_fetch "$fetch") >&8 || {
      cv_say "$1: cannot fetch $fetch"
      return 1
    }
    sync "$own" 2>/dev/null || sync
  else
    dd bs=65536 conv=fsync >&8 2>/dev/null || {
      cv_say "$1: cannot write its content (is the disk full?)"
      return 1
    }
  fi
  if [ -n "${5:-}" ]; then
    got=$(sha256sum <"$own")
    [ "${got%% *}" = "$5" ] || {
      if [ -n "$fetch" ]; then
        cv_say "$1: $fetch has the SHA-256 ${got%% *} instead of $5: it is not what was declared"
      else
        cv_say "$1: the content came through damaged: SHA-256 ${got%% *} instead of $5"
      fi
      return 1
    }
  fi
  cv_path_own "$own" "$3" "$4" "$2" "$old" || return 1
  [ -n "$CV_FAR" ] || exec 8>&-
  if [ -n "${CV_VALIDATE:-}" ]; then
    cv_quote_to "$named"
    check= rest=$CV_VALIDATE
    while :; do
      case $rest in
      *%s*)
        check=$check${rest%%\%s*}$CV_QUOTED
        rest=${rest#*\%s}
        ;;
      *) break ;;
      esac
    done
    (
      [ -z "$CV_FAR" ] || cd /
      printf %s "$check$rest" | sh -c "$CV_READ" >&2 9>&-
    ) || {
      cv_say "$1: the new content was refused by: $CV_VALIDATE"
      return 1
    }
  fi
  cv_path_swap "$CV_NEW" "$at" || {
    cv_path_refused "$1" "$at"
    return 1
  }
)

# cv_curl URL OPTION...: curl with these options. An address may hold a password, so it stands on no command line, where others could read it in
# the list of processes.
cv_curl() {
  cv_f_url=$1
  shift
  printf '%s\n' "$cv_f_url" | sed 's/[\\"]/\\&/g; s/^/url = "/; s/$/"/' | curl "$@" -K -
}

# cv_wget URL OPTION...: the same with wget; that of busybox takes an address on its command line alone.
cv_wget() {
  cv_f_url=$1
  shift
  if wget --version >/dev/null 2>&1; then
    printf '%s\n' "$cv_f_url" | wget "$@" -i -
  else
    wget "$@" -- "$cv_f_url" </dev/null
  fi
}

# cv_apt_helper URL: prints what is there, with the program of apt. It takes an address on its command line alone: name and password of one go into a
# file from which apt reads them.
cv_apt_helper() (
  umask 077
  mkdir -p "$CV_ROOT" && dir=$(mktemp -d "$CV_ROOT/fetch.XXXXXX") || exit 1
  trap 'rm -rf "$dir"' EXIT
  trap 'exit 1' HUP INT TERM
  url=$1
  rest=${url#*://}
  host=${rest%%[/?#]*}
  set --
  case $host in
  *@*)
    set -- -o Dir::Etc::netrc="$dir/login"
    url=${url%%://*}://${host##*@}${rest#"$host"}
    login=${host%@*}
    printf '%s\n' "${url%%://*}://${host##*@}" "${login%%:*}" "${login#"${login%%:*}"}" | awk '
      # %XX is one byte.
      function plain(text,  out, i, digits) {
        digits = "0123456789abcdef"
        while (i = index(text, "%")) {
          out = out substr(text, 1, i - 1) sprintf("%c", (index(digits, tolower(substr(text, i + 1, 1))) - 1) * 16 + index(digits, tolower(substr(text, i + 2, 1))) - 1)
          text = substr(text, i + 3)
        }
        return out text
      }
      NR == 1 { printf "machine %s", $0 }
      NR == 2 { printf " login %s", plain($0) }
      NR == 3 { sub(/^:/, ""); printf " password %s\n", plain($0) }' >"$dir/login"
    ;;
  esac
  /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root "$@" download-file "$url" "$dir/file" </dev/null >&2 && cat "$dir/file"
)

# cv_fetch URL: prints what is there, with what the host has to fetch with.
cv_fetch() {
  if command -v curl >/dev/null 2>&1; then
    cv_curl "$1" -fsSL --proto '=http,https' --proto-redir '=http,https' --connect-timeout 30 --retry 2
  elif command -v wget >/dev/null 2>&1; then
    cv_wget "$1" -q -T 30 -O -
  elif [ -x /usr/lib/apt/apt-helper ]; then
    cv_apt_helper "$1"
  else
    cv_say 'this host has no curl and no wget'
    return 1
  fi
}

# cv_unpacked: unpacks CV_ARCHIVE once in a run, below the run's own records; its files lie in CV_UNPACKED under their digests.
cv_unpacked() {
  CV_UNPACKED=$CV_ROOT/runs/$CV_RUN/unpacked/$CV_ARCHIVE_SUM
  [ ! -d "$CV_UNPACKED" ] || return 0
  (
    umask 077
    rm -rf "$CV_UNPACKED".*
    mkdir -p "$CV_UNPACKED.raw" "$CV_UNPACKED.new" || exit 1
    cv_hold "$CV_ARCHIVE" || exit 1
    got=$(sha256sum <"$CV_HELD") || exit 1
    [ "${got%% *}" = "$CV_ARCHIVE_SUM" ] || {
      cv_say "$CV_ARCHIVE is another archive than the plan has read"
      exit 1
    }
    case $CV_ARCHIVE in
    *.zip) unzip -q -o "$CV_HELD" -d "$CV_UNPACKED.raw" </dev/null >&2 ;;
    *) tar -x -o -f "$CV_HELD" -C "$CV_UNPACKED.raw" </dev/null >&2 ;;
    esac || exit 1
    find "$CV_UNPACKED.raw" -type f -exec sh -c '
      for file; do
        sum=$(sha256sum <"$file") && mv -f "$file" "$0/${sum%% *}" || exit 1
      done' "$CV_UNPACKED.new" {} + || exit 1
    rm -rf "$CV_UNPACKED.raw"
    mv "$CV_UNPACKED.new" "$CV_UNPACKED"
  ) || {
    cv_say "cannot unpack $CV_ARCHIVE"
    return 1
  }
}

# cv_own_path PATH MODE OWNER GROUP [SHA256]: owner and mode of a regular file that stays. A link is not followed. Where others may
# write, a new file with the same content (of that digest) takes its place: who has the old one open could go on writing to it.
cv_own_path() (
  cv_at "$1" || return 1
  if [ -L "$CV_AT" ] || [ ! -f "$CV_AT" ]; then
    cv_say "$1: is no regular file"
    return 1
  fi
  if [ -z "$CV_FAR" ]; then
    # A change of owner, also to the same one, takes a file's capabilities.
    cv_path_new "$CV_AT"
    umask 077
    trap 'rm -f "$CV_NEW"' EXIT
    (set -C && : >"$CV_NEW") 2>/dev/null || {
      cv_path_refused "$1" "$CV_AT" || cv_path_unwritten "$1"
      return 1
    }
    cv_path_attributes "$CV_AT" "$CV_NEW" && cv_path_own "$CV_AT" "$3" "$4" "$2" "$CV_NEW" || {
      cv_path_refused "$1" "$CV_AT"
      return 1
    }
    return 0
  fi
  [ -n "${5:-}" ] || {
    cv_say "$1: others than root may write to its directory, and its content is not known"
    return 1
  }
  cv_path_gift "$1" || return 1
  unset CV_VALIDATE CV_FETCH CV_ARCHIVE
  if cv_blob_whole "$5"; then
    cv_put_path "$1" "$2" "$3" "$4" "$5"
  else
    new=$CV_ROOT/own.$$
    umask 077
    trap 'rm -f "$new"' EXIT
    mkdir -p "$CV_ROOT" && cv_open "$CV_AT" cat >"$new" || {
      cv_say "$CV_WHY"
      return 1
    }
    cv_put_path "$1" "$2" "$3" "$4" "$5" <"$new"
  fi
)

# cv_path_gift PATH: whether a content that the role does not declare (CV_KEEP) may get another owner or mode, in the directory that cv_at has led
# to: where users can move things into it, only their own.
cv_path_gift() {
  if [ -z "${CV_KEEP:-}" ] || [ ! -e "$CV_AT" ]; then return 0; fi
  case $CV_AT_MODE in 1???) return 0 ;; esac
  cv_p_uid=$(stat -c %u -- "$CV_AT") || return 1
  if [ "$cv_p_uid" = "$CV_AT_UID" ] && ! cv_own_uid "$cv_p_uid"; then return 0; fi
  cv_who "$cv_p_uid"
  cv_say "$1 belongs to $CV_WHO and lies where others may have moved it: its content gets no other owner or mode; give the whole content, or set them by hand"
  return 1
}

# cv_mkdir_path PATH MODE OWNER GROUP: makes the directory, or sets its owner and mode. Replaces a file or a link.
cv_mkdir_path() (
  umask 077
  cv_at "$1" || return 1
  if [ -L "$CV_AT" ] || [ -f "$CV_AT" ]; then
    rm -f "$CV_AT" || {
      cv_path_refused "$1" "$CV_AT"
      return 1
    }
  fi
  made=
  [ -d "$CV_AT" ] || { mkdir "$CV_AT" && made=yes; } || {
    cv_path_refused "$1" "$CV_AT"
    return 1
  }
  if [ -z "$CV_FAR" ]; then
    cd "$CV_AT" || return 1
  else
    CV_WHY="$1 was exchanged"
    cv_down "${1##*/}" $made || {
      cv_say "$CV_WHY"
      return 1
    }
  fi
  cv_path_own . "$3" "$4" "$2" || {
    cv_path_refused "$1" .
    return 1
  }
)

# cv_link_path PATH TARGET [OWNER GROUP]: replaces a file, a link or an empty directory.
cv_link_path() (
  umask 077
  cv_at "$1" || return 1
  at=$CV_AT own=${3:-root}:${4:-root}
  if [ -e "$at" ] && [ ! -f "$at" ] && [ ! -L "$at" ] && [ ! -d "$at" ]; then
    cv_say "$1: is neither file, link nor directory: left alone"
    return 1
  fi
  cv_path_new "$at"
  new=$CV_NEW
  case $own:$CV_FAR in
  root:root:*) cv_link_new "$2" "$new" ;;
  *:) cv_link_new "$2" "$new" && chown -h -- "$own" "$new" ;;
  *)
    # By its name another file could be given away: it gets its owner where only root can exchange it.
    new=$CV_NEW/$(od -A n -N 12 -t u4 /dev/urandom | tr -d ' \n')
    mkdir "$CV_NEW" && cv_link_given "$2" "${new##*/}" "$own"
    ;;
  esac && cv_path_swap "$new" "$at" || {
    rm -f "$new"
    [ "$new" = "$CV_NEW" ] || rmdir "$CV_NEW"
    cv_path_refused "$1" "$at"
    return 1
  }
  [ "$new" = "$CV_NEW" ] || rmdir "$CV_NEW"
)

# cv_link_new TARGET NAME
cv_link_new() { if [ -n "$CV_FAR" ]; then ln -sT -- "$1" "$2"; else ln -s -- "$1" "$2"; fi; }

# cv_link_given TARGET NAME OWNER:GROUP: makes the link in the directory CV_NEW, which is root's alone.
cv_link_given() (
  CV_WHY="$CV_NEW was exchanged"
  # The directory above may hand its setgid bit on.
  cv_down "${CV_NEW##*/}" made && case $CV_AT_MODE in 700 | 2700) ;; *) false ;; esac || {
    cv_say "$CV_WHY"
    return 1
  }
  ln -sT -- "$1" "./$2" && chown -h -- "$3" "./$2"
)

# cv_remove_path PATH: a file, a link or an empty directory. A directory that is not empty is an error. Nothing is there where its directory is not.
cv_remove_path() (
  cv_at "$1" gone || return $(($? == 1))
  if [ -L "$CV_AT" ] || [ -f "$CV_AT" ]; then
    rm -f "$CV_AT"
  elif [ -d "$CV_AT" ]; then
    rmdir "$CV_AT"
  elif [ -e "$CV_AT" ]; then
    cv_say "$1: is neither file, link nor directory: left alone"
    return 1
  fi || {
    cv_path_refused "$1" "$CV_AT"
    return 1
  }
)
