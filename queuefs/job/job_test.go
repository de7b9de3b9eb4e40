package job_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/anvl"
	"cutie/queuefs/digest"
	"cutie/queuefs/job"
)

func TestWordsReadAsWritten(t *testing.T) {
	for s := job.Pending; s <= job.Deleted; s++ {
		if got, err := job.ParseStatus(s.String()); got != s || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, s)
		}
	}
	for k := job.Submit; k <= job.Phase; k++ {
		if got, err := job.ParseKind(k.String()); got != k || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, k)
		}
	}
	for o := job.Completed; o <= job.Aborted; o++ {
		if got, err := job.ParseOutcome(o.String()); got != o || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, o)
		}
	}
	for _, bad := range []string{"", "j", "j000000000000", "J000000000001", "j00000000001", "j00000000000x", "Pending", "PENDING", "all", "pending ", "Status(0)", "Status(4)"} {
		_, e1 := job.ParseID(bad)
		st, e2 := job.ParseStatus(bad)
		_, e3 := job.ParseKind(bad)
		_, e4 := job.ParseOutcome(bad)
		for _, err := range []error{e1, e2, e3, e4} {
			if !errors.Is(err, job.ErrBadName) || st != 0 {
				t.Errorf("%q: got %v, %v", bad, err, st)
			}
		}
	}
	if job.Status(9).String() != "Status(9)" || job.Kind(99).String() != "Kind(99)" || job.Requeue.String() != "requeue" {
		t.Error("names of numbers without one")
	}
}

func TestParseID(t *testing.T) {
	for id, want := range map[job.ID]string{1: "j000000000001", 42: "j000000000042", 999_999_999_999: "j999999999999"} {
		if got := id.String(); got != want {
			t.Errorf("%d: got %s want %s", uint64(id), got, want)
		}
		if got, err := job.ParseID(want); got != id || err != nil {
			t.Errorf("%s: got %v, %v", want, got, err)
		}
	}
	for _, in := range []string{
		"", "j", "j1", "j000000000000", "j00000000001", "j0000000000001", "J000000000001", "000000000001", "j00000000000a",
		"j-00000000001", "j+00000000001", " j000000000001", "j000000000001 ", "j000000000001\n", "j00000000000\x00", "j00000000000\u0661", "../../etc/passw",
		"j000000000001/", "%6a000000000001", strings.Repeat("j000000000001", 1000),
	} {
		if got, err := job.ParseID(in); !errors.Is(err, job.ErrBadName) || got != 0 || len(err.Error()) > 400 {
			t.Errorf("%.40q: got %v, %v", in, got, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("j000000000001")
	f.Add("j00000000000\u0661")
	f.Fuzz(func(t *testing.T, in string) {
		id, err := job.ParseID(in)
		if err == nil && (id.String() != in || id == 0) || err != nil && id != 0 {
			t.Fatalf("%q: got %v, %v", in, id, err)
		}
	})
}

// TestJobFileKeepsItsForm compares job files with files of former versions, octet by
// octet: the digest of a job file is published.
func TestJobFileKeepsItsForm(t *testing.T) {
	at := func(n int) time.Time { return time.UnixMicro(1_700_000_000_000_001 + int64(n)*1e6).UTC() }
	var sum [32]byte
	for i := range sum {
		sum[i] = byte(i)
	}
	full := job.Job{ID: 42, Status: job.Consumed, Seq: 77, Filename: "a:b %\tü", MediaType: "text/plain", Submitter: "curl/8",
		Sidecar: "line one\n  line: two\n\n# three\n", Size: 12345, Batch: "b000000000041-3", Owner: "ann",
		Digests:   []digest.Value{digest.NewValue(digest.SHA256, sum[:]), digest.NewValue(digest.MD5, sum[:16])},
		Submitted: at(0), Requeued: at(1), Requeues: 2, Updated: at(2), Consumed: at(3), Consumer: "worker", Attempts: 3,
		Lease: job.Lease{Ends: at(4), Key: "00ff"}, Deleted: at(5), Held: at(6), HeldFor: "because", Outcome: job.Failed,
		Finished: at(7), Message: "one\ntwo", Transient: true, Destruction: at(8),
		Results: []job.Result{{Name: "out", MediaType: "text/csv; header=present", Size: 9, SHA256: sum}, {Name: "log"}},
		Extra:   anvl.Record{{Name: "Who", Value: "me"}, {Name: job.RequeuedAs, Value: "j000000000050"}}}
	waits := job.Job{ID: 7, Status: job.Pending, Seq: 9, Size: 5, Submitted: at(0), Requeued: at(3), Requeues: 1, Attempts: 1, Held: at(3), HeldFor: job.ForRetry,
		HeldUntil: at(60), Message: "no route to host"}
	for name, j := range map[string]job.Job{"full": full, "waits": waits, "least": {ID: 1, Status: job.Pending, Seq: 1, Submitted: at(0)}} {
		want, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := j.AppendText(nil); string(got) != string(want) {
			t.Errorf("%s: got %s\nwant %s", name, got, want)
		}
		if got := job.HoldEnds(want); !got.Equal(j.HeldUntil) {
			t.Errorf("%s: got a hold until %v want %v", name, got, j.HeldUntil)
		}
		if got, err := job.Parse(want); err != nil || !got.HeldUntil.Equal(j.HeldUntil) {
			t.Errorf("%s: got %v, %v want %v", name, got.HeldUntil, err, j.HeldUntil)
		}
	}
}

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

func TestLimitsReadWhatTheyPrint(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"pending=5":               "pending=5",
		"life=0,pending=5":        "pending=5,life=0",
		"upload=1,run=2,active=3": "active=3,upload=1,run=2",
		"life=1000001":            "error",
		"run=2147483648":          "error",
		"pending":                 "error",
		"pending=":                "error",
		"pending=-1":              "error",
		"pending=1,pending=2":     "error",
		"pending=0,pending=2":     "error",
		"jobs=1":                  "error",
		"pending=1,":              "error",
	} {
		l, err := job.ParseLimits(text)
		got := l.String()
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", text, got, err, want)
		}
	}
}

func TestLimitsLieOverOthers(t *testing.T) {
	own, err := job.ParseLimits("pending=0,run=7")
	if err != nil {
		t.Fatal(err)
	}
	got := own.Over(job.Limits{Pending: 10, Active: 20, Run: 30})
	if want := (job.Limits{Pending: job.Unlimited, Active: 20, Run: 7}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCleanQueueID(t *testing.T) {
	for in, want := range map[string]string{
		"jobs":                    "jobs",
		"Jobs-1_a~":               "Jobs-1_a~",
		"ark:/13030/xt12t3":       "ark+=13030=xt12t3",
		"http://n2t.info/urn:x":   "http+==n2t,info=urn+x",
		"what-the-*@?#!^!~?":      "what-the-^2a@^3f^23!^5e!~^3f", // but for #, as Pairtree has it
		"a.b":                     "a,b",
		"a,b":                     "a,b",
		"a+b":                     "a+b",
		"a+b:c":                   "a^2bb+c",
		"a b":                     "a^20b",
		"a^20b":                   "a^20b",
		"a^2":                     "a^5e2",
		"a^2F":                    "a^5e2F",
		"%2e%2e":                  "^252e^252e",
		"%2f":                     "^252f",
		"a/../b":                  "a=,,=b",
		"../b":                    ",,=b",
		"/abs":                    "=abs",
		`a\b`:                     "a^5cb",
		"tab\t":                   "tab^09",
		"日本":                      "^e6^97^a5^e6^9c^ac",
		"é":                       "^c3^a9",
		"x;y&z'":                  "x^3by^26z^27",
		"-rf":                     "-rf",
		strings.Repeat("q", 200):  strings.Repeat("q", 200),
		strings.Repeat("é", 33):   strings.Repeat("^c3^a9", 33),
		"acutie":                  "acutie",
		"CON":                     "CON",
		"\u202ecod.":              "^e2^80^aecod,",
		"queue\x01":               "queue^01",
		"<script>alert</script>":  "^3cscript^3ealert^3c=script^3e",
		"name|pipe \"quote\"":     "name^7cpipe^20^22quote^22",
		strings.Repeat("a/", 100): strings.Repeat("a=", 100),
	} {
		got, err := job.CleanQueueID(in)
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v want %q", in, got, err, want)
		}
		if again, err := job.CleanQueueID(got); again != got || err != nil {
			t.Errorf("%q: cleaned again %q, %v", got, again, err)
		}
	}
	for _, in := range []string{
		"", ".", "..", "...", "/", "//", "./.", "a\x00b", "a\nb", "a\rb", "\xff", "a\xc3",
		"cutie", "Cutie-x", "CUT", "cutlery", "merritt", "MERRIT", "mrt", "Mrt1",
		strings.Repeat("q", 201), strings.Repeat("é", 34), strings.Repeat("x", 10<<10), strings.Repeat("%", 100),
	} {
		if got, err := job.CleanQueueID(in); !errors.Is(err, job.ErrBadName) || got != "" || len(err.Error()) > 400 {
			t.Errorf("%.40q: got %.40q, %v", in, got, err)
		}
	}
}

func FuzzCleanQueueID(f *testing.F) {
	for _, s := range []string{"jobs", "ark:/1/x", "a^20b", "..", "%2f", "a.b,c", "é", "^", "^c3", "cut", "\x7f", "=,", "a+b:c"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, in string) {
		id, err := job.CleanQueueID(in)
		if err != nil {
			if id != "" || !errors.Is(err, job.ErrBadName) {
				t.Fatalf("%q: got %q, %v", in, id, err)
			}
			return
		}
		if len(id) > 200 || filepath.Base(id) != id || filepath.Join(dir, id) != dir+"/"+id || id == "." || id == ".." {
			t.Fatalf("%q: %q is not one element of a path", in, id)
		}
		for i := range len(id) {
			if c := id[i]; c <= 0x20 || c >= 0x7f || strings.IndexByte(`/\:*?"<>|%#&;'.`, c) >= 0 {
				t.Fatalf("%q: %q has %q", in, id, c)
			}
		}
		low := strings.ToLower(id)
		for _, p := range []string{"cut", "merrit", "mrt"} {
			if strings.HasPrefix(low, p) {
				t.Fatalf("%q: %q is reserved", in, id)
			}
		}
		if again, err := job.CleanQueueID(id); again != id || err != nil {
			t.Fatalf("%q: cleaned %q, again %q, %v", in, id, again, err)
		}
	})
}

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
