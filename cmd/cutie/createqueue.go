package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"cutie/queuefs"
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
"/", ":" and "." in it are replaced there by "=", "+" and ",".`,
	takes: atTarget,
	setup: setupCreateQueue,
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
		t, err := c.target(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		if _, err := t.CreateQueue(ctx, info); err != nil {
			return about(info.Identifier, err)
		}
		return nil
	}
}
