package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest/client"
	"cutie/sitemap"
)

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
	if err := json.Unmarshal(text, &about); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"Resource List", "If-None-Match", "Range: bytes=N-", "If-Range", "206", "Change List Index"} {
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
	req, err := http.NewRequest(http.MethodGet, r.set+name, nil)
	if err != nil {
		r.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp, text
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

const recipeFoot = "</urlset>\n"

// step asks for the open list once, and reports whether the queue is still there.
func (r *recipe) step() bool {
	r.Helper()
	var header []string
	if r.tag != "" {
		header = []string{"If-None-Match", r.tag, "If-Range", r.tag, "Range", fmt.Sprintf("bytes=%d-", len(r.body)-len(recipeFoot))}
	}
	resp, text := r.get("changelist.xml", header...)
	r.count[resp.StatusCode]++
	switch resp.StatusCode {
	case http.StatusNotModified:
		return true
	case http.StatusPartialContent:
		r.body = append(r.body[:len(r.body)-len(recipeFoot)], text...)
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
	if err != nil {
		r.Fatal(err)
	}
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
		if err != nil {
			r.Fatal(err)
		}
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
	d := serveHome(t, home, args...)
	at := client.New(d.url, nil)
	work := func(submit, take int) {
		t.Helper()
		for i := range submit {
			payload := []byte(fmt.Sprintf("job %d", i))
			if _, err := at.Submit(context.Background(), "jobs", client.Upload{Size: int64(len(payload)), Meta: queuefs.Meta{MediaType: "text/plain"},
				Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }}); err != nil {
				t.Fatal(err)
			}
		}
		for range take {
			d, err := at.Next(context.Background(), "jobs", 0)
			if err != nil {
				t.Fatal(err)
			}
			d.Body.Close()
		}
	}
	work(2, 1)
	eager, lazy := newRecipe(t, d.url, "jobs"), newRecipe(t, d.url, "jobs")
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
			if err := d.stop(syscall.SIGKILL); err == nil {
				t.Fatal("the daemon survived")
			}
			d = serveHome(t, home, args...)
			at = client.New(d.url, nil)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	for _, r := range []*recipe{eager, lazy} {
		r.step()
		r.compare()
	}
	if eager.count[206] < 10 || lazy.count[200] < 6 || eager.index < 5 {
		t.Errorf("answers %v and %v, the index was needed %d times", eager.count, lazy.count, eager.index)
	}

	// Another queue of the name.
	work(0, len(eager.jobs))
	for _, command := range []string{"publish --now", "cull jobs --size 0 --age 0", "rmqueue jobs"} {
		if _, err := cutie(t, append(strings.Fields(command), "--url", d.url)...); err != nil {
			t.Fatal(err)
		}
	}
	if eager.step() {
		t.Error("a removed queue is published")
	}
	if _, err := cutie(t, "create", "jobs", "--url", d.url); err != nil {
		t.Fatal(err)
	}
	work(40, 3)
	for _, r := range []*recipe{eager, lazy} {
		r.step()
		work(3, 1)
		r.step()
		r.compare()
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}
