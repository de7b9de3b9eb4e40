package queuefs_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/check"
	"cutie/testdata/processes"
)

// cullClients is a process that submits, consumes and culls until it is
// killed. It says what was acknowledged: "there ID" and "culled ID".
func cullClients(dir string) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: smallSegment})
	if err == nil {
		err = func() error {
			q, err := s.Queue("jobs")
			if err != nil {
				return err
			}
			var out sync.Mutex
			say := func(what string, id queuefs.JobID) {
				out.Lock()
				defer out.Unlock()
				fmt.Println(what, id)
			}
			errs := make(chan error)
			for range 3 {
				go func() {
					for {
						sub := q.Begin()
						d, err := sub.Add(queuefs.Meta{})
						if err == nil {
							d.Write([]byte("x"))
						}
						jobs, err := sub.Commit(ctx)
						if err != nil {
							errs <- err
							return
						}
						say("there", jobs[0].ID)
						if jobs[0].ID%5 == 0 {
							continue // some stay
						}
						if _, err := q.Next(ctx, "w"); err != nil && !errors.Is(err, queuefs.ErrEmpty) {
							errs <- err
							return
						}
					}
				}()
			}
			go func() {
				for n := 0; ; n++ {
					for c, err := range s.Cull(ctx, queuefs.CullOptions{}) {
						if err != nil {
							errs <- err
							return
						}
						say("culled", c.Job)
					}
					if n%7 == 0 {
						if err := s.Checkpoint(ctx); err != nil {
							errs <- err
							return
						}
					}
				}
			}()
			return <-errs
		}()
	}
	fmt.Println("error", err)
	os.Exit(1)
}

// TestCullingSurvivesKills kills a process that culls, again and again: no job
// is lost but those culled, what was culled stays so, and each has one
// tombstone.
func TestCullingSurvivesKills(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	cullQueue(t, s, "jobs")
	closeHome(t, s)
	there, gone := map[queuefs.JobID]bool{}, map[queuefs.JobID]bool{}
	for round := range 6 {
		cmd := child(t, "cull", dir)
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := processes.Start(cmd); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for sc := bufio.NewScanner(pipe); sc.Scan(); {
			what, name, _ := strings.Cut(sc.Text(), " ")
			id, err := queuefs.ParseJobID(name)
			if err != nil {
				t.Errorf("the clients say %q", sc.Text())
				break
			}
			if there[id] = true; what == "culled" {
				gone[id] = true
			}
			if lines++; lines == 40+97*round {
				cmd.Process.Kill() // what is in the pipe is read to its end
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	var problems []queuefs.Problem
	s, q := openHome(t, dir, queuefs.Options{Segment: smallSegment, Report: notBrokenOff(&problems)})
	buried := map[queuefs.JobID]bool{}
	for _, stone := range stones(t, q, time.Time{}, 100) {
		if buried[stone.Job] {
			t.Errorf("%v has two tombstones", stone.Job)
		}
		buried[stone.Job] = true
		if _, err := q.Job(stone.Job); !errors.Is(err, queuefs.ErrNoJob) {
			t.Errorf("%v has a tombstone: got %v", stone.Job, err)
		}
	}
	for id := range gone {
		if !buried[id] {
			t.Errorf("%v was culled, and has no tombstone", id)
		}
	}
	for id := range there {
		if st, _ := q.Status(id); st == 0 && !buried[id] {
			t.Errorf("%v is lost", id)
		}
	}
	if len(gone) < 50 || len(there) < 2*50 {
		t.Errorf("only %d jobs, %d culled", len(there), len(gone))
	}
	closeHome(t, s)
	r, err := check.Home(dir, check.Options{Segment: smallSegment})
	if err != nil || len(r.Problems)+len(r.Mended)+len(problems) > 0 {
		t.Errorf("check: %v, problems %v, mended %v, reported %v", err, r.Problems, r.Mended, problems)
	}
}
