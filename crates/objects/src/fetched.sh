# --- fetched ---
# The file lies on the machine that runs converge, which changes it once the host has written into its journal what will be changed. The host
# knows what that machine says of the file (CV_FETCHED: lines KEY STATE) and what the steps of the item have noted.

# cv_see_fetched KEY...
cv_see_fetched() (
  cv_f_dir=${CV_DIR:-}
  for cv_f_key; do
    cv_enc_to "$cv_f_key"
    cv_f_line=
    if [ -n "${CV_FETCHED:-}" ]; then
      cv_f_line=$({
        [ ! -e "$cv_f_dir/fetched" ] || sed -n "s/^${CV_TOKEN:-} //p" "$cv_f_dir/fetched"
        printf '%s\n' "$CV_FETCHED"
      } | while IFS= read -r cv_f_told; do
        [ "${cv_f_told%% *}" = "$CV_ENC" ] || continue
        printf '%s\n' "${cv_f_told#* }"
        break
      done)
    fi
    if [ -n "$cv_f_line" ]; then
      printf -- '- %s\n' "$cv_f_line"
    else
      cv_fail_all 'it lies on the machine that runs converge' "$cv_f_key"
    fi
  done
)

cv_line_fetched() { cv_line_of "$(cv_see_fetched "$1")"; }

# The machine that runs converge keeps what it replaces.
cv_save_fetched() { :; }

# cv_apply_fetched KEY LINE: notes what that machine makes of it.
cv_apply_fetched() (
  umask 077
  cv_run_dir
  cv_enc_to "$1"
  printf '%s %s %s\n' "$CV_TOKEN" "$CV_ENC" "$2" >>"$CV_DIR/fetched"
)

cv_restore_fetched() { cv_apply_fetched "$1" "$2"; }

# cv_keeps_fetched: undo.sh passes over it.
cv_keeps_fetched() { :; }
