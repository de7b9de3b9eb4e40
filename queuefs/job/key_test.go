package job_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/job"
)

func TestKeysAreVisibleASCII(t *testing.T) {
	for _, key := range []string{"a", "order-4711", `q"\`, "a#1", strings.Repeat("x", job.MaxKey)} {
		if err := job.CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{"", "a b", " a", "tab\t", "line\n", "ä", "\x7f", strings.Repeat("x", job.MaxKey+1)} {
		if err := job.CheckKey(key); !errors.Is(err, job.ErrBadName) {
			t.Errorf("%q: got %v", key, err)
		}
		m := job.Meta{Key: key}
		if err := m.Check(); key != "" && !errors.Is(err, job.ErrBadName) {
			t.Errorf("metadata with %q: got %v", key, err)
		}
	}
	if a, b := job.SumOfKey("", "a"), job.SumOfKey("", "b"); a == b || a == 0 || job.SumOfKey("", "") != 0 {
		t.Errorf("sums %x and %x", a, b)
	}
}

func TestTokenForAKeyIsTheSameEachTime(t *testing.T) {
	first := job.TokenFor("ann", "k", "jobs", 7, 1)
	if again := job.TokenFor("ann", "k", "jobs", 7, 1); again != first || len(first) != len(job.NewToken()) {
		t.Errorf("got %s, then %s", first, again)
	}
	for name, other := range map[string]string{
		"user": job.TokenFor("bob", "k", "jobs", 7, 1), "key": job.TokenFor("ann", "l", "jobs", 7, 1), "queue": job.TokenFor("ann", "k", "more", 7, 1),
		"job": job.TokenFor("ann", "k", "jobs", 8, 1), "requeue": job.TokenFor("ann", "k", "jobs", 7, 2),
	} {
		if other == first {
			t.Errorf("another %s has the same token", name)
		}
	}
	if job.ConsumerKey("a", "bc") == job.ConsumerKey("ab", "c") {
		t.Error("user and key run together")
	}
}

// TestConsumerKeyEndsWithTheWork has every way out of it.
func TestConsumerKeyEndsWithTheWork(t *testing.T) {
	at := time.UnixMicro(1e15)
	for name, end := range map[string]func(*job.Job){
		"concluded": func(j *job.Job) { j.Conclude(at, job.Conclusion{Outcome: job.Completed}) },
		"back":      func(j *job.Job) { j.GoBack(at) },
		"deleted":   func(j *job.Job) { j.Delete(at) },
	} {
		j := job.Job{Status: job.Consumed, Key: "k", ConsumerKey: "c"}
		if end(&j); j.ConsumerKey != "" || j.Key != "k" {
			t.Errorf("%s: got %+v", name, j)
		}
	}
	again := (&job.Job{Key: "k", ConsumerKey: "c"}).Again(8, 9, at)
	if again.Key != "" || again.ConsumerKey != "" {
		t.Errorf("a job submitted again has keys: %+v", again)
	}
}
