package main

import (
	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/queuefs"
)

type verbs []func(*call) *cobra.Command

// groups are all verbs, in the order of the help text.
var groups = []struct {
	title string
	verbs verbs
}{
	{"queues", verbs{statusVerb, lsVerb, createQueueVerb, setQueueVerb, removeQueueVerb}},
	{"jobs", verbs{putVerb, batchVerb, getVerb, peekVerb, showVerb, removeVerb, requeueVerb, holdVerb,
		releaseVerb, abortVerb, resultVerb}},
	{"workers", verbs{workVerb, extendVerb, reportVerb, attachVerb, uwsVerb}},
	{"publishing", verbs{publishVerb, exportVerb, watchVerb, rdmVerb, soifVerb}},
	{"copies", verbs{syncVerb, auditVerb, promoteVerb, takeoverVerb, handoverVerb,
		backupVerb, restoreVerb}},
	{"access", verbs{userVerb, tokenVerb}},
	{"maintenance", verbs{initVerb, serveVerb, configVerb, doctorVerb, storeVerb, checkVerb, importVerb, cullVerb, completionVerb, versionVerb, helpVerb}},
}

// newRoot returns the tree of commands. Options common to all verbs may stand before
// the verb or after it; both are bound to c. An error of a help text goes to failed;
// cobra has no way to return one.
func newRoot(c *call, failed *error) *cobra.Command {
	cobra.EnableCaseInsensitive = true
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:               "cutie [OPTION…] COMMAND [ARGUMENT…]",
		Short:             "durable queues in a directory, served and published",
		Version:           queuefs.Version,
		TraverseChildren:  true,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeAlias,
	}
	root.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fault.Hint(fault.Usagef("no command given"), "cutie help lists the commands")
		}
		return unknown(root, args[0])
	}
	c.Bind(root, ^optionSet(0))
	root.DisableFlagsInUseLine, root.DisableAutoGenTag = true, true
	root.Flags().SetInterspersed(false)
	root.SetOut(c.Out.Stdout)
	root.SetErr(c.Stderr)
	cobra.AddTemplateFunc("versionLine", versionLine)
	root.SetVersionTemplate("{{versionLine}}\n")
	root.SetFlagErrorFunc(misuse)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		root.Long = overview()
		*failed = explain(c, cmd)
	})
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, verb := range g.verbs {
			cmd := verb(c)
			cmd.GroupID, cmd.Version = g.title, queuefs.Version
			if cmd.Name() == "help" {
				root.SetHelpCommand(cmd)
			}
			root.AddCommand(cmd)
		}
	}
	return root
}

// misuse makes a usage error of an error in an option.
func misuse(cmd *cobra.Command, err error) error {
	hint := "cutie help lists commands and options"
	if cmd.HasParent() {
		hint = "cutie help " + cmd.Name()
	}
	return fault.Hint(fault.Usagef("%s", fault.InOption(err)), hint)
}

// find returns the verb with this name or alias.
func find(root *cobra.Command, word string) *cobra.Command {
	cmd, _, err := root.Find([]string{word})
	if err != nil || cmd == root {
		return nil
	}
	return cmd
}

// unknown is the error for an unknown verb. Its hint is the nearest name.
func unknown(root *cobra.Command, word string) error {
	var names []string
	for _, cmd := range root.Commands() {
		names = append(append(names, cmd.Name()), cmd.Aliases...)
	}
	hint := "cutie help lists the commands"
	if near := fault.Near(word, names); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return fault.Hint(fault.Usagef("unknown command %.40q", word), hint)
}
