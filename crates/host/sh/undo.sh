# --- undo ---

# cv_undo_usage: prints how undo.sh is used.
cv_undo_usage() {
  cat <<'END'
usage: sh undo.sh [--list] [--force] [RUN]
Restores what a run of converge changed on this machine: the newest one of which something can be reverted, or RUN.
It compares before it swaps: what someone else has changed since is left alone, unless --force is given.
  --list   the runs that can be undone
  --switch for the unit of an automatic revert: waits, and reverts a guarded change that is not confirmed
Status: 0 all is as before; 1 something was left alone or failed; 64 wrong usage; 75 locked; 76 not possible here.
END
}

# cv_undo_candidates: the runs of which something is in force, oldest first. Reads CV_LIVE.
cv_undo_candidates() {
  printf '%s' "$CV_LIVE" | awk -F '\t' '$1 != run { run = $1; print run }'
}

# cv_undo_is_back RUN: whether it was a rollback itself.
cv_undo_is_back() {
  cv_meta_of "$1" | grep -q "^undoes$CV_TAB\|^attempts$CV_TAB\|^purpose${CV_TAB}rollback"
}

# cv_undo_list: prints a line for each run that can be undone.
cv_undo_list() {
  for cv_u_run in $(cv_undo_candidates); do
    printf '%s  %s changes, %s\n' "$cv_u_run" "$(grep -c "^begin$CV_TAB" "$CV_ROOT/runs/$cv_u_run/journal")" \
      "$(sed -n "s/^time$CV_TAB//p" "$CV_ROOT/runs/$cv_u_run/meta")"
  done
}

# cv_undo_name KIND KEY ITEM: how the object is shown, in CV_SHOWN. The key of a command holds its scripts, which may hold what is secret: it is
# told by its item.
cv_undo_name() {
  cv_dec_to "$2"
  [ "$1" != command ] || cv_dec_to "$3"
  CV_SHOWN="$1:$CV_DEC"
}

# cv_undo_id: an ID (UUID version 7). It orders nothing: the number of the run does.
cv_undo_id() {
  read -r cv_u_random </proc/sys/kernel/random/uuid
  cv_u_ms=$(printf '%012x' $(($(date +%s) * 1000)))
  printf '%s-%s-7%s\n' "$(printf %s "$cv_u_ms" | cut -c1-8)" "$(printf %s "$cv_u_ms" | cut -c9-12)" \
    "$(printf %s "$cv_u_random" | cut -c16-)"
}

# cv_undo_after RUN: the later runs of which something is in force, in later.
cv_undo_after() {
  later= cv_u_past=
  cv_u_live=" $(cv_undo_candidates | tr '\n' ' ')"
  for cv_u_run in $(cv_order); do
    case $cv_u_past$cv_u_live in yes*" $cv_u_run "*) later="$later $cv_u_run" ;; esac
    [ "$cv_u_run" != "$1" ] || cv_u_past=yes
  done
}

# cv_undo_scope RUN: behind the end of a line, the line of its project, which is also that of the run that undoes it.
cv_undo_scope() { cv_meta_of "$1" | awk -F '\t' '$1 == "scope" { printf "\n%s", $0; exit }'; }

# cv_undo_pick: the newest run of which something can be reverted, or of which it cannot be said (a path leads elsewhere now): an older one
# must not be taken for it. Else the newest one that something else is in the way of. In target; the newer ones in cv_p_over, a line each.
cv_undo_pick() {
  cv_p_left= cv_p_over= cv_p_runs=
  for cv_p_run in $(cv_undo_candidates); do cv_p_runs="$cv_p_run $cv_p_runs"; done
  for cv_p_run in $cv_p_runs; do
    case $(cv_undo_can "$cv_p_run") in
    *restore* | *unseen*)
      target=$cv_p_run
      return 0
      ;;
    left)
      [ -n "$cv_p_left" ] || cv_p_left=$cv_p_run
      cv_p_over="${cv_p_over}passed over    run $cv_p_run: nothing of it can be restored$CV_NL"
      ;;
    *) cv_p_over="${cv_p_over}passed over    run $cv_p_run: all is as it was before it$CV_NL" ;;
    esac
  done
  target=$cv_p_left cv_p_over=
}

# cv_undo_why FLAGS: the reason why the row was not restored, in CV_WHY: the last line of the output (cv_u_out), else what the item said of the row,
# else its status (cv_u_status).
cv_undo_why() {
  case $1 in *sensitive*)
    CV_WHY='its output is sensitive and not shown'
    return 0
    ;;
  esac
  CV_WHY=$(printf '%s\n' "$cv_u_out" | grep -v '^cv:' | grep '[^[:space:]]' | tail -n 1)
  [ -z "$CV_WHY" ] || return 0
  CV_WHY="it ended with status $cv_u_status and no message"
  cv_y_line=$(printf '%s\n' "$cv_u_out" | awk -F '\t' -v seq="$row_seq" '
    /^cv:/ && ($3 == seq || $3 == "-") && ($2 == "refused" || $2 == "off" || $2 == "unsaveable" || $2 == "elsewhere") || $2 == "step" { line = $2 " " $4 }
    END { print line }')
  case $cv_y_line in
  'step '*) CV_WHY="it ended with status ${cv_y_line#* } and no message" ;;
  'refused '*) CV_WHY="it was changed in this moment, to: ${cv_y_line#* }" ;;
  'elsewhere '*)
    cv_dec_to "${cv_y_line#* }"
    CV_WHY="its path leads elsewhere in this moment: it was changed in $CV_DEC"
    ;;
  'off '*) CV_WHY="nothing failed, and it is not as before but: ${cv_y_line#* }" ;;
  'unsaveable '*)
    cv_dec_to "${cv_y_line#* }"
    CV_WHY="nothing was changed, its present state cannot be saved: $CV_DEC"
    ;;
  esac
}

# cv_undo_group: restores the gathered rows (CV_ROWS: SEQ KIND KEY PRESENT BEFORE) as one item of the new run; cv_u_ran: foreign code
# ran.
cv_undo_group() {
  [ -n "$CV_ROWS" ] || return 0
  cv_undo_window
  cv_u_out=$(
    cv_item_begin
    set -f
    (
      IFS=$CV_NL
      words= restore=
      for row in $CV_ROWS; do
        cv_row "$row"
        cv_dec_to "$row_key"
        cv_quote_to "$CV_DEC"
        words="$words $CV_QUOTED"
        cv_quote_to "$row_after"
        words="$words $CV_QUOTED"
        restore=cv_restore_$row_kind
      done
      unset IFS
      set +f
      [ "$restore" != cv_restore_package ] || restore=cv_apply_packages
      eval "$restore $words"
    ) </dev/null 2>&1 || cv_item_failed 1 $?
    cv_item_end
  )
  cv_u_status=$?
  # Each row is looked at anew when its turn comes.
  [ -z "$CV_WINDOW" ] || cv_resume
  set -f
  IFS=$CV_NL
  for cv_u_each in $CV_ROWS; do
    cv_row "$cv_u_each"
    cv_undo_name "$row_kind" "$row_key" "$CV_ITEM"
    if [ $cv_u_status -eq 0 ]; then
      cv_u_did=yes
      case $row_kind in command | package) cv_u_ran=yes ;; esac
      printf 'restored       %s\n' "$CV_SHOWN"
    else
      cv_undo_why "$CV_FLAGS"
      printf 'FAILED         %s: %s\n' "$CV_SHOWN" "$CV_WHY"
      failed=yes
      cv_undo_stays "$row_kind" "$row_before"
    fi
    case $row_kind:$CV_SHOWN in path:*/systemd/* | path:path:/etc/fstab) reload=yes ;; esac
  done
  unset IFS
  set +f
  # The line above has the last one.
  case $cv_u_status:$CV_FLAGS in
  0:* | *:sensitive*) ;;
  *) printf '%s\n' "$cv_u_out" | sed '/^cv:/d; /^[[:space:]]*$/d' | sed '$d; s/^/               /' ;;
  esac
  CV_ROWS= CV_FLAGS=- CV_WINDOW= CV_MADE_AT=
}

# cv_undo_can RUN: whether something of it can be reverted now. Its calls are told by cv_c_asks that nothing is done.
cv_undo_can() (
  CV_FROM_RUN=$1 cv_u_stays= cv_c_left=
  unset cv_u_alone
  cv_undo_after "$1"
  cv_c_rows=$(cv_undo_rows "$1" whole)
  [ -n "$cv_c_rows" ] || exit 0
  cv_undo_whole "$cv_c_rows"
  cv_c_asks=yes
  printf '%s\n' "$cv_c_rows" | while IFS= read -r cv_c_row; do
    cv_row "$cv_c_row"
    ! cv_undo_keeps || continue
    cv_undo_judge "$cv_c_row" </dev/null
    case $judged in
    same | undone) ;;
    restore)
      echo restore
      break
      ;;
    *)
      cv_c_left=yes
      case $CV_NOW in '! '*) echo unseen ;; *) echo left ;; esac
      ;;
    esac
  done | sort -u
)

# cv_undo_main ARGUMENTS: undo.sh. For each run, no foreign code ran at first (cv_u_ran), and nothing was left alone (cv_u_left).
# shellcheck disable=SC2086
cv_undo_main() {
  umask 077
  PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
  export PATH
  force= target= failed= reload=
  while [ $# -gt 0 ]; do
    case $1 in
    --switch)
      cv_act_main
      return
      ;;
    --force) force=yes ;;
    --list)
      CV_LIVE=$(cv_live)$CV_NL
      cv_undo_list
      return 0
      ;;
    -h | --help)
      cv_undo_usage
      return 0
      ;;
    -*)
      cv_undo_usage >&2
      return 64
      ;;
    *) target=$1 ;;
    esac
    shift
  done
  if cv_store_bad; then
    cv_say "$CV_WHY"
    return 76
  fi
  [ -d "$CV_ROOT/runs" ] || {
    cv_say "$CV_ROOT holds no records"
    return 76
  }
  # Damaged records are said, and what is whole of them is worked with.
  cv_broken | while IFS=$CV_TAB read -r _ cv_u_said; do
    cv_dec_to "$cv_u_said"
    cv_say "$CV_DEC"
  done
  CV_LIVE=$(cv_live)$CV_NL
  [ -n "$target" ] || cv_undo_pick
  [ -n "$target" ] || {
    echo 'there is no run to undo'
    return 0
  }
  case $target in */* | .*) target=none ;; esac
  cv_plain "$CV_ROOT/runs/$target/journal" || {
    cv_say "no run $target is recorded here; sh undo.sh --list shows them"
    return 64
  }
  cv_undo_after "$target"
  CV_FORCE_ROWS=
  if cv_undo_is_back "$target"; then CV_FORCE_ROWS=yes; fi
  cv_enc_to "$(id -un)@$(uname -n)"
  # The run that undoes says so only when all went well: else it can be tried again.
  cv_run_open "$(cv_undo_id)" "time$CV_TAB$(date -u +%Y-%m-%dT%H:%M:%SZ)${CV_NL}operator$CV_TAB$CV_ENC${CV_NL}purpose${CV_TAB}undo${CV_TAB}flags${CV_NL}attempts$CV_TAB$target$(cv_undo_scope "$target")" || return $?
  # It was chosen before the lock was held.
  [ "$CV_LIVE" = "$(cv_live)$CV_NL" ] || {
    cv_say 'another run has ended in this moment, so what to undo has to be chosen anew: begin again'
    cv_run_close refused
    return 75
  }
  unset cv_u_alone
  CV_FROM_RUN=$target CV_TOKEN=undo CV_FLAGS=- CV_WINDOW= CV_ROWS= CV_MADE_AT= CV_ITEM=undo.sh cv_u_last= cv_u_seq=0 cv_u_turn=0 cv_u_stays= cv_u_did= cv_u_left= cv_u_ran=
  printf '%sundoing run %s as run %s\n' "${cv_p_over:-}" "$target" "$CV_RUN"
  cv_u_rows=$(cv_undo_rows "$target" whole)
  cv_undo_whole "$cv_u_rows"
  cv_undo_ready "$cv_u_rows"
  cv_undo_going "$cv_u_rows"
  cv_split_by "$CV_NL"
  set -- $cv_u_rows
  cv_split_end
  for cv_u_row; do
    cv_u_turn=$((cv_u_turn + 1))
    cv_row "$cv_u_row"
    # The packages are one transaction; everything else goes back one by one.
    [ "$row_kind $cv_u_last" = "package package" ] || cv_undo_group
    # The group has had rows of its own.
    cv_row "$cv_u_row"
    if cv_undo_keeps; then
      cv_undo_name "$row_kind" "$row_key" "$row_item"
      printf 'passed over    %s: it is not taken back\n' "$CV_SHOWN"
      cv_u_last=
      continue
    fi
    cv_u_part=
    cv_undo_judge "$cv_u_row"
    if [ "$judged $row_kind" = "restore mount" ] && cv_undo_line_stays; then
      judged='its line in /etc/fstab stays, and so does the mount: left alone'
    fi
    if [ "$judged $row_kind" = "restore mount" ] && cv_undo_memory_stays; then
      judged="it is in memory and holds $cv_u_held: left alone"
    fi
    cv_u_last=$row_kind CV_ITEM=$row_item
    case $judged in
    restore)
      cv_u_seq=$((cv_u_seq + 1))
      CV_ROWS=$CV_ROWS$cv_u_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$CV_NOW$CV_TAB$row_before$CV_NL
      case ${row_made:--} in -) ;; *) CV_MADE_AT=$row_kind$CV_TAB$row_key$CV_TAB$row_made$CV_NL ;; esac
      # Its record says it too, and of what is one transaction the whole is as secret as a part.
      [ "$row_flags" != sensitive ] || CV_FLAGS=sensitive
      [ -z "$cv_u_part" ] || CV_FLAGS=$CV_FLAGS,in-part
      [ -z "$cv_u_begun" ] || CV_FLAGS=$CV_FLAGS,begun
      ;;
    *)
      cv_undo_name "$row_kind" "$row_key" "$row_item"
      if [ "$judged" = same ] && cv_undo_covered; then
        printf 'as before      %s: hidden by the later run %s, and not undone: when that one is undone, undo this one again\n' "$CV_SHOWN" "$cv_u_later"
      elif [ "$judged" = same ]; then
        printf 'as before      %s\n' "$CV_SHOWN"
        cv_undo_note_lead
      elif [ "$judged" = undone ]; then
        printf 'undone already %s\n' "$CV_SHOWN"
      else
        printf 'LEFT ALONE     %s: %s\n' "$CV_SHOWN" "$judged"
        failed=yes
        [ "$row_kind" != path ] || cv_u_left=$cv_u_left${CV_SHOWN#path:}$CV_NL
        cv_u_left=$cv_u_left$(cv_undo_programs)$CV_NL
      fi
      ;;
    esac
  done
  cv_u_turn=$((cv_u_turn + 1))
  cv_undo_group
  cv_u_on=$(cv_undo_runs_on "$target")
  cv_split_by "$CV_NL"
  set -- $cv_u_on
  cv_split_end
  for cv_u_each; do
    cv_undo_name unit "${cv_u_each#* }" -
    printf 'LEFT ALONE     %s: the later run %s has started it with what this run had left: undo that one next\n' "$CV_SHOWN" "${cv_u_each%% *}"
    failed=yes
  done
  if [ -n "$reload" ] && [ -d "$CV_SYSTEMD" ]; then systemctl daemon-reload; fi
  [ -n "$failed" ] || printf 'undoes\t%s\n' "$target" >>"$CV_ROOT/runs/$CV_RUN/meta"
  # Its ID is made by this host's clock, which may be wrong: nothing is too old.
  CV_KEEP_DAYS=100000 cv_run_close finished
  # The record of a host does not say whether its run worked on a cluster too.
  if [ -n "$cv_u_did" ] && [ -d "$CV_KUBE_DIR" ]; then
    echo 'objects in a Kubernetes cluster are outside of this: converge rollback restores them'
  fi
  [ -z "$failed" ]
}

cv_undo_main "$@"
