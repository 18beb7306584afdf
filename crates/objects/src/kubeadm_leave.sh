# --- kubeadm: the way out of a cluster ---
# cv_kubeadm_reset IS: takes this host out of its cluster, with the records and the network of the pods. A reset that is cut off is on record.
cv_kubeadm_reset() (
  marks=
  case $1 in 'control-plane '* | 'worker '*)
    cv_dec_to "${1#* }"
    marks=$(cv_kubeadm_marks)
    cv_write_record "$CV_ROOT/kubeadm" "leave $CV_DEC" || return 1
    ;;
  esac
  cv_bounded 600 kubeadm reset --force 2>&1 </dev/null || {
    status=$?
    cv_kubeadm_not_left "$1" "$status" "$marks"
    cv_say "kubeadm reset ended with status $status"
    return 1
  }
  rm -f "$CV_ROOT/kubeadm"
  # Files that kubeadm leaves: without a cluster the network of the pods has no meaning.
  for file in "${CV_CNI_DIR:-/etc/cni/net.d}"/*; do
    [ -f "$file" ] || continue
    rm -f "$file" && cv_note "removed ${file}: the network of the pods is gone with the cluster"
  done
  # Another folder means: not this machine's own network.
  [ -n "${CV_CNI_DIR:-}" ] || cv_kubeadm_unplug
)

# cv_kubeadm_marks: what a reset changes first: the process of the kubelet, and the files of kubeadm.
cv_kubeadm_marks() {
  systemctl show -p MainPID kubelet 2>/dev/null </dev/null
  find "$CV_KUBE_DIR" -exec stat -c '%n %i %Z' {} + 2>/dev/null
}

# cv_kubeadm_not_left IS STATUS MARKS: where kubeadm ended by itself before it did anything, no leave is begun. A worker that the cluster has let go is part of it
# again once its kubelet, which does so only when it starts, has registered it. A control plane is not: etcd has let its member go.
cv_kubeadm_not_left() {
  [ -n "$3" ] && [ "$2" != 124 ] && [ "$2" -le 128 ] && [ "$(cv_kubeadm_marks)" = "$3" ] || return 0
  case ${CV_KUBEADM_HOW:-}:$1 in
  leave:'worker '*)
    cv_bounded 60 systemctl restart kubelet 2>&1 </dev/null || return 0
    cv_note 'kubeadm has changed nothing here: the kubelet registers the node again'
    ;;
  leave:*) return 0 ;;
  esac
  rm -f "$CV_ROOT/kubeadm"
}

# cv_kubeadm_unplug: removes the rules and links of kube-proxy and the pods' network by name. Rules of others stay, and so do links that other networks made until the next
# restart of the host.
cv_kubeadm_unplug() {
  if [ -d /sys/class/net/cni0 ]; then cv_bounded 20 ip link delete cni0 2>/dev/null && cv_note 'removed the interface cni0'; fi
  for tool in iptables ip6tables; do
    command -v "$tool-save" >/dev/null 2>&1 && command -v "$tool-restore" >/dev/null 2>&1 || continue
    rules=$(cv_bounded 30 "$tool-save" 2>/dev/null </dev/null) || continue
    case $rules in *:KUBE-* | *:CNI-*) ;; *) continue ;; esac
    printf '%s\n' "$rules" | grep -Ev -e '^:(KUBE|CNI)-' -e '^-A (KUBE|CNI)-' -e ' -[jg] (KUBE|CNI)-' | cv_bounded 30 "$tool-restore" 2>/dev/null &&
      cv_note "removed the rules of $tool that Kubernetes had made"
  done
  return 0
}

# cv_kubeadm_knows NODE: whether the API knows the node. Ends the subshell with 74 where it is not known.
cv_kubeadm_knows() {
  cv_bounded 20 kubectl --cache-dir=/dev/null --kubeconfig "$conf" get node "$1" -o name >"$dir/node" 2>&1 </dev/null && return 0
  grep -qF '(NotFound)' "$dir/node" && return 1
  cv_say "the API does not answer yet: $(sed -n '$p' "$dir/node")"
  exit 74
}

# cv_kubeadm_etcd URL WORD...: kubectl speaks to etcd's own gateway: no other program is needed.
cv_kubeadm_etcd() {
  cv_k_url=$1
  shift
  cv_bounded 20 kubectl --cache-dir=/dev/null --kubeconfig /dev/null --server "$cv_k_url" --certificate-authority "$CV_KUBE_DIR/pki/etcd/ca.crt" \
    --client-certificate "$CV_KUBE_DIR/pki/etcd/healthcheck-client.crt" --client-key "$CV_KUBE_DIR/pki/etcd/healthcheck-client.key" "$@"
}

# The members of etcd, one a line, in $dir/members.
cv_kubeadm_members() {
  echo '{"linearizable":true}' | cv_kubeadm_etcd https://127.0.0.1:2379 create --raw /v3/cluster/member/list -f - >"$dir/etcd" 2>"$dir/why" || {
    cv_say "etcd does not list its members: $(sed -n '$p' "$dir/why")"
    exit 74
  }
  # Its blanks are not the same in all builds.
  tr -d '[:space:]' <"$dir/etcd" | tr '{' '\n' | grep '"ID":"[0-9]' >"$dir/members" || {
    cv_say "etcd's list of members is not understood"
    exit 1
  }
}

# cv_kubeadm_quorum NODE: ends the subshell unless etcd goes on without the node's member.
cv_kubeadm_quorum() {
  cv_kubeadm_members
  grep -vF "\"name\":\"$1\"" "$dir/members" >"$dir/rest" || {
    cv_say 'its etcd member is the last one: the cluster would end with it'
    exit 1
  }
  while IFS= read -r line; do
    name=$(printf '%s\n' "$line" | sed -n 's/.*"name":"\([^"]*\)".*/\1/p')
    url=$(printf '%s\n' "$line" | sed -n 's/.*"clientURLs":\["\([^"]*\)".*/\1/p')
    case $line in *'"isLearner":true'*) url= ;; esac
    [ -n "$url" ] && cv_kubeadm_etcd "$url" get --raw /health 2>/dev/null </dev/null | grep -q '"health": *"true"' || {
      cv_say "the etcd member ${name:-that has never started} is not healthy: without $1 etcd might have no quorum. Mend or remove that one first"
      exit 1
    }
  done <"$dir/rest"
}

# cv_kubeadm_confirm NODE: ends the subshell unless the node is the host that asks, which the controller knows by the names and addresses
# CV_FETCH_FOR. A node's name is a claim, of an inventory or of a host's records; the addresses are what the API, or etcd, tells of the node.
# Reads `stacked`.
cv_kubeadm_confirm() {
  case " ${CV_FETCH_FOR-} " in *" $1 "*) return 0 ;; esac
  if cv_kubeadm_knows "$1"; then
    told=$(cv_bounded 20 kubectl --cache-dir=/dev/null --kubeconfig "$conf" get node "$1" -o 'jsonpath={.status.addresses[*].address}' 2>"$dir/why" </dev/null) || {
      cv_say "the API does not tell the addresses of the node $1: $(sed -n '$p' "$dir/why")"
      exit 74
    }
  elif [ -n "$stacked" ]; then
    told=$(grep -F "\"name\":\"$1\"" "$dir/members" | sed -n 's|.*"peerURLs":\["https://\([^"]*\):[0-9]*".*|\1|p')
  else
    # Nobody is drained or deleted.
    return 0
  fi
  for own in ${CV_FETCH_FOR-}; do
    case " $told " in *" $own "*) return 0 ;; esac
  done
  cv_say "the node $1 has the addresses ${told:-(none)}, and the host that is to be this node is ${CV_FETCH_FOR:-unknown}: the node is left alone. Correct the node's name in the inventory, give the host the node's name or address there, or take the node out by hand"
  exit 1
}

# cv_kubeadm_let_go NODE ENDPOINT [FLAG]: on a control plane that stays: the node's pods, its etcd member and its object go, and `gone
# NODE` is printed when the API no longer knows it. Status 74: not yet. It may be asked again at any point.
cv_kubeadm_let_go() (
  umask 077
  cv_kubeadm_is_plane "$2"
  dir=$CV_KUBE_RUN-leave.$$
  mkdir -m 700 "$dir" || exit 1
  trap 'rm -rf "$dir"' EXIT
  stacked=
  if [ -e "$CV_KUBE_DIR/manifests/etcd.yaml" ]; then
    cv_kubeadm_members
    if grep -qF "\"name\":\"$1\"" "$dir/members"; then stacked=yes; fi
  fi
  cv_kubeadm_confirm "$1"
  [ -z "$stacked" ] || cv_kubeadm_quorum "$1"
  if cv_kubeadm_knows "$1"; then cv_kubeadm_drain "$1" leave ${3:+"$3"}; fi
  if [ -n "$stacked" ]; then
    # It may have become another while the pods went.
    cv_kubeadm_quorum "$1"
    cv_kubeadm_kube annotate node "$1" "$CV_CORDONED-" >/dev/null 2>&1 </dev/null
    id=$(grep -F "\"name\":\"$1\"" "$dir/members" | sed -n 's/.*"ID":"\([0-9]*\)".*/\1/p')
    [ -n "$id" ] && printf '{"ID":"%s"}\n' "$id" | cv_kubeadm_etcd https://127.0.0.1:2379 create --raw /v3/cluster/member/remove -f - >"$dir/etcd" 2>"$dir/why" || {
      cv_say "etcd does not remove its member: $(sed -n '$p' "$dir/why")"
      exit 74
    }
  fi
  if cv_kubeadm_knows "$1"; then
    cv_bounded 60 kubectl --cache-dir=/dev/null --kubeconfig "$conf" delete node "$1" >"$dir/node" 2>&1 </dev/null
    ! cv_kubeadm_knows "$1" || {
      cv_say "the node is not deleted yet: $(sed -n '$p' "$dir/node")"
      exit 74
    }
  fi
  printf 'gone %s\n' "$1"
)
