# --- the records on the host ---
#
# $CV_ROOT (0700): version, lock, runs/ID/{meta,journal,saved,stop,moved,watched,mounts,links,alive/{session,step,beat},fenced}, owned, kept/ID, blobs/SHA256, debs, rpms, started,
# ran, passwords, switch, transaction, undo.sh. Journal and meta are lines of fields separated by tabs; texts are encoded words.

CV_FORMAT=6

# cv_format_known VERSION: format 5 is read too: it has no lines `move` and `adopt`, which a converge of its time would pass over. So is format 4: it has no lines `forget`, which a converge of its time would pass over. So is format 3: it has no lines
# `disown`. So is format 2: its runs have no number (`seq`). So is format 1; it has no purposes and no `owned`.
cv_format_known() { [ "$1" = "$CV_FORMAT" ] || [ "$1" = 5 ] || [ "$1" = 4 ] || [ "$1" = 3 ] || [ "$1" = 2 ] || [ "$1" = 1 ]; }

# cv_plain FILE: whether it is a regular file, and no record that is too large: reading anything else may never end. Sets CV_LARGE.
cv_plain() {
  [ -f "$1" ] && [ ! -L "$1" ] || return 1
  [ -n "${CV_LARGE:-}" ] || cv_large_to
  cv_l_name=${1#"$CV_ROOT"/}
  case $CV_LARGE in *"$CV_NL${cv_l_name#runs/}$CV_NL"*) return 1 ;; esac
}

CV_LARGE=

# cv_large_to: the records that are larger than any run makes them, in CV_LARGE: `owned`, RUN/meta, RUN/journal, one a line. Nothing of them is
# read: their size tells it. The sizes are in blocks of 512 bytes: 4 MiB of meta, 64 MiB of the others.
cv_large_to() {
  CV_LARGE=$CV_NL$(
    cd "$CV_ROOT" 2>/dev/null || exit 0
    find . -maxdepth 3 -type f \( -name meta -size +8192 -o -name journal -size +131072 -o -name owned -size +131072 \) 2>/dev/null |
      sed 's|^\./||; s|^runs/||'
  )$CV_NL
}

# cv_store_bad: whether CV_ROOT can hold no records of this user; the cause and what to do in CV_WHY. One that is not there yet can.
cv_store_bad() {
  if [ -L "$CV_ROOT" ] && [ ! -e "$CV_ROOT" ]; then
    CV_WHY="$CV_ROOT is a link to $(readlink -- "$CV_ROOT"), which is not there: make that directory, or remove the link"
  elif [ -e "$CV_ROOT" ] && [ ! -d "$CV_ROOT" ]; then
    CV_WHY="$CV_ROOT is not a directory: move it away, the records of runs belong there"
  elif [ -d "$CV_ROOT" ] && [ ! -O "$CV_ROOT" ]; then
    CV_WHY="$CV_ROOT belongs to $(stat -c %U -- "$CV_ROOT")"
    if [ "$CV_UID" = 0 ]; then
      CV_WHY="$CV_WHY, who may have written what it holds: move it away, or, if you trust it: chown -R root:root $CV_ROOT"
    else
      CV_WHY="$CV_WHY: $CV_NEEDS_ROOT"
    fi
  else
    return 1
  fi
}

CV_NEEDS_ROOT='changing this machine needs root (ansible_become: true in the inventory, or a login as root)'

# cv_text_of FILE...: prints these. What a power cut has left of a file may be zeros, without an end of line: awk would take hours for them.
cv_text_of() { cat -- "$@" | tr -s '\000' '?'; }

# cv_version: the format of the records here, in CV_VERSION; empty when nothing says it.
cv_version() {
  CV_VERSION=
  if cv_plain "$CV_ROOT/version"; then read -r CV_VERSION <"$CV_ROOT/version"; fi
  return 0
}

# cv_order: the recorded runs, oldest first: by their numbers; those that have none before all others, by their names. A run whose meta is no
# regular file is none of them: its number and its project are not known. One grep reads the numbers of all: it names the file beside each line, so
# that no content can pass for another run's.
cv_order() (
  LC_ALL=C
  export LC_ALL
  cd "$CV_ROOT/runs" 2>/dev/null || return 0
  metas=$(cv_order_metas)
  {
    printf '%s\n' "$metas"
    printf '%s\n' "$metas" | grep '/meta$' | xargs -r grep -aEHsm 1 -e "^seq${CV_TAB}[0-9]{1,15}($CV_TAB|\$)" --
  } | awk -F '\t' '
    { run = $1; sub(/\/.*/, "", run) }
    run != "" && !(run in number) { number[run] = 0 }
    NF > 1 { number[run] = $2 }
    END { for (run in number) printf "%s\t%s\n", number[run], run }' | sort -k 1,1n -k 2,2 | cut -f 2
)

# cv_order_metas: in the folder of the runs: RUN/meta of each that counts, RUN/ where there is only a journal. It starts no process.
cv_order_metas() {
  for run in *; do
    case $run in *[!0-9A-Za-z._-]*) continue ;; esac
    if cv_plain "$run/meta"; then
      printf '%s\n' "$run/meta"
    elif cv_plain "$run/journal" && [ ! -e "$run/meta" ] && [ ! -L "$run/meta" ]; then
      printf '%s\n' "$run/"
    fi
  done
}

# cv_seq_next: the number of the next run.
cv_seq_next() {
  find "$CV_ROOT/runs" -type f -name meta ! -size +8192 -exec cat {} + 2>/dev/null | tr -s '\000' '?' |
    awk -F '\t' '$1 == "seq" && $2 ~ /^[0-9]+$/ && length($2) < 16 && $2 + 0 > top { top = $2 + 0 } END { printf "%.0f\n", top + 1 }'
}

# cv_meta_of RUN: what a run is for, as far as it is to be read.
cv_meta_of() {
  if cv_plain "$CV_ROOT/runs/$1/meta"; then cv_text_of "$CV_ROOT/runs/$1/meta"; fi
}

# The directory of the present run, in CV_DIR.
cv_run_dir() { CV_DIR=$CV_ROOT/runs/$CV_RUN; }

# cv_undo_is SHA256: whether the undo.sh beside the records has this very text.
cv_undo_is() {
  [ -f "$CV_ROOT/undo.sh" ] && [ "$(sha256sum <"$CV_ROOT/undo.sh" | cut -c1-64)" = "$1" ]
}

# cv_undo_install SHA256 <TEXT: puts undo.sh beside the records.
cv_undo_install() (
  umask 077
  cat >"$CV_ROOT/undo.sh.new" && [ "$(sha256sum <"$CV_ROOT/undo.sh.new" | cut -c1-64)" = "$1" ] &&
    if [ -d "$CV_ROOT/undo.sh" ]; then
      cv_say 'something else is in its place'
      return 1
    else
      mv -f "$CV_ROOT/undo.sh.new" "$CV_ROOT/undo.sh"
    fi
)

# cv_runs: this host's time, then all runs, oldest first: a line `run ID`, then its meta, then its journal.
cv_runs() (
  printf 'converge\t%s\n' "$CV_FORMAT"
  cv_switch_remark
  if [ "$CV_UID" = 0 ] && cv_store_bad; then
    cv_say "$CV_WHY"
    return 1
  fi
  [ -e "$CV_ROOT" ] || return 0
  if [ ! -r "$CV_ROOT" ] || [ ! -x "$CV_ROOT" ]; then
    cv_say "$CV_ROOT cannot be read: root is needed (become: true)"
    return 1
  fi
  cv_version
  if [ -n "$CV_VERSION" ]; then
    cv_format_known "$CV_VERSION" || {
      cv_say "$CV_ROOT has records of format '$CV_VERSION', this converge reads format $CV_FORMAT"
      return 1
    }
  fi
  printf 'now\t%s\n' "$(date +%s)"
  cv_broken
  cv_at_work
  cv_r_order=$(cv_order)
  cv_answerable "$cv_r_order" || return 1
  for run in $cv_r_order; do
    printf 'run\t%s\n' "$run"
    cv_lines_of "$run"
  done
)

# cv_answerable RUNS: whether the records of these runs fit into an answer (8 MiB, crates/ssh/src/target.rs); says which journal does not, or which are the
# largest. The sizes of find are in blocks of 512 bytes. Those that are larger than any run makes them are not read at all (cv_large_to).
cv_answerable() (
  cd "$CV_ROOT/runs" 2>/dev/null || exit 0
  large=$(for run in $1; do printf '%s/journal\n' "$run"; done | xargs -r sh -c 'find "$@" -maxdepth 0 -type f -size +14336 ! -size +131072' sh 2>/dev/null | head -n 1)
  [ -n "$large" ] || {
    cv_answerable_together "$1"
    exit
  }
  cv_say "$CV_ROOT/runs/$large has $(wc -l <"$large") lines, more than is read of a host: look whether they are a run's. To go on without them, remove $CV_ROOT/runs/${large%/journal} (what that run changed stays as it is, is managed no more, and cannot be rolled back)"
  exit 1
)

# cv_answerable_together RUNS: the same of all of them. It names as many of the largest as have to go until the others fit, twenty at most.
cv_answerable_together() {
  cv_r_said=$(for run in $1; do printf '%s/journal\n%s/meta\n' "$run" "$run"; done | xargs -r stat -c '%s %n' 2>/dev/null |
    awk '$1 <= ($2 ~ /meta$/ ? 4194304 : 67108864) { sub(/\/.*/, "", $2); size[$2] += $1 } END { for (run in size) print size[run], run }' | sort -rn |
    awk -v most=8000000 '
      { size[NR] = $1; run[NR] = $2; all += $1 }
      END {
        rest = all
        for (i = 1; i <= NR && rest > most; i++) {
          rest -= size[i]
          if (i <= 20) names = names (i > 1 ? ", " : "") run[i] sprintf(" (%.1f MiB)", size[i] / 1048576)
        }
        if (all > most) printf "%.1f MiB together, more than the 8 MiB that are read of a host; the largest are %s", all / 1048576, names
      }')
  [ -n "$cv_r_said" ] || return 0
  cv_say "the records of runs in $CV_ROOT/runs have $cv_r_said. To go on without these, move their folders away (what those runs changed stays as it is, is managed no more, and cannot be rolled back until they are there again)"
  return 1
}

# cv_broken: a line for each thing among the records that is no regular file, and is not read.
cv_broken() {
  for cv_b_file in "$CV_ROOT/version" "$CV_ROOT/owned" "$CV_ROOT/runs"/*/meta "$CV_ROOT/runs"/*/journal; do
    if { [ -e "$cv_b_file" ] || [ -L "$cv_b_file" ]; } && ! cv_plain "$cv_b_file"; then
      cv_b_why='is no regular file'
      [ ! -f "$cv_b_file" ] || [ -L "$cv_b_file" ] || cv_b_why='is larger than a run makes it: it is damaged'
      cv_enc_to "$cv_b_file $cv_b_why: it is not considered"
      printf 'broken\t%s\n' "$CV_ENC"
    fi
  done
  # A power cut may leave zeros where a file system does not keep the order of writes.
  find "$CV_ROOT" -maxdepth 3 -type f -size +0 \( -name meta ! -size +8192 -o \( -name journal -o -name owned \) ! -size +131072 \) -exec grep -L '[[:print:]]' {} + 2>/dev/null |
    while IFS= read -r cv_b_file; do
      cv_enc_to "$cv_b_file holds no text: it is damaged, and what it said is not known"
      printf 'broken\t%s\n' "$CV_ENC"
    done
}

# cv_lines_of RUN: its meta and its journal. What begins a run or is a line of `owned` has no place in them. A last line of the meta that was cut off
# is a line of its own.
cv_lines_of() {
  {
    cv_meta_of "$1"
    echo
    cv_journal_of "$1"
  } | sed -e '/^$/d' -e "s/^run$CV_TAB/damaged:&/" -e "s/^own$CV_TAB/damaged:&/" -e "s/^gone$CV_TAB/damaged:&/"
}

# cv_journal_whole FILE: takes a last line off that a full disk has cut off: what is written next would be taken for its end.
# Only a plain file is read: a device has no end.
cv_journal_whole() {
  cv_plain "$1" && [ -n "$(tail -c 1 "$1" 2>/dev/null)" ] || return 0
  cv_j_size=$(($(wc -c <"$1") - $(tail -n 1 "$1" | wc -c)))
  dd if=/dev/null of="$1" bs=1 seek="$cv_j_size" 2>/dev/null
}

# cv_journal_of RUN: its journal, without a last line that was cut off while it was written.
cv_journal_of() {
  ! cv_plain "$CV_ROOT/runs/$1/journal" || { cv_text_of "$CV_ROOT/runs/$1/journal" && echo .; } | sed '$d'
}
