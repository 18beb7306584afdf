# --- safe paths ---
#
# A directory is safe when only root (and the session's own user) can change what its path leads to: it and all above it belong to
# root, and nobody else may write there. Paths in safe directories are used as they are. Of any other path only the safe beginning is
# trusted: the rest is walked a directory at a time from inside, and the work is done on ./NAME there. docs/security.md states the rule.

# Directories known to be safe by now, one a line, with a newline at either end. Only root can make one of them unsafe, so this holds as
# long as no step of converge changes its owner: within one item (cv_item_begin).
CV_SAFE=$CV_NL

# cv_above PATH...: the directories above these that are not known to be safe, each below the one that holds it, in CV_ABOVE.
cv_above() {
  CV_ABOVE=$CV_NL
  for cv_v_path; do
    cv_v_dir=${cv_v_path%/*} cv_v_new=
    # Only a damaged record has a path that does not begin at the root.
    case $cv_v_path in /*) ;; *) continue ;; esac
    while :; do
      case $CV_SAFE$CV_ABOVE in *"$CV_NL${cv_v_dir:-/}$CV_NL"*) break ;; esac
      cv_v_new=${cv_v_dir:-/}$CV_NL$cv_v_new
      [ -n "$cv_v_dir" ] || break
      cv_v_dir=${cv_v_dir%/*}
    done
    CV_ABOVE=$CV_ABOVE$cv_v_new
  done
  CV_ABOVE=${CV_ABOVE#"$CV_NL"}
}

# cv_others_write MODE GID DIR: whether somebody besides the owner may write to the directory. A group-writable directory of
# root's own group may have an ACL behind its group bits; where ls cannot tell, it has.
cv_others_write() {
  case $1 in
  *[2367]) return 0 ;;
  *[2367]?)
    [ "$2" -eq 0 ] || return 0
    ls --version >/dev/null 2>&1 || return 0
    case $(ls -ld -- "$3" 2>/dev/null) in ?????????? | ??????????[!+]*) return 1 ;; esac
    return 0
    ;;
  esac
  return 1
}

# cv_own_uid UID: whether it is root's, or the session's own.
cv_own_uid() { [ "$1" = 0 ] || [ "$1" = "$CV_UID" ]; }

# cv_judge DIRS LINES: takes what is safe of these directories (of cv_above) into CV_SAFE. The lines are those of stat (CV_STAT), in
# the same order; what stat leaves out below a safe directory is not there, and only root can make it. A link is left for cv_go.
# CV_LEFT has the lines of what is no such directory.
# shellcheck disable=SC2086
cv_judge() {
  cv_j_dirs=$1
  cv_split_by "$CV_NL"
  set -- $2
  cv_split_end
  cv_split_by "$CV_NL"
  for cv_j_dir in $cv_j_dirs; do
    cv_j_up=${cv_j_dir%/*}
    case $cv_j_dir in
    /) cv_j_known=yes ;;
    *) case $CV_SAFE in *"$CV_NL${cv_j_up:-/}$CV_NL"*) cv_j_known=yes ;; *) cv_j_known= ;; esac ;;
    esac
    cv_j_line=
    if [ $# -gt 0 ] && [ "/${1#*:/}" = "$cv_j_dir" ]; then
      cv_j_line=$1
      shift
    fi
    [ -n "$cv_j_known" ] || continue
    case $cv_j_line in
    # Nothing there, unless stat did not even come to the root.
    '') [ "$cv_j_dir" != / ] || continue ;;
    4???:*)
      IFS=:
      cv_judge_words $cv_j_line || {
        IFS=$CV_NL
        continue
      }
      IFS=$CV_NL
      ;;
    *) continue ;;
    esac
    CV_SAFE=$CV_SAFE$cv_j_dir$CV_NL
  done
  cv_split_end
  CV_LEFT=
  for cv_j_line; do CV_LEFT=$CV_LEFT$cv_j_line$CV_NL; done
}

# cv_judge_words WORDS OF STAT...: whether only root can change the directory cv_j_dir.
cv_judge_words() { cv_own_uid "$3" && ! cv_others_write "$2" "$4" "$cv_j_dir"; }

# cv_is_safe DIR: whether it is known to be safe, or is seen to be so now (one stat for all above it).
# shellcheck disable=SC2086
cv_is_safe() {
  case $CV_SAFE in *"$CV_NL${1:-/}$CV_NL"*) return 0 ;; esac
  cv_above "${1%/}/"
  cv_split_by "$CV_NL"
  cv_s_lines=$(stat -c "$CV_STAT" -- $CV_ABOVE 2>/dev/null)
  cv_split_end
  cv_judge "$CV_ABOVE" "$cv_s_lines"
  case $CV_SAFE in *"$CV_NL${1:-/}$CV_NL"*) return 0 ;; esac
  return 1
}

# cv_who UID: its name, in CV_WHO.
cv_who() {
  CV_WHO=$(awk -F : -v id="$1" '$3 == id { print $1; exit }' /etc/passwd 2>/dev/null || id -un -- "$1" 2>/dev/null) || CV_WHO=
  [ -n "$CV_WHO" ] || CV_WHO="user $1"
}

# cv_gone PATH WORDS: what it means that stat has failed so: status 2, it is not there; 1, that cannot be known, and CV_WHY says why.
cv_gone() {
  case $2 in *': No such file or directory' | *': Not a directory') return 2 ;; esac
  CV_WHY="$1: ${2##*: }"
  return 1
}

# cv_go DIR: goes there, following links only where nobody but root can place one. The caller is a subshell. Status 0: it is there, and
# CV_FAR says whether others may change what is in it; 1: it must not, CV_WHY says why; 2: there is no such directory.
# CV_AT_UID is the owner of the directory, CV_AT_MODE its mode, CV_AT_DIR its path as far as it has been walked; of one that is not there, and to which
# cv_g_hops links lead, the path at which it would be.
cv_go() {
  cv_g_rest=${1#/} CV_AT_DIR= cv_g_hops=0 CV_FAR=
  while :; do
    case $cv_g_rest in /*)
      cv_g_rest=${cv_g_rest#/}
      continue
      ;;
    esac
    if [ -z "$cv_g_rest" ]; then
      CV_WHY="$1 cannot be entered"
      cd -P -- "${CV_AT_DIR:-/}" 2>/dev/null || return 1
      CV_AT_UID=0 CV_AT_MODE=755
      return 0
    fi
    cv_g_part=${cv_g_rest%%/*}
    case $cv_g_rest in */*) cv_g_rest=${cv_g_rest#*/} ;; *) cv_g_rest= ;; esac
    case $cv_g_part in
    .) continue ;;
    ..)
      CV_AT_DIR=${CV_AT_DIR%/*}
      continue
      ;;
    esac
    cv_g_next=$CV_AT_DIR/$cv_g_part
    case $CV_SAFE in *"$CV_NL$cv_g_next$CV_NL"*) [ ! -d "$cv_g_next" ] || {
      CV_AT_DIR=$cv_g_next
      continue
    } ;; esac
    cv_g_seen=$(stat -c '%f:%a:%u:%g' -- "$cv_g_next" 2>&1) || {
      CV_AT_DIR=$cv_g_next/$cv_g_rest
      cv_gone "$cv_g_next" "$cv_g_seen"
      return
    }
    case $cv_g_seen in
    a???:*)
      cv_g_hops=$((cv_g_hops + 1))
      [ $cv_g_hops -le 40 ] || {
        CV_WHY="$1: Too many levels of symbolic links"
        return 1
      }
      cv_g_link=$(readlink -- "$cv_g_next") || return 2
      case $cv_g_link in /*) CV_AT_DIR= ;; esac
      cv_g_rest=$cv_g_link/$cv_g_rest
      continue
      ;;
    4???:*) ;;
    *) return 2 ;;
    esac
    cv_g_seen=${cv_g_seen#*:}
    CV_AT_MODE=${cv_g_seen%%:*}
    cv_g_seen=${cv_g_seen#*:}
    CV_AT_UID=${cv_g_seen%:*} CV_AT_DIR=$cv_g_next
    if cv_own_uid "$CV_AT_UID" && ! cv_others_write "$CV_AT_MODE" "${cv_g_seen#*:}" "$cv_g_next"; then continue; fi
    CV_FAR=yes cv_g_from=$CV_AT_DIR cv_g_uid=$CV_AT_UID
    CV_WHY="$CV_AT_DIR cannot be entered"
    cd -P -- "$CV_AT_DIR" 2>/dev/null || return 1
    break
  done
  while :; do
    case $cv_g_rest in
    '') return 0 ;;
    /* | ./*)
      cv_g_rest=${cv_g_rest#*/}
      continue
      ;;
    esac
    cv_g_part=${cv_g_rest%%/*}
    case $cv_g_rest in */*) cv_g_rest=${cv_g_rest#*/} ;; *) cv_g_rest= ;; esac
    cv_down "$cv_g_part" || return $?
  done
}

# cv_down NAME [made]: one step further down from a directory that cv_go led to. `made`: we have just made it, so it is our own and empty.
cv_down() {
  case $1 in
  . | '') return 0 ;;
  ..)
    CV_WHY="$CV_AT_DIR/..: a link leads up from a directory that others than root may write to"
    return 1
    ;;
  esac
  cv_d_path=$CV_AT_DIR/$1
  cv_d_seen=$(stat -c '%f:%d:%i:%u:%a' -- "./$1" 2>&1) || {
    cv_gone "$cv_d_path" "$cv_d_seen"
    return
  }
  cv_d_uid=${cv_d_seen%:*} cv_d_mode=${cv_d_seen##*:}
  cv_d_uid=${cv_d_uid##*:}
  case $cv_d_seen in
  4???:*) ;;
  a???:*)
    cv_who "$cv_g_uid"
    [ "$cv_g_uid" != 0 ] || CV_WHO='somebody other than root'
    cv_d_who=$CV_WHO
    cv_who "$cv_d_uid"
    CV_WHY="$cv_d_path is a link (owner $CV_WHO) below $cv_g_from, which $cv_d_who may write to: no link is followed there; name the directory that it leads to, or put a directory in its place"
    return 1
    ;;
  *) return 2 ;;
  esac
  if [ -n "${2:-}" ]; then
    [ "$cv_d_uid" = "$CV_UID" ] || {
      CV_WHY="$cv_d_path was exchanged just after it was made"
      return 1
    }
  elif [ "$cv_d_uid" != "$CV_AT_UID" ] && ! cv_own_uid "$CV_AT_UID"; then
    cv_who "$cv_d_uid"
    cv_d_who=$CV_WHO
    cv_who "$CV_AT_UID"
    CV_WHY="$cv_d_path belongs to $cv_d_who and lies in a directory of $CV_WHO, who can put another one in its place: below it nothing is read or written; give it to $CV_WHO (chown -h $CV_WHO $cv_d_path), or keep it where only root may write"
    return 1
  fi
  CV_WHY="$cv_d_path cannot be entered"
  cd -P "./$1" 2>/dev/null || return 1
  cv_d_here=$(stat -c '%f:%d:%i:%u:%a' .) && [ "$cv_d_here" = "$cv_d_seen" ] && { [ -z "${2:-}" ] || [ -z "$(ls -A .)" ]; } || {
    CV_WHY="$cv_d_path was exchanged while it was entered"
    return 1
  }
  CV_AT_DIR=$cv_d_path CV_AT_UID=$cv_d_uid CV_AT_MODE=$cv_d_mode
}

# cv_at PATH [gone]: what to call it by from here on, in CV_AT: the path itself where its directory is safe; else ./NAME, in that directory. The
# caller is a subshell. Status 1: it must not be touched, or its directory is not there, and it says so (`gone`: status 2, without a word).
cv_at() {
  CV_AT=$1 CV_FAR=
  if cv_is_safe "${1%/*}"; then
    [ ! -d "${1%/*}/" ] || return 0
  else
    cv_go "${1%/*}"
    case $? in
    0)
      if [ -n "$CV_FAR" ]; then CV_AT=./${1##*/}; else CV_SAFE=$CV_SAFE${1%/*}$CV_NL; fi
      return 0
      ;;
    1)
      cv_say "$CV_WHY"
      return 1
      ;;
    esac
  fi
  [ -z "${2:-}" ] || return 2
  cv_say "$1: the directory ${1%/*} is not there"
  return 1
}

# cv_safe_only PATH WHAT: whether its directory is safe; for what cannot be done from inside. It says why not.
cv_safe_only() {
  cv_is_safe "${1%/*}" || (cv_go "${1%/*}" && [ -z "$CV_FAR" ]) || {
    CV_WHY="$1: others than root may write to a directory above it, where $2 is not done; choose a place where only root may write"
    return 1
  }
}

# The file is opened once; what was opened must be what was looked at. A FIFO that takes its place in between would make us wait: not for
# long. Who ends the wait leaves the directory, so that no process of ours keeps a mount busy, and ends its sleep by KILL: the shell's own
# handler of TERM, which a child has until it executes sleep, would swallow another signal.
CV_OPEN='{
  trap "kill -9 \$!; exit" TERM
  cd /
  sleep "$1" &
  wait
  kill -9 $$
} >/dev/null 2>&1 </dev/null 9>&- &
{ exec <"$2"; } 2>/dev/null || exit 47
kill $! 2>/dev/null
[ "$(stat -L -c %f:%d:%i:%h /proc/self/fd/0)" = "$3" ] || exit 45
shift 3
exec "$@"'

# cv_open NAME COMMAND...: the command with that file of the present directory (./NAME, which others may exchange) as its input. Status 45 and
# CV_WHY: it is no regular file with this only name, or it was exchanged.
cv_open() {
  cv_o_seen=$(stat -c '%f:%d:%i:%h' -- "$1" 2>&1) || {
    CV_WHY="$CV_AT_DIR/${1#./}: ${cv_o_seen##*: }"
    return 45
  }
  cv_o_name=$1
  shift
  case $cv_o_seen in
  8???:*:1) ;;
  8???:*)
    CV_WHY="$CV_AT_DIR/${cv_o_name#./} has ${cv_o_seen##*:} names (hard links), in a directory that others than root may write to: it may be anybody's file, so it is neither read nor changed; remove it, or its other names"
    return 45
    ;;
  *)
    CV_WHY="$CV_AT_DIR/${cv_o_name#./} is no regular file"
    return 45
    ;;
  esac
  sh -c "$CV_OPEN" sh "${CV_OPEN_SECONDS:-10}" "$cv_o_name" "$cv_o_seen" "$@"
  cv_o_status=$?
  case $cv_o_status in
  # 2 and 47: it could not be opened; 137: not in time.
  2 | 45 | 47 | 137)
    CV_WHY="$CV_AT_DIR/${cv_o_name#./} was exchanged while it was read"
    cv_o_status=45
    ;;
  esac
  return $cv_o_status
}

# cv_read PATH COMMAND...: the command with the file as its input, wherever it lies. Status 45: it must not, and CV_WHY says why.
cv_read() {
  cv_r_path=$1
  shift
  if cv_is_safe "${cv_r_path%/*}"; then
    "$@" <"$cv_r_path"
    return
  fi
  (
    cv_go "${cv_r_path%/*}"
    case $? in
    0) ;;
    1)
      cv_say "$CV_WHY"
      return 45
      ;;
    *)
      cv_say "$cv_r_path: No such file or directory"
      return 45
      ;;
    esac
    if [ -z "$CV_FAR" ]; then
      "$@" <"$cv_r_path"
      return
    fi
    cv_open "./${cv_r_path##*/}" "$@"
    cv_r_status=$?
    [ $cv_r_status -ne 45 ] || cv_say "$CV_WHY"
    return $cv_r_status
  )
}

# cv_hold PATH: a name that leads to this very file for as long as the caller, a subshell, lives: in CV_HELD.
cv_hold() {
  CV_HELD=$1
  cv_is_safe "${1%/*}" && return 0
  CV_WHY="$1: No such file or directory"
  cv_h_here=$(pwd)
  cv_go "${1%/*}" || {
    cv_say "$CV_WHY"
    return 1
  }
  if [ -n "$CV_FAR" ]; then
    cv_h_seen=$(stat -c '%f:%d:%i:%h' -- "./${1##*/}" 2>/dev/null) || cv_h_seen=
    case $cv_h_seen in
    8???:*:1)
      # As in CV_OPEN: a FIFO in its place would make us wait without end, so the wait ends the caller.
      cv_h_self=$(exec sh -c 'echo $PPID')
      {
        trap 'kill -9 $!; exit' TERM
        cd /
        sleep "${CV_OPEN_SECONDS:-10}" &
        wait
        kill -9 "$cv_h_self"
      } >/dev/null 2>&1 </dev/null 9>&- &
      cv_h_watch=$!
      { exec 3<"./${1##*/}"; } 2>/dev/null && [ "$(stat -L -c '%f:%d:%i:%h' /proc/self/fd/3)" = "$cv_h_seen" ] || cv_h_seen=
      kill "$cv_h_watch" 2>/dev/null
      ;;
    *) cv_h_seen= ;;
    esac
    [ -n "$cv_h_seen" ] || {
      cv_say "$1 is no regular file with this only name, in a directory that others than root may write to: it is not read"
      return 1
    }
    CV_HELD=/proc/self/fd/3
  fi
  cd "$cv_h_here" || return
}

# cv_content PATH LIMIT: prints a regular file. Status 44: there is none, or it has more bytes.
cv_content() (
  cv_is_safe "${1%/*}" || {
    cv_go "${1%/*}"
    case $? in
    0) ;;
    1)
      cv_say "$CV_WHY"
      return 1
      ;;
    *) return 44 ;;
    esac
    if [ -n "$CV_FAR" ]; then
      name=./${1##*/}
      [ ! -L "$name" ] && [ -f "$name" ] && [ "$(stat -c %s -- "$name")" -le "$2" ] || return 44
      cv_open "$name" head -c "$2" || {
        cv_say "$CV_WHY"
        return 1
      }
      return 0
    fi
  }
  [ -f "$1" ] && [ "$(wc -c <"$1")" -le "$2" ] || return 44
  cat -- "$1"
)

# cv_rename NEW NAME: also in a directory that others may write to. NAME is never a directory to move into, and nothing is copied.
cv_rename() {
  : "${cv_n_copy:=$(mv --help 2>&1 | grep -q -e --no-copy && echo never || echo plain)}"
  cv_rename_once "$1" "$2" 2>/dev/null && return 0
  # busybox follows NAME where it is a link. GNU refuses a new link to the very file that it replaces.
  if [ -L "$2" ] || [ "$1" -ef "$2" ]; then rm -f "$2" || return 1; fi
  cv_rename_once "$1" "$2"
}

# cv_rename_once FROM TO: one attempt, without a copy where mv knows how (cv_n_copy).
cv_rename_once() { if [ "$cv_n_copy" = never ]; then mv --no-copy -fT "$1" "$2"; else mv -fT "$1" "$2"; fi; }
