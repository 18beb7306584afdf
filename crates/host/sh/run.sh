# --- a run: its lock, its beginning and its end ---

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
  rm -f "$dir/stop" "$dir/moved" "$dir/watched" "$dir/mounts" "$dir/links"
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
  rm -rf "$CV_ROOT/transaction"
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

# cv_run_alone: whether no session and no step of a run lives that did not end. A session holds the lock; where the lock is free nevertheless, its file
# was removed or exchanged, and that run goes on. A step that runs a script does not hold the lock: it lives on where the shells above it were killed.
cv_run_alone() {
  cv_living | {
    IFS=' ' read -r cv_a_run cv_a_what cv_a_pid || exit 0
    case $cv_a_what in
    session) cv_a_lives="its session, process $cv_a_pid, lives, and does not hold $CV_ROOT/lock (somebody has removed or exchanged that file)" ;;
    *)
      cv_a_name=
      { IFS= read -r cv_a_name <"/proc/$cv_a_pid/comm"; } 2>/dev/null
      cv_a_lives="a step of it, process $cv_a_pid${cv_a_name:+ ($cv_a_name)}, lives, though its session has ended"
      ;;
    esac
    cv_say "run $cv_a_run has not ended and may still be at work: $cv_a_lives. Wait until it has ended, or end that process, and begin again"
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
      (cd "$CV_ROOT/runs/$run" && rm -rf stop moved watched mounts links stage && cv_run_unwatch)
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
  rm -rf "$dir/stop" "$dir/moved" "$dir/watched" "$dir/mounts" "$dir/links" "$dir/stage" "$dir/unpacked" "$dir/fetched"
  (cd "$dir" && cv_run_unwatch)
  if ! grep -q "^begin$CV_TAB\|^disown$CV_TAB\|^forget$CV_TAB\|^move$CV_TAB\|^adopt$CV_TAB" "$dir/journal" 2>/dev/null; then
    # A run that changed nothing here leaves nothing.
    rm -rf "$dir"
    return 0
  fi
  cv_journal_whole "$dir/journal"
  printf 'close\t%s\t%s\n' "$1" "$(date +%s)" >>"$dir/journal" 2>/dev/null || {
    cv_journal_whole "$dir/journal"
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

# cv_run_surplus STORED RUN…: of these runs, oldest first, prints those that are too many: beyond CV_KEEP_RUNS of their project, or beyond ten times as many
# in all. Runs and the rollbacks of them stay or go together: without its rollback a run would be in force again. Those in force stay before others, and
# the newest before older ones; tries to roll one back that is in force take no place of another one. STORED are the runs that stay in every case. What
# undid a run is of that run's project. The same rule as in crates/cluster/src/records/retention.rs.
cv_run_surplus() {
  cv_s_stored=$1
  shift
  [ $# -gt "${CV_KEEP_RUNS:-10}" ] || return 0
  cv_s_metas=$(for run; do
    printf 'run\t%s\n' "$run"
    cv_meta_of "$run"
  done)
  {
    # undo.sh knows what is in force. Where nothing was rolled back, no run comes before a newer one, and nobody need ask.
    case $cv_s_metas in
    *"${CV_NL}undoes$CV_TAB"* | *"${CV_NL}attempts$CV_TAB"*) sh "$CV_ROOT/undo.sh" --list 2>/dev/null | sed "s/ .*//; s/^/live$CV_TAB/" ;;
    esac
    printf '%s\n' "$cv_s_metas"
  } | awk -F '\t' -v most="${CV_KEEP_RUNS:-10}" -v stored=" $cv_s_stored " '
    # Joins the sets of two runs.
    function join(i, j,   k, old) { old = set[i]; for (k = 1; k <= n; k++) if (set[k] == old) set[k] = set[j] }
    $1 == "live" { live[$2] }
    $1 == "run" { id[++n] = $2; place[$2] = n; set[n] = n }
    $1 == "scope" { project[n] = $2 FS $3 }
    $1 == "attempts" && ($2 in place) { own[n] = place[$2] }
    ($1 == "undoes" || $1 == "attempts") && ($2 in place) { join(place[$2], n) }
    END {
      for (i = 1; i <= n; i++) {
        s = set[i]; last[s] = i; whose[s] = project[i in own ? own[i] : i]; all[s]++
        if (id[i] in live) { force[s] = i; alive[s]++ }
        if (index(stored, " " id[i] " ")) stays[s]
      }
      for (turn = 1; turn <= 2; turn++)
        for (i = n; i > 0; i--) {
          s = set[i]
          if (turn == 1 ? force[s] != i : (s in alive) || last[s] != i) continue
          if (!(s in stays) && (count[whose[s]] >= most || total >= 10 * most)) { gone[s]; continue }
          size = (s in alive) ? alive[s] : all[s]
          count[whose[s]] += size; total += size
        }
      for (i = 1; i <= n; i++) if (set[i] in gone) print id[i]
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
  surplus=" $(cv_run_surplus "$CV_RUN $good" $runs | tr '\n' ' ')"
  earlier=
  for run in $runs; do
    drop=
    cv_run_ms "$run"
    case $surplus in *" $run "*) drop=yes ;; esac
    if [ "$CV_MS" -lt "$oldest" ] && cv_run_aged "$run"; then drop=yes; fi
    case $named in *" $run "*) drop= ;; esac
    # The records of a run without changes are in the base.
    if cv_plain "$run/journal" && ! grep -q "^begin$CV_TAB" "$run/journal"; then drop=yes; fi
    if [ -n "$drop" ] && [ "$run" != "$good" ] && cv_may_drop "$run" && ! cv_still_amends "$run"; then cv_run_drop "$run"; else earlier=yes; fi
  done
  cv_drop_unnamed
  earlier=
  for run in $(cv_order); do
    size=$(du -sk "$CV_ROOT" | cut -f1)
    [ "$size" -gt "${CV_KEEP_KB:-1048576}" ] || break
    if [ "$run" != "$good" ] && cv_may_drop "$run" && ! cv_still_amends "$run"; then
      cv_run_drop "$run"
      cv_drop_unnamed
    else
      earlier=yes
    fi
  done
)

# cv_still_amends RUN: whether it has forgotten or adopted objects or renamed resources, and a run before it stays (earlier): of that one the previous hold, and
# a rollback to it goes past the adoption.
cv_still_amends() { [ -n "$earlier" ] && cv_plain "$1/journal" && grep -q "^forget$CV_TAB\|^move$CV_TAB\|^adopt$CV_TAB" "$1/journal"; }

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
  for file in "$CV_ROOT/debs"/*.deb "$CV_ROOT/rpms"/*.rpm; do
    [ -f "$file" ] || continue
    name=${file##*/}
    case $name in
    *.rpm)
      version=${name#*=}
      version=${version%.rpm} name=${name%%=*}
      ;;
    *)
      version=${name#*_}
      version=$(printf %s "${version%_*}" | sed 's/%3a/:/g') name=${name%%_*}
      ;;
    esac
    cv_all_lines | grep -qF "${CV_TAB}package$CV_TAB$name${CV_TAB}present $version " ||
      awk -F '\t' -v name="$name" -v line="present $version " \
        '($1 == "own" || $1 == "gone") && $2 == "package" && $3 == name && index($10, line) == 1 { found = 1 } END { exit !found }' "$CV_ROOT/owned" 2>/dev/null ||
      rm -f "$file"
  done
)
