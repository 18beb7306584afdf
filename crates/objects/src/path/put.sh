# --- path: a file in its place ---

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

# cv_path_own TARGET OWNER GROUP MODE [OLD]: the target is a path of converge or /proc/self/fd/8. It gets the ACL, capabilities and extended
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
