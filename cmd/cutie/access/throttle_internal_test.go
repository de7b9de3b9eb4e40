package access

import (
	"net/netip"
	"testing"
	"time"
)

func TestThrottleRemembersSoManyClients(t *testing.T) {
	th := throttle[netip.Addr]{burst: 2, every: time.Second, most: 100}
	now := time.Unix(1e9, 0)
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
	for i := range 1000 {
		if wait := th.try(at(i), now); wait != 0 {
			t.Fatalf("client %d: got %v, want no wait", i, wait)
		}
		if len(th.due) > 100 {
			t.Fatalf("client %d: %d are remembered, want 100 at most", i, len(th.due))
		}
	}
	// The last is among them.
	th.try(at(999), now)
	if got := th.try(at(999), now); got != time.Second {
		t.Errorf("got %v, want 1s", got)
	}
	// Those that have all their tries again are forgotten first.
	now = now.Add(time.Minute)
	for i := range 101 {
		th.try(at(2000+i), now)
	}
	for i := range 101 {
		if _, ok := th.due[at(2000+i)]; !ok {
			if len(th.due) < 75 {
				t.Errorf("client %d is forgotten with %d others remembered", i, len(th.due))
			}
		}
	}
}
