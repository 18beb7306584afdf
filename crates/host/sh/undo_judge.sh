# --- undo: whether a change can be undone now ---

# cv_undo_asks QUESTION WORD...: whether the kind of the row has the function cv_QUESTION_KIND, and that says yes.
cv_undo_asks() {
  cv_u_question=cv_$1_$row_kind
  shift
  command -v "$cv_u_question" >/dev/null 2>&1 && "$cv_u_question" "$@"
}

# cv_undo_keeps: whether the row is not taken back at all.
cv_undo_keeps() { cv_undo_asks keeps "$row_before"; }

# cv_undo_is_begun: whether the row is in force and is of what was begun, may have done a part of its work, and does not say so by its state.
cv_undo_is_begun() {
  [ "$row_last" = '?' ] && [ "$CV_NOW" = "$row_before" ] && cv_undo_asks begun "$row_key" "$row_after" && ! cv_undo_is_undone
}

# cv_undo_is_bare LINE OTHER: whether the object is absent by the one line, and by the other there through another object alone.
cv_undo_is_bare() { [ "$1" = absent ] && cv_undo_asks bare "$2"; }

# cv_undo_judge ROW: what is to be done with it, in judged: restore, same, or the reason why not. Its present line is in
# CV_NOW.
cv_undo_judge() {
  cv_row "$1"
  cv_u_begun=
  CV_NOW=$(cv_rows_now "$row_seq$CV_TAB$row_kind$CV_TAB$row_key")
  CV_NOW=${CV_NOW#*"$CV_TAB"}
  if [ "${CV_NOW#! }" != "$CV_NOW" ]; then
    cv_dec_to "${CV_NOW#! }"
    judged="$CV_DEC"
  elif ! cv_undo_is_undone && cv_undo_hidden; then
    judged="the later run $cv_u_later $cv_u_why, so that another object is seen there: undo that one first"
  elif ! cv_undo_is_undone && cv_undo_is_led; then
    judged="$cv_l_why, then undo this again: left alone"
  elif ! cv_undo_is_undone && cv_undo_is_elsewhere; then
    # Another object is there now.
    judged=same
    [ -z "$cv_l_why" ] || judged="$cv_l_why: left alone" CV_NOW='! elsewhere'
  elif cv_undo_is_begun && ! cv_undo_later; then
    judged=restore cv_u_begun=yes
  elif [ "$CV_NOW" = "$row_before" ]; then
    judged=same
  elif cv_undo_is_bare "$CV_NOW" "$row_before"; then
    # It went with what brings it.
    judged=same
  elif [ "$row_lost" != - ]; then
    cv_dec_to "$row_lost"
    judged="cannot be undone: $CV_DEC"
  elif cv_undo_is_undone; then
    judged=undone
  elif cv_undo_later; then
    judged="the later run $cv_u_later $cv_u_why: undo that one first"
  elif [ "$CV_NOW" = "$row_last" ] || { [ "$row_last" = '?' ] && cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_after"; } || [ "$CV_NOW" = "$row_open" ]; then
    judged=restore
  elif [ "$row_last" = '?' ] && cv_undo_asks amid "$CV_NOW" "$row_open" "$row_after"; then
    # The step that was cut off passes through it.
    judged=restore
  elif cv_undo_asks amid "$CV_NOW" "$row_last" "$row_before" && cv_undo_cut_off; then
    # So does the step back.
    judged=restore
  elif cv_undo_is_bare "$row_last" "$CV_NOW" || cv_undo_is_bare "$CV_NOW" "$row_last"; then
    # Another object has brought it since, and nobody has touched it; or it went with what brought it.
    judged=restore
  elif cv_undo_asks shows "$CV_NOW" "$row_before" "$row_last"; then
    judged=restore
  elif [ -n "$force" ] || cv_undo_moved_by_undo; then
    judged=restore
  elif cv_undo_overtaken; then
    judged=undone
  else
    judged='someone else has changed it since: left alone'
  fi
  [ "$judged" != restore ] || cv_undo_role_stays
  case $judged$row_kind$row_before in 'restoreunitunit '*' active '*) cv_undo_restarts ;; esac
  case $judged:$row_kind:$row_key in
  restore:path:/etc/fstab) if cv_undo_mount_stays; then judged="$cv_u_mount stays, and so does its line: left alone"; fi ;;
  restore:package:*)
    if [ "$row_before" = absent ] && cv_undo_file_stays; then
      judged="$cv_u_file would go with it, and is left alone or needed by what is left alone: left alone"
    elif [ "$row_before" = absent ] && cv_undo_file_edited; then
      judged="its configuration file $cv_u_file was changed since by someone else, or by another run: left alone"
    elif cv_undo_takes_along; then
      judged="$cv_u_along: left alone"
    fi
    ;;
  esac
  case $judged$row_kind:$row_before:$CV_NOW in
  'restorepath:absent:file '*)
    if cv_undo_unit_stays; then judged='its unit stays, and needs it: left alone'; fi
    ;;
  'restorepath:dir '*) ;;
  'restorepath:'*':dir '*)
    if cv_undo_holds; then
      judged='it holds what is not undone: left alone'
    elif cv_undo_home_stays; then
      judged='its user, whose home directory it is, stays: left alone'
    fi
    ;;
  restoreuser:absent:* | restoregroup:absent:*)
    case $cv_u_stays in
    *" $row_kind:$row_key "*) judged='something that stays belongs to it: left alone' ;;
    *) if [ "$row_kind" = group ] && cv_undo_group_used; then judged="it is the primary group of $cv_u_user, a user that is not removed: left alone"; fi ;;
    esac
    ;;
  esac
  case $judged:$CV_NOW in
  restore:* | same:*) ;;
  *:'! '*) cv_undo_stays "$row_kind" "$row_after" ;;
  *) cv_undo_stays "$row_kind" "$CV_NOW" ;;
  esac
}

# cv_undo_whole ROWS: the items of the run of these rows, and of later runs in force, that have made an object which undo.sh never takes away
# (`cv_stays_KIND KEY NOW BEFORE`) and which is there: it stands on all that its role has made. In cv_u_whole, each `ROLE ITEM` with a tab, on a line.
# The same rule as keep_whole_roles in crates/engine/src/revert/mod.rs.
cv_undo_whole() {
  cv_u_whole=$(
    {
      printf '%s\n' "$1" | while IFS= read -r cv_w_row; do
        [ -n "$cv_w_row" ] || continue
        cv_row "$cv_w_row"
        if command -v "cv_stays_$row_kind" >/dev/null 2>&1 && ! cv_undo_is_undone; then
          printf '%s\t%s\t%s\t%s\n' "$row_kind" "$row_key" "$row_before" "$row_item"
        fi
      done
      for cv_w_kind in $(printf '%s' "$CV_LIVE" | awk -F '\t' '!($3 in seen) { seen[$3]; print $3 }'); do
        command -v "cv_stays_$cv_w_kind" >/dev/null 2>&1 || continue
        printf '%s' "$CV_LIVE" | awk -F '\t' -v OFS='\t' -v runs=" $later " -v kind="$cv_w_kind" '
          $3 == kind && index(runs, " " $1 " ") { print $1, $2, $4, $5 }' |
          while IFS=$CV_TAB read -r cv_w_run cv_w_seq cv_w_key cv_w_before; do
            cv_w_item=$(cv_journal_of "$cv_w_run" | awk -F '\t' -v seq="$cv_w_seq" '($1 == "begin" || $1 == "moved") && $2 == seq { item = $7 } END { print item }')
            printf '%s\t%s\t%s\t%s\n' "$cv_w_kind" "$cv_w_key" "$cv_w_before" "$cv_w_item"
          done
      done
    } | while IFS=$CV_TAB read -r cv_w_kind cv_w_key cv_w_before cv_w_item; do
      cv_w_now=$(cv_rows_now "0$CV_TAB$cv_w_kind$CV_TAB$cv_w_key" </dev/null)
      cv_dec_to "$cv_w_key"
      "cv_stays_$cv_w_kind" "$CV_DEC" "${cv_w_now#*"$CV_TAB"}" "$cv_w_before" >/dev/null || continue
      cv_dec_to "$cv_w_item"
      printf '%s\t%s\n' "${CV_DEC%%/*}" "$CV_DEC"
    done
  )
}

# cv_undo_role_stays: the object of the row stays, and why, in judged: undo.sh never takes it away, or it belongs to one that stays. Reads cv_u_whole.
cv_undo_role_stays() {
  if command -v "cv_stays_$row_kind" >/dev/null 2>&1; then
    cv_dec_to "$row_key"
    if cv_w_why=$("cv_stays_$row_kind" "$CV_DEC" "$CV_NOW" "$row_before"); then
      judged="$cv_w_why: left alone"
      return 0
    fi
  fi
  cv_dec_to "$row_item"
  case $CV_NL${cv_u_whole:-} in *"$CV_NL${CV_DEC%%/*}$CV_TAB"*) ;; *) return 0 ;; esac
  cv_w_item=$CV_NL$cv_u_whole
  cv_w_item=${cv_w_item#*"$CV_NL${CV_DEC%%/*}$CV_TAB"}
  judged="\`${cv_w_item%%"$CV_NL"*}\` is not reverted, and so is nothing that belongs to it: left alone"
}

# cv_undo_ready ROWS: the numbers of those rows that can be restored now, in cv_u_ready, where foreign code of the other rows may change them on the
# way: a package that comes back brings its files and enables its units, a command makes its own again. Its calls are told by cv_c_asks that nothing is done, and by
# cv_u_ran that nothing was.
cv_undo_ready() {
  cv_u_ready=
  case $CV_NL$1 in *"${CV_TAB}command$CV_TAB"* | *"${CV_TAB}package$CV_TAB"*) ;; *) return 0 ;; esac
  cv_u_ready=" $(
    cv_c_asks=yes cv_u_ran=
    printf '%s\n' "$1" | while IFS= read -r cv_r_row; do
      cv_row "$cv_r_row"
      case $row_kind in command | package) continue ;; esac
      cv_undo_judge "$cv_r_row" </dev/null
      [ "$judged" != restore ] || printf '%s ' "$row_seq"
    done
  )"
}

# cv_undo_moved_by_undo: whether foreign code of this very undo has changed the object of the row, and nobody else had changed it before.
cv_undo_moved_by_undo() {
  [ -n "${cv_u_ran:-}" ] || return 1
  case $cv_u_ready in *" $row_seq "*) return 0 ;; esac
  return 1
}

# cv_undo_line_stays: whether /etc/fstab was left alone and has a line for the mount of the row. Reads cv_u_left.
cv_undo_line_stays() {
  case $CV_NL$cv_u_left in *"$CV_NL/etc/fstab$CV_NL"*) ;; *) return 1 ;; esac
  cv_dec_to "$row_key"
  CV_U_AT=$CV_DEC awk 'BEGIN { at = ENVIRON["CV_U_AT"] } { gsub(/\\040/, " ", $2) } $1 !~ /^#/ && $2 == at { found = 1 } END { exit !found }' /etc/fstab
}

# cv_undo_memory_stays: whether the mount of the row is one in memory that holds something still; that in cv_u_held.
cv_undo_memory_stays() {
  cv_dec_to "$row_key"
  cv_u_held=$(cv_mount_held "$CV_DEC" "$row_before") && [ -n "$cv_u_held" ]
}

# cv_undo_mount_stays: whether a mount or a swap space of the run stays that /etc/fstab has a line for; that object in cv_u_mount.
cv_undo_mount_stays() {
  cv_u_mount=$(
    printf '%s\n' "${cv_c_rows:-${cv_u_rows:-}}" | while IFS= read -r cv_m_row; do
      cv_row "$cv_m_row"
      case $row_kind in mount | swap) ;; *) continue ;; esac
      cv_undo_judge "$cv_m_row" </dev/null
      case $judged in restore | same | undone) continue ;; esac
      cv_dec_to "$row_key"
      CV_U_AT=$CV_DEC CV_U_KIND=$row_kind awk '
        BEGIN { at = ENVIRON["CV_U_AT"]; field = ENVIRON["CV_U_KIND"] == "mount" ? 2 : 1 }
        { gsub(/\\040/, " ", $field) }
        $1 !~ /^#/ && $field == at { found = 1 }
        END { exit !found }' /etc/fstab || continue
      printf '%s:%s' "$row_kind" "$CV_DEC"
      break
    done
  )
  [ -n "$cv_u_mount" ]
}

# cv_undo_takes_along: whether apt would not bring the package of the row to where it was without changing others; why, in cv_u_along. The answer for
# all packages of the run is in cv_u_alone. While it is only asked what can be done, apt may choose by something else than it will.
cv_undo_takes_along() {
  [ -z "${cv_u_asked:-}" ] || return 1
  cv_t_rows=${cv_c_rows:-${cv_u_rows:-}}
  case ${cv_c_asks:-}$cv_t_rows in yes*"${CV_TAB}path$CV_TAB/etc/apt/"* | yes*"${CV_TAB}path$CV_TAB/etc/yum.repos.d/"* | yes*"${CV_TAB}path$CV_TAB/etc/dnf/"* | yes*"${CV_TAB}command$CV_TAB"*) return 1 ;; esac
  [ -n "${cv_u_alone+x}" ] || cv_u_alone=$CV_NL$(
    cv_u_asked=yes
    cv_t_words=$(printf '%s\n' "$cv_t_rows" | while IFS= read -r cv_t_row; do
      cv_row "$cv_t_row"
      [ "$row_kind" = package ] && ! cv_undo_keeps || continue
      cv_undo_judge "$cv_t_row" </dev/null
      [ "$judged" = restore ] || continue
      cv_dec_to "$row_key"
      cv_quote_to "$CV_DEC"
      printf ' %s' "$CV_QUOTED"
      cv_quote_to "$row_before"
      printf ' %s' "$CV_QUOTED"
    done)
    eval "cv_packages_alone $cv_t_words" </dev/null
  )$CV_NL
  cv_dec_to "$row_key"
  case $cv_u_alone in *"$CV_NL$CV_DEC$CV_TAB"*) ;; *) return 1 ;; esac
  cv_u_along=${cv_u_alone#*"$CV_NL$CV_DEC$CV_TAB"}
  cv_u_along=${cv_u_along%%"$CV_NL"*}
}

# cv_undo_group_used: whether a user who stays has the group of the row as the primary one; that user in cv_u_user. While it is only asked what can be
# done, the users that would go are still there.
cv_undo_group_used() {
  cv_dec_to "$row_key"
  cv_u_user=$(
    for cv_g_user in $(cv_group_users | CV_U_KEY=$CV_DEC awk '$1 == ENVIRON["CV_U_KEY"] { $1 = ""; print }'); do
      cv_enc_to "$cv_g_user"
      if [ -n "${cv_c_asks:-}" ] && cv_undo_leaves_group "$CV_ENC" "$row_key"; then continue; fi
      printf '%s' "$cv_g_user"
      break
    done
  )
  [ -n "$cv_u_user" ]
}

# cv_undo_leaves_group USER GROUP: whether the user would go, or get another primary group.
cv_undo_leaves_group() (
  printf '%s\n' "${cv_c_rows:-${cv_u_rows:-}}" | while IFS= read -r cv_g_row; do
    cv_row "$cv_g_row"
    [ "$row_kind $row_key" = "user $1" ] || continue
    case $row_before in "user "*" $2 "*) continue ;; esac
    cv_undo_judge "$cv_g_row" </dev/null
    [ "$judged" != restore ] || echo leaves
  done | grep -q leaves
)

# cv_undo_overtaken: whether a later rollback of an older run has put the object of the row into its present state: nobody else has changed it, and
# nothing of the row is there any more.
cv_undo_overtaken() {
  cv_o_older=' ' cv_o_later=
  for cv_o_run in $(cv_order); do
    if [ -n "$cv_o_later" ]; then
      cv_undo_is_back "$cv_o_run" || continue
      cv_lines_of "$cv_o_run" | CV_U_KEY=$row_key CV_U_NOW=$CV_NOW awk -F '\t' -v kind="$row_kind" -v older="$cv_o_older" '
        $1 == "undoes" || $1 == "attempts" { if (index(older, " " $2 " ")) of_older = 1 }
        $1 == "begin" && $3 == kind && $4 == ENVIRON["CV_U_KEY"] { at[$2] }
        $1 == "done" && ($2 in at) && $3 == ENVIRON["CV_U_NOW"] { found = 1 }
        END { exit !(of_older && found) }' && return 0
    elif [ "$cv_o_run" = "$CV_FROM_RUN" ]; then
      cv_o_later=yes
    else
      cv_o_older="$cv_o_older$cv_o_run "
    fi
  done
  return 1
}

# cv_undo_cut_off: whether a later rollback of the run has set out to take the object of the row back, and was cut off in that.
cv_undo_cut_off() {
  cv_o_later=
  for cv_o_run in $(cv_order); do
    if [ -n "$cv_o_later" ] && cv_undo_is_back "$cv_o_run"; then
      cv_lines_of "$cv_o_run" | CV_U_KEY=$row_key awk -F '\t' -v kind="$row_kind" -v run="$CV_FROM_RUN" '
        ($1 == "undoes" || $1 == "attempts") && $2 == run { of_run = 1 }
        $1 == "begin" && $3 == kind && $4 == ENVIRON["CV_U_KEY"] { open[$2] }
        $1 == "done" || $1 == "off" || $1 == "failed" || $1 == "putback" { delete open[$2] }
        END { for (seq in open) exit !of_run; exit 1 }' && return 0
    fi
    [ "$cv_o_run" != "$CV_FROM_RUN" ] || cv_o_later=yes
  done
  return 1
}

# cv_undo_home_stays: whether the directory of the row is the home of a user whom the run made, and who stays.
cv_undo_home_stays() (
  cv_h_home=$row_key
  printf '%s\n' "${cv_c_rows:-$cv_u_rows}" | while IFS= read -r cv_h_row; do
    cv_row "$cv_h_row"
    case "$row_kind $row_before $row_after" in 'user absent user '*' '*' '*" $cv_h_home "*) ;; *) continue ;; esac
    cv_undo_judge "$cv_h_row" </dev/null
    case $judged in restore | same | undone) ;; *) echo stays ;; esac
  done | grep -q stays
)

# cv_undo_unit_stays: whether the path of the row is a file of a unit that runs or starts at boot, and stays. The same rule as in
# crates/engine/src/revert/order.rs.
cv_undo_unit_stays() (
  cv_dec_to "$row_key"
  case $CV_DEC in "$CV_UNIT_LINKS"/*) ;; *) return 1 ;; esac
  cv_s_file=${CV_DEC#"$CV_UNIT_LINKS"/}
  cv_s_file=${cv_s_file%%/*}
  cv_s_file=${cv_s_file%.d}
  printf '%s\n' "${cv_c_rows:-$cv_u_rows}" | while IFS= read -r cv_s_row; do
    cv_row "$cv_s_row"
    [ "$row_kind" = unit ] || continue
    cv_dec_to "$row_key"
    case $cv_s_file in "$CV_DEC" | "${CV_DEC%%@*}@.${CV_DEC##*.}") ;; *) continue ;; esac
    cv_undo_judge "$cv_s_row" </dev/null
    case $judged:$CV_NOW in
    restore:* | same:* | undone:*) ;;
    *:'unit enabled'* | *:'unit '*' active '*) echo stays ;;
    esac
  done | grep -q stays
)

# cv_undo_restarts: the unit of the row would be started again. Where something of the run stays, or an earlier run in force has changed what it runs with
# and did not come to start it again, it is not recorded as started with what it ran with before: row_before and cv_u_part say so. The same rule as in
# crates/engine/src/revert/restarts.rs. Reads failed, and cv_c_left while it is only asked what can be done.
cv_undo_restarts() {
  if [ -z "${failed:-}${cv_c_left:-}" ]; then
    cv_undo_inputs_stay || return 0
    case $row_before in *' -')
      judged="the earlier run $cv_u_earlier has changed what it runs with: undo that one first"
      return 0
      ;;
    esac
  fi
  case $row_before in *' -') return 0 ;; esac
  row_before="${row_before% *} -" cv_u_part=yes
  [ "$CV_NOW" != "$row_before" ] || judged=same
}

# cv_undo_inputs_stay: whether an earlier run in force has set out to start the unit of the row again, and did not; that run in cv_u_earlier.
cv_undo_inputs_stay() {
  cv_u_earlier=$(
    cv_e_runs=
    for cv_e_run in $(cv_order); do
      [ "$cv_e_run" != "$CV_FROM_RUN" ] || break
      cv_e_runs="$cv_e_run $cv_e_runs"
    done
    for cv_e_run in $cv_e_runs; do
      cv_undo_settles "$cv_e_run" "$row_key" || break
      cv_meta_of "$cv_e_run" | grep -Fqx "planned$CV_TAB$row_item" || continue
      printf '%s' "$CV_LIVE" | awk -F '\t' -v run="$cv_e_run" '
        $1 == run && $3 != "unit" && $3 != "command" { found = 1 }
        END { exit !found }' || continue
      printf '%s' "$cv_e_run"
      break
    done
  )
  [ -n "$cv_u_earlier" ]
}

# cv_undo_settles RUN KEY: status 1: the run has left that unit as it set out to.
cv_undo_settles() {
  cv_journal_of "$1" | CV_U_KEY=$2 awk -F '\t' '
    $1 == "begin" && $3 == "unit" && $4 == ENVIRON["CV_U_KEY"] { at[$2] }
    $1 == "done" && ($2 in at) { found = 1 }
    END { exit found }'
}

# cv_undo_runs_on RUN: the units that later runs in force have started with what the run has left, and that it had set out to start itself: LATER and the
# key of each.
cv_undo_runs_on() {
  cv_r_planned=$CV_NL$(cv_meta_of "$1" | grep "^planned$CV_TAB")$CV_NL
  printf '%s' "$CV_LIVE" | awk -F '\t' -v runs=" $later " '$3 == "unit" && index(runs, " " $1 " ") { print $1, $4 }' | sort -u |
    while read -r cv_r_run cv_r_key; do
      cv_journal_of "$cv_r_run" | CV_U_KEY=$cv_r_key CV_U_PLANNED=$cv_r_planned awk -F '\t' '
        BEGIN { key = ENVIRON["CV_U_KEY"]; planned = ENVIRON["CV_U_PLANNED"] }
        $1 == "begin" && $3 == "unit" && $4 == key && index(planned, "\nplanned\t" $7 "\n") { found = 1 }
        END { exit !found }' || continue
      if cv_undo_settles "$1" "$cv_r_key"; then printf '%s %s\n' "$cv_r_run" "$cv_r_key"; fi
    done
}

# cv_undo_is_undone: whether another rollback has taken the row back; somebody changed the object since. A rollback has no rows in force.
cv_undo_is_undone() {
  [ -n "${CV_FORCE_ROWS:-}" ] && return 1
  case "$CV_NL$CV_LIVE" in *"$CV_NL$CV_FROM_RUN$CV_TAB$row_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB"*) return 1 ;; esac
  return 0
}

# cv_undo_later: whether a later run that is in force changed the object of the row, or made something that stands on it; that run in
# cv_u_later, what it did in cv_u_why. A change that a user has reverted already counts no more.
cv_undo_later() {
  [ -n "$later" ] || return 1
  # ENVIRON holds them as they are; -v would read escapes in them.
  CV_U_KEY=$row_key CV_U_NOW=$CV_NOW CV_U_LEFT=$row_last CV_U_MADE=${row_made:--}
  export CV_U_KEY CV_U_NOW CV_U_LEFT CV_U_MADE
  cv_u_later=$(printf '%s' "$CV_LIVE" | awk -F '\t' -v runs=" $later " -v kind="$row_kind" -v gone="$row_before" '
    # State lines of paths hold owner and group, those of users their groups.
    function belongs(of, state,  word, c, i) {
      c = split(state, word, " ")
      if (of == "path" && c > 3) return word[kind == "user" ? 3 : 4] == key
      if (of != "user" || kind != "group") return 0
      for (i = 3; i <= c; i++) if ((i == 3 || i > 7) && word[i] == key) return 1
      return 0
    }
    BEGIN { key = ENVIRON["CV_U_KEY"]; now = ENVIRON["CV_U_NOW"]; left = ENVIRON["CV_U_LEFT"]; made = ENVIRON["CV_U_MADE"] }
    index(runs, " " $1 " ") == 0 { next }
    $3 == kind && $4 == key && (made == "-" || $9 == "-" || $9 == made) {
      n++; run[n] = $1; before[n] = $5; last[n] = $6; whose[n] = $8
      if (!($8 in begin)) begin[$8] = $5
      end[$8] = $6
      next
    }
    # The files and users of an account, as that run found or left them. The same rule as in crates/engine/src/revert/holders.rs.
    gone == "absent" && (kind == "user" || kind == "group") && (belongs($3, $5) || belongs($3, $6) || belongs($3, $7)) {
      found = $1 OFS "made what belongs to it"
    }
    END {
      # One that was passed over, as the object was back before it, is not in the way when it is as this run left it.
      # Nor is a project that has brought it back to where its first run found it. The same rule as in crates/ledger/src/stacks/others.rs.
      for (i = n; i > 0; i--) if ((begin[whose[i]] != end[whose[i]] || key == "/etc/fstab") && (now == last[i] || (now != before[i] && now != left))) { found = run[i] OFS "changed it too"; break }
      if (found == "") exit 1
      print found
    }' OFS="$CV_TAB") || return 1
  cv_u_why=${cv_u_later#*"$CV_TAB"}
  cv_u_later=${cv_u_later%%"$CV_TAB"*}
}

# cv_undo_covered: whether a later run that is in force stands on the row, which is as before already: then it is not undone, and goes back when that
# run has. That run in cv_u_later. The same rule as in crates/ledger/src/stacks/others.rs.
cv_undo_covered() {
  ! cv_undo_is_undone || return 1
  cv_u_later=$(printf '%s' "$CV_LIVE" | CV_U_KEY=$row_key CV_U_MADE=${row_made:--} awk -F '\t' -v runs=" $later " -v kind="$row_kind" '
    BEGIN { made = ENVIRON["CV_U_MADE"] }
    $3 == kind && $4 == ENVIRON["CV_U_KEY"] && index(runs, " " $1 " ") && (made == "-" || $9 == "-" || $9 == made) {
      if (!($8 in begin)) begin[$8] = $5
      end[$8] = $6; n++; run[n] = $1; whose[n] = $8
    }
    END { for (i = n; i > 0; i--) if (begin[whose[i]] != end[whose[i]]) { print run[i]; exit } }')
  [ -n "$cv_u_later" ] && [ "$row_key" != /etc/fstab ]
}
