package main_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/processes"
)

// A run of tests that is killed leaves no process behind.
func TestProcessesEndWithTheRunThatStartedThem(t *testing.T) {
	if os.Getenv("PROCESSES_RUN") != "" {
		sleeper := exec.Command("sleep", "600")
		if err := processes.Start(sleeper); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("sleeper " + strconv.Itoa(sleeper.Process.Pid) + "\n")
		select {}
	}
	run := exec.Command(os.Args[0], "-test.run", "^TestProcessesEndWithTheRunThatStartedThem$")
	run.Env = append(os.Environ(), "PROCESSES_RUN=1")
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := processes.Start(run); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for lines := bufio.NewScanner(out); pid == 0 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "sleeper "); ok {
			pid, _ = strconv.Atoi(text)
		}
	}
	if pid == 0 {
		t.Fatal("the run started no process")
	}
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	run.Wait()
	// Whoever inherits the process may be slow to wait for it: a zombie has ended.
	for end := time.Now().Add(30 * time.Second); !processEnded(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the process outlives the run")
		}
	}
}

func processEnded(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
