package publisher

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/job"
)

// Verify is a pass of Scrub at once.
func (p *Publisher) Verify() { p.scrubAll(func(int64) bool { return true }) }

// KeepOpen sets how many queues stay open without work.
func (p *Publisher) KeepOpen(n int) { p.most = n }

// Open returns how many queues are open.
func (p *Publisher) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Excerpt returns the entries of a Change Notification after an event.
func (p *Publisher) Excerpt(q Queue, kind names.Set, after job.Seq, max int) (entries []byte, upto names.Position, more bool, err error) {
	f, err := p.use(q)
	if err != nil {
		return nil, upto, false, err
	}
	defer f.release()
	x, err := documents{f.sets[kind], p}.excerpt(names.Position{Seq: after, At: q.State().LastEvent}, max)
	return x.Entries, x.Upto, x.More, err
}

// CloseOld closes the lists that are old, and makes nothing of them.
func (p *Publisher) CloseOld() error {
	_, err := p.closeOld()
	return err
}

// A clock that is set by hand stands for the seconds.
func TestTheReaderKeepsItsPaceAndRests(t *testing.T) {
	const parts, part = 100, 1000
	now := time.Unix(1e9, 0)
	passes := 0
	pass := func(yield func(int64) bool) {
		passes++
		for range parts {
			if !yield(part) {
				return
			}
		}
	}
	size := func() int64 { return parts * part }
	r := newRereader(names.Pace{Rate: 10 * part}, size, pass, func() time.Time { return now })
	defer r.Close()
	never := func() bool { return false }
	for range 6 {
		r.Step(never)
		now = now.Add(time.Second)
	}
	if got := r.Stats(); got.Bytes != 50*part || got.Passes != 0 {
		t.Errorf("after five seconds: %+v", got)
	}
	for range 20 {
		r.Step(never)
		now = now.Add(time.Second)
	}
	if got := r.Stats(); got.Bytes != parts*part || got.Passes != 1 || passes != 1 {
		t.Errorf("after the pass: %+v", got)
	}
	now = now.Add(time.Hour)
	for range 2 {
		r.Step(never)
		now = now.Add(time.Second)
	}
	if passes != 2 {
		t.Errorf("an hour later: %d passes began", passes)
	}
	idle := newRereader(names.Pace{}, size, func(func(int64) bool) { t.Error("read") }, func() time.Time { return now })
	idle.Step(never)
}

// Those who wait while a busy list is compressed share the next form, which was begun after
// they asked, whatever the state of it. Nobody gets an older one.
func TestThoseWhoWaitShareTheNextForm(t *testing.T) {
	forms := newForms(1 << 20)
	forms.turns = make(chan struct{}, 1)
	var made, state atomic.Int64
	enter, leave := make(chan struct{}), make(chan struct{})
	ask := func(tag string) *document {
		d, err := forms.get("list", inGzip, tag, func(w io.Writer) (docState, error) {
			made.Add(1)
			s := docState{Tag: fmt.Sprint(state.Load())}
			enter <- struct{}{}
			<-leave
			_, err := w.Write([]byte(s.Tag))
			return s, err
		})
		if err != nil {
			t.Error(err)
		}
		return d
	}
	var wg sync.WaitGroup
	wg.Go(func() { ask("0") })
	<-enter
	const waiting = 20
	for i := range waiting {
		state.Store(int64(i + 1))
		wg.Go(func() {
			tag := int64(i + 1)
			if got, err := strconv.ParseInt(ask(fmt.Sprint(tag)).Tag, 10, 64); err != nil || got < tag {
				t.Errorf("asked in state %d: got that of %d, %v", tag, got, err)
			}
		})
	}
	for forms.count.Load() < waiting+2 { // all have asked
		runtime.Gosched()
	}
	leave <- struct{}{}
	<-enter
	leave <- struct{}{}
	wg.Wait()
	if n := made.Load(); n != 2 {
		t.Errorf("made %d times", n)
	}
}
