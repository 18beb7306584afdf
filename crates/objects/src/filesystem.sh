# --- filesystem ---

# cv_filesystem_devices DISK: the block devices that show it: itself, or the loop devices of a file.
cv_filesystem_devices() {
  if [ -b "$1" ]; then printf '%s\n' "$1"; else losetup -j "$1" -n -O NAME 2>/dev/null; fi
}

# cv_filesystem_mounts DISK: the places where its file system is mounted, as mountinfo escapes them, a line each.
cv_filesystem_mounts() (
  cv_filesystem_devices "$1" | while IFS= read -r device; do
    numbers=$(stat -L -c '0x%t 0x%T' -- "$device") || continue
    awk -v number="$((${numbers% *})):$((${numbers#* }))" '$3 == number && $4 == "/" { print $5 }' "$CV_MOUNTINFO"
  done
)

# cv_filesystem_holds TYPE DISK: `empty` where it holds nothing but what mkfs puts there, `used` where it holds something or nobody can tell.
cv_filesystem_holds() (
  at=$(cv_filesystem_mounts "$2" | head -n 1)
  if [ -n "$at" ]; then
    # An error of ls counts as content; names are only compared.
    # shellcheck disable=SC2012
    content=$(ls -A -- "$(printf '%b' "$at")" 2>&1 | awk '$0 != "lost+found"')
    if [ -z "$content" ]; then echo empty; else echo used; fi
    return
  fi
  case $1 in
  ext[234])
    # A journal that must be replayed may hold files that the counters do not know.
    dumpe2fs -h -- "$2" 2>/dev/null | awk -F ': *' '
      $1 == "Filesystem features" { dirty = $2 ~ /needs_recovery/ }
      $1 == "Inode count" { count = $2 }
      $1 == "Free inodes" { free = $2 }
      $1 == "First inode" { first = $2 }
      END { print (count && !dirty && count - free <= first) ? "empty" : "used" }'
    ;;
  xfs)
    # The root directory and the two inodes of the real-time section are always there.
    if xfs_db -r -c 'sb 0' -c 'print icount ifree' "$2" 2>/dev/null |
      awk '$1 == "icount" { count = $3 } $1 == "ifree" { free = $3 } END { exit !(count && count - free <= 3) }' &&
      xfs_logprint -t "$2" 2>/dev/null | grep -q '<CLEAN>'; then echo empty; else echo used; fi
    ;;
  *) echo used ;;
  esac
)

# cv_filesystem_of DISK: the words of its state. Status 1, and why, where it cannot be read.
cv_filesystem_of() (
  [ -b "$1" ] || [ -f "$1" ] || {
    [ ! -e "$1" ] || {
      printf '%s\n' "$1 is no disk: neither a block device nor a file"
      return 1
    }
    echo absent
    return 0
  }
  [ -n "$(dd if="$1" bs=512 count=1 2>/dev/null | tr '\0' x)" ] || {
    printf '%s\n' "nothing can be read of $1: is it empty, or without a medium?"
    return 1
  }
  # By its path: a busybox that is the shell has a blkid of its own, which cannot probe.
  blkid=/usr/sbin/blkid
  [ -x "$blkid" ] || blkid=/sbin/blkid
  said=$("$blkid" -p -o export -- "$1" 2>/dev/null)
  case $? in
  0) ;;
  2)
    for holder in "/sys/class/block/$(basename -- "$(readlink -f -- "$1")")/holders"/*; do
      [ ! -e "$holder" ] || {
        cv_enc_to "part of ${holder##*/}"
        printf 'other %s\n' "$CV_ENC"
        return 0
      }
    done
    echo blank
    return 0
    ;;
  8)
    cv_enc_to 'several signatures'
    printf 'other %s\n' "$CV_ENC"
    return 0
    ;;
  *)
    printf '%s\n' "the program blkid (of util-linux) cannot tell what is on $1"
    return 1
    ;;
  esac
  type='' usage='' label='' uuid='' table=''
  while IFS='=' read -r name value; do
    case $name in
    TYPE) type=$value ;;
    USAGE) usage=$value ;;
    LABEL) label=$(printf '%s' "$value" | sed 's/\\\(.\)/\1/g') ;;
    UUID) uuid=$value ;;
    PTTYPE) table=$value ;;
    esac
  done <<EOF_OF_BLKID
$said
EOF_OF_BLKID
  if [ "$usage" = filesystem ] && [ -z "$table" ]; then
    cv_enc_to "${label:--}"
    printf 'fs %s %s %s %s\n' "$type" "$CV_ENC" "${uuid:--}" "$(cv_filesystem_holds "$type" "$1")"
  else
    if [ -n "$table" ]; then cv_enc_to "a partition table ($table)"; else cv_enc_to "$type"; fi
    printf 'other %s\n' "$CV_ENC"
  fi
)

cv_see_filesystem() (
  cv_sbin
  for key; do
    if ! cv_safe_only "$key" 'making a file system'; then
      cv_fail_all "$CV_WHY" "$key"
    elif state=$(cv_filesystem_of "$key"); then
      printf -- '- %s\n' "$state"
    else
      cv_fail_all "$state" "$key"
    fi
  done
)

cv_line_filesystem() { cv_line_of "$(cv_see_filesystem "$1")"; }

cv_save_filesystem() { :; }

cv_restore_filesystem() { cv_apply_filesystem "$1" "$2"; }

# cv_same_filesystem KEY NOW PLANNED: the UUID that mkfs draws is open in a plan.
cv_same_filesystem() {
  case $3 in fs\ *' ~ '*) ;; *) return 1 ;; esac
  cv_fs_planned=${3%' ~ '*}
  case $2 in "$cv_fs_planned "*" ${3##* }") return 0 ;; esac
  return 1
}

# cv_filesystem_make DISK TYPE LABEL UUID: `-` is no label, `~` a UUID that mkfs draws. The LABEL is a word of a state.
cv_filesystem_make() (
  disk=$1 type=$2 uuid=$4
  cv_dec_to "$3"
  set -- -q
  [ "$CV_DEC" = - ] || set -- "$@" -L "$CV_DEC"
  case $type in
  ext[234])
    # Once -F: a whole disk is no mistake. Twice it would write over what is in use.
    set -- "$@" -F
    [ "$uuid" = '~' ] || set -- "$@" -U "$uuid"
    ;;
  xfs) [ "$uuid" = '~' ] || set -- "$@" -m "uuid=$uuid" ;;
  esac
  command -v "mkfs.$type" >/dev/null 2>&1 || {
    cv_say "this host has no program mkfs.$type"
    return 1
  }
  "mkfs.$type" "$@" -- "$disk" >/dev/null </dev/null
)

# cv_filesystem_wipe DISK LINE: takes the signature of an empty file system in the state LINE off.
cv_filesystem_wipe() (
  at=$(cv_filesystem_mounts "$1" | head -n 1)
  [ -z "$at" ] || {
    cv_say "$1: it is mounted at $(printf '%b' "$at"): left as it is"
    return 1
  }
  case $2 in
  fs\ *' empty') wipefs -a -q -- "$1" ;;
  *)
    cv_say "$1: it holds data, or nobody can tell: left as it is (wipefs -a takes a file system away)"
    return 1
    ;;
  esac
)

# cv_apply_filesystem DISK LINE: makes a file system on a blank disk, or takes an empty one away. Anything else is left as it is.
cv_apply_filesystem() (
  cv_sbin
  now=$(cv_line_filesystem "$1") || return 1
  ! cv_same_filesystem "$1" "$now" "$2" || return 0
  case $now,$2 in
  "$2","$2") ;;
  blank,fs\ *)
    disk=$1
    # shellcheck disable=SC2086
    set -- $2
    cv_filesystem_make "$disk" "$2" "$3" "$4"
    ;;
  *,blank) cv_filesystem_wipe "$1" "$now" ;;
  *)
    cv_say "$1: the file system is made on a blank disk only, and this one is '$now': left as it is"
    return 1
    ;;
  esac
)
