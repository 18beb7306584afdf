# --- undo: what of the records is in force, and in which order it is undone ---

# Of awk. lead: where the paths below a path lie, by its line: in the directory, or where a link leads. led: whether that is another place now; an
# item that puts a link in the place of a directory has recorded what was in it. The same rules as in crates/ledger/src/lead.rs. octal: every byte of a
# key in octal, as keys with odd ones are. in_dir: the directory of a change, where links led there, if that is another one than in the first change of the
# object that says it. A change that does not say it goes with the one before it. The same rule as in crates/ledger/src/layers.rs.
CV_AWK_LEADS='
    function lead(line,  w) { split(line, w, " "); return w[1] == "dir" ? "dir" : w[1] == "link" ? "link:" w[2] : "" }
    function led(old, now, foreign) { return lead(old) != "" && lead(now) != "" && lead(old) != lead(now) && (foreign || (lead(old) != "dir" && lead(now) != "dir")) }
    function at_path(kind) { return kind == "path" || kind == "git" || kind == "swap" || kind == "mount" }
    function octal(text,  i, out) {
      if (substr(text, 1, 2) == "\\0") return text
      for (i = 1; i <= length(text); i++) out = out "\\0" code[substr(text, i, 1)]
      return out
    }
    function is_below(key, dir) { return index(octal(key), octal(dir) "\\0057") == 1 }
    function in_dir(object, dir) {
      if (dir != "") { if (first_dir[object] == "") first_dir[object] = dir; now_dir[object] = dir }
      return now_dir[object] == first_dir[object] ? "" : now_dir[object]
    }
    BEGIN { for (i = 1; i < 256; i++) code[sprintf("%c", i)] = sprintf("%03o", i) }'

# Of awk. begun: whether a command with an undo has failed by its state, and may have done a part of its work: it counts as left in either state. A step that
# ends with 70 has not begun. The same rule as in crates/ledger/src/record.rs.
CV_AWK_BEGUN='
    function begun_only(kind, key, before, after, status, now,  w) {
      return kind == "command" && now == before && status != 70 && after != "pending" && after != "ran -" && split(key, w, /\\0040/) >= 5 && w[4] != "\\0134"
    }'

# cv_undo_routes LINES: where the paths of a run that makes or leads links really are, by its journal: `route KEY PATH` for each to which the host comes
# over a link.
cv_undo_routes() (
  case $1 in *"${CV_TAB}link "*) ;; *) return 0 ;; esac
  printf '%s\n' "$1" | awk -F '\t' '($1 == "begin" || $1 == "moved") && $3 == "path" && $4 ~ /^\/./ && !($4 in seen) { seen[$4]; print $4 }' |
    while IFS= read -r key; do
      dir=${key%/*}
      real=$(cd -P "${dir:-/}" 2>/dev/null && pwd) || continue
      [ "${real%/}" = "$dir" ] || printf 'route\t%s\t%s/%s\n' "$key" "${real%/}" "${key##*/}"
    done
)

# cv_undo_rows RUN [whole]: the changes of a run in the order in which they are undone: SEQ KIND KEY BEFORE AFTER ITEM LAST UNSAVED OPEN FLAGS LED MADE.
# LAST is the line that the run left, `?` when it did not come to say so; OPEN is then the line from which its last step set out, else `?`.
# FLAGS is `sensitive`, or `-` where the record says that it is not: undo.sh once did not say it, and records of format 1 say not who wrote them. With
# `whole` an object that several items changed is one row, from what the last one left to before the first; of packages it always is. A path below one
# that the run has led elsewhere is another object in each place: LED says where the paths above must lead for it to be seen (KEY PLACE for each, else
# `-`), and the steps of such a path are rows of their own where something behind it was changed in between. MADE has the real directory in which the
# changes of the row were made, where links led there and the record says it, else `-`: in another directory it is another object. The newest
# come first, with these exceptions: a command is undone before what it moved; the packages are one transaction, with what their purge would take
# along behind it; units are started last, with all that they run with; /etc/fstab goes back before
# an unmount or another mount is tried.
cv_undo_rows() {
  cv_u_says=
  if cv_meta_of "$1" | grep -q "^purpose$CV_TAB\(converge\|rollback\|undo${CV_TAB}flags\)"; then cv_u_says=yes; fi
  cv_u_steps=" $(printf '%s' "${CV_LIVE:-}" | awk -F '\t' -v run="$1" '$1 == run { printf "%s ", $2 }')"
  cv_u_lines=$(cv_journal_of "$1")
  { cv_undo_routes "$cv_u_lines" && printf '%s\n' "$cv_u_lines"; } | awk -F '\t' -v OFS='\t' -v whole="${2:-}" -v says="$cv_u_says" -v live="$cv_u_steps" "$CV_AWK_LEADS$CV_AWK_BEGUN"'
    # Whether an object has a path for its key that does not begin at the root: no object has, only a damaged record.
    function lost_path(kind, key) { return at_path(kind) && key !~ /^(\/|\\0057)/ }
    # Whether a row is a step of a path that leads it elsewhere, and whether foreign code has put a link in the place of a directory by it.
    function leads(i) { return kind[i] == "path" && led(before[i], end[i], moved[i]) }
    # Whether a step takes a link away: what lay behind it is hidden then. The same rule as in crates/ledger/src/lead.rs.
    function hides(i) { return kind[i] == "path" && lead(before[i]) ~ /^link:/ && lead(end[i]) == "" }
    function replaces(i) { return kind[i] == "path" && moved[i] && lead(before[i]) == "dir" && lead(end[i]) != "dir" && lead(end[i]) != "" }
    function is_behind(i, p) { return at_path(was[i]) && is_below(key[i], key[p]) }
    # Where the paths above an object led when the row was made; with `all` those too that the run has led elsewhere only later, or back.
    function led_by(i, all,   c, p, first, now, said, out) {
      for (c = 1; c <= steps; c++) {
        p = step[c]
        if (!is_behind(i, p)) continue
        if (!(key[p] in first)) first[key[p]] = now[key[p]] = lead(before[p])
        if (p < i) now[key[p]] = lead(end[p])
      }
      for (c = 1; c <= steps; c++) {
        p = key[step[c]]
        if (!(p in first) || (p in said)) continue
        said[p]
        if (all || now[p] != first[p]) out = out " " p " " now[p]
      }
      return substr(out, 2)
    }
    # Whether it lies behind a link that the run has made or led, also through one of others, or in what a command has mounted: it goes back while that is
    # there.
    function is_behind_link(i,  p) {
      for (p in link) if (is_below(key[i], p) || ((key[i] in real) && link[p] != "" && is_below(real[key[i]], link[p]) && !is_below(key[i], link[p]))) return 1
      return 0
    }
    # Where a link leads, by its line; nothing where that is not plain.
    function target(path, line,  to) {
      to = substr(lead(line), 6)
      if (to ~ /^\\0/ || ("/" to "/") ~ /\/\.\.\//) return ""
      sub(/[^\/]*$/, "", path)
      return to ~ /^\// ? to : path to
    }
    # Whether a step of a path is a row of its own, behind this one.
    function is_own(i, older,   m) {
      if (!leads(i) && !hides(i)) return 0
      if (replaces(i) && !replaces(older)) return 1
      for (m = older + 1; m < i; m++) if (kind[m] != "" && did[m] && is_behind(m, i)) return 1
      return 0
    }
    # LED of a row. In the place of a directory that has been replaced there may be a link now.
    function places(i,  out, c, p) {
      out = led_by(i, 1)
      for (c = 1; c <= steps; c++) {
        p = step[c]
        if (p > i && replaced[p] && was[i] == "path" && key[p] == key[i]) { out = out (out == "" ? "" : " ") key[i] " dir"; break }
      }
      return out == "" ? "-" : out
    }
    function take(what) {
      n++; at[$2] = n; seq[n] = $2; lost[n] = "-"; last[n] = what == "moved" ? $6 : "?"
      kind[n] = $3; key[n] = $4; before[n] = $5; after[n] = $6; item[n] = $7; moved[n] = (what == "moved")
      flags[n] = says && !index("," $8 ",", ",sensitive,") ? "-" : "sensitive"
      if ($3 == "command" && !moved[n]) command[$7] = n
      if (moved[n] && ($7 in command)) made[$4]
      if (moved[n] && $3 == "mount" && $6 != "absent") link[$4] = ""
      if ($3 == "path" && lead($6) ~ /^link:/ && lead($5) != "dir" && lead($5) != lead($6)) link[$4] = target($4, $6)
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
      return seq[i] OFS kind[i] OFS key[i] OFS before[i] OFS after[i] OFS item[i] OFS last[i] OFS lost[i] OFS open OFS flags[i] OFS places(i) OFS (made_in[i] == "" ? "-" : made_in[i]) "\n"
    }
    ($1 == "begin" || $1 == "moved") && (NF < 8 || $2 !~ /^[0-9]+$/ || $3 !~ /^[A-Za-z0-9_]+$/ || lost_path($3, $4)) { next }
    $1 == "begin" || $1 == "moved" { take($1) }
    $1 == "route" { real[$2] = $3 }
    # Where the host could not look, it is not known whether the change happened; a line that was cut short says nothing.
    ($1 == "done" || $1 == "off" || $1 == "putback") && ($2 in at) && NF >= 3 && $3 !~ /^!/ { last[at[$2]] = $3 }
    $1 == "failed" && ($2 in at) && NF >= 4 && $4 !~ /^!/ && !begun_only(kind[at[$2]], key[at[$2]], before[at[$2]], after[at[$2]], $3, $4) { last[at[$2]] = $4 }
    $1 == "unsaved" && ($2 in at) && NF >= 3 { lost[at[$2]] = $3 }
    $1 == "at" && ($2 in at) && NF >= 3 { made_in[at[$2]] = $3 }
    END {
      for (i = 1; i <= n; i++) {
        was[i] = kind[i]; end[i] = last[i] == "?" ? after[i] : last[i]
        if (leads(i)) step[++steps] = i
        if (replaces(i)) { replaced[i] = 1; if (lost[i] == "-") lost[i] = "a command put a link in the place of this directory: put that directory back" }
      }
      # Changes by the script of a command that somebody has forgotten are no part of the row: they are in force no more, unlike later changes of the object.
      for (i = 1; i <= n; i++) {
        object = kind[i] OFS key[i] OFS led_by(i)
        object_of[i] = object OFS in_dir(object, made_in[i])
        if (index(live, " " seq[i] " ")) counts[object_of[i]]
      }
      for (i = 1; i <= n; i++) {
        if (kind[i] == "package") newest = i
        from[i] = before[i]; did[i] = last[i] == "?" || last[i] != before[i]
        if (!did[i]) made_in[i] = ""
        if (!whole && kind[i] != "package") continue
        object = object_of[i]
        if (moved[i] && (object in counts) && !index(live, " " seq[i] " ")) { kind[i] = ""; continue }
        if (!(object in one) || is_own(i, one[object])) { one[object] = i; continue }
        j = one[object]; after[j] = after[i]; last[j] = last[i]; from[j] = before[i]; kind[i] = ""
        if (flags[i] == "sensitive") flags[j] = flags[i]
        if (made_in[i] != "") made_in[j] = made_in[i]
        # A step that changed nothing is in force nowhere: the row goes by the number of one that did.
        if (!did[j]) { seq[j] = seq[i]; did[j] = did[i] }
      }
      for (i = 1; i <= n; i++) if ((kind[i] == "user" || kind[i] == "group") && before[i] == "absent") fresh[key[i]]
      for (i = 1; i <= n; i++) if (kind[i] == "package") { first = i; if (before[i] == "absent" && !turn) turn = i }
      if (!turn) turn = first
      for (i = n; i > 0; i--) {
        c = command[item[i]]
        late = kind[i] == "path" && !leads(i) && !hides(i) && led_by(i) == "" && (before[i] != "absent" || (after[i] ~ /^dir / && (i < newest || moved[i]))) && key[i] !~ /^\/etc\/apt\// && !(key[i] in made) && !is_behind_link(i) && !of_new(i)
        if (kind[i] == "") continue
        # Else systemd or a boot mounts it once more, and where it is in use the line would stay.
        if (kind[i] == "mount" && after[i] != "absent")
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

# cv_live: what is in force, oldest first: RUN SEQ KIND KEY BEFORE LAST PLANNED PROJECT DIR, for each change that no rollback has taken back. LAST is `?`
# where the run did not come to say it; PLANNED is then what it set out for, else `-`. PROJECT is the number of its first run. DIR is the directory of the
# change, where links led there and a record says it, else `-`. The same rules as in crates/ledger/src/stacks.rs.
cv_live() {
  for cv_l_run in $(cv_order); do
    printf 'run\t%s\n' "$cv_l_run"
    cv_lines_of "$cv_l_run"
  done | awk -F '\t' -v OFS='\t' "$CV_AWK_LEADS$CV_AWK_BEGUN"'
    function happened(r, i) { return last[r, i] == "?" || b[r, i] != last[r, i] }
    # The file system that is mounted there, by the line of a mount.
    function system_of(line,  w) { if (split(line, w, " ") < 5 || w[1] != "mount") return "-"; return w[5] == "-" ? w[2] : w[5] }
    # The file systems in which an object lies, where runs mount some above it, and where the links above it lead, where runs lead them elsewhere. The
    # same rule as in crates/ledger/src/layers.rs.
    function layer(kind, key,   p, out) {
      if (!at_path(kind)) return ""
      for (p = 1; p <= places; p++)
        if (is[p] != found[p] && (is_below(key, place[p]) || (is_mount[p] && kind == "path" && octal(key) == octal(place[p])))) out = out SUBSEP p SUBSEP is[p]
      return out
    }
    # Takes a change of a mount or of a link.
    function follow(kind, key, old, now, foreign) {
      if ((kind, key) in spot) { if (kind == "mount" || lead(now) != "") is[spot[kind, key]] = kind == "mount" ? system_of(now) : lead(now) }
      else if (kind == "mount" || (kind == "path" && led(old, now, foreign))) {
        spot[kind, key] = ++places; place[places] = key; is_mount[places] = (kind == "mount")
        found[places] = kind == "mount" ? system_of(old) : lead(old)
        is[places] = kind == "mount" ? system_of(now) : lead(now)
      }
    }
    # The stacks of its objects, by what is known of their ends.
    function layers(  i) {
      # Somebody may have led a link back since the runs before this one.
      for (i = n[R]; i >= 1; i--) if (kind[i] == "path" && ((kind[i], key[i]) in spot) && lead(b[R, i]) != "") is[spot[kind[i], key[i]]] = lead(b[R, i])
      for (i = 1; i <= n[R]; i++) {
        of_dir[R, i] = name[R, i] OFS layer(kind[i], key[i])
        in_other[R, i] = in_dir(of_dir[R, i], dir[R, i])
        o[R, i] = of_dir[R, i] OFS in_other[R, i]
        follow(kind[i], key[i], b[R, i], last[R, i] == "?" ? to[R, i] : last[R, i], how[R, i] == "moved")
      }
    }
    # Whether a rollback has led a path back by one of several steps.
    function led_back(k, i,   c, j, s, steps, t) {
      for (t in target) j = 1
      if (!j || (how[R, i] != "done" && how[R, i] != "moved") || kind[i] != "path" || !led(b[R, i], last[R, i], 1)) return 0
      c = split(stack[k], steps, " ")
      for (j = 1; j <= c; j++) { split(steps[j], s, ":"); if (b[s[1], s[2]] == last[R, i]) return 1 }
      return 0
    }
    # Whether a rollback of some roles has brought an object to where a step found it: the earlier ones are those of other roles.
    function to_other_role(k, i,   c, j, s, steps, t) {
      for (t in target) j = 1
      if (!j || !roles || (how[R, i] != "done" && how[R, i] != "moved")) return 0
      c = split(stack[k], steps, " ")
      for (j = 1; j <= c; j++) { split(steps[j], s, ":"); if (b[s[1], s[2]] == last[R, i]) return 1 }
      return 0
    }
    # The place of the first change of a run that may have happened to an object, and is not forgotten since; 0 where there is none.
    function did(t, k,   i) {
      for (i = 1; i <= n[t]; i++) if (o[t, i] == k && happened(t, i) && !((t, i) in forgotten)) return i
      return 0
    }
    function goal(k,   t, i) {
      for (t = 1; t <= R; t++) if ((t in target) && (i = did(t, k))) return b[t, i]
      return ""
    }
    function by_lines(k) { return index(k, "path" OFS "/etc/fstab" OFS) == 1 }
    # Whether steps that are no targets stand on the first of those that are. In gone are those of projects that have brought the object back to where
    # their first one found it. The same rule as in crates/ledger/src/stacks/others.rs.
    function others(k,   c, j, m, s, t, steps, first, begin, end, stand, list) {
      gone = ""
      c = split(stack[k], steps, " ")
      for (j = 1; j <= c && !first; j++) { split(steps[j], s, ":"); if (s[1] in target) first = s[1] + 0 }
      for (t in target) if ((!first || t + 0 < first) && (taken[t, k] given[t, k] != "" || (is_back[t] && did(t, k)))) first = t + 0
      if (!first) return 0
      for (j = 1; j <= c; j++) {
        split(steps[j], s, ":"); t = s[1] + 0; m = whose[t]
        if (t <= first || (t in target)) continue
        if (!(m in begin)) begin[m] = b[t, s[2]]
        end[m] = last[t, s[2]]; list[m] = list[m] " " steps[j]
      }
      for (m in begin) if (begin[m] == end[m] && !by_lines(k)) gone = gone list[m]; else stand = 1
      return stand
    }
    # Takes the steps of the targets off the stack of an object; where one is a rollback, what it had taken off comes back.
    function revert(k,   t, old, c, steps) {
      others(k)
      c = split(gone, steps, " ")
      for (t = 1; t <= c; t++) drop(k, steps[t])
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
    # Whether a record of this playbook is of the project of another: one of none is of every project, and older ones have absolute paths.
    function is_of(its, project) { return its == "" || its == project || substr(its, length(its) - length(project)) == "/" project }
    # The changes of the project before this run to an object are in force no more, and no rollback brings them back. With a command go those that
    # its script has made.
    function forget(object,   r, i, m) {
      for (r = 1; r < R; r++) for (i = 1; i <= n[r]; i++) {
        if (name[r, i] != object || !is_of(playbook[r], playbook[R])) continue
        forgotten[r, i]
        drop(o[r, i], r ":" i)
        if (object ~ /^command\t/) for (m = 1; m <= n[r]; m++) if (foreign[r, m] && item[r, m] == item[r, i]) { forgotten[r, m]; drop(o[r, m], r ":" m) }
      }
    }
    # Takes a step off the stack of an object for good: no rollback brings it back.
    function drop(k, step,   t) {
      stack[k] = without(stack[k], step)
      for (t = 1; t < R; t++) { taken[t, k] = without(taken[t, k], step); given[t, k] = without(given[t, k], step) }
    }
    function without(list, step,   c, j, steps, out) {
      c = split(list, steps, " ")
      for (j = 1; j <= c; j++) if (steps[j] != step) out = out " " steps[j]
      return out
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
      is_back[R] = back
      layers()
      if (!back) {
        for (i = 1; i <= n[R]; i++) if (happened(R, i)) {
          # Not `in stack`: reading a stack makes one.
          if (!(o[R, i] in known)) { known[o[R, i]]; order[++objects] = o[R, i] }
          stack[o[R, i]] = stack[o[R, i]] " " R ":" i
        }
        return
      }
      for (i = 1; i <= n[R]; i++) {
        # A command that was begun only goes back by its undo alone.
        if (!happened(R, i) && (kind[i] != "command" || how[R, i] != "done")) continue
        k = o[R, i]
        if (!targets || (last[R, i] != goal(k) && (led_back(k, i) || to_other_role(k, i)))) back_to(k, last[R, i])
        else if (how[R, i] == "done" || (last[R, i] != "?" && last[R, i] == goal(k))) revert(k)
      }
      whole = closed && !roles
      for (i = 1; i <= n[R]; i++) if (how[R, i] != "done" && how[R, i] != "moved") whole = 0
      for (k in planned) if (!(k in begun)) whole = 0
      if (!whole) return
      # undo.sh names its target there only when nothing of it was left alone.
      for (i in target) if (!(i in undoes)) delete target[i]
      # A hidden change goes back when the run that hides it has gone.
      for (i = 1; i <= objects; i++) if (!others(order[i]) || by_lines(order[i])) revert(order[i])
    }
    $1 == "run" {
      end_of_run()
      R++; id[R] = $2; number[$2] = R; n[R] = 0
      back = targets = roles = closed = 0
      split("", target); split("", undoes); split("", planned); split("", begun); split("", at)
      next
    }
    ($1 == "undoes" || $1 == "attempts") { back = targets = 1; if (($2 in number) && number[$2] < R) { target[number[$2]]; if ($1 == "undoes") undoes[number[$2]] } }
    $1 == "scope" { playbook[R] = $2; whose[R] = $2 FS $3; if (!(whose[R] in project)) project[whose[R]] = R }
    $1 == "forget" && NF >= 3 { forget($2 OFS $3) }
    $1 == "purpose" && $2 == "undo" { back = 1 }
    $1 == "purpose" && $2 == "rollback" { back = 1; if (NF > 2) roles = 1 }
    $1 == "planned" { planned[$2] }
    # No object has a path for its key that does not begin at the root.
    ($1 == "begin" || $1 == "moved") && at_path($3) && $4 !~ /^(\/|\\0057)/ { next }
    ($1 == "begin" || $1 == "moved") && NF >= 8 && $2 ~ /^[0-9]+$/ && $3 ~ /^[A-Za-z0-9_]+$/ {
      i = ++n[R]; at[$2] = i; seq[R, i] = $2; b[R, i] = $5; to[R, i] = $6
      name[R, i] = $3 OFS $4; kind[i] = $3; key[i] = $4; item[R, i] = $7; foreign[R, i] = ($1 == "moved")
      last[R, i] = $1 == "moved" ? $6 : "?"; how[R, i] = $1 == "moved" ? "moved" : "open"; begun[$7]
      # A rollback knew that it would not come to the state before: the next one goes on with it.
      part[R, i] = (index("," $8 ",", ",in-part,") > 0)
    }
    ($1 == "done" || $1 == "off" || $1 == "putback") && ($2 in at) && NF >= 3 && $3 !~ /^!/ {
      last[R, at[$2]] = $3; how[R, at[$2]] = part[R, at[$2]] ? "off" : $1
    }
    $1 == "failed" && ($2 in at) && NF >= 4 && $4 !~ /^!/ && !begun_only(kind[at[$2]], key[at[$2]], b[R, at[$2]], to[R, at[$2]], $3, $4) { last[R, at[$2]] = $4; how[R, at[$2]] = $1 }
    $1 == "at" && ($2 in at) && NF >= 3 { dir[R, at[$2]] = $3 }
    $1 == "close" { closed = ($2 != "cut-off") }
    END {
      end_of_run()
      for (i = 1; i <= objects; i++) {
        c = split(stack[order[i]], steps, " ")
        for (j = 1; j <= c; j++) { split(steps[j], s, ":"); live[s[1], s[2]] }
      }
      for (r = 1; r <= R; r++) for (i = 1; i <= n[r]; i++)
        if ((r, i) in live) {
          made = in_other[r, i] == "" ? first_dir[of_dir[r, i]] : in_other[r, i]
          print id[r], seq[r, i], name[r, i], b[r, i], last[r, i], (last[r, i] == "?" ? to[r, i] : "-"), project[whose[r]], (made == "" ? "-" : made)
        }
    }'
}
