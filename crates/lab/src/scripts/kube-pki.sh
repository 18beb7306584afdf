# The certificates and kubeconfigs of a disposable API server, named as kubeadm names them. What is there is kept.
# Arguments: directory api-port days-of-the-administrator (-1: expired a day ago)
set -eu
umask 077
directory=$1 port=$2 days=$3
pki=$directory/pki
mkdir -p "$pki"
cd "$pki"

# Without the extensions that the system's own configuration would add.
printf '[req]\ndistinguished_name = name\n[name]\n' >req.cnf
# request KEY SUBJECT WORD...: makes the new key KEY and a certificate or request of SUBJECT; the words go to openssl. Reads req.cnf, writes
# request.log, and sets request_key and request_subject. On a failure it prints the log on standard error and ends the script.
request() {
  request_key=$1 request_subject=$2
  shift 2
  openssl req -config req.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$request_key" \
    -subj "$request_subject" "$@" 2>request.log || {
    cat request.log >&2
    exit 1
  }
}
# authority NAME SUBJECT: NAME.key and NAME.crt of a new authority, unless NAME.crt is there.
authority() {
  [ -e "$1.crt" ] || request "$1.key" "$2" -x509 -days 365 -out "$1.crt" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,digitalSignature,keyCertSign
}
# certificate NAME AUTHORITY SUBJECT DAYS USES [NAMES]: NAME.key and NAME.crt, signed with AUTHORITY.key, unless NAME.crt is there. Writes
# request.log; on a failure it prints it on standard error and ends the script.
certificate() {
  [ ! -e "$1.crt" ] || return 0
  request "$1.key" "$3" -new -out "$1.csr" -addext keyUsage=critical,digitalSignature -addext "extendedKeyUsage=$5" \
    ${6:+-addext "subjectAltName=$6"}
  # The serial is random: two authorities of one name must not give one number twice.
  openssl x509 -req -in "$1.csr" -copy_extensions copy -CA "$2.crt" -CAkey "$2.key" -days "$4" -out "$1.crt" \
    -set_serial "0x$(od -An -N8 -tx1 /dev/urandom | tr -d ' ')" 2>request.log || {
    cat request.log >&2
    exit 1
  }
  rm -f "$1.csr"
}
# kubeconfig FILE USER CERTIFICATE: replaces FILE by a kubeconfig with CERTIFICATE.crt, CERTIFICATE.key and ca.crt. Reads $port.
kubeconfig() {
  cat >"$1.new" <<END
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority-data: $(base64 -w0 ca.crt)
    server: https://127.0.0.1:$port
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: $2
  name: $2@kubernetes
current-context: $2@kubernetes
users:
- name: $2
  user:
    client-certificate-data: $(base64 -w0 "$3.crt")
    client-key-data: $(base64 -w0 "$3.key")
END
  mv "$1.new" "$1"
}

authority ca /CN=kubernetes
authority front-proxy-ca /CN=front-proxy-ca
names=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
certificate apiserver ca /CN=kube-apiserver 365 serverAuth "$names,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1"
certificate apiserver-kubelet-client ca /O=system:masters/CN=kube-apiserver-kubelet-client 365 clientAuth
certificate front-proxy-client front-proxy-ca /CN=front-proxy-client 365 clientAuth
certificate controller-manager ca /CN=system:kube-controller-manager 365 clientAuth
certificate scheduler ca /CN=system:kube-scheduler 365 clientAuth
certificate super-admin ca /O=system:masters/CN=kubernetes-super-admin 365 clientAuth
# The administrator's is made anew each time: its life is what a test chooses.
rm -f admin.crt
certificate admin ca /O=system:masters/CN=kubernetes-admin "$days" clientAuth
if [ ! -e sa.pub ]; then
  openssl ecparam -name prime256v1 -genkey -noout -out sa.key
  openssl ec -in sa.key -pubout -out sa.pub 2>/dev/null
fi
kubeconfig "$directory/admin.conf" kubernetes-admin admin
kubeconfig "$directory/super-admin.conf" kubernetes-super-admin super-admin
kubeconfig "$directory/controller-manager.conf" system:kube-controller-manager controller-manager
kubeconfig "$directory/scheduler.conf" system:kube-scheduler scheduler
rm -f "$pki/req.cnf" "$pki/request.log"
