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
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

var update = flag.Bool("update", false, "write the golden files")

const base = statetest.Base

var (
	day               = statetest.Day
	fullJob, plainJob = statetest.FullJob, statetest.PlainJob
	fullQueue         = statetest.FullQueue
	emptyQueue        = statetest.EmptyQueue
	service, batch    = statetest.Service, statetest.Batch
	documents         = statetest.Documents
)

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
		for _, f := range statetest.Readable(append(forms, state.HTML)) {
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
	for _, svc := range []state.Service{service(), statetest.Node()} {
		d = state.OfService(&svc)
		if got := d.Service(); !reflect.DeepEqual(got, svc) {
			t.Errorf("service: got %+v, want %+v", got, svc)
		}
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
		{state.JSON, `{}`, "no @type jobState"},
		{state.JSON, `{"@type":"queueState"}`, "unexpected"},
		{state.JSON, `{"job:jobState":{"job:status":"pending"}}`, "no @type jobState"},
		{state.JSON, `{"@type":"jobState","@type":"jobState"}`, "unexpected"},
		{state.JSON, `{"@type":["jobState"]}`, "wrong type"},
		{state.JSON, `{"@type":"jobState"`, "EOF"},
		{state.JSON, `{"@type":"jobState"} x`, "text behind"},
		{state.JSON, `{"@type":"jobState","identifier":1}`, "wrong type"},
		{state.JSON, `{"@type":"jobState","size":"1"}`, "wrong type"},
		{state.JSON, `{"@type":"jobState","size":1.5}`, "no integer"},
		{state.JSON, `{"@type":"jobState","size":1,"size":1}`, "repeated"},
		{state.JSON, `{"@type":"jobState","digestTypes":"MD5"}`, "no array"},
		{state.JSON, `{"@type":"jobState","digestTypes":[["MD5"]]}`, "wrong type"},
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
		state.JSON: `{"future":{"a":[1,{}]},"job:status":7,"status":"pending","submitted":"2010-04-20T09:00:00-07:00","identifier":"j000000000042","@type":"jobState"}`,
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
	for _, form := range []state.Form{state.ANVL, state.JSON} {
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
