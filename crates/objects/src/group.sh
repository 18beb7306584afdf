# --- group ---

cv_see_group() (
  [ $# -gt 0 ] || return 0
  [ -r "$CV_ETC/group" ] || {
    cv_fail_all "cannot read $CV_ETC/group" "$@"
    return 0
  }
  for gid in $(printf '%s\n' "$@" | awk -F : -v etc="$CV_ETC" '
    BEGIN { while ((getline < (etc "/group")) > 0) if (!($1 in gid)) gid[$1] = $3 }
    { print (($0 in gid) ? gid[$0] : "-") }'); do
    if [ "$gid" != - ]; then
      printf -- '- group %s\n' "$gid"
    elif command -v getent >/dev/null 2>&1 && [ "$CV_ETC" = /etc ] && getent group "$1" >/dev/null 2>&1; then
      cv_fail_all "the group $1 comes from another source than /etc/group" "$1"
    else
      echo '- absent'
    fi
    shift
  done
)

cv_line_group() { cv_line_of "$(cv_see_group "$1")"; }

# The gid is the host's choice when the plan leaves it open.
cv_same_group() {
  [ "$3" = 'group ~' ] && [ "$2" != absent ]
}

# cv_group_users: for each group that users have as their primary one a line: its name, then theirs.
cv_group_users() {
  awk -F : 'NR == FNR { users[$4] = users[$4] " " $1; next } $3 in users { print $1 users[$3] }' "$CV_ETC/passwd" "$CV_ETC/group" 2>/dev/null
}

cv_restore_group() { cv_apply_group "$1" "$2"; }

# cv_group_make LINE-OF-GROUP LINE-OF-GSHADOW
# shellcheck disable=SC2086
cv_group_make() (
  set -f
  IFS=:
  set -- "$1" "$2" $1
  unset IFS
  groupadd -g "$5" -- "$3" || return 1
  [ -z "${6:-}" ] || gpasswd -M "$6" "$3" >/dev/null || return 1
  if [ -n "$2" ]; then
    umask 077
    mkdir -p "$CV_ROOT" && printf '%s\n' "$2" >"$CV_ROOT/.gshadow" && cv_shadow_put "$3" "$CV_ETC/gshadow" "$CV_ROOT/.gshadow"
    rm -f "$CV_ROOT/.gshadow"
  fi
)

# cv_apply_group NAME LINE: makes, renumbers or removes the group.
cv_apply_group() (
  is=$(cv_line_group "$1") || return 1
  [ "$is" != "$2" ] || return 0
  gid=${2#group }
  case "$is $2" in
  *' absent')
    cv_need_shadow_tools groupdel || return 1
    groupdel -- "$1"
    ;;
  'absent '*)
    cv_need_shadow_tools groupadd || return 1
    if cv_saved_account "group.$1.group"; then
      kept=$CV_KEPT secret=
      if cv_saved_account "group.$1.gshadow"; then read -r secret <"$CV_KEPT"; fi
      read -r line <"$kept"
      cv_group_make "$line" "$secret"
      return
    fi
    [ "$gid" = '~' ] && set -- "$1" || set -- -g "$gid" "$1"
    [ "${CV_USER_SYSTEM:-}" != yes ] || set -- -r "$@"
    groupadd "$@"
    ;;
  *)
    cv_need_shadow_tools groupmod || return 1
    [ "$gid" = '~' ] || groupmod -g "$gid" -- "$1"
    ;;
  esac
)
