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

	"golang.org/x/sys/unix"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/table"
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
// last events are in the journal alone.
func newPatient(t *testing.T, stopped bool) *patient {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	must(t, home.Init(dir, home.ServiceInfo{Name: "test", BaseURI: "https://cutie.example.org/", Identifier: "x"}))
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
	must(t, err)
	defer func() { s.Close() }()
	for _, id := range []string{"a", "b"} {
		q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: id, Name: "name of " + id, Description: "first of " + id,
			CullingSize: -1, CullingAge: -1, VerifyOnRead: id == "a", Callback: callbackOf(id)})
		must(t, err)
		fill(t, s, q)
	}
	must(t, s.Checkpoint(ctx))
	for _, q := range s.Queues() {
		_, err := s.SetQueue(ctx, q.ID(), func(i *home.QueueInfo) error { i.Description = "description of " + q.ID(); return nil })
		must(t, err)
		_, err = q.Requeue(ctx, 3)
		must(t, err)
		_, err = q.Delete(ctx, 9)
		must(t, err)
		submit(t, q, job.Meta{Filename: "late"}, "late of "+q.ID())
		submit(t, q, job.Meta{Filename: "late large"}, strings.Repeat("late "+q.ID(), 50_000))
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
		submit(t, q, job.Meta{Filename: fmt.Sprint("file", n), Sidecar: fmt.Sprintf("who: %s\nnumber: %d\n", q.ID(), n)}, text(n))
	}
	submit(t, q, job.Meta{Filename: "large"}, strings.Repeat(text(13), 3000))
	taken, err := q.Take(ctx, queuefs.Take{By: "worker", Max: 4, Lease: 10 * time.Hour})
	must(t, err)
	r, err := q.NewResult(ctx, 1, taken[0].Token, "out", "text/plain", nil)
	must(t, err)
	_, err = fmt.Fprintf(r, "result of %s", q.ID())
	must(t, err)
	_, err = r.Commit(ctx)
	must(t, err)
	for i, o := range []job.Outcome{job.Completed, job.Failed} {
		_, err := q.Conclude(ctx, job.ID(i+1), taken[i].Token, job.Conclusion{Outcome: o, Message: "message of " + q.ID()})
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

func submit(t testing.TB, q *queuefs.Queue, m job.Meta, payload string) {
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
		list, err := q.List(index.Filter{})
		must(t, err)
		for i := range list {
			f[q.ID()+"/"+list[i].ID.String()] = jobFacts(q, &list[i])
		}
	}
	return f
}

func jobFacts(q *queuefs.Queue, j *job.Job) string {
	var results []string
	for _, r := range j.Results {
		_, p, err := q.Result(j.ID, r.Name)
		results = append(results, r.Name+":"+read(p, err))
	}
	p, err := q.Payload(j.ID)
	return fmt.Sprintf("%v|%s|%q|%s|%s|%s|%v|%v|%s", j.Status, j.Filename, j.Sidecar, j.HeldFor, j.Consumer, j.Message, j.Outcome, results, read(p, err))
}

func read(p *dir.Payload, err error) string {
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
		case strings.HasPrefix(path, "cutie-tmp/"):
			kind = "upload"
		case parts[0] == "queues" && len(parts) == 3:
			kind = parts[2]
		case parts[0] == "queues":
			kind = parts[2] + " file"
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

// A queue made of its files goes on after the last event that it had elsewhere, also if
// no job file is as late, and the clock here is behind.
func TestEventsOfARebuiltQueueAreAfterThoseElsewhere(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	must(t, home.Init(dir, home.ServiceInfo{Name: "test", BaseURI: "https://cutie.example.org/", Identifier: "x"}))
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	open := func() *queuefs.Service {
		s, err := queuefs.Open(dir, queuefs.Options{Segment: segment, Now: func() time.Time { return clock }})
		must(t, err)
		return s
	}
	s := open()
	q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: "a", CullingSize: -1, CullingAge: -1})
	must(t, err)
	submit(t, q, job.Meta{}, "payload")
	clock = clock.Add(time.Hour)
	_, err = s.SetQueue(ctx, "a", func(i *home.QueueInfo) error { i.Description = "new"; return nil })
	must(t, err)
	was := q.State()
	must(t, s.Close())

	must(t, os.RemoveAll(filepath.Join(dir, "log")))
	clock = clock.Add(-30 * time.Minute)
	_, err = check.Home(dir, check.Options{Rebuild: true, Segment: segment, Now: func() time.Time { return clock },
		Last: map[string]check.Last{"a": {Seq: was.Seq, Time: was.LastEvent}}})
	must(t, err)
	s = open()
	defer s.Close()
	q, err = s.Queue("a")
	must(t, err)
	if got := q.State(); got.Seq != was.Seq || !got.LastEvent.Equal(was.LastEvent) {
		t.Errorf("the last event is %d of %v, elsewhere it was %d of %v", got.Seq, got.LastEvent, was.Seq, was.LastEvent)
	}
	j, err := q.Delete(ctx, 1)
	must(t, err)
	if got := q.State(); got.Seq != was.Seq+1 || !got.LastEvent.After(was.LastEvent) || !j.Deleted.After(was.LastEvent) {
		t.Errorf("job %v was deleted by event %d of %v at %v, after event %d of %v", j.ID, got.Seq, got.LastEvent, j.Deleted, was.Seq, was.LastEvent)
	}
}

// TestRepairSaysWhatItLeaves damages files that only Rebuild mends: Repair still has
// the problem, and its cure is Rebuild.
func TestRepairSaysWhatItLeaves(t *testing.T) {
	for name, text := range map[string]string{"queues.txt": "a\n", "0=cutie_0.3": ""} {
		t.Run(name, func(t *testing.T) {
			dir := twoQueues(t, true)
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			r, err := check.Home(dir, check.Options{Repair: true})
			if err != nil || len(r.Problems) != 1 || len(r.Mended) > 0 {
				t.Fatalf("got %+v, %v", r, err)
			}
			cure, ok := check.Cure(&r, nil)
			if !ok || !cure.Rebuild {
				t.Fatalf("cure: got %+v, %v", cure, ok)
			}
			for _, o := range []check.Options{cure, {}} {
				if r, err = check.Home(dir, o); err != nil || len(r.Problems) > 0 {
					t.Errorf("with %+v: got %+v, %v", o, r, err)
				}
			}
		})
	}
}

// served opens a home, and returns its queues, what was reported, and how many jobs are
// pending.
func served(t *testing.T, dir string) (ids []string, reports string, pending int64) {
	t.Helper()
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment, Report: func(p durable.Finding) { reports += p.String() + "\n" }})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	for _, q := range s.Queues() {
		ids = append(ids, q.ID())
		pending += q.State().Pending
	}
	return ids, reports, pending
}

// twoQueues is a home with a job in each of the queues a and b, stopped or killed.
func twoQueues(t *testing.T, stopped bool) string {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	must(t, home.Init(dir, home.ServiceInfo{}))
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
	must(t, err)
	defer func() { s.Close() }()
	for _, id := range []string{"a", "b"} {
		q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: id, CullingSize: -1, CullingAge: -1})
		must(t, err)
		must(t, s.Checkpoint(ctx))
		submit(t, q, job.Meta{}, "job of "+id)
	}
	if stopped {
		must(t, s.Close())
	}
	return copyHome(t, dir)
}

func TestTheListOfQueuesKeepsNoHomeShut(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		for _, tt := range []struct {
			name, list string
			queues     string // served
			told       string
			cured      string // queues after the cure
		}{
			{"added before the stop", "a\nb\nnew\n", "a b new", "", "a b new"},
			{"zeros", "a\n\x00\x00\x00\nb\n", "a b", "queues.txt: line 2: bad name", "a b"},
			{"no queue at all", "a b c\x00\n", "", "queues.txt: line 1: bad name", "a b"},
			{"reserved", "cut\na\nb", "a b", "queues.txt: line 1: bad name", "a b"},
			{"a long line", strings.Repeat("x", 100_000) + "\na\nb\n", "a b", "queues.txt: line 1: ", "a b"},
			{"short", "a\n", "a", "queues.txt: queue b is not listed, and not served", "a b"},
			{"empty", "", "", "queues.txt: queue a is not listed, and not served", "a b"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				dir := twoQueues(t, stopped)
				must(t, os.WriteFile(filepath.Join(dir, "queues.txt"), []byte(tt.list), 0o666))
				r, err := check.Home(dir, check.Options{Segment: segment})
				must(t, err)
				if (len(r.Problems) > 0) != (tt.told != "") || tt.told != "" && !strings.HasPrefix(r.Problems[0].String(), tt.told) {
					t.Errorf("check: %q", texts(r.Problems))
				}
				for range 2 { // the second time the journal was released
					ids, reports, _ := served(t, dir)
					if got := strings.Join(ids, " "); got != tt.queues || !strings.HasPrefix(reports, tt.told) {
						t.Errorf("served %q, reports %q", got, reports)
					}
				}
				if o, ok := check.Cure(&r, nil); ok {
					o.Segment = segment
					_, err = check.Home(dir, o)
					must(t, err)
				}
				ids, reports, pending := served(t, dir)
				slices.Sort(ids)
				if got := strings.Join(ids, " "); got != tt.cured || reports != "" || pending != 2 {
					t.Errorf("after the cure: %q with %d jobs, reports %q", got, pending, reports)
				}
			})
		}
	}
}

func TestAQueueWithoutItsDirectory(t *testing.T) {
	dir := twoQueues(t, true)
	must(t, os.RemoveAll(filepath.Join(dir, "queues/b")))
	if ids, reports, pending := served(t, dir); strings.Join(ids, " ") != "a" || pending != 1 || !strings.HasPrefix(reports, "queues/b: directory lost") {
		t.Errorf("served %q, %d jobs, reports %q", ids, pending, reports)
	}
	for _, o := range []check.Options{{}, {Repair: true}, {Rebuild: true, AcceptLoss: true}} { // which do not bring it back
		o.Segment = segment
		r, err := check.Home(dir, o)
		must(t, err)
		if len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0].String(), "queues/b: directory lost") || len(r.Mended) > 0 || r.Queues != 1 {
			t.Errorf("%+v: problems %q, mended %q", o, texts(r.Problems), texts(r.Mended))
		}
		if cure, ok := check.Cure(&r, nil); ok {
			t.Errorf("a check with %+v is to cure it", cure)
		}
	}
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
	must(t, err)
	must(t, errors.Join(s.RemoveLost(ctx, "b"), s.Close()))
	if r, err := check.Home(dir, check.Options{Segment: segment}); err != nil || len(r.Problems) > 0 || r.Queues != 1 {
		t.Errorf("after its removal: %+v, %v", r, err)
	}
}

// A home that nobody has opened yet has no journal, and is whole.
func TestAHomeJustMadeIsWhole(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	must(t, home.Init(dir, home.ServiceInfo{}))
	for range 2 {
		r, err := check.Home(dir, check.Options{Segment: segment})
		must(t, err)
		if len(r.Problems) > 0 {
			t.Errorf("got %q", texts(r.Problems))
		}
		s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
		must(t, err)
		must(t, s.Close())
	}
}

// A job whose file is spoilt while a consumer has it, is on hold after its lease, and is
// given to nobody else. The spoilt file is kept.
func TestASpoiltJobFileUnderALease(t *testing.T) {
	dir, now := filepath.Join(fastDir(t), "home"), time.Now()
	must(t, home.Init(dir, home.ServiceInfo{}))
	var reports []string
	o := queuefs.Options{Segment: segment, Now: func() time.Time { return now }, Report: func(p durable.Finding) { reports = append(reports, p.String()) }}
	for _, restart := range []bool{false, true} {
		s, err := queuefs.Open(dir, o)
		must(t, err)
		q, err := s.CreateQueue(ctx, home.QueueInfo{Identifier: map[bool]string{false: "a", true: "b"}[restart], CullingSize: -1, CullingAge: -1})
		must(t, err)
		for range 2 {
			submit(t, q, job.Meta{Sidecar: "to be lost"}, "payload")
		}
		_, err = q.Take(ctx, queuefs.Take{Lease: time.Minute})
		must(t, err)
		must(t, s.Checkpoint(ctx))
		base := filepath.Join(dir, "queues", q.ID())
		must(t, os.WriteFile(filepath.Join(base, "consumed/j000000000001"), []byte("spoilt"), 0o666))
		if restart {
			must(t, s.Close())
			s, err = queuefs.Open(dir, o)
			must(t, err)
			q, err = s.Queue("b")
			must(t, err)
		}
		now = now.Add(time.Hour)
		must(t, s.Expire(ctx))
		taken, err := q.Take(ctx, queuefs.Take{Max: 9})
		if err != nil || len(taken) != 1 || taken[0].ID != 2 {
			t.Errorf("got %v, %v", taken, err)
		}
		if j, err := q.Job(1); err != nil || j.Held.IsZero() || j.Status != job.Pending || !strings.HasPrefix(j.HeldFor, "job file lost or damaged") {
			t.Errorf("got %+v, %v", j, err)
		}
		if kept, err := os.ReadFile(filepath.Join(base, "corrupt/consumed-j000000000001")); string(kept) != "spoilt" {
			t.Errorf("kept %q, %v", kept, err)
		}
		if !slices.ContainsFunc(reports, func(r string) bool { return strings.HasPrefix(r, "queues/"+q.ID()+"/consumed/j000000000001: ") }) {
			t.Errorf("reports %q", reports)
		}
		must(t, s.Close())
	}
}

// An index that says other payloads than job files and payloads do is wrong: they agree.
func TestPayloadsThatTheirJobFilesNameAreGood(t *testing.T) {
	p := newPatient(t, true)
	dir := copyHome(t, p.dir)
	forgePage(t, dir, "a", "b")
	r, err := check.Home(dir, check.Options{Segment: segment})
	must(t, err)
	if len(r.Problems) == 0 {
		t.Fatal("nothing is found")
	}
	r, err = check.Home(dir, check.Options{Repair: true, Segment: segment})
	if err != nil || len(r.Problems) > 0 {
		t.Errorf("repair: %q, %v", texts(r.Problems), err)
	}
	if aside, err := os.ReadDir(filepath.Join(dir, "queues/b/corrupt")); err == nil {
		t.Errorf("%d files were moved, one of them %s", len(aside), aside[0].Name())
	}
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segment})
	must(t, err)
	defer s.Close()
	if d := p.want.difference(observe(t, s)); len(d) > 0 {
		t.Errorf("%q differ", d)
	}
}

// forgePage gives a queue the index page of another, under its own name.
func forgePage(t *testing.T, dir, from, to string) {
	t.Helper()
	log, err := durable.OpenDir(filepath.Join(dir, "log"), nil)
	must(t, err)
	defer log.Close()
	rows, err := table.Open(log, false)
	must(t, err)
	defer rows.Close()
	text, err := rows.Get(table.Queues, from)
	must(t, err)
	q, err := table.ParseQueue(text)
	must(t, err)
	page, err := rows.Get(table.Pages, table.PageKey(from, 0))
	must(t, err)
	x, y := index.New(from), index.New(to)
	x.SetMediaTypes(q.Types)
	y.SetMediaTypes(q.Types)
	must(t, x.LoadPage(page, 0))
	x.EachOf(0, func(id job.ID, j index.Job) {
		y.Apply(&index.Change{Standing: j.Standing, Kind: job.Update, Job: id, Seq: x.Version(id), Time: j.Changed, FileLength: j.FileLength,
			Size: j.Size, Submitted: j.Submitted, SHA256: j.SHA256, MD5: j.MD5, FileSHA256: j.FileSHA256, MediaType: j.MediaType})
	})
	page, ok := y.AppendPage(nil, 0)
	if !ok {
		t.Fatal("no page")
	}
	rows.Put(table.Pages, table.PageKey(to, 0), page)
	must(t, rows.Commit())
}

func TestAHomeMountedForReadingCanBeChecked(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		p := newPatient(t, stopped)
		if err := unix.Mount(p.dir, p.dir, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("needs to mount a home for reading, and may not: %v", err)
		}
		t.Cleanup(func() { unix.Unmount(p.dir, unix.MNT_DETACH) })
		must(t, unix.Mount("", p.dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		r, err := check.Home(p.dir, check.Options{Segment: segment})
		if err != nil || len(r.Problems) > 0 || r.Jobs != 28 {
			t.Errorf("got %d jobs, %q, %v", r.Jobs, texts(r.Problems), err)
		}
	}
}
