# --- undo: directories that hold something, and accounts that something belongs to: they stay ---

# cv_undo_stays KIND LINE: something stays, in this state: so do the accounts that it belongs to, in cv_u_stays.
# shellcheck disable=SC2086
cv_undo_stays() {
  cv_split_by ' '
  set -- $1 $2
  cv_split_end
  case $1:$# in
  path:[5-9]) cv_u_stays="$cv_u_stays user:$4 group:$5 " ;;
  user:[4-9] | user:??*)
    cv_u_stays="$cv_u_stays group:$4 "
    # Its other groups are the last words.
    if [ $# -gt 8 ]; then
      shift 8
      for cv_s_group; do cv_u_stays="$cv_u_stays group:$cv_s_group "; done
    fi
    ;;
  esac
}

# cv_undo_holds: whether the directory of the row holds something. While it is only asked what can be done (cv_c_asks is set), objects that are in
# force do not count, but what others have put into a directory among them does. Reads row_key, CV_LIVE.
cv_undo_holds() {
  cv_dec_to "$row_key"
  cv_undo_dir_holds "$CV_DEC"
}

# cv_undo_dir_holds DIRECTORY: cv_undo_holds for this directory.
cv_undo_dir_holds() (
  for cv_h_entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$cv_h_entry" ] || [ -L "$cv_h_entry" ] || continue
    [ -n "${cv_c_asks:-}" ] || exit 0
    cv_enc_to "$cv_h_entry"
    case $CV_LIVE in *"${CV_TAB}path$CV_TAB$CV_ENC$CV_TAB"*) ;; *) exit 0 ;; esac
    if [ -d "$cv_h_entry" ] && [ ! -L "$cv_h_entry" ] && cv_undo_dir_holds "$cv_h_entry"; then exit 0; fi
  done
  exit 1
)
