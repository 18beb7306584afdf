# --- user ---

CV_ETC=${CV_ETC:-/etc}

# shellcheck disable=SC2086
cv_see_user() (
  [ $# -gt 0 ] || return 0
  [ -r "$CV_ETC/passwd" ] && [ -r "$CV_ETC/group" ] || {
    cv_fail_all "cannot read $CV_ETC/passwd and $CV_ETC/group" "$@"
    return 0
  }
  shadow=$CV_ETC/shadow
  [ -r "$shadow" ] || shadow=/dev/null
  set -f
  IFS=$CV_NL
  for line in $(printf '%s\n' "$@" | awk -F : -v etc="$CV_ETC" -v shadow="$shadow" '
    BEGIN {
      while ((getline < (etc "/group")) > 0) {
        if (!($3 in gname)) gname[$3] = $1
        n = split($4, m, ",")
        for (i = 1; i <= n; i++) if (m[i] != "") groups[m[i]] = groups[m[i]] "\t" $1
      }
      while ((getline < shadow) > 0) hash[$1] = "x" $2
      while ((getline < (etc "/passwd")) > 0) {
        if ($1 in user) continue
        h = ($2 == "x") ? (($1 in hash) ? hash[$1] : (shadow == "/dev/null") ? "" : "x!") : "x" $2
        lock = (h == "") ? "?" : (h ~ /^x[!*]/) ? "locked" : "unlocked"
        g = ($4 in gname) ? gname[$4] : $4
        user[$1] = $3 "\t" g "\t:" $5 "\t:" $6 "\t:" $7 "\t" lock
      }
    }
    { print (($0 in user) ? user[$0] groups[$0] : "-") }'); do
    if [ "$line" = - ]; then
      if command -v getent >/dev/null 2>&1 && [ "$CV_ETC" = /etc ] && getent passwd "$1" >/dev/null 2>&1; then
        cv_fail_all "the user $1 comes from another source than /etc/passwd" "$1"
      else
        echo '- absent'
      fi
      shift
      continue
    fi
    key=$1
    shift
    (
      IFS=$CV_TAB
      set -- $line
      unset IFS
      [ "$6" != '?' ] || {
        cv_fail_all "cannot read $CV_ETC/shadow: root is needed to see whether $key is locked" "$key"
        return 0
      }
      cv_enc_to "$2"
      out="- user $1 $CV_ENC"
      for word in "${3#:}" "${4#:}" "${5#:}"; do
        cv_enc_to "$word"
        out="$out $CV_ENC"
      done
      out="$out $6"
      shift 6
      if [ $# -gt 0 ]; then
        for word in $(printf '%s\n' "$@" | sort -u); do
          cv_enc_to "$word"
          out="$out $CV_ENC"
        done
      fi
      printf '%s\n' "$out"
    )
  done
)

cv_line_user() { cv_line_of "$(cv_see_user "$1")"; }

# The uid is the host's choice when the plan leaves it open.
cv_same_user() {
  case $3 in 'user ~ '*) case $2 in user\ *) [ "${2#user * }" = "${3#user ~ }" ] && return 0 ;; esac ;; esac
  return 1
}

# cv_save_user: saves the shadow and gshadow lines, which no state holds. Kept (0600) with the run, in CV_SAVED.
cv_save_user() { cv_save_account user "$1" "$2" shadow; }
# cv_save_group NAME LINE: as cv_save_user.
cv_save_group() { cv_save_account group "$1" "$2" gshadow; }

# cv_save_account KIND NAME LINE SHADOW: keeps its lines of the files `group` and SHADOW below CV_SAVED.
cv_save_account() (
  [ "$3" != absent ] && [ -n "${CV_SAVED:-}" ] || return 0
  umask 077
  mkdir -p "$CV_SAVED" || return 1
  for file in group "$4"; do
    cv_account_line "$2" "$CV_ETC/$file" >"$CV_SAVED/$1.$2.$file" || return 1
  done
  sync "$CV_SAVED/$1.$2.group" "$CV_SAVED/$1.$2.$4" 2>/dev/null || sync
)

# cv_account_line NAME FILE: prints its line of a file of accounts.
cv_account_line() { [ ! -r "$2" ] || awk -F : -v name="$1" '$1 == name' "$2"; }

# cv_saved_account NAME: a file that the run which is being undone has kept, in CV_KEPT.
cv_saved_account() {
  CV_KEPT=$CV_ROOT/runs/${CV_FROM_RUN:-none}/saved/$1
  # Of a run that is no longer kept, with what is still ours.
  [ -s "$CV_KEPT" ] || CV_KEPT=$CV_ROOT/kept/${CV_FROM_RUN:-none}/$1
  [ -s "$CV_KEPT" ]
}

cv_restore_user() { cv_apply_user "$1" "$2"; }

# cv_need_shadow_tools PROGRAM: status 1 and the reason where this host lacks it. Sets PATH.
cv_need_shadow_tools() {
  PATH=$PATH:/usr/sbin:/sbin
  export PATH
  command -v "$1" >/dev/null 2>&1 || {
    cv_say "this host has no $1 (package passwd or shadow)"
    return 1
  }
}

# cv_apply_user NAME LINE: makes, changes or removes the user. Its home directory is another object and stays as it is.
# shellcheck disable=SC2086
cv_apply_user() (
  name=$1 want=$2
  is=$(cv_line_user "$name") || return 1
  [ "$is" != "$want" ] || return 0
  if [ "$want" = absent ]; then
    cv_need_shadow_tools userdel || return 1
    # userdel may take the user's own group along: a group is an object of its own and stays.
    line=$(cv_account_line "$name" "$CV_ETC/group")
    secret=$(cv_account_line "$name" "$CV_ETC/gshadow")
    userdel -- "$name" || return 1
    if [ -n "$line" ] && [ -z "$(cv_account_line "$name" "$CV_ETC/group")" ]; then cv_group_make "$line" "$secret"; fi
    return
  fi
  set -f
  set -- $want
  uid=$2
  cv_dec_to "$3"
  group=$CV_DEC
  cv_dec_to "$4"
  gecos=$CV_DEC
  cv_dec_to "$5"
  home=$CV_DEC
  cv_dec_to "$6"
  shell=$CV_DEC lock=$7
  shift 7
  groups=
  for word; do
    cv_dec_to "$word"
    groups="$groups${groups:+,}$CV_DEC"
  done
  if [ "$is" = absent ]; then
    cv_need_shadow_tools useradd || return 1
    set -- -M -N -g "$group" -c "$gecos" -d "$home" -s "$shell" -G "$groups"
    [ "$uid" = '~' ] || set -- "$@" -u "$uid"
    [ "${CV_USER_SYSTEM:-}" != yes ] || set -- "$@" -r
    useradd "$@" -- "$name" || return 1
    if cv_saved_account "user.$name.shadow"; then
      cv_shadow_put "$name" "$CV_ETC/shadow" "$CV_KEPT"
      return
    fi
    is=$(cv_line_user "$name") || return 1
  else
    cv_need_shadow_tools usermod || return 1
    set -- -g "$group" -c "$gecos" -d "$home" -s "$shell" -G "$groups"
    case $is in "user $uid "*) ;; *) [ "$uid" = '~' ] || set -- "$@" -u "$uid" ;; esac
    usermod "$@" -- "$name" || return 1
  fi
  case "$lock $is" in
  'locked '*' unlocked' | 'locked '*' unlocked '*) usermod -L -- "$name" ;;
  'unlocked '*' locked' | 'unlocked '*' locked '*)
    usermod -U -- "$name" || {
      cv_say "$name: has no password, so it stays locked; its keys work all the same"
      return 1
    }
    ;;
  esac
)

# cv_shadow_put NAME FILE KEPT: replaces the line of NAME in FILE by the one in KEPT, under shadow's own lock.
cv_shadow_put() (
  umask 077
  i=0
  # busybox reads the words of a trap when it runs: the function's arguments are gone by then.
  shadow=$2
  until (set -C && printf %s "$$" >"$shadow.lock") 2>/dev/null; do
    # A lock whose process is gone does not count, as for shadow's own programs.
    holder=
    { read -r holder <"$shadow.lock"; } 2>/dev/null
    case $holder in
    '' | *[!0-9]*) ;;
    *) [ -d "/proc/$holder" ] || rm -f "$shadow.lock" ;;
    esac
    i=$((i + 1))
    [ $i -lt 50 ] || {
      cv_say "$shadow is locked by another program"
      return 1
    }
    cv_nap
  done
  trap 'rm -f "$shadow.lock" "$shadow.cv-new"' EXIT
  awk -F : -v name="$1" -v kept="$3" '
    $1 == name { if (!put++) { while ((getline line < kept) > 0) print line }; next }
    { print }
    END { if (!put) while ((getline line < kept) > 0) print line }' "$2" >"$2.cv-new" &&
    chown "$(stat -c '%u:%g' -- "$2")" "$2.cv-new" && chmod "$(stat -c %a -- "$2")" "$2.cv-new" && mv -f "$2.cv-new" "$2"
)
