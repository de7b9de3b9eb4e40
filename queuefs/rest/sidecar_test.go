package rest_test

import (
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
)

// A sidecar is octets of any kind (Cutie 0.3, 5.5), kept and handed out as they came;
// one without octets is a sidecar too.
func TestSidecarIsOctets(t *testing.T) {
	for _, sidecar := range []string{"", "text", "\x00\xff\r\n--", "a\uffff", strings.Repeat("\x01long", 2000)} {
		s := newSite(t, rest.Options{})
		c := client.New(s.url, nil)
		s.postForm(newForm().file("a", "1").field("sidecar", sidecar).end()).want(t, 201)
		if _, err := c.Submit(ctx, "jobs", upload("2", queuefs.Meta{Sidecar: sidecar, EmptySidecar: sidecar == ""})); err != nil {
			t.Fatal(err)
		}
		s.do("POST", "/content/jobs", "3", "Content-Type", "text/plain").want(t, 201) // without one
		if err := s.svc.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
		text := sidecar != "" && sidecar != "text"
		for _, id := range []string{"j000000000001", "j000000000002"} {
			a := s.do("GET", "/content/jobs/"+id+"?part=sidecar", "").want(t, 200)
			want(t, id+" alone", a.body, sidecar)
			got, err := c.Job(ctx, "jobs", id)
			if err != nil || got.Sidecar != sidecar || !got.HasSidecar() {
				t.Errorf("%s: got %.40q, %v", id, got.Sidecar, err)
			}
			for _, form := range []state.Form{state.ANVL, state.JSON, state.Turtle, state.XML, state.SOIF} {
				d := s.do("GET", "/state/jobs/"+id+"?t="+form.String(), "").want(t, 200).decoded(t, state.JobClass)
				if text != (says(d, "sidecarBase64")[0] != "") || !text && says(d, "sidecar")[0] != sidecar {
					t.Errorf("%v: got %.80q", form, says(d, "sidecar", "sidecarBase64"))
				}
			}
			file := s.do("GET", "/queues/jobs/pending/"+id, "").want(t, 200).body
			line := "\nsidecar:"
			if text {
				line = "\nsidecarBase64: " + base64.StdEncoding.EncodeToString([]byte(sidecar)) + "\n"
			}
			if !strings.Contains(file, line) {
				t.Errorf("job file: got %.200s", file)
			}
			d, err := c.Peek(ctx, "jobs", id)
			if err != nil || d.Sidecar != sidecar || !d.HasSidecar {
				t.Errorf("peek: got %.40q, %v", d.Sidecar, err)
			}
			d.Body.Close()
			a = s.do("GET", "/content/jobs/"+id, "").want(t, 200)
			_, params, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
			parts := multipart.NewReader(strings.NewReader(a.body), params["boundary"])
			parts.NextPart()
			p, err := parts.NextPart()
			if err != nil {
				t.Fatal(err)
			}
			octets, _ := io.ReadAll(p)
			want(t, p.FormName(), string(octets), sidecar)
			bare := s.do("GET", "/content/jobs/"+id, "", "Accept", "application/octet-stream").want(t, 200)
			if len(sidecar) < 100 {
				got, err := url.PathUnescape(bare.Header.Get("Cutie-Sidecar"))
				if _, is := bare.Header["Cutie-Sidecar"]; !is || got != sidecar || err != nil {
					t.Errorf("header: got %q, %v", got, err)
				}
			} else if link := strings.Join(bare.Header["Link"], ", "); !strings.Contains(link, "<"+s.url+"/content/jobs/"+id+"?part=sidecar>; rel=\"http://uc3.cdlib.org/ontology/mrt/cutie/rel/sidecar\"") {
				t.Errorf("link: got %s", link)
			}
		}
		s.do("GET", "/content/jobs/j000000000003?part=sidecar", "").want(t, 404)
		if d, err := c.Peek(ctx, "jobs", "j000000000003"); err != nil || d.HasSidecar {
			t.Errorf("without: got %+v, %v", d, err)
		}
		for range 2 { // several at once carry them, too
			for d, err := range c.NextN(ctx, "jobs", 1, 0) {
				if err != nil || d.Sidecar != sidecar || !d.HasSidecar {
					t.Errorf("taken: got %+v, %v", d, err)
				}
			}
		}
	}
}
