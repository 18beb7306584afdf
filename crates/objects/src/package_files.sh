# --- package: what packages have that others may need ---

# cv_packages_files NAME...: of these installed packages, a line each, its fields between tabs: `conf NAME DIGEST NOW FILE` of a configuration file (DIGEST
# as the package brought it, NOW as it is; `-` where it is gone), `file NAME FILE` of a program, a unit or a time zone, and `dir NAMES DIRECTORY` of a
# directory in /etc, with all packages that have it, between blanks. `starts UNIT FILE` names a program that a loaded service starts, of whatever package.
cv_packages_files() (
  cv_f_dirs=
  for cv_f_name; do
    cv_packages_confs "$cv_f_name" | while IFS=$CV_TAB read -r cv_f_digest cv_f_file; do
      cv_packages_conf_now "$cv_f_digest" "$cv_f_file"
      printf 'conf\t%s\t%s\t%s\t%s\n' "$cv_f_name" "$cv_f_digest" "$CV_CONF_NOW" "$cv_f_file"
    done
    cv_f_all=$(if cv_is_dnf; then rpm -ql -- "$cv_f_name"; else dpkg-query -L "$cv_f_name"; fi 2>/dev/null)
    printf '%s\n' "$cv_f_all" | awk -v OFS='\t' -v name="$cv_f_name" '
      /\/s?bin\/[^\/]+$/ || /\/systemd\/system\/[^\/]+$/ || /^\/usr\/share\/zoneinfo\// { print "file", name, $0 }'
    cv_f_dirs="$cv_f_dirs$CV_NL$(printf '%s\n' "$cv_f_all" | sed -n '/^\/etc\/[^/ *?[]*$/p')"
  done
  [ ! -d "$CV_SYSTEMD" ] || systemctl show -p Id -p ExecStart '*.service' 2>/dev/null | awk -v OFS='\t' '
    /^$/ { unit = "" }
    sub(/^Id=/, "") { unit = $0 }
    match($0, /^ExecStart=\{ path=[^ ]+ /) { path[++n] = substr($0, 18, RLENGTH - 18) }
    { for (; n > 0 && unit != ""; n--) print "starts", unit, path[n] }'
  for cv_f_dir in $(printf '%s\n' "$cv_f_dirs" | LC_ALL=C sort -u); do
    if [ -d "$cv_f_dir" ]; then printf '%s\n' "$cv_f_dir"; fi
  done | cv_packages_owners
)

# cv_packages_confs NAME: the configuration files of a package, each behind its digest and a tab.
cv_packages_confs() {
  if cv_is_dnf; then
    rpm -q --qf '[%{FILEFLAGS:fflags}\t%{FILEDIGESTS}\t%{FILENAMES}\n]' -- "$1" 2>/dev/null | sed -n "s/^[a-z]*c[a-z]*$CV_TAB\([0-9a-f]\)/\1/p"
  else
    dpkg-query -W -f '${Conffiles}\n' -- "$1" 2>/dev/null | sed -n "s/^ \(.*\) \([0-9a-f]\{32\}\)\( [a-z-]*\)*\$/\2$CV_TAB\1/p"
  fi
}

# cv_packages_conf_now DIGEST FILE: the present digest of the file, of the same sort, in CV_CONF_NOW; `-` where it is gone. What a run has kept around its
# transaction of rpm comes back with that: it counts as the package's.
cv_packages_conf_now() {
  CV_CONF_NOW=-
  [ -f "$2" ] || return 0
  case $1 in ????????????????????????????????) CV_CONF_NOW=$(md5sum <"$2") ;; *) CV_CONF_NOW=$(sha256sum <"$2") ;; esac
  CV_CONF_NOW=${CV_CONF_NOW%% *}
  [ "$CV_CONF_NOW" = "$1" ] || ! (set +f && grep -qsF "$CV_CONF_NOW" "$CV_ROOT"/runs/*/saved/rpm-kept) || CV_CONF_NOW=$1
}

# cv_packages_owners: the lines `dir` of cv_packages_files for the directories on standard input. dpkg reads all its lists at each call.
# shellcheck disable=SC2046
cv_packages_owners() {
  if cv_is_dnf; then
    while IFS= read -r cv_f_dir; do
      printf 'dir\t%s\t%s\n' "$(rpm -qf --qf '%{NAME} ' -- "$cv_f_dir" 2>/dev/null)" "$cv_f_dir"
    done
  else
    set -- $(cat)
    [ $# -eq 0 ] || dpkg-query -S "$@" 2>/dev/null | sed -n "/^diversion by/d; s/:[a-z0-9]*\([,:]\)/\1/g; s/, / /g; s/^\(.*\): \(\/.*\)\$/dir$CV_TAB\1$CV_TAB\2/p"
  fi
}
