# AMD: the amdgpu module's files in /sys; amd-smi or rocm-smi add the name where they are there.
{
  cv_fact_line amd.driver /sys/module/amdgpu/version
  cv_fact_line amd.rocm /opt/rocm/.info/version
  for cvf_d in /sys/class/drm/card*; do
    case ${cvf_d##*/} in *-*) continue ;; esac
    cv_fact_file "$cvf_d/device/vendor"
    [ "$cvf_v" = 0x1002 ] || continue
    cvf_p=$(readlink -f "$cvf_d/device")
    cv_fact_file "$cvf_d/device/device"
    cvf_n=$cvf_v
    cv_fact_file "$cvf_d/device/mem_info_vram_total"
    cvf_m=$cvf_v
    cv_fact_file "$cvf_d/device/unique_id"
    cvf_u=$cvf_v
    cv_fact_file "$cvf_d/device/product_name"
    printf 'amd.card=%s|%s|%s|%s|%s|%s\n' "${cvf_d##*/}" "${cvf_p##*/}" "$cvf_n" "$cvf_m" "$cvf_u" "$cvf_v"
  done
  for cvf_d in /sys/class/kfd/kfd/topology/nodes/*; do
    [ -r "$cvf_d/properties" ] || continue
    cvf_g=
    cvf_l=
    cvf_n=0
    while read -r cvf_k cvf_v; do
      case $cvf_k in gfx_target_version) cvf_g=$cvf_v ;; location_id) cvf_l=$cvf_v ;; domain) cvf_n=$cvf_v ;; esac
    done <"$cvf_d/properties"
    case $cvf_g in '' | 0) ;; *) printf 'amd.node=%s %s %s\n' "$cvf_g" "$cvf_n" "$cvf_l" ;; esac
  done
  if cv_fact_has amd-smi; then
    printf 'amd.smi=%s\n' "$(timeout -k 2 25 amd-smi static --asic --bus --json | tr -d '\n')"
  elif cv_fact_has rocm-smi; then
    printf 'amd.rocm_smi=%s\n' "$(timeout -k 2 25 rocm-smi --showproductname --showbus --json | tr -d '\n')"
  fi
} 2>/dev/null
echo end=amd
