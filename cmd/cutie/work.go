package main

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"cutie/queuefs"
)

// leaseVariable names the token of a lease in the environment.
const leaseVariable = "CUTIE_LEASE"

var extendVerb = verb{
	name:    "extendLease",
	aliases: []string{"extend", "touch"},
	args:    "QUEUE JOB",
	min:     2,
	max:     2,
	about:   "keep the lease of a job for longer",
	manual: `
The lease ends --for from now, or as long as leases of the queue last. A lease
that is over, or whose job somebody else has by now, cannot be extended (exit
code 5). Prints the state of the job.`,
	examples: `cutie extendLease jobs j000000000001 --lease @job.lease --for 10m`,
	takes:    atTarget | withForm | toOutput,
	setup: func(fs *pflag.FlagSet) action {
		var quiet bool
		lease := bindLease(fs)
		length := fs.Duration("for", 0, "this `time` from now, such as 10m")
		fs.BoolVarP(&quiet, "quiet", "q", false, "print nothing")
		return func(ctx context.Context, c *call) error {
			if *length < 0 || fs.Changed("for") && *length == 0 {
				return usagef("--for %v is no time", *length)
			}
			token, err := readLease(*lease)
			if err != nil {
				return err
			}
			return c.eachJob(ctx, manner{"extended", quiet}, func(t target, ctx context.Context, queue, job string) (queuefs.Job, error) {
				return t.Extend(ctx, queue, job, token, *length)
			})
		}
	},
}

var outcomeVerb = verb{
	name:    "reportOutcome",
	aliases: []string{"report", "done", "fail"},
	args:    "QUEUE JOB",
	min:     2,
	max:     2,
	about:   "report what became of a job, which ends its lease",
	manual: `
A job is completed, or ended in an error, or is released: given back for others,
whatever its attempts. Called as done or fail it needs no --outcome. A report
that comes when the lease is over changes nothing (exit code 5). Prints the state
of the job.`,
	examples: `cutie done jobs j000000000001 --lease @job.lease
cutie fail jobs j000000000003 --lease @other.lease --transient --message 'disk full'`,
	takes: atTarget | withForm | toOutput,
	setup: setupOutcome,
}

func setupOutcome(fs *pflag.FlagSet) action {
	var (
		quiet bool
		r     queuefs.Conclusion
	)
	lease := bindLease(fs)
	outcome := fs.String("outcome", "", "`completed|error|released`")
	fs.StringVarP(&r.Message, "message", "m", "", "`text` about it")
	fs.BoolVar(&r.Transient, "transient", false, "another attempt may go better; only of an error")
	fs.BoolVarP(&quiet, "quiet", "q", false, "print nothing")
	return func(ctx context.Context, c *call) error {
		what := strings.ToLower(*outcome)
		if implied := map[string]string{"done": "completed", "fail": "error"}[c.word]; implied != "" {
			if what != "" && what != implied {
				return usagef("%s says that the outcome is %s, and --outcome %.40q", c.word, implied, what)
			}
			what = implied
		}
		if r.Transient && what != "error" {
			return usagef("--transient is of the outcome error only")
		}
		token, err := readLease(*lease)
		if err != nil {
			return err
		}
		do := func(t target, ctx context.Context, queue, job string) (queuefs.Job, error) {
			return t.Conclude(ctx, queue, job, token, r)
		}
		switch what {
		case "completed":
			r.Outcome = queuefs.Completed
		case "error":
			r.Outcome = queuefs.Failed
		case "released":
			do = func(t target, ctx context.Context, queue, job string) (queuefs.Job, error) {
				return t.Return(ctx, queue, job, token, r.Message)
			}
		case "":
			return usagef("no --outcome is given: completed, error or released")
		default:
			return usagef("--outcome %.40q is none of completed, error, released", *outcome)
		}
		return c.eachJob(ctx, manner{"reported", quiet}, do)
	}
}

func bindLease(fs *pflag.FlagSet) *string {
	return fs.String("lease", os.Getenv(leaseVariable), "`token` of the lease, or @FILE that holds it (environment "+leaseVariable+")")
}

// maxToken is the most octets of a file with a token.
const maxToken = 1 << 10

// readLease returns the token that an option holds or names.
func readLease(s string) (string, error) {
	if name, ok := strings.CutPrefix(s, "@"); ok {
		text, err := readText(name, maxToken, "the token of a lease")
		if err != nil {
			return "", err
		}
		s = strings.TrimSpace(text)
	}
	if s == "" {
		return "", withHint(usagef("no --lease is given"), "cutie get --lease=10m -o FILE leaves its token in FILE.lease")
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", usagef("--lease is no token")
	}
	return s, nil
}

// parseLease reads how long a lease is to last: a duration, or seconds.
func parseLease(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		d, err = time.ParseDuration(s + "s")
	}
	if err != nil || d <= 0 {
		return 0, usagef("--lease %.40q is neither seconds nor a duration such as 10m", s)
	}
	return d, nil
}
