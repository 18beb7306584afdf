# --- apt_lists ---

CV_APT_SOURCES=${CV_APT_SOURCES:-/etc/apt/sources.list.d}

# cv_apt_targets NAME: the lists that apt has of this repository, `FILE|NAME-IN-RELEASE` each.
# shellcheck disable=SC2086
cv_apt_targets() {
  apt-get indextargets $CV_APT_LOOKS -o Dir::Etc::sourcelist="$CV_APT_SOURCES/$1.sources" -o Dir::Etc::sourceparts=- \
    --format '$(FILENAME)|$(METAKEY)' 2>/dev/null
}

# Lists belong to the content of the file with which they were fetched: a record of converge says which, where converge fetched them.
cv_see_apt_lists() (
  command -v apt-get >/dev/null 2>&1 || {
    cv_fail_all 'this host has no apt' "$@"
    return 0
  }
  for key; do
    sum=$(cv_index_of "$CV_APT_SOURCES/$key.sources" "$CV_ROOT/lists/$key")
    if [ -n "$sum" ] && [ -n "$(cv_apt_targets "$key")" ]; then
      printf -- '- lists %s\n' "$sum"
    else
      echo '- absent'
    fi
  done
)

cv_line_apt_lists() { cv_line_of "$(cv_see_apt_lists "$1")"; }

cv_save_apt_lists() { :; }

cv_restore_apt_lists() { cv_apply_apt_lists "$1" "$2"; }

# cv_apply_apt_lists NAME LINE: fetches the lists of this repository alone, or drops them. Lists of an earlier content of the
# file stay, so that the way back needs no network.
cv_apply_apt_lists() (
  file=$CV_APT_SOURCES/$1.sources
  case $2 in
  'lists '*)
    want=${2#lists }
    if [ "$(cv_index_of "$file" /dev/null)" = "$want" ]; then
      out=$(apt-get update -q -o Dir::Etc::sourcelist="$file" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 \
        -o APT::Update::Error-Mode=any -o Acquire::Retries=2 </dev/null 2>&1) && [ -n "$(cv_apt_targets "$1")" ] || {
        printf '%s\n' "$out" | tail -n 20 >&2
        cv_say "the package index of $1 cannot be fetched"
        return 1
      }
    fi
    # In a rollback the file comes back after this.
    cv_write_record "$CV_ROOT/lists/$1" "$want"
    ;;
  *)
    cv_apt_targets "$1" | while IFS='|' read -r list name; do
      base=${list%"$(printf %s "$name" | tr / _)"}
      rm -f "$list" "${base}InRelease" "${base}Release" "${base}Release.gpg"
    done
    rm -f "$CV_ROOT/lists/$1"
    ;;
  esac
)
