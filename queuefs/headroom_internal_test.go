package queuefs

import (
	"testing"
	"time"

	"cutie/queuefs/durable"
)

func TestFreeSpaceIsRememberedForAMomentFarFromTheLimit(t *testing.T) {
	d, err := durable.OpenDir(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	free, files, err := d.Free()
	if err != nil {
		t.Fatal(err)
	}
	const fresh = -time.Hour                 // however slow the machine is
	more, moreFiles := 2*free+1<<30, 2*files // than there is
	for _, c := range []struct {
		about        string
		bytes, files int64 // remembered
		age          time.Duration
		want         bool
	}{
		{"far from the limit", more + farBytes, moreFiles + farFiles, fresh, true},
		{"a moment ago", more + farBytes, moreFiles + farFiles, moment, false},
		{"near the limit", more + farBytes - 1, moreFiles + farFiles, fresh, false},
		{"few files", more + farBytes, moreFiles + farFiles - 1, fresh, false},
	} {
		var h headroom
		h.last.Store(&answer{c.bytes, c.files, time.Now().Add(-c.age)})
		if got := h.has(d, more, moreFiles); got != c.want {
			t.Errorf("%s: got %v, want %v", c.about, got, c.want)
		}
		if now := h.last.Load(); (now.bytes != c.bytes) == c.want {
			t.Errorf("%s: remembers %d bytes, had remembered %d", c.about, now.bytes, c.bytes)
		}
	}
	if h := new(headroom); !h.has(d, 0, 0) || h.last.Load() == nil {
		t.Error("the first answer is not remembered")
	}
}
