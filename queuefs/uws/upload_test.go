package uws_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestUploadIsThePayload(t *testing.T) {
	w := newWorld(t, "")
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	m.SetBoundary("<<<---a-b--->>>"[3:12])
	m.WriteField("UPLOAD", "t,param:t")
	p, _ := m.CreateFormFile("t", "dir/table.bin")
	data := bytes.Repeat([]byte{0, 1, 0xff}, 100_000)
	p.Write(data)
	m.Close()
	job := w.create(b.String(), "Content-Type", m.FormDataContentType())
	check := func() {
		t.Helper()
		if got := w.get(job + "/parameters/t"); got != string(data) {
			t.Errorf("got %d octets of the upload, want %d", len(got), len(data))
		}
		if text, want := w.get(job), `<uws:parameter id="t" byReference="true">`+job+`/parameters/t</uws:parameter>`; !strings.Contains(text, want) {
			t.Errorf("got no %s in %s", want, text)
		}
	}
	check()
	w.close()
	w.open(nil)
	job = w.srv.URL + "/uws/q/async/" + idOf(job)
	check()
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	check()
	taken := w.take()
	if taken.Filename != "table.bin" || taken.Size != int64(len(data)) || taken.Sidecar != "UPLOAD=t,param:t" {
		t.Errorf("got %s, %d octets, %q", taken.Filename, taken.Size, taken.Sidecar)
	}
}

func TestOpaqueJobIsOneParameter(t *testing.T) {
	w := newWorld(t, "uwsJdl: payload\n")
	job := w.create("<work/>", "Content-Type", "text/xml")
	if got := w.get(job + "/parameters/payload"); got != "<work/>" {
		t.Errorf("got %q", got)
	}
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	if got := w.get(job + "/parameters/payload"); got != "<work/>" {
		t.Errorf("got %q", got)
	}
	form := w.create("a=1&b=2&PHASE=RUN")
	if got := w.get(form + "/parameters/payload"); got != "a=1&b=2" {
		t.Errorf("got %q", got)
	}
	valid(t, "1.1", w.get(job), w.get(form))
}

// parts is a body of several files and fields, and its type.
func parts(t testing.TB, files map[string]string, fields ...string) (body, mediaType string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		m.WriteField(fields[i], fields[i+1])
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		p, err := m.CreateFormFile(name, name+`"x.bin`)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(p, files[name])
	}
	m.Close()
	return b.String(), m.FormDataContentType()
}

func TestSeveralUploadsAreOnePayload(t *testing.T) {
	w := newWorld(t, "")
	files := map[string]string{"a": "first\r\n--", "b": strings.Repeat("\x00\xff", 200_000), "c": "", `d "é`: "last"}
	body, mediaType := parts(t, files, "UPLOAD", "a,param:a;b,param:b")
	job := w.create(body, "Content-Type", mediaType)
	check := func() {
		t.Helper()
		text := w.get(job)
		for name, want := range files {
			where := job + "/parameters/" + url.PathEscape(name)
			if got := w.get(where); got != want {
				t.Errorf("%s: got %d octets, want %d", name, len(got), len(want))
			}
			if !strings.Contains(text, `byReference="true">`+where+`</uws:parameter>`) {
				t.Errorf("got no reference to %s in %s", where, text)
			}
		}
		valid(t, "1.1", text)
	}
	check()
	w.close()
	w.open(nil)
	job = w.srv.URL + "/uws/q/async/" + idOf(job)
	check()
	w.want(303, "POST", job+"/phase", "PHASE=RUN")
	check()
	if left := w.spooled(); len(left) != 0 {
		t.Errorf("got %v still there", left)
	}
	taken := w.take()
	if taken.Sidecar != `UPLOAD=a,param:a\;b,param:b` {
		t.Errorf("got sidecar %q", taken.Sidecar)
	}
	payload, err := w.q.Payload(taken.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer payload.Close()
	_, attrs, err := mime.ParseMediaType(taken.Type())
	if err != nil {
		t.Fatal(err)
	}
	form, err := multipart.NewReader(payload, attrs["boundary"]).ReadForm(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if f := form.File[name]; len(f) != 1 || f[0].Size != int64(len(want)) || f[0].Filename != name+`"x.bin` {
			t.Errorf("%s: got %+v in the payload, want %d octets", name, f, len(want))
		}
	}
}

func TestUploadsHaveLimits(t *testing.T) {
	w := newWorld(t, "")
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint("f", i)] = "x"
	}
	body, mediaType := parts(t, many)
	w.want(403, "POST", "async", body, "Content-Type", mediaType)
	body, mediaType = parts(t, map[string]string{"phase": "x"})
	w.want(403, "POST", "async", body, "Content-Type", mediaType)
	body, mediaType = parts(t, map[string]string{"a": "x"})
	twice := strings.Replace(body, "--\r\n", "\r\nContent-Disposition: form-data; name=\"a\"; filename=\"y\"\r\n\r\nx\r\n"+body[:strings.Index(body, "\r\n")]+"--\r\n", 1)
	w.want(403, "POST", "async", twice, "Content-Type", mediaType)
	job := w.create(body, "Content-Type", mediaType)
	w.want(403, "POST", job+"/parameters", "a=1") // a file does not become text
	if got := len(ids(w.get("async"))); got != 1 {
		t.Errorf("got %d jobs, want 1", got)
	}
	w.want(303, "DELETE", job, "")
	if left := w.spooled(); len(left) != 0 {
		t.Errorf("got %v left, want nothing", left)
	}
}

func TestPageMakesJobsOfAnyParameters(t *testing.T) {
	w := newWorld(t, "")
	body, mediaType := parts(t, map[string]string{"upload": "one"}, "RUNID", "", "DESTRUCTION", "", "parameters", "QUERY=a = b\r\n\r\nx=1\r\nx=2")
	job := w.srv.URL + "/uws/q/async/"
	at, _ := w.want(303, "POST", "async?uws-lines=parameters", body, "Content-Type", mediaType)
	if !strings.HasPrefix(at, job) {
		t.Fatalf("got %s", at)
	}
	text := w.get(at)
	for _, want := range []string{`id="QUERY">a = b<`, `id="x">1<`, `id="x">2<`, `id="upload" byReference="true"`} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %s in %s", want, text)
		}
	}
	w.want(403, "POST", "async?uws-lines=parameters", "parameters=nothing")
}

// Fields without a file count as parts do, and so does a file that was not chosen.
func TestPartsOfAFormAreCounted(t *testing.T) {
	w := newWorld(t, "")
	chosen := strings.Repeat("--b\r\nContent-Disposition: form-data; name=f; filename=\"\"\r\n\r\n\r\n", 2000)
	code, _, text := w.do("POST", w.srv.URL+"/uws/q/async", chosen+"--b--\r\n", "Content-Type", "multipart/form-data; boundary=b")
	if code != 413 {
		t.Errorf("2000 parts: got %d, %s, want 413", code, text)
	}
	code, _, text = w.do("POST", w.srv.URL+"/uws/q/async", "--b\r\nContent-Disposition: form-data; name=a\r\nX: "+strings.Repeat("x", 100_000),
		"Content-Type", "multipart/form-data; boundary=b")
	if code != 413 {
		t.Errorf("a long header: got %d, %s, want 413", code, text)
	}
}
