# --- path: contents that are saved, and restored ---

# Status 3: not kept on purpose, because it is too large.
cv_save_path() {
  case $2 in
  'file '*)
    cv_p_size=${2% *}
    cv_p_size=${cv_p_size##* }
    # Of a content above the limit nothing needs to be kept where it stays.
    case ${CV_AFTER:-} in
    'file '*" ${2##* }") [ "$cv_p_size" -le "${CV_SAVE_LIMIT:-104857600}" ] || return 0 ;;
    esac
    cv_blob_save "$1" "${2##* }" "$cv_p_size" || return $?
    # A file that goes leaves its attributes with the run; one that is replaced gives them to the next.
    case ${CV_AFTER:-file } in file\ *) ;; *) [ -z "${CV_SAVED:-}" ] || cv_path_keep "$1" ;; esac
    ;;
  esac
}

# cv_path_keep PATH: keeps its ACL and extended attributes below CV_SAVED. Sets nothing.
cv_path_keep() (
  umask 077
  cv_path_kept "$1"
  new=${CV_SAVED%/saved}/$CV_KEPT
  mkdir -p "${new%/*}" && rm -f "$new" && : >"$new" || return 1
  # A cp that cannot do it has nothing to keep.
  cv_read "$1" cp --attributes-only --preserve=mode,xattr /proc/self/fd/0 "$new" 2>/dev/null || rm -f "$new"
)

# A content that is there still stays: then owner and mode are all that was changed, of all names of the file.
# shellcheck disable=SC2086
cv_restore_path() {
  case $2 in
  'file '*)
    cv_p_line=$(cv_line_path "$1") || cv_p_line=
    case $cv_p_line in 'file '*) ;; *) cv_p_line= ;; esac
    if [ -n "$cv_p_line" ] && [ "${cv_p_line##* }" = "${2##* }" ]; then
      cv_split_by ' '
      set -- "$1" $2
      cv_split_end
      cv_dec_to "$4"
      cv_a_owner=$CV_DEC
      cv_dec_to "$5"
      cv_own_path "$1" "$3" "$cv_a_owner" "$CV_DEC" "$7"
      return
    fi
    ;;
  esac
  cv_apply_path "$1" "$2" </dev/null
}

# cv_blob_whole SHA256: whether the content of that digest is saved, undamaged. What is damaged counts as not saved, and it says so.
cv_blob_whole() {
  [ -f "$CV_ROOT/blobs/$1" ] || return 1
  cv_b_got=$(sha256sum <"$CV_ROOT/blobs/$1")
  [ "${cv_b_got%% *}" != "$1" ] || return 0
  cv_say "the saved content $CV_ROOT/blobs/$1 is damaged: it is not used"
  return 1
}

# cv_blob_room FILE SIZE: whether so many bytes of it may be kept. The caller is a subshell.
# shellcheck disable=SC2046
cv_blob_room() {
  file=$1 size=$2
  # The heading has seven words; then come device, blocks, used, free.
  set -- $(df -Pk "$CV_ROOT/blobs")
  least=$((${9:-0} / 100 * ${CV_MIN_FREE:-10})) said="${CV_MIN_FREE:-10} %"
  # Of a large disk a tenth is more than anybody needs.
  [ -n "${CV_MIN_FREE:-}" ] || [ "$least" -le 10485760 ] || least=10485760 said='10 GiB'
  [ "$((${11:-0} - size / 1024))" -ge "$least" ] || {
    cv_say "saving $file ($size bytes) would leave less than $said of the file system of $CV_ROOT free"
    return 1
  }
}

# cv_blob_save FILE SHA256 SIZE: keeps a file's content under its digest. Status 3: it is too large to be kept.
cv_blob_save() (
  umask 077
  file=$1 digest=$2 size=$3
  ! cv_blob_whole "$digest" || return 0
  [ "$size" -le "${CV_SAVE_LIMIT:-104857600}" ] || {
    cv_say "$file: $size bytes are above the limit of what is saved"
    return 3
  }
  [ -d "$CV_ROOT/blobs" ] || mkdir -p "$CV_ROOT/blobs" || return 1
  cv_blob_room "$file" "$size" || return 1
  new=$CV_ROOT/blobs/.$digest.new
  if cv_read "$file" dd bs=65536 conv=fsync 2>/dev/null >"$new" && got=$(sha256sum <"$new") &&
    [ "${got%% *}" = "$digest" ] && mv -f "$new" "$CV_ROOT/blobs/$digest"; then
    return 0
  fi
  rm -f "$new"
  cv_say "$file: cannot save its content (no disk space, or it is changing)"
  return 1
)
