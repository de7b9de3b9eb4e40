package daemon

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"cutie/queuefs/web"
)

// A phase is how far an owner is in giving its home up.
type phase int32

const (
	owning    phase = iota
	finishing       // changes begun before end; others begin with their whole body here
	handing         // no change begins
)

// work counts the changes in progress, so that an owner finishes them before it gives the
// home up. Those begun before the phase finishing may take their time to come in. Later ones
// are as short as the store is fast.
type work struct {
	at     atomic.Int32 // a phase
	before atomic.Int64 // changes in progress, begun before the phase finishing
	since  atomic.Int64 // and since
}

func (w *work) phase() phase { return phase(w.at.Load()) }

func (w *work) enter(at phase) { w.at.Store(int32(at)) }

// goOn ends the phases: this process is an owner as before, or a standby.
func (w *work) goOn() { w.enter(owning) }

// begin counts a change in; end must follow. It returns false in another phase than at.
func (w *work) begin(at phase) (end func(), ok bool) {
	n := &w.before
	if at == finishing {
		n = &w.since
	}
	end = func() { n.Add(-1) }
	n.Add(1)
	if w.phase() != at {
		end()
		return nil, false
	}
	return end, true
}

// count returns the changes in progress.
func (w *work) count() int64 { return w.before.Load() + w.since.Load() }

// waitEvery is the pause between two looks at the changes in progress.
const waitEvery = 2 * time.Millisecond

// wait returns when no change of the phase before at is in progress, or after most. The
// error is that of ctx.
func (w *work) wait(ctx context.Context, at phase, most time.Duration) error {
	n := &w.before
	if at == handing {
		n = &w.since
	}
	over := time.NewTimer(most)
	defer over.Stop()
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for n.Load() > 0 {
		select {
		case <-tick.C:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// keepMost is the most octets of a body kept in memory, to be sent on from there.
const keepMost = 128 << 10

// A kept is a whole body of a request in memory.
type kept struct {
	bytes.Reader
	text []byte
}

func newKept(text []byte) *kept {
	k := &kept{text: text}
	k.Reset(text)
	return k
}

func (*kept) Close() error { return nil }

// keep receives the body of a request, unless it is long or of unknown length. It returns
// false for such a one.
func keep(a *answer, r *http.Request) (bool, error) {
	switch _, is := r.Body.(*kept); {
	case is, r.ContentLength == 0:
		return true, nil
	case r.ContentLength < 0 || r.ContentLength > keepMost || a.memory.Take(int(r.ContentLength)) != nil:
		return false, nil
	}
	a.receive(r)
	b, err := web.NewBodyReader(a, r, keepMost, a.idle)
	if err != nil {
		return false, err
	}
	text, err := b.All()
	if err != nil {
		return false, err
	}
	r.Body = newKept(text)
	r.GetBody = func() (io.ReadCloser, error) { return newKept(text), nil }
	return true, nil
}

// rewound returns a request to be made once more, false if a part of its body is gone.
func rewound(r *http.Request) (*http.Request, bool) {
	if r.ContentLength == 0 {
		return r, true
	}
	k, ok := r.Body.(*kept)
	if !ok {
		return nil, false
	}
	r = r.WithContext(r.Context())
	r.Body = newKept(k.text)
	return r, true
}
