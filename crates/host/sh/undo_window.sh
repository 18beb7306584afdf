# --- undo: what the foreign code of an undo moves ---

# cv_undo_window: where the gathered rows (CV_ROWS) are foreign code, the objects whose turn comes later (from cv_u_turn on), in CV_WINDOW: what that code
# brings back by itself is recorded as moved, as a rollback records it, and else would stay managed. No state is expected.
cv_undo_window() {
  CV_WINDOW=
  case $CV_ROWS in *"${CV_TAB}command$CV_TAB"* | *"${CV_TAB}package$CV_TAB"*) ;; *) return 0 ;; esac
  CV_WINDOW=$(printf '%s\n' "$cv_u_rows" | CV_U_ITEM=$CV_ITEM awk -F '\t' -v OFS='\t' -v turn="$cv_u_turn" -v seq="$cv_u_seq" -v flags="$CV_FLAGS" '
    NR < turn || $2 == "command" || $2 == "package" || ($2, $3) in seen { next }
    { seen[$2, $3]; print ++seq, $2, $3, "-", "-", ENVIRON["CV_U_ITEM"], "-", "-", "-", (index(flags, "sensitive") ? "sensitive" : $10) }')
  [ -n "$CV_WINDOW" ] || return 0
  CV_WINDOW=$CV_WINDOW$CV_NL
  cv_u_seq=${CV_WINDOW%"$CV_NL"}
  cv_u_seq=${cv_u_seq##*"$CV_NL"}
  cv_u_seq=${cv_u_seq%%"$CV_TAB"*}
}
