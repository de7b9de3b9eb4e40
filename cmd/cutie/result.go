package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/pflag"

	"cutie/queuefs"
)

var putResultVerb = verb{
	name:  "putResult",
	args:  "QUEUE JOB FILE|-",
	min:   3,
	max:   3,
	about: "give back a file as a result of a job",
	manual: `
It is for the consumer that has the lease of the job. The name of the result is
that of the FILE, unless --name says otherwise; standard input wants one. A name
that the job has already is refused (exit code 5).`,
	examples: `cutie putResult jobs j000000000001 report.pdf --lease @job.lease`,
	takes:    atTarget,
	setup: func(fs *pflag.FlagSet) action {
		var o submitOptions
		lease := bindLease(fs)
		fs.StringVar(&o.filename, "name", "", "the result's `name`: letters, digits and . _ -")
		fs.StringVar(&o.mediaType, "media-type", "", "record this `type` instead of guessing from the name")
		fs.StringVar(&o.digest, "digest", "", "refuse the result unless it has this `type:hex`, such as md5:…")
		return func(ctx context.Context, c *call) error { return c.putResult(ctx, *lease, o) }
	},
}

func (c *call) putResult(ctx context.Context, lease string, o submitOptions) (err error) {
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	job, file := c.args[1], c.args[2]
	if _, err := queuefs.ParseJobID(job); err != nil {
		return err
	}
	token, err := readLease(lease)
	if err != nil {
		return err
	}
	meta, err := o.meta()
	if err != nil {
		return err
	}
	p := payload{path: "-", size: -1}
	if file != "-" {
		list, err := gather(ctx, []string{file}, false, c.warnf)
		if err != nil {
			return err
		}
		p = list[0]
		if meta.Filename == "" {
			meta.Filename = filepath.Base(file)
		}
	}
	if meta.Filename == "" {
		return usagef("standard input has no name, --name gives it one")
	}
	if err := queuefs.CheckResultName(meta.Filename); err != nil {
		return withHint(err, "--name gives it another name")
	}
	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	s := submission{call: c, target: t, queue: queue, meta: meta, show: newProgress(c.stderr, p.size)}
	err = t.PutResult(ctx, queue, job, token, s.upload(p))
	s.show.clear()
	if err != nil {
		return aboutJob(queue, job, err)
	}
	return nil
}

var resultVerb = verb{
	name:    "getResult",
	aliases: []string{"result", "results"},
	args:    "QUEUE JOB [NAME]",
	min:     2,
	max:     3,
	about:   "read a result of a job, or list their names",
	examples: `cutie getResult jobs j000000000004
cutie getResult jobs j000000000004 log.txt -o log.txt`,
	takes: atTarget | toOutput,
	setup: func(*pflag.FlagSet) action {
		return func(ctx context.Context, c *call) error { return c.result(ctx) }
	},
}

func (c *call) result(ctx context.Context) (err error) {
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	job := c.args[1]
	if _, err := queuefs.ParseJobID(job); err != nil {
		return err
	}
	if len(c.args) == 3 {
		if err := queuefs.CheckResultName(c.args[2]); err != nil {
			return err
		}
	}
	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	if len(c.args) == 2 {
		j, err := t.Job(ctx, queue, job)
		if err != nil {
			return aboutJob(queue, job, err)
		}
		var names []string
		for _, r := range j.Results {
			names = append(names, r.Name)
		}
		return c.emit(lines(names))
	}
	o, err := places{}.make(c.output)
	if err != nil {
		return err
	}
	defer o.discard()
	d, err := t.Result(ctx, queue, job, c.args[2])
	if err != nil {
		return aboutJob(queue, job, err)
	}
	if err := errors.Join(o.copy(d, c.stdout), d.Body.Close()); err != nil {
		return aboutJob(queue, job, err)
	}
	return o.commit()
}
