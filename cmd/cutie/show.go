package main

import (
	"context"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/bulk"
)

// showVerb shows jobs (Cutie 0.3, 5.4).
func showVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show QUEUE JOB…|-",
		Aliases: []string{"getJobState", "stat"},
		Short:   "show jobs",
		Long: `
Prints the states of jobs: an empty line stands between two, or with -t json each
has a line. - reads the identifiers from standard input.`,
		Example: `cutie show jobs j000000000001
cutie ls jobs -q | cutie show jobs - -t json`,
	}
	return c.Verb(cmd, optTarget|optReads|optForm|optOutput, func(ctx context.Context) error {
		return eachJob(ctx, c, manner{}, func(t *reach.Target, ctx context.Context, queue, job string) (queuefs.Job, error) {
			if err := mayExist(ctx, t, queue, job); err != nil {
				return queuefs.Job{}, err
			}
			return t.Job(ctx, queue, job)
		})
	})
}

// mayExist refuses names impossible for a job, which no URL could carry: with the
// error for the queue, or with [queuefs.ErrNoJob].
func mayExist(ctx context.Context, t *reach.Target, queue, job string) error {
	if _, err := queuefs.ParseJobID(job); err == nil {
		return nil
	}
	if _, err := t.Queue(ctx, queue, bulk.Filter{Limit: -1}); err != nil {
		return err
	}
	return queuefs.ErrNoJob
}
