package main

import (
	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/queuefs"
)

type verbs []func(*call) *cobra.Command

// firstDay is the title of the group of verbs that the overview explains.
const firstDay = "first day"

// groups are the verbs by use, in the order of the help text.
var groups = []struct {
	title string
	verbs verbs
}{
	{firstDay, verbs{initVerb, serveVerb, createQueueVerb, putVerb, lsVerb, getVerb, reportVerb, workVerb}},
	{"queues", verbs{statusVerb, setQueueVerb, cullVerb, removeQueueVerb}},
	{"jobs", verbs{showVerb, peekVerb, resultVerb, batchVerb, holdVerb, releaseVerb, requeueVerb, abortVerb, removeVerb}},
	{"workers", verbs{extendVerb, attachVerb, uwsVerb}},
	{"publishing", verbs{watchVerb, publishVerb, exportVerb, rdmVerb}},
	{"copies", verbs{syncVerb, auditVerb, backupVerb, restoreVerb, failoverVerb}},
	{"operation", verbs{userVerb, configVerb, doctorVerb, checkVerb, storeVerb, importVerb, completionVerb, versionVerb, helpVerb}},
}

// former are names of before for what is a part of another verb now. They work, and
// no list shows them.
var former = verbs{tokenVerb, soifVerb, promoteVerb, takeoverVerb, handoverVerb}

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
		root.Long = manualOf()
		*failed = explain(c, cmd)
	})
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, verb := range g.verbs {
			cmd := verb(c)
			cmd.GroupID = g.title
			if cmd.Name() == "help" {
				root.SetHelpCommand(cmd)
			}
			root.AddCommand(cmd)
		}
	}
	for _, verb := range former {
		cmd := verb(c)
		cmd.Hidden = true
		root.AddCommand(cmd)
	}
	return root
}

// misuse makes a usage error of an error in an option.
func misuse(cmd *cobra.Command, err error) error {
	hint := "cutie help lists commands and options"
	if cmd.HasParent() {
		hint = "cutie help " + pathOf(cmd)
	}
	return fault.Hint(fault.Usagef("%s", fault.InOption(err)), hint)
}

// find returns the verb with these names or aliases.
func find(root *cobra.Command, words ...string) *cobra.Command {
	cmd, rest, err := root.Find(words)
	if err != nil || cmd == root || len(rest) > 0 {
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
