package queuefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
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
	must(t, queuefs.Init(filepath.Join(dir, "home"), queuefs.ServiceInfo{Name: "test"}))
	s, err := queuefs.Open(filepath.Join(dir, "home"), queuefs.Options{Segment: segment})
	must(t, err)
	t.Cleanup(func() {
		should(t, s.Close())
	})
	q, err := s.CreateQueue(t.Context(), queuefs.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1, VerifyOnWrite: true})
	must(t, err)
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
				must(t, err)
				io.WriteString(d, data[:written])
				n, err := d.ReadFrom(reader(strings.NewReader(data[written:])))
				if err != nil || n != int64(size-written) || d.Size() != int64(size) {
					t.Fatalf("%s: read %d, %v", what, n, err)
				}
				r, err := d.Reader()
				must(t, err)
				if _, inMemory := r.(*bytes.Reader); inMemory != (size <= inline) {
					t.Errorf("%s: in memory: %v", what, inMemory)
				}
				jobs, err := sub.Commit(t.Context())
				if err != nil || jobs[0].Size != int64(size) || !slices.Contains(jobs[0].Digests, digest.Sum(digest.SHA256, []byte(data))) {
					t.Fatalf("%s: %+v, %v", what, jobs, err)
				}
				p, err := q.Payload(jobs[0].ID)
				must(t, err)
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
	must(t, err)
	if n, err := d.ReadFrom(iotest.OneByteReader(strings.NewReader(data))); n != int64(len(data)) || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	should(t, errOf(sub.Commit(t.Context())))
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
		must(t, err)
		must(t, errOf(d.ReadFrom(strings.NewReader(data))))
		r, err := d.Reader()
		must(t, err)
		if _, inMemory := r.(*bytes.Reader); !inMemory {
			files++
		}
		want = append(want, data)
	}
	if files == 0 || files == len(want) {
		t.Errorf("%d of %d payloads are in files", files, len(want))
	}
	jobs, err := sub.Commit(t.Context())
	must(t, err)
	for i, j := range jobs {
		p, err := q.Payload(j.ID)
		must(t, err)
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
			must(t, err)
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
			must(t, err)
			must(t, errOf(d.ReadFrom(shy{strings.NewReader(strings.Repeat("x", size))})))
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

// TestPayloadIsReadableAtEveryStep reads all jobs from inside every step that
// writes their files, and after a crash there.
func TestPayloadIsReadableAtEveryStep(t *testing.T) {
	var look func(step string)
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Fault: func(step string, do func() error) error {
		err := do()
		if look != nil {
			look(step)
		}
		return err
	}})
	defer closeHome(t, s)
	for n := range 4 {
		submit(t, q, queuefs.Meta{Filename: fmt.Sprint(n)}, strings.Repeat("0123456789", 20_000*n))
	}
	w := observe(t, s)
	looked := 0
	look = func(step string) {
		looked++
		if d := w.difference(observe(t, s)); d != "" {
			t.Errorf("%s: %s", step, d)
		}
		again, _ := openHome(t, copyHome(t, dir), queuefs.Options{})
		if d := w.difference(observe(t, again)); d != "" {
			t.Errorf("%s, crashed: %s", step, d)
		}
		again.Close()
	}
	must(t, s.Checkpoint(ctx))
	look = nil
	if looked < 8 {
		t.Errorf("looked %d times", looked)
	}
}

// TestPayloadForms reads payloads of all sizes around the limits in every way.
func TestPayloadForms(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testPayloadForms(t, fastDir(t)) })
	t.Run("disk", func(t *testing.T) { testPayloadForms(t, t.TempDir()) })
}

func testPayloadForms(t *testing.T, dir string) {
	s, q := openHome(t, dir, queuefs.Options{Segment: 2 << 20})
	var want []string
	for _, size := range []int{0, 1, 4095, 4096, 128<<10 - 1, 128 << 10, 128<<10 + 1, 256 << 10, 1<<20 + 17} {
		sub := q.Begin()
		d, err := sub.Add(queuefs.Meta{})
		must(t, err)
		data := strings.Repeat("abcdefg", size/7+1)[:size]
		for at := 0; at < size; at += 10_001 { // in pieces that fit nowhere
			if n, err := io.WriteString(d, data[at:min(at+10_001, size)]); err != nil || n != min(10_001, size-at) {
				t.Fatalf("write: %d, %v", n, err)
			}
		}
		if d.Size() != int64(size) {
			t.Errorf("got %d want %d", d.Size(), size)
		}
		jobs, err := sub.Commit(ctx)
		if err != nil || jobs[0].Size != int64(size) || !slices.Equal(jobs[0].Digests, []digest.Value{digest.Sum(digest.SHA256, []byte(data))}) {
			t.Fatalf("got %+v, %v", jobs, err)
		}
		want = append(want, data)
	}
	read := func() {
		t.Helper()
		for i, data := range want {
			p, err := q.Payload(queuefs.JobID(i + 1))
			must(t, err)
			var b bytes.Buffer
			if n, err := p.WriteTo(&b); n != int64(len(data)) || err != nil || b.String() != data || p.Size() != n {
				t.Errorf("%d octets: wrote %d, %v", len(data), n, err)
			}
			if end, err := p.Seek(0, io.SeekEnd); end != int64(len(data)) || err != nil {
				t.Errorf("%d octets: end at %d, %v", len(data), end, err)
			}
			should(t, errOf(p.Seek(int64(len(data)/2), io.SeekStart)))
			if rest, err := io.ReadAll(p); err != nil || string(rest) != data[len(data)/2:] {
				t.Errorf("%d octets: the half has %d, %v", len(data), len(rest), err)
			}
			should(t, p.Close())
		}
	}
	read()
	must(t, s.Maintain(ctx))
	read()
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Segment: 2 << 20})
	read()
	wantErr(t, errOf(q.Payload(100)), queuefs.ErrNoJob, "")
}

// TestRightDigests gives each kind of digest before the payload, after it, and
// in the place of another kind.
func TestRightDigests(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	for _, size := range []int{10, 140_000} {
		kinds := append([]digest.Type{0}, digest.Types()...)
		if size > 10 {
			kinds = []digest.Type{0, digest.CRC32}
		}
		data := strings.Repeat("d", size)
		for _, kind := range digest.Types() {
			right := digest.Sum(kind, []byte(data))
			for _, first := range kinds {
				sub := q.Begin()
				var m queuefs.Meta
				if first != 0 {
					m.Expect = []digest.Value{digest.Sum(first, []byte("other"))}
				}
				d, err := sub.Add(m)
				must(t, err)
				io.WriteString(d, data)
				must(t, d.SetMeta(queuefs.Meta{Expect: []digest.Value{right}}))
				jobs, err := sub.Commit(ctx)
				if err != nil || !slices.Contains(jobs[0].Digests, right) {
					t.Errorf("%v after %v, %d octets: %v", kind, first, size, err)
					continue
				}
				if j, err := q.Job(jobs[0].ID); err != nil || !slices.Equal(j.Digests, jobs[0].Digests) {
					t.Errorf("%v: got %v want %v", kind, j.Digests, jobs[0].Digests)
				}
			}
		}
	}
}

// TestQueueAsksForDigests: what the queue asks for and what the submitter gives
// are in the job file, and the MD5 is told to publishers, also after the home
// was opened again, and after a crash.
func TestQueueAsksForDigests(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	data := []byte("hello\n")
	sum := func(types ...digest.Type) (values []digest.Value) {
		for _, typ := range types {
			values = append(values, digest.Sum(typ, data))
		}
		return values
	}
	for i, c := range []struct {
		asked  digest.Set
		given  []digest.Value
		stored []digest.Value
	}{
		{0, nil, sum(digest.SHA256)},
		{0, sum(digest.MD5, digest.SHA256), sum(digest.SHA256, digest.MD5)},
		{digest.SetOf(digest.MD5), nil, sum(digest.SHA256, digest.MD5)},
		{digest.SetOf(digest.MD5, digest.SHA512, digest.SHA256), sum(digest.CRC32), sum(digest.SHA256, digest.MD5, digest.SHA512, digest.CRC32)},
	} {
		must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Digests = c.asked }))))
		made := submit(t, q, queuefs.Meta{Expect: c.given}, string(data))
		id := made.ID
		want := [16]byte{}
		if slices.ContainsFunc(c.stored, func(v digest.Value) bool { return v.Type == digest.MD5 }) {
			want = [16]byte{0xb1, 0x94, 0x6a, 0xc9, 0x24, 0x92, 0xd2, 0x34, 0x7c, 0x62, 0x35, 0xb4, 0xd2, 0x61, 0x11, 0x84}
		}
		check := func(when string) {
			t.Helper()
			j, err := q.Job(id)
			if err != nil || !slices.Equal(j.Digests, c.stored) {
				t.Errorf("%d %s: got %v, %v, want %v", i, when, j.Digests, err, c.stored)
			}
			if e, ok := q.Entry(id); !ok || e.Payload.MD5 != want || e.File.MD5 != [16]byte{} {
				t.Errorf("%d %s: got %+v, want MD5 %x", i, when, e, want)
			}
		}
		check("submitted")
		events, err := q.Events(made.Seq-1, 1)
		if err != nil || events[0].Payload.MD5 != want {
			t.Errorf("%d: got %+v, %v", i, events, err)
		}
		closeHome(t, s)
		s, q = openHome(t, dir, queuefs.Options{})
		check("opened again")
	}
}

// put writes a payload and puts it into its place.
func put(q *queuefs.Queue, s *queuefs.Assembly, place int, m queuefs.Meta, payload string) error {
	part := q.Begin()
	defer part.Discard()
	d, err := part.Add(m)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(d, payload); err != nil {
		return err
	}
	return s.Put(place, part)
}

// staged is a payload of a size around what the journal takes.
func staged(place int) string {
	return strings.Repeat(fmt.Sprintf("%07d\n", place), 1+place*place*400)
}

func TestStageTakesPayloadsInAnyOrder(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Segment: 256 << 10}) // more than may be in memory
	submit(t, q, queuefs.Meta{}, "before")
	const n = 20
	stage := q.Assemble(n)
	var wg sync.WaitGroup
	for _, place := range rand.Perm(n) {
		wg.Go(func() {
			m := queuefs.Meta{Filename: fmt.Sprint(place), Expect: []digest.Value{digest.Sum(digest.CRC32, []byte(staged(place)))}}
			if place == 3 {
				m.Batch = "own"
			}
			should(t, put(q, stage, place, m, staged(place)))
		})
	}
	wg.Wait()
	jobs, err := stage.Commit(ctx)
	must(t, err)
	stage.Discard() // does nothing
	check := func(q *queuefs.Queue) {
		t.Helper()
		got, err := q.List(queuefs.ListOptions{After: 1})
		if err != nil || len(got) != n || len(jobs) != n {
			t.Fatalf("got %d jobs of %d, %v", len(got), len(jobs), err)
		}
		for place, j := range got {
			want := jobs[place]
			batch := "b000000000002-20"
			if place == 3 {
				batch = "own"
			}
			if fmt.Sprint(j) != fmt.Sprint(want) || j.ID != queuefs.JobID(place+2) || j.Filename != fmt.Sprint(place) || j.Batch != batch {
				t.Errorf("got %+v, want %+v", j, want)
			}
			if got := payload(t, q, j.ID); got != staged(place) {
				t.Errorf("%v: got %d octets, want %d", j.ID, len(got), len(staged(place)))
			}
		}
	}
	check(q)
	closeHome(t, s)
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	s, q = openHome(t, dir, queuefs.Options{})
	check(q)
}

func TestStageRefuses(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	other, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})
	must(t, err)
	large := strings.Repeat("x", 200<<10)
	stage := q.Assemble(2)
	wrong := queuefs.Meta{Expect: []digest.Value{digest.Sum(digest.SHA1, nil)}}
	for _, body := range []string{"small", large} {
		wantErr(t, put(q, stage, 0, wrong, body), queuefs.ErrDigest, "wrong digest")
	}
	must(t, put(q, stage, 0, queuefs.Meta{}, large))
	if err := put(q, stage, 0, queuefs.Meta{}, large); err == nil {
		t.Error("a place was taken twice")
	}
	if err := put(other, stage, 1, queuefs.Meta{}, large); err == nil {
		t.Error("a job of another queue was taken")
	}
	if err := stage.Put(1, q.Begin()); err == nil {
		t.Error("a submission of no job was taken")
	}
	if jobs, err := stage.Commit(ctx); err == nil {
		t.Errorf("a batch that is not complete: got %v", jobs)
	}
	stage.Discard()
	stage.Discard()
	if err := put(q, stage, 1, queuefs.Meta{}, large); err == nil {
		t.Error("a batch that is over took a job")
	}
	if jobs, err := stage.Commit(ctx); err == nil {
		t.Errorf("a batch that is over: got %v", jobs)
	}
	if st := q.State(); st.Pending != 0 {
		t.Errorf("%d jobs are pending", st.Pending)
	}
	if left := leftovers(t, filepath.Join(dir, "cutie-tmp")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// A manifest is read back from the draft it came into, small or large.
func TestDraftIsReadAndVerified(t *testing.T) {
	_, q := openHome(t, fastDir(t), queuefs.Options{})
	for _, body := range []string{"", "hello\n", strings.Repeat("0123456789", 15_000)} {
		sub := q.Begin()
		d, err := sub.Add(queuefs.Meta{})
		must(t, err)
		must(t, errOf(io.WriteString(d, body)))
		for range 2 {
			r, err := d.Reader()
			must(t, err)
			if got, err := io.ReadAll(r); string(got) != body || err != nil {
				t.Errorf("got %d octets, %v, want %d", len(got), err, len(body))
			}
		}
		for _, typ := range []digest.Type{digest.CRC32, digest.MD5, digest.SHA256, digest.SHA512} { // named when the payload had come
			for of, want := range map[string]error{body: nil, "other": queuefs.ErrDigest} {
				must(t, d.SetMeta(queuefs.Meta{Expect: []digest.Value{digest.Sum(typ, []byte(of))}}))
				if err := d.Verify(); !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", typ, err, want)
				}
			}
		}
		sub.Discard()
		if _, err := d.Reader(); err == nil {
			t.Error("a submission that is over was read")
		}
	}
}

// Whatever step fails, all jobs of the batch are there or none, and nothing is
// left over.
func TestEveryStepOfAStageFails(t *testing.T) {
	for _, way := range []struct {
		name string
		err  error
		done bool
	}{{"fails", errInjected, false}, {"no space but happened", syscall.ENOSPC, true}} {
		fired := true
		for at := 1; fired; at++ {
			f := newFaults(0, way.err)
			f.done = way.done
			dir := fastDir(t)
			o := queuefs.Options{Segment: smallSegment, Now: clock()}
			s, _ := openHome(t, dir, o)
			closeHome(t, s)
			o.Fault = f.step
			s, q := openHome(t, dir, o)
			f.lock <- struct{}{}
			f.at = f.n + at
			<-f.lock
			stage := q.Assemble(3)
			var err error
			for _, place := range []int{2, 0, 1} {
				if err == nil {
					err = put(q, stage, place, queuefs.Meta{Filename: fmt.Sprint(place)}, strings.Repeat("x", 30_000+place*60_000))
				}
			}
			var jobs []queuefs.Job
			if err == nil {
				jobs, err = stage.Commit(ctx)
			}
			stage.Discard()
			fired = f.fired()
			if err == nil && len(jobs) != 3 || err != nil && !fired {
				t.Errorf("%s at %d (%s): got %d jobs, %v", way.name, at, f.name, len(jobs), err)
			}
			s.Close() // may fail, as the storage did
			s, q = openHome(t, dir, queuefs.Options{Segment: smallSegment})
			names, listErr := q.List(queuefs.ListOptions{})
			got := ""
			for _, j := range names {
				got += j.Filename
			}
			if may := []string{"012"}; listErr != nil || !slices.Contains(may, got) && (err == nil || got != "") {
				t.Errorf("%s at %d (%s): submitting: %v, then got jobs %q, %v", way.name, at, f.name, err, got, listErr)
			}
			closeHome(t, s)
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("%s at %d (%s): left over: %q", way.name, at, f.name, left)
			}
			if !fired && at < 10 {
				t.Errorf("%s: only %d steps", way.name, at-1)
			}
		}
	}
}
