package rest_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs/rest"
)

// tag returns the entity tag of a state.
func (s *site) tag(t *testing.T, path string) string {
	t.Helper()
	tag := s.do("GET", path, "").want(t, 200).Header.Get("Etag")
	if tag == "" {
		t.Fatalf("%s has no tag", path)
	}
	return tag
}

// Of several who change the same state one does.
func TestOneOfManyChangesTheStateThatTheyHaveSeen(t *testing.T) {
	s := newSite(t, rest.Options{})
	tag := s.tag(t, "/state/jobs")
	var (
		all     sync.WaitGroup
		changed atomic.Int64
	)
	for n := range 8 {
		all.Go(func() {
			a := s.do("POST", fmt.Sprint("/state/jobs?description=by+", n), "", "If-Match", tag)
			switch a.StatusCode {
			case 200:
				changed.Add(1)
			case 412:
			default:
				t.Errorf("got %s", a.Status)
			}
		})
	}
	all.Wait()
	want(t, "changes", int(changed.Load()), 1)
}
