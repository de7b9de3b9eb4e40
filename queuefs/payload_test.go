package queuefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/digest"
)

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
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if n, err := p.WriteTo(&b); n != int64(len(data)) || err != nil || b.String() != data || p.Size() != n {
				t.Errorf("%d octets: wrote %d, %v", len(data), n, err)
			}
			if end, err := p.Seek(0, io.SeekEnd); end != int64(len(data)) || err != nil {
				t.Errorf("%d octets: end at %d, %v", len(data), end, err)
			}
			if _, err := p.Seek(int64(len(data)/2), io.SeekStart); err != nil {
				t.Error(err)
			}
			if rest, err := io.ReadAll(p); err != nil || string(rest) != data[len(data)/2:] {
				t.Errorf("%d octets: the half has %d, %v", len(data), len(rest), err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	read()
	if err := s.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	read()
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{Segment: 2 << 20})
	defer closeHome(t, s)
	read()
	if _, err := q.Payload(100); !errors.Is(err, queuefs.ErrNoJob) {
		t.Errorf("got %v", err)
	}
}

// TestRightDigests gives each kind of digest before the payload, after it, and
// in the place of another kind.
func TestRightDigests(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
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
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(d, data)
				if err := d.SetMeta(queuefs.Meta{Expect: []digest.Value{right}}); err != nil {
					t.Fatal(err)
				}
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
