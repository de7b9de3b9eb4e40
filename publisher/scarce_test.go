package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"syscall"
	"testing"

	"cutie/publisher"
	"cutie/queuefs"
)

// A strained queue lets a read of a payload or a job file fail.
type strained struct {
	*queuefs.Queue
	read func() error
}

func (q *strained) Payload(id queuefs.JobID) (*queuefs.Payload, error) {
	if err := q.read(); err != nil {
		return nil, fmt.Errorf("payload of %v: %w", id, err)
	}
	return q.Queue.Payload(id)
}

func (q *strained) Pass() queuefs.Pass { return q }

// Journaled has no parts, as if no package could grow.
func (q *strained) Journaled(after queuefs.Seq, max, size int) ([]queuefs.Journaled, error) {
	events, err := q.Queue.Journaled(after, max, size)
	for i := range events {
		events[i].Text, events[i].Payload = nil, nil
	}
	return events, err
}

func (q *strained) JobFile(id queuefs.JobID, st queuefs.Status) ([]byte, queuefs.Facts, error) {
	if err := q.read(); err != nil {
		return nil, queuefs.Facts{}, fmt.Errorf("job file of %v: %w", id, err)
	}
	return q.Queue.JobFile(id, st)
}

// strain is a service with the one queue.
type strain struct {
	*queuefs.Service
	q *strained
}

func (s strain) Queues() []*strained { return []*strained{s.q} }

func (s strain) Queue(name string) (*strained, error) {
	if name != s.q.ID() {
		return nil, queuefs.ErrNoQueue
	}
	return s.q, nil
}

// A list is not passed over because the system was short of something when one
// of its files was to be read, whichever that was: its package is made later,
// with all that is in it. A file that cannot be read for another reason is no
// reason to try for ever.
func TestAPackageIsMadeWhenThereIsMoreOfWhatWasScarce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		scarce bool
	}{
		{syscall.EMFILE, true},
		{syscall.ENFILE, true},
		{syscall.ENOMEM, true},
		{syscall.EIO, false},
	} {
		reads := 0
		for at := 0; at <= reads; at++ { // the first time none fails
			o, forward := leaps(publisher.Options{MaxEntries: 6})
			s := newSource(t, o, "jobs")
			must(t, s.pub.Close())
			q := &strained{Queue: s.queue("jobs"), read: func() error { return syscall.EIO }}
			s.opts.Report = func(p queuefs.Problem) { s.problems = append(s.problems, p.String()) }
			var err error
			s.pub, err = publisher.New(strain{s.svc, q}, s.opts)
			must(t, err)
			s.svc.Follow(s.pub)
			m := newMirror(s, "jobs", "replica")
			m.baseline()
			jobs := s.submitN(q.Queue, 6)
			s.consume(q.Queue, 4)
			must(t, s.pub.Flush()) // lists are closed, no package is made
			var n atomic.Int64     // payloads are read ahead
			q.read = func() error {
				if n.Add(1) == int64(at) {
					return &fs.PathError{Op: "open", Path: "x", Err: tt.err}
				}
				return nil
			}
			for range 20 { // each makes a part of the packages
				if err = s.pub.Tick(context.Background()); err != nil {
					break
				}
			}
			forward()
			for range 100 { // on a busy machine the package takes several Ticks
				if s.pub.Tick(context.Background()) == nil {
					break
				}
			}
			s.settle()
			if at == 0 {
				reads = int(n.Load())
				continue
			}
			if tt.scarce != errors.Is(err, tt.err) {
				t.Errorf("%v at read %d: got %v", tt.err, at, err)
			}
			paths, _ := packed(s, "replica")
			missing := 0
			for _, j := range jobs {
				if !paths[fmt.Sprintf("%s/queues/jobs/payload/%v", base, j.ID)] {
					missing++
				}
			}
			if tt.scarce && (missing > 0 || len(s.problems) > 0) {
				t.Errorf("%v at read %d: no package has %d of the payloads, problems: %q", tt.err, at, missing, s.problems)
			}
			if !tt.scarce && len(s.problems) != 1 {
				t.Errorf("%v at read %d: problems: %q, want one", tt.err, at, s.problems)
			}
			if tt.scarce {
				m.dumps()
			}
			m.incremental(nil)
			m.compare(q.Queue)
		}
		if reads < 10 {
			t.Errorf("only %d reads", reads)
		}
	}
}
