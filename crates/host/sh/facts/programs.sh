# cv_fact_program NAME: version, unit and command line of a program that runs as a service.
cv_fact_program() {
  {
    if cv_fact_has "$1"; then
      printf '%s.path=%s\n' "$1" "$(command -v "$1")"
      # docker asks its daemon before it says its own version, and systemd starts a daemon that is asked.
      DOCKER_HOST=unix:///dev/null timeout -k 2 20 "$1" --version </dev/null | {
        IFS= read -r cvf_v
        printf '%s.version=%s\n' "$1" "$cvf_v"
      }
    fi
    if cv_fact_has systemctl; then
      cvf_p=
      for cvf_v in $(systemctl show "$1.service" -p ActiveState -p MainPID); do
        printf '%s.%s\n' "$1" "$cvf_v"
        case $cvf_v in MainPID=*) cvf_p=${cvf_v#*=} ;; esac
      done
      if [ -n "$cvf_p" ] && [ "$cvf_p" != 0 ] && [ -r "/proc/$cvf_p/cmdline" ]; then
        tr '\000' '\n' <"/proc/$cvf_p/cmdline" | while IFS= read -r cvf_v; do printf '%s.arg=%s\n' "$1" "$cvf_v"; done
      fi
    fi
  } 2>/dev/null
}
# cv_fact_config NAME FILE…: which of these are there.
cv_fact_config() {
  cvf_n=$1
  shift
  for cvf_v in "$@"; do if [ -f "$cvf_v" ]; then printf '%s.file=%s\n' "$cvf_n" "$cvf_v"; fi; done
}
