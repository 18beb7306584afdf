# When certificates end. Objects, facts and doctor read them with it.
# The first certificate of a PEM file, or of a kubeconfig.
cv_fact_pem() {
  case $1 in
  *.conf) sed -n 's/^ *client-certificate-data: *//p' "$1" | base64 -d ;;
  *) sed -n '/^-----BEGIN CERT/,$p' "$1" ;;
  esac | sed '/^-----END CERT/q'
}
# cv_fact_ends FILES: when the certificates of these files, a line each, end: a line each, `-` where it cannot be read.
# One openssl for all of them: to start one takes longer than what it does. It stops where one cannot be read: then each for itself.
cv_fact_ends() {
  cvf_e=$(for cvf_p in $1; do cv_fact_pem "$cvf_p"; done | openssl storeutl -noout -text -certs /dev/stdin | sed -n 's/^ *Not After *: *//p')
  if [ "$(printf '%s\n' "$cvf_e" | grep -c .)" != "$(printf '%s\n' "$1" | grep -c .)" ]; then
    cvf_e=$(for cvf_p in $1; do cv_fact_pem "$cvf_p" | openssl x509 -noout -enddate || echo '=-'; done | sed 's/.*=//')
  fi
  printf '%s\n' "$cvf_e"
}
# cv_fact_renewed DIR: the files there whose certificates `kubeadm certs renew all` renews, a line each: the authorities are not among them.
cv_fact_renewed() {
  for cvf_p in pki/apiserver.crt pki/apiserver-etcd-client.crt pki/apiserver-kubelet-client.crt pki/front-proxy-client.crt \
    pki/etcd/healthcheck-client.crt pki/etcd/peer.crt pki/etcd/server.crt admin.conf super-admin.conf controller-manager.conf scheduler.conf; do
    [ ! -r "$1/$cvf_p" ] || printf '%s\n' "$1/$cvf_p"
  done
}
