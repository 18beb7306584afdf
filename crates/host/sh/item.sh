# --- an item of a run: checked, saved, written into the journal, changed, looked at again ---

# cv_tell WORD...: one line for the controller.
cv_tell() {
  printf 'cv:%s' "${CV_TOKEN:-}"
  for cv_t_word; do printf '\t%s' "$cv_t_word"; done
  printf '\n'
}

# cv_rows_now ROWS: the present line of each row (SEQ KIND KEY ...), as SEQ LINE; the objects of one kind are looked at
# together. An object that cannot be read has the line `! REASON`. With CV_TELL_SAFE also `safe DIRECTORY` for those above the paths that
# are, and `at SEQ PATH` with the real path of an object to which links lead. The caller is a subshell.
cv_rows_now() {
  set -f
  rows=$1 kinds=
  IFS=$CV_NL
  for row in $rows; do
    kind=${row#*"$CV_TAB"}
    kind=${kind%%"$CV_TAB"*}
    case "$CV_NL$kinds" in *"$CV_NL$kind$CV_NL"*) ;; *) kinds=$kinds$kind$CV_NL ;; esac
  done
  for kind in $kinds; do
    set --
    seqs=
    for row in $rows; do
      case $row in
      *"$CV_TAB$kind$CV_TAB"*)
        rest=${row#*"$CV_TAB"}
        [ "${rest%%"$CV_TAB"*}" = "$kind" ] || continue
        rest=${rest#*"$CV_TAB"}
        cv_dec_to "${rest%%"$CV_TAB"*}"
        set -- "$@" "$CV_DEC"
        seqs=$seqs${row%%"$CV_TAB"*}$CV_NL
        ;;
      esac
    done
    unset IFS
    case $kind in
    path)
      answer=$(
        cv_path_look "$@"
        [ -n "${CV_TELL_SAFE:-}" ] || exit 0
        set -f
        IFS=$CV_NL
        for dir in $CV_SAFE; do printf 'safe %s\n' "$dir"; done
      )
      ;;
    *) answer=$("cv_see_$kind" "$@" </dev/null) ;;
    esac
    IFS=$CV_NL
    for line in $answer; do
      case $line in
      'safe '*)
        printf '%s\n' "$line"
        continue
        ;;
      '! '*) ;;
      *)
        # Links led there: the answer has the real path.
        case ${CV_TELL_SAFE:+$kind}:${line%% *} in path:*=*)
          real=${line%% *}
          printf 'at %s %s\n' "${seqs%%"$CV_NL"*}" "${real#*=}"
          ;;
        esac
        line=${line#* }
        ;;
      esac
      printf '%s\t%s\n' "${seqs%%"$CV_NL"*}" "$line"
      seqs=${seqs#*"$CV_NL"}
    done
    for seq in $seqs; do printf '%s\t! no-answer\n' "$seq"; done
    case ${CV_TELL_SAFE:+$kind} in git | mount | path | swap) cv_real_tell "$kind" ;; esac
  done
}

# cv_row ROW: its fields in row_seq, row_kind, row_key (encoded), row_before, row_after, and those that only cv_undo_rows gives.
# shellcheck disable=SC2086
cv_row() {
  cv_split_by "$CV_TAB"
  set -- $1
  cv_split_end
  row_seq=$1 row_kind=$2 row_key=$3 row_before=$4 row_after=$5 row_item=${6:-} row_last=${7:-} row_lost=${8:-} row_open=${9:-} row_flags=${10:-} row_led=${11:-} row_made=${12:-}
}

# cv_table NAME TABLE: keeps the output of cv_rows_now under this name, for cv_now_of.
# shellcheck disable=SC2086
cv_table() {
  cv_b_name=$1
  cv_split_by "$CV_NL"
  set -- $2
  cv_split_end
  for cv_b_line; do
    cv_b_seq=${cv_b_line%%"$CV_TAB"*}
    case $cv_b_seq in '' | *[!0-9]*) continue ;; esac
    eval "cv_now_${cv_b_name}_$cv_b_seq=\${cv_b_line#*\"\$CV_TAB\"}"
  done
}

# cv_now_of SEQ NAME: the line of that row in the table, in CV_NOW.
cv_now_of() {
  case $1 in
  '' | *[!0-9]*) CV_NOW= ;;
  *) eval "CV_NOW=\${cv_now_${2}_$1:-}" ;;
  esac
}

# cv_same KIND KEY FOUND WANTED: whether the one stands for the other.
cv_same() {
  [ "$3" = "$4" ] && return 0
  command -v "cv_same_$1" >/dev/null 2>&1 && "cv_same_$1" "$2" "$3" "$4"
}

# cv_item_look WATCHED: what the rows CV_ROWS and what WATCHED says show now, in the table `before`; knows the safe directories among them. An earlier
# window is over then. Sets cv_i_now.
cv_item_look() {
  cv_i_now=$(
    CV_TELL_SAFE=yes
    cv_rows_now "$CV_ROWS"
    CV_TELL_SAFE=
    "$1"
  )
  cv_table before "$cv_i_now"
  cv_real_table
  cv_item_safe
  [ ! -e "$CV_DIR/watched" ] || rm -f "$CV_DIR/watched"
}

# cv_item_turned FROM TO: the keys (encoded) of the paths that the rows CV_ROWS turn from a `dir` or `link` into the other, in cv_i_turned, each on a line.
cv_item_turned() {
  cv_i_turned=
  case $CV_ROWS in *"$CV_TAB$1 "*"$CV_TAB$2 "*) ;; *) return 0 ;; esac
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    case $row_kind:$row_before:$row_after in "path:$1 "*":$2 "*) cv_i_turned=$cv_i_turned$row_key$CV_NL ;; esac
  done
}

# cv_item_seen TABLE LINE: the line of the row in that table, in CV_NOW; LINE of a path that is seen through a link among cv_i_turned (the first of these is in
# cv_i_behind): another object goes by its name.
cv_item_seen() {
  cv_i_behind=
  cv_now_of "$row_seq" "$1"
  [ "$row_kind" = path ] && [ -n "$cv_i_turned" ] || return 0
  cv_dec_to "$row_key"
  cv_i_path=$CV_DEC
  for cv_i_link in $cv_i_turned; do
    cv_dec_to "$cv_i_link"
    case $cv_i_path in "$CV_DEC"/*) CV_NOW=$2 ;; *) continue ;; esac
    case ${cv_i_behind:-$CV_DEC/}/ in "$CV_DEC"/*) cv_i_behind=$CV_DEC ;; esac
  done
}

# cv_item_may_begin: whether the item may begin although the row was planned from another state than CV_NOW. Reads CV_NOW and the row (see cv_row).
cv_item_may_begin() {
  case " $row_before " in
  # A part that an earlier item of the run has left open is known by now.
  *' ~ '*) cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_before" ;;
  *) command -v "cv_from_any_$row_kind" >/dev/null 2>&1 && "cv_from_any_$row_kind" "$row_after" "$CV_NOW" ;;
  esac
}

# cv_item_begin: before an item's steps. Reads CV_RUN, CV_TOKEN, CV_ITEM (encoded address), CV_FLAGS, CV_ROWS (rows
# SEQ KIND KEY BEFORE AFTER), CV_REMARKS (lines of the journal that belong to them), CV_MADE_AT (see cv_real_check)
# and CV_WINDOW (rows SEQ KIND KEY EXPECTED EXPECTED). Checks every row against the host, saves what the changes replace,
# and writes the journal, all before the first change. It ends the item's shell with
# 70 when an object is not as planned, 71 when it cannot save, 74 when an earlier item moved what was planned on.
cv_item_begin() {
  cv_run_dir
  if [ -e "$CV_DIR/moved" ]; then exit 74; fi
  set -f
  IFS=$CV_NL
  cv_item_look cv_watched_now
  cv_i_bad=
  cv_item_turned link dir
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_item_seen before "$row_before"
    [ "$CV_NOW" = "$row_before" ] || cv_item_may_begin || {
      cv_i_bad=yes
      cv_tell refused "$row_seq" "$CV_NOW"
    }
  done
  [ -z "${CV_MADE_AT:-}" ] || cv_real_check
  [ -z "$cv_i_bad" ] || exit 70
  cv_phase save
  cv_i_text=
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_item_seen before "$row_before"
    case $CV_NOW in absent | '! '*) cv_i_status=0 ;;
    *)
      cv_i_why=$(
        unset IFS
        set +f
        CV_SAVED=$CV_DIR/saved CV_AFTER=$row_after
        cv_dec_to "$row_key"
        "cv_save_$row_kind" "$CV_DEC" "$CV_NOW" 2>&1 </dev/null
      )
      cv_i_status=$?
      ;;
    esac
    # The state that was found comes back: the planned one may have an open part.
    cv_i_text="${cv_i_text}begin$CV_TAB$row_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$CV_NOW$CV_TAB$row_after$CV_TAB$CV_ITEM$CV_TAB${CV_FLAGS:--}$CV_NL"
    cv_real_note
    case $cv_i_status in
    0) ;;
    3)
      cv_enc_to "$cv_i_why"
      cv_i_text="${cv_i_text}unsaved$CV_TAB$row_seq$CV_TAB$CV_ENC$CV_NL"
      cv_tell unsaved "$row_seq" "$CV_ENC"
      ;;
    *)
      cv_enc_to "$cv_i_why"
      cv_tell unsaveable "$row_seq" "$CV_ENC"
      exit 71
      ;;
    esac
  done
  [ -z "$CV_WINDOW" ] || cv_window_save
  for cv_i_row in ${CV_REMARKS:-}; do cv_i_text="$cv_i_text$cv_i_row$CV_NL"; done
  cv_journal "$cv_i_text" sync || {
    cv_cause
    cv_enc_to "the journal in $CV_ROOT cannot be written ($CV_CAUSE)"
    cv_tell unsaveable - "$CV_ENC"
    exit 71
  }
  cv_places_note
  unset IFS
  set +f
  cv_phase change
}

# cv_member_begin: the lines with which the journal begins the present row of a group, added to cv_i_text.
cv_member_begin() {
  cv_i_text="${cv_i_text}begin$CV_TAB$row_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$row_before$CV_TAB$row_after$CV_TAB$row_item$CV_TAB$row_last$CV_NL"
  [ "$row_lost" = - ] || cv_i_text="${cv_i_text}owns$CV_TAB$row_seq$CV_TAB$row_lost$CV_NL"
}

# cv_item_safe: the steps of this item need not look again at what is above its paths, unless one of them gives a directory away.
# Reads cv_i_now and CV_ROWS, split at newlines.
cv_item_safe() {
  CV_SAFE=$CV_NL
  for cv_i_row in $CV_ROWS; do
    case ${cv_i_row##*"$CV_TAB"} in
    'dir '*[0145][0145]' root '*) ;;
    'dir '*) return 0 ;;
    esac
  done
  for cv_i_row in $cv_i_now; do
    case $cv_i_row in 'safe '*) CV_SAFE=$CV_SAFE${cv_i_row#safe }$CV_NL ;; esac
  done
}

# cv_journal TEXT [sync]
cv_journal() {
  # Who calls says what it means that the disk is full.
  { printf %s "$1" >>"$CV_DIR/journal"; } 2>/dev/null || {
    cv_journal_whole "$CV_DIR/journal"
    return 1
  }
  [ -z "${2:-}" ] || sync "$CV_DIR/journal" 2>/dev/null || sync
}

# The guard of a command may take a second. What an item saw of what is watched when it ended is what the next one finds, this
# many seconds long: no code of converge runs between them. What an item changes itself is always looked at again.
CV_WATCHED_SECONDS=3

# cv_watched_clock: this boot and the seconds since, in cv_w_clock.
cv_watched_clock() {
  read -r cv_w_boot </proc/sys/kernel/random/boot_id
  cv_switch_clock
  cv_w_clock=$cv_w_boot$CV_TAB$CV_UPTIME
}

# cv_watched_now: cv_rows_now of CV_WINDOW.
cv_watched_now() {
  [ -n "$CV_WINDOW" ] || return 0
  cv_watched_clock
  [ -r "$CV_DIR/watched" ] && printf %s "$CV_WINDOW" | awk -F '\t' -v clock="$cv_w_clock" -v seconds="$CV_WATCHED_SECONDS" '
    NR == 1 { split(clock, now, FS); if ($1 != now[1] || now[2] - $2 > seconds) { lacks = 1; exit }; next }
    NR == FNR { line[$1 FS $2] = $3; next }
    !(($2 FS $3) in line) { lacks = 1; exit }
    { out = out $1 FS line[$2 FS $3] "\n" }
    END { if (lacks) exit 1; printf "%s", out }' "$CV_DIR/watched" - || cv_rows_now "$CV_WINDOW"
}

# cv_item_window: tells what foreign code changed, and has the rest of the stretch look again. Reads the tables `before` and `now`. A row of
# CV_WINDOW may name the item that it is recorded for, and its flags.
cv_item_window() {
  [ -n "$CV_WINDOW" ] || return 0
  cv_watched_clock
  cv_i_text=$cv_w_clock$CV_NL
  cv_item_places
  for cv_i_row in $CV_WINDOW; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" before
    cv_i_was=$CV_NOW
    cv_now_of "$row_seq" now
    cv_tell window "$row_kind" "$row_key" "$cv_i_was" "$CV_NOW"
    # A fact is no object: nothing of it is saved, and only that it moves counts.
    if [ "$row_kind" = fact ]; then
      [ "$cv_i_was" = "$CV_NOW" ] || { true >"$CV_DIR/moved"; } 2>/dev/null
      cv_i_text=$cv_i_text$row_kind$CV_TAB$row_key$CV_TAB$CV_NOW$CV_NL
      continue
    fi
    case $CV_ELSEWHERE in *"$CV_NL$row_seq$CV_NL"*) cv_i_was=$CV_NOW ;; esac
    if [ "$cv_i_was" != "$CV_NOW" ]; then
      cv_journal "moved$CV_TAB$row_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$cv_i_was$CV_TAB$CV_NOW$CV_TAB${row_item:-$CV_ITEM}$CV_TAB${row_flags:-${CV_FLAGS:--}}$CV_NL"
    fi
    [ "$CV_NOW" = "$row_after" ] || { true >"$CV_DIR/moved"; } 2>/dev/null
    cv_i_text=$cv_i_text$row_kind$CV_TAB$row_key$CV_TAB$CV_NOW$CV_NL
  done
  { printf %s "$cv_i_text" >"$CV_DIR/watched"; } 2>/dev/null || rm -f "$CV_DIR/watched"
}

# cv_item_failed STEP STATUS: a step of the item failed.
cv_item_failed() {
  cv_phase check
  set -f
  IFS=$CV_NL
  cv_table now "$(cv_rows_now "$CV_ROWS$CV_WINDOW")"
  cv_i_text=
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" now
    cv_tell now "$row_seq" "$CV_NOW"
    cv_i_text="${cv_i_text}failed$CV_TAB$row_seq$CV_TAB$2$CV_TAB$CV_NOW$CV_NL"
  done
  cv_journal "$cv_i_text"
  cv_item_window
  cv_tell step "$1" "$2"
  # A step that ends with 70 has refused before it changed anything.
  [ "$2" -ne 70 ] || exit 70
  exit 72
}

# cv_item_end: after the steps. Status 73 when an object is not as planned, 75 when the journal cannot say how it ended.
cv_item_end() {
  cv_phase check
  set -f
  IFS=$CV_NL
  cv_table now "$(cv_rows_now "$CV_ROWS$CV_WINDOW")"
  cv_i_text= cv_i_bad=0
  cv_item_turned dir link
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    cv_item_seen now "$row_after"
    if cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_after"; then
      cv_tell now "$row_seq" "$CV_NOW"
      cv_i_text="${cv_i_text}done$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
    else
      cv_tell off "$row_seq" "$CV_NOW"
      cv_i_text="${cv_i_text}off$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
      cv_i_bad=73
    fi
  done
  cv_journal "$cv_i_text" || cv_i_bad=75
  cv_item_window
  return $cv_i_bad
}

# cv_stage SHA256 <CONTENT: keeps content for a later piece of the same item.
cv_stage() (
  umask 077
  cv_run_dir
  dir=$CV_DIR/stage
  mkdir -p "$dir" && cat >"$dir/$1"
)

# cv_resume: the controller has looked again.
cv_resume() {
  cv_run_dir
  rm -f "$CV_DIR/moved"
}
