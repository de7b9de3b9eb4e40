package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/testdata/tmpfs"
)

// The program starts itself as a peer, and the tests start it as a daemon; under test both
// are this binary.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == bareVerb:
		main()
	case len(os.Args) > 1 && os.Args[1] == "serve":
		serveFake(os.Args[1:])
	}
	tmpfs.Use()
	os.Exit(m.Run())
}

// run calls the program with one short round and returns the results by phase. Nothing may
// be left in its directory.
func run(ctx context.Context, t *testing.T, args ...string) (map[string]result, string, error) {
	t.Helper()
	dir, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	var out, problems bytes.Buffer
	err := command(ctx, append([]string{"--dir", dir, "--json", log, "--rounds", "1", "--rest", "0", "-n", "40", "-c", "3", "--size", "100"}, args...), &out, &problems)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if strings.Contains(problems.String(), "is left out") {
		t.Skip(problems.String())
	}
	results := map[string]result{}
	text, _ := os.ReadFile(log)
	for line := range bytes.Lines(text) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		results[r.Phase] = r
		if !strings.Contains(out.String(), r.Phase) && ctx.Err() == nil {
			t.Errorf("the table lacks %s:\n%s", r.Phase, out.String())
		}
	}
	return results, out.String(), err
}

func TestEachPeerMovesEveryJob(t *testing.T) {
	for _, name := range peerNames() {
		for _, size := range []int{0, 100, 100_000, 5 << 20} {
			t.Run(fmt.Sprint(name, " ", size), func(t *testing.T) {
				t.Parallel()
				got, _, err := run(t.Context(), t, "--program", "", "--peers", name, "--size", fmt.Sprint(size), "single")
				if err != nil {
					t.Fatal(err)
				}
				want := int64(40)
				if name == "dirq" {
					want = 8
				}
				for _, phase := range []string{submit, consume} {
					if r := got[phase]; r.Jobs != want || r.Errors != 0 || r.Clients != 3 || r.Size != size || r.Rate <= 0 || r.P50 <= 0 || r.Server != name {
						t.Errorf("%s: got %+v, want %d jobs of %d bytes", phase, r, want, size)
					}
				}
				if name != "dirq" && got["settle"].RSS == 0 {
					t.Errorf("settle: got %+v, want memory of the server", got["settle"])
				}
			})
		}
	}
}

func TestEveryKindOfMeasurement(t *testing.T) {
	for _, tt := range []struct {
		kind string
		want map[string]int64 // jobs; -1: any above 0
	}{
		{"single", map[string]int64{submit: 40, consume: 40, "settle": 80}},
		{"batch", map[string]int64{submit: 80, consume: 80, "settle": 160}},
		{"mixed", map[string]int64{mixed: 80, "settle": 80}},
		{"steady", map[string]int64{"burst": -1, mixed: -1, "first sixth": -1, "last sixth": -1, "settle": -1}},
		{"pending", map[string]int64{submit: 100, "settle": 100, "start": 1, mixed: -1, "listed": -1}},
		{"random", map[string]int64{submit: 100, "settle": 100, "table filled": 100, "home filled": 100, "start": 1, "state": 25, "lease": 50,
			"report in order": 25, "report at random": 25, "change at random": -1, "submit beside": -1, "start after kill": 1,
			"table changed": 100, "home changed": 100}},
		{"many", map[string]int64{"create": 7, submit: 7, "start": 1, "idle": 0}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			got, _, err := run(t.Context(), t, "--program", os.Args[0], "--peers", "", "--seconds", "6", "--batch", "7",
				"--pending", "100", "--queues", "7", "--rate", "100", tt.kind)
			if err != nil {
				t.Fatal(err)
			}
			for phase, jobs := range tt.want {
				r, there := got[phase]
				if !there || jobs >= 0 && r.Jobs != jobs || jobs < 0 && r.Jobs == 0 || r.Kind != tt.kind || r.Server != "cutie" {
					t.Errorf("%s: got %+v, want %d jobs", phase, r, jobs)
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("got %d phases, want %d: %+v", len(got), len(tt.want), got)
			}
		})
	}
}

func TestWhatTheServerDoesWrongIsAnError(t *testing.T) {
	for wrong, want := range map[string]string{
		"lose":   "submitted jobs did not come",
		"repeat": "came twice",
		"alter":  "payload is not what was submitted",
		"cut":    "99 of 100 bytes",
		"name":   "job came with the name",
		"refuse": "507 Insufficient Storage: no space left",
	} {
		for _, kind := range []string{"single", "batch"} {
			t.Run(kind+" "+wrong, func(t *testing.T) {
				t.Parallel()
				_, _, err := run(t.Context(), t, "--program", os.Args[0], "--peers", "", kind, "--", "--wrong", wrong)
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			})
		}
	}
}

func TestAServerThatDoesNotStartIsNamed(t *testing.T) {
	for _, program := range []string{"/bin/false", filepath.Join(t.TempDir(), "absent")} {
		_, _, err := run(t.Context(), t, "--program", program, "--peers", "", "single")
		if err == nil || !strings.Contains(err.Error(), program) {
			t.Errorf("got error %v, want one that names %s", err, program)
		}
	}
}

func TestAnInterruptStopsServers(t *testing.T) {
	for _, name := range peerNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			if _, _, err := run(ctx, t, "--program", "", "--peers", name, "-n", "100000000", "single"); err == nil {
				t.Error("ended without an error")
			}
		})
	}
}

func TestOptionsWithoutSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"sideways"}, {"--peers", "nobody"}, {"-c", "0"}, {"--size", "-1"}, {"-n", "-1"}, {"--rounds", "0"}, {"--seconds", "5"},
		{"--batch", "0"}, {"--rate", "0"}, {"--pending", "0"}, {"--queues", "0"}, {"--keep", "-1"}, {"--unknown"},
	} {
		_, _, err := run(t.Context(), t, append([]string{"--program", os.Args[0], "--peers", ""}, args...)...)
		if _, ok := err.(*usageError); !ok {
			t.Errorf("%q: got error %v, want one of usage", args, err)
		}
	}
}

func TestHelpNamesKindsAndPeers(t *testing.T) {
	var out bytes.Buffer
	if err := command(t.Context(), []string{"--help"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"single", "batch", "mixed", "steady", "pending", "random", "many", "beanstalkd", "redis", "dirq", "bare-http", "--rounds"} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("help lacks %s", word)
		}
	}
}

func TestTheTableComparesMedians(t *testing.T) {
	r := func(server string, batch int, rate float64) result {
		return result{setting: setting{"single", submit, 1024, 64, batch}, Server: server, Jobs: 1000, Rate: rate, Seconds: 2, P99: 5}
	}
	var out bytes.Buffer
	err := writeTable(&out, []result{r("cutie", 100, 30000), r("redis", 1, 40000), r("cutie", 100, 10000), r("redis", 1, 60000), r("cutie", 100, 20000)})
	const want = `
    kind   phase  bytes  clients  batch  server  runs  moved  seconds  moved/s  ratio  p50 ms  p99 ms  p99.9 ms  cpu µs  RSS MB  anon MB  disk MB  errors
  single  submit   1024       64    100   cutie     3   1000     2.00    20000   1.00       -    5.00         -       -       -        -        -       0
  single  submit   1024       64      1   redis     2   1000     2.00    50000   0.40       -    5.00         -       -       -        -        -       0
`
	if got := "\n" + out.String(); err != nil || got != want {
		t.Errorf("got %s%v, want %s", got, err, want)
	}
}

func TestQuantiles(t *testing.T) {
	times := []time.Duration{1e6, 2e6, 3e6, 4e6}
	for f, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := quantile(times, f); got != want {
			t.Errorf("quantile %v: got %v, want %v", f, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing: got %v", got)
	}
}

func TestEveryChangeOfAPayloadIsFound(t *testing.T) {
	for _, size := range []int{16, 17, 1000} {
		p := newPayloads(size)
		stamp, rest := p.next()
		whole := slices.Concat(stamp, rest)
		if other, more := p.next(); bytes.Equal(whole, slices.Concat(other, more)) || len(whole) != size {
			t.Errorf("%d bytes: two payloads are equal, or have %d bytes", size, len(whole))
		}
		var buf []byte
		if err := p.check(bytes.NewReader(whole), &buf); err != nil {
			t.Errorf("%d bytes, unchanged: %v", size, err)
		}
		for i := stampSize; i < size; i++ {
			changed := slices.Clone(whole)
			changed[i] ^= 1
			if p.check(bytes.NewReader(changed), &buf) == nil {
				t.Errorf("%d bytes: a change of byte %d is not found", size, i)
			}
		}
		for _, other := range [][]byte{whole[:size-1], append(slices.Clone(whole), 0), nil} {
			if p.check(bytes.NewReader(other), &buf) == nil {
				t.Errorf("%d bytes: a payload of %d bytes is accepted", size, len(other))
			}
		}
	}
}

// fake is a daemon over queues in memory that goes wrong where it is told to. A file has what
// was submitted, for the next start: that has all of it pending again.
type fake struct {
	mu      sync.Mutex
	file    *os.File
	wrong   string
	pending map[string][]fakeJob
	n       int
	list    strings.Builder
}

type fakeJob struct {
	Queue, Location string
	Payload         []byte
}

// serveFake is the daemon that the tests start: serve --home DIR --listen ADDRESS [--wrong WHAT].
func serveFake(args []string) {
	d := &fake{pending: map[string][]fakeJob{}}
	if len(args) > 6 {
		d.wrong = args[6]
	}
	if err := d.open(args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, http.ListenAndServe(args[4], d))
	os.Exit(1)
}

func (d *fake) open(home string) error {
	err := os.MkdirAll(home, 0o777)
	if err == nil {
		d.file, err = os.OpenFile(filepath.Join(home, "jobs"), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o666)
	}
	if err != nil {
		return err
	}
	for all := json.NewDecoder(d.file); ; d.n++ {
		var j fakeJob
		if err := all.Decode(&j); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		d.pending[j.Queue] = append(d.pending[j.Queue], j)
	}
}

func (d *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	verb, queue, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && verb == "content":
		d.submit(w, r, queue)
	case r.Method == http.MethodPost && verb == "consume":
		d.consume(w, r, queue)
	case r.Method == http.MethodPut && verb == "state":
		w.WriteHeader(http.StatusCreated)
	case verb == "state", verb == "readyz", verb == "outcome", verb == "hold", verb == "release":
	case strings.HasSuffix(r.URL.Path, "/changelist.xml"):
		io.WriteString(w, d.list.String())
	default:
		http.NotFound(w, r)
	}
}

func (d *fake) submit(w http.ResponseWriter, r *http.Request, queue string) {
	if d.wrong == "refuse" {
		http.Error(w, "no space left", http.StatusInsufficientStorage)
		return
	}
	var payloads [][]byte
	if parts, err := r.MultipartReader(); err == nil {
		for {
			part, err := parts.NextPart()
			if err != nil {
				break
			}
			b, _ := io.ReadAll(part)
			payloads = append(payloads, b)
		}
	} else {
		b, _ := io.ReadAll(r.Body)
		payloads = append(payloads, b)
	}
	w.WriteHeader(http.StatusCreated)
	for _, b := range payloads {
		d.n++
		name := fmt.Sprintf("j%012d", d.n)
		fmt.Fprintln(&d.list, name)
		fmt.Fprintf(w, "identifier: %s\n", name)
		switch d.wrong {
		case "lose":
			continue
		case "alter":
			b[len(b)-1] ^= 1
		case "cut":
			b = b[:len(b)-1]
		case "name":
			name = "somebody"
		case "repeat":
			name = "j000000000001"
		}
		j := fakeJob{queue, "/content/" + queue + "/" + name, b}
		d.pending[queue] = append(d.pending[queue], j)
		json.NewEncoder(d.file).Encode(j)
	}
}

func (d *fake) consume(w http.ResponseWriter, r *http.Request, queue string) {
	most, err := strconv.Atoi(r.URL.Query().Get("max"))
	if err != nil {
		most = 1
	}
	some := d.pending[queue][:min(most, len(d.pending[queue]))]
	d.pending[queue] = d.pending[queue][len(some):]
	if len(some) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Header.Get("Accept") != "multipart/mixed" {
		w.Header().Set("Content-Location", some[0].Location)
		w.Header().Set("Cutie-Lease", "token")
		w.Write(some[0].Payload)
		return
	}
	parts := multipart.NewWriter(w)
	w.Header().Set("Content-Type", "multipart/mixed; boundary="+parts.Boundary())
	for _, j := range some {
		p, _ := parts.CreatePart(textproto.MIMEHeader{"Content-Location": {j.Location}})
		p.Write(j.Payload)
	}
	parts.Close()
}
