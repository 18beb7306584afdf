# --- undo: whether the object of a row is the one that is seen by its key now ---

# cv_undo_hidden: whether a later run has mounted or unmounted something above the object of the row, or led a path there elsewhere, and that is still
# so: then another one goes by its path. That run in cv_u_later, what it did in cv_u_why.
cv_undo_hidden() {
  case $row_kind in path | git) ;; *) return 1 ;; esac
  case $CV_LIVE in *"${CV_TAB}mount$CV_TAB"* | *"${CV_TAB}link "*) ;; *) return 1 ;; esac
  cv_dec_to "$row_key"
  cv_u_later=$(
    cv_u_at=$CV_DEC cv_u_seen=" $row_led "
    printf '%s' "$CV_LIVE" | while IFS=$CV_TAB read -r cv_u_run cv_u_seq cv_u_kind cv_u_key cv_u_before cv_u_last cv_u_planned _; do
      case "$cv_u_kind: $later " in "mount: "*" $cv_u_run "* | "path: "*" $cv_u_run "*) ;; *) continue ;; esac
      cv_dec_to "$cv_u_key"
      case $cv_u_at/ in "${CV_DEC%/}"/*) ;; *) continue ;; esac
      case $cv_u_kind in
      mount)
        cv_u_now=$(cv_line_mount "$CV_DEC" </dev/null) || cv_u_now=absent
        cv_u_now=$(cv_undo_system "$cv_u_now") cv_u_was=$(cv_undo_system "$cv_u_before")
        cv_u_why='has mounted or unmounted something above it'
        ;;
      *)
        # Where this run or an earlier one of these has led it before, that says where it led.
        case "$cv_u_at$cv_u_seen" in "$CV_DEC "* | *" $cv_u_key "*) continue ;; esac
        [ "$cv_u_last" != '?' ] || cv_u_last=$cv_u_planned
        cv_u_was=$(cv_undo_lead "$cv_u_before")
        case $cv_u_was:$(cv_undo_lead "$cv_u_last") in -:* | *:- | "$cv_u_was:$cv_u_was") continue ;; esac
        cv_u_seen="$cv_u_seen$cv_u_key "
        cv_u_now=$(cv_undo_lead "$(cv_line_path "$CV_DEC" </dev/null)")
        cv_u_why="has led $CV_DEC elsewhere"
        ;;
      esac
      [ "$cv_u_now" = "$cv_u_was" ] || {
        printf '%s\t%s' "$cv_u_run" "$cv_u_why"
        break
      }
    done
  )
  cv_u_why=${cv_u_later#*"$CV_TAB"}
  cv_u_later=${cv_u_later%%"$CV_TAB"*}
  [ -n "$cv_u_later" ]
}

# cv_undo_is_led: whether a path above that of the row, which its run has led elsewhere, leads now to another place than it did when the row was made, or
# a link is in the place of the directory that it speaks of; what is to be done then in cv_l_why.
# shellcheck disable=SC2086
cv_undo_is_led() {
  case ${row_led:--} in -) return 1 ;; esac
  cv_split_by ' '
  set -- $row_led
  cv_split_end
  while [ $# -gt 1 ]; do
    cv_dec_to "$1"
    [ "$(cv_undo_lead "$(cv_line_path "$CV_DEC" </dev/null)")" = "$2" ] || {
      cv_l_why="it lies in the directory that was at $CV_DEC: put that directory back"
      [ "$1" != "$row_key" ] || cv_l_why='a command put a link in the place of this directory: put that directory back'
      case $2 in link:*)
        cv_l_path=$CV_DEC
        cv_dec_to "${2#link:}"
        cv_l_why="it lies where $cv_l_path led to $CV_DEC, and that leads elsewhere now: lead it there"
        ;;
      esac
      return 0
    }
    shift 2
  done
  return 1
}

# cv_undo_is_elsewhere: whether the path of the row leads now to another directory than the one in which its change was made; what is to be done then in
# cv_l_why, which is empty where the object is as before in its own directory. Also with --force nothing is written there. The same rule as in
# crates/engine/src/revert/made_in.rs.
cv_undo_is_elsewhere() {
  case ${row_made:--} in -) return 1 ;; esac
  [ "$row_last" != "$row_before" ] || return 1
  cv_dec_to "$row_key"
  cv_l_name=${CV_DEC##*/}
  cv_real_dir_to "$CV_DEC"
  [ "$CV_REAL_DIR" != "$row_made" ] || return 1
  cv_l_now=$CV_REAL_DIR
  cv_dec_to "$row_made"
  cv_l_made=$CV_DEC
  # The directory may have been moved, and its path be a link to it.
  cv_real_dir_to "${cv_l_made%/}/$cv_l_name"
  [ "$CV_REAL_DIR" != "$cv_l_now" ] || return 1
  cv_l_why=
  [ "$row_kind" != path ] || [ "$(cv_line_path "${cv_l_made%/}/$cv_l_name" </dev/null)" != "$row_before" ] || return 0
  cv_dec_to "$cv_l_now"
  cv_l_why="it was changed in $cv_l_made, and its path leads to ${CV_DEC:-nothing} now: lead the link above it back there and undo this again, or restore it there by hand"
}

# cv_undo_lead LINE: where the paths below a path in this state lie: `dir`, or `link:` with where the link leads, else `-`.
# shellcheck disable=SC2086
cv_undo_lead() {
  cv_split_by ' '
  set -- $1
  cv_split_end
  case ${1:-} in
  dir) printf dir ;;
  link) printf '%s' "link:$2" ;;
  *) printf '%s' - ;;
  esac
}

# cv_undo_system LINE: the file system of that line of a mount.
# shellcheck disable=SC2086
cv_undo_system() {
  cv_split_by ' '
  set -- $1
  cv_split_end
  case ${1:-}${5:-} in
  mount-) printf '%s' "$2" ;;
  mount?*) printf '%s' "$5" ;;
  *) printf '%s' - ;;
  esac
}

# cv_undo_note_lead: where the row is the step of a path that its run led elsewhere, and that is back, records it: the paths below are other ones now.
cv_undo_note_lead() {
  [ "$row_kind" = path ] || return 0
  cv_n_left=$row_last
  [ "$cv_n_left" != '?' ] || cv_n_left=$row_after
  [ "$row_before" != "$cv_n_left" ] || return 0
  # An item that puts a link in the place of a directory leads nothing elsewhere.
  case $(cv_undo_lead "$row_before"):$(cv_undo_lead "$cv_n_left"):$row_lost in
  link:*:link:*:* | dir:link:*:'a command'*) ;;
  *) return 0 ;;
  esac
  cv_run_dir
  # Foreign code of this undo has moved it, and its record says so.
  ! cv_journal_has "$CV_DIR/journal" "$row_kind" "$row_key" moved || return 0
  cv_u_seq=$((cv_u_seq + 1))
  cv_journal "moved$CV_TAB$cv_u_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$cv_n_left$CV_TAB$row_before$CV_TAB$row_item$CV_TAB$row_flags$CV_NL"
}
