//go:build !race

package daemon

import (
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"cutie/testdata/openapi"
)

// allocations are those of each operation so far.
var allocations = map[string]float64{"consume": 73, "poll": 50, "poll unchanged": 34, "report": 53, "submit": 48, "submit and publish": 89}

// No change makes the operations of a daemon dearer unseen. Allocations are counted, which
// do not depend on how busy the machine is; BenchmarkOperation has the times.
func TestOperationsAllocateNoMoreThanBefore(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		const n = 100
		op := measured[name](newBenchDaemon(t))
		op.ready(2*n + 2)
		testing.AllocsPerRun(n, op.do) // pools and caches fill
		most := allocations[name]
		if got := testing.AllocsPerRun(n, op.do); got > most+max(1, most/50) {
			t.Errorf("%s: got %.0f allocations, %.0f before: if they are worth it, write the new figure above", name, got, most)
		}
	}
}

func TestTheDescriptionIsValid(t *testing.T) {
	rows := table()
	text, err := description(&rows)()
	if err != nil {
		t.Fatal(err)
	}
	if err := openapi.Valid(text); err != nil {
		t.Error(err)
	}
	if strings.Contains(string(text), `"description": ""`) {
		t.Error("a description is empty")
	}
}
