# --- the records on the host ---
#
# $CV_ROOT (0700): version, lock, runs/ID/{meta,journal,saved,stop,moved,watched,mounts,alive/{session,step,beat},fenced}, owned, kept/ID, blobs/SHA256, debs, started,
# ran, switch, undo.sh. Journal and meta are lines of fields separated by tabs; texts are encoded words.

CV_FORMAT=4

# cv_format_known VERSION: format 3 is read too: it has no lines `disown`, which a converge of its time would pass over. So is format 2: its runs
# have no number (`seq`). So is format 1; it has no purposes and no `owned`.
cv_format_known() { [ "$1" = "$CV_FORMAT" ] || [ "$1" = 3 ] || [ "$1" = 2 ] || [ "$1" = 1 ]; }

# cv_plain FILE: whether it is a regular file, and no record that is too large: reading anything else may never end. Sets CV_LARGE.
cv_plain() {
  [ -f "$1" ] && [ ! -L "$1" ] || return 1
  [ -n "${CV_LARGE:-}" ] || cv_large_to
  cv_l_name=${1#"$CV_ROOT"/}
  case $CV_LARGE in *"$CV_NL${cv_l_name#runs/}$CV_NL"*) return 1 ;; esac
}

CV_LARGE=

# cv_large_to: the records that are larger than any run makes them, in CV_LARGE: `owned`, RUN/meta, RUN/journal, one a line. Nothing of them is
# read: their size tells it. The sizes are in blocks of 512 bytes: 4 MiB of meta, 64 MiB of the others.
cv_large_to() {
  CV_LARGE=$CV_NL$(
    cd "$CV_ROOT" 2>/dev/null || exit 0
    find . -maxdepth 3 -type f \( -name meta -size +8192 -o -name journal -size +131072 -o -name owned -size +131072 \) 2>/dev/null |
      sed 's|^\./||; s|^runs/||'
  )$CV_NL
}

# cv_store_bad: whether CV_ROOT can hold no records of this user; the cause and what to do in CV_WHY. One that is not there yet can.
cv_store_bad() {
  if [ -L "$CV_ROOT" ] && [ ! -e "$CV_ROOT" ]; then
    CV_WHY="$CV_ROOT is a link to $(readlink -- "$CV_ROOT"), which is not there: make that directory, or remove the link"
  elif [ -e "$CV_ROOT" ] && [ ! -d "$CV_ROOT" ]; then
    CV_WHY="$CV_ROOT is no directory: move it away, the records of runs belong there"
  elif [ -d "$CV_ROOT" ] && [ ! -O "$CV_ROOT" ]; then
    CV_WHY="$CV_ROOT belongs to $(stat -c %U -- "$CV_ROOT")"
    if [ "$CV_UID" = 0 ]; then
      CV_WHY="$CV_WHY, who may have written what it holds: move it away, or, if you trust it: chown -R root:root $CV_ROOT"
    else
      CV_WHY="$CV_WHY: $CV_NEEDS_ROOT"
    fi
  else
    return 1
  fi
}

CV_NEEDS_ROOT='changing this machine needs root (ansible_become: true in the inventory, or a login as root)'

# cv_text_of FILE...: prints these. What a power cut has left of a file may be zeros, without an end of line: awk would take hours for them.
cv_text_of() { cat -- "$@" | tr -s '\000' '?'; }

# cv_version: the format of the records here, in CV_VERSION; empty when nothing says it.
cv_version() {
  CV_VERSION=
  if cv_plain "$CV_ROOT/version"; then read -r CV_VERSION <"$CV_ROOT/version"; fi
  return 0
}

# cv_order: the recorded runs, oldest first: by their numbers; those that have none before all others, by their names. A run whose meta is no
# regular file is none of them: its number and its project are not known.
cv_order() (
  LC_ALL=C
  export LC_ALL
  cd "$CV_ROOT/runs" 2>/dev/null || return 0
  set --
  for run in *; do
    case $run in *[!0-9A-Za-z._-]*) continue ;; esac
    if cv_plain "$run/meta" || { cv_plain "$run/journal" && [ ! -e "$run/meta" ] && [ ! -L "$run/meta" ]; }; then
      set -- "$@" "$run"
    fi
  done
  for run; do
    seq=0
    if cv_plain "$run/meta"; then
      seq=$(cv_text_of "$run/meta" | awk -F '\t' '$1 == "seq" && $2 ~ /^[0-9]+$/ && length($2) < 16 { print $2; exit }')
    fi
    printf '%s\t%s\n' "${seq:-0}" "$run"
  done | sort -k 1,1n -k 2,2 | cut -f 2
)

# cv_seq_next: the number of the next run.
cv_seq_next() {
  find "$CV_ROOT/runs" -type f -name meta ! -size +8192 -exec cat {} + 2>/dev/null | tr -s '\000' '?' |
    awk -F '\t' '$1 == "seq" && $2 ~ /^[0-9]+$/ && length($2) < 16 && $2 + 0 > top { top = $2 + 0 } END { printf "%.0f\n", top + 1 }'
}

# cv_meta_of RUN: what a run is for, as far as it is to be read.
cv_meta_of() {
  if cv_plain "$CV_ROOT/runs/$1/meta"; then cv_text_of "$CV_ROOT/runs/$1/meta"; fi
}

# The directory of the present run, in CV_DIR.
cv_run_dir() { CV_DIR=$CV_ROOT/runs/$CV_RUN; }

# cv_run_open ID META [FOUND]: takes the lock and begins a run. FOUND are lines RUN SEQ STATE: changes in which that run was cut off, and that the plan
# has found in the planned state since. To be called in the session's own shell, which then holds the
# lock (descriptor 9); its children inherit it. Status 75: another run holds it. Status 76: the host is not fit.
cv_run_open() {
  CV_RUN=$1
  cv_run_fit || return 76
  exec 9>>"$CV_ROOT/lock"
  flock -n 9 || {
    exec 9>&-
    cv_run_holder
    return 75
  }
  cv_run_alone || {
    exec 9>&-
    return 75
  }
  [ ! -e "$CV_ROOT/runs/$CV_RUN/fenced" ] || {
    exec 9>&-
    cv_say "this host heard nothing of the controller for too long: it ended run $CV_RUN here and freed its lock; begin a new run"
    return 76
  }
  cv_switch_free || {
    exec 9>&-
    return 75
  }
  cv_run_begin "$2" "${3:-}" || {
    exec 9>&-
    return 76
  }
}

# cv_run_fit: whether this host can take records; makes their folders. Says the reason.
cv_run_fit() (
  umask 077
  command -v flock >/dev/null 2>&1 || {
    cv_say 'this host has no flock (package util-linux), without which two runs could meet'
    return 1
  }
  if cv_store_bad; then
    cv_say "$CV_WHY"
    return 1
  fi
  # No new folder in the place of one that a guarded change still needs.
  if cv_switch_is_lost; then
    cv_switch_lost_to
    cv_say "$CV_LOST"
    return 1
  fi
  for dir in "$CV_ROOT" "$CV_ROOT/runs" "$CV_ROOT/blobs"; do
    if [ ! -d "$dir" ] && ! why=$(mkdir -p "$dir" 2>&1); then
      why="cannot make $dir: ${why##*: }"
      [ "$CV_UID" = 0 ] || why="$why: $CV_NEEDS_ROOT"
      cv_say "$why"
      return 1
    fi
  done
  if { [ -e "$CV_ROOT/lock" ] || [ -L "$CV_ROOT/lock" ]; } && ! cv_plain "$CV_ROOT/lock"; then
    cv_say "$CV_ROOT/lock is no regular file: remove it when no converge is at work on this host"
    return 1
  fi
  why=$(chmod 700 "$CV_ROOT" 2>&1) && why=$({ : >>"$CV_ROOT/lock"; } 2>&1) || {
    cv_say "$CV_ROOT cannot be written to (${why##*: }): without records nothing is changed"
    return 1
  }
  cv_version
  if [ -n "$CV_VERSION" ]; then
    cv_format_known "$CV_VERSION" || {
      cv_say "$CV_ROOT has records of format '$CV_VERSION', this converge writes format $CV_FORMAT: use the converge that wrote them"
      return 1
    }
  fi
)

# cv_cause: the reason why CV_ROOT takes no writes, as the system says it, in CV_CAUSE. A second try tells; where it succeeds, a full disk is the best guess.
cv_cause() {
  CV_CAUSE=$({ printf '%01024d\n' 0 | tee "$CV_ROOT/.tried-$$" >/dev/null; } 2>&1)
  rm -f "$CV_ROOT/.tried-$$" 2>/dev/null
  CV_CAUSE=${CV_CAUSE##*: }
  CV_CAUSE=${CV_CAUSE:-is the disk full?}
}

# cv_lock_held: the processes that hold the lock, a line each. Our own descriptor is closed by then.
cv_lock_held() {
  for cv_h_fd in /proc/[0-9]*/fd/9; do
    [ "$cv_h_fd" -ef "$CV_ROOT/lock" ] || continue
    cv_h_pid=${cv_h_fd#/proc/}
    printf '%s\n' "${cv_h_pid%%/*}"
  done
}

# cv_run_holder: prints which run and which processes hold the lock: those that stay, not each program of a step that is there for a moment.
cv_run_holder() (
  cv_h_run= cv_h_who= cv_h_since= cv_h_by=
  IFS=$CV_TAB read -r cv_h_run cv_h_who cv_h_since <"$CV_ROOT/lock"
  for cv_h_pid in $(cv_staying cv_lock_held); do
    cv_h_name=
    read -r cv_h_name 2>/dev/null <"/proc/$cv_h_pid/comm"
    cv_h_by="$cv_h_by, process $cv_h_pid${cv_h_name:+ ($cv_h_name)}"
  done
  cv_h_by=${cv_h_by#, }
  if [ -n "$cv_h_run" ]; then
    cv_dec_to "$cv_h_who"
    cv_say "locked by run $cv_h_run of $CV_DEC since $cv_h_since: it is still at work, or a step of it is${cv_h_by:+; held by $cv_h_by}. Of a controller that is gone it is free within a minute of the end of the present step"
  else
    cv_say "locked, with no record of a run: one is just beginning, or a step of one that has ended goes on${cv_h_by:+; held by $cv_h_by}"
  fi
)

# cv_run_begin META FOUND: makes the folder of CV_RUN and starts its watchdog, or goes on with a run that was begun.
cv_run_begin() (
  umask 077
  cv_run_dir
  dir=$CV_DIR
  mkdir -p "$dir" || return 1
  rm -f "$dir/stop" "$dir/moved" "$dir/watched" "$dir/mounts"
  mkdir -p "$dir/alive" && cv_run_session >"$dir/alive/session" 2>/dev/null || {
    cv_cause
    cv_say "cannot write the records of this run to $CV_ROOT ($CV_CAUSE)"
    return 1
  }
  if [ -e "$dir/journal" ]; then
    # It goes on: what a later run wrote of its end holds no more.
    cv_journal_of "$CV_RUN" | sed "/^close$CV_TAB/d" >"$dir/journal.new" && mv -f "$dir/journal.new" "$dir/journal" && cv_base_without "$CV_RUN" || return 1
    cv_run_sweep "$CV_RUN"
  fi
  who=$(printf '%s\n' "$1" | sed -n "s/^operator$CV_TAB//p")
  since=$(printf '%s\n' "$1" | sed -n "s/^time$CV_TAB//p")
  printf '%s\t%s\t%s\n' "$CV_RUN" "${who:-\\}" "${since:-?}" >"$CV_ROOT/lock" 2>/dev/null || {
    cv_cause
    cv_say "cannot write to $CV_ROOT ($CV_CAUSE)"
    return 1
  }
  cv_run_settle "$2" || return 1
  if [ ! -e "$dir/meta" ]; then
    seq=$(cv_seq_next)
    printf 'version\t%s\nid\t%s\nseq\t%s\n%s\nopened\t%s\n' "$CV_FORMAT" "$CV_RUN" "$seq" "$1" "$(date +%s)" >"$dir/meta" 2>/dev/null || {
      cv_cause
      cv_say "cannot write the records of this run to $CV_ROOT ($CV_CAUSE)"
      return 1
    }
  fi
  [ ! -e "$CV_POLICY" ] || cv_policy_clean
  return 0
)

# The session's own shell: its process ID and when that process began, for the watchdog and for cv_run_alone.
cv_run_session() { ! cv_begun_to "$$" || printf '%s %s\n' "$$" "$cv_s_begun"; }

# cv_living: the sessions and the steps of runs that did not end, and that live: a line each, RUN, session or step, PROCESS. This session's own shell
# is none of them.
cv_living() (
  for file in "$CV_ROOT/runs"/*/alive/session "$CV_ROOT/runs"/*/alive/step; do
    { IFS=' ' read -r pid since <"$file"; } 2>/dev/null && [ "$pid" != "$$" ] && cv_begun_to "$pid" && [ "$cv_s_begun" = "$since" ] || continue
    run=${file#"$CV_ROOT/runs/"}
    printf '%s %s %s\n' "${run%%/*}" "${file##*/}" "$pid"
  done
)

# cv_run_alone: whether no session and no step of a run lives that did not end. A session holds the lock; where the lock is free all the same, its file
# was removed or exchanged, and that run goes on. A step that runs a script does not hold the lock: it lives on where the shells above it were killed.
cv_run_alone() {
  cv_living | {
    IFS=' ' read -r cv_a_run cv_a_what cv_a_pid || exit 0
    case $cv_a_what in
    session) cv_a_why="its session, process $cv_a_pid, lives, and does not hold $CV_ROOT/lock (somebody has removed or exchanged that file)" ;;
    *)
      cv_a_name=
      { IFS= read -r cv_a_name <"/proc/$cv_a_pid/comm"; } 2>/dev/null
      cv_a_why="a step of it, process $cv_a_pid${cv_a_name:+ ($cv_a_name)}, lives, though its session has ended"
      ;;
    esac
    cv_say "run $cv_a_run has not ended and may still be at work: $cv_a_why. Wait until it has ended, or end that process, and begin again"
    exit 1
  }
}

# cv_run_unwatch: ends the watch over the run of the present directory. A late sign of life (the network may deliver one when the
# controller is gone) makes no file: the directory of these loses its name before it is emptied.
cv_run_unwatch() {
  rm -rf alive.ended
  [ ! -d alive ] || mv alive alive.ended
  rm -rf alive.ended
}

# cv_run_settle FOUND: brings older records to the present format and ends runs that were cut off, with what was found of them. The lock is held: nobody is at work.
cv_run_settle() (
  cv_version
  if [ "$CV_VERSION" != "$CV_FORMAT" ]; then
    cv_write_record "$CV_ROOT/version" "$CV_FORMAT" || return 1
  fi
  for run in "$CV_ROOT/runs"/*; do
    # One that was cut off before its first change has no journal.
    [ "$run" = "$CV_DIR" ] || [ -e "$run/journal" ] || [ ! -d "$run/stage" ] || rm -rf "$run/stage"
    if cv_plain "$run/journal" && [ "$run" != "$CV_DIR" ] && ! grep -q "^close$CV_TAB" "$run/journal"; then
      run=${run##*/}
      cv_journal_of "$run" >"$CV_ROOT/runs/$run/journal.new" &&
        {
          printf '%s\n' "$1" | sed -n "s/^$run$CV_TAB/found$CV_TAB/p"
          printf 'close\tcut-off\t%s\n' "$(date +%s)"
        } >>"$CV_ROOT/runs/$run/journal.new" 2>/dev/null &&
        mv -f "$CV_ROOT/runs/$run/journal.new" "$CV_ROOT/runs/$run/journal" || {
        cv_cause
        cv_say "cannot write to $CV_ROOT ($CV_CAUSE)"
        return 1
      }
      (cd "$CV_ROOT/runs/$run" && rm -rf stop moved watched mounts stage && cv_run_unwatch)
      cv_run_sweep "$run"
    fi
  done
)

# cv_run_sweep RUN: removes the temporary files of the steps in which a run was cut off: of paths that it began and did not end.
cv_run_sweep() (
  open=$(cv_journal_of "$1" | awk -F '\t' '
    $1 == "begin" && $3 == "path" && $4 ~ /^(\/|\\0057)/ { key[$2] = $4 }
    $1 == "done" || $1 == "off" || $1 == "failed" { delete key[$2] }
    END { for (seq in key) print key[seq] }')
  set -f
  IFS=$CV_NL
  for key in $open; do
    cv_dec_to "$key"
    unset IFS
    set +f
    (cv_at "$CV_DEC" gone 2>/dev/null && cv_path_sweep "$CV_AT")
  done
)

# cv_run_close RESULT: ends the run, drops what is too old, gives the lock back. In the session's own shell.
cv_run_close() {
  cv_run_end "$1"
  cv_x_status=$?
  : >"$CV_ROOT/lock"
  exec 9>&-
  return $cv_x_status
}

# cv_run_end: closes the journal of CV_RUN; a run that changed nothing leaves nothing.
cv_run_end() (
  umask 077
  cv_run_dir
  dir=$CV_DIR
  rm -rf "$dir/stop" "$dir/moved" "$dir/watched" "$dir/mounts" "$dir/stage" "$dir/unpacked"
  (cd "$dir" && cv_run_unwatch)
  if ! grep -q "^begin$CV_TAB\|^disown$CV_TAB" "$dir/journal" 2>/dev/null; then
    # A run that changed nothing here leaves nothing.
    rm -rf "$dir"
    return 0
  fi
  printf 'close\t%s\t%s\n' "$1" "$(date +%s)" >>"$dir/journal" 2>/dev/null || {
    cv_cause
    cv_say "the journal in $CV_ROOT cannot be written ($CV_CAUSE)"
    return 1
  }
  cv_retain
)

# cv_run_ms RUN: when it began, in CV_MS, milliseconds since 1970 by the controller's clock.
# A run's ID is a UUID of version 7, whose first 48 bits say so (RFC 9562). With another ID it is not too old.
cv_run_ms() {
  cv_r_rest=${1#*-}
  case $1 in
  ????????-????-7*-*) CV_MS=$((0x${1%%-*}${cv_r_rest%%-*})) ;;
  *) CV_MS=$oldest ;;
  esac
}

# cv_run_aged RUN: whether it is too old by this host's own clock. A record that does not say when it began is.
cv_run_aged() {
  cv_r_opened=$(cv_meta_of "$1" | awk -F '\t' '$1 == "opened" && $2 ~ /^[0-9]+$/ && length($2) < 16 { print $2; exit }')
  [ -z "$cv_r_opened" ] || [ $((cv_r_now - cv_r_opened)) -gt $((${CV_KEEP_DAYS:-30} * 86400)) ]
}

# cv_run_surplus RUN…: of these runs, oldest first, prints those beyond the newest CV_KEEP_RUNS of their project, and beyond ten times as many in all. What
# undid a run is of that run's project. Reads CV_KEEP_RUNS.
cv_run_surplus() {
  for run; do
    printf 'run\t%s\n' "$run"
    cv_meta_of "$run"
  done | awk -F '\t' -v most="${CV_KEEP_RUNS:-10}" '
    $1 == "run" { id[++n] = $2; place[$2] = n }
    $1 == "scope" { project[n] = $2 FS $3 }
    $1 == "attempts" { target[n] = $2 }
    END {
      for (i = n; i > 0; i--) {
        whose = target[i] in place ? project[place[target[i]]] : project[i]
        if (++count[whose] > most || n - i >= 10 * most) print id[i]
      }
    }'
}

# Keeps 10 runs of each project and 100 in all, 30 days, 1 GiB; the present run, the newest good one and those that are not in the base yet always. A run is too old when the controllers' clocks and
# this host's both say so: one clock that is off, or was, deletes nothing. The runs that a rollback set out for stay until another run comes: it can be repeated.
# shellcheck disable=SC2086
cv_retain() (
  cd "$CV_ROOT/runs" || return 1
  good=
  oldest=0
  cv_run_ms "$CV_RUN"
  oldest=$((CV_MS - ${CV_KEEP_DAYS:-30} * 86400000))
  cv_r_now=$(date +%s)
  runs=$(cv_order)
  unfolded=" $(cv_unfolded "$runs" | tr '\n' ' ')"
  named=" $(cv_meta_of "$CV_RUN" | awk -F '\t' '$1 == "undoes" || $1 == "attempts" { print $2 }' | tr '\n' ' ')"
  for run in $runs; do
    if cv_plain "$run/journal" && grep -q "^close${CV_TAB}finished" "$run/journal" 2>/dev/null && ! grep -q "^failed$CV_TAB" "$run/journal"; then good=$run; fi
  done
  surplus=" $(cv_run_surplus $runs | tr '\n' ' ')"
  for run in $runs; do
    drop=
    cv_run_ms "$run"
    case $surplus in *" $run "*) drop=yes ;; esac
    if [ "$CV_MS" -lt "$oldest" ] && cv_run_aged "$run"; then drop=yes; fi
    case $named in *" $run "*) drop= ;; esac
    # The records of a run without changes are in the base.
    if cv_plain "$run/journal" && ! grep -q "^begin$CV_TAB" "$run/journal"; then drop=yes; fi
    if [ -n "$drop" ] && [ "$run" != "$good" ] && cv_may_drop "$run"; then cv_run_drop "$run"; fi
  done
  cv_drop_unnamed
  for run in $(cv_order); do
    size=$(du -sk "$CV_ROOT" | cut -f1)
    [ "$size" -gt "${CV_KEEP_KB:-1048576}" ] || break
    if [ "$run" != "$good" ] && cv_may_drop "$run"; then
      cv_run_drop "$run"
      cv_drop_unnamed
    fi
  done
)

# cv_may_drop RUN: whether it is over, and the base holds what it says of what is managed. Reads unfolded.
cv_may_drop() {
  [ "$1" != "$CV_RUN" ] && case $unfolded in *" $1 "*) false ;; esac
}

# cv_run_drop RUN: drops a run; the accounts that it keeps of what is managed stay.
cv_run_drop() {
  if [ -d "$CV_ROOT/runs/$1/saved" ] && cv_owned_accounts "$1"; then
    mkdir -p "$CV_ROOT/kept" && rm -rf "${CV_ROOT:?}/kept/$1" && mv "$CV_ROOT/runs/$1/saved" "$CV_ROOT/kept/$1" || return 1
  fi
  rm -rf "${CV_ROOT:?}/runs/$1"
}

# cv_owned_accounts RUN: whether it was the first to change an account of the base. One that the base says was given back counts too: a run that is
# not folded yet may have reverted that, and the next one may.
cv_owned_accounts() {
  awk -F '\t' -v run="$1" '($1 == "own" || $1 == "gone") && ($2 == "user" || $2 == "group") && $9 == run && $10 != "absent" { found = 1 } END { exit !found }' \
    "$CV_ROOT/owned" 2>/dev/null
}

# All lines that may name a content.
cv_all_lines() {
  find "$CV_ROOT/runs" -type f -name journal ! -size +131072 -exec cat {} + 2>/dev/null | tr -s '\000' '?'
  if cv_plain "$CV_ROOT/owned"; then cv_text_of "$CV_ROOT/owned"; fi
}

# Drops content that neither a journal nor the base names. What runs that are not in the base say is in their journals.
cv_drop_unnamed() (
  names=$(cv_all_lines | grep -o '[0-9a-f]\{64\}' | sort -u)
  for blob in "$CV_ROOT/blobs"/*; do
    case "$CV_NL$names$CV_NL" in *"$CV_NL${blob##*/}$CV_NL"*) ;; *) rm -f "$blob" ;; esac
  done
  rm -f "$CV_ROOT/blobs"/.*.new
  for kept in "$CV_ROOT/kept"/*; do
    [ ! -d "$kept" ] || cv_owned_accounts "${kept##*/}" || rm -rf "$kept"
  done
  [ -d "$CV_ROOT/debs" ] || return 0
  for deb in "$CV_ROOT/debs"/*.deb; do
    name=${deb##*/}
    version=${name#*_}
    version=$(printf %s "${version%_*}" | sed 's/%3a/:/g')
    cv_all_lines | grep -qF "${CV_TAB}package$CV_TAB${name%%_*}${CV_TAB}present $version " ||
      awk -F '\t' -v name="${name%%_*}" -v line="present $version " \
        '($1 == "own" || $1 == "gone") && $2 == "package" && $3 == name && index($10, line) == 1 { found = 1 } END { exit !found }' "$CV_ROOT/owned" 2>/dev/null ||
      rm -f "$deb"
  done
)

# cv_tell WORD...: one line for the controller.
cv_tell() {
  printf 'cv:%s' "${CV_TOKEN:-}"
  for cv_t_word; do printf '\t%s' "$cv_t_word"; done
  printf '\n'
}

# cv_rows_now ROWS: the present line of each row (SEQ KIND KEY ...), as SEQ LINE; the objects of one kind are looked at
# together. An object that cannot be read has the line `! REASON`. With CV_TELL_SAFE also `safe DIRECTORY` for those above the paths that
# are. The caller is a subshell.
cv_rows_now() {
  set -f
  rows=$1 kinds=
  IFS=$CV_NL
  for row in $rows; do
    kind=${row#*"$CV_TAB"}
    kind=${kind%%"$CV_TAB"*}
    case "$CV_NL$kinds" in *"$CV_NL$kind$CV_NL"*) ;; *) kinds=$kinds$kind$CV_NL ;; esac
  done
  for kind in $kinds; do
    set --
    seqs=
    for row in $rows; do
      case $row in
      *"$CV_TAB$kind$CV_TAB"*)
        rest=${row#*"$CV_TAB"}
        [ "${rest%%"$CV_TAB"*}" = "$kind" ] || continue
        rest=${rest#*"$CV_TAB"}
        cv_dec_to "${rest%%"$CV_TAB"*}"
        set -- "$@" "$CV_DEC"
        seqs=$seqs${row%%"$CV_TAB"*}$CV_NL
        ;;
      esac
    done
    unset IFS
    case $kind in
    path)
      answer=$(
        cv_path_look "$@"
        [ -n "${CV_TELL_SAFE:-}" ] || exit 0
        set -f
        IFS=$CV_NL
        for dir in $CV_SAFE; do printf 'safe %s\n' "$dir"; done
      )
      ;;
    *) answer=$("cv_see_$kind" "$@" </dev/null) ;;
    esac
    IFS=$CV_NL
    for line in $answer; do
      case $line in
      'safe '*)
        printf '%s\n' "$line"
        continue
        ;;
      '! '*) ;;
      *) line=${line#* } ;;
      esac
      printf '%s\t%s\n' "${seqs%%"$CV_NL"*}" "$line"
      seqs=${seqs#*"$CV_NL"}
    done
    for seq in $seqs; do printf '%s\t! no-answer\n' "$seq"; done
  done
}

# cv_row ROW: its fields in row_seq, row_kind, row_key (encoded), row_before, row_after, and those that only cv_undo_rows gives.
# shellcheck disable=SC2086
cv_row() {
  cv_split_by "$CV_TAB"
  set -- $1
  cv_split_end
  row_seq=$1 row_kind=$2 row_key=$3 row_before=$4 row_after=$5 row_item=${6:-} row_last=${7:-} row_lost=${8:-} row_open=${9:-} row_flags=${10:-}
}

# cv_table NAME TABLE: keeps the output of cv_rows_now under this name, for cv_now_of.
# shellcheck disable=SC2086
cv_table() {
  cv_b_name=$1
  cv_split_by "$CV_NL"
  set -- $2
  cv_split_end
  for cv_b_line; do
    cv_b_seq=${cv_b_line%%"$CV_TAB"*}
    case $cv_b_seq in '' | *[!0-9]*) continue ;; esac
    eval "cv_now_${cv_b_name}_$cv_b_seq=\${cv_b_line#*\"\$CV_TAB\"}"
  done
}

# cv_now_of SEQ NAME: the line of that row in the table, in CV_NOW.
cv_now_of() {
  case $1 in
  '' | *[!0-9]*) CV_NOW= ;;
  *) eval "CV_NOW=\${cv_now_${2}_$1:-}" ;;
  esac
}

# cv_same KIND KEY FOUND WANTED: whether the one stands for the other.
cv_same() {
  [ "$3" = "$4" ] && return 0
  command -v "cv_same_$1" >/dev/null 2>&1 && "cv_same_$1" "$2" "$3" "$4"
}

# cv_item_begin: before an item's steps. Reads CV_RUN, CV_TOKEN, CV_ITEM (encoded address), CV_FLAGS, CV_ROWS (rows
# SEQ KIND KEY BEFORE AFTER), CV_REMARKS (lines of the journal that belong to them) and CV_WINDOW (rows SEQ KIND KEY EXPECTED EXPECTED). Checks every row against the host,
# saves what the changes replace, and writes the journal, all before the first change. It ends the item's shell with
# 70 when an object is not as planned, 71 when it cannot save, 74 when an earlier item moved what was planned on.
cv_item_begin() {
  cv_run_dir
  if [ -e "$CV_DIR/moved" ]; then exit 74; fi
  set -f
  IFS=$CV_NL
  cv_i_now=$(
    CV_TELL_SAFE=yes
    cv_rows_now "$CV_ROWS"
    CV_TELL_SAFE=
    cv_watched_now
  )
  cv_table before "$cv_i_now"
  cv_item_safe
  [ ! -e "$CV_DIR/watched" ] || rm -f "$CV_DIR/watched"
  cv_i_bad=
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" before
    # A part that an earlier item of the run has left open (`~`) is known by now.
    [ "$CV_NOW" = "$row_before" ] || case " $row_before " in *' ~ '*) cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_before" ;; *) false ;; esac || {
      cv_i_bad=yes
      cv_tell refused "$row_seq" "$CV_NOW"
    }
  done
  [ -z "$cv_i_bad" ] || exit 70
  cv_phase save
  cv_i_text= cv_i_watched=
  for cv_i_row in $CV_ROWS - $CV_WINDOW; do
    [ "$cv_i_row" != - ] || {
      cv_i_watched=yes
      continue
    }
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" before
    case $CV_NOW in absent | '! '*) cv_i_status=0 ;;
    *)
      cv_i_why=$(
        unset IFS
        set +f
        CV_SAVED=$CV_DIR/saved CV_AFTER=$row_after
        cv_dec_to "$row_key"
        "cv_save_$row_kind" "$CV_DEC" "$CV_NOW" 2>&1 </dev/null
      )
      cv_i_status=$?
      ;;
    esac
    [ -z "$cv_i_watched" ] || continue
    # The state that was found comes back: the planned one may have an open part.
    cv_i_text="${cv_i_text}begin$CV_TAB$row_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$CV_NOW$CV_TAB$row_after$CV_TAB$CV_ITEM$CV_TAB${CV_FLAGS:--}$CV_NL"
    case $cv_i_status in
    0) ;;
    3)
      cv_enc_to "$cv_i_why"
      cv_i_text="${cv_i_text}unsaved$CV_TAB$row_seq$CV_TAB$CV_ENC$CV_NL"
      cv_tell unsaved "$row_seq" "$CV_ENC"
      ;;
    *)
      cv_enc_to "$cv_i_why"
      cv_tell unsaveable "$row_seq" "$CV_ENC"
      exit 71
      ;;
    esac
  done
  for cv_i_row in ${CV_REMARKS:-}; do cv_i_text="$cv_i_text$cv_i_row$CV_NL"; done
  cv_journal "$cv_i_text" sync || {
    cv_cause
    cv_enc_to "the journal in $CV_ROOT cannot be written ($CV_CAUSE)"
    cv_tell unsaveable - "$CV_ENC"
    exit 71
  }
  cv_mounts_note
  unset IFS
  set +f
  cv_phase change
}

# cv_item_safe: the steps of this item need not look again at what is above its paths, unless one of them gives a directory away.
# Reads cv_i_now and CV_ROWS, split at newlines.
cv_item_safe() {
  CV_SAFE=$CV_NL
  for cv_i_row in $CV_ROWS; do
    case ${cv_i_row##*"$CV_TAB"} in
    'dir '*[0145][0145]' root '*) ;;
    'dir '*) return 0 ;;
    esac
  done
  for cv_i_row in $cv_i_now; do
    case $cv_i_row in 'safe '*) CV_SAFE=$CV_SAFE${cv_i_row#safe }$CV_NL ;; esac
  done
}

# cv_journal TEXT [sync]
cv_journal() {
  # Who calls says what it means that the disk is full.
  { printf %s "$1" >>"$CV_DIR/journal"; } 2>/dev/null || return 1
  [ -z "${2:-}" ] || sync "$CV_DIR/journal" 2>/dev/null || sync
}

# The guard of a command may take a second. What an item saw of what is watched when it ended is what the next one finds, this
# many seconds long: nothing of ours runs between them. What an item changes itself is always looked at again.
CV_WATCHED_SECONDS=3

# cv_watched_clock: this boot and the seconds since, in cv_w_clock.
cv_watched_clock() {
  read -r cv_w_boot </proc/sys/kernel/random/boot_id
  cv_switch_clock
  cv_w_clock=$cv_w_boot$CV_TAB$CV_UPTIME
}

# cv_watched_now: cv_rows_now of CV_WINDOW.
cv_watched_now() {
  [ -n "$CV_WINDOW" ] || return 0
  cv_watched_clock
  [ -r "$CV_DIR/watched" ] && printf %s "$CV_WINDOW" | awk -F '\t' -v clock="$cv_w_clock" -v seconds="$CV_WATCHED_SECONDS" '
    NR == 1 { split(clock, now, FS); if ($1 != now[1] || now[2] - $2 > seconds) { lacks = 1; exit }; next }
    NR == FNR { line[$1 FS $2] = $3; next }
    !(($2 FS $3) in line) { lacks = 1; exit }
    { out = out $1 FS line[$2 FS $3] "\n" }
    END { if (lacks) exit 1; printf "%s", out }' "$CV_DIR/watched" - || cv_rows_now "$CV_WINDOW"
}

# cv_mounts_note: writes down what is mounted before foreign code runs.
cv_mounts_note() {
  [ -n "$CV_WINDOW" ] || return 0
  { cat "$CV_MOUNTINFO" >"$CV_DIR/mounts"; } 2>/dev/null || rm -f "$CV_DIR/mounts"
}

# cv_item_mounts: records the file systems that foreign code has mounted or unmounted above what is watched. A path below such a place is another object
# now; the numbers of those rows, each in a line, are in CV_ELSEWHERE. None of them is recorded itself, so that a place takes the number of one.
cv_item_mounts() {
  CV_ELSEWHERE=$CV_NL
  [ -r "$CV_DIR/mounts" ] || return 0
  cv_m_rows=$(printf '%s' "$CV_WINDOW" | awk -F '\t' -v before="$CV_DIR/mounts" -v now="$CV_MOUNTINFO" '
    function up(path) { sub(/\/[^\/]*$/, "", path); return path }
    function read(file, ids,  line, f) { while ((getline line < file) > 0) { split(line, f, " "); ids[f[5]] = ids[f[5]] " " f[1] } }
    BEGIN {
      read(before, was); read(now, is)
      for (at in was) if (was[at] != is[at]) { differs[at]; some = 1 }
      for (at in is) if (was[at] != is[at]) { differs[at]; some = 1 }
      if (!some) exit
    }
    $2 == "mount" { own[$3] }
    $2 ~ /^(path|git|swap|mount)$/ && $3 ~ /^\// {
      below = 0
      for (at = $2 == "path" ? $3 : up($3); at != ""; at = up(at)) if (at in differs) {
        below = 1
        if (!(at in number) && !($1 in used)) { number[at] = $1; item[at] = $6; used[$1] }
      }
      if (below) print "row\t" $1
    }
    END { for (at in number) if (!(at in own)) print "place\t" number[at] "\t" item[at] "\t" at }' -)
  for cv_m_row in $cv_m_rows; do
    case $cv_m_row in
    row*) CV_ELSEWHERE=$CV_ELSEWHERE${cv_m_row#*"$CV_TAB"}$CV_NL ;;
    place*)
      cv_m_row=${cv_m_row#*"$CV_TAB"}
      cv_m_seq=${cv_m_row%%"$CV_TAB"*} cv_m_at=${cv_m_row##*"$CV_TAB"}
      cv_m_item=${cv_m_row#*"$CV_TAB"}
      cv_m_item=${cv_m_item%%"$CV_TAB"*}
      cv_m_was=$(CV_MOUNTINFO=$CV_DIR/mounts && cv_line_mount "$cv_m_at")
      cv_m_now=$(cv_line_mount "$cv_m_at")
      case $cv_m_was:$cv_m_now in '! '* | *':! '*) continue ;; esac
      cv_journal "moved$CV_TAB$cv_m_seq${CV_TAB}mount$CV_TAB$cv_m_at$CV_TAB$cv_m_was$CV_TAB$cv_m_now$CV_TAB${cv_m_item:-$CV_ITEM}$CV_TAB${CV_FLAGS:--}$CV_NL"
      ;;
    esac
  done
  [ "$CV_ELSEWHERE" = "$CV_NL" ] || { true >"$CV_DIR/moved"; } 2>/dev/null
}

# cv_item_window: tells what foreign code moved, and has the rest of the stretch look again. Reads the tables `before` and `now`. A row of
# CV_WINDOW may name the item that it is recorded for.
cv_item_window() {
  [ -n "$CV_WINDOW" ] || return 0
  cv_watched_clock
  cv_i_text=$cv_w_clock$CV_NL
  cv_item_mounts
  for cv_i_row in $CV_WINDOW; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" before
    cv_i_was=$CV_NOW
    cv_now_of "$row_seq" now
    cv_tell window "$row_kind" "$row_key" "$cv_i_was" "$CV_NOW"
    # A fact is no object: nothing of it is saved, and only that it moves counts.
    if [ "$row_kind" = fact ]; then
      [ "$cv_i_was" = "$CV_NOW" ] || { true >"$CV_DIR/moved"; } 2>/dev/null
      cv_i_text=$cv_i_text$row_kind$CV_TAB$row_key$CV_TAB$CV_NOW$CV_NL
      continue
    fi
    case $CV_ELSEWHERE in *"$CV_NL$row_seq$CV_NL"*) cv_i_was=$CV_NOW ;; esac
    if [ "$cv_i_was" != "$CV_NOW" ]; then
      cv_journal "moved$CV_TAB$row_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$cv_i_was$CV_TAB$CV_NOW$CV_TAB${row_item:-$CV_ITEM}$CV_TAB${CV_FLAGS:--}$CV_NL"
    fi
    [ "$CV_NOW" = "$row_after" ] || { true >"$CV_DIR/moved"; } 2>/dev/null
    cv_i_text=$cv_i_text$row_kind$CV_TAB$row_key$CV_TAB$CV_NOW$CV_NL
  done
  { printf %s "$cv_i_text" >"$CV_DIR/watched"; } 2>/dev/null || rm -f "$CV_DIR/watched"
}

# cv_item_failed STEP STATUS: a step of the item failed.
cv_item_failed() {
  cv_phase check
  set -f
  IFS=$CV_NL
  cv_table now "$(cv_rows_now "$CV_ROWS$CV_WINDOW")"
  cv_i_text=
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" now
    cv_tell now "$row_seq" "$CV_NOW"
    cv_i_text="${cv_i_text}failed$CV_TAB$row_seq$CV_TAB$2$CV_TAB$CV_NOW$CV_NL"
  done
  cv_journal "$cv_i_text"
  cv_item_window
  cv_tell step "$1" "$2"
  # A step that ends with 70 has refused before it changed anything.
  [ "$2" -ne 70 ] || exit 70
  exit 72
}

# cv_item_end: after the steps. Status 73 when an object is not as planned, 75 when the journal cannot say how it ended.
cv_item_end() {
  cv_phase check
  set -f
  IFS=$CV_NL
  cv_table now "$(cv_rows_now "$CV_ROWS$CV_WINDOW")"
  cv_i_text= cv_i_bad=0
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" now
    if cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_after"; then
      cv_tell now "$row_seq" "$CV_NOW"
      cv_i_text="${cv_i_text}done$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
    else
      cv_tell off "$row_seq" "$CV_NOW"
      cv_i_text="${cv_i_text}off$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
      cv_i_bad=73
    fi
  done
  cv_journal "$cv_i_text" || cv_i_bad=75
  cv_item_window
  return $cv_i_bad
}

# cv_stage SHA256 <CONTENT: keeps content for a later piece of the same item.
cv_stage() (
  umask 077
  cv_run_dir
  dir=$CV_DIR/stage
  mkdir -p "$dir" && cat >"$dir/$1"
)

# cv_resume: the controller has looked again.
cv_resume() {
  cv_run_dir
  rm -f "$CV_DIR/moved"
}

# cv_undo_install SHA256 <TEXT: puts undo.sh beside the records, unless that very text is there.
cv_undo_install() (
  umask 077
  if [ -f "$CV_ROOT/undo.sh" ] && [ "$(sha256sum <"$CV_ROOT/undo.sh" | cut -c1-64)" = "$1" ]; then
    cat >/dev/null
    return 0
  fi
  cat >"$CV_ROOT/undo.sh.new" && [ "$(sha256sum <"$CV_ROOT/undo.sh.new" | cut -c1-64)" = "$1" ] &&
    mv -f "$CV_ROOT/undo.sh.new" "$CV_ROOT/undo.sh"
)

# cv_runs: this host's time, then all runs, oldest first: a line `run ID`, then its meta, then its journal.
cv_runs() (
  printf 'converge\t%s\n' "$CV_FORMAT"
  cv_switch_remark
  if [ "$CV_UID" = 0 ] && cv_store_bad; then
    cv_say "$CV_WHY"
    return 1
  fi
  [ -e "$CV_ROOT" ] || return 0
  if [ ! -r "$CV_ROOT" ] || [ ! -x "$CV_ROOT" ]; then
    cv_say "$CV_ROOT cannot be read: root is needed (become: true)"
    return 1
  fi
  cv_version
  if [ -n "$CV_VERSION" ]; then
    cv_format_known "$CV_VERSION" || {
      cv_say "$CV_ROOT has records of format '$CV_VERSION', this converge reads format $CV_FORMAT"
      return 1
    }
  fi
  printf 'now\t%s\n' "$(date +%s)"
  cv_broken
  cv_at_work
  cv_r_order=$(cv_order)
  cv_answerable "$cv_r_order" || return 1
  for run in $cv_r_order; do
    printf 'run\t%s\n' "$run"
    cv_lines_of "$run"
  done
)

# cv_answerable RUNS: whether the records of these runs fit into an answer (8 MiB, crates/ssh/src/target.rs); says which journal does not, or which are the
# largest. The sizes of find are in blocks of 512 bytes. Those that are larger than any run makes them are not read at all (cv_large_to).
cv_answerable() (
  cd "$CV_ROOT/runs" 2>/dev/null || exit 0
  large=$(for run in $1; do printf '%s/journal\n' "$run"; done | xargs -r sh -c 'find "$@" -maxdepth 0 -type f -size +14336 ! -size +131072' sh 2>/dev/null | head -n 1)
  [ -n "$large" ] || {
    cv_answerable_together "$1"
    exit
  }
  cv_say "$CV_ROOT/runs/$large has $(wc -l <"$large") lines, more than is read of a host: look whether they are a run's. To go on without them, remove $CV_ROOT/runs/${large%/journal} (what that run changed stays as it is, is managed no more, and cannot be rolled back)"
  exit 1
)

# cv_answerable_together RUNS: the same of all of them. It names as many of the largest as have to go until the others fit, twenty at most.
cv_answerable_together() {
  cv_r_said=$(for run in $1; do printf '%s/journal\n%s/meta\n' "$run" "$run"; done | xargs -r stat -c '%s %n' 2>/dev/null |
    awk '$1 <= ($2 ~ /meta$/ ? 4194304 : 67108864) { sub(/\/.*/, "", $2); size[$2] += $1 } END { for (run in size) print size[run], run }' | sort -rn |
    awk -v most=8000000 '
      { size[NR] = $1; run[NR] = $2; all += $1 }
      END {
        rest = all
        for (i = 1; i <= NR && rest > most; i++) {
          rest -= size[i]
          if (i <= 20) names = names (i > 1 ? ", " : "") run[i] sprintf(" (%.1f MiB)", size[i] / 1048576)
        }
        if (all > most) printf "%.1f MiB together, more than the 8 MiB that are read of a host; the largest are %s", all / 1048576, names
      }')
  [ -n "$cv_r_said" ] || return 0
  cv_say "the records of runs in $CV_ROOT/runs have $cv_r_said. To go on without these, move their folders away (what those runs changed stays as it is, is managed no more, and cannot be rolled back until they are there again)"
  return 1
}

# cv_broken: a line for each thing among the records that is no regular file, and is not read.
cv_broken() {
  for cv_b_file in "$CV_ROOT/version" "$CV_ROOT/owned" "$CV_ROOT/runs"/*/meta "$CV_ROOT/runs"/*/journal; do
    if { [ -e "$cv_b_file" ] || [ -L "$cv_b_file" ]; } && ! cv_plain "$cv_b_file"; then
      cv_b_why='is no regular file'
      [ ! -f "$cv_b_file" ] || [ -L "$cv_b_file" ] || cv_b_why='is larger than a run makes it: it is damaged'
      cv_enc_to "$cv_b_file $cv_b_why: it is not considered"
      printf 'broken\t%s\n' "$CV_ENC"
    fi
  done
  # A power cut may leave zeros where a file system does not keep the order of writes.
  find "$CV_ROOT" -maxdepth 3 -type f -size +0 \( -name meta ! -size +8192 -o \( -name journal -o -name owned \) ! -size +131072 \) -exec grep -L '[[:print:]]' {} + 2>/dev/null |
    while IFS= read -r cv_b_file; do
      cv_enc_to "$cv_b_file holds no text: it is damaged, and what it said is not known"
      printf 'broken\t%s\n' "$CV_ENC"
    done
}

# cv_lines_of RUN: its meta and its journal. What begins a run or is a line of `owned` has no place in them. A last line of the meta that was cut off
# is a line of its own.
cv_lines_of() {
  {
    cv_meta_of "$1"
    echo
    cv_journal_of "$1"
  } | sed -e '/^$/d' -e "s/^run$CV_TAB/damaged:&/" -e "s/^own$CV_TAB/damaged:&/" -e "s/^gone$CV_TAB/damaged:&/"
}

# cv_journal_of RUN: its journal, without a last line that was cut off while it was written.
cv_journal_of() {
  ! cv_plain "$CV_ROOT/runs/$1/journal" || { cv_text_of "$CV_ROOT/runs/$1/journal" && echo .; } | sed '$d'
}
