# --- k8s_snap ---
# The snap's own folder: its services' arguments are there from its bootstrap or join until it is removed, and the mark of a worker.
CV_K8S_SNAP=${CV_K8S_SNAP:-/var/snap/k8s/common}
# snapd's own, with the files of its snaps.
CV_SNAPD=${CV_SNAPD:-/var/lib/snapd}

# cv_k8s_snap_path: a session of ssh may lack the folder of snaps. The second one has the snap's own kubectl.
cv_k8s_snap_path() { PATH=$PATH:/snap/bin:/snap/k8s/current/bin; }

# cv_k8s_snap_part: what the files of the snap say.
cv_k8s_snap_part() {
  if [ ! -e "$CV_K8S_SNAP/args/kubelet" ]; then
    echo absent
  elif [ -e "$CV_K8S_SNAP/lock/worker" ]; then
    echo worker
  elif [ -e "$CV_KUBE_DIR/admin.conf" ]; then
    echo control-plane
  else
    echo partial
  fi
}

cv_see_k8s_snap() (
  for key; do
    if [ "$key" != node ]; then
      cv_fail_all 'not the key of a node' "$key"
    elif [ -r "$CV_ROOT/k8s_snap" ]; then
      IFS=" " read -r what rest <"$CV_ROOT/k8s_snap"
      printf -- '- begun %s\n' "$what"
    elif [ -d "$CV_K8S_SNAP" ] && [ ! -x "$CV_K8S_SNAP" ]; then
      cv_fail_all "$CV_K8S_SNAP cannot be read: root is needed (become: true)" "$key"
    else
      printf -- '- %s\n' "$(cv_k8s_snap_part)"
    fi
  done
)

cv_line_k8s_snap() { cv_line_of "$(cv_see_k8s_snap "$1")"; }

cv_save_k8s_snap() { :; }

# cv_stays_k8s_snap KEY NOW BEFORE: whether it stays, whatever undo.sh is to do, and why: undo.sh destroys nothing.
cv_stays_k8s_snap() {
  [ "$2" != "$3" ] || return 1
  case $2 in
  absent) printf '%s\n' 'a host that has left its cluster does not come back by itself: run converge' ;;
  *) printf '%s\n' "the host stays in its cluster ($2): 'snap remove --purge k8s' takes it out, and its data along" ;;
  esac
}

cv_restore_k8s_snap() (
  is=$(cv_line_k8s_snap "$1") || return 1
  ! why=$(cv_stays_k8s_snap "$1" "$is" "$2") || {
    cv_say "$why"
    return 1
  }
)

# cv_apply_k8s_snap KEY LINE. Reads CV_K8S_SNAP_HOW, CV_K8S_SNAP_NAME, CV_K8S_SNAP_ADDRESS, CV_K8S_SNAP_CONFIG and CV_K8S_SNAP_SECONDS; a join reads on
# standard input what cv_k8s_snap_invite printed on a control plane, a node that leaves what cv_k8s_snap_let_go printed there.
cv_apply_k8s_snap() (
  umask 077
  cv_k8s_snap_path
  want=$2
  is=$(cv_line_k8s_snap "$1") || return 1
  [ "$is" != "$want" ] || return 0
  case $want in
  absent | 'begun '*)
    [ "${CV_K8S_SNAP_HOW:-}" != leave ] || cv_node_is_gone || return 1
    cv_k8s_snap_reset
    return
    ;;
  control-plane | worker) ;;
  *)
    cv_say "nobody can bring a host to the state '$want'"
    return 1
    ;;
  esac
  [ -n "${CV_K8S_SNAP_CONFIG:-}" ] || {
    cv_say 'a host that has left its cluster does not come back by a rollback: run converge'
    return 1
  }
  command -v k8s >/dev/null 2>&1 || {
    cv_say 'the snap k8s is not installed here: a snap resource comes before'
    return 1
  }
  # The rest of a leave that was cut off is not a node to go on with.
  [ "$is" != 'begun leave' ] || cv_k8s_snap_reset || return 1
  cv_node_folder || return 1
  if [ "$CV_K8S_SNAP_HOW" = join ]; then
    cv_k8s_snap_read_token || return 1
  fi
  # One that was cut off may have ended by itself: the snap's daemon does the work.
  if [ "$(cv_k8s_snap_part)" != "$want" ]; then
    cv_write_record "$CV_ROOT/k8s_snap" "$CV_K8S_SNAP_HOW" || return 1
    case $CV_K8S_SNAP_HOW in join) cv_k8s_snap_join ;; *) cv_k8s_snap_bootstrap ;; esac || {
      # The snap takes back what it has begun; then nothing was.
      [ "$(cv_k8s_snap_part)" != absent ] || rm -f "$CV_ROOT/k8s_snap"
      return 1
    }
  fi
  if [ "$want" = control-plane ]; then
    cv_bounded "$((CV_K8S_SNAP_SECONDS + 30))" k8s status --wait-ready --timeout "${CV_K8S_SNAP_SECONDS}s" >"$CV_KUBE_RUN/ready" 2>&1 </dev/null || {
      cv_say "no node of the cluster was ready within $CV_K8S_SNAP_SECONDS s: $(sed -n '$p' "$CV_KUBE_RUN/ready")"
      return 1
    }
  fi
  [ "$(cv_k8s_snap_part)" = "$want" ] || {
    cv_say "the $CV_K8S_SNAP_HOW has ended, and the host is $(cv_k8s_snap_part), not $want"
    return 1
  }
  rm -f "$CV_ROOT/k8s_snap"
)

# cv_k8s_snap_bootstrap: makes the cluster. Needs the folder.
cv_k8s_snap_bootstrap() {
  set -- --name "$CV_K8S_SNAP_NAME" --timeout "${CV_K8S_SNAP_SECONDS}s" --file -
  [ -z "${CV_K8S_SNAP_ADDRESS:-}" ] || set -- "$@" --address "$CV_K8S_SNAP_ADDRESS"
  printf '%s\n' "$CV_K8S_SNAP_CONFIG" >"$CV_KUBE_RUN/config"
  cv_node_run k8s bootstrap "$@" <"$CV_KUBE_RUN/config" || {
    cv_say "k8s bootstrap ended with status $?"
    return 1
  }
}

# cv_k8s_snap_read_token: sets $token to what cv_k8s_snap_invite has printed, on standard input. Needs the folder.
cv_k8s_snap_read_token() {
  token=
  while IFS= read -r line; do
    case $line in 'token '*) token=${line#token } ;; esac
  done
  [ -n "$token" ] || {
    cv_say 'the control plane sent no token'
    return 1
  }
  printf '%s\n' "$token" >"$CV_KUBE_RUN/hide"
}

# cv_k8s_snap_ask SECONDS PATH WORD...: a request to the snap's daemon.
cv_k8s_snap_ask() {
  cv_k_seconds=$1 cv_k_path=$2
  shift 2
  curl -sS --noproxy '*' --max-time "$cv_k_seconds" --unix-socket "$CV_K8S_SNAP/var/lib/k8sd/state/control.socket" "$@" "http://localhost$cv_k_path"
}

# cv_k8s_snap_join: joins by $token. The request goes to the daemon as `k8s join-cluster` sends it: that program takes a token as an argument only, which
# every user of the host can read. Needs the folder.
cv_k8s_snap_join() {
  command -v curl >/dev/null 2>&1 || {
    cv_say "curl is not installed here: install it, by it a join token reaches the snap's daemon and is on no command line"
    return 1
  }
  address=$(cv_k8s_snap_address) || return 1
  # The configuration is one line of JSON, and a string here.
  config=$(printf '%s\n' "$CV_K8S_SNAP_CONFIG" | sed 's/[\\"]/\\&/g')
  printf '{"name":"%s","address":"%s","token":"%s","timeout":%s000000000,"config":"%s"}\n' \
    "$CV_K8S_SNAP_NAME" "$address" "$token" "$CV_K8S_SNAP_SECONDS" "$config" >"$CV_KUBE_RUN/body"
  # A snap that has just come: any answer is one of its daemon.
  tries=0
  until cv_k8s_snap_ask 5 /1.0 -o /dev/null 2>"$CV_KUBE_RUN/why"; do
    tries=$((tries + 1))
    [ "$tries" -lt 60 ] || {
      cv_say "the snap's daemon does not answer: $(sed -n '$p' "$CV_KUBE_RUN/why")"
      return 1
    }
    sleep 1
  done
  cv_k8s_snap_ask "$((CV_K8S_SNAP_SECONDS + 30))" /1.0/k8sd/cluster/join -H 'Content-Type: application/json' -H Expect: \
    --data-binary "@$CV_KUBE_RUN/body" -o "$CV_KUBE_RUN/answer" -w '%{http_code}' >"$CV_KUBE_RUN/code" 2>"$CV_KUBE_RUN/why"
  read -r code <"$CV_KUBE_RUN/code" || [ -n "$code" ]
  [ "$code" = 200 ] || {
    cv_say "the snap's daemon refuses the join ($code): $(cat "$CV_KUBE_RUN/answer" "$CV_KUBE_RUN/why" 2>/dev/null | cv_kubeadm_hide "$CV_KUBE_RUN/hide")"
    return 1
  }
}

# cv_k8s_snap_address: the node's own address with the port of the snap's daemon, as the snap's program finds it: in a network the host's address there,
# without one the first of the host.
cv_k8s_snap_address() (
  address=${CV_K8S_SNAP_ADDRESS:-}
  case $address in
  */* | '')
    address=$(ip -o address show scope global ${address:+to "$address"} | awk '{ sub("/.*", "", $4); print $4; exit }')
    [ -n "$address" ] || {
      cv_say "this host has no address${CV_K8S_SNAP_ADDRESS:+ in $CV_K8S_SNAP_ADDRESS} for the snap's daemon"
      exit 1
    }
    ;;
  esac
  case $address in
  \[*\]) address=$address:6400 ;;
  \[*) ;;
  *:*:*) address="[$address]:6400" ;;
  *:*) ;;
  *) address=$address:6400 ;;
  esac
  printf '%s\n' "$address"
)

# cv_k8s_snap_reset: the snap goes with all its data, and comes again as it was: it has no reset of its own. A reset that is cut off is on record,
# with the snap. Of a snap that came from a file the file is kept for that time: no store knows it.
cv_k8s_snap_reset() {
  was=
  [ ! -r "$CV_ROOT/k8s_snap" ] || IFS=" " read -r what was <"$CV_ROOT/k8s_snap"
  [ -n "$was" ] || was=$(cv_line_snap k8s) || return 1
  [ "$was" != absent ] || {
    cv_say 'snapd does not know the snap k8s: what is below /var/snap/k8s is not its own any more'
    return 1
  }
  kept=$CV_ROOT/k8s.snap
  case $was in 'snap '*' x'[0-9]*) cv_k8s_snap_keep_file "$was" || return 1 ;; esac
  cv_write_record "$CV_ROOT/k8s_snap" "leave $was" || return 1
  cv_bounded 1200 snap remove --purge k8s 2>&1 </dev/null && cv_k8s_snap_from_file && cv_apply_snap k8s "$was" || {
    cv_say 'the snap k8s could not be removed and installed again; the next run goes on with it'
    return 1
  }
  rm -f "$CV_ROOT/k8s_snap" "$kept"
}

# cv_k8s_snap_keep_file LINE: keeps the file of the snap of this state in $kept, unless a reset that was cut off has kept it.
cv_k8s_snap_keep_file() (
  [ ! -e "$kept" ] || exit 0
  file=${1#snap * }
  file=$CV_SNAPD/snaps/k8s_${file%% *}.snap
  # A second name is no copy; snapd removes its own.
  ln "$file" "$kept" 2>/dev/null || { cp "$file" "$kept.new" && mv "$kept.new" "$kept"; } || {
    cv_say "the file of the snap k8s, without which it does not come again, could not be kept: $file"
    exit 1
  }
)

# cv_k8s_snap_from_file: installs the snap from the file that was kept. Its revision is snapd's first again, `x1`.
cv_k8s_snap_from_file() {
  [ -e "$kept" ] || return 0
  [ "$(cv_line_snap k8s)" != absent ] || case $was in
  *' classic '*) snap install --dangerous --classic "$kept" </dev/null ;;
  *' devmode '*) snap install --dangerous --devmode "$kept" </dev/null ;;
  *) snap install --dangerous "$kept" </dev/null ;;
  esac || return 1
  is=$(cv_line_snap k8s) || return 1
  # shellcheck disable=SC2086
  was=$(IFS=" " && set -f && revision=${is#snap * } && set -- $was && echo "$1 $2 ${revision%% *} $4 $5")
}

# cv_k8s_snap_is_plane: ends the subshell unless this host is a control plane of k8s-snap. Sets $conf.
cv_k8s_snap_is_plane() {
  cv_k8s_snap_path
  conf=$CV_KUBE_DIR/admin.conf
  [ "$(cv_line_k8s_snap node)" = control-plane ] || {
    cv_say 'it is no control plane of the snap k8s, or its bootstrap has not ended'
    exit 75
  }
}

# cv_k8s_snap_invite worker|control-plane NODE: on a control plane: a token for this node, good for 15 minutes and one join. Status 75: no cluster here
# yet; 74: it does not answer yet.
cv_k8s_snap_invite() (
  umask 077
  cv_k8s_snap_is_plane
  dir=$CV_KUBE_RUN-invite.$$
  mkdir -m 700 "$dir" || exit 1
  trap 'rm -rf "$dir"' EXIT
  part=$1
  set -- "$2" --expires-in 15m --timeout 50s
  [ "$part" != worker ] || set -- "$@" --worker
  cv_bounded 60 k8s get-join-token "$@" >"$dir/token" 2>"$dir/why" </dev/null || {
    cv_say "the snap gives no token yet: $(grep . "$dir/why" | sed -n '$p')"
    exit 74
  }
  token=$(grep -x '[A-Za-z0-9+/=_-]\{16,\}' "$dir/token" | sed -n '$p')
  [ -n "$token" ] || {
    cv_say 'k8s get-join-token gave no token'
    exit 1
  }
  printf 'token %s\n' "$token"
)

# cv_k8s_snap_let_go NODE [FLAG]: on a control plane that stays: the node's pods go, the snap removes it, and `gone NODE` is printed when the API no
# longer knows it. Status 74: not yet. It may be asked again at any point.
cv_k8s_snap_let_go() (
  umask 077
  cv_k8s_snap_is_plane
  dir=$CV_KUBE_RUN-leave.$$ stacked=
  mkdir -m 700 "$dir" || exit 1
  trap 'rm -rf "$dir"' EXIT
  cv_kubeadm_confirm "$1"
  if cv_kubeadm_knows "$1"; then
    cv_kubeadm_drain "$1" leave ${2:+"$2"}
    cv_bounded 180 k8s remove-node "$1" --timeout 170s >"$dir/node" 2>&1 </dev/null || {
      cv_say "the snap does not remove the node: $(grep . "$dir/node" | sed -n '$p')"
      exit 74
    }
    ! cv_kubeadm_knows "$1" || {
      cv_say 'the node is not deleted yet'
      exit 74
    }
  fi
  printf 'gone %s\n' "$1"
)

# cv_k8s_snap_keep NODE: on a control plane: the node does not leave: it takes pods again where converge has cordoned it for that.
cv_k8s_snap_keep() (
  cv_k8s_snap_is_plane
  is=$(cv_kubeadm_kube get node "$1" -o "$CV_CORDONED_OF" 2>/dev/null </dev/null)
  [ "${is#* }" = leave ] || exit 0
  cv_kubeadm_uncordon "$1" || exit 1
  echo 'it takes pods again'
)
