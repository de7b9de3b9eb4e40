package queuefs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
)

// TestWhatIsNotThereIsNotHandedOut serves a queue that verifies nothing: jobs
// whose payloads are not there, or have another length, are put on hold, with
// what they were, and those behind them are handed out.
func TestWhatIsNotThereIsNotHandedOut(t *testing.T) {
	for _, size := range []int{100, 200 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := fastDir(t)
			var told []string
			o := queuefs.Options{Now: clock(), Report: func(p queuefs.Problem) { told = append(told, p.String()) }}
			s, q := openHome(t, dir, o)
			for range 6 {
				submit(t, q, queuefs.Meta{}, strings.Repeat("x", size))
			}
			must(t, s.Maintain(ctx))
			for i, how := range []string{"cut", "gone", "grown", "", "gone"} {
				spoil(t, dir, queuefs.JobID(i+1), how)
			}
			for _, want := range []queuefs.JobID{4, 6} {
				taken, err := q.Take(ctx, queuefs.Take{By: "w", Lease: queuefs.DefaultLease})
				if err != nil || !slices.Equal(idsOfTaken(taken), []queuefs.JobID{want}) {
					t.Fatalf("got %v, %v, want %v", idsOfTaken(taken), err, want)
				}
				if got := payload(t, q, want); len(got) != size {
					t.Errorf("payload of %v has %d octets", want, len(got))
				}
			}
			if _, err := q.Next(ctx, "w"); !errors.Is(err, queuefs.ErrEmpty) {
				t.Errorf("got %v", err)
			}
			if got := q.IDs(queuefs.ListOptions{Held: true}); !slices.Equal(got, []queuefs.JobID{1, 2, 3, 5}) {
				t.Errorf("held: got %v", got)
			}
			j, err := q.Job(1)
			if want := fmt.Sprintf("payload of j000000000001 has 3 octets instead of %d", size); err != nil ||
				j.HeldFor != want || j.Attempts != 0 || j.Consumer != "" {
				t.Errorf("got %+v, %v", j, err)
			}
			// Job files are published: they do not tell where the home is.
			if j, err := q.Job(2); err != nil || j.HeldFor != "payload of j000000000002: no such file or directory" {
				t.Errorf("got %+v, %v", j, err)
			}
			if len(told) != 4 || !strings.Contains(told[1], "payload/j000000000002") || !strings.HasSuffix(told[1], "; the job is on hold") {
				t.Errorf("told %q", told)
			}
			// One that was mended is handed out.
			must(t, os.WriteFile(filepath.Join(dir, "queues/jobs/payload", j.ID.String()), []byte(strings.Repeat("x", size)), 0o666))
			_, err = q.Release(ctx, j.ID)
			must(t, err)
			if j, err := q.Next(ctx, "w"); err != nil || j.ID != 1 {
				t.Errorf("got %v, %v", j.ID, err)
			}
			counted(t, q)
			closeHome(t, s)
		})
	}
}

// The length of a payload is what the index says, whatever other hands wrote
// into the job file.
func TestLengthIsNotWhatOtherHandsWrote(t *testing.T) {
	dir := fastDir(t)
	s, q := openHome(t, dir, queuefs.Options{Now: clock()})
	defer closeHome(t, s)
	submit(t, q, queuefs.Meta{}, "payload")
	must(t, s.Maintain(ctx))
	path := filepath.Join(dir, "queues/jobs/pending/j000000000001")
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte(strings.Replace(string(text), "size: 7", "size: 9", 1)), 0o666))
	j, err := q.Next(ctx, "w")
	if err != nil || j.Size != 7 {
		t.Fatalf("got %d octets, %v", j.Size, err)
	}
	if got := payload(t, q, 1); got != "payload" {
		t.Errorf("got %q", got)
	}
}
