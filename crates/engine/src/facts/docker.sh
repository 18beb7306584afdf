cvf_program docker
cvf_config docker /etc/docker/daemon.json
echo end=docker
