# Kubernetes as kubeadm has set it up: what the control plane runs with, which settings let everyone in, and when its certificates end.
{
  cvf_d=/etc/kubernetes
  for cvf_v in kube-controller-manager kube-apiserver; do
    [ -r "$cvf_d/manifests/$cvf_v.yaml" ] || continue
    printf 'kubernetes.runs=%s\n' "$cvf_v"
    sed -n -e 's/^ *- --cluster-cidr=/kubernetes.pod_cidr=/p' -e 's/^ *- --service-cluster-ip-range=/kubernetes.service_cidr=/p' \
      "$cvf_d/manifests/$cvf_v.yaml"
  done
  cv_fact_open "$cvf_d" /var/lib/kubelet | sed 's/^/kubernetes.open=/'
  if [ -d "$cvf_d" ] && cv_fact_has openssl; then
    printf 'kubernetes.now=%s\n' "$(date +%s)"
    cvf_v=$(
      cv_fact_renewed "$cvf_d"
      for cvf_p in "$cvf_d"/pki/ca.crt "$cvf_d"/pki/front-proxy-ca.crt "$cvf_d"/pki/etcd/ca.crt /var/lib/kubelet/pki/kubelet-client-current.pem; do
        [ ! -r "$cvf_p" ] || echo "$cvf_p"
      done
    )
    cvf_ends=$(cv_fact_ends "$cvf_v")
    printf '%s\n' "$cvf_v" '' "$cvf_ends" | awk '$0 == "" { ends = NR } !ends { file[NR] = $0 } ends && $0 { print "kubernetes.certificate=" file[NR - ends] "|" $0 }'
  fi
} 2>/dev/null
echo end=kubernetes
