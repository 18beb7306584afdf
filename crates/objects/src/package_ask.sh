# --- package: apt says what it is about to do, and is refused what was not planned ---

# cv_packages_bound: whether apt still chooses what the plan says. CV_APT_CHOICE: what it chose by then (see cv_apt_choice), empty where the plan did
# not ask apt (a rollback); CV_APT_STAGES: what it was asked, a stage a line (see cv_plan_packages). apt is asked again where that has
# changed: the exact versions of the transaction would go against a new pin. Status 70: it chooses otherwise, and it says so.
# shellcheck disable=SC2086
cv_packages_bound() {
  [ -n "${CV_APT_CHOICE:-}" ] && [ "$(cv_apt_choice)" != "$CV_APT_CHOICE" ] || return 0
  cv_phase simulate
  cv_b_said=$(
    set -f
    IFS=$CV_NL
    cv_plan_packages $CV_APT_STAGES 2>&1
  )
  got=$(printf '%s\n' "$cv_b_said" | sed -n '/^inst /p')
  # The packages that go are in the transaction itself, which apt tells before it begins.
  cv_b_other=$(expect=$(printf %s "$expect" | sed -n '/^inst /p')$CV_NL && cv_packages_unplanned)
  [ -n "$cv_b_other" ] || return 0
  cv_b_errors=$(printf '%s\n' "$cv_b_said" | sed -n 's/^err //p' | tr '\n' ' ')
  cv_say "apt would choose otherwise now, so nothing was changed: $cv_b_other${cv_b_errors:+ ($cv_b_errors)}. A pin, a package source, a setting of apt or the package index has changed since the plan; plan again"
  return 70
}

# cv_packages_unplanned [more]: in what the lines `got` (inst, remv) differ from `expect`, in words; empty where they do not. `more`: what is not done
# does not count.
cv_packages_unplanned() {
  printf '%s\001\n%s\n' "$expect" "$got" | awk -v more="${1:-}" '
    function add(what) { text = text (text == "" ? "" : ", ") what }
    $0 == "\001" { now = 1; next }
    $1 != "inst" && $1 != "remv" { next }
    { key = $1 " " $2 }
    !now { if (!(key in planned)) order[++n] = key; planned[key] = $3; next }
    key in seen { next }
    {
      seen[key]
      if (!(key in planned)) add(($1 == "inst" ? "install " $2 " " $3 : "remove " $2) ", which is not planned")
      else if (planned[key] != $3) add("install " $2 " " $3 " instead of " planned[key])
    }
    END {
      for (i = 1; i <= n && more == ""; i++) if (!(order[i] in seen)) {
        split(order[i], f, " ")
        add("not " (f[1] == "inst" ? "install " f[2] " " planned[order[i]] : "remove " f[2]))
      }
      if (text != "") print text
    }' -
}

# cv_packages_refused: whether apt would do another transaction than the plan, by a simulation: where apt has not come to say what it would do.
# Status 0: it would, or it refuses, and it says so.
# shellcheck disable=SC2086
cv_packages_refused() {
  cv_phase simulate
  got=$(cv_simulate_package $options $request) || {
    cv_say "apt refuses the planned transaction:$request"
    return 0
  }
  cv_packages_other
}

# cv_packages_other: whether the lines `got` (inst, remv, conf) are another transaction than the plan; it says so.
cv_packages_other() {
  cv_o_other=$(cv_packages_unplanned)
  [ -z "$cv_o_other" ] || {
    cv_say "$CV_MANAGER would do another transaction than the plan, so nothing was changed: $cv_o_other. Something else has changed packages, or what $CV_MANAGER chooses by, since the plan; plan again"
    return 0
  }
  for line in $(printf '%s\n' "$got" | sed -n 's/^conf //p' | tr '\n' ' '); do
    case "$CV_NL$expect$confs" in
    *"${CV_NL}inst $line "* | *"${CV_NL}conf $line$CV_NL"*) ;;
    *)
      cv_say "apt would also configure $line, which an earlier run left half done: see 'dpkg --audit'. The next plan configures it first"
      return 0
      ;;
    esac
  done
  return 1
}

# The program that apt asks before it runs dpkg (DPkg::Pre-Install-Pkgs, version 3 of its protocol, apt.conf(5)): it is told all that apt is about
# to do, keeps that in CV_ASK/apt as lines `inst NAME VERSION`, `remv NAME` and `conf NAME`, and refuses what is not in CV_ASK/planned.
CV_ASK_PROGRAM='#!/bin/sh
# converge: apt may do what was planned, and nothing else.
exec awk -v at="${0%/*}" '"'"'
  BEGIN { while ((getline line < (at "/planned")) > 0) { planned[line]; if (split(line, f, " ") > 1) named[f[2]] } }
  !body { if ($0 == "") body = 1; else if (sub(/^APT::Architecture=/, "")) native = $0; next }
  {
    arch = $6 == "-" ? $3 : $7
    name = arch == native || arch == "all" || arch == "none" || arch == "-" ? $1 : $1 ":" arch
    if ($0 ~ / \*\*CONFIGURE\*\*$/) { line = "conf " name; if (!(name in named)) bad = 1 }
    else {
      line = $0 ~ / \*\*REMOVE\*\*$/ ? "remv " name : "inst " name " " $6
      if (line in planned) met[line]; else bad = 1
    }
    said = said line "\n"
  }
  END {
    for (line in planned) if (line !~ /^conf / && !(line in met)) bad = 1
    printf "%s", said > (at "/apt")
    if (close(at "/apt") != 0 || bad) exit 1
  }'"'"'
'

# cv_packages_asked ARGUMENTS...: the transaction, of which apt says what it is before it begins. Status 70: it is not the planned one, and nothing of
# it was done.
# shellcheck disable=SC2086
cv_packages_asked() {
  if cv_is_dnf; then
    cv_rpm_asked "$@"
    return
  fi
  CV_ASK=$CV_ROOT/transaction
  rm -rf "$CV_ASK" && (
    umask 077
    mkdir -p "$CV_ASK" && printf '%s%s' "$expect" "$confs" >"$CV_ASK/planned" && printf '%s' "$CV_ASK_PROGRAM" >"$CV_ASK/ask" && chmod 700 "$CV_ASK/ask" &&
      # This configuration comes before all of the host: so it is asked before other programs that apt runs.
      printf 'DPkg::Pre-Install-Pkgs { "%s"; };\nDPkg::Tools::Options::%s::Version "3";\n' "$CV_ASK/ask" "$CV_ASK/ask" >"$CV_ASK/apt.conf"
  ) || return 1
  case $CV_ASK in *[!A-Za-z0-9/._-]*) false ;; *) [ -x "$CV_ASK/ask" ] ;; esac || {
    rm -rf "$CV_ASK"
    ! cv_packages_refused || return 70
    cv_apt_transaction "$@"
    return
  }
  # The host may clear the list after that: then what stands on the command line asks.
  set -- -o DPkg::Pre-Install-Pkgs::="$CV_ASK/ask" -o DPkg::Tools::Options::"$CV_ASK/ask"::Version=3 "$@"
  cv_p_said=$(
    APT_CONFIG=$CV_ASK/apt.conf
    export APT_CONFIG
    cv_apt_transaction "$@" 2>&1
  )
  cv_p_status=$?
  got= cv_p_asked=
  if [ -f "$CV_ASK/apt" ]; then cv_p_asked=yes got=$(cat "$CV_ASK/apt"); fi
  rm -rf "$CV_ASK"
  if [ $cv_p_status -ne 0 ]; then
    if [ -n "$cv_p_asked" ]; then ! cv_packages_other || return 70; else ! cv_packages_refused || return 70; fi
  fi
  [ -z "$cv_p_said" ] || printf '%s\n' "$cv_p_said"
  return $cv_p_status
}

# cv_packages_alone [NAME LINE]...: the packages that apt would not bring to the states of the lines without changing others besides: NAME, a tab and the
# reason, a line each. Where it is not one of them, it is all. Changes nothing, and says nothing where dpkg has something left to do: then the transaction itself tells.
cv_packages_alone() (
  [ $# -gt 0 ] && [ "$(cv_dpkg_state unpacked)" = settled ] || exit 0
  cv_l_all=
  while [ $# -ge 2 ]; do
    cv_l_all="$cv_l_all$1 $2$CV_NL"
    shift 2
  done
  while [ -n "$cv_l_all" ]; do
    cv_l_said=$(cv_packages_foretold "$cv_l_all")
    [ -n "$cv_l_said" ] || exit 0
    cv_l_expect=$(cv_packages_expected "$cv_l_all") cv_l_rest=$cv_l_all cv_l_stays=
    while [ -n "$cv_l_rest" ]; do
      cv_l_line=${cv_l_rest%%"$CV_NL"*}
      cv_l_rest=${cv_l_rest#*"$CV_NL"}
      cv_l_why=$(cv_packages_foretold "$cv_l_line$CV_NL" "$cv_l_expect$CV_NL")
      if [ -n "$cv_l_why" ]; then
        printf '%s\t%s\n' "${cv_l_line%% *}" "$cv_l_why"
      else
        cv_l_stays=$cv_l_stays$cv_l_line$CV_NL
      fi
    done
    [ "$cv_l_stays" != "$cv_l_all" ] || {
      printf '%s' "$cv_l_all" | CV_L_WHY=$cv_l_said awk '{ printf "%s\t%s\n", $1, ENVIRON["CV_L_WHY"] }'
      exit 0
    }
    cv_l_all=$cv_l_stays
  done
)

# cv_packages_foretold LINES [EXPECTED]: what apt would do besides if it brought the packages of these lines (NAME LINE) there, in words, or why it
# refuses that; empty where it is nothing. EXPECTED: what other packages are to do counts as planned.
# shellcheck disable=SC2086
cv_packages_foretold() (
  cv_f_expect=${2:-}
  cv_packages_of_lines "$1" || exit 0
  [ -n "$request" ] || exit 0
  got=$(cv_simulate_package $options $request 2>&1) || {
    printf '%s refuses it: %s\n' "$CV_MANAGER" "$(printf '%s\n' "$got" | sed 's/^ *//' | tr '\n' ' ')"
    exit 0
  }
  expect=${cv_f_expect:-$expect}
  cv_f_more=$(cv_packages_unplanned "$cv_f_expect")
  [ -z "$cv_f_more" ] || printf '%s would also %s\n' "$CV_MANAGER" "$cv_f_more"
)

# cv_packages_expected LINES: what is to be done for these lines.
cv_packages_expected() (
  cv_packages_of_lines "$1" || exit 0
  printf '%s' "$expect"
)

# cv_packages_of_lines LINES: cv_packages_ready for lines of NAME LINE, silent.
# shellcheck disable=SC2086
cv_packages_of_lines() {
  cv_split_by "$CV_NL"
  set -- $1
  cv_split_end
  cv_o_count=$#
  for cv_o_line; do set -- "$@" "${cv_o_line%% *}" "${cv_o_line#* }"; done
  shift "$cv_o_count"
  cv_packages_ready "$@" >/dev/null 2>&1
}
