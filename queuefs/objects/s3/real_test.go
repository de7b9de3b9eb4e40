package s3_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"cutie/queuefs/objects/objectstest"
	"cutie/queuefs/objects/s3"
)

func TestARealStore(t *testing.T) {
	endpoint := objectstest.Real(t)
	t.Setenv("AWS_ACCESS_KEY_ID", objectstest.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", objectstest.Secret)
	s, err := s3.Open("s3://bucket/some/prefix", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	objectstest.Run(t, s)
	// Larger than a part.
	large := bytes.Repeat([]byte("0123456789abcdef"), 70<<20/16)
	if err := s.Put(context.Background(), "large", bytes.NewReader(large), int64(len(large))); err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(context.Background(), "large", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, large) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestWrongCredentialsAreNamed(t *testing.T) {
	endpoint := objectstest.Real(t)
	t.Setenv("AWS_ACCESS_KEY_ID", objectstest.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a wrong one")
	s, err := s3.Open("s3://bucket", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Create(context.Background(), "name", nil)
	if err == nil || bytes.Contains([]byte(err.Error()), []byte("a wrong one")) {
		t.Errorf("got %v", err)
	}
	t.Log(err)
}
