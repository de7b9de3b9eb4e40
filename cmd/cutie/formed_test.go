package main_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

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
		req, err := http.NewRequest(c.method, d.url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", c.accept)
		if c.ranges != "" {
			req.Header.Set("Range", c.ranges)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		h := resp.Header
		if resp.StatusCode != c.status || h.Get("Content-Type") != c.contentType || !strings.Contains(string(body), c.says) {
			t.Errorf("%s %s, Accept %q: got %d, %s, %.200s", c.method, c.path, c.accept, resp.StatusCode, h.Get("Content-Type"), body)
		}
		if c.status == 405 && h.Get("Allow") != "GET, HEAD" || c.status == 416 && !strings.HasPrefix(h.Get("Content-Range"), "bytes */") {
			t.Errorf("%s %s: Allow %q, Content-Range %q", c.method, c.path, h.Get("Allow"), h.Get("Content-Range"))
		}
	}
}
