package call

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
)

// Verb completes a command with the common options in takes, its checks, its
// completions and its action. The usage line checks its arguments, unless the
// command has another check.
func (c *Call) Verb(cmd *cobra.Command, takes Option, do func(context.Context) error) *cobra.Command {
	c.Bind(cmd, takes)
	cmd.DisableFlagsInUseLine, cmd.DisableAutoGenTag = true, true
	cmd.Long = strings.TrimSpace(cmd.Long)
	if len(cmd.Aliases) > 0 {
		cmd.Long = strings.TrimSpace(cmd.Long + "\n\nAlso: " + strings.Join(cmd.Aliases, ", "))
	}
	if cmd.Args == nil {
		cmd.Args = byUsage
	}
	cmd.ValidArgsFunction = c.completeArgument
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.Cmd, c.Args = cmd, args
		if err := c.checkOptions(takes); err != nil {
			return fault.Hint(err, "cutie help "+cmd.Name())
		}
		c.Reads = takes&Reads != 0
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
	return Between(least, most)(cmd, args)
}

// Between checks for least to most arguments; most is -1 for any number.
func Between(least, most int) cobra.PositionalArgs {
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
