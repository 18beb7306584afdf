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

# cv_undo_rows RUN [whole]: the changes of a run in the order in which they are undone: SEQ KIND KEY BEFORE AFTER ITEM LAST UNSAVED OPEN FLAGS.
# LAST is the line that the run left, `?` when it did not come to say so; OPEN is then the line from which its last step set out, else `?`.
# FLAGS is `sensitive`, or `-` where the record says that it is not: undo.sh once did not say it, and records of format 1 say not who wrote them. With
# `whole` an object that several items changed is one row, from what the last one left to before the first; of packages it always is. The newest
# come first, with these exceptions: a command is undone before what it moved; the packages are one transaction, with what their purge would take
# along behind it; units are started last, with all that they run with; /etc/fstab goes back before an unmount is tried.
cv_undo_rows() {
  cv_u_says=
  if cv_meta_of "$1" | grep -q "^purpose$CV_TAB\(converge\|rollback\|undo${CV_TAB}flags\)"; then cv_u_says=yes; fi
  cv_journal_of "$1" | awk -F '\t' -v OFS='\t' -v whole="${2:-}" -v says="$cv_u_says" '
    # Whether an object has a path for its key that does not begin at the root: no object has, only a damaged record.
    function lost_path(kind, key) { return (kind == "path" || kind == "git" || kind == "swap" || kind == "mount") && key !~ /^(\/|\\0057)/ }
    function take(what) {
      n++; at[$2] = n; seq[n] = $2; lost[n] = "-"; last[n] = what == "moved" ? $6 : "?"
      kind[n] = $3; key[n] = $4; before[n] = $5; after[n] = $6; item[n] = $7; moved[n] = (what == "moved")
      flags[n] = says && !index("," $8 ",", ",sensitive,") ? "-" : "sensitive"
      if ($3 == "command" && !moved[n]) command[$7] = n
      if (moved[n] && ($7 in command)) made[$4]
    }
    function starts(i,  b, a) {
      if (kind[i] != "unit" || split(before[i], b, " ") != 4 || b[3] != "active") return 0
      split(after[i], a, " ")
      return a[3] != "active" || a[4] != b[4]
    }
    # A directory of an account that the run made is reverted before the account: without that its owner is a bare number.
    function of_new(i,  a) { split(after[i], a, " "); return (a[3] in fresh) || (a[4] in fresh) }
    function text(i,  open) {
      open = last[i] == "?" ? from[i] : "?"
      return seq[i] OFS kind[i] OFS key[i] OFS before[i] OFS after[i] OFS item[i] OFS last[i] OFS lost[i] OFS open OFS flags[i] "\n"
    }
    ($1 == "begin" || $1 == "moved") && (NF < 8 || $2 !~ /^[0-9]+$/ || $3 !~ /^[A-Za-z0-9_]+$/ || lost_path($3, $4)) { next }
    $1 == "begin" || $1 == "moved" { take($1) }
    # Where the host could not look, it is not known whether the change happened; a line that was cut short says nothing.
    ($1 == "done" || $1 == "off" || $1 == "putback") && ($2 in at) && NF >= 3 && $3 !~ /^!/ { last[at[$2]] = $3 }
    $1 == "failed" && ($2 in at) && NF >= 4 && $4 !~ /^!/ { last[at[$2]] = $4 }
    $1 == "unsaved" && ($2 in at) && NF >= 3 { lost[at[$2]] = $3 }
    END {
      for (i = 1; i <= n; i++) {
        if (kind[i] == "package") newest = i
        from[i] = before[i]; did[i] = last[i] == "?" || last[i] != before[i]
        if (!whole && kind[i] != "package") continue
        object = kind[i] OFS key[i]
        if (!(object in one)) { one[object] = i; continue }
        j = one[object]; after[j] = after[i]; last[j] = last[i]; from[j] = before[i]; kind[i] = ""
        if (flags[i] == "sensitive") flags[j] = flags[i]
        # A step that changed nothing is in force nowhere: the row goes by the number of one that did.
        if (!did[j]) { seq[j] = seq[i]; did[j] = did[i] }
      }
      for (i = 1; i <= n; i++) if ((kind[i] == "user" || kind[i] == "group") && before[i] == "absent") fresh[key[i]]
      for (i = 1; i <= n; i++) if (kind[i] == "package") { first = i; if (before[i] == "absent" && !turn) turn = i }
      if (!turn) turn = first
      for (i = n; i > 0; i--) {
        c = command[item[i]]
        late = kind[i] == "path" && (before[i] != "absent" || (after[i] ~ /^dir / && (i < newest || moved[i]))) && key[i] !~ /^\/etc\/apt\// && !(key[i] in made) && !of_new(i)
        if (kind[i] == "") continue
        # Else systemd or a boot mounts it once more, and where it is in use the line would stay.
        if (kind[i] == "mount" && before[i] == "absent")
          for (j = i - 1; j > 0; j--) if (kind[j] == "path" && key[j] == "/etc/fstab") { printf "%s", text(j); kind[j] = ""; break }
        if (kind[i] == "package") {
          if (i == turn) for (j = n; j > 0; j--) if (kind[j] == "package") printf "%s", text(j)
        } else if (starts(i)) tail = tail text(i)
        else if (moved[i] && c && c < i) behind[c] = behind[c] text(i)
        else if (late && turn && i > turn) behind[turn] = behind[turn] text(i)
        else printf "%s", text(i)
        printf "%s", behind[i]
      }
      printf "%s", tail
    }'
}

# cv_live: what is in force, oldest first: RUN SEQ KIND KEY BEFORE LAST PLANNED, for each change that no rollback has taken back. LAST is `?` where the
# run did not come to say it; PLANNED is then what it set out for, else `-`. The same rules as in crates/ledger/src/fold.rs.
cv_live() {
  for cv_l_run in $(cv_order); do
    printf 'run\t%s\n' "$cv_l_run"
    cv_lines_of "$cv_l_run"
  done | awk -F '\t' -v OFS='\t' '
    function happened(r, i) { return last[r, i] == "?" || b[r, i] != last[r, i] }
    # The file system that is mounted there, by the line of a mount.
    function system_of(line,  w) { if (split(line, w, " ") < 5 || w[1] != "mount") return "-"; return w[5] == "-" ? w[2] : w[5] }
    # Every byte in octal, as keys with odd ones are.
    function octal(text,  i, out) {
      if (substr(text, 1, 2) == "\\0") return text
      for (i = 1; i <= length(text); i++) out = out "\\0" code[substr(text, i, 1)]
      return out
    }
    function at_path(kind) { return kind == "path" || kind == "git" || kind == "swap" || kind == "mount" }
    # The file systems in which an object lies, where runs mount some above it. The same rule as in crates/ledger/src/layers.rs.
    function layer(kind, key,   p, dir, out) {
      if (!places || !at_path(kind)) return ""
      key = octal(key)
      for (p = 1; p <= places; p++) {
        dir = octal(place[p])
        if (mounted[p] != found[p] && (index(key, dir "\\0057") == 1 || (kind == "path" && key == dir))) out = out SUBSEP p SUBSEP mounted[p]
      }
      return out
    }
    function mounts(key, line) { if (key in spot) mounted[spot[key]] = system_of(line) }
    BEGIN { for (i = 1; i < 256; i++) code[sprintf("%c", i)] = sprintf("%03o", i) }
    function goal(k,   t, i) {
      for (t = 1; t <= R; t++) if (t in target) for (i = 1; i <= n[t]; i++) if (o[t, i] == k && happened(t, i)) return b[t, i]
      return ""
    }
    # Takes the steps of the targets off the stack of an object; where one is a rollback, what it had taken off comes back.
    function revert(k,   t, old) {
      old = stack[k]
      for (t = R - 1; t >= 1; t--) {
        if (!(t in target)) continue
        stack[k] = change(stack[k], t, given[t, k], taken[t, k])
      }
      effect(k, old, stack[k])
    }
    # A stack without the steps of a run and those that it had put on, and with those that it had taken off, in their order.
    function change(list, t, off, on,   c, j, m, s, steps, out, cell) {
      c = split(list, steps, " ")
      for (j = 1; j <= c; j++) { split(steps[j], s, ":"); if (s[1] + 0 != t && !index(off " ", " " steps[j] " ")) cell[steps[j]] }
      c = split(on, steps, " ")
      for (j = 1; j <= c; j++) cell[steps[j]]
      for (j = 1; j <= R; j++) for (m = 1; m <= n[j]; m++) if ((j ":" m) in cell) out = out " " j ":" m
      return out
    }
    function effect(k, old, now,   c, j, steps) {
      c = split(old, steps, " ")
      for (j = 1; j <= c; j++) if (!index(now " ", " " steps[j] " ")) taken[R, k] = taken[R, k] " " steps[j]
      c = split(now, steps, " ")
      for (j = 1; j <= c; j++) if (!index(old " ", " " steps[j] " ")) given[R, k] = given[R, k] " " steps[j]
    }
    # Where it is not recorded which runs were meant: back to the last step that began in this state.
    function back_to(k, state,   c, j, s, steps, kept, cut) {
      c = split(stack[k], steps, " ")
      for (j = c; j >= 1 && !cut; j--) { split(steps[j], s, ":"); if (b[s[1], s[2]] == state) cut = j }
      if (!cut) return
      for (j = 1; j < cut; j++) kept = kept " " steps[j]
      effect(k, stack[k], kept)
      stack[k] = kept
    }
    function end_of_run(  i, k, whole) {
      if (!R) return
      if (!back) {
        for (i = 1; i <= n[R]; i++) if (happened(R, i)) {
          # Not `in stack`: reading a stack makes one.
          if (!(o[R, i] in known)) { known[o[R, i]]; order[++objects] = o[R, i] }
          stack[o[R, i]] = stack[o[R, i]] " " R ":" i
        }
        return
      }
      for (i = 1; i <= n[R]; i++) {
        if (!happened(R, i)) continue
        k = o[R, i]
        if (!targets) back_to(k, last[R, i])
        else if (how[R, i] == "done" || (last[R, i] != "?" && last[R, i] == goal(k))) revert(k)
      }
      whole = closed && !roles
      for (i = 1; i <= n[R]; i++) if (how[R, i] != "done" && how[R, i] != "moved") whole = 0
      for (k in planned) if (!(k in begun)) whole = 0
      if (!whole) return
      # undo.sh names its target there only when nothing of it was left alone.
      for (i in target) if (!(i in undoes)) delete target[i]
      for (i = 1; i <= objects; i++) revert(order[i])
    }
    $1 == "run" {
      end_of_run()
      R++; id[R] = $2; number[$2] = R; n[R] = 0
      back = targets = roles = closed = 0
      split("", target); split("", undoes); split("", planned); split("", begun); split("", at); split("", mount)
      next
    }
    ($1 == "undoes" || $1 == "attempts") { back = 1; if (($2 in number) && number[$2] < R) { target[number[$2]]; targets = 1; if ($1 == "undoes") undoes[number[$2]] } }
    $1 == "purpose" && $2 == "undo" { back = 1 }
    $1 == "purpose" && $2 == "rollback" { back = 1; if (NF > 2) roles = 1 }
    $1 == "planned" { planned[$2] }
    # No object has a path for its key that does not begin at the root.
    ($1 == "begin" || $1 == "moved") && at_path($3) && $4 !~ /^(\/|\\0057)/ { next }
    ($1 == "begin" || $1 == "moved") && NF >= 8 && $2 ~ /^[0-9]+$/ && $3 ~ /^[A-Za-z0-9_]+$/ {
      i = ++n[R]; at[$2] = i; seq[R, i] = $2; b[R, i] = $5; to[R, i] = $6
      name[R, i] = $3 OFS $4; o[R, i] = name[R, i] OFS layer($3, $4)
      if ($3 == "mount") {
        if (!($4 in spot)) { spot[$4] = ++places; place[places] = $4; found[places] = system_of($5) }
        mounts($4, $6); mount[$2] = $4
      } else delete mount[$2]
      last[R, i] = $1 == "moved" ? $6 : "?"; how[R, i] = $1 == "moved" ? "moved" : "open"; begun[$7]
      # A rollback knew that it would not come to the state before: the next one goes on with it.
      part[R, i] = (index("," $8 ",", ",in-part,") > 0)
    }
    ($1 == "done" || $1 == "off" || $1 == "putback") && ($2 in at) && NF >= 3 && $3 !~ /^!/ {
      last[R, at[$2]] = $3; how[R, at[$2]] = part[R, at[$2]] ? "off" : $1
      if ($2 in mount) mounts(mount[$2], $3)
    }
    $1 == "failed" && ($2 in at) && NF >= 4 && $4 !~ /^!/ {
      last[R, at[$2]] = $4; how[R, at[$2]] = $1
      if ($2 in mount) mounts(mount[$2], $4)
    }
    $1 == "close" { closed = ($2 != "cut-off") }
    END {
      end_of_run()
      for (i = 1; i <= objects; i++) {
        c = split(stack[order[i]], steps, " ")
        for (j = 1; j <= c; j++) { split(steps[j], s, ":"); live[s[1], s[2]] }
      }
      for (r = 1; r <= R; r++) for (i = 1; i <= n[r]; i++)
        if ((r, i) in live) print id[r], seq[r, i], name[r, i], b[r, i], last[r, i], (last[r, i] == "?" ? to[r, i] : "-")
    }'
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

# cv_undo_judge ROW: what is to be done with it, in judged: restore, same, or the reason why not. Its present line is in
# CV_NOW.
cv_undo_judge() {
  cv_row "$1"
  CV_NOW=$(cv_rows_now "$row_seq$CV_TAB$row_kind$CV_TAB$row_key")
  CV_NOW=${CV_NOW#*"$CV_TAB"}
  if [ "${CV_NOW#! }" != "$CV_NOW" ]; then
    cv_dec_to "${CV_NOW#! }"
    judged="$CV_DEC"
  elif ! cv_undo_is_undone && cv_undo_hidden; then
    judged="the later run $cv_u_later has mounted or unmounted something above it, so that another object is seen there: undo that one first"
  elif [ "$CV_NOW" = "$row_before" ]; then
    judged=same
  elif [ "$CV_NOW" = absent ] && command -v "cv_bare_$row_kind" >/dev/null 2>&1 && "cv_bare_$row_kind" "$row_before"; then
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
  elif [ "$row_last" = '?' ] && command -v "cv_amid_$row_kind" >/dev/null 2>&1 && "cv_amid_$row_kind" "$CV_NOW" "$row_open" "$row_after"; then
    # The step that was cut off passes through it.
    judged=restore
  elif [ "$row_last" = absent ] && command -v "cv_bare_$row_kind" >/dev/null 2>&1 && "cv_bare_$row_kind" "$CV_NOW"; then
    # Another object has brought it since, and nobody has touched it.
    judged=restore
  elif command -v "cv_shows_$row_kind" >/dev/null 2>&1 && "cv_shows_$row_kind" "$CV_NOW" "$row_before" "$row_last"; then
    judged=restore
  elif [ -n "$force" ] || cv_undo_moved_by_undo; then
    judged=restore
  else
    judged='someone else has changed it since: left alone'
  fi
  case $judged$row_kind$row_before$CV_NOW in
  'restorepathabsentdir '*) if cv_undo_holds; then judged='it holds what is not undone: left alone'; fi ;;
  restoreuserabsent* | restoregroupabsent*)
    case $cv_u_stays in *" $row_kind:$row_key "*) judged='something that stays belongs to it: left alone' ;; esac
    ;;
  esac
  case $judged:$CV_NOW in
  restore:* | same:*) ;;
  *:'! '*) cv_undo_stays "$row_kind" "$row_after" ;;
  *) cv_undo_stays "$row_kind" "$CV_NOW" ;;
  esac
}

# cv_undo_ready ROWS: the numbers of those rows of paths that can be restored now, in cv_u_ready, where foreign code of the other rows may change them
# on the way: a package that comes back brings its files, a command makes its own again.
cv_undo_ready() {
  cv_u_ready=
  case $CV_NL$1 in *"${CV_TAB}command$CV_TAB"* | *"${CV_TAB}package$CV_TAB"*) ;; *) return 0 ;; esac
  cv_u_ready=" $(
    cv_c_asks=yes cv_u_ran=
    printf '%s\n' "$1" | while IFS= read -r cv_r_row; do
      cv_row "$cv_r_row"
      [ "$row_kind" = path ] || continue
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

# cv_undo_going ROWS: the packages that would be purged, each between blanks, in cv_u_going.
cv_undo_going() {
  cv_u_going=" $(
    printf '%s\n' "$1" | while IFS= read -r cv_g_row; do
      cv_row "$cv_g_row"
      [ "$row_kind $row_before" = "package absent" ] || continue
      cv_dec_to "$row_key"
      printf '%s ' "$CV_DEC"
    done
  )"
}

# cv_undo_file_stays: whether a path that was left alone belongs to a package that would go with a purge, which takes its files along; that path in
# cv_u_file. Reads cv_u_left, cv_u_going.
cv_undo_file_stays() {
  cv_split_by "$CV_NL"
  # shellcheck disable=SC2086
  set -- $cv_u_left
  cv_split_end
  for cv_u_file; do
    if command -v dpkg-query >/dev/null 2>&1; then
      cv_f_owners=$(dpkg-query -S "$cv_u_file" 2>/dev/null | sed 's/: .*//; s/, /\n/g; s/:[a-z0-9]*$//')
    else
      cv_f_owners=$(rpm -qf --qf '%{NAME}\n' "$cv_u_file" 2>/dev/null) || cv_f_owners=
    fi
    for cv_f_owner in $cv_f_owners; do
      case $cv_u_going in *" $cv_f_owner "*) return 0 ;; esac
    done
  done
  return 1
}

# cv_undo_stays KIND LINE: something stays, in this state: so do the accounts that it belongs to, in cv_u_stays.
# shellcheck disable=SC2086
cv_undo_stays() {
  cv_split_by ' '
  set -- $1 $2
  cv_split_end
  case $1:$# in
  path:[5-9]) cv_u_stays="$cv_u_stays user:$4 group:$5 " ;;
  user:[4-9] | user:??) cv_u_stays="$cv_u_stays group:$4 " ;;
  esac
}

# cv_undo_holds: whether the directory of the row holds something. While it is only asked what can be done (cv_c_asks is set), objects that are in
# force do not count, but what others have put into a directory among them does. Reads row_key, CV_LIVE.
cv_undo_holds() {
  cv_dec_to "$row_key"
  cv_undo_dir_holds "$CV_DEC"
}

# cv_undo_dir_holds DIRECTORY: cv_undo_holds for this directory.
cv_undo_dir_holds() (
  for cv_h_entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -e "$cv_h_entry" ] || [ -L "$cv_h_entry" ] || continue
    [ -n "${cv_c_asks:-}" ] || exit 0
    cv_enc_to "$cv_h_entry"
    case $CV_LIVE in *"${CV_TAB}path$CV_TAB$CV_ENC$CV_TAB"*) ;; *) exit 0 ;; esac
    if [ -d "$cv_h_entry" ] && [ ! -L "$cv_h_entry" ] && cv_undo_dir_holds "$cv_h_entry"; then exit 0; fi
  done
  exit 1
)

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
  CV_U_KEY=$row_key CV_U_NOW=$CV_NOW
  export CV_U_KEY CV_U_NOW
  cv_u_later=$(printf '%s' "$CV_LIVE" | awk -F '\t' -v runs=" $later " -v kind="$row_kind" -v gone="$row_before" '
    # State lines of paths hold owner and group, those of users their groups.
    function belongs(of, state,  word, c, i) {
      c = split(state, word, " ")
      if (of == "path" && c > 3) return word[kind == "user" ? 3 : 4] == key
      if (of != "user" || kind != "group") return 0
      for (i = 3; i <= c; i++) if ((i == 3 || i > 7) && word[i] == key) return 1
      return 0
    }
    BEGIN { key = ENVIRON["CV_U_KEY"]; now = ENVIRON["CV_U_NOW"] }
    index(runs, " " $1 " ") == 0 { next }
    $3 == kind && $4 == key { n++; run[n] = $1; before[n] = $5; last[n] = $6; next }
    # The files and users of an account, as that run found or left them. The same rule as in crates/engine/src/revert/holders.rs.
    gone == "absent" && (kind == "user" || kind == "group") && (belongs($3, $5) || belongs($3, $6) || belongs($3, $7)) {
      found = $1 OFS "made what belongs to it"
    }
    END {
      for (i = n; i > 0; i--) if (now == last[i] || now != before[i]) { found = run[i] OFS "changed it too"; break }
      if (found == "") exit 1
      print found
    }' OFS="$CV_TAB") || return 1
  cv_u_why=${cv_u_later#*"$CV_TAB"}
  cv_u_later=${cv_u_later%%"$CV_TAB"*}
}

# cv_undo_hidden: whether a later run has mounted or unmounted something above the object of the row, and that is still so: then another one goes by
# its path. That run in cv_u_later.
cv_undo_hidden() {
  case $row_kind in path | git) ;; *) return 1 ;; esac
  case $CV_LIVE in *"${CV_TAB}mount$CV_TAB"*) ;; *) return 1 ;; esac
  cv_dec_to "$row_key"
  cv_u_later=$(
    cv_u_at=$CV_DEC
    printf '%s' "$CV_LIVE" | while IFS=$CV_TAB read -r cv_u_run cv_u_seq cv_u_kind cv_u_key cv_u_before cv_u_rest; do
      case "$cv_u_kind: $later " in "mount: "*" $cv_u_run "*) ;; *) continue ;; esac
      cv_dec_to "$cv_u_key"
      case $cv_u_at/ in "${CV_DEC%/}"/*) ;; *) continue ;; esac
      cv_u_now=$(cv_line_mount "$CV_DEC" </dev/null) || cv_u_now=absent
      [ "$(cv_undo_system "$cv_u_now")" = "$(cv_undo_system "$cv_u_before")" ] || {
        printf '%s' "$cv_u_run"
        break
      }
    done
  )
  [ -n "$cv_u_later" ]
}

# cv_undo_system LINE: the file system of that line of a mount.
# shellcheck disable=SC2086
cv_undo_system() {
  cv_split_by ' '
  set -- $1
  cv_split_end
  case ${1:-}${5:-} in
  mount-) printf '%s' "$2" ;;
  mount?*) printf '%s' "$5" ;;
  *) printf '%s' - ;;
  esac
}

# cv_undo_can RUN: whether something of it can be reverted now.
cv_undo_can() (
  CV_FROM_RUN=$1 cv_u_stays=
  cv_undo_after "$1"
  cv_c_rows=$(cv_undo_rows "$1" whole)
  [ -n "$cv_c_rows" ] || exit 0
  cv_c_asks=yes
  printf '%s\n' "$cv_c_rows" | while IFS= read -r cv_c_row; do
    cv_row "$cv_c_row"
    ! command -v "cv_keeps_$row_kind" >/dev/null 2>&1 || continue
    cv_undo_judge "$cv_c_row" </dev/null
    case $judged in
    same | undone) ;;
    restore)
      echo restore
      break
      ;;
    *) case $CV_NOW in '! '*) echo unseen ;; *) echo left ;; esac ;;
    esac
  done | sort -u
)

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
# must not be taken for it. Else the newest one that something else is in the way of. In target.
cv_undo_pick() {
  cv_p_left= cv_p_runs=
  for cv_p_run in $(cv_undo_candidates); do cv_p_runs="$cv_p_run $cv_p_runs"; done
  for cv_p_run in $cv_p_runs; do
    case $(cv_undo_can "$cv_p_run") in
    *restore* | *unseen*)
      target=$cv_p_run
      return 0
      ;;
    left) [ -n "$cv_p_left" ] || cv_p_left=$cv_p_run ;;
    esac
  done
  target=$cv_p_left
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
    /^cv:/ && ($3 == seq || $3 == "-") && ($2 == "refused" || $2 == "off" || $2 == "unsaveable") || $2 == "step" { line = $2 " " $4 }
    END { print line }')
  case $cv_y_line in
  'step '*) CV_WHY="it ended with status ${cv_y_line#* } and no message" ;;
  'refused '*) CV_WHY="it was changed in this moment, to: ${cv_y_line#* }" ;;
  'off '*) CV_WHY="nothing failed, and it is not as before but: ${cv_y_line#* }" ;;
  'unsaveable '*)
    cv_dec_to "${cv_y_line#* }"
    CV_WHY="nothing was changed, its present state cannot be saved: $CV_DEC"
    ;;
  esac
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
    case $row_kind:$CV_SHOWN in path:*/systemd/*) reload=yes ;; esac
  done
  unset IFS
  set +f
  # The line above has the last one.
  case $cv_u_status:$CV_FLAGS in
  0:* | *:sensitive) ;;
  *) printf '%s\n' "$cv_u_out" | sed '/^cv:/d; /^[[:space:]]*$/d' | sed '$d; s/^/               /' ;;
  esac
  CV_ROWS= CV_FLAGS=-
}

# cv_undo_main ARGUMENTS: undo.sh.
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
  CV_FROM_RUN=$target CV_TOKEN=undo CV_FLAGS=- CV_WINDOW= CV_ROWS= CV_ITEM=undo.sh cv_u_last= cv_u_seq=0 cv_u_stays= cv_u_did= cv_u_left= cv_u_ran=
  printf 'undoing run %s as run %s\n' "$target" "$CV_RUN"
  cv_u_rows=$(cv_undo_rows "$target" whole)
  cv_undo_ready "$cv_u_rows"
  cv_undo_going "$cv_u_rows"
  cv_split_by "$CV_NL"
  set -- $cv_u_rows
  cv_split_end
  for cv_u_row; do
    cv_row "$cv_u_row"
    # The packages are one transaction; everything else goes back one by one.
    [ "$row_kind $cv_u_last" = "package package" ] || cv_undo_group
    # The group has had rows of its own.
    cv_row "$cv_u_row"
    if command -v "cv_keeps_$row_kind" >/dev/null 2>&1; then
      cv_undo_name "$row_kind" "$row_key" "$row_item"
      printf 'passed over    %s: it is not taken back\n' "$CV_SHOWN"
      cv_u_last=
      continue
    fi
    cv_undo_judge "$cv_u_row"
    if [ "$judged $row_kind $row_before" = "restore package absent" ] && cv_undo_file_stays; then
      judged="$cv_u_file, which is left alone, would go with its package: left alone"
    fi
    cv_u_last=$row_kind CV_ITEM=$row_item
    # Started although something stays as it is, it has no record of running with all of it.
    case "$failed $row_kind $row_before" in 'yes unit unit '*' active '*) row_before="${row_before% *} -" ;; esac
    case $judged in
    restore)
      cv_u_seq=$((cv_u_seq + 1))
      CV_ROWS=$CV_ROWS$cv_u_seq$CV_TAB$row_kind$CV_TAB$row_key$CV_TAB$CV_NOW$CV_TAB$row_before$CV_NL
      # Its record says it too, and of what is one transaction the whole is as secret as a part.
      [ "$row_flags" != sensitive ] || CV_FLAGS=sensitive
      ;;
    *)
      cv_undo_name "$row_kind" "$row_key" "$row_item"
      if [ "$judged" = same ]; then
        printf 'as before      %s\n' "$CV_SHOWN"
      elif [ "$judged" = undone ]; then
        printf 'undone already %s\n' "$CV_SHOWN"
      else
        printf 'LEFT ALONE     %s: %s\n' "$CV_SHOWN" "$judged"
        failed=yes
        [ "$row_kind" != path ] || cv_u_left=$cv_u_left${CV_SHOWN#path:}$CV_NL
      fi
      ;;
    esac
  done
  cv_undo_group
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
