package state_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

var update = flag.Bool("update", false, "write the golden files")

const base = state.Base("http://cutie.example.org/base")

var day = time.Date(2010, 4, 20, 16, 0, 0, 0, time.UTC)

func fullJob() queuefs.Job {
	return queuefs.Job{
		ID: 42, Queue: "uc3+cutie=01^20x", Status: queuefs.Consumed, Seq: 7,
		Filename: "naïve \"file\".bin", MediaType: "text/plain", Submitter: "mrt-ingest/0.6",
		Sidecar: "profile=uc3_content; note=first\nsecond line\t100%",
		Size:    6,
		Digests: []digest.Value{digest.Sum(digest.SHA256, []byte("hello\n")), digest.Sum(digest.MD5, []byte("hello\n"))},
		Batch:   "b1", Consumer: "worker/1 \\ <x>",
		Submitted: day, Consumed: day.Add(30*time.Minute + 1500*time.Nanosecond),
		Requeued: day.Add(time.Minute), Requeues: 2, Updated: day.Add(2 * time.Minute),
		Owner: "me", Attempts: 3, Lease: queuefs.Lease{Ends: day.Add(2 * time.Hour), Key: "secret"},
		Held: day.Add(time.Second), HeldFor: "payload damaged",
		Outcome: queuefs.Failed, Finished: day.Add(time.Hour), Message: "no space\n]]> left", Transient: true,
		Results: []queuefs.Result{{Name: "log.txt", MediaType: "text/plain", Size: 3}, {Name: "out"}},
		Extra:   anvl.Record{{Name: "owner", Value: "me"}, {Name: "owner", Value: "you"}},
	}
}

func plainJob() queuefs.Job {
	return queuefs.Job{ID: 1, Queue: "ingest", Status: queuefs.Pending, Seq: 1, Submitted: day}
}

func fullQueue() state.Queue {
	return state.Queue{
		QueueState: queuefs.QueueState{
			Info: queuefs.QueueInfo{
				ID: "uc3+cutie=01", Identifier: "uc3:cutie/01", Name: "Queue01",
				Description: "UC3 primary <ingest> & queue", CullingSize: 100, CullingAge: 0,
				VerifyOnRead: true, Created: day,
				Paused: day.Add(2 * time.Hour), Closed: true, Acknowledge: queuefs.AckRequired,
				Lease: 90 * time.Second, MaxAttempts: 5, Callback: "https://example.org/called?a=1&b=2",
				Digests: digest.SetOf(digest.MD5, digest.SHA512),
			},
			Held: 1, Leased: 2, Failed: 1,
			Pending: 3, Consumed: 2, Deleted: 1, Seq: 12,
			LastEvent: day.Add(time.Hour), LastSubmission: day.Add(time.Minute),
			LastConsumption: day.Add(time.Hour), Oldest: day.Add(time.Second),
		},
		Jobs: state.Jobs{
			Status: queuefs.Pending, After: 2, Limit: 2,
			IDs: []queuefs.JobID{3, 4}, More: true,
		},
		Submitted: []queuefs.JobID{5, 6},
	}
}

func emptyQueue() state.Queue {
	return state.Queue{
		QueueState: queuefs.QueueState{Info: queuefs.QueueInfo{
			ID: "ingest", CullingSize: -1, CullingAge: -1, VerifyOnRead: true, VerifyOnWrite: true, Created: day,
		}},
		Jobs: state.Jobs{Limit: 100},
	}
}

func service() state.Service {
	return state.Service{
		ServiceInfo: queuefs.ServiceInfo{
			Name: "Cutie01", Identifier: "uc3:cutie01", Description: "UC3 queuing service",
			Scheme: "Cutie/0.3/0.1", BaseURI: "http://cutie.example.org/base/",
			SupportURI: "mailto:merritt-support@example.org", Created: day, Modified: day.Add(time.Hour),
		},
		Queues: []string{"ingest", "uc3+cutie=01"},
	}
}

func batch() state.Batch {
	return state.Batch{
		ID: "7", Queue: "uc3+cutie=01", Status: state.BatchDone, Created: day, Finished: day.Add(time.Minute),
		Lines: 3, Fetched: 3, Octets: 1 << 40, Name: "b000000000005-2", Detail: "half of it",
		Errors:    []string{"line 2: http://h/?a=1&b=2: not found", " line 3: <gone> \n"},
		Submitted: []queuefs.JobID{5, 6},
	}
}

// forms are all that differ; HTML is XHTML by another name.
var forms = []state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML, state.SOIF}

var classes = []*state.Class{
	state.ServiceClass, state.QueueClass, state.JobClass, state.BatchClass, state.ExceptionClass, state.HelpClass,
}

// said is what a document says, without where it says it.
func said(d state.Document) state.Document {
	d.Subject, d.Base = "", ""
	return d
}

// documents are all kinds of documents by the name of their golden file.
func documents() map[string]state.Document {
	full, plain, queue, empty, svc, bat := fullJob(), plainJob(), fullQueue(), emptyQueue(), service(), batch()
	none := state.Service{ServiceInfo: queuefs.ServiceInfo{Scheme: "Cutie/0.3/1.0", BaseURI: "http://h/"}}
	return map[string]state.Document{
		"job":           state.OfJob(base, &full),
		"job-plain":     state.OfJob(base, &plain),
		"queue":         state.OfQueue(base, &queue),
		"queue-empty":   state.OfQueue(base, &empty),
		"service":       state.OfService(&svc),
		"service-empty": state.OfService(&none),
		"batch":         state.OfBatch(base, &bat),
		"batch-new":     state.OfBatch(base, &state.Batch{ID: "000001", Queue: "ingest", Status: state.BatchFetching, Created: day}),
		"exception":     state.OfException(state.Exception{Status: 404, Detail: "queue not found: \"x\""}),
		"help":          state.OfHelp(state.Help{Summary: "a queue", Text: "one\ntwo", Methods: []string{"Submit-job"}}),
	}
}

func TestFormsMatchGoldenFiles(t *testing.T) {
	for name, d := range documents() {
		for i, f := range forms {
			ext := [...]string{".txt", ".json", ".ttl", ".html", ".xml", ".soif"}[i]
			got := f.Append(nil, &d)
			file := filepath.Join("testdata", name+ext)
			if *update {
				if err := os.WriteFile(file, got, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
			}
		}
	}
}

func TestEveryFormReadsBackToTheSameDocument(t *testing.T) {
	for name, d := range documents() {
		for _, f := range append(forms, state.HTML) {
			got, err := statetest.Read(f, d.Class, f.Append(nil, &d))
			if err != nil {
				t.Errorf("%s in %s: %v", name, f, err)
			} else if !reflect.DeepEqual(got, said(d)) {
				t.Errorf("%s in %s: got %+v, want %+v", name, f, got, said(d))
			}
		}
	}
}

func TestDocumentsReadBackToWhatTheyAreTheStateOf(t *testing.T) {
	full := fullJob()
	d := state.OfJob(base, &full)
	if got, want := d.Subject, "http://cutie.example.org/base/state/uc3+cutie=01%5E20x/j000000000042"; got != want {
		t.Errorf("subject: got %s, want %s", got, want)
	}
	full.Consumed = full.Consumed.Truncate(time.Microsecond)
	full.Extra = nil
	full.Lease.Key = "" // nobody is told
	full.Results = []queuefs.Result{{Name: "log.txt"}, {Name: "out"}}
	if got, err := d.Job(); err != nil || !reflect.DeepEqual(got, full) {
		t.Errorf("job: got %+v, %v, want %+v", got, err, full)
	}
	plain := plainJob()
	d = state.OfJob(base, &plain)
	if got, err := d.Job(); err != nil || !reflect.DeepEqual(got, plain) {
		t.Errorf("plain job: got %+v, %v, want %+v", got, err, plain)
	}
	queue := fullQueue()
	d = state.OfQueue(base, &queue)
	if got, err := d.Queue(); err != nil || !reflect.DeepEqual(got, queue) {
		t.Errorf("queue: got %+v, %v, want %+v", got, err, queue)
	}
	empty := emptyQueue()
	d = state.OfQueue(base, &empty)
	empty.Info.Identifier, empty.Info.Name = "ingest", "ingest" // it must say some name
	if got, err := d.Queue(); err != nil || !reflect.DeepEqual(got, empty) {
		t.Errorf("empty queue: got %+v, %v, want %+v", got, err, empty)
	}
	svc := service()
	d = state.OfService(&svc)
	if got := d.Service(); !reflect.DeepEqual(got, svc) {
		t.Errorf("service: got %+v, want %+v", got, svc)
	}
	bat := batch()
	d = state.OfBatch(base, &bat)
	if got, want := d.Subject, "http://cutie.example.org/base/batch/uc3+cutie=01/7"; got != want {
		t.Errorf("subject: got %s, want %s", got, want)
	}
	if got, err := d.Batch(); err != nil || !reflect.DeepEqual(got, bat) {
		t.Errorf("batch: got %+v, %v, want %+v", got, err, bat)
	}
	exc := state.Exception{Status: 409, Detail: "job not pending"}
	d = state.OfException(exc)
	if got := d.Exception(); got != exc {
		t.Errorf("exception: got %+v, want %+v", got, exc)
	}
}

func TestPageSaysWhereTheListGoesOn(t *testing.T) {
	tests := []struct {
		jobs state.Jobs
		want string
	}{
		{state.Jobs{Limit: 2, IDs: []queuefs.JobID{1, 2}}, ""},
		{state.Jobs{Limit: 2, IDs: []queuefs.JobID{1, 2}, More: true}, "?after=j000000000002&limit=2"},
		{state.Jobs{Limit: 0, More: true}, ""},
		{state.Jobs{Limit: 0, After: 9, Status: queuefs.Deleted, More: true}, "?after=j000000000009&status=deleted"},
	}
	for _, tt := range tests {
		q := emptyQueue()
		q.Jobs = tt.jobs
		d := state.OfQueue(base, &q)
		p := d.Property("jobsNext")
		switch {
		case !tt.jobs.More:
			if p != nil {
				t.Errorf("%+v: got %s, want none", tt.jobs, p.Text)
			}
		case p == nil || p.Text != string(base)+"/state/ingest"+tt.want:
			t.Errorf("%+v: got %+v, want %s", tt.jobs, p, tt.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct {
		form     state.Form
		in, want string
	}{
		{state.ANVL, "size: 1\nsize: 2\n", "repeated"},
		{state.ANVL, "size: one\n", "no integer"},
		{state.ANVL, "submitted: yesterday\n", "no date"},
		{state.ANVL, "no colon\n", "no colon"},
		{state.JSON, ``, "EOF"},
		{state.JSON, `[]`, "no object"},
		{state.JSON, `{}`, "no job:jobState"},
		{state.JSON, `{"que:queueState":{}}`, "unexpected"},
		{state.JSON, `{"job:jobState":{},"job:jobState":{}}`, "unexpected"},
		{state.JSON, `{"job:jobState":{}`, "EOF"},
		{state.JSON, `{"job:jobState":{}} x`, "text behind"},
		{state.JSON, `{"job:jobState":{"job:identifier":1}}`, "wrong type"},
		{state.JSON, `{"job:jobState":{"job:size":"1"}}`, "wrong type"},
		{state.JSON, `{"job:jobState":{"job:size":1.5}}`, "no integer"},
		{state.JSON, `{"job:jobState":{"job:size":1,"job:size":1}}`, "repeated"},
		{state.JSON, `{"job:jobState":{"job:digestTypes":{"job:digestType":"MD5"}}}`, "no array"},
		{state.JSON, `{"job:jobState":{"job:digestTypes":["MD5"]}}`, "no object"},
		{0, `<x/>`, "unsupported response form"},
		{99, `<x/>`, "unsupported response form"},
	}
	for _, tt := range tests {
		if _, err := statetest.Read(tt.form, state.JobClass, []byte(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q: got error %v, want %q", tt.form, tt.in, err, tt.want)
		}
	}
	for _, in := range []string{
		"status: pending\n",
		"identifier: 42\nstatus: pending\n",
		"identifier: j000000000042\nstatus: held\n",
		"identifier: j000000000042\nstatus: pending\ndigestType: MD5\n",
		"identifier: j000000000042\nstatus: pending\ndigestType: MD5\ndigestValue: 12\n",
		"identifier: j000000000042\nstatus: pending\noutcome: fine\n",
		"identifier: j000000000042\nstatus: pending\nresult: http://h/result/q/j000000000042/..%252Fx\n",
	} {
		d, err := state.ANVL.Decode(state.JobClass, []byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if j, err := d.Job(); err == nil {
			t.Errorf("%q: got %+v", in, j)
		}
	}
}

func TestDecodeLeavesOutWhatItDoesNotKnow(t *testing.T) {
	for form, in := range map[state.Form]string{
		state.ANVL: "future: 1\nIdentifier: j000000000042\nfuture: 2\nstatus: pending\nsubmitted: 2010-04-20T09:00:00-07:00\n",
		state.JSON: `{"job:jobState":{"job:future":{"a":[1,{}]},"job:status":"pending","job:submitted":"2010-04-20T09:00:00-07:00","job:identifier":"j000000000042"}}`,
	} {
		d, err := statetest.Read(form, state.JobClass, []byte(in))
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		want := "identifier: j000000000042\nsubmitted: 2010-04-20T16:00:00.000000Z\nstatus: pending\n"
		if got := string(state.ANVL.Append(nil, &d)); got != want {
			t.Errorf("%s: got %q, want %q", form, got, want)
		}
	}
}

func BenchmarkJob(b *testing.B) {
	j := fullJob()
	j.Extra = nil
	for _, form := range forms {
		b.Run(form.String(), func(b *testing.B) {
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				d := state.OfJob(base, &j)
				dst = form.Append(dst[:0], &d)
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}

func BenchmarkDecodeJob(b *testing.B) {
	j := fullJob()
	d := state.OfJob(base, &j)
	for _, form := range forms {
		text := form.Append(nil, &d)
		b.Run(form.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, err := statetest.Read(form, state.JobClass, text)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := d.Job(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
