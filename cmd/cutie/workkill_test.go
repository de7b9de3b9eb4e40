package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A worker that is killed takes its command along, and the children of the command:
// the job goes to another worker.
func TestAKilledWorkerLeavesNoCommandBehind(t *testing.T) {
	t.Parallel()
	d := serve(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := cutie(t, "put", "jobs", filepath.Join(dir, "f"), "-u", d.url, "-q"); err != nil {
		t.Fatal(err)
	}
	pids := filepath.Join(dir, "pids")
	worker := exec.Command("cutie", "work", "jobs", "-u", d.url, "--", "sh", "-c", `sleep 1000 & a=$!; sh -c 'trap "" TERM HUP; sleep 1001' & echo $$ $a $! >"$0.new"; mv "$0.new" "$0"; wait`, pids)
	worker.Dir = dir
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		worker.Process.Kill()
		worker.Wait()
	})
	var running []int
	until(t, "the command", func() bool {
		text, err := os.ReadFile(pids)
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			running = append(running, pid)
		}
		return err == nil
	})
	worker.Process.Kill()
	for _, pid := range running {
		until(t, "the end of "+strconv.Itoa(pid), func() bool { return gone(pid) })
	}
}

// gone reports whether a process has ended. The init of a container may not collect it.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}
