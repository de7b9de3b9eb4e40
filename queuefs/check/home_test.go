package check_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

const segment = 1 << 20

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fastDir is a temporary directory in memory where the system has one.
func fastDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "check-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// copyHome copies a home as it stands on disk.
func copyHome(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(fastDir(t), "home")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// contents returns the digests of all files of a home, without its lock.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "cutie-lock" {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		all[rel] = "directory"
		if !d.IsDir() {
			data, e := os.ReadFile(path)
			all[rel], err = fmt.Sprintf("%x", sha256.Sum256(data)), e
		}
		return err
	}))
	return all
}

// A patient is a home with two queues alike in kind, and not in contents.
type patient struct {
	dir   string
	want  facts
	files map[string][]string // by kind, below the home
}

// facts are what a home shows, by queue or by queue/job.
type facts map[string]string

// newPatient makes a home. It is stopped in order, or else as a kill leaves it: the
// last events are in the journal alone. With own its queues have files of their own in
// the index, as homes of before.
func newPatient(t *testing.T, stopped, own bool) *patient {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	must(t, queuefs.Init(dir, queuefs.ServiceInfo{Name: "test", BaseURI: "https://cutie.example.org/", Identifier: "x"}))
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment, OwnIndex: own})
	must(t, err)
	defer func() { s.Close() }()
	for _, id := range []string{"a", "b"} {
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: id, Name: "name of " + id, Description: "first of " + id,
			CullingSize: -1, CullingAge: -1, VerifyOnRead: id == "a", Callback: callbackOf(id)})
		must(t, err)
		fill(t, s, q)
	}
	must(t, s.Checkpoint(ctx))
	for _, q := range s.Queues() {
		_, err := s.SetQueue(ctx, q.ID(), func(i *queuefs.QueueInfo) error { i.Description = "description of " + q.ID(); return nil })
		must(t, err)
		_, err = q.Requeue(ctx, 3)
		must(t, err)
		_, err = q.Delete(ctx, 9)
		must(t, err)
		submit(t, q, queuefs.Meta{Filename: "late"}, "late of "+q.ID())
		submit(t, q, queuefs.Meta{Filename: "late large"}, strings.Repeat("late "+q.ID(), 50_000))
	}
	p := &patient{want: observe(t, s)}
	if stopped {
		must(t, s.Close())
	}
	p.dir = copyHome(t, dir)
	p.files = kinds(t, p.dir)
	return p
}

func callbackOf(queue string) string { return "http://" + queue + ".example.org/secret" }

// fill gives a queue jobs of every status, with results, leases, holds, sidecars, a
// large payload, tombstones and a pack.
func fill(t *testing.T, s *queuefs.Service, q *queuefs.Queue) {
	t.Helper()
	text := func(n int) string { return strings.Repeat(fmt.Sprintf("job %d of %s\n", n, q.ID()), n) }
	for n := 1; n <= 12; n++ {
		submit(t, q, queuefs.Meta{Filename: fmt.Sprint("file", n), Sidecar: fmt.Sprintf("who: %s\nnumber: %d\n", q.ID(), n)}, text(n))
	}
	submit(t, q, queuefs.Meta{Filename: "large"}, strings.Repeat(text(13), 3000))
	taken, err := q.Take(ctx, queuefs.Take{By: "worker", Max: 4, Lease: 10 * time.Hour})
	must(t, err)
	r, err := q.NewResult(ctx, 1, taken[0].Token, "out", "text/plain", nil)
	must(t, err)
	_, err = fmt.Fprintf(r, "result of %s", q.ID())
	must(t, err)
	_, err = r.Commit(ctx)
	must(t, err)
	for i, o := range []queuefs.Outcome{queuefs.Completed, queuefs.Failed} {
		_, err := q.Conclude(ctx, queuefs.JobID(i+1), taken[i].Token, queuefs.Conclusion{Outcome: o, Message: "message of " + q.ID()})
		must(t, err)
	}
	_, err = q.Delete(ctx, 11)
	must(t, err)
	_, err = q.Delete(ctx, 12)
	must(t, err)
	_, err = q.Hold(ctx, 10, "on hold in "+q.ID())
	must(t, err)
	_, err = q.Next(ctx, "other") // 5, to be culled
	must(t, err)
	for c, err := range s.Cull(ctx, queuefs.CullOptions{Queue: q.ID(), Keep: &queuefs.Thresholds{Size: 4}}) {
		must(t, err)
		_ = c
	}
}

func submit(t testing.TB, q *queuefs.Queue, m queuefs.Meta, payload string) {
	t.Helper()
	s := q.Begin()
	defer s.Discard()
	u, err := s.Add(m)
	must(t, err)
	_, err = u.Write([]byte(payload))
	must(t, err)
	_, err = s.Commit(ctx)
	must(t, err)
}

// observe reads all that the service shows.
func observe(t testing.TB, s *queuefs.Service) facts {
	t.Helper()
	f := facts{}
	for _, q := range s.Queues() {
		i := q.Info()
		callback, err := q.Callback()
		if err != nil {
			callback = "error"
		}
		f[q.ID()] = fmt.Sprintf("%s|%s|%s|%v|%s", i.Identifier, i.Name, i.Description, i.VerifyOnRead, callback)
		stones, err := q.Tombstones(time.Time{}, 0)
		for _, s := range stones {
			f[q.ID()] += fmt.Sprint(" -", s.Job)
		}
		if err != nil {
			f[q.ID()] += " error"
		}
		list, err := q.List(queuefs.ListOptions{})
		must(t, err)
		for i := range list {
			f[q.ID()+"/"+list[i].ID.String()] = jobFacts(q, &list[i])
		}
	}
	return f
}

func jobFacts(q *queuefs.Queue, j *queuefs.Job) string {
	var results []string
	for _, r := range j.Results {
		_, p, err := q.Result(j.ID, r.Name)
		results = append(results, r.Name+":"+read(p, err))
	}
	p, err := q.Payload(j.ID)
	return fmt.Sprintf("%v|%s|%q|%s|%s|%s|%v|%v|%s", j.Status, j.Filename, j.Sidecar, j.HeldFor, j.Consumer, j.Message, j.Outcome, results, read(p, err))
}

func read(p *queuefs.Payload, err error) string {
	if err != nil {
		return "error"
	}
	defer p.Close()
	var b bytes.Buffer
	if _, err := p.WriteTo(&b); err != nil {
		return "error"
	}
	return fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))[:12]
}

// difference returns the names of facts that differ.
func (f facts) difference(g facts) (names []string) {
	for _, n := range slices.Sorted(maps.Keys(f)) {
		if f[n] != g[n] {
			names = append(names, n)
		}
	}
	for n := range g {
		if _, ok := f[n]; !ok {
			names = append(names, "extra "+n)
		}
	}
	return names
}

// kinds sorts the files of a home by their kind. All but published files are there.
func kinds(t testing.TB, dir string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(contents(t, dir))) {
		if st, err := os.Lstat(filepath.Join(dir, path)); errors.Is(err, fs.ErrNotExist) || st.IsDir() {
			continue
		}
		parts := strings.Split(path, "/")
		kind := path
		switch {
		case strings.HasPrefix(path, "0="):
			kind = "tag"
		case strings.HasPrefix(path, "callback-urls/"):
			kind = "callback"
		case strings.HasPrefix(path, "cutie-tmp/"):
			kind = "upload"
		case parts[0] == "queues" && len(parts) == 3:
			kind = parts[2]
		case parts[0] == "queues":
			kind = parts[2] + " file"
		case strings.HasPrefix(path, "log/index/queues/"):
			kind = "index " + map[byte]string{'p': "page", 'c': "tombstones", 'q': "queue"}[parts[4][0]]
		case strings.HasPrefix(path, "log/journal/"):
			kind = "segment"
			if strings.HasPrefix(parts[2], "cutie-tmp-") {
				kind = "spare segment"
			}
		}
		all[kind] = append(all[kind], path)
	}
	return all
}
