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
      while ((getline < shadow) > 0) {
        hash[$1] = "x" $2
        if ($8 ~ /^[0-9]+$/ && $8 > 0) ends[$1] = $8
      }
      while ((getline < (etc "/passwd")) > 0) {
        if ($1 in user) continue
        h = ($2 == "x") ? (($1 in hash) ? hash[$1] : (shadow == "/dev/null") ? "" : "x!") : "x" $2
        lock = (h == "") ? "?" : (h ~ /^x[!*]/) ? "locked" : "unlocked"
        g = ($4 in gname) ? gname[$4] : $4
        user[$1] = $3 "\t" g "\t:" $5 "\t:" $6 "\t:" $7 "\t" lock "\t:" ends[$1]
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
      login=$6
      if [ -e "$CV_ROOT/passwords/$key" ] && cv_user_digest "$key"; then login=$login,password=$CV_HASHED; fi
      [ "$7" = : ] || login=$login,expires=${7#:}
      out="$out $login"
      shift 7
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

# cv_user_digest NAME [FILE]: the digest of the hash of its password in CV_HASHED; status 1 where it has none. What locks it is no part of a hash. No command
# line holds one.
cv_user_digest() {
  CV_HASHED=$(awk -F : -v name="$1" '
    $1 == name { sub(/^!+/, "", $2); if ($2 != "" && $2 != "*" && $2 != "x") printf "%s", $2; exit }' "${2:-$CV_ETC/shadow}")
  [ -n "$CV_HASHED" ] || return 1
  CV_HASHED=$(printf %s "$CV_HASHED" | sha256sum | cut -c1-64)
}

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

# cv_save_account KIND NAME LINE SHADOW: keeps its lines of the files `group` and SHADOW below CV_SAVED, until the run's first change of it: a revert
# brings back what was there before that.
cv_save_account() (
  [ "$3" != absent ] && [ -n "${CV_SAVED:-}" ] || return 0
  cv_enc_to "$2"
  ! cv_journal_has "${CV_SAVED%/saved}/journal" "$1" "$CV_ENC" begin moved || return 0
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
  # A password that no run has set is in no state: the plan says what it was made against.
  if [ -n "${CV_USER_HAD:-}" ]; then
    cv_user_digest "$name"
    [ "${CV_HASHED:--}" = "$CV_USER_HAD" ] || {
      cv_say "$name: somebody has changed its password since the plan"
      exit 70
    }
  fi
  if [ "$want" = absent ]; then
    cv_need_shadow_tools userdel || return 1
    # userdel may take the user's own group along: a group is an object of its own and stays.
    line=$(cv_account_line "$name" "$CV_ETC/group")
    secret=$(cv_account_line "$name" "$CV_ETC/gshadow")
    userdel -- "$name" || return 1
    rm -f "$CV_ROOT/passwords/$name"
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
  shell=$CV_DEC login=$7
  shift 7
  lock=${login%%,*} hash=- expires=
  case $login in *,password=*)
    hash=${login#*,password=}
    hash=${hash%%,*}
    ;;
  esac
  case $login in *,expires=*) expires=${login#*,expires=} ;; esac
  groups=
  for word; do
    cv_dec_to "$word"
    groups="$groups${groups:+,}$CV_DEC"
  done
  if [ "$is" = absent ]; then
    cv_need_shadow_tools useradd || return 1
    set -- -M -N -g "$group" -c "$gecos" -d "$home" -s "$shell" -G "$groups" -e "$expires"
    [ "$uid" = '~' ] || set -- "$@" -u "$uid"
    [ "${CV_USER_SYSTEM:-}" != yes ] || set -- "$@" -r
    useradd "$@" -- "$name" || return 1
    if cv_saved_account "user.$name.shadow"; then
      cv_shadow_put "$name" "$CV_ETC/shadow" "$CV_KEPT" || return 1
    fi
  else
    cv_need_shadow_tools usermod || return 1
    set -- -g "$group" -c "$gecos" -d "$home" -s "$shell" -G "$groups" -e "$expires"
    case $is in "user $uid "*) ;; *) [ "$uid" = '~' ] || set -- "$@" -u "$uid" ;; esac
    usermod "$@" -- "$name" || return 1
  fi
  cv_user_password "$name" "$lock" "$hash" || return 1
  is=$(cv_line_user "$name") || return 1
  set -- $is
  case "$lock ${7%%,*}" in
  'locked unlocked') usermod -L -- "$name" ;;
  'unlocked locked')
    usermod -U -- "$name" || {
      cv_say "$name: has no password, so it stays locked; its keys still work"
      return 1
    }
    ;;
  esac
)

# cv_user_password NAME locked|unlocked DIGEST [<HASH]: gives the user the password of which a hash has this digest: the one that the run which is being
# undone has kept, or that of the input. `-`: none that a run has given. While a password is of a run, $CV_ROOT/passwords/NAME says so, and states have
# its digest.
cv_user_password() (
  mark=$CV_ROOT/passwords/$1
  if [ "$3" = - ] && [ ! -e "$mark" ]; then return 0; fi
  CV_HASHED=
  [ ! -e "$mark" ] || cv_user_digest "$1"
  [ "$CV_HASHED" != "$3" ] || return 0
  [ "$3" = - ] || cv_write_record "$mark" "$1" || return 1
  if cv_saved_account "user.$1.shadow" && { [ "$3" = - ] || { cv_user_digest "$1" "$CV_KEPT" && [ "$CV_HASHED" = "$3" ]; }; }; then
    umask 077
    trap 'rm -f "$mark.new"' EXIT
    # The rest of the line is not of the password, but for the day of its last change.
    cv_account_line "$1" "$CV_ETC/shadow" | awk -F : -v OFS=: '
      NR == FNR { hash = $2; day = $3; next }
      { $2 = hash; $3 = day; print }' "$CV_KEPT" - >"$mark.new" && cv_shadow_put "$1" "$CV_ETC/shadow" "$mark.new" || return 1
  elif [ "$3" = - ] && [ "$2" = locked ]; then
    cv_need_shadow_tools chpasswd && printf '%s:!\n' "$1" | chpasswd -e || return 1
  elif [ "$3" = - ]; then
    cv_say "$1: the password that it had before is not kept"
    return 1
  else
    cv_need_shadow_tools chpasswd || return 1
    hash=$(cat)
    [ "$(printf %s "$hash" | sha256sum | cut -c1-64)" = "$3" ] || {
      cv_say "$1: the hash of its password is not kept"
      return 1
    }
    [ "$2" = unlocked ] || hash="!$hash"
    printf '%s:%s\n' "$1" "$hash" | chpasswd -e || return 1
  fi
  [ "$3" != - ] || rm -f "$mark"
)

# cv_amid_user NOW BEFORE AFTER: whether a step that was cut off between two states of a user leaves this one; User::amid, the same rule.
cv_amid_user() {
  printf '%s\n' "$2" "$3" "$1" | awk '
    function part(text, name) { return match(text, "," name "=[^,]*") ? substr(text, RSTART, RLENGTH) : "" }
    { for (i = 1; i <= 7; i++) w[NR, i] = $i; lock = $7; sub(/,.*/, "", lock)
      w[NR, 7] = lock; w[NR, 8] = part($7, "password"); w[NR, 9] = part($7, "expires")
      rest = $0; for (i = 1; i <= 7; i++) sub(/^[^ ]* ?/, "", rest); w[NR, 10] = rest }
    END {
      if (w[3, 1] != "user" || w[2, 1] != "user") exit 1
      if (w[1, 1] == "absent") {
        for (i = 3; i <= 6; i++) if (w[3, i] != w[2, i]) exit 1
        exit (w[2, 2] != "~" && w[3, 2] != w[2, 2])
      }
      for (i = 2; i <= 10; i++) if (w[3, i] != w[1, i] && w[3, i] != w[2, i] && !(i == 8 && (w[1, 8] == "" || w[2, 8] == ""))) exit 1
    }'
}

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
