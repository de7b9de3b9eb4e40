package queuefs_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/stored"
)

// formerStore returns the store in a directory of an archive of a former version.
func formerStore(t testing.TB, archive, dir string) *objectstest.Memory {
	t.Helper()
	f, err := os.Open("../testdata/former/" + archive)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	m := new(objectstest.Memory)
	for in := tar.NewReader(z); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return m
		}
		must(t, err)
		if name, ok := strings.CutPrefix(h.Name, dir+"/"); ok {
			data, err := io.ReadAll(in)
			must(t, err)
			m.Set(name, data)
		}
	}
}

// Before small results travelled in the journal each was an object. Stores of then, one with
// all in the journal, and one with an image before the last result, are read by an owner, a
// standby, a fresh machine and a directory; they verify, and the objects go with their
// results.
func TestResultsOfAFormerVersionAreObjects(t *testing.T) {
	t.Parallel()
	const images = 8 // until objects of no use are deleted
	for _, dir := range []string{"journal", "image"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			m := formerStore(t, "results.tgz", dir)
			want := map[queuefs.JobID]map[string]string{
				1: {"log": "", "out": "of one"},
				2: {"log": "before"},
				3: {"log": "of the second attempt"},
				4: {"large": strings.Repeat("large", 10<<10)},
				5: {},
			}
			if dir == "image" {
				want[2]["out"] = "after the image"
			}
			see := func(where string, s *queuefs.Service) *queuefs.Queue {
				t.Helper()
				q, err := s.Queue("jobs")
				must(t, err)
				for id, want := range want {
					if got := resultsOf(t, q, id); !maps.Equal(got, want) {
						t.Errorf("%s: job %v has %.60q, want %.60q", where, id, got, want)
					}
				}
				return q
			}
			whole := func(where string) (files int) {
				t.Helper()
				st, err := stored.Look(context.Background(), m)
				must(t, err)
				r, err := st.Check(context.Background())
				must(t, err)
				if len(r.Faults) > 0 {
					t.Errorf("%s: %v", where, r.Faults)
				}
				return r.Files
			}
			if n := whole("as it was left"); n < 7 {
				t.Errorf("%d results are objects", n)
			}
			a := mustStored(t, fastDir(t)+"/a", m)
			see("an owner", a)
			see("a standby", standBy(t, "standby", m))
			must(t, a.Image(ctx))
			whole("with a new image")
			see("a standby of the image", standBy(t, "second", m))
			closeHome(t, a)
			b := mustStored(t, fastDir(t)+"/b", m)
			see("a fresh machine", b)
			must(t, b.Image(ctx))
			must(t, b.Image(ctx)) // nothing of the former journal is left
			whole("with new images alone")
			closeHome(t, b)
			away := copyStore(m)
			own := fastDir(t) + "/own"
			must(t, pull(own, away))
			s := local(t, own)
			see("a directory", s)
			closeHome(t, s)

			c := mustStored(t, fastDir(t)+"/c", m)
			q := see("the last owner", c)
			must(t, c.Bring(ctx))
			for id := range want {
				if len(want[id]) > 0 {
					_, err := q.Requeue(ctx, id)
					must(t, err)
					want[id] = map[string]string{}
				}
			}
			for range images {
				must(t, c.Image(ctx))
			}
			see("without results", c)
			if n := whole("without results"); n != 0 {
				t.Errorf("%d objects of results are left", n)
			}
			closeHome(t, c)
		})
	}
}
