package state_test

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/state"
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
		Requeued: day.Add(time.Minute), Requeues: 2,
		Extra: anvl.Record{{Name: "owner", Value: "me"}, {Name: "owner", Value: "you"}},
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
			},
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

// documents are all kinds of documents by the name of their golden file.
func documents() map[string]state.Document {
	full, plain, queue, empty, svc := fullJob(), plainJob(), fullQueue(), emptyQueue(), service()
	none := state.Service{ServiceInfo: queuefs.ServiceInfo{Scheme: "Cutie/0.3/1.0", BaseURI: "http://h/"}}
	return map[string]state.Document{
		"job":           state.OfJob(base, &full),
		"job-plain":     state.OfJob(base, &plain),
		"queue":         state.OfQueue(base, &queue),
		"queue-empty":   state.OfQueue(base, &empty),
		"service":       state.OfService(&svc),
		"service-empty": state.OfService(&none),
		"exception":     state.OfException(state.Exception{Status: 404, Detail: "queue not found: \"x\""}),
		"help":          state.OfHelp(state.Help{Summary: "a queue", Text: "one\ntwo", Methods: []string{"Submit-job"}}),
	}
}

func TestFormsMatchGoldenFiles(t *testing.T) {
	for name, d := range documents() {
		for f, ext := range map[state.Form]string{state.ANVL: ".txt", state.JSON: ".json"} {
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
		d.Subject = ""
		for _, f := range []state.Form{state.ANVL, state.JSON} {
			got, err := f.Decode(d.Class, f.Append(nil, &d))
			if err != nil {
				t.Errorf("%s in %s: %v", name, f, err)
			} else if !reflect.DeepEqual(got, d) {
				t.Errorf("%s in %s: got %+v, want %+v", name, f, got, d)
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

func TestTextThatIsNotUTF8IsTheSameInAllForms(t *testing.T) {
	j := plainJob()
	j.Filename = "a\xffb"
	d := state.OfJob(base, &j)
	for _, f := range []state.Form{state.ANVL, state.JSON} {
		got, err := f.Decode(state.JobClass, f.Append(nil, &d))
		if err != nil {
			t.Fatal(err)
		}
		if name := got.Property("filename").Text; name != "a\ufffdb" {
			t.Errorf("%s: got %q", f, name)
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
		{state.XML, `<x/>`, "unsupported response form"},
	}
	for _, tt := range tests {
		if _, err := tt.form.Decode(state.JobClass, []byte(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q: got error %v, want %q", tt.form, tt.in, err, tt.want)
		}
	}
	for _, in := range []string{
		"status: pending\n",
		"identifier: 42\nstatus: pending\n",
		"identifier: j000000000042\nstatus: held\n",
		"identifier: j000000000042\nstatus: pending\ndigestType: MD5\n",
		"identifier: j000000000042\nstatus: pending\ndigestType: MD5\ndigestValue: 12\n",
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
		d, err := form.Decode(state.JobClass, []byte(in))
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

// The names that UC3's own formatters wrote are ours, apart from the element
// "empty", which only shows what became of empty lists.
func TestElementNamesAreThoseOfTheSpecification(t *testing.T) {
	shared := os.Getenv("CUTIE_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	dir := filepath.Join(shared, "vectors", "state", "merritt-formatters")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("shared vectors not found; set CUTIE_SHARED")
	}
	element := regexp.MustCompile(`<(\w+):(\w+)[ >]`)
	for name, c := range map[string]*state.Class{"service": state.ServiceClass, "queue": state.QueueClass, "job": state.JobClass} {
		data, err := os.ReadFile(filepath.Join(dir, name+".xml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), "xmlns:"+c.Prefix+"='"+c.Namespace+"'") {
			t.Errorf("%s: namespace %s is not theirs", name, c.Namespace)
		}
		for i, m := range element.FindAllStringSubmatch(string(data), -1) {
			known := m[2] == "empty" || slices.ContainsFunc(c.Terms, func(t state.Term) bool {
				return t.Name == m[2] || t.Item == m[2]
			})
			if i == 0 {
				known = m[2] == c.Root
			}
			if m[1] != c.Prefix || !known {
				t.Errorf("%s: %s:%s is unknown", name, m[1], m[2])
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, d := range documents() {
		f.Add(state.JSON.Append(nil, &d))
		f.Add(state.ANVL.Append(nil, &d))
	}
	classes := []*state.Class{state.ServiceClass, state.QueueClass, state.JobClass, state.ExceptionClass, state.HelpClass}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range classes {
			for _, form := range []state.Form{state.ANVL, state.JSON} {
				d, err := form.Decode(c, data)
				if err != nil {
					continue
				}
				switch c {
				case state.JobClass:
					d.Job()
				case state.QueueClass:
					d.Queue()
				case state.ServiceClass:
					d.Service()
				}
				for _, other := range []state.Form{state.ANVL, state.JSON} {
					text := other.Append(nil, &d)
					again, err := other.Decode(c, text)
					if err != nil {
						t.Fatalf("%s written as %s: %v\n%s", form, other, err, text)
					}
					if !reflect.DeepEqual(again, d) {
						t.Fatalf("%s by way of %s: got %+v, want %+v", form, other, again, d)
					}
				}
			}
		}
	})
}

func BenchmarkJob(b *testing.B) {
	j := fullJob()
	j.Extra = nil
	for _, form := range []state.Form{state.ANVL, state.JSON} {
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
	text := state.ANVL.Append(nil, &d)
	b.ReportAllocs()
	for b.Loop() {
		d, err := state.ANVL.Decode(state.JobClass, text)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := d.Job(); err != nil {
			b.Fatal(err)
		}
	}
}
