# --- places: the real directories of objects, and what foreign code mounts or leads elsewhere above them ---

# cv_real_dir_to PATH: the real directory of the path, encoded, in CV_REAL_DIR: of one that is not there, the one that it would be. Empty where that cannot
# be said.
cv_real_dir_to() {
  CV_REAL_DIR=$(
    unset IFS
    set +f
    cv_go "${1%/*}"
    case $? in
    0) ;;
    2)
      [ -z "$CV_FAR" ] || CV_AT_DIR=$CV_AT_DIR/$cv_g_part/$cv_g_rest
      CV_AT_DIR=$(printf %s "$CV_AT_DIR" | tr -s /)
      ;;
    *) exit 0 ;;
    esac
    CV_AT_DIR=${CV_AT_DIR%/}
    case $CV_AT_DIR/ in */./* | */../*) exit 0 ;; esac
    cv_enc "${CV_AT_DIR:-/}"
  )
}

# cv_real_tell KIND: `at SEQ PATH` for each of the `rows` of that kind to which links lead, as cv_rows_now tells it of paths in directories that are
# there. IFS is a newline.
cv_real_tell() {
  real_of=
  for row in $rows; do
    cv_row "$row"
    [ "$row_kind" = "$1" ] || continue
    cv_dec_to "$row_key"
    [ "$1" != path ] || [ ! -d "${CV_DEC%/*}" ] || continue
    # In a safe directory there is no link.
    cv_is_safe "${CV_DEC%/*}" && continue
    real=$CV_DEC
    [ "$real_of" = "${real%/*}" ] || cv_real_dir_to "$real"
    real_of=${real%/*}
    [ -n "$CV_REAL_DIR" ] || continue
    cv_dec_to "$CV_REAL_DIR"
    [ "${CV_DEC%/}" != "${real%/*}" ] || continue
    cv_enc_to "${CV_DEC%/}/${real##*/}"
    printf 'at %s %s\n' "$row_seq" "$CV_ENC"
  done
}

# cv_real_table: the real path of each row to which links lead, in cv_real_SEQ. Reads cv_i_now, split at newlines.
cv_real_table() {
  case $CV_NL$cv_i_now in *"${CV_NL}at "*) ;; *) return 0 ;; esac
  for cv_i_row in $cv_i_now; do
    case $cv_i_row in 'at '[0-9]*) cv_i_row=${cv_i_row#at } ;; *) continue ;; esac
    case ${cv_i_row%% *} in *[!0-9]*) continue ;; esac
    eval "cv_real_${cv_i_row%% *}=\${cv_i_row#* }"
  done
}

# cv_real_note: adds the real directory of the present row to cv_i_text, where links lead there: the line `at` of the journal. What takes back a change
# names the directory of that (CV_MADE_AT), with which the present one was compared. IFS is a newline.
cv_real_note() {
  CV_ENC=
  for cv_i_made in ${CV_MADE_AT:-}; do
    [ "$row_kind$CV_TAB$row_key" != "${cv_i_made%"$CV_TAB"*}" ] || CV_ENC=${cv_i_made##*"$CV_TAB"}
  done
  if [ -z "$CV_ENC" ]; then
    if [ -n "$cv_i_behind" ]; then cv_real_behind; else eval "cv_i_real=\${cv_real_$row_seq:-}"; fi
    [ -n "$cv_i_real" ] || return 0
    cv_dec_to "$cv_i_real"
    cv_i_real=${CV_DEC%/*}
    cv_enc_to "${cv_i_real:-/}"
  fi
  cv_i_text="${cv_i_text}at$CV_TAB$row_seq$CV_TAB$CV_ENC$CV_NL"
}

# cv_real_behind: the real path that the present row will have once a directory is in the place of the link cv_i_behind, in cv_i_real; empty where no link
# leads there then.
cv_real_behind() {
  cv_i_real=
  cv_real_dir_to "$cv_i_behind"
  [ -n "$CV_REAL_DIR" ] || return 0
  cv_dec_to "$CV_REAL_DIR"
  [ "${CV_DEC%/}" != "${cv_i_behind%/*}" ] || return 0
  cv_enc_to "${CV_DEC%/}/${cv_i_behind##*/}${cv_i_path#"$cv_i_behind"}"
  cv_i_real=$CV_ENC
}

# cv_real_check: tells the rows CV_ROWS whose paths do not lead to the directories in which the changes were made that they take back: CV_MADE_AT, lines
# KIND KEY DIRECTORY. Sets cv_i_bad where there is one. IFS is a newline.
cv_real_check() {
  for cv_i_made in $CV_MADE_AT; do
    for cv_i_row in $CV_ROWS; do
      cv_row "$cv_i_row"
      [ "$row_kind$CV_TAB$row_key" = "${cv_i_made%"$CV_TAB"*}" ] || continue
      cv_item_seen before "$row_before"
      [ -z "$cv_i_behind" ] || continue
      cv_dec_to "$row_key"
      cv_real_dir_to "$CV_DEC"
      [ "$CV_REAL_DIR" != "${cv_i_made##*"$CV_TAB"}" ] || continue
      cv_i_real=$CV_REAL_DIR cv_i_name=${CV_DEC##*/}
      # The directory may have been moved, and its path be a link to it.
      cv_dec_to "${cv_i_made##*"$CV_TAB"}"
      cv_real_dir_to "${CV_DEC%/}/$cv_i_name"
      [ "$CV_REAL_DIR" != "$cv_i_real" ] || continue
      cv_i_bad=yes
      cv_tell elsewhere "$row_seq" "${cv_i_made##*"$CV_TAB"}" "${cv_i_real:--}"
    done
  done
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
