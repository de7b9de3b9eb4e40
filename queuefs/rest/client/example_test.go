package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"cutie/queuefs"
	"cutie/queuefs/bulk"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/rest"
	"cutie/queuefs/rest/client"
	"cutie/queuefs/web"
	"cutie/testdata/tmpfs"
)

// Submit a job, take it under a lease, and report that it is completed.
func Example() {
	c := client.New(service(), nil) // such as "http://127.0.0.1:8080/"
	ctx := context.Background()

	if _, err := c.Submit(ctx, "letters", client.Bytes([]byte("hello"))); err != nil {
		log.Fatal(err)
	}
	d, err := c.NextFor(ctx, "letters", queuefs.Take{Lease: time.Minute}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Body.Close()
	payload, err := io.ReadAll(d.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", d.Job, payload)
	j, err := c.Conclude(ctx, d.Queue, d.Job, d.Lease, job.Conclusion{Outcome: job.Completed})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(j.Outcome)
	// Output:
	// j000000000001: hello
	// completed
}

// Submit a file. The service refuses it if its octets do not have the digest.
func ExampleFile() {
	c := client.New(service(), nil)
	path := filepath.Join(os.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte("<p>all is well"), 0o600); err != nil {
		log.Fatal(err)
	}
	defer os.Remove(path)

	u, err := client.File(path)
	if err != nil {
		log.Fatal(err)
	}
	u.Sidecar = "priority: low"
	ids, err := c.Submit(context.Background(), "reports", u)
	if err != nil {
		log.Fatal(err)
	}
	j, err := c.Job(context.Background(), "reports", ids[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(j.Status, j.Filename, j.MediaType, j.Size)
	// Output:
	// pending report.html text/html 14
}

// A submission with a key may be sent again after a lost answer: the job is stored once.
func ExampleClient_Submit_key() {
	c := client.New(service(), nil)
	ctx := context.Background()

	u := client.Bytes([]byte("two chairs"))
	u.Key = "order-4711"
	for range 2 {
		var ids []string
		err := client.Retry(ctx, func() (err error) {
			ids, err = c.Submit(ctx, "orders", u)
			return err
		}, nil)
		fmt.Println(ids, err)
	}
	// Output:
	// [j000000000001] <nil>
	// [j000000000001] <nil>
}

// Many jobs in one request are stored all or none, with one sync. Many are taken by one
// request, too.
func ExampleClient_Submit_many() {
	c := client.New(service(), nil)
	ctx := context.Background()

	uploads := make([]client.Upload, 100)
	for i := range uploads {
		uploads[i] = client.Bytes(fmt.Appendf(nil, "page %d", i+1))
	}
	ids, err := c.Submit(ctx, "pages", uploads...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(ids), "jobs,", ids[0], "to", ids[99])

	octets := int64(0)
	for d, err := range c.Take(ctx, "pages", queuefs.Take{Max: 100, Lease: time.Minute}, 0) {
		if err != nil {
			log.Fatal(err)
		}
		octets += d.Size
	}
	fmt.Println(octets, "octets")
	// Output:
	// 100 jobs, j000000000001 to j000000000100
	// 692 octets
}

// The loop of a worker: two jobs at a time, until the context ends.
func ExampleClient_Work() {
	c := client.New(service(), nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := c.Submit(ctx, "words", client.Bytes([]byte("one two")), client.Bytes([]byte("three"))); err != nil {
		log.Fatal(err)
	}

	var jobs sync.WaitGroup
	jobs.Add(2)
	count := func(ctx context.Context, d *client.Delivery) error {
		defer jobs.Done()
		text, err := io.ReadAll(d.Body)
		if err != nil {
			return client.Transient(err) // the queue makes another attempt
		}
		words := len(bytes.Fields(text))
		if words == 0 {
			return errors.New("no words") // failed for good
		}
		result := client.Bytes(fmt.Append(nil, words))
		result.Filename = "words"
		return c.PutResult(ctx, d.Queue, d.Job, d.Lease, result)
	}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			err := c.Work(ctx, client.Work{Queue: "words"}, count)
			if !errors.Is(err, context.Canceled) {
				log.Print(err) // the service refuses: no such queue, no right to consume
			}
		})
	}
	jobs.Wait() // a worker would wait for a signal instead
	cancel()
	workers.Wait()

	for j, err := range c.Jobs(context.Background(), "words", bulk.Filter{}) {
		fmt.Println(j.ID, j.Outcome, err)
	}
	// Output:
	// j000000000001 completed <nil>
	// j000000000002 completed <nil>
}

// A loop of one's own keeps the lease while it works.
func ExampleClient_KeepLease() {
	c := client.New(service(), nil)
	ctx := context.Background()
	if _, err := c.Submit(ctx, "scans", client.Bytes([]byte("scan"))); err != nil {
		log.Fatal(err)
	}

	const lease = time.Minute
	d, err := c.NextFor(ctx, "scans", queuefs.Take{Lease: lease}, 0)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Body.Close()
	held, stop := c.KeepLease(ctx, d, lease)
	err = work(held) // ends when held does
	if lost := stop(); lost != nil {
		log.Fatal("others may have the job: ", lost)
	}
	end := job.Conclusion{Outcome: job.Completed}
	if err != nil {
		end = job.Conclusion{Outcome: job.Failed, Message: err.Error()}
	}
	err = client.Retry(ctx, func() error {
		_, err := c.Conclude(ctx, d.Queue, d.Job, d.Lease, end)
		return err
	}, queuefs.ErrLease)
	fmt.Println(err)
	// Output:
	// <nil>
}

func work(context.Context) error { return nil }

// Results of a job are files. Anybody with the right to read gets them.
func ExampleClient_Result() {
	c := client.New(service(), nil)
	ctx := context.Background()
	ids, err := c.Submit(ctx, "sums", client.Bytes([]byte("1 2 3")))
	if err != nil {
		log.Fatal(err)
	}
	d, err := c.NextFor(ctx, "sums", queuefs.Take{Lease: time.Minute}, 0)
	if err != nil {
		log.Fatal(err)
	}
	d.Body.Close()
	sum := client.Bytes([]byte("6"))
	sum.Filename, sum.MediaType = "sum.txt", "text/plain"
	if err := c.PutResult(ctx, d.Queue, d.Job, d.Lease, sum); err != nil {
		log.Fatal(err)
	}

	r, err := c.Result(ctx, "sums", ids[0], "sum.txt")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	fmt.Println(string(text), r.MediaType, err)
	// Output:
	// 6 text/plain <nil>
}

// Follow the events of a queue, from the first one on. A connection that is lost is
// made again.
func ExampleClient_Follow() {
	c := client.New(service(), nil)
	ctx := context.Background()
	ids, err := c.Submit(ctx, "news", client.Bytes([]byte("rain")))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Delete(ctx, "news", ids[0]); err != nil {
		log.Fatal(err)
	}

	enough := errors.New("enough")
	err = c.Follow(ctx, client.Events{Queue: "news", From: 1}, func(e client.Event) error {
		if e.Kind == client.Reset {
			return errors.New("events are missing; read the state at " + e.State)
		}
		if e.Job == "" {
			return nil // of the properties of the queue
		}
		fmt.Println(e.Seq, e.Kind, e.Job, e.To)
		if e.Kind == "delete" {
			return enough
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// 1 submit j000000000001 pending
	// 2 delete j000000000001 deleted
	// enough
}

// A refusal has a status, and is an error of package queuefs.
func ExampleError() {
	c := client.New(service(), nil)
	_, err := c.Job(context.Background(), "letters", "j000000999999")

	var refused *web.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Status, refused.Message)
	}
	fmt.Println(errors.Is(err, ledger.ErrNoJob), client.Temporary(err))
	// Output:
	// 404 job not found: j000000999999
	// true false
}

// Put back all jobs that failed, and say how many there are before.
func ExampleClient_Bulk() {
	c := client.New(service(), nil)
	ctx := context.Background()
	if _, err := c.Submit(ctx, "films", client.Bytes([]byte("a")), client.Bytes([]byte("b"))); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		d, err := c.NextFor(ctx, "films", queuefs.Take{Lease: time.Minute}, 0)
		if err != nil {
			log.Fatal(err)
		}
		d.Body.Close()
		if _, err := c.Conclude(ctx, d.Queue, d.Job, d.Lease, job.Conclusion{Outcome: job.Failed, Message: "no disk"}); err != nil {
			log.Fatal(err)
		}
	}

	failed := bulk.Selection{Filter: bulk.Filter{Outcome: job.Failed}}
	requeue := bulk.Operation{Method: "requeue"}
	failed.Dry = true
	would, err := c.Bulk(ctx, "films", requeue, failed)
	fmt.Println(len(would.Chosen), err)
	failed.Dry = false
	done, err := c.Bulk(ctx, "films", requeue, failed)
	fmt.Println(done.Changed, done.More, err)
	// Output:
	// 2 <nil>
	// [j000000000001 j000000000002] false <nil>
}

// service starts a service for the examples once, with a queue for each, and returns
// its base URI.
var service = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "client-example-")
	if err == nil {
		err = home.Init(dir, home.ServiceInfo{Name: "examples", Identifier: "uc3:examples"})
	}
	if err != nil {
		panic(err)
	}
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 4 << 20})
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"letters", "reports", "orders", "pages", "words", "scans", "sums", "news", "films"} {
		if _, err := svc.CreateQueue(context.Background(), home.QueueInfo{Identifier: id, CullingSize: -1, CullingAge: -1}); err != nil {
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
