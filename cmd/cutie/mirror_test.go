package main_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cutie/cmd/cutie/mirror"
	"cutie/queuefs/job"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// ownAddress returns an address of this machine for one test alone, so that a daemon can
// come back under its URL.
func ownAddress(r *rand.Rand) string {
	return fmt.Sprintf("127.%d.%d.%d:8080", 1+r.IntN(254), r.IntN(256), 1+r.IntN(254))
}

// A mirroredQueue has facts of a queue by an original or a mirror.
type mirroredQueue struct {
	Sequence job.Seq `json:"sequence"`
	Of       string  `json:"mirrorOf"`
	Trouble  string  `json:"mirrorTrouble"`
	Behind   int64   `json:"mirrorBehind"`
	Taken    string  `json:"takenOver"`
}

func queueAt(t *testing.T, url string) (q mirroredQueue) {
	t.Helper()
	text, err := getter(http.DefaultClient, url)("state/jobs?limit=0&t=json")
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil {
		q.Trouble = err.Error()
	}
	return q
}

// eventually asks until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// caughtUp waits until the mirror has all events of its original.
func caughtUp(t *testing.T, original, mirror string) {
	t.Helper()
	eventually(t, "the mirror has all events", func() bool {
		a, b := queueAt(t, original), queueAt(t, mirror)
		return a.Sequence > 0 && a.Sequence == b.Sequence && b.Of != ""
	})
}

var ownFacts = regexp.MustCompile(`(?m)^<url><loc>HOST/queues/jobs/queue-info.txt.*change="created".*\n|<rs:ln rel="via"[^>]*>`)

// changes returns the entries of the open Change List after an event, without what is
// another at each Source.
func changesAfter(t *testing.T, url string, after job.Seq) string {
	t.Helper()
	text, err := getter(http.DefaultClient, url)(".well-known/resourcesync/jobs/replica/changelist.xml")
	must(t, err)
	list := strings.ReplaceAll(string(text), strings.TrimSuffix(url, "/"), "HOST")
	list = ownFacts.ReplaceAllString(list, "")
	var kept strings.Builder
	for line := range strings.Lines(list) {
		var seq uint64
		if _, at, ok := strings.Cut(line, `cut:seq="`); ok {
			fmt.Sscanf(at, "%d", &seq)
		}
		if job.Seq(seq) > after {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// same compares an original with its mirror, whose first event is the one after the copy.
func sameAs(t *testing.T, what, original, mirror string, copied job.Seq) {
	t.Helper()
	caughtUp(t, original, mirror)
	if a, b := changesAfter(t, original, copied), changesAfter(t, mirror, copied); a != b {
		as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
		for i := range min(len(as), len(bs)) {
			if as[i] != bs[i] {
				t.Errorf("%s: the lists differ:\n%s\n%s", what, as[i], bs[i])
				break
			}
		}
		t.Errorf("%s: the lists have %d and %d entries", what, len(as), len(bs))
	}
	if out, err := cutie(t, "audit", "--mirror", "jobs", "-u", mirror); err != nil {
		t.Errorf("%s: %v %s", what, err, out)
	}
}

// A mirror, a mirror of the mirror and a copy follow an original. When it is lost the
// mirror takes over, and the others go on with it.
func TestMirrorsFollowAndTakeOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	first := processes.Serve(t, filepath.Join(dir, "first"))
	sh(t, dir, "printf one >f; cutie put jobs f f f -u "+first.URL+"; cutie get jobs --lease 10m --lease-out token -o /dev/null -u "+first.URL)
	second := processes.Serve(t, filepath.Join(dir, "second"), "--mirror", first.URL, "--mirror-audit", "1m")
	caughtUp(t, first.URL, second.URL)
	copied := queueAt(t, first.URL).Sequence
	third := processes.Serve(t, filepath.Join(dir, "third"), "--listen", ownAddress(r), "--mirror", second.URL)
	caughtUp(t, second.URL, third.URL)
	sh(t, dir, "cutie sync "+first.URL+" copy")
	sh(t, dir, `U="-u `+first.URL+`"
cutie create other $U
cutie create "ä/b:c" $U
cutie put "ä/b:c" f $U
head -c 300000 /dev/zero >large
cutie put jobs large --sidecar "text of it" $U
cutie put jobs f $U
cutie attach jobs j000000000001 f --lease "$(cat token)" --name log $U
cutie hold jobs j000000000002 --reason why $U
cutie set jobs --description "what it is" $U
cutie get jobs -o got $U && cmp got f
cutie requeue jobs j000000000003 $U
cutie rm jobs j000000000003 $U`)
	sameAs(t, "second", first.URL, second.URL, copied)
	sameAs(t, "third", second.URL, third.URL, copied)
	eventually(t, "the new queues are mirrored", func() bool {
		get := getter(http.DefaultClient, third.URL)
		_, err := get("state/other")
		_, err2 := get("state/" + url.PathEscape("ä/b:c") + "/j000000000001")
		return err == nil && err2 == nil
	})
	for name, jobs := range map[string]bool{"other": false, "ä/b:c": true} {
		if out, err := cutie(t, "ls", name, "-u", third.URL); err != nil || strings.Contains(out, "pending") != jobs {
			t.Errorf("%s of the third: %v %s", name, err, out)
		}
	}
	for _, args := range [][]string{{"put", "jobs", filepath.Join(dir, "f")}, {"get", "jobs"}, {"rm", "jobs", "j000000000002"}, {"set", "jobs", "--size", "1"}, {"rmqueue", "other"}} {
		out, err := cutie(t, append(args, "-u", second.URL)...)
		if err == nil || !strings.Contains(err.Error(), "is a mirror of "+first.URL) {
			t.Errorf("%q of a mirror: %v %s", args, err, out)
		}
	}
	for _, c := range []struct {
		path, media, body string
		status            int
		form              string
	}{
		{"uws/jobs/async", "application/x-www-form-urlencoded", "A=1", http.StatusForbidden, "text/plain; charset=utf-8"},
		{"uws/jobs/sync", "application/x-www-form-urlencoded", "A=1", http.StatusForbidden, "text/plain; charset=utf-8"},
		{"consume/jobs?t=json", "", "", http.StatusConflict, "application/json"},
		{"hold/jobs/j000000000001?t=xhtml", "", "", http.StatusConflict, "application/xhtml+xml"},
		{"rdm/incoming", "application/x-rdm", "@RDMHEADER { -\nRDM-Version{3}:\t1.0\nRDM-Type{11}:\trd-response\n}\n@DOCUMENT { http://x.org/a\ntitle{1}:\ta\n}\n",
			http.StatusConflict, "application/x-rdm"},
	} {
		resp, text := send(t, http.DefaultClient, "POST", second.URL+c.path, c.body, "Content-Type", c.media)
		if resp.StatusCode != c.status || resp.Header.Get("Content-Type") != c.form || !strings.Contains(text, "is a mirror of "+first.URL) {
			t.Errorf("POST %s to a mirror: %s %q %.300s", c.path, resp.Status, resp.Header.Get("Content-Type"), text)
		}
	}
	for of, forms := range map[*processes.Daemon]bool{first: true, second: false} {
		if _, text := send(t, http.DefaultClient, "GET", of.URL+"state/jobs/j000000000002", "", "Accept", "text/html"); strings.Contains(text, "<form") != forms {
			t.Errorf("%s: the page of a job has forms: %v", of.URL, !forms)
		}
	}
	// One flipped bit is named.
	damaged := filepath.Join(dir, "second/queues/jobs/payload/j000000000002")
	for _, text := range []string{"ooe", "one"} {
		must(t, os.WriteFile(damaged, []byte(text), 0o600))
		out, err := cutie(t, "audit", "--mirror", "jobs", "-u", second.URL)
		if text == "one" && err != nil || text != "one" && (err == nil || !strings.Contains(out, "different: payload/j000000000002\n")) {
			t.Errorf("audit with %q: %v\n%s", text, err, out)
		}
	}
	if _, err := cutie(t, "takeover", "jobs", "-u", second.URL); err == nil || !strings.Contains(err.Error(), "still answers") {
		t.Errorf("takeover beside the original: %v", err)
	}
	last := queueAt(t, first.URL).Sequence
	first.Kill()
	out, err := cutie(t, "takeover", "--all", "-u", second.URL)
	if err != nil || !strings.Contains(out, fmt.Sprintf("jobs: live: 3 pending, 1 consumed; the last event seen of %s is %d of ", first.URL, last)) || !strings.Contains(out, "other: live: 0 pending") {
		t.Errorf("takeover: %v\n%s", err, out)
	}
	if out, err := cutie(t, "takeover", "jobs", "-u", second.URL); err != nil || !strings.Contains(out, "live before") {
		t.Errorf("takeover again: %v\n%s", err, out)
	}
	// Workers go on with the token of the original, and jobs with their order.
	sh(t, dir, `U="-u `+second.URL+`"
cutie attach jobs j000000000001 f --lease "$(cat token)" --name more $U
cutie report jobs j000000000001 --outcome completed --lease "$(cat token)" $U
test "$(cutie result jobs j000000000001 log $U)" = one
cutie release jobs j000000000002 $U
cutie put jobs f $U`)
	caughtUp(t, second.URL, third.URL)
	sh(t, dir, `cutie sync `+second.URL+` copy 2>told && grep -q successor told
cutie audit copy | grep "missing 0, different 0, extra 0"`)
	if text, err := os.ReadFile(filepath.Join(dir, "copy/queues/jobs/result/j000000000001/more")); err != nil || string(text) != "one" {
		t.Errorf("the copy of the original has %q, %v", text, err)
	}
	sameAs(t, "third", second.URL, third.URL, copied)
	second.Kill()
	second = processes.Serve(t, filepath.Join(dir, "second"))
	if q := queueAt(t, second.URL); q.Taken == "" {
		t.Errorf("after a kill: %+v", q)
	}
	for _, d := range []*processes.Daemon{second, third} {
		d.End(t)
	}
	for _, home := range []string{"second", "third"} {
		if out, err := cutie(t, "check", filepath.Join(dir, home)); err != nil {
			t.Errorf("check of %s: %v %s", home, err, out)
		}
	}
}

// An original is lost while its mirror has the events of settings, results and jobs, and not
// all their files. The mirror takes over with all that came, also for later events, names
// the rest, and followers of the original have the same as it.
func TestFilesInTransitAtATakeover(t *testing.T) {
	t.Parallel()
	p := newPromotion(t)
	original := p.serve("home")
	ids := []string{p.put("one"), p.put("two")}
	attach := p.work(ids)
	attach("first")
	second := processes.Serve(t, filepath.Join(p.dir, "second"), "--mirror", p.url)
	caughtUp(t, p.url, second.URL)
	second.Kill()
	p.run("sync", p.url, "behind")
	p.run("set", "jobs", "--description", "new", "-u", p.url)
	attach("last")
	for _, text := range []string{"bare", "lost", "late"} {
		ids = append(ids, p.put(text))
	}
	p.run("sync", p.url, "level")
	p.hidden.Store(regexp.MustCompile("/parts/|/queue-info.txt$|/result/.*/last$|/consumed/" + ids[0] + "|/pending/" + ids[2] + "|/payload/" + ids[3]))
	second = processes.Serve(t, filepath.Join(p.dir, "second"), "--mirror", p.url)
	last := queueAt(t, p.url).Sequence
	eventually(t, "the mirror knows all events", func() bool {
		q := queueAt(t, second.URL)
		return q.Behind > 0 && q.Sequence+job.Seq(q.Behind) == last
	})
	p.hidden.Store(regexp.MustCompile("."))
	original.Kill()

	out := p.run("takeover", "jobs", "--force", "-u", second.URL)
	for _, want := range []string{fmt.Sprintf("jobs: live: 2 pending, 2 consumed; the last event seen of %s is %d of ", p.url, last), "jobs: former settings",
		"not seen: jobs/" + ids[3], "on hold: jobs/" + ids[2], "former job file: jobs/" + ids[0], "no result: jobs/" + ids[0] + "/last", "no result: jobs/" + ids[1] + "/last"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("takeover says %s, and not %q", out, want)
		}
	}
	for _, id := range ids[:2] {
		if got := p.run("results", "jobs", id, "-u", second.URL); got != "first\n" {
			t.Errorf("job %s has the results %s", id, got)
		}
	}
	if got := p.run("get", "jobs", "-u", second.URL); got != "late" {
		t.Errorf("the next job is %q", got)
	}
	if out, err := p.try("get", "jobs", "-u", second.URL); err == nil {
		t.Errorf("a job on hold was handed out: %s", out)
	}
	for _, copy := range []string{"level", "behind"} {
		if out := p.run("sync", second.URL, copy); !strings.Contains(out, "replica: changes") {
			t.Errorf("%s: got %s", copy, out)
		}
		if out, err := p.try("audit", copy); err != nil || !strings.Contains(out, "missing 0, different 0, extra 0") {
			t.Errorf("%s: %s", copy, out)
		}
	}
	says(t, p.run("audit", "--source", second.URL, "--sample", "-1"), ", 0 findings")
	if got := strings.TrimSpace(p.run("put", "jobs", "one", "-u", second.URL)); got <= ids[4] {
		t.Errorf("a new job has the number %s", got)
	}
	second.End(t)
	if out, err := cutie(t, "check", filepath.Join(p.dir, "second")); err != nil {
		t.Errorf("check: %v %s", err, out)
	}
}

// A token that was replaced is read again, and little memory for requests keeps no mirror
// from following.
func TestAMirrorTakesTheTokenOfNow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users, token := filepath.Join(dir, "users"), filepath.Join(dir, "token")
	sh(t, dir, `cutie user add ann --rights read,submit --no-password --users users >/dev/null
cutie token add ann --name first --users users >token`)
	first := processes.Serve(t, filepath.Join(dir, "first"), "--users", users, "--max-buffers", "1M")
	put := func() {
		t.Helper()
		secret, err := os.ReadFile(token)
		must(t, err)
		eventually(t, "the daemon knows the token", func() bool {
			resp, _ := send(t, http.DefaultClient, "POST", first.URL+"content/jobs", strings.Repeat("large ", 20000), "Authorization", "Bearer "+strings.TrimSpace(string(secret)))
			return resp.StatusCode == http.StatusCreated
		})
	}
	put()
	second := processes.Serve(t, filepath.Join(dir, "second"), "--mirror", first.URL, "--mirror-token", "@"+token)
	has := func(jobs int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d jobs are mirrored", jobs), func() bool {
			_, err := getter(http.DefaultClient, second.URL)(fmt.Sprintf("state/jobs/j%012d", jobs))
			return err == nil
		})
	}
	has(1)
	put()
	has(2)
	sh(t, dir, "cutie token rm first --users users")
	eventually(t, "the old token is refused", func() bool { return queueAt(t, second.URL).Trouble != "" })
	sh(t, dir, "cutie token add ann --name second --users users >token")
	put()
	has(3)
}

// Original and mirror are killed under load at random. In the end they are the same.
func TestAMirrorSurvivesKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seed := environment(t, "CUTIE_CRASH_SEED", rand.Uint64())
	t.Logf("CUTIE_CRASH_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	args := []string{"--listen", ownAddress(r)}
	home, mhome := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	first := processes.Serve(t, home, args...)
	margs := []string{"--listen", ownAddress(r), "--mirror", first.URL}
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	defer transport.CloseIdleConnections()
	clients := newLoaders(4, seed, first.URL, &http.Client{Transport: transport, Timeout: time.Minute})
	second := processes.Serve(t, mhome, margs...)
	for round := range environment(t, "CUTIE_CRASH_ROUNDS", uint64(long.N(2, 20))) {
		var wg sync.WaitGroup
		load := underLoad(r, 200*time.Millisecond, time.Second)
		wg.Go(func() { crash(t, first, clients, load, nil) })
		time.Sleep(underLoad(r, 0, 700*time.Millisecond))
		second.Kill()
		second = processes.Serve(t, mhome, margs...)
		wg.Wait()
		first = processes.Serve(t, home, args...)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	caughtUp(t, first.URL, second.URL)
	// A kill between the copy and its removal leaves it.
	second.Kill()
	left := filepath.Join(mhome, "mirror-copies", "jobs")
	must(t, os.MkdirAll(left, 0o700))
	second = processes.Serve(t, mhome, margs...)
	caughtUp(t, first.URL, second.URL)
	if out, err := cutie(t, "audit", "--mirror", "jobs", "-u", second.URL); err != nil {
		t.Errorf("%v %s; the mirror said: %s", err, out, second.Stderr.String())
	}
	if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy was left: %v", err)
	}
	for _, d := range []*processes.Daemon{second, first} {
		d.End(t)
	}
	if out, err := cutie(t, "check", mhome); err != nil {
		t.Errorf("check: %v %s", err, out)
	}
	if out, err := exec.Command("diff", "-r", filepath.Join(home, "queues"), filepath.Join(mhome, "queues")).CombinedOutput(); err != nil {
		t.Errorf("%v: %.2000s", err, out)
	}
}

// An original is killed under load, and its mirror takes over: each acknowledged job up to
// the last event that the report names is there once, and no other.
func TestTakeoversUnderLoad(t *testing.T) {
	t.Parallel()
	for n := range environment(t, "CUTIE_CRASH_ROUNDS", uint64(long.N(2, 20))) {
		takeOverUnderLoad(t, environment(t, "CUTIE_CRASH_SEED", rand.Uint64())+n)
		if t.Failed() {
			return
		}
	}
}

func takeOverUnderLoad(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	dir, err := os.MkdirTemp(t.TempDir(), "")
	must(t, err)
	defer os.RemoveAll(dir) // there are many of them
	first := processes.Serve(t, filepath.Join(dir, "first"))
	second := processes.Serve(t, filepath.Join(dir, "second"), "--mirror", first.URL)
	defer second.Kill()
	eventually(t, "the queue is mirrored", func() bool { return queueAt(t, second.URL).Of != "" })
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	clients := newLoaders(long.N(16, 64), seed, first.URL, &http.Client{Transport: transport, Timeout: time.Minute})
	crash(t, first, clients, underLoad(r, 300*time.Millisecond, 1800*time.Millisecond), nil)
	out, err := cutie(t, "takeover", "--all", "-t", "json", "-u", second.URL)
	var report mirror.Taken
	if err == nil {
		err = json.Unmarshal([]byte(out), &report)
	}
	if err != nil || len(report.Queues) > 1 {
		t.Fatalf("seed %d: takeover: %v %s", seed, err, out)
	}
	last := job.Seq(0)
	if len(report.Queues) == 1 {
		last = job.Seq(report.Queues[0].LastEvent)
	}
	there, unseen := map[job.ID]bool{}, map[string]bool{}
	for _, q := range report.Queues {
		for _, id := range q.UnseenJobs {
			unseen[id] = true
		}
	}
	if last > 0 {
		l := newLedger(t, clients[0].http, second.URL)
		for _, st := range []string{"pending", "consumed", "deleted"} {
			for _, id := range l.list(st) {
				if there[id] {
					t.Errorf("seed %d: %v is there twice", seed, id)
				}
				there[id] = true
			}
		}
	}
	seen, lost := 0, 0
	for _, c := range clients {
		for i := range c.log {
			o := &c.log[i]
			if !o.acked || o.kind != opSubmit || len(o.ids) != 1 || o.number == 0 {
				continue
			}
			known := o.number <= last && !unseen[o.ids[0].String()]
			if there[o.ids[0]] != known {
				t.Errorf("seed %d: %v was submitted by event %d, the last one seen is %d: got %v", seed, o.ids[0], o.number, last, there[o.ids[0]])
			}
			if known {
				seen++
			} else {
				lost++
			}
		}
	}
	// Each pending job is handed out once, as it was submitted.
	taken := map[job.ID]bool{}
	worker := &loader{base: second.URL, http: clients[0].http, random: r}
	for range 100_000 {
		o := operation{kind: opConsume, most: 40}
		if gone, err := worker.consumeSeveral(&o); gone || err != nil {
			t.Fatalf("seed %d: %v, gone %v", seed, err, gone)
		}
		if len(o.got) == 0 {
			break
		}
		for _, d := range o.got {
			if taken[d.job] || !there[d.job] {
				t.Errorf("seed %d: %v was handed out twice, or is unknown", seed, d.job)
			}
			taken[d.job] = true
		}
	}
	t.Logf("seed %d: %d operations, the last event seen is %d, %d acknowledged jobs are there, %d came after it, %d handed out",
		seed, clients[0].count.Load(), last, seen, lost, len(taken))
}

// With --listen the hub of a daemon tells of changes: the copy has them although it would
// look again in an hour only. It unsubscribes at its end.
func TestSyncToldByAHub(t *testing.T) {
	t.Parallel()
	d := serve(t, "--allow-fetch", loopback)
	payload := filepath.Join(t.TempDir(), "payload")
	must(t, os.WriteFile(payload, []byte("text"), 0o600))
	put := func() {
		t.Helper()
		if _, err := cutie(t, "-u", d.URL, "put", "jobs", payload); err != nil {
			t.Fatal(err)
		}
	}
	put()
	mirror := filepath.Join(t.TempDir(), "mirror")
	cmd := exec.Command("cutie", "sync", d.URL, mirror, "--follow", "--every", "1h", "--listen", "127.0.0.1:0", "-v")
	var said processes.Output
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, processes.Start(cmd))
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "fetched ") {
	}
	put()
	copied := filepath.Join(mirror, "queues/jobs/payload/j000000000002")
	for end := time.Now().Add(processes.Limit); ; {
		if text, err := os.ReadFile(copied); err == nil && string(text) == "text" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the change did not arrive: %s", said.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	if text := said.String(); strings.Contains(text, "names no hub") || strings.Contains(text, "subscribe") {
		t.Errorf("said %q", text)
	}
}
