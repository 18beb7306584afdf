# --- mount ---

CV_MOUNTINFO=${CV_MOUNTINFO:-/proc/self/mountinfo}

# SOURCE FSTYPE OPTIONS BIND of each key, with tabs, still escaped as in mountinfo (`\040`); `-` where nothing is mounted.
# BIND is the path that is shown once more there, when an earlier mount shows the same file system.
cv_mount_table() {
  printf '%s\n' "$@" | awk -v table="$CV_MOUNTINFO" '
    function escaped(text,  out, i, c) {
      out = ""
      for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        out = out (c == " " ? "\\040" : c == "\t" ? "\\011" : c == "\\" ? "\\134" : c)
      }
      return out
    }
    function bind(m,  n, rest) {
      for (n = 1; n < m; n++) {
        if (dev[n] != dev[m] || mp[n] == mp[m]) continue
        if (root[n] == root[m]) return mp[n]
        if (root[n] == "/") rest = root[m]
        else if (index(root[m], root[n] "/") == 1) rest = substr(root[m], length(root[n]) + 1)
        else continue
        return (mp[n] == "/" ? "" : mp[n]) rest
      }
      return "-"
    }
    BEGIN {
      while ((getline < table) > 0) {
        rows++
        dev[rows] = $3; root[rows] = $4; mp[rows] = $5; own[rows] = $6
        for (i = 7; i < NF; i++) if ($i == "-") break
        fs[rows] = $(i + 1); src[rows] = $(i + 2); all[rows] = $(i + 3)
        last[$5] = rows
      }
    }
    {
      m = last[escaped($0)]
      if (!m) { print "-"; next }
      from = bind(m)
      options = own[m]
      if (from == "-") {
        n = split(all[m], more, ",")
        for (i = 1; i <= n; i++) if (more[i] != "rw" && more[i] != "ro") options = options "," more[i]
      }
      print src[m] "\t" fs[m] "\t" options "\t" from
    }'
}

# shellcheck disable=SC2086
cv_see_mount() (
  [ $# -gt 0 ] || return 0
  [ -r "$CV_MOUNTINFO" ] || {
    cv_fail_all "cannot read $CV_MOUNTINFO" "$@"
    return 0
  }
  set -f
  IFS=$CV_NL
  for line in $(cv_mount_table "$@"); do
    key=$1
    shift
    case $line in
    -)
      # Nothing is mounted where others may exchange the directory.
      if cv_safe_only "$key" mounting; then echo '- absent'; else cv_fail_all "$CV_WHY" "$key"; fi
      ;;
    *)
      (
        IFS=$CV_TAB
        set -- $line
        out='- mount'
        for word; do
          cv_enc_to "$(printf '%b.' "$word")"
          # The dot keeps a newline at the end.
          case $CV_ENC in '\'*) CV_ENC=${CV_ENC%'\0056'} ;; *) CV_ENC=${CV_ENC%.} ;; esac
          out="$out $CV_ENC"
        done
        printf '%s\n' "$out"
      )
      ;;
    esac
  done
)

cv_line_mount() { cv_line_of "$(cv_see_mount "$1")"; }

cv_save_mount() { :; }

cv_restore_mount() { cv_apply_mount "$1" "$2"; }

# cv_mount_spares PATH LINE: status 1, and says why, where a revert would lose what is in a file system in memory.
cv_mount_spares() {
  cv_m_held=$(cv_mount_held "$1" "$2") || return 1
  [ -n "$cv_m_held" ] || return 0
  cv_say "$1 is in memory and holds $cv_m_held, which is not reverted: it stays"
  return 1
}

# cv_mount_held PATH LINE: something in the file system in memory that would go with all that is in it, printed. Status 1: it cannot be said.
# shellcheck disable=SC2086
cv_mount_held() (
  unset IFS
  now=$(cv_line_mount "$1") || return 1
  set -f
  at=$1 want=$2
  set -- $now
  case "${1:-} ${3:-} ${5:-}" in 'mount tmpfs -' | 'mount ramfs -') ;; *) return 0 ;; esac
  was="$2 $3 $5" type=$3 had=$4
  set -- $want
  if [ "$was" = "${2:-} ${3:-} ${5:-}" ] && cv_mount_remounts "$type" - "$had" "${4:-}"; then return; fi
  find "$at" -xdev -mindepth 1 2>/dev/null | sed -n '1p;1q'
)

# A success of mount(8) counts: the kernel spells options and devices in its own way, and the next look judges them.
# shellcheck disable=SC2086
cv_same_mount() (
  unset IFS
  set -f
  want=$3
  set -- $2
  [ "$1" = mount ] || return 1
  type=$3 bind=$5
  set -- $want
  [ "$1" = mount ] || return 1
  [ "$5" = "$bind" ] && { [ "$3" = auto ] || [ "$bind" != - ] || [ "${3%4}" = "${type%4}" ]; }
)

# cv_mount_off PATH: unmounts it. A process that only reads it in passing holds it for a moment: five seconds are waited.
cv_mount_off() {
  cv_m_turn=0
  while [ $cv_m_turn -lt 25 ]; do
    ! cv_m_said=$(umount -- "$1" 2>&1) || return 0
    case $cv_m_said in *busy*) cv_nap ;; *) break ;; esac
    cv_m_turn=$((cv_m_turn + 1))
  done
  cv_say "$cv_m_said"
  case $cv_m_said in *busy*) cv_mount_users "$1" >&2 ;; esac
  return 1
}

# cv_mount_users PATH: the processes that work in it or have something of it open and stay, a line each.
cv_mount_users() {
  cv_staying cv_mount_used "$1" |
    while IFS=/ read -r cv_m_pid cv_m_how cv_m_rest; do
      IFS= read -r cv_m_name <"/proc/$cv_m_pid/comm" || continue
      case $cv_m_how in fd) cv_m_rest=${cv_m_rest#*/} ;; esac
      printf 'process %s (%s) uses %s: end it, then apply again\n' "$cv_m_pid" "$cv_m_name" "$cv_m_rest"
    done 2>/dev/null | sort -u | head -n 10
}

# cv_mount_used PATH: these processes now: PID/cwd/PATH, PID/root/PATH and PID/fd/NUMBER/PATH. fuser is not on every host.
cv_mount_used() {
  find /proc/[0-9]*/ -maxdepth 2 -type l \( -name cwd -o -name root -o -path '*/fd/*' \) -exec ls -ld {} + 2>/dev/null |
    CV_M_AT=$1 awk '
      BEGIN { at = ENVIRON["CV_M_AT"] }
      {
        arrow = index($0, " -> ")
        to = substr($0, arrow + 4)
        if (to != at && index(to, at "/") != 1) next
        split(substr($0, 1, arrow - 1), part, "/proc/")
        print part[2] "/" to
      }'
}

# cv_made_record DIR: the record that we made this directory.
cv_made_record() { printf '%s/made/%s\n' "$CV_ROOT" "$(printf %s "$1" | sha256sum | cut -c1-64)"; }

# cv_apply_mount PATH LINE: mounts, mounts anew, changes options, or unmounts. Makes the directory, and takes a directory
# away that it has made.
# shellcheck disable=SC2086
cv_apply_mount() (
  cv_sbin
  # A run declares what goes; a revert, which has the run that it reverts, names all that it takes away.
  [ -z "${CV_FROM_RUN:-}" ] || cv_mount_spares "$1" "$2" || return 1
  at=$1 want=$2
  now=$(cv_line_mount "$at") || return 1
  cv_safe_only "$at" 'mounting and unmounting' || {
    cv_say "$CV_WHY"
    return 1
  }
  made=$(cv_made_record "$at")
  if [ "$want" = absent ]; then
    while [ "$now" != absent ]; do
      cv_mount_off "$at" || return 1
      now=$(cv_line_mount "$at") || return 1
    done
    if [ -e "$made" ]; then
      rmdir -- "$at" && rm -f "$made"
    fi
    return
  fi
  set -f
  set -- $now
  was="$2 $5" had=${4:-} memory=${3:-}
  set -- $want
  is="$2 $5"
  cv_dec_to "$2"
  source=$CV_DEC
  cv_dec_to "$3"
  type=$CV_DEC
  cv_dec_to "$4"
  options=$CV_DEC
  cv_dec_to "$5"
  bind=$CV_DEC
  if [ "$was" = "$is" ] && cv_mount_remounts "$memory" "$bind" "$had" "$options"; then
    # Options that are left out fall back to their defaults.
    how=remount
    [ "$bind" = - ] || how=remount,bind
    mount -o "$how,$(cv_mount_defaults "$options")$options" -- "$at"
    return
  fi
  for path in "$source" "$bind"; do
    case $path in /*) cv_safe_only "$path" 'taking something to be mounted' || {
      cv_say "$CV_WHY"
      return 1
    } ;; esac
  done
  [ "$now" = absent ] || cv_mount_off "$at" || return 1
  if [ ! -d "$at" ]; then
    mkdir -- "$at" && cv_write_record "$made" "$at" || return 1
  fi
  if [ "$bind" = - ]; then
    mount -t "$type" -o "$options" -- "$source" "$at" && return
  elif mount --bind -- "$bind" "$at"; then
    # A bind mount takes its options in a second step.
    mount -o "remount,bind,$options" -- "$at" && return
    umount -- "$at"
  fi
  if [ -e "$made" ]; then
    rmdir -- "$at" 2>/dev/null && rm -f "$made"
  fi
  return 1
)

# cv_mount_remounts TYPE BIND HAD OPTIONS: whether a remount makes these options of the ones that a mount has (`MountState::is_remount_of`): a file
# system in memory keeps its size in a remount that does not name it.
cv_mount_remounts() {
  case $1/$2 in tmpfs/- | ramfs/-) ;; *) return 0 ;; esac
  for cv_m_key in size nr_blocks nr_inodes; do
    case ",$3" in *",$cv_m_key="*) case ",$4" in *",$cv_m_key="*) ;; *) return 1 ;; esac ;; esac
  done
}

# cv_mount_defaults OPTIONS: the opposites of the flags that these options do not name, with a comma at the end.
cv_mount_defaults() {
  for cv_m_pair in ro:rw nosuid:suid nodev:dev noexec:exec noatime:relatime nodiratime:diratime sync:async; do
    case ",$1," in
    *",${cv_m_pair%:*},"* | *",${cv_m_pair#*:},"*) ;;
    *) printf '%s,' "${cv_m_pair#*:}" ;;
    esac
  done
}
