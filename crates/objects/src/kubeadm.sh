# --- kubeadm ---
CV_KUBE_DIR=${CV_KUBE_DIR:-/etc/kubernetes}
CV_KUBE_RUN=${CV_KUBE_RUN:-/run/converge-kubeadm}

# cv_kubeadm_server FILE: the HOST:PORT that a kubeconfig names, in CV_SERVER.
cv_kubeadm_server() {
  CV_SERVER=$(sed -n 's|^[[:blank:]]*server:[[:blank:]]*||p' "$1" 2>/dev/null | sed -n '1{s|^"\(.*\)"$|\1|;s|^https*://||;s|/*$||;p;}')
  [ -n "$CV_SERVER" ]
}

cv_see_kubeadm() (
  for key; do
    case $key in
    node) ;;
    version)
      cv_kubeadm_see_version
      continue
      ;;
    *)
      cv_fail_all 'not the key of a node' "$key"
      continue
      ;;
    esac
    record=$CV_ROOT/kubeadm what= where=
    if [ -r "$record" ]; then
      IFS=" " read -r what where <"$record"
      printf -- '- begun %s %s\n' "$what" "$where"
      continue
    fi
    there=
    for file in admin.conf bootstrap-kubelet.conf kubelet.conf manifests/etcd.yaml manifests/kube-apiserver.yaml pki/ca.crt; do
      [ ! -e "$CV_KUBE_DIR/$file" ] || there="$there $file"
    done
    conf=
    case $there in
    '')
      echo '- absent'
      continue
      ;;
    *' admin.conf'*' kubelet.conf'*' manifests/kube-apiserver.yaml'*) part=control-plane conf=admin.conf ;;
    *' admin.conf'* | *' manifests/'*) ;;
    *' kubelet.conf'*) part=worker conf=kubelet.conf ;;
    esac
    if [ -n "$conf" ] && [ ! -r "$CV_KUBE_DIR/$conf" ]; then
      cv_fail_all "$CV_KUBE_DIR/$conf cannot be read: root is needed (become: true)" "$key"
    elif [ -n "$conf" ] && cv_kubeadm_server "$CV_KUBE_DIR/$conf"; then
      cv_enc_to "$CV_SERVER"
      printf -- '- %s %s\n' "$part" "$CV_ENC"
    else
      cv_enc_to "${there# }"
      printf -- '- partial %s\n' "$CV_ENC"
    fi
  done
)

# The version of the control plane on this host. It is read from the files: one that does not answer just now, or whose init has not
# ended, is not to be upgraded for that.
cv_kubeadm_see_version() {
  manifest=$CV_KUBE_DIR/manifests/kube-apiserver.yaml
  if [ -e "$CV_ROOT/kubeadm" ] || [ ! -e "$manifest" ]; then
    echo '- absent'
    return
  fi
  runs=$(sed -n 's/^[[:blank:]]*image:.*kube-apiserver:\(v[0-9][0-9A-Za-z.+-]*\).*/\1/p' "$manifest" 2>/dev/null | sed -n 1p)
  [ -n "$runs" ] || {
    cv_fail_all "the version of the API server cannot be read in $manifest" version
    return
  }
  says=$(cv_bounded 20 kubectl --cache-dir=/dev/null --kubeconfig "$CV_KUBE_DIR/admin.conf" -n kube-system get configmap kubeadm-config \
    -o 'jsonpath={.data.ClusterConfiguration}' 2>/dev/null </dev/null | sed -n 's/^kubernetesVersion:[[:blank:]]*\(v[0-9A-Za-z.+-]*\)$/\1/p')
  printf -- '- version %s %s\n' "$runs" "${says:-$runs}"
}

cv_line_kubeadm() { cv_line_of "$(cv_see_kubeadm "$1")"; }

cv_save_kubeadm() { :; }

# cv_stays_kubeadm KEY NOW BEFORE: whether it stays, whatever undo.sh is to do, and why: undo.sh destroys nothing.
cv_stays_kubeadm() {
  [ "$2" != "$3" ] || return 1
  case $1:$2 in
  version:absent) return 1 ;;
  version:*) printf '%s\n' "kubeadm takes no version back ($2)" ;;
  *:'begun leave '*) printf '%s\n' 'the host was leaving its cluster when a run was cut off: run converge, which ends that, or joins the host again' ;;
  *:absent) printf '%s\n' 'a host that has left its cluster does not come back by itself: run converge' ;;
  *) printf '%s\n' "the host stays in its cluster ($2): 'kubeadm reset' takes it out, and its data along" ;;
  esac
}

cv_restore_kubeadm() (
  is=$(cv_line_kubeadm "$1") || return 1
  ! why=$(cv_stays_kubeadm "$1" "$is" "$2") || {
    cv_say "$why"
    return 1
  }
)

# cv_kubeadm_hide FILE: standard input with the words of the file, one a line, made unreadable.
cv_kubeadm_hide() {
  awk '!secrets_are_known { if ($0 != "") words[$0]; next }
    {
      for (word in words) while (at = index($0, word)) $0 = substr($0, 1, at - 1) "<secret>" substr($0, at + length(word))
      print
      fflush()
    }' "$1" secrets_are_known=1 -
}

# cv_kubeadm_run WORD...: kubeadm, its output without secrets.
cv_kubeadm_run() { cv_node_run kubeadm "$@" </dev/null; }

# cv_node_run WORD...: a command that makes a node of this host, its output without the words in $CV_KUBE_RUN/hide. Needs the folder.
cv_node_run() {
  : >>"$CV_KUBE_RUN/hide"
  {
    cv_bounded 1080 "$@"
    echo $? >"$CV_KUBE_RUN/status"
  } 2>&1 | cv_kubeadm_hide "$CV_KUBE_RUN/hide"
  cv_k_status=1
  read -r cv_k_status <"$CV_KUBE_RUN/status"
  return "$cv_k_status"
}

# cv_node_folder: makes an empty $CV_KUBE_RUN, which goes with the subshell of the caller: a token is on this host in memory only (/run), and no longer
# than its program runs.
cv_node_folder() {
  rm -rf "$CV_KUBE_RUN"
  mkdir -m 700 "$CV_KUBE_RUN" || return 1
  trap 'rm -rf "$CV_KUBE_RUN"' EXIT
}

# cv_node_is_gone: whether standard input says what a control plane prints when its cluster no longer knows the node (`gone NODE`); says so if not.
cv_node_is_gone() {
  cv_k_gone=
  IFS= read -r cv_k_gone
  case $cv_k_gone in 'gone '?*) return 0 ;; esac
  cv_say 'no control plane says that the cluster no longer knows the node: it is not reset'
  return 1
}

# cv_apply_kubeadm KEY LINE. Reads CV_KUBEADM_CONFIG (kubeadm's documents) and CV_KUBEADM_IGNORE; a join reads on standard input
# what cv_kubeadm_invite printed on a control plane, a node that leaves what cv_kubeadm_let_go printed there.
cv_apply_kubeadm() (
  umask 077
  want=$2
  is=$(cv_line_kubeadm "$1") || return 1
  [ "$is" != "$want" ] || return 0
  command -v kubeadm >/dev/null 2>&1 || {
    cv_say 'kubeadm is not installed here: a package resource comes before'
    return 1
  }
  case $want in
  'version '*)
    cv_kubeadm_upgrade "${want##* }"
    return
    ;;
  # A rollback of the run that completed what was begun: that does not come back.
  absent | 'begun '*)
    [ "${CV_KUBEADM_HOW:-}" != leave ] || cv_node_is_gone || return 1
    cv_kubeadm_reset "$is"
    return
    ;;
  'control-plane '* | 'worker '*) ;;
  *)
    cv_say "nobody can bring a host to the state '$want'"
    return 1
    ;;
  esac
  [ -n "${CV_KUBEADM_CONFIG:-}" ] || {
    cv_say 'a host that has left its cluster does not come back by a rollback: run converge'
    return 1
  }
  cv_dec_to "${want#* }"
  endpoint=$CV_DEC
  cv_node_folder || return 1
  case ${CV_KUBEADM_HOW:-} in
  init) cv_kubeadm_init "$is" "$endpoint" ;;
  join) cv_kubeadm_join "$is" "$endpoint" ;;
  *)
    cv_say 'nothing says how the host comes into the cluster'
    return 1
    ;;
  esac || return
  rm -f "$CV_ROOT/kubeadm"
)

# cv_kubeadm_init IS ENDPOINT
cv_kubeadm_init() {
  ignore=${CV_KUBEADM_IGNORE:-}
  # The rest of an unfinished init is no reason to refuse; kubeadm takes its certificates and data as they are.
  case $1 in 'begun init'*)
    for file in kube-apiserver kube-controller-manager kube-scheduler etcd; do
      ignore="$ignore,FileAvailable--etc-kubernetes-manifests-$file.yaml"
    done
    ignore="$ignore,DirAvailable--var-lib-etcd,Port-6443,Port-10259,Port-10257,Port-10250,Port-2379,Port-2380"
    ;;
  esac
  printf '%s\n' "$CV_KUBEADM_CONFIG" >"$CV_KUBE_RUN/init.yaml"
  cv_write_record "$CV_ROOT/kubeadm" "init $2" || return 1
  cv_kubeadm_run init --config "$CV_KUBE_RUN/init.yaml" --skip-token-print --ignore-preflight-errors="${ignore#,}" || {
    status=$?
    cv_kubeadm_nothing_done
    cv_say "kubeadm init ended with status $status"
    return 1
  }
}

# cv_kubeadm_join IS ENDPOINT
cv_kubeadm_join() {
  token= key= ca=
  while IFS= read -r line; do
    case $line in
    'token '*) token=${line#token } ;;
    'key '*) key=${line#key } ;;
    'ca '*) ca=${line#ca } ;;
    esac
  done
  [ -n "$token" ] && [ -n "$ca" ] || {
    cv_say 'the control plane sent no token'
    return 1
  }
  printf '%s\n' "$token" "$key" >"$CV_KUBE_RUN/hide"
  # The certificate authority is pinned: the cluster is the one that the control plane showed us.
  printf '%s\n' 'apiVersion: v1' 'kind: Config' 'clusters:' '- name: c' '  cluster:' "    server: https://$2" \
    "    certificate-authority-data: $ca" 'users:' '- name: u' '  user:' "    token: $token" 'contexts:' '- name: x' \
    '  context: {cluster: c, user: u}' 'current-context: x' >"$CV_KUBE_RUN/discovery.conf"
  rest=$CV_KUBEADM_CONFIG
  case $rest in *@certificate-key@*) rest=${rest%%@certificate-key@*}$key${rest#*@certificate-key@} ;; esac
  printf '%s\n' "$rest" >"$CV_KUBE_RUN/join.yaml"
  case $1 in 'begun '*)
    what=${1#begun }
    printf '%s\n' "a ${what%% *} was begun here and did not end: what it left is taken away first"
    cv_kubeadm_run reset --force || return 1
    ;;
  esac
  cv_write_record "$CV_ROOT/kubeadm" "join $2" || return 1
  cv_kubeadm_run join --config "$CV_KUBE_RUN/join.yaml" --ignore-preflight-errors="${CV_KUBEADM_IGNORE:-}" || {
    status=$?
    cv_kubeadm_nothing_done
    cv_say "kubeadm join ended with status $status"
    return 1
  }
}

# Where kubeadm refused before it did anything, nothing was begun.
cv_kubeadm_nothing_done() {
  mv -f "$CV_ROOT/kubeadm" "$CV_ROOT/kubeadm.was"
  case $(cv_line_kubeadm node) in
  absent) rm -f "$CV_ROOT/kubeadm.was" ;;
  *) mv -f "$CV_ROOT/kubeadm.was" "$CV_ROOT/kubeadm" ;;
  esac
}

# cv_kubeadm_upgrade VERSION
cv_kubeadm_upgrade() {
  cv_bounded 1740 kubeadm upgrade apply --yes --ignore-preflight-errors="${CV_KUBEADM_IGNORE:-}" "$1" 2>&1 </dev/null || {
    cv_say "kubeadm upgrade apply ended with status $?"
    return 1
  }
}

# cv_kubeadm_inside SECONDS WORD...: a program in etcd's own container: a registry's image has no shell, the host has none of its programs.
cv_kubeadm_inside() {
  cv_k_limit=$1
  shift
  cv_bounded "$cv_k_limit" ctr -n k8s.io tasks exec --exec-id "converge-$$-$1" "$cv_k_id" "$@" 2>"$dir/why" </dev/null
}

# cv_kubeadm_snapshot: on a control plane: a snapshot of etcd that etcdutl has read whole, in a file that whoever asked removes. It
# prints `file SHA256 SIZE PATH KEYS keys`, or `none WHY` where etcd is not kubeadm's.
cv_kubeadm_snapshot() (
  umask 077
  pki=$CV_KUBE_DIR/pki/etcd manifest=$CV_KUBE_DIR/manifests/etcd.yaml
  if [ ! -e "$manifest" ]; then
    servers=$(sed -n 's/^[[:blank:]]*- --etcd-servers=//p' "$CV_KUBE_DIR/manifests/kube-apiserver.yaml" 2>/dev/null)
    case $servers in
    '' | *//127.0.0.1:* | *//localhost:* | *'//[::1]:'*)
      cv_say "etcd does not run here: $manifest is not there"
      exit 1
      ;;
    esac
    echo "none the etcd of the cluster is not kubeadm's own, and yours to save: $servers"
    exit 0
  fi
  data=$(sed -n 's/^[[:blank:]]*- --data-dir=//p' "$manifest" | sed -n 1p)
  data=${data:-/var/lib/etcd}
  # Snapshots of runs that were cut off are removed.
  find "$data" -maxdepth 1 -name 'converge-snapshot.*' -mmin +180 -exec rm -f {} +
  dir=$CV_KUBE_RUN-snapshot.$$ file=$data/converge-snapshot.$$ made= size=0
  mkdir -m 700 "$dir" || exit 1
  trap 'rm -rf "$dir"; [ -n "$made" ] || rm -f "$file" "$file.part"' EXIT
  # A full disk would stop etcd itself.
  [ ! -e "$data/member/snap/db" ] || size=$(wc -c <"$data/member/snap/db")
  free=$(df -Pk "$data" | awk 'NR == 2 { print $4 }')
  [ "${free:-0}" -gt $((size / 1024 * 5 / 4 + 65536)) ] || {
    cv_say "the disk of $data has no disk space for a snapshot: ${free:-0} KiB are free, and etcd has $((size / 1024)) KiB"
    exit 1
  }
  there=$(cv_bounded 30 ctr -n k8s.io containers list -q 'labels."io.kubernetes.container.name"==etcd' 2>"$dir/why" </dev/null | tr '\n' ' ')
  cv_k_id=$(cv_bounded 30 ctr -n k8s.io tasks list 2>>"$dir/why" </dev/null |
    awk -v there=" $there" '$3 == "RUNNING" && index(there, " " $1 " ") { print $1 }' | sed -n 1p)
  [ -n "$cv_k_id" ] || {
    cv_say "no container of etcd runs here$(sed -n '$s/^/: /p' "$dir/why")"
    exit 1
  }
  cv_kubeadm_inside 900 etcdctl --endpoints=https://127.0.0.1:2379 --cacert="$pki/ca.crt" --cert="$pki/healthcheck-client.crt" \
    --key="$pki/healthcheck-client.key" snapshot save "$file" >/dev/null || {
    cv_say "etcd gives no snapshot: $(sed -n '$p' "$dir/why")"
    exit 1
  }
  # HASH, REVISION, KEYS, SIZE: etcdutl reads all of it.
  status=$(cv_kubeadm_inside 600 etcdutl snapshot status "$file" -w simple) || {
    cv_say "the snapshot of etcd is broken: $(sed -n '$p' "$dir/why")"
    exit 1
  }
  keys=$(printf '%s\n' "$status" | cut -d, -f3 | tr -d ' ')
  [ "${keys:-0}" -gt 0 ] || {
    cv_say "the snapshot of etcd is empty: $status"
    exit 1
  }
  digest=$(sha256sum "$file") && size=$(wc -c <"$file") || exit 1
  printf 'file %s %s %s %s keys\n' "${digest%% *}" "$((size))" "$file" "$keys" && made=yes
)

# cv_kubeadm_is_plane ENDPOINT: ends the subshell unless this host is a control plane of that cluster.
cv_kubeadm_is_plane() {
  conf=$CV_KUBE_DIR/admin.conf
  if [ -e "$CV_ROOT/kubeadm" ] || [ ! -r "$conf" ] || [ ! -e "$CV_KUBE_DIR/manifests/kube-apiserver.yaml" ]; then
    cv_say "it is no control plane: $conf is not there, or its init has not ended"
    exit 75
  fi
  cv_kubeadm_server "$conf"
  [ "$CV_SERVER" = "$1" ] || {
    cv_say "it is a control plane of the cluster at $CV_SERVER, not of $1"
    exit 1
  }
}

# cv_kubeadm_invite worker|control-plane ENDPOINT: on a control plane, what another host needs to join: a token for 15 minutes, the
# certificate authority and, for a control plane, the key of the certificates. Status 75: no cluster here yet; 74: it does
# not answer yet.
cv_kubeadm_invite() (
  umask 077
  cv_kubeadm_is_plane "$2"
  ca=$(sed -n 's/^[[:blank:]]*certificate-authority-data:[[:blank:]]*//p' "$conf" | sed -n 1p)
  [ -n "$ca" ] || {
    cv_say "$conf has no certificate authority in it"
    exit 1
  }
  dir=$CV_KUBE_RUN-invite.$$
  mkdir -m 700 "$dir" || exit 1
  trap 'rm -rf "$dir"' EXIT
  key=
  if [ "$1" = control-plane ]; then
    # With the cluster's own configuration kubeadm need not ask the Internet for a version.
    cv_bounded 20 kubectl --cache-dir=/dev/null --kubeconfig "$conf" -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}' \
      >"$dir/config" 2>"$dir/why" </dev/null &&
      cv_bounded 60 kubeadm init phase upload-certs --upload-certs --kubeconfig "$conf" --config "$dir/config" >"$dir/key" 2>"$dir/why" </dev/null || {
      cv_say "the certificates cannot be handed out: $(sed -n '$p' "$dir/why")"
      exit 74
    }
    key=$(grep -x '[0-9a-f]\{64\}' "$dir/key" | sed -n '$p')
    [ -n "$key" ] || {
      cv_say 'kubeadm gave no key of the certificates'
      exit 1
    }
  fi
  cv_bounded 30 kubeadm --kubeconfig "$conf" token create --ttl 15m --description 'converge: one join' >"$dir/token" 2>"$dir/why" </dev/null || {
    cv_say "the API does not answer yet: $(sed -n '$p' "$dir/why")"
    exit 74
  }
  token=$(grep -x '[a-z0-9]\{6\}\.[a-z0-9]\{16\}' "$dir/token" | sed -n '$p')
  [ -n "$token" ] || {
    cv_say 'kubeadm gave no token'
    exit 1
  }
  printf 'token %s\nca %s\n' "$token" "$ca"
  [ -z "$key" ] || printf 'key %s\n' "$key"
)
