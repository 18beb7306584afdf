# --- neighbouring items of packages in one transaction ---

# cv_packages_together: brings the packages of several items to their states in one transaction of apt. Reads CV_RUN, CV_TOKEN (the group's),
# CV_ROWS (rows SEQ package KEY BEFORE AFTER ITEM FLAGS ROLE, those of one item together) and CV_WINDOW (rows SEQ KIND KEY EXPECTED EXPECTED
# ITEM). What an item does by itself is done here once for all: look, save, journal, change, look. Where anything is not as it was
# planned, nothing is done: all items are told as `alone`, and come again each by itself, where it says what is wrong with it.
# Each item's end is told as that of an item: `member SEQ`, what an item tells, `ended SEQ STATUS`; the status of all, where one holds for all, is in
# cv_g_all. Status 73: not all is as planned.
cv_packages_together() {
  cv_run_dir
  CV_ITEM= CV_FLAGS=-
  if [ -e "$CV_DIR/moved" ]; then exit 74; fi
  set -f
  IFS=$CV_NL
  cv_i_now=$(
    cv_rows_now "$CV_ROWS"
    cv_watched_now
  )
  cv_table before "$cv_i_now"
  [ ! -e "$CV_DIR/watched" ] || rm -f "$CV_DIR/watched"
  set --
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" before
    [ "$CV_NOW" = "$row_before" ] || {
      cv_together_alone
      return 73
    }
    cv_dec_to "$row_key"
    set -- "$@" "$CV_DEC" "$row_after"
  done
  unset IFS
  set +f
  cv_packages_ready "$@" </dev/null >/dev/null 2>&1
  cv_g_status=$?
  set -f
  IFS=$CV_NL
  cv_phase save
  [ $cv_g_status -eq 0 ] && cv_together_save || {
    cv_together_alone
    return 73
  }
  cv_together_begin || return
  unset IFS
  set +f
  cv_phase change
  cv_g_out=$(cv_packages_do 2>&1 </dev/null)
  cv_g_status=$?
  set -f
  IFS=$CV_NL
  cv_phase check
  [ $cv_g_status -ne 70 ] || {
    # apt would do something else: nothing of it was done.
    cv_i_text=
    for cv_i_row in $CV_ROWS; do
      cv_row "$cv_i_row"
      cv_i_text="${cv_i_text}putback$CV_TAB$row_seq$CV_TAB$row_before$CV_NL"
    done
    cv_journal "$cv_i_text"
    cv_together_alone
    return 73
  }
  cv_table now "$(cv_rows_now "$CV_ROWS$CV_WINDOW")"
  cv_together_judge
  cv_together_record
  cv_g_all=
  cv_journal "$cv_i_text" || cv_g_all=75
  cv_together_each cv_together_tell
  cv_item_window
  [ -z "$cv_g_open" ] || cv_tell ended "$cv_g_open" "$cv_g_ended"
  [ -z "$cv_g_all" ] && [ "$cv_g_bad" = "$CV_NL" ] || return 73
}

# cv_together_each HOW: calls HOW for every row; row_first is its own number in the first row of an item, empty in the others.
cv_together_each() {
  cv_g_item= cv_g_open=
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    row_first=
    [ "$row_item" = "$cv_g_item" ] || row_first=$row_seq
    cv_g_item=$row_item
    "$1"
  done
}

# cv_together_begin: writes into the journal that all rows are begun, and which places are open then. Sets cv_i_text. Status 73: it cannot be written,
# and every item is told so.
cv_together_begin() {
  cv_i_text=
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_member_begin
  done
  cv_journal "$cv_i_text" sync && {
    cv_places_note
    return 0
  }
  cv_cause
  cv_enc_to "the journal in $CV_ROOT cannot be written ($CV_CAUSE)"
  cv_g_lost=$CV_ENC
  cv_together_each cv_together_unsaveable
  return 73
}

# cv_together_alone: says of every item of the group that it goes alone.
cv_together_alone() { cv_together_each cv_together_left; }
# cv_together_left: says of the item in row_first that it goes alone.
cv_together_left() { [ -z "$row_first" ] || cv_tell alone "$row_first"; }

# cv_together_unsaveable: says of the item in row_first that cv_g_lost cannot be kept.
cv_together_unsaveable() {
  [ -n "$row_first" ] || return 0
  cv_tell member "$row_first"
  cv_tell unsaveable - "$cv_g_lost"
  cv_tell ended "$row_first" 71
}

# cv_together_save: keeps what the changes replace. Status 1 when something cannot be kept. Reads the table `before`.
cv_together_save() {
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" before
    case $CV_NOW in absent | '! '*) continue ;; esac
    (
      unset IFS
      set +f
      CV_SAVED=$CV_DIR/saved CV_AFTER=$row_after
      cv_dec_to "$row_key"
      "cv_save_$row_kind" "$CV_DEC" "$CV_NOW" </dev/null >/dev/null 2>&1
    ) || return 1
  done
  [ -z "$CV_WINDOW" ] || cv_window_save
}

# cv_together_judge: which items are not as planned, in cv_g_bad, and the one that says why, in cv_g_cause: one with a package that is half
# done, rather than one whose packages wait for it. Reads the table `now`.
# shellcheck disable=SC2086
cv_together_judge() {
  cv_g_bad=$CV_NL cv_g_cause= cv_g_half=
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" now
    cv_g_top=${cv_g_top:-$row_item}
    ! cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_after" || continue
    case $cv_g_bad in *"$CV_NL$row_item$CV_NL"*) ;; *) cv_g_bad=$cv_g_bad$row_item$CV_NL ;; esac
    cv_g_cause=${cv_g_cause:-$row_item}
    case $CV_NOW in 'broken half-'*) cv_g_half=${cv_g_half:-$row_item} ;; esac
  done
  cv_g_cause=${cv_g_half:-$cv_g_cause}
  # All is there, and apt failed: at something that is nobody's here.
  if [ $cv_g_status -ne 0 ] && [ -z "$cv_g_cause" ]; then cv_g_cause=$cv_g_top cv_g_bad=$CV_NL$cv_g_top$CV_NL; fi
}

# cv_together_record: the ends of all rows for the journal, in cv_i_text.
# shellcheck disable=SC2086
cv_together_record() {
  cv_i_text=
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" now
    case $cv_g_bad in
    *"$CV_NL$row_item$CV_NL"*)
      if [ $cv_g_status -ne 0 ]; then
        cv_i_text="${cv_i_text}failed$CV_TAB$row_seq$CV_TAB$cv_g_status$CV_TAB$CV_NOW$CV_NL"
        continue
      fi
      ;;
    esac
    cv_i_end=off
    ! cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_after" || cv_i_end=done
    cv_i_text="$cv_i_text$cv_i_end$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
  done
}

# cv_together_tell: one row for the controller. The last item's end is told by whoever calls, behind what foreign code changed.
# shellcheck disable=SC2086
cv_together_tell() {
  cv_now_of "$row_seq" now
  if [ -n "$row_first" ]; then
    [ -z "$cv_g_open" ] || cv_tell ended "$cv_g_open" "$cv_g_ended"
    cv_tell member "$row_first"
    cv_g_open=$row_first cv_g_ended=${cv_g_all:-0}
    case $cv_g_bad in
    *"$CV_NL$row_item$CV_NL"*)
      cv_g_ended=73
      if [ $cv_g_status -ne 0 ]; then
        cv_g_ended=72
        cv_tell step 1 "$cv_g_status"
      fi
      ;;
    esac
    case $cv_g_ended:$row_item in
    *:"${cv_g_cause:-$cv_g_top}") printf '%s\n' "$cv_g_out" ;;
    72:*)
      cv_dec_to "$cv_g_cause"
      printf '%s\n' "not done: its transaction failed at $CV_DEC, which says why"
      ;;
    esac
    cv_g_ended=${cv_g_all:-$cv_g_ended}
  fi
  if cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_after" || [ "$cv_g_ended" = 72 ]; then
    cv_tell now "$row_seq" "$CV_NOW"
  else
    cv_tell off "$row_seq" "$CV_NOW"
  fi
}
