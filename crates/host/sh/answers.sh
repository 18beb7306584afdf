# --- what must answer after a guarded change ---

# cv_switch_before GUARD: what answers before the change: only that can break.
cv_switch_before() {
  [ "$1" = runtime ] || return 0
  if cv_runtime_containerd; then : >"$dir/was/containerd"; fi
  if cv_runtime_docker; then : >"$dir/was/docker"; fi
  if cv_runtime_crio; then : >"$dir/was/crio"; fi
  [ -e /etc/kubernetes/kubelet.conf ] && systemctl is-active --quiet kubelet.service || return 0
  cv_node_name
  cv_node_renewed >/dev/null || {
    cv_say "this host is a node, and its Lease cannot be read with kubelet's own credentials, so nobody could tell whether a change of its runtime is good: $cv_n_why"
    return 1
  }
  printf '%s\n' "$CV_NODE" >"$dir/was/node"
  if [ "$(cv_node_ready)" = True ]; then : >"$dir/was/ready"; fi
}

# cv_switch_answers GUARD: whether what answered before the change answers now. It waits as long as the window lasts.
cv_switch_answers() {
  [ "$1" = runtime ] || return 0
  cv_w_was=$CV_ROOT/switch/was
  for cv_w_name in containerd docker crio; do
    [ -e "$cv_w_was/$cv_w_name" ] || continue
    # A service that the change has stopped need not answer. One that died is `failed`, or starts again.
    [ "$(systemctl is-active "$cv_w_name.service" 2>/dev/null)" != inactive ] || continue
    until "cv_runtime_$cv_w_name"; do
      cv_switch_late "$cv_r_why" && return 1
    done
  done
  [ -e "$cv_w_was/node" ] || return 0
  read -r CV_NODE <"$cv_w_was/node"
  cv_w_first= cv_w_renewed= cv_w_since=
  while :; do
    # Renewed once is renewed.
    if [ "$cv_w_renewed" = "$cv_w_first" ]; then
      cv_w_renewed=$(cv_node_renewed) || cv_w_renewed=$cv_w_first
      [ -n "$cv_w_first" ] || cv_w_first=$cv_w_renewed
    fi
    cv_w_ready=$(cv_node_ready)
    cv_switch_clock
    [ -e "$cv_w_was/ready" ] || cv_w_ready=True
    if [ "$cv_w_ready" = True ]; then : "${cv_w_since:=$CV_UPTIME}"; else cv_w_since=; fi
    if [ "$cv_w_renewed" != "$cv_w_first" ]; then
      [ -z "$cv_w_since" ] || [ $((CV_UPTIME - cv_w_since)) -lt "${CV_NODE_HOLD:-60}" ] || return 0
    fi
    cv_w_why="the node $CV_NODE was not Ready for ${CV_NODE_HOLD:-60} s without a break (Ready is ${cv_w_ready:-not known} now)"
    [ "$cv_w_renewed" != "$cv_w_first" ] || cv_w_why="kubelet has not renewed the Lease of node $CV_NODE since"
    # Each look is a program of its own. Kubelet tells of itself every 10 s: no break of the node's Ready is shorter.
    cv_switch_late "$cv_w_why" 2 && return 1
  done
}

# cv_switch_late WHY [SECONDS]: after a nap, whether the window is over; then it says why.
cv_switch_late() {
  sleep "${2:-1}"
  cv_switch_clock
  # The time to say so, before the switch acts by itself.
  if cv_switch_read armed && [ $((CV_UPTIME + 3)) -lt "$sw_deadline" ]; then return 1; fi
  cv_say "$1"
}

# The plugin that serves CRI, as containerd itself says.
cv_runtime_containerd() {
  cv_r_said=$(timeout 10 ctr plugins ls 2>&1) || {
    cv_r_why="containerd does not answer: $(printf '%s' "$cv_r_said" | tail -n 1)"
    return 1
  }
  cv_r_said=$(printf '%s\n' "$cv_r_said" | awk '$1 == "io.containerd.grpc.v1" && $2 == "cri" { print $NF }')
  cv_r_why="containerd answers, and its plugin io.containerd.grpc.v1.cri is not ok (state: ${cv_r_said:-not loaded})"
  [ "$cv_r_said" = ok ]
}

# cv_runtime_docker: whether dockerd answers; the reason is in cv_r_why.
cv_runtime_docker() {
  cv_r_why='dockerd does not answer'
  timeout 10 docker version >/dev/null 2>&1
}

# cv_runtime_crio: whether cri-o answers; the reason is in cv_r_why.
cv_runtime_crio() {
  cv_r_why='cri-o does not answer'
  [ -S /run/crio/crio.sock ] && timeout 10 crictl --runtime-endpoint unix:///run/crio/crio.sock version >/dev/null 2>&1
}

# cv_node_get PATH: from the API, with kubelet's own credentials.
cv_node_get() {
  cv_n_conf=/etc/kubernetes/kubelet.conf
  if command -v kubectl >/dev/null 2>&1; then
    kubectl --cache-dir=/dev/null --kubeconfig "$cv_n_conf" --request-timeout=5s get --raw "$1" 2>&1
    return
  fi
  cv_n_key=$(sed -n 's/^ *client-key: *//p' "$cv_n_conf" | head -n 1)
  cv_n_cert=$(sed -n 's/^ *client-certificate: *//p' "$cv_n_conf" | head -n 1)
  cv_n_server=$(sed -n 's/^ *server: *//p' "$cv_n_conf" | head -n 1)
  curl -sSf -m 5 --cacert /etc/kubernetes/pki/ca.crt --cert "$cv_n_cert" --key "$cv_n_key" "$cv_n_server$1" 2>&1
}

# The node's name, in CV_NODE: what kubelet is told, else what the host is called.
cv_node_name() {
  CV_NODE=$(tr '\0' '\n' <"/proc/$(systemctl show -p MainPID kubelet.service | sed 's/.*=//')/cmdline" 2>/dev/null |
    sed -n 's/^--hostname-override=//p' | head -n 1)
  [ -n "$CV_NODE" ] || CV_NODE=$(uname -n | tr '[:upper:]' '[:lower:]')
}

# cv_node_renewed: prints when the Lease of CV_NODE was renewed; the answer is in cv_n_why.
cv_node_renewed() {
  cv_n_why=$(cv_node_get "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/$CV_NODE") || return 1
  cv_n_why=$(printf '%s' "$cv_n_why" | tr -d ' \n' | sed -n 's/.*"renewTime":"\([^"]*\)".*/\1/p')
  printf '%s\n' "$cv_n_why"
  [ -n "$cv_n_why" ]
}

# cv_node_ready: prints the status of Ready of CV_NODE.
cv_node_ready() {
  cv_node_get "/api/v1/nodes/$CV_NODE" | tr -d ' \n' | sed -n 's/.*"type":"Ready","status":"\([A-Za-z]*\)".*/\1/p'
}
