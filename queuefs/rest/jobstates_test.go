package rest_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

// nasty is a sidecar that each form has to escape.
const nasty = "a\n\nb: <c> & \"d\" %41 @prefix\n</job:jobState>]"

// split takes a sequence of states apart, into documents that each stand alone.
func split(t *testing.T, form state.Form, body string) (states []string) {
	t.Helper()
	switch form {
	case state.ANVL:
		return strings.Split(body, "\n\n")
	case state.SOIF:
		for _, part := range strings.SplitAfter(body, "\n}\n") {
			if part != "" {
				states = append(states, part)
			}
		}
	case state.JSON:
		var all []json.RawMessage
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		for _, one := range all {
			states = append(states, string(one))
		}
	case state.XML:
		var all struct {
			XMLName xml.Name `xml:"http://uc3.cdlib.org/ontology/mrt/cutie/job jobStates"`
			States  []struct {
				Inner []byte `xml:",innerxml"`
			} `xml:"http://uc3.cdlib.org/ontology/mrt/cutie/job jobState"`
		}
		if err := xml.Unmarshal([]byte(body), &all); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		for _, one := range all.States {
			states = append(states, `<job:jobState xmlns:job="`+state.JobClass.Namespace+`">`+string(one.Inner)+`</job:jobState>`)
		}
	case state.Turtle:
		head, rest, ok := strings.Cut(body, "\n\n")
		if !ok || strings.Contains(rest, "\n@prefix") {
			t.Fatalf("not one head:\n%s", body)
		}
		for _, part := range strings.SplitAfter(rest, " .\n") {
			if part != "" {
				states = append(states, head+"\n\n"+part)
			}
		}
	}
	return states
}

// Each state in a sequence is the one that the job has by itself, in every form
// but that for people.
func TestStatesOfJobsInEveryForm(t *testing.T) {
	s, _ := newMixed(t)
	s.submit("10", queuefs.Meta{Filename: "<x>.txt", Sidecar: nasty, MediaType: "text/plain"})
	for _, form := range statetest.Readable([]state.Form{state.ANVL, state.JSON, state.Turtle, state.XML, state.SOIF}) {
		a := s.do("GET", "/state/jobs?detail&t="+form.String(), "").want(t, 200)
		a.header(t, "Content-Type", form.MediaType())
		a.header(t, "Cache-Control", "no-store")
		a.header(t, "Link", "")
		states := split(t, form, a.body)
		if len(states) != 10 {
			t.Fatalf("%v: got %d states\n%s", form, len(states), a.body)
		}
		for i, text := range states {
			got, err := statetest.Read(form, state.JobClass, []byte(text))
			if err != nil {
				t.Fatalf("%v: %v\n%s", form, err, text)
			}
			alone := s.do("GET", fmt.Sprintf("/state/jobs/j%012d?t=%v", i+1, form), "").want(t, 200).decoded(t, state.JobClass)
			want(t, form.String(), form.Append(nil, &got), form.Append(nil, &alone))
		}
	}
	for _, form := range []state.Form{state.XHTML, state.HTML} {
		a := s.do("GET", "/state/jobs?detail", "", "Accept", form.MediaType()).want(t, 200)
		a.header(t, "Content-Type", form.MediaType())
		a.header(t, "Content-Security-Policy", state.PagePolicy)
		d := xml.NewDecoder(strings.NewReader(a.body))
		rows := 0
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, a.body)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "tr" {
				rows++
			}
		}
		if rows != 11 || !strings.Contains(a.body, `<a href="`+s.url+`/state/jobs/j000000000010?t=xhtml">`) || !strings.Contains(a.body, "&lt;x&gt;.txt") || !strings.Contains(a.body, "<style") {
			t.Errorf("%v: %d rows\n%s", form, rows, a.body)
		}
	}
	for _, form := range []state.Form{state.ANVL, state.JSON, state.XML} {
		a := s.do("GET", "/state/jobs?detail&status=pending&submitter=nobody", "", "Accept", form.MediaType()).want(t, 200)
		if body := a.body; form == state.ANVL && body != "" || form == state.JSON && body != "[\n]\n" || form == state.XML && strings.Count(body, "<") != 3 {
			t.Errorf("%v: nothing is %q", form, body)
		}
	}
	resp, err := http.Head(s.url + "/state/jobs?detail&t=anvl&limit=2")
	if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/x-anvl" || resp.Header.Get("Link") == "" {
		t.Errorf("HEAD: got %v, %v", resp, err)
	}
}

func TestClientGivesJobs(t *testing.T) {
	s, _ := newMixed(t)
	c := client.New(s.url, nil)
	const more = 2 * state.MaxJobs
	for range more {
		s.submit("x", queuefs.Meta{Sidecar: nasty})
	}
	all := func(p bulk.Filter) (ids []queuefs.JobID) {
		t.Helper()
		for j, err := range c.Jobs(ctx, "jobs", p) {
			if err != nil {
				t.Fatal(err)
			}
			alone, err := s.q.Job(j.ID)
			if alone.Extra = nil; err != nil || j.ID%500 == 0 && fmt.Sprint(j) != fmt.Sprint(alone) {
				t.Errorf("got %+v, %v, want %+v", j, err, alone)
			}
			ids = append(ids, j.ID)
		}
		return ids
	}
	if got := all(bulk.Filter{}); len(got) != 9+more || got[0] != 1 || got[more] != more+1 || !slices.IsSorted(got) {
		t.Errorf("got %d jobs", len(got))
	}
	if got := all(bulk.Filter{Limit: state.MaxJobs + 1, After: 4}); len(got) != state.MaxJobs+1 || got[0] != 5 {
		t.Errorf("got %d jobs", len(got))
	}
	want(t, "submitter", all(bulk.Filter{Submitter: "other"}), []queuefs.JobID{7})
	want(t, "held", all(bulk.Filter{Held: true, Status: queuefs.Pending, Limit: 3}), []queuefs.JobID{6})
	for j, err := range c.Jobs(ctx, "jobs", bulk.Filter{}) {
		if err != nil || j.ID != 1 {
			t.Errorf("got %v, %v", j.ID, err)
		}
		break
	}
	for _, err := range c.Jobs(ctx, "none", bulk.Filter{}) {
		if !errors.Is(err, queuefs.ErrNoQueue) {
			t.Errorf("got %v", err)
		}
	}
	in, next, err := c.JobStates(ctx, state.JSON, "jobs", bulk.Filter{Limit: 2, After: 3})
	if err != nil || next != 5 {
		t.Fatalf("got %v, %v", next, err)
	}
	text, err := io.ReadAll(in)
	if err = errors.Join(err, in.Close()); err != nil || len(split(t, state.JSON, string(text))) != 2 {
		t.Errorf("got %s, %v", text, err)
	}
}

// breaking takes some octets and no more.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("broken")
	}
	return b.ResponseWriter.Write(p)
}

// What has been sent takes as much memory as one state, and an answer that is
// broken off does not end like a whole one.
func TestStatesOfJobsAreSentAsTheyAreRead(t *testing.T) {
	s := newService(t)
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	sidecar := strings.Repeat("x", 8<<10)
	for range 40 {
		s.submit("x", queuefs.Meta{Sidecar: sidecar})
	}
	w := &breaking{httptest.NewRecorder(), 100 << 10}
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler {
				t.Errorf("got %v, want %v", p, http.ErrAbortHandler)
			}
		}()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/state/jobs?detail&t=json", nil))
	}()
	body := w.ResponseWriter.(*httptest.ResponseRecorder).Body.Bytes()
	if len(body) < 60<<10 || bytes.HasSuffix(body, []byte("]\n")) {
		t.Errorf("got %d octets, %q at the end", len(body), body[max(0, len(body)-10):])
	}
	if errs := s.logged.all(); len(errs) != 1 || errs[0].Error() != "broken" {
		t.Errorf("logged %v", errs)
	}

	// A client notices.
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(&breaking{w, 100 << 10}, r) }))
	defer srv.Close()
	var last error
	n := 0
	for _, err := range client.New(srv.URL, nil).Jobs(ctx, "jobs", bulk.Filter{}) {
		if last = err; err == nil {
			n++
		}
	}
	if !errors.Is(last, io.ErrUnexpectedEOF) || n == 0 || n == 40 {
		t.Errorf("got %d jobs, %v", n, last)
	}
}
