package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/topics"
	"cutie/queuefs/state"
)

// overview is the description of the program. To make it takes a thirtieth of a start, so
// only help does.
func overview() string {
	var b strings.Builder
	b.WriteString(`Where the queue is: --url names a daemon, --home a directory. Without either it
is CUTIE_URL, then CUTIE_HOME, then ./cutie_home. A daemon on that directory is
asked through its socket; if there is none, the command opens the directory
itself. The answers are the same. CUTIE_TOKEN holds the token for a daemon that
wants one.

Exit codes:

`)
	for code, text := range fault.ExitTexts {
		fmt.Fprintf(&b, "    %d  %s\n", code, text)
	}
	b.WriteString("\nTopics:\n\n")
	for _, t := range topics.All() {
		fmt.Fprintf(&b, "    %-11s %s\n", t.Name, t.Summary)
	}
	return b.String() + "\ncutie help COMMAND explains a command and its options, cutie help TOPIC a topic."
}

func helpVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "explain a command or a topic, or list them all",
		Long: `
Prints text. With -t it prints a help document (Cutie 0.3, 5.1), and with --man
the manual page, for "man -l -". With -q it lists only the names of the commands.`,
		Example: `cutie help get
cutie help -t json put
cutie help --man put -o put.1`,
	}
	man := cmd.Flags().Bool("man", false, "print the manual page (roff)")
	quiet := cmd.Flags().BoolP("quiet", "q", false, "list the names of the commands only")
	c.Verb(cmd, optForm|optOutput, func(context.Context) error {
		about := cmd.Root()
		about.Long = overview()
		if len(c.Args) > 0 {
			if t, ok := topics.Find(c.Args[0]); ok && !*man && !*quiet && c.Form == "" {
				return c.Out.Emit([]byte("cutie " + t.Name + ": " + t.Summary + "\n\n" + t.Text))
			}
			if text, ok := topics.Worker(c.Args[0]); ok && !*man && !*quiet && c.Form == "" {
				return c.Out.Emit(text)
			}
			if about = find(cmd.Root(), c.Args[0]); about == nil {
				return unknown(cmd.Root(), c.Args[0])
			}
		}
		switch {
		case *quiet && (len(c.Args) > 0 || *man || c.Form != ""), *man && c.Form != "":
			return fault.Usagef("--quiet, --man and --response-form exclude each other, and --quiet lists all commands")
		case *quiet:
			return c.Out.Lines(names(cmd.Root()))
		case *man:
			return manual(c, about)
		}
		return explain(c, about)
	})
	cmd.ValidArgsFunction = completeNames
	return cmd
}

// completeNames completes the names of topics and commands.
func completeNames(cmd *cobra.Command, args []string, typed string) (all []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		for _, t := range topics.All() {
			all = append(all, cobra.CompletionWithDesc(t.Name, t.Summary))
		}
		for _, v := range cmd.Root().Commands() {
			for _, word := range append([]string{v.Name()}, v.Aliases...) {
				all = append(all, cobra.CompletionWithDesc(word, v.Short))
			}
		}
	}
	return startingWith(all, typed), cobra.ShellCompDirectiveNoFileComp
}

func names(root *cobra.Command) (all []string) {
	for _, cmd := range root.Commands() {
		if cmd.GroupID != "" {
			all = append(all, cmd.Name())
		}
	}
	return all
}

// explain prints the help text of a command, in a response form if one was
// given (Cutie 0.3, 5.1).
func explain(c *call, cmd *cobra.Command) error {
	if c.Form == "" {
		return c.Out.Emit([]byte(helpText(cmd)))
	}
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	h := state.Help{Summary: cmd.Short, Request: usage(cmd), Text: helpText(cmd)}
	if cmd.HasParent() {
		h.Method = method(cmd)
	} else {
		for _, verb := range cmd.Commands() {
			if verb.GroupID != "" {
				h.Methods = append(h.Methods, method(verb))
			}
		}
	}
	d := state.OfHelp(h)
	return c.Out.Emit(form.Append(nil, &d))
}

// method is the name in Cutie 0.3, 5 if there is one: the alias with capitals.
func method(cmd *cobra.Command) string {
	for _, name := range cmd.Aliases {
		if strings.ToLower(name) != name {
			return name
		}
	}
	return cmd.Name()
}

// usage is the usage line with options in it.
func usage(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return cmd.UseLine()
	}
	name := cmd.CommandPath()
	return name + " [OPTION…]" + strings.TrimPrefix(cmd.UseLine(), name)
}

func helpText(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nusage: %s\n", cmd.CommandPath(), cmd.Short, usage(cmd))
	for _, g := range cmd.Groups() {
		fmt.Fprintf(&b, "\n%s:\n", g.Title)
		for _, v := range cmd.Commands() {
			if v.GroupID == g.ID {
				fmt.Fprintf(&b, "  %-10s  %s", v.Name(), v.Short)
				if len(v.Aliases) > 0 {
					fmt.Fprintf(&b, " (%s)", strings.Join(v.Aliases, ", "))
				}
				b.WriteByte('\n')
			}
		}
	}
	if cmd.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", cmd.Long)
	}
	fmt.Fprintf(&b, "\noptions:\n%s", cmd.Flags().FlagUsagesWrapped(80))
	if cmd.Example != "" {
		b.WriteString("\nexamples:\n")
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}
