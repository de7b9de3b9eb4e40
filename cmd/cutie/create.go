package main

import (
	"context"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

// createQueueVerb adds a queue.
func createQueueVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "create ID",
		Aliases: []string{"createQueue"},
		Short:   "add a queue",
		Long: `
ID is the identifier of the queue. It names the directory and stands in URLs;
there "/", ":" and "." become "=", "+" and ",". cutie set changes the other
properties of a queue.

Prints nothing; with -t it prints the state of the queue.`,
		Example: `cutie create ingest --name 'primary ingest' --size 1000 --age 720`,
	}
	info := queuefs.QueueInfo{}
	flags := cmd.Flags()
	flags.StringVar(&info.Name, "name", "", "`name` for people (default the identifier)")
	flags.StringVar(&info.Description, "description", "", "`text` about the queue")
	flags.Int64Var(&info.CullingSize, "size", -1, "`number` of processed jobs to keep; -1 for all")
	flags.Int64Var(&info.CullingAge, "age", -1, "`hours` to keep processed jobs at least; -1 for unset")
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) (err error) {
		if info.CullingSize < -1 || info.CullingAge < -1 {
			return fault.Usagef("--size and --age are 0 or more, or -1")
		}
		info.Identifier = c.Args[0]
		if info.Name == "" {
			info.Name = info.Identifier
		}
		if info.ID, err = queuefs.CleanQueueID(info.Identifier); err != nil {
			return err
		}
		return answerQueue(ctx, c, func(t *reach.Target, _ string) (state.Queue, error) {
			q, err := t.CreateQueue(ctx, info)
			if err == nil && q.Info.ID != info.Identifier {
				c.Warnf("%s: is %s in URLs and as a directory", info.Identifier, q.Info.ID)
			}
			return q, err
		})
	})
}
