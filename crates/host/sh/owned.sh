# --- which objects are managed ---
#
# $CV_ROOT/owned is the base: what a controller has folded of the runs that it names (`folded RUN`). The other runs' journals stand beside it.
# The controller reads both and folds; the host keeps what it is given. crates/ledger has the fold and the form of the base.

# cv_unfolded ORDER: those of these runs that have a journal and are not in the base, one a line.
cv_unfolded() (
  folded=
  if cv_plain "$CV_ROOT/owned"; then folded=$(sed -n "s/^folded$CV_TAB//p" "$CV_ROOT/owned"); fi
  for run in $1; do
    cv_plain "$CV_ROOT/runs/$run/journal" || continue
    case "$CV_NL$folded$CV_NL" in *"$CV_NL$run$CV_NL"*) ;; *) printf '%s\n' "$run" ;; esac
  done
)

# cv_base_of: the digest of the base, `-` for none.
# shellcheck disable=SC2046
cv_base_of() (
  cv_plain "$CV_ROOT/owned" || {
    echo -
    return 0
  }
  set -- $(sha256sum <"$CV_ROOT/owned")
  printf '%s\n' "$1"
)

# cv_base_swap: puts owned.new in the place of the base, when it is on the disk.
cv_base_swap() { { sync "$CV_ROOT/owned.new" 2>/dev/null || sync; } && mv -f "$CV_ROOT/owned.new" "$CV_ROOT/owned"; }

# cv_base_put DIGEST RUN... <BASE: keeps a base, if it was made of the present one (DIGEST) and of the oldest runs that are not in that. Else, or
# when it cannot be written, the present one stays, and the next run brings another. The session holds the lock for CV_RUN, which still grows.
cv_base_put() (
  umask 077
  cat >"$CV_ROOT/owned.new" || {
    rm -f "$CV_ROOT/owned.new"
    return 0
  }
  of=$1
  shift
  found=
  for run in $(cv_unfolded "$(cv_order)"); do [ "$run" = "$CV_RUN" ] || found="$found $run"; done
  case "$found " in " $* "*) [ "$of" = "$(cv_base_of)" ] && cv_base_swap && return 0 ;; esac
  rm -f "$CV_ROOT/owned.new"
)

# cv_base_without RUN: it goes on: the base is to hold it no more.
cv_base_without() (
  umask 077
  cv_plain "$CV_ROOT/owned" && grep -qxF "folded$CV_TAB$1" "$CV_ROOT/owned" || return 0
  grep -vxF "folded$CV_TAB$1" "$CV_ROOT/owned" >"$CV_ROOT/owned.new" && cv_base_swap
)

# cv_disown WORD KIND KEY: writes into the journal of CV_RUN that the object is managed no more (disown), for rollbacks too (forget). The session holds
# the lock.
cv_disown() (
  umask 077
  cv_run_dir
  cv_enc_to "$3"
  cv_journal "$1$CV_TAB$2$CV_TAB$CV_ENC$CV_NL" sync
)

# cv_adoption_save PATH STATE: keeps the content of a file that is to be adopted: what changes it afterwards may find another one. One that is too large is
# not kept, as before a change.
cv_adoption_save() (
  cv_run_dir
  CV_AFTER=
  cv_save_path "$1" "$2" 2>&1 </dev/null || [ $? = 3 ]
)

# cv_adoption KIND KEY STATE ITEM FLAGS: writes into the journal of CV_RUN that the object is managed from here on, by that item, and the real directory of a
# path to which links lead. The session holds the lock.
cv_adoption() (
  umask 077
  cv_run_dir
  real=
  case $2 in
  /*)
    cv_real_dir_to "$2"
    cv_dec_to "$CV_REAL_DIR"
    [ -z "$CV_REAL_DIR" ] || [ "${CV_DEC%/}" = "${2%/*}" ] || real=$CV_TAB$CV_REAL_DIR
    ;;
  esac
  cv_enc_to "$2"
  key=$CV_ENC
  cv_enc_to "$4"
  cv_journal "adopt$CV_TAB$1$CV_TAB$key$CV_TAB$3$CV_TAB$CV_ENC$CV_TAB$5$real$CV_NL" sync
)

# cv_renaming FROM TO: writes into the journal of CV_RUN that what earlier runs of the project recorded under a name goes by another one since. The session
# holds the lock.
cv_renaming() (
  umask 077
  cv_run_dir
  cv_enc_to "$1"
  from=$CV_ENC
  cv_enc_to "$2"
  cv_journal "move$CV_TAB$from$CV_TAB$CV_ENC$CV_NL" sync
)

# cv_busy: whether some process holds the lock (a session and its steps have it at descriptor 9), or a step lives that does not. It takes none itself.
cv_busy() {
  [ ! -e "$CV_ROOT/switch/armed" ] && [ ! -e "$CV_ROOT/switch/acting" ] || return 0
  for cv_b_fd in /proc/[0-9]*/fd/9; do
    [ ! "$cv_b_fd" -ef "$CV_ROOT/lock" ] || return 0
  done
  [ -n "$(cv_living)" ]
}

# cv_at_work: for a rollback, a line about the newest run if it did not end and is still at work.
cv_at_work() (
  for run in $(cv_order); do
    if cv_plain "$CV_ROOT/runs/$run/journal"; then last=$run; fi
  done
  [ -n "${last:-}" ] && ! grep -q "^close$CV_TAB" "$CV_ROOT/runs/$last/journal" && cv_busy || return 0
  cv_enc_to "run $last did not end, and it may still be at work: nothing can be rolled back before it has ended"
  printf 'broken\t%s\n' "$CV_ENC"
)

# cv_owned: for a plan: the base, and the runs that are not in it. It changes nothing.
cv_owned() (
  printf 'converge-managed\t1\n'
  cv_switch_remark
  if [ "$CV_UID" = 0 ] && cv_store_bad; then
    cv_enc_to "$CV_WHY"
    printf 'broken\t%s\n' "$CV_ENC"
    return 0
  fi
  [ -e "$CV_ROOT/version" ] && [ -r "$CV_ROOT" ] && [ -x "$CV_ROOT" ] || return 0
  cv_version
  [ -z "$CV_VERSION" ] || cv_format_known "$CV_VERSION" || return 0
  cv_broken
  cv_o_order=$(cv_order) cv_o_last=
  for cv_o_run in $cv_o_order; do
    printf 'recorded\t%s\n' "$cv_o_run"
    ! cv_plain "$CV_ROOT/runs/$cv_o_run/journal" || cv_o_last=$cv_o_run
  done
  if [ -n "$cv_o_last" ] && ! grep -q "^close$CV_TAB" "$CV_ROOT/runs/$cv_o_last/journal" && cv_busy; then printf 'busy\tyes\n'; fi
  # The digest first: of a base that is replaced meanwhile, it is that of the one before, and nothing is made of it.
  printf 'base\t%s\n' "$(cv_base_of)"
  cv_o_runs=$(cv_unfolded "$cv_o_order")
  cv_answerable "$cv_o_runs" || return 1
  if cv_plain "$CV_ROOT/owned"; then awk -F '\t' '$1 == "run" { $0 = "damaged:" $0 } { print }' "$CV_ROOT/owned"; fi
  for cv_o_run in $cv_o_runs; do
    printf 'run\t%s\n' "$cv_o_run"
    cv_lines_of "$cv_o_run"
  done
)
