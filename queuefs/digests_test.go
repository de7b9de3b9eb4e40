package queuefs_test

import (
	"slices"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/digest"
)

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
		if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Digests = c.asked })); err != nil {
			t.Fatal(err)
		}
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
	closeHome(t, s)
}
