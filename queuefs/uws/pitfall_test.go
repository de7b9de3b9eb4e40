package uws_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/uws"
)

// What is known to break clients that others wrote; each did break one.

func TestJobIdentifiersAreNoPartOfASchemeAndUnlikeEachOther(t *testing.T) {
	w := newWorld(t, "")
	seen := map[string]bool{}
	for range 50 {
		id := idOf(w.create("a=1"))
		if strings.ContainsRune("htps:/", rune(id[0])) || url.PathEscape(id) != id || seen[id] {
			t.Errorf("got identifier %s", id)
		}
		seen[id] = true
	}
}

func TestTimesAreUTC(t *testing.T) {
	w := newWorld(t, "limits: life=0\n")
	job := w.create("PHASE=RUN&a=1&DESTRUCTION=2030-01-01T12:00:00%2B01:00")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Completed})
	text := w.get(job) + w.get("async") + w.get(job+"/destruction")
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT[^<]*`).FindAllString(text, -1)
	if len(times) != 6 {
		t.Errorf("got %q, want six times", times)
	}
	for _, s := range times {
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(s) {
			t.Errorf("got %s, want milliseconds and Z", s)
		}
	}
	if got := w.get(job + "/destruction"); got != "2030-01-01T11:00:00.000Z" {
		t.Errorf("got destruction %s", got)
	}
}

func TestWaitNeitherEndsAtOnceNorTooLate(t *testing.T) {
	w := newWorld(t, "")
	if got := time.Duration(uws.MaxWait); got < 10*time.Second || got > time.Minute {
		t.Errorf("a wait takes up to %v, and clients read for a minute", got)
	}
	job := w.create("a=1")
	for _, query := range []string{"WAIT=-1", "wait=30", "WAIT=1000000", "WAIT=9223372036854775807", "WAIT=50&PHASE=pending"} {
		ctx, leave := context.WithCancel(context.Background())
		r, _ := http.NewRequestWithContext(ctx, "GET", job+"?"+query, nil)
		answered := make(chan bool)
		go func() {
			resp, err := w.web.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			answered <- err == nil
		}()
		for w.h.Waiting() == 0 {
			select {
			case <-answered:
				t.Fatalf("%s: answered at once", query)
			default:
				runtime.Gosched()
			}
		}
		leave()
		if <-answered {
			t.Errorf("%s: answered, and nothing has changed", query)
		}
		for w.h.Waiting() > 0 {
			runtime.Gosched()
		}
	}
}
