package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// submitManifest submits what a batch manifest names (Cutie 0.3, 5.5).
func submitManifest(ctx context.Context, c *call, o submitOptions) (err error) {
	queue, err := c.queueArg()
	if err != nil {
		return err
	}
	switch {
	case len(c.args) != 2:
		return usagef("a batch manifest is one file, these are %d", len(c.args)-1)
	case o.recurse || o.sidecar != "" || o.filename != "" || o.mediaType != "":
		return usagef("--recursive, --sidecar, --filename and --media-type are for jobs, not for a batch manifest")
	case c.form == "" && c.output != "":
		return usagef("--output wants --response-form")
	}
	form, err := c.responseForm()
	if err != nil {
		return err
	}
	meta, err := o.meta()
	if err != nil {
		return err
	}
	p := payload{path: "-", size: -1}
	if c.args[1] != "-" {
		list, err := gather(ctx, c.args[1:], false, c.warnf)
		if err != nil {
			return err
		}
		p = list[0]
	}
	t, err := c.target(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	s := submission{call: c, target: t, queue: queue, meta: meta, show: newProgress(c.stderr, p.size)}
	defer s.show.clear()
	u := s.upload(p)
	u.Filename, u.MediaType = "", ""
	if o.async {
		id, err := t.StartManifest(ctx, queue, u)
		if err != nil {
			return about(queue, err)
		}
		if c.form == "" {
			if o.quiet {
				return nil
			}
			return s.print([]string{id})
		}
		return c.printBatch(ctx, t, queue, id, form)
	}
	ids, err := t.SubmitManifest(ctx, queue, u)
	if err != nil {
		return about(queue, err)
	}
	s.done += len(ids)
	switch {
	case len(ids) == 0:
		return nil
	case c.form != "":
		s.last = ids[len(ids)-1]
		return s.answer(ctx, form)
	case o.quiet:
		return nil
	}
	return s.print(ids)
}

var batchVerb = verb{
	name:    "getBatchState",
	aliases: []string{"batch"},
	args:    "QUEUE BATCH",
	min:     2,
	max:     2,
	about:   "show how far a batch manifest is",
	manual: `
BATCH is what submitJob --async printed. A daemon keeps the state for an hour
after the end of the batch.`,
	takes: atTarget | withForm | toOutput,
	setup: func(*pflag.FlagSet) action {
		return func(ctx context.Context, c *call) (err error) {
			form, err := c.responseForm()
			if err != nil {
				return err
			}
			queue, err := c.queueArg()
			if err != nil {
				return err
			}
			t, err := c.target(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, t.Close()) }()
			return c.printBatch(ctx, t, queue, c.args[1], form)
		}
	},
}

func (c *call) printBatch(ctx context.Context, t target, queue, id string, form state.Form) error {
	switch id {
	case "", ".", "..":
		return about(queue, fmt.Errorf("%w: batch %q", errNoBatch, id))
	}
	b, err := t.Batch(ctx, queue, id)
	if err != nil {
		return about(queue, err)
	}
	service, err := t.Service(ctx)
	if err != nil {
		return err
	}
	d := state.OfBatch(state.NewBase(service.BaseURI), &b)
	return c.emit(form.Append(nil, &d))
}

// errNoBatch is what a daemon says of a name that would not survive in a URL.
var errNoBatch = &rest.Error{Status: 404, Message: "batch not found"}
