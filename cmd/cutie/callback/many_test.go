package callback_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"cutie/cmd/cutie/callback"
)

// Of many queues those with a callback alone have a line in the cursor, so that the
// others cost nothing at a Tick and a checkpoint.
func TestQueuesWithoutACallbackCostNothing(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	for i := range 20 {
		h.submit(h.queue(fmt.Sprintf("q%d", i), ""), "x")
	}
	h.setCallback("q7", r.URL)
	lines := func(want int) {
		t.Helper()
		h.tick()
		if err := h.svc.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(h.dir, "callbacks", "cursor"))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Count(text, []byte(`"queue":`)); got != want {
			t.Errorf("the cursor has %d queues, want %d: %s", got, want, text)
		}
	}
	lines(1)
	h.setCallback("q7", "")
	h.tick()
	lines(0)
	h.close()
	h.open()
	q := h.queue("q7", "")
	h.submit(q, "y")
	lines(0)
	h.setCallback("q7", r.URL) // it begins here
	h.submit(q, "z")
	r.received()
	lines(1)
	r.want(t, "q7 6 submit j000000000003 pending")
}

// A removal holds locks of the engine while it calls Forget, and a Tick may want them to
// take a URL out of a property file.
func TestATickHoldsUpNoRemoval(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.queue("other", "")
	h.queue("jobs", r.URL)
	h.close()
	name := filepath.Join(h.dir, "queues", "jobs", "queue-info.txt")
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, bytes.ReplaceAll(text, []byte(r.URL), []byte(r.URL+"/secret")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.open()
	ticking := &asked{Context: ctx, now: make(chan bool)}
	done := make(chan error)
	h.svc.Follow(&forgetter{h.sender, func() {
		go func() { done <- h.sender.Tick(ticking) }()
		<-ticking.now
	}})
	if err := errors.Join(h.svc.RemoveQueue(ctx, "other"), <-done); err != nil {
		t.Fatal(err)
	}
	if got, want := h.queue("jobs", "").Info().Callback, r.URL; got != want {
		t.Errorf("got callback %s, want %s", got, want)
	}
}

// asked tells when somebody asks it for its error the first time.
type asked struct {
	context.Context
	once sync.Once
	now  chan bool
}

func (a *asked) Err() error {
	a.once.Do(func() { close(a.now) })
	return a.Context.Err()
}

// A forgetter does something before a queue is forgotten.
type forgetter struct {
	*callback.Sender
	before func()
}

func (f *forgetter) Forget(queue string) error {
	f.before()
	return f.Sender.Forget(queue)
}
