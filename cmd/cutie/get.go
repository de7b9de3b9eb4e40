package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/rest/client"
)

// getVerb takes the job at the head of a queue (Cutie 0.3, 5.6).
func getVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get QUEUE",
		Aliases: []string{"getNextJob", "next", "take"},
		Short:   "take the job at the head of the queue",
		Long: `
The payload goes to standard output, or to the file of -o, which appears whole or
not at all. A sidecar goes to the file of --sidecar, or to FILE.sidecar beside the
output file; without a sidecar there is no such file. Without --sidecar, standard
error says that the job has a sidecar, and where it is, unless a description of the
job has it. The job is consumed then; cutie requeue puts it back. If nothing is
pending the exit code is 4. With -v the identifier of the job is printed on standard
error.

With -t multipart the output is the job as the network carries it: a MIME message
with the payload and the sidecar as parts.

--wait waits for a job: --wait 30 for 30 seconds, --wait alone without an end.

With --lease, and always from a queue that wants reports, the job is handed out
for some time. Then it goes back, unless its outcome was reported. cutie report,
extend and attach need the token of the lease. It goes to the file of
--lease-out, or to FILE.lease beside the output file; without any file it is
printed on standard error after the identifier of the job.

With --key the same command may be given again after an answer was lost: it gets the
same job, with the same token, while its lease lasts, and without a lease for five
minutes. Take a key nobody can guess: it is as good as the token.

For scripts --meta writes a description of the job to a file, in JSON or in the
form of -t: identifier, attempt, the token and the end of its lease, and references
for reports. With -t and -o the description goes to standard output.`,
		Example: `cutie get jobs -o job
cutie get jobs --wait 30 -v
cutie get jobs --lease=10m -o job
cutie get jobs --key "$(cat /proc/sys/kernel/random/uuid)" -o job
cutie get jobs --lease=10m -o job -t json`,
	}
	var o delivery
	flags := cmd.Flags()
	flags.StringVar(&o.sidecar, "sidecar", "", "write the sidecar to `file`")
	lease := flags.String("lease", "", "hand the job out for this `time`, such as 10m, up to 24h")
	flags.StringVar(&o.token, "lease-out", "", "write the token of the lease to `file`")
	flags.StringVar(&o.meta, "meta", "", "write a description of the job to `file`")
	key := flags.String("key", "", "get the same job, however often this `name` is sent")
	wait := waiting{flags: flags}
	flags.Var(&wait, "wait", "wait for a job, this many `seconds` or without an end")
	flags.Lookup("wait").NoOptDefVal = endless
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		queue, _ := wait.split(args)
		return between(1, 1)(cmd, queue)
	}
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) (err error) {
		queue, seconds := wait.split(c.Args)
		c.Args = queue
		if o.limit, err = parseWait(seconds); err != nil {
			return err
		}
		length, err := parseLease(*lease)
		if err != nil {
			return err
		}
		if err := checkKey(flags, *key); err != nil {
			return err
		}
		whole := isMessage(c.Form)
		if o.form, err = o.described(c, whole); err != nil {
			return err
		}
		if whole {
			err = o.alone()
		}
		if err != nil {
			return err
		}
		o.consumes = true
		return deliver(ctx, c, o, func(t *reach.Target, queue string, left time.Duration) (*client.Delivery, error) {
			how := queuefs.Take{Lease: length, Key: *key}
			if whole {
				return t.NextMessage(ctx, queue, how, left)
			}
			return t.NextFor(ctx, queue, how, left)
		})
	})
}

// peekVerb reads a job and leaves it in the queue (Cutie 0.3, 5.7).
func peekVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "peek QUEUE [JOB]",
		Aliases: []string{"peekAtJob", "peekJob"},
		Short:   "read a job and leave it in the queue",
		Long: `
JOB may have any status; without it, the job at the head is read. The output is
that of cutie get.`,
		Example: `cutie peek jobs
cutie peek jobs j000000000001 -o copy`,
	}
	var o delivery
	cmd.Flags().StringVar(&o.sidecar, "sidecar", "", "write the sidecar to `file`")
	return c.Verb(cmd, optTarget|optReads|optForm|optOutput, func(ctx context.Context) error {
		job := ""
		if len(c.Args) > 1 {
			job = c.Args[1]
		}
		whole := isMessage(c.Form)
		switch {
		case whole:
			if err := o.alone(); err != nil {
				return err
			}
		case c.Form != "":
			return fault.Hint(fault.Usagef("a job has no response form %.40q", c.Form), "-t multipart, or without -t the payload alone; cutie show prints states")
		}
		return deliver(ctx, c, o, func(t *reach.Target, queue string, _ time.Duration) (*client.Delivery, error) {
			if len(c.Args) > 1 {
				if err := mayExist(ctx, t, queue, job); err != nil {
					return nil, err
				}
			}
			if whole {
				return t.PeekMessage(ctx, queue, job)
			}
			return t.Peek(ctx, queue, job)
		})
	})
}

// parseLease reads the length of a lease; "" is the default of the queue.
func parseLease(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := parseSeconds(s)
	if err != nil || d <= 0 {
		return 0, fault.Usagef("--lease %.40q is neither seconds nor a duration such as 10m", s)
	}
	return d, nil
}

// parseSeconds reads a duration, or a number of seconds.
func parseSeconds(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	return time.ParseDuration(s + "s")
}

// betweenTakes is the pause before a home without a daemon is opened again.
// Other commands may submit to it meanwhile.
const betweenTakes = time.Second

// await takes a job, and tries again until limit is over.
func await(ctx context.Context, c *call, queue string, limit time.Duration, take taker) (*reach.Target, *client.Delivery, error) {
	for start := time.Now(); ; {
		t, err := c.Find(ctx)
		if err != nil {
			return nil, nil, err
		}
		wait := max(0, limit-time.Since(start))
		if t.Local() {
			wait = 0 // nobody else can submit to it
		}
		d, err := take(t, queue, wait)
		if err == nil {
			return t, d, nil
		}
		err = errors.Join(err, t.Close())
		left := limit - time.Since(start)
		if !errors.Is(err, queuefs.ErrEmpty) || left <= 0 {
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(min(left, betweenTakes)):
		}
	}
}
