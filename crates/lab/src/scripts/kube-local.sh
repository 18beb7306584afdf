# Keeps the processes of one API server on this machine's loopback. Argument: a directory with NAME.sh for each process.
# Standard input: lines `SIGNAL NAME`, or `START NAME`; each is answered by one line. When it ends (the owner is done or
# dead) all are killed and the directory is deleted.
set -u
directory=$1
names=
cd "$directory" || exit 1
while read -r verb name; do
  case $verb in
  START)
    # The process dies with this shell, too.
    setpriv --pdeathsig KILL sh "./$name.sh" >>"$name.log" 2>&1 </dev/null &
    eval "pid_$name=$!"
    names="$names $name"
    ;;
  *)
    eval "pid=\${pid_$name:-}"
    [ -z "$pid" ] || kill -s "$verb" "$pid" 2>/dev/null
    # One that is stopped gets no other signal.
    [ "$verb" != TERM ] || [ -z "$pid" ] || kill -s CONT "$pid" 2>/dev/null
    case $verb in
    KILL | TERM) [ -z "$pid" ] || {
      wait "$pid"
      eval "pid_$name="
    } 2>/dev/null ;;
    # Until the thread that takes the signal runs, the others work on.
    STOP) while [ -n "$pid" ] && grep -qs '^State:.[^T]' /proc/"$pid"/task/*/status; do sleep 0.01; done ;;
    esac
    ;;
  esac
  echo done
done
for name in $names; do
  eval "kill -s KILL \$pid_$name" 2>/dev/null
done
wait
cd / && rm -rf --one-file-system "$directory"
