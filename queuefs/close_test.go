package queuefs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"cutie/queuefs"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// TestCloseUnderLoad closes a home while everybody works on it: what was
// acknowledged is there afterwards, the others are told that it closed.
func TestCloseUnderLoad(t *testing.T) {
	rounds := long.N(4, 12)
	dir := fastDir(t)
	o := queuefs.Options{Behind: 100 << 10}
	want := map[queuefs.JobID]fact{}
	for range rounds {
		s, q := openHome(t, dir, o)
		var mu sync.Mutex
		var begun atomic.Int64
		var wg sync.WaitGroup
		ended := func(op string, err error) bool {
			if err == nil || errors.Is(err, queuefs.ErrEmpty) || errors.Is(err, queuefs.ErrNotPending) {
				return false
			}
			if !errors.Is(err, queuefs.ErrClosed) && !t.Failed() {
				t.Errorf("%s: got %v", op, err)
			}
			return true
		}
		for i := range 16 {
			wg.Go(func() {
				for n := 0; ; n++ {
					begun.Add(1)
					var err error
					switch i % 8 {
					case 0, 1, 2:
						sub := q.Begin()
						d, e := sub.Add(queuefs.Meta{Filename: "f"})
						if e == nil {
							_, e = io.WriteString(d, strings.Repeat("p", n%3*70_000))
						}
						var jobs []queuefs.Job
						if e == nil {
							jobs, e = sub.Commit(ctx)
						}
						sub.Discard()
						mu.Lock()
						for _, j := range jobs {
							if _, known := want[j.ID]; !known { // it may have moved on already
								want[j.ID] = fact{status: queuefs.Pending, filename: "f", payload: strings.Repeat("p", n%3*70_000)}
							}
						}
						mu.Unlock()
						err = e
					case 3, 4:
						var jobs []queuefs.Job
						jobs, err = q.NextN(ctx, "w", 2)
						mu.Lock()
						for _, j := range jobs {
							want[j.ID] = fact{status: queuefs.Consumed, filename: "f", consumer: "w", payload: strings.Repeat("p", int(j.Size))}
						}
						mu.Unlock()
					case 5:
						err = s.Maintain(ctx)
					case 6:
						err = s.Checkpoint(ctx)
					case 7:
						err = q.Wait(ctx, q.Seq())
					}
					if ended([]string{"submit", "submit", "submit", "next", "next", "maintain", "checkpoint", "wait"}[i%8], err) {
						return
					}
				}
			})
		}
		for begun.Load() < 400 {
			if _, err := q.Peek(); err != nil && !errors.Is(err, queuefs.ErrEmpty) {
				t.Error(err)
			}
		}
		closeHome(t, s)
		wg.Wait()
		if t.Failed() {
			return
		}
	}
	s, q := openHome(t, dir, queuefs.Options{})
	w := world{"jobs": jobs{byID: want}}
	if d := w.difference(observe(t, s)); d != "" {
		t.Error(d)
	}
	if st := q.State(); int(st.Pending+st.Consumed) != len(want) {
		t.Errorf("got %+v, want %d", st, len(want))
	}
	closeHome(t, s)
	v := verifier{TB: t, dir: dir, o: queuefs.Options{Segment: segmentSize}}
	v.checkFiles(w)
}

// TestAfterClose asks a closed home for everything.
func TestAfterClose(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{})
	submit(t, q, queuefs.Meta{}, "x") // a file from the first closing on
	closeHome(t, s)
	s, q = openHome(t, dir, queuefs.Options{})
	submit(t, q, queuefs.Meta{}, "y")
	sub := q.Begin()
	d, err := sub.Add(queuefs.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	closeHome(t, s)
	for name, op := range map[string]func() error{
		"commit":     func() error { d.Write([]byte("x")); _, err := sub.Commit(ctx); return err },
		"next":       func() error { _, err := q.Next(ctx, "w"); return err },
		"wait next":  func() error { _, err := q.NextWait(ctx, "w", 1); return err },
		"delete":     func() error { _, err := q.Delete(ctx, 1); return err },
		"requeue":    func() error { _, err := q.Requeue(ctx, 1); return err },
		"create":     func() error { _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "x"}); return err },
		"maintain":   func() error { return s.Maintain(ctx) },
		"checkpoint": func() error { return s.Checkpoint(ctx) },
		"wait":       func() error { return q.Wait(ctx, 1) },
	} {
		if err := op(); !errors.Is(err, queuefs.ErrClosed) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// Reading finds nothing, and does not fall.
	q.State()
	q.Pages()
	q.Page(0, nil)
	q.PageVersion(0)
	q.IDs(queuefs.ListOptions{})
	q.InfoFile()
	for _, id := range []queuefs.JobID{1, 2} {
		if _, err := q.Job(id); !errors.Is(err, queuefs.ErrClosed) {
			t.Errorf("a job of a closed home: got %v", err)
		}
		if _, err := q.Payload(id); !errors.Is(err, queuefs.ErrClosed) {
			t.Errorf("a payload of a closed home: got %v", err)
		}
	}
	if _, err := q.Peek(); err == nil {
		t.Error("a head of a closed home")
	}
	if _, err := q.Events(0, 10); err == nil {
		t.Error("events of a closed home")
	}
}

// holdHome is a child that has a home open until its input ends.
func holdHome(dir string) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("open")
	io.Copy(io.Discard, os.Stdin)
	if err := s.Close(); err != nil {
		os.Exit(1)
	}
}

// TestHomeOfAnotherProcess meets a home that another process has open, that
// then stops or is killed.
func TestHomeOfAnotherProcess(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
	for _, kill := range []bool{false, true} {
		cmd := child(t, "hold", dir)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := processes.Start(cmd); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		_, err = queuefs.Open(dir, queuefs.Options{})
		var locked *queuefs.LockedError
		if !errors.As(err, &locked) || locked.PID != cmd.Process.Pid || locked.Dir != dir {
			t.Errorf("got %v, want process %d", err, cmd.Process.Pid)
		}
		if kill {
			cmd.Process.Kill()
		}
		in.Close()
		if err := cmd.Wait(); (err == nil) == kill {
			t.Errorf("ended with %v", err)
		}
		s, _ = openHome(t, dir, queuefs.Options{})
		closeHome(t, s)
	}
}

// A change that waits for space when the service closes is finished: the checkpoint it
// asked for makes some.
func TestCloseWaitsForAChangeThatMakesSpace(t *testing.T) {
	var full, held atomic.Bool
	reached, goOn := make(chan struct{}), make(chan struct{})
	s, q := openHome(t, t.TempDir(), queuefs.Options{Segment: 4 << 20, Fault: func(step string, do func() error) error {
		if full.Load() && (step == "prepare segment" || step == "allocate") {
			return syscall.ENOSPC
		}
		if full.Load() && step == "syncfs" && held.CompareAndSwap(false, true) {
			close(reached)
			<-goOn
		}
		return do()
	}})
	full.Store(true)
	done := make(chan error, 1)
	go func() {
		for {
			sub := q.Begin()
			d, err := sub.Add(queuefs.Meta{})
			if err == nil {
				_, err = d.Write(make([]byte, 100_000))
			}
			if err == nil {
				_, err = sub.Commit(ctx)
			}
			if err != nil || held.Load() { // the one that asked for the checkpoint, or one after it
				done <- err
				return
			}
		}
	}()
	select {
	case <-reached:
	case err := <-done:
		t.Fatalf("no checkpoint was asked for: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for {
		if _, err := q.NextN(ctx, "me", 1); errors.Is(err, queuefs.ErrClosed) {
			break
		}
	}
	full.Store(false)
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("the change on its way got %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
