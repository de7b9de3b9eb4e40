package main

import (
	"runtime"
	"testing"
)

// TestHalfOfTheProcessors is not parallel: it sets what the whole process has.
func TestHalfOfTheProcessors(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	back := leaveProcessors()
	if n, most := runtime.GOMAXPROCS(0), max(1, runtime.NumCPU()/2); n != most {
		t.Errorf("%d processors, not %d", n, most)
	}
	back()
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("%d processors afterwards, not %d", n, before)
	}

	t.Setenv("GOMAXPROCS", "3")
	back = leaveProcessors()
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("%d processors, although the environment says how many", n)
	}
	back()
}
