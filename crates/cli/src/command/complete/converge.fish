# Completion of converge for fish: as `converge.fish` in a folder of fish_complete_path, or `source` it.

function __converge_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete -- $words[2..-1] </dev/null 2>/dev/null
end

complete -c converge -a '(__converge_complete)'
