# --- many new files at once ---

# cv_many: makes new files, for whose items all of this was sent as one. Reads CV_RUN, CV_TOKEN (the group's), CV_RIGHTS (MODE OWNER GROUP,
# encoded as in a state), CV_ROWS (rows SEQ KIND KEY BEFORE AFTER ITEM FLAGS ROLE, all of paths from `absent` to a file) and cv_content_SEQ.
# The phases that one item goes through are done here for all: look, journal, temporary files, look. Each file is still renamed into its place
# by itself. Only what is as plain as it was planned is begun. The rest is told as `alone`: nothing of it is done or recorded, and it
# comes again as an item of its own. Status 73: not all is made. Each file's end is told as that of an item: `member SEQ`, what an item tells, `ended SEQ STATUS`.
# shellcheck disable=SC2086
cv_many() {
  cv_run_dir
  umask 077
  if [ -e "$CV_DIR/moved" ]; then exit 74; fi
  set -f
  IFS=$CV_NL
  cv_i_now=$(
    CV_TELL_SAFE=yes
    cv_rows_now "$CV_ROWS"
  )
  cv_table before "$cv_i_now"
  cv_item_safe
  [ ! -e "$CV_DIR/watched" ] || rm -f "$CV_DIR/watched"
  cv_i_text= cv_y_rows= cv_y_end=0
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" before
    cv_dec_to "$row_key"
    cv_y_dir=${CV_DEC%/*}
    # Nothing is there, and its directory is one that only root can change. What comes after another kind of row may stand on it.
    [ $cv_y_end -eq 0 ] || CV_NOW=after
    case $CV_NOW:$CV_SAFE in absent:*"$CV_NL${cv_y_dir:-/}$CV_NL"*) ;; *) cv_y_dir= ;; esac
    [ -n "$cv_y_dir" ] && [ -d "$cv_y_dir/" ] || {
      cv_tell alone "$row_seq"
      cv_y_end=73
      continue
    }
    cv_y_rows=$cv_y_rows$cv_i_row$CV_NL
    cv_i_text="${cv_i_text}begin$CV_TAB$row_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$row_before$CV_TAB$row_after$CV_TAB$row_item$CV_TAB$row_last$CV_NL"
    [ "$row_lost" = - ] || cv_i_text="${cv_i_text}owns$CV_TAB$row_seq$CV_TAB$row_lost$CV_NL"
  done
  [ -n "$cv_y_rows" ] || return 73
  cv_journal "$cv_i_text" sync || {
    cv_enc_to "the journal in $CV_ROOT cannot be written: is the disk full?"
    for cv_i_row in $cv_y_rows; do
      cv_row "$cv_i_row"
      cv_tell member "$row_seq"
      cv_tell unsaveable - "$CV_ENC"
      cv_tell ended "$row_seq" 71
    done
    return 73
  }
  cv_y_new= cv_y_lost= cv_y_lost_why=
  trap cv_many_clean EXIT
  trap 'exit 1' HUP INT TERM
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    cv_many_write || break
  done
  cv_many_finish $cv_y_new
  cv_table now "$(cv_rows_now "$cv_y_rows")"
  cv_many_end
}

# cv_many_name KEY: the path in CV_DEC, and its temporary file in CV_NEW: as cv_path_new names it, so that it is swept when a run is cut off.
cv_many_name() {
  cv_dec_to "$1"
  CV_NEW=${CV_DEC%/*}/.${CV_DEC##*/}.cv-$$
}

# cv_many_write: the temporary file of this row, whose name goes to cv_y_new. It is 0600 and was not there before.
cv_many_write() {
  cv_many_name "$row_key"
  set -C
  if printf '' 2>/dev/null >"$CV_NEW"; then
    set +C
    cv_y_new=$cv_y_new$CV_NEW$CV_NL
    eval "printf %s \"\$cv_content_$row_seq\"" 2>/dev/null >"$CV_NEW" && return 0
  fi
  set +C
  cv_y_lost=$row_seq
  cv_y_lost_why=$(cv_path_refused "$CV_DEC" "$CV_DEC" 2>&1) || cv_y_lost_why="$CV_DEC: cannot write its content (is the disk full?)"
  return 1
}

# cv_many_finish FILE...: checks these, sets their owner and mode, and puts each in its place. IFS is a newline.
# shellcheck disable=SC2086
cv_many_finish() {
  [ $# -gt 0 ] || return 0
  cv_y_sums=$(sha256sum -- "$@")
  cv_y_why=
  cv_split_by ' '
  set -- $CV_RIGHTS "$@"
  cv_split_end
  cv_y_mode=$1
  cv_dec_to "$2"
  cv_y_owner=$CV_DEC
  cv_dec_to "$3"
  cv_y_owner=$cv_y_owner:$CV_DEC
  shift 3
  cv_y_ours=yes
  for cv_y_file; do [ -O "$cv_y_file" ] && [ -G "$cv_y_file" ] || cv_y_ours=; done
  if [ "$cv_y_owner" != "$CV_ME" ] || [ -z "$cv_y_ours" ]; then cv_y_why=$(chown "$cv_y_owner" -- "$@" 2>&1); fi &&
    cv_y_why=$(chmod "0000$cv_y_mode" -- "$@" 2>&1) || cv_y_why="${cv_y_why:-owner and mode cannot be set}"
  # A sync that takes no files has synced the journal as a whole before.
  cv_y_said=$(sync -- "$@" 2>&1) || {
    if sync -- "$CV_DIR/journal" 2>/dev/null; then
      cv_y_why=${cv_y_why:-"cannot write the content: $cv_y_said"}
    else
      sync
    fi
  }
  set -- $cv_y_sums
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    [ "$cv_y_lost" != "$row_seq" ] || return 0
    cv_many_name "$row_key"
    # sha256sum marks a name that it had to escape with a leading backslash.
    cv_y_sum=${1#\\}
    [ $# -eq 0 ] || shift
    if [ -n "$cv_y_why" ]; then
      cv_y_said=$cv_y_why
    elif [ "${cv_y_sum%% *}" != "${row_after##* }" ]; then
      cv_y_said="$CV_DEC: the content came through damaged: SHA-256 ${cv_y_sum%% *} instead of ${row_after##* }"
    elif [ -e "$CV_DEC" ] || [ -L "$CV_DEC" ]; then
      cv_y_said="$CV_DEC: somebody else has made it just now: left alone"
    else
      cv_y_said=$(mv -f "$CV_NEW" "$CV_DEC" 2>&1) && continue
      cv_y_said=${cv_y_said:-"$CV_DEC: cannot be made"}
    fi
    cv_y_lost=$row_seq cv_y_lost_why=$cv_y_said
    return 0
  done
}

# cv_many_end: journal and answers. Reads the table `now`. What comes after the one that failed was not made: it is
# recorded as put back. What another user has made meanwhile is not recorded: a rollback would take it for ours.
# shellcheck disable=SC2086
cv_many_end() {
  cv_i_text= cv_y_past=
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" now
    if [ -n "$cv_y_past" ]; then
      cv_i_text="${cv_i_text}putback$CV_TAB$row_seq$CV_TAB$row_before$CV_NL"
    elif [ "$row_seq" = "$cv_y_lost" ]; then
      cv_y_past=yes cv_y_end=73
      [ "$CV_NOW" = "$row_after" ] || CV_NOW=$row_before
      cv_i_text="${cv_i_text}failed$CV_TAB$row_seq${CV_TAB}1$CV_TAB$CV_NOW$CV_NL"
    elif [ "$CV_NOW" = "$row_after" ]; then
      cv_i_text="${cv_i_text}done$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
    else
      cv_y_end=73
      cv_i_text="${cv_i_text}off$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
    fi
  done
  cv_y_all=
  cv_journal "$cv_i_text" || cv_y_all=75 cv_y_end=73
  cv_y_past=
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" now
    if [ -n "$cv_y_past" ]; then
      cv_tell alone "$row_seq"
      continue
    fi
    cv_tell member "$row_seq"
    cv_y_status=0
    if [ "$row_seq" = "$cv_y_lost" ]; then
      cv_y_past=yes cv_y_status=72
      printf '%s\n' "$cv_y_lost_why"
      cv_tell now "$row_seq" "$CV_NOW"
      cv_tell step 1 1
    elif [ "$CV_NOW" = "$row_after" ]; then
      cv_tell now "$row_seq" "$CV_NOW"
    else
      cv_y_status=73
      cv_tell off "$row_seq" "$CV_NOW"
    fi
    cv_tell ended "$row_seq" "${cv_y_all:-$cv_y_status}"
  done
  return $cv_y_end
}

# cv_many_clean: removes temporary files that were not renamed. The shell of the group ends.
cv_many_clean() {
  set -f
  IFS=$CV_NL
  for cv_y_file in $cv_y_new; do [ ! -f "$cv_y_file" ] || rm -f "$cv_y_file"; done
}
