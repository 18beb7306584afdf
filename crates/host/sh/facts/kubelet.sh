cv_fact_program kubelet
cv_fact_config kubelet /var/lib/kubelet/config.yaml
echo end=kubelet
