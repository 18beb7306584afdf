# Kubernetes as kubeadm has set it up: what the control plane runs with, and when its certificates end.
{
cvf_d=/etc/kubernetes
for cvf_v in kube-controller-manager kube-apiserver; do
  [ -r "$cvf_d/manifests/$cvf_v.yaml" ] || continue
  printf 'kubernetes.runs=%s\n' "$cvf_v"
  sed -n -e 's/^ *- --cluster-cidr=/kubernetes.pod_cidr=/p' -e 's/^ *- --service-cluster-ip-range=/kubernetes.service_cidr=/p' \
    "$cvf_d/manifests/$cvf_v.yaml"
done
cvf_end() { cvf_v=$(openssl x509 -noout -enddate) && printf 'kubernetes.certificate=%s|%s\n' "$1" "${cvf_v#notAfter=}"; }
# Those that `kubeadm certs renew` renews: the authorities are not among them.
if [ -d "$cvf_d" ] && cvf_has openssl; then
  printf 'kubernetes.now=%s\n' "$(date +%s)"
  for cvf_p in "$cvf_d"/pki/*.crt "$cvf_d"/pki/etcd/*.crt; do
    case $cvf_p in *ca.crt) continue;; esac
    if [ -r "$cvf_p" ]; then cvf_end "$cvf_p" <"$cvf_p"; fi
  done
  for cvf_p in admin super-admin controller-manager scheduler; do
    cvf_p=$cvf_d/$cvf_p.conf
    [ -r "$cvf_p" ] || continue
    sed -n 's/^ *client-certificate-data: *//p' "$cvf_p" | base64 -d | cvf_end "$cvf_p"
  done
fi
} 2>/dev/null
echo end=kubernetes
