# --- command ---

# The words of a key in cmd_guard, cmd_arg, cmd_run, cmd_undo, cmd_user, cmd_limit, cmd_dir, cmd_input, and its environment as shell text in
# cmd_env. The caller is a subshell.
# shellcheck disable=SC2086
cv_command_words() {
  set -f
  set -- $1
  case $# in 5 | 6) ;; *) [ $# -ge 8 ] || return 1 ;; esac
  cmd_guard=$1
  cv_dec_to "$2"
  cmd_arg=$CV_DEC
  cv_dec_to "$3"
  cmd_run=$CV_DEC
  cv_dec_to "$4"
  cmd_undo=$CV_DEC
  cv_dec_to "$5"
  cmd_user=$CV_DEC
  cv_dec_to "${6:-\\}"
  cmd_limit=$CV_DEC
  cv_dec_to "${7:-\\}"
  cmd_dir=$CV_DEC
  cv_dec_to "${8:-\\}"
  cmd_input=$CV_DEC cmd_env=
  [ $# -gt 8 ] || return 0
  shift 8
  for cmd_word; do
    cv_dec_to "$cmd_word"
    cv_quote_to "${CV_DEC#*=}"
    cmd_env="${cmd_env}export ${CV_DEC%%=*}=$CV_QUOTED$CV_NL"
  done
}

# cv_command_run SCRIPT [SECONDS [INPUT]]: runs it in the surroundings that the key names.
cv_command_run() {
  cmd_text=$1
  if [ -n "${3:-}" ]; then
    cv_quote_to "$1"
    cmd_text="eval $CV_QUOTED"
    cv_quote_to "$3"
    # Who does not read its input is not to be told that nobody reads it.
    cmd_text="printf %s $CV_QUOTED 2>/dev/null | $cmd_text"
  fi
  cv_as "$cmd_user" "$cmd_env$cmd_text" "${2:-}" "$cmd_dir"
}

# Runs cv_read for cv_limit seconds at most: text for a shell of its own, which stays outside of the session that it gives the script. So all of
# the script can be ended, with what it has started: by TERM when its time is over, and by KILL 5 s after that. Status 124 then. The script runs
# in the foreground: in the background it would not hear SIGINT. Not every `timeout` of busybox knows -k.
# shellcheck disable=SC2016
CV_WITHIN='
cv_hard= cv_own=
! timeout -k 1 1 true </dev/null 2>/dev/null || cv_hard="-k 5"
! command -v setsid >/dev/null || cv_own=setsid
IFS=" ." read -r cv_begun cv_rest </proc/uptime
exec 5>&1 6>&2 2>/dev/null
cv_leader=$(sh -c "echo \$\$ >&7; exec $cv_own timeout $cv_hard $cv_limit sh -c \"\$1\" 5>&- 6>&- 7>&-" sh "$cv_read" 7>&1 >&5 2>&6)
cv_status=$?
IFS=" ." read -r cv_ended cv_rest </proc/uptime
case $cv_status in 124 | 137 | 143) ;; *) exit $cv_status ;; esac
[ $((cv_ended - cv_begun)) -ge $cv_limit ] || exit $cv_status
[ -n "$cv_own" ] && [ -n "$cv_leader" ] && kill -TERM "-$cv_leader" || exit 124
cv_naps=0
while [ $cv_naps -lt 25 ] && kill -0 "-$cv_leader"; do
  sleep 0.2 || sleep 1
  cv_naps=$((cv_naps + 1))
done
kill -KILL "-$cv_leader"
exit 124'

# cv_enter DIR: goes there by the session's own privilege, by the rules of safe paths. It says why it cannot.
cv_enter() {
  cv_go "$1" && return 0
  [ $? -eq 1 ] || CV_WHY="$1: the directory is not there"
  cv_say "$CV_WHY"
  return 1
}

# cv_as_step PROGRAM...: becomes this program. In a run it leaves word of its process and of when that began: the program does not hold the lock, and goes
# on where the shells above it are killed.
cv_as_step() {
  cv_s_alive=$CV_ROOT/runs/${CV_RUN:-none}/alive
  if [ -d "$cv_s_alive" ]; then
    { IFS= read -r cv_s_stat </proc/self/stat && cv_begun_to "${cv_s_stat%% *}" && printf '%s %s\n' "${cv_s_stat%% *}" "$cv_s_begun" >"$cv_s_alive/step"; } 2>/dev/null
  fi
  exec "$@" 9>&-
}

# cv_as USER SCRIPT [SECONDS [DIR]]: runs it from DIR, else from /, without input. It does not inherit the lock, so that a daemon which it
# leaves behind does not hold it; while the script itself runs, its process is known (cv_as_step). No USER: the session's own privilege. Status 124: it did not end within SECONDS, and is ended.
cv_as() {
  cd / || return 1
  umask 022
  cv_as_text=$CV_READ
  [ -z "${3:-}" ] || cv_as_text="cv_limit=$3 cv_read='$CV_READ'$CV_WITHIN"
  if [ -z "$1" ] || [ "$1" = "${CV_ME%%:*}" ]; then
    [ -z "${4:-}" ] || cv_enter "$4" || return 126
    printf %s "$2" | (cv_as_step sh -c "$cv_as_text")
    return
  fi
  if [ -n "${4:-}" ]; then
    cv_quote_to "$4"
    set -- "$1" "cd -- $CV_QUOTED 2>/dev/null || {
  printf '%s\\n' $CV_QUOTED': the directory cannot be entered' >&2
  exit 126
}
$2"
  fi
  if [ "$(id -u)" -ne 0 ]; then
    cv_say "only root can run commands as $1"
    return 1
  elif command -v runuser >/dev/null 2>&1; then
    printf %s "$2" | (cv_as_step runuser -s /bin/sh -c "$cv_as_text" -- "$1")
  else
    printf %s "$2" | (cv_as_step su -s /bin/sh -c "$cv_as_text" "$1")
  fi
}

# cv_command_record KEY: prints the file that records what ran.
cv_command_record() { printf '%s/ran/%s\n' "$CV_ROOT" "$(printf %s "$1" | sha256sum | cut -c1-64)"; }

cv_see_command() {
  for cv_c_key; do
    (
      cv_command_words "$cv_c_key" || {
        cv_fail_all 'not the key of a command' "$cv_c_key"
        return 0
      }
      case $cmd_guard in
      creates) if [ -e "$cmd_arg" ] || [ -L "$cmd_arg" ]; then echo '- done'; else echo '- pending'; fi ;;
      unless)
        if [ -n "$cmd_user" ] && ! id -u -- "$cmd_user" >/dev/null 2>&1; then
          # The guard of a user who is not there yet cannot hold.
          echo '- pending'
          return 0
        fi
        # A guard that does not end is killed after a minute: then nothing is known.
        limit=
        if command -v timeout >/dev/null 2>&1; then limit=60; fi
        (cv_command_run "$cmd_arg" "$limit") >/dev/null 2>&1
        case $? in
        0) echo '- done' ;;
        124) cv_fail_all 'the guard (unless) did not end within 60 s' "$cv_c_key" ;;
        *) echo '- pending' ;;
        esac
        ;;
      on_change)
        record=$(cv_command_record "$cv_c_key") ran=-
        if [ -r "$record" ]; then read -r ran <"$record"; fi
        printf -- '- ran %s\n' "$ran"
        ;;
      *) cv_fail_all 'not the key of a command' "$cv_c_key" ;;
      esac
    )
  done
}

cv_line_command() { cv_line_of "$(cv_see_command "$1")"; }

cv_save_command() { :; }

# Going back: a command with an undo runs that.
cv_restore_command() { cv_apply_command "$1" "$2" undo; }

# cv_begun_command KEY LINE: whether this is a command with an undo, which was to come to that state: begun, it may have done a part of its work.
cv_begun_command() (
  case $2 in pending | 'ran -') return 1 ;; esac
  cv_dec_to "$1"
  cv_command_words "$CV_DEC" && [ -n "$cmd_undo" ]
)

# cv_from_any_command LINE NOW: whether an item may begin in the state NOW that leads to this one: the undo of a command that was only begun.
cv_from_any_command() { [ "$1" = "$2" ] && cv_command_is_begun; }

# cv_command_is_begun: whether the item takes back a command that was begun and did not come to its end.
cv_command_is_begun() {
  case ,${CV_FLAGS:-}, in *,begun,*) return 0 ;; esac
  return 1
}

# cv_adopt_command KEY LINE: writes the record only.
cv_adopt_command() { cv_command_ran "$1" "${2#ran }"; }

# cv_command_ran KEY TEXT: records what ran; `-` takes the record away.
cv_command_ran() {
  if [ "$2" = - ]; then rm -f "$(cv_command_record "$1")"; else cv_write_record "$(cv_command_record "$1")" "$2"; fi
}

# cv_apply_command KEY LINE [undo]: runs the command, or its undo, and looks at the guard after it.
cv_apply_command() (
  cv_command_words "$1" || return 1
  what=$cmd_run
  case $2 in pending | 'ran -') what=$cmd_undo ;; esac
  [ -z "${3:-}${CV_FROM_RUN:-}" ] || [ "$2" = done ] || what=$cmd_undo
  case $2 in
  'ran -') ;;
  *) cv_command_is_begun || [ "$(cv_line_command "$1")" != "$2" ] || return 0 ;;
  esac
  if [ -z "$what" ]; then
    cv_say 'the command has no undo: what it did stays'
    case $2 in ran*) cv_command_ran "$1" "${2#ran }" ;; esac
    return 0
  fi
  [ "$what" = "$cmd_run" ] || cmd_limit='' cmd_input=''
  (cv_command_run "$what" "$cmd_limit" "$cmd_input")
  status=$?
  [ "${cmd_limit:+$status}" != 124 ] || {
    cv_say "the command did not end within $cmd_limit s"
    return 1
  }
  [ $status -eq 0 ] || {
    cv_say "the command ended with status $status"
    return 1
  }
  case $2 in
  ran*) cv_command_ran "$1" "${2#ran }" ;;
  *)
    found=$(cv_line_command "$1") || return 1
    [ "$found" = "$2" ] || {
      cv_say "the command ended with 0, but its guard ($cmd_guard) still says that it is $found"
      return 1
    }
    ;;
  esac
)
