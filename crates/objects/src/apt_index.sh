# --- apt_index ---

CV_APT_LISTS=${CV_APT_LISTS:-/var/lib/apt/lists}
CV_APT_ETC=${CV_APT_ETC:-/etc/apt}

# cv_apt_has_lists: whether apt has the index of any source.
cv_apt_has_lists() (
  set +f
  for list in "$CV_APT_LISTS"/*_Packages*; do
    [ ! -e "$list" ] || exit 0
  done
  exit 1
)

# cv_apt_lacking: whether a source has no index, though nothing was refreshed since the sources were last written. One whose server
# does not answer is not asked for again and again.
# shellcheck disable=SC2086
cv_apt_lacking() (
  set +f
  if [ -e "$CV_ROOT/lists/.refreshed" ] &&
    [ -z "$(find "$CV_APT_ETC/sources.list" "$CV_APT_ETC/sources.list.d" -newer "$CV_ROOT/lists/.refreshed" 2>/dev/null)" ]; then
    exit 1
  fi
  apt-get indextargets $CV_APT_LOOKS --no-release-info --format '$(REPO_URI) $(RELEASE) $(COMPONENT)|$(FILENAME)' 'Created-By: Packages' 2>/dev/null | {
    all= had= lacks=1
    while IFS='|' read -r of file; do
      for list in "$file"*; do
        if [ -e "$list" ]; then had="$had$CV_NL$of$CV_NL"; fi
        break
      done
      all="$all$of$CV_NL"
    done
    IFS=$CV_NL
    set -f
    for of in $all; do
      case $had in *"$CV_NL$of$CV_NL"*) ;; *) lacks=0 ;; esac
    done
    exit "$lacks"
  }
)

# Keys: `index`, or `index:SECONDS` with the greatest age that will do.
cv_see_apt_index() (
  if cv_is_dnf; then
    cv_rpm_index "$@"
    return
  fi
  command -v apt-get >/dev/null 2>&1 || {
    cv_fail_all 'this host has no apt' "$@"
    return 0
  }
  for key; do
    if ! cv_apt_has_lists; then
      echo '- absent'
    elif cv_apt_lacking; then
      echo '- incomplete'
    else
      state=current
      case ${key#index:} in
      '' | *[!0-9]*) ;;
      *)
        state=old
        # A refresh that finds all as it is leaves a trace in one of these only.
        for mark in "$CV_ROOT/lists/.refreshed" "$CV_APT_LISTS" "$CV_APT_LISTS/partial" "${CV_APT_LISTS%/lists}/periodic/update-success-stamp"; do
          [ -e "$mark" ] || continue
          [ $(($(date +%s) - $(stat -c %Y "$mark"))) -gt "${key#index:}" ] || state=current
        done
        ;;
      esac
      printf -- '- %s\n' "$state"
    fi
  done
)

cv_line_apt_index() { cv_line_of "$(cv_see_apt_index "$1")"; }

# The index is a copy of what repositories offer: it is never taken back.
cv_save_apt_index() { :; }
cv_restore_apt_index() { :; }
# cv_from_any_apt_index: a refresh may begin from any state. An earlier resource of the run may have fetched the index of its own repository.
cv_from_any_apt_index() { :; }

cv_same_apt_index() { [ "$3" != current ]; }

# cv_apply_apt_index KEY LINE: refreshes the whole index. The daily job of the distribution may be at it.
cv_apply_apt_index() (
  if cv_is_dnf; then
    cv_rpm_refresh || return $?
    umask 022
    mkdir -p "$CV_ROOT/lists" && : >"$CV_ROOT/lists/.refreshed"
    return
  fi
  left=150
  while :; do
    out=$(apt-get update -q -o Acquire::Retries=2 </dev/null 2>&1) && break
    status=$?
    case $out in *'Could not get lock'*) [ "$left" -le 0 ] ;; *) : ;; esac && {
      printf '%s\n' "$out" | tail -n 20 >&2
      cv_say "apt-get update failed: the package index cannot be refreshed"
      return "$status"
    }
    sleep 3
    left=$((left - 3))
  done
  printf '%s\n' "$out" | sed -n 's/^W: //p' | while IFS= read -r line; do cv_note "apt-get update: $line"; done
  umask 022
  mkdir -p "$CV_ROOT/lists" && : >"$CV_ROOT/lists/.refreshed"
)
