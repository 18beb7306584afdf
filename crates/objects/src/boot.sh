# --- boot ---

CV_BOOT_ID=${CV_BOOT_ID:-/proc/sys/kernel/random/boot_id}
CV_REBOOT_REQUIRED=${CV_REBOOT_REQUIRED:-/run/reboot-required}
CV_BOOT_KERNELS=${CV_BOOT_KERNELS:-/boot}

# The ID of the present boot, in CV_BOOT.
cv_boot_now() {
  CV_BOOT=
  if [ -r "$CV_BOOT_ID" ]; then read -r CV_BOOT <"$CV_BOOT_ID"; fi
  [ -n "$CV_BOOT" ] || {
    cv_say "$CV_BOOT_ID cannot be read: whether this host has restarted cannot be known"
    return 1
  }
}

# cv_boot_record KEY: prints the file that records a restart.
cv_boot_record() { printf '%s/boot/%s\n' "$CV_ROOT" "$(printf %s "$1" | sha256sum | cut -c1-64)"; }

# cv_boot_kernel: the newest installed kernel of the running one's flavour, when that is not the running one. Only where the
# running one lies in /boot too, so that packages decide on it, and no restart was made for that kernel already.
cv_boot_kernel() (
  running=${CV_BOOT_RUNNING:-$(uname -r)} newest= tried=
  [ -e "$CV_BOOT_KERNELS/vmlinuz-$running" ] || return 0
  flavour=${running##*-}
  newest=$(for file in "$CV_BOOT_KERNELS/vmlinuz-"*"-$flavour"; do printf '%s\n' "${file#"$CV_BOOT_KERNELS/vmlinuz-"}"; done | sort -V 2>/dev/null | tail -n 1)
  if [ -r "$CV_ROOT/boot/kernel" ]; then read -r tried <"$CV_ROOT/boot/kernel"; fi
  case $newest in '' | "$running" | "$tried") ;; *) printf '%s\n' "$newest" ;; esac
)

# cv_boot_why: why a restart is required, for people; nothing when none is.
cv_boot_why() (
  kernel=$(cv_boot_kernel)
  if [ -e "$CV_REBOOT_REQUIRED" ]; then
    names=$(sort -u "$CV_REBOOT_REQUIRED.pkgs" 2>/dev/null | tr '\n' ' ')
    printf '%s is there%s\n' "$CV_REBOOT_REQUIRED" "${names:+ for ${names% }}"
  fi
  [ -z "$kernel" ] || printf 'kernel %s is installed and %s runs\n' "$kernel" "${CV_BOOT_RUNNING:-$(uname -r)}"
)

# cv_see_boot: a restart that was recorded in a boot that still lasts has not happened: then the state before counts.
cv_see_boot() (
  cv_boot_now 2>/dev/null || {
    cv_fail_all "$CV_BOOT_ID cannot be read" "$@"
    return 0
  }
  since=$(sed -n 's/^btime //p' /proc/stat 2>/dev/null)
  for key; do
    case $key in
    required) if [ -n "$(cv_boot_why)" ]; then echo '- required'; else echo '- settled'; fi ;;
    'once '* | 'change '*)
      value= boot= before=
      record=$(cv_boot_record "$key")
      if [ -r "$record" ]; then read -r value boot before <"$record"; fi
      [ -z "$value" ] || [ "$boot" != "$CV_BOOT" ] || value=$before
      printf '%s restarted %s\n' "${since:--}" "${value:--}"
      ;;
    *) cv_fail_all 'not a reason for a restart' "$key" ;;
    esac
  done
)

cv_line_boot() { cv_line_of "$(cv_see_boot "$1")"; }

cv_save_boot() { :; }

# A restart cannot be taken back, and what it was made for stays recorded.
cv_restore_boot() { :; }
# cv_keeps_boot: keeps nothing.
cv_keeps_boot() { :; }

# cv_adopt_boot KEY LINE: writes the record only.
cv_adopt_boot() { cv_write_record "$(cv_boot_record "$1")" "${2#restarted } - -"; }

# cv_apply_boot KEY LINE: has the host restart in two seconds, so that the session hears that this has ended.
cv_apply_boot() (
  cv_boot_now || return 1
  if command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
    restart='systemctl reboot'
  elif command -v shutdown >/dev/null 2>&1; then
    restart='shutdown -r now'
  else
    cv_say 'this host has neither systemd nor `shutdown`: nothing can restart it'
    return 1
  fi
  case $1 in
  required)
    kernel=$(cv_boot_kernel)
    [ -z "$kernel" ] || cv_write_record "$CV_ROOT/boot/kernel" "$kernel" || return 1
    ;;
  *)
    before=$(cv_line_boot "$1") || return 1
    cv_write_record "$(cv_boot_record "$1")" "${2#restarted } $CV_BOOT ${before#restarted }" || return 1
    ;;
  esac
  sync
  cd / || return 1
  setsid sh -c "sleep 2; $restart >/run/converge-restart 2>&1" </dev/null >/dev/null 2>&1 9>&- &
)

# cv_back_boot KEY: after the restart. The end of the boot, then the units of CV_RESTART_UNITS, within CV_RESTART_LEFT seconds.
cv_back_boot() (
  end=$(($(date +%s) + ${CV_RESTART_LEFT:-60}))
  command -v systemctl >/dev/null 2>&1 || return 0
  while :; do
    case $(systemctl is-system-running 2>/dev/null) in initializing | starting) ;; *) break ;; esac
    [ "$(date +%s)" -lt "$end" ] || break
    cv_nap
  done
  for unit in ${CV_RESTART_UNITS:-}; do
    until systemctl is-active --quiet -- "$unit"; do
      [ "$(date +%s)" -lt "$end" ] || {
        cv_say "the host has restarted, and $unit is $(systemctl is-active -- "$unit" 2>/dev/null), not active"
        return 1
      }
      cv_nap
    done
  done
  if [ "$1" = required ] && [ -r "$CV_ROOT/boot/kernel" ]; then
    read -r kernel <"$CV_ROOT/boot/kernel"
    [ ! -e "$CV_BOOT_KERNELS/vmlinuz-$kernel" ] || [ "$kernel" = "$(uname -r)" ] ||
      cv_note "kernel $(uname -r) runs after the restart, though $kernel is installed: look at the boot loader"
  fi
)
