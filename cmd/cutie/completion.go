package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/call"
	"cutie/cmd/cutie/fault"
)

func completionVerb(c *call.Call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "print the completions of a shell",
		Long: `
Prints a script for the shell. It completes commands, options, their values,
files, and the names of queues; a daemon has half a second to send those. That of
bash needs the package bash-completion.

    bash  in ~/.bashrc:             source <(cutie completion bash)
    zsh   in a directory of fpath:  cutie completion zsh > _cutie
    fish  in its configuration:     cutie completion fish | source`,
		Example: `cutie completion bash`,
	}
	return c.Verb(cmd, 0, func(context.Context) error {
		root, out := cmd.Root(), c.Out.Stdout
		switch strings.ToLower(c.Args[0]) {
		case "bash":
			return root.GenBashCompletionV2(out, true)
		case "zsh":
			return root.GenZshCompletion(out)
		case "fish":
			return root.GenFishCompletion(out, true)
		case "powershell":
			return root.GenPowerShellCompletionWithDesc(out)
		}
		return fault.Hint(fault.Usagef("shell %.40q is not known", c.Args[0]), "the shells are bash, zsh, fish and powershell")
	})
}

// completeAlias completes aliases once a letter is typed; cobra leaves them out.
func completeAlias(root *cobra.Command, args []string, typed string) (all []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 && typed != "" {
		for _, cmd := range root.Commands() {
			for _, name := range cmd.Aliases {
				all = append(all, cobra.CompletionWithDesc(name, cmd.Short))
			}
		}
	}
	return call.StartingWith(all, typed), cobra.ShellCompDirectiveNoFileComp
}
