package rest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// A header that says something of a job and is no list is refused when it is
// repeated, even with the same value, wherever it stands; nothing has happened
// then.
func TestRepeatedHeadersAreRefused(t *testing.T) {
	s := newService(t)
	s.submit("taken", queuefs.Meta{})
	taken, err := s.q.Take(ctx, queuefs.Take{Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	token := taken[0].Token
	s.submit("pending", queuefs.Meta{})
	before := fmt.Sprintf("%+v", s.q.State())
	const urlencoded = "application/x-www-form-urlencoded"
	for _, tt := range []struct{ request, body, name, one, other string }{
		{"POST /content/jobs", "hello\n", "Content-Type", "text/plain", "text/html"},
		{"POST /content/jobs", "hello\n", "Content-Disposition", "attachment; filename=a", "attachment; filename=b"},
		{"POST /content/jobs", "hello\n", "Content-Md5", "sZRqySSS0jR8YjW00mERhA==", "XUFAKrxLKna5cZ2REBfFkg=="},
		{"POST /content/jobs", "hello\n", "Content-Md5", "sZRqySSS0jR8YjW00mERhA==", "sZRqySSS0jR8YjW00mERhA=="},
		{"POST /content/jobs", "hello\n", "Cutie-Sidecar", "a", "b"},
		{"POST /content/jobs", "hello\n", "Cutie-Sidecar", "", "b"},
		{"POST /content/jobs", "hello\n", "User-Agent", "a", "b"},
		{"POST /content/jobs", newForm().file("a", "b").end(), "Content-Type", "multipart/form-data; boundary=b0undary", "text/plain"},
		{"POST /consume/jobs", "max=1", "Content-Type", urlencoded, "text/plain"},
		{"POST /consume/jobs", "", "User-Agent", "a", "b"},
		{"POST /hold/jobs", "j000000000002\n", "Content-Type", "text/plain", urlencoded},
		{"POST /hold/jobs", "job=j000000000002\n", "Content-Type", urlencoded, "text/plain"},
		{"POST /hold/jobs/j000000000002", "reason=x", "Content-Type", urlencoded, "text/plain"},
		{"POST /state/jobs", "S=pause", "Content-Type", urlencoded, "text/plain"},
		{"PUT /state/other", "name: x", "Content-Type", "text/x-anvl", "text/plain"},
		{"PUT /result/jobs/j000000000001/out?lease=" + token, "hello\n", "Content-Type", "text/plain", "text/html"},
		{"PUT /result/jobs/j000000000001/out?lease=" + token, "hello\n", "Content-Md5", "sZRqySSS0jR8YjW00mERhA==", ""},
		{"PUT /result/jobs/j000000000001/out", "hello\n", "Cutie-Lease", token, "other"},
		{"POST /lease/jobs/j000000000001", "", "Cutie-Lease", token, token},
		{"POST /outcome/jobs/j000000000001?outcome=completed", "", "Cutie-Lease", token, ""},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		a := s.direct(method, path, tt.body, tt.name, tt.one, tt.name, tt.other).want(t, 400)
		want(t, tt.request, a.exception(t), "header "+tt.name+" is repeated")
	}
	post := func(body string) answer {
		return s.direct("POST", "/content/jobs", body, "Content-Type", "multipart/form-data; boundary=b0undary")
	}
	const file = `Content-Disposition: form-data; name="file"; filename="a"`
	for name, body := range map[string]string{
		"Content-Disposition":       newForm().add("x", file, `Content-Disposition: form-data; name="sidecar"`).end(),
		"Content-Type":              newForm().add("x", file, "Content-Type: text/plain", "Content-Type: text/checkm").end(),
		"Cutie-Sidecar":             newForm().add("x", file, "Cutie-Sidecar: a", "Cutie-Sidecar: b").end(),
		"Content-Md5":               newForm().add("x", file, "Content-MD5: nU5GKfxP/Xt2oFgWzbx5aw==", "content-md5: AAAAAAAAAAAAAAAAAAAAAA==").end(),
		"Content-Transfer-Encoding": newForm().add("x", file, "Content-Transfer-Encoding: 8bit", "Content-Transfer-Encoding: base64").end(),
	} {
		want(t, "part", post(body).want(t, 400).exception(t), "header "+name+" is repeated")
	}
	inner := &form{boundary: "inner"}
	inner.add("x", "Content-Disposition: file; filename=a", "Content-Disposition: file; filename=b")
	a := post(newForm().add(inner.end(), `Content-Disposition: form-data; name="file"`, "Content-Type: multipart/mixed; boundary=inner").end())
	want(t, "part of a part", a.want(t, 400).exception(t), "header Content-Disposition is repeated")
	if after := fmt.Sprintf("%+v", s.q.State()); after != before {
		t.Errorf("got %s, want %s", after, before)
	}
}

// Lists may be in several headers, which all count.
func TestRepeatedLists(t *testing.T) {
	s := newSite(t, rest.Options{})
	const right, wrong = "md5=:sZRqySSS0jR8YjW00mERhA==:", "sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:"
	for _, name := range []string{"Content-Digest", "Repr-Digest"} {
		s.do("POST", "/content/jobs", "hello\n", name, right, name, right).want(t, http.StatusCreated)
		s.do("POST", "/content/jobs", "hello\n", name, right, name, wrong).want(t, http.StatusBadRequest)
	}
	s.do("POST", "/content/jobs", "hello\n", "Content-Encoding", "identity", "Content-Encoding", "identity").want(t, http.StatusCreated)
	for _, codings := range [][]string{{"identity", "gzip"}, {"gzip", "identity"}, {"identity, gzip"}} {
		var header []string
		for _, c := range codings {
			header = append(header, "Content-Encoding", c)
		}
		a := s.do("POST", "/content/jobs", "hello\n", header...).want(t, http.StatusUnsupportedMediaType)
		want(t, fmt.Sprint(codings), a.exception(t), "content coding "+strings.Join(codings, ", ")+" is not supported")
	}
}
