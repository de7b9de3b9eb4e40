package publisher_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"cutie/publisher"
	"cutie/sitemap"
)

// TestARangeIsOfOneState asks for the end of an open Change List, as a client that goes on
// after a broken connection does: with the tag of the state that it has it gets the rest, and
// with any other validator the whole list of now.
func TestARangeIsOfOneState(t *testing.T) {
	for _, d := range []sitemap.Dialect{sitemap.V11, sitemap.V10, sitemap.V09} {
		s := newSource(t, publisher.Options{Dialect: d, MaxEntries: 20}, "jobs")
		q := s.queue("jobs")
		url := s.doc(q, "pending", "changelist.xml")
		for _, coding := range []string{"identity", "gzip", "zstd"} {
			s.submitN(q, 3)
			resp := s.get(url, "Accept-Encoding", coding)
			had, tag := read(t, resp), resp.Header.Get("ETag")
			rest := func(validator string) (*http.Response, []byte) {
				resp := s.get(url, "Accept-Encoding", coding, "Range", fmt.Sprintf("bytes=%d-", len(had)/2), "If-Range", validator)
				return resp, read(t, resp)
			}
			if resp, got := rest(tag); resp.StatusCode != http.StatusPartialContent || !bytes.Equal(got, had[len(had)/2:]) {
				t.Errorf("%v, %s: %s with the tag, %d octets", d, coding, resp.Status, len(got))
			}
			s.submitN(q, 2)
			now := read(t, s.get(url, "Accept-Encoding", coding))
			for _, validator := range []string{tag, `"x"`, "Sun, 01 Mar 2026 12:00:00 GMT"} {
				if resp, got := rest(validator); resp.StatusCode != http.StatusOK || !bytes.Equal(got, now) {
					t.Errorf("%v, %s: %s with %s, %d octets of %d", d, coding, resp.Status, validator, len(got), len(now))
				}
			}
			s.submitN(q, 18) // another list
			now = read(t, s.get(url, "Accept-Encoding", coding))
			if resp, got := rest(tag); resp.StatusCode != http.StatusOK || !bytes.Equal(got, now) {
				t.Errorf("%v, %s: %s of another list", d, coding, resp.Status)
			}
		}
	}
}
