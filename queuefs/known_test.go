package queuefs_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
)

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
			if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "other"}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Name, i.MaxAttempts, i.CullingSize = "Jöbs", 3, 5 })); err != nil {
				t.Fatal(err)
			}
			submit(t, q, queuefs.Meta{}, "x")
			closeHome(t, s)
			file := dir + "/queues/jobs/queue-info.txt"
			if err := spoil(file); err != nil {
				t.Fatal(err)
			}
			each(t, dir, file)
		})
	}
}

// One queue-info.txt that cannot be read keeps no home closed: the queue goes on
// with the properties that it had.
func TestAQueueGoesOnWithItsLastKnownProperties(t *testing.T) {
	spoilSettings(t, func(t *testing.T, dir, file string) {
		var problems []string
		o := queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }}
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
			submit(t, q, queuefs.Meta{}, "y")
			if _, err := q.Next(ctx, "w"); err != nil {
				t.Error(err)
			}
			if err := s.Checkpoint(ctx); err != nil {
				t.Error(err)
			}
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
		sub := q.Begin()
		_, err := sub.Add(queuefs.Meta{})
		if err == nil {
			_, err = sub.Commit(ctx)
		}
		sub.Discard()
		if !errors.Is(err, queuefs.ErrRefusing) {
			t.Errorf("submit: got %v", err)
		}
		if _, err := q.Next(ctx, "w"); !errors.Is(err, queuefs.ErrEmpty) {
			t.Errorf("next: got %v", err)
		}
		// Whoever puts the file in order is heard at once.
		os.RemoveAll(file)
		write(t, file, "identifier: jobs\nname: mended\n")
		reload(t, s)
		if st := q.State(); st.Damage != "" || st.Info.Name != "mended" || st.Info.Closed {
			t.Errorf("got %+v", st)
		}
		if _, err := q.Next(ctx, "w"); err != nil {
			t.Error(err)
		}
		closeHome(t, s)
		r, err := check.Home(dir, check.Options{Segment: segmentSize})
		if err != nil || len(r.Problems)+len(r.Mended) > 0 {
			t.Errorf("check: got %+v, %v", r, err)
		}
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
			s, q := openHome(t, dir, queuefs.Options{Report: func(p queuefs.Problem) { problems = append(problems, p.String()) }})
			defer closeHome(t, s)
			if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.Name, i.MaxAttempts = "Jöbs", 3 })); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir + "/queues/jobs/queue-info.txt"); err != nil {
				t.Fatal(err)
			}
			// Somebody may just be writing it.
			if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) {})); err == nil {
				t.Error("the file is written over")
			}
			reload(t, s)
			if st := q.State(); st.Damage == "" || st.Info.MaxAttempts != 3 || len(problems) != 1 {
				t.Errorf("got %+v, reported %q", st, problems)
			}
			if _, err := s.SetQueue(ctx, "jobs", set(func(i *queuefs.QueueInfo) { i.MaxAttempts = 4 })); err != nil {
				t.Fatal(err)
			}
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
	submit(t, q, queuefs.Meta{}, "x")
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
	if _, err := check.Home(dir, check.Options{Segment: segmentSize, Rebuild: true}); err != nil {
		t.Error(err)
	}
	s, q = openHome(t, dir, queuefs.Options{})
	if got := q.Info().Created; !got.Equal(made) {
		t.Errorf("rebuilt: got %v, want %v", got, made)
	}
	closeHome(t, s)
}
