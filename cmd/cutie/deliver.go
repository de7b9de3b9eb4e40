package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
)

// A delivery says where the parts of a job go.
type delivery struct {
	sidecar, token, meta string        // files
	form                 state.Form    // of the description; 0 for none
	limit                time.Duration // of the wait for a job
	consumes             bool
}

// isMessage reports whether -t asks for a job as a message with all its parts (Cutie
// 0.3, 5.6).
func isMessage(form string) bool {
	return strings.EqualFold(form, "multipart") || strings.EqualFold(form, "multipart/form-data")
}

// alone refuses a file for a part of a message.
func (o *delivery) alone() error {
	if o.sidecar != "" {
		return fault.Usagef("--sidecar is for the payload alone, a message has the sidecar in it")
	}
	return nil
}

// described returns the form of the description of a job, 0 if it has none.
func (o *delivery) described(c *call, whole bool) (state.Form, error) {
	switch {
	case o.meta == "" && (c.Form == "" || whole):
		return 0, nil
	case c.Form == "" || whole:
		return state.JSON, nil
	case o.meta == "" && c.Out.Name == "":
		return 0, fault.Hint(fault.Usagef("-t %.40s describes the job on standard output, and the payload has no place", c.Form), "-o FILE for the payload, or --meta FILE for the description; -t multipart is both in one")
	}
	return c.ResponseForm()
}

// describe returns the description of a job that was taken.
func (o *delivery) describe(d *client.Delivery) ([]byte, error) {
	if o.form == 0 {
		return nil, nil
	}
	doc, err := d.Document()
	return o.form.Append(nil, &doc), err
}

// A taker gets a job from a queue; it may wait for one as long as left.
type taker func(t *reach.Target, queue string, left time.Duration) (*client.Delivery, error)

// deliver writes a job to the files of the options. It makes the files first, so that
// no job is taken and then lost for want of a file.
func deliver(ctx context.Context, c *call, to delivery, take taker) (err error) {
	queue, err := c.QueueArg()
	if err != nil {
		return err
	}
	o, err := c.Out.Job(to.sidecar, to.token, to.meta)
	if err != nil {
		return err
	}
	defer o.Discard()
	t, d, err := await(ctx, c, queue, to.limit, take)
	if err != nil {
		if errors.Is(err, queuefs.ErrNoJob) && len(c.Args) > 1 {
			err = fault.About(c.Args[1], err)
		}
		return fault.About(queue, err)
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	lease := ""
	if d.Lease != "" {
		lease = fmt.Sprintf(": lease %s until %s", d.Lease, queuefs.FormatTime(d.Expires))
	}
	meta, err := to.describe(d)
	err = errors.Join(err, o.Store(d, to.consumes, meta), d.Body.Close())
	shown := to.form != 0 && to.meta == ""
	if err == nil && shown {
		_, err = onScreen(c.Out.Stdout).Write(meta)
	}
	if err != nil {
		err = fault.AboutJob(queue, d.Job, err)
		if to.consumes {
			err = fault.Hint(err, fmt.Sprintf("the job is consumed%s; cutie requeue %s %s puts it back", lease, queue, d.Job))
		}
		return err
	}
	if d.HasSidecar && to.sidecar == "" && to.form == 0 { // a description has it
		if name := o.Sidecar(); name != "" {
			c.Warnf("%s: %s has a sidecar of %d bytes, written to %s", queue, d.Job, len(d.Sidecar), name)
		} else {
			c.Warnf("%s: %s has a sidecar of %d bytes; cutie peek %s %s --sidecar FILE writes it", queue, d.Job, len(d.Sidecar), queue, d.Job)
		}
	}
	if lease != "" && !shown && !o.HasLease() {
		c.Warnf("%s: %s%s", queue, d.Job, lease)
	} else {
		c.Sayf("%s: %s", queue, d.Job)
	}
	return nil
}
