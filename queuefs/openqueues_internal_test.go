package queuefs

import (
	"slices"
	"sync/atomic"
	"testing"
)

type testQueue struct{ id, identifier, name string }

func (q *testQueue) ID() string       { return q.id }
func (q *testQueue) Names() [2]string { return [2]string{q.identifier, q.name} }

func TestQueuesAreFoundByAllTheirNames(t *testing.T) {
	var r openQueues[*testQueue]
	a, b, c := &testQueue{"a", "ark:/1", "first"}, &testQueue{"b", "b", "second"}, &testQueue{"c", "c", "first"}
	r.Expect(a)
	if r.ByID("a") != nil || r.ByName("first") != nil || r.Coming("a") != a {
		t.Error("a queue being made is found")
	}
	if !r.Taken("first", nil) || r.Taken("second", nil) || r.Taken("", nil) || r.Taken("ark:/1", nil) {
		t.Error("its name is not kept, or another one is")
	}
	r.Add(a)
	r.Add(b)
	r.Add(c)
	if r.Coming("a") != nil || r.ByID("a") != a || r.ByName("ark:/1") != a || r.ByName("first") != a || r.ByName("second") != b || r.ByID("x") != nil {
		t.Error("queues are not found by their names")
	}
	if !r.Taken("first", a) || r.Taken("second", b) || !r.Taken("second", a) {
		t.Error("names taken by others")
	}
	b.name = "third"
	r.Renamed()
	if r.ByName("second") != nil || r.ByName("third") != b {
		t.Error("the former name counts")
	}
	r.Order([]string{"c", "b"})
	if got := r.All(); !slices.Equal(got, []*testQueue{c, b, a}) || r.ByName("first") != c {
		t.Errorf("got the order %v", got)
	}
	before := r.All()
	r.Drop(c)
	if got := r.All(); !slices.Equal(got, []*testQueue{b, a}) || len(before) != 3 || before[0] != c {
		t.Errorf("got %v, and before %v", got, before)
	}
	if r.ByID("c") != nil || r.ByName("first") != a {
		t.Error("a dropped testQueue is found")
	}
	d := &testQueue{"d", "d", "fourth"}
	r.Expect(d)
	r.GiveUp(d)
	if r.Taken("fourth", nil) || r.Coming("d") != nil {
		t.Error("a testQueue given up keeps its name")
	}
}

func TestQueuesComeInTurn(t *testing.T) {
	var r openQueues[*testQueue]
	all := []*testQueue{{id: "a"}, {id: "b"}, {id: "c"}, {id: "d"}}
	for _, q := range all {
		r.Add(q)
	}
	if got := r.Turn(4); !slices.Equal(got, all) {
		t.Errorf("got %v, want all", got)
	}
	r.First(all[3])
	r.First(all[2])
	r.Drop(all[2])
	seen := map[*testQueue]int{}
	got := r.Turn(2)
	if len(got) != 3 || got[0] != all[3] {
		t.Errorf("got %v, want d and two others", got)
	}
	for _, q := range slices.Concat(got[1:], r.Turn(1)) {
		seen[q]++
	}
	if len(seen) != 3 || seen[all[2]] != 0 {
		t.Errorf("in turn: %v", seen)
	}
}

func TestSideBySideDoesEachOnce(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		times := make([]atomic.Int32, n)
		rest := sideBySide(n, func(i int) bool { return i%3 > 0 }, func(i int) {
			times[i].Add(1)
			if i%3 == 0 {
				t.Errorf("%d does not stand apart", i)
			}
		})
		if !slices.IsSorted(rest) || n == 1000 && len(rest) != 334 {
			t.Errorf("of %d the rest are %v", n, rest)
		}
		for _, i := range rest {
			times[i].Add(1)
		}
		for i := range times {
			if got := times[i].Load(); got != 1 {
				t.Errorf("%d of %d: %d times", i, n, got)
			}
		}
	}
}
