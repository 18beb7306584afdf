#compdef converge
# Completion of converge for zsh: as `_converge` in a folder of fpath, or `source` it behind compinit.

_converge() {
  local found
  local -a all
  for found in "${(@f)$("$words[1]" complete -- "${(@)words[2,CURRENT]}" </dev/null 2>/dev/null)}"; do
    [[ -n $found ]] || continue
    # _describe divides at the first colon that is not quoted.
    all+=("${${found%%$'\t'*}//:/\\:}:${found#*$'\t'}")
  done
  if ((${#all})); then
    _describe converge all
  else
    _files
  fi
}

if [[ $funcstack[1] == _converge ]]; then
  _converge "$@"
else
  compdef _converge converge
fi
