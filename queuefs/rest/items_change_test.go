package rest_test

import (
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// TestItemsOfChanges checks how jobs are put back, deleted and culled.
func TestItemsOfChanges(t *testing.T) {
	runItems(t, []item{
		{18, "a requeued job keeps its identifier and place, or comes in again at the end", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for range 3 {
				s.submit("x", queuefs.Meta{})
			}
			s.do("POST", "/consume/jobs", "").want(t, 200)
			j := s.do("POST", "/requeue/jobs/j000000000001?t=json", "").want(t, 200).job(t)
			want(t, "requeued", [3]any{j.Status, j.Consumed.IsZero(), j.Requeues}, [3]any{queuefs.Pending, false, 1}) // its date stays
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
	})
}
