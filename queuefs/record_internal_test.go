package queuefs

import (
	"reflect"
	"slices"
	"testing"
)

func someRecord() *record {
	r := &record{kind: Consume, from: Pending, to: Consumed, flags: recInline | recLeased | recResults, outcome: Failed, seq: 7, time: 1e15, job: 42, size: 4, submitted: 1e14,
		queue: "jobs", mediaType: "text/plain", temp: "cutie-tmp-1-2", payload: []byte("data")}
	r.setText([]byte("identifier: j000000000042\n"))
	r.sha[0], r.md5[15] = 1, 2
	return r
}

// encoded is a record as it stands in the journal.
func encoded(r *record) []byte { return append(r.append(nil), r.payload...) }

func TestRecordReadsAsWritten(t *testing.T) {
	for _, change := range []func(r *record){
		func(*record) {},
		func(r *record) { r.payload, r.flags = nil, 0 },
		func(r *record) { r.payload, r.size = []byte{}, 0 },
		func(r *record) { r.queue, r.mediaType, r.temp = "", "", "" },
		func(r *record) { r.setText(nil) },
		func(r *record) { r.md5 = [16]byte{} },
	} {
		want := someRecord()
		change(want)
		b := encoded(want)
		got := record{queue: "jobs", mediaType: "x"}
		if err := got.get(append(b, "what follows"...)); err != nil {
			t.Fatal(err)
		}
		if len(want.text) == 0 {
			want.text, got.text = nil, nil
		}
		if !reflect.DeepEqual(&got, want) {
			t.Errorf("got %+v\nwant %+v", got, *want)
		}
		if want.payload != nil && string(b[want.payloadAt():]) != string(want.payload) {
			t.Error("the payload is not where it is said to be")
		}
		// Cut anywhere it is an error, or lacks what is cut.
		for n := range b {
			if err := got.get(b[:n]); err == nil && (n < recFixed || got.payload != nil && len(want.payload) > 0) {
				t.Errorf("cut to %d octets: got %+v", n, got)
			}
		}
	}
}

// widen returns the record in the earlier layout.
func widen(r *record) []byte {
	b := encoded(r)
	zeros := make([]byte, 16)
	wide := slices.Concat(b[:76], r.md5[:], b[76:108], zeros, b[108:recFixed], b[r.head():])
	wide[3] &^= recSlim
	wide[recWide-1] = 0
	return wide
}

func TestRecordOfTheEarlierLayoutReads(t *testing.T) {
	want := someRecord()
	b := widen(want)
	want.wide = true
	var got record
	if err := got.get(b); err != nil || !reflect.DeepEqual(&got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, *want)
	}
	if string(b[got.payloadAt():]) != string(want.payload) {
		t.Error("the payload is not where it is said to be")
	}
	for n := range b {
		if err := got.get(b[:n]); err == nil && (n < recWide || got.payload != nil) {
			t.Errorf("cut to %d octets: got %+v", n, got)
		}
	}
}

// FuzzRecord reads whatever it gets, without falling, and writes what it could
// read as it was.
func FuzzRecord(f *testing.F) {
	r := someRecord()
	b := encoded(r)
	f.Add(b)
	f.Add(b[:recFixed])
	r = &record{kind: Phase, seq: 8, time: 1e15, queue: "jobs", text: []byte("u1 PENDING")}
	b = encoded(r)
	f.Add(b)
	f.Add(make([]byte, recFixed))
	f.Add(widen(someRecord()))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r record
		if r.get(b) != nil {
			return
		}
		r.event()
		if r.text == nil || r.textSize != len(r.text) || r.payload == nil && r.flags&recInline != 0 {
			return // src did not reach that far
		}
		r.wide = false // it is written in the other layout
		again := encoded(&r)
		var s record
		if err := s.get(again); err != nil {
			t.Fatalf("%v: %+v", err, r)
		}
		if !reflect.DeepEqual(s, r) {
			t.Fatalf("got %+v\nwant %+v", s, r)
		}
	})
}
