# --- many plain files at once ---

# cv_many: makes directories, and makes, changes and removes plain files, for whose items all of this was sent as one. Reads CV_RUN, CV_TOKEN (the group's), CV_FROM_RUN
# (the run whose saved attributes a file gets that comes back), CV_ROWS (rows SEQ KIND KEY BEFORE AFTER ITEM FLAGS ROLE, all of paths, from and to
# `absent` or a file, or from `absent` to a directory of root's; these come first) and cv_content_SEQ, a content that the host may not have saved.
# The steps of an item are taken here for all of them: look, save, journal, temporary files, look. Each file is still put into its place by
# itself, after it was compared once more. Only what is as plain as it was planned is begun. The rest is told as `alone`: nothing of it is
# done, and it comes again as an item of its own. Status 73: not all is done. Each file's end is told as that of an item: `member SEQ`, what an item
# tells, `ended SEQ STATUS`.
# shellcheck disable=SC2086
cv_many() {
  cv_run_dir
  umask 077
  if [ -e "$CV_DIR/moved" ]; then exit 74; fi
  set -f
  IFS=$CV_NL
  # A change while the content is read shows in the stamp from before.
  cv_many_stamps first $CV_ROWS
  cv_item_look :
  cv_i_text= cv_y_rows= cv_y_end=0 cv_y_dirs=$CV_NL
  for cv_i_row in $CV_ROWS; do
    cv_row "$cv_i_row"
    # A row behind one of another kind may stand on it.
    [ $cv_y_end -eq 0 ] && cv_many_plain || {
      cv_tell alone "$row_seq"
      cv_y_end=73
      continue
    }
    cv_y_rows=$cv_y_rows$cv_i_row$CV_NL
    cv_member_begin
  done
  [ -n "$cv_y_rows" ] || return 73
  cv_many_ready
  cv_phase save
  cv_many_marked
  cv_many_save 2>/dev/null || {
    # By itself each says why it cannot be saved.
    for cv_i_row in $cv_y_rows; do cv_tell alone "${cv_i_row%%"$CV_TAB"*}"; done
    return 73
  }
  cv_journal "$cv_i_text" sync || {
    cv_cause
    cv_enc_to "the journal in $CV_ROOT cannot be written ($CV_CAUSE)"
    for cv_i_row in $cv_y_rows; do
      cv_row "$cv_i_row"
      cv_tell member "$row_seq"
      cv_tell unsaveable - "$CV_ENC"
      cv_tell ended "$row_seq" 71
    done
    return 73
  }
  cv_phase change
  cv_many_do
  cv_phase check
  cv_table now "$(cv_rows_now "$cv_y_rows")"
  cv_many_end
}

# cv_many_ready: what is begun from here on is cleaned up when the shell of the group ends.
cv_many_ready() {
  cv_y_new= cv_y_made= cv_y_written= cv_y_lost= cv_y_lost_why= cv_k_stage=$CV_DIR/stage/many
  trap cv_many_clean EXIT
  trap 'exit 1' HUP INT TERM
}

# cv_many_do: changes the rows cv_y_rows. In cv_y_lost is the number of the first that it could not.
# shellcheck disable=SC2086
cv_many_do() {
  cv_many_dirs
  [ -z "$cv_y_lost" ] || return 0
  cv_many_write
  cv_many_finish
  cv_many_put $cv_y_rows
}

# cv_many_how: what becomes of the row's path, in cv_y_how: dir (it is made), new, replace, own (its content stays) or remove.
cv_many_how() {
  case $row_before:$row_after in
  'absent:dir '*[0145][0145]' root root') cv_y_how=dir ;;
  'absent:file '*) cv_y_how=new ;;
  'file '*':absent') cv_y_how=remove ;;
  'file '*':file '*) if [ "${row_before##* }" = "${row_after##* }" ]; then cv_y_how=own; else cv_y_how=replace; fi ;;
  *) return 1 ;;
  esac
}

# cv_many_plain: whether the row's file is as planned, in a directory that only root can change, and its content is at hand.
cv_many_plain() {
  cv_now_of "$row_seq" before
  [ "$CV_NOW" = "$row_before" ] && cv_many_how || return 1
  cv_dec_to "$row_key"
  cv_y_dir=${CV_DEC%/*}
  case $CV_SAFE in *"$CV_NL${cv_y_dir:-/}$CV_NL"*) ;; *) return 1 ;; esac
  case $cv_y_dirs in *"$CV_NL$cv_y_dir$CV_NL"*) ;; *) [ -d "$cv_y_dir/" ] || return 1 ;; esac
  case $cv_y_how in
  # A path in it stands on it: both are made here.
  dir)
    cv_y_dirs=$cv_y_dirs$CV_DEC$CV_NL
    return 0
    ;;
  new | replace) eval "[ -n \"\${cv_content_$row_seq+given}\" ]" || [ -f "$CV_ROOT/blobs/${row_after##* }" ] || return 1 ;;
  esac
  [ $cv_y_how != new ] || return 0
  cv_y_size=${row_before% *}
  eval "[ -n \"\$cv_stamp_first_$row_seq\" ]" && [ "${cv_y_size##* }" -le "${CV_SAVE_LIMIT:-104857600}" ]
}

# cv_many_stamps NAME ROW...: in cv_stamp_NAME_SEQ by what a file's change shows, with its name; empty where nothing is there. IFS is a newline.
# shellcheck disable=SC2086
cv_many_stamps() {
  cv_z_name=$1 cv_z_files=
  shift
  for cv_z_row; do
    [ -n "$cv_z_row" ] || continue
    cv_row "$cv_z_row"
    eval "cv_stamp_${cv_z_name}_$row_seq="
    [ "$row_before" != absent ] || continue
    cv_dec_to "$row_key"
    cv_z_files=$cv_z_files$CV_DEC$CV_NL
  done
  [ -n "$cv_z_files" ] || return 0
  cv_z_seen=$(stat -c '%d:%i:%f:%h:%u:%g:%s:%Y:%Z:%y:%z:%n' -- $cv_z_files 2>/dev/null)
  for cv_z_row; do
    [ -n "$cv_z_row" ] || continue
    cv_row "$cv_z_row"
    [ "$row_before" != absent ] || continue
    cv_dec_to "$row_key"
    cv_z_line=${cv_z_seen%%"$CV_NL"*}
    case $cv_z_line in *":$CV_DEC") ;; *) continue ;; esac
    eval "cv_stamp_${cv_z_name}_$row_seq=\$cv_z_line"
    cv_z_seen=${cv_z_seen#*"$CV_NL"}
  done
}

# cv_many_marked: sets cv_y_marked where a file that is replaced or removed, or its directory (its new files may inherit some), has an ACL, a
# capability or an extended attribute, or where that cannot be seen at once: then each is asked by itself.
# shellcheck disable=SC2086
cv_many_marked() {
  cv_y_marked= cv_y_files=
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    cv_many_how
    case $cv_y_how in replace | remove) ;; *) continue ;; esac
    cv_dec_to "$row_key"
    cv_y_dir=${CV_DEC%/*}
    cv_y_dir=${cv_y_dir:-/}
    case $CV_NL$cv_y_files in *"$CV_NL$cv_y_dir$CV_NL"*) ;; *) cv_y_files=$cv_y_files$cv_y_dir$CV_NL ;; esac
    cv_y_files=$cv_y_files$CV_DEC$CV_NL
  done
  [ -n "$cv_y_files" ] || return 0
  # A tar that cannot see them fails, or warns. A content that has these words costs nothing but time.
  { tar -c -f - -P --no-recursion --no-unquote --acls --xattrs '--xattrs-include=*' -- $cv_y_files 2>&1 || echo SCHILY.xattr; } |
    grep -a -q 'SCHILY\.\(xattr\|acl\)\|tar: ' && cv_y_marked=yes
  # Where nothing can show them (busybox), nothing is kept of a single file either: see cv_path_attributes.
  [ -z "$cv_y_marked" ] || cp --help 2>&1 | grep -q attributes-only || command -v getfattr >/dev/null 2>&1 || cv_y_marked=
  return 0
}

# cv_many_copy ROWS: copies files (FROM TO SIZE SHA256). One process copies all that is text, and the digests tell what came out otherwise.
# Status 1: not every copy is whole. IFS is a newline.
# shellcheck disable=SC2086
cv_many_copy() {
  printf %s "$1" | awk -F '\t' '{
    left = $3
    printf "" >$2
    while ((getline line <$1) > 0) {
      left -= length(line) + 1
      if (left < 0) printf "%s", line >$2; else print line >$2
    }
    close($1)
    close($2)
  }' 2>/dev/null
  cv_c_files= cv_c_status=0
  for cv_c_row in $1; do
    cv_c_row=${cv_c_row#*"$CV_TAB"}
    cv_c_files=$cv_c_files${cv_c_row%%"$CV_TAB"*}$CV_NL
  done
  cv_c_sums=$(sha256sum -- $cv_c_files 2>/dev/null)
  for cv_c_row in $1; do
    cv_split_by "$CV_TAB"
    set -- $cv_c_row
    cv_split_end
    # sha256sum marks a name that it had to escape with a leading backslash.
    cv_c_sum=${cv_c_sums%%"$CV_NL"*}
    cv_c_sum=${cv_c_sum#\\}
    cv_c_sums=${cv_c_sums#*"$CV_NL"}
    [ "${cv_c_sum%% *}" != "$4" ] || continue
    cat -- "$1" 2>/dev/null >"$2" && cv_c_sum=$(sha256sum <"$2") && [ "${cv_c_sum%% *}" = "$4" ] || cv_c_status=1
  done
  return $cv_c_status
}

# cv_many_save: keeps what the rows replace: their contents under their digests, and the attributes of files that go. All of it is synced once.
# shellcheck disable=SC2086
cv_many_save() {
  cv_blobs_none
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    [ "$row_before" != absent ] || continue
    cv_dec_to "$row_key"
    if [ -n "$cv_y_marked" ] && [ "$row_after" = absent ]; then
      (
        unset IFS
        set +f
        CV_SAVED=$CV_DIR/saved
        cv_path_keep "$CV_DEC"
      ) || return 1
    fi
    cv_y_size=${row_before% *}
    cv_blobs_add "$CV_DEC" "${row_before##* }" "${cv_y_size##* }"
  done
  cv_blobs_keep
}

# cv_many_sync FILE...: Status 1: one of them cannot be written, and cv_y_said says why.
cv_many_sync() {
  cv_y_said=$(sync -- "$@" 2>&1) && return 0
  # A sync that takes no names cannot do it to a directory either.
  ! sync -- "$CV_DIR" 2>/dev/null || return 1
  sync
}

# cv_many_name KEY: the path in CV_DEC, and its temporary file in CV_NEW: as cv_path_new names it, so that it is swept when a run is cut off.
cv_many_name() {
  cv_dec_to "$1"
  CV_NEW=${CV_DEC%/*}/.${CV_DEC##*/}.cv-$$
}

# cv_many_dirs: makes the directories, in order, up to the first that cannot be made. What is there by now makes mkdir fail.
cv_many_dirs() {
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    cv_many_how
    [ $cv_y_how = dir ] || return 0
    cv_dec_to "$row_key"
    cv_y_right=${row_after#dir }
    # As cv_path_own does it.
    cv_y_said=$({
      mkdir -- "$CV_DEC" && { { [ -O "$CV_DEC" ] && [ -G "$CV_DEC" ] && [ "$CV_ME" = root:root ]; } || chown root:root -- "$CV_DEC"; } &&
        chmod "0000${cv_y_right%% *}" -- "$CV_DEC"
    } 2>&1) && continue
    cv_y_lost=$row_seq
    cv_y_lost_why=$(cv_path_refused "$CV_DEC" "$CV_DEC" 2>&1) || cv_y_lost_why=${cv_y_said:-"$CV_DEC: cannot be made"}
    # Without a word somebody else was quicker: the item is to compare by itself.
    case $cv_y_said in *'File exists'*) cv_y_lost_why= ;; esac
    return 0
  done
}

# cv_many_write: the temporary files, whose names go to cv_y_new. Each is 0600 and was not there before. After one that cannot be written come no
# more: the names of those before it are in cv_y_written, their rows in cv_y_made.
cv_many_write() {
  cv_y_saved=
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    cv_many_how
    case $cv_y_how in new | replace) ;; *) continue ;; esac
    cv_many_name "$row_key"
    cv_y_ok= cv_y_cause='is the disk full?'
    set -C
    # A second try tells why the first one failed.
    if printf '' 2>/dev/null >"$CV_NEW" || cv_y_cause=$({ printf '' >"$CV_NEW"; } 2>&1); then cv_y_ok=yes; fi
    set +C
    if [ -n "$cv_y_ok" ]; then
      cv_y_new=$cv_y_new$CV_NEW$CV_NL
      if eval "[ -z \"\${cv_content_$row_seq+given}\" ]"; then
        cv_y_size=${row_after% *}
        cv_y_saved=$cv_y_saved$CV_ROOT/blobs/${row_after##* }$CV_TAB$CV_NEW$CV_TAB${cv_y_size##* }$CV_TAB${row_after##* }$CV_NL
      else
        eval "printf %s \"\$cv_content_$row_seq\"" 2>/dev/null >"$CV_NEW" || cv_y_ok=
      fi
    fi
    [ -n "$cv_y_ok" ] || {
      cv_y_lost=$row_seq
      cv_y_lost_why=$(cv_path_refused "$CV_DEC" "$CV_DEC" 2>&1) || cv_y_lost_why="$CV_DEC: cannot write its content (${cv_y_cause##*: })"
      break
    }
    cv_y_made=$cv_y_made$cv_i_row$CV_NL cv_y_written=$cv_y_written$CV_NEW$CV_NL
  done
  # Their digests show which are not whole.
  [ -z "$cv_y_saved" ] || cv_many_copy "$cv_y_saved" || :
}

# cv_many_finish: the digests of the temporary files, in cv_sum_SEQ; their owner, attributes and mode; all of it is synced. The reason why one is
# not to be used is in cv_why_SEQ, that of all in cv_y_why.
# shellcheck disable=SC2086
cv_many_finish() {
  cv_y_why= cv_y_rights=
  [ -n "$cv_y_made" ] || return 0
  cv_y_sums=$(sha256sum -- $cv_y_written 2>/dev/null)
  for cv_i_row in $cv_y_made; do
    cv_row "$cv_i_row"
    # sha256sum marks a name that it had to escape with a leading backslash.
    cv_y_sum=${cv_y_sums%%"$CV_NL"*}
    cv_y_sum=${cv_y_sum#\\}
    cv_y_sums=${cv_y_sums#*"$CV_NL"}
    eval "cv_sum_$row_seq=\${cv_y_sum%% *} cv_why_$row_seq="
    cv_y_right=${row_after% * *}
    case $CV_NL$cv_y_rights in *"$CV_NL$cv_y_right$CV_NL"*) ;; *) cv_y_rights=$cv_y_rights$cv_y_right$CV_NL ;; esac
  done
  for cv_y_right in $cv_y_rights; do cv_many_own; done
  cv_many_sync $cv_y_written || cv_y_why="cannot write the content: $cv_y_said"
}

# cv_many_own: gives the temporary files of the rows with the rights cv_y_right (`file MODE OWNER GROUP`) their owner, attributes and mode, in this
# order: as cv_path_own.
# shellcheck disable=SC2086
cv_many_own() {
  cv_y_of= cv_y_files= cv_y_ours=yes cv_y_refused=
  for cv_i_row in $cv_y_made; do
    cv_row "$cv_i_row"
    [ "${row_after% * *}" = "$cv_y_right" ] || continue
    cv_many_name "$row_key"
    cv_y_of=$cv_y_of$cv_i_row$CV_NL
    cv_y_files=$cv_y_files$CV_NEW$CV_NL
    [ -O "$CV_NEW" ] && [ -G "$CV_NEW" ] || cv_y_ours=
  done
  cv_split_by ' '
  set -- $cv_y_right
  cv_split_end
  cv_dec_to "$3"
  cv_y_owner=$CV_DEC
  cv_dec_to "$4"
  cv_y_owner=$cv_y_owner:$CV_DEC
  if [ "$cv_y_owner" != "$CV_ME" ] || [ -z "$cv_y_ours" ]; then
    cv_y_said=$(chown "$cv_y_owner" -- $cv_y_files 2>&1) || cv_y_refused=${cv_y_said:-the owner cannot be set}
  fi
  cv_many_attributes
  cv_y_said=$(chmod "0000$2" -- $cv_y_files 2>&1) || cv_y_refused=${cv_y_refused:-${cv_y_said:-the mode cannot be set}}
  [ -n "$cv_y_refused" ] || return 0
  for cv_i_row in $cv_y_of; do eval "cv_why_${cv_i_row%%"$CV_TAB"*}=\$cv_y_refused"; done
}

# cv_many_attributes: the temporary files of the rows cv_y_of get the ACL and extended attributes of what they replace; of one that comes back, those
# that CV_FROM_RUN has kept.
cv_many_attributes() {
  cv_y_kept=
  [ ! -d "$CV_ROOT/runs/${CV_FROM_RUN:-none}/saved/attributes" ] || cv_y_kept=yes
  [ -n "$cv_y_marked$cv_y_kept" ] || return 0
  for cv_i_row in $cv_y_of; do
    cv_row "$cv_i_row"
    cv_many_how
    cv_many_name "$row_key"
    cv_y_from=
    case $cv_y_how:$cv_y_marked:$cv_y_kept in
    replace:yes:*) cv_y_from=$CV_DEC ;;
    new:*:yes)
      cv_path_kept "$CV_DEC"
      cv_y_from=$CV_ROOT/runs/$CV_FROM_RUN/$CV_KEPT
      [ -f "$cv_y_from" ] || cv_y_from=
      ;;
    esac
    [ -z "$cv_y_from" ] || cv_y_said=$(
      unset IFS
      set +f
      cv_path_attributes "$cv_y_from" "$CV_NEW" 2>&1
    ) || eval "cv_why_$row_seq=\${cv_y_said:-the attributes cannot be kept}"
  done
}

# cv_many_put ROW...: puts each file into its place, in order, up to the first that fails. Ten are compared at once, which is just before their turn.
cv_many_put() {
  cv_y_turn=0
  while [ $# -gt 0 ]; do
    [ $((cv_y_turn % 10)) -ne 0 ] || cv_many_stamps again "$1" "${2:-}" "${3:-}" "${4:-}" "${5:-}" "${6:-}" "${7:-}" "${8:-}" "${9:-}" "${10:-}"
    cv_row "$1"
    [ "$cv_y_lost" != "$row_seq" ] || return 0
    cv_many_one || {
      cv_y_lost=$row_seq cv_y_lost_why=$cv_y_said
      return 0
    }
    cv_y_turn=$((cv_y_turn + 1))
    shift
  done
}

# cv_many_one: puts the row's file into its place. Status 1: it is not done, and cv_y_said says why; without a word somebody else was quicker, and
# the item is to compare by itself.
# shellcheck disable=SC2086
cv_many_one() {
  cv_many_how
  [ $cv_y_how != dir ] || return 0
  cv_many_name "$row_key"
  cv_y_said=
  case $cv_y_how in
  new | replace)
    eval "cv_y_said=\${cv_why_$row_seq:-\$cv_y_why}"
    [ -z "$cv_y_said" ] || return 1
    eval "cv_y_sum=\$cv_sum_$row_seq"
    [ "$cv_y_sum" = "${row_after##* }" ] || {
      cv_y_said="$CV_DEC: the content came through damaged: SHA-256 $cv_y_sum instead of ${row_after##* }"
      eval "[ -n \"\${cv_content_$row_seq+given}\" ]" || cv_y_said="$CV_DEC: its saved content cannot be written (is the disk full, or $CV_ROOT/blobs/${row_after##* } damaged?)"
      return 1
    }
    ;;
  esac
  if [ $cv_y_how = new ]; then
    [ ! -e "$CV_DEC" ] && [ ! -L "$CV_DEC" ] || return 1
  else
    eval "[ -n \"\$cv_stamp_again_$row_seq\" ] && [ \"\$cv_stamp_again_$row_seq\" = \"\$cv_stamp_first_$row_seq\" ]" || return 1
  fi
  case $cv_y_how in
  new | replace) cv_y_said=$(mv -f "$CV_NEW" "$CV_DEC" 2>&1) && return 0 ;;
  remove) cv_y_said=$(rm -f "$CV_DEC" 2>&1) && return 0 ;;
  own)
    cv_split_by ' '
    set -- $row_after
    cv_split_end
    cv_dec_to "$3"
    cv_y_owner=$CV_DEC
    cv_dec_to "$4"
    cv_y_group=$CV_DEC
    cv_dec_to "$row_key"
    cv_y_said=$(
      unset IFS
      set +f
      cv_own_path "$CV_DEC" "$2" "$cv_y_owner" "$cv_y_group" "$6" 2>&1 </dev/null
    ) && return 0
    ;;
  esac
  cv_y_marks=$(cv_path_refused "$CV_DEC" "$CV_DEC" 2>&1) && cv_y_said=$cv_y_marks
  cv_y_said=${cv_y_said:-"$CV_DEC: cannot be changed"}
  return 1
}

# cv_many_end: journal and answers. Reads the table `now`. What was not put into its place is recorded as put back: the one that somebody else has
# changed meanwhile, which a rollback would else treat as a change of converge, and all after the one that failed. These come again.
# shellcheck disable=SC2086
cv_many_end() {
  cv_i_text= cv_y_past=
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" now
    if [ "$row_seq" = "$cv_y_lost" ]; then cv_y_past=failed cv_y_end=73; fi
    if [ "$cv_y_past" = failed ] && [ -n "$cv_y_lost_why" ]; then
      cv_y_past=yes
      cv_many_how
      # A rename happens or not. Of owner and mode one may be set.
      case $cv_y_how:$CV_NOW in own:* | dir:* | *:"$row_after") ;; *) CV_NOW=$row_before ;; esac
      cv_i_text="${cv_i_text}failed$CV_TAB$row_seq${CV_TAB}1$CV_TAB$CV_NOW$CV_NL"
    elif [ -n "$cv_y_past" ]; then
      cv_i_text="${cv_i_text}putback$CV_TAB$row_seq$CV_TAB$row_before$CV_NL"
    elif [ "$CV_NOW" = "$row_after" ]; then
      cv_i_text="${cv_i_text}done$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
    else
      cv_y_end=73
      cv_i_text="${cv_i_text}off$CV_TAB$row_seq$CV_TAB$CV_NOW$CV_NL"
    fi
  done
  cv_y_all=
  cv_journal "$cv_i_text" || cv_y_all=75 cv_y_end=73
  cv_y_past=
  for cv_i_row in $cv_y_rows; do
    cv_row "$cv_i_row"
    cv_now_of "$row_seq" now
    if [ "$row_seq" = "$cv_y_lost" ]; then cv_y_past=failed; fi
    if [ "$cv_y_past" = yes ] || { [ -n "$cv_y_past" ] && [ -z "$cv_y_lost_why" ]; }; then
      cv_tell alone "$row_seq"
      continue
    fi
    cv_tell member "$row_seq"
    cv_y_status=0
    if [ -n "$cv_y_past" ]; then
      cv_y_past=yes cv_y_status=72
      printf '%s\n' "$cv_y_lost_why"
      cv_tell now "$row_seq" "$CV_NOW"
      cv_tell step 1 1
    elif [ "$CV_NOW" = "$row_after" ]; then
      cv_tell now "$row_seq" "$CV_NOW"
    else
      cv_y_status=73
      cv_tell off "$row_seq" "$CV_NOW"
    fi
    cv_tell ended "$row_seq" "${cv_y_all:-$cv_y_status}"
  done
  return $cv_y_end
}

# cv_many_clean: removes the temporary files that were not put into their places. The shell of the group ends.
cv_many_clean() {
  set -f
  IFS=$CV_NL
  for cv_y_file in $cv_y_new; do [ ! -f "$cv_y_file" ] || rm -f "$cv_y_file"; done
  [ ! -d "$cv_k_stage" ] || rm -rf "$cv_k_stage"
}
