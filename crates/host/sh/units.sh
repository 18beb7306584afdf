# --- units that are started together, and watched together ---

# cv_units_together: starts the units of several items that stand beside one another, each with its file where that is new. Reads CV_RUN, CV_TOKEN
# (the group's), CV_ROWS (rows SEQ KIND KEY BEFORE AFTER ITEM FLAGS ROLE, those of one item together: of a path, if any, and of its unit),
# CV_WINDOW (as cv_packages_together) and cv_content_SEQ. The steps of an item are taken here for all of them: look, save, journal, files, one
# daemon-reload, starts in order, one watch, look. A unit that does not start or dies while it is watched fails its own item, and the others go on:
# what comes after the group waits for it. Where anything is not as planned, nothing is done or recorded, and all are told as `alone`. Each item's end
# is told as that of an item: `member SEQ`, what an item tells, `ended SEQ STATUS`; cv_g_all as in cv_packages_together. Status 73: not all is as
# planned.
# shellcheck disable=SC2086
cv_units_together() {
  cv_run_dir
  umask 077
  CV_ITEM='' CV_FLAGS=-
  if [ -e "$CV_DIR/moved" ]; then exit 74; fi
  set -f
  IFS=$CV_NL
  cv_y_rows='' cv_v_units=''
  for cv_i_row in $CV_ROWS; do
    case $cv_i_row in
    *"${CV_TAB}path$CV_TAB"*) cv_y_rows=$cv_y_rows$cv_i_row$CV_NL ;;
    *) cv_v_units=$cv_v_units$cv_i_row$CV_NL ;;
    esac
  done
  cv_many_stamps first $cv_y_rows
  cv_item_look cv_watched_now
  cv_many_ready
  cv_phase save
  cv_units_planned && cv_units_save 2>/dev/null || {
    cv_together_alone
    return 73
  }
  cv_together_begin || return
  cv_phase change
  cv_v_bad=$CV_NL cv_v_past=''
  cv_units_start
  cv_phase watch
  cv_units_watch
  cv_phase check
  cv_table now "$(cv_rows_now "$CV_ROWS$CV_WINDOW")"
  cv_g_end=0
  cv_units_record
  cv_g_all=
  cv_journal "$cv_i_text" || cv_g_all=75 cv_g_end=73
  cv_together_each cv_units_tell
  cv_item_window
  [ -z "$cv_g_open" ] || cv_tell ended "$cv_g_open" "$cv_g_ended"
  return $cv_g_end
}

# cv_units_planned: whether all is as planned. Reads the table `before`.
cv_units_planned() {
  cv_y_dirs=$CV_NL
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    case $row_kind in
    path) cv_many_plain || return 1 ;;
    *)
      cv_now_of "$row_seq" before
      [ "$CV_NOW" = "$row_before" ] || return 1
      ;;
    esac
  done
}

# cv_units_save: keeps what the changes replace. Status 1 when something cannot be kept.
cv_units_save() {
  cv_many_marked
  cv_many_save || return 1
  for cv_i_row in $cv_v_units; do
    cv_row "$cv_i_row"
    [ "$row_before" != absent ] || continue
    (
      unset IFS
      set +f
      CV_SAVED=$CV_DIR/saved
      cv_dec_to "$row_key"
      cv_save_unit "$CV_DEC" "$row_before" </dev/null
    ) || return 1
  done
  [ -z "$CV_WINDOW" ] || cv_window_save
}

# cv_units_start: puts the files into their places, and starts the units in order, up to the item whose file could not be put: that one is in
# cv_v_past. What a step says is in cv_said_SEQ; items that failed are in cv_v_bad. Units that are to be watched are in cv_v_watch.
# shellcheck disable=SC2086
cv_units_start() {
  cv_v_watch='' cv_v_since=$(date +%s)
  cv_many_do
  cv_v_why=
  cv_units_enable
  [ -z "$cv_y_rows" ] || cv_v_why=$(cv_reload_units 2>&1) || cv_v_why=${cv_v_why:-systemctl daemon-reload failed}
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    if [ "$row_seq" = "$cv_y_lost" ]; then
      cv_v_past=$row_item
      return 0
    fi
    [ "$row_kind" != path ] || continue
    cv_dec_to "$row_key"
    eval "cv_said_$row_seq=\$cv_v_why"
    cv_v_status=1
    [ -n "$cv_v_why" ] || {
      cv_v_said=$(
        unset IFS
        set +f
        CV_WATCH_LATER=yes
        cv_apply_unit "$CV_DEC" "$row_after" 2>&1 </dev/null
      )
      cv_v_status=$?
      eval "cv_said_$row_seq=\$cv_v_said"
    }
    case $cv_v_status in
    0) ;;
    101) cv_v_watch=$cv_v_watch$cv_i_row$CV_NL ;;
    *) cv_v_bad=$cv_v_bad$row_item$CV_NL ;;
    esac
  done
}

# cv_units_enable: enables the units that come with their files, at once: systemctl would read all unit files again for each. What it cannot enable is
# tried, and told, when its turn comes.
cv_units_enable() {
  set --
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    [ "$row_seq" != "$cv_y_lost" ] || break
    case $row_kind:$row_before:$row_after in unit:absent:'unit enabled '*) ;; *) continue ;; esac
    cv_dec_to "$row_key"
    set -- "$@" "$CV_DEC"
  done
  [ $# -eq 0 ] || systemctl -q --no-reload enable -- "$@" >/dev/null 2>&1
}

# cv_units_watch: watches the units of the rows cv_v_watch, and records with what they run.
cv_units_watch() {
  [ -n "$cv_v_watch" ] || return 0
  set --
  for cv_i_row in $cv_v_watch; do
    cv_row "$cv_i_row"
    cv_dec_to "$row_key"
    set -- "$@" "$CV_DEC"
  done
  cv_units_settled "$@"
  for cv_i_row in $cv_v_watch; do
    cv_row "$cv_i_row"
    cv_dec_to "$row_key"
    case $CV_NL$cv_u_dead in
    *"$CV_NL$CV_DEC$CV_NL"*) cv_v_said=$(cv_unit_report "$CV_DEC" "$cv_v_since" start 2>&1) ;;
    *) cv_v_said=$(cv_unit_record "$CV_DEC" "${row_after##* }" 2>&1) && continue ;;
    esac
    cv_v_bad=$cv_v_bad$row_item$CV_NL
    eval "cv_said_$row_seq=\$cv_v_said"
  done
}

# cv_units_end: how the present row ended, in cv_v_end: failed, putback (it was not begun), done or off. Reads the table `now`.
cv_units_end() {
  cv_now_of "$row_seq" now
  if [ -n "$cv_v_past" ] && [ "$row_item" = "$cv_v_past" ]; then cv_v_over=yes; fi
  if [ -n "$cv_v_over" ]; then
    cv_v_end=putback
    if [ "$row_item" = "$cv_v_past" ] && [ -n "$cv_y_lost_why" ]; then cv_v_end=failed; fi
    return 0
  fi
  case $cv_v_bad in
  *"$CV_NL$row_item$CV_NL"*) cv_v_end=failed ;;
  *) if cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_after"; then cv_v_end=done; else cv_v_end=off; fi ;;
  esac
}

# cv_units_record: the ends of all rows for the journal, in cv_i_text; cv_g_end is 73 when not all is as planned.
cv_units_record() {
  cv_i_text='' cv_v_over=''
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_units_end
    case $cv_v_end in
    putback) CV_NOW=$row_before ;;
    failed) CV_NOW=1$CV_TAB$CV_NOW ;;
    esac
    [ $cv_v_end = done ] || cv_g_end=73
    cv_i_text="$cv_i_text$cv_v_end$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
  done
  cv_v_over=
}

# cv_units_tell: the present row for the controller. The last item's end is told by whoever calls, behind what foreign code changed.
cv_units_tell() {
  cv_units_end
  if [ -n "$row_first" ]; then
    [ -z "$cv_g_open" ] || cv_tell ended "$cv_g_open" "$cv_g_ended"
    cv_g_open=
    if [ $cv_v_end = putback ]; then
      cv_tell alone "$row_first"
      return 0
    fi
    cv_tell member "$row_first"
    cv_g_open=$row_first cv_g_ended=${cv_g_all:-0}
    if [ $cv_v_end = failed ]; then
      cv_g_ended=${cv_g_all:-72}
      [ -z "$cv_v_over" ] || printf '%s\n' "$cv_y_lost_why"
      cv_tell step 1 1
    fi
  fi
  case $cv_v_end in
  putback) ;;
  off)
    cv_g_ended=${cv_g_all:-73}
    cv_tell off "$row_seq" "$CV_NOW"
    ;;
  *)
    eval "cv_v_said=\${cv_said_$row_seq:-}"
    [ $cv_v_end = done ] || [ -z "$cv_v_said" ] || printf '%s\n' "$cv_v_said"
    cv_tell now "$row_seq" "$CV_NOW"
    ;;
  esac
}
