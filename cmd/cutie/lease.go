package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/queuefs/home"
	queuejob "cutie/queuefs/job"
	"cutie/queuefs/state"
)

// extendVerb keeps the lease of a job for longer.
func extendVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "extend QUEUE JOB",
		Aliases: []string{"extendLease", "touch"},
		Short:   "keep the lease of a job for longer",
		Long: `
The lease ends --for from now, or after the time that leases of the queue last. A
lease that has ended, or whose job has another consumer by now, cannot be extended
(exit code 5). Prints the state of the job.`,
		Example: `cutie extend jobs j000000000001 --lease @job.lease --for 10m`,
	}
	fs := cmd.Flags()
	lease := bindLease(fs)
	length := fs.Duration("for", 0, "this `time` from now, such as 10m")
	quiet := fs.BoolP("quiet", "q", false, "print nothing")
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		if *length < 0 || fs.Changed("for") && *length == 0 {
			return usagef("--for %v is no time", *length)
		}
		token, err := readLease(*lease)
		if err != nil {
			return err
		}
		return eachJob(ctx, c, manner{"extended", *quiet}, func(t *target, ctx context.Context, queue, job string) (queuejob.Job, error) {
			return t.Extend(ctx, queue, job, token, *length)
		})
	})
}

// reportVerb reports the outcome of a job.
func reportVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "report QUEUE JOB",
		Aliases: []string{"reportOutcome", "done", "fail"},
		Short:   "report the outcome of a job and end its lease",
		Long: `
A job is completed, or has ended in an error, or is released: given back for other
consumers, whatever its attempts. Called as done or fail it needs no --outcome. A
report after the end of the lease changes nothing (exit code 5). Prints the state
of the job.

After a --transient error the job is pending again for another attempt, on hold
for --retry-in or as the queue says; see cutie help set.`,
		Example: `cutie done jobs j000000000001 --lease @job.lease
cutie fail jobs j000000000003 --lease @other.lease --message 'no such page'
cutie fail jobs j000000000004 --lease @last.lease --transient --retry-in 5m`,
	}
	var r queuejob.Conclusion
	fs := cmd.Flags()
	lease := bindLease(fs)
	outcome := fs.String("outcome", "", "`completed|error|released`")
	fs.StringVarP(&r.Message, "message", "m", "", "`text` about it")
	fs.BoolVar(&r.Transient, "transient", false, "another attempt may succeed; only of an error")
	retry := fs.Duration("retry-in", 0, "`time` until another attempt, such as 5m; only with --transient")
	quiet := fs.BoolP("quiet", "q", false, "print nothing")
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		what := strings.ToLower(*outcome)
		if implied := map[string]string{"done": "completed", "fail": "error"}[c.Word()]; implied != "" {
			if what != "" && what != implied {
				return usagef("%s says that the outcome is %s, and --outcome %.40q", c.Word(), implied, what)
			}
			what = implied
		}
		if r.Transient && what != "error" {
			return usagef("--transient is of the outcome error only")
		}
		if fs.Changed("retry-in") {
			switch {
			case !r.Transient:
				return usagef("--retry-in is of a --transient error only")
			case *retry < 0 || *retry > home.MaxLease:
				return usagef("--retry-in %v is not from 0s to %v", *retry, home.MaxLease)
			}
			r.RetryIn = retry
		}
		token, err := readLease(*lease)
		if err != nil {
			return err
		}
		do := func(t *target, ctx context.Context, queue, job string) (queuejob.Job, error) {
			return t.Conclude(ctx, queue, job, token, r)
		}
		switch what {
		case "completed":
			r.Outcome = queuejob.Completed
		case "error":
			r.Outcome = queuejob.Failed
		case "released":
			do = func(t *target, ctx context.Context, queue, job string) (queuejob.Job, error) {
				return t.Return(ctx, queue, job, token, r.Message)
			}
		case "":
			return usagef("no --outcome is given: completed, error or released")
		default:
			return usagef("--outcome %.40q is none of completed, error, released", *outcome)
		}
		return eachJob(ctx, c, manner{"reported", *quiet}, do)
	})
}

// bindLease adds the option for the token of a lease.
func bindLease(fs *pflag.FlagSet) *string {
	lease := fs.String("lease", os.Getenv(leaseVariable), "`token` of the lease, or @FILE to read it from (environment "+leaseVariable+")")
	fs.Lookup("lease").DefValue = ""
	return lease
}

// maxToken is the most octets in the file of a token.
const maxToken = 1 << 10

// readLease returns the token in an option, or in the file it names.
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

// attachVerb adds a file to the results of a job.
func attachVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "attach QUEUE JOB FILE|-",
		Aliases: []string{"putResult"},
		Short:   "add a file to the results of a job",
		Long: `
It is for the consumer with the lease of the job. The result has the name of FILE,
or that of --name, which standard input needs. A name that the job already has is
refused (exit code 5).`,
		Example: `cutie attach jobs j000000000001 report.pdf --lease @job.lease`,
	}
	var o putOptions
	fs := cmd.Flags()
	lease := bindLease(fs)
	fs.StringVar(&o.filename, "name", "", "the result's `name`: letters, digits and . _ -")
	fs.StringVar(&o.mediaType, "media-type", "", "record this `type` instead of a guess from the name")
	fs.StringVar(&o.digest, "digest", "", "refuse a result without this `type:hex`, such as md5:…")
	return c.Verb(cmd, optTarget, func(ctx context.Context) error { return attach(ctx, c, *lease, o) })
}

func attach(ctx context.Context, c *call, lease string, o putOptions) error {
	job, file := c.Args[1], c.Args[2]
	token, err := readLease(lease)
	if err != nil {
		return err
	}
	meta, err := o.meta()
	if err != nil {
		return err
	}
	list, err := payloads(ctx, c, []string{file}, false)
	if err != nil {
		return err
	}
	if meta.Filename == "" && file == "-" {
		return usagef("standard input has no name, --name gives it one")
	}
	if meta.Filename == "" {
		meta.Filename = filepath.Base(file)
	}
	if err := queuejob.CheckResultName(meta.Filename); err != nil {
		return withHint(err, "--name gives it another name")
	}
	return c.AtQueue(ctx, func(t *target, queue string) error {
		if err := mayExist(ctx, t, queue, job); err != nil {
			return jobError(queue, job, err)
		}
		s := newSubmission(c, t, queue, meta, list)
		err := t.PutResult(ctx, queue, job, token, s.upload(list[0]))
		s.show.Clear()
		return jobError(queue, job, err)
	})
}

// resultVerb reads a result of a job, or lists their names.
func resultVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "result QUEUE JOB [NAME]",
		Aliases: []string{"getResult", "results"},
		Short:   "read a result of a job, or list their names",
		Example: `cutie result jobs j000000000004
cutie result jobs j000000000004 -t json
cutie result jobs j000000000004 log.txt -o log.txt`,
	}
	return c.Verb(cmd, optTarget|optReads|optOutput|optForm, func(ctx context.Context) error {
		job := c.Args[1]
		if len(c.Args) == 3 {
			if c.Form != "" {
				return usagef("a result is printed as it is, and has no response form")
			}
			if err := queuejob.CheckResultName(c.Args[2]); err != nil {
				return err
			}
		}
		return c.AtQueue(ctx, func(t *target, queue string) error {
			err := mayExist(ctx, t, queue, job)
			switch {
			case err != nil:
			case len(c.Args) == 3:
				err = result(ctx, c, t, queue, job, c.Args[2])
			default:
				err = listResults(ctx, c, t, queue, job)
			}
			return jobError(queue, job, err)
		})
	})
}

func listResults(ctx context.Context, c *call, t *target, queue, job string) error {
	j, err := t.Job(ctx, queue, job)
	if err != nil {
		return err
	}
	if c.Form != "" {
		var facts []state.Document
		for _, r := range j.Results {
			facts = append(facts, state.OfFacts(state.ResultClass, queue, job, r.Name))
		}
		return c.Facts(true, facts...)
	}
	var names []string
	for _, r := range j.Results {
		names = append(names, r.Name)
	}
	return c.Out.Lines(names)
}

func result(ctx context.Context, c *call, t *target, queue, job, name string) error {
	d, err := t.Result(ctx, queue, job, name)
	if err != nil {
		return err
	}
	err = c.Out.Exact(func(w io.Writer) error { return copyBody(w, d) })
	return errors.Join(err, d.Body.Close())
}
