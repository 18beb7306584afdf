# --- an item of a run: checked, saved, written into the journal, changed, looked at again ---

# cv_tell WORD...: one line for the controller.
cv_tell() {
  printf 'cv:%s' "${CV_TOKEN:-}"
  for cv_t_word; do printf '\t%s' "$cv_t_word"; done
  printf '\n'
}

# cv_rows_now ROWS: the present line of each row (SEQ KIND KEY ...), as SEQ LINE; the objects of one kind are looked at
# together. An object that cannot be read has the line `! REASON`. With CV_TELL_SAFE also `safe DIRECTORY` for those above the paths that
# are. The caller is a subshell.
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
      *) line=${line#* } ;;
      esac
      printf '%s\t%s\n' "${seqs%%"$CV_NL"*}" "$line"
      seqs=${seqs#*"$CV_NL"}
    done
    for seq in $seqs; do printf '%s\t! no-answer\n' "$seq"; done
  done
}

# cv_row ROW: its fields in row_seq, row_kind, row_key (encoded), row_before, row_after, and those that only cv_undo_rows gives.
# shellcheck disable=SC2086
cv_row() {
  cv_split_by "$CV_TAB"
  set -- $1
  cv_split_end
  row_seq=$1 row_kind=$2 row_key=$3 row_before=$4 row_after=$5 row_item=${6:-} row_last=${7:-} row_lost=${8:-} row_open=${9:-} row_flags=${10:-} row_led=${11:-}
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

# cv_item_seen TABLE LINE: the line of the row in that table, in CV_NOW; LINE of a path that is seen through a link among cv_i_turned: another object goes
# by its name.
cv_item_seen() {
  cv_now_of "$row_seq" "$1"
  [ "$row_kind" = path ] && [ -n "$cv_i_turned" ] || return 0
  cv_dec_to "$row_key"
  cv_i_path=$CV_DEC
  for cv_i_link in $cv_i_turned; do
    cv_dec_to "$cv_i_link"
    case $cv_i_path in "$CV_DEC"/*) CV_NOW=$2 ;; esac
  done
}

# cv_item_begin: before an item's steps. Reads CV_RUN, CV_TOKEN, CV_ITEM (encoded address), CV_FLAGS, CV_ROWS (rows
# SEQ KIND KEY BEFORE AFTER), CV_REMARKS (lines of the journal that belong to them) and CV_WINDOW (rows SEQ KIND KEY EXPECTED EXPECTED). Checks every row against the host,
# saves what the changes replace, and writes the journal, all before the first change. It ends the item's shell with
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
    # A part that an earlier item of the run has left open (`~`) is known by now.
    [ "$CV_NOW" = "$row_before" ] || case " $row_before " in *' ~ '*) cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_before" ;; *) false ;; esac || {
      cv_i_bad=yes
      cv_tell refused "$row_seq" "$CV_NOW"
    }
  done
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

# cv_places_note: writes down what is mounted, and which directories and links are above what is watched, before foreign code runs.
cv_places_note() {
  [ -n "$CV_WINDOW" ] || return 0
  { cat "$CV_MOUNTINFO" >"$CV_DIR/mounts" && cv_links_above >"$CV_DIR/links"; } 2>/dev/null || rm -f "$CV_DIR/mounts" "$CV_DIR/links"
}

# cv_place_line KIND PATH: the state of the object there. The fields of rows are split otherwise.
cv_place_line() (
  unset IFS
  set +f
  "cv_line_$1" "$2" </dev/null
)

# cv_links_above: what is above what is watched, each with its state. What is above only since a link leads there has the directory behind its state
# from which it does so.
cv_links_above() {
  cv_m_rows=$(printf '%s' "$CV_WINDOW" | awk -F '\t' '
    function up(path) { sub(/\/[^\/]*$/, "", path); return path }
    $2 ~ /^(path|git|swap|mount)$/ && $3 ~ /^\// {
      for (at = up($3); at != "" && !(at in seen); at = up(at)) { seen[at]; print ++n "\tpath\t" at }
    }' -)
  cv_m_ways=$(for cv_m_row in $cv_m_rows; do cv_way_through "${cv_m_row##*"$CV_TAB"}"; done)
  cv_m_rows=$cv_m_rows$CV_NL$(printf '%s\n' "$cv_m_ways" | awk -F '\t' 'NF == 4 && !($2 in seen) { seen[$2]; print 900000 + ++n "\tpath\t" $2 }')
  { printf '%s\n' "$cv_m_ways" "$cv_m_rows" && (cv_rows_now "$cv_m_rows"); } | awk -F '\t' '
    NF == 4 { from[$2] = from[$2] FS $3; next }
    NF == 3 { at[$1] = $3; next }
    !($1 in at) || $2 ~ /^!/ { next }
    $1 < 900000 { print at[$1] FS $2; next }
    { n = split(from[at[$1]], dirs, FS); for (i = 2; i <= n; i++) print at[$1] FS $2 FS dirs[i] }' -
}

# cv_way_through DIR: what is above this directory and not by its name, since a link leads there: a line of four fields each, with it.
cv_way_through() {
  cv_t_todo=${1#/} cv_t_at='' cv_t_left=40
  while [ -n "$cv_t_todo" ]; do
    cv_t_name=${cv_t_todo%%/*}
    case $cv_t_todo in */*) cv_t_todo=${cv_t_todo#*/} ;; *) cv_t_todo='' ;; esac
    case $cv_t_name in
    '' | .) continue ;;
    ..)
      cv_t_at=${cv_t_at%/*}
      continue
      ;;
    esac
    cv_t_link=$cv_t_at/$cv_t_name
    case $1/ in
    "$cv_t_link"/*) ;;
    *)
      cv_enc_to "$cv_t_link"
      [ "$CV_ENC" != "$cv_t_link" ] || printf 'way\t%s\t%s\t-\n' "$cv_t_link" "$1"
      ;;
    esac
    [ -L "$cv_t_link" ] || {
      cv_t_at=$cv_t_link
      continue
    }
    cv_t_left=$((cv_t_left - 1))
    [ "$cv_t_left" -gt 0 ] || return 0
    cv_t_to=$(readlink "$cv_t_link") || return 0
    case $cv_t_to in /*) cv_t_at='' ;; esac
    cv_t_todo=$cv_t_to/$cv_t_todo
  done
}

# cv_links_moved: the links whose state is another one now, and what is a link now and was none, in cv_m_links: PATH, the state before, the present
# one, and the directory from which links lead there, if any.
cv_links_moved() {
  cv_m_links=
  [ -s "$CV_DIR/links" ] || return 0
  while IFS=$CV_TAB read -r cv_m_at cv_m_was cv_m_from; do
    case $cv_m_was in 'link '*) ;; *) [ -L "$cv_m_at" ] || continue ;; esac
    cv_m_now=$(cv_place_line path "$cv_m_at")
    [ "$cv_m_was" = "$cv_m_now" ] || cv_m_links=$cv_m_links$cv_m_at$CV_TAB$cv_m_was$CV_TAB$cv_m_now$CV_TAB$cv_m_from$CV_NL
  done <"$CV_DIR/links"
}

# cv_item_places: records the file systems that foreign code has mounted or unmounted above what is watched, and the links there that it has led
# elsewhere. A path below such a place is another object now; the numbers of those rows, each in a line, are in CV_ELSEWHERE. None of them is recorded
# itself, so that a place takes the number of one.
cv_item_places() {
  CV_ELSEWHERE=$CV_NL
  [ -r "$CV_DIR/mounts" ] || return 0
  cv_links_moved
  cv_m_rows=$({
    printf '%s' "$cv_m_links" | sed "s/^/link$CV_TAB/"
    printf '%s' "$CV_WINDOW"
  } | awk -F '\t' -v before="$CV_DIR/mounts" -v now="$CV_MOUNTINFO" '
    function up(path) { sub(/\/[^\/]*$/, "", path); return path }
    function read(file, ids,  line, f) { while ((getline line < file) > 0) { split(line, f, " "); ids[f[5]] = ids[f[5]] " " f[1] } }
    function take(kind, at) {
      below = 1
      if ((kind, at) in number || $1 in used) return
      number[kind, at] = $1; item[kind, at] = $6; used[$1]
    }
    BEGIN {
      read(before, was); read(now, is)
      for (at in was) if (was[at] != is[at]) differs[at]
      for (at in is) if (was[at] != is[at]) differs[at]
    }
    $1 == "link" { if ($5 == "") leads[$2]; else through[$5] = through[$5] SUBSEP $2; next }
    { own[$2, $3] }
    $2 ~ /^(path|git|swap|mount)$/ && $3 ~ /^\// {
      below = 0
      for (at = $2 == "path" ? $3 : up($3); at != ""; at = up(at)) {
        if (at in differs) take("mount", at)
        if (at in leads && at != $3) take("path", at)
      }
      if (!below) {
        n = split(through[up($3)], at_links, SUBSEP)
        for (i = 2; i <= n; i++) take("path", at_links[i])
      }
      if (below) print "row\t" $1
    }
    END { for (place in number) if (!(place in own)) { split(place, of, SUBSEP); print "place\t" of[1] "\t" number[place] "\t" item[place] "\t" of[2] } }' -)
  for cv_m_row in $cv_m_rows; do
    case $cv_m_row in
    row*) CV_ELSEWHERE=$CV_ELSEWHERE${cv_m_row#*"$CV_TAB"}$CV_NL ;;
    *) cv_place_moved "${cv_m_row#*"$CV_TAB"}" ;;
    esac
  done
  [ "$CV_ELSEWHERE" = "$CV_NL" ] || { true >"$CV_DIR/moved"; } 2>/dev/null
}

# cv_place_moved ROW: records the place of a row KIND SEQ ITEM PATH, if both of its states could be seen.
cv_place_moved() {
  cv_m_at=${1##*"$CV_TAB"} cv_m_kind=${1%%"$CV_TAB"*}
  cv_m_seq=${1#*"$CV_TAB"}
  cv_m_item=${cv_m_seq#*"$CV_TAB"}
  cv_m_seq=${cv_m_seq%%"$CV_TAB"*} cv_m_item=${cv_m_item%%"$CV_TAB"*}
  case $cv_m_kind in
  mount)
    cv_m_was=$(CV_MOUNTINFO=$CV_DIR/mounts && cv_place_line mount "$cv_m_at")
    cv_m_now=$(cv_place_line mount "$cv_m_at")
    ;;
  *)
    for cv_m_was in $cv_m_links; do
      case $cv_m_was in "$cv_m_at$CV_TAB"*) break ;; esac
    done
    cv_m_was=${cv_m_was#*"$CV_TAB"}
    cv_m_now=${cv_m_was#*"$CV_TAB"} cv_m_was=${cv_m_was%%"$CV_TAB"*}
    cv_m_now=${cv_m_now%%"$CV_TAB"*}
    ;;
  esac
  case $cv_m_was:$cv_m_now in '! '* | *':! '* | 'file '* | 'other '*) return 0 ;; esac
  cv_journal "moved$CV_TAB$cv_m_seq$CV_TAB$cv_m_kind$CV_TAB$cv_m_at$CV_TAB$cv_m_was$CV_TAB$cv_m_now$CV_TAB${cv_m_item:-$CV_ITEM}$CV_TAB${CV_FLAGS:--}$CV_NL"
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
