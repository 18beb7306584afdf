# --- path: owners, directories, links, removals ---

# cv_own_path PATH MODE OWNER GROUP [SHA256]: owner and mode of a regular file that stays. A link is not followed. Where others may
# write, a new file with the same content (of that digest) takes its place: who has the old one open could go on writing to it.
cv_own_path() (
  cv_at "$1" || return 1
  if [ -L "$CV_AT" ] || [ ! -f "$CV_AT" ]; then
    cv_say "$1: is no regular file"
    return 1
  fi
  if [ -z "$CV_FAR" ]; then
    # A change of owner, also to the same one, takes a file's capabilities.
    cv_path_new "$CV_AT"
    umask 077
    trap 'rm -f "$CV_NEW"' EXIT
    (set -C && : >"$CV_NEW") 2>/dev/null || {
      cv_path_refused "$1" "$CV_AT" || cv_path_unwritten "$1"
      return 1
    }
    cv_path_attributes "$CV_AT" "$CV_NEW" && cv_path_own "$CV_AT" "$3" "$4" "$2" "$CV_NEW" || {
      cv_path_refused "$1" "$CV_AT"
      return 1
    }
    return 0
  fi
  [ -n "${5:-}" ] || {
    cv_say "$1: others than root may write to its directory, and its content is not known"
    return 1
  }
  cv_path_gift "$1" || return 1
  unset CV_VALIDATE CV_FETCH CV_ARCHIVE
  if cv_blob_whole "$5"; then
    cv_put_path "$1" "$2" "$3" "$4" "$5"
  else
    new=$CV_ROOT/own.$$
    umask 077
    trap 'rm -f "$new"' EXIT
    mkdir -p "$CV_ROOT" && cv_open "$CV_AT" cat >"$new" || {
      cv_say "$CV_WHY"
      return 1
    }
    cv_put_path "$1" "$2" "$3" "$4" "$5" <"$new"
  fi
)

# cv_path_gift PATH: whether a content that the role does not declare (CV_KEEP) may get another owner or mode, in the directory that cv_at has led
# to: where users can move things into it, only their own.
cv_path_gift() {
  if [ -z "${CV_KEEP:-}" ] || [ ! -e "$CV_AT" ]; then return 0; fi
  case $CV_AT_MODE in 1???) return 0 ;; esac
  cv_p_uid=$(stat -c %u -- "$CV_AT") || return 1
  if [ "$cv_p_uid" = "$CV_AT_UID" ] && ! cv_own_uid "$cv_p_uid"; then return 0; fi
  cv_who "$cv_p_uid"
  cv_say "$1 belongs to $CV_WHO and lies where others may have moved it: its content gets no other owner or mode; give the whole content, or set them by hand"
  return 1
}

# cv_mkdir_path PATH MODE OWNER GROUP: makes the directory, or sets its owner and mode. Replaces all else.
cv_mkdir_path() (
  umask 077
  cv_at "$1" || return 1
  if [ -L "$CV_AT" ] || { [ -e "$CV_AT" ] && [ ! -d "$CV_AT" ]; }; then
    rm -f "$CV_AT" || {
      cv_path_refused "$1" "$CV_AT"
      return 1
    }
  fi
  made=
  [ -d "$CV_AT" ] || { mkdir "$CV_AT" && made=yes; } || {
    cv_path_refused "$1" "$CV_AT"
    return 1
  }
  if [ -z "$CV_FAR" ]; then
    cd "$CV_AT" || return 1
  else
    CV_WHY="$1 was exchanged"
    cv_down "${1##*/}" $made || {
      cv_say "$CV_WHY"
      return 1
    }
  fi
  cv_path_own . "$3" "$4" "$2" || {
    cv_path_refused "$1" .
    return 1
  }
)

# cv_link_path PATH TARGET [OWNER GROUP]: replaces anything but a directory that is not empty.
cv_link_path() (
  umask 077
  cv_at "$1" || return 1
  at=$CV_AT own=${3:-root}:${4:-root}
  cv_path_new "$at"
  new=$CV_NEW
  case $own:$CV_FAR in
  root:root:*) cv_link_new "$2" "$new" ;;
  *:) cv_link_new "$2" "$new" && chown -h -- "$own" "$new" ;;
  *)
    # By its name another file could be given away: it gets its owner where only root can exchange it.
    new=$CV_NEW/$(od -A n -N 12 -t u4 /dev/urandom | tr -d ' \n')
    mkdir "$CV_NEW" && cv_link_given "$2" "${new##*/}" "$own"
    ;;
  esac && cv_path_swap "$new" "$at" || {
    rm -f "$new"
    [ "$new" = "$CV_NEW" ] || rmdir "$CV_NEW"
    cv_path_refused "$1" "$at"
    return 1
  }
  [ "$new" = "$CV_NEW" ] || rmdir "$CV_NEW"
)

# cv_link_new TARGET NAME
cv_link_new() { if [ -n "$CV_FAR" ]; then ln -sT -- "$1" "$2"; else ln -s -- "$1" "$2"; fi; }

# cv_link_given TARGET NAME OWNER:GROUP: makes the link in the directory CV_NEW, which is root's alone.
cv_link_given() (
  CV_WHY="$CV_NEW was exchanged"
  # The directory above may hand its setgid bit on.
  cv_down "${CV_NEW##*/}" made && case $CV_AT_MODE in 700 | 2700) ;; *) false ;; esac || {
    cv_say "$CV_WHY"
    return 1
  }
  ln -sT -- "$1" "./$2" && chown -h -- "$3" "./$2"
)

# cv_remove_path PATH: anything but a directory that is not empty, which is an error. Nothing is there where its directory is not.
cv_remove_path() (
  cv_at "$1" gone || return $(($? == 1))
  if [ ! -L "$CV_AT" ] && [ -d "$CV_AT" ]; then
    said=$(rmdir "$CV_AT" 2>&1) || {
      held=$(find "$CV_AT" -mindepth 1 -maxdepth 1 2>/dev/null | sed -n 1p)
      cv_say "${held:+it holds ${1%/}/${held##*/}, which stays: }$said"
      false
    }
  else
    rm -f "$CV_AT"
  fi || {
    cv_path_refused "$1" "$CV_AT"
    return 1
  }
)
