package rest_test

import (
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
)

// TestItemsOfConsumers checks how jobs are handed out and looked at.
func TestItemsOfConsumers(t *testing.T) {
	runItems(t, []item{
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
	})
}

func expire(t *testing.T, s *site) {
	t.Helper()
	if err := s.svc.Expire(ctx); err != nil {
		t.Fatal(err)
	}
}
