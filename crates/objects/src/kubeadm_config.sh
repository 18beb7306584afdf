# --- kubeadm_config ---

# cv_kubeadm_config_of KEY: the ConfigMap and its field, in CV_MAP and CV_FIELD.
cv_kubeadm_config_of() {
  case $1 in
  cluster) CV_MAP=kubeadm-config CV_FIELD=ClusterConfiguration ;;
  kubelet) CV_MAP=kubelet-config CV_FIELD=kubelet ;;
  kube_proxy) CV_MAP=kube-proxy CV_FIELD=config.conf ;;
  *) return 1 ;;
  esac
}

# cv_kubeadm_config_kube SECONDS WORD...
cv_kubeadm_config_kube() {
  cv_kc_limit=$1
  shift
  cv_bounded "$cv_kc_limit" kubectl --cache-dir=/dev/null --kubeconfig "$CV_KUBE_DIR/admin.conf" -n kube-system "$@"
}

# All documents, each after a line with its ConfigMap that begins with the byte 1. Several names make kubectl answer with a list.
CV_KUBEADM_CONFIGS='jsonpath={range .items[*]}{"\001"}{.metadata.name}{"\n"}{.data.ClusterConfiguration}{.data.kubelet}{.data.config\.conf}{end}'

# A control plane alone can say, and one whose init has not ended has nothing to say yet.
cv_see_kubeadm_config() (
  why=absent
  if [ ! -e "$CV_ROOT/kubeadm" ] && [ -e "$CV_KUBE_DIR/admin.conf" ] && [ -e "$CV_KUBE_DIR/manifests/kube-apiserver.yaml" ]; then
    [ -r "$CV_KUBE_DIR/admin.conf" ] || {
      cv_fail_all "$CV_KUBE_DIR/admin.conf cannot be read: root is needed (become: true)" "$@"
      return 0
    }
    all=$(cv_kubeadm_config_kube 20 get configmap kubeadm-config kubelet-config kube-proxy --ignore-not-found \
      -o "$CV_KUBEADM_CONFIGS" 2>/dev/null </dev/null) && why= || why=silent
  fi
  for key; do
    if ! cv_kubeadm_config_of "$key"; then
      cv_fail_all 'not a document of kubeadm' "$key"
      continue
    fi
    if [ -n "$why" ]; then
      echo "- $why"
      continue
    fi
    text=$(printf '%s\n' "$all" | awk -v map="$CV_MAP" 'BEGIN { RS = "\001" } { end = index($0, "\n") } substr($0, 1, end - 1) == map { printf "%s", substr($0, end + 1) }')
    if [ -z "$text" ]; then
      echo '- absent'
      continue
    fi
    word=text
    [ ! -e "$CV_ROOT/$CV_MAP.unread" ] || word=unread
    cv_enc_to "$text"
    printf -- '- %s %s\n' "$word" "$CV_ENC"
  done
)

cv_line_kubeadm_config() { cv_line_of "$(cv_see_kubeadm_config "$1")"; }

cv_save_kubeadm_config() { :; }

cv_restore_kubeadm_config() { cv_apply_kubeadm_config "$1" "$2"; }

# cv_apply_kubeadm_config KEY LINE. The mark outlives a run that is cut off: the next one restarts what has not read the text.
cv_apply_kubeadm_config() (
  cv_kubeadm_config_of "$1" || return 1
  is=$(cv_line_kubeadm_config "$1") || return 1
  [ "$is" != "$2" ] || return 0
  case $is in
  silent)
    cv_say 'the API server of the cluster does not answer'
    return 1
    ;;
  absent)
    cv_say "the cluster has no ConfigMap kube-system/$CV_MAP"
    return 1
    ;;
  esac
  case $2 in 'text '*) ;; *)
    cv_say "nobody can bring kube-system/$CV_MAP to the state '$2'"
    return 1
    ;;
  esac
  if [ "$1" = kube_proxy ]; then : >"$CV_ROOT/$CV_MAP.unread" || return 1; fi
  if [ "${is#* }" != "${2#* }" ]; then
    cv_dec_to "${2#* }"
    {
      printf 'data:\n  %s: |2\n' "$CV_FIELD"
      printf '%s\n' "$CV_DEC" | sed 's/^/    /'
    } | cv_kubeadm_config_kube 60 patch configmap "$CV_MAP" --type merge --patch-file /dev/stdin || return 1
  fi
  [ "$1" = kube_proxy ] || return 0
  cv_kubeadm_config_kube 60 rollout restart daemonset kube-proxy </dev/null || return 1
  rm -f "$CV_ROOT/$CV_MAP.unread"
  # A node that is down must not hold up the run: its pod follows when it is back.
  why=$(cv_kubeadm_config_kube 100 rollout status daemonset kube-proxy --timeout=90s 2>&1 </dev/null) ||
    cv_note "kube-proxy has not started anew on every node yet: $(printf '%s\n' "$why" | sed -n '$p')"
)
