package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/publisher/soif"
	"cutie/queuefs/job"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/rest/client"
	"cutie/sitemap"
	"cutie/testdata/processes"
)

func TestRobotsAndPagesOfOthersByChoice(t *testing.T) {
	t.Parallel()
	const published = ".well-known/resourcesync"
	home := filepath.Join(t.TempDir(), "home")
	d := processes.Serve(t, home)
	if resp, _ := send(t, http.DefaultClient, "GET", d.URL+"robots.txt", ""); resp.StatusCode != 404 {
		t.Errorf("robots.txt without --robots: %s", resp.Status)
	}
	if resp, _ := send(t, http.DefaultClient, "GET", d.URL+published, "", "Origin", "https://a.test"); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without --cors: %v", resp.Header)
	}
	d.End(t)

	d = processes.Serve(t, home, "--robots", "--cors", "https://a.test")
	resp, body := send(t, http.DefaultClient, "GET", d.URL+"robots.txt", "")
	want := "User-agent: *\nDisallow:\n\n"
	for _, name := range []string{"resourcelist.xml", "sitemap.xml"} {
		for _, set := range []string{"pending", "replica"} {
			url := d.URL + published + "/jobs/" + set + "/" + name
			if name == "sitemap.xml" && set == "pending" { // it has no job, and the schema wants an entry
				if resp, _ := send(t, http.DefaultClient, "GET", url, ""); resp.StatusCode != 404 {
					t.Errorf("%s without an entry: %s", url, resp.Status)
				}
				continue
			}
			want += "Sitemap: " + url + "\n"
		}
	}
	if resp.StatusCode != 200 || body != want || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("robots.txt: %s, %q, %q", resp.Status, resp.Header.Get("Content-Type"), body)
	}
	resp, _ = send(t, http.DefaultClient, "GET", d.URL+published, "", "Origin", "https://a.test")
	if resp.Header.Get("Access-Control-Allow-Origin") != "https://a.test" || !strings.Contains(resp.Header.Get("Access-Control-Expose-Headers"), "ETag") {
		t.Errorf("to an origin that may read: %v", resp.Header)
	}
	resp, body = send(t, http.DefaultClient, "OPTIONS", d.URL+"content/jobs", "", "Origin", "https://a.test", "Access-Control-Request-Method", "POST")
	if resp.StatusCode != 204 || body != "" || resp.Header.Get("Access-Control-Allow-Methods") != "GET, HEAD" {
		t.Errorf("preflight: %s %v", resp.Status, resp.Header)
	}
	if resp, _ = send(t, http.DefaultClient, "POST", d.URL+"content/jobs", "", "Origin", "https://a.test"); resp.StatusCode != 403 || resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("submission by a page that may read: %s %v", resp.Status, resp.Header)
	}
	d.End(t)

	// Who may read nothing is told of nothing.
	d = processes.Serve(t, home, "--robots", "--anonymous", "none")
	if resp, body := send(t, http.DefaultClient, "GET", d.URL+"robots.txt", ""); resp.StatusCode != 200 || body != "User-agent: *\nDisallow:\n\n" {
		t.Errorf("robots.txt for strangers: %s, %q", resp.Status, body)
	}
	d.End(t)
}

func TestPublishingIsAskedByMethod(t *testing.T) {
	d := processes.Serve(t, filepath.Join(t.TempDir(), "home"))
	for _, tt := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "publish/status", 200, ""},
		{"HEAD", "publish/status", 200, ""},
		{"POST", "publish/status", 405, "GET, HEAD"},
		{"POST", "publish?now", 200, ""},
		{"GET", "publish", 405, "POST"},
		{"GET", "publish/", 404, ""},
		{"GET", "publish/x", 404, ""},
	} {
		resp, body := send(t, http.DefaultClient, tt.method, d.URL+tt.path, "")
		if resp.StatusCode != tt.status || resp.Header.Get("Allow") != tt.allow {
			t.Errorf("%s %s: %s, Allow %q", tt.method, tt.path, resp.Status, resp.Header.Get("Allow"))
		}
		if tt.status != 200 || tt.method == "HEAD" {
			continue
		}
		var got struct {
			BaseURI string
			Sets    []struct{ Queue, Set string }
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.BaseURI != d.URL || len(got.Sets) != 2 || got.Sets[1].Set != "replica" {
			t.Errorf("%s %s: %v, %s", tt.method, tt.path, err, body)
		}
	}
	d.End(t)
}

// TestExportFollows reads a line for each export that had something to do.
func TestExportFollows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, tree := filepath.Join(dir, "home"), filepath.Join(dir, "tree")
	d := processes.Serve(t, home)
	follow := exec.Command("cutie", "export", tree, "--home", home, "--resources", "--follow", "--every", "100ms")
	follow.Env = append(os.Environ(), "CUTIE_URL=")
	out, err := follow.StdoutPipe()
	must(t, err)
	must(t, processes.Start(follow))
	defer follow.Process.Kill()
	lines := bufio.NewReader(out)
	next := func() {
		t.Helper()
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, " documents, ") {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	next()
	payload := filepath.Join(tree, "queues", "jobs", "payload")
	for _, id := range []string{"j000000000001", "j000000000002"} {
		if resp, body := send(t, http.DefaultClient, "POST", d.URL+"content/jobs", "", "Content-Type", "application/octet-stream"); resp.StatusCode/100 != 2 {
			t.Fatalf("%s: %s", resp.Status, body)
		}
		for {
			next()
			if _, err := os.Stat(filepath.Join(payload, id)); err == nil {
				break
			}
		}
	}
	must(t, follow.Process.Signal(syscall.SIGTERM))
	if err := follow.Wait(); err != nil {
		t.Errorf("interrupted it ends with %v", err)
	}
	d.End(t)
}

// A recipe follows the set pending of a queue step by step as howToFollow in
// about.json says, with ranges.
type recipe struct {
	*testing.T
	set   string          // with a slash at its end
	jobs  map[string]bool // pending
	known time.Time       // of the last change, or at
	body  []byte          // of the open list
	tag   string          // of it
	count map[int]int     // answers for the open list, by status
	index int             // how often the index was needed
}

func newRecipe(t *testing.T, base, queue string) *recipe {
	r := &recipe{T: t, set: base + ".well-known/resourcesync/" + queue + "/pending/", count: map[int]int{}}
	var about struct {
		Follow []string `json:"howToFollow"`
	}
	_, text := r.get("about.json")
	must(t, json.Unmarshal(text, &about))
	for _, word := range []string{"Resource List", "If-None-Match", "Prefer: wait=60", "304", "Change List Index"} {
		if !strings.Contains(strings.Join(about.Follow, " "), word) {
			t.Errorf("howToFollow says nothing of %s: %q", word, about.Follow)
		}
	}
	r.begin()
	return r
}

// get asks for a document; header is pairs of names and values.
func (r *recipe) get(name string, header ...string) (*http.Response, []byte) {
	r.Helper()
	resp, text := send(r.T, http.DefaultClient, "GET", r.set+name, "", append(header, "Accept-Encoding", "identity")...)
	return resp, []byte(text)
}

// begin gets the Resource List. The payloads are of no interest.
func (r *recipe) begin() {
	r.Helper()
	r.jobs, r.known, r.tag = map[string]bool{}, time.Time{}, ""
	for _, e := range r.listed() {
		r.jobs[path.Base(e.Loc)] = true
	}
}

// listed returns the entries of the Resource List. Nothing happens meanwhile; known is
// its at, if it is zero.
func (r *recipe) listed() (all []sitemap.Entry) {
	r.Helper()
	for names := []string{"resourcelist.xml"}; len(names) > 0; names = names[1:] {
		_, text := r.get(names[0])
		head, entries, err := parseList(text)
		if err != nil {
			r.Fatalf("%v: %s", err, text)
		}
		if r.known.IsZero() {
			r.known = head.At
		}
		for _, e := range entries {
			if name := path.Base(e.Loc); strings.HasPrefix(name, "resourcelist") {
				names = append(names, name)
			} else {
				all = append(all, e)
			}
		}
	}
	return all
}

// step asks for the open list once, and reports whether the queue is still there.
func (r *recipe) step() bool {
	r.Helper()
	var header []string
	if r.tag != "" {
		header = []string{"If-None-Match", r.tag}
	}
	resp, text := r.get("changelist.xml", header...)
	r.count[resp.StatusCode]++
	switch resp.StatusCode {
	case http.StatusNotModified:
		return true
	case http.StatusOK:
		r.body = text
	default:
		return false
	}
	r.tag = resp.Header.Get("ETag")
	head, entries, err := parseList(r.body)
	if err != nil {
		r.Fatalf("%v: %.300s", err, r.body)
	}
	if resp.StatusCode == http.StatusOK && head.From.After(r.known) {
		r.closed()
	}
	r.apply(entries)
	return true
}

// closed reads the closed lists, or begins anew if these begin too late.
func (r *recipe) closed() {
	r.Helper()
	r.index++
	_, text := r.get("changelist-index.xml")
	head, lists, err := parseList(text)
	must(r, err)
	if head.From.After(r.known) {
		tag := r.tag
		r.begin()
		r.tag = tag
		return
	}
	for _, l := range lists {
		if l.Until.IsZero() || !l.Until.After(r.known) {
			continue
		}
		_, text := r.get(path.Base(l.Loc))
		_, entries, err := parseList(text)
		must(r, err)
		r.apply(entries)
	}
}

func (r *recipe) apply(entries []sitemap.Entry) {
	r.Helper()
	for _, e := range entries {
		if !e.Changed().After(r.known) {
			continue
		}
		name := path.Base(e.Loc)
		if gone := e.Change == sitemap.Deleted; r.jobs[name] != gone {
			r.Errorf("%s of %s, which is there: %v", e.Change, name, r.jobs[name])
		} else if gone {
			delete(r.jobs, name)
		} else {
			r.jobs[name] = true
		}
		r.known = e.Changed()
	}
}

// compare compares the copy with the Resource List.
func (r *recipe) compare() {
	r.Helper()
	entries := r.listed()
	for _, e := range entries {
		if !r.jobs[path.Base(e.Loc)] {
			r.Errorf("%s is missing", e.Loc)
		}
	}
	if len(entries) != len(r.jobs) {
		r.Errorf("%d jobs, want %d", len(r.jobs), len(entries))
	}
}

// TestTheRecipeLosesNoChange follows howToFollow while lists are closed, the daemon
// is killed, and the queue is removed and made again.
func TestTheRecipeLosesNoChange(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	args := []string{"--listen", fmt.Sprintf("127.%d.%d.%d:8080", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)), "--list-entries", "25"}
	d := processes.Serve(t, home, args...)
	at := client.New(d.URL, nil)
	work := func(submit, take int) {
		t.Helper()
		for i := range submit {
			payload := []byte(fmt.Sprintf("job %d", i))
			if _, err := at.Submit(context.Background(), "jobs", client.Upload{Size: int64(len(payload)), Meta: job.Meta{MediaType: "text/plain"},
				Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }}); err != nil {
				t.Fatal(err)
			}
		}
		for range take {
			d, err := at.Next(context.Background(), "jobs", 0)
			must(t, err)
			d.Body.Close()
		}
	}
	work(2, 1)
	eager, lazy := newRecipe(t, d.URL, "jobs"), newRecipe(t, d.URL, "jobs")
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		n := random.IntN(6)
		work(n, random.IntN(n+1))
		eager.step()
		if round%5 == 4 {
			// Longer than before, and another list.
			work(20+n, 20)
			lazy.step()
		}
		if round%13 == 12 {
			if err := d.Stop(syscall.SIGKILL); err == nil {
				t.Fatal("the daemon survived")
			}
			d = processes.Serve(t, home, args...)
			at = client.New(d.URL, nil)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, r := range []*recipe{eager, lazy} {
		r.step()
		r.compare()
	}
	if eager.count[200] < 10 || lazy.count[200] < 6 || eager.index < 5 {
		t.Errorf("answers %v and %v, the index was needed %d times", eager.count, lazy.count, eager.index)
	}

	// Another queue of the name.
	work(0, len(eager.jobs))
	for _, command := range []string{"publish --now", "cull jobs --size 0 --age 0", "rmqueue jobs"} {
		run(t, append(strings.Fields(command), "--url", d.URL)...)
	}
	if eager.step() {
		t.Error("a removed queue is published")
	}
	run(t, "create", "jobs", "--url", d.URL)
	work(40, 3)
	for _, r := range []*recipe{eager, lazy} {
		r.step()
		work(3, 1)
		r.step()
		r.compare()
	}
	d.End(t)
}

// Errors of documents and of ranges are in the form asked for, and plain text for
// those who ask for none.
func TestErrorsOfDocumentsAreInTheFormAskedFor(t *testing.T) {
	d := serve(t)
	const top = ".well-known/resourcesync"
	for _, c := range []struct {
		method, path, accept, ranges string
		status                       int
		contentType, says            string
	}{
		{"GET", top + "/no.xml", "application/json", "", 404, "application/json", `"detail":"not found: /` + top + `/no.xml; `},
		{"GET", top + "/no.xml?t=anvl", "", "", 404, "text/x-anvl", "detail: not found: /" + top + "/no.xml; "},
		{"GET", top + "/no.xml", "text/html,application/xhtml+xml,*/*;q=0.8", "", 404, "application/xhtml+xml", "<!DOCTYPE"},
		{"GET", top + "/no.xml", "*/*", "", 404, "text/plain; charset=utf-8", "not found: /"},
		{"GET", top + "/no.xml", "image/png", "", 404, "text/plain; charset=utf-8", "not found: /"},
		{"HEAD", top + "/no.xml", "application/json", "", 404, "application/json", ""},
		{"POST", top, "application/json", "", 405, "application/json", `"detail":"method POST is not among GET, HEAD"`},
		{"GET", top, "application/json", "bytes=99999-", 416, "application/json", "invalid range"},
		{"GET", "queues/jobs/queue-info.txt", "text/x-anvl", "bytes=99999-", 416, "text/x-anvl", "detail: invalid range"},
		{"GET", "queues/jobs/queue-info.txt", "text/x-anvl", "bytes=0-4", 206, "text/x-anvl", "name:"},
		{"GET", top, "application/json", "", 200, "application/xml", "<?xml"},
	} {
		req, err := http.NewRequest(c.method, d.URL+c.path, nil)
		must(t, err)
		req.Header.Set("Accept", c.accept)
		if c.ranges != "" {
			req.Header.Set("Range", c.ranges)
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		must(t, err)
		h := resp.Header
		if resp.StatusCode != c.status || h.Get("Content-Type") != c.contentType || !strings.Contains(string(body), c.says) {
			t.Errorf("%s %s, Accept %q: got %d, %s, %.200s", c.method, c.path, c.accept, resp.StatusCode, h.Get("Content-Type"), body)
		}
		if c.status == 405 && h.Get("Allow") != "GET, HEAD" || c.status == 416 && !strings.HasPrefix(h.Get("Content-Range"), "bytes */") {
			t.Errorf("%s %s: Allow %q, Content-Range %q", c.method, c.path, h.Get("Allow"), h.Get("Content-Range"))
		}
	}
}

// The bucket serves the world when no daemon does, and another home begins with a copy of
// it.
func TestABucketIsASource(t *testing.T) {
	t.Parallel()
	var store objectstest.Memory
	s3 := httptest.NewServer(objectstest.Handler(&store))
	defer s3.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := store.Get(r.Context(), "www"+r.URL.Path, 0)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		defer body.Close()
		io.Copy(w, body)
	}))
	defer web.Close()
	dir := t.TempDir()
	d := processes.Serve(t, filepath.Join(dir, "home"))
	script := strings.NewReplacer("WEB", web.URL, "S3", s3.URL)
	sh(t, dir, script.Replace(`for i in 1 2 3 4 5; do echo $i >f$i; done
cutie put jobs f1 f2 f3 --home home
cutie get jobs --home home >/dev/null
cutie publish --now --home home
cutie export copy --home home --to s3://bucket/www --endpoint S3 --base-uri WEB --resources
cutie put jobs f4 f5 --home home
cutie export copy --home home --to s3://bucket/www --endpoint S3 --base-uri WEB --resources`))
	d.End(t)
	sh(t, dir, script.Replace(`cutie sync WEB mirror --set jobs/replica
cutie audit mirror`))
	web.Close()
	sh(t, dir, `cutie promote mirror; cutie check mirror`)
	out, err := cutie(t, "status", "--home", filepath.Join(dir, "mirror"))
	if err != nil || !strings.Contains(out, "jobs\t4") {
		t.Errorf("got %q, %v, want the four jobs that wait", out, err)
	}
	for _, wrong := range [][]string{{"--to", "bucket"}, {"--endpoint", s3.URL}} {
		if out, err := cutie(t, append([]string{"export", filepath.Join(dir, "x"), "--home", filepath.Join(dir, "mirror")}, wrong...)...); err == nil {
			t.Errorf("%v: got %q, want an error", wrong, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); !os.IsNotExist(err) {
		t.Errorf("a directory was made: %v", err)
	}
}

// Objects are sent ten thousand at a time, until a message is refused.
func TestSendManyDescriptions(t *testing.T) {
	t.Parallel()
	var messages []int
	refuse := 0 // the number of the message to refuse
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in, n := soif.NewReader(r.Body), -1
		for ; ; n++ {
			if _, err := in.Read(); err == io.EOF {
				break
			} else if err != nil {
				t.Error(err)
				break
			}
		}
		messages = append(messages, n)
		head := soif.Object{Type: "RDMHEADER"}
		head.Add("RDM-Version", "1.0")
		head.Add("RDM-Type", "status-response")
		head.Add("RDM-Response-Interpret", fmt.Sprintf("%d accepted, 0 rejected", n))
		w.Header().Set("Content-Type", "application/x-rdm")
		if len(messages) == refuse {
			head.Add("RDM-Error-Message", "no space left")
			w.WriteHeader(http.StatusInsufficientStorage)
		}
		w.Write(head.Append(nil))
	}))
	defer server.Close()
	name := filepath.Join(t.TempDir(), "many.soif")
	for _, tt := range []struct {
		objects, refuse int
		want            []int
		fails           string
	}{
		{0, 0, nil, ""},
		{10_000, 0, []int{10_000}, ""},
		{20_001, 0, []int{10_000, 10_000, 1}, ""},
		{20_001, 2, []int{10_000, 10_000}, "no space left; 10000 objects were accepted before"},
	} {
		messages, refuse = nil, tt.refuse
		must(t, os.WriteFile(name, []byte(strings.Repeat("@X { -\nA{1}:\t1\n}\n", tt.objects)), 0o600))
		_, err := cutie(t, "rdm", "send", server.URL, name)
		if !slices.Equal(messages, tt.want) || (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%d objects: got messages of %v, %v, want %v, %s", tt.objects, messages, err, tt.want, tt.fails)
		}
	}
}
