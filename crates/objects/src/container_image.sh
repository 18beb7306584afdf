# --- container_image ---

# cv_container_image_of KEY: its words in ci_program, ci_address, ci_namespace, ci_image.
cv_container_image_of() {
  ci_program=${1%% *} ci_address=${1#* }
  ci_image=${ci_address#* }
  ci_address=${ci_address%% *} ci_namespace=${ci_image%%/*} ci_image=${ci_image#*/}
}

# cv_container_image_ctr SECONDS WORD...: containerd's program with them, for the image of cv_container_image_of.
cv_container_image_ctr() {
  ci_limit=$1
  shift
  cv_bounded "$ci_limit" "$ci_program" --address "$ci_address" --namespace "$ci_namespace" "$@" </dev/null
}

# One list for all images of one namespace: its first word is the name, its last word has the labels.
cv_see_container_image() (
  of=
  for key; do
    cv_container_image_of "$key"
    if [ "$ci_program $ci_address $ci_namespace" != "$of" ]; then
      of="$ci_program $ci_address $ci_namespace" why=
      if ! command -v "$ci_program" >/dev/null 2>&1; then
        why="this host has no $ci_program"
      else
        list=$(cv_container_image_ctr 30 images list 2>/dev/null) || why="containerd does not answer at $ci_address"
      fi
    fi
    if [ -n "$why" ]; then
      cv_fail_all "$why" "$key"
      continue
    fi
    printf '%s\n' "$list" | awk -v image="$ci_image" '$1 == image { state = $NF ~ /(^|,)io.cri-containerd.pinned=pinned(,|$)/ ? "pinned" : "present" }
      END { print "- " (state ? state : "absent") }'
  done
)

cv_line_container_image() { cv_line_of "$(cv_see_container_image "$1")"; }

cv_save_container_image() { :; }

# An image that was taken away comes back from no archive: nobody names one.
cv_restore_container_image() { cv_apply_container_image "$1" "$2"; }

# cv_container_image_archive IMAGE: the archive that has it, from the lines `IMAGE ARCHIVE` of CV_IMAGE_ARCHIVES, in ci_archive.
cv_container_image_archive() {
  ci_archive=$(printf '%s\n' "${CV_IMAGE_ARCHIVES:-}" | awk -v image="$1" '$1 == image { sub(/^[^ ]* /, ""); found = $0 } END { print found }')
  [ -n "$ci_archive" ] || {
    cv_say "no archive is named that has the image $1"
    return 1
  }
}

# cv_apply_container_image KEY LINE
cv_apply_container_image() (
  cv_container_image_of "$1"
  is=$(cv_line_container_image "$1") || return 1
  [ "$is" != "$2" ] || return 0
  case $2 in
  absent)
    cv_container_image_ctr 60 images remove "$ci_image" >/dev/null
    return
    ;;
  present) label= ;;
  pinned) label=pinned ;;
  *)
    cv_say "nobody can bring an image to the state '$2'"
    return 1
    ;;
  esac
  if [ "$is" = absent ]; then
    cv_container_image_archive "$ci_image" || return 1
    cv_container_image_ctr 1700 images import "$ci_archive" >/dev/null || return 1
    is=$(cv_line_container_image "$1") || return 1
  fi
  case $is in
  "$2") ;;
  absent)
    cv_say "$ci_archive was imported, and brought no image $ci_image"
    return 1
    ;;
  *) cv_container_image_ctr 60 images label "$ci_image" "io.cri-containerd.pinned=$label" >/dev/null ;;
  esac
)

# cv_apply_container_images KEY LINE...: an archive may bring several of them.
cv_apply_container_images() {
  while [ $# -gt 1 ]; do
    cv_apply_container_image "$1" "$2" || return 1
    shift 2
  done
}

# cv_container_image_archives PLACE...: what archives say that they hold. A line `archive PATH` each, its path encoded, then `manifest JSON`, or
# `index JSON` where there is no manifest.json. `missing PATH` for a place that is not there, or a folder without an archive.
cv_container_image_archives() (
  for place; do
    place=${place%/}
    if [ -d "$place" ]; then set -- "$place"/*.tar "$place"/*.tar.gz "$place"/*.tgz "$place"/*.tar.zst; else set -- "$place"; fi
    none=yes
    for file; do
      [ -f "$file" ] || continue
      none=
      cv_enc_to "$file"
      printf 'archive %s\n' "$CV_ENC"
      for part in manifest index; do
        text=$(tar -xOf "$file" "$part.json" 2>/dev/null | tr -d '\n')
        [ -z "$text" ] || {
          printf '%s %s\n' "$part" "$text"
          break
        }
      done
    done
    [ -z "$none" ] || {
      cv_enc_to "$place"
      printf 'missing %s\n' "$CV_ENC"
    }
  done
)
