# --- the switch acts: undo.sh --switch, run by its unit ---

# cv_act_main: waits until the armed switch is confirmed, or restores what it guards. Nothing here depends on a store that takes writes: where
# it is full or read-only, what can be restored is restored, and the output says it all. A revert that failed is tried again, for an hour.
cv_act_main() {
  umask 077
  PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
  export PATH
  cv_boot_now || return 1
  cv_a_place=$CV_ROOT cv_a_due= cv_a_lost=
  until cv_act_store && cv_switch_read acting; do
    cv_switch_read armed || {
      if cv_act_waits; then continue; fi
      # Confirmed, or cut off before the first change. Another one may be armed by now.
      (cv_switch_lock && [ ! -e "$CV_ROOT/switch/armed" ] && cv_switch_clear)
      return 0
    }
    cv_act_due || {
      sleep 1
      continue
    }
    cv_a_due=$CV_DUE
    (
      cv_switch_lock || exit 1
      # It may have been confirmed, or joined by another item, just now.
      cv_switch_read armed && cv_act_due || exit 0
      cv_write_record "$CV_ROOT/switch/why" "$CV_DUE" 2>/dev/null
      mv -f "$CV_ROOT/switch/armed" "$CV_ROOT/switch/acting" 2>/dev/null || exit 3
    )
    case $? in
    0) ;;
    3)
      echo "$CV_ROOT takes no writes: the revert goes on without its records"
      break
      ;;
    *) sleep 1 ;;
    esac
  done
  CV_RUN=$sw_run CV_FROM_RUN=$sw_run CV_TOKEN=switch
  CV_DUE=${cv_a_due:-the host restarted in the middle}
  if [ -z "$cv_a_due" ] && [ -r "$CV_ROOT/switch/why" ]; then read -r CV_DUE <"$CV_ROOT/switch/why"; fi
  cv_run_dir
  cv_act_alone
  cv_enc_to "$CV_DUE"
  cv_journal "switch${CV_TAB}acts$CV_TAB$CV_ENC$CV_NL" sync
  printf 'putting back the guarded change of run %s: %s\n' "$CV_RUN" "$CV_DUE"
  cv_act_until_done
  cv_act_record || echo 'the records of the run do not say that it was reverted'
  # A failure would have systemd start it again, and again.
  cv_switch_clear || echo "$CV_ROOT/switch stays: take it away when the store takes writes again"
}

# cv_act_store: the folder of the records, in CV_ROOT. Somebody may move it away, or mount something over it: as descriptor 7 it stays within reach.
# Where it is gone, its place is looked at again.
cv_act_store() {
  CV_ROOT=/proc/$$/fd/7/.
  if [ ! -d "$CV_ROOT/switch" ] && [ -r "$cv_a_place" ] && [ -d "$cv_a_place" ]; then exec 7<"$cv_a_place"; fi
  if [ "$cv_a_place" -ef "$CV_ROOT" ] || [ ! -d "$CV_ROOT/switch" ]; then CV_ROOT=$cv_a_place; fi
}

# cv_act_waits: whether the records are gone although nothing is confirmed: they are waited for, without an end, as the next plan and the next run say.
cv_act_waits() {
  cv_switch_is_lost || return 1
  if [ -z "$cv_a_lost" ]; then
    cv_switch_lost_to
    printf '%s\n' "$CV_LOST"
  fi
  cv_a_lost=yes
  sleep 2
}

# cv_act_until_done: reverts. A step that failed may come right when its cause goes (a full disk, a read-only file system): it is tried again for an hour,
# after 2 s, 4 s and so on, at least once a minute. Sets cv_a_down, the units that did not start, to none.
cv_act_until_done() {
  cv_a_first=yes cv_a_down= cv_a_pause=2 cv_a_netplan= cv_a_undone=
  cv_switch_clock
  cv_a_end=$((CV_UPTIME + ${CV_REVERT_SECONDS:-3600}))
  until cv_act_turn; do
    cv_switch_clock
    [ "$CV_UPTIME" -lt "$cv_a_end" ] || return 0
    cv_enc_to "$cv_a_why"
    { printf '%s\t%s\n' "$(($(date +%s) + cv_a_end - CV_UPTIME))" "$CV_ENC" >"$CV_SWITCH_TRIED"; } 2>/dev/null
    printf 'not all is reverted: %s; the next attempt is in %s s\n' "$cv_a_why" "$cv_a_pause"
    sleep "$cv_a_pause"
    cv_a_first= cv_a_pause=$((cv_a_pause * 2))
    [ "$cv_a_pause" -le 60 ] || cv_a_pause=60
  done
}

# cv_act_turn: one attempt. Status 1: something failed, the first of it is in cv_a_why.
cv_act_turn() {
  cv_a_why=
  cv_act_store
  cv_run_dir
  if [ ! -r "$CV_ROOT/switch/items" ] || [ ! -r "$CV_DIR/journal" ]; then
    failed=yes cv_a_rows=
    cv_act_failed "its records are gone from $cv_a_place"
  else
    cv_act_restore
    cv_act_restart
  fi
  [ -z "$cv_a_why" ]
}

# cv_act_failed CAUSE: the first of a turn, in cv_a_why.
cv_act_failed() { cv_a_why=${cv_a_why:-$1}; }

# Whether it is time, and why in CV_DUE.
cv_act_due() {
  cv_switch_clock
  if [ "$sw_boot" != "$CV_BOOT" ]; then
    CV_DUE='the host restarted before it was confirmed'
  elif [ -e "$CV_ROOT/switch/asked" ]; then
    CV_DUE='it is not good'
  elif [ "$CV_UPTIME" -ge "$sw_deadline" ]; then
    CV_DUE="nobody confirmed it within $sw_window s"
  else
    return 1
  fi
}

# Nobody else works here meanwhile. Whoever has asked holds the lock and waits; a controller whose confirmation timeout has passed counts as gone: what is left of
# its run is ended, first politely. That the lock is free says little: a step does not hold it. A process may start others while it is ended,
# so they are looked for again and again. After 8 s, and two KILLs, it is reverted in any case.
cv_act_alone() {
  [ ! -e "$CV_ROOT/switch/asked" ] || return 0
  # No redirection of a special built-in: one that fails would end this shell.
  { true >"$CV_DIR/stop"; } 2>/dev/null
  if [ -r "$CV_ROOT/lock" ]; then exec 9<"$CV_ROOT/lock"; else exec 9</dev/null; fi
  cv_switch_clock
  cv_a_begun=$CV_UPTIME cv_a_groups= cv_a_kills=0
  while :; do
    if cv_act_groups && [ -z "$cv_a_groups" ] && flock -n 9; then return 0; fi
    cv_a_signal=TERM
    if [ "$((CV_UPTIME - cv_a_begun))" -ge 3 ]; then
      cv_a_signal=KILL
      # On a busy host one scan takes seconds: none is given up before it was killed.
      [ "$((CV_UPTIME - cv_a_begun))" -lt 8 ] || [ "$cv_a_kills" -lt 2 ] || {
        echo 'a process of the run cannot be ended; it is reverted all the same'
        return 0
      }
      cv_a_kills=$((cv_a_kills + 1))
    fi
    for cv_a_group in $cv_a_groups; do kill "-$cv_a_signal" "-$cv_a_group" 2>/dev/null; done
    cv_nap
    cv_switch_clock
  done
}

# cv_act_groups: the process groups of all that hold the lock, of steps whose session has ended, and of all that these have started, in cv_a_groups, and those that were there
# before and in which something still runs. A step that runs as another user, or within a limit, has a group of its own. A package manager in
# its work is not ended in the middle; none is behind a switch.
cv_act_groups() {
  # Neither this shell nor those that look count.
  cv_a_held=" $({
    cv_lock_held
    cv_living | cut -d ' ' -f 3
  } 9>&- | grep -vx "$$" | tr '\n' ' ')"
  cv_a_found=$(printf '%s\n' /proc/[0-9]*/stat | awk -v own=$$ -v held="$cv_a_held" -v known=" $cv_a_groups " '
    {
      file = $0; text = ""
      # The name of a process may hold anything, a newline too.
      while ((getline line <file) > 0) text = text line " "
      close(file)
      pid = file; gsub(/[^0-9]/, "", pid)
      name = text; sub(/^[0-9]+ \(/, "", name)
      if (!sub(/^.*\) /, "", text)) next
      split(text, field, " ")
      parent[pid] = field[2]; group[pid] = field[3]
      if (field[1] ~ /^[ZXx]/) dead[pid]
      if (name ~ /^(dpkg|apt|dnf|rpm\)|yum\))/) manager[pid]
    }
    END {
      for (pid in group) {
        if (pid in dead) continue
        found = index(known, " " group[pid] " ")
        above = pid
        for (n = 0; !found && (above in parent) && n < 1000; n++) { found = index(held, " " above " "); above = parent[above] }
        if (found) ends[group[pid]]
        if (found && (pid in manager)) spared[group[pid]]
      }
      for (g in ends) if (g + 0 > 1 && g != group[own] && !(g in spared)) printf "%s ", g
      if (own in group) printf "."
    }' 9>&-)
  case $cv_a_found in
  *.) cv_a_groups=${cv_a_found%.} ;;
  *) return 1 ;;
  esac
}

# The rows of what stands behind the switch, newest first; those of units after all others, so that they start with what was there.
cv_act_rows() {
  cv_undo_rows "$CV_RUN" | while IFS= read -r cv_a_row; do
    cv_row "$cv_a_row"
    if grep -qxF -- "$row_item" "$CV_ROOT/switch/items"; then printf '%s\n' "$cv_a_row"; fi
  done | awk -F '\t' '$2 == "unit" { units = units $0 "\n"; next } { print } END { printf "%s", units }'
}

# cv_act_restore: restores the rows of the switch that is acting. Sets force, later, failed and reload; cv_a_now where it restored something.
# shellcheck disable=SC2086
cv_act_restore() {
  cv_a_did= cv_a_now=
  [ ! -e "$CV_ROOT/switch/did" ] || cv_a_did=yes
  force= later= failed= reload= cv_u_stays= CV_FORCE_ROWS=yes
  cv_a_starts=$(cv_act_starts)
  cv_a_rows=$(cv_act_rows)
  cv_split_by "$CV_NL"
  set -- $cv_a_rows
  cv_split_end
  for cv_a_row; do
    cv_undo_judge "$cv_a_row"
    # A unit changes by itself; nobody else's work is lost with its revert.
    if [ "$row_kind" = unit ] && [ "$judged" != same ]; then judged=restore; fi
    # Each attempt judges anew; what was only begun shows no more that its undo has run.
    case $cv_u_begun$cv_a_undone in "yes"*" $row_seq "*) judged=same ;; esac
    cv_undo_name "$row_kind" "$row_key" "$row_item"
    case $judged in
    same) printf 'as before      %s\n' "$CV_SHOWN" ;;
    restore)
      cv_a_did=yes
      { true >"$CV_ROOT/switch/did"; } 2>/dev/null
      case $row_kind:$CV_SHOWN in
      path:*/systemd/*) reload=yes ;;
      path:*/netplan/*) cv_a_netplan=yes ;;
      unit:*)
        [ -z "$reload" ] || systemctl daemon-reload
        reload=
        ;;
      esac
      cv_dec_to "$row_key"
      cv_a_how=cv_restore_$row_kind
      [ "$row_kind" != package ] || cv_a_how=cv_apply_packages
      # Into a file: a pipe would be waited for as long as a daemon holds it that was started here.
      cv_a_out=$CV_SWITCH_TRIED.out
      { true >"$cv_a_out"; } 2>/dev/null || cv_a_out=/dev/null
      (
        CV_FLAGS=${cv_u_begun:+begun}
        "$cv_a_how" "$CV_DEC" "$row_before"
      ) >"$cv_a_out" 2>&1 </dev/null
      cv_u_status=$?
      cv_u_out=$(cat "$cv_a_out")
      if [ $cv_u_status -eq 0 ]; then
        cv_a_now=yes
        [ -z "$cv_u_begun" ] || cv_a_undone="$cv_a_undone $row_seq "
        printf 'restored       %s\n' "$CV_SHOWN"
      else
        # The output of the revert goes to the journal of the host, which others read.
        cv_undo_why "$row_flags"
        printf 'FAILED         %s: %s\n' "$CV_SHOWN" "$CV_WHY"
        failed=yes
        cv_act_failed "$CV_SHOWN: $CV_WHY"
        cv_undo_stays "$row_kind" "$CV_NOW"
      fi
      ;;
    *)
      printf 'LEFT ALONE     %s: %s\n' "$CV_SHOWN" "$judged"
      failed=yes
      # A change of someone else stays one; an object that could not be looked at may be seen the next time.
      case $CV_NOW in '! '*) cv_act_failed "$CV_SHOWN: $judged" ;; esac
      ;;
    esac
  done
  [ -z "$reload" ] || systemctl daemon-reload
}

# Units that were active when it was armed, with the invocation that runs now.
cv_act_starts() {
  while read -r cv_a_unit; do
    printf '%s %s\n' "$cv_a_unit" "$(cv_unit_word "$cv_a_unit" InvocationID)"
  done <"$CV_ROOT/switch/units"
}

# cv_act_restart: restarts the units that ran then, with the restored files; where nothing was restored since, those that did not start (cv_a_down).
cv_act_restart() {
  if [ -n "$cv_a_first" ]; then
    [ -n "$cv_a_did" ] || [ ! -e "$CV_ROOT/switch/asked" ] || return 0
  elif [ -z "$cv_a_now" ] && [ -z "$cv_a_netplan" ]; then
    cv_a_starts=$(printf '%s\n' "$cv_a_starts" | grep -F "${cv_a_down:-/}")
  fi
  if [ -n "$cv_a_netplan" ] && command -v netplan >/dev/null 2>&1; then
    if cv_u_out=$(netplan apply 2>&1); then
      cv_a_netplan=
    else
      failed=yes
      cv_act_failed "netplan apply: ${cv_u_out##*"$CV_NL"}"
    fi
  fi
  cv_a_down=
  while read -r cv_a_unit cv_a_id; do
    [ -n "$cv_a_unit" ] || continue
    # Its own row has restarted it already.
    [ "$(cv_unit_word "$cv_a_unit" InvocationID)" = "$cv_a_id" ] || continue
    systemctl -q reset-failed -- "$cv_a_unit" 2>/dev/null
    if cv_u_out=$(systemctl restart -- "$cv_a_unit" 2>&1); then
      printf 'restarted      %s\n' "$cv_a_unit"
    else
      printf 'NOT STARTED    %s: %s\n' "$cv_a_unit" "${cv_u_out%%"$CV_NL"*}"
      failed=yes cv_a_down=$cv_a_down${cv_a_down:+$CV_NL}$cv_a_unit
      cv_act_failed "$cv_a_unit does not start: ${cv_u_out%%"$CV_NL"*}"
    fi
  done <<END
$cv_a_starts
END
}

# The journal says what each object is now: for whoever comes later, the run has not changed what is as before.
cv_act_record() {
  cv_a_status=0
  # The first step behind the switch had failed before it changed anything.
  [ -n "$cv_a_did" ] || [ ! -e "$CV_ROOT/switch/asked" ] || cv_a_status=4
  [ -z "$failed" ] || cv_a_status=1
  cv_table now "$(cv_rows_now "$cv_a_rows")"
  cv_a_text=$(
    set -f
    IFS=$CV_NL
    for cv_a_row in $cv_a_rows; do
      cv_row "$cv_a_row"
      cv_now_of "$row_seq" now
      printf 'putback\t%s\t%s\n' "$row_seq" "$CV_NOW"
    done
  )
  cv_enc_to "$cv_a_why"
  cv_journal "${cv_a_text:+$cv_a_text$CV_NL}switch${CV_TAB}done$CV_TAB$cv_a_status${cv_a_why:+$CV_TAB$CV_ENC}$CV_NL" sync
}
