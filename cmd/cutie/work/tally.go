package work

import (
	"fmt"
	"sync"
	"time"
)

// An ending is how the work on a job has ended.
type ending uint8

const (
	completed ending = iota
	failed
	givenBack
	retried // another attempt follows
	lost    // the lease was gone
	endings
)

// A tally counts the attempts of a worker by their endings.
type tally struct {
	mu   sync.Mutex
	n    [endings]int
	news bool // since the last summary
}

func (t *tally) add(e ending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n[e]++
	t.news = true
}

// summary returns the counts, and whether they have changed since the last call.
func (t *tally) summary() (text string, news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	news, t.news = t.news, false
	text = fmt.Sprintf("%d completed, %d failed, %d given back", t.n[completed], t.n[failed], t.n[givenBack])
	if t.n[retried] > 0 {
		text += fmt.Sprintf(", %d to be tried again", t.n[retried])
	}
	if t.n[lost] > 0 {
		text += fmt.Sprintf(", %d aborted or lost", t.n[lost])
	}
	return text, news
}

// summarize prints the tally now and then, if there is news, until done is closed, and
// then once more.
func (w *Worker) summarize(done <-chan struct{}) {
	tick := time.NewTicker(w.Summary)
	defer tick.Stop()
	for {
		select {
		case <-done:
			text, _ := w.tally.summary()
			w.Warn("%s: %s", w.Queue, text)
			return
		case <-tick.C:
			if text, news := w.tally.summary(); news {
				w.Warn("%s: %s so far", w.Queue, text)
			}
		}
	}
}
