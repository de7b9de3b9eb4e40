package access

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
)

// testQueue is a fairQueue with one place, which is taken.
type testQueue struct {
	*fairQueue
	t    *testing.T
	seen sync.Mutex
	gone []string // on, or refused with a minus, in this order
}

func newTestQueue(t *testing.T, most int) *testQueue {
	l := &testQueue{fairQueue: newFairQueue(1, most), t: t}
	if err := l.wait(t.Context(), netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	return l
}

func addressNo(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }

// join lets one wait.
func (l *testQueue) join(ctx context.Context, name string, client int) {
	go func() {
		err := l.wait(ctx, addressNo(client))
		l.seen.Lock()
		defer l.seen.Unlock()
		switch err {
		case nil:
			l.gone = append(l.gone, name)
		case errCrowded:
			l.gone = append(l.gone, "-"+name)
		default:
			l.gone = append(l.gone, "!"+name)
		}
	}()
	synctest.Wait()
}

// want compares who went on since.
func (l *testQueue) want(names ...string) {
	l.t.Helper()
	synctest.Wait()
	if got, want := fmt.Sprint(l.gone), fmt.Sprint(names); got != want {
		l.t.Errorf("got %s, want %s", got, want)
	}
	l.gone = nil
}

func TestAddressesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestQueue(t, 10)
		for i := range 5 {
			l.join(t.Context(), fmt.Sprint("a", i), 1)
		}
		l.join(t.Context(), "b0", 2)
		l.join(t.Context(), "c0", 3)
		l.want()
		for _, name := range []string{"a0", "b0", "c0", "a1", "a2"} {
			l.leave()
			l.want(name)
		}
		l.join(t.Context(), "d0", 4)
		l.leave()
		l.want("a3")
		l.leave()
		l.want("d0")
		l.leave()
		l.want("a4")
		l.leave() // nobody waits
		l.join(t.Context(), "e0", 5)
		l.want("e0")
	})
}

func TestAddressWithManyMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestQueue(t, 4)
		for i := range 5 {
			l.join(t.Context(), fmt.Sprint("a", i), 1)
		}
		l.want("-a4")
		l.join(t.Context(), "b0", 2)
		l.want("-a3")
		l.join(t.Context(), "b1", 2)
		l.want("-a2")
		l.join(t.Context(), "b2", 2) // it has as many as the other
		l.want("-b2")
		l.join(t.Context(), "c0", 3)
		l.join(t.Context(), "d0", 4)
		l.gone = nil
		l.join(t.Context(), "e0", 5) // each has one
		l.want("-e0")
		if l.waits != 4 {
			t.Errorf("got %d that wait, want 4", l.waits)
		}
		for range 5 {
			l.leave()
		}
		synctest.Wait()
		if l.free != 1 || l.waits != 0 || len(l.turns) != 0 || len(l.waiting) != 0 {
			t.Errorf("got %d free, %d waiting of %v", l.free, l.waits, l.turns)
		}
	})
}

func TestWhoGoesAwayLeavesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestQueue(t, 4)
		ctx, cancel := context.WithCancel(t.Context())
		l.join(ctx, "a0", 1)
		l.join(t.Context(), "b0", 2)
		cancel()
		l.want("!a0")
		l.leave()
		l.want("b0")
		if l.waits != 0 || len(l.turns) != 0 {
			t.Errorf("got %d waiting of %v, want none", l.waits, l.turns)
		}
	})
}
