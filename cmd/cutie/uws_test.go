package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// TestJobsOfUWSSurviveKills kills the daemon while clients of UWS and workers
// are at it, each with a queue of its own, and compares the phase of every job
// with what was acknowledged: it is that, or that of the request that was cut
// off. Results are whole or absent, leases hold on.
//
// CUTIE_CRASH_ROUNDS is the number of rounds; by default 1, and 20 if tests are to
// be long. CUTIE_CRASH_SEED repeats the choices of a run.
func TestJobsOfUWSSurviveKills(t *testing.T) {
	t.Parallel()
	rounds := int(environment(t, "CUTIE_CRASH_ROUNDS", uint64(long.N(1, 20))))
	seed := environment(t, "CUTIE_CRASH_SEED", rand.Uint64())
	t.Logf("CUTIE_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	args := []string{"--listen", fmt.Sprintf("127.%d.%d.%d:8080", 1+random.IntN(254), random.IntN(256), 1+random.IntN(254))}
	home := filepath.Join(t.TempDir(), "home")
	d := processes.Serve(t, home, args...)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	hc := &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var clients []*uwsUser
	for i := range 8 {
		u := &uwsUser{t: t, http: hc, base: d.URL, queue: fmt.Sprint("u", i), random: rand.New(rand.NewPCG(seed, uint64(i+1)))}
		if out, err := cutie(t, "createQueue", u.queue, "--url", d.URL); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		clients = append(clients, u)
	}
	steps := 0
	for range rounds {
		var wg sync.WaitGroup
		for _, u := range clients {
			wg.Go(u.run)
		}
		time.AfterFunc(underLoad(random, 200*time.Millisecond, 900*time.Millisecond), func() { d.Cmd.Process.Kill() })
		wg.Wait()
		d.Ended()
		transport.CloseIdleConnections()
		complained(t, d)
		d = processes.Serve(t, home, args...)
		for _, u := range clients {
			u.compare()
			steps += u.steps
			u.steps = 0
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	count := map[string]int{}
	for _, u := range clients {
		for _, j := range u.jobs {
			count[j.phase]++
		}
	}
	t.Logf("%d steps, %v", steps, count)
	if err := d.Stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if out, err := cutie(t, "check", home); err != nil || !strings.HasSuffix(out, " 0 problems\n") {
		t.Errorf("check: %v: %s", err, out)
	}
}

// A uwsUser is a client of UWS and the worker of its queue.
type uwsUser struct {
	t      *testing.T
	http   *http.Client
	base   string
	queue  string
	random *rand.Rand
	jobs   []*uwsLedger
	made   int
	steps  int
	making bool // a job was being made when the daemon was killed
	taking bool // one was being taken
	strays int  // jobs that were made and nobody was told of
}

// A uwsLedger is what a client was told of a job. Phases are those of UWS, and
// GONE.
type uwsLedger struct {
	n      int
	url    string
	phase  string
	next   string // what a request that was cut off would have made of it
	number string // in the queue, and the lease of its worker
	token  string
	given  bool // its result is there
	giving bool
}

var errCut = errors.New("cut off")

// do sends a request; the error is errCut if nobody knows what became of it.
func (u *uwsUser) do(method, where string, body string, header ...string) (*http.Response, string, error) {
	if !strings.HasPrefix(where, "http") {
		where = u.base + where
	}
	r, err := http.NewRequest(method, where, strings.NewReader(body))
	must(u.t, err)
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set("Accept", "application/octet-stream, */*;q=0.5")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := u.http.Do(r)
	if err != nil {
		return nil, "", errCut
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp, "", errCut
	}
	return resp, string(text), nil
}

// run does one thing after the other until the daemon is killed.
func (u *uwsUser) run() {
	for u.step() == nil {
		u.steps++
	}
}

func (u *uwsUser) step() error {
	in := func(phase string, more func(*uwsLedger) bool) *uwsLedger {
		all := slices.DeleteFunc(slices.Clone(u.jobs), func(j *uwsLedger) bool { return j.phase != phase || more != nil && !more(j) })
		if len(all) == 0 {
			return nil
		}
		return all[u.random.IntN(len(all))]
	}
	mine := func(j *uwsLedger) bool { return j.token != "" }
	switch u.random.IntN(9) {
	case 0, 1:
		return u.create()
	case 2, 3:
		if j := in("PENDING", nil); j != nil {
			return u.change(j, "QUEUED", "POST", j.url+"/phase", "PHASE=RUN")
		}
	case 4, 5:
		return u.takeOne()
	case 6:
		if j := in("EXECUTING", func(j *uwsLedger) bool { return mine(j) && !j.given }); j != nil {
			j.giving = true
			resp, text, err := u.do("PUT", "result/"+u.queue+"/"+j.number+"/result", j.result(), "Cutie-Lease", j.token, "Content-Type", "text/plain")
			if err == nil && resp.StatusCode != 201 && resp.StatusCode != 200 {
				u.t.Errorf("result: %s %s", resp.Status, text)
			}
			if err == nil {
				j.given, j.giving = true, false
			}
			return err
		}
	case 7:
		if j := in("EXECUTING", mine); j != nil {
			phase, form := "COMPLETED", "outcome=completed"
			if !j.given {
				phase, form = "ERROR", "outcome=error&message=no"
			}
			return u.change(j, phase, "POST", "outcome/"+u.queue+"/"+j.number, form, "Cutie-Lease", j.token)
		}
	case 8:
		for _, phase := range []string{"QUEUED", "EXECUTING", "COMPLETED", "PENDING"} {
			if j := in(phase, nil); j != nil && u.random.IntN(4) == 0 {
				if phase != "COMPLETED" && u.random.IntN(2) == 0 {
					return u.change(j, "ABORTED", "POST", j.url+"/phase", "PHASE=ABORT")
				}
				return u.change(j, "GONE", "DELETE", j.url, "")
			}
		}
	}
	return nil
}

func (j *uwsLedger) result() string { return strings.Repeat(fmt.Sprintf("result of %d\n", j.n), 3000) }

func (u *uwsUser) create() error {
	j := &uwsLedger{n: u.made, phase: "PENDING"}
	u.made++ // a stray one keeps its number
	form := url.Values{"n": {fmt.Sprint(j.n)}}
	if u.random.IntN(3) == 0 {
		form.Set("PHASE", "RUN")
		j.phase = "QUEUED"
	}
	resp, text, err := u.do("POST", "uws/"+u.queue+"/async", form.Encode())
	if err != nil {
		u.making = true
		return err
	}
	if resp.StatusCode != 303 {
		u.t.Errorf("create: %s %s", resp.Status, text)
	}
	j.url = resp.Header.Get("Location")
	u.jobs = append(u.jobs, j)
	return nil
}

// change asks for what makes the phase of a job another one.
func (u *uwsUser) change(j *uwsLedger, phase, method, where, form string, header ...string) error {
	j.next = phase
	resp, text, err := u.do(method, where, form, header...)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 400 {
		u.t.Errorf("job %d: %s to %s: %s %s", j.n, j.phase, phase, resp.Status, text)
	}
	j.phase, j.next = phase, ""
	return nil
}

func (u *uwsUser) takeOne() error {
	resp, text, err := u.do("POST", "consume/"+u.queue+"?lease=3600", "")
	if err != nil {
		u.taking = true
		return err
	}
	if resp.StatusCode == 204 || resp.StatusCode == 404 {
		return nil
	}
	var n int
	_, err = fmt.Sscanf(text, "n=%d", &n)
	i := slices.IndexFunc(u.jobs, func(j *uwsLedger) bool { return j.n == n })
	if err != nil || i < 0 {
		return nil // one whose making was cut off
	}
	j := u.jobs[i]
	if j.phase != "QUEUED" {
		u.t.Errorf("job %d was handed out and is %s", n, j.phase)
	}
	where := resp.Header.Get("Content-Location")
	j.phase, j.token, j.number = "EXECUTING", resp.Header.Get("Cutie-Lease"), where[strings.LastIndex(where, "/")+1:]
	return nil
}

var phaseElement = regexp.MustCompile(`<uws:phase>(\w+)</uws:phase>`)

// compare reads every job after a restart.
func (u *uwsUser) compare() {
	_, list, err := u.do("GET", "uws/"+u.queue+"/async", "")
	must(u.t, err)
	listed := strings.Count(list, "<uws:jobref ")
	lost := 0
	for _, j := range u.jobs {
		resp, text, err := u.do("GET", j.url, "")
		must(u.t, err)
		got := "GONE"
		if m := phaseElement.FindStringSubmatch(text); m != nil && resp.StatusCode == 200 {
			got = m[1]
			listed--
		} else if resp.StatusCode != 404 {
			u.t.Errorf("job %d: %s %s", j.n, resp.Status, text)
		}
		if in := strings.Contains(list, j.url+`"`); in != (got != "GONE") {
			u.t.Errorf("job %d is %s, and in the list: %v", j.n, got, in)
		}
		switch {
		case got == j.phase:
		case got == j.next:
		case j.next == "GONE" && got == "ABORTED": // destroyed in two steps, of which the second was not reached
		case j.phase == "QUEUED" && got == "EXECUTING" && u.taking && lost == 0:
			lost++ // who took it did not hear of it
		default:
			u.t.Errorf("job %d was %s, perhaps %s, and is %s now", j.n, j.phase, j.next, got)
		}
		j.phase, j.next = got, ""
		if got != "GONE" {
			u.compareResult(j)
		}
	}
	// One a round at most was made and nobody told of it; it stays there.
	if listed != u.strays && !(u.making && listed == u.strays+1) {
		u.t.Errorf("%s: %d jobs in the list that nobody made, want %d", u.queue, listed, u.strays)
	}
	u.strays, u.making, u.taking = listed, false, false
}

func (u *uwsUser) compareResult(j *uwsLedger) {
	resp, text, err := u.do("GET", j.url+"/results/result", "")
	must(u.t, err)
	there := resp.StatusCode == 200
	if there && !bytes.Equal([]byte(text), []byte(j.result())) {
		u.t.Errorf("job %d: a result of %d octets, want %d", j.n, len(text), len(j.result()))
	}
	if there != j.given && !j.giving {
		u.t.Errorf("job %d is %s: result there: %v, want %v", j.n, j.phase, there, j.given)
	}
	j.given, j.giving = there, false
}

// olderUWS is a service of version 1.0: it knows no LAST and does not wait. Its one job
// ends while it is asked for. The list at /parts comes in parts.
func olderUWS(t *testing.T) (base string, asked *[]string) {
	asked = new([]string)
	const ns = `xmlns:u="http://www.ivoa.net/xml/UWS/v1.0" xmlns:l="http://www.w3.org/1999/xlink"`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /async", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<u:jobs `+ns+`><u:jobref id="2"><u:phase>HELD</u:phase></u:jobref><u:jobref id="1"><u:phase>ERROR</u:phase></u:jobref></u:jobs>`)
	})
	mux.HandleFunc("GET /parts", func(w http.ResponseWriter, r *http.Request) {
		n := 1 + strings.Count(r.URL.RawQuery, "x")
		w.Header().Set("Link", `<?`+strings.Repeat("x", n)+`>; rel="next"`)
		fmt.Fprintf(w, `<u:jobs %s><u:jobref id="%d"/><u:jobref id="%d"/></u:jobs>`, ns, 2*n-1, 2*n)
	})
	mux.HandleFunc("POST /async", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/async/1?"+r.PostFormValue("QUERY"), http.StatusSeeOther)
	})
	mux.HandleFunc("GET /async/1", func(w http.ResponseWriter, r *http.Request) {
		phase := "EXECUTING"
		if *asked = append(*asked, r.URL.RawQuery); len(*asked) > 1 {
			phase = "COMPLETED"
		}
		fmt.Fprintf(w, `<u:job %s><u:phase>%s</u:phase><u:results><u:result id="r" l:href="../files/r"/></u:results></u:job>`, ns, phase)
	})
	mux.HandleFunc("GET /files/r", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "result") })
	mux.HandleFunc("POST /async/1/phase", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "ended already\nlong ago", http.StatusForbidden)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL, asked
}

func TestOtherServicesOfUWSAreUsed(t *testing.T) {
	t.Parallel()
	base, asked := olderUWS(t)
	for _, c := range []struct{ args, out, err string }{
		{"list /async --last 1", "2\tHELD\t\t\n", ""},
		{"list /parts --last 5", "1\t\t\t\n2\t\t\t\n3\t\t\t\n4\t\t\t\n5\t\t\t\n", ""},
		{"create /async QUERY=x", base + "/async/1?x\n", ""},
		{"wait /async/1", "COMPLETED\n", ""},
		{"result /async/1", "r\n", ""},
		{"result /async/1 r", "result", ""},
		{"result /async/1 none", "", "exit status 3: cutie: uws: none: result not found"},
		{"run /async/1", "", "exit status 6: cutie: uws: " + base + "/async/1/phase: refused: ended already\n"},
		{"show /async/2", "", "exit status 3: cutie: uws: " + base + "/async/2: job not found"},
		{"delete /async/1", "", "exit status 1: cutie: uws: " + base + "/async/1: Method Not Allowed"},
	} {
		args := strings.Fields(c.args)
		args[1] = base + args[1]
		out, err := cutie(t, append([]string{"uws"}, args...)...)
		if out != c.out || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
			t.Errorf("%s: got %q, %v, want %q, %s", c.args, out, err, c.out, c.err)
		}
	}
	if want := []string{"", "", "", "", ""}; !slices.Equal(*asked, want) {
		t.Errorf("the job was asked for with %q, want %q: 1.0 does not wait", *asked, want)
	}
}
