# Settings that let everyone in. Facts and doctor read them with it.
# cv_fact_arguments MANIFEST: the arguments in the manifest of a static pod, a line each.
cv_fact_arguments() {
  sed -n -e "/^ *- *'--.*' *$/{s/^ *- *'\(.*\)' *$/\1/;s/''/'/g;p;b" -e '}' \
    -e '/^ *- *"--.*" *$/{s/^ *- *"\(.*\)" *$/\1/;s/\\\(["\\]\)/\1/g;p;b' -e '}' -e 's/^ *- *\(--.*[^ ]\) *$/\1/p' "$1" 2>/dev/null
}
# cv_fact_open DIR KUBELET: a line for each such setting of the API server and of etcd, with their manifests in DIR/manifests, and of the kubelet,
# with its configuration KUBELET/config.yaml. Declared or not: who has declared what is not known here.
cv_fact_open() {
  if [ -e "$1/manifests/kube-apiserver.yaml" ]; then
    cv_fact_arguments "$1/manifests/kube-apiserver.yaml" | awk '
      /^--authorization-(mode|config)=/ { asks = 1 }
      /^--authorization-mode=(.*,)?AlwaysAllow(,|$)/ || /^--(token-auth-file|basic-auth-file|insecure-bind-address)=/ || /^--insecure-port=[1-9]/ ||
        /^--service-account-lookup=false/ || /^--enable-admission-plugins=(.*,)?AlwaysAdmit(,|$)/ ||
        /^--disable-admission-plugins=(.*,)?NodeRestriction(,|$)/ { print "kube-apiserver has " $0 }
      END { if (!asks) print "kube-apiserver has no --authorization-mode" }'
  fi
  if [ -e "$1/manifests/etcd.yaml" ]; then
    for cvf_a in --client-cert-auth=true --peer-client-cert-auth=true; do
      cv_fact_arguments "$1/manifests/etcd.yaml" | grep -qxF -e "$cvf_a" || echo "etcd has no $cvf_a"
    done
  fi
  [ ! -e "$2/config.yaml" ] || awk '
    /^[^ #]/ { at = $1 }
    /^  [^ #]/ { below = $1 }
    { value = $2; gsub(/"/, "", value) }
    at == "authorization:" && /^  mode:/ && value == "AlwaysAllow" { print "kubelet has authorization.mode: AlwaysAllow" }
    at == "authentication:" && below == "anonymous:" && /^    enabled:/ && value == "true" { print "kubelet has authentication.anonymous.enabled: true" }
    /^readOnlyPort:/ && value ~ /^[1-9]/ { print "kubelet has readOnlyPort: " value }' "$2/config.yaml" 2>/dev/null
}
