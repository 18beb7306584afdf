# The floor of a no-op: reads the state of all 63 resources of the workload in one go.
cd /
files="/etc/accel/conf.d/*.conf /etc/sysctl.d/9[012]-accel-*.conf /etc/systemd/system/accel-agent-[abc].service
  /etc/security/limits.conf /etc/environment /etc/login.defs /etc/hosts /root/.bashrc"
# shellcheck disable=SC2086
stat -c '%n %F %a %U %G %s %Y' /etc/accel /etc/accel/conf.d /etc/accel/driver /etc/accel/links /etc/accel/monitor \
  /etc/accel/slices /etc/accel/collectives /etc/accel/rdma /etc/accel/health /etc/accel/keys /opt/accel /opt/accel/bin \
  /opt/accel/lib /opt/accel/share /opt/accel/etc /var/lib/accel /var/lib/accel/state /var/lib/accel/cache \
  /var/lib/accel/dumps /var/log/accel $files /var/lib/accel/fabric.id 2>&1
# shellcheck disable=SC2086
sha256sum $files 2>&1
dpkg-query -W -f '${Package} ${db:Status-Status} ${Version}\n' curl less tree ethtool lsof 2>&1
systemctl show -p Id,ActiveState,SubState,UnitFileState,NeedDaemonReload,FragmentPath accel-agent-a accel-agent-b accel-agent-c
getent group accelops
getent passwd accelops
cat /var/lib/accel/state/mode 2>/dev/null
