package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"
)

func TestEachNameIsNewOnce(t *testing.T) {
	n := new(nameSet)
	for _, name := range []string{"", "q/j000000000001", "q/j000000000002", "p/j000000000001", "q/j000000000064", "q/j1000000000001", "q/x", "q/j"} {
		if !n.add(name) {
			t.Errorf("%q is new", name)
		}
		if n.add(name) {
			t.Errorf("%q is known", name)
		}
	}
	for i := range 1000 {
		if name := fmt.Sprintf("r/j%012d", 7*i); !n.add(name) || n.add(name) {
			t.Errorf("%q: new once", name)
		}
	}
}

func TestRateIsOfTheSecondsGiven(t *testing.T) {
	if got := rate([]int64{10, 20, 30}); got != 20 {
		t.Errorf("got %v, want 20", got)
	}
	if got := rate(nil); got != 0 {
		t.Errorf("got %v of no second", got)
	}
}

func TestMemoryIsThatOfASecond(t *testing.T) {
	f := figures{memory: []int64{3, 9, 4}}
	if f.most() != 9 || f.memoryAt(7) != 4 || f.memoryAt(1) != 9 {
		t.Errorf("got %d at most, %d at the end", f.most(), f.memoryAt(7))
	}
}

func TestPeersHaveTheSameLoad(t *testing.T) {
	for name := range steadyPeers {
		t.Run(name, func(t *testing.T) {
			if why := peerNamed(name).missing(t.Context()); why != "" {
				t.Skip(why)
			}
			dir := t.TempDir()
			var out bytes.Buffer
			s := steady{clients: 2, size: 100, seconds: 1, first: 100 * time.Millisecond, out: &out}
			if err := s.peer(t.Context(), dir, name); err != nil {
				t.Fatal(err)
			}
			if want := `^` + name + `: [1-9]\d* moved/s in a burst, .* 0 errors\n$`; !regexp.MustCompile(want).MatchString(out.String()) {
				t.Errorf("got %q, want %s", out.String(), want)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
