package queuefs_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// keyedClients is a process whose clients submit, and take, with keys until it is killed.
// Client C goes on with request N of the file C of the directory of the home, and says
// "submit C N JOBS" or "take C N JOBS" for each answer.
func keyedClients(dir string) {
	s, err := queuefs.Open(dir, queuefs.Options{Segment: segmentSize})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	q, err := s.Queue("jobs")
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var out sync.Mutex
	say := func(words ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(words...)
	}
	errs := make(chan error)
	for c := range keyedCrowd {
		go func() {
			text, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), fmt.Sprint(c)))
			n := 0
			fmt.Sscan(string(text), &n)
			for ; ; n++ {
				key := fmt.Sprintf("%d-%d", c, n)
				if n%3 == 2 {
					wait, cancel := context.WithTimeout(ctx, time.Second)
					taken, err := q.TakeWait(wait, queuefs.Take{Key: key, Max: 1 + c%3, Lease: time.Duration(c%2) * time.Hour})
					if cancel(); err != nil {
						errs <- err
						return
					}
					say("take", c, n, strings.TrimSuffix(takenIDs(taken), " again"))
					continue
				}
				payloads := []string{key, key, key, key}[:1+2*(c%2)]
				if n%40 == 0 {
					payloads[0] = strings.Repeat(key, 5000)
				}
				got, _, err := send(q, key, nil, payloads...)
				if err != nil {
					errs <- err
					return
				}
				say("submit", c, n, got)
			}
		}()
	}
	fmt.Println("error", <-errs)
}

const keyedCrowd = 8

// TestKilledKeyedRequestsHappenOnce kills a process again and again. Its clients send what
// was not answered once more: each key has its jobs once, and no job has two takers.
func TestKilledKeyedRequestsHappenOnce(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, dir, queuefs.Options{})
	closeHome(t, s)
	next := [keyedCrowd]int{}
	submitted, taken := map[string]string{}, map[string]string{} // by key
	for range long.N(6, 60) {
		for c, n := range next {
			must(t, os.WriteFile(filepath.Join(filepath.Dir(dir), fmt.Sprint(c)), []byte(fmt.Sprint(n)), 0o600))
		}
		cmd := child(t, "keyed", dir)
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		must(t, err)
		must(t, processes.Start(cmd))
		most := 5 + rand.IntN(600)
		for sc := bufio.NewScanner(pipe); sc.Scan(); most-- {
			var what string
			var c, n int
			if k, _ := fmt.Sscan(sc.Text(), &what, &c, &n); k < 3 {
				t.Fatalf("the clients say %q", sc.Text())
			}
			if most == 0 {
				cmd.Process.Kill() // what is in the pipe is read to its end
			}
			key, jobs := fmt.Sprintf("%d-%d", c, n), strings.Join(strings.Fields(sc.Text())[3:], " ")
			if next[c] = n + 1; what == "take" {
				taken[key] = jobs
			} else {
				submitted[key] = jobs
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	s, q := openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	list, err := q.List(queuefs.ListOptions{Limit: 1 << 20})
	must(t, err)
	found, consumers := map[string]string{}, map[string]int{}
	for _, j := range list {
		key, _, _ := strings.Cut(j.Key, "#")
		found[key] = strings.TrimSpace(found[key] + " " + strings.TrimLeft(j.ID.String(), "j0"))
		if j.Status == queuefs.Consumed {
			consumers[j.ConsumerKey]++
		}
	}
	unanswered := 0
	for key, jobs := range found {
		if want, answered := submitted[key]; !answered {
			unanswered++
		} else if jobs != want {
			t.Errorf("key %s has the jobs %s, and was answered %s", key, jobs, want)
		}
		delete(submitted, key)
	}
	if len(submitted) > 0 || unanswered > keyedCrowd {
		t.Errorf("keys without jobs: %v, with jobs and not answered: %d", submitted, unanswered)
	}
	takers := map[string]string{}
	for key, jobs := range taken {
		for id := range strings.FieldsSeq(jobs) {
			if takers[id] != "" {
				t.Errorf("job %s went to %s and %s", id, takers[id], key)
			}
			takers[id] = key
		}
	}
	if over := len(consumers) - len(taken); over < 0 || over > keyedCrowd {
		t.Errorf("%d keys have jobs in work, %d were answered", len(consumers), len(taken))
	}
	t.Logf("%d jobs of %d keys, %d takes, %d jobs taken", len(list), len(found), len(taken), len(takers))
}
