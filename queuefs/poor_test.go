package queuefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"cutie/queuefs"
)

// openPoor is a child that opens copies of a home with ever more descriptors,
// until one opens.
func openPoor(dir string) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		fmt.Println("error", err)
		return
	}
	for n := 0; ; n++ {
		copied := filepath.Join(dir, strconv.Itoa(n))
		if _, err := os.Stat(copied); err != nil {
			fmt.Println("error: no more copies")
			return
		}
		few := limit
		few.Cur = uint64(5 + n)
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			fmt.Println("error", err)
			return
		}
		s, err := queuefs.Open(copied, queuefs.Options{Segment: segmentSize})
		if err == nil {
			err = s.Checkpoint(ctx)
			s.Close()
		}
		fmt.Println(n, err)
		if err == nil {
			return
		}
	}
}

// TestTooFewDescriptors opens a home, which has to be read from its
// directories and in which jobs were moved by hand, with too few descriptors:
// it does not open, and what could not be read is not taken for lost.
func TestTooFewDescriptors(t *testing.T) {
	g := newGarden(t)
	if err := os.Rename(g.path("consumed/j000000000004"), g.path("pending/j000000000004")); err != nil {
		t.Fatal(err)
	}
	g.w = g.w.set("jobs", 4, func(f *fact) { f.status, f.consumer, f.requeues = queuefs.Pending, "", 1 })
	if err := os.Remove(filepath.Join(g.dir, "log/index/queues/jobs/p000000000")); err != nil {
		t.Fatal(err)
	}
	copies := fastDir(t)
	const most = 40
	for n := range most {
		if err := os.CopyFS(filepath.Join(copies, strconv.Itoa(n)), os.DirFS(g.dir)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := child(t, "poor", copies).CombinedOutput()
	if err != nil || strings.Contains(string(out), "error") {
		t.Fatalf("%v: %s", err, out)
	}
	tried := strings.Count(string(out), "\n")
	if tried < 5 {
		t.Errorf("only %d limits were too low: %s", tried, out)
	}
	for n := range tried {
		s, _ := openHome(t, filepath.Join(copies, strconv.Itoa(n)), queuefs.Options{})
		if d := g.w.difference(observe(t, s)); d != "" {
			t.Errorf("limit %d: %s", n, d)
		}
		closeHome(t, s)
	}
}
