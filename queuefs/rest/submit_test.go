package rest_test

import (
	"crypto/md5"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest"
)

const md5OfHello = "b1946ac92492d2347c6235b4d2611184" // of "hello\n"

// Every digest is accepted when right, and nothing is stored when it is wrong.
func TestSubmitVerifiesDigests(t *testing.T) {
	s := newSite(t, rest.Options{})
	b64 := base64.StdEncoding.EncodeToString
	right, wrong := "hello\n", "jello\n"
	good := func(t digest.Type) string { return digest.Sum(t, []byte(right)).Hex }
	md := md5.Sum([]byte(right))
	long := sha512.Sum512([]byte(right))
	type way struct{ query, header, value string }
	ways := []way{
		{"", "Content-MD5", b64(md[:])},
		{"", "Content-Digest", "md5=:" + b64(md[:]) + ":"},
		{"", "Repr-Digest", "unknown=:AAAA:, sha-512=:" + b64(long[:]) + ":;q=1"},
		{"?digestType=CDC-32&digestValue=" + strings.ToUpper(good(digest.CRC32)), "", ""},
	}
	for _, typ := range digest.Types() {
		ways = append(ways, way{"?digest-type=" + typ.String() + "&digest-value=" + good(typ), "", ""})
	}
	n := int64(0)
	for _, w := range ways {
		path := "/content/jobs" + w.query
		var header []string
		if w.header != "" {
			header = []string{w.header, w.value}
		}
		a := s.do("POST", path, wrong, header...).want(t, 400)
		if got := a.exception(t); !strings.Contains(got, "digest verification failed") {
			t.Errorf("%+v: got %q", w, got)
		}
		s.wantCounts(n, 0, 0)
		s.do("POST", path, right, header...).want(t, 201)
		n++
		s.wantCounts(n, 0, 0)

		// The same as parts of a form, the digest before or behind the file.
		typ, value := "", ""
		if w.query != "" {
			_, rest, _ := strings.Cut(w.query, "=")
			typ, rest, _ = strings.Cut(rest, "&")
			_, value, _ = strings.Cut(rest, "=")
		}
		build := func(text string, first bool) string {
			f := newForm()
			if typ != "" && first {
				f.field("digest-type", typ).field("digest-value", value)
			}
			if typ == "" {
				f.file("x", text, w.header+": "+w.value)
			} else {
				f.file("x", text)
			}
			if typ != "" && !first {
				f.field("digestValue", value).field("digestType", typ)
			}
			return f.end()
		}
		for _, first := range []bool{true, false} {
			s.postForm(build(wrong, first)).want(t, 400)
			s.postForm(build(right, first)).want(t, 201)
			n++
			s.wantCounts(n, 0, 0)
		}
	}
}

func TestSubmitTenThousandFiles(t *testing.T) {
	s := newServiceWith(t, queuefs.Options{Segment: manyJobs}).serve(rest.Options{})
	f := newForm()
	for i := range 10_000 {
		f.file("f", fmt.Sprint(i))
	}
	a := s.postForm(f.end(), "Accept", "text/x-anvl").want(t, 201)
	if got := strings.Count(a.body, "submittedJobState: "); got != 10_000 {
		t.Errorf("answer names %d jobs", got)
	}
	s.wantCounts(10_000, 0, 0)
	if got := s.payload(10_000); got != "9999" {
		t.Errorf("last payload: got %q", got)
	}
	s.postForm(f.file("one", "more").end()).want(t, 413)
	s.wantCounts(10_000, 0, 0)
}

// A body of unknown length is read no further than it may be long.
func TestSubmitRefusesALongBodyWithoutALength(t *testing.T) {
	s := newSite(t, rest.Options{MaxBody: 1 << 20})
	req := s.request("POST", "/content/jobs", strings.NewReader(strings.Repeat("x", 1<<20+1)))
	req.ContentLength = -1
	if got := s.send(req).want(t, 413).exception(t); !strings.Contains(got, "more than 1048576 octets") {
		t.Errorf("got %q", got)
	}
	s.wantCounts(0, 0, 0)
}

// net/http sends one User-Agent, so the request comes without a connection.
func TestSubmitRefusesARepeatedUserAgent(t *testing.T) {
	s := newSite(t, rest.Options{})
	for _, path := range []string{"/content/jobs", "/consume/jobs"} {
		a := s.direct("POST", path, "x", "User-Agent", "a", "User-Agent", "b").want(t, 400)
		want(t, path, a.exception(t), "header User-Agent is repeated")
	}
	s.wantCounts(0, 0, 0)
}
