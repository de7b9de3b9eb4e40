package destination_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cutie/publisher/destination"
	"cutie/publisher/destination/source"
)

// benchSync copies a Source, and audits the copy if audit is set.
func benchCopy(b *testing.B, o destination.Options, audit bool) (r *destination.Report) {
	b.Helper()
	c, err := destination.Open(b.Context(), o)
	if err == nil && audit {
		var a *destination.AuditReport
		if a, err = c.Audit(b.Context()); err == nil && !a.Clean() {
			b.Fatalf("audit: got %+v", a)
		}
	} else if err == nil {
		if r, err = c.Sync(b.Context()); err == nil && !r.InSync() {
			b.Fatalf("got %+v", r)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
	return r
}

// command runs a command of the system in a directory, and returns its time.
func command(b *testing.B, dir, text string) time.Duration {
	b.Helper()
	began := time.Now()
	cmd := exec.Command("sh", "-c", text)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Skipf("%s: %v: %.200s", text, err, out)
	}
	return time.Since(began)
}

// Run with -bench . -benchtime 1x (Following: 500x), with TMPDIR in memory.
//
// 100,000 resources of 1 KiB over loopback, beside programs of the system that do a part
// of the work: tar and sha256sum, curl with one connection, and sha256sum alone.
func BenchmarkCopyBesideTools(b *testing.B) {
	const n = 100_000
	f := newBulk(b, n, true)
	for b.Loop() {
		base := b.TempDir()
		took := map[string]time.Duration{}
		for _, by := range []destination.By{destination.ByDump, destination.ByList} {
			began := time.Now()
			benchCopy(b, destination.Options{URL: f.URL, Dir: filepath.Join(base, string(by)), By: by}, false)
			took[string(by)] = time.Since(began)
		}
		began := time.Now()
		benchCopy(b, destination.Options{Dir: filepath.Join(base, "dump")}, true)
		took["audit"] = time.Since(began)
		command(b, base, "tar -cf all.tar --exclude=.cutie-sync -C list . && mkdir tar curl")
		took["tar"] = command(b, base, "tar -xf all.tar -C tar")
		took["sha256sum"] = command(b, base, "cd tar && find . -type f -print0 | xargs -0 sha256sum > ../sums")
		var list strings.Builder
		for i := range n {
			fmt.Fprintf(&list, "url = %s%s\noutput = curl%[2]s\n", f.URL, bulkPath(i))
		}
		if err := os.WriteFile(filepath.Join(base, "urls"), []byte(list.String()), 0o600); err != nil {
			b.Fatal(err)
		}
		took["curl"] = command(b, base, "curl -s --create-dirs -K urls")
		ratio := func(a, c time.Duration) float64 { return a.Seconds() / c.Seconds() }
		for name, d := range took {
			b.ReportMetric(d.Seconds(), "s/"+name)
		}
		b.ReportMetric(ratio(took["dump"], took["tar"]+took["sha256sum"]), "dump/(tar+sha256sum)")
		b.ReportMetric(ratio(took["curl"], took["list"]), "curl/list")
		b.ReportMetric(ratio(took["audit"], took["sha256sum"]), "audit/sha256sum")
	}
}

// A million resources: 100 changes cost what 100 changes cost, and memory is bounded.
func BenchmarkMillion(b *testing.B) {
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	f := newBulk(b, n, false)
	dir := filepath.Join(b.TempDir(), "copy")
	for b.Loop() {
		for _, do := range []string{"sync", "audit", "inspect"} {
			b.ReportMetric(processMemory(b, f.URL, dir, do), "MiB/"+do)
		}
		for i := range 100 {
			f.Change(i * n / 100)
		}
		began := time.Now()
		r := benchCopy(b, destination.Options{Dir: dir}, false)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/100changes")
		b.ReportMetric(float64(r.Octets), "octets/100changes")
		if r.Fetched != 100 || r.Requests > 110 {
			b.Fatalf("got %+v", r)
		}
	}
}

// processMemory runs a Destination as a process, and returns the memory it needed at most.
func processMemory(b *testing.B, url, dir, do string) float64 {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CUTIE_TEST_COPY="+dir, "CUTIE_TEST_SOURCE="+url, "CUTIE_TEST_DO="+do)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v: %s", do, err, out)
	}
	var kib float64
	_, text, _ := strings.Cut(string(out), "VmHWM:") // getrusage counts this process, too
	if _, err := fmt.Sscan(text, &kib); err != nil {
		b.Fatalf("%s: %v: %s", do, err, out)
	}
	return kib / 1024
}

// From a change at the Source to the file in its place, at 100 changes a second.
func BenchmarkFollowing(b *testing.B) {
	f := newBulk(b, 1000, false)
	dir := filepath.Join(b.TempDir(), "copy")
	c, err := destination.Open(b.Context(), destination.Options{URL: f.URL, Dir: dir, HTTP: source.Options{}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var ready atomic.Bool
	ended := make(chan error)
	go func() { ended <- c.Follow(ctx, time.Second, func(*destination.Report) { ready.Store(true) }) }()
	for !ready.Load() {
		time.Sleep(time.Millisecond)
	}
	var took []time.Duration
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for i := 0; b.Loop(); i++ {
		<-t.C
		r := i % 1000
		name, want := filepath.Join(dir, bulkPath(r)), string(bulkText(r, i/1000+1))
		began := time.Now()
		f.Change(r)
		for {
			if text, _ := os.ReadFile(name); string(text) == want {
				break
			}
			time.Sleep(200 * time.Microsecond)
		}
		took = append(took, time.Since(began))
	}
	cancel()
	<-ended
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/median")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/p99")
}
