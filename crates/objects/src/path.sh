# --- path ---

# hex type and bits, octal mode, uid, gid, size, mtime, owner, group, name. No name of a user holds a colon.
CV_STAT='%f:%a:%u:%g:%s:%Y:%U:%G:%n'

# The names of the regular files among the lines of stat, each with a NUL.
cv_path_regular() {
  cv_p_ifs=$IFS
  set -f
  IFS=$CV_NL
  for cv_p_line in $1; do
    case $cv_p_line in 8???:*) printf '%s\0' "/${cv_p_line#*:/}" ;; esac
  done
  IFS=$cv_p_ifs
  set +f
}

cv_see_path() (cv_path_look "$@")

# The same for a caller that is a subshell already: a fork costs half a millisecond, and every item looks twice.
cv_path_look() {
  [ $# -gt 0 ] || return 0
  if [ $# -eq 1 ]; then
    stats=$(stat -c "$CV_STAT" -- "$1" 2>&1) || case $stats in
    *': No such file or directory' | *': Not a directory')
      echo '- absent'
      return 0
      ;;
    *) stats= ;;
    esac
  elif [ $# -le 100 ]; then
    stats=$(stat -c "$CV_STAT" -- "$@" 2>/dev/null)
  else
    stats=$(printf '%s\0' "$@" | xargs -0 stat -c "$CV_STAT" -- 2>/dev/null)
  fi
  case "$CV_NL$stats" in
  *"${CV_NL}8"???:*)
    if [ $# -eq 1 ]; then
      sums=$(sha256sum -- "$1" 2>/dev/null)
    else
      sums=$(cv_path_regular "$stats" | xargs -0 -r sha256sum -- 2>/dev/null)
    fi
    ;;
  *) sums= ;;
  esac
  set -f
  IFS=$CV_NL
  have=0 files=0 summed=0
  for line in $stats; do
    have=$((have + 1))
    case $line in 8???:*) files=$((files + 1)) ;; esac
  done
  for line in $sums; do summed=$((summed + 1)); done
  # A name that stat leaves out is absent only if the reason is ENOENT or ENOTDIR.
  absent=yes
  if [ $have -lt $# ]; then
    reasons=0
    for line in $(printf '%s\0' "$@" | xargs -0 stat -c %f -- 2>&1 >/dev/null); do
      reasons=$((reasons + 1))
      case $line in
      *': No such file or directory' | *': Not a directory') ;;
      *) absent=no ;;
      esac
    done
    [ $((have + reasons)) -eq $# ] || absent=no
  fi
  for line in $stats; do
    name=/${line#*:/}
    while [ $# -gt 0 ] && [ "$1" != "$name" ]; do
      cv_path_missing "$1"
      shift
    done
    [ $# -gt 0 ] || return 0
    digest=
    case $line in
    8???:*)
      if [ $files -eq $summed ]; then
        digest=${sums%%"$CV_NL"*}
        sums=${sums#*"$CV_NL"}
      fi
      ;;
    esac
    cv_path_answer "$line" "$name" "$digest"
    shift
  done
  while [ $# -gt 0 ]; do
    cv_path_missing "$1"
    shift
  done
  unset IFS
  set +f
}

# A path that stat said nothing of. Reads `absent` of cv_see_path.
cv_path_missing() {
  if [ "$absent" = yes ]; then
    echo '- absent'
    return
  fi
  cv_p_why=$(stat -c '%f' -- "$1" 2>&1 >/dev/null) && cv_p_why='it has just appeared'
  case $cv_p_why in
  *': No such file or directory' | *': Not a directory') echo '- absent' ;;
  *)
    cv_enc_to "$cv_p_why"
    printf '! %s\n' "$CV_ENC"
    ;;
  esac
}

# LINE-OF-STAT NAME LINE-OF-SHA256SUM
cv_path_answer() {
  IFS=:
  set -- "$2" "$3" $1
  IFS=$CV_NL
  # $1 name, $2 sum, $3 raw, $4 mode, $5 uid, $6 gid, $7 size, $8 mtime, $9 owner, $10 group
  cv_p_owner=$9 cv_p_group=${10}
  [ "$cv_p_owner" != UNKNOWN ] || cv_p_owner=$5
  [ "$cv_p_group" != UNKNOWN ] || cv_p_group=$6
  cv_enc_to "$cv_p_owner"
  cv_p_owner=$CV_ENC
  cv_enc_to "$cv_p_group"
  cv_p_group=$CV_ENC
  case $3 in
  8???)
    # sha256sum marks a name that it had to escape with a leading backslash.
    cv_p_sum=${2#\\}
    cv_p_sum=${cv_p_sum%% *}
    if [ ${#cv_p_sum} -ne 64 ]; then
      if cv_p_sum=$(sha256sum -- "$1" 2>&1); then
        cv_p_sum=${cv_p_sum#\\}
        cv_p_sum=${cv_p_sum%% *}
      else
        cv_enc_to "$cv_p_sum"
        printf '! %s\n' "$CV_ENC"
        return
      fi
    fi
    printf '%s file %s %s %s %s %s\n' "$8" "$4" "$cv_p_owner" "$cv_p_group" "$7" "$cv_p_sum"
    ;;
  4???) printf '%s dir %s %s %s\n' "$8" "$4" "$cv_p_owner" "$cv_p_group" ;;
  a???)
    cv_p_target=$(readlink -- "$1" && echo .)
    cv_p_target=${cv_p_target%"$CV_NL".}
    cv_enc_to "$cv_p_target"
    printf '%s link %s\n' "$8" "$CV_ENC"
    ;;
  c???) printf '%s other socket\n' "$8" ;;
  1???) printf '%s other fifo\n' "$8" ;;
  2???) printf '%s other char\n' "$8" ;;
  6???) printf '%s other block\n' "$8" ;;
  *) printf '%s other unknown\n' "$8" ;;
  esac
}

# The size of what the host is to fetch is open in the plan; the digest says it all.
cv_same_path() {
  case $3 in
  'file '*' ~ '*)
    cv_p_digest=${2##* } cv_p_left=${2% *}
    [ "${cv_p_left% *} ~ $cv_p_digest" = "$3" ]
    ;;
  *) return 1 ;;
  esac
}

cv_line_path() { cv_line_of "$(cv_path_look "$1")"; }

# Status 3: not kept on purpose, because it is too large.
cv_save_path() {
  case $2 in
  'file '*)
    cv_p_size=${2% *}
    cv_blob_save "$1" "${2##* }" "${cv_p_size##* }"
    ;;
  esac
}

cv_restore_path() { cv_apply_path "$1" "$2" </dev/null; }

# cv_blob_save FILE SHA256 SIZE: keeps a file's content under its digest. Status 3: it is too large to be kept.
cv_blob_save() (
  umask 077
  file=$1 digest=$2 size=$3
  [ ! -f "$CV_ROOT/blobs/$digest" ] || return 0
  [ "$size" -le "${CV_SAVE_LIMIT:-104857600}" ] || {
    cv_say "$file: $size bytes are above the limit of what is saved"
    return 3
  }
  [ -d "$CV_ROOT/blobs" ] || mkdir -p "$CV_ROOT/blobs" || return 1
  # The heading has seven words; then come device, blocks, used, free.
  set -- $(df -Pk "$CV_ROOT/blobs")
  least=$((${9:-0} / 100 * ${CV_MIN_FREE:-10})) said="${CV_MIN_FREE:-10} %"
  # Of a large disk a tenth is more than anybody needs.
  [ -n "${CV_MIN_FREE:-}" ] || [ "$least" -le 10485760 ] || least=10485760 said='10 GiB'
  [ "$((${11:-0} - size / 1024))" -ge "$least" ] || {
    cv_say "saving $file ($size bytes) would leave less than $said of the file system of $CV_ROOT free"
    return 1
  }
  new=$CV_ROOT/blobs/.$digest.new
  if dd bs=65536 conv=fsync <"$file" >"$new" 2>/dev/null && got=$(sha256sum <"$new") &&
    [ "${got%% *}" = "$digest" ] && mv -f "$new" "$CV_ROOT/blobs/$digest"; then
    return 0
  fi
  rm -f "$new"
  cv_say "$file: cannot save its content (no room, or it is changing)"
  return 1
)

# cv_apply_path PATH LINE: brings the path to the state of the line, from any other. The content of a file comes from
# the saved blob of its digest, where there is one, else from standard input.
cv_apply_path() {
  cv_a_path=$1 cv_a_line=$2
  set -f
  IFS=' '
  set -- $cv_a_line
  unset IFS
  set +f
  case $1 in
  absent) cv_remove_path "$cv_a_path" ;;
  link)
    cv_dec_to "$2"
    cv_link_path "$cv_a_path" "$CV_DEC"
    ;;
  file | dir)
    cv_dec_to "$3"
    cv_a_owner=$CV_DEC
    cv_dec_to "$4"
    if [ "$1" = dir ]; then
      cv_mkdir_path "$cv_a_path" "$2" "$cv_a_owner" "$CV_DEC"
    else
      cv_put_path "$cv_a_path" "$2" "$cv_a_owner" "$CV_DEC" "$6"
    fi
    ;;
  *)
    cv_say "$cv_a_path: cannot be made: $cv_a_line"
    return 1
    ;;
  esac
}

# systemd reads its unit files again, where it runs.
cv_reload_units() { [ ! -d "${CV_SYSTEMD:-/run/systemd/system}" ] || systemctl daemon-reload; }

# cv_path_own TARGET OWNER GROUP MODE: the target is a path of ours or /proc/self/fd/8.
cv_path_own() {
  if [ "$2:$3" != "$CV_ME" ] || [ ! -O "$1" ] || [ ! -G "$1" ]; then chown "$2:$3" "$1" || return 1; fi
  # With fewer than five digits GNU chmod would keep the setgid bit of a directory.
  chmod "0000$4" "$1"
}

# cv_path_parent PATH: the directory that holds it must be there.
cv_path_parent() {
  cv_p_dir=${1%/*}
  [ -d "${cv_p_dir:-/}" ] || {
    cv_say "$1: the directory ${cv_p_dir:-/} is not there"
    return 1
  }
}

# cv_path_swap NEW PATH: renames; a link to a directory is replaced, not followed.
cv_path_swap() {
  if [ -L "$2" ] && [ -d "$2" ]; then
    mv -fT "$1" "$2" 2>/dev/null || { rm -f "$2" && mv -f "$1" "$2"; }
  else
    mv -f "$1" "$2"
  fi
}

# cv_path_new PATH: a name for a temporary file beside the path, in CV_NEW. What a killed run left there goes.
cv_path_new() {
  cv_n_name=${1##*/}
  [ ${#cv_n_name} -le 200 ] || cv_n_name=
  CV_NEW=${1%/*}/.$cv_n_name.cv-
  for cv_n_old in "$CV_NEW"[0-9]*; do
    if [ -f "$cv_n_old" ] || [ -L "$cv_n_old" ]; then rm -f "$cv_n_old"; fi
  done
  CV_NEW=$CV_NEW$$
}

# cv_put_path PATH MODE OWNER GROUP [SHA256] <CONTENT
# A temporary file (0600, O_EXCL) in the same directory gets content, owner, mode and the check CV_VALIDATE, in which
# %s stands for its path; then it is renamed over PATH. A link at PATH is replaced, never followed; a directory is
# removed only when it is empty. Owner and mode are set through the open file, so that who may write to the directory
# cannot turn them to another file. Extended attributes and ACLs of the old file are not carried over.
cv_put_path() (
  umask 077
  cv_path_parent "$1" || return 1
  if [ -d "$1" ] && [ ! -L "$1" ]; then
    rmdir "$1" || return 1
  elif [ -e "$1" ] && [ ! -f "$1" ] && [ ! -L "$1" ]; then
    cv_say "$1: is neither file, link nor directory: left alone"
    return 1
  fi
  fetch=
  if [ -n "${5:-}" ] && [ -f "$CV_ROOT/blobs/$5" ]; then
    exec <"$CV_ROOT/blobs/$5"
  elif [ -n "${CV_ARCHIVE:-}" ]; then
    cv_unpacked || return 1
    exec <"$CV_UNPACKED/$5" || return 1
  else
    fetch=${CV_FETCH:-}
  fi
  cv_path_new "$1"
  set -C
  exec 8>"$CV_NEW" || return 1
  set +C
  trap 'rm -f "$CV_NEW"' EXIT
  trap 'exit 1' HUP INT TERM
  own=/proc/self/fd/8
  [ -e "$own" ] || own=$CV_NEW
  if [ -n "$fetch" ]; then
    cv_fetch "$fetch" >&8 || {
      cv_say "$1: cannot fetch $fetch"
      return 1
    }
    sync "$CV_NEW" 2>/dev/null || sync
  else
    dd bs=65536 conv=fsync >&8 2>/dev/null || {
      cv_say "$1: cannot write its content (is the disk full?)"
      return 1
    }
  fi
  if [ -n "${5:-}" ]; then
    got=$(sha256sum <"$CV_NEW")
    [ "${got%% *}" = "$5" ] || {
      if [ -n "$fetch" ]; then
        cv_say "$1: $fetch has the SHA-256 ${got%% *} instead of $5: it is not what was declared"
      else
        cv_say "$1: the content came through damaged: SHA-256 ${got%% *} instead of $5"
      fi
      return 1
    }
  fi
  cv_path_own "$own" "$3" "$4" "$2" || return 1
  exec 8>&-
  if [ -n "${CV_VALIDATE:-}" ]; then
    cv_quote_to "$CV_NEW"
    check= rest=$CV_VALIDATE
    while :; do
      case $rest in
      *%s*)
        check=$check${rest%%\%s*}$CV_QUOTED
        rest=${rest#*\%s}
        ;;
      *) break ;;
      esac
    done
    printf %s "$check$rest" | sh -c "$CV_READ" >&2 9>&- || {
      cv_say "$1: the new content was refused by: $CV_VALIDATE"
      return 1
    }
  fi
  cv_path_swap "$CV_NEW" "$1"
)

# cv_fetch URL: prints what is there, with what the host has to fetch with.
cv_fetch() {
  if command -v curl >/dev/null 2>&1; then
    curl -fsSL --proto '=http,https' --proto-redir '=http,https' --connect-timeout 30 --retry 2 -- "$1" </dev/null
  elif command -v wget >/dev/null 2>&1; then
    wget -q -T 30 -O - -- "$1" </dev/null
  elif [ -x /usr/lib/apt/apt-helper ]; then
    (
      umask 077
      mkdir -p "$CV_ROOT" && dir=$(mktemp -d "$CV_ROOT/fetch.XXXXXX") || exit 1
      trap 'rm -rf "$dir"' EXIT
      trap 'exit 1' HUP INT TERM
      /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root download-file "$1" "$dir/file" </dev/null >&2 && cat "$dir/file"
    )
  else
    cv_say 'this host has no curl and no wget'
    return 1
  fi
}

# cv_unpacked: unpacks CV_ARCHIVE once in a run, below the run's own records; its files lie in CV_UNPACKED under their digests.
cv_unpacked() {
  CV_UNPACKED=$CV_ROOT/runs/$CV_RUN/unpacked/$CV_ARCHIVE_SUM
  [ ! -d "$CV_UNPACKED" ] || return 0
  (
    umask 077
    rm -rf "$CV_UNPACKED".*
    mkdir -p "$CV_UNPACKED.raw" "$CV_UNPACKED.new" || exit 1
    got=$(sha256sum <"$CV_ARCHIVE") || exit 1
    [ "${got%% *}" = "$CV_ARCHIVE_SUM" ] || {
      cv_say "$CV_ARCHIVE is another archive than the plan has read"
      exit 1
    }
    case $CV_ARCHIVE in
    *.zip) unzip -q -o "$CV_ARCHIVE" -d "$CV_UNPACKED.raw" </dev/null >&2 ;;
    *) tar -x -o -f "$CV_ARCHIVE" -C "$CV_UNPACKED.raw" </dev/null >&2 ;;
    esac || exit 1
    find "$CV_UNPACKED.raw" -type f -exec sh -c '
      for file; do
        sum=$(sha256sum <"$file") && mv -f "$file" "$0/${sum%% *}" || exit 1
      done' "$CV_UNPACKED.new" {} + || exit 1
    rm -rf "$CV_UNPACKED.raw"
    mv "$CV_UNPACKED.new" "$CV_UNPACKED"
  ) || {
    cv_say "cannot unpack $CV_ARCHIVE"
    return 1
  }
}

# cv_own_path PATH MODE OWNER GROUP: owner and mode of a regular file that stays. A link is not followed.
cv_own_path() (
  if [ -L "$1" ] || [ ! -f "$1" ]; then
    cv_say "$1: is no regular file"
    return 1
  fi
  cv_path_own "$1" "$3" "$4" "$2"
)

# cv_mkdir_path PATH MODE OWNER GROUP: makes the directory, or sets its owner and mode. Replaces a file or a link.
cv_mkdir_path() (
  umask 077
  cv_path_parent "$1" || return 1
  if [ -L "$1" ] || [ -f "$1" ]; then rm -f "$1" || return 1; fi
  [ -d "$1" ] || mkdir "$1" || return 1
  cd "$1" || return 1
  cv_path_own . "$3" "$4" "$2"
)

# cv_link_path PATH TARGET: replaces a file, a link or an empty directory.
cv_link_path() (
  cv_path_parent "$1" || return 1
  if [ -d "$1" ] && [ ! -L "$1" ]; then
    rmdir "$1" || return 1
  elif [ -e "$1" ] && [ ! -f "$1" ] && [ ! -L "$1" ]; then
    cv_say "$1: is neither file, link nor directory: left alone"
    return 1
  fi
  cv_path_new "$1"
  ln -s -- "$2" "$CV_NEW" || return 1
  cv_path_swap "$CV_NEW" "$1" || {
    rm -f "$CV_NEW"
    return 1
  }
)

# cv_remove_path PATH: a file, a link or an empty directory. A directory that is not empty is an error.
cv_remove_path() {
  if [ -L "$1" ] || [ -f "$1" ]; then
    rm -f "$1"
  elif [ -d "$1" ]; then
    rmdir "$1"
  elif [ -e "$1" ]; then
    cv_say "$1: is neither file, link nor directory: left alone"
    return 1
  fi
}
