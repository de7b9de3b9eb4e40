package queuefs

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	for text, want := range map[string][2]int64{
		"cpu  214899 0 171925 287182 14641 0 8840 10665 0 0\ncpu0 1 2": {287182 + 14641, 214899 + 171925 + 287182 + 14641 + 8840 + 10665},
		"cpu  1 2 3 4 5\n":                    {9, 15},
		"cpu  1 2 3 4 5 6 7 8 9 10 11\n":      {9, 36}, // 9 and 10 are of guests
		"cpu  1 2 3 4 5":                      {},      // cut off
		"cpu  1 2 3 4\n":                      {},
		"cpu  1 2 3 four 5\n":                 {},
		"intr 1 2 3 4 5\n":                    {},
		"":                                    {},
		"cpu  1 2 3 99999999999999999999 5\n": {},
	} {
		idle, total, ok := parseStat([]byte(text))
		if idle != want[0] || total != want[1] || ok != (want[1] > 0) {
			t.Errorf("%q: got %d %d %v, want %v", text, idle, total, ok, want)
		}
	}
}

func TestLeisureFollowsWhatIsIdle(t *testing.T) {
	var l leisure
	for _, step := range []struct {
		idle float64
		want time.Duration
	}{
		{0, 0}, {0.3, 0}, {0.5, 10 * time.Millisecond}, {2, 20 * time.Millisecond}, {0.3, 20 * time.Millisecond},
		{0.1, 10 * time.Millisecond}, {0.1, 0}, {0, 0},
	} {
		if got := l.next(step.idle); got != step.want {
			t.Errorf("%v idle: got %v, want %v", step.idle, got, step.want)
		}
	}
	for range 10 {
		l.next(1)
	}
	if got := l.next(1); got != 150*time.Millisecond {
		t.Errorf("at most: got %v", got)
	}
}

// TestHalfOfTheJobsUnfiled has a burst that leaves processors idle: files are
// written from half of the jobs on that may be without.
func TestHalfOfTheJobsUnfiled(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	if err := Init(dir, ServiceInfo{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{Now: func() time.Time { return now }, Idle: func() float64 { return 2 }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q, err := s.CreateQueue(t.Context(), QueueInfo{ID: "q", Name: "q", CullingSize: -1, CullingAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		more int64 // as if so many others had no files
		left int
	}{{0, 3}, {maxDirty/2 - 7, 6}, {maxDirty / 2, 0}} {
		submitMany(t, q, 3)
		s.dirty.Add(tt.more)
		var err error
		for try := 0; try == 0 || try < 100 && err == nil && tt.left == 0 && s.dirty.Load() > tt.more; try++ { // there is little time
			s.pace.written -= calmRate // a burst
			now = now.Add(200 * time.Millisecond)
			err = s.Maintain(t.Context())
		}
		s.dirty.Add(-tt.more)
		if got := s.Unfiled(); err != nil || got != tt.left {
			t.Errorf("%d jobs are left (%v), want %d", got, err, tt.left)
		}
	}
}
