package rest_test

import (
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// TestItemsOfAnswers checks the forms of answers, errors and tags.
func TestItemsOfAnswers(t *testing.T) {
	runItems(t, []item{
		{28, "names of methods are matched without case, and old ones are known", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for alias, name := range map[string]string{"deleteItem": "Delete-job", "DELETEJOB": "Delete-job", "peekJob": "Peek-at-job", "peek": "Peek-at-job",
				"setQueueBehavior": "Set-queue", "get-next-job": "Get-next-job"} {
				d := s.do("GET", "/help/"+alias+"?t=json", "").want(t, 200).decoded(t, state.HelpClass)
				want(t, alias, says(d, "method"), []string{name})
			}
		}},
		{41, "t wins over Accept, XHTML is the default, and what is unknown is 415", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, tt := range []struct{ t, accept, want string }{
				{"", "", "application/xhtml+xml"},
				{"", "*/*", "application/xhtml+xml"},
				{"", "application/json", "application/json"},
				{"xml", "application/json", "application/xml"},
				{"TTL", "", "text/turtle"},
				{"anvl", "*/*", "text/x-anvl"},
				{"", "text/anvl;q=0.5, text/turtle;q=0.4", "text/x-anvl"},
				{"", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/xhtml+xml"},
				{"", "text/html", "text/html; charset=utf-8"},
			} {
				for _, path := range []string{"/help", "/state", "/state/jobs"} {
					query := ""
					if tt.t != "" {
						query = "?t=" + tt.t
					}
					s.do("GET", path+query, "", "Accept", tt.accept).want(t, 200).header(t, "Content-Type", tt.want)
				}
			}
			s.do("GET", "/state?t=pdf", "").want(t, 415)
			s.do("GET", "/state", "", "Accept", "image/png").want(t, 415)
		}},
		{42, "options come in the query", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.submit("x", queuefs.Meta{})
			d := s.do("POST", "/consume/jobs?h&t=json", "").want(t, 200).decoded(t, state.HelpClass)
			want(t, "h", says(d, "method"), []string{"Get-next-job"})
			want(t, "V", s.do("DELETE", "/content/jobs/j000000000001?V", "").want(t, 200).body, queuefs.Scheme+"\n")
			s.wantCounts(1, 0, 0)
			want(t, "v and D", s.do("GET", "/state?v&D=9&t=json", "").want(t, 200).body, s.do("GET", "/state?t=json", "").want(t, 200).body)
			s.do("DELETE", "/content/jobs/j000000000001?v&D=9", "").want(t, 202)
		}},
		{43, "errors are states too", func(t *testing.T) {
			s := newSite(t, rest.Options{MaxBody: 10})
			for r, status := range map[string]int{"GET /state/none": 404, "PATCH /state": 405, "POST /content/jobs": 413, "GET /state?t=x": 415, "POST /lease/jobs/j000000000001?lease=x": 404} {
				method, path, _ := strings.Cut(r, " ")
				a := s.do(method, path, strings.Repeat("x", 11), "Accept", "text/turtle").want(t, status)
				a.header(t, "Content-Type", "text/turtle")
				a.header(t, "WWW-Authenticate", "")
				text := s.do(method, path, strings.Repeat("x", 11), "Accept", "*/*").want(t, status)
				text.header(t, "Content-Type", "text/plain; charset=utf-8") // nobody asked for a page
				if want := s.do(method, path, strings.Repeat("x", 11)).exception(t) + "\n"; text.body != want || len(want) > 200 {
					t.Errorf("%s: got %q, want %q", r, text.body, want)
				}
				if a.exception(t) == "" || status == 405 && a.Header.Get("Allow") == "" {
					t.Errorf("%s: got %v %s", r, a.Header, a.body)
				}
			}
		}},
		{44, "HEAD is GET without a body, and states have tags that change with them", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.submit("x", queuefs.Meta{})
			for _, path := range []string{"/help", "/state", "/state/jobs", "/state/jobs/j000000000001", "/content/jobs", "/queues/jobs/payload/j000000000001", "/schema/job.xsd"} {
				get, head := s.do("GET", path, "").want(t, 200), s.do("HEAD", path, "").want(t, 200)
				for _, name := range []string{"Content-Type", "Etag", "Vary"} {
					if strings.HasPrefix(path, "/content") && name == "Content-Type" {
						continue // with a boundary
					}
					head.header(t, name, get.Header.Get(name))
				}
				if head.body != "" || head.ContentLength != int64(len(get.body)) {
					t.Errorf("%s: HEAD has %d octets, GET %d", path, head.ContentLength, len(get.body))
				}
			}
			for _, change := range []string{"/state/jobs?S=pause", "/state/jobs?S=restart", "/state/jobs?closed=true", "/state/jobs?acknowledge=required",
				"/state/jobs?leaseDuration=9", "/state/jobs?maxAttempts=9", "/state/jobs?callback=http://127.0.0.1:9/", "/hold/jobs/j000000000001"} {
				tag := s.do("GET", "/state/jobs", "").Header.Get("Etag")
				s.do("GET", "/state/jobs", "", "If-None-Match", tag).want(t, 304)
				s.do("POST", change, "").want(t, 200)
				s.do("GET", "/state/jobs", "", "If-None-Match", tag).want(t, 200)
			}
			// So have those of jobs.
			s.do("POST", "/release/jobs/j000000000001", "").want(t, 200)
			token := ""
			for _, change := range []string{"POST /hold/jobs/j000000000001", "POST /release/jobs/j000000000001", "POST /consume/jobs?lease=60",
				"POST /lease/jobs/j000000000001", "PUT /result/jobs/j000000000001/a", "POST /outcome/jobs/j000000000001?outcome=completed", "POST /requeue/jobs/j000000000001"} {
				tag := s.do("GET", "/state/jobs/j000000000001", "").Header.Get("Etag")
				s.do("GET", "/state/jobs/j000000000001", "", "If-None-Match", tag).want(t, 304)
				method, path, _ := strings.Cut(change, " ")
				a := s.do(method, path, "", "Cutie-Lease", token)
				if a.StatusCode > 201 {
					t.Fatalf("%s: %s", change, a.body)
				}
				if lease := a.Header.Get("Cutie-Lease"); lease != "" {
					token = lease
				}
				s.do("GET", "/state/jobs/j000000000001", "", "If-None-Match", tag).want(t, 200)
			}
		}},
	})
}
