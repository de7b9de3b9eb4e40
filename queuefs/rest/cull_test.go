package rest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
)

// A queue without thresholds is culled by those of the request, from the query
// or a form, and by no others later.
func TestCullByThresholdsOfTheRequest(t *testing.T) {
	s, d := newDialled(t)
	for range 6 {
		s.submit("x", queuefs.Meta{})
		s.do("POST", "/consume/jobs", "").want(t, 200)
		d.turn(time.Hour)
	}
	const form = "application/x-www-form-urlencoded"
	for _, tt := range []struct{ path, body, want string }{
		{"/cull/jobs", "", "[]"},
		{"/cull/jobs?cullingSizeThreshold=", "cullingAgeThreshold=", "[]"},
		{"/cull/jobs?cullingSizeThreshold=5&dry", "", "[j000000000001]"},
		{"/cull/jobs?cullingSizeThreshold=5", "", "[j000000000001]"},
		{"/cull/jobs", "cullingAgeThreshold=4", "[j000000000002]"},
		{"/cull/jobs?cullingSizeThreshold=3", "cullingAgeThreshold=3", "[j000000000003]"},
		{"/cull/jobs", "", "[]"},
		{"/cull/jobs?cullingSizeThreshold=0", "", "[j000000000004 j000000000005 j000000000006]"},
	} {
		var got []queuefs.JobID
		for _, c := range s.do("POST", tt.path, tt.body, "Accept", "application/json", "Content-Type", form).want(t, 200).queue(t).Changes.Culled {
			got = append(got, c.Job)
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s %s: got %v, want %s", tt.path, tt.body, got, tt.want)
		}
	}
	for query, want := range map[string]string{
		"/jobs?cullingSizeThreshold=-1":                           "not a number from 0",
		"/jobs?cullingAgeThreshold=1h":                            "not a number from 0",
		"/jobs?cullingAgeThreshold=9223372036854775807":           "hours",
		"/jobs?cullingSizeThreshold=1&cullingSizeThreshold=2":     "repeated",
		"?cullingSizeThreshold=0":                                 "are of one queue: name it",
		"/jobs?cullingSizeThreshold=0&threshold=1":                "not known here",
		"/jobs?cullingAgeThreshold=99999999999999999999999999999": "not a number from 0",
	} {
		if got := s.do("POST", "/cull"+query, "").want(t, 400).exception(t); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}
