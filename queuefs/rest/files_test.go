package rest_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

func TestPayloadIsAPlainResource(t *testing.T) {
	s := newSite(t, rest.Options{})
	for _, size := range []int{0, 10, 300_000} {
		text := strings.Repeat("<script>!", size/9+1)[:size]
		id := s.submit(text, queuefs.Meta{MediaType: "text/html"}).ID
		path := "/queues/jobs/payload/" + id.String()
		sum := sha256.Sum256([]byte(text))
		tag := `"` + hex.EncodeToString(sum[:]) + `"`
		check := func(a answer, set, status string) {
			t.Helper()
			a.header(t, "Etag", tag)
			a.header(t, "Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
			a.header(t, "Cache-Control", "max-age=31536000, immutable")
			a.header(t, "X-Content-Type-Options", "nosniff")
			a.header(t, "Content-Security-Policy", "sandbox; default-src 'none'")
			want := "<" + s.url + "/.well-known/resourcesync/jobs/" + set + `/capabilitylist.xml>; rel="resourcesync" <` +
				s.url + "/queues/jobs/" + status + "/" + id.String() + `>; rel="describedby" <` + s.url + `/state/jobs>; rel="collection"`
			if got := strings.Join(a.Header["Link"], " "); got != want {
				t.Errorf("Link: got %s, want %s", got, want)
			}
		}
		a := s.do("GET", path, "").want(t, 200)
		check(a, "pending", "pending")
		a.header(t, "Content-Type", "text/html")
		a.header(t, "Content-Length", fmt.Sprint(size))
		a.header(t, "Accept-Ranges", "bytes")
		if a.body != text {
			t.Errorf("got %d octets, want %d", len(a.body), size)
		}
		head := s.do("HEAD", path, "").want(t, 200)
		check(head, "pending", "pending")
		head.header(t, "Content-Length", fmt.Sprint(size))
		if _, err := http.ParseTime(a.Header.Get("Last-Modified")); err != nil {
			t.Error(err)
		}
		check(s.do("GET", path, "", "If-None-Match", tag).want(t, 304), "pending", "pending")
		check(s.do("GET", path, "", "If-Modified-Since", a.Header.Get("Last-Modified")).want(t, 304), "pending", "pending")
		if got := s.do("GET", path, "", "If-None-Match", `"other"`).want(t, 200); got.body != text {
			t.Errorf("conditional: got %d octets", len(got.body))
		}
		refused := s.do("GET", path, "", "If-Match", `"other"`, "Accept", "application/json").want(t, 412)
		want(t, "412", refused.exception(t), "it is not in the state that If-Match or If-Unmodified-Since asks for")
		// If-Match comes first (RFC 9110, 13.2.2).
		s.do("GET", path, "", "If-Match", `"other"`, "If-None-Match", "*").want(t, 412)
		for _, name := range []string{"Etag", "Last-Modified", "Repr-Digest", "Link"} {
			refused.header(t, name, "")
		}
		refused.header(t, "Cache-Control", "no-store")
		for _, r := range []string{"items=0-1", "bytes=x", "bytes=5-2"} {
			if a := s.do("GET", path, "", "Range", r).want(t, 200); a.body != text {
				t.Errorf("range %s: got %d octets", r, len(a.body))
			}
		}
		if size > 0 {
			r := s.do("GET", path, "", "Range", "bytes=2-5").want(t, 206)
			r.header(t, "Content-Range", fmt.Sprintf("bytes 2-5/%d", size))
			if r.body != text[2:6] {
				t.Errorf("range: got %q", r.body)
			}
			if r := s.do("GET", path, "", "Range", "bytes=-3").want(t, 206); r.body != text[size-3:] {
				t.Errorf("range: got %q", r.body)
			}
			if r := s.do("GET", path, "", "Range", "bytes=0-0,2-2").want(t, 206); strings.Count(r.body, "Content-Range: ") != 2 {
				t.Errorf("ranges: got %q", r.body)
			}
			s.do("GET", path, "", "Range", fmt.Sprintf("bytes=%d-", size)).want(t, 416)
			s.do("GET", path, "", "Range", "bytes=-0").want(t, 416).header(t, "Content-Range", fmt.Sprintf("bytes */%d", size))
			if r := s.do("GET", path, "", "Range", "bytes=3-99999999999999999999").want(t, 206); r.body != text[3:] {
				t.Errorf("range: got %d octets", len(r.body))
			}
			if r := s.do("GET", path, "", "Range", "bytes=1-", "If-Range", `"other"`).want(t, 200); r.body != text {
				t.Errorf("If-Range: got %d octets", len(r.body))
			}
		}
		// It stays as long as the job is not culled.
		s.do("POST", "/consume/jobs", "").want(t, 200)
		check(s.do("GET", path, "").want(t, 200), "replica", "consumed")
	}
}

// jobLinks are those of a job file and of the state of a job.
func jobLinks(url string, id queuefs.JobID) []string {
	links := []string{"<" + url + "/queues/jobs/payload/" + id.String() + `>; rel="describes"`, "<" + url + `/state/jobs>; rel="collection"`}
	for _, f := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XHTML, state.XML, state.SOIF} {
		links = append(links, fmt.Sprintf(`<%s/state/jobs/%s?t=%s>; rel="alternate"; type="%s"`, url, id, f, f.MediaType()))
	}
	return links
}

func TestJobFileIsWhereTheStatusSays(t *testing.T) {
	s := newSite(t, rest.Options{})
	id := s.submit("hello\n", queuefs.Meta{Sidecar: "a\nb"}).ID
	place := func(dir string) string { return "/queues/jobs/" + dir + "/" + id.String() }
	check := func(status queuefs.Status) {
		t.Helper()
		for _, dir := range []queuefs.Status{queuefs.Pending, queuefs.Consumed, queuefs.Deleted} {
			if dir != status {
				s.do("GET", place(dir.String()), "").want(t, 404)
				continue
			}
			want, _, err := s.q.JobFile(id, dir)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(want)
			a := s.do("GET", place(dir.String()), "").want(t, 200)
			if a.body != string(want) {
				t.Errorf("got %q, want %q", a.body, want)
			}
			a.header(t, "Content-Type", "text/x-anvl")
			a.header(t, "Cache-Control", "no-cache")
			a.header(t, "Etag", `"`+hex.EncodeToString(sum[:])+`"`)
			a.header(t, "Link", "<"+s.url+`/.well-known/resourcesync/jobs/replica/capabilitylist.xml>; rel="resourcesync"`)
			about := append([]string{"<" + s.url + `/.well-known/resourcesync/jobs/replica/capabilitylist.xml>; rel="resourcesync"`}, jobLinks(s.url, id)...)
			if got := a.Header["Link"]; !slices.Equal(got, about) {
				t.Errorf("Link: got %q, want %q", got, about)
			}
			not := s.do("GET", place(dir.String()), "", "If-None-Match", a.Header.Get("Etag")).want(t, 304)
			not.header(t, "Etag", a.Header.Get("Etag"))
			s.do("GET", place(dir.String()), "", "If-None-Match", `"other"`, "If-None-Match", a.Header.Get("Etag")).want(t, 304)
			if got := not.Header["Link"]; !slices.Equal(got, about) {
				t.Errorf("304: Link: got %q, want %q", got, about)
			}
			s.do("HEAD", place(dir.String()), "").want(t, 200).header(t, "Content-Length", fmt.Sprint(len(want)))
			s.do("GET", place(dir.String()), "", "Range", "bytes=0-9").want(t, 206)
		}
	}
	check(queuefs.Pending)
	tag := s.do("GET", place("pending"), "").Header.Get("Etag")
	s.do("POST", "/consume/jobs", "").want(t, 200)
	check(queuefs.Consumed)
	s.do("GET", place("pending"), "", "If-None-Match", tag).want(t, 404)
	s.do("POST", "/requeue/jobs/"+id.String(), "").want(t, 200)
	check(queuefs.Pending)
	s.do("DELETE", "/content/jobs/"+id.String(), "").want(t, 202)
	check(queuefs.Deleted)
}

func TestQueueInfoIsAPlainResource(t *testing.T) {
	s := newSite(t, rest.Options{})
	want, _ := s.q.InfoFile()
	a := s.do("GET", "/queues/jobs/queue-info.txt", "").want(t, 200)
	if a.body != string(want) || a.body == "" {
		t.Errorf("got %q, want %q", a.body, want)
	}
	a.header(t, "Content-Type", "text/x-anvl")
	s.do("GET", "/queues/jobs/queue-info.txt", "", "If-None-Match", a.Header.Get("Etag")).want(t, 304)
	for _, path := range []string{"/queues/jobs/other.txt", "/queues/none/queue-info.txt", "/queues/jobs", "/queues", "/queues/jobs/result/j000000000001",
		"/queues/jobs/payload/j000000000001", "/queues/jobs/payload/j000000009999", "/queues/jobs/payload/queue-info.txt", "/queues/jobs/pending/j000000000001", "/queues/none/payload/j000000000001"} {
		s.do("GET", path, "").want(t, 404)
	}
}
