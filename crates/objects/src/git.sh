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

# cv_git_owner DIR: who owns the checkout; git runs as nobody else there.
cv_git_owner() {
  cv_g_owner=$(stat -c %U -- "$1/.git" 2>/dev/null)
  case $cv_g_owner in UNKNOWN | '') cv_g_owner=$(stat -c %u -- "$1/.git") ;; esac
  printf '%s\n' "$cv_g_owner"
}

cv_see_git() {
  for cv_g_key; do
    (
      dir=$cv_g_key
      if [ ! -e "$dir" ] && [ ! -L "$dir" ]; then
        echo '- absent'
      elif [ -e "$dir/.git" ]; then
        command -v git >/dev/null 2>&1 || {
          cv_fail_all "this host has no git to look at $dir with" "$dir"
          return 0
        }
        owner=$(cv_git_owner "$dir")
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
  [ -e "$dir/.git" ] || return 0
  more=$(cv_git "$(cv_git_owner "$dir")" "$dir" status --porcelain --ignored --untracked-files=all 2>&1 | head -n 3)
  [ -z "$more" ] || {
    cv_say "$dir: holds more than the checkout, so it is left alone:"
    cv_say "$more"
    return 1
  }
  made=$(cv_made_record "$dir")
  find "$dir" -mindepth 1 -maxdepth 1 -exec rm -rf -- {} + || return 1
  [ ! -e "$made" ] || { rmdir -- "$dir" && rm -f "$made"; }
)

# cv_git_new DIR REMOTE: an empty checkout.
cv_git_new() {
  if [ ! -d "$1" ]; then
    mkdir -- "$1" && cv_write_record "$(cv_made_record "$1")" "$1" || return 1
    [ -z "${CV_GIT_USER:-}" ] || chown "$CV_GIT_USER:" "$1" || return 1
  fi
  cv_git "${CV_GIT_USER:-}" "$1" init -q && cv_git "${CV_GIT_USER:-}" "$1" config remote.origin.url "$2"
}

# cv_apply_git DIR LINE. Reads CV_GIT_USER, CV_GIT_SSH, CV_GIT_DEPTH, CV_GIT_FORCE. The commit is fetched only where it is missing.
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
    cv_git_new "$dir" "$remote" || {
      rm -rf -- "$dir/.git"
      return 1
    }
  fi
  user=$(cv_git_owner "$dir")
  cv_git "$user" "$dir" config remote.origin.url "$remote" &&
    cv_git "$user" "$dir" config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*' || return 1
  has() { cv_git "$user" "$dir" cat-file -e "$commit^{commit}" 2>/dev/null; }
  if ! has; then
    if [ -n "${CV_GIT_DEPTH:-}" ]; then
      cv_git "$user" "$dir" fetch -q --depth "$CV_GIT_DEPTH" origin "$commit"
    else
      cv_git "$user" "$dir" fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*' &&
        { has || cv_git "$user" "$dir" fetch -q origin "$commit"; }
    fi && has || {
      cv_say "$dir: cannot fetch $commit from $remote"
      # What was begun and holds nothing goes.
      if [ "$now" = absent ]; then
        rm -rf -- "$dir/.git"
        made=$(cv_made_record "$dir")
        [ ! -e "$made" ] || { rmdir -- "$dir" && rm -f "$made"; }
      fi
      return 1
    }
  fi
  if [ -n "${CV_GIT_FORCE:-}" ]; then set -- -f; else set --; fi
  cv_git "$user" "$dir" checkout -q --detach "$@" "$commit"
)
