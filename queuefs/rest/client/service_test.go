package client_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"cutie/queuefs"
	"cutie/queuefs/rest"
	"cutie/testdata/tmpfs"
)

// service starts a service for the examples once, with a queue for each, and returns
// its base URI.
var service = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "client-example-")
	if err == nil {
		err = queuefs.Init(dir, queuefs.ServiceInfo{Name: "examples", Identifier: "uc3:examples"})
	}
	if err != nil {
		panic(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 4 << 20})
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"letters", "reports", "orders", "pages", "words", "scans", "sums", "news", "films"} {
		if _, err := svc.CreateQueue(ctx, queuefs.QueueInfo{Identifier: id, CullingSize: -1, CullingAge: -1}); err != nil {
			panic(err)
		}
	}
	srv := httptest.NewServer(rest.New(svc, rest.Options{}))
	svc.SetBaseURI(srv.URL + "/")
	endService = func() error {
		srv.Close()
		defer os.RemoveAll(dir)
		return svc.Close()
	}
	return srv.URL + "/"
})

var endService = func() error { return nil }

func TestMain(m *testing.M) {
	tmpfs.Use()
	code := m.Run()
	if err := endService(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
