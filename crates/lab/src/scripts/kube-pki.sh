# The certificates and kubeconfigs of a throw-away API server, named as kubeadm names them. What is there is kept.
# Arguments: directory api-port days-of-the-administrator (-1: expired a day ago)
set -eu
umask 077
directory=$1 port=$2 days=$3
pki=$directory/pki
mkdir -p "$pki"
cd "$pki"

key() { [ -e "$1" ] || openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
authority() { # NAME SUBJECT
  [ ! -e "$1.crt" ] || return 0
  key "$1.key"
  openssl req -x509 -new -key "$1.key" -days 365 -subj "$2" -out "$1.crt" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,digitalSignature,keyCertSign
}
certificate() { # NAME AUTHORITY SUBJECT DAYS USES [NAMES]
  [ ! -e "$1.crt" ] || return 0
  key "$1.key"
  openssl req -new -key "$1.key" -subj "$3" -out "$1.csr"
  {
    echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=$5"
    [ -z "${6:-}" ] || echo "subjectAltName=$6"
  } > "$1.ext"
  # The serial is random: two authorities of one name must not give one number twice.
  openssl x509 -req -in "$1.csr" -CA "$2.crt" -CAkey "$2.key" -set_serial "0x$(openssl rand -hex 8)" -days "$4" \
    -extfile "$1.ext" -out "$1.crt" 2> "$1.log" || { cat "$1.log" >&2; exit 1; }
  rm -f "$1.csr" "$1.ext" "$1.log"
}
kubeconfig() { # FILE USER CERTIFICATE
  cat > "$1.new" << END
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
  openssl genrsa -out sa.key 2048 2> /dev/null
  openssl rsa -in sa.key -pubout -out sa.pub 2> /dev/null
fi
kubeconfig "$directory/admin.conf" kubernetes-admin admin
kubeconfig "$directory/super-admin.conf" kubernetes-super-admin super-admin
kubeconfig "$directory/controller-manager.conf" system:kube-controller-manager controller-manager
kubeconfig "$directory/scheduler.conf" system:kube-scheduler scheduler
