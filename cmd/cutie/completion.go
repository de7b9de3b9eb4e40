package main

import (
	"context"
	"strings"

	"github.com/spf13/pflag"
)

var completionVerb = verb{
	name:  "completion",
	args:  "bash|zsh|fish",
	min:   1,
	max:   -1,
	about: "print the completions of a shell",
	manual: `
Prints a script for the shell, which completes commands, options, their values,
files, and the names of queues; a daemon is asked for these, and half a second
is all that it has to answer.

  bash  in ~/.bashrc:             source <(cutie completion bash)
  zsh   in a directory of fpath:  cutie completion zsh > _cutie
  fish  in its configuration:     cutie completion fish | source

The script calls "cutie completion words -- WORD…" with the words after the name
of the program up to the one to be completed, and gets its candidates, one a
line, with a tab and what it is. The line ":files" means the names of files.`,
	examples: `cutie completion bash
cutie completion words -- getN`,
	setup: func(*pflag.FlagSet) action { return completions },
}

func completions(ctx context.Context, c *call) error {
	shell, words := c.args[0], c.args[1:]
	script, known := scripts[shell]
	switch {
	case shell == "words":
		for _, s := range c.complete(ctx, words) {
			if _, err := c.stdout.WriteString(s.String() + "\n"); err != nil {
				return err
			}
		}
		return nil
	case !known:
		return withHint(usagef("shell %.40q is not known", shell), "the shells are bash, zsh and fish")
	case len(words) > 0:
		return usagef("too many arguments: %.60q", words[0])
	}
	_, err := c.stdout.WriteString(strings.TrimPrefix(script, "\n"))
	return err
}

// scripts ask the program for everything, so that they never grow old.
var scripts = map[string]string{
	// Bash cuts words at "=", ":" and "@" and replaces what is behind the last
	// of these only; names of queues have them.
	"bash": `
# completions of cutie for bash
_cutie() {
    local candidate cut cur words
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    cur=${words[${#words[@]}-1]}
    cut=${cur%"${cur##*[=:@]}"}
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        if [[ $candidate == :files ]]; then
            compopt -o default
        else
            COMPREPLY+=("${candidate#"$cut"}")
        fi
    done < <("${COMP_WORDS[0]}" completion words -- "${words[@]:1}" 2>/dev/null)
}
complete -F _cutie cutie
`,
	"zsh": `
#compdef cutie
# completions of cutie for zsh
_cutie() {
    local line
    local -a described
    local -i files=0
    for line in "${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            (:files) files=1 ;;
            (*$'\t'*) described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
            (?*) described+=("${line//:/\\:}") ;;
        esac
    done
    (( $#described )) && _describe 'cutie' described
    (( files )) && _files
    return 0
}
if [[ $funcstack[1] == _cutie ]]; then
    _cutie "$@"
else
    compdef _cutie cutie
fi
`,
	"fish": `
# completions of cutie for fish
function __cutie_words
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] completion words -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else
            printf '%s\n' $line
        end
    end
end
complete -c cutie -f -a '(__cutie_words)'
`,
}
