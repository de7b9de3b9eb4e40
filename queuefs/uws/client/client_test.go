package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/uws/client"
)

// older is a service of version 1.0: it knows no LAST and does not wait. Its one job
// ends while it is asked for.
func older(t *testing.T) (list string, asked *[]string) {
	asked = new([]string)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /async", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<u:jobs xmlns:u="http://www.ivoa.net/xml/UWS/v1.0"><u:jobref id="2"><u:phase>HELD</u:phase></u:jobref><u:jobref id="1"><u:phase>ERROR</u:phase></u:jobref></u:jobs>`)
	})
	mux.HandleFunc("POST /async", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/async/1?"+r.PostFormValue("QUERY"), http.StatusSeeOther)
	})
	mux.HandleFunc("GET /async/1", func(w http.ResponseWriter, r *http.Request) {
		phase := "EXECUTING"
		if *asked = append(*asked, r.URL.RawQuery); len(*asked) > 1 {
			phase = "COMPLETED"
		}
		fmt.Fprintf(w, `<u:job xmlns:u="http://www.ivoa.net/xml/UWS/v1.0" xmlns:l="http://www.w3.org/1999/xlink"><u:phase>%s</u:phase><u:results><u:result id="r" l:href="../files/r"/></u:results></u:job>`, phase)
	})
	mux.HandleFunc("GET /files/r", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "result") })
	mux.HandleFunc("POST /async/1/phase", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "ended already\nlong ago", http.StatusForbidden)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL + "/async", asked
}

func TestServiceOfVersion10(t *testing.T) {
	list, asked := older(t)
	c := &client.Client{HTTP: http.DefaultClient}
	jobs, err := c.List(t.Context(), list, 1)
	if want := []client.Ref{{ID: "2", Phase: "HELD"}}; err != nil || !reflect.DeepEqual(jobs, want) {
		t.Errorf("got %+v, %v, want %+v", jobs, err, want)
	}
	job, err := c.Create(t.Context(), list, url.Values{"QUERY": {"x"}})
	if err != nil || job != list+"/1?x" {
		t.Errorf("got %s, %v, want %s", job, err, list+"/1?x")
	}
	phase, err := c.Wait(t.Context(), list+"/1")
	if want := []string{"", ""}; err != nil || phase != "COMPLETED" || !slices.Equal(*asked, want) {
		t.Errorf("got %s, %v after %q, want COMPLETED after %q", phase, err, *asked, want)
	}
	body, err := c.Result(t.Context(), list+"/1", "r")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "result" {
		t.Errorf("got %q, %v, want the result", got, err)
	}
}

func TestRefusals(t *testing.T) {
	list, _ := older(t)
	c := &client.Client{HTTP: http.DefaultClient}
	for want, do := range map[client.Error]func() error{
		{list + "/1/phase", 403, "ended already"}: func() error { return c.SetPhase(t.Context(), list+"/1", "RUN") },
		{list + "/2", 404, "404 page not found"}:  func() error { _, err := c.Job(t.Context(), list+"/2"); return err },
		{list + "/1", 405, "Method Not Allowed"}:  func() error { return c.Delete(t.Context(), list+"/1") },
	} {
		var got *client.Error
		if err := do(); !errors.As(err, &got) || *got != want {
			t.Errorf("got %v, want %+v", err, want)
		}
	}
	if _, err := c.Result(t.Context(), list+"/1", "none"); !errors.Is(err, queuefs.ErrNoResult) {
		t.Errorf("got %v, want no result", err)
	}
}
