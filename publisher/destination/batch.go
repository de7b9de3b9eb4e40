package destination

import (
	"errors"

	"cutie/publisher/destination/fetch"
	"cutie/publisher/destination/fixity"
)

// leastBatch is the number of resources from which on a worker asks for them at once. Few
// of them are had sooner by several workers.
const leastBatch = 8

// A batch is the resources a worker has in hand.
type batch struct {
	w        *workers
	pipeline *fetch.Pipeline
	tasks    []task
	lacks    []*lack
	requests []fetch.Request
}

// run makes files until there are no more tasks.
func (w *workers) run() {
	b := batch{w: w, pipeline: w.c.client.Pipeline()}
	defer b.pipeline.Close()
	for t := range w.todo {
		b.tasks = append(b.tasks[:0], t)
		b.fill()
		if w.ctx.Err() != nil {
			continue
		}
		if err := b.make(); err != nil {
			w.cancel(err)
		}
	}
}

// fill adds the share of this worker in the tasks that wait.
func (b *batch) fill() {
	if b.w.pack != nil {
		return
	}
	for range min(len(b.w.todo)/b.w.n, fetch.MaxAhead-1) {
		select {
		case t, ok := <-b.w.todo:
			if !ok {
				return
			}
			b.tasks = append(b.tasks, t)
		default:
			return
		}
	}
}

// make makes the files of all tasks. An error ends the run.
func (b *batch) make() error {
	b.lacks, b.requests = b.lacks[:0], b.requests[:0]
	for i := range b.tasks {
		if err := b.begin(&b.tasks[i]); err != nil {
			return err
		}
	}
	if len(b.lacks) < leastBatch {
		for _, l := range b.lacks {
			if err := b.end(l, b.w.c.fetch(b.w.ctx, l)); err != nil {
				return err
			}
		}
		return nil
	}
	c := b.w.c
	errs := b.pipeline.Get(b.w.ctx, b.requests, func(i int, a *fetch.Answer) error {
		l := b.lacks[i]
		err := c.take(l, a)
		if err == nil && l.t.made != nil {
			*l.t.made = true // now: the run may end before the others are there
		}
		return err
	})
	for i, err := range errs {
		l := b.lacks[i]
		if errors.Is(err, fixity.ErrDiffers) && !fatal(err) { // perhaps this was the answer to another request
			if err = c.fetch(b.w.ctx, l); err == nil {
				b.pipeline.Distrust()
			}
		}
		if err := b.end(l, err); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the file of a task, or keeps it for a request with others. Only a digest
// shows the answer to be the right one then.
func (b *batch) begin(t *task) error {
	w := b.w
	if w.pack != nil {
		return b.done(t, w.c.unpackOne(w.ctx, w.set, t, w.pack))
	}
	l, err := w.c.lacking(t)
	if l == nil || err != nil {
		return b.done(t, err)
	}
	r := l.request()
	if !fixity.New(l.want.Length, l.want.Hashes).Proves() || !b.pipeline.Takes(&r) {
		return b.end(l, w.c.fetch(w.ctx, l))
	}
	b.lacks, b.requests = append(b.lacks, l), append(b.requests, r)
	return nil
}

// end ends the task of a request with its error.
func (b *batch) end(l *lack, err error) error {
	return b.done(l.t, b.w.c.made(b.w.ctx, b.w.set, l.t, err))
}

// done notes that a task is done.
func (b *batch) done(t *task, err error) error {
	if err == nil && t.made != nil && b.w.ctx.Err() == nil {
		*t.made = true
	}
	return err
}
