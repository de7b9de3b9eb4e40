package source_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cutie/publisher/destination/source"
)

const head = `<%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:cut="http://uc3.cdlib.org/ontology/mrt/cutie/event"><rs:md capability="%s" %s/>`

func at(n int) string { return fmt.Sprintf("2026-01-01T00:00:%02dZ", n) }

// A list is closed, and the next one begun, between the answers for the index and for the
// open list. No change is missed.
func TestAListClosedBetweenTwoRequests(t *testing.T) {
	closed := 1 // lists
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	url := server.URL + "/"
	list := func(from, until string, seq int) string {
		end := ""
		if until != "" {
			end = ` until="` + until + `"`
		}
		return fmt.Sprintf(head, "urlset", "changelist", `from="`+from+`"`+end) + fmt.Sprintf(`<rs:ln rel="index" href="%sindex.xml"/><url><loc>%sr%d</loc><rs:md change="created" datetime="%s" cut:event="submit" cut:seq="%d"/></url></urlset>`, url, url, seq, at(10*seq-5), seq)
	}
	answer := func(path string, text func() string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			fmt.Fprint(w, text())
		})
	}
	answer("/set/capabilitylist.xml", func() string {
		return fmt.Sprintf(head, "urlset", "capabilitylist", "") + `<url><loc>` + url + `index.xml</loc><rs:md capability="changelist"/></url></urlset>`
	})
	asked := 0
	answer("/index.xml", func() string {
		var b strings.Builder
		fmt.Fprintf(&b, head, "sitemapindex", "changelist", `from="`+at(0)+`"`)
		for n := range closed {
			fmt.Fprintf(&b, `<sitemap><loc>%sclosed%d.xml</loc><rs:md from="%s" until="%s"/></sitemap>`, url, n+1, at(10*n), at(10*n+10))
		}
		fmt.Fprintf(&b, `<sitemap><loc>%sopen.xml</loc><rs:md from="%s"/></sitemap></sitemapindex>`, url, at(10*closed))
		if asked++; asked == 1 {
			closed = 2 // by now
		}
		return b.String()
	})
	answer("/open.xml", func() string { return list(at(10*closed), "", closed+1) })
	for n := range 2 {
		answer(fmt.Sprintf("/closed%d.xml", n+1), func() string { return list(at(10*n), at(10*n+10), n+1) })
	}
	client := source.NewClient(source.Options{Addresses: loopback, Tries: 1})
	found, err := source.Find(context.Background(), client, url+"set/capabilitylist.xml")
	must(t, err)
	set, err := found.Open(context.Background(), url+"set/capabilitylist.xml")
	must(t, err)
	var got []uint64
	if err := set.Changes(context.Background(), source.Cursor{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, 0, func(b source.Batch) error {
		for i := range b.Entries {
			got = append(got, b.Entries[i].Seq)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "[1 2 3]" {
		t.Errorf("got events %v", got)
	}
}

// An archive has lists from before a gap. A follower from there begins anew, and one from
// behind the gap goes on.
func TestArchivesWithAGap(t *testing.T) {
	url, answer := documents(t)
	answer("/set/capabilitylist.xml", fmt.Sprintf(head, "urlset", "capabilitylist", "")+
		`<url><loc>`+url+`index.xml</loc><rs:md capability="changelist"/></url><url><loc>`+url+`archive.xml</loc><rs:md capability="changelist-archive"/></url></urlset>`)
	answer("/index.xml", fmt.Sprintf(head, "sitemapindex", "changelist", `from="`+at(40)+`"`)+
		`<sitemap><loc>`+url+`40</loc><rs:md from="`+at(40)+`"/></sitemap></sitemapindex>`)
	archive := fmt.Sprintf(head, "urlset", "changelist-archive", "")
	for _, n := range []int{0, 20, 30} { // the changes from 10 to 20 are lost
		archive += fmt.Sprintf(`<url><loc>%s%d</loc><rs:md from="%s" until="%s"/></url>`, url, n, at(n), at(n+10))
	}
	answer("/archive.xml", archive+`</urlset>`)
	for _, n := range []int{0, 20, 30, 40} {
		end := ` until="` + at(n+10) + `"`
		if n == 40 {
			end = ""
		}
		answer(fmt.Sprintf("/%d", n), fmt.Sprintf(head, "urlset", "changelist", `from="`+at(n)+`"`+end)+
			fmt.Sprintf(`<url><loc>%sr</loc><rs:md change="updated" datetime="%s" cut:event="submit" cut:seq="%d"/></url></urlset>`, url, at(n+5), n+5))
	}
	found, err := source.Find(t.Context(), source.NewClient(source.Options{Addresses: loopback, Tries: 1}), url+"set/capabilitylist.xml")
	must(t, err)
	set, err := found.Open(t.Context(), url+"set/capabilitylist.xml")
	must(t, err)
	for from, want := range map[int]string{0: "[]", 5: "[]", 12: "[]", 20: "[25 35 45]", 26: "[35 45]"} {
		var got []uint64
		err := set.Changes(t.Context(), source.Cursor{Time: time.Date(2026, 1, 1, 0, 0, from, 0, time.UTC)}, 0, func(b source.Batch) error {
			for i := range b.Entries {
				got = append(got, b.Entries[i].Seq)
			}
			return nil
		})
		if fmt.Sprint(got) != want || errors.Is(err, source.ErrGap) != (want == "[]") {
			t.Errorf("from %d: got events %v, %v; want %s", from, got, err, want)
		}
	}
}

// A batch ends with an event, not within one: a follower may be cut off between two batches,
// and goes on with the event after.
func TestNoBatchEndsWithinAnEvent(t *testing.T) {
	url, answer := documents(t)
	answer("/set/capabilitylist.xml", fmt.Sprintf(head, "urlset", "capabilitylist", "")+`<url><loc>`+url+`open.xml</loc><rs:md capability="changelist"/></url></urlset>`)
	const events, each = 900, 3
	var list strings.Builder
	fmt.Fprintf(&list, head, "urlset", "changelist", `from="`+at(0)+`"`)
	for n := range events {
		when := time.Date(2026, 1, 1, 0, 0, 1, n*1000, time.UTC).Format(time.RFC3339Nano)
		for i := range each {
			fmt.Fprintf(&list, `<url><loc>%sr%d-%d</loc><rs:md change="created" datetime="%s" cut:event="submit" cut:seq="%d"/></url>`, url, n, i, when, n+1)
		}
	}
	answer("/open.xml", list.String()+"</urlset>")
	found, err := source.Find(t.Context(), source.NewClient(source.Options{Addresses: loopback, Tries: 1}), url+"set/capabilitylist.xml")
	must(t, err)
	set, err := found.Open(t.Context(), url+"set/capabilitylist.xml")
	must(t, err)
	var since source.Cursor
	since.Time = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cutOff := errors.New("cut off")
	got := map[string]int{}
	for runs := 0; ; runs++ {
		err := set.Changes(t.Context(), since, 0, func(b source.Batch) error {
			for i := range b.Entries {
				got[b.Entries[i].Loc]++
			}
			since = b.Next
			return cutOff
		})
		if !errors.Is(err, cutOff) {
			t.Fatal(err)
		}
		if since.Seq == events {
			break
		}
		if runs > events {
			t.Fatal("no end")
		}
	}
	if len(got) != events*each {
		t.Errorf("got %d changes, want %d", len(got), events*each)
	}
}

// documents serves the documents given to answer, until the end of the test.
func documents(t *testing.T) (url string, answer func(path, text string)) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/", func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			fmt.Fprint(w, text)
		})
	}
}
