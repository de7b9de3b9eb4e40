package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/fault"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

func completionVerb(c *call) *cobra.Command {
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
	return startingWith(all, typed), cobra.ShellCompDirectiveNoFileComp
}

// CompleteOptions lets all verbs complete the values of options, by their names in the
// help text. It takes a while, so it is for calls by a shell alone.
func completeAllOptions(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		completeOptions(cmd)
	}
}

func completeOptions(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name, _ := pflag.UnquoteUsage(f)
		var words []string
		switch {
		case name == "file":
			return // the shell's own
		case name == "directory":
			cmd.MarkFlagDirname(f.Name)
			return
		case strings.Contains(name, "|"):
			words = strings.Split(name, "|")
		case name == "form":
			for form := state.ANVL; form <= state.SOIF; form++ {
				words = append(words, cobra.CompletionWithDesc(form.String(), form.MediaType()))
			}
		case f.Name == "kind":
			for k := queuefs.Submit; k < queuefs.Phase; k++ {
				words = append(words, k.String())
			}
		}
		cmd.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return startingWith(words, typed), cobra.ShellCompDirectiveNoFileComp
		})
	})
}

// completeArgument completes the next argument of a verb by its usage line.
func (c *call) completeArgument(cmd *cobra.Command, args []string, typed string) (all []string, _ cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	n, wanted := len(args), operands(cmd)
	if slices.Contains(wanted, "|") { // words with arguments of their own: add NAME | rm NAME
		if n > 0 {
			return nil, none
		}
		_, line, _ := strings.Cut(cmd.Use, " ")
		for part := range strings.SplitSeq(line, " | ") {
			word, what, _ := strings.Cut(part, " ")
			for w := range strings.SplitSeq(word, "|") {
				all = append(all, cobra.CompletionWithDesc(w, what))
			}
		}
		return startingWith(all, typed), none
	}
	if n >= len(wanted) && !strings.Contains(cmd.Use, "…") || len(wanted) == 0 {
		return nil, none
	}
	switch name := strings.Trim(wanted[min(n, len(wanted)-1)], "[]"); {
	case strings.HasPrefix(name, "FILE"), strings.HasPrefix(name, "DIR"), name == "HOME":
		return nil, cobra.ShellCompDirectiveDefault
	case strings.HasPrefix(name, "QUEUE"):
		if c.Cmd = cmd; c.checkOptions(optTarget) == nil {
			all = c.QueueNames(cmd.Context())
		}
	case strings.Contains(name, "|") && strings.ToLower(name) == name:
		all = strings.Split(name, "|")
	}
	return startingWith(all, typed), none
}

// startingWith returns the words with the prefix typed, in any case.
func startingWith(all []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool {
		return len(s) < len(typed) || !strings.EqualFold(s[:len(typed)], typed)
	})
}
