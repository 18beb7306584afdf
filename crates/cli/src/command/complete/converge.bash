# Completion of converge for bash: in a folder of bash-completion as `converge`, or `source` it.

# _converge PROGRAM WORD: completes the word of bash; reads COMP_LINE and COMP_POINT, sets COMPREPLY, prints nothing.
_converge() {
  local tab=$'\t' line=${COMP_LINE:0:COMP_POINT} word=${2-} last cut found
  local -a words
  read -ra words <<<"$line"
  case $line in *[[:space:]]) words+=('') ;; esac
  # bash divides words at = and : too, and takes candidates for the last part.
  last=${words[${#words[@]} - 1]}
  case $word in = | :) word= ;; esac
  cut=$((${#last} - ${#word}))
  COMPREPLY=()
  while IFS= read -r found; do
    COMPREPLY+=("${found:cut}")
  done < <("$1" complete -- "${words[@]:1}" </dev/null 2>/dev/null | cut -d "$tab" -f 1)
}

complete -o bashdefault -o default -F _converge converge
