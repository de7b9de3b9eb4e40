package queuefs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/testdata/tmpfs"
)

// A world is what a home should hold: the jobs of each queue. Tests keep one
// beside the engine, change it by what was acknowledged, and compare all of it.
type world map[string]jobs

type jobs struct {
	last job.ID // highest number given out
	byID map[job.ID]fact
}

// A fact is what must be true of a job.
type fact struct {
	status                      job.Status
	filename, sidecar, consumer string
	payload                     string
	requeues                    int
	work                        string // hold, lease, outcome and names of results; see workOf
}

func (w world) clone() world {
	c := world{}
	for name, j := range w {
		c[name] = jobs{last: j.last, byID: maps.Clone(j.byID)}
	}
	return c
}

// ids returns the jobs of a status in order.
func (w world) ids(queue string, st job.Status) (ids []job.ID) {
	for id, f := range w[queue].byID {
		if f.status == st {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// set returns a world in which a job is different.
func (w world) set(queue string, id job.ID, change func(*fact)) world {
	c := w.clone()
	f := c[queue].byID[id]
	change(&f)
	c[queue].byID[id] = f
	c[queue] = jobs{last: max(c[queue].last, id), byID: c[queue].byID}
	return c
}

func (f fact) String() string {
	p := f.payload
	if len(p) > 40 {
		p = fmt.Sprintf("%s…%d octets", p[:20], len(p))
	}
	return fmt.Sprintf("%v file=%q sidecar=%q by=%q requeues=%d work=%q payload=%q", f.status, f.filename, f.sidecar, f.consumer, f.requeues, f.work, p)
}

// difference tells in which jobs two worlds differ, "" if in none.
func (w world) difference(got world) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w)) {
		g, ok := got[name]
		if !ok {
			fmt.Fprintf(&b, "queue %s is missing\n", name)
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(w[name].byID)) {
			if have, ok := g.byID[id]; !ok {
				fmt.Fprintf(&b, "%s/%v: missing, want %v\n", name, id, w[name].byID[id])
			} else if want := w[name].byID[id]; have != want {
				fmt.Fprintf(&b, "%s/%v: got %v\n%*swant %v\n", name, id, have, len(name)+11, "", want)
			}
		}
		for id := range g.byID {
			if _, ok := w[name].byID[id]; !ok {
				fmt.Fprintf(&b, "%s/%v: got %v, want none\n", name, id, g.byID[id])
			}
		}
	}
	for name := range got {
		if _, ok := w[name]; !ok {
			fmt.Fprintf(&b, "queue %s: want none\n", name)
		}
	}
	return b.String()
}

// observe reads everything that the service shows.
func observe(t testing.TB, s *queuefs.Service) world {
	t.Helper()
	w := world{}
	for _, q := range s.Queues() {
		j := jobs{byID: map[job.ID]fact{}}
		list, err := q.List(index.Filter{Limit: 1 << 20})
		if err != nil {
			t.Errorf("list of %s: %v", q.ID(), err)
		}
		for _, job := range list {
			f := fact{status: job.Status, filename: job.Filename, sidecar: job.Sidecar, consumer: job.Consumer, requeues: job.Requeues}
			f.payload, f.work = payload(t, q, job.ID), workOf(t, q, &job)
			j.byID[job.ID] = f
			j.last = job.ID
		}
		w[q.ID()] = j
	}
	return w
}

// A follower keeps the events of all queues, as a publisher does. What it has
// kept when Synced is called is never asked for again.
type follower struct {
	t      testing.TB
	s      *queuefs.Service
	seen   map[string][]job.Event // of each queue, the first is the one after [ledger.State].Before
	synced map[string]int
}

func newFollower(t testing.TB) *follower {
	return &follower{t: t, seen: map[string][]job.Event{}, synced: map[string]int{}}
}

// follow begins anew with what was synced.
func (f *follower) follow(s *queuefs.Service) {
	for name, n := range f.synced {
		f.seen[name] = f.seen[name][:n]
	}
	f.s = s
	s.Follow(f)
}

func (f *follower) Flush() error {
	for _, q := range f.s.Queues() {
		f.read(q)
	}
	return nil
}

func (f *follower) Synced() error {
	for name, events := range f.seen {
		f.synced[name] = len(events)
	}
	return nil
}

// read takes in what has happened since the last time.
func (f *follower) read(q *queuefs.Queue) []job.Event {
	f.t.Helper()
	for {
		all := f.seen[q.ID()]
		some, err := q.Events(q.State().Before+job.Seq(len(all)), 7)
		if err != nil {
			f.t.Errorf("events of %s after %d: %v", q.ID(), len(all), err)
			return all
		}
		if len(some) == 0 {
			return all
		}
		f.seen[q.ID()] = append(all, some...)
	}
}

// check reads all events of a queue: they are numbered without gaps, their
// time grows, and replaying them gives what the queue shows.
func (f *follower) check(q *queuefs.Queue) {
	t := f.t
	t.Helper()
	events := f.read(q)
	stands := map[job.ID]job.Status{}
	var last time.Time
	before := q.State().Before
	for i, e := range events {
		if e.Seq != before+job.Seq(i+1) || !e.Time.After(last) {
			t.Fatalf("%s: event %d after %d: got %d at %v after %v", q.ID(), i+1, before, e.Seq, e.Time, last)
		}
		if e.From != stands[e.Job] {
			t.Errorf("%s: event %d: %v of %v from %v, it was %v", q.ID(), e.Seq, e.Kind, e.Job, e.From, stands[e.Job])
		}
		last, stands[e.Job] = e.Time, e.To
	}
	st := q.State()
	if st.Seq != before+job.Seq(len(events)) {
		t.Errorf("%s: got %d events after %d, state says %d", q.ID(), len(events), before, st.Seq)
	}
	counts := map[job.Status]int64{}
	for id, status := range stands {
		if got, _ := q.Status(id); got != status {
			t.Errorf("%s: events leave %v %v, got %v", q.ID(), id, status, got)
		}
		counts[status]++
	}
	if st.Pending != counts[job.Pending] || st.Consumed != counts[job.Consumed] || st.Deleted != counts[job.Deleted] {
		t.Errorf("%s: got %+v, events leave %v", q.ID(), st, counts)
	}
}

// files returns the directories of the queues as the world has them.
func (w world) files() string {
	var names []string
	for name, j := range w {
		names = append(names, name+"/queue-info.txt")
		for id, f := range j.byID {
			names = append(names, name+"/payload/"+id.String(), name+"/"+f.status.String()+"/"+id.String())
			for _, r := range resultsIn(f.work) {
				names = append(names, name+"/result/"+id.String()+"/"+r)
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, "\n")
}

// leftovers lists unfinished files of a home that nobody has open. Spare
// segments of the journal wait for their use.
func leftovers(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasPrefix(d.Name(), "cutie-tmp-") && !strings.HasPrefix(d.Name(), "cutie-tmp-spare-") {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, rel)
		}
		return err
	})
	must(t, err)
	return names
}

// A verifier tests a home that was left in whatever state.
type verifier struct {
	testing.TB
	dir     string
	o       queuefs.Options
	f       *follower
	damaged bool // storage was: something may be reported and set aside
}

// verify opens the home, and tests that it holds one of the worlds, that it
// goes on working, and that nothing is left over after a clean stop.
func (v *verifier) verify(may ...world) {
	t, dir, o, f := v.TB, v.dir, v.o, v.f
	t.Helper()
	var problems []string
	o.Fault, o.Report = nil, func(p durable.Finding) { problems = append(problems, p.String()) }
	s, err := queuefs.Open(dir, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	f.follow(s)
	got := observe(t, s)
	is := slices.IndexFunc(may, func(w world) bool { return w.difference(got) == "" })
	if is < 0 {
		for i, w := range may {
			t.Errorf("outcome %d: %s", i, w.difference(got))
		}
		s.Close()
		return
	}
	w := may[is]
	for _, q := range s.Queues() {
		f.check(q)
		ids := w.ids(q.ID(), job.Pending)
		if got := q.IDs(index.Filter{Status: job.Pending}); !slices.Equal(got, ids) {
			t.Errorf("%s: order: got %v want %v", q.ID(), got, ids)
		}
		j := submit(t, q, job.Meta{Filename: "after"}, "after")
		if j.ID <= w[q.ID()].last {
			t.Errorf("%s: got %v, given out before", q.ID(), j.ID)
		}
		w = w.set(q.ID(), j.ID, func(f *fact) { *f = fact{status: job.Pending, filename: "after", payload: "after"} })
		ids = slices.DeleteFunc(append(ids, j.ID), func(id job.ID) bool { return strings.HasPrefix(w[q.ID()].byID[id].work, "held") })
		if j, err := q.Next(ctx, "v"); err != nil || j.ID != ids[0] {
			t.Errorf("%s: next: got %v, %v want %v", q.ID(), j.ID, err, ids[0])
		}
		w = w.set(q.ID(), ids[0], func(f *fact) { f.status, f.consumer, f.work = job.Consumed, "v", taken(f.work) })
		f.check(q)
	}
	closeHome(t, s)
	v.checkFiles(w)
	if len(problems) > 0 && !v.damaged {
		t.Errorf("reported %q", problems)
	}
}

// checkFiles tests that a closed home has the files of the world and no other.
func (v *verifier) checkFiles(w world) {
	t := v.TB
	t.Helper()
	unlisted := func(path string) bool {
		in, under := strings.CutPrefix(path, "queues/")
		queue, _, _ := strings.Cut(in, "/")
		_, listed := w[queue]
		return under && !listed
	}
	var got []string
	for name := range strings.Lines(tree(t, v.dir)) {
		name = strings.TrimSpace(name)
		// An empty queue that is not listed came of a creation that failed.
		if strings.Contains(name, "/j0") || !unlisted("queues/"+name) {
			got = append(got, name)
		}
	}
	if v.damaged {
		got = slices.DeleteFunc(got, func(name string) bool { return strings.Contains(name, "/corrupt/") })
	}
	if got, want := strings.Join(got, "\n"), w.files(); got != want {
		t.Errorf("files: got\n%s\nwant\n%s", got, want)
	}
	if left := slices.DeleteFunc(leftovers(t, v.dir), unlisted); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	checkHome(t, v.dir, check.Options{Segment: v.o.Segment, Now: v.o.Now})
}

// fastDir is a temporary directory in memory where the system has one: for
// tests that write much and do not need the storage to be real.
func fastDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "queuefs-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// copyHome copies a home as it stands on disk, as if the machine had stopped
// at this instant and all that was written is there.
func copyHome(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(fastDir(t), "copy")
	buf := copies.Get().(*bytes.Buffer)
	defer copies.Put(buf)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		target := filepath.Join(to, rel)
		unfinished := strings.HasPrefix(filepath.Base(name), "cutie-tmp-") // may have its name by now
		switch {
		case errors.Is(err, fs.ErrNotExist) && unfinished:
			return nil
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(target, 0o777)
		case !d.Type().IsRegular():
			return nil
		}
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) && unfinished {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		buf.Reset()
		if _, err := buf.ReadFrom(f); err != nil {
			return err
		}
		return writeSparse(target, buf.Bytes())
	})
	must(t, err)
	return to
}

// copies holds the files on their way to a copy.
var copies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// writeSparse writes a file without the zeros at its end: a segment is mostly room for
// what is to come, and copies of it lie in memory.
func writeSparse(name string, data []byte) error {
	var zeros [4096]byte
	used := data
	for len(used) >= len(zeros) && bytes.Equal(used[len(used)-len(zeros):], zeros[:]) {
		used = used[:len(used)-len(zeros)]
	}
	if err := os.WriteFile(name, used, 0o666); err != nil {
		return err
	}
	return os.Truncate(name, int64(len(data)))
}

// Some tests need a process of their own: one that is killed, or that may
// never come back. They run this test binary again with childVar set.
const childVar = "QUEUEFS_TEST_CHILD"

var children = map[string]func(dir string){
	"clients": crashClients,
	"open":    openAndClose,
	"hold":    holdHome,
	"poor":    openPoor,
	"cull":    cullClients,
	"keyed":   keyedClients,
	"makers":  makeMany,
}

func TestMain(m *testing.M) {
	if child := children[os.Getenv(childVar)]; child != nil {
		child(os.Args[1])
		os.Exit(0)
	}
	tmpfs.Use()
	os.Exit(m.Run())
}

// child prepares a process that runs one of the children on a home.
func child(t testing.TB, name, dir string) *exec.Cmd {
	t.Helper()
	exe := sure(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), exe, dir)
	cmd.Env = append(os.Environ(), childVar+"="+name, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// A scenario runs every operation of a home against an engine whose steps may
// fail, and keeps the world that was acknowledged.
type scenario struct {
	t     testing.TB
	dir   string
	o     queuefs.Options
	fault *faults
	f     *follower
	skew  atomic.Int64 // by which a test turned the clock
	hasty bool         // the time for files at a stop is
	haste time.Duration

	s     *queuefs.Service
	known world
	maybe world             // outcome of the operation that was told nothing certain; nil if there is none
	last  map[string]job.ID // of queues that were removed
	moved bool              // a job was moved by hand since the home was closed
	over  bool              // nothing more can be done before the home is opened again
}

// clock returns a clock that goes on by a second at every look.
func clock() func() time.Time {
	var looks atomic.Int64
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time { return start.Add(time.Duration(looks.Add(1)) * time.Second) }
}

// do runs one operation, which makes the known world to be after. An error
// must come from a fault in this very operation; it means that nothing
// happened, unless storage failed.
func (c *scenario) do(name string, after world, op func() error) {
	if c.over {
		return
	}
	c.t.Helper()
	before := c.fault.fired()
	err := op()
	for tries := 0; errors.Is(err, ledger.ErrNoSpace) && !errors.Is(err, ledger.ErrFailed) && c.fault.fired() && !c.fault.stops; tries++ {
		// There is room again. What was refused works once files have caught up.
		before = true
		if e := c.s.Maintain(ctx); e != nil || tries > 0 {
			c.t.Fatalf("%s: %v, then %v", name, err, e)
		}
		err = op()
	}
	switch {
	case err == nil:
		c.known = after
	case before == c.fault.fired() && !c.fault.stops:
		c.t.Fatalf("%s: %v, though no step failed in it", name, err)
	case errors.Is(err, ledger.ErrFailed):
		c.maybe, c.over = after, true
		if c.s != nil && c.s.Err() == nil {
			c.t.Errorf("%s: %v, but the service does not know", name, err)
		}
	case c.fault.stops:
		c.maybe, c.over = after, true
	}
}

func (c *scenario) open() {
	before := c.fault.fired()
	s, err := queuefs.Open(c.dir, c.o)
	if err != nil && !before && c.fault.fired() && !c.fault.stops {
		s, err = queuefs.Open(c.dir, c.o) // what failed once works the second time
	}
	switch {
	case err == nil:
		c.s = s
		c.f.follow(s)
	case c.fault.stops:
		c.over = true
	default:
		c.t.Fatalf("open: %v", err)
	}
}

// close ends the service. Its failure loses nothing.
func (c *scenario) close() {
	if c.s == nil {
		return
	}
	before := c.fault.fired()
	if c.hasty {
		c.s.StopWithin(c.haste)
	}
	if err := c.s.Close(); err != nil && before && !c.fault.stops && c.s.Err() == nil {
		c.t.Errorf("close: %v", err)
	}
	c.s = nil
}

func (c *scenario) queue(name string) *queuefs.Queue {
	q, err := c.s.Queue(name)
	if err != nil {
		c.t.Fatal(err)
	}
	return q
}

func (c *scenario) create(name string) {
	after := c.known.clone()
	after[name] = jobs{last: c.last[name], byID: map[job.ID]fact{}}
	op := func() error {
		_, err := c.s.CreateQueue(ctx, home.QueueInfo{Identifier: name, CullingSize: -1, CullingAge: -1, MaxAttempts: 3})
		return err
	}
	known := c.known
	c.do("create", after, op)
	if !c.over && c.known.difference(known) == "" {
		// An empty queue that nobody was told of may be there.
		c.do("create again", after, op)
	}
	if c.over && c.maybe == nil {
		c.maybe = after
	}
}

// submit adds one job for each size.
func (c *scenario) submit(name string, sizes ...int) {
	if c.over {
		return
	}
	q, after := c.queue(name), c.known.clone()
	id := after[name].last
	var payloads []string
	for i, size := range sizes {
		id++
		payloads = append(payloads, strings.Repeat(fmt.Sprintf("%d of %v;", i, id), size/7+1)[:size])
		after = after.set(name, id, func(f *fact) {
			*f = fact{status: job.Pending, filename: fmt.Sprint("f", size), sidecar: fmt.Sprint("line\n", id), payload: payloads[i]}
		})
	}
	c.do(fmt.Sprint("submit ", sizes), after, func() error {
		s := q.Begin()
		defer s.Discard()
		for i, p := range payloads {
			d, err := s.Add(job.Meta{Filename: fmt.Sprint("f", len(p)), Sidecar: fmt.Sprint("line\n", after[name].last-job.ID(len(sizes)-1-i)), MediaType: fmt.Sprint("text/x-", len(p))})
			if err != nil {
				return err
			}
			if _, err := io.WriteString(d, p); err != nil {
				return err
			}
		}
		_, err := s.Commit(ctx)
		return err
	})
}

// next takes up to n jobs.
func (c *scenario) next(name string, n int) {
	if c.over {
		return
	}
	q, after := c.queue(name), c.known
	want := after.ids(name, job.Pending)
	want = want[:min(n, len(want))]
	for _, id := range want {
		after = after.set(name, id, func(f *fact) { f.status, f.consumer = job.Consumed, "worker" })
	}
	c.do("next", after, func() error {
		jobs, err := q.NextN(ctx, "worker", n)
		if errors.Is(err, ledger.ErrEmpty) && len(want) == 0 {
			return nil
		}
		if got := idsOf(jobs); err == nil && !slices.Equal(got, want) {
			c.t.Errorf("next: got %v want %v", got, want)
		}
		return err
	})
}

func idsOf(jobs []job.Job) (ids []job.ID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// delete deletes the last pending job, requeue the first one of st.
func (c *scenario) delete(name string) {
	ids := c.known.ids(name, job.Pending)
	if c.over || len(ids) == 0 {
		return
	}
	id := ids[len(ids)-1]
	q := c.queue(name)
	c.do("delete", c.known.set(name, id, func(f *fact) { f.status = job.Deleted }), func() error {
		_, err := q.Delete(ctx, id)
		return err
	})
}

func (c *scenario) requeue(name string, st job.Status) {
	ids := c.known.ids(name, st)
	if c.over || len(ids) == 0 {
		return
	}
	q := c.queue(name)
	c.do("requeue", c.known.set(name, ids[0], func(f *fact) { f.status, f.consumer, f.requeues = job.Pending, "", f.requeues+1 }), func() error {
		_, err := q.Requeue(ctx, ids[0])
		return err
	})
}

func (c *scenario) maintain() { c.do("maintain", c.known, func() error { return c.s.Maintain(ctx) }) }
func (c *scenario) checkpoint() {
	c.do("checkpoint", c.known, func() error { return c.s.Checkpoint(ctx) })
}

// run is the scenario: everything a home can do, over two lives, so that every
// kind of step is taken with files behind the journal and without.
func (c *scenario) run() {
	c.known = world{}
	life := func(ops func()) {
		if c.over {
			return
		}
		if c.open(); !c.over {
			ops()
		}
		c.close()
	}
	life(func() {
		c.create("jobs")
		c.submit("jobs", 10)
		c.submit("jobs", 200<<10)
		c.submit("jobs", 0, 3000, 20<<10, 5)
		c.next("jobs", 1)
		c.maintain()
		c.next("jobs", 2)
		c.delete("jobs")
		c.checkpoint()
		c.requeue("jobs", job.Consumed)
		c.requeue("jobs", job.Deleted)
		c.maintain()
		c.submit("jobs", 6000)
		c.create("other")
		c.submit("other", 6000, 100)
	})
	life(func() {
		c.submit("jobs", 6000, 6000, 6000)
		c.next("other", 5)
		c.next("jobs", 1)
		c.submit("jobs", 6000, 6000, 6000)
		c.checkpoint()
		c.delete("jobs")
		c.submit("other", 150<<10, 1)
		c.maintain()
		c.requeue("other", job.Consumed)
		c.next("jobs", 100)
		c.checkpoint()
		c.submit("jobs", 6000, 6000, 6000)
	})
}

// outcomes are the worlds that may be there when the home is opened again.
func (c *scenario) outcomes() []world {
	if c.maybe == nil {
		return []world{c.known}
	}
	return []world{c.known, c.maybe}
}

// faults make one step of a scenario fail.
type faults struct {
	hook  func(step string, failed bool, do func() error) error
	at    int   // which step fails, from 1; 0 none
	err   error // with which error
	done  bool  // it is done all the same
	stops bool  // all later steps fail too: the machine has stopped

	lock chan struct{} // held while steps are counted
	n    int
	name string // of the step that failed
}

func newFaults(at int, err error) *faults {
	return &faults{at: at, err: err, lock: make(chan struct{}, 1)}
}

func (f *faults) fired() bool {
	f.lock <- struct{}{}
	defer func() { <-f.lock }()
	return f.name != ""
}

// step is a durable.Fault. A scenario makes no promise that storage keeps, so
// nothing is synced for real.
func (f *faults) step(step string, do func() error) error {
	f.lock <- struct{}{}
	f.n++
	first := f.n == f.at
	fails := first || f.stops && f.at > 0 && f.n > f.at
	if first {
		f.name = step
	}
	done, err := f.done && first, f.err // a scenario changes them for the next step
	<-f.lock
	run := do
	if step == "journal sync" || strings.HasPrefix(step, "sync") {
		run = func() error { return nil }
	}
	if f.hook != nil {
		return f.hook(step, fails, run)
	}
	if !fails {
		return run()
	}
	if done {
		run()
	}
	return fmt.Errorf("%s: %w", step, err)
}

var _ durable.Fault = (&faults{}).step

// failIf is a fault that fails the steps of which it holds.
func failIf(err error, holds func(step string) bool) durable.Fault {
	return func(step string, do func() error) error {
		if holds(step) {
			return err
		}
		return do()
	}
}

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errOf returns the error of a call with a result.
func errOf[T any](_ T, err error) error { return err }

// sure returns the result of a call, which ends the test if it fails.
func sure[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// should reports an error.
func should(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// wantErr reports an error that is not the one wanted; about says of what.
func wantErr(t testing.TB, err, want error, about string, args ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(about, args...), err, want)
	}
}

// expect reports a service that shows another world; about, a format and what it needs,
// says when.
func (w world) expect(t testing.TB, s *queuefs.Service, about ...any) {
	t.Helper()
	if d := w.difference(observe(t, s)); d != "" {
		if len(about) > 0 {
			d = fmt.Sprintf(about[0].(string), about[1:]...) + ": " + d
		}
		t.Error(d)
	}
}

// checkHome reports a home in which check finds anything.
func checkHome(t testing.TB, dir string, o check.Options) queuefs.CheckReport {
	t.Helper()
	r, err := check.Home(dir, o)
	if err != nil || len(r.Problems)+len(r.Mended) > 0 {
		t.Errorf("check: %v, problems %v, mended %v", err, r.Problems, r.Mended)
	}
	return r
}
