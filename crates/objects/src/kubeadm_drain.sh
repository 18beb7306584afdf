# --- the drain of a node, by a control plane ---

# The annotation of a node that converge has cordoned; its value says for what: `leave` or `upgrade`.
CV_CORDONED=converge/cordoned-to
CV_CORDONED_OF='jsonpath={.spec.unschedulable} {.metadata.annotations.converge/cordoned-to}'

# cv_kubeadm_kube WORD...: kubectl with the kubeconfig $conf.
cv_kubeadm_kube() { cv_bounded 20 kubectl --cache-dir=/dev/null --kubeconfig "$conf" "$@"; }

# cv_kubeadm_keep NODE ENDPOINT PURPOSE: on a control plane: the removal or upgrade of the node does not happen: it takes pods again where converge has
# cordoned it for that. Of a node that leaves, the etcd member has not begun to go.
cv_kubeadm_keep() (
  cv_kubeadm_is_plane "$2"
  is=$(cv_kubeadm_kube get node "$1" -o "$CV_CORDONED_OF" 2>/dev/null </dev/null)
  [ "${is#* }" = "$3" ] || exit 0
  cv_kubeadm_uncordon "$1" || exit 1
  echo 'it takes pods again'
)

# cv_kubeadm_uncordon NODE: with $conf: the node takes pods, and its annotation goes. Prints the reason where it does not.
cv_kubeadm_uncordon() {
  cv_k_why=$(cv_kubeadm_kube uncordon "$1" 2>&1 </dev/null) || {
    cv_say "it stays cordoned: $cv_k_why"
    return 1
  }
  cv_kubeadm_kube annotate node "$1" "$CV_CORDONED-" >/dev/null 2>&1 </dev/null
}

# cv_kubeadm_drain NODE PURPOSE FLAG...: evicts the node's pods, within the budgets. Ends the subshell where they do not go. Uses $conf and $dir.
cv_kubeadm_drain() {
  cv_k_purpose=$2
  cv_k_node=$1
  shift 2
  set -- "$cv_k_node" --ignore-daemonsets "$@"
  # A refusal by drain itself is reported before the node is cordoned.
  cv_bounded 30 kubectl --cache-dir=/dev/null --kubeconfig "$conf" drain "$@" --dry-run=client >"$dir/drain" 2>&1 </dev/null || {
    cv_say "$(grep -F 'cannot delete' "$dir/drain" | sed -n '$p' | cv_kubeadm_remedy "$cv_k_purpose" | grep . || sed -n '$p' "$dir/drain")"
    exit 1
  }
  # Who has cordoned it stands on the node: a run that gives up, or the next one, knows.
  is=$(cv_kubeadm_kube get node "$cv_k_node" -o "$CV_CORDONED_OF" 2>/dev/null </dev/null)
  if [ "${is%% *}" != true ]; then
    cv_kubeadm_kube annotate --overwrite node "$cv_k_node" "$CV_CORDONED=$cv_k_purpose" >"$dir/drain" 2>&1 </dev/null || {
      cv_say "the node cannot be cordoned yet: $(sed -n '$p' "$dir/drain")"
      exit 74
    }
  fi
  # So long one try may take; the last one no longer than is left.
  cv_k_left=${CV_FETCH_SECONDS:-45}
  [ "$cv_k_left" -le 45 ] || cv_k_left=45
  cv_bounded 60 kubectl --cache-dir=/dev/null --kubeconfig "$conf" drain "$@" --timeout="${cv_k_left}s" >"$dir/drain" 2>&1 </dev/null && return 0
  line=$(grep 'error when evicting pods/' "$dir/drain" | sed -n '$p')
  pod=$(printf '%s\n' "$line" | sed -n 's|.*error when evicting pods/"\([^"]*\)".*|\1|p')
  space=$(printf '%s\n' "$line" | sed -n 's|.*error when evicting pods/"[^"]*" -n "\([^"]*\)".*|\1|p')
  if [ -z "$pod" ] || [ -z "$space" ]; then
    cv_say "the node is not drained yet: $(sed -n '$p' "$dir/drain")"
  else
    budgets=$(cv_kubeadm_kube -n "$space" get poddisruptionbudgets \
      -o 'jsonpath={range .items[?(@.status.disruptionsAllowed==0)]}{.metadata.name} {end}' 2>/dev/null </dev/null)
    cv_say "the pod $space/$pod stays on the node: no eviction is allowed by the budget ${budgets:-of its workload}"
  fi
  exit 74
}

# cv_kubeadm_remedy PURPOSE: kubectl's own remedies on standard input, in the words of the kind that asked.
cv_kubeadm_remedy() {
  unmanaged=
  [ "$1" != upgrade ] || unmanaged=' (unmanaged: true ends them)'
  sed -e "s/ (use --force to override)/$unmanaged/" -e 's/ (use --delete-emptydir-data to override)/ (delete_emptydir_data: true lets them go)/'
}

# cv_kubeadm_free NODE ENDPOINT FLAG...: on a control plane: the node's pods go for its upgrade; `free NODE` is printed when they have. Status 74: not yet.
cv_kubeadm_free() (
  umask 077
  cv_kubeadm_is_plane "$2"
  dir=$CV_KUBE_RUN-free.$$
  mkdir -m 700 "$dir" || exit 1
  trap 'rm -rf "$dir"' EXIT
  node=$1
  shift 2
  cv_kubeadm_knows "$node" || {
    cv_say "the cluster has no node $node"
    exit 1
  }
  stacked=
  cv_kubeadm_confirm "$node"
  cv_kubeadm_drain "$node" upgrade "$@"
  printf 'free %s\n' "$node"
)

# cv_kubeadm_leads VERSION ENDPOINT: on a control plane: prints the version of the cluster where it is this one. Status 75: it is another yet.
cv_kubeadm_leads() (
  cv_kubeadm_is_plane "$2"
  version=$(cv_kubeadm_kube -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}' 2>/dev/null </dev/null |
    sed -n 's/^kubernetesVersion:[[:blank:]]*//p')
  case $version in
  "$1") printf '%s\n' "$version" ;;
  '')
    # An upgrade restarts the API server.
    cv_say 'the cluster does not answer'
    exit 74
    ;;
  *)
    cv_say "the cluster has the version $version, and $1 comes first"
    exit 75
    ;;
  esac
)
