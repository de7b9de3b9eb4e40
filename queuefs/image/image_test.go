package image_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs/durable"
	"cutie/queuefs/image"
	"cutie/queuefs/objects/objectstest"
)

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func all(string) bool { return true }

func newStore(t testing.TB, m *objectstest.Memory) *image.Store {
	t.Helper()
	s, err := image.New(m, time.Millisecond)
	must(t, err)
	return s
}

func openDir(t testing.TB, path string) *durable.Dir {
	t.Helper()
	must(t, os.MkdirAll(path, 0o777))
	d, err := durable.OpenDir(path, nil)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// A home has files, and jobs of one page.
type home struct {
	files map[string]string
	jobs  map[uint64][2]string // job file and payload
	reads int
}

func (h *home) JobFile(id uint64) ([][]byte, error) {
	text, err := h.part(id, 0)
	return [][]byte{text}, err
}

func (h *home) Payload(id uint64) ([]byte, error) { return h.part(id, 1) }

func (h *home) part(id uint64, i int) ([]byte, error) {
	h.reads++
	return []byte(h.jobs[id][i]), nil
}

// noise does not shrink.
func noise(size int) string {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return string(b)
}

// whichever stands for files that may be the same.
const whichever = "*"

// write makes the image of a home. Files have not changed since the last one if same says
// so.
func (h *home) write(t testing.TB, s *image.Store, last *image.Manifest, version uint64, same ...string) *image.Manifest {
	t.Helper()
	b := s.Begin(last, image.Manifest{Journal: "j", From: 3, At: 5}, time.UnixMicro(1e12), openDir(t, t.TempDir()))
	defer b.Close()
	for path, text := range h.files {
		modified := int64(len(path)) * 1e9
		if is := b.Same(path, int64(len(text)), modified); is != slices.Contains(same, path) && !slices.Contains(same, whichever) {
			t.Errorf("%s is the same: got %v", path, is)
		} else if !is {
			must(t, b.AddFile(path, int64(len(text)), modified, strings.NewReader(text)))
		}
	}
	var jobs []image.Job
	for id := range uint64(2000) {
		if j, ok := h.jobs[id]; ok {
			jobs = append(jobs, image.Job{ID: id, Size: int64(len(j[1]))})
		}
	}
	must(t, b.AddPage("q", 7, version, jobs, h))
	m, err := b.Commit(ctx)
	must(t, err)
	must(t, s.Sweep(ctx, m, last))
	return m
}

// check compares an image, as a new process reads it, with the home.
func (h *home) check(t testing.TB, m *objectstest.Memory) {
	t.Helper()
	s := newStore(t, m)
	n, err := s.Newest(ctx)
	must(t, err)
	got, err := s.Manifest(ctx, n)
	must(t, err)
	if got.Journal != "j" || got.From != 3 || got.At != 5 {
		t.Errorf("manifest: got %+v", got)
	}
	dir := t.TempDir()
	must(t, s.Restore(ctx, got, openDir(t, dir), all))
	for path, text := range h.files {
		data, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || string(data) != text {
			t.Errorf("%s: got %d bytes, %v, want %d", path, len(data), err, len(text))
		}
		if st, err := os.Stat(filepath.Join(dir, path)); err == nil && st.ModTime().UnixNano() != int64(len(path))*1e9 {
			t.Errorf("%s has the date %v", path, st.ModTime())
		}
	}
	g := got.Page("q", 7)
	read := map[uint64][2]string{}
	for i := range g.Jobs {
		piece, err := s.Piece(ctx, got, &g.Jobs[i])
		must(t, err)
		must(t, image.Entries(piece, func(id uint64, data []byte) { read[id] = [2]string{string(data)} }))
	}
	for i := range g.Payloads {
		piece, err := s.Piece(ctx, got, &g.Payloads[i].Piece)
		must(t, err)
		must(t, image.Entries(piece, func(id uint64, data []byte) {
			if j, ok := read[id]; ok {
				read[id] = [2]string{j[0], string(data)}
			}
		}))
	}
	if fmt.Sprint(read) != fmt.Sprint(h.jobs) {
		t.Errorf("jobs differ: got %d, want %d", len(read), len(h.jobs))
	}
}

func size(m *objectstest.Memory) (n int) {
	for _, data := range m.Objects() {
		n += len(data)
	}
	return n
}

func TestAnImageHasWhatHasChanged(t *testing.T) {
	m := new(objectstest.Memory)
	s := newStore(t, m)
	h := &home{files: map[string]string{"a": "short", "dir/empty": "", "dir/deep/grows": noise(3<<20 + 5), "z/large": noise(9 << 20)}, jobs: map[uint64][2]string{}}
	for id := range uint64(300) {
		h.jobs[id] = [2]string{fmt.Sprint("job file ", id), noise(10_000)}
	}
	first := h.write(t, s, nil, 1)
	h.check(t, m)

	was := size(m)
	h.files["dir/deep/grows"] += noise(100)
	delete(h.jobs, 7)
	h.jobs[400] = [2]string{"new", noise(1000)}
	h.reads = 0
	second := h.write(t, s, first, 2, "a", "dir/empty", "z/large")
	h.check(t, m)
	if grown := size(m) - was; grown < 1<<10 || grown > 200<<10 {
		t.Errorf("the second image takes %d bytes", grown)
	}
	if h.reads != 300+1 {
		t.Errorf("%d reads", h.reads)
	}
	h.reads = 0
	third := h.write(t, s, second, 2, "a", "dir/empty", "dir/deep/grows", "z/large")
	h.check(t, m)
	if h.reads > 0 {
		t.Errorf("%d reads for nothing", h.reads)
	}

	// What is gone takes no place for long.
	delete(h.files, "z/large")
	for id := range uint64(290) {
		delete(h.jobs, id)
	}
	last := third
	for range 4 {
		last = h.write(t, s, last, 3, whichever)
	}
	h.check(t, m)
	if got := size(m); got > 4<<20 {
		t.Errorf("%d bytes are left", got)
	}
}

// Two owners, one of them fenced, never write over each other, and the former one deletes
// nothing of the other.
func TestAFormerOwnerDeletesNothingOfTheNext(t *testing.T) {
	m := new(objectstest.Memory)
	a, b := newStore(t, m), newStore(t, m)
	h := &home{files: map[string]string{"x": "one"}}
	first := h.write(t, a, nil, 1)
	other := &home{files: map[string]string{"x": "other", "y": "three"}}
	next := other.write(t, b, first, 1)
	next = other.write(t, b, next, 1, "x", "y")
	must(t, a.Sweep(ctx, first, nil)) // it slept before
	if got, err := b.Manifest(ctx, next.Number); err != nil {
		t.Error(err)
	} else {
		must(t, b.Restore(ctx, got, openDir(t, t.TempDir()), all))
	}
	late := a.Begin(first, image.Manifest{Journal: "j"}, time.UnixMicro(1e12), openDir(t, t.TempDir()))
	defer late.Close()
	if _, err := late.Commit(ctx); !errors.Is(err, image.ErrTaken) {
		t.Errorf("a late image: got %v", err)
	}
}

// Every byte of an image that changes, and every object that is cut, swapped or gone, is
// found and named.
func TestDamageOfAnImageIsNamed(t *testing.T) {
	m := new(objectstest.Memory)
	s := newStore(t, m)
	h := &home{files: map[string]string{"a": strings.Repeat("text ", 100), "b": noise(500)}, jobs: map[uint64][2]string{1: {"job", "payload"}}}
	h.write(t, s, nil, 1)
	read := func() error {
		s := newStore(t, m)
		n, err := s.Newest(ctx)
		if err != nil || n == 0 {
			return errors.Join(err, errors.New("no image"))
		}
		got, err := s.Manifest(ctx, n)
		if err != nil {
			return err
		}
		var found error
		err = s.Check(ctx, got, func(what string, err error) { found = err }, func(string, uint64, []byte) {})
		return errors.Join(err, found)
	}
	must(t, read())
	harmless := 0 // bits of a compressed piece without a meaning
	for name, data := range m.Objects() {
		damages := map[string][]byte{"gone": nil, "empty": {}, "cut": data[:len(data)-1]}
		for range 50 {
			i := rand.IntN(len(data))
			flipped := bytes.Clone(data)
			flipped[i] ^= 1 << rand.IntN(8)
			damages[fmt.Sprint("flipped at ", i)] = flipped
		}
		for what, to := range damages {
			m.Set(name, to)
			err := read()
			var damage *image.DamageError
			switch {
			case what == "gone" && strings.HasPrefix(name, "snapshot/"):
				continue
			case err == nil && strings.HasPrefix(what, "flipped") && strings.HasPrefix(name, "image/"):
				harmless++
				continue
			}
			if !errors.As(err, &damage) || damage.Name != name {
				t.Errorf("%s %s: got %v", name, what, err)
			}
		}
		m.Set(name, data)
	}
	if harmless > 10 {
		t.Errorf("%d changes were not found", harmless)
	}
}
