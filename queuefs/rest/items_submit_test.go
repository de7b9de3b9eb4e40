package rest_test

import (
	"bytes"
	"strings"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
)

// TestItemsOfSubmissions checks what a submission may have and how it is answered.
func TestItemsOfSubmissions(t *testing.T) {
	runItems(t, []item{
		{29, "the sidecar is called sidecar, and sidecare is understood", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, name := range []string{"sidecar", "sidecare"} {
				a := s.postForm(newForm().file("f", "x").field(name, "a=b").end(), "Accept", "application/json").want(t, 201)
				want(t, name, a.job(t).Sidecar, "a=b")
			}
			parts := s.do("POST", "/consume/jobs", "").want(t, 200).parts(t, "multipart/form-data")
			want(t, "handed out", parts[1].header.Get("Content-Disposition"), `form-data; name="sidecar"`)
		}},
		{30, "CDC-32 is CRC-32", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, name := range []string{"CDC-32", "crc-32", "CRC-32"} {
				a := s.do("POST", "/content/jobs?t=json&digest-value=352441C2&digest-type="+name, "abc").want(t, 201)
				if d := a.job(t).Digests; d[1].Type.String() != "CRC-32" {
					t.Errorf("%s: got %v", name, d)
				}
			}
		}},
		{31, "a digest has a type and a value, in either spelling, and is verified", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.do("POST", "/content/jobs?digestType=MD5&digestValue=900150983cd24fb0d6963f7d28e17f72", "abc").want(t, 201)
			s.do("POST", "/content/jobs?digest-type=md5&digest-value=900150983CD24FB0D6963F7D28E17F72", "abc").want(t, 201)
			for query, detail := range map[string]string{
				"digest-type=md5": "digest-type without digest-value",
				"digestValue=90":  "digest-value without digest-type",
				"digest-type=md5&digest-value=900150983cd24fb0d6963f7d28e17f73": "digest verification failed",
			} {
				if got := s.do("POST", "/content/jobs?"+query, "abc").want(t, 400).exception(t); !strings.Contains(got, detail) {
					t.Errorf("%s: got %q", query, got)
				}
			}
			s.wantCounts(2, 0, 0)
		}},
		{32, "the type is optional and never guessed from the content", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			manifest := "#%checkm_0.7\nhttp://127.0.0.1:9/a | md5 | x | | | a\n#%eof\n"
			s.do("POST", "/content/jobs", manifest).want(t, 201)
			s.do("POST", "/content/jobs?type=job", manifest).want(t, 201)
			s.do("POST", "/content/jobs?type=batch-manifest", manifest).want(t, 400)
			s.do("POST", "/content/jobs?type=batch", manifest).want(t, 400)
			s.do("POST", "/content/jobs?type=list", manifest).want(t, 415)
			s.postForm(newForm().file("m", manifest, "Content-Type: text/checkm").end()).want(t, 400)
			s.postForm(newForm().file("m", manifest, "Content-Type: text/checkm").field("type", "job").end()).want(t, 201)
			s.wantCounts(3, 0, 0)
		}},
		{33, "files come as a body, as parts, or as parts of a part", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			s.do("POST", "/content/jobs?filename=b.bin", "1").want(t, 201)
			s.do("POST", "/content/jobs", "2", "Content-Disposition", `attachment; filename="c.bin"`).want(t, 201)
			s.postForm(newForm().file("d", "3").file("e", "4").end()).want(t, 201)
			nested := "--in\r\nContent-Disposition: file; filename=\"g\"\r\n\r\n5\r\n--in\r\nContent-Disposition: file; filename=\"h\"\r\n\r\n6\r\n--in--\r\n"
			s.postForm(newForm().add(nested, `Content-Disposition: form-data; name="file"`, "Content-Type: multipart/mixed; boundary=in").end()).want(t, 201)
			jobs, err := s.q.List(queuefs.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, j := range jobs {
				got = append(got, j.Filename+"="+s.payload(j.ID))
			}
			want(t, "files", got, []string{"b.bin=1", "c.bin=2", "d=3", "e=4", "g=5", "h=6"})
		}},
		{36, "a sidecar is octets and belongs to a single job", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, form := range []*form{
				newForm().file("a", "1").file("b", "2").field("sidecar", "x"),
				newForm().file("m", "#%checkm_0.7\n", "Content-Type: text/x-checkm").field("sidecar", "x"),
			} {
				s.postForm(form.end()).want(t, 400)
			}
			s.wantCounts(0, 0, 0)
			const text = " a=b\\;c;\t\r\nüx "
			s.postForm(newForm().file("a", "1").field("sidecar", text).end()).want(t, 201)
			want(t, "verbatim", s.only().Sidecar, text)
		}},
		{37, "several files are all or nothing and answered with the queue", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			a := s.postForm(newForm().file("a", "1").file("b", "2").end(), "Accept", "application/json").want(t, 201)
			a.header(t, "Location", s.url+"/state/jobs")
			want(t, "submitted", a.queue(t).Submitted, []queuefs.JobID{1, 2})
			want(t, "batch", s.do("GET", "/state/jobs/j000000000002?t=json", "").job(t).Batch, "b000000000001-2")
			want(t, "of the batch", s.do("GET", "/state/jobs?batch=b000000000001-2&t=json", "").queue(t).Jobs.IDs, []queuefs.JobID{1, 2})
			s.postForm(newForm().file("a", "1").file("b", "2", "Content-MD5: kAFQmDzST7DWlj99KOF/cg==").end()).want(t, 400)
			s.wantCounts(2, 0, 0)
		}},
		{48, "manifests do not reach private addresses", func(t *testing.T) {
			s := newSite(t, rest.Options{})
			for _, url := range []string{"http://127.0.0.1:9/x", "http://[::1]/x", "http://169.254.169.254/x", "http://10.0.0.1/x", "file:///etc/passwd", "http://u:p@example.org/x"} {
				manifest := "#%checkm_0.7\n" + url + " | | | | | x\n#%eof\n"
				a := s.do("POST", "/content/jobs?type=batch-manifest", manifest).want(t, 400)
				if got := a.exception(t); !strings.Contains(got, "line 2") || bytes.Contains([]byte(a.body), []byte("root:")) {
					t.Errorf("%s: got %q", url, got)
				}
			}
			s.wantCounts(0, 0, 0)
		}},
	})
}
