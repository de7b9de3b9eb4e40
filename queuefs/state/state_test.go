package state_test

import (
	"bytes"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
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
	full.Results = []job.Result{{Name: "log.txt"}, {Name: "out"}}
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
		{state.Jobs{Limit: 2, IDs: []job.ID{1, 2}}, ""},
		{state.Jobs{Limit: 2, IDs: []job.ID{1, 2}, More: true}, "?after=j000000000002&limit=2"},
		{state.Jobs{Limit: 0, More: true}, ""},
		{state.Jobs{Limit: 0, After: 9, Status: job.Deleted, More: true}, "?after=j000000000009&status=deleted"},
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
		d, err := state.Decode(state.JobClass, []byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if j, err := d.Job(); err == nil {
			t.Errorf("%q: got %+v", in, j)
		}
	}
}

func TestDecodeLeavesOutWhatItDoesNotKnow(t *testing.T) {
	d, err := state.Decode(state.JobClass, []byte("future: 1\nIdentifier: j000000000042\nfuture: 2\nstatus: pending\nsubmitted: 2010-04-20T09:00:00-07:00\n"))
	want := "identifier: j000000000042\nsubmitted: 2010-04-20T16:00:00.000000Z\nstatus: pending\n"
	if got := string(state.ANVL.Append(nil, &d)); got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestDetailOfAnExceptionIsReadFromEveryForm(t *testing.T) {
	for _, detail := range []string{"", "no job", "a <b> & \"c\" 'd'\\ é\u2028\U0001F600", "two\nlines\tand a tab", "detail{3}:\tx"} {
		d := state.OfException(state.Exception{Status: 404, Detail: detail})
		for _, f := range forms {
			if got := state.DetailOf(f, f.Append(nil, &d)); got != detail {
				t.Errorf("%s: got %q, want %q", f, got, detail)
			}
		}
	}
}

// What a method changed is told in every form, of a queue and of the service.
func TestChangesAreToldInEveryForm(t *testing.T) {
	all := state.Changes{
		Changed: []job.ID{1, 2},
		Chosen:  []job.ID{3},
		Refused: []string{"j000000000004: job not pending", "j000000000005: <&>"},
		Culled: []queuefs.Culled{
			{Queue: "uc3+q=1", Job: 6, Status: job.Consumed, At: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Size: 7},
			{Queue: "q", Job: 8, Status: job.Deleted, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		},
		Kept:  []queuefs.Kept{{Queue: "uc3+q=1", Spared: 11}, {Queue: "q", Spared: 1}},
		More:  true,
		After: 9,
	}
	ofService := state.Changes{Culled: all.Culled, Kept: all.Kept, More: true}
	jobs := state.Jobs{Outcome: job.Failed, Held: true, Batch: "b000000000001-2", Limit: 5}
	base := state.NewBase("http://example.org/")
	for _, c := range []state.Changes{all, {}} {
		queue := state.Queue{State: ledger.State{Info: home.QueueInfo{ID: "q"}}, Changes: c, Jobs: jobs}
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

func TestChangesAreReadStrictly(t *testing.T) {
	for name, all := range map[string][]string{
		"keptJob: ": {"", "q 1", "q 0 spared", "q -1 spared", "q x spared", "q 1 wanted", "q 1 spared still", "cutie 1 spared", "q 1 spared\nkeptJob: q 2 spared"},
		"culledJob: ": {"", "q j000000000001 consumed 2026-01-02T03:04:05.000000Z", "q 1 consumed 2026-01-02T03:04:05.000000Z 1",
			"q j000000000001 gone 2026-01-02T03:04:05.000000Z 1", "q j000000000001 consumed today 1",
			"cutie j000000000001 consumed 2026-01-02T03:04:05.000000Z 1", "q j000000000001 consumed 2026-01-02T03:04:05.000000Z -1"},
	} {
		for _, text := range all {
			d, err := state.Decode(state.ServiceClass, []byte(name+text+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			if c, err := d.Changes(); err == nil {
				t.Errorf("%s%q: got %+v", name, text, c)
			}
		}
	}
}

// hostile are texts that some form could lose or change.
var hostile = []string{
	"one\ntwo\r\nthree\rfour", "\n", " ", "\t", "\n\n leading and trailing \t\n", "100% %0A %25", "<a href='x'>&amp;\"</a>",
	"]]>", "<![CDATA[x]]>", "\\", `\u0041 \n`, `"""`, `'''`, "\u0085\u2028\u00a0\u200b\ufeff", "naïve 🦊", "\x7f",
	"000001", "1e5", "true", "(:unkn)", "-", "#", ": x", "http://example.org/?a=1&b=2", "//",
}

func TestTextComesBackExactlyFromAllForms(t *testing.T) {
	var documents []state.Document
	for _, text := range hostile {
		j := plainJob()
		j.Filename, j.Sidecar, j.Submitter, j.Message, j.HeldFor = text, text, text, text, text
		documents = append(documents, state.OfJob(base, &j))
	}
	for _, ref := range append([]string{"a b", "http://h/<x>", "mailto:a@example.org", "javascript:alert(1)", "urn:x:é", "x:"}, hostile...) {
		s := service() // its references need not be URLs
		s.SupportURI = ref
		documents = append(documents, state.OfService(&s))
	}
	var all []string // each text alone, beside itself, and between nothing
	for _, text := range hostile {
		all = append(all, text, text, "", text, "")
	}
	for _, items := range [][]string{nil, {""}, hostile[:1], all} {
		documents = append(documents,
			state.OfBatch(base, &state.Batch{ID: hostile[0], Queue: "q", Status: state.BatchFailed, Created: day, Errors: items}),
			state.OfHelp(state.Help{Summary: hostile[1], Text: hostile[2], Methods: items}))
	}
	for i, d := range documents {
		for _, f := range statetest.Readable(forms) {
			got, err := statetest.Read(f, d.Class, f.Append(nil, &d))
			if err != nil {
				t.Errorf("%d in %s: %v", i, f, err)
			} else if want := said(d); !reflect.DeepEqual(got, want) {
				t.Errorf("%d in %s: got %+v, want %+v", i, f, got, want)
			}
		}
	}
}

func TestTextThatXMLCannotCarryIsTheSameInAllForms(t *testing.T) {
	for text, want := range map[string]string{
		"a\xffb":              "a\ufffdb",
		"\x00":                "\ufffd",
		"\x1b[0m\u0007":       "\ufffd[0m\ufffd",
		"\ufffe|\uffff":       "\ufffd|\ufffd",
		"\xed\xa0\x80":        "\ufffd\ufffd\ufffd",
		"\ufffd \U0010ffff\n": "\ufffd \U0010ffff\n",
	} {
		j := plainJob()
		j.Filename = text
		d := state.OfJob(base, &j)
		for _, f := range statetest.Readable(forms) {
			got, err := statetest.Read(f, state.JobClass, f.Append(nil, &d))
			if err != nil {
				t.Fatal(err)
			}
			if name := got.Property("filename").Text; name != want {
				t.Errorf("%q in %s: got %q, want %q", text, f, name, want)
			}
		}
	}
}

func TestNoFormTellsTheKeyOfALease(t *testing.T) {
	j := fullJob()
	d := state.OfJob(base, &j)
	for _, f := range forms {
		if text := string(f.Append(nil, &d)); strings.Contains(text, j.Lease.Key) || !strings.Contains(text, "leaseExpires") {
			t.Errorf("%s: got %s", f, text)
		}
	}
}

// Properties of Cutie 0.3, 3 that MUST be there are there even when nothing is set.
func TestMustPropertiesAreThere(t *testing.T) {
	service := state.OfService(&state.Service{})
	for _, name := range []string{"name", "identifier", "serviceVersion", "queueStates", "serviceScheme", "baseURI", "supportURI"} {
		if service.Property(name) == nil {
			t.Errorf("service: no %s", name)
		}
	}
	dated := state.OfService(&state.Service{ServiceInfo: home.ServiceInfo{Modified: time.Unix(1, 0)}})
	if dated.Text("created") == "" || dated.Text("lastModified") == "" {
		t.Errorf("got %+v", dated)
	}
	queue := state.OfQueue(base, &state.Queue{State: ledger.State{Info: home.QueueInfo{ID: "q", CullingSize: -1, CullingAge: -1}}})
	for _, name := range []string{"name", "identifier", "cutieState", "numPendingJobs", "numCompletedJobs", "numDeletedJobs", "jobStates",
		"cullingSizeThreshold", "cullingAgeThreshold", "verifyOnRead", "verifyOnWrite"} {
		if queue.Property(name) == nil {
			t.Errorf("queue: no %s", name)
		}
	}
}

func TestNegotiate(t *testing.T) {
	const none = state.Form(0)
	tests := []struct {
		t, accept string
		want      state.Form
	}{
		{"", "", state.Default},
		{"", "*/*", state.Default},
		{"anvl", "", state.ANVL},
		{"TXT", "", state.ANVL},
		{"text/anvl", "", state.ANVL},
		{"json", "text/x-anvl", state.JSON}, // t wins
		{"anvl", "image/png", state.ANVL},
		{"turtle", "", state.Turtle},
		{"ttl", "application/json", state.Turtle},
		{"rdf", "", state.Turtle},
		{"RDF/Turtle", "", state.Turtle},
		{".ttl", "", state.Turtle},
		{".txt", "", state.ANVL},
		{".json", "", state.JSON},
		{".html", "", state.XHTML},
		{".xml", "", state.XML},
		{"text/x-turtle", "", state.Turtle},
		{"application/xhtml+xml", "", state.XHTML},
		{"application/xhtml xml", "", state.XHTML}, // a plus sign in a URL
		{".", "", none},
		{"xhtml", "", state.XHTML},
		{"html", "", state.XHTML},
		{"xml", "", state.XML},
		{"xhtml", "text/html, */*;q=0.1", state.HTML}, // a browser that knows no XHTML
		{"xhtml", "text/html, application/xhtml+xml", state.XHTML},
		{"xhtml", "application/json", state.XHTML},
		{"soif", "", state.SOIF},
		{"", "application/x-soif", state.SOIF},
		{"bogus", "", none},
		{"", "text/anvl", state.ANVL},
		{"", "text/x-anvl", state.ANVL},
		{"", "Text/X-ANVL; charset=utf-8", state.ANVL},
		{"", "text/*", state.HTML},
		{"", "application/json", state.JSON},
		{"", "application/*", state.XHTML},
		{"", "text/x-anvl;q=0.5, application/json;q=0.4", state.ANVL},
		{"", "text/x-anvl;q=0.5, application/json; q=0.6", state.JSON},
		{"", "text/x-anvl, application/json", state.JSON}, // our preference
		{"", "*/*, application/xhtml+xml;q=0, text/html;q=0", state.JSON},
		{"", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", state.XHTML},
		{"", "text/html", state.HTML},
		{"", "text/html;q=0.9, */*;q=0.8", state.HTML},
		{"", "application/xml", state.XML},
		{"", "text/xml, application/xml", state.XML},
		{"", "text/x-turtle", state.Turtle},
		{"", "application/json;q=0", none},
		{"", "application/json;q=nonsense", none},
		{"", "application/json;q=2", none},
		{"", "text/turtle, image/*", state.Turtle},
		{"", "image/*", none},
		{"", "nonsense", state.Default}, // no media range at all
	}
	for _, tt := range tests {
		got, err := state.Negotiate(tt.t, tt.accept)
		if got != tt.want || errors.Is(err, state.ErrForm) != (tt.want == none) {
			t.Errorf("t=%q, Accept %q: got %v, %v, want %v", tt.t, tt.accept, got, err, tt.want)
		}
	}
}

func TestFormNames(t *testing.T) {
	for f, want := range map[state.Form][2]string{
		state.ANVL:   {"anvl", "text/x-anvl"},
		state.JSON:   {"json", "application/json"},
		state.Turtle: {"turtle", "text/turtle"},
		state.XHTML:  {"xhtml", "application/xhtml+xml"},
		state.XML:    {"xml", "application/xml"},
		state.SOIF:   {"soif", "application/x-soif"},
		state.HTML:   {"text/html", "text/html; charset=utf-8"},
	} {
		if f.String() != want[0] || f.MediaType() != want[1] {
			t.Errorf("got %s, %s, want %s", f, f.MediaType(), want)
		}
		if got, err := state.ParseForm(want[0]); got != f || err != nil {
			t.Errorf("%s: got %v, %v", want[0], got, err)
		}
		if got, err := state.FormOf(want[1] + "; q=1"); got != f || err != nil {
			t.Errorf("%s: got %v, %v", want[1], got, err)
		}
	}
}

func TestReferencesHaveOneSpelling(t *testing.T) {
	b := state.NewBase("http://store:8080/store/")
	tests := []struct{ queue, want string }{
		{"ingest", "http://store:8080/store/state/ingest/j000000000042"},
		{"ark+=13030=a,b", "http://store:8080/store/state/ark+=13030=a,b/j000000000042"},
		{"a^20[b]", "http://store:8080/store/state/a%5E20%5Bb%5D/j000000000042"},
	}
	for _, tt := range tests {
		got := b.JobRef("state", tt.queue, 42)
		if got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		queue, id, err := state.ParseJobRef(got + "?t=json#x")
		if queue != tt.queue || id != 42 || err != nil {
			t.Errorf("%s: read back as %s, %d, %v", got, queue, id, err)
		}
	}
	for _, ref := range []string{"", "j000000000042", "/j000000000042", "http://h/state/q", "http://h/q/j42", "q%zz/j000000000042"} {
		if q, id, err := state.ParseJobRef(ref); !errors.Is(err, job.ErrBadName) {
			t.Errorf("%q: got %s, %d, %v", ref, q, id, err)
		}
	}
}

// merritt returns the directory of what UC3's own formatters wrote.
func merritt(t *testing.T) string {
	shared := os.Getenv("CUTIE_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	dir := filepath.Join(shared, "vectors", "state", "merritt-formatters")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("shared vectors not found; set CUTIE_SHARED")
	}
	return dir
}

// What Merritt's formatters wrote reads as what they were given, but for what
// they lost themselves. Their JSON has another shape than ours.
func TestDocumentsOfMerrittAreRead(t *testing.T) {
	dir := merritt(t)
	queue := []string{
		"name: Queue01", "identifier: ingest", "description: UC3 primary <ingest> & queue",
		"cutieState: http://cutie.cdlib.org/state", "numPendingJobs: 1", "numCompletedJobs: 0",
		"jobState: http://cutie.cdlib.org/state/ingest/000001", "verifyOnRead: true",
	}
	job := []string{
		"identifier: 000001", "queueState: http://cutie.cdlib.org/state/ingest", "submitter: curl/7.88.1", "size: 12",
		"sidecar: name=value; note=two%0Alines", "submitted: 2010-04-20T16:00:00.000000Z", "status: pending",
	}
	number := slices.Clone(job)
	number[0] = "identifier: 1" // a number to their RDF library
	for _, tt := range []struct {
		file string
		form state.Form
		c    *state.Class
		want []string
	}{
		{"queue.xml", state.XML, state.QueueClass, queue},
		{"queue.html", state.XHTML, state.QueueClass, queue},
		{"queue.ttl", state.Turtle, state.QueueClass, queue},
		{"queue.txt", state.ANVL, state.QueueClass, queue},
		{"job.xml", state.XML, state.JobClass, job},
		{"job.html", state.XHTML, state.JobClass, job},
		{"job.ttl", state.Turtle, state.JobClass, number},
	} {
		data, err := os.ReadFile(filepath.Join(dir, tt.file))
		if err != nil {
			t.Fatal(err)
		}
		d, err := statetest.Read(tt.form, tt.c, data)
		if errors.Is(err, statetest.ErrNoReader) {
			t.Skip(err)
		}
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		got := strings.Split(strings.TrimSpace(string(state.ANVL.Append(nil, &d))), "\n")
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.file, got, tt.want)
		}
	}
}

// The names that UC3's own formatters wrote are ours, apart from the element
// "empty", which only shows what became of empty lists.
func TestElementNamesAreThoseOfTheSpecification(t *testing.T) {
	dir := merritt(t)
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

// What is read from ANVL, all forms write and read back the same.
func FuzzDecodeANVL(f *testing.F) {
	for _, d := range documents() {
		f.Add(state.ANVL.Append(nil, &d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range classes {
			d, err := state.Decode(c, data)
			if err != nil {
				continue
			}
			switch c {
			case state.JobClass:
				d.Job()
			case state.QueueClass:
				d.Queue()
			case state.BatchClass:
				d.Batch()
			case state.ServiceClass:
				d.Service()
			case state.ExceptionClass:
				d.Exception()
			}
			for _, other := range forms {
				if other == state.Turtle {
					continue // read by another process, hence slow
				}
				text := other.Append(nil, &d)
				again, err := statetest.Read(other, c, text)
				if err != nil {
					t.Fatalf("written as %s: %v\n%s", other, err, text)
				}
				if !reflect.DeepEqual(again, d) {
					t.Fatalf("by way of %s: got %+v, want %+v", other, again, d)
				}
			}
		}
	})
}

// schemaName returns the name of the schema of a class, "" if it has none.
func schemaName(c *state.Class) string {
	for name, other := range state.Schemas {
		if other == c {
			return name
		}
	}
	return ""
}

func TestSchemasMatchGoldenFiles(t *testing.T) {
	schemas := maps.Clone(state.Schemas)
	maps.Copy(schemas, state.Facts)
	for name, c := range schemas {
		texts := map[string][]byte{".json": state.JSONSchema(c)}
		if state.Schemas[name] != nil {
			texts[".xsd"] = state.XMLSchema(c)
		}
		for ext, got := range texts {
			file := filepath.Join("testdata", "schema", name+ext)
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

func TestSchemaOfJSONHoldsForDocuments(t *testing.T) {
	valid := func(c *state.Class, text string) error {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(state.JSONSchema(c)))
		if err != nil {
			t.Fatal(err)
		}
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		if err := compiler.AddResource("schema.json", doc); err != nil {
			t.Fatal(err)
		}
		schema, err := compiler.Compile("schema.json")
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	n := 0
	for name, d := range documents() {
		if schemaName(d.Class) == "" {
			continue
		}
		n++
		if err := valid(d.Class, string(state.JSON.Append(nil, &d))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n < 2*len(state.Schemas)-1 {
		t.Errorf("only %d documents have a schema", n)
	}
	queue := fullQueue()
	d := state.OfQueue(base, &queue)
	text := string(state.JSON.Append(nil, &d))
	for _, tt := range []struct {
		old, new string
		ok       bool
	}{
		{`"numPendingJobs":3`, `"numPendingJobs":"3"`, false},
		{`"numPendingJobs":3`, `"numPendingJobs":3.5`, false},
		{`"numPendingJobs":3,`, ``, true},
		{`"numPendingJobs":3`, `"future":[3]`, true},
		{`"jobStates"`, `"jobs"`, false},
		{`"jobStates":[`, `"jobStates":["x",7,`, false},
		{`"jobStates":[`, `"jobStates":{"jobState":[]},"x":[`, false},
		{`"verifyOnRead":true`, `"verifyOnRead":"true"`, false},
		{`"created":"2010-04-20T16:00:00.000000Z"`, `"created":"yesterday"`, false},
		{`"queueState"`, `"jobState"`, false},
		{`mrt/cutie/queue/"`, `mrt/cutie/job/"`, false},
	} {
		changed := strings.Replace(text, tt.old, tt.new, 1)
		if changed == text {
			t.Fatalf("%s is not there", tt.old)
		}
		if err := valid(state.QueueClass, changed); (err == nil) != tt.ok {
			t.Errorf("%s for %s: got %v", tt.new, tt.old, err)
		}
	}
}

func TestSchemaOfXMLHoldsForDocuments(t *testing.T) {
	xmllint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint is not installed")
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o666); err != nil {
			t.Fatal(err)
		}
		return file
	}
	// One call a class: its good documents, and one call for each bad one.
	validate := func(c *state.Class, files ...string) (string, bool) {
		schema := write("schema.xsd", state.XMLSchema(c))
		out, err := exec.Command(xmllint, append([]string{"--noout", "--nonet", "--schema", schema}, files...)...).CombinedOutput()
		return string(out), err == nil
	}
	good := map[*state.Class][]string{}
	for name, d := range documents() {
		good[d.Class] = append(good[d.Class], write(name+".xml", state.XML.Append(nil, &d)))
	}
	for i, text := range hostile {
		j := plainJob()
		j.Sidecar, j.Filename = text, text
		d := state.OfJob(base, &j)
		good[d.Class] = append(good[d.Class], write("hostile"+job.ID(i+1).String()+".xml", state.XML.Append(nil, &d)))
	}
	for name, c := range state.Schemas {
		if out, ok := validate(c, good[c]...); !ok {
			t.Errorf("%s: %s", name, out)
		}
	}
	// A list has its states without their declarations.
	for class, ok := range map[*state.Class]bool{state.JobClass: true, state.QueueClass: false} {
		list := "<job:jobStates xmlns:job=\"" + state.JobClass.Namespace + "\">\n"
		for _, d := range documents() {
			if d.Class == class {
				_, element, _ := strings.Cut(string(state.XML.Append(nil, &d)), "?>")
				list += element
			}
		}
		file := write("list.xml", []byte(list+"</job:jobStates>\n"))
		if out, valid := validate(state.JobClass, file); valid != ok {
			t.Errorf("list of %s: %s", class.Root, out)
		}
	}
	queue := fullQueue()
	d := state.OfQueue(base, &queue)
	text := string(state.XML.Append(nil, &d))
	for i, tt := range []struct {
		old, new string
		ok       bool
	}{
		{"<que:numPendingJobs>3<", "<que:numPendingJobs>3.5<", false},
		{"<que:numPendingJobs>3</que:numPendingJobs>", "", true},
		{"que:jobStates>", "que:jobs>", false},
		{"<que:verifyOnRead>true<", "<que:verifyOnRead>yes<", false},
		{"<que:created>2010-04-20T16:00:00.000000Z<", "<que:created>yesterday<", false},
		{"</que:queueState>", `<x:future xmlns:x="urn:x">1</x:future></que:queueState>`, true},
		{"</que:queueState>", "<que:future>1</que:future></que:queueState>", false},
	} {
		changed := strings.ReplaceAll(text, tt.old, tt.new)
		if changed == text {
			t.Fatalf("%s is not there", tt.old)
		}
		file := write("changed.xml", []byte(changed))
		if out, ok := validate(state.QueueClass, file); ok != tt.ok {
			t.Errorf("%d, %s for %s: %s", i, tt.new, tt.old, out)
		}
	}
}
