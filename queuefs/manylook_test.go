package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs"
)

// Of many queues the properties are looked at in turn, and at once if somebody has asked
// for the queue.
func TestManyQueuesAreLookedAtInTurn(t *testing.T) {
	dir := fastDir(t)
	s, _ := openHome(t, dir, queuefs.Options{})
	defer closeHome(t, s)
	const many = 2100
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for n := next.Add(1); n <= many; n = next.Add(1) {
				if _, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: fmt.Sprintf("q%04d", n)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for range 2*many/200 + 2 {
		reload(t, s)
	}
	describe := func(id string) {
		name := filepath.Join(dir, "queues", id, "queue-info.txt")
		text, err := os.ReadFile(name)
		must(t, err)
		write(t, name, string(text)+"description: by hand\n")
	}
	describe("q0700")
	if _, err := s.Queue("q0700"); err != nil {
		t.Fatal(err)
	}
	if got := reload(t, s); !slices.Equal(got, []string{"q0700"}) {
		t.Errorf("asked for: got %v", got)
	}
	describe("q1900")
	var found []string
	for range many/200 + 2 {
		found = append(found, reload(t, s)...)
	}
	if !slices.Equal(found, []string{"q1900"}) {
		t.Errorf("in turn: got %v", found)
	}
}

// Of many callers who make a queue of one name, or of one identifier, one succeeds.
func TestANameIsGivenOnce(t *testing.T) {
	s, _ := openHome(t, fastDir(t), queuefs.Options{})
	defer closeHome(t, s)
	for round := range 20 {
		var made atomic.Int64
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				info := queuefs.QueueInfo{Identifier: fmt.Sprintf("r%d-%d", round, n%4), Name: fmt.Sprintf("name %d", round)}
				if n%2 == 0 {
					info = queuefs.QueueInfo{Identifier: fmt.Sprintf("r%d-%d", round, 1), Name: fmt.Sprintf("name %d", round)}
				}
				switch _, err := s.CreateQueue(ctx, info); {
				case err == nil:
					made.Add(1)
				case !errors.Is(err, queuefs.ErrQueueExists):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := made.Load(); n != 1 {
			t.Errorf("round %d: %d were made, want 1", round, n)
		}
		if _, err := s.Queue(fmt.Sprintf("name %d", round)); err != nil {
			t.Error(err)
		}
	}
}

// A line of queues.txt that a crash has torn makes no queue.
func TestATornLineMakesNoQueue(t *testing.T) {
	for _, c := range []struct {
		about, end string
		want       []string
	}{
		{"torn", "jo", []string{"jobs", "jobs2"}},
		{"torn, and a queue all the same", "jobs2", []string{"jobs", "jobs2"}},
		{"by hand", "more\n", []string{"jobs", "jobs2", "more"}},
	} {
		dir := fastDir(t)
		s, _ := openHome(t, dir, queuefs.Options{})
		_, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "jobs2"})
		must(t, err)
		closeHome(t, s)
		text, err := os.ReadFile(filepath.Join(dir, "queues.txt"))
		must(t, err)
		write(t, filepath.Join(dir, "queues.txt"), string(text)+c.end)
		s, _ = openHome(t, dir, queuefs.Options{})
		if got := ids(s); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.about, got, c.want)
		}
		// The next one is made, and no other comes to be.
		_, err = s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: "last"})
		must(t, err)
		closeHome(t, s)
		s, _ = openHome(t, dir, queuefs.Options{})
		if got := ids(s); !slices.Equal(got, append(c.want, "last")) {
			t.Errorf("%s: after another one: got %v", c.about, got)
		}
		closeHome(t, s)
	}
}

// Queues are opened side by side, except for those with a damaged index: all stand in the
// order of queues.txt, and numbers that were given out are not given out again.
func TestManyQueuesAreOpenedInTheirOrder(t *testing.T) {
	dir := filepath.Join(fastDir(t), "home")
	s, _ := openHome(t, dir, queuefs.Options{})
	const many = 450
	for n := range many {
		q, err := s.CreateQueue(ctx, queuefs.QueueInfo{Identifier: fmt.Sprintf("q%04d", (n*7)%many), VerifyOnWrite: n%2 == 0})
		must(t, err)
		if n%10 == 0 {
			submit(t, q, queuefs.Meta{}, "payload")
		}
	}
	var want []string
	seqs := map[string]queuefs.Seq{}
	for _, q := range s.Queues() {
		want = append(want, q.ID())
		seqs[q.ID()] = q.Seq()
	}
	closeHome(t, s)
	small := filepath.Join(dir, "log/index/small")
	b, err := os.ReadFile(small)
	must(t, err)
	for _, id := range []string{"q0007", "q0070", "q0300"} { // its entries do not verify
		for _, at := range regexp.MustCompile(`(?s)`+id+`....job:`).FindAllIndex(b, -1) {
			b[at[1]] ^= 1
		}
	}
	must(t, os.WriteFile(small, b, 0o600))
	told := 0
	s = openBare(t, dir, queuefs.Options{Report: func(queuefs.Problem) { told++ }})
	defer closeHome(t, s)
	var got []string
	for _, q := range s.Queues() {
		got = append(got, q.ID())
		if q.Seq() < seqs[q.ID()] {
			t.Errorf("%s: event %d, it was at %d", q.ID(), q.Seq(), seqs[q.ID()])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the order %v", got)
	}
	if told == 0 {
		t.Error("no damage was told")
	}
}
