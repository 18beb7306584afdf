# --- sysctl ---

# Dots separate the parts of a key; a slash stands for a dot inside a part, as in `net.ipv4.conf.eth0/7.rp_filter`.
cv_sysctl_path() {
  case $1 in
  */*) printf '/proc/sys/%s\n' "$(printf %s "$1" | tr './' '/.')" ;;
  *)
    cv_s_rest=$1 cv_s_path=/proc/sys
    while :; do
      cv_s_path=$cv_s_path/${cv_s_rest%%.*}
      case $cv_s_rest in *.*) cv_s_rest=${cv_s_rest#*.} ;; *) break ;; esac
    done
    printf '%s\n' "$cv_s_path"
    ;;
  esac
}

# shellcheck disable=SC2086
cv_see_sysctl() (
  set -f
  for key; do
    path=$(cv_sysctl_path "$key")
    case /$path/ in */../*) path=/proc/sys/. ;; esac
    if [ ! -e "$path" ]; then
      echo '- absent'
    elif [ -d "$path" ]; then
      cv_fail_all "$key names a group of kernel parameters" "$key"
    elif value=$(cat "$path" 2>&1); then
      unset IFS
      set -- $value
      cv_enc_to "$*"
      printf -- '- value %s\n' "$CV_ENC"
    else
      cv_fail_all "$value" "$key"
    fi
  done
)

cv_line_sysctl() { cv_line_of "$(cv_see_sysctl "$1")"; }

cv_save_sysctl() { :; }

cv_restore_sysctl() { cv_apply_sysctl "$1" "$2"; }

# cv_apply_sysctl KEY LINE
cv_apply_sysctl() (
  path=$(cv_sysctl_path "$1")
  case $2 in
  'value '*)
    cv_dec_to "${2#value }"
    [ -e "$path" ] || {
      cv_say "$1: this kernel has no such parameter (is its module loaded?)"
      return 1
    }
    printf '%s\n' "$CV_DEC" >"$path" || {
      cv_say "$1: the kernel refuses the value $CV_DEC"
      return 1
    }
    ;;
  *)
    # A parameter comes and goes with its module.
    [ ! -e "$path" ] || cv_say "$1: a kernel parameter cannot be taken away; left as it is"
    ;;
  esac
)
