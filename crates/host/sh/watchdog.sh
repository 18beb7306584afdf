# The watchdog of a run: ends the session of a controller that has fallen silent, so that the host's lock is free again.
# Arguments: directory of the records, run, token, seconds of silence. It is started from a session of its own: it must not hold the
# lock's descriptor. Silence is counted in its own ticks, so that a host that was suspended does not blame the controller.
cd "$1/runs/$2" 2>/dev/null || exit 0
token=$3 limit=$4 tick=2 quiet=0 heard="$3 0"

# Fields 4 (parent) and 22 (start) of /proc/PID/stat, in ppid and start.
# shellcheck disable=SC2086
cv_watchdog_stat_of() {
  ppid= start=
  { IFS= read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  set -f
  set -- ${stat##*) }
  set +f
  ppid=$2 start=${20}
}

# Whether the session's shell still runs.
cv_watchdog_lives() { cv_watchdog_stat_of "$pid" && [ "$start" = "$since" ]; }

# The processes that the session's shell has started, in kids.
cv_watchdog_kids_of() {
  kids=
  for proc in /proc/[0-9]*; do
    ! cv_watchdog_stat_of "${proc#/proc/}" || [ "$ppid" != "$1" ] || kids="$kids ${proc#/proc/}"
  done
}

# A step whose input is cut short in the middle gets its end: the rest will not come. Its digest tells it.
cv_watchdog_end_readers() {
  for proc in /proc/[0-9]*; do
    [ "${proc#/proc/}" != "$pid" ] && [ "$proc/fd/0" -ef "/proc/$pid/fd/3" ] || continue
    name=
    { IFS= read -r name <"$proc/comm"; } 2>/dev/null
    case $name in head | dd | busybox) kill "${proc#/proc/}" 2>/dev/null ;; esac
  done
}

IFS=' ' read -r pid since <alive/session 2>/dev/null || exit 0
while [ "$quiet" -lt "$limit" ]; do
  sleep "$tick"
  [ -e alive/session ] && cv_watchdog_lives || exit 0
  { IFS= read -r now <alive/beat; } 2>/dev/null || now=$heard
  # Another session of the run has a watchdog of its own.
  case $now in "$token "*) ;; *) exit 0 ;; esac
  # While an automatic revert is pending, its timeout decides.
  if [ "$now" != "$heard" ] || [ -d ../../switch ]; then quiet=0; else quiet=$((quiet + tick)); fi
  heard=$now
done

# First of all no other session goes on with this run. What has begun is finished; nothing else is begun.
: >fenced
: >stop
waited=0
# shellcheck disable=SC2086
while cv_watchdog_lives; do
  cv_watchdog_kids_of "$pid"
  [ -n "$kids" ] || break
  [ "$waited" -lt "${CV_FENCE_WAIT:-3600}" ] || {
    kill $kids 2>/dev/null
    break
  }
  cv_watchdog_end_readers
  sleep 1
  waited=$((waited + 1))
done
if cv_watchdog_lives; then
  kill "$pid" 2>/dev/null
  sleep 2
  ! cv_watchdog_lives || kill -9 "$pid" 2>/dev/null
fi
