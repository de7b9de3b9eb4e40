package uws_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/state"
)

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// page asks as a browser does, and takes only what is well-formed, has the
// policy of all pages, and brings nothing that would run.
func (w *world) page(status int, where string) string {
	w.t.Helper()
	r, err := http.NewRequest("GET", where, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Accept", browser)
	resp, err := w.web.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != status || resp.Header.Get("Content-Security-Policy") != state.PagePolicy || resp.Header.Get("Vary") != "Accept" {
		w.t.Errorf("%s: got %s, %v", where, resp.Status, resp.Header)
	}
	for d := xml.NewDecoder(strings.NewReader(string(data))); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			w.t.Fatalf("%s: %v\n%s", where, err, data)
		}
		if e, ok := token.(xml.StartElement); ok {
			if slices.Contains([]string{"script", "img", "iframe", "object"}, e.Name.Local) {
				w.t.Errorf("%s: got <%s>", where, e.Name.Local)
			}
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "style" || strings.HasPrefix(a.Value, "javascript:") {
					w.t.Errorf("%s: got %s=%q", where, a.Name.Local, a.Value)
				}
			}
		}
	}
	return string(data)
}

// buttons are the words on the buttons of a page.
func buttons(page string) (all []string) {
	for _, m := range regexp.MustCompile(`>([^<]*)</button>`).FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestPagesOfferWhatThePhaseAllows(t *testing.T) {
	w := newWorld(t, "")
	hostile := `RUNID=<script>alert(1)</script>&a"b=]]>%26amp;%0A&a"b=2`
	list := w.srv.URL + "/uws/q/async"
	job := w.create(hostile)
	check := func(where string, want ...string) {
		t.Helper()
		if got := buttons(w.page(200, where)); !slices.Equal(got, want) {
			t.Errorf("%s: got buttons %q, want %q", where, got, want)
		}
	}
	check(list, "Create", "Create and run", "List")
	check(job, "Run", "Set", "Set", "Abort", "Set", "Set", "Destroy")
	w.want(303, "POST", job, "PHASE=RUN")
	check(job, "Abort", "Set", "Set", "Destroy")
	w.finish(w.take(), queuefs.Conclusion{Outcome: queuefs.Failed, Message: "<b>no</b>"}, "result")
	check(job, "Set", "Set", "Destroy")
	check(list+"?PHASE=&AFTER=&LAST=5", "Create", "Create and run", "List")
	if text := w.page(200, job); !strings.Contains(text, "&lt;b&gt;no&lt;/b&gt;") || !strings.Contains(text, job+"/results/result") {
		t.Errorf("got %s, want the message and the result", text)
	}
	if text := w.page(404, job+"x"); !strings.Contains(text, "job not found") {
		t.Errorf("got %s, want a page that says why", text)
	}
	w.page(400, list+"?LAST=none")
}

func TestHTMLIsForThoseThatAskForNothingElse(t *testing.T) {
	w := newWorld(t, "")
	for accept, want := range map[string]string{
		"text/html":            "text/html; charset=utf-8",
		"Text/HTML; q=0.8":     "text/html; charset=utf-8",
		browser:                "text/html; charset=utf-8",
		"text/html, */*; q=.2": "application/xml", // Java
		"*/*":                  "application/xml",
		"application/xml":      "application/xml",
		"":                     "application/xml",
		"application/json":     "application/xml",
		"text/html, image/gif, image/jpeg, */*; q=0.2": "application/xml",
		"text/html, text/plain":                        "application/xml",
	} {
		r, err := http.NewRequest("GET", w.srv.URL+"/uws/q/async", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		resp, err := w.web.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); got != want {
			t.Errorf("%s: got %s, want %s", accept, got, want)
		}
	}
}
