# Kubernetes as kubeadm has set it up: what the control plane runs with, and when its certificates end.
{
  cvf_d=/etc/kubernetes
  for cvf_v in kube-controller-manager kube-apiserver; do
    [ -r "$cvf_d/manifests/$cvf_v.yaml" ] || continue
    printf 'kubernetes.runs=%s\n' "$cvf_v"
    sed -n -e 's/^ *- --cluster-cidr=/kubernetes.pod_cidr=/p' -e 's/^ *- --service-cluster-ip-range=/kubernetes.service_cidr=/p' \
      "$cvf_d/manifests/$cvf_v.yaml"
  done
  # The files whose certificates `kubeadm certs renew` renews: the authorities are not among them.
  cv_fact_files() {
    for cvf_p in "$cvf_d"/pki/*.crt "$cvf_d"/pki/etcd/*.crt; do
      case $cvf_p in *ca.crt) ;; *) [ ! -r "$cvf_p" ] || echo "$cvf_p" ;; esac
    done
    for cvf_p in admin super-admin controller-manager scheduler; do
      [ ! -r "$cvf_d/$cvf_p.conf" ] || echo "$cvf_d/$cvf_p.conf"
    done
  }
  if [ -d "$cvf_d" ] && cv_fact_has openssl; then
    printf 'kubernetes.now=%s\n' "$(date +%s)"
    cvf_v=$(cv_fact_files)
    cvf_ends=$(cv_fact_ends "$cvf_v")
    printf '%s\n' "$cvf_v" '' "$cvf_ends" | awk '$0 == "" { ends = NR } !ends { file[NR] = $0 } ends && $0 { print "kubernetes.certificate=" file[NR - ends] "|" $0 }'
  fi
} 2>/dev/null
echo end=kubernetes
