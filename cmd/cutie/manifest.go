package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// putManifest submits the files of a batch manifest (Cutie 0.3, 5.5).
func putManifest(ctx context.Context, c *call, o putOptions) error {
	switch {
	case len(c.Args) != 2:
		return fault.Usagef("a batch manifest is one file, these are %d", len(c.Args)-1)
	case o.recurse || o.sidecar != "" || o.filename != "" || o.mediaType != "":
		return fault.Usagef("--recursive, --sidecar, --filename and --media-type are for jobs, not for a batch manifest")
	}
	form, err := c.ResponseForm()
	if err != nil {
		return err
	}
	meta, err := o.meta()
	if err != nil {
		return err
	}
	list, err := payloads(ctx, c, c.Args[1:], false)
	if err != nil {
		return err
	}
	return c.AtQueue(ctx, func(t *reach.Target, queue string) error {
		s := newSubmission(c, t, queue, meta, list)
		defer s.show.Clear()
		u := s.upload(list[0])
		u.Filename, u.MediaType = "", ""
		if o.async && t.Local() {
			return fault.Hint(errors.New("no daemon would go on with the batch"), "cutie serve --home "+c.Home+" starts one; without --async the command waits")
		}
		if o.async {
			id, err := t.StartManifest(ctx, queue, u)
			switch {
			case err != nil:
				return err
			case c.Form != "":
				return printBatch(ctx, c, t, queue, id, form)
			case o.quiet:
				return nil
			}
			return s.print(id)
		}
		ids, err := t.SubmitManifest(ctx, queue, u)
		s.done = len(ids)
		switch {
		case err != nil || s.done == 0:
			return err
		case c.Form != "":
			s.last = ids[len(ids)-1]
			return s.answer(ctx, form)
		case o.quiet:
			return nil
		}
		return s.print(ids...)
	})
}

// batchVerb shows the progress of a batch manifest.
func batchVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "batch QUEUE BATCH",
		Aliases: []string{"getBatchState"},
		Short:   "show the progress of a batch manifest",
		Long: `
BATCH is the identifier that cutie put --async printed. A daemon keeps the state
for an hour after the end of the batch.`,
		Example: `cutie batch jobs b000000000001 -t json`,
	}
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		form, err := c.ResponseForm()
		if err != nil {
			return err
		}
		return c.AtQueue(ctx, func(t *reach.Target, queue string) error { return printBatch(ctx, c, t, queue, c.Args[1], form) })
	})
}

func printBatch(ctx context.Context, c *call, t *reach.Target, queue, id string, form state.Form) error {
	switch id {
	case "", ".", "..":
		return fmt.Errorf("%w: batch %q", errNoBatch, id)
	}
	b, err := t.Batch(ctx, queue, id)
	if err != nil {
		return err
	}
	service, err := t.Service(ctx)
	if err != nil {
		return err
	}
	d := state.OfBatch(state.NewBase(service.BaseURI), &b)
	return c.Out.Emit(form.Append(nil, &d))
}

// errNoBatch is the answer of a daemon, for names that a URL cannot carry.
var errNoBatch = &web.Error{Status: 404, Message: "batch not found"}
