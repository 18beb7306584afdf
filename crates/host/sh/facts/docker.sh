cv_fact_program docker
cv_fact_config docker /etc/docker/daemon.json
echo end=docker
