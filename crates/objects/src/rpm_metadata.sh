# --- rpm_metadata ---

CV_RPM_REPOS=${CV_RPM_REPOS:-/etc/yum.repos.d}
CV_DNF_CONF=${CV_DNF_CONF:-/etc/dnf/dnf.conf}

# cv_rpm_cache_to: the folder of what dnf has fetched, in CV_RPM_CACHE.
cv_rpm_cache_to() {
  CV_RPM_CACHE=$(sed -n 's/^system_cachedir[ ]*=[ ]*//p' "$CV_DNF_CONF" 2>/dev/null)
  CV_RPM_CACHE=${CV_RPM_CACHE:-/var/cache/dnf}
}

# cv_rpm_folders NAME: the folders that dnf has for this repository, one for each address, with or without metadata.
cv_rpm_folders() (
  set +f
  for dir in "$CV_RPM_CACHE/$1"-*; do
    case ${dir#"$CV_RPM_CACHE/$1-"} in
    *[!0-9a-f]*) ;;
    ????????????????) printf '%s\n' "$dir" ;;
    esac
  done
)

# cv_rpm_fetched NAME: whether dnf has fetched metadata of this repository.
cv_rpm_fetched() (
  cv_rpm_folders "$1" | while IFS= read -r dir; do [ ! -e "$dir/repodata/repomd.xml" ] || echo "$dir"; done | grep -q .
)

# Metadata belong to the content of the file with which they were fetched: a record of converge says which, where converge fetched them.
cv_see_rpm_metadata() (
  command -v dnf >/dev/null 2>&1 || {
    cv_fail_all 'this host has no dnf' "$@"
    return 0
  }
  cv_rpm_cache_to
  for key; do
    sum=$(cv_index_of "$CV_RPM_REPOS/$key.repo" "$CV_ROOT/lists/rpm/$key")
    if [ -n "$sum" ] && cv_rpm_fetched "$key"; then
      printf -- '- metadata %s\n' "$sum"
    else
      echo '- absent'
    fi
  done
)

cv_line_rpm_metadata() { cv_line_of "$(cv_see_rpm_metadata "$1")"; }

cv_save_rpm_metadata() { :; }

cv_restore_rpm_metadata() { cv_apply_rpm_metadata "$1" "$2"; }

# cv_apply_rpm_metadata NAME LINE: fetches the metadata of this repository alone, or drops them. Those of another address that the
# file had before stay, so that a rollback needs no network.
cv_apply_rpm_metadata() (
  file=$CV_RPM_REPOS/$1.repo
  cv_rpm_cache_to
  case $2 in
  'metadata '*)
    want=${2#metadata }
    if [ "$(cv_index_of "$file" /dev/null)" = "$want" ]; then
      # With -y dnf takes the key that the file names.
      out=$(cv_bounded 600 dnf -q -y --disablerepo='*' --enablerepo="$1" --setopt="$1.skip_if_unavailable=0" makecache --refresh </dev/null 2>&1) &&
        cv_rpm_fetched "$1" || {
        # dnf leaves a folder without metadata behind.
        cv_rpm_folders "$1" | while IFS= read -r dir; do [ -e "$dir/repodata/repomd.xml" ] || rm -rf "$dir"; done
        printf '%s\n' "$out" | tail -n 20 >&2
        cv_say "the metadata of $1 cannot be fetched"
        return 1
      }
    fi
    # In a rollback the file comes back after this.
    cv_write_record "$CV_ROOT/lists/rpm/$1" "$want"
    ;;
  *)
    cv_rpm_folders "$1" | while IFS= read -r dir; do rm -rf "$dir"; done
    rm -f "$CV_RPM_CACHE/$1.solv" "$CV_RPM_CACHE/$1-filenames.solvx" "$CV_RPM_CACHE/$1-updateinfo.solvx" "$CV_ROOT/lists/rpm/$1"
    ;;
  esac
)
