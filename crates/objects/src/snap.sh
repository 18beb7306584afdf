# --- snap ---

# cv_snap_list NAME...: name, revision, channel and notes of those that are installed, with tabs between.
cv_snap_list() {
  snap list --unicode=never "$@" 2>/dev/null | awk 'NR > 1 { print $1 "\t" $3 "\t" $4 "\t" $6 }'
}

# shellcheck disable=SC2086
cv_see_snap() (
  command -v snap >/dev/null 2>&1 || {
    cv_fail_all 'this host has no snapd' "$@"
    return 0
  }
  # With one name that is not installed `snap list` still shows the others, and with none of them it says so.
  shown=$(cv_snap_list "$@")
  set -f
  for key; do
    row=$(printf '%s\n' "$shown" | awk -F '\t' -v name="$key" '$1 == name')
    if [ -z "$row" ]; then
      echo '- absent'
      continue
    fi
    (
      IFS=$CV_TAB
      set -- $row
      channel=$3 notes=$4
      # A long channel is shortened in the list.
      case $channel in *... | *…) channel=$(snap info "$1" | sed -n 's/^tracking: *//p') ;; esac
      how=strict
      case ,$notes, in *,classic,*) how=classic ;; *,devmode,*) how=devmode ;; esac
      hold=-
      case ,$notes, in *,held,*) hold=hold ;; esac
      case ,$notes, in
      *,disabled,* | *,broken,*) cv_fail_all "$1 is $notes: see 'snap list'" "$1" ;;
      *)
        cv_enc_to "$channel"
        printf -- '- snap %s %s %s %s\n' "$CV_ENC" "$2" "$how" "$hold"
        ;;
      esac
    )
  done
)

cv_line_snap() { cv_line_of "$(cv_see_snap "$1")"; }

# The revision is the store's choice when the plan leaves it open; and snapd does not forget a channel, so that "none" is any.
# shellcheck disable=SC2086
cv_same_snap() {
  case $3 in
  'snap '*' ~ '* | 'snap - '*) ;;
  *) return 1 ;;
  esac
  (
    # The run splits at line feeds alone.
    IFS=' '
    set -f
    is=$2 wanted=$3
    set -- $wanted
    channel=$2 revision=$3
    set -- $is
    [ "$1" = snap ] || exit 1
    [ "$revision" != '~' ] || set -- snap "$2" '~' "$4" "$5"
    [ "$channel" != - ] || set -- snap - "$3" "$4" "$5"
    [ "$*" = "$wanted" ]
  )
}

# snapd itself keeps the revisions before this one.
cv_save_snap() { :; }

cv_restore_snap() { cv_apply_snap "$1" "$2"; }

# cv_apply_snap NAME LINE
# shellcheck disable=SC2086
cv_apply_snap() (
  name=$1 want=$2
  is=$(cv_line_snap "$name") || return 1
  [ "$is" != "$want" ] || return 0
  set -f
  if [ "$want" = absent ]; then
    snap remove "$name" </dev/null
    return
  fi
  set -- $want
  cv_dec_to "$2"
  channel=$CV_DEC revision=$3 how=$4 hold=$5
  set -- $is
  now_channel= now_revision= now_how= now_hold=-
  if [ "$1" = snap ]; then
    cv_dec_to "$2"
    now_channel=$CV_DEC now_revision=$3 now_how=$4 now_hold=$5
  fi
  set --
  [ "$channel" = - ] || set -- --channel="$channel"
  [ "$revision" = '~' ] || set -- "$@" --revision="$revision"
  [ "$how" = strict ] || set -- "$@" "--$how"
  if [ -z "$now_channel" ]; then
    case $revision in
    x*)
      cv_say "$name $revision came from a file, and no store knows it: install it by hand ('snap install --dangerous FILE')"
      return 1
      ;;
    esac
    snap install "$@" "$name" </dev/null || return 1
  elif [ "$revision" = "$now_revision" ] && [ "$how" = "$now_how" ]; then
    # The same content under another channel: no store is asked.
    [ "$channel" = - ] || [ "$channel" = "$now_channel" ] || snap switch --channel="$channel" "$name" </dev/null >/dev/null || return 1
  elif [ "$channel" != "$now_channel" ] || [ "$how" != "$now_how" ] || [ "$revision" != '~' ]; then
    # snapd replaces a snap from a file by the store's only on request.
    case $now_revision,$revision in x*,x*) ;; x*) set -- "$@" --amend ;; esac
    snap refresh "$@" "$name" </dev/null || return 1
  fi
  [ "$hold" != "$now_hold" ] || return 0
  case $hold in hold) set -- --hold ;; *) set -- --unhold ;; esac
  snap refresh "$@" "$name" </dev/null >/dev/null || {
    # snapd 2.58 brought the option.
    snap refresh --help 2>/dev/null | grep -q -e --hold || cv_say "this snapd cannot hold one snap: 2.58 or newer is needed (the snap snapd brings it)"
    return 1
  }
)

# The program that undo.sh keeps while such an object stays; the same as `stands_on` in snap.rs.
cv_needs_snap() { echo snap; }
