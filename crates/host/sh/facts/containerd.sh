cv_fact_program containerd
cv_fact_config containerd /etc/containerd/config.toml /var/lib/rancher/k3s/agent/etc/containerd/config.toml \
  /var/lib/rancher/rke2/agent/etc/containerd/config.toml /var/lib/k8s-containerd/k8s-containerd/etc/containerd/config.toml \
  /var/snap/k8s/common/etc/containerd/config.toml
# Every containerd of this host that runs, with its command line, and the effective configuration of each; without one, that of the program on PATH.
# Those of containers have other process numbers there, and are not meant.
{
  # cv_fact_dump PROGRAM WORD...: of the effective configuration the sections, the socket and what the runtimes are.
  cv_fact_dump() {
    timeout -k 2 20 "$@" config dump </dev/null |
      sed -n -e 's/^ *\(\[.*\)/containerd.dump=\1/p' \
        -e 's/^ *\(\(address\|BinaryName\|SystemdCgroup\|default_runtime_name\|runtime_type\) *=.*\)/containerd.dump=\1/p'
  }
  cvf_n=
  cvf_u=$(readlink /proc/self/ns/pid)
  for cvf_d in /proc/[0-9]*; do
    cv_fact_file "$cvf_d/comm"
    [ "$cvf_v" = containerd ] && [ "$(readlink "$cvf_d/ns/pid")" = "$cvf_u" ] || continue
    cvf_n=yes
    cvf_p=$(readlink "$cvf_d/exe")
    printf 'containerd.runs=%s\n' "${cvf_p% (deleted)}"
    cvf_c=
    cvf_k=
    while IFS= read -r cvf_v; do
      printf 'containerd.word=%s\n' "$cvf_v"
      case $cvf_v in
      --config=* | -c=*) cvf_c=${cvf_v#*=} ;;
      *) case $cvf_k in --config | -c) cvf_c=$cvf_v ;; esac ;;
      esac
      cvf_k=$cvf_v
    done <<END
$(tr '\000' '\n' <"$cvf_d/cmdline")
END
    printf 'containerd.cgroup=%s\n' "$(grep -m 1 '\.service' "$cvf_d/cgroup")"
    printf 'containerd.runs_version=%s\n' "$(timeout -k 2 20 "$cvf_d/exe" --version </dev/null)"
    cv_fact_dump "$cvf_d/exe" ${cvf_c:+--config "$cvf_c"}
  done
  if [ -z "$cvf_n" ] && cv_fact_has containerd; then cv_fact_dump containerd; fi
} 2>/dev/null
echo end=containerd
