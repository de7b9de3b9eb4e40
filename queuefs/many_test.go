package queuefs_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/testdata/processes"
)

// makeMany is a child: clients make queues with a job each, and say so when it is
// acknowledged.
func makeMany(dir string) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for c := range 8 {
		go func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("q%d-%d-%d", c, n, os.Getpid())
				q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: id, MaxAttempts: c})
				if err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println("made", id)
				sub := q.Begin()
				d, err := sub.Add(queuefs.Meta{Filename: "f"})
				if err == nil {
					_, err = io.WriteString(d, id)
				}
				if err == nil {
					_, err = sub.Commit(ctx)
				}
				if err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println("filled", id)
			}
		}()
	}
	for n := 0; ; n++ {
		time.Sleep(20 * time.Millisecond)
		if err := s.Maintain(ctx); err != nil {
			fmt.Println("error", err)
		}
		if n%4 == 3 {
			if err := s.Checkpoint(ctx); err != nil {
				fmt.Println("error", err)
			}
		}
	}
}

// TestQueuesAreThereAfterAKill kills the process while it makes queues: all acknowledged
// ones are there, with their jobs, also after one more crash.
func TestQueuesAreThereAfterAKill(t *testing.T) {
	for round := range 4 {
		dir := filepath.Join(fastDir(t), "home")
		must(t, queuefs.Init(dir, queuefs.ServiceInfo{Name: "test"}))
		sure := map[string]int{} // jobs of acknowledged queues
		for range 3 {
			cmd := child(t, "makers", dir)
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, processes.Start(cmd))
			lines, most := 0, 20+round*100
			for said := bufio.NewScanner(out); said.Scan(); {
				switch verb, id, _ := strings.Cut(said.Text(), " "); verb {
				case "made":
					sure[id] = max(sure[id], 0)
				case "filled":
					sure[id] = 1
				default:
					t.Error(said.Text())
				}
				if lines++; lines == most {
					cmd.Process.Kill() // what is in the pipe is read to its end
				}
			}
			cmd.Wait()
		}
		for range 2 {
			s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Report: func(p queuefs.Problem) { t.Errorf("round %d: %v", round, p) }})
			must(t, err)
			for id, jobs := range sure {
				q, err := s.Queue(id)
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				st := q.State()
				if int(st.Pending) < jobs || st.Seq != queuefs.Seq(st.Pending) || st.Damage != "" || !strings.HasPrefix(id, fmt.Sprintf("q%d-", st.Info.MaxAttempts)) ||
					st.Pending > 0 && payload(t, q, 1) != id {
					t.Fatalf("round %d: got %+v, want %d jobs", round, st, jobs)
				}
			}
			dir = copyHome(t, dir)
			closeHome(t, s)
		}
	}
}

// TestDescriptorsDoNotGrowWithQueues makes, uses and opens more queues than descriptors
// are allowed.
func TestDescriptorsDoNotGrowWithQueues(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	must(t, queuefs.Init(dir, queuefs.ServiceInfo{Name: "test"}))
	o := queuefs.Options{Segment: segmentSize, Dirs: 10}
	s, err := queuefs.Open(dir, o)
	must(t, err)
	before := descriptors(t)
	bounded := func() {
		t.Helper()
		if n := descriptors(t); n > before+10+5 {
			t.Errorf("%d descriptors are open, after %d", n, before)
		}
	}
	for n := range 100 {
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: fmt.Sprint("q", n)})
		must(t, err)
		submit(t, q, queuefs.Meta{}, "x")
	}
	bounded()
	must(t, s.Checkpoint(ctx))
	bounded()
	closeHome(t, s)
	s, err = queuefs.Open(dir, o)
	must(t, err)
	bounded()
	for _, q := range s.Queues() {
		j, err := q.Next(ctx, "w")
		if err != nil || j.ID != 1 {
			t.Fatalf("got %v, %v", j.ID, err)
		}
	}
	bounded()
	closeHome(t, s)
}

// TestAQueueIsMadeWholeOrNot fails each step of the making of a queue, not done and done,
// and opens the home again as it then is.
func TestAQueueIsMadeWholeOrNot(t *testing.T) {
	for at, fired := 1, true; fired; at++ {
		for _, done := range []bool{false, true} {
			fired = makeFailing(t, at, done)
		}
	}
}

// makeFailing reports whether there was such a step.
func makeFailing(t *testing.T, at int, done bool) bool {
	t.Helper()
	dir := filepath.Join(fastDir(t), "home")
	must(t, queuefs.Init(dir, queuefs.ServiceInfo{Name: "test"}))
	n, on, name := 0, false, ""
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize, Fault: func(step string, do func() error) error {
		if n++; on && n == at {
			name = step
			if done {
				if err := do(); err != nil {
					return err
				}
			}
			return syscall.EIO
		}
		return do()
	}})
	must(t, err)
	n, on = 0, true
	_, made := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "new"})
	on = false
	crashed := copyHome(t, dir)
	if err := s.Close(); err != nil && made == nil {
		t.Error(err)
	}
	for _, home := range []string{crashed, dir} {
		s = openBare(t, home, queuefs.Options{Segment: segmentSize})
		_, err = s.Queue("new")
		if made == nil && err != nil {
			t.Errorf("step %d, %s: %v", at, name, err)
		}
		if err != nil {
			if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "new"}); err != nil {
				t.Errorf("step %d, %s: made again: %v", at, name, err)
			}
		}
		closeHome(t, s)
	}
	return name != ""
}
