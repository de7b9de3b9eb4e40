// Package objectstest has a store of objects in memory with faults by script, its S3 API
// over HTTP, and the tests every [objects.Store] passes.
package objectstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"cutie/queuefs/objects"
)

// ErrFault is the error of a request with a fault.
var ErrFault = errors.New("fault by script")

// A Fault is what happens to one request.
type Fault int

const (
	None   Fault = iota
	Before       // it fails, and nothing is done
	After        // it is done, and its answer is lost
	Late         // it fails, and is done Lag requests later
	Twice        // it is done twice, and the second answer is given
	Stale        // a list lacks the last Lag changes
	Lax          // a Create replaces what is there
)

// Lag is how many requests a fault with a delay lasts.
const Lag = 3

// A Request is one request to a Memory.
type Request struct {
	N    int    // from 1
	Op   string // Create, Put, Get, Delete or List
	Name string
	To   int64 // where the part to be read ends; 0: the request is for none
}

// When returns a [Memory.Fault] of the requests of which it holds.
func When(fault Fault, holds func(Request) bool) func(Request) Fault {
	return func(r Request) Fault {
		if holds(r) {
			return fault
		}
		return None
	}
}

// A Memory is an [objects.Store] in memory. Its zero value is empty.
type Memory struct {
	// Fault chooses the fault of each request, and may wait; nil means none has one.
	// It is set before the first request.
	Fault func(Request) Fault

	mu      sync.Mutex
	n       int
	objects map[string][]byte
	changes []change
	late    []lateOne
	done    map[string]int // requests by Op
}

// A change is one past change of the names.
type change struct {
	name string
	made bool
}

// A lateOne is a request to be done once number at has come.
type lateOne struct {
	at int
	do func() error
}

// request runs do as one request, with its fault. It is called without mu held.
func (m *Memory) request(op, name string, do func(f Fault) error) error {
	return m.requestOf(Request{Op: op, Name: name}, do)
}

func (m *Memory) requestOf(r Request, do func(f Fault) error) error {
	op, name := r.Op, r.Name
	m.mu.Lock()
	m.make()
	m.n++
	m.done[op]++
	r.N = m.n
	m.mu.Unlock()
	f := None
	if m.Fault != nil {
		f = m.Fault(r)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = slices.DeleteFunc(m.late, func(l lateOne) bool {
		if l.at > m.n {
			return false
		}
		_ = l.do() // nobody waits for its answer any more
		return true
	})
	failed := fmt.Errorf("%s %s: %w", op, name, ErrFault)
	switch f {
	case Before:
		return failed
	case After:
		_ = do(f) // its answer is lost
		return failed
	case Late:
		if op == "Get" || op == "List" {
			return failed // a late answer changes nothing
		}
		m.late = append(m.late, lateOne{m.n + Lag, func() error { return do(None) }})
		return failed
	case Twice:
		_ = do(f)
	}
	return do(f)
}

// Requests returns how many requests of a kind there were; "" means all.
func (m *Memory) Requests(op string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if op == "" {
		return m.n
	}
	return m.done[op]
}

// make makes the maps of an unused store; mu is held.
func (m *Memory) make() {
	if m.objects == nil {
		m.objects, m.done = map[string][]byte{}, map[string]int{}
	}
}

// Objects returns a copy of all objects.
func (m *Memory) Objects() map[string][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.objects)
}

// Set puts an object in its place, without a request; nil removes it.
func (m *Memory) Set(name string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.make()
	if data == nil {
		m.remove(name)
	} else {
		m.set(name, data)
	}
}

func (m *Memory) set(name string, data []byte) {
	if _, there := m.objects[name]; !there {
		m.changes = append(m.changes, change{name, true})
	}
	m.objects[name] = data
}

func (m *Memory) remove(name string) {
	if _, there := m.objects[name]; there {
		m.changes = append(m.changes, change{name, false})
		delete(m.objects, name)
	}
}

// Create is [objects.Store.Create].
func (m *Memory) Create(ctx context.Context, name string, data []byte) error {
	data = bytes.Clone(data)
	return m.request("Create", name, func(f Fault) error {
		if _, there := m.objects[name]; there && f != Lax {
			return fmt.Errorf("%s: %w", name, objects.ErrExist)
		}
		m.set(name, data)
		return nil
	})
}

// Put is [objects.Store.Put].
func (m *Memory) Put(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	data, err := io.ReadAll(io.LimitReader(body, size))
	if err != nil || int64(len(data)) < size {
		return fmt.Errorf("%s: body of %d bytes, not %d: %w", name, len(data), size, err)
	}
	return m.request("Put", name, func(Fault) error {
		m.set(name, data)
		return nil
	})
}

// Get is [objects.Store.Get].
func (m *Memory) Get(ctx context.Context, name string, most int64) (body io.ReadCloser, err error) {
	err = m.request("Get", name, func(Fault) error {
		data, there := m.objects[name]
		if !there {
			return fmt.Errorf("%s: %w", name, objects.ErrNotExist)
		}
		if most > 0 {
			data = data[:min(most, int64(len(data)))]
		}
		body = io.NopCloser(bytes.NewReader(data))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Part is [objects.Store.Part].
func (m *Memory) Part(ctx context.Context, name string, from, size int64) (body io.ReadCloser, err error) {
	err = m.requestOf(Request{Op: "Get", Name: name, To: from + size}, func(Fault) error {
		data, there := m.objects[name]
		if !there {
			return fmt.Errorf("%s: %w", name, objects.ErrNotExist)
		}
		data = data[min(from, int64(len(data))):]
		body = io.NopCloser(bytes.NewReader(data[:min(size, int64(len(data)))]))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Delete is [objects.Store.Delete].
func (m *Memory) Delete(ctx context.Context, name string) error {
	return m.request("Delete", name, func(Fault) error {
		m.remove(name)
		return nil
	})
}

// List is [objects.Store.List].
func (m *Memory) List(ctx context.Context, prefix, after string, most int) (names []string, err error) {
	err = m.request("List", prefix, func(f Fault) error {
		all := map[string]bool{}
		for name := range m.objects {
			all[name] = true
		}
		if f == Stale {
			for _, c := range slices.Backward(m.changes[max(0, len(m.changes)-Lag):]) {
				all[c.name] = !c.made
			}
		}
		names = nil
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name] && strings.HasPrefix(name, prefix) && name > after && len(names) < most {
				names = append(names, name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

var _ objects.Store = (*Memory)(nil)
