package access_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/cmd/cutie/access"
)

var entry = access.Entry{Host: "192.0.2.1", User: "ann", Time: time.Date(2026, 11, 21, 1, 2, 3, 4, time.FixedZone("", 3600)),
	Method: "GET", Target: "/state/q?t=anvl", Proto: "HTTP/1.1", Status: 200, Octets: 617, Referer: "http://x/", Agent: "curl/8"}

func TestEntryIsACombinedLogLine(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*access.Entry)
		want string
	}{
		{"plain", func(e *access.Entry) {},
			`192.0.2.1 - ann [21/Nov/2026:00:02:03 +0000] "GET /state/q?t=anvl HTTP/1.1" 200 617 "http://x/" "curl/8"`},
		{"empty", func(e *access.Entry) { e.User, e.Referer, e.Agent = "", "", "" },
			`192.0.2.1 - - [21/Nov/2026:00:02:03 +0000] "GET /state/q?t=anvl HTTP/1.1" 200 617 "-" "-"`},
		{"forged", func(e *access.Entry) {
			e.Agent = "x\"\r\n6.6.6.6 - root [\x1b[2J\\"
			e.Referer, e.User = "a b\xff", "a b] \""
		},
			`192.0.2.1 - a\x20b]\x20\" [21/Nov/2026:00:02:03 +0000] "GET /state/q?t=anvl HTTP/1.1" 200 617 "a b\xff" "x\"\x0d\x0a6.6.6.6 - root [\x1b[2J\\"`},
		{"secrets", func(e *access.Entry) {
			e.Target = "/lease/q/j?x=1&Token=a&access%5Ftoken=b;lease-token=c&tokens"
			e.Referer = "https://ann:secret@x/y?password=z"
		},
			`192.0.2.1 - ann [21/Nov/2026:00:02:03 +0000] "GET /lease/q/j?x=1&Token=redacted&access%5Ftoken=redacted;lease-token=redacted&tokens HTTP/1.1" 200 617 "https://redacted@x/y?password=redacted" "curl/8"`},
		{"long", func(e *access.Entry) { e.Agent = strings.Repeat("a", 5000) },
			`192.0.2.1 - ann [21/Nov/2026:00:02:03 +0000] "GET /state/q?t=anvl HTTP/1.1" 200 617 "http://x/" "` + strings.Repeat("a", 2048) + `..."`},
	} {
		e := entry
		tt.edit(&e)
		if got := string(e.Append(nil)); got != tt.want+"\n" {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// combined is what log readers split lines by.
var combined = regexp.MustCompile(`^\S+ - \S+ \[[^]]+\] "\S+ \S+ \S+" \d+ \d+ "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*"\n$`)

func FuzzEntryIsOneLine(f *testing.F) {
	f.Add("u", "GET", "/a?token=x", "ref", "agent")
	f.Fuzz(func(t *testing.T, user, method, target, referer, agent string) {
		e := access.Entry{Host: "h", User: user, Time: entry.Time, Method: method, Target: target, Proto: "HTTP/1.1",
			Status: 200, Referer: referer, Agent: agent}
		if got := e.Append(nil); !combined.Match(got) || bytes.Count(got, []byte("\n")) != 1 {
			t.Errorf("got %q", got)
		}
	})
}

// contents reads the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		files[e.Name()] = string(text)
	}
	return files
}

// agents are the user agents in a log, in order.
func agents(text string) (list []string) {
	for line := range strings.Lines(text) {
		f := strings.Split(line, `"`)
		list = append(list, f[len(f)-2])
	}
	return list
}

func open(t *testing.T, name string, max int64, keep int) *access.Log {
	t.Helper()
	l, err := access.OpenLog(name, max, keep)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func add(l *access.Log, agent string) {
	e := entry
	e.Agent = agent
	l.Add(&e)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// large is an agent of which the smallest file has room for hundreds.
func large(n int) string { return fmt.Sprint(n, strings.Repeat("x", 2000)) }

func TestLogRotatesBySize(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "web-access.txt")
	l := open(t, name, 1<<20, 2)
	const lines = 2000 // some four files
	for i := range lines {
		add(l, large(i))
	}
	must(t, l.Flush())
	must(t, l.Close())
	for n := 0; n != 3; { // the library removes older ones in a goroutine of its own
		files, err := os.ReadDir(dir)
		must(t, err)
		n = len(files)
	}
	got := contents(t, dir)
	next := lines
	for _, file := range slices.Backward(slices.Sorted(maps.Keys(got))) { // web-access.txt is the last of them
		if info, err := os.Stat(filepath.Join(dir, file)); err != nil || info.Size() > 1<<20 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: got %d bytes, mode %v, %v", file, info.Size(), info.Mode(), err)
		}
		for _, agent := range slices.Backward(agents(got[file])) {
			if next--; agent != large(next) {
				t.Fatalf("%s: got line %.4s, want %d", file, agent, next)
			}
		}
	}
	// It goes on where it was.
	before := len(agents(got["web-access.txt"]))
	l = open(t, name, 1<<20, 2)
	add(l, "more")
	must(t, l.Close())
	if g := agents(contents(t, dir)["web-access.txt"]); len(g) != before+1 || g[before] != "more" {
		t.Errorf("got %d lines, want one more than %d", len(g), before)
	}
}

func TestLogIsReopenedAfterOthersMovedIt(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "log")
	l := open(t, name, 0, 1)
	add(l, "1")
	must(t, l.Flush())
	must(t, os.Rename(name, filepath.Join(dir, "old")))
	add(l, "2")
	must(t, l.Reopen())
	add(l, "3")
	must(t, l.Close())
	add(l, "4") // after the end nothing happens
	must(t, l.Flush())
	got := contents(t, dir)
	if old, now := agents(got["old"]), agents(got["log"]); !slices.Equal(old, []string{"1", "2"}) || !slices.Equal(now, []string{"3"}) {
		t.Errorf("got %q and %q", old, now)
	}
}

func TestLogSurvivesATimeWithoutItsFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	must(t, os.Mkdir(dir, 0o777))
	l := open(t, filepath.Join(dir, "file"), 1<<20, 1)
	add(l, "first")
	must(t, l.Flush())
	must(t, os.RemoveAll(dir))
	must(t, os.WriteFile(dir, nil, 0o666)) // no directory can be made there
	const n = 2000
	for i := range n { // it is to be rotated on the way
		add(l, large(i))
	}
	if l.Flush() == nil {
		t.Error("got no error without a directory")
	}
	must(t, os.Remove(dir))
	err := l.Flush()
	if err == nil || !strings.Contains(err.Error(), "lines were lost") {
		t.Fatalf("got %v, want how many lines were lost", err)
	}
	var lost int
	if _, scan := fmt.Sscanf(err.Error(), "access log: %d lines", &lost); scan != nil {
		t.Fatal(scan)
	}
	add(l, "last")
	must(t, l.Flush())
	got := agents(contents(t, dir)["file"])
	if len(got) < 2 || got[len(got)-1] != "last" || got[len(got)-2] != large(n-lost-1) {
		t.Errorf("got %d lines, %d lost", len(got), lost)
	}
}

func TestLinesSurviveAKill(t *testing.T) {
	dir := t.TempDir()
	l := open(t, filepath.Join(dir, "log"), 0, 1)
	for i := range 3 {
		add(l, fmt.Sprint(i))
		if got := agents(contents(t, dir)["log"]); len(got) != i+1 {
			t.Errorf("got %q after %d lines", got, i+1)
		}
	}
}

func TestLinesOfManyAtOnceAreWhole(t *testing.T) {
	dir := t.TempDir()
	l := open(t, filepath.Join(dir, "log"), 1<<20, 1000)
	const each, writers = 2500, 8
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				add(l, fmt.Sprint(w, ".", i))
				if i%100 == 0 {
					if err := l.Flush(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	must(t, l.Close())
	seen := map[string]bool{}
	for _, text := range contents(t, dir) {
		for line := range strings.Lines(text) {
			if !combined.MatchString(line) {
				t.Errorf("got %q", line)
			}
		}
		for _, a := range agents(text) {
			seen[a] = true
		}
	}
	if len(seen) != each*writers {
		t.Errorf("got %d lines, want %d", len(seen), each*writers)
	}
}

func BenchmarkLog(b *testing.B) {
	l, err := access.OpenLog(filepath.Join(b.TempDir(), "log"), 0, 1)
	must(b, err)
	defer l.Close()
	e := access.Entry{Host: "192.0.2.1", User: "ann", Time: time.Now(), Method: "POST", Target: "/content/jobs?filename=a.txt", Proto: "HTTP/1.1",
		Status: 201, Octets: 617, Agent: "curl/7.88.1"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		mine := e
		for pb.Next() {
			l.Add(&mine)
		}
	})
}
