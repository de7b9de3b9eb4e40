package scrub_test

import (
	"testing"
	"time"

	"cutie/publisher/scrub"
)

func TestPaces(t *testing.T) {
	for text, want := range map[string]scrub.Pace{
		"0": {}, "7d": {Period: 168 * time.Hour}, "36h": {Period: 36 * time.Hour}, "1000": {Rate: 1000},
		"10MB": {Rate: 10e6}, "10MB/s": {Rate: 10e6}, "500kB": {Rate: 500e3},
	} {
		got, err := scrub.ParsePace(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
		if again, err := scrub.ParsePace(got.String()); err != nil || again != want {
			t.Errorf("%s: printed as %s, which is %+v, %v", text, got, again, err)
		}
	}
	for _, bad := range []string{"", "-1", "-1h", "x", "10XB", "0d", "1e9"} {
		if got, err := scrub.ParsePace(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

// A clock that is set by hand stands for the seconds.
func TestTheReaderKeepsItsPaceAndRests(t *testing.T) {
	const parts, part = 100, 1000
	now := time.Unix(1e9, 0)
	passes := 0
	pass := func(yield func(int64) bool) {
		passes++
		for range parts {
			if !yield(part) {
				return
			}
		}
	}
	size := func() int64 { return parts * part }
	r := scrub.NewReader(scrub.Pace{Rate: 10 * part}, size, pass, func() time.Time { return now })
	defer r.Close()
	never := func() bool { return false }
	for range 6 {
		r.Step(never)
		now = now.Add(time.Second)
	}
	if got := r.Stats(); got.Bytes != 50*part || got.Passes != 0 {
		t.Errorf("after five seconds: %+v", got)
	}
	for range 20 {
		r.Step(never)
		now = now.Add(time.Second)
	}
	if got := r.Stats(); got.Bytes != parts*part || got.Passes != 1 || passes != 1 {
		t.Errorf("after the pass: %+v", got)
	}
	now = now.Add(time.Hour)
	for range 2 {
		r.Step(never)
		now = now.Add(time.Second)
	}
	if passes != 2 {
		t.Errorf("an hour later: %d passes began", passes)
	}
	idle := scrub.NewReader(scrub.Pace{}, size, func(func(int64) bool) { t.Error("read") }, func() time.Time { return now })
	idle.Step(never)
}

// The size of a pass is a sum over all there is, and not asked for at each step.
func TestTheSizeIsAskedNowAndThen(t *testing.T) {
	now, asked, size := time.Unix(1e9, 0), 0, int64(1<<40)
	pass := func(yield func(int64) bool) {
		for yield(1 << 20) {
		}
	}
	r := scrub.NewReader(scrub.Pace{Period: 1000 * time.Second}, func() int64 { asked++; return size }, pass, func() time.Time { return now })
	defer r.Close()
	step := func(seconds int) (read int64) {
		before := r.Stats().Bytes
		for range seconds {
			now = now.Add(time.Second)
			r.Step(func() bool { return false })
		}
		return r.Stats().Bytes - before
	}
	step(100)
	if asked != 1 {
		t.Errorf("asked %d times in 100 s", asked)
	}
	size *= 2
	step(300)
	if got, want := step(10), 10*size/1000; asked > 3 || got < want*9/10 || got > want*11/10 {
		t.Errorf("asked %d times; read %d octets in 10 s of twice as many, want about %d", asked, got, want)
	}
}
