# --- kubeadm_control_plane ---
# The programs of which kubeadm writes the manifests.
cv_plane_parts() { printf '%s\n' kube-apiserver kube-controller-manager kube-scheduler; }

# For root alone, and gone with the node: `kubeadm reset` empties the folder of the kubelet.
cv_plane_dir() { printf '%s/control-plane-by-converge\n' "$CV_KUBELET_DIR"; }

# cv_plane_kept LINE: the folder with the files of a control plane in this state.
cv_plane_kept() { printf '%s/%s\n' "$(cv_plane_dir)" "before-$(printf '%s' "$1" | sha256sum | cut -c1-64)"; }

# cv_plane_names CERTIFICATE: the names in it, a line each.
cv_plane_names() {
  [ ! -e "$1" ] ||
    openssl x509 -noout -ext subjectAltName -in "$1" 2>/dev/null | tr ',' '\n' | sed -n 's/^ *\(DNS\|IP Address\)://p'
}

# cv_plane_declared: the declaration that the manifests were made from. Earlier versions of role k8s kept it in a file of its own.
cv_plane_declared() { cat "$(cv_plane_dir)/declared" 2>/dev/null || cat "$CV_KUBE_DIR/control-plane-by-converge.json" 2>/dev/null || echo -; }

# cv_plane_words PROGRAM: its arguments, and a digest of its manifest for all else, such as volumes. An upgrade changes the image.
cv_plane_words() {
  cv_fact_arguments "$CV_KUBE_DIR/manifests/$1.yaml" | sed "s/^/$1:/"
  [ ! -e "$CV_KUBE_DIR/manifests/$1.yaml" ] ||
    printf 'manifest:%s=%s\n' "$1" "$(sed '/^ *image:/d' "$CV_KUBE_DIR/manifests/$1.yaml" | sha256sum | cut -c1-64)"
}

cv_see_kubeadm_control_plane() (
  for key; do
    cv_kubeadm_has_plane || {
      echo '- absent'
      continue
    }
    if [ ! -r "$CV_KUBE_DIR/manifests/kube-apiserver.yaml" ]; then
      cv_fail_all "$CV_KUBE_DIR/manifests cannot be read: root is needed (become: true)" "$key"
      continue
    fi
    cv_kubeadm_needs_openssl "$key" || continue
    cv_enc_to "$(cv_plane_declared)"
    line="- plane $CV_ENC"
    while IFS= read -r word; do
      [ -n "$word" ] || continue
      cv_enc_to "$word"
      line="$line $CV_ENC"
    done <<EOF_OF_WORDS
$(for part in $(cv_plane_parts); do cv_plane_words "$part"; done)
$(cv_plane_names "$CV_KUBE_DIR/pki/apiserver.crt" | sed 's/^/name:/')
EOF_OF_WORDS
    printf '%s\n' "$line"
  done
)

cv_line_kubeadm_control_plane() { cv_line_of "$(cv_see_kubeadm_control_plane "$1")"; }

# The manifests, and the certificate with its key. The ten states before this one stay.
cv_save_kubeadm_control_plane() (
  case $2 in 'plane '*) ;; *) return 0 ;; esac
  umask 077
  kept=$(cv_plane_kept "$2")
  mkdir -p "${kept%/*}" && rm -rf "$kept.part" && mkdir "$kept.part" || return 1
  for file in $(cv_plane_parts | sed 's|.*|manifests/&.yaml|') pki/apiserver.crt pki/apiserver.key; do
    [ ! -e "$CV_KUBE_DIR/$file" ] || cp -p "$CV_KUBE_DIR/$file" "$kept.part/" || return 1
  done
  rm -rf "$kept" && mv "$kept.part" "$kept" || return 1
  # shellcheck disable=SC2012
  ls -dt "${kept%/*}"/before-* | sed 1,10d | while IFS= read -r old; do rm -rf "$old"; done
)

cv_restore_kubeadm_control_plane() { cv_apply_kubeadm_control_plane "$1" "$2"; }

# cv_same_kubeadm_control_plane KEY NOW PLANNED: a plan knows what must be among the words, and what (after ^) must not. Of a state in the middle of a
# step the files come back that were there.
cv_same_kubeadm_control_plane() (
  case $2:$3 in 'plane begun '*':plane begun '*)
    cv_amid_kubeadm_control_plane "$3" "$2" "$2"
    return
    ;;
  esac
  case $3 in 'plane '*' ~' | 'plane '*' ~ '*) ;; *) return 1 ;; esac
  case $2 in "${3%% ~*}" | "${3%% ~*} "*) ;; *) return 1 ;; esac
  words=${3#* "~"}
  # The run splits at line feeds alone.
  IFS=' '
  set -f
  for word in $words; do
    case $word in
    ^*) case "$2 " in *" ${word#^} "*) return 1 ;; esac ;;
    '\0136'*) case "$2 " in *" ${word#?0136} "*) return 1 ;; esac ;;
    *) case "$2 " in *" $word "*) ;; *) return 1 ;; esac ;;
    esac
  done
)

# cv_amid_kubeadm_control_plane FOUND FROM TO: whether an interrupted step between these states may leave that one; as in kubeadm_control_plane.rs.
cv_amid_kubeadm_control_plane() (
  case $1 in 'plane begun '*) ;; *) return 1 ;; esac
  number=0
  for line; do
    cv_split_by ' '
    # shellcheck disable=SC2046
    set -- $(cv_plane_rest "$line")
    cv_split_end
    for word; do
      cv_dec_to "$word"
      printf '%s %s\n' "$number" "$CV_DEC"
    done
    number=$((number + 1))
  done | awk -v files="$(cv_plane_parts | tr '\n' ' ') name" '
    function file_of(word) {
      if (index(word, "manifest:") == 1) { sub(/^manifest:/, "", word); sub(/=.*/, "", word) } else sub(/:.*/, "", word)
      return word
    }
    { n = $1; word = substr($0, 3) }
    word == "~" { open[n]; next }
    (n in open) && sub(/^\^/, "", word) { gone[n, word]; next }
    ((n, word) in has) { next }
    { has[n, word]; many[n, file_of(word)]++ }
    n == 0 && index(word, "manifest:") != 1 { filled[file_of(word)] }
    # Whether the words of the file are those that it has in the state of the number.
    function is(n, file,   both, key) {
      for (key in has) {
        split(key, both, SUBSEP)
        if (both[1] != n || file_of(both[2]) != file) continue
        if (!((0, both[2]) in has)) return 0
      }
      for (key in gone) {
        split(key, both, SUBSEP)
        if (both[1] == n && file_of(both[2]) == file && ((0, both[2]) in has)) return 0
      }
      return (n in open) || many[n, file] == many[0, file]
    }
    END {
      c = split(files, each, " ")
      for (i = 1; i <= c; i++) if ((each[i] in filled) && !is(1, each[i]) && !is(2, each[i])) exit 1
    }'
)

# cv_plane_record WORD: what the manifests were made from.
cv_plane_record() {
  cv_dec_to "$1"
  if [ "$CV_DEC" = - ]; then rm -f "$(cv_plane_dir)/declared"; else cv_write_record "$(cv_plane_dir)/declared" "$CV_DEC"; fi
}

# cv_plane_rest LINE: the words after the record.
cv_plane_rest() {
  cv_p_rest=${1#plane }
  case $cv_p_rest in *' '*) printf '%s\n' "${cv_p_rest#* }" ;; esac
}

# cv_plane_healthy PROGRAM: asks the controller manager or the scheduler as the kubelet does: one that ends again and again runs now and then.
cv_plane_healthy() {
  case $1 in
  kube-controller-manager) port=10257 ;;
  kube-scheduler) port=10259 ;;
  *) return 0 ;;
  esac
  arguments=$(cv_fact_arguments "$CV_KUBE_DIR/manifests/$1.yaml")
  asked=$(printf '%s\n' "$arguments" | sed -n 's/^--secure-port=//p')
  address=$(printf '%s\n' "$arguments" | sed -n 's/^--bind-address=//p')
  case $address in '' | 0.0.0.0 | ::) address=127.0.0.1 ;; *:*) address="[$address]" ;; esac
  [ "$asked" = 0 ] ||
    cv_bounded 10 kubectl --cache-dir=/dev/null --kubeconfig "$CV_KUBE_DIR/controller-manager.conf" --server="https://$address:${asked:-$port}" --insecure-skip-tls-verify get --raw /healthz >/dev/null 2>&1 </dev/null
}

# cv_plane_served PARTS PROCESSES: waits until these processes have ended, these programs run and are healthy, and the API server of this host
# answers.
cv_plane_served() (
  cv_kubeadm_answers "$2" || return 1
  second=0
  for part in $1; do
    until [ -n "$(cv_kubeadm_pods "$part")" ] && cv_plane_healthy "$part"; do
      second=$((second + 1))
      [ "$second" -lt "$CV_KUBE_PATIENCE" ] || {
        cv_say "$part does not run and answer within $CV_KUBE_PATIENCE s: see its log below /var/log/pods"
        return 1
      }
      sleep 1
    done
  done
)

# cv_apply_kubeadm_control_plane KEY LINE. Reads CV_KUBEADM_CONFIG (kubeadm's documents) for a planned state; any other one is the previous one.
cv_apply_kubeadm_control_plane() (
  umask 077
  is=$(cv_line_kubeadm_control_plane "$1") || return 1
  [ "$is" != "$2" ] || return 0
  cv_kubeadm_needs_plane "$is" || return 1
  case $2 in 'plane '*) ;; *)
    cv_say "nobody can bring a control plane to the state '$2'"
    return 1
    ;;
  esac
  word=${2#plane }
  word=${word%% *}
  if [ "$(cv_plane_rest "$is")" = "$(cv_plane_rest "$2")" ]; then
    cv_plane_record "$word"
    return
  fi
  # A run that is cut off here has the next one make all of it anew.
  cv_plane_record begun || return 1
  # shellcheck disable=SC2046
  processes=$(cv_kubeadm_pods $(cv_plane_parts))
  now=$CV_KUBE_RUN/now
  rm -rf "$CV_KUBE_RUN"
  mkdir -m 700 "$CV_KUBE_RUN" "$now" || return 1
  trap 'rm -rf "$CV_KUBE_RUN"' EXIT
  cp -p "$CV_KUBE_DIR"/manifests/kube-*.yaml "$now/" || return 1
  case " $(cv_plane_rest "$2")" in
  ' ~' | ' ~ '*) cv_plane_anew || return 1 ;;
  *) cv_plane_back "$2" || return 1 ;;
  esac
  changed=
  for part in $(cv_plane_parts); do
    cmp -s "$now/$part.yaml" "$CV_KUBE_DIR/manifests/$part.yaml" || changed="$changed $part"
  done
  # The kubelet starts anew what has another manifest. The certificate is read at the start.
  case $changed in *kube-apiserver*) ;; *)
    changed="$changed kube-apiserver"
    for process in $(cv_kubeadm_pods kube-apiserver); do kill "${process##*/}"; done
    ;;
  esac
  ended=
  for process in $processes; do
    program=$(readlink "$process/exe") || continue
    case " $changed " in *" ${program##*/} "*) ended="$ended $process" ;; esac
  done
  cv_plane_served "$changed" "$ended" && cv_plane_record "$word"
)

# kubeadm writes the certificate and the manifests. It keeps a certificate that is there, whatever its names are.
cv_plane_anew() {
  [ -n "${CV_KUBEADM_CONFIG:-}" ] || {
    cv_say 'a planned state of a control plane is nothing to come back to: run converge'
    return 1
  }
  printf '%s\n' "$CV_KUBEADM_CONFIG" >"$CV_KUBE_RUN/config" || return 1
  for file in apiserver.crt apiserver.key; do
    [ ! -e "$CV_KUBE_DIR/pki/$file" ] || mv "$CV_KUBE_DIR/pki/$file" "$CV_KUBE_RUN/" || return 1
  done
  cv_bounded 120 kubeadm init phase certs apiserver --config "$CV_KUBE_RUN/config" </dev/null || {
    cv_say 'kubeadm makes no certificate: the one before stays'
    mv "$CV_KUBE_RUN"/apiserver.* "$CV_KUBE_DIR/pki/"
    return 1
  }
  cv_bounded 120 kubeadm init phase control-plane all --config "$CV_KUBE_RUN/config" </dev/null
}

# cv_plane_back LINE: the previous manifests, with the present images: an upgrade in between stays. The previous certificate, unless the
# present one has the same names: it ends later.
cv_plane_back() {
  kept=$(cv_plane_kept "$1")
  [ -e "$kept/kube-apiserver.yaml" ] || {
    cv_say "what the control plane's manifests were before is no longer kept in $kept"
    return 1
  }
  # A step that was cut off may have left files empty, or none.
  if [ -s "$kept/apiserver.crt" ] && [ "$(cv_plane_names "$kept/apiserver.crt")" != "$(cv_plane_names "$CV_KUBE_DIR/pki/apiserver.crt")" ]; then
    for file in apiserver.crt apiserver.key; do
      [ ! -e "$kept/$file" ] || { cp -p "$kept/$file" "$CV_KUBE_DIR/pki/.$file.converge" && mv "$CV_KUBE_DIR/pki/.$file.converge" "$CV_KUBE_DIR/pki/$file"; } ||
        return 1
    done
  fi
  for part in $(cv_plane_parts); do
    manifest=$CV_KUBE_DIR/manifests/$part.yaml new=$CV_KUBE_DIR/manifests/.$part.converge
    [ -s "$kept/$part.yaml" ] || continue
    image=$(cat "$manifest" "$kept/$part.yaml" 2>/dev/null | sed -n 's/^ *image: *//p' | sed -n 1p)
    sed "s|^\( *image: *\).*|\1$image|" "$kept/$part.yaml" >"$new" || return 1
    if cmp -s "$new" "$manifest"; then rm -f "$new"; else mv "$new" "$manifest" || return 1; fi
  done
}
