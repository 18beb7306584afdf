# --- what is ours on the host ---
#
# $CV_ROOT/owned: `converge-owned 1`, a line `folded RUN` for each recorded run that it holds already, then one line an
# object, in the order in which they became ours:
#   own|gone KIND KEY PLAYBOOK INVENTORY ROLES ITEM SINCE RUN BEFORE LEFT FLAGS UNSAVED BY HOST NAME
# BEFORE is the state before us, LEFT the one that we left, RUN the run that first changed it (it keeps accounts), BY the
# run that gave it back (`gone`; it is ours again when that run is rolled back), HOST and NAME what the way back needs besides BEFORE. ROLES are joined by commas, the last first.

# cv_owned_fold: the lines of objects, with the runs laid over that are not folded yet. It changes nothing.
cv_owned_fold() (
  cv_o_folded=
  if cv_plain "$CV_ROOT/owned"; then cv_o_folded=$(sed -n "s/^folded$CV_TAB//p" "$CV_ROOT/owned"); fi
  {
    if cv_plain "$CV_ROOT/owned"; then cat "$CV_ROOT/owned"; fi
    for cv_o_run in $(cv_order); do
      cv_plain "$CV_ROOT/runs/$cv_o_run/journal" || continue
      case "$CV_NL$cv_o_folded$CV_NL" in *"$CV_NL$cv_o_run$CV_NL"*) continue ;; esac
      printf 'run\t%s\n' "$cv_o_run"
      cv_lines_of "$cv_o_run"
    done
    printf 'run\t-\n'
  } | awk -F '\t' -v OFS='\t' -v here=" $(ls "$CV_ROOT/runs" 2>/dev/null | tr '\n' ' ')" '
    function create(k) {
      if (k in at) delete name[at[k]]
      at[k] = ++top; name[top] = k
      before[k] = b[i]; since[k] = time; from[k] = run; flags[k] = f[i]; lost[k] = u[i]; roles[k] = ""; way[k] = "-" OFS "-"
    }
    function take(  k, mine, r) {
      k = o[i]
      if (b[i] == a[i]) return
      if (m[i]) { if (state[k] == "own") left[k] = a[i]; return }
      mine = (s[i] in owns)
      if (mine || (!(k in at) && purpose == "converge" && (t[i] in owner))) {
        if (state[k] != "own") create(k)
        if (!mine && flags[k] !~ /by/) flags[k] = flags[k] ",by"
        if (mine) sub(/,by$/, "", flags[k])
        r = mine ? owns[s[i]] : owner[t[i]]
        if (index("," roles[k] ",", "," r ",") == 0) roles[k] = roles[k] == "" ? r : r "," roles[k]
        scope[k] = playbook OFS inventory; item[k] = t[i]; state[k] = "own"
      } else if (!(k in at)) {
        return
      } else if (state[k] == "gone" && (b[i] == before[k] || (by[k] in reverts))) {
        state[k] = "own"
      }
      if (state[k] != "own") return
      left[k] = a[i]; by[k] = "-"
      if (i in w) way[k] = w[i]
      # A rollback of the run that first owned it gives it back, also to where that run found it before its own foreign code moved it.
      if (a[i] == before[k] || (d[i] && (from[k] in reverts))) { state[k] = "gone"; by[k] = run }
    }
    ($1 == "own" || $1 == "gone") && (NF < 14 || $2 !~ /^[A-Za-z0-9_]+$/) { next }
    $1 == "own" || $1 == "gone" {
      k = $2 OFS $3; at[k] = ++top; name[top] = k
      state[k] = $1; scope[k] = $4 OFS $5; roles[k] = $6; item[k] = $7; since[k] = $8; from[k] = $9
      before[k] = $10; left[k] = $11; flags[k] = $12; lost[k] = $13; by[k] = $14; way[k] = $15 == "" ? "-" OFS "-" : $15 OFS $16
      next
    }
    $1 == "run" {
      for (i = 1; i <= n; i++) take()
      n = 0; split("", reverts); split("", d); split("", owns); split("", owner); split("", row); split("", w)
      run = $2; purpose = "converge"; playbook = inventory = time = "-"
      next
    }
    $1 == "purpose" { purpose = $2 }
    $1 == "undoes" || $1 == "attempts" { reverts[$2] }
    $1 == "scope" { playbook = $2; inventory = $3 }
    $1 == "time" { time = $2 }
    ($1 == "begin" || $1 == "moved") && (NF < 8 || $2 !~ /^[0-9]+$/ || $3 !~ /^[A-Za-z0-9_]+$/) { next }
    $1 == "begin" || $1 == "moved" {
      n++; row[$2] = n; s[n] = $2; o[n] = $3 OFS $4; b[n] = $5; a[n] = $6; t[n] = $7; f[n] = $8; u[n] = "-"; m[n] = ($1 == "moved")
    }
    $1 == "owns" && ($2 in row) && NF >= 3 { owns[$2] = $3; owner[t[row[$2]]] = $3 }
    $1 == "done" && ($2 in row) { d[row[$2]] = 1 }
    ($1 == "done" || $1 == "off" || $1 == "putback") && ($2 in row) && NF >= 3 && $3 !~ /^!/ { a[row[$2]] = $3 }
    $1 == "failed" && ($2 in row) && NF >= 4 && $4 !~ /^!/ { a[row[$2]] = $4 }
    $1 == "unsaved" && ($2 in row) && NF >= 3 { u[row[$2]] = $3 }
    $1 == "back" && ($2 in row) && NF >= 4 { w[row[$2]] = $3 OFS $4 }
    END {
      for (i = 1; i <= top; i++) {
        if (!(i in name)) continue
        k = name[i]
        if (state[k] == "gone" && index(here, " " by[k] " ") == 0) continue
        print state[k], k, scope[k], roles[k], item[k], since[k], from[k], before[k], left[k], flags[k], lost[k], by[k], way[k]
      }
    }'
)

# cv_owned_write [RUN]: folds the runs into the record; RUN may still grow and is left to be folded again.
cv_owned_write() (
  umask 077
  {
    printf 'converge-owned\t1\n'
    for cv_o_run in $(cv_order); do
      if cv_plain "$CV_ROOT/runs/$cv_o_run/journal" && [ "$cv_o_run" != "${1:-}" ]; then printf 'folded\t%s\n' "$cv_o_run"; fi
    done
    cv_owned_fold
  } >"$CV_ROOT/owned.new" || {
    rm -f "$CV_ROOT/owned.new"
    return 1
  }
  { sync "$CV_ROOT/owned.new" 2>/dev/null || sync; } && mv -f "$CV_ROOT/owned.new" "$CV_ROOT/owned"
)

# cv_disown KIND KEY: it is no longer ours. The session holds the lock.
cv_disown() (
  umask 077
  cv_enc_to "$2"
  cv_plain "$CV_ROOT/owned" || return 0
  # What an unfolded run says of it would come back.
  cv_owned_write "${CV_RUN:-}" || return 1
  CV_O_KIND=$1 CV_O_KEY=$CV_ENC awk -F '\t' '!(($1 == "own" || $1 == "gone") && $2 == ENVIRON["CV_O_KIND"] && $3 == ENVIRON["CV_O_KEY"])' \
    "$CV_ROOT/owned" >"$CV_ROOT/owned.new" && mv -f "$CV_ROOT/owned.new" "$CV_ROOT/owned"
)

# cv_busy: whether some process holds the lock (a session and its steps have it at descriptor 9). It takes none itself.
cv_busy() {
  [ ! -e "$CV_ROOT/switch/armed" ] && [ ! -e "$CV_ROOT/switch/acting" ] || return 0
  for cv_b_fd in /proc/[0-9]*/fd/9; do
    [ ! "$cv_b_fd" -ef "$CV_ROOT/lock" ] || return 0
  done
  return 1
}

# cv_owned: for a plan: what is ours, and the newest run when it did not end. It changes nothing.
cv_owned() (
  printf 'converge-owned\t1\n'
  [ -e "$CV_ROOT/version" ] && [ -r "$CV_ROOT" ] && [ -x "$CV_ROOT" ] || return 0
  cv_version
  [ -z "$CV_VERSION" ] || cv_format_known "$CV_VERSION" || return 0
  cv_broken
  cv_owned_fold
  cv_o_last=
  for cv_o_run in $(cv_order); do ! cv_plain "$CV_ROOT/runs/$cv_o_run/journal" || cv_o_last=$cv_o_run; done
  [ -n "$cv_o_last" ] || return 0
  ! grep -q "^close$CV_TAB" "$CV_ROOT/runs/$cv_o_last/journal" || return 0
  if cv_busy; then printf 'busy\tyes\n'; fi
  printf 'run\t%s\n' "$cv_o_last"
  cv_lines_of "$cv_o_last"
)
