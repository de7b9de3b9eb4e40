package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/output"
	"cutie/cmd/cutie/target"
	"cutie/queuefs"

	"github.com/spf13/cobra"
)

// groups are all verbs, in the order of the help text.
var groups = []struct {
	title string
	verbs []func(*call) *cobra.Command
}{
	{"queues", []func(*call) *cobra.Command{statusVerb, listVerb, createVerb, setVerb, removeQueueVerb}},
	{"jobs", []func(*call) *cobra.Command{putVerb, batchVerb, getVerb, peekVerb, showVerb, removeVerb, requeueVerb, holdVerb,
		releaseVerb, abortVerb, resultVerb}},
	{"workers", []func(*call) *cobra.Command{workVerb, extendVerb, reportVerb, attachVerb, uwsVerb}},
	{"publishing", []func(*call) *cobra.Command{publishVerb, exportVerb, watchVerb, rdmVerb, soifVerb}},
	{"access", []func(*call) *cobra.Command{userVerb, tokenVerb}},
	{"maintenance", []func(*call) *cobra.Command{initVerb, serveVerb, checkVerb, cullVerb, completionVerb, versionVerb, helpVerb}},
}

// A call is one use of the program.
type call struct {
	options
	cmd       *cobra.Command // the verb
	args      []string       // as many as its usage line says
	announced bool           // -v has named the target
	failed    error          // of help; cobra has no way to return one
	stdin     io.Reader
	stderr    *os.File
}

// root returns the tree of commands. Options common to all verbs may stand
// before the verb or after it; both are bound to c.
func (c *call) root() *cobra.Command {
	cobra.EnableCaseInsensitive = true
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:               "cutie [OPTION…] COMMAND [ARGUMENT…]",
		Short:             "durable queues in a directory, served and published",
		Long:              overview(),
		Version:           versionLine(),
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
	c.bind(root, ^common(0))
	root.DisableFlagsInUseLine, root.DisableAutoGenTag = true, true
	root.Flags().SetInterspersed(false)
	root.SetOut(c.Out.Stdout)
	root.SetErr(c.stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(misuse)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { c.failed = c.explain(cmd) })
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
	return root
}

// verb completes a command with the common options in takes, its checks, its
// completions and its action. The usage line checks its arguments, unless the
// command has another check.
func (c *call) verb(cmd *cobra.Command, takes common, do func(context.Context) error) *cobra.Command {
	c.bind(cmd, takes)
	cmd.DisableFlagsInUseLine, cmd.DisableAutoGenTag = true, true
	cmd.Version = versionLine()
	cmd.Long = strings.TrimSpace(cmd.Long)
	if len(cmd.Aliases) > 0 {
		cmd.Long = strings.TrimSpace(cmd.Long + "\n\nAlso: " + strings.Join(cmd.Aliases, ", "))
	}
	if cmd.Args == nil {
		cmd.Args = byUsage
	}
	cmd.ValidArgsFunction = c.completeArgument
	c.completeOptions(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.cmd, c.args = cmd, args
		if err := c.checkCommon(takes); err != nil {
			return fault.Hint(err, "cutie help "+cmd.Name())
		}
		return do(cmd.Context())
	}
	return cmd
}

// operands are the arguments in the usage line of a verb.
func operands(cmd *cobra.Command) []string {
	return slices.DeleteFunc(strings.Fields(cmd.Use)[1:], func(s string) bool { return s == "--" })
}

// byUsage checks the number of arguments against the usage line: those in
// brackets may be missing, and … stands for more.
func byUsage(cmd *cobra.Command, args []string) error {
	least, most := 0, 0
	for _, word := range operands(cmd) {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		most++
	}
	if strings.Contains(cmd.Use, "…") {
		most = -1
	}
	return between(least, most)(cmd, args)
}

// between checks for least to most arguments; most is -1 for any number.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) (err error) {
		switch {
		case len(args) < least:
			err = fault.Usagef("too few arguments, usage: %s", cmd.UseLine())
		case most >= 0 && len(args) > most:
			err = fault.Usagef("too many arguments: %.60q", args[most])
		default:
			return nil
		}
		return fault.Hint(err, "cutie help "+cmd.Name())
	}
}

// misuse makes a usage error of an error in an option.
func misuse(cmd *cobra.Command, err error) error {
	hint := "cutie help lists commands and options"
	if cmd.HasParent() {
		hint = "cutie help " + cmd.Name()
	}
	return fault.Hint(fault.Usagef("%v", err), hint)
}

// find returns the verb with this name or alias.
func find(root *cobra.Command, word string) *cobra.Command {
	cmd, _, err := root.Find([]string{word})
	if err != nil || cmd == root {
		return nil
	}
	return cmd
}

// maxNear is the most names in a hint; more are no help.
const maxNear = 3

// unknown is the error for an unknown verb. Its hint is the nearest name.
func unknown(root *cobra.Command, word string) error {
	all := &cobra.Command{SuggestionsMinimumDistance: min(2, len(word)/3)} // slips
	for _, cmd := range root.Commands() {
		for _, name := range append([]string{cmd.Name()}, cmd.Aliases...) {
			all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
		}
	}
	hint := "cutie help lists the commands"
	if near := all.SuggestionsFor(word); len(near) > 0 && len(near) <= maxNear {
		hint = fmt.Sprintf("did you mean %s? %s", strings.Join(near, " or "), hint)
	}
	return fault.Hint(fault.Usagef("unknown command %.40q", word), hint)
}

// at does something at the target.
func (c *call) at(ctx context.Context, do func(t *target.Target) error) (err error) {
	t, err := c.Find(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	return do(t)
}

// atQueue does something with the queue of the first argument. Its errors name
// the queue.
func (c *call) atQueue(ctx context.Context, do func(t *target.Target, queue string) error) error {
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	return c.at(ctx, func(t *target.Target) error { return fault.About(queue, do(t, queue)) })
}

// queueArg is the queue of the first argument. Names impossible in a URL are not
// found.
func (c *call) queueArg() (string, error) {
	switch q := c.args[0]; q {
	case "", ".", "..":
		return q, fault.About(q, queuefs.ErrNoQueue)
	default:
		return q, nil
	}
}

// word is the name or alias of this call of the verb, in lower case.
func (c *call) word() string { return strings.ToLower(c.cmd.CalledAs()) }

// warnf prints a line on standard error and goes on.
func (c *call) warnf(format string, a ...any) {
	fmt.Fprintf(output.Screen(c.stderr), "cutie: %s: %s\n", c.cmd.Name(), fmt.Sprintf(format, a...))
}

// sayf is warnf with -v only.
func (c *call) sayf(format string, a ...any) {
	if c.verbose {
		c.warnf(format, a...)
	}
}
