# --- contents that are saved together, and what is watched while foreign code runs ---

# Bytes of a content that goes with others: it is read several times.
CV_TOGETHER_LIMIT=65536

# cv_blobs_none: begins a list of contents for cv_blobs_keep.
cv_blobs_none() { cv_k_sums=$CV_NL cv_k_files='' cv_k_old='' cv_k_stage=$CV_DIR/stage/many; }

# cv_blobs_add FILE SHA256 SIZE: puts the content of a file in a safe directory on the list, once. Its name has no tab and no newline.
cv_blobs_add() {
  case $cv_k_sums in *"$CV_NL$2$CV_NL"*) return 0 ;; esac
  cv_k_sums=$cv_k_sums$2$CV_NL
  [ ! -f "$CV_ROOT/blobs/$2" ] || cv_k_files=$cv_k_files$CV_ROOT/blobs/$2$CV_NL
  cv_k_old=$cv_k_old$1$CV_TAB$cv_k_stage/$2$CV_TAB$3$CV_TAB$2$CV_NL
}

# cv_blobs_keep: keeps the contents on the list that are not saved whole, each under its digest. All of it is synced once. IFS is a newline, and no
# word a pattern. Status 1: one of them cannot be kept.
# shellcheck disable=SC2086
cv_blobs_keep() {
  cv_k_whole=$CV_NL cv_k_total=0 cv_k_sums=
  if [ -n "$cv_k_files" ]; then
    for cv_k_sum in $(sha256sum -- $cv_k_files 2>/dev/null); do
      # One that is damaged is saved anew.
      [ "${cv_k_sum%% *}" != "${cv_k_sum##*/}" ] || cv_k_whole=$cv_k_whole${cv_k_sum%% *}$CV_NL
    done
  fi
  for cv_k_row in $cv_k_old; do
    case $cv_k_whole in *"$CV_NL${cv_k_row##*"$CV_TAB"}$CV_NL"*) continue ;; esac
    cv_k_sums=$cv_k_sums$cv_k_row$CV_NL
    cv_k_row=${cv_k_row%"$CV_TAB"*}
    cv_k_total=$((cv_k_total + ${cv_k_row##*"$CV_TAB"}))
  done
  [ -n "$cv_k_sums" ] || return 0
  rm -rf "$cv_k_stage"
  mkdir -p "$cv_k_stage" "$CV_ROOT/blobs" && (
    unset IFS
    set +f
    cv_blob_room 'these files' $cv_k_total
  ) && cv_many_copy "$cv_k_sums" || return 1
  set +f
  set -- "$cv_k_stage"/*
  set -f
  cv_many_sync "$@" && mv -f -- "$@" "$CV_ROOT/blobs/"
}

# cv_window_save: keeps what the rows of CV_WINDOW show, as far as that can be kept. Reads the table `before`. Small files in safe directories are
# kept together: every item of foreign code comes here, with all that the run has made so far. It knows directories as safe for itself alone.
# shellcheck disable=SC2086
cv_window_save() (
  umask 077
  cv_blobs_none
  cv_k_each='' cv_k_many=''
  for cv_i_row in $CV_WINDOW; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" before
    case $row_kind:$row_key:$CV_NOW in
    *:absent | *:'! '*) continue ;;
    # Only the content of a file is kept. awk gives some names a meaning of its own.
    path:/dev/* | path:/inet* | path:'\'*) ;;
    path:*:'file '*)
      cv_k_size=${CV_NOW% *}
      cv_k_size=${cv_k_size##* }
      if [ "$cv_k_size" -le $CV_TOGETHER_LIMIT ] && [ "$cv_k_size" -le "${CV_SAVE_LIMIT:-104857600}" ] && cv_is_safe "${row_key%/*}"; then
        cv_blobs_add "$row_key" "${CV_NOW##* }" "$cv_k_size"
        cv_k_many=$cv_k_many$cv_i_row$CV_NL
        continue
      fi
      ;;
    path:*) continue ;;
    esac
    cv_k_each=$cv_k_each$cv_i_row$CV_NL
  done
  cv_blobs_keep || cv_k_each=$cv_k_each$cv_k_many
  rm -rf "$cv_k_stage"
  set -- $cv_k_each
  unset IFS
  set +f
  for cv_i_row; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" before
    CV_SAVED=$CV_DIR/saved CV_AFTER=$row_after
    cv_dec_to "$row_key"
    "cv_save_$row_kind" "$CV_DEC" "$CV_NOW" </dev/null
  done
) >/dev/null 2>&1
