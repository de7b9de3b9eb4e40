package publisher_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/publisher"
	"cutie/queuefs"
	queuedir "cutie/queuefs/dir"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/sitemap"
)

// setDumps gives the queue sets with dumps.
func setDumps(s *source, sets string) {
	s.Helper()
	_, err := s.svc.SetQueue(context.Background(), "jobs", func(i *home.QueueInfo) error { i.Dumps = sets; return nil })
	must(s, err)
}

func TestSetsWithoutDumps(t *testing.T) {
	for _, tt := range []struct {
		source, queue    string
		pending, replica bool
	}{
		{"", "", true, true},
		{"replica", "", false, true},
		{"replica", "pending", true, false},
		{"none", "pending, replica", true, true},
		{"none", "", false, false},
		{"", "none", false, false},
	} {
		s := newSource(t, publisher.Options{MaxEntries: 12, Dumps: tt.source}, "jobs")
		q := s.queue("jobs")
		setDumps(s, tt.queue)
		for round := range 4 {
			activity(s, q, round)
			must(t, s.pub.Flush())
		}
		must(t, s.pub.Publish(context.Background()))
		for set, want := range map[string]bool{"pending": tt.pending, "replica": tt.replica} {
			zips, err := filepath.Glob(filepath.Join(s.dir, "resourcesync", "jobs", set, "*.zip*"))
			must(t, err)
			if got := len(zips) > 0; got != want {
				t.Errorf("%q, queue %q: packages of %s: %q", tt.source, tt.queue, set, zips)
			}
			for _, e := range s.document(newMirror(s, "jobs", set).list).entries {
				if !want && (e.Capability == sitemap.ChangeDump || e.Capability == sitemap.ResourceDump) {
					t.Errorf("%q, queue %q: %s has a %s", tt.source, tt.queue, set, e.Capability)
				}
			}
		}
		m := newMirror(s, "jobs", "replica")
		m.since = q.Info().Created
		m.incremental(nil)
		m.compare(q)
		if len(s.problems) > 0 {
			t.Errorf("problems: %q", s.problems)
		}
	}
}

// Dumps may end and begin in the middle of a list.
func TestDumpsEndAndBegin(t *testing.T) {
	s := newSource(t, publisher.Options{MaxEntries: 30}, "jobs")
	q := s.queue("jobs")
	s.submitN(q, 3)
	must(t, s.pub.Flush())
	setDumps(s, "none")
	s.submitN(q, 3)
	must(t, s.pub.Flush())
	setDumps(s, "")
	s.submitN(q, 3)
	must(t, s.svc.Checkpoint(context.Background()))
	s.crash()
	q = s.queue("jobs")
	for round := range 8 {
		activity(s, q, round)
	}
	s.settle()
	for _, set := range []string{"pending", "replica"} {
		m := newMirror(s, "jobs", set)
		m.since = q.Info().Created
		m.dumps()
		m.incremental(nil)
		m.compare(q)
	}
	if len(s.problems) > 0 {
		t.Errorf("problems: %q", s.problems)
	}
}

// TestAPackageIsNotListedBeforeItIsComplete looks at all packages after each step of the
// work, and after a crash there.
func TestAPackageIsNotListedBeforeItIsComplete(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for steps := range 12 {
		s := newSource(t, publisher.Options{MaxEntries: 30}, "jobs")
		q := s.queue("jobs")
		for round := range 6 {
			activity(s, q, round)
		}
		must(t, s.pub.Flush())
		for range steps {
			s.pub.Tick(stopped)
		}
		whole := func() {
			for _, set := range []string{"pending", "replica"} {
				m := newMirror(s, "jobs", set)
				m.since = q.Info().Created
				m.dumps()
				m.incremental(nil)
				m.compare(q)
			}
		}
		whole()
		s.crash()
		q = s.queue("jobs")
		whole()
		s.settle()
		whole()
		if len(s.problems) > 0 {
			t.Errorf("after %d steps: problems %q", steps, s.problems)
		}
	}
}

// cull removes all processed jobs that may go, and returns how many went.
func cull(s *source, q *queuefs.Queue) (n int) {
	s.Helper()
	_, err := s.svc.SetQueue(context.Background(), q.ID(), func(i *home.QueueInfo) error {
		i.CullingSize, i.CullingAge = 0, 0
		return nil
	})
	must(s, err)
	for _, err := range s.svc.Cull(context.Background(), queuefs.CullOptions{Queue: q.ID()}) {
		must(s, err)
		n++
	}
	return n
}

// packed returns the entries of all packages of a set: those with a bitstream,
// and how many there are in all.
func packed(s *source, set string) (paths map[string]bool, entries int) {
	s.Helper()
	paths = map[string]bool{}
	m := newMirror(s, "jobs", set)
	for _, e := range m.capability(sitemap.ChangeDump).entries {
		d, _ := openPackage(m, s.body(e.Loc))
		for _, c := range d.entries {
			entries++
			if c.Path != "" {
				paths[c.Loc] = true
			} else if c.Change != sitemap.Deleted {
				s.Errorf("%s: %s %s without its bitstream", e.Loc, c.Change, c.Loc)
			}
		}
	}
	return paths, entries
}

// Jobs culled before there is a package of them are in it all the same, and so is each job
// file that was replaced: nothing waits for packages.
func TestPackagesHaveAllFilesOfTheirLists(t *testing.T) {
	for _, crash := range []string{"no", "before packages", "before the end of a list"} {
		t.Run(crash, func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 30}, "jobs")
			q := s.queue("jobs")
			m := newMirror(s, "jobs", "replica")
			m.since = q.Info().Created
			var jobs []job.ID
			for _, j := range s.submitN(q, 6) {
				jobs = append(jobs, j.ID)
			}
			s.consume(q, 6)
			must(t, s.pub.Flush())
			if n := cull(s, q); n != 6 {
				t.Errorf("%d jobs are culled, want 6", n)
			}
			if crash == "before the end of a list" {
				must(t, s.svc.Checkpoint(context.Background()))
				s.crash()
				q = s.queue("jobs")
			}
			s.submitN(q, 20) // closes the list
			must(t, s.pub.Flush())
			if crash == "before packages" {
				s.crash()
				q = s.queue("jobs")
			}
			s.settle()
			paths, entries := packed(s, "replica")
			left := 0
			for _, st := range s.pub.State() {
				left += st.Left
			}
			// The record of the first event does not have queue-info.txt, which changed since.
			if d := newMirror(s, "jobs", "replica").lists(); left != 1 || entries+left != closedEntries(s, d) {
				t.Errorf("packages have %d entries and lack %d, closed lists have %d", entries, left, closedEntries(s, d))
			}
			for _, id := range jobs {
				for _, dir := range []string{"payload", "pending", "consumed"} {
					if loc := fmt.Sprintf("%s/queues/jobs/%s/%v", base, dir, id); !paths[loc] {
						t.Errorf("no package has %s", loc)
					}
				}
			}
			m.dumps()
			m.incremental(nil)
			m.compare(q)
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

// closedEntries returns the entries of the closed lists among lists; the last one is open.
func closedEntries(s *source, lists []sitemap.Entry) (n int) {
	for _, l := range lists[:len(lists)-1] {
		n += len(s.document(l.Loc).entries)
	}
	return n
}

func TestAJobMayBeCulledWhileItsPackageIsMade(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for steps := range 12 {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 16}, "jobs")
			q := s.queue("jobs")
			m := newMirror(s, "jobs", "replica")
			m.baseline()
			s.submitN(q, 6)
			s.consume(q, 3)
			s.submitN(q, 4)
			for range steps {
				s.pub.Tick(stopped) // one step of the work
			}
			if n := cull(s, q); n != 3 {
				t.Errorf("%d jobs are culled, want 3", n)
			}
			s.settle()
			if _, n := packed(s, "replica"); n == 0 {
				t.Error("no package is made")
			}
			m.dumps()
			m.incremental(nil)
			m.compare(q)
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

// TestAQueueMadeAgainIsPublishedAnew removes a queue that was published, with
// and without the publisher, and makes one of the same name.
func TestAQueueMadeAgainIsPublishedAnew(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"running", "crash", "without publisher"} {
		t.Run(how, func(t *testing.T) {
			s := newSource(t, publisher.Options{MaxEntries: 8}, "jobs", "other")
			q := s.queue("jobs")
			s.submitN(q, 3)
			s.consume(q, 3)
			s.settle()
			must(t, s.svc.Checkpoint(context.Background()))
			if n := cull(s, q); n != 3 {
				t.Fatalf("%d jobs are culled, want 3", n)
			}
			if how == "without publisher" {
				s.settle()
				must(t, s.svc.Close())
				must(t, s.pub.Close())
				svc, err := queuefs.Open(s.dir, queuefs.Options{Segment: 2 << 20})
				must(t, err)
				must(t, svc.RemoveQueue(context.Background(), "jobs"))
				s.svc = svc
				s.submitN(s.queue("jobs"), 2)
				s.consume(s.queue("jobs"), 2)
				s.submitN(s.queue("jobs"), 20)
				must(t, svc.Close())
				s.open()
			} else {
				must(t, s.svc.RemoveQueue(context.Background(), "jobs"))
				if d := s.document(base + "/.well-known/resourcesync"); len(d.entries) != 2 {
					t.Errorf("%d sets are described, want those of the other queue", len(d.entries))
				}
				if resp := s.get(base + "/.well-known/resourcesync/jobs/pending/capabilitylist.xml"); resp.StatusCode != 410 {
					t.Errorf("what was published of a queue that is gone: %s", resp.Status)
				}
				if how == "crash" {
					s.crash()
				}
				s.submitN(s.queue("jobs"), 2)
				s.consume(s.queue("jobs"), 2)
				s.submitN(s.queue("jobs"), 20)
			}
			q = s.queue("jobs")
			m := newMirror(s, "jobs", "replica")
			m.since = q.Info().Created
			first := uint64(0)
			m.incremental(func(e *sitemap.Entry) {
				if first == 0 {
					first = e.Seq
				}
			})
			m.compare(q)
			if before := q.State().Before; before == 0 || first != uint64(before)+1 {
				t.Errorf("the first change is of event %d, those of the former queue end at %d", first, before)
			}
			s.settle()
			if _, n := packed(s, "replica"); n == 0 {
				t.Error("no package is made")
			}
			if len(s.problems) > 0 {
				t.Errorf("problems: %q", s.problems)
			}
		})
	}
}

// TestPackagesGiveWayFirst has no free space for packages: lists go on, packages do not
// grow, culling makes space, and what is left of the files is packed when there is space.
func TestPackagesGiveWayFirst(t *testing.T) {
	for _, late := range []bool{false, true} {
		room := int64(100)
		if late {
			room = 1 << 30
		}
		s := newSource(t, publisher.Options{MaxEntries: 6, Now: still(), HasSpace: func(octets int64) bool { return octets <= room }}, "jobs")
		q := s.queue("jobs")
		m := newMirror(s, "jobs", "replica")
		m.baseline()
		s.submit(q, slices.Repeat([]string{strings.Repeat("payload", 5_000)}, 6)...)
		s.consume(q, 4)
		must(t, s.pub.Flush())
		room = 1000
		for range 3 {
			if err := s.pub.Tick(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("got %v, want %v", err, syscall.ENOSPC)
			}
		}
		if paths, _ := packed(s, "replica"); len(paths) > 0 {
			t.Errorf("packages have %d files", len(paths))
		}
		for _, st := range s.pub.State() {
			if !errors.Is(st.Err, syscall.ENOSPC) {
				t.Errorf("late %v: %v: %v", late, st.Set, st.Err)
			}
		}
		if n := cull(s, q); n != 4 {
			t.Errorf("%d jobs are culled where there is no room for packages of them, want 4", n)
		}
		room = 1 << 30
		s.untilMade()
		if paths, _ := packed(s, "replica"); len(paths) == 0 {
			t.Error("there is room, and no package")
		}
		m.dumps()
		m.incremental(nil)
		m.compare(q)
		if len(s.problems) > 0 {
			t.Errorf("late %v: problems: %q", late, s.problems)
		}
	}
}

// TestPackagesForReadersOfZIP packs payloads of all sizes that matter, of a type that is likely
// to shrink and of one that is not. The manifest comes first, and all is read by others.
func TestPackagesForReadersOfZIP(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	q := s.queue("jobs")
	noise := rand.NewChaCha8([32]byte{1})
	want := map[string]uint16{} // method by contents
	add := func(text, mediaType string, method uint16) {
		sub := q.Begin()
		d, err := sub.Add(job.Meta{MediaType: mediaType})
		must(t, err)
		_, err = io.WriteString(d, text)
		must(t, err)
		_, err = sub.Commit(context.Background())
		must(t, err)
		want[text] = method
	}
	for _, size := range []int{0, 4095, 4096, 5000, 1 << 20, 1<<20 + 1, 3 << 20} {
		random := make([]byte, size)
		noise.Read(random)
		words := strings.Repeat("word ", size/5+1)[:size]
		deflated := zip.Deflate
		if size < 4096 {
			deflated = zip.Store
		}
		add(words, "text/plain", deflated)
		add(string(random), "text/plain", deflated)
		add(string(random[:size/2])+words[size/2:], "application/octet-stream", zip.Store)
	}
	for range 200 {
		add(strings.Repeat("a small one ", 350)+string(rune('a'+len(want)%26))+strings.Repeat("x", len(want)), "text/plain", zip.Deflate)
	}
	must(t, s.pub.Publish(context.Background()))
	m := newMirror(s, "jobs", "pending")
	m.dump()
	m.compare(q)
	seen := map[string]bool{}
	for _, e := range m.capability(sitemap.ResourceDump).entries {
		data := s.body(e.Loc)
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		must(t, err)
		if z.File[0].Name != "manifest.xml" || !strings.HasPrefix(string(data[30:]), "manifest.xml") {
			t.Errorf("the first file is %s, at its begin stands %.50q", z.File[0].Name, data)
		}
		readElsewhere(t, data)
		for _, f := range z.File[1:] {
			r, err := f.Open()
			must(t, err)
			text, err := io.ReadAll(r)
			must(t, err)
			method, ok := want[string(text)]
			if seen[string(text)] = true; !ok || f.Method != method {
				t.Errorf("%s of %d octets has method %d, want %d (%v)", f.Name, len(text), f.Method, method, ok)
			}
		}
	}
	if len(seen) != len(want) {
		t.Errorf("%d payloads, want %d", len(seen), len(want))
	}
}

// readElsewhere has a package read by other programs, as far as there are any.
func readElsewhere(t *testing.T, data []byte) {
	path := filepath.Join(t.TempDir(), "p.zip")
	must(t, os.WriteFile(path, data, 0o600))
	for _, tool := range [][]string{{"unzip", "-tq", path}, {"python3", "-m", "zipfile", "-t", path}} {
		if _, err := exec.LookPath(tool[0]); err != nil {
			continue
		}
		out, err := exec.Command(tool[0], tool[1:]...).CombinedOutput()
		if err != nil || strings.Contains(string(out), "corrupt") {
			t.Errorf("%v: %v\n%s", tool, err, out)
		}
	}
}

// TestCopiesOfManifestsAreMadeOnce spoils packages when each copy was asked for
// in gzip: it is there as such and as text then, and nothing is read again. What
// was never asked for cannot be given, and is not given in part.
func TestCopiesOfManifestsAreMadeOnce(t *testing.T) {
	t.Parallel()
	s := newSource(t, publisher.Options{MaxEntries: 2500}, "jobs")
	s.submitN(s.queue("jobs"), 6000) // manifests of several blocks
	must(t, s.pub.Publish(context.Background()))
	m := newMirror(s, "jobs", "replica")
	var asked, never []string
	for _, c := range []sitemap.Capability{sitemap.ResourceDump, sitemap.ChangeDump} {
		for i, e := range m.capability(c).entries {
			if url := e.Link(sitemap.RelContents); i == 0 {
				never = append(never, url)
			} else {
				asked = append(asked, url)
			}
		}
	}
	if len(asked) < 2 {
		t.Fatalf("got manifests %q", asked)
	}
	want := map[string][]byte{}
	for _, url := range asked {
		want[url] = gunzip(t, read(t, s.get(url, "Accept-Encoding", "gzip")))
	}
	zips, err := filepath.Glob(filepath.Join(s.dir, "resourcesync/jobs/replica/*.zip"))
	must(t, err)
	for _, name := range zips {
		must(t, os.Truncate(name, 20_000))
	}
	for url, want := range want {
		if got := s.body(url); !bytes.Equal(got, want) {
			t.Errorf("%s: got %d octets, want %d", url, len(got), len(want))
		}
		s.checkGzip(url)
		checkRanges(s, url, want)
	}
	for _, url := range never {
		for i, coding := range []string{"identity", "gzip", "zstd"} {
			resp := s.get(url, "Accept-Encoding", coding)
			if read(t, resp); resp.StatusCode != 503 && (i == 0 || resp.StatusCode != 410) {
				t.Errorf("%s in %s, cut off: got %s", url, coding, resp.Status)
			}
		}
	}
	if told := strings.Join(s.problems, "\n"); strings.Count(told, "moved to") != len(never) || strings.Count(told, "not served") != len(never) {
		t.Errorf("problems: %q", s.problems)
	}
}

// A strained queue lets a read of a payload or a job file fail.
type strained struct {
	*queuefs.Queue
	read func() error
}

func (q *strained) Payload(id job.ID) (*queuedir.Payload, error) {
	if err := q.read(); err != nil {
		return nil, fmt.Errorf("payload of %v: %w", id, err)
	}
	return q.Queue.Payload(id)
}

func (q *strained) Pass() queuefs.Pass { return q }

// Journaled has no parts, as if no package could grow.
func (q *strained) Journaled(after job.Seq, max, size int) ([]ledger.Journaled, error) {
	events, err := q.Queue.Journaled(after, max, size)
	for i := range events {
		events[i].Text, events[i].Payload = nil, nil
	}
	return events, err
}

func (q *strained) JobFile(id job.ID, st job.Status) ([]byte, job.Facts, error) {
	if err := q.read(); err != nil {
		return nil, job.Facts{}, fmt.Errorf("job file of %v: %w", id, err)
	}
	return q.Queue.JobFile(id, st)
}

// strain is a service with the one queue.
type strain struct {
	*queuefs.Service
	q *strained
}

func (s strain) Queues() []*strained { return []*strained{s.q} }

func (s strain) Queue(name string) (*strained, error) {
	if name != s.q.ID() {
		return nil, ledger.ErrNoQueue
	}
	return s.q, nil
}

// A list is not passed over because the system was short of something when one
// of its files was to be read, whichever that was: its package is made later,
// with all that is in it. A file that cannot be read for another reason is no
// reason to try for ever.
func TestAPackageIsMadeWhenThereIsMoreOfWhatWasScarce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err    error
		scarce bool
	}{
		{syscall.EMFILE, true},
		{syscall.ENFILE, true},
		{syscall.ENOMEM, true},
		{syscall.EIO, false},
	} {
		reads := 0
		for at := 0; at <= reads; at++ { // the first time none fails
			o, forward := leaps(publisher.Options{MaxEntries: 6})
			s := newSource(t, o, "jobs")
			must(t, s.pub.Close())
			q := &strained{Queue: s.queue("jobs"), read: func() error { return syscall.EIO }}
			s.opts.Report = func(p durable.Finding) { s.problems = append(s.problems, p.String()) }
			var err error
			s.pub, err = publisher.New(strain{s.svc, q}, s.opts)
			must(t, err)
			s.svc.Follow(s.pub)
			m := newMirror(s, "jobs", "replica")
			m.baseline()
			jobs := s.submitN(q.Queue, 6)
			s.consume(q.Queue, 4)
			must(t, s.pub.Flush()) // lists are closed, no package is made
			var n atomic.Int64     // payloads are read ahead
			q.read = func() error {
				if n.Add(1) == int64(at) {
					return &fs.PathError{Op: "open", Path: "x", Err: tt.err}
				}
				return nil
			}
			for range 20 { // each makes a part of the packages
				if err = s.pub.Tick(context.Background()); err != nil {
					break
				}
			}
			forward()
			for range 100 { // on a busy machine the package takes several Ticks
				if s.pub.Tick(context.Background()) == nil {
					break
				}
			}
			s.settle()
			if at == 0 {
				reads = int(n.Load())
				continue
			}
			if tt.scarce != errors.Is(err, tt.err) {
				t.Errorf("%v at read %d: got %v", tt.err, at, err)
			}
			paths, _ := packed(s, "replica")
			missing := 0
			for _, j := range jobs {
				if !paths[fmt.Sprintf("%s/queues/jobs/payload/%v", base, j.ID)] {
					missing++
				}
			}
			if tt.scarce && (missing > 0 || len(s.problems) > 0) {
				t.Errorf("%v at read %d: no package has %d of the payloads, problems: %q", tt.err, at, missing, s.problems)
			}
			if !tt.scarce && len(s.problems) != 1 {
				t.Errorf("%v at read %d: problems: %q, want one", tt.err, at, s.problems)
			}
			if tt.scarce {
				m.dumps()
			}
			m.incremental(nil)
			m.compare(q.Queue)
		}
		if reads < 10 {
			t.Errorf("only %d reads", reads)
		}
	}
}

// A paced queue and its service say how busy the engine is, and how much of the log waits.
type paced struct {
	*queuefs.Queue
	calm bool
	kept float64
}

func (q *paced) Kept(job.Seq) float64 { return q.kept }

type pace struct {
	*queuefs.Service
	q *paced
}

func (s pace) Queues() []*paced             { return []*paced{s.q} }
func (s pace) Queue(string) (*paced, error) { return s.q, nil }
func (s pace) Calm() bool                   { return s.q.calm }
func (s *source) packages() (n int) {
	for _, st := range s.pub.State() {
		n += st.Packages
	}
	return n
}

// Packages get one slice of a Tick while the engine is busy, more the nearer the log is to its
// limit, and as many in calm. They are all made in the end, however long the load lasts.
func TestPackagesLeaveTheTimeToABurst(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	o := publisher.Options{MaxEntries: 6, Now: func() time.Time { now = now.Add(5 * time.Millisecond); return now }}
	s := newSource(t, o, "jobs")
	must(t, s.pub.Close())
	q := &paced{Queue: s.queue("jobs")}
	var err error
	s.pub, err = publisher.New(pace{s.svc, q}, s.opts)
	must(t, err)
	s.svc.Follow(s.pub)
	tick := func(calm bool, kept float64) int {
		t.Helper()
		q.calm, q.kept = calm, kept
		before := s.packages()
		must(t, s.pub.Tick(context.Background()))
		return s.packages() - before
	}
	s.submitN(q.Queue, 300) // 149 closed lists
	must(t, s.pub.Flush())
	busy, still, near, full, calm := tick(false, 0), tick(false, 0.75), tick(false, 0.8), tick(false, 2), tick(true, 0)
	if busy == 0 || still > busy+1 || near < busy+busy/2 || full < 4*near || calm < full-1 {
		t.Errorf("packages of a Tick: %d and %d in a burst, %d near the limit of the log, %d at it, %d in calm", busy, still, near, full, calm)
	}
	for range 149 {
		tick(false, 0)
	}
	if n := s.packages(); n != 149 {
		t.Errorf("%d packages of 149 lists while the load lasts", n)
	}
}
