package queuefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"cutie/queuefs"
	"cutie/queuefs/digest"
)

// shy reads pieces that fit nowhere.
type shy struct{ io.Reader }

func (s shy) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), 10_007)]) }

// queue returns the queue of a home with segments of so many bytes.
func queue(t *testing.T, segment int64) *queuefs.Queue {
	t.Helper()
	dir := t.TempDir()
	if err := queuefs.Init(filepath.Join(dir, "home"), queuefs.ServiceInfo{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	s, err := queuefs.Open(filepath.Join(dir, "home"), queuefs.Options{Segment: segment})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	q, err := s.CreateQueue(t.Context(), queuefs.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1, VerifyOnWrite: true})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestReadFrom brings payloads of sizes around the limits from readers of all
// manners, some behind what was written: what is stored is what they had, with
// its digests, and only what is more than may be in memory is in a file.
func TestReadFrom(t *testing.T) {
	q := queue(t, 4<<20)
	const inline = 128 << 10
	pattern := strings.Repeat("0123456789abcdefghi\n", 40_000)
	for name, reader := range map[string]func(r io.Reader) io.Reader{
		"whole":             func(r io.Reader) io.Reader { return r },
		"pieces":            func(r io.Reader) io.Reader { return shy{r} },
		"end with the last": iotest.DataErrReader,
	} {
		for _, size := range []int{0, 1, 4095, 4096, 4097, inline - 1, inline, inline + 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 700_001} {
			for _, written := range []int{0, size / 3, size} {
				what := fmt.Sprintf("%s, %d octets, %d of them written", name, size, written)
				data := pattern[size%20:][:size]
				sub := q.Begin()
				d, err := sub.Add(queuefs.Meta{Expect: []digest.Value{digest.Sum(digest.SHA1, []byte(data))}})
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(d, data[:written])
				n, err := d.ReadFrom(reader(strings.NewReader(data[written:])))
				if err != nil || n != int64(size-written) || d.Size() != int64(size) {
					t.Fatalf("%s: read %d, %v", what, n, err)
				}
				r, err := d.Reader()
				if err != nil {
					t.Fatal(err)
				}
				if _, inMemory := r.(*bytes.Reader); inMemory != (size <= inline) {
					t.Errorf("%s: in memory: %v", what, inMemory)
				}
				jobs, err := sub.Commit(t.Context())
				if err != nil || jobs[0].Size != int64(size) || !slices.Contains(jobs[0].Digests, digest.Sum(digest.SHA256, []byte(data))) {
					t.Fatalf("%s: %+v, %v", what, jobs, err)
				}
				p, err := q.Payload(jobs[0].ID)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(p); err != nil || string(got) != data {
					t.Errorf("%s: payload has %d octets, %v", what, len(got), err)
				}
				p.Close()
			}
		}
	}
}

// TestReadFromOneByOne is for the reader that gives the least.
func TestReadFromOneByOne(t *testing.T) {
	q := queue(t, 1<<20)
	data := strings.Repeat("x", 128<<10) + "yz"
	sub := q.Begin()
	d, err := sub.Add(queuefs.Meta{Expect: []digest.Value{digest.Sum(digest.MD5, []byte(data))}})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := d.ReadFrom(iotest.OneByteReader(strings.NewReader(data))); n != int64(len(data)) || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	if _, err := sub.Commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestReadFromMany fills what a submission may keep in memory: the rest goes to
// files, and every payload is what it was.
func TestReadFromMany(t *testing.T) {
	q := queue(t, 2<<20)
	sub := q.Begin()
	var want []string
	files := 0
	for i := range 20 {
		data := strings.Repeat(string(rune('a'+i)), 60_000+i)
		d, err := sub.Add(queuefs.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.ReadFrom(strings.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		r, err := d.Reader()
		if err != nil {
			t.Fatal(err)
		}
		if _, inMemory := r.(*bytes.Reader); !inMemory {
			files++
		}
		want = append(want, data)
	}
	if files == 0 || files == len(want) {
		t.Errorf("%d of %d payloads are in files", files, len(want))
	}
	jobs, err := sub.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range jobs {
		p, err := q.Payload(j.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(p); err != nil || string(got) != want[i] {
			t.Errorf("%v: payload has %d octets, %v", j.ID, len(got), err)
		}
		p.Close()
	}
}

// TestReadFromBroken cuts payloads off at sizes around the limits: the error is
// that of the reader, also where it is the one that io.ReadFull has for the
// end.
func TestReadFromBroken(t *testing.T) {
	q := queue(t, 1<<20)
	for _, size := range []int{0, 1, 4096, 128 << 10, 128<<10 + 1, 256 << 10, 300_000} {
		for _, broken := range []error{io.ErrUnexpectedEOF, errors.New("cut off")} {
			sub := q.Begin()
			d, err := sub.Add(queuefs.Meta{})
			if err != nil {
				t.Fatal(err)
			}
			n, err := d.ReadFrom(io.MultiReader(strings.NewReader(strings.Repeat("x", size)), iotest.ErrReader(broken)))
			if err != broken || n != int64(size) {
				t.Errorf("%d octets: read %d, %v", size, n, err)
			}
			sub.Discard()
			if _, err := d.ReadFrom(strings.NewReader("x")); err == nil {
				t.Errorf("%d octets: the submission is over, and it reads on", size)
			}
		}
	}
	if st := q.State(); st.Seq != 0 {
		t.Errorf("got %+v", st)
	}
}

// TestReadFromKeepsWhatItMust brings small payloads of many jobs: what they take
// in memory is about what they have.
func TestReadFromKeepsWhatItMust(t *testing.T) {
	q := queue(t, 64<<20)
	for _, size := range []int{1, 1000, 5000} {
		before := liveHeap()
		const jobs = 2000
		sub := q.Begin()
		for range jobs {
			d, err := sub.Add(queuefs.Meta{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.ReadFrom(shy{strings.NewReader(strings.Repeat("x", size))}); err != nil {
				t.Fatal(err)
			}
		}
		if each := (liveHeap() - before) / jobs; each > 2048+2*int64(size) {
			t.Errorf("a payload of %d octets takes %d", size, each)
		}
		sub.Discard()
	}
}

// liveHeap returns the octets that are in use.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
