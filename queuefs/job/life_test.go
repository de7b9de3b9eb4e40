package job_test

import (
	"reflect"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/job"
)

var (
	early = time.UnixMicro(1e15).UTC()
	late  = time.UnixMicro(2e15).UTC()
)

// worked is a job with all a consumer can leave.
func worked() job.Job {
	return job.Job{ID: 3, Status: job.Consumed, Submitted: early, Consumed: early, Consumer: "w", Attempts: 2, Lease: job.Lease{Ends: late, Key: "k"},
		Outcome: job.Failed, Finished: early, Message: "m", Transient: true, Results: []job.Result{{Name: "out"}}, Requeues: 1,
		Extra: anvl.Record{{Name: "who", Value: "me"}, {Name: job.RequeuedAs, Value: "j000000000009"}}}
}

func TestGoingBackLeavesTheAttempt(t *testing.T) {
	j := worked()
	j.GoBack(late)
	want := job.Job{ID: 3, Status: job.Pending, Submitted: early, Consumed: early, Attempts: 2, Requeued: late, Requeues: 2, Extra: anvl.Record{{Name: "who", Value: "me"}}}
	if !reflect.DeepEqual(j, want) {
		t.Errorf("got %+v\nwant %+v", j, want)
	}
}

func TestDeletingEndsHoldAndLease(t *testing.T) {
	j := worked()
	j.Held, j.HeldFor = early, "x"
	want := j
	j.Delete(late)
	want.Status, want.Deleted = job.Deleted, late
	want.Held, want.HeldFor, want.Lease = time.Time{}, "", job.Lease{}
	if !reflect.DeepEqual(j, want) {
		t.Errorf("got %+v\nwant %+v", j, want)
	}
}

func TestHoldKeepsItsDate(t *testing.T) {
	var j job.Job
	for _, step := range []struct {
		why     string
		changed bool
		want    string
	}{{"a", true, "a"}, {"", false, "a"}, {"a", false, "a"}, {"b", true, "b"}} {
		at := late
		if j.Held.IsZero() {
			at = early
		}
		if changed := j.Hold(at, step.why, time.Time{}); changed != step.changed || j.Held != early || j.HeldFor != step.want {
			t.Errorf("%q: changed %v, held %v for %q", step.why, changed, j.Held, j.HeldFor)
		}
	}
	for _, step := range []struct {
		until   time.Time
		changed bool
	}{{late, true}, {late, false}, {late.Add(1e6), true}, {time.Time{}, true}, {late, true}} {
		if changed := j.Hold(late, "", step.until); changed != step.changed || j.Held != early || j.HeldFor != "b" || j.HeldUntil != step.until {
			t.Errorf("until %v: changed %v, held %v until %v", step.until, changed, j.Held, j.HeldUntil)
		}
	}
	if !j.Unhold() || j.Unhold() || !reflect.DeepEqual(j, job.Job{}) {
		t.Errorf("released: %+v", j)
	}
}

func TestTwoJobsNameEachOther(t *testing.T) {
	old := worked()
	old.Destruction, old.Sidecar, old.Owner, old.Size = late, "s", "ann", 4
	next := old.Again(9, 12, late)
	want := job.Job{ID: 9, Status: job.Pending, Seq: 12, Sidecar: "s", Owner: "ann", Size: 4, Submitted: late, Requeued: late, Requeues: 2, Destruction: late,
		Extra: append(old.Extra[:2:2], anvl.Element{Name: job.RequeuedFrom, Value: "j000000000003"})}
	if !reflect.DeepEqual(next, want) {
		t.Errorf("got %+v\nwant %+v", next, want)
	}
	old.GiveWay(10)
	if got := old.Extra.Value(job.RequeuedAs); got != "j000000000010" || !old.Destruction.IsZero() {
		t.Errorf("successor %q, destruction %v", got, old.Destruction)
	}
}

func TestDescriptionsBecomeJobs(t *testing.T) {
	extra := make(anvl.Record, 1, 9)
	extra[0] = anvl.Element{Name: "a", Value: "b"}
	m := job.Meta{Filename: "f", MediaType: "text/plain", Submitter: "s", Owner: "o", Sidecar: "x", Batch: "g", Destruction: late, Extra: extra,
		OnHold: true, Name: func(id job.ID) anvl.Element { return anvl.Element{Name: "id", Value: id.String()} }}
	want := job.Job{ID: 5, Status: job.Pending, Seq: 7, Filename: "f", MediaType: "text/plain", Submitter: "s", Owner: "o", Sidecar: "x", Batch: "g",
		Destruction: late, Submitted: early, Held: early, HeldFor: job.NotStarted, Extra: anvl.Record{{Name: "a", Value: "b"}, {Name: "id", Value: "j000000000005"}}}
	for range 2 { // starting again, as after a journal not ready, changes no more
		j := m.Job()
		m.Start(&j, 5, 7, early)
		if !reflect.DeepEqual(j, want) {
			t.Errorf("got %+v\nwant %+v", j, want)
		}
	}
	if len(extra[:2][1].Name) > 0 {
		t.Error("the description of the submitter was written to")
	}
}

// The date of the last consumption stays, and is not taken for that of an attempt.
func TestBegunIsOfTheLastAttempt(t *testing.T) {
	j := worked()
	if got := j.Begun(); got != early {
		t.Errorf("consumed: got %v", got)
	}
	j.GoBack(late)
	if got := j.Begun(); !got.IsZero() {
		t.Errorf("pending: got %v", got)
	}
	j.Delete(late)
	if got := j.Begun(); !got.IsZero() || j.Consumed != early {
		t.Errorf("deleted: got %v, consumed %v", got, j.Consumed)
	}
}
