package rest_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// TestItemsOfMethods checks what the methods do and how they answer.
func TestItemsOfMethods(t *testing.T) {
	runItems(t, []item{
		{18, "a requeued job keeps its identifier and place, or comes in again at the end", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for range 3 {
				s.submit("x", queuefs.Meta{})
			}
			s.do("POST", "/consume/jobs", "").want(t, 200)
			j := s.do("POST", "/requeue/jobs/j000000000001?t=json", "").want(t, 200).job(t)
			want(t, "requeued", [3]any{j.Status, j.Consumed.IsZero(), j.Requeues}, [3]any{queuefs.Pending, true, 1})
			again := s.do("POST", "/requeue/jobs/j000000000001?t=json", "").want(t, 200).job(t)
			want(t, "already pending", again.Requeues, 1)
			s.do("POST", "/consume/jobs", "").header(t, "Content-Location", s.url+"/content/jobs/j000000000001")
			a := s.do("POST", "/requeue/jobs/j000000000001?end&t=json", "").want(t, 201)
			a.header(t, "Location", s.url+"/state/jobs/j000000000004")
			want(t, "at the end", a.job(t).ID, queuefs.JobID(4))
			s.do("POST", "/requeue/jobs/j000000000001?end", "").want(t, 409)
			s.wantCounts(3, 1, 0)
		}},
		{20, "a consumed job is not deleted, a deleted one is left so", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.submit("x", queuefs.Meta{})
			s.submit("x", queuefs.Meta{})
			s.do("POST", "/consume/jobs", "").want(t, 200)
			s.do("DELETE", "/content/jobs/j000000000001", "").want(t, 409)
			first := s.do("DELETE", "/content/jobs/j000000000002?t=json", "").want(t, 202).job(t)
			second := s.do("DELETE", "/content/jobs/j000000000002?t=json", "").want(t, 202).job(t)
			want(t, "state", second, first)
		}},
		{21, "delete answers 202 with the state, also for forms", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.submit("x", queuefs.Meta{})
			s.submit("x", queuefs.Meta{})
			want(t, "DELETE", s.do("DELETE", "/content/jobs/j000000000001?t=ttl", "").want(t, 202).job(t).Status, queuefs.Deleted)
			want(t, "POST", s.do("POST", "/delete/jobs/j000000000002?t=ttl", "").want(t, 202).job(t).Status, queuefs.Deleted)
		}},
		{22, "a job is handed out once, or with a lease until that is over", func(t *testing.T) {
			s, d := newDialled(t)
			s.submit("a", queuefs.Meta{})
			s.submit("b", queuefs.Meta{})
			without := s.do("POST", "/consume/jobs", "").want(t, 200)
			for _, name := range []string{"Cutie-Lease", "Cutie-Lease-Expires", "Cutie-Attempt"} {
				without.header(t, name, "")
			}
			s.do("POST", "/consume/jobs?lease=600", "").want(t, 200).header(t, "Cutie-Attempt", "1")
			d.turn(599 * time.Second)
			expire(t, s)
			s.wantCounts(0, 2, 0)
			d.turn(2 * time.Second)
			expire(t, s)
			s.wantCounts(1, 1, 0)
			a := s.do("POST", "/consume/jobs?lease=600", "").want(t, 200)
			a.header(t, "Content-Location", s.url+"/content/jobs/j000000000002")
			a.header(t, "Cutie-Attempt", "2")
		}},
		{23, "a damaged job at the head is put on hold and the next is served", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.do("POST", "/state/jobs?verifyOnRead=true", "").want(t, 200)
			s.submit("spoilt", queuefs.Meta{})
			s.submit("sound", queuefs.Meta{})
			if err := s.svc.Checkpoint(ctx); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(s.svc.Dir(), "queues/jobs/payload/j000000000001")
			if err := os.WriteFile(path, []byte("SPOILT"), 0o666); err != nil {
				t.Fatal(err)
			}
			a := s.do("POST", "/consume/jobs", "", "Accept", "application/octet-stream").want(t, 200)
			want(t, "served", a.body, "sound")
			j := s.do("GET", "/state/jobs/j000000000001?t=json", "").want(t, 200).job(t)
			if j.Held.IsZero() || j.HeldFor == "" || j.Status != queuefs.Pending {
				t.Errorf("got %+v", j)
			}
			s.do("POST", "/consume/jobs", "").want(t, 204)
		}},
		{24, "culling takes processed jobs, the oldest first, by number and age", func(t *testing.T) {
			s, d := newDialled(t)
			for range 5 {
				s.submit("xyz", queuefs.Meta{})
			}
			for _, r := range []string{"DELETE /content/jobs/j000000000004", "POST /consume/jobs", "POST /consume/jobs", "POST /consume/jobs?lease=86400"} {
				d.turn(time.Hour)
				method, path, _ := strings.Cut(r, " ")
				s.do(method, path, "")
			}
			culled := func(query string) []string {
				t.Helper()
				var got []string
				for _, c := range s.do("POST", "/cull/jobs?t=json"+query, "").want(t, 200).queue(t).Changes.Culled {
					got = append(got, c.Job.String()+" "+c.Status.String())
				}
				return got
			}
			s.do("POST", "/state/jobs?cullingSizeThreshold=1&cullingAgeThreshold=0", "").want(t, 200)
			dry := culled("&dry")
			want(t, "dry", dry, []string{"j000000000004 deleted", "j000000000001 consumed"})
			s.wantCounts(1, 3, 1)
			s.do("POST", "/state/jobs?cullingAgeThreshold=2", "").want(t, 200)
			want(t, "by age", culled(""), dry[:1])
			s.do("POST", "/state/jobs?cullingAgeThreshold=0&cullingSizeThreshold=0", "").want(t, 200)
			want(t, "by number", culled(""), []string{"j000000000001 consumed", "j000000000002 consumed"})
			s.wantCounts(1, 1, 0) // one is pending, one is worked on
			all := s.do("POST", "/cull?dry&t=xml", "").want(t, 200).decoded(t, state.ServiceClass)
			want(t, "whole service", says(all, "culledJobs"), []string{""})
		}},
		{25, "a culled job is not found", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.do("POST", "/state/jobs?cullingSizeThreshold=0&cullingAgeThreshold=0", "").want(t, 200)
			s.submit("x", queuefs.Meta{})
			s.do("POST", "/consume/jobs", "").want(t, 200)
			s.do("POST", "/cull", "").want(t, 200)
			for _, r := range []string{"GET /state", "GET /content", "DELETE /content", "POST /requeue", "POST /hold", "POST /delete", "GET /queues/jobs/payload"} {
				method, path, _ := strings.Cut(r, " ")
				if !strings.Contains(path, "payload") {
					path += "/jobs"
				}
				s.do(method, path+"/j000000000001", "").want(t, 404)
			}
		}},
		{28, "names of methods are matched without case, and old ones are known", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for alias, name := range map[string]string{"deleteItem": "Delete-job", "DELETEJOB": "Delete-job", "peekJob": "Peek-at-job", "peek": "Peek-at-job",
				"setQueueBehavior": "Set-queue", "get-next-job": "Get-next-job"} {
				d := s.do("GET", "/help/"+alias+"?t=json", "").want(t, 200).decoded(t, state.HelpClass)
				want(t, alias, says(d, "method"), []string{name})
			}
		}},
		{29, "the sidecar is called sidecar, and sidecare is understood", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, name := range []string{"sidecar", "sidecare"} {
				a := s.postForm(newForm().file("f", "x").field(name, "a=b").end(), "Accept", "application/json").want(t, 201)
				want(t, name, a.job(t).Sidecar, "a=b")
			}
			parts := s.do("POST", "/consume/jobs", "").want(t, 200).parts(t, "multipart/form-data")
			want(t, "handed out", parts[1].header.Get("Content-Disposition"), `form-data; name="sidecar"`)
		}},
		{30, "CDC-32 is CRC-32", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, name := range []string{"CDC-32", "crc-32", "CRC-32"} {
				a := s.do("POST", "/content/jobs?t=json&digest-value=352441C2&digest-type="+name, "abc").want(t, 201)
				if d := a.job(t).Digests; d[1].Type.String() != "CRC-32" {
					t.Errorf("%s: got %v", name, d)
				}
			}
		}},
		{31, "a digest has a type and a value, in either spelling, and is verified", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.do("POST", "/content/jobs?digestType=MD5&digestValue=900150983cd24fb0d6963f7d28e17f72", "abc").want(t, 201)
			s.do("POST", "/content/jobs?digest-type=md5&digest-value=900150983CD24FB0D6963F7D28E17F72", "abc").want(t, 201)
			for query, detail := range map[string]string{
				"digest-type=md5": "digest-type without digest-value",
				"digestValue=90":  "digest-value without digest-type",
				"digest-type=md5&digest-value=900150983cd24fb0d6963f7d28e17f73": "digest verification failed",
			} {
				if got := s.do("POST", "/content/jobs?"+query, "abc").want(t, 400).exception(t); !strings.Contains(got, detail) {
					t.Errorf("%s: got %q", query, got)
				}
			}
			s.wantCounts(2, 0, 0)
		}},
		{32, "the type is optional and never guessed from the content", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			manifest := "#%checkm_0.7\nhttp://127.0.0.1:9/a | md5 | x | | | a\n#%eof\n"
			s.do("POST", "/content/jobs", manifest).want(t, 201)
			s.do("POST", "/content/jobs?type=job", manifest).want(t, 201)
			s.do("POST", "/content/jobs?type=batch-manifest", manifest).want(t, 400)
			s.do("POST", "/content/jobs?type=batch", manifest).want(t, 400)
			s.do("POST", "/content/jobs?type=list", manifest).want(t, 400)
			s.postForm(newForm().file("m", manifest, "Content-Type: text/checkm").end()).want(t, 400)
			s.postForm(newForm().file("m", manifest, "Content-Type: text/checkm").field("type", "job").end()).want(t, 201)
			s.wantCounts(3, 0, 0)
		}},
		{33, "files come as a body, as parts, or as parts of a part", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.do("POST", "/content/jobs?filename=b.bin", "1").want(t, 201)
			s.do("POST", "/content/jobs", "2", "Content-Disposition", `attachment; filename="c.bin"`).want(t, 201)
			s.postForm(newForm().file("d", "3").file("e", "4").end()).want(t, 201)
			nested := "--in\r\nContent-Disposition: file; filename=\"g\"\r\n\r\n5\r\n--in\r\nContent-Disposition: file; filename=\"h\"\r\n\r\n6\r\n--in--\r\n"
			s.postForm(newForm().add(nested, `Content-Disposition: form-data; name="file"`, "Content-Type: multipart/mixed; boundary=in").end()).want(t, 201)
			jobs, err := s.q.List(queuefs.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, j := range jobs {
				got = append(got, j.Filename+"="+s.payload(j.ID))
			}
			want(t, "files", got, []string{"b.bin=1", "c.bin=2", "d=3", "e=4", "g=5", "h=6"})
		}},
		{34, "a job is handed out as a form, as mixed parts, or bare", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for accept, media := range map[string]string{"": "multipart/form-data", "multipart/mixed": "multipart/mixed"} {
				s.submit("x", queuefs.Meta{Sidecar: "s"})
				parts := s.do("POST", "/consume/jobs", "", "Accept", accept).want(t, 200).parts(t, media)
				want(t, media, []string{parts[0].body, parts[1].body}, []string{"x", "s"})
			}
			s.submit("x", queuefs.Meta{})
			want(t, "bare", s.do("POST", "/consume/jobs", "", "Accept", "application/octet-stream").want(t, 200).body, "x")
		}},
		{35, "the consumer learns which job it has", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.submit("x", queuefs.Meta{Filename: "f"})
			for _, r := range [][2]string{{"GET", "/content/jobs"}, {"GET", "/content/jobs/j000000000001"}, {"POST", "/consume/jobs"}} {
				a := s.do(r[0], r[1], "").want(t, 200)
				a.header(t, "Content-Location", s.url+"/content/jobs/j000000000001")
				a.header(t, "Link", "<"+s.url+`/state/jobs/j000000000001>; rel="describedby"`)
				want(t, r[1], a.parts(t, "multipart/form-data")[0].header.Get("Content-Disposition"), `form-data; name="payload"; filename="f"`)
			}
		}},
		{36, "a sidecar is text and belongs to a single job", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, form := range []*form{
				newForm().file("a", "1").file("b", "2").field("sidecar", "x"),
				newForm().file("m", "#%checkm_0.7\n", "Content-Type: text/x-checkm").field("sidecar", "x"),
				newForm().file("a", "1").field("sidecar", "\xff"),
				newForm().file("a", "1").field("sidecar", "x\x00y"),
				newForm().file("a", "1").field("sidecar", "x\x1by"),
			} {
				s.postForm(form.end()).want(t, 400)
			}
			s.wantCounts(0, 0, 0)
			const text = " a=b\\;c;\t\r\nüx "
			s.postForm(newForm().file("a", "1").field("sidecar", text).end()).want(t, 201)
			want(t, "verbatim", s.only().Sidecar, text)
		}},
		{37, "several files are all or nothing and answered with the queue", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			a := s.postForm(newForm().file("a", "1").file("b", "2").end(), "Accept", "application/json").want(t, 201)
			a.header(t, "Location", s.url+"/state/jobs")
			want(t, "submitted", a.queue(t).Submitted, []queuefs.JobID{1, 2})
			want(t, "batch", s.do("GET", "/state/jobs/j000000000002?t=json", "").job(t).Batch, "b000000000001-2")
			want(t, "of the batch", s.do("GET", "/state/jobs?batch=b000000000001-2&t=json", "").queue(t).Jobs.IDs, []queuefs.JobID{1, 2})
			s.postForm(newForm().file("a", "1").file("b", "2", "Content-MD5: kAFQmDzST7DWlj99KOF/cg==").end()).want(t, 400)
			s.wantCounts(2, 0, 0)
		}},
		{38, "an empty queue has no content, an unknown job is not found", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.do("POST", "/consume/jobs", "").want(t, 204)
			s.do("GET", "/content/jobs", "").want(t, 204)
			s.do("GET", "/content/jobs/j000000000001", "").want(t, 404)
			s.submit("x", queuefs.Meta{})
			s.do("POST", "/state/jobs?S=pause", "").want(t, 200)
			s.do("POST", "/consume/jobs", "").want(t, 204)
			s.do("GET", "/content/jobs", "").want(t, 200)
			s.wantCounts(1, 0, 0)
		}},
		{39, "jobs of every status can be looked at", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for range 3 {
				s.submit("x", queuefs.Meta{})
			}
			s.do("POST", "/consume/jobs", "").want(t, 200)
			s.do("DELETE", "/content/jobs/j000000000002", "").want(t, 202)
			for _, id := range []string{"j000000000001", "j000000000002", "j000000000003"} {
				s.do("GET", "/content/jobs/"+id, "").want(t, 200)
			}
			s.wantCounts(1, 1, 1)
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
		{47, "consumers at the same time get different jobs, the oldest first", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for range 40 {
				s.submit("x", queuefs.Meta{})
			}
			var (
				wg  sync.WaitGroup
				mu  sync.Mutex
				all []string
			)
			for range 4 {
				wg.Go(func() {
					last := ""
					for range 10 {
						req, _ := http.NewRequest("POST", s.url+"/consume/jobs", nil)
						resp, err := http.DefaultTransport.RoundTrip(req)
						if err != nil {
							t.Error(err)
							return
						}
						resp.Body.Close()
						id := resp.Header.Get("Content-Location")
						if id <= last {
							t.Errorf("%s after %s", id, last)
						}
						last = id
						mu.Lock()
						all = append(all, id)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			slices.Sort(all)
			if all = slices.Compact(all); len(all) != 40 || strings.Contains(all[39], "j000000000041") {
				t.Errorf("got %d different jobs", len(all))
			}
			s.wantCounts(0, 40, 0)
		}},
		{48, "manifests do not reach private addresses", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, url := range []string{"http://127.0.0.1:9/x", "http://[::1]/x", "http://169.254.169.254/x", "http://10.0.0.1/x", "file:///etc/passwd", "http://u:p@example.org/x"} {
				manifest := "#%checkm_0.7\n" + url + " | | | | | x\n#%eof\n"
				a := s.do("POST", "/content/jobs?type=batch-manifest", manifest).want(t, 400)
				if got := a.exception(t); !strings.Contains(got, "line 2") || bytes.Contains([]byte(a.body), []byte("root:")) {
					t.Errorf("%s: got %q", url, got)
				}
			}
			s.wantCounts(0, 0, 0)
		}},
	})
}

func expire(t *testing.T, s *site) {
	t.Helper()
	if err := s.svc.Expire(ctx); err != nil {
		t.Fatal(err)
	}
}
