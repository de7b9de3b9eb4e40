package board_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	hrefs   = regexp.MustCompile(`<a [^>]*href="http://127\.0\.0\.1:1([^"]*)"`)
	actions = regexp.MustCompile(`<form method="post" action="http://127\.0\.0\.1:1([^"]*)"`)
)

func found(r *regexp.Regexp, page string) (all []string) {
	for _, m := range r.FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// A caller without the right to read finds at / and /own the things to be done with other
// rights, and nothing that can only be refused.
func TestCallersWhoMayNotReadHaveTheirPages(t *testing.T) {
	h := build(t, "jobs", "hidden")
	h.submit("jobs", "secret.txt", "")
	for _, tt := range []struct {
		rights       string
		index, links []string
		forms        []string
	}{
		{"submit:jobs", []string{"/manual", "/own/jobs"}, []string{"/", "/manual"}, []string{"/content/jobs?t=xhtml"}},
		{"consume:jobs", []string{"/manual", "/own/jobs"}, []string{"/", "/manual"}, []string{"/consume/jobs?t=xhtml"}},
		{"consume:jobs,submit:jobs", []string{"/manual", "/own/jobs"}, []string{"/", "/manual"}, []string{"/content/jobs?t=xhtml", "/consume/jobs?t=xhtml"}},
		{"delete:jobs", []string{"/manual", "/own/jobs"}, []string{"/", "/manual"}, []string{"/hold/jobs?t=xhtml", "/release/jobs?t=xhtml", "/delete/jobs?t=xhtml"}},
	} {
		page := h.ask(tt.rights, "GET", "/", http.StatusOK, nil)
		if got := found(hrefs, page); !slices.Equal(got, tt.index) || strings.Contains(page, "hidden") {
			t.Errorf("%s: got links %q, want %q: %s", tt.rights, got, tt.index, page)
		}
		page = h.ask(tt.rights, "GET", "/own/jobs", http.StatusOK, nil)
		if got := found(hrefs, page); !slices.Equal(got, tt.links) {
			t.Errorf("%s: got links %q, want %q", tt.rights, got, tt.links)
		}
		if got := found(actions, page); !slices.Equal(got, tt.forms) || strings.Contains(page, "secret.txt") {
			t.Errorf("%s: got forms %q, want %q: %s", tt.rights, got, tt.forms, page)
		}
		h.ask(tt.rights, "GET", "/own/hidden", http.StatusUnauthorized, nil)
	}
	// Readers of some queues find the others beside theirs.
	page := h.ask("read:hidden,submit:jobs", "GET", "/", http.StatusOK, nil)
	if got := found(hrefs, page); !slices.Contains(got, "/own/jobs") || !slices.Contains(got, "/state/hidden?t=xhtml") || slices.Contains(got, "/own/hidden") || slices.Contains(got, "/state/jobs?t=xhtml") {
		t.Errorf("got links %q", got)
	}
}

// Forms lead these callers back to a page of theirs, and the holder of a lease sees the
// beginning of the payload.
func TestFormsLeadBackToPagesOfTheirSenders(t *testing.T) {
	h := build(t, "jobs")
	for _, tt := range []struct{ rights, path, want string }{
		{"submit:jobs", "/content/jobs?t=xhtml", "/own/jobs?job=j000000000001"},
		{"read:jobs,submit:jobs", "/content/jobs?t=xhtml", "/state/jobs/j000000000002?t=xhtml"},
	} {
		if got := h.location(tt.rights, tt.path, url.Values{"payload": {"x"}}); got != "http://127.0.0.1:1"+tt.want {
			t.Errorf("%s: got %s, want %s", tt.rights, got, tt.want)
		}
	}
	for range 2 {
		page := h.ask("consume:jobs", "POST", "/consume/jobs?t=xhtml", http.StatusOK, url.Values{"lease": {"60"}})
		for _, want := range []string{"You have this job until", "<h2>Payload</h2>", "/outcome/jobs/"} {
			if !strings.Contains(page, want) {
				t.Errorf("%q is not on %s", want, page)
			}
		}
		if links := found(hrefs, page[:strings.Index(page, "<h2 id=\"properties\">")]); !slices.Equal(links, []string{"/", "/own/jobs", "/manual"}) {
			t.Errorf("got links %q", links)
		}
	}
	if got := h.location("consume:jobs", "/consume/jobs?t=xhtml", url.Values{}); got != "http://127.0.0.1:1/own/jobs?taken=none" {
		t.Errorf("without a job: got %s", got)
	}
	for query, want := range map[string]string{"?job=j000000000001": "Done: job j000000000001", "?jobs=2": "Submitted: 2 jobs", "?taken=none": "No job is pending", "?job=<b>": "Submit a job"} {
		if page := h.ask("submit:jobs", "GET", "/own/jobs"+query, http.StatusOK, nil); !strings.Contains(page, want) || strings.Contains(page, "<b>") {
			t.Errorf("%s: %q is not on %s", query, want, page)
		}
	}
}
