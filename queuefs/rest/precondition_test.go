package rest_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cutie/queuefs"
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

// Whoever says which state a change is meant for changes no other. Any form and
// any page of the state will do, since none is older than what happened last.
func TestQueuesAreChangedAsTheStateThatIfMatchNames(t *testing.T) {
	s := newSite(t, rest.Options{})
	s.submit("x", queuefs.Meta{})
	n := 0
	change := func(method, ifMatch string, status int) {
		t.Helper()
		n++
		before := s.q.Info().Description
		wanted := fmt.Sprint("D", n)
		a := s.do(method, "/state/jobs?t=json&description="+wanted, "", "If-Match", ifMatch).want(t, status)
		if status == 412 {
			wanted = before
			if got := a.exception(t); !strings.Contains(got, "If-Match") {
				t.Errorf("got %q", got)
			}
		}
		want(t, method+" with "+ifMatch, s.q.Info().Description, wanted)
	}
	for _, method := range []string{"PUT", "POST"} {
		for _, path := range []string{"/state/jobs", "/state/jobs?t=xml", "/state/jobs?limit=0", "/state/jobs?status=deleted"} {
			tag := s.tag(t, path)
			change(method, `"other"`, 412)
			change(method, "W/"+tag, 412) // tells less than it must
			change(method, strings.TrimSuffix(tag, `"`), 412)
			change(method, `"other", `+tag, 200)
			change(method, tag, 412)
		}
		tag := s.tag(t, "/state/jobs")
		s.submit("y", queuefs.Meta{})
		change(method, tag, 412)
		change(method, "*", 200)
	}
	want(t, "any", s.do("POST", "/state/jobs?S=pause", "", "If-None-Match", "*").want(t, 412).exception(t), "jobs: queue exists already")
	want(t, "the same", s.do("POST", "/state/jobs?S=pause", "", "If-None-Match", s.tag(t, "/state/jobs")).want(t, 412).exception(t),
		"queue jobs is in the state that If-None-Match names")
	s.do("POST", "/state/jobs?S=pause", "", "If-None-Match", `"other"`).want(t, 200)
	s.do("PUT", "/state/new", "", "If-Match", "*").want(t, 412)
	s.do("PUT", "/state/new", "", "If-None-Match", `"other"`).want(t, 201)
	s.do("DELETE", "/state/new", "", "If-Match", `"other"`).want(t, 412)
	s.do("DELETE", "/state/new", "", "If-Match", s.tag(t, "/state/new")).want(t, 200)
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
