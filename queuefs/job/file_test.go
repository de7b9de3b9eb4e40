package job_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
)

func fullJob() job.Job {
	at := time.Date(2026, 3, 4, 5, 6, 7, 890_123_000, time.UTC)
	data := []byte("data")
	return job.Job{ID: 42, Status: job.Consumed, Seq: 99, Filename: "näme.txt", MediaType: "text/plain; charset=utf-8",
		Submitter: "agent/1 (x; y)", Key: "order:1#2", ConsumerKey: "00ff", Sidecar: "a: b\n\n# c\n% d ", Size: 4, Batch: "b", Requeues: 2,
		Digests:   []digest.Value{digest.Sum(digest.SHA256, data), digest.Sum(digest.MD5, data), digest.Sum(digest.CRC32, data)},
		Submitted: at, Requeued: at.Add(time.Hour), Consumed: at.Add(2 * time.Hour), Consumer: "w/2", Deleted: at.Add(3 * time.Hour),
		Extra: anvl.Record{{Name: "note", Value: "kept"}, {Name: "note", Value: "twice"}}}
}

func TestJobFile(t *testing.T) {
	j := fullJob()
	text := j.AppendText([]byte("before"))
	text = text[len("before"):]
	got, err := job.Parse(text)
	if err != nil || !reflect.DeepEqual(got, j) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, j)
	}
	if got.Modified() != j.Deleted {
		t.Errorf("modified %v", got.Modified())
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"twice":          {"size: 4\n", "size: 4\nsize: 4\n", "size stands twice"},
		"no identifier":  {"identifier: j000000000042\n", "", "a job file has"},
		"no status":      {"status: consumed\n", "", "a job file has"},
		"no size":        {"size: 4\n", "", "a job file has"},
		"bad size":       {"size: 4\n", "size: many\n", "size"},
		"negative size":  {"size: 4\n", "size: -4\n", "size"},
		"bad identifier": {"j000000000042", "42", "identifier"},
		"bad status":     {"status: consumed", "status: gone", "status"},
		"bad date":       {"submitted: 2026", "submitted: yesterday 2026", "submitted"},
		"no such year":   {"submitted: 2026-03-04T05:06:07.890123Z", "submitted: 0000-01-01T00:00:00+01:00", "submitted"},
		"no date":        {"submitted: 2026-03-04T05:06:07.890123Z", "submitted: 0001-01-01T00:00:00Z", "submitted"},
		"year of five":   {"submitted: 2026-03-04T05:06:07.890123Z", "submitted: 9999-12-31T23:59:59-01:00", "submitted"},
		"bad digest":     {"digestType: MD5", "digestType: SHA-1", "digestValue"},
		"unknown digest": {"digestType: MD5", "digestType: ROT13", "digestType"},
		"bad sequence":   {"sequence: 99", "sequence: -1", "sequence"},
		"no colon":       {"batch: b", "batch", ""},
	} {
		bad := strings.Replace(string(text), c.old, c.new, 1)
		if bad == string(text) {
			t.Errorf("%s: not in %s", name, text)
		}
		if j, err := job.Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v want %q", name, j, err, c.want)
		}
	}
	for _, c := range []struct{ old, new string }{
		{"identifier:", "Identifier :"}, {"mediaType:", "MEDIATYPE:"}, {".890123Z", ".890123+00:00"}, {"size: 4\n", "# comment\nsize:\n 4\n"}, {"\n", "\r\n"},
	} {
		loose := strings.Replace(string(text), c.old, c.new, -1)
		if got, err := job.Parse([]byte(loose)); err != nil || !reflect.DeepEqual(got, j) {
			t.Errorf("%q: got %+v, %v", c.new, got, err)
		}
	}
}

func TestFormatTime(t *testing.T) {
	const form = "2006-01-02T15:04:05.000000Z"
	for _, at := range []time.Time{{}, time.UnixMicro(1), time.UnixMicro(-1), time.Date(2026, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(2024, 2, 29, 1, 2, 3, 40_506_000, time.FixedZone("", 3600)), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(12026, 1, 1, 0, 0, 0, 1000, time.UTC)} {
		if got, want := job.FormatTime(at), at.UTC().Format(form); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// FuzzParseJob reads whatever it gets; what it could read it writes in a form
// that reads the same.
func FuzzParseJob(f *testing.F) {
	j := fullJob()
	f.Add(j.AppendText(nil))
	f.Add([]byte("identifier: j000000000001\nsize: 0\nsubmitted: 2026-01-01T00:00:00Z\nstatus: pending\n"))
	f.Add([]byte("identifier: j000000000001\nsize: 1\nsubmitted: 2026-01-01T00:00:00.5+02:00\nstatus: deleted\nx:\n y\nsubmitter: (:unkn)\n"))
	f.Add([]byte("identifier:j000000000001\nsiZe:0\nsuBmitted:0000-01-01T0:00:00+01:00\nstAtus:deleted\n00:"))
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := job.Parse(text)
		if err != nil {
			return
		}
		once := j.AppendText(nil)
		k, err := job.Parse(once)
		if err != nil {
			t.Fatalf("%v: %s", err, once)
		}
		if twice := k.AppendText(nil); string(twice) != string(once) {
			t.Fatalf("got %s\nwant %s", twice, once)
		}
		if k.ID != j.ID || k.Status != j.Status || k.Size != j.Size || k.Sidecar != j.Sidecar || k.Filename != j.Filename || k.Seq != j.Seq {
			t.Fatalf("got %+v\nwant %+v", k, j)
		}
	})
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceParents(t *testing.T) {
	for text, want := range map[string]bool{
		parent: true,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":      true,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what": true, // a later version
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.what": false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what": false,
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":      false,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0":       false,
		"00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01":      false,
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      false,
		"": false,
	} {
		tr, ok := job.ParseTrace(text)
		if ok != want {
			t.Errorf("%s: got %v, want %v", text, ok, want)
		}
		if ok && text[:2] == "00" && tr.At(tr.Parent) != text {
			t.Errorf("got %s, want %s", tr.At(tr.Parent), text)
		}
	}
}

func TestJobsHaveTraces(t *testing.T) {
	j := job.Job{ID: 7, Queue: "jobs", Submitted: time.Unix(1, 0).UTC()}
	own := j.Trace()
	if own.Given() || own.ID == [16]byte{} || own.Flags != 1 {
		t.Errorf("got %+v, want a trace of its own", own)
	}
	other := j
	other.Queue = "others"
	if other.Trace().ID == own.ID || other.Span("wait", 1) == j.Span("wait", 1) || j.Span("wait", 1) == j.Span("wait", 2) {
		t.Error("two jobs, or two spans, have the same number")
	}
	j.Extra = job.TraceElements(parent, "a=1")
	given := j.Trace()
	if !given.Given() || given.At(given.Parent) != parent || given.State != "a=1" {
		t.Errorf("got %+v, want that of the submission", given)
	}
	if p, s := j.PassTrace(); p != parent || s != "a=1" {
		t.Errorf("got %q, %q", p, s)
	}
	if r := job.TraceElements(parent, strings.Repeat("x", 513)); len(r) != 1 {
		t.Errorf("got %v, want no long tracestate", r)
	}
	for _, hostile := range []string{"a=1\r\nX-Other: 1", "a=1\x00", "a=\u00e9"} {
		if r := job.TraceElements(parent, hostile); len(r) != 1 {
			t.Errorf("%q: got %v, want no tracestate", hostile, r)
		}
		j.Extra = anvl.Record{{Name: job.TraceParent, Value: parent}, {Name: job.TraceState, Value: hostile}}
		if p, s := j.PassTrace(); p != parent || s != "" {
			t.Errorf("%q: got %q, %q", hostile, p, s)
		}
	}
	j.Extra = anvl.Record{{Name: job.TraceParent, Value: parent + "\r\nX-Other: 1"}}
	if p, s := j.PassTrace(); p != "" || s != "" {
		t.Errorf("got %q, %q of a malformed element", p, s)
	}
	if r := job.TraceElements("nonsense", "a=1"); r != nil {
		t.Errorf("got %v, want nothing", r)
	}
}
