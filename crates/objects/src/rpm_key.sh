# --- rpm_key ---
#
# The keys that rpm trusts are its packages gpg-pubkey; their version is the end of the key's fingerprint.

# cv_rpm_key_of FINGERPRINT: the package of this key, as rpm names it, in CV_RPM_KEY.
cv_rpm_key_of() { CV_RPM_KEY=gpg-pubkey-$(printf %s "${1#????????????????????????????????}" | tr A-F a-f); }

# cv_rpm_key_text FINGERPRINT: the key with its armour, without what the armour says about itself; nothing where rpm does not trust it.
cv_rpm_key_text() (
  cv_rpm_key_of "$1"
  said=$(rpm -q --qf '%{DESCRIPTION}\n' "$CV_RPM_KEY" 2>&1) || case $said in
  *'is not installed'*) exit 0 ;;
  *)
    printf 'rpm: %s\n' "$said"
    exit 1
    ;;
  esac
  printf '%s\n' "$said" | awk '
    /^-----BEGIN/ && !inside { inside = 1; print; print ""; next }
    /^-----END/ && inside { print; exit }
    inside && $0 != "" && !/: / { print }'
)

cv_see_rpm_key() (
  command -v rpm >/dev/null 2>&1 || {
    cv_fail_all 'this host has no rpm' "$@"
    return 0
  }
  for key; do
    if ! text=$(cv_rpm_key_text "$key"); then
      cv_fail_all "$text" "$key"
    elif [ -z "$text" ]; then
      echo '- absent'
    else
      sum=$(printf '%s\n' "$text" | sha256sum)
      printf -- '- key %s\n' "${sum%% *}"
    fi
  done
)

cv_line_rpm_key() { cv_line_of "$(cv_see_rpm_key "$1")"; }

# cv_rpm_key_file: the name of a file for a key, in CV_RPM_KEY_FILE, until the caller, a subshell, ends.
cv_rpm_key_file() {
  umask 077
  CV_RPM_KEY_FILE=$CV_ROOT/rpm-key.$$
  trap 'rm -f "$CV_RPM_KEY_FILE"' EXIT
  mkdir -p "$CV_ROOT"
}

cv_save_rpm_key() (
  case $2 in 'key '*) ;; *) exit 0 ;; esac
  cv_rpm_key_file && cv_rpm_key_text "$1" >"$CV_RPM_KEY_FILE" &&
    cv_blob_save "$CV_RPM_KEY_FILE" "${2#key }" "$(wc -c <"$CV_RPM_KEY_FILE")"
)

cv_restore_rpm_key() { cv_apply_rpm_key "$1" "$2" </dev/null; }

# cv_apply_rpm_key FINGERPRINT LINE: the key comes from standard input, unless it is saved.
cv_apply_rpm_key() (
  ! cv_blob_whole "${2#key }" || exec <"$CV_ROOT/blobs/${2#key }"
  cv_rpm_key_file && cat >"$CV_RPM_KEY_FILE" || exit 1
  now=$(cv_line_rpm_key "$1") || exit 1
  [ "$now" != "$2" ] || exit 0
  case $2 in
  'key '*)
    sum=$(sha256sum <"$CV_RPM_KEY_FILE")
    [ "${sum%% *}" = "${2#key }" ] || {
      cv_say "the key $1 is not at hand"
      exit 1
    }
    ;;
  esac
  cv_rpm_key_of "$1"
  # rpm leaves a key as it is that it trusts already, whatever is new in it.
  [ "$now" = absent ] || rpm -e --allmatches "$CV_RPM_KEY" || exit 1
  [ "$2" = absent ] || rpm --import "$CV_RPM_KEY_FILE"
)
