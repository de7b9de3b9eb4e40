package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cutie/testdata/tmpfs"
)

// The program starts itself as a peer; under test that is this binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == bareVerb {
		if err := command(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	tmpfs.Use()
	os.Exit(m.Run())
}

// runNamed calls the program and returns what it prints. Nothing may be left in dir.
func runNamed(ctx context.Context, t *testing.T, dir string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	err = command(ctx, append([]string{"peers", "--dir", dir}, args...), &out, &problems)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return out.String(), problems.String(), err
}

var names = []string{"beanstalkd", "redis", "dirq", "bare-http"}

func TestPeersMoveEveryJob(t *testing.T) {
	for _, name := range names {
		for _, size := range []int{0, 100, 100_000, 5 << 20} {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				out, problems, err := runNamed(t.Context(), t, t.TempDir(), "-t", "json", "-c", "3", "-n", "20", "--size", fmt.Sprint(size), name)
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(problems, "bench: nopeer "+name) {
					t.Skip(problems)
				}
				var got report
				if err := json.Unmarshal([]byte(out), &got); err != nil {
					t.Fatal(err)
				}
				if len(got.Runs) != 2 || got.Runs[0].Phase != submit || got.Runs[1].Phase != consume {
					t.Fatalf("got %+v", got)
				}
				for _, r := range got.Runs {
					if r.Server != name || r.Jobs != 20 || r.Errors != 0 || r.Clients != 3 || r.Size != size || r.OpsPerSecond <= 0 || r.P50 <= 0 {
						t.Errorf("got %+v, want 20 jobs of %d octets by 3 clients of %s", r, size, name)
					}
				}
			})
		}
	}
}

func TestPeersAreStoppedWhenInterrupted(t *testing.T) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, problems, err := runNamed(ctx, t, t.TempDir(), "-c", "2", "-n", "10000000", "--size", "10", name)
			if strings.HasPrefix(problems, "bench: nopeer "+name) {
				t.Skip(problems)
			}
			if err == nil {
				t.Error("ended without an error")
			}
		})
	}
}

func TestRunRefusesWhatItCannotMeasure(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"nobody"},
		{"-c", "0", "bare-http"},
		{"-n", "0", "bare-http"},
		{"--size", "-1", "bare-http"},
		{"--phase", "mixed", "bare-http"},
		{"--phase", "", "bare-http"},
		{"-t", "xml", "bare-http"},
		{"--unknown", "bare-http"},
	} {
		if out, _, err := runNamed(t.Context(), t, t.TempDir(), args...); err == nil {
			t.Errorf("%q: accepted: %s", args, out)
		}
	}
}

// write puts runs into a file, as the option -t json prints them.
func write(t *testing.T, runs ...result) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "runs.json")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := (report{runs}).writeJSON(f); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRatiosCompareTheMediansOfEqualSettings(t *testing.T) {
	submitted := func(server string, clients, batch int, rate float64) result {
		return result{Server: server, Phase: "submit", Clients: clients, Size: 1024, Batch: batch, Jobs: 1000, OpsPerSecond: rate, P99: 5}
	}
	withUsage := submitted("", 1, 1, 900)
	withUsage.Usage = &processUsage{CPUSeconds: 0.05, RSS: 20e6}
	withUsage.Errors = 2
	args := []string{"ratios",
		write(t, submitted("", 64, 1, 30000), submitted("", 64, 1, 10000), submitted("", 64, 1, 20000)),
		write(t, submitted("beanstalkd", 64, 1, 4000), submitted("beanstalkd", 64, 1, 6000), submitted("redis", 64, 1, 40000)),
		write(t, submitted("", 64, 100, 80000), withUsage, submitted("redis", 1, 1, 1000)),
	}
	var out bytes.Buffer
	if err := command(t.Context(), args, &out, &out); err != nil {
		t.Fatal(err)
	}
	const want = `
   phase  octets  clients  batch  runs  cutie/s  p99 ms  cpu µs/job  rss MB  errors  beanstalkd/s  ratio  redis/s  ratio
  submit    1024       64      1     3    20000    5.00           -       -       0          5000   4.00    40000   0.50
  submit    1024       64    100     1    80000    5.00           -       -       0          5000  16.00    40000   2.00
  submit    1024        1      1     1      900    5.00        50.0    20.0       2             -      -     1000   0.90
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestShowPrintsTheRunsOfFiles(t *testing.T) {
	name := write(t, result{Phase: "submit", Clients: 7}, result{Server: "redis", Phase: "consume", Clients: 8})
	var out bytes.Buffer
	if err := command(t.Context(), []string{"show", name}, &out, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || strings.Join(strings.Fields(lines[1])[:3], " ") != "cutie submit 7" || strings.Join(strings.Fields(lines[2])[:3], " ") != "redis consume 8" {
		t.Errorf("got\n%s", out.String())
	}
}

func TestFilesThatAreNoReportsAreRefused(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"runs":[`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{}, {"show"}, {"ratios"}, {"show", bad}, {"ratios", bad}, {"show", bad + ".missing"}, {"nothing"},
		{"ratios", write(t, result{Server: "redis", Phase: "submit"})},
	} {
		var out bytes.Buffer
		if err := command(t.Context(), args, &out, &out); err == nil {
			t.Errorf("%q: accepted: %s", args, out.String())
		}
	}
}
