package publisher_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/klauspost/compress/zstd"

	"cutie/publisher"
)

// unzstd returns what frames of Zstandard, one behind the other, hold.
func unzstd(t testing.TB, octets []byte) []byte {
	t.Helper()
	d, err := zstd.NewReader(nil)
	must(t, err)
	defer d.Close()
	text, err := d.DecodeAll(octets, nil)
	must(t, err)
	return text
}

func TestZstandardFormIsTheDocument(t *testing.T) {
	t.Parallel()
	s, urls := published(t)
	s.submitN(s.queue("jobs"), 3000) // lists of several parts
	for _, url := range urls {
		resp := s.get(url, "Accept-Encoding", "gzip;q=0.9, zstd")
		octets := read(t, resp)
		if resp.Header.Get("Content-Type") == "application/zip" {
			if got := resp.Header.Get("Content-Encoding"); got != "" {
				t.Errorf("%s: package with Content-Encoding %s", url, got)
			}
			continue
		}
		if got := resp.Header.Get("Content-Encoding"); got != "zstd" {
			t.Errorf("%s: Content-Encoding %q", url, got)
		}
		if got, want := unzstd(t, octets), s.body(url); !bytes.Equal(got, want) {
			t.Errorf("%s: zstd form has %d octets, want %d", url, len(got), len(want))
		}
		checkRanges(s, url, octets, "Accept-Encoding", "zstd")
	}
}

func TestCodingIsNegotiated(t *testing.T) {
	s := newSource(t, publisher.Options{}, "jobs")
	url := s.doc(s.queue("jobs"), "replica", "changelist.xml")
	for accept, want := range map[string]string{
		"zstd":                      "zstd",
		"gzip, deflate, br, zstd":   "gzip",
		"zstd, gzip":                "gzip",
		"zstd;q=0.5, gzip;q=0.4":    "zstd",
		"zstd;q=0.4, gzip ; q=0.5":  "gzip",
		"zstd;q=0, x-gzip":          "gzip",
		"ZSTD;Q=0.001":              "zstd",
		"zstd;q=0.000, gzip;q=0":    "",
		"zstd;q=2, gzip;q=-1":       "",
		"zstd;q=x, gzip;level=9":    "",
		"identity, *;q=1, zstandar": "",
		"":                          "",
	} {
		if got := s.get(url, "Accept-Encoding", accept).Header.Get("Content-Encoding"); got != want {
			t.Errorf("%q: got %q, want %q", accept, got, want)
		}
	}
}

// TestHeadTellsEverything compares the header of HEAD with that of GET, which
// net/http would complete with what is not in the other.
func TestHeadTellsEverything(t *testing.T) {
	s, urls := published(t)
	for _, url := range urls {
		tags := map[string]bool{}
		for _, coding := range []string{"identity", "gzip", "zstd"} {
			get, head := s.get(url, "Accept-Encoding", coding), s.do(http.MethodHead, url, "Accept-Encoding", coding)
			body := read(t, get)
			if got := read(t, head); len(got) > 0 || head.StatusCode != 200 || head.ContentLength != int64(len(body)) {
				t.Errorf("HEAD %s in %s: %s, %d octets, length %d of %d", url, coding, head.Status, len(got), head.ContentLength, len(body))
			}
			for _, name := range []string{"Content-Type", "Content-Encoding", "Content-Length", "Accept-Ranges", "Etag", "Last-Modified", "Cache-Control", "Vary"} {
				if got, want := head.Header.Get(name), get.Header.Get(name); got != want {
					t.Errorf("HEAD %s in %s: %s is %q, want %q", url, coding, name, got, want)
				}
			}
			for _, name := range []string{"Content-Type", "Content-Length", "Accept-Ranges", "Etag", "Cache-Control"} {
				if head.Header.Get(name) == "" {
					t.Errorf("HEAD %s in %s: no %s", url, coding, name)
				}
			}
			tags[head.Header.Get("Etag")] = true
		}
		if want := map[bool]int{true: 1, false: 3}[bytes.HasSuffix([]byte(url), []byte(".zip"))]; len(tags) != want {
			t.Errorf("%s: %d entity tags in three codings, want %d", url, len(tags), want)
		}
	}
}
