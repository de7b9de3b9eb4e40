package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/web"
)

// service serves a queue jobs for an example. A program asks a daemon instead:
// client.New("http://127.0.0.1:8080/", nil).
func service() (url string, end func()) {
	home, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	if err := queuefs.Init(home, queuefs.ServiceInfo{Name: "example"}); err != nil {
		log.Fatal(err)
	}
	svc, err := queuefs.Open(home, queuefs.Options{})
	if err == nil {
		_, err = svc.CreateQueue(context.Background(), queuefs.QueueInfo{Identifier: "jobs", CullingSize: -1, CullingAge: -1})
	}
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(rest.New(svc, rest.Options{}))
	svc.SetBaseURI(server.URL + "/")
	return server.URL + "/", func() { server.Close(); svc.Close(); os.RemoveAll(home) }
}

// text is a payload in memory.
func text(s, name string) client.Upload {
	return client.Upload{Size: int64(len(s)), Meta: queuefs.Meta{Filename: name, MediaType: "text/plain"},
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }}
}

// Submit jobs, all of them or none. With a key each, the call may be made again after an
// error.
func ExampleClient_Submit() {
	url, end := service()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := client.New(url, nil)
	one, two := text("one", "a.txt"), text("two", "b.txt")
	one.Key, two.Key = "order-1", "order-2"
	for range 2 {
		ids, err := c.Submit(ctx, "jobs", one, two)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ids)
	}
	// Output:
	// [j000000000001 j000000000002]
	// [j000000000001 j000000000002]
}

// A worker takes a job under a lease, stores a result, and reports.
func ExampleClient_NextFor() {
	url, end := service()
	defer end()
	ctx := context.Background()
	c := client.New(url, nil)
	if _, err := c.Submit(ctx, "jobs", text("some text", "")); err != nil {
		log.Fatal(err)
	}
	for {
		d, err := c.NextFor(ctx, "jobs", queuefs.Take{Lease: time.Minute}, 0)
		if errors.Is(err, queuefs.ErrEmpty) {
			return // a worker would give a time to wait, and ask again
		}
		if err != nil {
			log.Fatal(err)
		}
		payload, err := io.ReadAll(d.Body)
		if err = errors.Join(err, d.Body.Close()); err != nil {
			log.Fatal(err)
		}
		if err := c.PutResult(ctx, d.Queue, d.Job, d.Lease, text(strings.ToUpper(string(payload)), "upper")); err != nil {
			log.Fatal(err)
		}
		j, err := c.Conclude(ctx, d.Queue, d.Job, d.Lease, queuefs.Conclusion{Outcome: queuefs.Completed})
		if errors.Is(err, queuefs.ErrLease) {
			continue // it took too long: another worker has the job
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(j.ID, j.Outcome)
	}
	// Output: j000000000001 completed
}

// Jobs are listed page by page.
func ExampleClient_Jobs() {
	url, end := service()
	defer end()
	ctx := context.Background()
	c := client.New(url, nil)
	if _, err := c.Submit(ctx, "jobs", text("one", "a.txt"), text("two", "b.txt")); err != nil {
		log.Fatal(err)
	}
	for j, err := range c.Jobs(ctx, "jobs", bulk.Filter{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(j.ID, j.Status, j.Filename, j.Size)
	}
	// Output:
	// j000000000001 pending a.txt 3
	// j000000000002 pending b.txt 3
}

// Refusals are errors of package queuefs, and have the status of the answer.
func ExampleClient_Job() {
	url, end := service()
	defer end()
	_, err := client.New(url, nil).Job(context.Background(), "jobs", "j000000000009")
	refused, _ := errors.AsType[*web.Error](err)
	fmt.Println(errors.Is(err, queuefs.ErrNoJob), refused.Status)
	// Output: true 404
}

// Events come as they happen, and from a number on.
func ExampleClient_Follow() {
	url, end := service()
	defer end()
	ctx, cancel := context.WithCancel(context.Background())
	c := client.New(url, nil)
	if _, err := c.Submit(ctx, "jobs", text("one", "")); err != nil {
		log.Fatal(err)
	}
	err := c.Follow(ctx, client.Events{Queue: "jobs", From: 1}, func(kind string, _ []byte) error {
		fmt.Println(kind)
		cancel()
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// submit
	// true
}
