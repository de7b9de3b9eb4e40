package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/digest"
)

// set returns an edit that puts down some properties.
func set(change func(i *queuefs.QueueInfo)) func(*queuefs.QueueInfo) error {
	return func(i *queuefs.QueueInfo) error {
		change(i)
		return nil
	}
}

// properties returns queue-info.txt as it stands on disk.
func properties(t testing.TB, dir string) string {
	t.Helper()
	text, err := os.ReadFile(dir + "/queues/jobs/queue-info.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// edit gives queue-info.txt other contents, by other hands.
func edit(t testing.TB, dir, text string) {
	t.Helper()
	if err := os.WriteFile(dir+"/queues/jobs/queue-info.txt", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
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
	got, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) {
		i.Name, i.Description, i.CullingSize, i.CullingAge = "Jobs", "", 5, 720
		i.Paused, i.Closed, i.Acknowledge, i.Lease, i.MaxAttempts, i.Digests = at, true, queuefs.AckRequired, 90*time.Second, 3, digest.SetOf(digest.MD5)
		i.Callback = "https://example.org/hook?x=1"
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := queuefs.QueueInfo{ID: "jobs", Identifier: "jobs", Name: "Jobs", CullingSize: 5, CullingAge: 720, VerifyOnRead: true,
		Paused: at.Truncate(time.Microsecond), Closed: true, Acknowledge: queuefs.AckRequired, Lease: 90 * time.Second, MaxAttempts: 3, Digests: digest.SetOf(digest.MD5),
		Callback: "https://example.org", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if got != want || q.Info() != want {
		t.Errorf("got %+v\nand %+v\nwant %+v", got, q.Info(), want)
	}
	if got, err := q.Callback(); err != nil || got != "https://example.org/hook?x=1" {
		t.Errorf("callback: got %q, %v", got, err)
	}
	text := `# ours since 2019
identifier: jobs
Description:
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
	if _, err := s.SetQueue(ctx, "Jobs", set(func(*queuefs.QueueInfo) {})); err != nil {
		t.Error(err)
	}
	if again, err := os.Stat(dir + "/queues/jobs/queue-info.txt"); err != nil || !os.SameFile(st, again) || !again.ModTime().Equal(st.ModTime()) {
		t.Error("the file was written though nothing changed")
	}
	want.Paused, want.Closed, want.Acknowledge, want.Lease, want.MaxAttempts, want.Callback, want.CullingAge, want.Digests = time.Time{}, false, queuefs.AckNone, 0, 0, "", -1, 0
	if got, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { *i = want })); err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	if q.Info() != want {
		t.Errorf("reopened: got %+v\nwant %+v", q.Info(), want)
	}
}

func TestSetQueueRefusesWhatCannotBe(t *testing.T) {
	dir := t.TempDir()
	s, q := openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other", Name: "Other"}); err != nil {
		t.Fatal(err)
	}
	was, text := q.Info(), properties(t, dir)
	for name, tt := range map[string]struct {
		change func(i *queuefs.QueueInfo)
		err    error
		hint   string
	}{
		"identifier":   {func(i *queuefs.QueueInfo) { i.Identifier = "new" }, queuefs.ErrBadName, "create a queue of the new name"},
		"id":           {func(i *queuefs.QueueInfo) { i.ID = "new" }, queuefs.ErrBadName, "create a queue of the new name"},
		"created":      {func(i *queuefs.QueueInfo) { i.Created = time.Now() }, queuefs.ErrBadName, "created"},
		"name taken":   {func(i *queuefs.QueueInfo) { i.Name = "Other" }, queuefs.ErrQueueExists, "Other"},
		"long name":    {func(i *queuefs.QueueInfo) { i.Name = strings.Repeat("x", 5000) }, queuefs.ErrTooBig, ""},
		"size":         {func(i *queuefs.QueueInfo) { i.CullingSize = -2 }, queuefs.ErrBadName, "threshold"},
		"age":          {func(i *queuefs.QueueInfo) { i.CullingAge = 1 << 62 }, queuefs.ErrBadName, "age"},
		"acknowledge":  {func(i *queuefs.QueueInfo) { i.Acknowledge = 9 }, queuefs.ErrBadName, "Acknowledge(9)"},
		"lease":        {func(i *queuefs.QueueInfo) { i.Lease = -1 }, queuefs.ErrBadName, "lease"},
		"parts":        {func(i *queuefs.QueueInfo) { i.Lease = 1500 * time.Millisecond }, queuefs.ErrBadName, "whole seconds"},
		"attempts":     {func(i *queuefs.QueueInfo) { i.MaxAttempts = -1 }, queuefs.ErrBadName, "attempts"},
		"paused":       {func(i *queuefs.QueueInfo) { i.Paused = time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC) }, queuefs.ErrBadName, "20000"},
		"no URI":       {func(i *queuefs.QueueInfo) { i.Callback = "hook" }, queuefs.ErrBadName, "callback"},
		"other scheme": {func(i *queuefs.QueueInfo) { i.Callback = "file:///etc/passwd" }, queuefs.ErrBadName, "callback"},
		"secret":       {func(i *queuefs.QueueInfo) { i.Callback = "https://me:word@example.org/" }, queuefs.ErrBadName, "public"},
		"two lines":    {func(i *queuefs.QueueInfo) { i.Callback = "https://example.org/\nclosed: true" }, queuefs.ErrBadName, "callback"},
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
	if _, err := s.SetQueue(ctx, "jobs", func(i *queuefs.QueueInfo) error { i.Name = "x"; return mine }); !errors.Is(err, mine) || q.Info() != was {
		t.Errorf("got %v, %+v", err, q.Info())
	}
	if _, err := s.SetQueue(ctx, "none", set(func(*queuefs.QueueInfo) {})); !errors.Is(err, queuefs.ErrNoQueue) {
		t.Errorf("got %v", err)
	}
	// A file that other hands broke is not written over.
	edit(t, dir, "identifier: jobs\nlease: soon\n")
	if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Name = "x" })); err == nil || !strings.Contains(err.Error(), "queue-info.txt") {
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
			_, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { *i = want }))
			fired := f.fired()
			f.at = 0
			if got := q.Info(); err == nil && got != want || err != nil && got != was || fired != (err != nil) {
				t.Errorf("step %d %s: %v, got %+v", at, f.name, err, got)
			}
			if errors.Is(err, queuefs.ErrFailed) {
				s.Close()
				s, q = openHome(t, dir, queuefs.Options{})
			}
			// What was written all the same is taken in, or written again.
			got, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Closed = true }))
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
	defer closeHome(t, s)
	first := submit(t, q, queuefs.Meta{}, "x")
	for _, closed := range []bool{true, false} {
		if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Closed = closed })); err != nil {
			t.Fatal(err)
		}
		sub := q.Begin()
		d, err := sub.Add(queuefs.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		d.Write([]byte("y"))
		if _, err := sub.Commit(ctx); closed != errors.Is(err, queuefs.ErrRefusing) || closed != (err != nil) {
			t.Errorf("closed %v: got %v", closed, err)
		}
	}
	if j, err := q.Next(ctx, "w"); err != nil || j.ID != first.ID || q.State().Pending != 1 {
		t.Errorf("got %v, %v, %+v", j, err, q.State())
	}
}

func TestEndOfPauseServesWhoWaits(t *testing.T) {
	s, q := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	pause := func(at time.Time) {
		t.Helper()
		if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Paused = at })); err != nil {
			t.Fatal(err)
		}
	}
	pause(time.Now())
	want := submit(t, q, queuefs.Meta{}, "x")
	if _, err := q.Next(ctx, "w"); !errors.Is(err, queuefs.ErrEmpty) {
		t.Errorf("paused: got %v", err)
	}
	got := make(chan queuefs.JobID)
	go func() {
		jobs, err := q.NextWait(ctx, "w", 1)
		if err != nil {
			t.Error(err)
			jobs = make([]queuefs.Job, 1)
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
	if err := os.WriteFile(file, []byte("# mine\nname: old\nphone: 1\nserviceScheme: Cutie/0.3/0.1\ncreated: 2026-01-02T03:04:05Z\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s, _ = openHome(t, dir, queuefs.Options{})
	s.SetBaseURI("http://127.0.0.1:1/")
	err := s.SetService(ctx, func(i *queuefs.ServiceInfo) error {
		if i.BaseURI != "" {
			t.Errorf("base URI of the run: got %q", i.BaseURI)
		}
		i.Name, i.Description, i.SupportURI, i.BaseURI = "new", "two\nlines", "mailto:ann@example.org", "https://example.org/q/"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "# mine\nname: new\nphone: 1\nserviceScheme: Cutie/0.3/0.1\ncreated: 2026-01-02T03:04:05Z\n" +
		"description: two\uFFFDlines\nbaseURI: https://example.org/q/\nsupportURI: mailto:ann@example.org\n"
	if got, _ := os.ReadFile(file); string(got) != want {
		t.Errorf("file: got\n%s\nwant\n%s", got, want)
	}
	if i := s.Info(); i.Name != "new" || i.Description != "two\uFFFDlines" || i.SupportURI != "mailto:ann@example.org" || i.BaseURI != "http://127.0.0.1:1/" {
		t.Errorf("got %+v", i)
	}
	for name, edit := range map[string]func(*queuefs.ServiceInfo){
		"identifier": func(i *queuefs.ServiceInfo) { i.Identifier = "x" },
		"scheme":     func(i *queuefs.ServiceInfo) { i.Scheme = "x" },
		"created":    func(i *queuefs.ServiceInfo) { i.Created = time.Now() },
		"base URI":   func(i *queuefs.ServiceInfo) { i.BaseURI = "example.org" },
	} {
		if err := s.SetService(ctx, func(i *queuefs.ServiceInfo) error { edit(i); return nil }); !errors.Is(err, queuefs.ErrBadName) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if got, _ := os.ReadFile(file); string(got) != want {
		t.Errorf("file: got\n%s", got)
	}
	closeHome(t, s)
	s, _ = openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	if i := s.Info(); i.Name != "new" || i.BaseURI != "https://example.org/q/" {
		t.Errorf("reopened: got %+v", i)
	}
}
