cv_fact_program containerd
cv_fact_config containerd /etc/containerd/config.toml /var/lib/rancher/k3s/agent/etc/containerd/config.toml \
  /var/lib/rancher/rke2/agent/etc/containerd/config.toml /var/lib/k8s-containerd/k8s-containerd/etc/containerd/config.toml
echo end=containerd
