package call

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

// CompleteOptions lets all verbs complete the values of options, by their names in the
// help text. It takes a while, so it is for calls by a shell alone.
func CompleteOptions(root *cobra.Command) {
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
			return StartingWith(words, typed), cobra.ShellCompDirectiveNoFileComp
		})
	})
}

// completeArgument completes the next argument of a verb by its usage line.
func (c *Call) completeArgument(cmd *cobra.Command, args []string, typed string) (all []string, _ cobra.ShellCompDirective) {
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
		return StartingWith(all, typed), none
	}
	if n >= len(wanted) && !strings.Contains(cmd.Use, "…") || len(wanted) == 0 {
		return nil, none
	}
	switch name := strings.Trim(wanted[min(n, len(wanted)-1)], "[]"); {
	case strings.HasPrefix(name, "FILE"), strings.HasPrefix(name, "DIR"), name == "HOME":
		return nil, cobra.ShellCompDirectiveDefault
	case strings.HasPrefix(name, "QUEUE"):
		if c.Cmd = cmd; c.checkOptions(Target) == nil {
			all = c.QueueNames(cmd.Context())
		}
	case strings.Contains(name, "|") && strings.ToLower(name) == name:
		all = strings.Split(name, "|")
	}
	return StartingWith(all, typed), none
}

// StartingWith returns the words with the prefix typed, in any case.
func StartingWith(all []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool {
		return len(s) < len(typed) || !strings.EqualFold(s[:len(typed)], typed)
	})
}
