# --- path: what is fetched, and what is unpacked ---

# cv_curl URL OPTION...: curl with these options. An address may hold a password, so it stands on no command line, where others could read it in
# the list of processes.
cv_curl() {
  cv_f_url=$1
  shift
  printf '%s\n' "$cv_f_url" | sed 's/[\\"]/\\&/g; s/^/url = "/; s/$/"/' | curl "$@" -K -
}

# cv_wget URL OPTION...: the same with wget; that of busybox takes an address on its command line alone.
cv_wget() {
  cv_f_url=$1
  shift
  if wget --version >/dev/null 2>&1; then
    printf '%s\n' "$cv_f_url" | wget "$@" -i -
  else
    wget "$@" -- "$cv_f_url" </dev/null
  fi
}

# cv_apt_helper URL: prints what is there, with the program of apt. It takes an address on its command line alone: name and password of one go into a
# file from which apt reads them.
cv_apt_helper() (
  umask 077
  mkdir -p "$CV_ROOT" && dir=$(mktemp -d "$CV_ROOT/fetch.XXXXXX") || exit 1
  trap 'rm -rf "$dir"' EXIT
  trap 'exit 1' HUP INT TERM
  url=$1
  rest=${url#*://}
  host=${rest%%[/?#]*}
  set --
  case $host in
  *@*)
    set -- -o Dir::Etc::netrc="$dir/login"
    url=${url%%://*}://${host##*@}${rest#"$host"}
    login=${host%@*}
    printf '%s\n' "${url%%://*}://${host##*@}" "${login%%:*}" "${login#"${login%%:*}"}" | awk '
      # %XX is one byte.
      function plain(text,  out, i, digits) {
        digits = "0123456789abcdef"
        while (i = index(text, "%")) {
          out = out substr(text, 1, i - 1) sprintf("%c", (index(digits, tolower(substr(text, i + 1, 1))) - 1) * 16 + index(digits, tolower(substr(text, i + 2, 1))) - 1)
          text = substr(text, i + 3)
        }
        return out text
      }
      NR == 1 { printf "machine %s", $0 }
      NR == 2 { printf " login %s", plain($0) }
      NR == 3 { sub(/^:/, ""); printf " password %s\n", plain($0) }' >"$dir/login"
    ;;
  esac
  /usr/lib/apt/apt-helper -qq -o APT::Sandbox::User=root "$@" download-file "$url" "$dir/file" </dev/null >&2 && cat "$dir/file"
)

# cv_fetch URL: prints what is there, with what the host has to fetch with.
cv_fetch() {
  if command -v curl >/dev/null 2>&1; then
    cv_curl "$1" -fsSL --proto '=http,https' --proto-redir '=http,https' --connect-timeout 30 --retry 2
  elif command -v wget >/dev/null 2>&1; then
    cv_wget "$1" -q -T 30 -O -
  elif [ -x /usr/lib/apt/apt-helper ]; then
    cv_apt_helper "$1"
  else
    cv_say 'this host has no curl and no wget'
    return 1
  fi
}

# cv_unpacked: unpacks CV_ARCHIVE once in a run, below the run's own records; its files lie in CV_UNPACKED under their digests.
cv_unpacked() {
  CV_UNPACKED=$CV_ROOT/runs/$CV_RUN/unpacked/$CV_ARCHIVE_SUM
  [ ! -d "$CV_UNPACKED" ] || return 0
  (
    umask 077
    rm -rf "$CV_UNPACKED".*
    mkdir -p "$CV_UNPACKED.raw" "$CV_UNPACKED.new" || exit 1
    cv_hold "$CV_ARCHIVE" || exit 1
    got=$(sha256sum <"$CV_HELD") || exit 1
    [ "${got%% *}" = "$CV_ARCHIVE_SUM" ] || {
      cv_say "$CV_ARCHIVE is another archive than the plan has read"
      exit 1
    }
    case $CV_ARCHIVE in
    *.zip) unzip -q -o "$CV_HELD" -d "$CV_UNPACKED.raw" </dev/null >&2 ;;
    *) tar -x -o -f "$CV_HELD" -C "$CV_UNPACKED.raw" </dev/null >&2 ;;
    esac || exit 1
    find "$CV_UNPACKED.raw" -type f -exec sh -c '
      for file; do
        sum=$(sha256sum <"$file") && mv -f "$file" "$0/${sum%% *}" || exit 1
      done' "$CV_UNPACKED.new" {} + || exit 1
    rm -rf "$CV_UNPACKED.raw"
    mv "$CV_UNPACKED.new" "$CV_UNPACKED"
  ) || {
    cv_say "cannot unpack $CV_ARCHIVE"
    return 1
  }
}
