package callback_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/cmd/cutie/callback"
	"cutie/queuefs"
	"cutie/queuefs/durable"
)

// fails makes a receiver refuse until it is told otherwise.
func (r *receiver) fails(n int) {
	for range n {
		r.answer(status(503))
	}
}

// copyHome returns a copy of a home as it stands: what a kill would leave.
func copyHome(t *testing.T, dir string) string {
	t.Helper()
	to := fastDir(t)
	err := os.CopyFS(to, os.DirFS(dir))
	for tries := 0; errors.Is(err, fs.ErrNotExist) && tries < 10; tries++ {
		// What the journal prepares got its name, or was removed, meanwhile.
		to = fastDir(t)
		err = os.CopyFS(to, os.DirFS(dir))
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// elsewhere opens a copy of a home.
func (h *home) elsewhere(dir string) *home {
	h.t.Helper()
	o := h.o
	o.Fault = nil
	c := &home{t: h.t, dir: dir, o: o, clock: &clock{t: h.clock.now()}}
	c.open()
	return c
}

func (h *home) files() string {
	h.t.Helper()
	entries, err := os.ReadDir(filepath.Join(h.dir, "callbacks"))
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestWhatWaitsOutlivesTheJournal(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.queue("filler", "")
	q := h.queue("jobs", r.URL)
	for range 3 {
		h.submit(q, "x")
	}
	h.tick()
	r.received()
	h.consume(q)
	h.submit(q, "x")
	r.fails(1)
	h.tick()
	h.checkpoint(q)
	if got := h.files(); got != "cursor jobs.outbox" {
		t.Errorf("got files %s", got)
	}
	killed := copyHome(t, h.dir)
	h.close()
	want := []string{"jobs 4 consume " + j1 + " consumed", "jobs 5 submit j000000000004 pending"}
	r.received()
	h.open() // at once, and not after the pause that was
	h.tick()
	r.want(t, want...)
	if err := h.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	if got := h.files(); got != "cursor" {
		t.Errorf("got files %s", got)
	}
	k := h.elsewhere(killed)
	k.tick()
	r.want(t, want...)
	if got := append(h.reported(), k.reported()...); len(got) > 0 {
		t.Errorf("got reports %q", got)
	}
}

func TestWhatTheCursorKnowsIsNotToldAgain(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	for range 3 {
		h.submit(q, "x")
	}
	r.fails(1)
	h.tick()
	if err := h.svc.Checkpoint(ctx); err != nil { // all three wait
		t.Fatal(err)
	}
	r.answer(status(204), status(204), status(503))
	h.clock.advance(time.Minute)
	h.tick()
	h.clock.advance(time.Second)
	h.tick() // writes the cursor
	r.received()
	k := h.elsewhere(copyHome(t, h.dir))
	k.tick()
	r.want(t, "jobs 3 submit "+j3+" pending")
}

func TestDamageCostsRepetitionsOnly(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		damage     func(string) string
		want       int // deliveries
	}{
		{"cursor cut off", "cursor", func(s string) string { return s[:len(s)-2] }, 2},
		{"cursor of something else", "cursor", func(string) string { return "hello\n" }, 2},
		{"cursor with a strange line", "cursor", func(s string) string { return strings.Replace(s, `"failures":1`, `"failures":2`, 1) }, 2},
		{"outbox cut off", "jobs.outbox", func(s string) string { return s[:len(s)-6] }, 2},
		{"outbox out of order", "jobs.outbox", func(s string) string { return strings.Replace(s, "\n3 ", "\n9 ", 1) }, 2},
		{"outbox with a strange kind", "jobs.outbox", func(s string) string { return strings.Replace(s, "submit", "vanish", 1) }, 2},
		{"outbox with more behind it", "jobs.outbox", func(s string) string { return s + "end 2\n" }, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, r := newHome(t, callback.Options{}), newReceiver(t)
			q := h.queue("jobs", r.URL)
			h.submit(q, "x")
			h.tick()
			h.clock.advance(time.Second)
			h.tick()
			h.submit(q, "x")
			h.submit(q, "x")
			r.fails(1)
			h.tick()
			h.close()
			r.received()
			name := filepath.Join(h.dir, "callbacks", tt.file)
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if tt.damage(string(text)) == string(text) {
				t.Fatalf("no damage to %s", text)
			}
			if err := os.WriteFile(name, []byte(tt.damage(string(text))), 0o666); err != nil {
				t.Fatal(err)
			}
			h.open()
			got := h.reported()
			if len(got) == 0 || !strings.Contains(got[0], "callbacks/"+tt.file+": ") || !strings.Contains(got[0], "moved to corrupt/"+tt.file) {
				t.Errorf("got reports %q", got)
			}
			if _, err := os.Stat(filepath.Join(h.dir, "callbacks/corrupt", tt.file)); err != nil {
				t.Error(err)
			}
			h.tick()
			seen := r.seen()
			h.wantAll(append(seen, delivery{header: http.Header{"Cutie-Queue": {"jobs"}, "Cutie-Sequence": {"1"}, "Cutie-Event": {"submit"}},
				body: `{"identifier":"` + j1 + `","status":"pending"}`}), tt.name)
			if len(seen) != tt.want {
				t.Errorf("got %d deliveries, want %d", len(seen), tt.want)
			}
		})
	}
}

func TestWithoutACursorTheJournalIsToldAgain(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.queue("filler", "")
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	h.tick()
	h.checkpoint(q)
	h.submit(q, "x")
	h.submit(q, "x")
	r.received()
	dir := copyHome(t, h.dir)
	if err := os.Remove(filepath.Join(dir, "callbacks/cursor")); err != nil {
		t.Fatal(err)
	}
	h.elsewhere(dir).tick()
	r.want(t, "jobs 2 submit "+j2+" pending", "jobs 3 submit "+j3+" pending")
}

func TestJobsThatTheJournalForgotAreFound(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.queue("filler", "")
	q := h.queue("jobs", r.URL)
	for range 3 {
		h.submit(q, "x")
	}
	h.tick()
	h.close()
	r.received()

	h.openService()
	h.svc.Follow(forgetful{}) // a daemon without callbacks
	q = h.queue("jobs", "")
	h.consume(q)
	h.submit(q, "x")
	if _, err := q.Delete(ctx, 2); err != nil {
		t.Fatal(err)
	}
	h.checkpoint(q)
	if err := h.svc.Close(); err != nil {
		t.Fatal(err)
	}
	h.open()
	h.wantReport("the journal has lost the events after number 3 and before 7: 3 changed jobs are delivered, 0 others and all culled ones are not")
	h.submit(h.queue("jobs", ""), "x")
	h.tick()
	r.want(t, "jobs 4 consume "+j1+" consumed", "jobs 5 submit j000000000004 pending", "jobs 6 delete "+j2+" deleted", "jobs 7 submit j000000000005 pending")
}

// A forgetful follower has no use for the journal.
type forgetful struct{}

func (forgetful) Flush() error  { return nil }
func (forgetful) Synced() error { return nil }

func TestFirstCallbackBeginsWithTheNextEvent(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	q := h.queue("jobs", "")
	h.submit(q, "x")
	h.tick()
	h.setCallback("jobs", r.URL)
	h.submit(q, "x")
	r.fails(1)
	h.clock.advance(time.Second)
	h.tick()
	r.want(t, "jobs 3 submit "+j2+" pending") // event 2 is of the properties
	h.elsewhere(copyHome(t, h.dir)).tick()    // also after a kill
	r.want(t, "jobs 3 submit "+j2+" pending")
}

func TestFirstCallbackRightBeforeACrashCounts(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.queue("filler", "")
	q := h.queue("jobs", "")
	h.submit(q, "x")
	h.checkpoint(q)
	h.setCallback("jobs", r.URL)
	h.submit(q, "x")
	k := h.elsewhere(copyHome(t, h.dir))
	k.tick()
	r.want(t, "jobs 3 submit "+j2+" pending")
}

func TestOlderCopyOfAHomeGoesOnFromNow(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.queue("filler", "")
	q := h.queue("jobs", r.URL)
	h.submit(q, "x")
	h.tick()
	old := copyHome(t, h.dir)
	h.submit(q, "x")
	h.tick()
	for range 3 {
		h.submit(q, "x")
	}
	r.fails(1)
	h.tick()
	h.close()
	if got := h.files(); got != "cursor jobs.outbox" {
		t.Errorf("got files %s", got)
	}
	r.received()
	if err := os.RemoveAll(filepath.Join(old, "callbacks")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(old, "callbacks"), os.DirFS(filepath.Join(h.dir, "callbacks"))); err != nil {
		t.Fatal(err)
	}
	c := h.elsewhere(old)
	c.wantReport("the home is an older copy")
	c.submit(c.queue("jobs", ""), "x")
	r.fails(1)
	c.tick()
	c.checkpoint(c.queue("jobs", "")) // the outbox is of this home again
	r.received()
	c.close()
	c.reported()
	c.open()
	c.tick()
	r.want(t, "jobs 2 submit "+j2+" pending")
	if got := c.reported(); len(got) > 0 {
		t.Errorf("got reports %q", got)
	}
}

func TestQueueMadeAgainIsAnotherOne(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	h.clock.advance(time.Hour)
	_, err := h.svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs", Callback: r.URL, CullingSize: 0, CullingAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	q := h.queue("jobs", "")
	h.submit(q, "x")
	h.consume(q)
	h.tick()
	r.received()
	r.fails(1)
	for c, err := range h.svc.Cull(ctx, queuefs.CullOptions{}) {
		if err != nil || c.Job != 1 {
			t.Fatalf("culled %v, %v", c, err)
		}
	}
	h.tick()
	got := r.received()
	want := `{"@context":{"@vocab":"http://uc3.cdlib.org/ontology/mrt/cutie/job/"},"@type":"jobState","identifier":"` + j1 +
		`","queueState":"http://h.example/state/jobs","sequence":3}` + "\n"
	if len(got) != 1 || got[0].header.Get("Cutie-Event") != "cull" || got[0].body != want {
		t.Errorf("got %v\nwant %s", got, want)
	}
	if err := h.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	if err := h.svc.RemoveQueue(ctx, "jobs"); err != nil {
		t.Fatal(err)
	}
	h.wantReport("the queue was removed, 1 changes were not delivered")
	if got := h.files(); got != "cursor" {
		t.Errorf("got files %s", got)
	}
	h.tick()
	h.submit(h.queue("jobs", r.URL), "y") // its numbers of jobs and events go on
	h.tick()
	r.want(t, "jobs 4 submit j000000000002 pending")
}

// A reader that never ends shows that answers are not read for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestEndlessAnswersAreNotRead(t *testing.T) {
	h, r := newHome(t, callback.Options{}), newReceiver(t)
	r.answer(func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, endless{}) })
	h.submit(h.queue("jobs", r.URL), "x")
	h.tick()
	if st := h.state("jobs"); st.Delivered != 1 {
		t.Errorf("state: got %+v", st)
	}
}

// An outbox with its seal, but with lines that no outbox has, is set aside.
func TestAnOutboxThatMakesNoSenseIsSetAside(t *testing.T) {
	const at = " 2026-01-01T00:00:00.000001Z"
	outbox := "4" + at + "\n3" + at + " submit " + j3 + "\n4" + at + " consume " + j1 + "\n"
	rest := []string{"jobs 3 submit " + j3 + " pending", "jobs 4 consume " + j1 + " consumed"}
	again := append([]string{"jobs 2 submit " + j2 + " pending"}, rest...)
	for _, tt := range []struct {
		name, outbox string
		want         []string
		reports      int
	}{
		{"as it is written", outbox, rest, 0},
		{"out of order", strings.Replace(outbox, "\n3 ", "\n9 ", 1), again, 1},
		{"strange", strings.Replace(outbox, "submit", "vanish", 1), again, 1},
		{"too many lines", outbox + "end 2\n", again, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, r := newHome(t, callback.Options{}), newReceiver(t)
			q := h.queue("jobs", r.URL)
			for range 3 {
				h.submit(q, "x")
			}
			h.consume(q)
			h.close()
			dir, err := durable.OpenDir(filepath.Join(h.dir, "callbacks"), nil)
			if err != nil {
				t.Fatal(err)
			}
			file := durable.Sealed{Dir: dir, Name: "jobs.outbox", Kind: "outbox of queue jobs", Max: 1 << 20}
			if err := errors.Join(file.Write([]byte(tt.outbox)), dir.Close()); err != nil {
				t.Fatal(err)
			}
			h.open()
			h.tick()
			r.want(t, tt.want...)
			if got := h.reported(); len(got) != tt.reports {
				t.Errorf("got reports %q, want %d", got, tt.reports)
			}
		})
	}
}

func TestAnIdleSenderTrailsItsOwner(t *testing.T) {
	idle := true
	h, r := newHome(t, callback.Options{Idle: func() bool { return idle }}), newReceiver(t)
	q := h.queue("jobs", r.URL)
	step := func(n int) {
		for range n {
			h.submit(q, "x")
		}
		h.tick()
		h.clock.advance(callback.Trail)
		h.tick()
	}
	step(3)
	step(2)
	if err := h.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	step(1)
	if got := r.received(); len(got) > 0 {
		t.Errorf("an idle sender has delivered %v", got)
	}
	idle = false
	h.tick()
	r.want(t, "jobs 6 submit j000000000006 pending")
	step(1)
	r.want(t, "jobs 7 submit j000000000007 pending")
	h.close()
}
