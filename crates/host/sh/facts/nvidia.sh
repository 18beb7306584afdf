# NVIDIA: nvidia-smi, and beside it what the kernel module says in /proc, which is there when nvidia-smi fails.
# shellcheck disable=SC2086
{
  cv_fact_line nvidia.proc /proc/driver/nvidia/version
  for cvf_d in /proc/driver/nvidia/gpus/*; do
    [ -r "$cvf_d/information" ] || continue
    printf 'nvidia.info=Slot: %s\n' "${cvf_d##*/}"
    while IFS= read -r cvf_v; do printf 'nvidia.info=%s\n' "$cvf_v"; done <"$cvf_d/information"
  done
  if cv_fact_has nvidia-smi; then
    echo nvidia.smi=yes
    # The name comes last: it alone may hold a comma. Drivers below 510 know no compute_cap.
    for cvf_q in index,uuid,driver_version,memory.total,pci.bus_id,mig.mode.current,compute_cap,name \
      index,uuid,driver_version,memory.total,pci.bus_id,mig.mode.current,name; do
      cvf_o=$(timeout -k 2 25 nvidia-smi --query-gpu=$cvf_q --format=csv,noheader,nounits 2>&1)
      cvf_c=$?
      if [ $cvf_c = 0 ]; then
        printf '%s\n' "$cvf_o" | while IFS= read -r cvf_v; do printf 'nvidia.gpu=%s,%s\n' "$cvf_q" "$cvf_v"; done
        break
      fi
    done
    if [ $cvf_c = 0 ]; then
      timeout -k 2 25 nvidia-smi -q -d COMPUTE | while IFS=: read -r cvf_k cvf_v; do
        case $cvf_k in 'CUDA Version'*) printf 'nvidia.cuda=%s\n' "$cvf_v" ;; esac
      done
      case $cvf_o in *Enabled*)
        timeout -k 2 25 nvidia-smi -L | while IFS= read -r cvf_v; do printf 'nvidia.list=%s\n' "$cvf_v"; done
        ;;
      esac
    elif [ $cvf_c = 124 ] || [ $cvf_c = 137 ]; then
      echo 'nvidia.problem=nvidia-smi gave no answer within 25 s'
    else
      printf '%s\n' "$cvf_o" | {
        read -r cvf_v
        printf 'nvidia.problem=%s\n' "$cvf_v"
      }
    fi
  fi
  if cv_fact_has nvidia-ctk; then nvidia-ctk --version | {
    IFS= read -r cvf_v
    printf 'nvidia.ctk=%s\n' "$cvf_v"
  }; fi
} 2>/dev/null
echo end=nvidia
