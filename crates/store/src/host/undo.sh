# --- undo ---

cv_undo_usage() {
  cat <<'END'
usage: sh undo.sh [--list] [--force] [RUN]
Restores what a run of converge changed on this machine: the newest one that is not undone yet, or RUN.
It compares before it swaps: what someone else has changed since is left alone, unless --force is given.
  --list   the runs that can be undone
  --switch for the unit of an armed switch: waits, and puts a guarded change back that nobody confirms
Status: 0 all is as before; 1 something was left alone or failed; 64 wrong usage; 75 locked; 76 not possible here.
END
}

# cv_undo_rows RUN: the changes of a run, newest first: SEQ KIND KEY BEFORE AFTER ITEM LAST UNSAVED.
# LAST is the line that the run left, `?` when it did not come to say so.
cv_undo_rows() {
  cv_journal_of "$1" | awk -F '\t' -v OFS='\t' '
    $1 == "begin" { n++; at[$2] = n; row[n] = $2 OFS $3 OFS $4 OFS $5 OFS $6 OFS $7; last[n] = "?"; lost[n] = "-" }
    $1 == "moved" { n++; at[$2] = n; row[n] = $2 OFS $3 OFS $4 OFS $5 OFS $6 OFS $7; last[n] = $6; lost[n] = "-" }
    $1 == "done" || $1 == "off" { last[at[$2]] = $3 }
    $1 == "failed" { last[at[$2]] = $4 }
    $1 == "putback" { last[at[$2]] = $3 }
    $1 == "unsaved" { lost[at[$2]] = $3 }
    END { for (i = n; i > 0; i--) print row[i], last[i], lost[i] }'
}

# cv_undoers RUN: the later runs that undid it, or a part of it, and were not undone themselves.
cv_undoers() (
  later=
  for run in "$CV_ROOT/runs"/*; do
    by=${run##*/}
    [ -z "$later" ] || ! grep -qsx "undoes$CV_TAB$1" "$run/meta" || [ -n "$(cv_undoers "$by")" ] || printf '%s\n' "$by"
    [ "$by" != "$1" ] || later=yes
  done
)

# cv_undo_whole RUN: whether a run that undoes has done all that it set out to. What it refused, what failed or was cut off is left.
cv_undo_whole() {
  { grep "^planned$CV_TAB" "$CV_ROOT/runs/$1/meta"; cv_journal_of "$1"; } 2>/dev/null | awk -F '\t' '
    $1 == "planned" { planned[$2] }
    $1 == "begin" || $1 == "moved" { begun[$7]; open[$2] = ($1 == "begin") }
    $1 == "done" && $3 !~ /^!/ { open[$2] = 0 }
    $1 == "off" || $1 == "failed" || $1 == "putback" { open[$2] = 1 }
    $1 == "close" { closed = ($2 != "cut-off") }
    END {
      for (change in open) if (open[change]) closed = 0
      for (item in planned) if (!(item in begun)) closed = 0
      exit !closed
    }'
}

# cv_undone RUN: whether a later run has undone all of it.
cv_undone() {
  for cv_u_by in $(cv_undoers "$1"); do
    cv_undo_whole "$cv_u_by" && return 0
  done
  return 1
}

cv_undo_candidates() {
  for cv_u_run in "$CV_ROOT/runs"/*; do
    [ -e "$cv_u_run/journal" ] || continue
    # A run that undid, or tried to, is undone only by name.
    grep -q "^undoes$CV_TAB\|^attempts$CV_TAB\|^purpose${CV_TAB}rollback" "$cv_u_run/meta" && continue
    grep -q "^begin$CV_TAB" "$cv_u_run/journal" || continue
    cv_undone "${cv_u_run##*/}" || printf '%s\n' "${cv_u_run##*/}"
  done
}

cv_undo_list() {
  for cv_u_run in $(cv_undo_candidates); do
    printf '%s  %s changes, %s\n' "$cv_u_run" "$(grep -c "^begin$CV_TAB" "$CV_ROOT/runs/$cv_u_run/journal")" \
      "$(sed -n "s/^time$CV_TAB//p" "$CV_ROOT/runs/$cv_u_run/meta")"
  done
}

# cv_undo_name KIND KEY: how the object is shown, in CV_SHOWN.
cv_undo_name() {
  cv_dec_to "$2"
  CV_SHOWN="$1:$CV_DEC"
  if [ "$1" = command ]; then
    # Its key holds whole scripts, encoded: the guard tells it well enough.
    cv_split_by ' '
    set -- $CV_DEC
    cv_split_end
    cv_dec_to "$2"
    CV_SHOWN="command:$1 $CV_DEC"
  fi
}

# cv_undo_id: an ID (UUID version 7) that sorts after those of all runs here, whatever the clocks say.
cv_undo_id() {
  cv_u_seconds=$(date +%s) cv_u_stride=1
  read -r cv_u_random </proc/sys/kernel/random/uuid
  cv_u_random=$(printf %s "$cv_u_random" | cut -c16-)
  cv_u_newest=$(ls "$CV_ROOT/runs" | sort | tail -n 1)
  while :; do
    cv_u_ms=$(printf '%012x' $((cv_u_seconds * 1000)))
    cv_u_id=$(printf %s "$cv_u_ms" | cut -c1-8)-$(printf %s "$cv_u_ms" | cut -c9-12)-7$cv_u_random
    # A name that no time reaches (not made by converge) is not waited for.
    case $cv_u_newest in [1-9a-zA-Z]*) break ;; esac
    [ "$(printf '%s\n%s\n' "$cv_u_newest" "$cv_u_id" | sort | tail -n 1)" != "$cv_u_id" ] || break
    cv_u_seconds=$((cv_u_seconds + cv_u_stride)) cv_u_stride=$((cv_u_stride * 2))
  done
  printf '%s\n' "$cv_u_id"
}

# cv_undo_judge ROW: what is to be done with it, in judged: restore, same, or the reason why not. Its present line is in
# CV_NOW.
cv_undo_judge() {
  cv_row "$1"
  CV_NOW=$(cv_rows_now "$row_seq$CV_TAB$row_kind$CV_TAB$row_key")
  CV_NOW=${CV_NOW#*"$CV_TAB"}
  if [ "$CV_NOW" = "$row_before" ]; then
    judged=same
  elif [ "$CV_NOW" = absent ] && command -v "cv_bare_$row_kind" >/dev/null 2>&1 && "cv_bare_$row_kind" "$row_before"; then
    # It went with what brings it.
    judged=same
  elif [ "$row_lost" != - ]; then
    cv_dec_to "$row_lost"
    judged="cannot be undone: $CV_DEC"
  elif cv_undo_later "$row_kind$CV_TAB$row_key"; then
    judged="the later run $cv_u_later changed it too: undo that one first"
  elif [ "$CV_NOW" = "$row_last" ] || { [ "$row_last" = '?' ] && cv_same "$row_kind" "$row_key" "$CV_NOW" "$row_after"; }; then
    judged=restore
  elif [ -n "$force" ]; then
    judged=restore
  else
    judged='someone else has changed it since: left alone'
  fi
}

# cv_undo_later KIND-TAB-KEY: whether a later run that is not undone changed the object; that run in cv_u_later.
cv_undo_later() {
  for cv_u_later in $later; do
    case "$CV_NL$(cut -f 1,3,4 "$CV_ROOT/runs/$cv_u_later/journal")$CV_NL" in
    *"${CV_NL}begin$CV_TAB$1$CV_NL"*) return 0 ;;
    esac
  done
  return 1
}

# cv_undo_group: restores the gathered rows (CV_ROWS: SEQ KIND KEY PRESENT BEFORE) as one item of the new run.
cv_undo_group() {
  [ -n "$CV_ROWS" ] || return 0
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
  set -f
  IFS=$CV_NL
  for cv_u_each in $CV_ROWS; do
    cv_row "$cv_u_each"
    cv_undo_name "$row_kind" "$row_key"
    if [ $cv_u_status -eq 0 ]; then
      printf 'restored       %s\n' "$CV_SHOWN"
    else
      printf 'FAILED         %s\n' "$CV_SHOWN"
      failed=yes
    fi
    case $row_kind:$CV_SHOWN in path:*/systemd/*) reload=yes ;; esac
  done
  unset IFS
  set +f
  [ $cv_u_status -eq 0 ] || printf '%s\n' "$cv_u_out" | sed '/^cv:/d; s/^/               /'
  CV_ROWS=
}

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
  [ -d "$CV_ROOT/runs" ] && [ -O "$CV_ROOT" ] || {
    cv_say "$CV_ROOT holds no records that you may read: are you root?"
    return 76
  }
  [ -n "$target" ] || target=$(cv_undo_candidates | tail -n 1)
  [ -n "$target" ] || {
    echo 'there is no run to undo'
    return 0
  }
  case $target in */* | .*) target=none ;; esac
  [ -e "$CV_ROOT/runs/$target/journal" ] || {
    cv_say "no run $target is recorded here; sh undo.sh --list shows them"
    return 64
  }
  # The names of runs sort by time, and so does the pattern. A run that undid others is no later change of its own.
  later= cv_u_past=
  for cv_u_run in "$CV_ROOT/runs"/*; do
    cv_u_run=${cv_u_run##*/}
    if [ -n "$cv_u_past" ] && [ -e "$CV_ROOT/runs/$cv_u_run/journal" ] && ! cv_undone "$cv_u_run" &&
      ! grep -q "^undoes$CV_TAB\|^attempts$CV_TAB\|^purpose${CV_TAB}rollback" "$CV_ROOT/runs/$cv_u_run/meta"; then
      later="$later $cv_u_run"
    fi
    [ "$cv_u_run" != "$target" ] || cv_u_past=yes
  done
  cv_enc_to "$(id -un)@$(uname -n)"
  # The run that undoes says so only when all went well: else it can be tried again.
  cv_run_open "$(cv_undo_id)" "time$CV_TAB$(date -u +%Y-%m-%dT%H:%M:%SZ)${CV_NL}operator$CV_TAB$CV_ENC${CV_NL}purpose${CV_TAB}undo${CV_NL}attempts$CV_TAB$target" || return $?
  CV_FROM_RUN=$target CV_TOKEN=undo CV_FLAGS=- CV_WINDOW= CV_ROWS= CV_ITEM=undo.sh cv_u_item= cv_u_seq=0
  printf 'undoing run %s as run %s\n' "$target" "$CV_RUN"
  cv_u_rows=$(cv_undo_rows "$target")
  cv_split_by "$CV_NL"
  set -- $cv_u_rows
  cv_split_end
  for cv_u_row; do
    cv_row "$cv_u_row"
    # The packages of one item are one transaction; everything else goes back one by one.
    [ "$row_kind $row_item" = "package $cv_u_item" ] || cv_undo_group
    # The group has had rows of its own.
    cv_row "$cv_u_row"
    if command -v "cv_keeps_$row_kind" >/dev/null 2>&1; then
      cv_undo_name "$row_kind" "$row_key"
      printf 'passed over    %s: it is not taken back\n' "$CV_SHOWN"
      cv_u_item=
      continue
    fi
    cv_undo_judge "$cv_u_row"
    cv_u_item=$row_item CV_ITEM=$row_item
    [ "$row_kind" = package ] || cv_u_item=
    case $judged in
    restore)
      cv_u_seq=$((cv_u_seq + 1))
      CV_ROWS=$CV_ROWS$cv_u_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$CV_NOW$CV_TAB$row_before$CV_NL
      ;;
    *)
      cv_undo_name "$row_kind" "$row_key"
      if [ "$judged" = same ]; then
        printf 'as before      %s\n' "$CV_SHOWN"
      else
        printf 'LEFT ALONE     %s: %s\n' "$CV_SHOWN" "$judged"
        failed=yes
      fi
      ;;
    esac
  done
  cv_undo_group
  if [ -n "$reload" ] && [ -d "$CV_SYSTEMD" ]; then systemctl daemon-reload; fi
  [ -n "$failed" ] || printf 'undoes\t%s\n' "$target" >>"$CV_ROOT/runs/$CV_RUN/meta"
  # Its ID is made by this host's clock, which may be wrong: nothing is too old.
  CV_KEEP_DAYS=100000 cv_run_close finished
  echo 'objects in a Kubernetes cluster are outside of this: converge rollback restores them'
  [ -z "$failed" ]
}

cv_undo_main "$@"
