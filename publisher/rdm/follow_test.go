package rdm_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"cutie/publisher/rdm"
	"cutie/queuefs"
)

// A copy is what a client has that asks since the last time.
type copy struct {
	jobs  map[string]string // status by URL
	scope map[rdm.Type]string
	sent  int
}

// follow asks once for what is deleted and then for the rest.
func (c *copy) follow(t *testing.T, client *rdm.Client) {
	t.Helper()
	for _, typ := range []rdm.Type{rdm.RDRequestDeleted, rdm.RDRequest} {
		r, err := client.Ask(ctx, rdm.Request{Type: typ, Catalog: client.CatalogID("ingest"), Scope: c.scope[typ]})
		if err != nil {
			t.Fatal(err)
		}
		for {
			o, err := r.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.sent++; typ == rdm.RDRequestDeleted {
				delete(c.jobs, o.URL)
			} else {
				c.jobs[o.URL] = o.Value("Status")
			}
		}
		if r.Until.IsZero() {
			t.Fatal("answer does not say until when it is")
		}
		c.scope[typ] = rdm.Since(r.Until)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A client that polls while jobs come, are taken, deleted, put back and culled
// ends with what there is.
func TestPollingClientMissesNothing(t *testing.T) {
	s := newSite(t, rdm.Options{})
	srv := httptest.NewServer(s.h)
	defer srv.Close()
	url, err := rdm.ServerURL(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := &rdm.Client{URL: url, UserAgent: "follower/1"}
	if _, err := s.svc.SetQueue(ctx, "ingest", func(info *queuefs.QueueInfo) error { info.CullingSize = 20; return nil }); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// A quarter of a second passes with each change.
				s.clock.at.Add(250_000)
				last := queuefs.JobID(max(1, s.q.State().Seq))
				var err error
				switch r.IntN(8) {
				case 0, 1, 2:
					s.submit(queuefs.Meta{}, fmt.Sprint(i))
				case 3, 4:
					_, err = s.q.Next(ctx, "c")
				case 5:
					_, err = s.q.Delete(ctx, 1+queuefs.JobID(r.Uint64N(uint64(last))))
				case 6:
					_, err = s.q.Requeue(ctx, 1+queuefs.JobID(r.Uint64N(uint64(last))))
				case 7:
					for _, err = range s.svc.Cull(ctx, queuefs.CullOptions{}) {
						if err != nil {
							t.Error(err)
						}
					}
				}
				_ = err // of jobs that are not there, or elsewhere
			}
		})
	}
	c := &copy{jobs: map[string]string{}, scope: map[rdm.Type]string{}}
	for range 40 {
		c.follow(t, client)
	}
	close(stop)
	wg.Wait()
	s.clock.at.Add(time.Second.Microseconds())
	c.follow(t, client)
	want := map[string]string{}
	for _, st := range []queuefs.Status{queuefs.Pending, queuefs.Consumed} {
		for _, id := range s.q.IDs(queuefs.ListOptions{Status: st, Limit: 1e6}) {
			want["http://cutie.cdlib.org/state/ingest/"+id.String()] = st.String()
		}
	}
	if !maps.Equal(c.jobs, want) || c.sent == 0 {
		t.Errorf("got %d jobs, want %d, after %d descriptions and %d events", len(c.jobs), len(want), c.sent, s.q.Seq())
		for url, st := range want {
			if c.jobs[url] != st {
				t.Errorf("%s: got %q, want %q", url, c.jobs[url], st)
			}
		}
	}
}
