# --- swap ---

CV_SWAPS=${CV_SWAPS:-/proc/swaps}

# NAME PRIORITY of all swap in use, a line each.
cv_swap_used() { sed 1d "$CV_SWAPS" 2>/dev/null | awk '{ print $1, $5 }'; }

# shellcheck disable=SC2086
cv_see_swap() (
  set -f
  used=$(cv_swap_used)
  for key; do
    if [ "$key" = all ]; then
      set -- $used
      [ $# -gt 0 ] || {
        echo '- absent'
        continue
      }
      out='- in-use'
      for word; do
        cv_enc_to "$(printf '%b' "$word")"
        out="$out $CV_ENC"
      done
      printf '%s\n' "$out"
      continue
    fi
    priority= size=0
    IFS=$CV_NL
    for line in $used; do
      [ "$(printf '%b' "${line% *}")" != "$key" ] || priority=${line##* }
    done
    unset IFS
    cv_safe_only "$key" swapping || {
      cv_fail_all "$CV_WHY" "$key"
      continue
    }
    if [ -f "$key" ]; then size=$(stat -c %s -- "$key"); fi
    if [ -n "$priority" ]; then
      printf -- '- on %s %s\n' "$size" "$priority"
    elif [ -f "$key" ] || [ -b "$key" ]; then
      printf -- '- idle %s %s\n' "$size" "$(cv_swap_sort "$key")"
    else
      echo '- absent'
    fi
  done
)

# The signature lies at the end of the first page: 4 KiB, or 64 KiB on some arm64 kernels.
cv_swap_sort() {
  for cv_s_page in 4096 65536; do
    case $(dd if="$1" bs=1 skip=$((cv_s_page - 10)) count=10 2>/dev/null | tr -d '\0') in
    SWAPSPACE2)
      echo swap
      return
      ;;
    esac
  done
  echo other
}

cv_line_swap() { cv_line_of "$(cv_see_swap "$1")"; }

cv_save_swap() { :; }

cv_restore_swap() { cv_apply_swap "$1" "$2"; }

# The kernel chooses a priority where the plan leaves it open.
cv_same_swap() {
  case $3 in 'on '*' ~') case $2 in on\ *) [ "${2% *}" = "${3% *}" ] && return 0 ;; esac ;; esac
  return 1
}

# cv_swap_on FILE PRIORITY: starts to use it; `~` is the kernel's own priority.
cv_swap_on() {
  case $2 in '~' | -*) swapon -- "$1" ;; *) swapon -p "$2" -- "$1" ;; esac
}

# cv_swap_make FILE BYTES: a swap file, written whole beside its place.
cv_swap_make() (
  umask 077
  new=$1.cv-$$
  trap 'rm -f "$new"' EXIT
  set -- "$1" $(($2 / 1048576)) $(($2 % 1048576))
  {
    [ "$2" -eq 0 ] || dd if=/dev/zero bs=1048576 count="$2"
    [ "$3" -eq 0 ] || dd if=/dev/zero bs="$3" count=1
  } 2>/dev/null >"$new" || {
    cv_say "$1: cannot write its $2 MiB (is the disk full?)"
    return 1
  }
  mkswap -- "$new" >/dev/null && mv -f -- "$new" "$1"
)

# cv_apply_swap KEY LINE
# shellcheck disable=SC2086
cv_apply_swap() (
  cv_sbin
  set -f
  key=$1
  now=$(cv_line_swap "$key") || return 1
  [ "$now" != "$2" ] || return 0
  if [ "$key" = all ]; then
    if [ "$2" = absent ]; then
      for name in $(cv_swap_used | sed 's/ .*//'); do swapoff -- "$(printf '%b' "$name")" || return 1; done
      return 0
    fi
    set -- $2
    shift
    while [ $# -gt 1 ]; do
      cv_dec_to "$1"
      case $(cv_line_swap "$CV_DEC") in on\ *) ;; *) cv_swap_on "$CV_DEC" "$2" || return 1 ;; esac
      shift 2
    done
    return 0
  fi
  case $now in on\ *) swapoff -- "$key" || return 1 ;; esac
  set -- $2
  if [ "$1" = absent ]; then
    [ ! -f "$key" ] || [ "$(cv_swap_sort "$key")" != swap ] || rm -f -- "$key"
    return
  fi
  if [ ! -b "$key" ] && { [ ! -f "$key" ] || [ "$(stat -c %s -- "$key")" != "$2" ]; }; then
    [ ! -f "$key" ] || [ "$(cv_swap_sort "$key")" = swap ] || {
      cv_say "$key: is there and is no swap: left alone"
      return 1
    }
    cv_swap_make "$key" "$2" || return 1
  fi
  if [ "$1" = on ]; then cv_swap_on "$key" "$3"; fi
)
