package rest_test

import (
	"errors"
	"fmt"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/digest"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

func TestClientSubmitsManifests(t *testing.T) {
	src := newSource(t, map[string]string{"/a": "hello\n"})
	s, _ := newBatchSite(t, rest.Options{Fetch: src.client(t)})
	c := client.New(s.url, nil)
	manifest := src.url + "/a\n" + src.url + "/a md5 " + md5OfHello + " - - b\n"
	said := queuefs.Meta{Filename: "m", Submitter: "me", Expect: []digest.Value{digest.Sum(digest.CRC32, []byte(manifest))}}
	ids, err := c.SubmitManifest(ctx, "jobs", upload(manifest, said))
	if err != nil || fmt.Sprint(ids) != "[j000000000001 j000000000002]" {
		t.Fatalf("got %q, %v", ids, err)
	}
	if j, err := s.q.Job(2); err != nil || j.Submitter != "me" || j.Filename != "b" || j.Batch != "b000000000001-2" {
		t.Errorf("got %+v, %v", j, err)
	}
	id, err := c.StartManifest(ctx, "jobs", upload(manifest, said))
	if err != nil {
		t.Fatal(err)
	}
	b := state.Batch{Status: state.BatchFetching}
	for b.Status == state.BatchFetching {
		if b, err = c.Batch(ctx, "jobs", id); err != nil {
			t.Fatal(err)
		}
	}
	if b.ID != id || b.Status != state.BatchDone || fmt.Sprint(b.Submitted) != "[j000000000003 j000000000004]" {
		t.Errorf("got %+v", b)
	}
	var e *web.Error
	if ids, err := c.SubmitManifest(ctx, "jobs", upload("ftp://a/b\n", queuefs.Meta{})); !errors.As(err, &e) || e.Status != 400 || e.Message != `line 1: "ftp://a/b": refused: scheme is not http or https` {
		t.Errorf("got %q, %v", ids, err)
	}
	if _, err := c.Batch(ctx, "jobs", "other"); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("got %v", err)
	}
	if _, err := c.StartManifest(ctx, "jobs", upload(manifest, queuefs.Meta{Sidecar: "x"})); err == nil {
		t.Error("a sidecar was accepted")
	}
	s.wantCounts(4, 0, 0)
}
