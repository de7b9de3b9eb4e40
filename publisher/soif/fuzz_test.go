package soif_test

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"

	"cutie/publisher/soif"
)

var seeds = []string{
	"@X { -\nA{1}:\t1\r\nB{0}:\t\r\n}\r\n",
	"junk\n@X{ http://a\nA{1}:\t1B{2}:\t22}@Y { -\n}",
	"@X { -\nText{23}:\t} \n@FAKE { -\nA{1}:\tz\n}\n\n}\n",
	"@X { -\nA{1000000000000000000}:\t1\n}",
	"@X { -\nA{x}: one\ntwo\nB:{3}\t1\n}",
	"\ufefftext @X { -\nA{9}:\tone\ntwo } @Y {http://a B{ 1 }: 2\n}\n}\n",
}

// What is read is written so that it reads the same, and written again is the
// same octets.
func FuzzRead(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := soif.NewReader(bytes.NewReader(b))
		r.Limit = 1 << 20
		objects, _ := readAll(r)
		stable(t, objects)
	})
}

func stable(t *testing.T, objects []soif.Object) {
	t.Helper()
	var out bytes.Buffer
	w := soif.NewWriter(&out)
	for _, o := range objects {
		if err := w.Write(o); err != nil {
			t.Fatalf("%+v was read and cannot be written: %v", o, err)
		}
	}
	r := soif.NewReader(bytes.NewReader(out.Bytes()))
	r.Clean, r.Limit = true, 16<<20
	again, err := readAll(r)
	if _, mends := r.Mended(); mends > 0 {
		t.Fatalf("%q: mended", out.Bytes())
	}
	if err != io.EOF || !reflect.DeepEqual(again, objects) {
		t.Fatalf("%q: got %+v, %v, want %+v", out.Bytes(), again, err, objects)
	}
}

// A size that is not there takes no memory.
func TestDeclaredSizeTakesNoMemory(t *testing.T) {
	in := "@X { -\nA{16000000}:\t1"
	if got := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := soif.NewReader(strings.NewReader(in)).Read(); err == nil {
				b.Fatal("it was read")
			}
		}
	}).AllocedBytesPerOp(); got > 1<<18 {
		t.Errorf("got %d octets", got)
	}
}

func sample() soif.Object {
	o := soif.Object{Type: "DOCUMENT", URL: "http://cutie.example.org/state/ingest/j000000000042"}
	for _, a := range []string{"Title", "Identifier", "Queue", "Status", "Classification", "Submitter", "Size", "Submitted", "Consumed", "Sidecar", "Digest-Type", "RD-Last-Modified"} {
		o.Add(a, strings.Repeat("value \n", 9))
	}
	return o
}

func BenchmarkRead(b *testing.B) {
	o := sample()
	text := bytes.Repeat(o.Append(nil), 1000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if list, err := readAll(soif.NewReader(bytes.NewReader(text))); err != io.EOF || len(list) != 1000 {
			b.Fatal(err)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	o := sample()
	w := soif.NewWriter(io.Discard)
	b.SetBytes(int64(len(o.Append(nil))))
	b.ReportAllocs()
	for b.Loop() {
		w.Write(o)
	}
}
