package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

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
		return fault.Usagef("standard input has no name, --name gives it one")
	}
	if meta.Filename == "" {
		meta.Filename = filepath.Base(file)
	}
	if err := queuefs.CheckResultName(meta.Filename); err != nil {
		return fault.Hint(err, "--name gives it another name")
	}
	return c.AtQueue(ctx, func(t *reach.Target, queue string) error {
		if err := mayExist(ctx, t, queue, job); err != nil {
			return fault.AboutJob(queue, job, err)
		}
		s := newSubmission(c, t, queue, meta, list)
		err := t.PutResult(ctx, queue, job, token, s.upload(list[0]))
		s.show.Clear()
		return fault.AboutJob(queue, job, err)
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
				return fault.Usagef("a result is printed as it is, and has no response form")
			}
			if err := queuefs.CheckResultName(c.Args[2]); err != nil {
				return err
			}
		}
		return c.AtQueue(ctx, func(t *reach.Target, queue string) error {
			err := mayExist(ctx, t, queue, job)
			switch {
			case err != nil:
			case len(c.Args) == 3:
				err = result(ctx, c, t, queue, job, c.Args[2])
			default:
				err = listResults(ctx, c, t, queue, job)
			}
			return fault.AboutJob(queue, job, err)
		})
	})
}

func listResults(ctx context.Context, c *call, t *reach.Target, queue, job string) error {
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

func result(ctx context.Context, c *call, t *reach.Target, queue, job, name string) error {
	d, err := t.Result(ctx, queue, job, name)
	if err != nil {
		return err
	}
	err = c.Out.Exact(func(w io.Writer) error { return copyBody(w, d) })
	return errors.Join(err, d.Body.Close())
}
