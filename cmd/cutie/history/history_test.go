package history_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/history"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, name string, now time.Time) *history.History {
	t.Helper()
	h, err := history.Open(name, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// point is one with two figures; the others are unknown.
func point(pending, oldest float32) history.Point {
	p := history.Unknown()
	p[history.Pending], p[history.Oldest] = pending, oldest
	return p
}

func add(t *testing.T, h *history.History, queue string, active bool, at time.Time, p history.Point) {
	t.Helper()
	if err := h.Add(queue, active, at, p); err != nil {
		t.Fatal(err)
	}
}

// figures returns the known figures of a span as text, with the steps back from now.
func figures(t *testing.T, h *history.History, queue string, span history.Span, now time.Time, m history.Measure) string {
	t.Helper()
	points, ok := h.Of(queue, span, now)
	if !ok {
		return "none"
	}
	if len(points) != history.Points {
		t.Fatalf("%d points", len(points))
	}
	text := ""
	for i, p := range points {
		if f := float64(p[m]); !math.IsNaN(f) {
			text += fmt.Sprintf("%d:%g ", history.Points-1-i, f)
		}
	}
	return text
}

// Points come back as they were given, the longer spans have averages and the greatest
// ages, and all of it outlives the process.
func TestPointsOutliveTheProcess(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	h := open(t, name, start)
	for i := range 60 { // ten minutes
		add(t, h, "", false, start.Add(time.Duration(i)*10*time.Second), point(float32(i), float32(100-i)))
	}
	add(t, h, "q", true, start, point(7, 8))
	now := start.Add(10*time.Minute - time.Second)
	check := func(h *history.History) {
		t.Helper()
		for _, tt := range []struct {
			queue string
			span  history.Span
			m     history.Measure
			want  string
		}{
			{"", history.Day, history.Pending, "2:11.5 1:35.5 0:53.5 "},
			{"", history.Day, history.Oldest, "2:100 1:76 0:52 "},
			{"", history.Month, history.Oldest, "0:100 "},
			{"", history.Hour, history.In, ""},
			{"q", history.Hour, history.Pending, "59:7 "},
			{"other", history.Hour, history.Pending, "none"},
		} {
			if got := figures(t, h, tt.queue, tt.span, now, tt.m); got != tt.want {
				t.Errorf("%q, %v: got %q, want %q", tt.queue, tt.span, got, tt.want)
			}
		}
		if got := figures(t, h, "", history.Hour, start.Add(2*time.Hour), history.Pending); got != "" {
			t.Errorf("points of a former hour: %q", got)
		}
	}
	check(h)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	check(open(t, name, now))
}

// A queue gets a series by activity. There are no more series than there is place for:
// a queue at rest makes way, and one that is gone.
func TestBusyQueuesTakeThePlaceOfQuietOnes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	h := open(t, name, start)
	add(t, h, "idle", false, start, point(1, 1))
	queue := func(i int) string { return fmt.Sprintf("q%03d", i) }
	for i := range history.Queues {
		add(t, h, queue(i), true, start.Add(time.Duration(i)*time.Second), point(1, 1))
	}
	add(t, h, "late", true, start.Add(5*time.Minute), point(1, 1))
	later := start.Add(time.Hour)
	for i := 1; i < history.Queues; i++ {
		add(t, h, queue(i), true, later, point(2, 2))
	}
	for _, q := range []string{"idle", "late"} {
		if got := figures(t, h, q, history.Hour, later, history.Pending); got != "none" {
			t.Errorf("%s has %q", q, got)
		}
	}
	add(t, h, "late", true, later, point(3, 3))
	if got := figures(t, h, queue(0), history.Hour, later, history.Pending); got != "none" {
		t.Errorf("the quietest queue still has %q", got)
	}
	if err := h.Keep(func(q string) bool { return q != queue(1) }); err != nil {
		t.Fatal(err)
	}
	add(t, h, "last", true, later, point(4, 4)) // its place is free
	h.Close()
	info, err := os.Stat(name)
	if err != nil || info.Size() > 12<<20 {
		t.Errorf("file of %d bytes, %v", info.Size(), err)
	}
	h = open(t, name, later)
	add(t, h, "", false, later, point(5, 5))
	for q, want := range map[string]string{"": "0:5 ", "late": "0:3 ", "last": "0:4 ", queue(0): "none", queue(1): "none", queue(2): "0:2 "} {
		if got := figures(t, h, q, history.Hour, later, history.Pending); got != want {
			t.Errorf("%s: got %q, want %q", q, got, want)
		}
	}
}

// Damage of any byte costs the record or the series with it, and nothing else.
func TestDamageIsAGap(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	h := open(t, name, start)
	for _, q := range []string{"", "q"} {
		for i := range 3 {
			add(t, h, q, true, start.Add(time.Duration(i)*10*time.Second), point(float32(i+1), 1))
		}
	}
	h.Close()
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	now := start.Add(20 * time.Second)
	var places []int
	for at := 0; at < len(whole); at += 5003 {
		places = append(places, at)
	}
	// Of headers and records that count.
	for _, at := range bytes.Split(whole, make([]byte, 64)) {
		if len(at) > 0 {
			places = append(places, bytes.Index(whole, at)+len(at)/2)
		}
	}
	for _, at := range places {
		data := append([]byte(nil), whole...)
		data[at] ^= 0x55
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		h := open(t, name, now)
		for _, q := range []string{"", "q"} {
			switch got := figures(t, h, q, history.Hour, now, history.Pending); got {
			case "2:1 1:2 0:3 ", "1:2 0:3 ", "2:1 0:3 ", "2:1 1:2 ", "", "none":
			default:
				t.Fatalf("byte %d: %q has %q", at, q, got)
			}
		}
		add(t, h, "", true, now, point(9, 9))
		h.Close()
		h = open(t, name, now)
		if got := figures(t, h, "", history.Hour, now, history.Pending); !strings.HasSuffix(got, "0:9 ") {
			t.Fatalf("byte %d: the point after it is lost, got %q", at, got)
		}
		h.Close()
	}
	for _, n := range []int{0, 5, 64, 70, 64 + 512, len(whole) - 9} {
		if err := os.WriteFile(name, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		h := open(t, name, now)
		add(t, h, "new", true, now, point(9, 9))
		h.Close()
		h = open(t, name, now)
		if got := figures(t, h, "new", history.Hour, now, history.Pending); got != "0:9 " {
			t.Errorf("cut to %d: got %q", n, got)
		}
		h.Close()
	}
}

// The change of a figure is taken between known points, and unknown over a short time.
func TestChangeIsBetweenKnownPoints(t *testing.T) {
	day := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	h, err := history.Open(filepath.Join(t.TempDir(), "history"), day)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	at := func(after time.Duration, pending float32) {
		t.Helper()
		p := history.Unknown()
		p[history.Pending] = pending
		if err := h.Add("q", true, day.Add(after), p); err != nil {
			t.Fatal(err)
		}
	}
	change := func(now time.Duration) string {
		by, in, ok := h.Change("q", history.Pending, 10*time.Minute, day.Add(now))
		return fmt.Sprint(by, in, ok)
	}
	at(0, 100)
	at(50*time.Second, 103)
	if got := change(50 * time.Second); got != "0 0s false" {
		t.Errorf("after 50 s: got %s", got)
	}
	at(5*time.Minute, 90)
	for now, want := range map[time.Duration]string{
		5 * time.Minute:                 "-10 5m0s true",
		5*time.Minute + 20*time.Second:  "-10 5m0s true",  // the last point may be missing yet
		10*time.Minute + time.Second:    "-10 5m0s true",  // all points known
		10*time.Minute + 40*time.Second: "-13 4m10s true", // the first one is too old
		20 * time.Minute:                "0 0s false",
	} {
		if got := change(now); got != want {
			t.Errorf("after %v: got %s, want %s", now, got, want)
		}
	}
	if _, _, ok := h.Change("other", history.Pending, time.Minute, day); ok {
		t.Error("a change of nothing")
	}
}
