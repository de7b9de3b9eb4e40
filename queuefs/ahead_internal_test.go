package queuefs

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// aheadHome returns a queue with n jobs.
func aheadHome(t *testing.T, n int) *Queue {
	t.Helper()
	q := aheadQueue(t, Options{})
	for i := range n {
		aheadSubmit(t, q, i)
	}
	return q
}

func aheadQueue(t *testing.T, o Options) *Queue {
	t.Helper()
	dir := t.TempDir()
	if err := Init(dir, ServiceInfo{}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if _, err := s.CreateQueue(t.Context(), QueueInfo{Identifier: "q"}); err != nil {
		t.Fatal(err)
	}
	q, err := s.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func aheadPayload(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", i), 128) }

func aheadSubmit(t *testing.T, q *Queue, i int) {
	t.Helper()
	sub := q.Begin()
	defer sub.Discard()
	d, err := sub.Add(Meta{Filename: fmt.Sprint(i)})
	if err == nil {
		_, err = d.Write(aheadPayload(i))
	}
	if err == nil {
		_, err = sub.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func aheadTake(t *testing.T, q *Queue, i int) Taken {
	t.Helper()
	taken, err := q.Take(t.Context(), Take{})
	if err != nil {
		t.Fatal(err)
	}
	if taken[0].Filename != fmt.Sprint(i) || !bytes.Equal(taken[0].AtHand(), aheadPayload(i)) {
		t.Fatalf("job %d: got %+v with %.20q", i, taken[0].Job, taken[0].AtHand())
	}
	return taken[0]
}

// Who takes one job after the other has the next ones read with it, but not
// what is not on stable storage yet.
func TestJobsAreReadAhead(t *testing.T) {
	const jobs = 100
	q := aheadHome(t, jobs)
	a := &q.svc.ahead.slots[q.life%uint64(len(q.svc.ahead.slots))]
	var read []*stretch
	for i := range jobs {
		taken := aheadTake(t, q, i)
		if s := a.last.Load(); len(read) == 0 || read[len(read)-1] != s {
			read = append(read, s)
		}
		if cap(taken.AtHand()) > 2*len(taken.AtHand()) {
			t.Errorf("the payload of job %d keeps %d octets in memory", i, cap(taken.AtHand()))
		}
	}
	if len(read) > 10 {
		t.Errorf("the journal was read %d times for %d jobs", len(read), jobs)
	}
	end := q.svc.log.Done().At
	for _, s := range read {
		if s.next() > end {
			t.Errorf("read %d octets behind the last batch", s.next()-end)
		}
		if len(s.data) > readAhead {
			t.Errorf("read %d octets ahead", len(s.data))
		}
	}
	// One job at a time: what was read before the next was submitted lacks it.
	for i := range 20 {
		aheadSubmit(t, q, jobs+i)
		aheadTake(t, q, jobs+i)
	}
}

// What was read ahead is right whatever became of the jobs meanwhile.
func TestJobsThatWereReadAheadChange(t *testing.T) {
	q := aheadHome(t, 12)
	aheadTake(t, q, 0)
	aheadTake(t, q, 1) // reads ahead
	name := "other"
	if _, err := q.Describe(t.Context(), 3, Description{Filename: &name}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Delete(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	taken, err := q.Take(t.Context(), Take{})
	if err != nil || taken[0].ID != 3 || taken[0].Filename != name {
		t.Fatalf("got %+v, %v", taken, err)
	}
	p, err := q.Payload(3)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if data, err := io.ReadAll(p); err != nil || !bytes.Equal(data, aheadPayload(2)) {
		t.Errorf("payload %.20q, %v", data, err)
	}
	aheadTake(t, q, 4)
	if err := q.svc.Checkpoint(t.Context()); err != nil { // the journal is let go
		t.Fatal(err)
	}
	for i := 5; i < 12; i++ {
		taken, err := q.Take(t.Context(), Take{})
		if err != nil || taken[0].Filename != fmt.Sprint(i) {
			t.Fatalf("job %d: %+v, %v", i, taken, err)
		}
	}
}
