# The floor of a first apply: what a careful person's script would do, after one tar has laid the files.
set -eu
umask 022
for directory in /etc/accel /etc/accel/conf.d /etc/accel/driver /etc/accel/links /etc/accel/monitor /etc/accel/slices \
  /etc/accel/collectives /etc/accel/rdma /etc/accel/health /etc/accel/keys /opt/accel /opt/accel/bin /opt/accel/lib \
  /opt/accel/share /opt/accel/etc /var/lib/accel /var/lib/accel/state /var/lib/accel/cache /var/lib/accel/dumps \
  /var/log/accel; do
  install -d -m 755 -o root -g root "$directory"
done
# line FILE PATTERN LINE: replaces each match by LINE, or appends LINE where nothing matches.
line() {
  touch "$1"
  if grep -qE "$2" "$1"; then sed -i -E "s|$2.*|$3|" "$1"; else echo "$3" >>"$1"; fi
}
line /etc/security/limits.conf '^\*\s+soft\s+memlock' '*  soft  memlock  unlimited'
line /etc/environment '^NCCL_DEBUG=' 'NCCL_DEBUG=WARN'
line /etc/login.defs '^UMASK' 'UMASK           027'
printf '%s\n' '# BEGIN accel-fabric' '10.99.1.1 switch-left' '10.99.1.2 switch-right' '# END accel-fabric' >>/etc/hosts
printf '%s\n' '# BEGIN accel-paths' 'export ACCEL_HOME=/opt/accel' 'export PATH=$PATH:/opt/accel/bin' '# END accel-paths' >>/root/.bashrc
DEBIAN_FRONTEND=noninteractive apt-get install -y -q curl less tree ethtool lsof >/dev/null
groupadd --gid 4200 accelops
useradd --uid 4200 --gid accelops --shell /bin/bash --create-home accelops
systemctl daemon-reload
systemctl -q enable --now accel-agent-a.service accel-agent-b.service accel-agent-c.service
echo north-7 >/var/lib/accel/fabric.id
echo exclusive >/var/lib/accel/state/mode
