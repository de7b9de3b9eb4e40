package rest_test

import (
	"bufio"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
)

// A job as it is sent is a message that any reader of MIME takes apart.
func TestClientGivesMessages(t *testing.T) {
	s := newSite(t, rest.Options{})
	c := client.New(s.url, nil)
	s.submit("one\n", queuefs.Meta{Sidecar: "a=b\nc", Filename: "x.txt", MediaType: "text/plain"})
	s.submit("", queuefs.Meta{})
	read := func(d *client.Delivery, err error) (parts map[string]string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer d.Body.Close()
		in := &counting{in: d.Body}
		m, err := mail.ReadMessage(bufio.NewReader(in))
		if err != nil {
			t.Fatal(err)
		}
		media, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
		if err != nil || media != "multipart/form-data" || m.Header.Get("MIME-Version") != "1.0" || m.Header.Get("Content-Location") != s.url+"/content/jobs/"+d.Job {
			t.Errorf("got %v, %v", m.Header, err)
		}
		form, err := multipart.NewReader(m.Body, params["boundary"]).ReadForm(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		parts = map[string]string{}
		for name, v := range form.Value {
			parts[name] = v[0]
		}
		for name, f := range form.File {
			file, err := f[0].Open()
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(file)
			parts[name] = f[0].Filename + ":" + string(text)
		}
		if _, err := io.Copy(io.Discard, in); err != nil || in.n != d.Size {
			t.Errorf("%d octets of %d, %v", in.n, d.Size, err)
		}
		return parts
	}
	whole := map[string]string{"payload": "x.txt:one\n", "sidecar": "a=b\nc"}
	want(t, "peek", read(c.PeekMessage(ctx, "jobs", "")), whole)
	want(t, "peek at a job", read(c.PeekMessage(ctx, "jobs", "j000000000002")), map[string]string{"payload": ""})
	s.wantCounts(2, 0, 0)
	want(t, "next", read(c.NextMessage(ctx, "jobs", queuefs.Take{}, 0)), whole)
	d, err := c.NextMessage(ctx, "jobs", queuefs.Take{Lease: time.Minute}, time.Second)
	if err != nil || d.Lease == "" || d.Attempt != 1 {
		t.Errorf("got %+v, %v", d, err)
	}
	want(t, "with a lease", read(d, err), map[string]string{"payload": ""})
	if _, err := c.NextMessage(ctx, "jobs", queuefs.Take{}, 0); err != queuefs.ErrEmpty {
		t.Errorf("got %v", err)
	}
}

type counting struct {
	in io.Reader
	n  int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}
