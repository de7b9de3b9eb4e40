package main_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/home"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// A promotion has an original with the queue jobs in the directory home, copies beside it,
// and one URL for all daemons, of a proxy, so that nobody takes it in between.
type promotion struct {
	t      *testing.T
	dir    string
	url    string
	at     atomic.Pointer[neturl.URL]    // of the daemon of now
	hidden atomic.Pointer[regexp.Regexp] // paths with the answer 404
}

func newPromotion(t *testing.T) *promotion {
	p := &promotion{t: t, dir: t.TempDir()}
	to := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(p.at.Load()); r.Out.Host = r.In.Host }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if re := p.hidden.Load(); re != nil && re.MatchString(r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	p.url = proxy.URL + "/"
	p.run("init", "home")
	p.run("createQueue", "jobs", "--home", "home")
	return p
}

func (p *promotion) try(args ...string) (string, error) {
	cmd := exec.Command("cutie", args...)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *promotion) run(args ...string) string {
	p.t.Helper()
	out, err := p.try(args...)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (p *promotion) put(text string) string {
	p.t.Helper()
	must(p.t, os.WriteFile(filepath.Join(p.dir, text), []byte(text), 0o600))
	return strings.TrimSpace(p.run("put", "jobs", text, "-u", p.url))
}

func (p *promotion) serve(home string) *processes.Daemon {
	p.t.Helper()
	for try := 0; ; try++ {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		must(p.t, err)
		address := free.Addr().String()
		free.Close()
		d, err := processes.Begin(p.dir, filepath.Join(p.dir, home), "--base-uri", p.url, "--listen", address)
		if err == nil {
			p.t.Cleanup(d.Kill)
			p.at.Store(&neturl.URL{Scheme: "http", Host: address})
			return d
		}
		if try == 5 { // each time somebody else took the port
			p.t.Fatal(err)
		}
	}
}

// lose ends the original after a sync of the backup that does not get the files of these paths.
func (p *promotion) lose(original *processes.Daemon, hidden string) {
	p.t.Helper()
	p.hidden.Store(regexp.MustCompile(hidden))
	if out, err := p.try("sync", "backup"); err == nil {
		p.t.Fatalf("the backup has all: %s", out)
	}
	p.hidden.Store(nil)
	original.Kill()
}

// follows brings a copy up to date, which says so in these words, and compares it.
func (p *promotion) follows(copy string, want ...string) {
	p.t.Helper()
	says(p.t, p.run("sync", "--delete", "all", copy), want...)
	says(p.t, p.run("audit", copy), "missing 0, different 0, extra 0")
}

// backedUp counts the job files in the backup.
func (p *promotion) backedUp(by map[string]int) {
	p.t.Helper()
	for status, want := range by {
		files, err := filepath.Glob(filepath.Join(p.dir, "backup/queues/jobs", status, "*"))
		if err != nil || len(files) != want {
			p.t.Errorf("%s: got %q, %v", status, files, err)
		}
	}
}

// TestJobsInTransitAtAPromotion loses an original while its jobs change: the copy has their
// last events, but not their job files. They have the states of these events in the home,
// or are on hold, and followers of the original have the same.
func TestJobsInTransitAtAPromotion(t *testing.T) {
	t.Parallel()
	p := newPromotion(t)
	original := p.serve("home")
	var ids []string
	for _, text := range []string{"taken", "deleted", "held", "back"} {
		ids = append(ids, p.put(text))
	}
	must(t, os.Mkdir(filepath.Join(p.dir, "out"), 0o700))
	p.run("delete", "jobs", ids[3], "-u", p.url)
	p.run("sync", p.url, "behind")
	p.run("sync", p.url, "backup")
	p.run("get", "jobs", "-u", p.url)
	p.run("delete", "jobs", ids[1], "-u", p.url)
	p.run("hold", "jobs", ids[2], "-u", p.url)
	p.run("requeue", "jobs", ids[3], "-u", p.url)
	ids = append(ids, p.put("new"))
	p.run("sync", p.url, "level")
	p.lose(original, "/(pending|consumed|deleted)/j[0-9]+$")

	out := p.run("promote", "backup", "--force")
	says(t, out, "on hold: jobs/"+ids[2], "on hold: jobs/"+ids[3], "on hold: jobs/"+ids[4],
		"former job file: jobs/"+ids[0], "former job file: jobs/"+ids[1], ": 3 pending, 1 consumed;")
	p.serve("backup")
	p.backedUp(map[string]int{"pending": 3, "consumed": 1, "deleted": 1})
	if out, err := p.try("get", "jobs", "-u", p.url); err == nil {
		t.Errorf("a job on hold was handed out: %s", out)
	}
	for _, copy := range []string{"level", "behind"} {
		p.follows(copy, "replica: changes")
	}
}

// TestFilesInTransitDoNotRefuseAPromotion loses an original at the moment when a copy has the
// last events, but not all of their files, so that it holds deletions back. The copy becomes a
// home without --force: it makes these deletions, and lists what the copy lacks.
func TestFilesInTransitDoNotRefuseAPromotion(t *testing.T) {
	const taken, fresh = "j000000000001", "j000000000002"
	for name, c := range map[string]struct {
		hidden string
		want   []string
	}{
		"job file":     {"/pending/" + fresh + "$", []string{"on hold: jobs/" + fresh + ": its job file", "jobs: 1 pending, 1 consumed"}},
		"payload":      {"/payload/" + fresh + "$", []string{"no payload: jobs/" + fresh + ": ", "jobs: 1 pending, 1 consumed"}},
		"both":         {"/(pending|payload)/" + fresh + "$", []string{"no payload: jobs/" + fresh + ": ", "jobs: 1 pending, 1 consumed"}},
		"former state": {"/consumed/" + taken + "$", []string{"former job file: jobs/" + taken + ": ", "jobs: 1 pending, 1 consumed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPromotion(t)
			original := p.serve("home")
			p.put("taken")
			p.run("sync", p.url, "backup")
			p.run("get", "jobs", "-u", p.url)
			p.put("fresh")
			p.lose(original, c.hidden)

			out := p.run("promote", "backup")
			says(t, out, append(c.want, "1 files were in transit", ", 0 problems\n")...)
			p.backedUp(map[string]int{"pending": 1, "consumed": 1})
			p.serve("backup")
			says(t, p.run("show", "jobs", taken, "-u", p.url), "consumed")
			if out, err := p.try("get", "jobs", "-u", p.url); (err == nil) != (name == "former state") {
				t.Errorf("get: %v: %s", err, out)
			}
		})
	}
}

// TestASyncCutOffDoesNotRefuseAPromotion loses an original while a copy gets the files of
// changes that it has not noted yet: it has job files of later events, and not all that they
// name. The home has these jobs, without the results, and those without a payload on hold.
func TestASyncCutOffDoesNotRefuseAPromotion(t *testing.T) {
	t.Parallel()
	p := newPromotion(t)
	original := p.serve("home")
	done := p.put("done")
	p.run("sync", p.url, "backup")
	p.run("get", "jobs", "--lease", "1h", "--lease-out", "lease", "-o", "taken", "-u", p.url)
	p.run("putResult", "jobs", done, "taken", "--name", "one", "--lease", "@lease", "-u", p.url)
	p.run("putResult", "jobs", done, "taken", "--name", "two", "--lease", "@lease", "-u", p.url)
	p.run("report", "jobs", done, "--outcome", "completed", "--lease", "@lease", "-u", p.url)
	lacking, whole := p.put("lacking"), p.put("whole")
	p.run("publish", "--now", "-u", p.url)
	must(t, original.Stop(syscall.SIGTERM))

	// What a run leaves that was killed: files with their names, and the former notes.
	copied := map[string]string{"consumed/" + done: "pending/" + done, "result/" + done + "/one": "", "pending/" + lacking: "",
		"pending/" + whole: "", "payload/" + whole: ""}
	for name, former := range copied {
		text, err := os.ReadFile(filepath.Join(p.dir, "home/queues/jobs", name))
		must(t, err)
		to := filepath.Join(p.dir, "backup/queues/jobs", name)
		must(t, os.MkdirAll(filepath.Dir(to), 0o700))
		must(t, os.WriteFile(to, text, 0o600))
		if former == "" {
			continue
		}
		must(t, os.Remove(filepath.Join(p.dir, "backup/queues/jobs", former)))
	}
	out, err := p.try("promote", "backup")
	if err != nil {
		t.Errorf("promote: %v", err)
	}
	says(t, out, "no payload: jobs/"+lacking, "no result: jobs/"+done+"/two", "2 files were in transit", "jobs: 2 pending, 1 consumed", ", 0 problems\n")
	p.serve("backup")
	if got := p.run("results", "jobs", done, "-u", p.url); !strings.Contains(got, "one") || strings.Contains(got, "two") {
		t.Errorf("the results are %s", got)
	}
	if got := p.run("get", "jobs", "-u", p.url); got != "whole" {
		t.Errorf("got %q", got)
	}
	if out := p.run("ls", "jobs", "-u", p.url); !strings.Contains(out, lacking+"\tpending\t") || strings.Count(out, "\theld\t") != 1 {
		t.Errorf("got %s", out)
	}
}

// work takes jobs with leases. attach puts a result of a name to each of them.
func (p *promotion) work(ids []string) (attach func(name string)) {
	p.t.Helper()
	for i := range ids {
		p.run("get", "jobs", "--lease", "1h", "--lease-out", fmt.Sprint("lease", i), "-o", "taken", "-u", p.url)
	}
	return func(name string) {
		p.t.Helper()
		for i, id := range ids {
			text := id + name
			must(p.t, os.WriteFile(filepath.Join(p.dir, text), []byte(text), 0o600))
			p.run("putResult", "jobs", id, text, "--name", name, "--lease", fmt.Sprint("@lease", i), "-u", p.url)
		}
	}
}

// TestSettingsAndResultsInTransitAtAPromotion loses an original while a copy has the events of
// new settings and results, and neither their files. The home has the former settings, and
// jobs without these results. Followers of the original have the same.
func TestSettingsAndResultsInTransitAtAPromotion(t *testing.T) {
	p := newPromotion(t)
	original := p.serve("home")
	ids := []string{p.put("one"), p.put("two")}
	attach := p.work(ids)
	attach("first")
	p.run("sync", p.url, "behind")
	p.run("sync", p.url, "backup")
	p.run("set", "jobs", "--description", "new", "-u", p.url)
	attach("last")
	p.run("sync", p.url, "level")
	p.lose(original, "/queue-info.txt$|/result/.*/last$|/consumed/"+ids[0])

	out := p.run("promote", "backup", "--force")
	says(t, out, "jobs: former settings", "no result: jobs/"+ids[0]+"/last", "no result: jobs/"+ids[1]+"/last",
		"former job file: jobs/"+ids[0], " 0 problems\n")
	p.serve("backup")
	for _, id := range ids {
		if got := p.run("results", "jobs", id, "-u", p.url); !strings.Contains(got, "first") || strings.Contains(got, "last") {
			t.Errorf("job %s has the results %s", id, got)
		}
	}
	for _, copy := range []string{"level", "behind"} {
		p.follows(copy, "replica: changes")
	}
	says(t, p.run("audit", "--source", p.url, "--sample", "-1"), ", 0 findings")
}

// TestAQueueRemovedAtTheOriginalIsNotInThePromotedHome has a copy that followed the removal.
func TestAQueueRemovedAtTheOriginalIsNotInThePromotedHome(t *testing.T) {
	t.Parallel()
	p := newPromotion(t)
	original := p.serve("home")
	p.put("stays")
	p.run("create", "gone", "-u", p.url)
	p.run("put", "gone", "stays", "-u", p.url)
	p.run("sync", p.url, "copy")
	p.run("get", "gone", "-u", p.url)
	p.run("cull", "gone", "--size", "0", "-u", p.url)
	p.run("rmqueue", "gone", "-u", p.url)
	p.run("sync", "copy")
	original.Kill()
	p.run("promote", "copy")
	if got := p.run("status", "--home", "copy"); !strings.HasPrefix(got, "jobs\t") || strings.Contains(got, "gone") {
		t.Errorf("the home has %s", got)
	}
}

// TestFollowersOfTheOriginalFollowThePromotedHome has copies of an original that are where
// its backup is, behind it, and ahead of it. The backup takes over under the same URL. The
// first two go on with the changes, and fetch nothing else; the last one begins anew. All
// end as true copies.
func TestFollowersOfTheOriginalFollowThePromotedHome(t *testing.T) {
	t.Parallel()
	p := newPromotion(t)
	dir, url, run, put, serve := p.dir, p.url, p.run, p.put, p.serve
	original := serve("home")
	put("seen by all")
	run("sync", url, "behind")
	put("not seen by one")
	run("get", "jobs", "-u", url)
	for _, to := range []string{"backup", "level"} {
		run("sync", url, to)
	}
	lost := put("seen by one alone")
	run("sync", url, "ahead")
	original.Kill()

	// A copy by a former program has no changes.
	must(t, os.CopyFS(filepath.Join(dir, "former"), os.DirFS(filepath.Join(dir, "backup"))))
	changes, err := filepath.Glob(filepath.Join(dir, "former/.cutie-sync/changes-*"))
	if err != nil || len(changes) != 1 {
		t.Fatalf("the copy has the changes %q, %v", changes, err)
	}
	must(t, os.Remove(changes[0]))
	says(t, run("promote", "former"), "changes up to then are not published")

	out := run("promote", "backup")
	says(t, out, "the last event seen is 3 of ", "its changes from event 1 on stay published")
	must(t, serve("backup").Stop(syscall.SIGTERM))
	serve("backup") // the lists of before the promotion stay
	if got := put("new"); got != lost {
		t.Errorf("the first new job is %s, want %s", got, lost)
	}
	for copy, want := range map[string][]string{
		"level":  {"replica: changes", "fetched 2, same 0, deleted 0,"},
		"behind": {"replica: changes", "fetched 5, same 0, deleted 1,"},
		"ahead":  {"replica: baseline"},
	} {
		p.follows(copy, want...)
		data, err := os.ReadFile(filepath.Join(dir, copy, "queues/jobs/payload", lost))
		if err != nil || string(data) != "new" {
			t.Errorf("%s has %q, %v in %s", copy, data, err, lost)
		}
	}
}

// Other hands change the files of a copy whose original is lost. The changes in the copy tell.
func TestPromotionProvesJobFiles(t *testing.T) {
	t.Parallel()
	p := newPromotion(t)
	d := p.serve("home")
	for _, text := range []string{"one", "two", "three"} {
		p.put(text)
	}
	p.run("get", "jobs", "-u", p.url, "-o", "taken")
	p.run("sync", p.url, "copy")
	d.Stop(syscall.SIGKILL)
	const job1, job2, job9 = "j000000000001", "j000000000002", "j000000000009"
	for harm, c := range map[string]struct{ script, want string }{
		"none":     {"true", ""},
		"settings": {"echo 'queueDescription: another' >> queue-info.txt", ""},
		"contents": {"sed -i 's/^submitter: ./&X/' pending/" + job2, "pending/" + job2 + ": its contents"},
		"state":    {"mv consumed/" + job1 + " pending/", "pending/" + job1 + ": the original has removed it since"},
		"new job": {"sed s/" + job2 + "/" + job9 + "/ pending/" + job2 + " > pending/" + job9 + " && cp payload/" + job2 + " payload/" + job9,
			"pending/" + job9 + ": the original never published it"},
		"no settings": {"rm queue-info.txt", "queue-info.txt: missing"},
	} {
		t.Run(harm, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "copy")
			if out, err := exec.Command("cp", "-a", filepath.Join(p.dir, "copy"), copied).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			change := exec.Command("sh", "-ec", c.script)
			change.Dir = filepath.Join(copied, "queues", "jobs")
			if out, err := change.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := p.try("promote", copied)
			if c.want == "" {
				if err != nil || !strings.Contains(out, " 0 problems") || strings.Contains(out, "queue-info.txt is not") != (harm == "settings") {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 8 || !strings.Contains(out, c.want) || !strings.Contains(out, ": 1 files") {
				t.Errorf("got %v, want exit code 8 and %q: %s", err, c.want, out)
			}
			if out, _ := p.try("promote", "--force", copied); !strings.Contains(out, "fault: queues/jobs/"+c.want) {
				t.Errorf("the report lacks %q: %s", c.want, out)
			}
		})
	}
}

// A promotion killed at any moment leaves no home that can be used, and goes on when it is
// run again.
func TestAPromotionThatWasKilledGoesOn(t *testing.T) {
	t.Parallel()
	p := newPromotion(t)
	d := p.serve("home")
	for i := range 8 {
		p.put(strconv.Itoa(i))
	}
	p.run("sync", p.url, "copy")
	d.Stop(syscall.SIGKILL)
	fresh := func() string {
		copied := filepath.Join(t.TempDir(), "copy")
		if out, err := exec.Command("cp", "-a", filepath.Join(p.dir, "copy"), copied).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return copied
	}
	began := time.Now()
	p.run("promote", fresh())
	whole := time.Since(began)
	made := 0
	rounds := long.N(12, 60)
	for i := range rounds {
		copied := fresh()
		promote := exec.Command("cutie", "promote", copied)
		must(t, processes.Start(promote))
		time.Sleep(whole * time.Duration(i) / time.Duration(rounds))
		promote.Process.Kill()
		promote.Wait()
		_, err := os.Stat(filepath.Join(copied, home.MakingName))
		making := err == nil
		if making {
			made++
			for _, args := range [][]string{{"status", "--home"}, {"check", "--rebuild"}} {
				if out, err := p.try(append(args, copied)...); err == nil || !strings.Contains(out, "cutie failover copy "+copied+" goes on") {
					t.Errorf("%v of a home cut off while it was made: %v: %s", args, err, out)
				}
			}
		} else if _, err := p.try("status", "--home", copied); err == nil { // it was whole by then
			continue
		}
		says(t, p.run("promote", copied), "8 jobs", " 0 problems")
		if out := p.run("status", "--home", copied); !strings.HasPrefix(out, "jobs\t8\t") {
			t.Errorf("the home has %s", out)
		}
	}
	t.Logf("cut off while the home was made: %d of %d", made, rounds)
}
