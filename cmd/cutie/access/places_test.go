package access_test

import (
	"fmt"
	"net/netip"
	"testing"

	"cutie/cmd/cutie/access"
)

// fill takes places until there is none for the client, and tells how many.
func fill(p *access.Places, client string) int {
	n := 0
	for n < 1000 && p.Take(netip.MustParseAddr(client)) {
		n++
	}
	return n
}

func TestPlacesAreShared(t *testing.T) {
	for max, want := range map[int][]int{
		1:   {1},
		2:   {1, 1},
		3:   {2, 1},
		100: {50, 25, 13, 6, 3, 2, 1},
	} {
		p := &access.Places{Max: max}
		for i, want := range want {
			client := fmt.Sprint("192.0.2.", i)
			if got := fill(p, client); got != want {
				t.Errorf("client %d of %d places: got %d, want %d", i, max, got, want)
			}
		}
	}
}

func TestPlacesGivenBackAreSharedAgain(t *testing.T) {
	p := &access.Places{Max: 100}
	greedy := netip.MustParseAddr("192.0.2.1")
	for range 3 {
		got := [2]int{fill(p, "192.0.2.1"), fill(p, "192.0.2.2")}
		if want := [2]int{50, 25}; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		for range 50 {
			p.Leave(greedy)
		}
		for range 25 {
			p.Leave(netip.MustParseAddr("192.0.2.2"))
		}
	}
}

func TestPlacesKnowWhoIsOneClient(t *testing.T) {
	p := &access.Places{Max: 100}
	if got := [2]int{fill(p, "2001:db8::1"), fill(p, "2001:db8::2")}; got != [2]int{50, 0} {
		t.Errorf("one network: got %v, want 50 and none", got)
	}
	if got := fill(p, "2001:db8:0:1::1"); got != 25 {
		t.Errorf("another network: got %d, want 25", got)
	}
	p = &access.Places{Max: 100}
	if got := [2]int{fill(p, "192.0.2.1"), fill(p, "::ffff:192.0.2.1")}; got != [2]int{50, 0} {
		t.Errorf("mapped address: got %v, want 50 and none", got)
	}
}

func TestTrustedProxyGetsWhatIsFree(t *testing.T) {
	proxy, err := access.ParseProxy("192.0.2.0/28")
	must(t, err)
	p := &access.Places{Max: 100, Trusted: access.Proxies{proxy}}
	for range 99 {
		if !p.Take(netip.MustParseAddr("::ffff:192.0.2.1")) {
			t.Fatal("the proxy is refused")
		}
	}
	if got := fill(p, "192.0.2.200"); got != 1 {
		t.Errorf("got %d for another, want the last", got)
	}
}

func TestManyPlacesAreTakenAtOnceOrNot(t *testing.T) {
	p := &access.Places{Max: 100}
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, tt := range []struct {
		client netip.Addr
		n      int
		want   bool
	}{{a, 51, false}, {a, 30, true}, {a, 21, false}, {a, 20, true}, {b, 26, false}, {b, 25, true}, {a, 1, false}} {
		if got := p.TakeMany(tt.client, tt.n); got != tt.want {
			t.Errorf("%v takes %d: got %v, want %v", tt.client, tt.n, got, tt.want)
		}
	}
	p.LeaveMany(a, 50)
	p.LeaveMany(b, 25)
	if p.Taken() != 0 || !p.TakeMany(b, 50) {
		t.Errorf("given back: %d are taken", p.Taken())
	}
}
