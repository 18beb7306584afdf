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

# cv_undo_going ROWS: the packages that would be purged, each between blanks, in cv_u_going.
cv_undo_going() {
  cv_u_going=" $(
    printf '%s\n' "$1" | while IFS= read -r cv_g_row; do
      cv_row "$cv_g_row"
      [ "$row_kind $row_before" = "package absent" ] || continue
      cv_dec_to "$row_key"
      printf '%s ' "$CV_DEC"
    done
  )"
}

# cv_undo_file_stays: whether a path that was left alone, or a program of something that was, belongs to a package that would go with a purge, which takes its files along; that path in
# cv_u_file. Reads cv_u_left, cv_u_going.
cv_undo_file_stays() {
  cv_split_by "$CV_NL"
  # shellcheck disable=SC2086
  set -- ${cv_u_left:-}
  cv_split_end
  for cv_u_file; do
    if command -v dpkg-query >/dev/null 2>&1; then
      cv_f_owners=$(dpkg-query -S "$cv_u_file" "${cv_u_file#/usr}" 2>/dev/null | sed 's/: .*//; s/, /\n/g; s/:[a-z0-9]*$//')
    else
      cv_f_owners=$(rpm -qf --qf '%{NAME}\n' "$cv_u_file" 2>/dev/null) || cv_f_owners=
    fi
    for cv_f_owner in $cv_f_owners; do
      case $cv_u_going in *" $cv_f_owner "*) return 0 ;; esac
    done
  done
  return 1
}

# cv_undo_programs: the programs that the object of the row needs, by their paths: `cv_needs_KIND KEY` names them.
cv_undo_programs() {
  command -v "cv_needs_$row_kind" >/dev/null 2>&1 || return 0
  cv_dec_to "$row_key"
  for cv_n_program in $("cv_needs_$row_kind" "$CV_DEC"); do
    (PATH=$PATH:/usr/sbin:/sbin && command -v "$cv_n_program")
  done
}

# cv_undo_file_edited: whether a configuration file of the package of the row is not as the package brought it; that file in cv_u_file. One that the run
# has changed is as before by then; while it is only asked what can be done, it does not count. What is set with a program of the package stands
# in its files.
cv_undo_file_edited() {
  [ -z "$force" ] || return 1
  cv_e_rows=${cv_c_rows:-${cv_u_rows:-}}
  cv_dec_to "$row_key"
  cv_e_package=$CV_DEC
  cv_u_file=$(cv_packages_confs "$cv_e_package" | while IFS=$CV_TAB read -r cv_e_digest cv_e_file; do
    cv_packages_conf_now "$cv_e_digest" "$cv_e_file"
    case $CV_CONF_NOW in - | "$cv_e_digest") continue ;; esac
    cv_enc_to "$cv_e_file"
    case ${cv_c_asks:-}$cv_e_rows in yes*"${CV_TAB}path$CV_TAB$CV_ENC$CV_TAB"*) continue ;; esac
    printf '%s' "$cv_e_file"
    break
  done)
  [ -n "$cv_u_file" ] && ! cv_undo_sets_files "$cv_e_package"
}

# cv_undo_sets_files PACKAGE: whether an object of the run is set with a program of the package. Judges with these programs as cv_u_left, which stays.
cv_undo_sets_files() (
  printf '%s\n' "$cv_e_rows" | while IFS= read -r cv_e_row; do
    cv_row "$cv_e_row"
    cv_undo_programs
  done | {
    cv_u_left=$(cat) cv_u_going=" $1 "
    cv_undo_file_stays
  }
)
