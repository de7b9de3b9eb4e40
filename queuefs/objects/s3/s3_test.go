package s3_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"cutie/queuefs/objects"
	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/objects/s3"
)

func open(t *testing.T, m *objectstest.Memory) *s3.Bucket {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "someone")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a secret of the test")
	srv := httptest.NewServer(objectstest.Handler(m))
	t.Cleanup(srv.Close)
	s, err := s3.Open("s3://bucket/some/prefix/", srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBucketIsAStore(t *testing.T) {
	m := new(objectstest.Memory)
	objectstest.Run(t, open(t, m))
	for name := range m.Objects() {
		if !strings.HasPrefix(name, "some/prefix/") {
			t.Errorf("%s is not below the prefix", name)
		}
	}
}

// A request is sent once: whether it was done is for the caller to find out.
func TestALostAnswerIsAnError(t *testing.T) {
	m := &objectstest.Memory{Fault: func(objectstest.Request) objectstest.Fault { return objectstest.After }}
	err := open(t, m).Create(context.Background(), "name", []byte("text"))
	if err == nil || errors.Is(err, objects.ErrExist) {
		t.Errorf("got %v", err)
	}
	if m.Requests("") != 1 || len(m.Objects()) != 1 {
		t.Errorf("%d requests made %d objects", m.Requests(""), len(m.Objects()))
	}
	if strings.Contains(err.Error(), "secret of the test") {
		t.Errorf("the error has the secret: %v", err)
	}
}

func TestOpenRefusesOtherURLs(t *testing.T) {
	for _, c := range []struct{ store, endpoint string }{
		{"", ""}, {"bucket/prefix", ""}, {"http://bucket", ""}, {"s3://", ""}, {"s3://key:secret@bucket", ""}, {"s3://b?x=y", ""},
		{"s3://bucket", "127.0.0.1:9000"}, {"s3://bucket", "ftp://host"}, {"s3://bucket", "http://a:b@host"}, {"s3://bucket", "http://host/path"},
	} {
		if _, err := s3.Open(c.store, c.endpoint); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s at %s: got %v", c.store, c.endpoint, err)
		}
	}
}
