package publisher_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cutie/publisher"
)

func TestListsAreKeptUpWhileSomebodyReadsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(t, publisher.Options{}, "jobs")
		q := s.queue("jobs")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.pub.KeepUp(ctx) }()
		// written counts the entries in the file of the open list.
		written := func() int {
			text, err := os.ReadFile(filepath.Join(s.dir, "resourcesync", "jobs", "pending", "changelist-000000000001.entries"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			return strings.Count(string(text), "<url>")
		}
		check := func(about string, want int) {
			t.Helper()
			synctest.Wait()
			if got := written(); got != want {
				t.Errorf("%s: %d entries are written, want %d", about, got, want)
			}
		}
		s.submitN(q, 3)
		time.Sleep(time.Minute)
		check("nobody reads", 0)
		s.document(s.doc(q, "pending", "changelist.xml"))
		check("a reader has what there is", 3)
		s.submitN(q, 4)
		time.Sleep(100 * time.Millisecond)
		check("after it was read", 7)
		time.Sleep(1500 * time.Millisecond)
		s.document(s.doc(q, "pending", "changelist.xml"))
		time.Sleep(1500 * time.Millisecond)
		s.submitN(q, 2)
		time.Sleep(100 * time.Millisecond)
		check("it was read again", 9)
		time.Sleep(time.Minute)
		s.submitN(q, 5)
		time.Sleep(time.Minute)
		check("nobody has read it for a minute", 9)
		s.ticks(1)
		check("a Tick", 14)
		cancel()
		<-ended
	})
}
