package main

import (
	"context"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs/home"
)

func importVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import HOME",
		Short: "copy a home that another program wrote",
		Long: `
Copies HOME, a home of Cutie 0.3, to the directory of --home, which must not exist.
Jobs get identifiers of the form that this program uses, in the order of their old
ones; status, dates, sidecars and payloads stay. Prints a line for each job, with
tabs: queue, old identifier, new identifier. The old one also stays in the job file,
as the element formerIdentifier. Nothing in HOME is changed. Links are not followed,
and what is not a regular file is refused.

A home with identifiers of the right form needs no import: cutie serve opens it as it
is. Without queues.txt its directories with queue-info.txt are the queues.`,
		Example: `cutie import /srv/old --home new > names`,
	}
	return c.Verb(cmd, optHome|optOutput, func(context.Context) error {
		if err := reach.AsOwner(c.Home); err != nil {
			return err
		}
		rows, err := home.Import(c.Args[0], c.Home)
		if err != nil {
			return fault.Hint(err, "nothing was imported; remove "+c.Home+" if it was made, and try again")
		}
		lines := make([]string, len(rows))
		for i, r := range rows {
			lines[i] = r.Queue + "\t" + r.Old + "\t" + r.New
		}
		return c.Out.Lines(lines)
	})
}
