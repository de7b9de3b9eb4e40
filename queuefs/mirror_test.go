package queuefs_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/image"
	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/journal"
	"cutie/queuefs/ledger"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/replay"
	"cutie/queuefs/stored"
	"cutie/queuefs/table"
	"cutie/testdata/long"
)

// A pair is an original and its mirror.
type pair struct {
	t         testing.TB
	s, ms     *queuefs.Service
	q, mq     *queuefs.Queue
	dir, mdir string
	known     job.Seq // last event at the copy
	at        time.Time
}

var mirrored = home.Mirror{Source: "http://first.test/", List: "http://first.test/.well-known/resourcesync/jobs/replica/capabilitylist.xml"}

// newPair makes an original with some jobs, and the copy of it for a mirror.
func newPair(t testing.TB, o queuefs.Options) *pair {
	p := &pair{t: t, dir: filepath.Join(fastDir(t), "first"), mdir: filepath.Join(fastDir(t), "second")}
	p.s, p.q = openHome(t, p.dir, queuefs.Options{Now: clock()})
	t.Cleanup(func() { p.s.Close() })
	p.work(1, 30)
	p.known, p.at = p.q.Seq(), p.q.State().LastEvent
	must(t, p.s.Close())
	must(t, home.Init(p.mdir, home.ServiceInfo{Name: "second"}))
	must(t, os.CopyFS(filepath.Join(p.mdir, home.CopiesDir, "jobs", home.QueuesDir, "jobs"), os.DirFS(filepath.Join(p.dir, "queues", "jobs"))))
	p.s, p.q = openHome(t, p.dir, queuefs.Options{Now: later(p.s)})
	p.open(o)
	return p
}

// later is a clock behind all events so far.
func later(*queuefs.Service) func() time.Time {
	looks, start := 0, time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	return func() time.Time { looks++; return start.Add(time.Duration(looks) * time.Millisecond) }
}

func (p *pair) open(o queuefs.Options) {
	p.t.Helper()
	o.Segment = segmentSize
	var err error
	p.ms, err = queuefs.Open(p.mdir, o)
	must(p.t, err)
	p.t.Cleanup(func() { p.ms.Close() })
	p.mq, _ = p.ms.Queue("jobs")
}

func (p *pair) adopt() error {
	m := mirrored
	m.Event, m.At = p.known, p.at
	q, err := p.ms.Adopt(ctx, "jobs", m, nil, nil)
	if err == nil {
		p.mq = q
	}
	return err
}

// work makes n changes of all kinds at the original.
func (p *pair) work(seed uint64, n int) {
	r := rand.New(rand.NewPCG(seed, 0))
	tokens := map[job.ID]string{}
	some := func(st job.Status) job.ID {
		ids := p.q.IDs(index.Filter{Status: st})
		if len(ids) == 0 {
			return 0
		}
		return ids[r.IntN(len(ids))]
	}
	for range n {
		switch pending, consumed := some(job.Pending), some(job.Consumed); r.IntN(12) {
		case 0, 1, 2:
			size := r.IntN(2000)
			if r.IntN(8) == 0 {
				size = 300_000
			}
			submit(p.t, p.q, job.Meta{Filename: fmt.Sprint("f", size), Sidecar: "side", MediaType: "text/plain"}, strings.Repeat("x", size))
		case 3, 4:
			if taken, err := p.q.Take(ctx, queuefs.Take{By: "w", Lease: time.Hour}); err == nil {
				tokens[taken[0].ID] = taken[0].Token
			}
		case 5, 6:
			if tokens[consumed] != "" {
				putResult(p.q, consumed, tokens[consumed], fmt.Sprint("r", r.IntN(3)), fmt.Sprint("result ", n))
			}
		case 7:
			if tokens[consumed] != "" {
				p.q.Conclude(ctx, consumed, tokens[consumed], job.Conclusion{Outcome: job.Completed, Message: "done"})
			}
		case 8:
			if consumed != 0 {
				p.q.Requeue(ctx, consumed)
			}
		case 9:
			if pending != 0 {
				p.q.HoldUntil(ctx, pending, "why", p.q.State().LastEvent.Add(1000*time.Hour))
			}
		case 10:
			if pending != 0 {
				p.q.Delete(ctx, pending)
			}
		case 11:
			for range p.s.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{Size: 2}}) {
			}
			_, err := p.s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Description = fmt.Sprint(r.IntN(5)) }))
			must(p.t, err)
		}
	}
}

// events are those of the original after one, as a follower has them who asks for files
// now: others gave way to them.
func (p *pair) events(after job.Seq) (events []replay.Event, settings []byte, err error) {
	p.t.Helper()
	all, err := p.q.Events(after, 0)
	must(p.t, err)
	last := map[job.ID]int{}
	for i, e := range all {
		if e.Kind != job.Phase {
			last[e.Job] = i
		}
	}
	for i, e := range all {
		if e.Kind == job.Phase {
			continue // no list shows it
		}
		r := replay.Event{Event: e}
		st, _ := p.q.Status(e.Job)
		switch {
		case e.Job == 0 && last[0] == i:
			r.Text, _ = p.q.InfoFile()
			settings = r.Text
		case e.Job != 0 && last[e.Job] == i && st != 0:
			r.Text, _, err = p.q.JobFile(e.Job, st)
			must(p.t, err)
		}
		if e.From == 0 && st != 0 {
			text := payload(p.t, p.q, e.Job)
			if len(text) < 1000 {
				r.Data = []byte(text)
			} else {
				if r.Temp, err = p.ms.StoreFile(strings.NewReader(text), &e.Payload); err != nil {
					return nil, nil, err
				}
			}
		}
		if c := e.Results; c != nil && len(c.Came) == 1 && st != 0 {
			if _, in, err := p.q.Result(e.Job, c.Came[0].Name); err == nil {
				text, _ := io.ReadAll(in)
				in.Close()
				if sum := c.Came[0].SHA256; sha256.Sum256(text) == sum {
					name, err := p.ms.StoreFile(bytes.NewReader(text), &job.Facts{Length: c.Came[0].Size, SHA256: sum})
					if err != nil {
						return nil, nil, err
					}
					r.Results = map[string]string{c.Came[0].Name: name}
				}
			}
		}
		events = append(events, r)
	}
	return events, settings, nil
}

func (p *pair) replay() error {
	events, settings, err := p.events(p.mq.Seq())
	if err != nil || len(events) == 0 {
		return err
	}
	return p.mq.Replay(ctx, events, settings)
}

// same compares mirror and original: state, jobs, files and events.
func (p *pair) same(what string) {
	p.t.Helper()
	if d := observe(p.t, p.s).difference(observe(p.t, p.ms)); d != "" {
		p.t.Errorf("%s: %s", what, d)
	}
	a, b := p.q.State(), p.mq.State()
	b.Mirror, b.Progress, b.Since, b.Before = nil, home.Progress{}, time.Time{}, a.Before
	if b.Info.ID = a.Info.ID; !reflect.DeepEqual(a, b) {
		p.t.Errorf("%s: states\n%+v\n%+v", what, a, b)
	}
	want, err := p.q.Events(p.known, 0)
	must(p.t, err)
	got, err := p.mq.Events(p.known, 0)
	if err != nil && !errors.Is(err, ledger.ErrGone) {
		must(p.t, err)
	}
	for i := range got {
		if w := want[len(want)-len(got)+i]; !reflect.DeepEqual(got[i], w) && w.Kind != job.Phase {
			p.t.Errorf("%s: event\n got %+v\nwant %+v", what, got[i], w)
			return
		}
	}
}

func TestAMirrorHasTheEventsOfItsOriginal(t *testing.T) {
	for seed := range uint64(long.N(6, 60)) {
		p := newPair(t, queuefs.Options{Now: later(nil)})
		must(t, p.adopt())
		p.same("adopted")
		for round := range uint64(4) {
			p.work(100*seed+round, 40)
			must(t, p.replay())
			p.same(fmt.Sprint("round ", seed, round))
			if round%2 == 0 { // as after a kill, or closed in order
				p.mdir = copyHome(t, p.mdir)
			}
			closeHome(t, p.ms)
			p.open(queuefs.Options{Now: later(nil)})
			p.same(fmt.Sprint("opened again ", seed, round))
		}
		must(t, p.ms.Maintain(ctx))
		everywhere(t, p.ms, p.mdir)
		closeHome(t, p.s)
	}
}

// A mirror refuses all changes, and no deadline ends in it, until the takeover.
func TestAMirrorChangesByItsOriginalAlone(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	p := newPair(t, queuefs.Options{Now: func() time.Time { now = now.Add(time.Millisecond); return now }})
	submit(t, p.q, job.Meta{Filename: "held"}, "held")
	_, err := p.q.HoldUntil(ctx, p.q.IDs(index.Filter{Status: job.Pending})[0], "later", p.q.State().LastEvent.Add(time.Hour))
	must(t, err)
	token := takeOne(t, p.q, time.Hour)
	must(t, p.adopt())
	must(t, p.replay())
	before, q, ms := p.mq.State(), p.mq, p.ms
	id := token.ID
	for name, do := range map[string]func() error{
		"submit":  func() error { _, err := q.Begin().Add(job.Meta{}); return err },
		"take":    func() error { _, err := q.Take(ctx, queuefs.Take{}); return err },
		"wait":    func() error { _, err := q.TakeWait(ctx, queuefs.Take{Key: "k"}); return err },
		"delete":  func() error { _, err := q.Delete(ctx, id); return err },
		"requeue": func() error { _, err := q.Requeue(ctx, id); return err },
		"at end":  func() error { _, err := q.RequeueEnd(ctx, id); return err },
		"hold":    func() error { _, err := q.Hold(ctx, id, ""); return err },
		"release": func() error { _, err := q.Release(ctx, id); return err },
		"extend":  func() error { _, err := q.Extend(ctx, id, token.Token, 0); return err },
		"conclude": func() error {
			_, err := q.Conclude(ctx, id, token.Token, job.Conclusion{Outcome: job.Completed})
			return err
		},
		"result": func() error { return putResult(q, id, token.Token, "x", "x") },
		"amend":  func() error { _, err := q.Amend(ctx, id, func(*job.Job) error { return nil }); return err },
		"settings": func() error {
			_, err := ms.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Name = "x" }))
			return err
		},
		"remove": func() error { return ms.RemoveQueue(ctx, "jobs") },
		"cull": func() (err error) {
			for _, err = range ms.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}) {
			}
			return err
		},
	} {
		wantErr(t, do(), replay.ErrMirror, "%s", name)
	}
	wantErr(t, errOf(ms.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs"})), queuefs.ErrQueueExists, "create")
	must(t, ms.Expire(ctx))
	info, _ := q.InfoFile()
	must(t, os.WriteFile(filepath.Join(p.mdir, "queues/jobs/queue-info.txt"), []byte("identifier: jobs\nname: edited\n"), 0o600))
	for range 3 {
		must(t, errOf(ms.Reload(ctx)))
	}
	if after := q.State(); !reflect.DeepEqual(before, after) {
		t.Errorf("the mirror has changed:\n%+v\n%+v", before, after)
	}

	must(t, os.WriteFile(filepath.Join(p.mdir, "queues/jobs/queue-info.txt"), info, 0o600))

	// Leases and holds from before a checkpoint and a restart end, too.
	must(t, ms.Maintain(ctx))
	closeHome(t, ms)
	p.open(queuefs.Options{Now: func() time.Time { now = now.Add(time.Millisecond); return now }})
	q, ms = p.mq, p.ms
	if after := q.State(); after.Leased != before.Leased || after.Held != before.Held {
		t.Errorf("after a restart: %+v", after)
	}

	m := sure(q.Takeover(ctx, 0, 0))(t)
	if m.Last != p.q.Seq() || m.Live() {
		t.Errorf("got %+v", m)
	}
	if again, err := q.Takeover(ctx, 0, 0); err != nil || again != m {
		t.Errorf("again: got %+v, %v", again, err)
	}
	if err := q.Replay(ctx, []replay.Event{{}}, nil); err == nil {
		t.Error("events were replayed after the takeover")
	}
	must(t, ms.Expire(ctx))
	if st := q.State(); st.Leased != 0 || st.Held != 0 || st.Seq == before.Seq {
		t.Errorf("deadlines have not ended: %+v", st)
	}
	seq := q.Seq()
	if j := submit(t, q, job.Meta{}, "new"); j.Seq != seq+1 || j.ID <= id {
		t.Errorf("got %v, event %d", j.ID, j.Seq)
	}
	p.mdir = copyHome(t, p.mdir)
	closeHome(t, ms)
	p.open(queuefs.Options{})
	if p.mq.Mirror().Live() || p.mq.Seq() != seq+1 {
		t.Errorf("after a crash: %+v, event %d want %d", p.mq.Mirror(), p.mq.Seq(), seq+1)
	}
}

// Numbers of jobs of the original now gone are not given out again.
func TestNumbersGoOnAfterATakeover(t *testing.T) {
	p := newPair(t, queuefs.Options{})
	top := p.q.IDs(index.Filter{})
	must(t, p.adopt())
	must(t, errOf(p.mq.Takeover(ctx, 77, 0)))
	if j := submit(t, p.mq, job.Meta{}, ""); j.ID != 78 {
		t.Errorf("behind a job that is known by its number: got %v, the copy has up to %v", j.ID, top[len(top)-1])
	}
}

func TestHistoriesThatDiverge(t *testing.T) {
	p := newPair(t, queuefs.Options{})
	must(t, p.adopt())
	p.work(7, 20)
	events, settings, err := p.events(p.mq.Seq())
	must(t, err)
	bad := func(what string, want error, change func(e *replay.Event) bool) {
		t.Helper()
		some := append([]replay.Event{}, events...)
		for i := range some {
			if change(&some[i]) {
				break
			}
		}
		if err := p.mq.Replay(ctx, some, settings); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: got %v", what, err)
		}
		if p.mq.Seq() != p.known {
			t.Fatalf("%s: events were replayed", what)
		}
	}
	hasText := func(e *replay.Event) bool { return e.Text != nil && e.Job != 0 }
	bad("time", replay.ErrDiverged, func(e *replay.Event) bool { e.Time = p.mq.State().LastEvent; return true })
	bad("no file", nil, func(e *replay.Event) bool {
		if hasText(e) {
			e.Text = nil
			return true
		}
		return false
	})
	bad("other event", replay.ErrDiverged, func(e *replay.Event) bool {
		if hasText(e) {
			e.Text = bytes.Replace(e.Text, []byte("sequence: "), []byte("sequence: 9"), 1)
			return true
		}
		return false
	})
	bad("no job file", nil, func(e *replay.Event) bool {
		if hasText(e) {
			e.Text = []byte("nonsense")
			return true
		}
		return false
	})
	must(t, p.mq.Replay(ctx, events, settings))
	must(t, p.mq.Replay(ctx, events, settings)) // it has them
	p.same("in the end")
}

// A step of the adoption, of a replay or of the takeover that fails, or is done and cut off
// then, leaves a mirror that can go on.
func TestEveryStepOfAMirrorFails(t *testing.T) {
	type fault struct {
		at, n int
		done  bool // and then the process ends
		hit   string
	}
	step := func(f *fault) func(string, func() error) error {
		return func(step string, do func() error) error {
			if f.n++; f.n < f.at {
				return do()
			}
			if f.n > f.at {
				return errFault
			}
			if f.hit = step; f.done {
				do()
			}
			return errFault
		}
	}
	for _, done := range []bool{false, true} {
		for at := 1; ; at += long.N(3, 1) {
			f := &fault{at: 1 << 30, done: done}
			p := newPair(t, queuefs.Options{Fault: step(f)})
			f.n, f.at = 0, at
			err := p.adopt()
			p.work(uint64(at), 10)
			if err == nil {
				err = p.replay()
			}
			if err == nil {
				_, err = p.mq.Takeover(ctx, 0, 0)
			}
			p.ms.Close()
			whole := f.hit == ""
			what := fmt.Sprintf("step %d, %s, done %v: %v", at, f.hit, done, err)
			p.open(queuefs.Options{})
			if p.mq == nil {
				if m, begun := p.ms.Begun("jobs"); begun && (m.Event != p.known || !m.At.Equal(p.at)) {
					t.Errorf("%s: begun with %+v", what, m)
				}
				if err := p.adopt(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if p.mq.Mirror().Live() {
				must(t, p.replay())
				p.same(what)
				must(t, errOf(p.mq.Takeover(ctx, 0, 0)))
			} else {
				p.same(what)
			}
			submit(t, p.mq, job.Meta{}, "live")
			closeHome(t, p.s)
			closeHome(t, p.ms)
			if whole {
				break
			}
		}
	}
}

var errFault = errors.New("a step fails")

// A damaged or lost row about a mirror keeps the queue one, until a takeover writes it
// anew. So does the loss of the whole table.
func TestWithoutItsRowAMirrorStaysOne(t *testing.T) {
	for name, spoil := range map[string]func(p *pair){
		"damaged": func(p *pair) {
			changeRow(t, p.mdir, table.Mirrors, "jobs", func(d []byte) []byte { d[len(d)/2] ^= 1; return d })
		},
		"lost":       func(p *pair) { loseRow(t, p.mdir, table.Mirrors, "jobs") },
		"lost table": func(p *pair) { must(t, os.Remove(filepath.Join(p.mdir, tableFile))) },
	} {
		p := newPair(t, queuefs.Options{})
		must(t, p.adopt())
		closeHome(t, p.ms)
		spoil(p)
		r, err := check.Home(p.mdir, check.Options{Segment: segmentSize})
		if err != nil || !slices.ContainsFunc(r.Problems, func(f durable.Finding) bool {
			return f.Path == tableFile && strings.Contains(f.Text, "jobs") && f.Cure == "cutie failover mirror jobs"
		}) {
			t.Errorf("%s: check: %v, %v", name, err, r.Problems)
		}
		if name == "damaged" && len(r.Problems) != 1 {
			t.Errorf("check: %v", r.Problems)
		}
		p.open(queuefs.Options{Report: func(f durable.Finding) {
			if name == "damaged" {
				t.Errorf("reported: %v", f)
			}
		}})
		s, err := queuefs.Open(copyHome(t, p.mdir), queuefs.Options{Segment: segmentSize}) // as after a crash
		must(t, err)
		if q := sure(s.Queue("jobs"))(t); !q.Mirror().Live() {
			t.Errorf("%s: live after a crash", name)
		}
		closeHome(t, s)
		if m := p.mq.Mirror(); !m.Live() || m.Bad == "" {
			t.Errorf("%s: got %+v", name, m)
		}
		wantErr(t, errOf(p.mq.Take(ctx, queuefs.Take{})), replay.ErrMirror, "%s: take", name)
		must(t, errOf(p.mq.Takeover(ctx, 0, 0)))
		submit(t, p.mq, job.Meta{}, "live")
		closeHome(t, p.ms)
		p.open(queuefs.Options{})
		if m := p.mq.Mirror(); m.Live() || m.Bad != "" {
			t.Errorf("%s: taken over: got %+v", name, m)
		}
		closeHome(t, p.ms)
		loseRow(t, p.mdir, table.Mirrors, "jobs") // of a queue that is live
		p.open(queuefs.Options{})
		if p.mq.Mirror().Live() {
			t.Errorf("%s: live, and a mirror again without its row", name)
		}
		closeHome(t, p.ms)
		closeHome(t, p.s)
	}
}

// A mirror is removed with its jobs, and begins anew with lower numbers.
func TestAMirrorBeginsAnew(t *testing.T) {
	p := newPair(t, queuefs.Options{})
	keep := copyHome(t, filepath.Join(p.mdir, home.CopiesDir))
	must(t, p.adopt())
	p.work(5, 30)
	must(t, p.replay())
	must(t, p.ms.DropMirror(ctx, "jobs"))
	wantErr(t, errOf(p.ms.Queue("jobs")), ledger.ErrNoQueue, "after the removal")
	if _, begun := p.ms.Begun("jobs"); begun {
		t.Error("it is begun again, without a copy")
	}
	must(t, os.CopyFS(filepath.Join(p.mdir, home.CopiesDir), os.DirFS(keep)))
	must(t, p.adopt())
	if p.mq.Seq() != p.known {
		t.Errorf("got event %d, want %d", p.mq.Seq(), p.known)
	}
	must(t, p.replay())
	p.same("begun anew")
	closeHome(t, p.ms)
	p.open(queuefs.Options{})
	p.same("opened again")
	must(t, errOf(p.mq.Takeover(ctx, 0, 0)))
	wantErr(t, p.ms.DropMirror(ctx, "jobs"), job.ErrConflict, "of a live queue")
}

// An image and the journal since make the same home again, in an empty directory and on
// top of all kinds of changes; also if the files of its maker are behind it. The directory
// of the maker is gone on with after a crash.
func TestAHomeIsMadeAgainFromItsImage(t *testing.T) {
	for name, image := range map[string]func(s *queuefs.Service) error{
		"files": func(s *queuefs.Service) error { return s.Image(ctx) },
		"ahead": func(s *queuefs.Service) error { return s.ImageAhead(ctx) },
	} {
		t.Run(name, func(t *testing.T) { madeAgainFromImages(t, image) })
	}
}

func madeAgainFromImages(t *testing.T, image func(s *queuefs.Service) error) {
	m := new(objectstest.Memory)
	s := mustStored(t, fastDir(t)+"/a", m)
	workStored(t, s, "one")
	must(t, image(s))
	want := see(t, s)
	b := mustStored(t, fastDir(t)+"/b", m)
	want.check(t, see(t, b))
	workStored(t, b, "two")
	must(t, image(b))
	workStored(t, b, "three")
	must(t, errOf(b.SetQueue(ctx, "qone", set(func(i *home.QueueInfo) { i.Description = "set after the image" }))))
	q := sure(b.Queue("gonetwo"))(t)
	must(t, errOf(q.Delete(ctx, 2)))
	cullQueue(t, b, q.ID())
	must(t, b.RemoveQueue(ctx, q.ID()))
	createQueue(t, b, home.QueueInfo{Identifier: q.ID(), Description: "the third"})
	q = sure(b.Queue("goneone"))(t)
	must(t, errOf(q.Delete(ctx, 2)))
	cullQueue(t, b, q.ID())
	must(t, b.RemoveQueue(ctx, q.ID()))
	want = see(t, b)
	dir := fastDir(t) + "/c"
	c := mustStored(t, dir, m)
	want.check(t, see(t, c))
	must(t, image(c))
	must(t, image(c))
	workStored(t, c, "four")
	must(t, image(c))
	workStored(t, c, "five")
	want = see(t, c)
	crashed := copyDated(t, dir)
	objects := m.Objects()
	closeHome(t, c)
	dir = fastDir(t) + "/d"
	d := mustStored(t, dir, m)
	must(t, d.Bring(ctx))
	want.check(t, see(t, d))
	must(t, d.Checkpoint(ctx))
	if _, err := os.Stat(filepath.Join(dir, "cutie-absent")); err == nil {
		t.Error("pages are absent after all were brought")
	}
	closeHome(t, d)
	e := mustStored(t, crashed, storeWith(objects))
	if e.Restored() {
		t.Error("the directory of the last owner was made again")
	}
	want.check(t, see(t, e))
	must(t, e.Checkpoint(ctx))
	want.check(t, see(t, e))
	closeHome(t, e)
}

// An image of a burst is made before the files of its jobs are written, unless the disk is
// full: then they are written all the same.
func TestAnImageOfABurstDoesNotWaitForFiles(t *testing.T) {
	t.Parallel()
	const jobs = 5100
	files := func(dir string) int {
		entries := sure(os.ReadDir(filepath.Join(dir, "queues", "q", "pending")))(t)
		return len(entries)
	}
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprint("full=", full), func(t *testing.T) {
			t.Parallel()
			m, dir := new(objectstest.Memory), fastDir(t)+"/a"
			var noSpace atomic.Bool
			s := sure(openStored(dir, m, queuefs.Options{Fault: failIf(syscall.ENOSPC, func(step string) bool {
				return noSpace.Load() && step == "commit table"
			}), Stored: &stored.Options{Name: "a", Every: 1000}}))(t)
			q := createQueue(t, s, home.QueueInfo{Identifier: "q"})
			sub := q.Begin()
			for i := range jobs {
				d := sure(sub.Add(job.Meta{}))(t)
				must(t, errOf(fmt.Fprint(d, i)))
			}
			must(t, errOf(sub.Commit(ctx)))
			noSpace.Store(full)
			if err := s.Maintain(ctx); errors.Is(err, ledger.ErrNoSpace) != full {
				t.Errorf("got %v", err)
			}
			want := 0
			if full {
				want = jobs
			}
			if n := files(dir); n != want {
				t.Errorf("%d jobs have files, want %d", n, want)
			}
			noSpace.Store(false)
			must(t, s.ImageAhead(ctx)) // waits for one that is on its way
			b := mustStored(t, fastDir(t)+"/b", m)
			q = sure(b.Queue("q"))(t)
			if n := q.State().Pending; n != jobs {
				t.Errorf("%d jobs wait, want %d", n, jobs)
			}
			closeHome(t, b)
		})
	}
}

// Each request to the store fails in turn, in one of the ways a request fails: while images
// are made, the journal is released, objects are deleted, and a new machine reads it all.
// Nothing of the home changes, and the next images are made.
func TestImagesOfAHomeWhoseStoreFails(t *testing.T) {
	t.Parallel()
	var fail atomic.Int64 // number of the request, from now on
	var how objectstest.Fault
	m := &objectstest.Memory{Fault: func(objectstest.Request) objectstest.Fault {
		if fail.Add(-1) == 0 {
			return how
		}
		return objectstest.None
	}}
	options := func(i int) queuefs.Options {
		return queuefs.Options{Stored: &stored.Options{Name: fmt.Sprint("owner ", i), TakeOver: true, Patience: 20 * time.Millisecond}}
	}
	s := sure(openStored(fastDir(t)+"/first", m, options(0)))(t)
	workStored(t, s, "one")
	q := createQueue(t, s, home.QueueInfo{Identifier: "some"})
	rounds := 0
	for _, how = range []objectstest.Fault{objectstest.Before, objectstest.After, objectstest.Late, objectstest.Twice, objectstest.Stale} {
		step := int64(long.N(15, 1))
		for at := int64(1); ; at += step {
			rounds++
			submit(t, q, job.Meta{}, strings.Repeat(fmt.Sprint(rounds), 40<<10)[:20<<10+rounds*1000])
			if rounds%3 == 0 {
				must(t, errOf(q.Next(ctx, "somebody")))
			}
			image := s.Image
			if rounds%2 == 0 {
				image = s.ImageAhead
			}
			fail.Store(at)
			_ = image(ctx) // it may fail
			done := fail.Load() > 0
			fail.Store(0)
			if err := s.Err(); err != nil {
				t.Fatalf("fault %d of request %d: %v", how, at, err)
			}
			must(t, image(ctx))
			if done {
				break
			}
		}
	}
	want := see(t, s)
	closeHome(t, s)
	before := m.Objects()
	for _, how = range []objectstest.Fault{objectstest.Before, objectstest.After, objectstest.Late, objectstest.Twice, objectstest.Stale} {
		step := int64(long.N(30, 1))
		for at, done := int64(1), false; !done && !t.Failed(); at += step {
			t.Run(fmt.Sprintf("%d/%d", how, at), func(t *testing.T) {
				for name := range m.Objects() {
					m.Set(name, nil)
				}
				for name, data := range before {
					m.Set(name, data)
				}
				fail.Store(at)
				s, err := openStored(fastDir(t)+"/next", m, options(1))
				if err != nil {
					fail.Store(0)
					s, err = openStored(fastDir(t)+"/next", m, options(2))
				}
				must(t, err)
				_ = s.Bring(ctx)
				done = fail.Load() > 0
				fail.Store(0)
				want.check(t, see(t, s))
				closeHome(t, s)
			})
		}
	}
}

// damages are kinds of damage to an object among those of a store.
func damages(name string, all map[string][]byte) map[string][]byte {
	data := all[name]
	half := len(data) / 2
	flipped := slices.Clone(data)
	flipped[half] ^= 4
	kinds := map[string][]byte{"missing": nil, "truncated": data[:half], "empty": {}, "zeroed": append(slices.Clone(data[:half]), make([]byte, len(data)-half)...), "flipped": flipped}
	kind, _, _ := strings.Cut(name, "/")
	for _, other := range slices.Sorted(maps.Keys(all)) {
		if other != name && strings.HasPrefix(other, kind+"/") && string(all[other]) != string(data) {
			kinds["swapped"] = all[other]
			break
		}
	}
	return kinds
}

// replaced reports whether nobody misses an object: its contents are in another one, or the
// image before stands in for it. Of the end of the journal the directory of its owner knows.
func replaced(name string, all map[string][]byte) bool {
	kind, _, _ := strings.Cut(name, "/")
	last := true
	for other := range all {
		if other != name && kind == "files" && string(all[other]) == string(all[name]) {
			return true
		}
		last = last && !(strings.HasPrefix(other, kind+"/") && other > name)
	}
	return last && (kind == "snapshot" || kind == "journal")
}

// checked reports whether a check of the store names an object, without an owner.
func checked(t *testing.T, m *objectstest.Memory, name string) bool {
	t.Helper()
	st, err := stored.Look(ctx, m)
	if err != nil {
		return strings.Contains(err.Error(), name)
	}
	r, err := st.Check(ctx)
	if err != nil {
		t.Errorf("check: %v", err)
		return false
	}
	return slices.ContainsFunc(r.Faults, func(f durable.Finding) bool { return strings.HasPrefix(name, f.Path) && f.Cure != "" })
}

// What is damaged in the store is named, and never served.
func TestDamageInAStoreIsNamedAndNeverServed(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	s := mustStored(t, fastDir(t)+"/a", m)
	workStored(t, s, "one")
	must(t, s.Image(ctx))
	submit(t, s.Queues()[0], job.Meta{}, "after the image")
	must(t, s.Image(ctx))
	submit(t, s.Queues()[0], job.Meta{}, "at the end")
	want := see(t, s)
	closeHome(t, s)
	whole := m.Objects()
	st := sure(stored.Look(ctx, m))(t)
	needed := map[string]bool{} // a daemon reads all of them
	for _, o := range st.Image.Objects {
		needed[o.Name] = o.Live == o.Size
	}
	newest := image.ManifestName(st.Image.Number)
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		for kind, to := range damages(name, whole) {
			for n, data := range whole {
				m.Set(n, data)
			}
			for n := range m.Objects() {
				if whole[n] == nil {
					m.Set(n, nil)
				}
			}
			m.Set(name, to)
			if !checked(t, m, name) && !(to == nil && replaced(name, whole)) {
				t.Errorf("%s, %s: a check finds nothing", name, kind)
			}
			named := false
			s, err := openStored(fastDir(t)+"/b", m, queuefs.Options{Report: func(p durable.Finding) {
				named = named || strings.HasPrefix(name, strings.TrimPrefix(p.Path, "store: "))
			},
				Stored: &stored.Options{Name: "b", TakeOver: true, Patience: time.Millisecond}})
			if err != nil {
				if !strings.Contains(err.Error(), name) && !errors.Is(err, queuefs.ErrJournalLost) {
					t.Errorf("%s, %s: opening does not name it: %v", name, kind, err)
				}
				continue
			}
			_ = s.Bring(ctx)
			if !named && (needed[name] || name == newest && to != nil) {
				t.Errorf("%s, %s: nobody is told", name, kind)
			}
			for _, q := range s.Queues() {
				was := want.world[q.ID()]
				for id := range was.byID {
					p, err := q.Payload(id)
					if err != nil {
						if !named {
							t.Errorf("%s, %s: %s/%v has no payload, and nobody was told: %v", name, kind, q.ID(), id, err)
						}
						continue
					}
					text, err := io.ReadAll(p)
					p.Close()
					if err != nil || string(text) != was.byID[id].payload {
						t.Errorf("%s, %s: %s/%v has another payload, %v", name, kind, q.ID(), id, err)
					}
				}
			}
			closeHome(t, s)
		}
	}
}

// A store without any image of what came before its journal has lost it: nobody serves the
// rest as if it were all. The directory of the last owner goes on, and makes the next image.
func TestAStoreThatLostItsImagesIsRefused(t *testing.T) {
	t.Parallel()
	m := new(objectstest.Memory)
	dir := fastDir(t) + "/a"
	s := mustStored(t, dir, m)
	workStored(t, s, "one")
	must(t, s.Image(ctx))
	must(t, s.Image(ctx))
	workStored(t, s, "two")
	want := see(t, s)
	closeHome(t, s)
	for name := range m.Objects() {
		if strings.HasPrefix(name, image.Manifests) {
			m.Set(name, nil)
		}
	}
	if !checked(t, m, image.Manifests) {
		t.Error("a check finds nothing")
	}
	before := len(m.Objects())
	for _, standby := range []bool{false, true} {
		_, err := openStored(fastDir(t)+"/b", m, queuefs.Options{Stored: &stored.Options{Name: "b", TakeOver: true, Standby: standby, Patience: time.Millisecond}})
		if err == nil || !strings.Contains(err.Error(), image.Manifests+" has no image of the records before") {
			t.Fatalf("a fresh machine: got %v", err)
		}
	}
	if n := len(m.Objects()); n < before {
		t.Errorf("%d objects are left of %d", n, before)
	}
	s, err := openStored(dir, m, queuefs.Options{Stored: &stored.Options{Name: "a again", TakeOver: true}})
	must(t, err)
	want.check(t, see(t, s))
	must(t, s.Image(ctx))
	closeHome(t, s)
	want.shownBy(t, mustStored(t, fastDir(t)+"/c", m))
}

// An owner sleeps in the middle of its deletions, another one takes over, and makes images
// of its own. What the first one then deletes is nothing of theirs.
func TestAnOwnerSleepsWhileItDeletes(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"image/", "snapshot/", "journal/"} {
		asleep, awake := make(chan struct{}), make(chan struct{})
		var slept atomic.Bool
		m := &objectstest.Memory{Fault: func(r objectstest.Request) objectstest.Fault {
			if r.Op == "Delete" && strings.HasPrefix(r.Name, prefix) && slept.CompareAndSwap(false, true) {
				close(asleep)
				<-awake
			}
			return objectstest.None
		}}
		a := mustStored(t, fastDir(t)+"/a", m)
		workStored(t, a, "a")
		done := make(chan error, 1)
		go func() {
			for n := range 20 {
				if slept.Load() {
					break
				}
				_ = a.SetService(ctx, func(i *home.ServiceInfo) error { i.Description = fmt.Sprint(n); return nil })
				_ = a.Image(ctx)
			}
			<-awake
			done <- a.Image(ctx)
		}()
		<-asleep
		b := mustStored(t, fastDir(t)+"/b", m)
		for n := range 4 {
			workStored(t, b, fmt.Sprint("b", n))
			must(t, b.Image(ctx))
		}
		want := see(t, b)
		close(awake)
		wantErr(t, <-done, journal.ErrFenced, "%s: the former owner", prefix)
		_ = a.Close()
		closeHome(t, b)
		want.shownBy(t, mustStored(t, fastDir(t)+"/c", m))
	}
}

// Without a whole manifest the directory of the last owner goes on, a standby takes over with
// all that it knows, and a journal that has released nothing makes the home alone. The next
// images are whole. Another directory is refused, and takes nothing from the owner.
func TestAHomeWithoutAManifest(t *testing.T) {
	t.Parallel()
	for images := 1; images <= 3; images++ {
		for _, who := range []string{"last owner", "standby", "another directory"} {
			t.Run(fmt.Sprint(who, " ", images), func(t *testing.T) {
				m := new(objectstest.Memory)
				dir := fastDir(t) + "/a"
				s := mustStored(t, dir, m)
				b := standBy(t, "b", m)
				for n := range images {
					workStored(t, s, fmt.Sprint("round", n))
					advance(t, b)
					must(t, s.Image(ctx))
					advance(t, b)
				}
				want := see(t, s)
				damage := func() {
					for name, data := range m.Objects() {
						if strings.HasPrefix(name, image.Manifests) {
							m.Set(name, data[:len(data)-1])
						}
					}
				}
				switch who {
				case "last owner":
					closeHome(t, b)
					closeHome(t, s)
					damage()
					if images == 3 { // the journal does not reach back to its beginning
						if _, err := openStored(fastDir(t)+"/c", m, queuefs.Options{}); err == nil || !strings.Contains(err.Error(), image.Manifests) {
							t.Errorf("another directory: %v", err)
						}
					}
					s = mustStored(t, dir, m)
				case "standby":
					damage()
					must(t, b.TakeOver(ctx, false))
					_ = s.Close() // it is fenced
					s = b
				case "another directory":
					closeHome(t, b)
					closeHome(t, s)
					damage()
					var err error
					if s, err = openStored(fastDir(t)+"/c", m, queuefs.Options{}); err != nil {
						if images == 1 || !strings.Contains(err.Error(), image.Manifests) {
							t.Error(err)
						}
						return
					}
				}
				want.check(t, see(t, s))
				for range 2 {
					submit(t, s.Queues()[0], job.Meta{}, "after it")
					must(t, s.Image(ctx))
				}
				want = see(t, s)
				closeHome(t, s)
				if !checked(t, m, "") {
					want.shownBy(t, mustStored(t, fastDir(t)+"/d", m))
				}
			})
		}
	}
}

// After an image that failed, or its checkpoint, the next attempt comes after a pause, which
// doubles up to a minute. One by hand does not wait, and success ends the pause.
func TestAnImageThatFailsIsTriedAfterAPause(t *testing.T) {
	t.Parallel()
	var failing, full atomic.Bool
	now := time.Now()
	m := &objectstest.Memory{Fault: objectstest.When(objectstest.Before, func(r objectstest.Request) bool {
		return failing.Load() && strings.HasPrefix(r.Name, "snapshot/")
	})}
	s, err := openStored(fastDir(t)+"/a", m, queuefs.Options{
		Now: func() time.Time { return now },
		Fault: failIf(syscall.ENOSPC, func(step string) bool {
			return full.Load() && strings.HasPrefix(step, "put ")
		}),
		Stored: &stored.Options{Name: "a", Every: 1, Patience: time.Millisecond}})
	must(t, err)
	q := createQueue(t, s, home.QueueInfo{Identifier: "q"})
	submit(t, q, job.Meta{}, "payload")
	paused := func(what string, want time.Duration) {
		t.Helper()
		now = now.Add(want - 1)
		early := s.ImageDue()
		now = now.Add(1)
		if early || !s.ImageDue() {
			t.Errorf("%s: the pause is not %v", what, want)
		}
	}
	failing.Store(true)
	for range 2 {
		if s.Image(ctx) == nil {
			t.Error("an image was made")
		}
		paused("by hand", time.Second)
	}
	failing.Store(false)
	submit(t, q, job.Meta{}, "payload")
	full.Store(true)
	for _, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		wantErr(t, s.Maintain(ctx), ledger.ErrNoSpace, "")
		paused("full disk", want*time.Second)
	}
	full.Store(false)
	must(t, s.Image(ctx))
	submit(t, q, job.Meta{}, "payload")
	if !s.ImageDue() {
		t.Error("there is a pause after an image")
	}
	closeHome(t, s)
}
