package queuefs

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"cutie/queuefs/journal"
)

// TestPlacesAreAMap does the same to places and to a map.
func TestPlacesAreAMap(t *testing.T) {
	p, want := places{}, map[JobID]unfiled{}
	random := rand.New(rand.NewPCG(1, 2))
	for step := range 20_000 {
		id := JobID(1 + random.IntN(5*PageJobs))
		if random.IntN(2) == 0 {
			u := unfiled{text: journal.LSN(step + 1), payload: journal.LSN(random.IntN(2))}
			p.put(id, u)
			want[id] = u
		} else {
			p.drop(id)
			delete(want, id)
		}
		if got := p.of(id); got != want[id] {
			t.Fatalf("step %d: %v: got %v want %v", step, id, got, want[id])
		}
	}
	order := func(a, b unfiled) int { return int(a.text) - int(b.text) }
	if got, want := slices.SortedFunc(p.all(), order), slices.SortedFunc(maps.Values(want), order); !slices.Equal(got, want) {
		t.Errorf("all: got %d places, want %d", len(got), len(want))
	}
	for id := range want {
		p.drop(id)
	}
	if len(p) != 0 {
		t.Errorf("%d pages are left of nothing", len(p))
	}
}
