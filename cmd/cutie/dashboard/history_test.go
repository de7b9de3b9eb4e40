package dashboard_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cutie/cmd/cutie/dashboard"
	"cutie/queuefs/durable"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func openDir(t *testing.T, path string) *durable.Dir {
	t.Helper()
	dir, err := durable.OpenDir(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func openHistory(t *testing.T, path string) *dashboard.History {
	t.Helper()
	h, err := dashboard.OpenHistory(openDir(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// point is one with two figures; the others are unknown.
func point(pending, oldest float32) dashboard.Point {
	p := dashboard.Unknown()
	p[dashboard.Pending], p[dashboard.Oldest] = pending, oldest
	return p
}

// figures returns the known figures of a span as text, with the steps back from now.
func figures(t *testing.T, h *dashboard.History, queue string, span dashboard.Span, now time.Time, m dashboard.Measure) string {
	t.Helper()
	points := h.Of(queue, span, now)
	if points == nil {
		return "none"
	}
	if len(points) != dashboard.Points {
		t.Fatalf("%d points", len(points))
	}
	text := ""
	for i, p := range points {
		if f := float64(p[m]); !math.IsNaN(f) {
			text += fmt.Sprintf("%d:%g ", dashboard.Points-1-i, f)
		}
	}
	return text
}

// Points come back as they were given, the longer spans have averages and the greatest
// ages, and all of it outlives the process.
func TestPointsOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	h := openHistory(t, dir)
	for i := range 60 { // ten minutes
		h.Add("", false, start.Add(time.Duration(i)*10*time.Second), point(float32(i), float32(100-i)))
	}
	h.Add("q", true, start, point(7, 8))
	now := start.Add(10*time.Minute - time.Second)
	check := func(h *dashboard.History) {
		t.Helper()
		for _, tt := range []struct {
			queue string
			span  dashboard.Span
			m     dashboard.Measure
			want  string
		}{
			{"", dashboard.Day, dashboard.Pending, "2:11.5 1:35.5 0:53.5 "},
			{"", dashboard.Day, dashboard.Oldest, "2:100 1:76 0:52 "},
			{"", dashboard.Month, dashboard.Oldest, "0:100 "},
			{"", dashboard.Hour, dashboard.In, ""},
			{"q", dashboard.Hour, dashboard.Pending, "59:7 "},
			{"other", dashboard.Hour, dashboard.Pending, "none"},
		} {
			if got := figures(t, h, tt.queue, tt.span, now, tt.m); got != tt.want {
				t.Errorf("%q, %v: got %q, want %q", tt.queue, tt.span, got, tt.want)
			}
		}
		if got := figures(t, h, "", dashboard.Hour, start.Add(2*time.Hour), dashboard.Pending); got != "" {
			t.Errorf("points of a former hour: %q", got)
		}
	}
	check(h)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	check(openHistory(t, dir))
}

// A queue gets a series by activity. There are no more series than there is place for:
// a queue at rest makes way, and one that is gone.
func TestBusyQueuesTakeThePlaceOfQuietOnes(t *testing.T) {
	dir := t.TempDir()
	h := openHistory(t, dir)
	h.Add("idle", false, start, point(1, 1))
	queue := func(i int) string { return fmt.Sprintf("q%03d", i) }
	for i := range dashboard.Queues {
		h.Add(queue(i), true, start.Add(time.Duration(i)*time.Second), point(1, 1))
	}
	h.Add("late", true, start.Add(5*time.Minute), point(1, 1))
	later := start.Add(time.Hour)
	for i := 1; i < dashboard.Queues; i++ {
		h.Add(queue(i), true, later, point(2, 2))
	}
	for _, q := range []string{"idle", "late"} {
		if got := figures(t, h, q, dashboard.Hour, later, dashboard.Pending); got != "none" {
			t.Errorf("%s has %q", q, got)
		}
	}
	h.Add("late", true, later, point(3, 3))
	if got := figures(t, h, queue(0), dashboard.Hour, later, dashboard.Pending); got != "none" {
		t.Errorf("the quietest queue still has %q", got)
	}
	h.Keep(func(q string) bool { return q != queue(1) })
	h.Add("last", true, later, point(4, 4)) // its place is free
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h = openHistory(t, dir)
	h.Add("", false, later, point(5, 5))
	for q, want := range map[string]string{"": "0:5 ", "late": "0:3 ", "last": "0:4 ", queue(0): "none", queue(1): "none", queue(2): "0:2 "} {
		if got := figures(t, h, q, dashboard.Hour, later, dashboard.Pending); got != want {
			t.Errorf("%s: got %q, want %q", q, got, want)
		}
	}
}

// A damaged file is reported, and the history begins anew.
func TestADamagedHistoryBeginsAnew(t *testing.T) {
	dir := t.TempDir()
	h := openHistory(t, dir)
	h.Add("q", true, start, point(1, 1))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "history")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		data := slices.Clone(whole)
		data[at] ^= 0x55
		for _, damaged := range [][]byte{data, whole[:at]} {
			if err := os.WriteFile(name, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := dashboard.OpenHistory(openDir(t, dir))
			if err == nil {
				t.Errorf("damage of byte %d is not reported", at)
			}
			if got := figures(t, h, "q", dashboard.Hour, start, dashboard.Pending); got != "none" {
				t.Errorf("damage of byte %d: q has %q", at, got)
			}
			h.Add("", true, start, point(9, 9))
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			if got := figures(t, openHistory(t, dir), "", dashboard.Hour, start, dashboard.Pending); got != "0:9 " {
				t.Errorf("byte %d: the point after it is lost, got %q", at, got)
			}
		}
	}
}

// The change of a figure is taken between known points, and unknown over a short time.
func TestChangeIsBetweenKnownPoints(t *testing.T) {
	day := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	h := openHistory(t, t.TempDir())
	at := func(after time.Duration, pending float32) {
		p := dashboard.Unknown()
		p[dashboard.Pending] = pending
		h.Add("q", true, day.Add(after), p)
	}
	change := func(now time.Duration) string {
		trend := h.Trend("q", day.Add(now))
		return fmt.Sprint(trend.By, trend.In)
	}
	at(0, 100)
	at(50*time.Second, 103)
	if got := change(50 * time.Second); got != "0 0s" {
		t.Errorf("after 50 s: got %s", got)
	}
	at(5*time.Minute, 90)
	for now, want := range map[time.Duration]string{
		5 * time.Minute:                 "-10 5m0s",
		5*time.Minute + 20*time.Second:  "-10 5m0s",  // the last point may be missing yet
		10*time.Minute + time.Second:    "-10 5m0s",  // all points known
		10*time.Minute + 40*time.Second: "-13 4m10s", // the first one is too old
		20 * time.Minute:                "0 0s",
	} {
		if got := change(now); got != want {
			t.Errorf("after %v: got %s, want %s", now, got, want)
		}
	}
	if trend := h.Trend("other", day); trend != (dashboard.Trend{}) {
		t.Error("a trend of nothing")
	}
}
