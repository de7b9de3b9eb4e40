package destination_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cutie/publisher/destination"
	"cutie/publisher/destination/source"
	"cutie/sitemap"
	"cutie/testdata/long"
	"cutie/testdata/tmpfs"
)

// TestMain runs this program as a Destination to be killed, for TestKilledDestination,
// TestFullDisk and BenchmarkMillion, or else the tests.
func TestMain(m *testing.M) {
	dir := os.Getenv("CUTIE_TEST_COPY")
	if dir == "" {
		tmpfs.Use()
		os.Exit(m.Run())
	}
	if err := beDestination(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func beDestination(ctx context.Context, dir string) error {
	if n, _ := strconv.ParseUint(os.Getenv("CUTIE_TEST_FSIZE"), 10, 64); n > 0 {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	debug.SetMemoryLimit(200 << 20) // as cutie sync does
	c, err := destination.Open(ctx, destination.Options{URL: os.Getenv("CUTIE_TEST_SOURCE"), Dir: dir,
		HTTP: source.Options{Connections: 4, Tries: 2, Pause: time.Millisecond}, Settle: time.Millisecond})
	if err != nil {
		return err
	}
	defer c.Close()
	switch os.Getenv("CUTIE_TEST_DO") {
	case "follow":
		err = c.Follow(ctx, time.Millisecond, func(*destination.Report) {})
	case "audit":
		_, err = c.Audit(ctx)
	case "inspect":
		uri := os.Getenv("CUTIE_TEST_SOURCE")
		_, err = destination.Inspect(ctx, source.NewClient(source.Options{Origin: uri}), uri, destination.InspectOptions{Sample: 100})
	default:
		_, err = c.Sync(ctx)
	}
	if err != nil {
		return err
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		os.Stdout.Write(status) // memory, for BenchmarkMillion
	}
	return nil
}

// process runs a Destination until do ends it, or it ends by itself.
func (p *place) process(env ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "CUTIE_TEST_COPY="+p.dir, "CUTIE_TEST_SOURCE="+p.f.URL)...)
	must(p.t, cmd.Start())
	return cmd
}

// Killed at any request, during the baseline and while it follows, a Destination asks
// again for nothing but what was on its way, and no file is half-written.
func TestKilledDestination(t *testing.T) {
	const resources, connections = 300, 4
	for _, follow := range []bool{false, true} {
		f := newSource(t)
		for i := range resources {
			f.Put(fmt.Sprint("/r", i), strings.Repeat(fmt.Sprint(i), 100))
		}
		p := newPlace(t, f)
		env := "CUTIE_TEST_DO="
		if follow {
			p.mustSync(nil)
			env += "follow"
		}
		f.Lock(func() { clear(f.Asked) })
		kills := long.N(8, 50)
		puts := 0
		var asked, killAt atomic.Int64
		reached := make(chan struct{}, resources)
		f.Lock(func() {
			f.Watch = func(path string) {
				if strings.HasPrefix(path, "/r") && asked.Add(1) == killAt.Load() {
					reached <- struct{}{}
				}
			}
		})
		for range kills {
			killAt.Store(asked.Load() + 1 + rand.Int64N(6))
			cmd := p.process(env)
			if follow {
				for range 12 {
					f.Put(fmt.Sprint("/r", puts%resources), fmt.Sprint("new ", puts))
					puts++
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-reached:
				cmd.Process.Kill()
				<-ended
			case <-ended:
			}
			for path, text := range p.files() {
				if text != strings.Repeat(strings.TrimPrefix(path, "/r"), 100) && !strings.HasPrefix(text, "new ") {
					t.Fatalf("%s has %q", path, text)
				}
			}
		}
		p.mustSync(nil)
		p.want()
		want := resources
		if follow {
			want = puts
		}
		if n := int(asked.Load()); n > want+kills*connections {
			t.Errorf("follow %v: %d requests for %d files in %d runs", follow, n, want, kills)
		}
	}
}

// A Source that dies again and again costs the answers it was giving.
func TestKilledSource(t *testing.T) {
	f := newSource(t)
	const resources = 200
	for i := range resources {
		f.Put(fmt.Sprint("/r", i), strings.Repeat("x", i))
	}
	kills := long.N(10, 50)
	var asked atomic.Int64
	var whole atomic.Bool // the audit has a Source that lives
	f.Watch = func(string) {
		if n := asked.Add(1); n%7 == 0 && n/7 <= int64(kills) && !whole.Load() {
			f.CloseClientConnections()
		}
	}
	p := newPlace(t, f)
	for range kills + 1 {
		if r, err := p.sync(nil); err == nil && r.InSync() {
			break
		}
	}
	whole.Store(true)
	p.want()
	if n := int(asked.Load()); n > resources+kills*(source.DefaultConnections+4)+20 {
		t.Errorf("%d requests for %d resources and %d kills", n, resources, kills)
	}
}

// A Source dying again and again during a follow costs as much.
func TestKilledSourceIsFollowed(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	kills := long.N(5, 50)
	var asked atomic.Int64
	looked := make(chan struct{}, 1) // for changes
	f.Watch = func(path string) {
		if !strings.HasPrefix(path, "/r") {
			select {
			case looked <- struct{}{}:
			default:
			}
		} else if n := asked.Add(1); n%7 == 0 && n/7 <= int64(kills) {
			f.CloseClientConnections()
		}
	}
	p := newPlace(t, f)
	c, err := p.open(nil)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	puts := 0
	go func() {
		defer cancel()
		for puts < 7*kills || len(p.files()) < puts+1 {
			select {
			case <-looked:
			case <-ctx.Done():
				return
			}
			if n := int(asked.Load()); n < puts || puts == 7*kills {
				continue
			}
			for range 7 {
				f.Put(fmt.Sprint("/r", puts), strings.Repeat("x", puts))
				puts++
			}
		}
	}()
	err = c.Follow(ctx, time.Millisecond, func(*destination.Report) {})
	<-ctx.Done()
	if err = errors.Join(err, c.Close()); !errors.Is(err, context.Canceled) || puts != 7*kills {
		t.Errorf("%d changes, %v, said %q", puts, err, p.said)
	}
	p.want()
	if n := int(asked.Load()); n > puts+kills*source.DefaultConnections {
		t.Errorf("%d requests for %d resources and %d kills", n, puts, kills)
	}
}

// Whatever fails once, in each request: the copy is whole in the end, with one more request
// each at most.
func TestEachRequestFailsOnce(t *testing.T) {
	for name, do := range map[string]func(w http.ResponseWriter, r *http.Request, text string){
		"500": func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(500) },
		"503": func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(503)
		},
		"429": func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(429)
		},
		"cut": func(w http.ResponseWriter, _ *http.Request, text string) {
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			io.WriteString(w, text[:len(text)/2])
		},
		"connection": func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newSource(t)
			for i := range 50 {
				path := fmt.Sprint("/r", i)
				f.Put(path, strings.Repeat("x", 10+i))
				f.Fault(path, func(w http.ResponseWriter, r *http.Request) bool {
					if f.Asked[path] > 1 {
						return false
					}
					do(w, r, f.Resources[path])
					return true
				})
			}
			p := newPlace(t, f)
			if r := p.mustSync(nil); !r.InSync() || r.Fetched != 50 {
				t.Errorf("got %+v, said %q", r, p.said)
			}
			for path, n := range f.Asked {
				if strings.HasPrefix(path, "/r") && n != 2 {
					t.Errorf("%s was asked for %d times", path, n)
				}
			}
			p.want()
		})
	}
}

// A manifest with a wrong digest costs one more look at the Resource List, and no resource.
func TestWrongManifest(t *testing.T) {
	f := newSource(t)
	f.Dumped = true
	for i := range 10 {
		f.Put(fmt.Sprint("/r", i), fmt.Sprint(i))
	}
	f.Pack = func(z *zip.Writer, manifest []byte) {
		right := fmt.Sprintf("%x", sha256.Sum256([]byte("7")))
		if !bytes.Contains(manifest, []byte(right)) {
			t.Error("no manifest has the resource")
		}
		text := bytes.Replace(manifest, []byte(right), []byte(strings.Repeat("0", len(right))), 1)
		put(z, "manifest.xml", string(text))
		for i := range 10 {
			put(z, fmt.Sprintf("resources/%06d", i), fmt.Sprint(i))
		}
	}
	p := newPlace(t, f)
	r := p.mustSync(func(o *destination.Options) { o.By = destination.ByDump })
	if r.Fetched != 10 || r.Failed != 0 || r.Sets[0].By != destination.ByList {
		t.Errorf("got %+v", r)
	}
	p.want()
}

// On a full disk a run ends with an error and no half-written file; the next one goes
// on from there.
func TestFullDisk(t *testing.T) {
	f := newSource(t)
	for i := range 20 {
		f.Put(fmt.Sprint("/r", i), strings.Repeat("x", 100))
	}
	f.Put("/s-large", strings.Repeat("y", 300<<10))
	p := newPlace(t, f)
	var exit *exec.ExitError
	if err := p.process("CUTIE_TEST_FSIZE=" + strconv.Itoa(64<<10)).Wait(); !errors.As(err, &exit) {
		t.Fatalf("the disk was not full: %v", err)
	}
	if got := p.files(); got["/s-large"] != "" {
		t.Errorf("a file of %d octets", len(got["/s-large"]))
	}
	p.mustSync(nil)
	p.want()
	for i := range 20 {
		if path := fmt.Sprint("/r", i); f.Asked[path] > 2 {
			t.Errorf("%s was asked for %d times", path, f.Asked[path])
		}
	}
}

// A run that ends within a batch of changes asks for none of its resources again.
func TestInterruptedBatch(t *testing.T) {
	f := newSource(t)
	f.Put("/a", "a")
	p := newPlace(t, f)
	p.mustSync(nil)
	for i := range 200 {
		f.Put(fmt.Sprint("/r", i), fmt.Sprint(i))
	}
	p.cut("/r100", func(o *destination.Options) { o.HTTP.Connections = 1 })
	_, all, err := destination.Standings(p.dir)
	if err != nil || len(all) != 1 || !all[0].Until.Equal(f.Changes[100].DateTime) {
		t.Errorf("the state is true up to %+v, want %s, %v", all, f.Changes[100].DateTime, err)
	}
	p.mustSync(nil)
	p.want()
	for i := range 200 {
		if path := fmt.Sprint("/r", i); f.Asked[path] != 1 && i != 100 {
			t.Errorf("%s was asked for %d times", path, f.Asked[path])
		}
	}
}

// randomText returns octets that no two parts have in common.
func randomText(n int) string {
	text := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(text)
	return string(text)
}

// A counting writer ends a connection after some octets.
type cutWriter struct {
	http.ResponseWriter
	left int
	sent *atomic.Int64
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.ResponseWriter.Write(p[:n])
	c.sent.Add(int64(n))
	if c.left -= n; n < len(p) {
		c.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// serveCut serves a resource with ranges; each connection ends after so many octets.
func serveCut(f *testSource, path string, octets func() int, tag func() string, sent *atomic.Int64) {
	f.Fault(path, func(w http.ResponseWriter, r *http.Request) bool {
		if tag() != "" {
			w.Header().Set("ETag", tag())
		}
		http.ServeContent(&cutWriter{w, octets(), sent}, r, "", time.Time{}, strings.NewReader(f.Resources[path]))
		return true
	})
}

// A large file goes on where it was cut off, within a run and in the next one; nothing
// unfinished has its name.
func TestLargeFilesAreResumed(t *testing.T) {
	f := newSource(t)
	text := randomText(4 << 20)
	f.Put("/large", text)
	var sent atomic.Int64
	serveCut(f, "/large", func() int { return 1 << 19 }, func() string { return `"1"` }, &sent)
	p := newPlace(t, f)
	for range 3 {
		if r, err := p.sync(nil); err == nil && r.InSync() {
			break
		}
		if got := p.files(); len(got) > 0 && got["/large"] != text {
			t.Fatal("unfinished octets have the name of the resource")
		}
	}
	p.want()
	if n := sent.Load(); n > 5<<20 {
		t.Errorf("%d octets were sent of %d", n, len(text))
	}
	if parts, _ := filepath.Glob(filepath.Join(p.dir, ".cutie-sync", "part-*")); len(parts) > 0 {
		t.Errorf("left %v", parts)
	}
}

// Octets of another version are no part of the resource, whatever the server says.
func TestPartsOfOtherVersions(t *testing.T) {
	for name, tag := range map[string]func(n int32) string{
		"new tag":  func(n int32) string { return fmt.Sprintf("%q", fmt.Sprint(n)) },
		"same tag": func(int32) string { return `"1"` },
		"no tag":   func(int32) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newSource(t)
			text := randomText(2 << 20)
			f.Put("/large", text)
			var n atomic.Int32
			f.Fault("/large", func(w http.ResponseWriter, r *http.Request) bool {
				body := text
				if n.Add(1) == 1 {
					body = strings.Repeat("x", len(text))
				}
				if s := tag(n.Load()); s != "" {
					w.Header().Set("ETag", s)
				}
				var sent atomic.Int64
				left := len(text)
				if n.Load() == 1 {
					left = 1 << 19
				}
				http.ServeContent(&cutWriter{w, left, &sent}, r, "", time.Time{}, strings.NewReader(body))
				return true
			})
			p := newPlace(t, f)
			if r := p.mustSync(nil); !r.InSync() {
				t.Errorf("got %+v, said %q", r, p.said)
			}
			p.want()
		})
	}
}

// A package stays until all its files are made, and is completed if it was cut off.
func TestPackagesAreResumed(t *testing.T) {
	f := newSource(t)
	f.Dumped = true
	for i := range 30 {
		f.Put(fmt.Sprint("/r", i), randomText(64<<10))
	}
	dumpWithDigest(t, f)
	pack := f.Package()
	var sent atomic.Int64
	f.Fault("/set/dump.zip", func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(&cutWriter{w, len(pack)/3 + 1, &sent}, r, "", time.Time{}, bytes.NewReader(pack))
		return true
	})
	p := newPlace(t, f)
	by := func(o *destination.Options) { o.By, o.HTTP.Tries = destination.ByDump, 2 }
	if _, err := p.sync(by); err == nil {
		t.Error("the package was not cut off")
	}
	p.cut("/set/changelist.xml", by)
	p.mustSync(by)
	p.want()
	if n := sent.Load(); n > int64(len(pack))+1024 || f.Asked["/r0"] > 0 {
		t.Errorf("%d octets were sent of %d; asked for %v", n, len(pack), f.Asked)
	}
}

// dumpWithDigest gives the package of a Source a digest.
func dumpWithDigest(t *testing.T, f *testSource) {
	pack := f.Package()
	sum := sha256.Sum256(pack)
	f.serveList("/set/resourcedump.xml", f.head(sitemap.ResourceDump),
		sitemap.Entry{Loc: f.URL + "/set/dump.zip", Length: int64(len(pack)), Hashes: []sitemap.Hash{{Alg: "sha-256", Value: hex.EncodeToString(sum[:])}}})
}
