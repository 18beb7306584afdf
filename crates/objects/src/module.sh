# --- module ---

CV_SYS_MODULE=${CV_SYS_MODULE:-/sys/module}
CV_PROC_MODULES=${CV_PROC_MODULES:-/proc/modules}

# The tools of the administrator, which an unprivileged PATH lacks.
cv_sbin() {
  PATH=$PATH:/usr/sbin:/sbin
  export PATH
}

# A key has underscores only, as the kernel shows names.
cv_see_module() (
  release=$(uname -r)
  for key; do
    if [ -e "$CV_SYS_MODULE/$key/initstate" ] || grep -qs "^$key " "$CV_PROC_MODULES"; then
      echo '- loaded'
    elif [ -d "$CV_SYS_MODULE/$key" ] ||
      grep -qs "/$(printf %s "$key" | sed 's/_/[-_]/g')\.ko" "/lib/modules/$release/modules.builtin"; then
      echo '- builtin'
    else
      echo '- absent'
    fi
  done
)

cv_line_module() { cv_line_of "$(cv_see_module "$1")"; }

cv_save_module() { :; }

cv_restore_module() { cv_apply_module "$1" "$2"; }

# cv_apply_module NAME LINE
cv_apply_module() (
  cv_sbin
  now=$(cv_line_module "$1") || return 1
  case $2 in
  "$now" | builtin) ;;
  loaded) modprobe -- "$1" ;;
  absent)
    modprobe -r -- "$1" || {
      # shellcheck disable=SC2012 # names of modules are plain words
      users=$(ls "$CV_SYS_MODULE/$1/holders" 2>/dev/null | tr '\n' ' ')
      cv_say "$1: the kernel does not unload it; used by: ${users:-a device, a mount or a program}"
      return 1
    }
    ;;
  esac
)
