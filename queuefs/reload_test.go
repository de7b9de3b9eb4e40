package queuefs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/testdata/long"
)

// reload calls Reload until the files have held still.
func reload(t testing.TB, s *queuefs.Service) (changed []string) {
	t.Helper()
	for range 2 {
		some, err := s.Reload(ctx)
		if err != nil {
			t.Fatal(err)
		}
		changed = append(changed, some...)
	}
	return changed
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func ids(s *queuefs.Service) (ids []string) {
	for _, q := range s.Queues() {
		ids = append(ids, q.ID())
	}
	return ids
}

func TestReloadTakesInPropertiesThatOtherHandsChanged(t *testing.T) {
	dir := fastDir(t)
	var problems []string
	s, q := openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }})
	defer closeHome(t, s)
	if got := reload(t, s); got != nil {
		t.Errorf("nothing changed: got %v", got)
	}
	was, text := q.Info(), properties(t, dir)
	edit(t, dir, text+"closed: true\npaused: 2026-01-02T03:04:05Z\n")
	if got, err := s.Reload(ctx); len(got) > 0 || err != nil || q.Info() != was {
		t.Errorf("not held still yet: got %v, %v, %+v", got, err, q.Info())
	}
	edit(t, dir, text+"closed: true\nmaxAttempts: 4\n")
	want := was
	want.Closed, want.MaxAttempts = true, 4
	if got := reload(t, s); !slices.Equal(got, []string{"jobs"}) || q.Info() != want {
		t.Errorf("got %v, %+v\nwant %+v", got, q.Info(), want)
	}
	if file, facts := q.InfoFile(); string(file) != properties(t, dir) || facts.Length != int64(len(file)) {
		t.Errorf("published: got %q, %+v", file, facts)
	}
	for _, broken := range []string{"closed: perhaps\n", "no colon", "identifier: other\n", "identifier: jobs\ncallback: ftp://x/\n"} {
		problems = nil
		edit(t, dir, broken)
		for range 2 {
			if got := reload(t, s); got != nil || q.Info() != want {
				t.Errorf("%q: got %v, %+v", broken, got, q.Info())
			}
		}
		if len(problems) != 1 || !strings.Contains(problems[0], "queues/jobs/queue-info.txt") {
			t.Errorf("%q: reported %q", broken, problems)
		}
	}
	problems = nil
	if err := os.Remove(dir + "/queues/jobs/queue-info.txt"); err != nil {
		t.Fatal(err)
	}
	if got := reload(t, s); got != nil || q.Info() != want || len(problems) != 1 {
		t.Errorf("removed: got %v, %+v, reported %q", got, q.Info(), problems)
	}
	edit(t, dir, text)
	if got := reload(t, s); !slices.Equal(got, []string{"jobs"}) || q.Info() != was {
		t.Errorf("mended: got %v, %+v", got, q.Info())
	}
}

func TestReloadTakesInQueues(t *testing.T) {
	dir := fastDir(t)
	var problems []string
	o := queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }}
	s, q := openHome(t, dir, o)
	submit(t, q, queuefs.Meta{}, "one")
	submit(t, q, queuefs.Meta{}, "two")
	if _, err := q.Next(ctx, "w"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "empty"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	// Somebody brings a copy of a queue, lists one that has no directory, and
	// takes two out.
	if err := os.CopyFS(dir+"/queues/copy", os.DirFS(dir+"/queues/jobs")); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/queues/copy/queue-info.txt", "identifier: copy\n")
	write(t, dir+"/queues.txt", "# mine\nnew\ncopy\n")
	got := reload(t, s)
	slices.Sort(got)
	if !slices.Equal(got, []string{"copy", "empty", "new"}) || !slices.Equal(ids(s), []string{"new", "copy", "jobs"}) {
		t.Errorf("got %v, queues %v", got, ids(s))
	}
	if len(problems) != 1 || !strings.Contains(problems[0], "jobs is not listed any more") {
		t.Errorf("reported %q", problems)
	}
	if got := reload(t, s); got != nil || len(problems) != 1 {
		t.Errorf("again: got %v, reported %q", got, problems)
	}
	if !exists(dir, "queues/empty/queue-info.txt") || exists(dir, "log/index/queues/empty/p000000000") {
		t.Error("the directory of the empty queue should stay, and its index go")
	}
	w := observe(t, s)
	w["copy"].byID[1] = fact{status: queuefs.Consumed, consumer: "w", payload: "one"}
	for id, f := range w["jobs"].byID {
		if w["copy"].byID[id] != f {
			t.Errorf("copy of %v: got %v want %v", id, w["copy"].byID[id], f)
		}
	}
	// Both go on.
	c, err := s.Queue("copy")
	if err != nil {
		t.Fatal(err)
	}
	if j := submit(t, c, queuefs.Meta{}, "three"); j.ID != 3 {
		t.Errorf("copy goes on with %v", j.ID)
	}
	if j := submit(t, q, queuefs.Meta{}, "three"); j.ID != 3 {
		t.Errorf("jobs goes on with %v", j.ID)
	}
	n, err := s.Queue("new")
	if err != nil {
		t.Fatal(err)
	}
	submit(t, n, queuefs.Meta{}, "first")
	write(t, dir+"/queues.txt", "jobs\ncopy\nnew\nempty\n")
	if got := reload(t, s); !slices.Equal(got, []string{"empty"}) || !slices.Equal(ids(s), []string{"jobs", "copy", "new", "empty"}) {
		t.Errorf("listed again: got %v, queues %v", got, ids(s))
	}
	want := observe(t, s)
	crashed := copyHome(t, dir)
	closeHome(t, s)
	problems = nil
	for _, dir := range []string{crashed, dir} {
		s, _ := openHome(t, dir, o)
		if d := want.difference(observe(t, s)); d != "" {
			t.Error(d)
		}
		closeHome(t, s)
		r, err := check.Home(dir, check.Options{Segment: segmentSize})
		if err != nil || len(r.Problems)+len(r.Mended) > 0 {
			t.Errorf("check: %v, problems %v, mended %v", err, r.Problems, r.Mended)
		}
	}
	if len(problems) > 0 {
		t.Errorf("reported %q", problems)
	}
}

func TestReloadKeepsTheQueuesOfABrokenList(t *testing.T) {
	dir := fastDir(t)
	var problems []string
	s, _ := openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }})
	defer closeHome(t, s)
	for i, change := range []func(){
		func() { write(t, dir+"/queues.txt", "jobs\ncutie-x\n") },
		func() { write(t, dir+"/queues.txt", strings.Repeat("x", 1<<17)) },
		func() { os.Remove(dir + "/queues.txt") },
	} {
		problems = nil
		change()
		for range 2 {
			if got := reload(t, s); got != nil || !slices.Equal(ids(s), []string{"jobs"}) {
				t.Errorf("%d: got %v, queues %v", i, got, ids(s))
			}
		}
		if len(problems) != 1 || !strings.Contains(problems[0], "queues.txt") {
			t.Errorf("%d: reported %q", i, problems)
		}
	}
	// A queue that cannot be opened is tried again.
	problems = nil
	if err := os.MkdirAll(dir+"/queues/late", 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/queues/late/queue-info.txt", "identifier: late\nlease: long\n")
	write(t, dir+"/queues.txt", "jobs\nlate\n")
	if got := reload(t, s); got != nil || len(problems) != 1 || !strings.Contains(problems[0], "lease") {
		t.Errorf("got %v, reported %q", got, problems)
	}
	write(t, dir+"/queues/late/queue-info.txt", "identifier: late\nlease: 60\n")
	if got := reload(t, s); !slices.Equal(got, []string{"late"}) {
		t.Errorf("got %v", got)
	}
}

// TestReloadUnderLoad has other hands at the files while jobs come and go.
func TestReloadUnderLoad(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	text := properties(t, dir)
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for work.Err() == nil {
				sub := q.Begin()
				d, err := sub.Add(queuefs.Meta{})
				if err == nil {
					d.Write([]byte("x"))
					_, err = sub.Commit(ctx)
				}
				if err != nil && !errors.Is(err, queuefs.ErrRefusing) {
					t.Error(err)
				}
				if _, err := q.Next(ctx, "w"); err != nil && !errors.Is(err, queuefs.ErrEmpty) {
					t.Error(err)
				}
			}
		})
	}
	for n := range 20 {
		closed := n%2 == 0
		edit(t, dir, text+map[bool]string{true: "closed: true\n", false: ""}[closed])
		list := map[bool]string{true: "other\njobs\n", false: "jobs\n"}[closed]
		write(t, filepath.Join(dir, "queues.txt"), list)
		got := reload(t, s)
		slices.Sort(got)
		if !slices.Equal(got, []string{"jobs", "other"}) || q.Info().Closed != closed || len(s.Queues()) != strings.Count(list, "\n") {
			t.Errorf("round %d: got %v, %+v, %v", n, got, q.Info(), ids(s))
		}
		if err := s.Maintain(ctx); err != nil {
			t.Error(err)
		}
	}
	stop()
	wg.Wait()
	want := observe(t, s)
	crashed := copyHome(t, dir)
	closeHome(t, s)
	for _, dir := range []string{crashed, dir} {
		s, _ := openHome(t, dir, queuefs.Options{})
		if d := want.difference(observe(t, s)); d != "" {
			t.Error(d)
		}
		closeHome(t, s)
	}
}

// TestEveryStepOfReloadFails fails each step of taking queues in and letting
// one go; what failed once works later, or when the home is opened again.
func TestEveryStepOfReloadFails(t *testing.T) {
	stride := long.N(4, 1)
	for i, way := range []struct{ done, stops bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		for at := 1 + i%stride; ; at += stride {
			f := newFaults(0, errInjected)
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Fault: f.step})
			submit(t, q, queuefs.Meta{}, "one")
			submit(t, q, queuefs.Meta{}, "two")
			if _, err := q.Next(ctx, "w"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "empty"}); err != nil {
				t.Fatal(err)
			}
			if err := s.Checkpoint(ctx); err != nil {
				t.Fatal(err)
			}
			want := observe(t, s)
			delete(want, "empty")
			want["copy"], want["new"] = want["jobs"], jobs{}
			if err := os.CopyFS(dir+"/queues/copy", os.DirFS(dir+"/queues/jobs")); err != nil {
				t.Fatal(err)
			}
			// A move that is an event when the queue is taken in.
			if err := os.Rename(dir+"/queues/copy/consumed/j000000000001", dir+"/queues/copy/pending/j000000000001"); err != nil {
				t.Fatal(err)
			}
			want = want.set("copy", 1, func(f *fact) { f.status, f.consumer, f.work, f.requeues = queuefs.Pending, "", "", 1 })
			write(t, dir+"/queues/copy/queue-info.txt", "identifier: copy\n")
			write(t, dir+"/queues.txt", "copy\nnew\njobs\n")
			f.n, f.at, f.done, f.stops = 0, at, way.done, way.stops
			for range 5 {
				s.Reload(ctx)
			}
			if s.Err() == nil && !way.stops {
				if d := want.difference(observe(t, s)); d != "" {
					t.Errorf("step %d %s: %s", at, f.name, d)
				}
			}
			crashed := copyHome(t, dir)
			fired := f.fired()
			s.Close()
			if !exists(crashed, "queues/new") { // not yet made when the machine stopped: made by whoever listed it
				if err := os.MkdirAll(crashed+"/queues/new", 0o777); err != nil {
					t.Fatal(err)
				}
			}
			if !exists(crashed, "queues/new/queue-info.txt") {
				write(t, crashed+"/queues/new/queue-info.txt", "identifier: new\n")
			}
			s, _ = openHome(t, crashed, queuefs.Options{})
			if d := want.difference(observe(t, s)); d != "" {
				t.Errorf("step %d %s, %+v: reopened: %s", at, f.name, way, d)
			}
			closeHome(t, s)
			if !fired {
				if at < 10 {
					t.Errorf("only %d steps", at)
				}
				break
			}
		}
	}
}

// Of cutie-info.txt is taken in what may change while the home is open.
func TestReloadTakesInPropertiesOfTheService(t *testing.T) {
	dir := fastDir(t)
	var problems []string
	s, _ := openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }})
	defer closeHome(t, s)
	s.SetBaseURI("http://127.0.0.1:1/")
	was, name := s.Info(), dir+"/cutie-info.txt"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), "name: test\n", "name: new\n", 1)
	write(t, name, text+"description: D\nsupportURI: mailto:ann@example.org\ndefaultCatalog: jobs\ntombstoneAge: 24\n")
	if _, err := s.Reload(ctx); err != nil || s.Info() != was {
		t.Errorf("not held still yet: got %v, %+v", err, s.Info())
	}
	reload(t, s)
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	want := was
	want.Name, want.Description, want.SupportURI, want.DefaultCatalog = "new", "D", "mailto:ann@example.org", "jobs"
	want.TombstoneAge = 24
	want.Modified = st.ModTime().UTC().Truncate(time.Microsecond)
	if got := s.Info(); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if err := s.SetService(ctx, func(i *queuefs.ServiceInfo) error { i.Name = "set"; return nil }); err != nil {
		t.Fatal(err)
	}
	reload(t, s)
	if s.Info().Name != "set" || s.Info().DefaultCatalog != "jobs" || s.Info().TombstoneAge != 24 || len(problems) > 0 {
		t.Errorf("got %+v, reported %q", s.Info(), problems)
	}
	want = s.Info()
	for _, broken := range []string{"no colon", "name: x\nbaseURI: ftp://x/\n", "name: x\ntombstoneAge: 0\n", ""} {
		problems = nil
		if write(t, name, broken); broken == "" {
			os.Remove(name)
		}
		reload(t, s)
		reload(t, s)
		if s.Info() != want || len(problems) != 1 || !strings.Contains(problems[0], "cutie-info.txt") {
			t.Errorf("%q: got %+v, reported %q", broken, s.Info(), problems)
		}
	}
	problems = nil
	write(t, name, text+"baseURI: http://example.org/\n")
	reload(t, s)
	if got := s.Info(); got.Name != "new" || got.DefaultCatalog != "" || got.BaseURI != "http://127.0.0.1:1/" || len(problems) != 1 || !strings.Contains(problems[0], "opened again") {
		t.Errorf("got %+v, reported %q", got, problems)
	}
}
