package rest_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs/outbound"
	"cutie/queuefs/rest"
	"cutie/queuefs/state"
)

// Whatever a form is like, it is stored as its answer says or not at all.
func FuzzForm(f *testing.F) {
	s := newService(f)
	nowhere, err := outbound.New(outbound.Options{Wait: 1}) // a manifest may name anything
	if err != nil {
		f.Fatal(err)
	}
	h := rest.New(s.svc, rest.Options{Log: s.logged.add, Fetch: nowhere})
	f.Add(newForm().file("m", "http://a/b md5 00\n", "Content-Type: text/checkm").end())
	f.Add(newForm().file("m", "http://192.0.2.1/b\n").field("type", "batch").end())
	f.Add(newForm().file("a", "hello\n").field("digest-type", "md5").field("digest-value", md5OfHello).field("sidecar", "x").end())
	f.Add(newForm().file("a", "b").file("c", "d", "Content-Type: text/plain", "Cutie-Sidecar: x%20").end())
	f.Add(newForm().add(nested("1", "2"), `Content-Disposition: form-data; name="file"`, "Content-Type: multipart/mixed; boundary=inner").end())
	f.Add(newForm().file("a", "b").String())
	f.Fuzz(func(t *testing.T, body string) {
		before := s.q.State()
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/content/jobs?t=anvl", strings.NewReader(body))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b0undary")
		h.ServeHTTP(w, r)
		after := s.q.State()
		stored := after.Pending - before.Pending
		switch w.Code {
		case 201:
			if !strings.Contains(body, "--b0undary--") {
				t.Error("a form without an end was stored")
			}
			want := int64(1)
			if d, err := state.ANVL.Decode(state.QueueClass, w.Body.Bytes()); err == nil && d.Property("submittedJobStates") != nil {
				want = int64(len(d.Property("submittedJobStates").Items))
			}
			if stored != want {
				t.Errorf("%d jobs were stored, the answer says %d", stored, want)
			}
		case 400, 413:
			if stored != 0 {
				t.Errorf("%d jobs were stored, the answer is %d", stored, w.Code)
			}
		default:
			t.Errorf("got %d %s, logged %v", w.Code, w.Body, s.logged.all())
		}
		for range stored {
			if _, err := s.q.Next(ctx, "fuzz"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzHeaders(f *testing.F) {
	s := newService(f)
	h := rest.New(s.svc, rest.Options{Log: s.logged.add})
	f.Add("attachment; filename*=UTF-8''a%20b", "x%0Ay", "sha-256=:AA==:, md5=:AA:", "text/plain", "*/*;q=0.1, a/b")
	f.Fuzz(func(t *testing.T, disposition, sidecar, digest, media, accept string) {
		r := httptest.NewRequest("POST", "/content/jobs", strings.NewReader("x"))
		r.Header["Content-Disposition"] = []string{disposition}
		r.Header["Cutie-Sidecar"] = []string{sidecar}
		r.Header["Repr-Digest"] = []string{digest}
		r.Header["Content-Type"] = []string{media}
		r.Header["Accept"] = []string{accept}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("got %d %s, logged %v", w.Code, w.Body, s.logged.all())
		}
		if w.Code != 201 {
			return
		}
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/consume/jobs", nil))
		a := answer{w.Result(), w.Body.String()}
		parts := a.parts(t, "multipart/form-data")
		if parts[0].body != "x" {
			t.Errorf("payload: got %q", parts[0].body)
		}
		_, id, err := state.ParseJobRef(a.Header.Get("Content-Location"))
		if err != nil {
			t.Fatal(err)
		}
		j, err := s.q.Job(id)
		if err != nil {
			t.Fatal(err)
		}
		if j.Sidecar != "" && parts[1].body != j.Sidecar {
			t.Errorf("sidecar: got %q, want %q", parts[1].body, j.Sidecar)
		}
	})
}

// nested returns a multipart/mixed body of files.
func nested(files ...string) string {
	var b strings.Builder
	for _, f := range files {
		fmt.Fprintf(&b, "--inner\r\nContent-Disposition: file; filename=\"n%s\"\r\n\r\n%s\r\n", f, f)
	}
	return b.String() + "--inner--\r\n"
}
