package record

import (
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"cutie/queuefs/job"
)

func someRecord() *Record {
	r := &Record{Kind: job.Consume, From: job.Pending, To: job.Consumed, Flags: Inline | Leased | Results, Outcome: job.Failed, Seq: 7, Time: 1e15, Job: 42, Queue: "jobs", Temp: "cutie-tmp-1-2", Payload: Payload{Size: 4, Submitted: 1e14, MediaType: "text/plain", Data: []byte("data")}}
	r.SetText([]byte("identifier: j000000000042\n"))
	r.Payload.SHA256[0], r.Payload.MD5[15] = 1, 2
	return r
}

// encoded is a record as it stands in the journal.
func encoded(r *Record) []byte { return append(append(r.Append(nil), r.Payload.Data...), r.Result...) }

func TestRecordReadsAsWritten(t *testing.T) {
	for _, change := range []func(r *Record){
		func(*Record) {},
		func(r *Record) { r.Payload.Data, r.Flags = nil, 0 },
		func(r *Record) { r.Payload.Data, r.Payload.Size = []byte{}, 0 },
		func(r *Record) { r.Queue, r.Payload.MediaType, r.Temp = "", "", "" },
		func(r *Record) { r.SetText(nil) },
		func(r *Record) { r.Payload.MD5 = [16]byte{} },
		func(r *Record) { r.Key, r.Keyed = 7, true },
		func(r *Record) { r.Key, r.Payload.MD5 = 1<<63, [16]byte{} },
		func(r *Record) { r.Keyed = true },
		func(r *Record) { r.Pass(&job.Facts{Length: 9999, SHA256: [32]byte{7}}, nil) },
		func(r *Record) {
			r.Pass(&job.Facts{Length: 70000}, []job.Result{{Name: "log", Size: 3, SHA256: [32]byte{8}}})
			r.Keyed, r.Key, r.Flags, r.Temp = true, 7, Inline|Results, "/+log"
		},
	} {
		want := someRecord()
		change(want)
		b := encoded(want)
		got := Record{Queue: "jobs", Payload: Payload{MediaType: "x"}}
		if err := got.Parse(append(b, "what follows"...)); err != nil {
			t.Fatal(err)
		}
		if len(want.File.Text) == 0 {
			want.File.Text, got.File.Text = nil, nil
		}
		if !reflect.DeepEqual(&got, want) {
			t.Errorf("got %+v\nwant %+v", got, *want)
		}
		if want.Payload.Data != nil && string(b[want.PayloadAt():]) != string(want.Payload.Data) {
			t.Error("the payload is not where it is said to be")
		}
		// Cut anywhere it is an error, or lacks what is cut.
		for n := range b {
			if err := got.Parse(b[:n]); err == nil && (n < minFixed || got.Payload.Data != nil && len(want.Payload.Data) > 0) {
				t.Errorf("cut to %d octets: got %+v", n, got)
			}
		}
	}
}

// FuzzRecord reads whatever it gets, without falling, and writes what it could
// read as it was.
func FuzzRecord(f *testing.F) {
	r := someRecord()
	b := encoded(r)
	f.Add(b)
	f.Add(b[:minFixed])
	r = &Record{Kind: job.Phase, Seq: 8, Time: 1e15, Queue: "jobs", File: File{Text: []byte("u1 PENDING")}}
	b = encoded(r)
	f.Add(b)
	f.Add(make([]byte, minFixed))
	r = someRecord()
	r.Key, r.Keyed = 7, true
	f.Add(encoded(r))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Record
		if r.Parse(b) != nil {
			return
		}
		r.Event()
		if r.File.Text == nil || r.File.Size != len(r.File.Text) || r.Payload.Data == nil && r.Flags&Inline != 0 {
			return // src did not reach that far
		}
		again := encoded(&r)
		var s Record
		if err := s.Parse(again); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		if !reflect.DeepEqual(s, r) {
			t.Fatalf("got %+v\nwant %+v", s, r)
		}
	})
}

// TestRecordKeepsItsForm compares records with golden ones, octet by octet.
func TestRecordKeepsItsForm(t *testing.T) {
	data, err := os.ReadFile("testdata/records")
	if err != nil {
		t.Fatal(err)
	}
	full := someRecord()
	full.Flags |= Retained
	large := someRecord()
	large.Payload.MD5, large.Flags, large.Temp, large.Payload.Data = [16]byte{}, InTemp|Held, "cutie-tmp-3", nil
	phase := &Record{Kind: job.Phase, Seq: 8, Time: 1e15, Queue: "jobs", File: File{Text: []byte("u1 PENDING")}}
	lines := strings.Fields(string(data))
	for i, b := range [][]byte{encoded(full), encoded(large), encoded(phase)} {
		if got := hex.EncodeToString(b); got != lines[i] {
			t.Errorf("record %d: got %s\nwant %s", i, got, lines[i])
		}
	}
}

func TestResultsOfAPassedJobFile(t *testing.T) {
	r := someRecord()
	r.Flags, r.Temp = Results, ""
	change := &job.ResultChange{Came: []job.Result{{Name: "log", Size: 3, MediaType: "text/plain", SHA256: [32]byte{8}}}, Went: []string{"old"}}
	r.Pass(&job.Facts{Length: 70000, SHA256: [32]byte{7}}, change.Came)
	r.NameResults(change)
	var got Record
	if err := got.Parse(r.Append(nil)); err != nil || !got.File.Passed || got.Lacks() {
		t.Fatalf("got %+v, %v", got, err)
	}
	if e := got.Event(); !reflect.DeepEqual(e.Results, change) || e.File.Length != 70000 || e.File.SHA256 != [32]byte{7} {
		t.Errorf("got %+v, results %+v", e, e.Results)
	}
}

// A record of a small result has its contents at its end, and is refused by programs
// without such records, for its status.
func TestARecordHasASmallResult(t *testing.T) {
	for _, contents := range []string{"", "the result"} {
		want := someRecord()
		want.Flags, want.Temp, want.Payload.Data, want.Result = Leased|Results|Result, "cutie-tmp-1-2/log", nil, []byte(contents)
		b := encoded(want)
		var got Record
		if err := got.Parse(b); err != nil || !reflect.DeepEqual(&got, want) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, *want)
		}
		if job.Status(b[1]) <= job.Deleted {
			t.Errorf("status %d", b[1])
		}
		want.Result = nil
		if err := got.Parse(encoded(want)); err != nil || got.Result != nil {
			t.Errorf("without contents: got %+v, %v", got, err)
		}
	}
}

func TestHomeChangesReadBack(t *testing.T) {
	for _, want := range []HomeChange{
		{Kind: QueueMade, Queue: "jobs", Time: 1234567890, Text: "name: jobs\n"},
		{Kind: QueueGone, Queue: "jobs"},
		{Kind: CallbackURL, Queue: "jobs", Text: "https://example.org/secret"},
		{Kind: ServiceInfo, Text: "name: home\n"},
	} {
		got, is, err := ParseHomeChange(want.Bytes())
		if got != want || !is || err != nil {
			t.Errorf("got %v, %v, %v, want %v", got, is, err, want)
		}
	}
	for _, bad := range []string{"\xff", "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\xff\x63\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\xff\x01\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00jobs"} {
		if _, is, err := ParseHomeChange([]byte(bad)); !is || !errors.Is(err, ErrForm) {
			t.Errorf("%q: got %v, %v", bad, is, err)
		}
	}
	r := Record{Kind: 1, Queue: "jobs"}
	if _, is, _ := ParseHomeChange(r.Append(nil)); is {
		t.Error("the record of a job is taken for one of a home")
	}
}
