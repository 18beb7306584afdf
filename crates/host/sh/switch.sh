# --- the switch behind guarded changes ---
#
# $CV_ROOT/switch (0700) is there while a switch is armed or acts; $CV_ROOT/version is the lock around its changes.
#   armed    RUN GUARD WINDOW DEADLINE BOOT, separated by tabs; the deadline is in seconds since the boot
#   asked    somebody wants it to act now
#   acting   the same line as `armed` was, and why: it reverts
#   items    the items behind it (encoded addresses), one a line
#   units    what ran when it was armed and may need a restart; was/NAME: what answered then

CV_SWITCH_NAME=converge-switch.service
CV_SWITCH_UNITS=${CV_SWITCH_UNITS:-/etc/systemd/system}

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
    cv_say "locked by the guarded change of run $sw_run: it was not confirmed and is being reverted"
    return 1
  fi
  cv_switch_read armed && [ "$sw_run" != "$CV_RUN" ] || return 0
  cv_switch_clock
  cv_say "locked by the guarded change of run $sw_run: it is reverted automatically unless confirmed within $((sw_deadline - CV_UPTIME)) s"
  return 1
)

# cv_switch_arm GUARD WINDOW UNIT...: between the saving and the first step of a guarded item. The first one arms the
# switch, later ones of the same run join it; each sets the window anew. Nothing may be changed when this fails.
cv_switch_arm() (
  umask 077
  [ -d "$CV_SYSTEMD" ] || {
    cv_say 'this host does not run systemd, so nothing would put a guarded change back: `guard: none` makes it without'
    return 1
  }
  cv_boot_now && cv_run_dir && cv_switch_lock || {
    cv_say 'the switch behind a guarded change cannot be armed'
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
    rm -rf "$dir" && mkdir "$dir" "$dir/was" || return 1
    : >"$dir/items"
    for unit; do systemctl is-active --quiet -- "$unit" && printf '%s\n' "$unit"; done >"$dir/units"
    cv_switch_before "$guard" || return 1
    cv_switch_set && cv_switch_enable && cv_journal "switch${CV_TAB}armed$CV_TAB$guard$CV_TAB$window$CV_NL" sync &&
      systemctl restart -- "$CV_SWITCH_NAME" || {
      cv_switch_clear
      cv_say 'the switch behind a guarded change cannot be armed'
      return 1
    }
  fi
)

# cv_switch_set: arms the switch for CV_ITEM, on disk. Reads dir, guard and window.
cv_switch_set() {
  cv_switch_clock
  printf '%s\n' "$CV_ITEM" >>"$dir/items" &&
    printf '%s\t%s\t%s\t%s\t%s\n' "$CV_RUN" "$guard" "$window" "$((CV_UPTIME + window))" "$CV_BOOT" >"$dir/armed.new" &&
    { sync "$dir/armed.new" "$dir/items" "$dir/units" 2>/dev/null || sync; } && mv -f "$dir/armed.new" "$dir/armed" &&
    { sync "$dir" 2>/dev/null || sync; }
}

# By hand, not by `systemctl enable`: that reloads systemd, which takes GPUs away from running containers.
cv_switch_enable() {
  cat >"$CV_SWITCH_UNITS/$CV_SWITCH_NAME" <<END
[Unit]
Description=Reverts a guarded change of converge unless it is confirmed
RequiresMountsFor=$CV_ROOT

[Service]
ExecStart=/bin/sh $CV_ROOT/undo.sh --switch
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
  rm -f "$CV_SWITCH_UNITS/multi-user.target.wants/$CV_SWITCH_NAME" "$CV_SWITCH_UNITS/$CV_SWITCH_NAME"
  rm -rf "$CV_ROOT/switch"
}

# cv_switch_confirm: in a new session: what the change can break answers. Status 1: it does not, or it is too late.
cv_switch_confirm() (
  cv_switch_read armed && [ "$sw_run" = "$CV_RUN" ] || {
    cv_say 'it was not confirmed in time'
    return 1
  }
  cv_switch_answers "$sw_guard" || return 1
  cv_run_dir
  cv_switch_lock || return 1
  [ -e "$CV_ROOT/switch/armed" ] || {
    cv_say 'it was not confirmed in time'
    return 1
  }
  cv_journal "switch${CV_TAB}confirmed$CV_NL" sync || return 1
  cv_switch_clear
  systemctl stop --no-block -- "$CV_SWITCH_NAME"
)

# cv_switch_ask: reverts now, without waiting for the end of the window.
cv_switch_ask() { [ ! -d "$CV_ROOT/switch" ] || : >"$CV_ROOT/switch/asked"; }

# cv_switch_wait SECONDS ENDS: until the switch of this run has acted. ENDS switches of it were over before. Status 0: all is reverted;
# 1: not all; 2: it does not come to an end; 3: none was armed; 4: nothing had been changed.
cv_switch_wait() (
  cv_run_dir
  cv_switch_clock
  end=$((CV_UPTIME + $1))
  while [ -d "$CV_ROOT/switch" ] && [ "$CV_UPTIME" -lt "$end" ]; do
    cv_nap
    cv_switch_clock
  done
  [ ! -d "$CV_ROOT/switch" ] || return 2
  ends=$(grep "^switch$CV_TAB\(done\|confirmed\)" "$CV_DIR/journal" 2>/dev/null)
  [ "$(printf %s "$ends" | grep -c .)" -gt "$2" ] || return 3
  case ${ends##*"$CV_NL"} in
  switch"$CV_TAB"done"$CV_TAB"0) return 0 ;;
  switch"$CV_TAB"done"$CV_TAB"4) return 4 ;;
  switch"$CV_TAB"done"$CV_TAB"*) return 1 ;;
  *) return 3 ;;
  esac
)
