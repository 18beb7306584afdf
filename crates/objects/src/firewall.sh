# --- firewall ---

CV_UFW_DEFAULTS=${CV_UFW_DEFAULTS:-/etc/default/ufw}

# cv_ufw_policy NAME: ufw's own word for the policy that its file names.
cv_ufw_policy() {
  case $(sed -n "s/^DEFAULT_$1_POLICY=//p" "$CV_UFW_DEFAULTS" | tr -d '"') in
  ACCEPT) echo allow ;;
  REJECT) echo reject ;;
  *) echo deny ;;
  esac
}

# There is one firewall: its key is `ufw`.
cv_see_firewall() (
  cv_sbin
  for key; do
    command -v ufw >/dev/null 2>&1 || {
      echo '- absent'
      continue
    }
    status=$(ufw status 2>&1) && rules=$(ufw show added 2>&1) || {
      cv_fail_all "ufw: $status" "$key"
      continue
    }
    case $status in 'Status: active'*) active=active ;; *) active=inactive ;; esac
    out="- ufw $active $(cv_ufw_policy INPUT) $(cv_ufw_policy OUTPUT) $(cv_ufw_policy FORWARD)"
    set -f
    IFS=$CV_NL
    for line in $rules; do
      case $line in
      'ufw '*)
        cv_enc_to "${line#ufw }"
        out="$out $CV_ENC"
        ;;
      esac
    done
    unset IFS
    printf '%s\n' "$out"
  done
)

cv_line_firewall() { cv_line_of "$(cv_see_firewall "$1")"; }

cv_save_firewall() { :; }

cv_restore_firewall() { cv_apply_firewall "$1" "$2"; }

# Without ufw nothing is filtered; that the program is still there is the package's matter.
cv_same_firewall() {
  case "$3 $2" in 'absent ufw inactive '*) return 0 ;; esac
  return 1
}

# cv_ufw_rule add|delete RULE: the rule in ufw's own words, where a comment or the name of an application may be quoted.
# shellcheck disable=SC2046
cv_ufw_rule() (
  set -f
  IFS=$CV_NL
  set -- "$1" $(printf '%s\n' "$2" | xargs -n 1 printf '%s\n')
  unset IFS
  how=$1
  shift
  set -- "$@"
  if [ "$1" = route ]; then
    shift
    if [ "$how" = delete ]; then set -- route delete "$@"; else set -- route "$@"; fi
  elif [ "$how" = delete ]; then
    set -- delete "$@"
  fi
  said=$(ufw "$@" 2>&1) || {
    cv_say "ufw $*: $said"
    return 1
  }
)

# cv_apply_firewall KEY LINE: policies and rules first, then the firewall itself; a firewall that is to be off goes off first.
# shellcheck disable=SC2086
cv_apply_firewall() (
  cv_sbin
  want=$2
  now=$(cv_line_firewall "$1") || return 1
  if [ "$want" = absent ]; then
    # Its rules go with the package.
    case $now in 'ufw active '*) ufw disable >/dev/null ;; esac
    return
  fi
  [ "$now" != absent ] || {
    cv_say 'this host has no ufw'
    return 1
  }
  set -f
  set -- $now
  was=$2 was_in=$3 was_out=$4 was_routed=$5
  shift 5
  have=$(printf '%s\n' "$@")
  set -- $want
  is=$2 in=$3 out=$4 routed=$5
  shift 5
  wanted=$(printf '%s\n' "$@")
  if [ "$was" = active ] && [ "$is" = inactive ]; then ufw disable >/dev/null || return 1; fi
  # Kept rules must stand in the wanted order, before new ones; else all are made anew.
  kept=
  for rule in $have; do
    case "$CV_NL$wanted$CV_NL" in *"$CV_NL$rule$CV_NL"*) kept=$kept$rule$CV_NL ;; esac
  done
  new=
  for rule in $wanted; do
    case "$CV_NL$kept" in *"$CV_NL$rule$CV_NL"*) ;; *) new=$new$rule$CV_NL ;; esac
  done
  # ufw lists rules of IPv6 alone after all others.
  if [ "$(printf '%s' "$kept$new" | cv_ufw_order)" != "$(printf '%s\n' "$wanted" | cv_ufw_order)" ]; then
    kept= new=$wanted
  fi
  for rule in $have; do
    case "$CV_NL$kept" in *"$CV_NL$rule$CV_NL"*) continue ;; esac
    cv_dec_to "$rule"
    cv_ufw_rule delete "$CV_DEC" || return 1
  done
  for rule in $new; do
    cv_dec_to "$rule"
    cv_ufw_rule add "$CV_DEC" || return 1
  done
  [ "$in" = "$was_in" ] || ufw default "$in" incoming >/dev/null || return 1
  [ "$out" = "$was_out" ] || ufw default "$out" outgoing >/dev/null || return 1
  [ "$routed" = "$was_routed" ] || ufw default "$routed" routed >/dev/null || return 1
  [ "$is" != active ] || [ "$was" = active ] || ufw --force enable >/dev/null
)

# Encoded rules, those of IPv6 alone last.
cv_ufw_order() {
  while read -r cv_w_rule; do
    cv_dec_to "$cv_w_rule"
    case ${CV_DEC%% comment *} in
    *' '*:*:*) printf '2 %s\n' "$cv_w_rule" ;;
    *) printf '1 %s\n' "$cv_w_rule" ;;
    esac
  done | sort -s -k 1,1
}

# The program that undo.sh keeps while such an object stays; the same as `stands_on` in firewall.rs.
cv_needs_firewall() { echo ufw; }
