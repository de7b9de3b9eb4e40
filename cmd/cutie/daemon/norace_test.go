//go:build !race

package daemon

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"cutie/testdata/openapi"
)

var update = flag.Bool("update", false, "write the figures of the test of allocations")

// allocationsFile has the allocations of each operation, a line each.
const allocationsFile = "testdata/allocations.txt"

// No change makes the operations of a daemon dearer unseen. Allocations are counted, which
// do not depend on how busy the machine is; BenchmarkOperation has the times.
func TestOperationsAllocateNoMoreThanBefore(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	var got strings.Builder
	want, err := os.ReadFile(allocationsFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		const n = 100
		op := measured[name](newBenchDaemon(t))
		op.ready(2*n + 2)
		testing.AllocsPerRun(n, op.do) // pools and caches fill
		allocs := testing.AllocsPerRun(n, op.do)
		fmt.Fprintf(&got, "%s %.0f\n", strings.ReplaceAll(name, " ", "-"), allocs)
	}
	if *update {
		if err := os.WriteFile(allocationsFile, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	before := map[string]float64{}
	for line := range strings.Lines(string(want)) {
		var name string
		var n float64
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			t.Fatalf("%s: %q: %v", allocationsFile, line, err)
		}
		before[name] = n
	}
	for line := range strings.Lines(got.String()) {
		var name string
		var n float64
		fmt.Sscan(line, &name, &n)
		if most, ok := before[name]; !ok || n > most+max(1, most/50) {
			t.Errorf("%s: got %.0f allocations, %.0f before: if they are worth it, write the new figures with -update", name, n, most)
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
}
