# --- unit ---

CV_SYSTEMD=${CV_SYSTEMD:-/run/systemd/system}
CV_UNIT_LINKS=${CV_UNIT_LINKS:-/etc/systemd/system}
# Where units lie, those of the administrator first.
CV_UNIT_FILES=${CV_UNIT_FILES:-/etc/systemd/system /run/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system /lib/systemd/system}

# cv_unit_show UNIT...: prints their properties; times as seconds where systemd knows how.
cv_unit_show() {
  systemctl show -p Id -p LoadState -p ActiveState -p UnitFileState -p Type -p RemainAfterExit -p Result \
    -p FragmentPath -p ActiveEnterTimestamp --timestamp=unix -- "$@" 2>/dev/null ||
    systemctl show -p Id -p LoadState -p ActiveState -p UnitFileState -p Type -p RemainAfterExit -p Result \
      -p FragmentPath -p ActiveEnterTimestamp -- "$@"
}

# cv_see_unit UNIT...: cv_u_aliases, what cv_unit_by_alias keeps, is read anew by each call.
cv_see_unit() (
  [ $# -gt 0 ] || return 0
  [ -d "$CV_SYSTEMD" ] || {
    cv_fail_all 'this host does not run systemd' "$@"
    return 0
  }
  # A unit on its way is waited for, 5 s at most.
  turns=0 cv_u_aliases=
  while :; do
    shown=$(cv_unit_show "$@" 2>&1) || {
      cv_fail_all "systemctl: $shown" "$@"
      return 0
    }
    case $shown in
    *ActiveState=activating* | *ActiveState=deactivating* | *ActiveState=reloading*) ;;
    *) break ;;
    esac
    [ $turns -lt 25 ] || break
    turns=$((turns + 1))
    cv_nap
  done
  set -f
  shown="$shown$CV_NL$CV_NL"
  while [ $# -gt 0 ]; do
    while :; do
      case $shown in "$CV_NL"*) shown=${shown#"$CV_NL"} ;; *) break ;; esac
    done
    block=${shown%%"$CV_NL$CV_NL"*}
    shown=${shown#*"$CV_NL$CV_NL"}
    load= active= file= path= type= remain= result= since= id=
    IFS=$CV_NL
    for line in $block; do
      case $line in
      Id=*) id=${line#*=} ;;
      LoadState=*) load=${line#*=} ;;
      ActiveState=*) active=${line#*=} ;;
      UnitFileState=*) file=${line#*=} ;;
      Type=*) type=${line#*=} ;;
      RemainAfterExit=*) remain=${line#*=} ;;
      Result=*) result=${line#*=} ;;
      FragmentPath=*) path=${line#*=} ;;
      ActiveEnterTimestamp=*) since=${line#*=} ;;
      esac
    done
    unset IFS
    # systemd keeps a unit in memory whose file is gone until it reads its files again: then it knows no such unit.
    if [ "$file" = bad ] && ! [ -e "$path" ] && ! [ -L "$path" ]; then load=not-found; fi
    # A name that systemd reads as another one, or that a unit takes when it is enabled (Alias=).
    real=
    if [ -n "$id" ] && [ "$id" != "$1" ]; then
      real=$id
    elif [ "$load" = not-found ] && [ "$active" != active ]; then
      cv_unit_by_alias "$1"
      real=$cv_u_real
      if [ -n "$real" ]; then
        cv_unit_named "$real"
        shift
        continue
      fi
    fi
    started=- moment=-
    set -- "${real:-$1}" "$@"
    if [ -r "$CV_ROOT/started/$1" ]; then read -r started <"$CV_ROOT/started/$1"; fi
    # A oneshot that does not remain counts as active when we started it in this boot and it ended well.
    if [ "$type$remain$active$result" = oneshotnoinactivesuccess ] && [ -r "$CV_ROOT/started/$1.boot" ]; then
      read -r boot <"$CV_ROOT/started/$1.boot"
      read -r this </proc/sys/kernel/random/boot_id
      [ "$boot" != "$this" ] || active=active
    fi
    if [ "$active" = active ]; then
      case $since in
      @*) moment=${since#@} ;;
      ?*) moment=$(date -d "$since" +%s 2>/dev/null) || moment=- ;;
      esac
    fi
    [ -z "$real" ] || moment=$moment=$real
    shift
    if [ -z "$active" ]; then
      cv_fail_all "systemd says nothing of $1" "$1"
    elif [ "$load" = not-found ] && [ "$active" != active ]; then
      echo '- absent'
    else
      cv_enc_to "$file"
      printf '%s unit %s %s %s\n' "$moment" "$CV_ENC" "$active" "$started"
    fi
    shift
  done
)

# cv_unit_aliases: the names that unit files claim for their units, a line `NAME UNIT` each. A file of the administrator hides one of the same name
# elsewhere. All files are read by one process: a host has hundreds.
# shellcheck disable=SC2046,SC2086
cv_unit_aliases() (
  set +f
  unset IFS
  set --
  last=
  for dir in $CV_UNIT_FILES; do
    # /lib is /usr/lib on most hosts.
    [ -z "$last" ] || ! [ "$dir" -ef "$last" ] || continue
    last=$dir
    set -- "$@" "$dir"/*.*
  done
  set -f
  IFS=$CV_NL
  set -- $(grep -ls '^[[:space:]]*Alias[[:space:]]*=' "$@")
  [ $# -gt 0 ] || exit 0
  awk '/^[[:space:]]*Alias[[:space:]]*=/ { sub(/^[^=]*=/, ""); for (i = 1; i <= NF; i++) print $i " " FILENAME }' "$@" | while IFS= read -r line; do
    file=/${line#* /} name=${line##*/}
    case $name in *@.*) continue ;; esac
    unset IFS
    for dir in $CV_UNIT_FILES; do [ ! -e "$dir/$name" ] || break; done
    [ "$dir/$name" != "$file" ] || printf '%s\n' "${line%% *} $name"
  done
)

# cv_unit_by_alias NAME: the unit whose file claims this name, in cv_u_real. Keeps the answer of cv_unit_aliases in cv_u_aliases.
cv_unit_by_alias() {
  [ -n "${cv_u_aliases:-}" ] || cv_u_aliases=$CV_NL$(cv_unit_aliases)$CV_NL
  cv_u_real=
  case $cv_u_aliases in *"$CV_NL$1 "*)
    cv_u_real=${cv_u_aliases#*"$CV_NL$1 "}
    cv_u_real=${cv_u_real%%"$CV_NL"*}
    ;;
  esac
}

# cv_unit_named UNIT: what is to be seen of it, for one who asked by another name.
cv_unit_named() {
  cv_n_seen=$(cv_see_unit "$1")
  case $cv_n_seen in
  '! '* | '- absent') printf '%s\n' "$cv_n_seen" ;;
  *)
    cv_enc_to "$1"
    printf '%s=%s %s\n' "${cv_n_seen%% *}" "$CV_ENC" "${cv_n_seen#* }"
    ;;
  esac
}

cv_line_unit() { cv_line_of "$(cv_see_unit "$1")"; }

# Of a masked unit no line says whether it would start at boot without its mask: its links are kept with the run, in CV_SAVED.
cv_save_unit() (
  case $2 in 'unit masked'*) ;; *) return 0 ;; esac
  [ -n "${CV_SAVED:-}" ] || return 0
  umask 077
  mkdir -p "$CV_SAVED" && cv_unit_links "$1" >"$CV_SAVED/unit.$1.links"
)

# cv_unit_links UNIT: the links by which other units start it.
cv_unit_links() (
  set +f
  unset IFS
  for link in "$CV_UNIT_LINKS"/*.wants/"$1" "$CV_UNIT_LINKS"/*.requires/"$1" "$CV_UNIT_LINKS"/*.upholds/"$1"; do
    [ ! -L "$link" ] || printf '%s\n' "$link"
  done
)

# cv_unit_relink UNIT: before a rollback masks it again, its links are as the run found them.
cv_unit_relink() {
  cv_u_kept=$CV_ROOT/runs/$CV_FROM_RUN/saved/unit.$1.links
  if [ -s "$cv_u_kept" ]; then
    [ -n "$(cv_unit_links "$1")" ] || systemctl -q enable -- "$1"
  elif [ -n "$(cv_unit_links "$1")" ]; then
    systemctl -q disable -- "$1"
  fi
}

cv_restore_unit() { cv_apply_unit "$1" "$2"; }

# cv_bare_unit LINE: whether a unit is in this state through its file alone; it comes and goes with that.
cv_bare_unit() {
  case $1 in 'unit disabled inactive -' | 'unit static inactive -' | 'unit indirect inactive -') return 0 ;; esac
  return 1
}

# A unit whose file is still there cannot be absent before that file goes: stopped and not enabled is as near as it
# can be. A failed state cannot be made: inactive stands for it.
cv_same_unit() {
  case "$2|$3" in
  *'|absent')
    case $2 in *' inactive -' | *' failed -') return 0 ;; esac
    ;;
  *)
    case $3 in *' failed '*) [ "$2" = "${3% failed *} inactive ${3##* }" ] && return 0 ;; esac
    ;;
  esac
  return 1
}

# cv_amid_unit FOUND FROM TO: whether an interrupted step between these states may leave that one; as in unit.rs.
# shellcheck disable=SC2086,SC2089,SC2090
cv_amid_unit() (
  set -f
  case $1 in absent) return 1 ;; esac
  from=$2 to=$3
  case $from in absent) from='unit \ inactive -' ;; esac
  case $to in absent) to='unit \ inactive -' ;; esac
  set -- $1 $from $to
  links=
  case $2 in "$6" | "${10}") links=yes ;; esac
  case "$6 ${10}" in
  '\ '* | *' \' | masked* | *' masked'*) case $2 in disabled | static | indirect) links=yes ;; esac ;;
  esac
  case $4 in - | "$8" | "${12}") [ -n "$links" ] && return 0 ;; esac
  return 1
)

# cv_shows_unit FOUND BEFORE LEFT: whether the unit still shows what the run made of it that found it in the state BEFORE; as in unit.rs.
# shellcheck disable=SC2086
cv_shows_unit() (
  case $1$3 in *absent*) [ "$1" = "$3" ] && return 0 || return 1 ;; esac
  set -f
  case $2 in absent) was=inactive with=- ;; *) was=${2% *} was=${was##* } with=${2##* } ;; esac
  set -- $1 $3
  enabled=$2 active=$3 ran=$7
  [ "$enabled" = "$6" ] || return 1
  # Started with something else than the run left and found.
  if [ "$active $ran" = 'active active' ] && [ "$4" != - ] && [ "$8" != - ] && [ "$4" != "$8" ] && [ "$4" != "$with" ]; then return 1; fi
  case $active in "$ran" | "$was") return 0 ;; esac
  if [ "$ran" = active ]; then
    [ "$active" != inactive ]
  elif [ "$active" = active ]; then
    case $enabled in '\' | disabled | masked*) return 1 ;; esac
  fi
)

# cv_adopt_unit UNIT LINE: writes the record only.
cv_adopt_unit() { cv_unit_record "$1" "${2##* }"; }

# cv_unit_record UNIT TEXT: records what it was started with; `-` takes the record away.
cv_unit_record() {
  if [ "$2" = - ]; then rm -f "$CV_ROOT/started/$1"; else cv_write_record "$CV_ROOT/started/$1" "$2"; fi
}

# cv_unit_unrecord UNIT: while it is started, it is not known what it runs with: a run that is cut off here must not leave the previous record.
cv_unit_unrecord() {
  [ -e "$CV_ROOT/started/$1" ] || return 0
  rm -f "$CV_ROOT/started/$1"
  sync "$CV_ROOT/started" 2>/dev/null || :
}

# cv_unit_word UNIT PROPERTY
cv_unit_word() { systemctl show -p "$2" -- "$1" | sed -n "s/^$2=//p"; }

# cv_unit_inputs RECORD: the parts of a record for which the unit is restarted, in cv_u_restarts, and those for which it is reloaded (~…), in
# cv_u_reloads.
cv_unit_inputs() {
  cv_u_restarts='' cv_u_reloads=''
  cv_split_by +
  for cv_u_part in $1; do
    case $cv_u_part in
    -) ;;
    '~'*) cv_u_reloads=$cv_u_reloads$cv_u_part+ ;;
    *) cv_u_restarts=$cv_u_restarts$cv_u_part+ ;;
    esac
  done
  cv_split_end
}

# cv_unit_act FOUND WANTED: what an active unit with the record FOUND needs for the record WANTED, in CV_ACT: restart, reload or nothing; as in
# unit.rs.
cv_unit_act() {
  cv_unit_inputs "$1"
  cv_u_were=$cv_u_restarts cv_u_read=$cv_u_reloads
  cv_unit_inputs "$2"
  if [ "$cv_u_were" != "$cv_u_restarts" ]; then
    CV_ACT=restart
  elif [ "$cv_u_read" != "$cv_u_reloads" ]; then
    CV_ACT=reload
  else
    CV_ACT=
  fi
}

# cv_apply_unit UNIT LINE: brings the unit to the state of the line, from any other. Restarts or reloads an active unit when the
# record of its inputs is to be another, or to go: what it runs with has come back then.
# With CV_WATCH_LATER the caller watches a unit that was started, and records it: status 101.
# shellcheck disable=SC2086
cv_apply_unit() (
  unit=$1
  set -f
  set -- $2
  if [ "$1" = absent ]; then
    line=$(cv_line_unit "$unit") || return 1
    # A mask would outlive the unit.
    case $line in
    'unit masked '*)
      systemctl -q unmask -- "$unit" && line=$(cv_line_unit "$unit") || return 1
      ;;
    esac
    if [ "$line" != absent ]; then
      systemctl -q disable --now -- "$unit" || {
        systemctl -q stop -- "$unit" || return 1
        # A unit that a generator made cannot be disabled. One that stays enabled would start again.
        case $(systemctl is-enabled -- "$unit" 2>/dev/null) in
        enabled | enabled-runtime)
          cv_say "$unit: it cannot be disabled"
          return 1
          ;;
        esac
      }
      systemctl -q reset-failed -- "$unit" 2>/dev/null
    fi
    rm -f "$CV_ROOT/started/$unit" "$CV_ROOT/started/$unit.boot"
    return 0
  fi
  cv_dec_to "$2"
  want=$CV_DEC active=$3 started=$4
  case $(systemctl show -p LoadState -p NeedDaemonReload -- "$unit") in
  *LoadState=not-found* | *NeedDaemonReload=yes*) systemctl daemon-reload || return 1 ;;
  esac
  line=$(cv_line_unit "$unit") || return 1
  if [ "$line" = absent ]; then
    cv_say "$unit: systemd knows no such unit"
    return 1
  fi
  set -- $line
  cv_dec_to "$2"
  is=$CV_DEC was=$3 record=$4
  if [ "$is" != "$want" ]; then
    case $is in
    masked) [ "$want" = masked ] || systemctl -q unmask -- "$unit" || return 1 ;;
    masked-runtime) systemctl -q unmask --runtime -- "$unit" || return 1 ;;
    esac
    case $want in
    enabled) systemctl -q enable -- "$unit" || return 1 ;;
    enabled-runtime) systemctl -q enable --runtime -- "$unit" || return 1 ;;
    # Links of a previous file may still enable it.
    disabled | static) systemctl -q disable -- "$unit" || return 1 ;;
    esac
    case "$is $was $active $unit" in masked*' active active '*.socket) cv_unit_listen "$unit" || return 1 ;; esac
  fi
  case $active in
  active)
    from=$(date +%s) did=start
    cv_unit_inputs "$started"
    if [ -n "$cv_u_reloads" ] && [ "$(cv_unit_word "$unit" CanReload)" = no ]; then
      cv_say "$unit cannot be reloaded: its file has no ExecReload=; write restart_on in place of reload_on"
      return 1
    fi
    case $was in
    active)
      cv_unit_act "$record" "$started"
      did=$CV_ACT
      case $did in
      restart)
        cv_unit_unrecord "$unit"
        systemctl restart -- "$unit"
        ;;
      # A rollback may have taken away by what it was reloaded: then a restart reads what has come back.
      reload) systemctl reload-or-restart -- "$unit" ;;
      *) from= ;;
      esac
      ;;
    *)
      if [ "$was" = failed ]; then systemctl -q reset-failed -- "$unit"; fi
      cv_unit_unrecord "$unit"
      systemctl start -- "$unit"
      ;;
    esac || {
      cv_unit_report "$unit" "$from" "$did"
      return 1
    }
    if [ -n "$from" ]; then
      if [ "$did" != reload ]; then
        read -r boot </proc/sys/kernel/random/boot_id
        cv_write_record "$CV_ROOT/started/$unit.boot" "$boot" || return 1
      fi
      [ -z "${CV_WATCH_LATER:-}" ] || [ "$did" = reload ] || return 101
      cv_phase watch
      cv_units_settled "$unit" || {
        cv_unit_report "$unit" "$from" "$did"
        return 1
      }
    fi
    ;;
  *)
    rm -f "$CV_ROOT/started/$unit.boot"
    case $was in
    inactive) ;;
    failed) [ "$active" = failed ] || systemctl -q reset-failed -- "$unit" || return 1 ;;
    *) systemctl stop -- "$unit" || return 1 ;;
    esac
    ;;
  esac
  if [ "$want" = masked ] && [ "$is" != masked ]; then
    [ -z "${CV_FROM_RUN:-}" ] || cv_unit_relink "$unit" || return 1
    systemctl -q mask -- "$unit" || return 1
  fi
  cv_unit_record "$unit" "$started"
)

# cv_unit_listen SOCKET: a socket that was masked while it ran counts as active and listens no more, until it is started again. What runs behind it has
# its sockets and would not let it start.
# shellcheck disable=SC2046
cv_unit_listen() {
  systemctl -q is-active -- $(cv_unit_word "$1" Triggers) 2>/dev/null || systemctl restart -- "$1"
}

# cv_units_settled UNIT...: services whose start returns before their programs have proved themselves are watched for a second, all at once. Those
# that do not run are in cv_u_dead, one a line; status 1: there are some.
cv_units_settled() {
  cv_u_turns=0 cv_u_dead=
  while :; do
    cv_u_shown=$(systemctl show -p ActiveState -p SubState -p Type -p Result -p NRestarts -- "$@")$CV_NL$CV_NL
    cv_u_open=$CV_NL
    for cv_u_unit; do
      cv_u_block=${cv_u_shown%%"$CV_NL$CV_NL"*}
      cv_u_shown=${cv_u_shown#*"$CV_NL$CV_NL"}
      cv_unit_settled || cv_u_dead=$cv_u_dead$cv_u_unit$CV_NL
      [ -z "$cv_u_more" ] || cv_u_open=$cv_u_open$cv_u_unit$CV_NL
    done
    for cv_u_unit; do
      shift
      case $cv_u_open in *"$CV_NL$cv_u_unit$CV_NL"*) set -- "$@" "$cv_u_unit" ;; esac
    done
    [ $# -gt 0 ] || break
    cv_u_turns=$((cv_u_turns + 1))
    cv_nap
  done
  [ -z "$cv_u_dead" ]
}

# cv_unit_settled: judges one unit by cv_u_block; status 1: it does not run. cv_u_more says whether it is to be looked at again.
cv_unit_settled() {
  cv_u_more=
  case $cv_u_block in
  *ActiveState=failed* | *SubState=auto-restart*) return 1 ;;
  *ActiveState=inactive*) case $cv_u_block in *Type=oneshot*Result=success* | *Result=success*Type=oneshot*) return 0 ;; *) return 1 ;; esac ;;
  *ActiveState=active*)
    case $cv_u_block in *Type=simple* | *Type=exec* | *Type=idle*) ;; *) return 0 ;; esac
    [ "$cv_u_turns" -lt "${CV_SETTLE_TURNS:-5}" ] || return 0
    ;;
  *) [ "$cv_u_turns" -lt 150 ] || return 1 ;;
  esac
  cv_u_more=yes
}

# cv_unit_report UNIT SINCE ACT: why it does not run, or was not reloaded.
cv_unit_report() {
  if [ "$3" = reload ]; then cv_say "$1 was not reloaded, or did not go on after it:"; else cv_say "$1 did not start:"; fi
  {
    systemctl status --no-pager -l -n 0 -- "$1"
    journalctl --no-pager -q -o cat -n 15 --since "@${2:-0}" -u "$1"
  } 2>&1 | tail -n 40 >&2
}
