# Helpers of all objects. POSIX sh: dash, bash, busybox ash.
LC_ALL=C
export LC_ALL
CV_ROOT=${CV_ROOT:-/var/lib/converge}
CV_NL='
'
CV_TAB=$(printf '\t')
: "${CV_ME:=$(id -un 2>/dev/null || id -u):$(id -gn 2>/dev/null || id -g)}"
: "${CV_UID:=$(id -u)}"

# A script on standard input, run without input. A script on a command line can be read by all users of the host.
CV_READ='cv_script=$(cat); exec </dev/null; eval "$cv_script"'

# cv_say TEXT: a message for people.
cv_say() { printf '%s\n' "$1" >&2; }

# cv_phase WORD: the item in progress comes to this part of its work: told only where the controller wants to know.
cv_phase() { [ -z "${CV_PHASES:-}" ] || printf 'cv:%s\tphase\t%s\n' "${CV_TOKEN:-}" "$1"; }

# cv_journal_has JOURNAL KIND KEY VERB...: whether the journal of a run has such a line of an object, by its encoded key.
cv_journal_has() {
  [ -e "$1" ] || return 1
  cv_h_journal=$1 cv_h_kind=$2 cv_h_key=$3
  shift 3
  CV_H_KEY=$cv_h_key awk -F '\t' -v kind="$cv_h_kind" -v verbs=" $* " '
    index(verbs, " " $1 " ") && $3 == kind && $4 == ENVIRON["CV_H_KEY"] { found = 1; exit }
    END { exit !found }' "$cv_h_journal"
}

# cv_enc_to TEXT: the encoded word in CV_ENC. Forks only for words that are not plain.
cv_enc_to() {
  case $1 in
  '') CV_ENC='\' ;;
  *[!A-Za-z0-9._/:@%+,=~^#-]*) CV_ENC=$(printf %s "$1" | od -A n -v -t o1 | tr -d '\n' | sed 's/ /\\0/g') ;;
  *) CV_ENC=$1 ;;
  esac
}

# cv_enc TEXT: prints the encoded word.
cv_enc() {
  cv_enc_to "$1"
  printf '%s\n' "$CV_ENC"
}

# cv_dec_to WORD: the decoded text in CV_DEC.
cv_dec_to() {
  case $1 in
  '\') CV_DEC= ;;
  '\'*)
    CV_DEC=$(printf '%b.' "$1")
    CV_DEC=${CV_DEC%.}
    ;;
  *) CV_DEC=$1 ;;
  esac
}

# cv_dec WORD: prints the decoded text.
cv_dec() {
  cv_dec_to "$1"
  printf '%s' "$CV_DEC"
}

# cv_split_by CHARACTER: from here to cv_split_end unquoted words are split at it alone, and none is a pattern of files. This is how a long
# text is cut: for ${text#*CHARACTER} shells take a time that grows with the square of what is cut off (dash: 3 s for 50 kB).
cv_split_by() {
  cv_b_ifs=${IFS-unset} cv_b_flags=$-
  set -f
  IFS=$1
}

# cv_split_end: ends cv_split_by. Restores IFS and the flag f from cv_b_ifs and cv_b_flags.
cv_split_end() {
  case $cv_b_flags in *f*) ;; *) set +f ;; esac
  if [ "$cv_b_ifs" = unset ]; then unset IFS; else IFS=$cv_b_ifs; fi
}

# cv_quote_to TEXT: the text as one shell word in CV_QUOTED.
# shellcheck disable=SC2086
cv_quote_to() {
  cv_split_by \'
  # The point keeps a quote at the end.
  set -- $1.
  cv_split_end
  CV_QUOTED=$1
  shift
  for cv_q_part; do CV_QUOTED="$CV_QUOTED'\\''$cv_q_part"; done
  CV_QUOTED="'${CV_QUOTED%.}'"
}

# cv_fail_all REASON KEY...: the same reason for each key, as an answer.
cv_fail_all() {
  cv_enc_to "$1"
  shift
  for cv_f_key; do printf '! %s\n' "$CV_ENC"; done
}

# cv_line_of ANSWER: the state in one line of an answer; status 1 and the reason when it could not be read.
cv_line_of() {
  case $1 in
  '! '*)
    cv_dec_to "${1#! }"
    cv_say "$CV_DEC"
    return 1
    ;;
  *' '*) printf '%s\n' "${1#* }" ;;
  *)
    cv_say "no answer"
    return 1
    ;;
  esac
}

# cv_note TEXT: a remark that the controller shows.
cv_note() {
  cv_enc_to "$1"
  printf 'cv:%s\tnote\t%s\n' "${CV_TOKEN:-}" "$CV_ENC"
}

# cv_nap: a fifth of a second.
cv_nap() { sleep 0.2 2>/dev/null || sleep 1; }

# cv_begun_to PID: when that process began, in clock ticks since the boot, in cv_s_begun. Status 1: there is none.
# shellcheck disable=SC2086
cv_begun_to() {
  { IFS= read -r cv_s_stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  cv_split_by ' '
  set -- ${cv_s_stat##*) }
  cv_split_end
  cv_s_begun=${20}
}

# cv_staying COMMAND...: of the lines of this command, each of a process (`PID` or `PID/…`), those of processes that it names again a second later.
cv_staying() {
  cv_t_first=" $("$@" | cut -d / -f 1 | tr '\n' ' ')"
  sleep 1
  "$@" | while IFS= read -r cv_t_line; do
    case $cv_t_first in *" ${cv_t_line%%/*} "*) printf '%s\n' "$cv_t_line" ;; esac
  done
}

# cv_bounded SECONDS COMMAND...: the command under a time limit, where the host has the tool.
cv_bounded() {
  cv_b_limit=$1
  shift
  if command -v timeout >/dev/null 2>&1; then timeout "$cv_b_limit" "$@"; else "$@"; fi
}

# cv_index_of FILE RECORD: the digest of the file that names a repository, unless RECORD says that what is fetched belongs to another content of it.
# Nothing where there is no such file.
cv_index_of() (
  [ -f "$1" ] || exit 0
  sum=$(sha256sum <"$1") record=
  if [ -r "$2" ]; then read -r record <"$2"; fi
  case ${record:-${sum%% *}} in "${sum%% *}") printf '%s\n' "${sum%% *}" ;; esac
)

# cv_write_record FILE TEXT: one line in a file of our own, whole or not at all.
cv_write_record() {
  (
    umask 077
    mkdir -p "${1%/*}" || exit 1
    printf '%s\n' "$2" >"$1.new" 2>/dev/null || {
      cv_say "cannot write $1: is the disk full?"
      exit 1
    }
    mv -f "$1.new" "$1"
  )
}
