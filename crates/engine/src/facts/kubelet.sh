cvf_program kubelet
cvf_config kubelet /var/lib/kubelet/config.yaml
echo end=kubelet
