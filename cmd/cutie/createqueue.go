package main

import (
	"context"

	"github.com/spf13/pflag"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

var createQueueVerb = verb{
	name:    "createQueue",
	aliases: []string{"create"},
	args:    "ID",
	min:     1,
	max:     1,
	about:   "add a queue",
	manual: `
ID is the identifier of the queue. It names the directory and stands in URLs;
"/", ":" and "." in it are replaced there by "=", "+" and ",". What else a queue
may have, setQueue sets.

Prints nothing; with -t the state of the queue.`,
	examples: `cutie createQueue ingest --name 'primary ingest' --size 1000 --age 720`,
	takes:    atTarget | withForm | toOutput,
	setup:    setupCreateQueue,
}

func setupCreateQueue(flags *pflag.FlagSet) action {
	info := queuefs.QueueInfo{VerifyOnWrite: true}
	flags.StringVar(&info.Name, "name", "", "`name` for people (default the identifier)")
	flags.StringVar(&info.Description, "description", "", "`text` about the queue")
	flags.Int64Var(&info.CullingSize, "size", -1, "`number` of processed jobs to keep; -1 for all")
	flags.Int64Var(&info.CullingAge, "age", -1, "`hours` to keep processed jobs at least; -1 for unset")
	return func(ctx context.Context, c *call) (err error) {
		if info.CullingSize < -1 || info.CullingAge < -1 {
			return usagef("--size and --age are 0 or more, or -1")
		}
		info.Identifier = c.args[0]
		if info.Name == "" {
			info.Name = info.Identifier
		}
		if info.ID, err = queuefs.CleanQueueID(info.Identifier); err != nil {
			return err
		}
		return c.answerQueue(ctx, func(t target, _ string) (state.Queue, error) { return t.CreateQueue(ctx, info) })
	}
}
