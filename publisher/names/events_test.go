package names_test

import (
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/publisher/names"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

// The entries that an event has in a Change List of the set Replica lead back to it.
func TestEntriesLeadBackToTheirEvent(t *testing.T) {
	at := time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	payload := job.Facts{Length: 5, SHA256: [32]byte{1}, MD5: [16]byte{2}, Type: "text/plain", Modified: at.Add(-time.Hour)}
	file := job.Facts{Length: 200, SHA256: [32]byte{3}, Type: job.FileType, Modified: at}
	came := []job.Result{{Name: "out.txt", Size: 3, SHA256: [32]byte{4}, MediaType: "text/plain"}}
	refs := names.Site("http://127.0.0.1:8080").Queue("jobs")
	for name, want := range map[string]job.Event{
		"submit":   {Kind: job.Submit, Job: 7, To: job.Pending, Payload: payload, File: file},
		"consume":  {Kind: job.Consume, Job: 7, From: job.Pending, To: job.Consumed, File: file},
		"hold":     {Kind: job.Hold, Job: 7, From: job.Pending, To: job.Pending, File: file},
		"result":   {Kind: job.Update, Job: 7, From: job.Consumed, To: job.Consumed, File: file, Results: &job.ResultChange{Came: came}},
		"requeue":  {Kind: job.Requeue, Job: 7, From: job.Consumed, To: job.Pending, File: file, Results: &job.ResultChange{Went: []string{"out.txt"}}},
		"cull":     {Kind: job.Cull, Job: 7, From: job.Deleted},
		"settings": {Kind: job.Update, File: file},
	} {
		want.Seq, want.Time = 12, at
		r := names.Renderer{Refs: refs, Via: "http://10.0.0.1"}
		text, _ := r.Changed(nil, names.Replica, &want)
		back(t, name, text, refs, want)
		// The first event of a queue has queue-info.txt too, and changed settings have it alone.
		info := job.Facts{Length: 97, SHA256: [32]byte{5}, Type: "text/x-anvl", Modified: at}
		if want.Job == 0 {
			info, text = want.File, nil
		}
		back(t, "first "+name, append(r.Begun(nil, &want, &info), text...), refs, want)
	}
}

// back takes the entries of an event, and compares it.
func back(t *testing.T, name string, text []byte, refs *names.Queue, want job.Event) {
	t.Helper()
	var got job.Event
	for lines := sitemap.NewLines(strings.NewReader(string(text))); ; {
		e, err := lines.Read()
		if err == io.EOF {
			break
		}
		if err == nil && got.Seq == 0 {
			got, err = names.EventOf(&e)
		}
		if err == nil {
			err = names.Take(&got, refs.Dir, &e)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", name, got, want)
	}
}
