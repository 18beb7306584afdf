# --- kubeadm_upgrade ---
CV_KUBELET_DIR=${CV_KUBELET_DIR:-/var/lib/kubelet}

# cv_kubeadm_upgrade_node NAME: reads this node from the API with its own credentials: `UNSCHEDULABLE ANNOTATION` in CV_NODE. Status 1: no answer.
cv_kubeadm_upgrade_node() {
  conf=$CV_KUBE_DIR/kubelet.conf
  # An upgrade restarts the API server.
  for try in 1 2 3 4 5; do
    CV_NODE=$(cv_kubeadm_kube --request-timeout=10s get node "$1" -o "$CV_CORDONED_OF" 2>&1 </dev/null) && return 0
    # It has not registered yet.
    case $CV_NODE in *'(NotFound)'*) CV_NODE=' ' && return 0 ;; esac
    [ "$try" = 5 ] || sleep 1
  done
  return 1
}

# cv_kubeadm_upgrade_line KEY: its line, printed. Reads `kubelet`, the version of the kubelet that is installed, and CV_NODE.
cv_kubeadm_upgrade_line() {
  case $1 in
  follow)
    # `kubeadm upgrade node` leaves no trace of its own. A kubelet that is newer has followed since.
    printf '%s\n' "$kubelet" "$(sed -n 1p "$CV_KUBELET_DIR/upgraded-by-converge" 2>/dev/null)" | grep '^v[0-9]' | sort -V | sed -n '$s/^/at /p' | grep . || echo 'at -'
    ;;
  drain:*)
    free=$(sed -n 1p "$CV_KUBELET_DIR/drained-by-converge" 2>/dev/null)
    case $free in
    v[0-9]*) [ "$free" = "$kubelet" ] || [ "${CV_NODE%% *}" != true ] || kubelet= ;;
    esac
    if [ -n "$kubelet" ]; then echo "runs $kubelet"; else echo "free $free"; fi
    ;;
  pods:*)
    case $CV_NODE in
    silent) echo silent ;;
    *' '?*)
      cv_enc_to "${CV_NODE#* }"
      echo "cordoned $CV_ENC"
      ;;
    'true '*) echo closed ;;
    *) echo open ;;
    esac
    ;;
  esac
}

cv_see_kubeadm_upgrade() (
  CV_NODE= of=
  for key; do
    case $key in follow | drain:?* | pods:?*) ;; *)
      cv_fail_all 'not a part of an upgrade' "$key"
      continue
      ;;
    esac
    if [ ! -e "$CV_KUBE_DIR/kubelet.conf" ] || [ -e "$CV_ROOT/kubeadm" ] || ! command -v kubelet >/dev/null 2>&1; then
      echo '- absent'
      continue
    fi
    if [ "$key" != follow ] && [ "${key#*:}" != "$of" ]; then
      of=${key#*:}
      cv_kubeadm_upgrade_node "$of" || CV_NODE=silent
    fi
    kubelet=$(cv_bounded 20 kubelet --version 2>/dev/null </dev/null)
    kubelet=${kubelet##* }
    printf -- '- %s\n' "$(cv_kubeadm_upgrade_line "$key")"
  done
)

cv_line_kubeadm_upgrade() { cv_line_of "$(cv_see_kubeadm_upgrade "$1")"; }

cv_save_kubeadm_upgrade() { :; }

# No version is taken back, and a node that takes pods is as it was.
cv_restore_kubeadm_upgrade() { :; }

# undo.sh passes over it.
cv_keeps_kubeadm_upgrade() { :; }

# cv_apply_kubeadm_upgrade KEY LINE. Reads CV_KUBEADM_IGNORE, and CV_KUBEADM_READY: the version that a node must run, Ready, before it takes pods
# again, and CV_KUBEADM_SECONDS for that. A drain reads on standard input what cv_kubeadm_free printed on a control plane.
cv_apply_kubeadm_upgrade() (
  is=$(cv_line_kubeadm_upgrade "$1") || return 1
  [ "$is" != "$2" ] || return 0
  case "$1 $2" in
  'follow at v'*)
    cv_bounded 1740 kubeadm upgrade node --ignore-preflight-errors="${CV_KUBEADM_IGNORE:-}" 2>&1 </dev/null || {
      cv_say "kubeadm upgrade node ended with status $?"
      return 1
    }
    echo "${2#at }" >"$CV_KUBELET_DIR/upgraded-by-converge"
    ;;
  'drain:'*' free v'*)
    free=
    IFS= read -r free
    [ "$free" = "free ${1#drain:}" ] || {
      cv_say 'no control plane says that the node is free of pods: its kubelet stays'
      return 1
    }
    echo "${2#free }" >"$CV_KUBELET_DIR/drained-by-converge"
    ;;
  'pods:'*' open') cv_kubeadm_upgrade_open "${1#pods:}" "$is" && rm -f "$CV_KUBELET_DIR/drained-by-converge" ;;
  *)
    cv_say "nobody can bring a node to the state '$2'"
    return 1
    ;;
  esac
)

# cv_kubeadm_upgrade_open NODE LINE: the node takes pods again; after an upgrade once it is Ready with the new version.
cv_kubeadm_upgrade_open() {
  conf=$CV_KUBE_DIR/kubelet.conf
  case $2 in
  'cordoned upgrade')
    end=$(($(date +%s) + ${CV_KUBEADM_SECONDS:-180}))
    until told=$(cv_kubeadm_kube --request-timeout=10s get node "$1" \
      -o 'jsonpath={.status.nodeInfo.kubeletVersion} {.status.conditions[?(@.type=="Ready")].status}' 2>/dev/null </dev/null) && [ "$told" = "${CV_KUBEADM_READY:-} True" ]; do
      [ "$(date +%s)" -lt "$end" ] || {
        cv_say "the node stays cordoned: its version and whether it is Ready are: ${told:-not known}"
        return 1
      }
      sleep 1
    done
    ;;
  'cordoned '*) ;;
  *)
    cv_say "it is not cordoned by converge ($2)"
    return 1
    ;;
  esac
  cv_kubeadm_uncordon "$1"
}
