# --- the switch behind guarded changes ---
#
# $CV_ROOT/switch (0700) is there while a switch is armed or acts; $CV_ROOT/version is the lock around its changes.
#   armed    RUN GUARD WINDOW DEADLINE BOOT, separated by tabs; the deadline is in seconds since the boot
#   asked    somebody wants it to act now
#   acting   the same line as `armed` was, and why: it reverts
#   items    the items behind it (encoded addresses), one a line
#   units    what ran when it was armed and may need a restart; was/NAME: what answered then
#
# Its unit names the run, and goes when the change is confirmed or reverted, not before: where the unit is there and the folder is not, the records
# were taken away, and nothing is confirmed.

CV_SWITCH_NAME=converge-switch.service
CV_SWITCH_UNITS=${CV_SWITCH_UNITS:-/etc/systemd/system}
# While a revert that failed is tried again: until when (seconds since 1970) and the cause (encoded). Not in the store, which may take no writes.
CV_SWITCH_TRIED=${CV_SWITCH_TRIED:-/run/converge-switch}

# Seconds since the boot, in CV_UPTIME: no clock that anybody sets.
cv_switch_clock() {
  read -r CV_UPTIME CV_IDLE </proc/uptime
  CV_UPTIME=${CV_UPTIME%%.*}
}

# cv_switch_read FILE: its fields in sw_run, sw_guard, sw_window, sw_deadline, sw_boot, sw_why.
cv_switch_read() {
  sw_run= sw_guard= sw_window= sw_deadline= sw_boot= sw_why=
  [ -r "$CV_ROOT/switch/$1" ] || return 1
  IFS=$CV_TAB read -r sw_run sw_guard sw_window sw_deadline sw_boot sw_why <"$CV_ROOT/switch/$1"
}

# cv_switch_unit: whether the unit of a switch is there; its run in sw_run.
cv_switch_unit() {
  sw_run=
  [ -e "$CV_SWITCH_UNITS/$CV_SWITCH_NAME" ] || return 1
  sw_run=$(sed -n 's/^# run //p' "$CV_SWITCH_UNITS/$CV_SWITCH_NAME")
}

# cv_switch_is_over: whether the change behind the unit (sw_run) was confirmed or reverted: a power cut may have left the unit.
cv_switch_is_over() {
  case $(cv_journal_of "$sw_run" | grep "^switch$CV_TAB" | tail -n 1) in
  switch"$CV_TAB"confirmed* | switch"$CV_TAB"done*) return 0 ;;
  esac
  return 1
}

# cv_switch_is_lost: whether the records of a change that is neither confirmed nor reverted are gone; its run is in sw_run.
cv_switch_is_lost() {
  [ ! -e "$CV_ROOT/switch/armed" ] && [ ! -e "$CV_ROOT/switch/acting" ] && cv_switch_unit && ! cv_switch_is_over
}

# cv_switch_lost_to: says it in CV_LOST; reads sw_run.
cv_switch_lost_to() {
  CV_LOST="the guarded change of run $sw_run is neither confirmed nor reverted, and its records are gone from $CV_ROOT: put that folder back, and the host reverts the change. If it is to stay: systemctl stop $CV_SWITCH_NAME; rm -f $CV_SWITCH_UNITS/$CV_SWITCH_NAME $CV_SWITCH_UNITS/multi-user.target.wants/$CV_SWITCH_NAME"
}

# cv_switch_tried: whether a revert failed and is tried again: that in CV_TRIED.
cv_switch_tried() {
  cv_k_until= cv_k_why=
  { IFS=$CV_TAB read -r cv_k_until cv_k_why <"$CV_SWITCH_TRIED"; } 2>/dev/null || return 1
  cv_dec_to "$cv_k_why"
  cv_k_until=$(date -u -d "@$cv_k_until" +%H:%M:%S 2>/dev/null) || cv_k_until=
  CV_TRIED="the host could not revert it so far ($CV_DEC) and tries again, at least once a minute${cv_k_until:+, until $cv_k_until UTC}: remove the cause"
}

# cv_switch_remark: for a plan, a line about a change that the host cannot revert.
cv_switch_remark() (
  if cv_switch_is_lost; then
    cv_switch_lost_to
  elif cv_switch_read acting && cv_switch_tried; then
    CV_LOST="the guarded change of run $sw_run was not confirmed: $CV_TRIED"
  else
    return 0
  fi
  cv_enc_to "$CV_LOST"
  printf 'broken\t%s\n' "$CV_ENC"
)

# The caller is a subshell: its end gives the lock back.
cv_switch_lock() {
  { exec 8<"$CV_ROOT/version"; } 2>/dev/null && cv_flock_within 20 8
}

# cv_flock_within SECONDS DESCRIPTOR: not every flock can wait for a time.
cv_flock_within() {
  cv_switch_clock
  cv_k_end=$((CV_UPTIME + $1))
  until flock -n "$2"; do
    cv_nap
    cv_switch_clock
    [ "$CV_UPTIME" -lt "$cv_k_end" ] || return 1
  done
}

# cv_switch_free: whether a run may begin here: no switch of another run is armed. Status 1: one is, and it says so.
cv_switch_free() (
  if cv_switch_read acting; then
    CV_TRIED='it is being reverted'
    cv_switch_tried
    cv_say "locked by the guarded change of run $sw_run, which was not confirmed: $CV_TRIED"
    return 1
  fi
  cv_switch_read armed && [ "$sw_run" != "$CV_RUN" ] || return 0
  cv_switch_clock
  cv_say "locked by the guarded change of run $sw_run: it is reverted automatically unless confirmed within $((sw_deadline - CV_UPTIME)) s"
  return 1
)

# cv_switch_arm GUARD WINDOW UNIT...: between the saving and the first step of a guarded item. The first one prepares
# the revert, later ones of the same run join it; each sets the timeout again. Nothing may be changed when this fails.
cv_switch_arm() (
  umask 077
  [ -d "$CV_SYSTEMD" ] || {
    cv_say 'this host does not run systemd, so nothing would revert a guarded change automatically: `guard: none` makes it without this'
    return 1
  }
  cv_boot_now && cv_run_dir && cv_switch_lock || {
    cv_say 'the automatic revert of a guarded change cannot be prepared'
    return 1
  }
  guard=$1 window=$2 dir=$CV_ROOT/switch
  shift 2
  if [ -e "$dir/acting" ]; then
    cv_say 'the change was not confirmed in time and is being reverted'
    return 1
  fi
  if cv_switch_read armed && [ "$sw_run" = "$CV_RUN" ]; then
    cv_switch_set || return 1
  else
    rm -rf "$dir" "$CV_SWITCH_TRIED" && mkdir "$dir" "$dir/was" || return 1
    : >"$dir/items"
    for unit; do systemctl is-active --quiet -- "$unit" && printf '%s\n' "$unit"; done >"$dir/units"
    cv_switch_before "$guard" || return 1
    cv_switch_set && cv_switch_enable && cv_journal "switch${CV_TAB}armed$CV_TAB$guard$CV_TAB$window$CV_NL" sync &&
      systemctl restart -- "$CV_SWITCH_NAME" || {
      cv_switch_clear
      cv_say 'the automatic revert of a guarded change cannot be prepared'
      return 1
    }
  fi
)

# cv_switch_set: prepares the automatic revert for CV_ITEM, on disk. Reads dir, guard and window.
cv_switch_set() {
  cv_switch_clock
  printf '%s\n' "$CV_ITEM" >>"$dir/items" &&
    printf '%s\t%s\t%s\t%s\t%s\n' "$CV_RUN" "$guard" "$window" "$((CV_UPTIME + window))" "$CV_BOOT" >"$dir/armed.new" &&
    { sync "$dir/armed.new" "$dir/items" "$dir/units" 2>/dev/null || sync; } && mv -f "$dir/armed.new" "$dir/armed" &&
    { sync "$dir" 2>/dev/null || sync; }
}

# By hand, not by `systemctl enable`: that reloads systemd, which takes GPUs away from running containers. After a boot the records may be away: they
# are waited for.
cv_switch_enable() {
  cat >"$CV_SWITCH_UNITS/$CV_SWITCH_NAME" <<END
# run $CV_RUN
[Unit]
Description=Reverts a guarded change of converge unless it is confirmed
RequiresMountsFor=$CV_ROOT
StartLimitIntervalSec=0

[Service]
ExecStart=/bin/sh -c 'until [ -r $CV_ROOT/undo.sh ]; do sleep 2; done; exec /bin/sh $CV_ROOT/undo.sh --switch'
Restart=on-failure
RestartSec=2

[Install]
WantedBy=multi-user.target
END
  [ $? -eq 0 ] && chmod 644 "$CV_SWITCH_UNITS/$CV_SWITCH_NAME" &&
    (umask 022 && mkdir -p "$CV_SWITCH_UNITS/multi-user.target.wants") &&
    ln -sf "../$CV_SWITCH_NAME" "$CV_SWITCH_UNITS/multi-user.target.wants/$CV_SWITCH_NAME" &&
    { sync "$CV_SWITCH_UNITS/$CV_SWITCH_NAME" "$CV_SWITCH_UNITS/multi-user.target.wants" 2>/dev/null || sync; }
}

# Nothing stays behind.
cv_switch_clear() {
  rm -f "$CV_SWITCH_UNITS/multi-user.target.wants/$CV_SWITCH_NAME" "$CV_SWITCH_UNITS/$CV_SWITCH_NAME" "$CV_SWITCH_TRIED" "$CV_SWITCH_TRIED.out"
  rm -rf "$CV_ROOT/switch"
}

# cv_switch_confirm: in a new session: what the change can break answers. Status 1: it does not, or it is too late, or the records are gone.
cv_switch_confirm() (
  cv_switch_read armed && [ "$sw_run" = "$CV_RUN" ] || cv_switch_missed || return 1
  cv_switch_answers "$sw_guard" || return 1
  cv_run_dir
  cv_switch_lock && [ -e "$CV_ROOT/switch/armed" ] || cv_switch_missed || return 1
  cv_journal "switch${CV_TAB}confirmed$CV_NL" sync || {
    cv_cause
    cv_say "the journal in $CV_ROOT cannot say that it is confirmed ($CV_CAUSE)"
    return 1
  }
  cv_switch_clear
  systemctl stop --no-block -- "$CV_SWITCH_NAME"
)

# cv_switch_missed: says why it cannot be confirmed. Status 1.
cv_switch_missed() {
  CV_LOST='it was not confirmed in time'
  ! cv_switch_is_lost || cv_switch_lost_to
  cv_say "$CV_LOST"
  return 1
}

# cv_switch_at: the folder in which the switch works, in CV_ROOT: where somebody has moved it away, its unit still has it as descriptor 7.
cv_switch_at() {
  [ ! -d "$CV_ROOT/switch" ] && cv_switch_unit || return 0
  cv_k_pid=$(systemctl show -p MainPID -- "$CV_SWITCH_NAME")
  cv_k_pid=${cv_k_pid#*=}
  [ -d "/proc/$cv_k_pid/fd/7/./switch" ] || return 0
  exec 7<"/proc/$cv_k_pid/fd/7/."
  CV_ROOT=/proc/self/fd/7/.
}

# cv_switch_ask: reverts now, without waiting for the confirmation timeout.
cv_switch_ask() (
  cv_switch_at
  [ ! -d "$CV_ROOT/switch" ] || : >"$CV_ROOT/switch/asked"
)

# cv_switch_wait SECONDS ENDS: until the switch of this run has acted. ENDS switches of it were over before. Status 0: all is reverted; 1: not all;
# 2: it does not come to an end; 3: none was armed; 4: nothing had been changed; 5: it is not reverted yet, and it says why; 6: it was confirmed.
cv_switch_wait() (
  cv_w_place=$CV_ROOT
  cv_switch_at
  cv_run_dir
  cv_switch_clock
  end=$((CV_UPTIME + $1))
  while [ -d "$CV_ROOT/switch" ] && [ "$CV_UPTIME" -lt "$end" ]; do
    if cv_switch_tried; then
      printf '%s\n' "$CV_TRIED"
      return 5
    fi
    cv_nap
    cv_switch_clock
  done
  [ ! -d "$CV_ROOT/switch" ] || return 2
  ends=$(grep "^switch$CV_TAB\(done\|confirmed\)" "$CV_DIR/journal" 2>/dev/null)
  if [ "$(printf %s "$ends" | grep -c .)" -le "$2" ]; then
    CV_ROOT=$cv_w_place
    cv_switch_is_lost || return 3
    cv_switch_lost_to
    printf '%s\n' "$CV_LOST"
    return 5
  fi
  case ${ends##*"$CV_NL"} in
  switch"$CV_TAB"done"$CV_TAB"0*) return 0 ;;
  switch"$CV_TAB"done"$CV_TAB"4*) return 4 ;;
  switch"$CV_TAB"done*) return 1 ;;
  *) return 6 ;;
  esac
)
