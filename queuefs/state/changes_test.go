package state_test

import (
	"reflect"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// What a method changed is told in every form, of a queue and of the service.
func TestChangesAreToldInEveryForm(t *testing.T) {
	all := state.Changes{
		Changed: []queuefs.JobID{1, 2},
		Chosen:  []queuefs.JobID{3},
		Refused: []string{"j000000000004: job not pending", "j000000000005: <&>"},
		Culled: []queuefs.Culled{
			{Queue: "uc3+q=1", Job: 6, Status: queuefs.Consumed, At: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Size: 7},
			{Queue: "q", Job: 8, Status: queuefs.Deleted, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		},
		Kept:  []queuefs.Kept{{Queue: "uc3+q=1", Spared: 11}, {Queue: "q", Spared: 1}},
		More:  true,
		After: 9,
	}
	ofService := state.Changes{Culled: all.Culled, Kept: all.Kept, More: true}
	jobs := state.Jobs{Outcome: queuefs.Failed, Held: true, Batch: "b000000000001-2", Limit: 5}
	base := state.NewBase("http://example.org/")
	for _, c := range []state.Changes{all, {}} {
		queue := state.Queue{QueueState: queuefs.QueueState{Info: queuefs.QueueInfo{ID: "q"}}, Changes: c, Jobs: jobs}
		for _, form := range statetest.Readable(forms) {
			d := state.OfQueue(base, &queue)
			read, err := statetest.Read(form, state.QueueClass, form.Append(nil, &d))
			if err != nil {
				t.Fatalf("%v: %v", form, err)
			}
			got, err := read.Queue()
			if err != nil || !reflect.DeepEqual(got.Changes, c) || !reflect.DeepEqual(got.Jobs, jobs) {
				t.Errorf("%v: got %+v of %+v, %v, want %+v of %+v", form, got.Changes, got.Jobs, err, c, jobs)
			}
			service := state.Service{Changes: state.Changes{Culled: c.Culled, Kept: c.Kept, More: c.More}}
			d = state.OfService(&service)
			read, err = statetest.Read(form, state.ServiceClass, form.Append(nil, &d))
			if err != nil {
				t.Fatalf("%v: %v", form, err)
			}
			if got, err := read.Changes(); err != nil || c.More && !reflect.DeepEqual(got, ofService) {
				t.Errorf("%v: got %+v, %v", form, got, err)
			}
		}
	}
}

func TestKeptJobsAreReadStrictly(t *testing.T) {
	for _, text := range []string{"", "q 1", "q 0 spared", "q -1 spared", "q x spared", "q 1 wanted", "q 1 spared still", "cutie 1 spared", "q 1 spared\nkeptJob: q 2 spared"} {
		d, err := state.ANVL.Decode(state.QueueClass, []byte("keptJob: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := d.Changes(); err == nil {
			t.Errorf("%q: got %+v", text, c)
		}
	}
}

func TestCulledJobsAreReadStrictly(t *testing.T) {
	for _, text := range []string{"", "q j000000000001 consumed 2026-01-02T03:04:05.000000Z", "q 1 consumed 2026-01-02T03:04:05.000000Z 1",
		"q j000000000001 gone 2026-01-02T03:04:05.000000Z 1", "q j000000000001 consumed today 1", "cutie j000000000001 consumed 2026-01-02T03:04:05.000000Z 1",
		"q j000000000001 consumed 2026-01-02T03:04:05.000000Z -1"} {
		d, err := state.ANVL.Decode(state.ServiceClass, []byte("culledJob: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := d.Changes(); err == nil {
			t.Errorf("%q: got %+v", text, c)
		}
	}
}
