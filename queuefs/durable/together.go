package durable

import "sync"

// A Together lets callers at the same time share a costly step, such as a sync. The
// zero value is ready.
type Together[T any] struct {
	turn sync.Mutex // one step at a time

	mu   sync.Mutex
	next *batch[T] // gathers during a step
}

type batch[T any] struct {
	all  []T
	done chan struct{}
	err  error
}

// Do calls step with x and what others bring until the last step ends, and returns its
// error to all of them.
func (t *Together[T]) Do(x T, step func(all []T) error) error {
	t.mu.Lock()
	b := t.next
	if b != nil {
		b.all = append(b.all, x)
		t.mu.Unlock()
		<-b.done
		return b.err
	}
	b = &batch[T]{all: []T{x}, done: make(chan struct{})}
	t.next = b
	t.mu.Unlock()
	t.turn.Lock()
	defer t.turn.Unlock()
	t.mu.Lock()
	t.next = nil
	t.mu.Unlock()
	defer close(b.done)
	b.err = step(b.all)
	return b.err
}
