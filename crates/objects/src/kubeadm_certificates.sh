# --- kubeadm_certificates ---
CV_KUBELET_DIR=${CV_KUBELET_DIR:-/var/lib/kubelet}
CV_PROC=${CV_PROC:-/proc}
# Seconds within which an API server must answer that was started anew.
CV_KUBE_PATIENCE=${CV_KUBE_PATIENCE:-300}

# The mark outlives a run that is cut off: what reads the certificates when it starts is still to be started anew.
cv_kubeadm_unread() { printf '%s/restart-by-converge\n' "$CV_KUBELET_DIR"; }

# cv_kubeadm_has_plane: whether kubeadm has made a control plane here, and its init has ended.
cv_kubeadm_has_plane() { [ ! -e "$CV_ROOT/kubeadm" ] && [ -e "$CV_KUBE_DIR/manifests/kube-apiserver.yaml" ]; }

# cv_kubeadm_needs_plane LINE: status 1, and the reason, for the state of a host that is no control plane.
cv_kubeadm_needs_plane() {
  [ "$1" = absent ] || return 0
  cv_say 'this host is no control plane of kubeadm'
  return 1
}

# cv_kubeadm_needs_openssl KEY: status 1 where the host has none; the object has failed then.
cv_kubeadm_needs_openssl() {
  ! command -v openssl >/dev/null 2>&1 || return 0
  cv_fail_all 'this host has no openssl: install the package openssl' "$1"
  return 1
}

cv_see_kubeadm_certificates() (
  for key; do
    cv_kubeadm_has_plane || {
      echo '- absent'
      continue
    }
    files=$(cv_fact_renewed "$CV_KUBE_DIR")
    if [ -z "$files" ]; then
      cv_fail_all "no certificate can be read in $CV_KUBE_DIR: root is needed (become: true)" "$key"
      continue
    fi
    cv_kubeadm_needs_openssl "$key" || continue
    word="read"
    [ ! -e "$(cv_kubeadm_unread)" ] || word=unread
    line="- $word"
    while read -r end && read -r file <&3; do
      cv_enc_to "${file#"$CV_KUBE_DIR/"}"
      line="$line $CV_ENC"
      cv_enc_to "$end"
      line="$line $CV_ENC"
    done <<EOF 3<<EOF_OF_FILES
$(cv_fact_ends "$files" 2>/dev/null)
EOF
$files
EOF_OF_FILES
    printf '%s\n' "$line"
  done
)

cv_line_kubeadm_certificates() { cv_line_of "$(cv_see_kubeadm_certificates "$1")"; }

cv_save_kubeadm_certificates() { :; }

# A certificate that ends sooner is nothing to come back to.
cv_restore_kubeadm_certificates() { :; }

# undo.sh passes over it.
cv_keeps_kubeadm_certificates() { :; }

# A plan cannot know the new ends.
cv_same_kubeadm_certificates() {
  case $3 in 'read ~') ;; *) return 1 ;; esac
  case $2 in 'read '*) ;; *) return 1 ;; esac
}

# cv_kubeadm_pods PROGRAM...: the folders below /proc of the processes of pods that run one of these programs.
cv_kubeadm_pods() (
  for process in "$CV_PROC"/[0-9]*; do
    program=$(readlink "$process/exe") || continue
    for name; do
      [ "${program##*/}" != "$name" ] || ! grep -q kubepods "$process/cgroup" 2>/dev/null || printf '%s\n' "$process"
    done
  done
)

# cv_kubeadm_answers PROCESSES: waits until these have ended and the API server of this host answers.
# shellcheck disable=SC2086
cv_kubeadm_answers() (
  second=0
  while :; do
    left=
    for process in $1; do [ ! -e "$process" ] || left=$process; done
    if [ -z "$left" ] && cv_bounded 10 kubectl --cache-dir=/dev/null --kubeconfig "$CV_KUBE_DIR/controller-manager.conf" get --raw /readyz >/dev/null 2>&1 </dev/null; then
      return 0
    fi
    second=$((second + 1))
    [ $second -lt "$CV_KUBE_PATIENCE" ] || {
      cv_say "the API server of this host does not answer within $CV_KUBE_PATIENCE s: see its log below /var/log/pods"
      return 1
    }
    sleep 1
  done
)

# cv_apply_kubeadm_certificates KEY LINE: `read ~` renews them; any other line says that nothing is left to do but the restart.
cv_apply_kubeadm_certificates() (
  is=$(cv_line_kubeadm_certificates "$1") || return 1
  [ "$is" != "$2" ] || return 0
  cv_kubeadm_needs_plane "$is" || return 1
  case $2 in
  'read ~')
    : >"$(cv_kubeadm_unread)" || return 1
    cv_bounded 300 kubeadm certs renew all </dev/null || return 1
    new=$(cv_line_kubeadm_certificates "$1") || return 1
    [ "${new#* }" != "${is#* }" ] || {
      cv_say 'kubeadm has renewed no certificate'
      return 1
    }
    ;;
  'read '*) ;;
  *)
    cv_say "nobody can bring certificates to the state '$2'"
    return 1
    ;;
  esac
  # The kubelet starts anew what has ended.
  ended=$(cv_kubeadm_pods etcd kube-apiserver kube-controller-manager kube-scheduler)
  for process in $ended; do kill "${process##*/}"; done
  cv_kubeadm_answers "$ended" || return 1
  rm -f "$(cv_kubeadm_unread)"
)
