package rest_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// A job whose file cannot be read does not end the list of jobs: it is listed as unreadable.
func TestAListNamesJobsThatCannotBeRead(t *testing.T) {
	reads := 0
	was := newServiceWith(t, queuefs.Options{Reads: func(step string, do func() error) error {
		if step == "job file" {
			if reads++; reads%3 == 2 {
				return &os.PathError{Op: "read", Path: "x", Err: syscall.EIO}
			}
		}
		return do()
	}})
	s := was.serve(rest.Options{})
	for range 3 {
		s.submit("payload", queuefs.Meta{Submitter: "s"})
	}
	if err := s.svc.Checkpoint(ctx); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"anvl", "json", "xml", "ttl", "xhtml"} {
		for _, query := range []string{"", "&submitter=s"} {
			reads = 0
			body := s.direct("GET", "/state/jobs?detail&t="+form+query, "").want(t, 200).body
			for _, want := range []string{"j000000000001", "j000000000002", "j000000000003"} {
				if !strings.Contains(body, want) {
					t.Errorf("%s%s: %s is missing in %s", form, query, want, body)
				}
			}
			if form != "xhtml" && strings.Count(body, "unreadable: input/output error") != 1 {
				t.Errorf("%s%s: nothing says why one is unreadable: %s", form, query, body)
			}
		}
	}
}
