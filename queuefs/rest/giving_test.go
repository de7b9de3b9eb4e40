package rest_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// A meddler is an answer before each part of which something happens.
type meddler struct {
	*httptest.ResponseRecorder
	before func()
}

func (m *meddler) Write(p []byte) (int, error) {
	m.before()
	return m.ResponseRecorder.Write(p)
}

// TestCullingWaitsForPayloadsOnTheirWay culls while jobs are handed out.
func TestCullingWaitsForPayloadsOnTheirWay(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	cull := func() (n int) {
		for _, err := range s.svc.Cull(ctx, queuefs.CullOptions{Queue: "jobs", Keep: &queuefs.Thresholds{}}) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		return n
	}
	payload := strings.Repeat("payload ", 64<<10)
	for _, target := range []string{"/consume/jobs?max=3", "/consume/jobs"} {
		const jobs = 3
		for range jobs {
			s.submit(payload, queuefs.Meta{})
		}
		for left := jobs; left > 0; {
			writes, early := 0, 0
			w := &meddler{httptest.NewRecorder(), func() { writes++; early += cull() }}
			h.ServeHTTP(w, httptest.NewRequest("POST", target, nil))
			given := strings.Count(w.Body.String(), payload)
			if w.Code != 200 || given == 0 || writes == 0 || early > 0 {
				t.Fatalf("%s: answer %d with %d payloads of %d; %d were culled in %d writes", target, w.Code, given, left, early, writes)
			}
			if n := cull(); n != given {
				t.Errorf("%s: %d culled of %d that were given", target, n, given)
			}
			left -= given
		}
	}
	if errs := s.logged.all(); len(errs) > 0 {
		t.Errorf("logged %v", errs)
	}
}
