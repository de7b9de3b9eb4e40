package traces_test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"cutie/cmd/cutie/traces"
	"cutie/queuefs"
	"cutie/queuefs/home"
	"cutie/queuefs/job"
)

// A sink is a collector that keeps the spans in their order.
type sink struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
}

func newSink(t *testing.T) *sink {
	s := &sink{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &m)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, of := range m.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				s.spans = append(s.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *sink) named(name string) (found []*otlp.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sp := range s.spans {
		if sp.Name == name {
			found = append(found, sp)
		}
	}
	return found
}

func newQueue(t *testing.T) (*queuefs.Service, *queuefs.Queue) {
	t.Helper()
	dir := t.TempDir()
	must(t, home.Init(dir, home.ServiceInfo{Name: "test"}))
	svc, err := queuefs.Open(dir, queuefs.Options{Segment: 1 << 20})
	must(t, err)
	t.Cleanup(func() { svc.Close() })
	q, err := svc.CreateQueue(t.Context(), home.QueueInfo{Identifier: "jobs", Name: "jobs"})
	must(t, err)
	return svc, q
}

func submit(t *testing.T, q *queuefs.Queue, parent string) job.Job {
	t.Helper()
	s := q.Begin()
	d, err := s.Add(job.Meta{Filename: "secret name", Sidecar: "secret sidecar", Submitter: "ingest/1", Extra: job.TraceElements(parent, "v=1")})
	if err == nil {
		_, err = d.Write([]byte("secret payload"))
	}
	must(t, err)
	jobs, err := s.Commit(t.Context())
	must(t, err)
	return jobs[0]
}

func take(t *testing.T, q *queuefs.Queue, lease time.Duration) queuefs.Taken {
	t.Helper()
	taken, err := q.Take(t.Context(), queuefs.Take{Max: 1, By: "worker/1", Lease: lease})
	must(t, err)
	q.Given(taken)
	return taken[0]
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestAJobIsFollowedFromSubmissionToOutcome(t *testing.T) {
	t.Parallel()
	svc, q := newQueue(t)
	s := newSink(t)
	submit(t, q, parent) // before the start: no spans of its submission
	tr, err := traces.New(t.Context(), svc, traces.Options{URL: s.URL, Ratio: 0, Version: "x", Log: zerolog.Nop()})
	must(t, err)
	submit(t, q, parent)
	submit(t, q, "")                                  // not in the share
	submit(t, q, strings.TrimSuffix(parent, "1")+"0") // its submitter records nothing
	for range 4 {
		t1 := take(t, q, time.Minute)
		p, state := tr.Headers(&t1.Job)
		if t1.ID == 2 {
			if want := parent[:36] + hexOf(t1.Job.Span("process", 1)) + "-01"; p != want || state != "v=1" {
				t.Errorf("got %s, %s, want %s", p, state, want)
			}
			if _, err := q.Return(t.Context(), t1.ID, t1.Token, "secret message"); err != nil {
				t.Fatal(err)
			}
			t1 = take(t, q, time.Minute)
			if t1.ID != 2 {
				t.Fatalf("got %s, want the job that was given back", t1.ID)
			}
		}
		if t1.ID > 2 && !strings.HasSuffix(p, "-00") {
			t.Errorf("got %s for %s, want a trace that is not recorded", p, t1.ID)
		}
		how := job.Conclusion{Outcome: job.Completed}
		if t1.ID == 1 {
			how = job.Conclusion{Outcome: job.Failed, Message: "secret message"}
		}
		if _, err := q.Conclude(t.Context(), t1.ID, t1.Token, how); err != nil {
			t.Fatal(err)
		}
	}
	must(t, tr.Tick(t.Context()))
	tr.Close()

	sends, waits, works := s.named("send jobs"), s.named("wait jobs"), s.named("process jobs")
	if len(sends) != 1 || len(waits) != 3 || len(works) != 3 {
		t.Fatalf("got %d, %d, %d spans", len(sends), len(waits), len(works))
	}
	if got := hex.EncodeToString(sends[0].ParentSpanId); got != "b7ad6b7169203331" || sends[0].TraceState != "v=1" {
		t.Errorf("got parent %s, state %s, want those of the submission", got, sends[0].TraceState)
	}
	two, err := q.Job(2)
	must(t, err)
	for i, sp := range []*otlp.Span{waits[1], works[1], waits[2], works[2]} {
		if hex.EncodeToString(sp.TraceId) != parent[3:35] || string(sp.ParentSpanId) != string(sends[0].SpanId) || sp.StartTimeUnixNano > sp.EndTimeUnixNano {
			t.Errorf("span %d: got %v", i, sp)
		}
	}
	if span := two.Span("process", 2); string(works[2].SpanId) != string(span[:]) || works[2].EndTimeUnixNano != uint64(two.Finished.UnixNano()) || works[2].StartTimeUnixNano != uint64(two.Consumed.UnixNano()) {
		t.Errorf("got %v, want the second attempt of %+v", works[2], two)
	}
	for i, want := range []otlp.Status_StatusCode{otlp.Status_STATUS_CODE_ERROR, otlp.Status_STATUS_CODE_ERROR, otlp.Status_STATUS_CODE_UNSET} {
		if got := works[i].GetStatus().GetCode(); got != want {
			t.Errorf("attempt %d: got %v, want %v", i, got, want)
		}
	}
	for _, sp := range s.spans {
		if strings.Contains(sp.String(), "secret") {
			t.Errorf("%v tells what it should not", sp)
		}
	}
}

func hexOf(id [8]byte) string { return hex.EncodeToString(id[:]) }

func TestNoSpansWithoutACollector(t *testing.T) {
	t.Parallel()
	svc, q := newQueue(t)
	tr, err := traces.New(t.Context(), svc, traces.Options{Log: zerolog.Nop()})
	must(t, err)
	submit(t, q, parent)
	t1 := take(t, q, 0)
	if p, s := tr.Headers(&t1.Job); p != parent || s != "v=1" {
		t.Errorf("got %s, %s, want the trace of the submission", p, s)
	}
	if err := tr.Tick(t.Context()); err != nil {
		t.Error(err)
	}
	tr.Close()
}

// A collector that does not answer holds nothing up but spans.
func TestACollectorThatIsAway(t *testing.T) {
	t.Parallel()
	svc, q := newQueue(t)
	hang := make(chan struct{})
	away := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer away.Close()
	defer close(hang)
	tr, err := traces.New(t.Context(), svc, traces.Options{URL: away.URL, Ratio: 1, Log: zerolog.Nop()})
	must(t, err)
	for range 300 {
		submit(t, q, "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tr.Tick(ctx) }()
	cancel()
	if err := <-done; err != nil && ctx.Err() == nil {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
