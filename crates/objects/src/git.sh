# --- git ---

# cv_git USER DIR WORD...: git in that checkout as that user, with no question asked, no hook run and no lock taken.
cv_git() {
  cv_g_user=$1
  cv_quote_to "$2"
  cv_g_text="export GIT_TERMINAL_PROMPT=0 GIT_SSH_COMMAND=\${GIT_SSH_COMMAND:-ssh -o BatchMode=yes}"
  if [ -n "${CV_GIT_SSH:-}" ]; then
    cv_g_dir=$CV_QUOTED
    cv_quote_to "$CV_GIT_SSH"
    cv_g_text="export GIT_TERMINAL_PROMPT=0 GIT_SSH_COMMAND=$CV_QUOTED"
    CV_QUOTED=$cv_g_dir
  fi
  cv_g_text="$cv_g_text; exec git --no-optional-locks -c core.hooksPath=/dev/null -c core.fsmonitor=false -C $CV_QUOTED"
  shift 2
  for cv_g_word; do
    cv_quote_to "$cv_g_word"
    cv_g_text="$cv_g_text $CV_QUOTED"
  done
  (cv_as "$cv_g_user" "$cv_g_text")
}

# cv_git_owner DIR: who owns the checkout, in cv_g_owner; git runs as nobody else there. In a directory that belongs to another user, or where others
# than root may write and which is root's, it is not known whose checkout it is. Status 1: CV_WHY says why not; 2: there is none.
cv_git_owner() {
  cv_g_owner=$(stat -c '%u %U' -- "$1" "$1/.git" 2>/dev/null) || return 2
  cv_g_above=${cv_g_owner%%"$CV_NL"*} cv_g_owner=${cv_g_owner##*"$CV_NL"}
  if [ "$cv_g_owner" != "$cv_g_above" ] && ! cv_own_uid "${cv_g_above%% *}"; then
    CV_WHY="$1 belongs to ${cv_g_above#* } and its .git to ${cv_g_owner#* }, so nobody can trust it: give both to one user"
    return 1
  fi
  if cv_own_uid "${cv_g_owner%% *}" && ! cv_is_safe "$1"; then
    (cv_go "$1" && [ -z "$CV_FAR" ]) || {
      CV_WHY="$1 is a checkout of root's, and others than root may write to it or to a directory above it: give it to the user (\`user\`), or keep it where only root may write"
      return 1
    }
  fi
  case ${cv_g_owner#* } in UNKNOWN | '') cv_g_owner=${cv_g_owner%% *} ;; *) cv_g_owner=${cv_g_owner#* } ;; esac
}

# cv_git_walked DIR: whether there is a safe way to it (no link, no step to another owner). Status 1: CV_WHY says why not; 2: it is not there.
cv_git_walked() {
  cv_is_safe "${1%/*}" && return 0
  cv_g_said=$(
    cv_go "$1"
    cv_g_status=$?
    [ $cv_g_status -ne 1 ] || printf '%s' "$CV_WHY"
    exit $cv_g_status
  )
  cv_g_status=$?
  CV_WHY=$cv_g_said
  return $cv_g_status
}

cv_see_git() {
  for cv_g_key; do
    (
      dir=$cv_g_key
      cv_git_walked "$dir" || case $? in
      1)
        cv_fail_all "$CV_WHY" "$dir"
        return 0
        ;;
      *) [ ! -d "$dir" ] && [ -e "$dir" ] || {
        echo '- absent'
        return 0
      } ;;
      esac
      if [ ! -e "$dir" ] && [ ! -L "$dir" ]; then
        echo '- absent'
      elif [ -e "$dir/.git" ]; then
        command -v git >/dev/null 2>&1 || {
          cv_fail_all "this host has no git to look at $dir with" "$dir"
          return 0
        }
        cv_git_owner "$dir" || {
          cv_fail_all "$CV_WHY" "$dir"
          return 0
        }
        owner=$cv_g_owner
        changed=$(cv_git "$owner" "$dir" status --porcelain -uno 2>&1) || {
          cv_fail_all "git: $changed" "$dir"
          return 0
        }
        commit=$(cv_git "$owner" "$dir" rev-parse -q --verify 'HEAD^{commit}' 2>/dev/null) || commit=none
        remote=$(cv_git "$owner" "$dir" config --get remote.origin.url 2>/dev/null)
        cv_enc_to "$remote"
        if [ -n "$changed" ]; then changed=changed; else changed=clean; fi
        printf -- '- checkout %s %s %s\n' "$commit" "$CV_ENC" "$changed"
      elif [ -d "$dir" ] && [ -z "$(ls -A -- "$dir")" ]; then
        echo '- absent'
      else
        echo '- other'
      fi
    )
  done
}

cv_line_git() { cv_line_of "$(cv_see_git "$1")"; }

cv_save_git() { :; }

cv_restore_git() { cv_apply_git "$1" "$2"; }

# Takes a checkout away, with the directory when we made it. What git does not know of stays, and is an error.
cv_git_remove() (
  dir=$1
  cv_git_owner "$dir" || {
    [ $? -eq 2 ] || cv_say "$CV_WHY"
    [ ! -e "$dir/.git" ]
    return
  }
  owner=$cv_g_owner
  more=$(cv_git "$owner" "$dir" status --porcelain --ignored --untracked-files=all 2>&1 | head -n 3)
  [ -z "$more" ] || {
    cv_say "$dir: holds more than the checkout, so it is left alone:"
    cv_say "$more"
    return 1
  }
  cv_git_empty "$owner" "$dir" . && cv_git_unmade "$dir"
)

# cv_git_empty USER DIR .|./.git: takes all in the directory away, or .git alone, with the rights of its owner.
cv_git_empty() (
  cv_quote_to "$2"
  [ "$3" = . ] || {
    cv_as "$1" "cd $CV_QUOTED && rm -rf -- $3"
    return
  }
  cv_as "$1" "cd $CV_QUOTED && find . -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +"
)

# cv_git_unmade DIR: takes the directory away when we made it.
cv_git_unmade() {
  cv_g_made=$(cv_made_record "$1")
  [ ! -e "$cv_g_made" ] || { cv_remove_path "$1" && rm -f "$cv_g_made"; }
}

# cv_git_new DIR REMOTE: an empty checkout.
cv_git_new() {
  if [ ! -d "$1" ]; then
    cv_g_owner=${CV_GIT_USER:-${CV_ME%%:*}} cv_g_group=${CV_ME#*:}
    [ -z "${CV_GIT_USER:-}" ] || cv_g_group=$(id -gn -- "$CV_GIT_USER") || return 1
    cv_mkdir_path "$1" 755 "$cv_g_owner" "$cv_g_group" && cv_write_record "$(cv_made_record "$1")" "$1" || return 1
  fi
  cv_git "${CV_GIT_USER:-}" "$1" init -q && cv_git "${CV_GIT_USER:-}" "$1" config remote.origin.url "$2"
}

# cv_apply_git DIR LINE. Reads CV_GIT_USER, CV_GIT_SSH, CV_GIT_DEPTH, CV_GIT_FORCE. The commit is fetched only where it is missing.
# shellcheck disable=SC2086
cv_apply_git() (
  dir=$1 want=$2
  now=$(cv_line_git "$dir") || return 1
  [ "$want" != absent ] || {
    cv_git_remove "$dir"
    return
  }
  case "$now ${CV_GIT_FORCE:-}" in *' changed ')
    cv_say "$dir: has local changes: left alone"
    return 1
    ;;
  esac
  set -f
  set -- $want
  commit=$2
  cv_dec_to "$3"
  remote=$CV_DEC
  if [ "$now" = absent ]; then
    if [ -z "${CV_GIT_USER:-}" ] && ! cv_safe_only "$dir" 'a checkout of root'; then
      cv_say "$CV_WHY, or name the user whose it is to be (\`user\`)"
      return 1
    fi
    cv_git_new "$dir" "$remote" || {
      ! cv_git_owner "$dir" || cv_git_empty "$cv_g_owner" "$dir" ./.git
      return 1
    }
  fi
  cv_git_owner "$dir" || {
    cv_say "$CV_WHY"
    return 1
  }
  user=$cv_g_owner
  cv_git "$user" "$dir" config remote.origin.url "$remote" &&
    cv_git "$user" "$dir" config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*' || return 1
  # cv_git_has: whether the commit is in the repository. Reads $user, $dir and $commit, prints nothing.
  cv_git_has() { cv_git "$user" "$dir" cat-file -e "$commit^{commit}" 2>/dev/null; }
  if ! cv_git_has; then
    if [ -n "${CV_GIT_DEPTH:-}" ]; then
      cv_git "$user" "$dir" fetch -q --depth "$CV_GIT_DEPTH" origin "$commit"
    else
      cv_git "$user" "$dir" fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*' &&
        { cv_git_has || cv_git "$user" "$dir" fetch -q origin "$commit"; }
    fi && cv_git_has || {
      cv_say "$dir: cannot fetch $commit from $remote"
      # A repository that was begun and holds nothing is removed.
      if [ "$now" = absent ]; then
        cv_git_empty "$user" "$dir" ./.git
        cv_git_unmade "$dir"
      fi
      return 1
    }
  fi
  if [ -n "${CV_GIT_FORCE:-}" ]; then set -- -f; else set --; fi
  cv_git "$user" "$dir" checkout -q --detach "$@" "$commit"
)

# The program that undo.sh keeps while such an object stays; the same as `stands_on` in git.rs.
cv_needs_git() { echo git; }
