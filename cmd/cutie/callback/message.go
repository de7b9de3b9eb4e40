package callback

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"cutie/publisher/push"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

// due reports whether there is something to deliver.
func due(f *feed, now time.Time) bool { return f.url != "" && f.waiting.len() > 0 && f.Ready(now) }

// next returns the oldest waiting change. Changes of unreadable jobs are set
// aside.
func (s *Sender) next(_ context.Context, f *feed) (*push.Message, error) {
	for {
		var c change
		var q *queuefs.Queue
		m := &push.Message{Header: http.Header{}}
		s.sender.View(func() {
			var some bool
			if c, some = f.waiting.first(); some {
				q, f.sent = f.q, c
			}
			m.URL, m.More = f.url, f.waiting.len() > 1
		})
		if q == nil || m.URL == "" {
			return nil, nil
		}
		body, err := s.body(q, c)
		if lost := (*lostError)(nil); errors.As(err, &lost) {
			if err := s.kill(f, []change{c}, lost.Error()); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		m.Body, m.Upto = body, position(c.seq, c.at)
		m.Header.Set("Content-Type", state.JSON.MediaType())
		m.Header.Set("Cutie-Queue", f.Queue)
		m.Header.Set("Cutie-Event", c.kind.String())
		m.Header.Set("Cutie-Sequence", strconv.FormatUint(uint64(c.seq), 10))
		m.Header.Set("Cutie-Delivery", s.deliveryID(f.Queue, c))
		if sign := s.secrets.sign(f.Queue, s.Now(), body); sign != "" {
			m.Header.Set("Cutie-Signature", sign)
		}
		return m, nil
	}
}

// done draws the conclusions from an attempt.
func (s *Sender) done(f *feed, _ *push.Message, err error) {
	limit := s.Now().Add(-giveUp)
	var old []change // has failed for too long
	turned, stopped := false, 0
	s.update(func() bool {
		failed := f.Failures > 0 || f.Stopped
		turned, f.failed = failed != f.failed, failed
		switch {
		case err == nil:
			f.waiting.remove(f.sent)
			f.since.delivered++
			f.settle()
		case f.Stopped:
			stopped, f.waiting = f.waiting.len(), backlog{}
		case failed && !f.Failing.After(limit):
			old = slices.DeleteFunc(f.waiting.all(), func(c change) bool { return c.at.After(limit) })
		}
		return true
	})
	if stopped > 0 {
		s.report(f.Queue, "the receiver answered 410: %d waiting changes and all later ones are not delivered until the queue has another callback", stopped)
	}
	if len(old) > 0 {
		err = errors.Join(err, s.kill(f, old, fmt.Sprintf("the receiver has failed for %v, at last with: %v", giveUp, err)))
	}
	if turned && s.Turned != nil {
		s.Turned(f.Queue, err)
	}
}

// kill sets changes aside.
func (s *Sender) kill(f *feed, changes []change, reason string) error {
	if len(changes) == 0 {
		return nil
	}
	if err := s.bury(f.Queue, changes, reason); err != nil {
		return err
	}
	s.update(func() bool {
		for _, c := range changes {
			f.waiting.remove(c)
			if done, _ := f.done(); c.seq > done {
				f.Position = position(c.seq, c.at)
			}
		}
		f.since.aside += int64(len(changes))
		f.settle()
		return true
	})
	s.report(f.Queue+deadExt, "%d changes were not delivered: %s; the jobs are listed there", len(changes), reason)
	return nil
}

// A lostError is the error of an unreadable job.
type lostError struct{ error }

// body returns the present state of a job.
func (s *Sender) body(q *queuefs.Queue, c change) ([]byte, error) {
	base := state.NewBase(s.svc.Info().BaseURI)
	j, err := q.Job(c.job)
	gone := errors.Is(err, queuefs.ErrNoJob)
	switch {
	case gone:
		j = queuefs.Job{ID: c.job, Queue: q.ID(), Seq: c.seq}
	case errors.Is(err, queuefs.ErrClosed), errors.Is(err, queuefs.ErrFailed):
		return nil, err
	case err != nil:
		return nil, &lostError{err}
	}
	d := state.OfJob(base, &j)
	if gone {
		d.Subject = "" // nothing is there any more
		d.Properties = slices.DeleteFunc(d.Properties, func(p state.Property) bool {
			return !slices.Contains([]string{"identifier", "queueState", "sequence"}, p.Name)
		})
	}
	return state.JSON.Append(nil, &d), nil
}

// deliveryID tells a change from all others, of other homes too.
func (s *Sender) deliveryID(queue string, c change) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", s.svc.Info().BaseURI, queue, c.seq))
	return hex.EncodeToString(sum[:16])
}

// A State is the public state of the callback of a queue.
type State struct {
	Queue     string
	URL       string // without user and query: they may be secret
	Signed    bool
	Waiting   int       // changes to be delivered
	Oldest    time.Time // of them; zero if there is none
	Stopped   bool      // the receiver answered 410
	Failing   time.Time // start of the present failures; zero if the last attempt succeeded
	Failures  int       // attempts since then
	Next      time.Time // no attempt before
	LastError string    // of the last failure
	Delivered int64     // changes, since the Sender was opened
	SetAside  int64     // likewise, not delivered
}

// States returns the states of all queues with a callback, in the order of their
// identifiers.
func (s *Sender) States() (all []State) {
	s.sender.View(func() {
		for f := range s.sender.All() {
			if f.url == "" {
				continue
			}
			oldest, _ := f.waiting.first()
			all = append(all, State{Queue: f.Queue, URL: redact(f.url), Waiting: f.waiting.len(), Oldest: oldest.at, Stopped: f.Stopped,
				Failing: f.Failing, Failures: f.Failures, Next: f.Next, LastError: f.LastError, Delivered: f.since.delivered, SetAside: f.since.aside})
		}
	})
	for i := range all {
		all[i].Signed = s.secrets.has(all[i].Queue)
	}
	slices.SortFunc(all, func(a, b State) int { return strings.Compare(a.Queue, b.Queue) })
	return all
}

// redact returns the public part of a URL.
func redact(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
