package queuefs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/queuefs/content"
	"cutie/queuefs/digest"
	"cutie/queuefs/durable"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/table"
	"cutie/testdata/long"
)

// set returns an edit that puts down some properties.
func set(change func(i *home.QueueInfo)) func(*home.QueueInfo) error {
	return func(i *home.QueueInfo) error {
		change(i)
		return nil
	}
}

// properties returns queue-info.txt as it stands on disk.
func properties(t testing.TB, dir string) string {
	t.Helper()
	text := sure(os.ReadFile(dir + "/queues/jobs/queue-info.txt"))(t)
	return string(text)
}

// edit gives queue-info.txt other contents, by other hands.
func edit(t testing.TB, dir, text string) {
	t.Helper()
	must(t, os.WriteFile(dir+"/queues/jobs/queue-info.txt", []byte(text), 0o666))
}

const byHand = `# ours since 2019
identifier: jobs
Description: what comes
  in over night
# ask Ann before you change this
cullingSizeThreshold: 100
contact: ann@example.org
verifyonread: TRUE
created: 2026-01-02T03:04:05Z

# a second record
name: not read
`

func TestSetQueueKeepsWhatElseIsInTheFile(t *testing.T) {
	dir := t.TempDir()
	s, _ := openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
	edit(t, dir, byHand)
	s, q := openHome(t, dir, queuefs.Options{})
	at := time.Date(2026, 5, 6, 7, 8, 9, 10_999, time.UTC)
	got := sure(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) {
		i.Name, i.Description, i.CullingSize, i.CullingAge = "Jobs", "", 5, 720
		i.Paused, i.Closed, i.Acknowledge, i.Lease, i.MaxAttempts, i.Digests = at, true, job.AckRequired, 90*time.Second, 3, digest.SetOf(digest.MD5)
		i.Callback = "https://example.org/hook?x=1"
	})))(t)
	want := home.QueueInfo{ID: "jobs", Identifier: "jobs", Name: "Jobs", CullingSize: 5, CullingAge: 720, VerifyOnRead: true,
		Paused: at.Truncate(time.Microsecond), Closed: true, Acknowledge: job.AckRequired, Lease: 90 * time.Second, MaxAttempts: 3, Digests: digest.SetOf(digest.MD5),
		Callback: "https://example.org", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if got != want || q.Info() != want {
		t.Errorf("got %+v\nand %+v\nwant %+v", got, q.Info(), want)
	}
	if got, err := q.Callback(); err != nil || got != "https://example.org/hook?x=1" {
		t.Errorf("callback: got %q, %v", got, err)
	}
	text := `# ours since 2019
identifier: jobs
# ask Ann before you change this
cullingSizeThreshold: 5
contact: ann@example.org
verifyonread: true
created: 2026-01-02T03:04:05.000000Z
name: Jobs
cullingAgeThreshold: 720
verifyOnWrite: false
paused: 2026-05-06T07:08:09.000010Z
closed: true
acknowledge: required
lease: 90
maxAttempts: 3
callback: https://example.org
digests: SHA-256 MD5

# a second record
name: not read
`
	if got := properties(t, dir); got != text {
		t.Errorf("file: got\n%s\nwant\n%s", got, text)
	}
	file, facts := q.InfoFile()
	st, err := os.Stat(dir + "/queues/jobs/queue-info.txt")
	if err != nil || string(file) != text || facts.Length != int64(len(text)) || !facts.Modified.Equal(st.ModTime().Truncate(time.Microsecond)) {
		t.Errorf("published: got %q, %+v, %v", file, facts, err)
	}
	// Without a change the file is not touched; with one, the rest stays.
	should(t, errOf(s.SetQueue(ctx, "Jobs", set(func(*home.QueueInfo) {}))))
	if again, err := os.Stat(dir + "/queues/jobs/queue-info.txt"); err != nil || !os.SameFile(st, again) || !again.ModTime().Equal(st.ModTime()) {
		t.Error("the file was written though nothing changed")
	}
	want.Paused, want.Closed, want.Acknowledge, want.Lease, want.MaxAttempts, want.Callback, want.CullingAge, want.Digests = time.Time{}, false, job.AckNone, 0, 0, "", -1, 0
	if got, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { *i = want })); err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	closeHome(t, s)
	_, q = openHome(t, dir, queuefs.Options{})
	if q.Info() != want {
		t.Errorf("reopened: got %+v\nwant %+v", q.Info(), want)
	}
}

func TestSetQueueRefusesWhatCannotBe(t *testing.T) {
	dir := t.TempDir()
	s, q := openHome(t, dir, queuefs.Options{})
	must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "other", Name: "Other"})))
	was, text := q.Info(), properties(t, dir)
	for name, tt := range map[string]struct {
		change func(i *home.QueueInfo)
		err    error
		hint   string
	}{
		"identifier":   {func(i *home.QueueInfo) { i.Identifier = "new" }, job.ErrBadName, "create a queue of the new name"},
		"id":           {func(i *home.QueueInfo) { i.ID = "new" }, job.ErrBadName, "create a queue of the new name"},
		"created":      {func(i *home.QueueInfo) { i.Created = time.Now() }, job.ErrBadName, "created"},
		"name taken":   {func(i *home.QueueInfo) { i.Name = "Other" }, queuefs.ErrQueueExists, `the name "Other" is taken by queue other`},
		"long name":    {func(i *home.QueueInfo) { i.Name = strings.Repeat("x", 5000) }, job.ErrTooBig, ""},
		"size":         {func(i *home.QueueInfo) { i.CullingSize = -2 }, job.ErrBadName, "cullingSizeThreshold"},
		"age":          {func(i *home.QueueInfo) { i.CullingAge = 1 << 62 }, job.ErrBadName, "cullingAgeThreshold"},
		"acknowledge":  {func(i *home.QueueInfo) { i.Acknowledge = 9 }, job.ErrBadName, "Acknowledge(9)"},
		"lease":        {func(i *home.QueueInfo) { i.Lease = -1 }, job.ErrBadName, "lease"},
		"parts":        {func(i *home.QueueInfo) { i.Lease = 1500 * time.Millisecond }, job.ErrBadName, "whole seconds"},
		"attempts":     {func(i *home.QueueInfo) { i.MaxAttempts = -1 }, job.ErrBadName, "maxAttempts"},
		"paused":       {func(i *home.QueueInfo) { i.Paused = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC) }, job.ErrBadName, "20000"},
		"no URI":       {func(i *home.QueueInfo) { i.Callback = "hook" }, job.ErrBadName, "callback"},
		"other scheme": {func(i *home.QueueInfo) { i.Callback = "file:///etc/passwd" }, job.ErrBadName, "callback"},
		"secret":       {func(i *home.QueueInfo) { i.Callback = "https://me:word@example.org/" }, job.ErrBadName, "public"},
		"two lines":    {func(i *home.QueueInfo) { i.Callback = "https://example.org/\nclosed: true" }, job.ErrBadName, "callback"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.SetQueue(ctx, "jobs", set(tt.change))
			if !errors.Is(err, tt.err) || !strings.Contains(fmt.Sprint(err), tt.hint) {
				t.Errorf("got %v want %v that says %q", err, tt.err, tt.hint)
			}
			if q.Info() != was || properties(t, dir) != text {
				t.Errorf("got %+v, file\n%s", q.Info(), properties(t, dir))
			}
		})
	}
	mine := errors.New("mine")
	if _, err := s.SetQueue(ctx, "jobs", func(i *home.QueueInfo) error { i.Name = "x"; return mine }); !errors.Is(err, mine) || q.Info() != was {
		t.Errorf("got %v, %+v", err, q.Info())
	}
	wantErr(t, errOf(s.SetQueue(ctx, "none", set(func(*home.QueueInfo) {}))), ledger.ErrNoQueue, "")
	// A file that other hands broke is not written over.
	edit(t, dir, "identifier: jobs\nlease: soon\n")
	if _, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Name = "x" })); err == nil || !strings.Contains(err.Error(), "queue-info.txt") {
		t.Errorf("got %v", err)
	}
	if got := properties(t, dir); got != "identifier: jobs\nlease: soon\n" {
		t.Errorf("file: got %s", got)
	}
	edit(t, dir, text)
}

// TestEveryStepOfSettingFails fails each step in turn: the queue has its old
// properties or the new ones, as a whole.
func TestEveryStepOfSettingFails(t *testing.T) {
	for _, done := range []bool{false, true} {
		for at := 1; ; at++ {
			f := newFaults(0, errInjected)
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Fault: f.step})
			was := q.Info()
			f.at, f.done, f.n = at, done, 0
			want := was
			want.Name, want.Closed = "Jobs", true
			_, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { *i = want }))
			fired := f.fired()
			f.at = 0
			if got := q.Info(); err == nil && got != want || err != nil && got != was || fired != (err != nil) {
				t.Errorf("step %d %s: %v, got %+v", at, f.name, err, got)
			}
			if errors.Is(err, ledger.ErrFailed) {
				s.Close()
				s, q = openHome(t, dir, queuefs.Options{})
			}
			// What was written all the same is taken in, or written again.
			got, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Closed = true }))
			want.Name = got.Name
			if err != nil || got != want || got.Name != "" && got.Name != "Jobs" || q.Info() != want {
				t.Errorf("step %d %s: then %v, got %+v", at, f.name, err, got)
			}
			closeHome(t, s)
			s, q = openHome(t, dir, queuefs.Options{})
			if q.Info() != want {
				t.Errorf("step %d %s: reopened: got %+v want %+v", at, f.name, q.Info(), want)
			}
			closeHome(t, s)
			if !fired {
				if at < 4 {
					t.Errorf("only %d steps", at)
				}
				break
			}
		}
	}
}

func TestClosedQueueRefusesSubmissions(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	first := submit(t, q, job.Meta{}, "x")
	for _, closed := range []bool{true, false} {
		must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Closed = closed }))))
		if _, err := trySubmit(q, "y"); closed != errors.Is(err, queuefs.ErrRefusing) || closed != (err != nil) {
			t.Errorf("closed %v: got %v", closed, err)
		}
	}
	if j, err := q.Next(ctx, "w"); err != nil || j.ID != first.ID || q.State().Pending != 1 {
		t.Errorf("got %v, %v, %+v", j, err, q.State())
	}
}

func TestEndOfPauseServesWhoWaits(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	pause := func(at time.Time) {
		t.Helper()
		must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Paused = at }))))
	}
	pause(time.Now())
	want := submit(t, q, job.Meta{}, "x")
	wantErr(t, errOf(q.Next(ctx, "w")), ledger.ErrEmpty, "paused")
	got := make(chan job.ID)
	go func() {
		jobs, err := q.NextWait(ctx, "w", 1)
		if err != nil {
			t.Error(err)
			jobs = make([]job.Job, 1)
		}
		got <- jobs[0].ID
	}()
	pause(time.Time{})
	if id := <-got; id != want.ID {
		t.Errorf("got %v want %v", id, want.ID)
	}
}

func TestSetService(t *testing.T) {
	dir := t.TempDir()
	s, _ := openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
	file := dir + "/cutie-info.txt"
	must(t, os.WriteFile(file, []byte("# mine\nname: old\nphone: 1\nserviceScheme: Cutie/0.3/0.1\ncreated: 2026-01-02T03:04:05Z\n"), 0o666))
	s, _ = openHome(t, dir, queuefs.Options{})
	s.SetBaseURI("http://127.0.0.1:1/")
	err := s.SetService(ctx, func(i *home.ServiceInfo) error {
		if i.BaseURI != "" {
			t.Errorf("base URI of the run: got %q", i.BaseURI)
		}
		i.Name, i.Description, i.SupportURI, i.BaseURI = "new", "two\nlines", "mailto:ann@example.org", "https://example.org/q/"
		return nil
	})
	must(t, err)
	want := "# mine\nname: new\nphone: 1\nserviceScheme: Cutie/0.3/0.1\ncreated: 2026-01-02T03:04:05Z\n" +
		"description: two\uFFFDlines\nbaseURI: https://example.org/q/\nsupportURI: mailto:ann@example.org\n"
	if got, _ := os.ReadFile(file); string(got) != want {
		t.Errorf("file: got\n%s\nwant\n%s", got, want)
	}
	if i := s.Info(); i.Name != "new" || i.Description != "two\uFFFDlines" || i.SupportURI != "mailto:ann@example.org" || i.BaseURI != "http://127.0.0.1:1/" {
		t.Errorf("got %+v", i)
	}
	for name, edit := range map[string]func(*home.ServiceInfo){
		"identifier": func(i *home.ServiceInfo) { i.Identifier = "x" },
		"scheme":     func(i *home.ServiceInfo) { i.Scheme = "x" },
		"created":    func(i *home.ServiceInfo) { i.Created = time.Now() },
		"base URI":   func(i *home.ServiceInfo) { i.BaseURI = "example.org" },
	} {
		wantErr(t, s.SetService(ctx, func(i *home.ServiceInfo) error { edit(i); return nil }), job.ErrBadName, "%s", name)
	}
	if got, _ := os.ReadFile(file); string(got) != want {
		t.Errorf("file: got\n%s", got)
	}
	closeHome(t, s)
	s, _ = openHome(t, dir, queuefs.Options{})
	if i := s.Info(); i.Name != "new" || i.BaseURI != "https://example.org/q/" {
		t.Errorf("reopened: got %+v", i)
	}
}

// reload calls Reload until the files have held still.
func reload(t testing.TB, s *queuefs.Service) (changed []string) {
	t.Helper()
	for range 2 {
		some := sure(s.Reload(ctx))(t)
		changed = append(changed, some...)
	}
	return changed
}

func write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(text), 0o666))
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
	s, q := openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }})
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
	must(t, os.Remove(dir+"/queues/jobs/queue-info.txt"))
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
	o := queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }}
	s, q := openHome(t, dir, o)
	submit(t, q, job.Meta{}, "one")
	submit(t, q, job.Meta{}, "two")
	must(t, errOf(q.Next(ctx, "w")))
	must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "empty"})))
	must(t, s.Checkpoint(ctx))
	// Somebody brings a copy of a queue, lists one that has no directory, and
	// takes two out.
	must(t, os.CopyFS(dir+"/queues/copy", os.DirFS(dir+"/queues/jobs")))
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
	if !exists(dir, "queues/empty/queue-info.txt") || slices.Contains(rows(t, dir, table.Pages), table.PageKey("empty", 0)) {
		t.Error("the directory of the empty queue should stay, and its index go")
	}
	w := observe(t, s)
	w["copy"].byID[1] = fact{status: job.Consumed, consumer: "w", payload: "one"}
	for id, f := range w["jobs"].byID {
		if w["copy"].byID[id] != f {
			t.Errorf("copy of %v: got %v want %v", id, w["copy"].byID[id], f)
		}
	}
	// Both go on.
	c := sure(s.Queue("copy"))(t)
	submitAs(t, c, 3, job.Meta{}, "three")
	submitAs(t, q, 3, job.Meta{}, "three")
	n := sure(s.Queue("new"))(t)
	submit(t, n, job.Meta{}, "first")
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
		want.expect(t, s)
		closeHome(t, s)
		checkHome(t, dir, check.Options{Segment: segmentSize})
	}
	if len(problems) > 0 {
		t.Errorf("reported %q", problems)
	}
}

func TestReloadKeepsTheQueuesOfABrokenList(t *testing.T) {
	dir := fastDir(t)
	var problems []string
	s, _ := openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }})
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
	must(t, os.MkdirAll(dir+"/queues/late", 0o777))
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
				if _, err := trySubmit(q, "x"); err != nil && !errors.Is(err, queuefs.ErrRefusing) {
					t.Error(err)
				}
				if _, err := q.Next(ctx, "w"); err != nil && !errors.Is(err, ledger.ErrEmpty) {
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
		should(t, s.Maintain(ctx))
	}
	stop()
	wg.Wait()
	outlives(t, s, dir)
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
			submit(t, q, job.Meta{}, "one")
			submit(t, q, job.Meta{}, "two")
			must(t, errOf(q.Next(ctx, "w")))
			must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "empty"})))
			must(t, s.Checkpoint(ctx))
			want := observe(t, s)
			delete(want, "empty")
			want["copy"], want["new"] = want["jobs"], jobs{}
			must(t, os.CopyFS(dir+"/queues/copy", os.DirFS(dir+"/queues/jobs")))
			// A move that is an event when the queue is taken in.
			must(t, os.Rename(dir+"/queues/copy/consumed/j000000000001", dir+"/queues/copy/pending/j000000000001"))
			want = want.set("copy", 1, func(f *fact) { f.status, f.consumer, f.work, f.requeues = job.Pending, "", "", 1 })
			write(t, dir+"/queues/copy/queue-info.txt", "identifier: copy\n")
			write(t, dir+"/queues.txt", "copy\nnew\njobs\n")
			f.n, f.at, f.done, f.stops = 0, at, way.done, way.stops
			for range 5 {
				s.Reload(ctx)
			}
			if s.Err() == nil && !way.stops {
				want.expect(t, s, "step %d %s", at, f.name)
			}
			crashed := copyHome(t, dir)
			fired := f.fired()
			s.Close()
			if !exists(crashed, "queues/new") { // not yet made when the machine stopped: made by whoever listed it
				must(t, os.MkdirAll(crashed+"/queues/new", 0o777))
			}
			if !exists(crashed, "queues/new/queue-info.txt") {
				write(t, crashed+"/queues/new/queue-info.txt", "identifier: new\n")
			}
			s, _ = openHome(t, crashed, queuefs.Options{})
			want.expect(t, s, "step %d %s, %+v: reopened", at, f.name, way)
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
	s, _ := openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }})
	s.SetBaseURI("http://127.0.0.1:1/")
	was, name := s.Info(), dir+"/cutie-info.txt"
	data := sure(os.ReadFile(name))(t)
	text := strings.Replace(string(data), "name: test\n", "name: new\n", 1)
	write(t, name, text+"description: D\nsupportURI: mailto:ann@example.org\ndefaultCatalog: jobs\ntombstoneAge: 24\n")
	if _, err := s.Reload(ctx); err != nil || s.Info() != was {
		t.Errorf("not held still yet: got %v, %+v", err, s.Info())
	}
	reload(t, s)
	st := sure(os.Stat(name))(t)
	want := was
	want.Name, want.Description, want.SupportURI, want.DefaultCatalog = "new", "D", "mailto:ann@example.org", "jobs"
	want.TombstoneAge = 24
	want.Modified = st.ModTime().UTC().Truncate(time.Microsecond)
	if got := s.Info(); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	must(t, s.SetService(ctx, func(i *home.ServiceInfo) error { i.Name = "set"; return nil }))
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

// spoilSettings leaves a home with two queues of which one has a queue-info.txt
// that says nothing to us, in every way.
func spoilSettings(t *testing.T, each func(t *testing.T, dir, file string)) {
	for name, spoil := range map[string]func(file string) error{
		"empty":      func(file string) error { return os.Truncate(file, 0) },
		"cut":        func(file string) error { return os.Truncate(file, 3) },
		"nonsense":   func(file string) error { return os.WriteFile(file, []byte("identifier: jobs\nlease: long\n"), 0o666) },
		"zeros":      func(file string) error { return os.WriteFile(file, make([]byte, 300), 0o666) },
		"gone":       os.Remove,
		"no file":    func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o777)) },
		"no element": func(file string) error { return os.WriteFile(file, []byte("# closed\n"), 0o666) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{})
			must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "other"})))
			must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Name, i.MaxAttempts, i.CullingSize = "Jöbs", 3, 5 }))))
			submit(t, q, job.Meta{}, "x")
			closeHome(t, s)
			file := dir + "/queues/jobs/queue-info.txt"
			must(t, spoil(file))
			each(t, dir, file)
		})
	}
}

// One queue-info.txt that cannot be read keeps no home closed: the queue goes on
// with the properties that it had.
func TestAQueueGoesOnWithItsLastKnownProperties(t *testing.T) {
	spoilSettings(t, func(t *testing.T, dir, file string) {
		var problems []string
		o := queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }}
		for range 2 { // the next opening does not forget them
			problems = nil
			s, q := openHome(t, dir, o)
			st := q.State()
			if st.Info.Name != "Jöbs" || st.Info.MaxAttempts != 3 || st.Info.CullingSize != 5 || st.Info.Closed || !strings.Contains(st.Damage, "last known") {
				t.Errorf("got %+v", st)
			}
			if len(problems) != 1 || !strings.Contains(problems[0], "queues/jobs/queue-info.txt") {
				t.Errorf("reported %q", problems)
			}
			submit(t, q, job.Meta{}, "y")
			should(t, errOf(q.Next(ctx, "w")))
			should(t, s.Checkpoint(ctx))
			if other, err := s.Queue("other"); err != nil || other.State().Damage != "" {
				t.Errorf("the other queue: %v", err)
			}
			closeHome(t, s)
		}
		r, err := check.Home(dir, check.Options{Segment: segmentSize})
		if err != nil || len(r.Problems) != 1 || len(r.Mended) > 0 || r.Problems[0].Path != "queues/jobs/queue-info.txt" {
			t.Errorf("check: got %+v, %v", r, err)
		}
		was, _ := os.ReadFile(file)
		gone := !exists(dir, "queues/jobs/queue-info.txt")
		r, err = check.Home(dir, check.Options{Segment: segmentSize, Repair: true})
		if err != nil || len(r.Problems) > 0 || len(r.Mended) != 1 {
			t.Errorf("repair: got %+v, %v", r, err)
		}
		if aside, err := os.ReadFile(dir + "/queues/jobs/corrupt/queue-info.txt"); !gone && len(was) > 0 && string(aside) != string(was) || exists(dir, "queues/jobs/corrupt/queue-info.txt") == gone {
			t.Errorf("set aside: got %q, %v", aside, err)
		}
		if text := properties(t, dir); !strings.Contains(text, "name: Jöbs\n") || !strings.Contains(text, "maxAttempts: 3\n") {
			t.Errorf("got %s", text)
		}
		problems = nil
		s, q := openHome(t, dir, o)
		if st := q.State(); st.Damage != "" || st.Info.MaxAttempts != 3 || len(problems) > 0 {
			t.Errorf("got %+v, reported %q", st, problems)
		}
		closeHome(t, s)
	})
}

// Without any knowledge of its properties a queue does nothing that cannot be
// taken back, and the others are served.
func TestAQueueOfUnknownPropertiesIsClosedAndPaused(t *testing.T) {
	spoilSettings(t, func(t *testing.T, dir, file string) {
		loseIndex(t, dir, "jobs")
		s, q := openHome(t, dir, queuefs.Options{})
		st := q.State()
		if !st.Info.Closed || st.Info.Paused.IsZero() || st.Info.CullingSize != -1 || st.Pending != 1 || !strings.Contains(st.Damage, "closed and paused") {
			t.Errorf("got %+v", st)
		}
		wantErr(t, errOf(trySubmit(q, "")), queuefs.ErrRefusing, "submit")
		wantErr(t, errOf(q.Next(ctx, "w")), ledger.ErrEmpty, "next")
		// Whoever puts the file in order is heard at once.
		os.RemoveAll(file)
		write(t, file, "identifier: jobs\nname: mended\n")
		reload(t, s)
		if st := q.State(); st.Damage != "" || st.Info.Name != "mended" || st.Info.Closed {
			t.Errorf("got %+v", st)
		}
		should(t, errOf(q.Next(ctx, "w")))
		closeHome(t, s)
		checkHome(t, dir, check.Options{Segment: segmentSize})
	})
}

// While the home is open a file that makes no sense is told and shown, and who
// sets a property writes it anew.
func TestSettingAPropertyMendsABadFile(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"empty": func(file string) error { return os.Truncate(file, 0) },
		"gone":  os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := fastDir(t)
			var problems []string
			s, q := openHome(t, dir, queuefs.Options{Report: func(p durable.Finding) { problems = append(problems, p.String()) }})
			must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Name, i.MaxAttempts = "Jöbs", 3 }))))
			must(t, spoil(dir+"/queues/jobs/queue-info.txt"))
			// Somebody may just be writing it.
			if _, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) {})); err == nil {
				t.Error("the file is written over")
			}
			reload(t, s)
			if st := q.State(); st.Damage == "" || st.Info.MaxAttempts != 3 || len(problems) != 1 {
				t.Errorf("got %+v, reported %q", st, problems)
			}
			must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.MaxAttempts = 4 }))))
			if st := q.State(); st.Damage != "" || st.Info.Name != "Jöbs" || st.Info.MaxAttempts != 4 {
				t.Errorf("got %+v", st)
			}
			if text := properties(t, dir); !strings.Contains(text, "name: Jöbs\n") || !strings.Contains(text, "maxAttempts: 4\n") {
				t.Errorf("got %s", text)
			}
			if exists(dir, "queues/jobs/corrupt/queue-info.txt") != (name == "empty") {
				t.Error("what made no sense is not set aside")
			}
			if got := reload(t, s); got != nil {
				t.Errorf("reload: got %v", got)
			}
		})
	}
}

// When a queue was made does not change with the date of a file that does not
// say it.
func TestAnUndatedQueueKeepsItsTimeOfCreation(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, job.Meta{}, "x")
	closeHome(t, s)
	file := dir + "/queues/jobs/queue-info.txt"
	made := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	change := func(text string, at time.Time) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(text), 0o666))
		must(t, os.Chtimes(file, at, at))
	}
	change("identifier: jobs\n", made)
	loseIndex(t, dir, "jobs") // a queue that was brought
	for n, text := range []string{"", "identifier: jobs\ndescription: edited\n", "damaged", "identifier: jobs\n"} {
		if text != "" {
			change(text, made.AddDate(n, 0, 0))
		}
		s, q = openHome(t, dir, queuefs.Options{})
		if got := q.Info().Created; !got.Equal(made) {
			t.Errorf("with %q: got %v, want %v", text, got, made)
		}
		closeHome(t, s)
	}
	must(t, os.Remove(file))
	should(t, errOf(check.Home(dir, check.Options{Segment: segmentSize, Rebuild: true})))
	_, q = openHome(t, dir, queuefs.Options{})
	if got := q.Info().Created; !got.Equal(made) {
		t.Errorf("rebuilt: got %v, want %v", got, made)
	}
}

// TestUnreadPropertiesAreNotLost opens a home while the queue-info.txt of one queue cannot
// be read: the queue is shut, the others are served, and nothing is written over. Once
// the file can be read, the queue opens by itself.
func TestUnreadPropertiesAreNotLost(t *testing.T) {
	for i, errno := range unreadErrors {
		for _, how := range []string{"stopped", "killed", "without index"} {
			if how != "stopped" && i > 1 {
				continue
			}
			t.Run(errno.Error()+" "+how, func(t *testing.T) {
				dir, disk := homeToShut(t, how), &badDisk{part: "properties"}
				file := filepath.Join(dir, "queues/jobs/queue-info.txt")
				before := sure(os.ReadFile(file))(t)
				var problems []string
				late := time.Duration(0)
				o := queuefs.Options{Reads: disk.step, Report: func(p durable.Finding) { problems = append(problems, p.String()) },
					Now: func() time.Time { return time.Now().Add(late) }}

				disk.fail(errno, 1) // the one of jobs, which is read first
				s := openBare(t, dir, o)
				q := sure(s.Queue("jobs"))(t)
				last := q.Seq()
				refusesAll(t, s, errno)
				if st := q.State(); !st.Shut || !strings.Contains(st.Damage, errno.Error()) || s.Shut() != 1 {
					t.Errorf("state %+v", st)
				}
				told := slices.DeleteFunc(slices.Clone(problems), func(p string) bool {
					return !strings.HasPrefix(p, "queues/jobs/queue-info.txt: ") || !strings.Contains(p, "shut")
				})
				if len(told) != 1 {
					t.Errorf("reported %q", problems)
				}
				other := sure(s.Ask("other"))(t)
				submit(t, other, job.Meta{}, "payload")
				should(t, errOf(other.Next(ctx, "c")))

				late = time.Hour // leases are over, and jobs old enough to be culled
				must(t, s.Expire(ctx))
				for _, err := range s.Cull(ctx, queuefs.CullOptions{}) {
					must(t, err)
				}
				must(t, s.Checkpoint(ctx))
				disk.fail(errno, always)
				if came, err := s.Reload(ctx); err != nil || slices.Contains(came, "jobs") || q.Shut() == nil {
					t.Errorf("reload: got %v, %v", came, err)
				}
				if q.Seq() != last {
					t.Errorf("%d events of a queue that is shut", q.Seq()-last)
				}

				disk.fail(errno, 0)
				came, err := s.Reload(ctx)
				if err != nil || !slices.Contains(came, "jobs") {
					t.Errorf("reload: got %v, %v", came, err)
				}
				q = sure(s.Ask("jobs"))(t)
				if info := q.Info(); info.Closed || !info.Paused.IsZero() || info.MaxAttempts != 3 || info.Name != "Jöbs" || q.Seq() != last {
					t.Errorf("got %+v, %d events", info, q.Seq()-last)
				}
				if named, err := s.Ask("Jöbs"); err != nil || named != q {
					t.Errorf("by its name: got %v, %v", named, err)
				}
				if st := q.State(); st.Damage != "" || st.Shut || st.Pending != 1 || st.Leased != 1 || st.Deleted != 1 {
					t.Errorf("got %+v", st)
				}
				must(t, s.Expire(ctx))
				if st := q.State(); st.Leased != 0 {
					t.Errorf("the lease goes on: %+v", st)
				}
				closeHome(t, s)
				after, err := os.ReadFile(file)
				if err != nil || string(after) != string(before) {
					t.Errorf("the file has changed to %q, %v", after, err)
				}
				openBareAgain(t, dir)
			})
		}
	}
}

// homeToShut makes a home with a queue jobs, one of its jobs waiting and one on lease, and
// a queue other.
func homeToShut(t *testing.T, how string) string {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	s, q := openWith(t, dir, queuefs.Options{}, func(i *home.QueueInfo) { i.Name, i.CullingSize, i.CullingAge = "Jöbs", 0, 0 })
	must(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "other", CullingSize: -1, CullingAge: -1})))
	submit(t, q, job.Meta{}, "first")
	submit(t, q, job.Meta{}, "second")
	submit(t, q, job.Meta{}, "third")
	must(t, errOf(q.Delete(ctx, 3)))
	must(t, s.Checkpoint(ctx))
	must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.MaxAttempts = 3 }))))
	must(t, errOf(q.Take(ctx, queuefs.Take{Lease: time.Minute})))
	if how == "killed" {
		must(t, s.Maintain(ctx))
		killed := copyHome(t, dir)
		closeHome(t, s)
		return killed
	}
	closeHome(t, s)
	touch(t, filepath.Join(dir, "queues/jobs/queue-info.txt")) // or nobody reads it
	if how == "without index" {
		must(t, os.RemoveAll(filepath.Join(dir, tableFile)))
	}
	return dir
}

func touch(t *testing.T, file string) {
	t.Helper()
	now := time.Now()
	must(t, os.Chtimes(file, now, now))
}

// refusesAll asks a queue that is shut for everything that clients may.
func refusesAll(t *testing.T, s *queuefs.Service, errno syscall.Errno) {
	t.Helper()
	calls := map[string]func() error{
		"ask": func() error { _, err := s.Ask("jobs"); return err },
		"set": func() error {
			_, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.MaxAttempts = 9 }))
			return err
		},
		"remove": func() error { return s.RemoveQueue(ctx, "jobs") },

		"cull": func() (err error) {
			for _, err = range s.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}) {
			}
			return err
		},
	}
	for name, call := range calls {
		err := call()
		if !errors.Is(err, content.ErrUnread) || !errors.Is(err, errno) || !strings.Contains(err.Error(), "queue jobs is shut: queue-info.txt") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	wantErr(t, errOf(s.CreateQueue(ctx, home.QueueInfo{Identifier: "jobs"})), queuefs.ErrQueueExists, "create")
}

// TestPropertiesChangedWhileTheyCannotBeRead are in force, with their event, once they
// can.
func TestPropertiesChangedWhileTheyCannotBeRead(t *testing.T) {
	for _, text := range []string{"identifier: jobs\nmaxAttempts: 7\n", "damaged"} {
		dir, disk := homeToShut(t, "killed"), &badDisk{part: "properties"}
		disk.fail(syscall.EIO, 1)
		s := openBare(t, dir, queuefs.Options{Reads: disk.step})
		q := sure(s.Queue("jobs"))(t)
		last := q.Seq()
		must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/queue-info.txt"), []byte(text), 0o600))
		disk.fail(syscall.EIO, 0)
		must(t, errOf(s.Reload(ctx)))
		st := q.State()
		switch {
		case st.Shut:
			t.Errorf("%q: the queue is shut", text)
		case text == "damaged" && (st.Info.MaxAttempts != 3 || st.Damage == "" || q.Seq() != last):
			t.Errorf("%q: got %+v, %d events", text, st, q.Seq()-last)
		case text != "damaged" && (st.Info.MaxAttempts != 7 || st.Damage != "" || q.Seq() != last+1):
			t.Errorf("%q: got %+v, %d events", text, st, q.Seq()-last)
		}
		closeHome(t, s)
	}
}

// TestUnreadPropertiesOfAnOpenQueue refuses a change of a file that cannot be read.
func TestUnreadPropertiesOfAnOpenQueue(t *testing.T) {
	disk := &badDisk{part: "properties"}
	s, q := openHome(t, fastDir(t), queuefs.Options{Reads: disk.step})
	disk.fail(syscall.EIO, always)
	_, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.MaxAttempts = 9 }))
	if !errors.Is(err, content.ErrUnread) || !errors.Is(err, syscall.EIO) || q.Shut() != nil {
		t.Errorf("got %v, shut: %v", err, q.Shut())
	}
	disk.fail(syscall.EIO, 0)
}

// TestCheckTellsOfUnreadProperties leaves the file alone, whatever it may do.
func TestCheckTellsOfUnreadProperties(t *testing.T) {
	dir := homeToShut(t, "stopped")
	info := filepath.Join(dir, "queues/jobs/queue-info.txt")
	was := sure(os.ReadFile(info))(t)
	for _, o := range []check.Options{{}, {Repair: true}, {Rebuild: true}} {
		disk := &badDisk{part: "properties"}
		disk.fail(syscall.EIO, 1)
		o.Segment, o.Reads = segmentSize, disk.step
		r, err := check.Home(dir, o)
		if err != nil || len(r.Problems) != 1 || r.Problems[0].Level != durable.Unread || !strings.HasPrefix(r.Problems[0].String(), "queues/jobs/queue-info.txt: ") {
			t.Errorf("%+v: got %+v, %v", o, r, err)
		}
		if cure, ok := check.Cure(&r, err); ok {
			t.Errorf("%+v: the cure is %+v", o, cure)
		}
		if is, err := os.ReadFile(info); err != nil || string(is) != string(was) {
			t.Errorf("%+v: the file has changed to %q, %v", o, is, err)
		}
	}
	if r, err := check.Home(dir, check.Options{Segment: segmentSize}); err != nil || len(r.Problems) > 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestUnchangedPropertiesAreNotRead opens a home that was closed in order: what the index
// has of an unchanged file holds. A check reads it.
func TestUnchangedPropertiesAreNotRead(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openWith(t, dir, queuefs.Options{}, func(i *home.QueueInfo) { i.Name, i.MaxAttempts = "Jöbs", 7 })
	closeHome(t, s)
	unread := queuefs.Options{Reads: func(step string, do func() error) error {
		if step == "properties" {
			t.Error("read")
		}
		return do()
	}}
	for range 2 {
		s = openBare(t, dir, unread)
		q := sure(s.Queue("jobs"))(t)
		if info := q.Info(); info.Name != "Jöbs" || info.MaxAttempts != 7 {
			t.Errorf("got %+v", info)
		}
		closeHome(t, s)
	}
	read := false
	_, err := check.Home(dir, check.Options{Segment: segmentSize, Reads: func(step string, do func() error) error {
		read = read || step == "properties"
		return do()
	}})
	if err != nil || !read {
		t.Errorf("checked: read %v, %v", read, err)
	}
}

// tells tests that the events a follower has tell of queue-info.txt as it is:
// the last one that is of no job has its facts, or it is as it was when there
// was none.
func tells(t testing.TB, f *follower, q *queuefs.Queue, first job.Facts) (events int) {
	t.Helper()
	f.check(q)
	last := first
	for _, e := range f.seen[q.ID()] {
		if e.Job != 0 {
			continue
		}
		events++
		if last = e.File; e.Kind != job.Update || e.From != 0 || e.To != 0 || e.Payload != (job.Facts{}) {
			t.Errorf("got %+v", e)
		}
	}
	_, now := q.InfoFile()
	now.Modified, last.Modified = time.Time{}, time.Time{} // copies of homes have other dates
	if now != last {
		t.Errorf("after %d events: queue-info.txt is %+v, told was %+v", events, now, last)
	}
	return events
}

func TestChangedPropertiesAreEvents(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	f := newFollower(t)
	f.follow(s)
	_, first := q.InfoFile()
	want := 0
	expect := func(what string, more int) {
		t.Helper()
		want += more
		if got := tells(t, f, q, first); got != want || q.Seq() != job.Seq(len(f.seen["jobs"])) {
			t.Errorf("%s: got %d events of properties, want %d", what, got, want)
		}
	}
	again := func() {
		t.Helper()
		closeHome(t, s)
		s, q = openHome(t, dir, queuefs.Options{})
		f.follow(s)
	}
	name := func(name string) {
		t.Helper()
		must(t, errOf(s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Name = name }))))
	}
	expect("made", 0)
	submit(t, q, job.Meta{}, "x")
	name("A")
	expect("set", 1)
	name("A")
	expect("set to the same", 0)
	again()
	expect("opened again", 0)
	text := properties(t, dir)
	edit(t, dir, text+"contact: ann@example.org\n")
	reload(t, s)
	expect("edited", 1)
	submit(t, q, job.Meta{}, "y")
	edit(t, dir, text+"closed: perhaps\n")
	reload(t, s)
	expect("broken", 0)
	edit(t, dir, text)
	reload(t, s)
	expect("mended", 1)
	closeHome(t, s)
	edit(t, dir, text+"maxAttempts: 3\n")
	s, q = openHome(t, dir, queuefs.Options{})
	f.follow(s)
	expect("edited while closed", 1)
	if q.Info().MaxAttempts != 3 {
		t.Errorf("got %+v", q.Info())
	}
	again()
	expect("opened again", 0)
	must(t, s.Checkpoint(ctx))
	name("B")
	crashed := copyHome(t, dir)
	expect("set after a checkpoint", 1)
	seq := q.Seq()
	closeHome(t, s)
	s, q = openHome(t, crashed, queuefs.Options{})
	if q.Seq() != seq || q.Info().Name != "B" {
		t.Errorf("after a crash: got %d, want %d, %+v", q.Seq(), seq, q.Info())
	}
	f.follow(s)
	expect("after a crash", 0)
	closeHome(t, s)
	// An index that does not know takes the file as it stands.
	must(t, os.RemoveAll(crashed+"/log"))
	s, q = openHome(t, crashed, queuefs.Options{})
	if st := q.State(); st.Seq != 4 { // of the last job file
		t.Errorf("without index and journal: got %+v", st)
	}
}

// TestEveryStepOfTellingFails fails each step of changing the properties, also
// with the machine, and looks whether what is told is what is there.
func TestEveryStepOfTellingFails(t *testing.T) {
	for _, way := range []struct{ done, stops bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		for at := 1; ; at++ {
			f := newFaults(0, errInjected)
			dir := fastDir(t)
			s, q := openHome(t, dir, queuefs.Options{Fault: f.step})
			follows := newFollower(t)
			follows.follow(s)
			_, first := q.InfoFile()
			submit(t, q, job.Meta{}, "x")
			must(t, s.Checkpoint(ctx))
			f.n, f.at, f.done, f.stops = 0, at, way.done, way.stops
			_, err := s.SetQueue(ctx, "jobs", set(func(i *home.QueueInfo) { i.Name = "Jobs" }))
			fired := f.fired()
			edit(t, dir, properties(t, dir)+"maxAttempts: 4\n")
			for range 3 {
				s.Reload(ctx)
			}
			name := fmt.Sprintf("step %d %s, %+v", at, f.name, way)
			if s.Err() == nil && !way.stops {
				if tells(t, follows, q, first); q.Info().MaxAttempts != 4 || fired != (err != nil) {
					t.Errorf("%s: %v, got %+v", name, err, q.Info())
				}
			}
			crashed := copyHome(t, dir)
			s.Close()
			s, q = openHome(t, crashed, queuefs.Options{})
			follows.follow(s)
			if tells(t, follows, q, first); q.Info().MaxAttempts != 4 {
				t.Errorf("%s: opened again: got %+v", name, q.Info())
			}
			closeHome(t, s)
			if !fired {
				if at < 4 {
					t.Errorf("only %d steps", at)
				}
				break
			}
		}
	}
}
