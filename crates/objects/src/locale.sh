# --- locale ---

CV_I18N=${CV_I18N:-/usr/share/i18n}
CV_I18N_LOCAL=${CV_I18N_LOCAL:-/usr/local/share/i18n}
CV_LOCALE_ARCHIVE=${CV_LOCALE_ARCHIVE:-/usr/lib/locale/locale-archive}

# cv_locale_listed: the names on standard input as the C library lists them: de_DE.ISO-8859-15@euro is de_DE.iso885915@euro.
cv_locale_listed() {
  awk '{
    at = index($0, ".")
    if (!at) { print; next }
    set = tolower(substr($0, at + 1))
    place = index(set, "@")
    mod = place ? substr($0, at + place) : ""
    if (place) set = substr(set, 1, place - 1)
    gsub(/[^a-z0-9]/, "", set)
    print substr($0, 1, at) (set ~ /^[0-9]+$/ ? "iso" : "") set mod
  }'
}

cv_see_locale() (
  all=$(locale -a 2>/dev/null) || {
    cv_fail_all "the program locale (of libc-bin or glibc-common) cannot tell which locales this host has" "$@"
    return 0
  }
  for listed in $(printf '%s\n' "$@" | cv_locale_listed); do
    case "$CV_NL$all$CV_NL" in
    *"$CV_NL$listed$CV_NL"*) echo '- generated' ;;
    *) echo '- absent' ;;
    esac
  done
)

cv_line_locale() { cv_line_of "$(cv_see_locale "$1")"; }

cv_save_locale() { :; }

cv_restore_locale() { cv_apply_locale "$1" "$2"; }

# cv_locale_charset NAME: the character set that the host knows for it; nothing where it knows none.
cv_locale_charset() (
  for list in "$CV_I18N_LOCAL/SUPPORTED" "$CV_I18N/SUPPORTED"; do
    [ ! -r "$list" ] || cat "$list"
  done | awk -v name="$1" '$1 == name { print $2; exit }'
)

# cv_locale_make NAME: as locale-gen does it, for this one alone: locale-gen would take away all that /etc/locale.gen does not name.
cv_locale_make() (
  set=$(cv_locale_charset "$1")
  [ -n "$set" ] || {
    cv_say "$1: this host does not know how to generate it: it is not in $CV_I18N/SUPPORTED (of the package locales)"
    return 1
  }
  mod=
  case $1 in *@*) mod=@${1#*@} ;; esac
  base=${1%%@*}
  base=${base%%.*}$mod
  source=$base
  for file in "$CV_I18N_LOCAL/locales/$1" "$CV_I18N/locales/$1" "$CV_I18N_LOCAL/locales/$base"; do
    if [ -e "$file" ]; then
      source=$file
      break
    fi
  done
  umask 022
  # Warnings about a source are no failure, but they have its status.
  said=$(localedef -i "$source" -c -f "$set" "$1" 2>&1) || [ "$(cv_line_locale "$1")" = generated ] || {
    cv_say "$said"
    return 1
  }
)

# cv_locale_drop NAME: out of the archive, and an archive in which none is left away.
cv_locale_drop() (
  set=$(cv_locale_charset "$1")
  also=
  case $1 in
  *.*) ;;
  *@*) also=${1%%@*}.$set@${1#*@} ;;
  *) also=$1.$set ;;
  esac
  for name in $(printf '%s\n' "$1" ${set:+$also} | cv_locale_listed); do
    localedef --delete-from-archive "$name" >/dev/null 2>&1 || :
  done
  if left=$(localedef --list-archive 2>/dev/null) && [ -z "$left" ]; then rm -f "$CV_LOCALE_ARCHIVE"; fi
  [ "$(cv_line_locale "$1")" = absent ] || {
    cv_say "$1: it is not in $CV_LOCALE_ARCHIVE alone: remove the package or the folder in ${CV_LOCALE_ARCHIVE%/*} that brings it"
    return 1
  }
)

# cv_apply_locale NAME LINE
cv_apply_locale() (
  now=$(cv_line_locale "$1") || return 1
  case $2 in
  "$now") ;;
  generated) cv_locale_make "$1" ;;
  absent) cv_locale_drop "$1" ;;
  esac
)

# The program that undo.sh keeps while such an object stays; the same as `stands_on` in locale.rs.
cv_needs_locale() { echo locale-gen; }
