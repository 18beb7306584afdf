# --- hostname ---

CV_HOSTNAME=${CV_HOSTNAME:-/proc/sys/kernel/hostname}

cv_see_hostname() (
  for key; do
    if read -r name <"$CV_HOSTNAME"; then
      cv_enc_to "$name"
      printf -- '- name %s\n' "$CV_ENC"
    else
      cv_fail_all "cannot read $CV_HOSTNAME" "$key"
    fi
  done
)

cv_line_hostname() { cv_line_of "$(cv_see_hostname "$1")"; }

cv_save_hostname() { :; }

cv_restore_hostname() { cv_apply_hostname "$1" "$2"; }

# cv_apply_hostname KEY LINE. The system call works where /proc/sys cannot be written, as in a container.
cv_apply_hostname() (
  cv_dec_to "${2#name }"
  if command -v hostname >/dev/null 2>&1; then hostname "$CV_DEC"; else printf '%s\n' "$CV_DEC" >"$CV_HOSTNAME"; fi
)
